/* plugins/qwen35/cpu/model.h: the structs of the CPU half, private to this folder (and to its
 * tests).
 *
 * One thread, the model's engine thread, calls everything here; the toolbox (plugins/common/cpu)
 * spreads the work. Reading order: model.c (memory), sequence.c and snapshot.c (handles), step.c
 * (rows to passes), forward.c (one pass through the layers), linear.c and full.c (the two mixers),
 * output.c (logits to tokens). */
#ifndef VL_QWEN35_CPU_MODEL_H
#define VL_QWEN35_CPU_MODEL_H

#include <stdbool.h>

#include "plugins/common/cpu/cpu.h"
#include "plugins/common/cpu/sampling.h"
#include "plugins/common/pages.h"
#include "plugins/qwen35/backend.h"

enum {
    CPU_GRID = 64, /* chunks of the delta rule begin at multiples of it; also tokens of a page */
    CPU_PASS_ROWS = 512, /* most rows that go through the layers together */
    CPU_SPARE_ROWS = 16, /* rows behind a pass, for padding */
    CPU_HEAD_ROWS = 16,  /* rows of logits at a time */
    CPU_THIN_PASSES = 2, /* most thin passes that decode rows take; more rows: the blocked form */
    CPU_IN_FLIGHT = 2,   /* steps that may be submitted before the first is collected */
    CPU_MAX_LOGPROBS = 20,
    CPU_LOGPROB_ENTRIES = CPU_MAX_LOGPROBS + 1
};

/* What a layer needs in f32 beside its matrices; all in the model's constants. */
struct cpu_layer {
    const float *input_norm, *post_norm; /* [H] */
    const float *conv;  /* per head of q, k, v: [taps, head size], from taps * its first channel */
    const float *decay; /* [hv] -exp(A_log) */
    const float *dt_bias;         /* [hv] */
    const float *gated_norm;      /* [dv] */
    const float *q_norm, *k_norm; /* [D] */
    size_t state_at;   /* floats into a slot's state: [hv, dk, dv], then conv rows [taps - 1, CD] */
    size_t k_at, v_at; /* floats into a page: [nkv, 64, D] each */
};

/* A piece of one sequence in a pass: n tokens from `position`, in rows first .. first + n - 1. */
struct cpu_span {
    vl_sequence *seq;
    size_t first, n, position;
};

/* One pass: rows of spans one behind the other. */
struct cpu_batch {
    struct cpu_span *spans;
    size_t n_spans;
    size_t n_rows;   /* of spans */
    size_t n_padded; /* rows that matmuls take: enough to keep prefill in the blocked form */
    bool decode;     /* one token a span, recurrent and thin forms; else chunked and blocked ones */
};

/* A row whose logits are wanted. */
enum { WANT_SAMPLE, WANT_LOGPROB };
struct cpu_want {
    size_t row; /* in the pass; SIZE_MAX: the sequence's kept hidden state */
    vl_sequence *seq;
    const uint32_t *mask;
    vl_row_result *result;
    vl_logprob *logprobs; /* where its entries go; NULL: none */
    int32_t kind;
    int32_t id; /* WANT_LOGPROB: the token that follows */
    int32_t k;  /* WANT_LOGPROB: how many of the best */
    int32_t reserved;
};

/* A row of a step, as it will be run (step.c). */
struct cpu_work {
    const vl_row *row;
    vl_sequence *s;
    vl_row_result *result;
    vl_logprob *prompt; /* PROMPT_LOGPROBS: where its entries go */
    size_t n;           /* tokens to read, 0 when frozen */
    size_t n_forced;    /* FORCED: ids that are taken before a stop */
};

/* Results of a step until they are collected (and, the last collected ones, until the next
 * collect). */
struct cpu_ticket {
    uint64_t number;
    size_t n_rows;
    vl_row_result *results; /* [max_sequences] */
    uint64_t *serials; /* [max_sequences] of the sequences, to see that one was ended meanwhile */
    int32_t *ids;      /* [max_sequences + forced_ids] */
    vl_logprob *logprobs; /* [(max_sequences + forced_ids) * CPU_LOGPROB_ENTRIES] */
    vl_logprob *prompt;   /* [step_tokens * CPU_LOGPROB_ENTRIES] */
};

