/* tests/unit/qwen35_util.h: what the tests of the qwen35 plugin share: a small reader of
 * safetensors files (checkpoints and references), a vl.loader/1 over it whose tensors a test can
 * bend, and one-line generation through the model's tables. */
#ifndef VL_TEST_QWEN35_UTIL_H
#define VL_TEST_QWEN35_UTIL_H

#include "vl_test.h"

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "plugins/qwen35/backend.h"
#include "plugins/qwen35/cpu/model.h"
#include "vallmo/chat.h"

/* A checkpoint as the test's loader sees it: vl_checkpoint is this. */
struct vl_checkpoint {
    char *config; /* owned text */
    size_t config_len;
    vl_map maps[8];
    char *paths[8];
    size_t n_maps;
    vl_tensor *tensors;
    size_t n_tensors, cap_tensors;
    int32_t heads; /* VL_ORDER_... that heads() tells */
};

extern const vl_loader_api q35_loader;

/* Opens DIR/config.json and every *.safetensors of DIR, or one file without config. Fails the test
 * on any error. */
vl_checkpoint *q35_checkpoint_open(const char *path);
void q35_checkpoint_close(vl_checkpoint *c);
/* A tensor's bytes; fails the test when there is none. */
const float *q35_floats(vl_checkpoint *c, const char *name, size_t *n);
const int32_t *q35_ints(vl_checkpoint *c, const char *name, size_t *n);
vl_tensor *q35_tensor(vl_checkpoint *c, const char *name);

/* An open model with its tables. */
struct q35_model {
    vl_checkpoint *cp;
    const vl_plugin *plugin;
    vl_instance *self;
    const vl_model_api *api;
    const vl_snapshot_api *snapshots;
    vl_model *m;
    vl_q35_cpu *cpu; /* the CPU half behind m */
};
struct q35_opts {
    const char *form;   /* NULL: auto */
    int threads;        /* 0: all */
    uint32_t sequences; /* 0: 4 */
    uint64_t context;   /* 0: 1024 */
    uint64_t kv_tokens;
    uint64_t step; /* 0: 512 */
    uint64_t n_tokens;
};
/* Opens DIR on the CPU; skips nothing, fails the test on any error. */
struct q35_model q35_open(const char *dir, struct q35_opts o);
void q35_close(struct q35_model *q);
/* The folder of a checkpoint that the fixture made (tiny, tiny_tied, mini, mini3), or
 * models/poppyseed. */
const char *q35_dir(const char *name);

/* Greedy parameters of a prompt; fields may be changed before begin. */
struct q35_request {
    vl_sampling sampling;
    vl_sequence_params params;
};
void q35_request_init(struct q35_request *r, const int32_t *prompt, size_t n_prompt,
                      uint64_t max_tokens);
vl_sequence *q35_begin(struct q35_model *q, struct q35_request *r);
/* Submits and collects one row; fails the test when the call does. */
vl_row_result q35_step(struct q35_model *q, vl_row row);
/* Prefills what is left of the prompt in pieces that end at the given positions (ascending, 0 ends
 * the list). */
vl_row_result q35_prefill(struct q35_model *q, vl_sequence *s, size_t from, size_t n_prompt,
                          const size_t *cuts);
/* Decodes until stop or n tokens; returns how many ids are in out (the first sampled one included).
 */
size_t q35_run(struct q35_model *q, vl_sequence *s, vl_row_result first, int32_t *out, size_t n);

/* sqrt(sum (a - b)^2 / sum b^2) */
double q35_relative(const float *a, const float *b, size_t n);
double q35_max_abs(const float *a, const float *b, size_t n);
/* Deterministic ids below `vocab`. */
void q35_random_ids(int32_t *ids, size_t n, int32_t vocab, uint32_t seed);
/* The forms that this processor has, NULL at the end. */
const char *const *q35_forms(void);
bool q35_form_rounds(const char *form); /* activations to bf16 */

#endif
