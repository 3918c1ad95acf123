/* host/lib/runtime_private.h: what an opened model consists of; shared by runtime.c and
 * runtime_open.c. */
#ifndef VL_LIB_RUNTIME_PRIVATE_H
#define VL_LIB_RUNTIME_PRIVATE_H

#include "host/lib/options.h"
#include "host/lib/runtime.h"

/* Handles nest: checkpoint > tokenizer > model > chat. Zeroed: nothing is open. */
struct vl_opened {
    const vl_registry_entry *loader_entry, *tokenizer_entry, *model_entry;
    vl_instance *loader_self, *tokenizer_self, *model_self;
    const vl_loader_api *loader;
    vl_checkpoint *checkpoint;
    const vl_tokenizer_api *tokenizer_api;
    vl_tokenizer *tokenizer;
    const vl_model_api *model_api;
    vl_model *model;
    const vl_chat_api *chat_api;
    vl_chat *chat;
    vl_model_estimate estimate;
    struct vl_sampling_options generation;
    uint64_t context_tokens, max_sequences;
    /* As vl_model_params.progress; NULL: nobody is told. */
    int32_t (*progress)(void *user, double fraction, const char *what);
    void *progress_user;
};

/* dry: everything but the model's own opening. On failure o may be partly open: close it. */
vl_status vl_opened_open(vl_registry *reg, const struct vl_runtime_params *p, struct vl_opened *o,
                         bool dry, vl_error *err);
void vl_opened_close(struct vl_opened *o);

#endif
