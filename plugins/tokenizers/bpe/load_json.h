/* load_json.h: what the readers of tokenizer.json share; private to load_json.c and
 * load_pipeline.c. */
#ifndef VL_BPE_LOAD_JSON_H
#define VL_BPE_LOAD_JSON_H

#include "base/json.h"
#include "tokenizer.h"

/* normalizer, pre_tokenizer and decoder of tokenizer.json into t; what is not implemented is
 * refused with its key and value. Messages don't name the file. */
vl_status vl_bpe_load_pipeline(vl_tokenizer *t, vl_json root, vl_error *err);

/* "key": its value as it stands in the file, shortened; for messages. */
void vl_bpe_json_show(vl_json v, char out[96]);

#endif