struct vl_sequence {
    bool used;
    uint64_t serial; /* of this use of the slot */
    uint64_t stamp;  /* of the last submit that had a row of it */
    size_t position; /* tokens read */
    size_t n_prompt;
    int32_t *prompt;        /* [context_tokens] */
    uint32_t *pages;        /* [max_pages], n_pages of them taken */
    const float **page_ptr; /* [max_pages + 1] their memory */
    size_t n_pages;
    float *state;  /* [state_floats] */
    float *hidden; /* [H] after the final norm, of the last prompt token read; for prompt log
                      probabilities */
    bool has_hidden;
    bool has_pending;
    bool counting; /* penalties are on: counts holds the ids */
    int32_t pending;
    int32_t stop; /* VL_STOP_... */
    vl_status fault;
    uint64_t n_out, min_tokens, max_tokens;
    vl_sampling sampling; /* bias points to our copy */
    vl_logit_bias *bias;
    int32_t *stop_ids;
    size_t n_stop_ids;
    vl_counts *counts;
};

struct vl_snapshot {
    vl_snapshot *next, *prev; /* the model's list */
    size_t position;
    size_t n_pages;
    uint32_t *pages;
    float *state;
};

/* Called with what a pass computed, for tests: rows [n_rows, n] with stride ld. NULL in service. */
typedef void vl_q35_cpu_tap(void *user, const char *what, int64_t layer, const float *data,
                            size_t ld, size_t n_rows, size_t n);

typedef struct vl_q35_cpu {
    vl_q35_model base; /* first */
    const vl_host *host;
    const vl_q35_config *c;
    const vl_q35_weights *w;
    vl_cpu *cpu;
    vl_sampler *sampler;
    vl_pages *page_pool;
    char device[96];

    size_t max_sequences, context, step_tokens, n_tokens, kv_tokens, max_pages;
    size_t forced_ids;                    /* most in a step */
    uint64_t snapshot_cap, snapshot_used; /* bytes of states */

    size_t state_floats, page_floats;
    size_t pass_rows; /* rows of a pass, without the spare ones */
    size_t in_cols;   /* of `in` */
    size_t mid_cols;  /* of `mid` */

    /* memory: see carve() in model.c */
    char *memory;
    uint64_t memory_bytes;
    float *kv; /* [kv pages + 1, page_floats]; the last page stays zero */
    uint64_t kv_bytes;
    struct cpu_layer *layers;   /* [n_layers] */
    const float *final_norm;    /* [H] */
    float *rope_cos, *rope_sin; /* [context, R / 2] */
    float *x;                   /* [rows, H] residual */
    float *y;                   /* [rows, H] normed */
    float *t;                   /* [rows, H] output of a mixer or MLP */
    float *in;  /* [rows, in_cols]: qkv | z | b | a, or (q, gate) a head | k | v, or gate | up */
    float *mid; /* [rows, mid_cols]: what out_proj, o_proj or down_proj reads */
    float *pair_q,
        *pair_o; /* [max_sequences, 2, ...]: a lone prefill row and its dummy neighbour (full.c) */
    float *head_x;              /* [CPU_HEAD_ROWS, H] */
    float *logits;              /* [CPU_HEAD_ROWS, V] */
    int32_t *ids;               /* [rows] */
    size_t *row_pos;            /* [rows] position of each row's token */
    struct cpu_span **row_span; /* [rows] */
    struct cpu_span *spans;     /* [max_sequences] of the pass that is being put together */
    struct vl_cpu_attention_rows *groups; /* [max_sequences] */
    struct cpu_want *wants;               /* [rows + max_sequences] */
    size_t n_wants;
    vl_sequence *sequences; /* [max_sequences] */
    struct cpu_work *work;  /* [max_sequences] */
    struct cpu_ticket tickets[CPU_IN_FLIGHT + 1];
    uint64_t next_ticket, next_collect; /* numbers, from 1 */
    uint64_t next_serial, next_stamp;
    vl_snapshot *snapshots;
    uint32_t *snapshot_refs; /* [kv pages] references that snapshots hold */

    vl_q35_cpu_tap *tap;
    void *tap_user;
} vl_q35_cpu;

static inline vl_q35_cpu *cpu_of(vl_q35_model *m)
{
    return (vl_q35_cpu *)(void *)m;
}
static inline const vl_q35_cpu *cpu_of_const(const vl_q35_model *m)
{
    return (const vl_q35_cpu *)(const void *)m;
}
static inline size_t cpu_pages_of(size_t n_tokens)
{
    return (n_tokens + CPU_GRID - 1) / CPU_GRID;
}

