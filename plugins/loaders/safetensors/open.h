/* plugins/loaders/safetensors/open.h: a folder or a file of safetensors as a checkpoint. */
#ifndef VL_SAFETENSORS_OPEN_H
#define VL_SAFETENSORS_OPEN_H

#include "vallmo/loader.h"

extern const vl_loader_api vl_safetensors_api;

#endif
