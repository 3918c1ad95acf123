/* host/lib/runtime.h: a model, opened by its path: loader, checkpoint, tokenizer, chat format,
 * model, engine, in one object, loaded on a thread of its own. Chooses the plugins; knows none of
 * them. */
#ifndef VL_LIB_RUNTIME_H
#define VL_LIB_RUNTIME_H

#include "host/lib/engine.h"
#include "host/lib/registry.h"

typedef struct vl_runtime vl_runtime;

/* Strings are copied by open/start. Zero means the default. */
struct vl_runtime_params {
    const char *path;        /* of the checkpoint: folder, .safetensors, .gguf */
    const char *device;      /* NULL: "auto" */
    uint32_t max_sequences;  /* 0: 8 */
    uint64_t context_tokens; /* 0: the smaller of what it was trained for and 32768 */
    uint64_t kv_tokens;      /* 0: the plugin's choice */
    uint64_t step_tokens;    /* 0: 2048 */
    const char *chat_format; /* NULL: "auto" */
    vl_bytes chat_kwargs;    /* JSON object, defaults of chat_template_kwargs */
    bool chat_strict;
    bool
        no_chat; /* open without a chat format (completions alone), also where the plugin has one */
    bool tokenizer_only;        /* no model, no engine: tokenizer, and chat where it needs none */
    uint32_t tokenizer_threads; /* 0: 2 */
    struct vl_sampling_options server, server_thinking;
    uint64_t queue_cap, prefill_tokens, max_new_tokens;
    uint64_t prefix_cache_bytes, prefix_host_bytes, prefix_every_tokens;
    int32_t run_ahead;
    /* The option values of a plugin, borrowed until the opening is over; NULL function or result:
     * defaults. [open] */
    const vl_option_values *(*options)(void *user, const vl_plugin *plugin);
    void *options_user;
    /* Called on the opening thread with 0..1 and what is being done; nonzero return cancels. May be
     * NULL. */
    int32_t (*progress)(void *user, double fraction, const char *what);
    void *progress_user;
};

/* What the paths and the config give, without a device: --check-config. The estimate's struct_size
 * is set here. */
struct vl_runtime_plan {
    const vl_registry_entry *loader, *tokenizer, *model;
    uint64_t context_tokens, max_sequences;
    vl_model_estimate estimate;
    char format[64]; /* chat format */
};
vl_status vl_runtime_check(vl_registry *reg, const struct vl_runtime_params *p,
                           struct vl_runtime_plan *plan, vl_error *err);

/* Opens, warms up by a real forward pass; blocks. [open] */
vl_status vl_runtime_open(vl_registry *reg, const struct vl_runtime_params *p, vl_runtime **out,
                          vl_error *err);
/* The same on a loading thread: returns at once; VL_EVENT_LOAD (user) into queue (may be NULL) at
 * every change of state and progress. */
vl_status vl_runtime_start(vl_registry *reg, const struct vl_runtime_params *p,
                           vl_event_queue *queue, void *user, vl_runtime **out, vl_error *err);
/* Cancels a loading that runs, ends requests, closes all. NULL is a no-op. [open] */
void vl_runtime_close(vl_runtime *rt);

enum { VL_RUNTIME_LOADING = 0, VL_RUNTIME_READY = 1, VL_RUNTIME_FAILED = 2 };
struct vl_runtime_status {
    int32_t state;
    double fraction; /* 0..1 while loading */
    char what[64];   /* being done */
    vl_error error;  /* FAILED: why */
};
void vl_runtime_status_get(vl_runtime *rt, struct vl_runtime_status *out); /* [any] */

/* Once READY; NULL before. [any] */
vl_engine *vl_runtime_engine(vl_runtime *rt);
vl_workers *vl_runtime_workers(vl_runtime *rt);
const vl_tokenizer_api *vl_runtime_tokenizer(vl_runtime *rt, const vl_tokenizer **t);
const vl_chat_api *vl_runtime_chat(vl_runtime *rt, const vl_chat **c); /* NULL: none */
const vl_model_info *vl_runtime_model_info(vl_runtime *rt);
const vl_model_estimate *vl_runtime_estimate(vl_runtime *rt);

/* For the workers (they take as long as the text is): ids of pieces, malloc'ed into *ids; positions
 * of marks as in encode. [any] */
vl_status vl_runtime_encode(vl_runtime *rt, const vl_piece *pieces, size_t n_pieces, int32_t **ids,
                            size_t *n_ids, vl_error *err);
/* Text of ids (appended; ill-formed parts as U+FFFD). VL_E_RANGE names an id that is none. [any] */
vl_status vl_runtime_decode(vl_runtime *rt, const int32_t *ids, size_t n, bool skip_special,
                            vl_buf *out, vl_error *err);

#endif