/* Value head j's key head, in the order that the weights have. */
static inline size_t cpu_value_head(const vl_q35_cpu *m, size_t key_head, size_t i)
{
    size_t r = (size_t)(m->c->hv / m->c->hk);
    return m->w->tiled ? i * (size_t)m->c->hk + key_head : key_head * r + i;
}

/* ---- forward.c ---- */

/* Runs the batch, whose ids and spans are set, through all layers; y then holds the hidden states
 * after the final norm. Writes keys, values and states of the spans' sequences; moves no position.
 */
void vl_q35_cpu_forward(vl_q35_cpu *m, const struct cpu_batch *b);
/* y_k = x W_k^T in the batch's form (thin for decode rows, blocked for prefill). */
void vl_q35_cpu_mm(vl_q35_cpu *m, const struct cpu_batch *b, const float *x, size_t x_ld, size_t in,
                   const vl_cpu_matrix *matrices, size_t n);
vl_cpu_matrix vl_q35_cpu_matrix(const vl_q35_weight *w, float *y, size_t y_ld);
static inline void cpu_show(vl_q35_cpu *m, const char *what, int64_t layer, const float *data,
                            size_t ld, size_t n_rows, size_t n)
{
    if (m->tap != NULL)
        m->tap(m->tap_user, what, layer, data, ld, n_rows, n);
}

/* ---- the mixers: y -> t ---- */
void vl_q35_cpu_linear(vl_q35_cpu *m, const struct cpu_batch *b, int64_t layer);
void vl_q35_cpu_full(vl_q35_cpu *m, const struct cpu_batch *b, int64_t layer);

/* ---- output.c ---- */

/* Logits of m->wants, rows of the pass just run: samples tokens, fills log probabilities, notices
 * stops. */
void vl_q35_cpu_output(vl_q35_cpu *m);
/* Takes id as the sequence's next token, sampled or forced; sets pending and stop. */
void vl_q35_cpu_take_token(vl_q35_cpu *m, vl_sequence *s, int32_t id);
/* What stop taking id as the n_out-th token, at this position, brings. */
int32_t vl_q35_cpu_stop_of(const vl_q35_cpu *m, const vl_sequence *s, int32_t id, uint64_t n_out,
                           size_t position);

/* ---- step.c ---- */
vl_status vl_q35_cpu_submit(vl_q35_model *base, const vl_row *rows, uint64_t n_rows,
                            uint64_t *ticket, vl_error *err);
vl_status vl_q35_cpu_collect(vl_q35_model *base, uint64_t ticket, int64_t timeout_ms,
                             vl_row_result *results, uint64_t cap, vl_error *err);

/* ---- sequence.c, snapshot.c ---- */
vl_status vl_q35_cpu_sequence_begin(vl_q35_model *base, const vl_sequence_params *p,
                                    vl_sequence **out, vl_error *err);
void vl_q35_cpu_sequence_end(vl_q35_model *base, vl_sequence *s);
void vl_q35_cpu_pool(const vl_q35_model *base, uint64_t *kv_tokens, uint64_t *kv_tokens_free);
/* Pages that reading n more tokens would take, copies of shared ones included. */
size_t vl_q35_cpu_pages_needed(const vl_q35_cpu *m, const vl_sequence *s, size_t n);
/* Takes them; there must be enough free. */
void vl_q35_cpu_pages_take(vl_q35_cpu *m, vl_sequence *s, size_t n);

vl_status vl_q35_cpu_take(vl_q35_model *base, vl_sequence *s, vl_snapshot **out, uint64_t *position,
                          vl_error *err);
uint64_t vl_q35_cpu_take_bytes(const vl_q35_model *base, const vl_sequence *s);
void vl_q35_cpu_snapshot_info(const vl_q35_model *base, const vl_snapshot *s,
                              vl_snapshot_info *out);
vl_status vl_q35_cpu_move(vl_q35_model *base, vl_snapshot *s, int32_t tier, uint64_t *ticket,
                          vl_error *err);
vl_status vl_q35_cpu_moved(vl_q35_model *base, uint64_t ticket, int64_t timeout_ms, vl_error *err);
uint64_t vl_q35_cpu_drop(vl_q35_model *base, vl_snapshot *s);
void vl_q35_cpu_tier(const vl_q35_model *base, int32_t tier, vl_tier_info *out);

#endif
