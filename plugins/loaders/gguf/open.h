/* plugins/loaders/gguf/open.h: a GGUF file (or all parts of a split one) as a checkpoint in Hugging
 * Face's names. */
#ifndef VL_GGUF_OPEN_H
#define VL_GGUF_OPEN_H

#include "vallmo/loader.h"

enum { VL_GGUF_OPT_PRE, VL_GGUF_N_OPTIONS };
extern const vl_option vl_gguf_options[VL_GGUF_N_OPTIONS];
extern const vl_loader_api vl_gguf_api;

#endif
