/* plugins/qwen35/backend.h: what a device half (cpu/, cuda/) gives to plugin.c, and what it gets.
 *
 * plugin.c owns the plugin's entry, its options, the choice of the device, and the parsed config
 * and checked weights of a model; a backend owns everything of an open model on its device. The
 * functions have the meanings of vallmo/model.h and ext/snapshot.h, which are not repeated here. */
#ifndef VL_QWEN35_BACKEND_H
#define VL_QWEN35_BACKEND_H

#include "plugins/qwen35/config.h"
#include "plugins/qwen35/weights.h"
#include "vallmo/ext/snapshot.h"
#include "vallmo/model.h"

/* Indices of the plugin's options in vl_model_params.options->values (plugin.c holds the table in
 * this order). */
enum {
    VL_Q35_OPT_CPU_FORM = 0,
    VL_Q35_OPT_THREADS,
    VL_Q35_OPT_SNAPSHOT_BYTES, /* most bytes that the states of snapshots may take */
    VL_Q35_N_OPTIONS
};

/* All that a backend needs to open a model. Borrowed until close returns, but for params: copied by
 * who needs it. */
typedef struct vl_q35_open {
    const vl_host *host;
    const vl_q35_config *config;
    vl_q35_weights *weights; /* found; the backend calls vl_q35_weights_map */
    const vl_loader_api *loader;
    vl_checkpoint *checkpoint;
    const vl_model_params *params; /* checked by plugin.c: n_tokens <= vocab and never 0,
                                      context_tokens <= max_context, kv_tokens resolved */
    int32_t device_index;          /* of "cuda:N" */
    int32_t reserved;
} vl_q35_open;

typedef struct vl_q35_backend vl_q35_backend;

/* A vl_model is made by a backend, which puts this head first in its own struct. vl_sequence and
 * vl_snapshot are whatever the backend makes of them: they meet no other code than the backend of
 * their model. */
typedef struct vl_q35_model {
    const vl_q35_backend *backend;
    struct vl_q35_owned *owned; /* plugin.c's; set after open, NULL before */
} vl_q35_model;

struct vl_q35_backend {
    const char *name;    /* "cpu", "cuda" */
    int32_t takes_tiled; /* 1: may run with the value heads in the file's (tiled) order */
    int32_t reserved;

    /* VL_OK if the device can be used here and the model can run on it; else why not, in one clear
     * line. */
    vl_status (*usable)(const vl_host *host, int32_t device_index, const vl_q35_config *c,
                        vl_error *err);
    /* Fills weight_bytes, mapped_bytes, state_bytes, kv_token_bytes, workspace_bytes; plugin.c does
     * the rest. kv_tokens of params is resolved. Needs no device. */
    vl_status (*estimate)(const vl_q35_open *open, vl_model_estimate *out, vl_error *err);
    /* kv_tokens for params with kv_tokens 0: a multiple of 64, at least context_tokens. Needs no
     * device. */
    uint64_t (*default_kv_tokens)(const vl_q35_config *c, const vl_model_params *params);

    vl_status (*open)(const vl_q35_open *open, vl_q35_model **out, vl_error *err);
    void (*close)(vl_q35_model *m);
    void (*info)(const vl_q35_model *m, vl_model_info *out);
    vl_status (*health)(const vl_q35_model *m, vl_error *err);
    vl_status (*sequence_begin)(vl_q35_model *m, const vl_sequence_params *params,
                                vl_sequence **out, vl_error *err);
    void (*sequence_end)(vl_q35_model *m, vl_sequence *s);
    vl_status (*submit)(vl_q35_model *m, const vl_row *rows, uint64_t n_rows, uint64_t *ticket,
                        vl_error *err);
    vl_status (*collect)(vl_q35_model *m, uint64_t ticket, int64_t timeout_ms,
                         vl_row_result *results, uint64_t cap, vl_error *err);
    void (*pool)(const vl_q35_model *m, uint64_t *kv_tokens, uint64_t *kv_tokens_free);

    /* Snapshots; the first NULL: not offered. */
    vl_status (*take)(vl_q35_model *m, vl_sequence *s, vl_snapshot **out, uint64_t *position,
                      vl_error *err);
    uint64_t (*take_bytes)(const vl_q35_model *m, const vl_sequence *s);
    void (*snapshot_info)(const vl_q35_model *m, const vl_snapshot *s, vl_snapshot_info *out);
    vl_status (*move)(vl_q35_model *m, vl_snapshot *s, int32_t tier, uint64_t *ticket,
                      vl_error *err);
    vl_status (*moved)(vl_q35_model *m, uint64_t ticket, int64_t timeout_ms, vl_error *err);
    uint64_t (*drop)(vl_q35_model *m, vl_snapshot *s);
    void (*tier)(const vl_q35_model *m, int32_t tier, vl_tier_info *out);
};

extern const vl_q35_backend vl_q35_cpu_backend;
#ifdef VL_QWEN35_CUDA /* defined for the plugin's target when cuda/ is built */
extern const vl_q35_backend vl_q35_cuda_backend;
#endif

/* One line to the host's log under "qwen35.NAME". */
void vl_q35_log(const vl_host *host, int32_t level, const char *name, const char *fmt, ...)
    VL_PRINTF(4, 5);

#endif
