/* plugins/qwen35/cuda/model.h: an open model on a CUDA device, as the files of this folder see it.
 * Owns the records; knows no file format and no HTTP. All of it belongs to the engine thread but
 * for health. */
#ifndef VL_QWEN35_CUDA_MODEL_H
#define VL_QWEN35_CUDA_MODEL_H

#include <pthread.h>

#include "plugins/common/cuda/arena.h"
#include "plugins/common/cuda/kernels.h"
#include "plugins/common/cuda/lt.h"
#include "plugins/common/cuda/pinned.h"
#include "plugins/common/cuda/ring.h"
#include "plugins/common/pages.h"
#include "plugins/qwen35/backend.h"
#include "plugins/qwen35/cuda/kernels/slot.cuh"
#include "plugins/qwen35/cuda/shape.h"

enum {
    VL_Q35_PAGE = 64,        /* tokens */
    VL_Q35_MAX_CHUNK = 4096, /* most prompt tokens in one pass */
    VL_Q35_IN_FLIGHT = 4,    /* steps; below VL_RING_SLOTS */
    VL_Q35_GRAPHS = 10,      /* batch sizes 1, 2, 4 ... */
    VL_Q35_BUCKETS = 9,      /* row counts that cuBLASLt plans are made for: 16 << i */
    VL_Q35_LOGPROB_ROWS = 16 /* prompt rows that go through the head at once */
};

/* One layer on the device. Matrices bf16 [rows, depth], vectors f32. */
typedef struct vl_q35_dev_layer {
    void *in;       /* fused input projections, see shape.h */
    void *out;      /* [H, VD] or [H, nq 256] */
    void *gate_up;  /* [2 I, H], gate and up rows in turns of eight */
    void *down;     /* [H, I] */
    float *norm1;   /* [H], 1 + w */
    float *norm2;   /* [H], 1 + w */
    float *conv;    /* [CD, 4] */
    float *neg_a;   /* [hv] = -exp(A_log) */
    float *dt_bias; /* [hv] */
    float *gated;   /* [128] */
    float *q_norm;  /* [256], 1 + w */
    float *k_norm;  /* [256], 1 + w */
    int32_t full;   /* 1: full attention */
    int32_t index;  /* among the layers of its kind */
} vl_q35_dev_layer;

/* Working memory of a pass of up to `rows` tokens; shared by prefill and decode, which never run at
 * once. */
typedef struct vl_q35_work {
    float *x;  /* [rows, H] the residual */
    void *xn;  /* bf16 [rows, H] normed, or (few rows) times the norm's weights alone: then ss has
                  the squares */
    float *ss; /* [VL_Q35_THIN_ROWS, H / 8], see thin_matmul.cu */
    void *p;   /* bf16 [rows, in_max] input projections */
    void *mix; /* bf16 [rows, out_max] what goes into the output projection */
    void *gu;  /* bf16 [rows, 2 I] */
    void *h;   /* bf16 [rows, I] */
    void *q;   /* bf16 [rows, nq, 256] */
    void *c;   /* bf16 [rows, CD] */
    float *g, *beta; /* [rows, hv] */
    void *wu, *pm;   /* of delta_prep, for rows / 64 + 1 chunks */
    float *par;
    int *ids, *slot, *pos; /* [rows] of a prompt piece */
    float *part, *ml;      /* of attn_decode, for n_rows (at least VL_Q35_SPLIT_ROWS) */
    float *logits;         /* [max(n_rows, VL_Q35_LOGPROB_ROWS), V] */
    float *last_x;         /* [n_rows, H], see vl_sequence.has_last_x */
    float *scan;           /* [n_rows, V] edited logits of rows that cut */
    void *parts;           /* of logits_scan */
    int *rows;             /* [6][n_rows] of step_begin */
    int *last;             /* [6] of prefill_begin */
    uint32_t *current;
    uint64_t *counter;
    void *lt; /* cuBLASLt's workspace */
} vl_q35_work;

struct vl_q35_seq {
    int32_t slot;
    bool used;
    bool decoding;       /* its first token has been asked for */
    uint32_t generation; /* of the slot: results of an ended sequence are told by it */
    int32_t stop;        /* as collected */
    int32_t *prompt;     /* [n_prompt], owned */
    uint64_t n_prompt;
    bool has_last_x;   /* the residual of its last token read is kept (prompt log probabilities) */
    uint64_t position; /* tokens read if no submitted row stopped early */
    uint64_t context;
    uint64_t n_pages;
    uint32_t *pages; /* [max_pages], owned with the model */
    int32_t n_logprobs;
    bool counts;    /* keeps counts for penalties */
    uint64_t stamp; /* the ticket (plus 1) of the last step that was checked with a row of it */
};

struct vl_q35_shot {
    int32_t tier;  /* where it is, or is moving to */
    int32_t state; /* its place in the pool of states; -1: not on the device */
    uint64_t position;
    uint64_t n_pages;
    uint32_t *pages; /* [n_pages], owned; meant while state >= 0 */
    /* Blocks of host memory: [vl_q35_state_blocks] with the state, then [n_pages]; owned. NULL:
     * none. */
    uint32_t *blocks;
    uint64_t ticket;          /* of a move under way, */
    cudaEvent_t done;         /* its end; NULL: it is at rest. Owned. */
    struct vl_q35_shot *next; /* of those on their way */
};

/* What was submitted under one ticket. */
typedef struct vl_q35_ticket {
    uint64_t n_rows;
    struct vl_q35_ticket_row {
        int32_t slot;
        uint32_t generation;
        int32_t sampled; /* the device writes a result for it */
        int32_t stop;    /* else: as known when it was submitted */
        uint64_t position;
        int32_t n_logprobs;
        int32_t reserved;
        uint64_t n_forced, forced_at; /* ids taken, from there in the ticket's forced_ids */
        uint64_t n_prompt_lp;         /* prompt ids with log probabilities */
        uint64_t lp;     /* index of its first entry (prompt or forced ids) in the pinned record */
    } * rows;            /* [n_rows of the model], owned */
    int32_t *forced_ids; /* owned; grows */
    size_t forced_cap;
} vl_q35_ticket;

typedef struct vl_q35_cuda {
    vl_q35_model head; /* first */
    const vl_host *host;
    vl_cuda c;
    bool open; /* c is initialised */
    vl_q35_shape s;
    int64_t n_layers;
    uint64_t context, kv_tokens, step_tokens, chunk;
    char device_text[128], cache_dir[1024];
    vl_kernel kernels[VL_N_KERNELS];
    vl_lt lt;
    vl_lt_plan plans[VL_N_MM][VL_Q35_BUCKETS];

    vl_arena weights, states, workspace;
    vl_q35_dev_layer *layers; /* [n_layers], owned */
    void *embed, *lm_head;    /* bf16 [V, H] */
    float *norm;              /* [H], 1 + w */
    float *rope;              /* [max_pages * 64, 32] (cos, sin) */
    vl_q35_work w;

    /* states arena */
    char *kv;         /* pages */
    float *state;     /* [n_rows + n_saved][n_linear][hv][128][128] */
    char *ring;       /* bf16 [n_rows + n_saved][n_linear][4][CD] */
    vl_slot *slots;   /* [n_rows] */
    int *tables;      /* [n_rows][max_pages] */
    uint32_t *counts; /* [n_rows][V] */
    int *bias_ids;    /* [n_rows][VL_SLOT_BIAS] */
    float *bias;
    int32_t n_saved;     /* states that snapshots may hold */
    bool *saved_used;    /* [n_saved], owned */
    uint32_t *shot_refs; /* [pages], owned: how many snapshots hold each page */
    vl_pinned
        host_tier; /* blocks of a page's size; a block's mark: the page with the same, plus 1 */
    uint32_t *block_of; /* [pages], owned: the block with the same content, plus 1; 0: none */
    struct vl_q35_shot *moving; /* snapshots on their way */
    uint64_t next_move;         /* ticket */

    vl_pages *pages;
    struct vl_q35_seq *sequences; /* [n_rows], owned */

    vl_ring ring_out; /* results: vl_row_out [n_rows] */
    char *orders;     /* pinned: VL_RING_SLOTS records of order_bytes, see step_begin.cu */
    uint64_t order_bytes;
    char *masks; /* pinned: VL_RING_SLOTS records of mask_bytes, see logits_scan.cu */
    uint64_t mask_bytes;
    int *ids_in;           /* pinned: [VL_RING_SLOTS][step_tokens + n_rows] */
    vl_logprob *prompt_lp; /* pinned: [VL_RING_SLOTS][step_tokens][1 + VL_TOP_LOGPROBS] */
    cudaGraphExec_t graphs[VL_Q35_GRAPHS];
    int32_t n_graphs;
    int32_t thin_rows; /* most rows that thin_matmul takes: 8 or 16, whichever was faster here */
    bool eager;        /* launch decode steps one kernel at a time instead (tests compare) */

    vl_q35_ticket tickets[VL_RING_SLOTS];
    uint64_t next_ticket, next_collect;
    int32_t *out_ids; /* of the last collect */
    size_t out_ids_cap;
    vl_logprob *out_lp;
    size_t out_lp_cap;

    pthread_mutex_t lock; /* of fault */
    vl_error fault;       /* status 0: healthy */
    uint64_t allocations; /* device allocations when opening was done */
} vl_q35_cuda;

/* vl_sequence and vl_snapshot of this half are these. */
static inline struct vl_q35_seq *vl_q35_seq_of(vl_sequence *s)
{
    return (struct vl_q35_seq *)(void *)s;
}
static inline struct vl_q35_shot *vl_q35_shot_of(vl_snapshot *s)
{
    return (struct vl_q35_shot *)(void *)s;
}
static inline const struct vl_q35_shot *vl_q35_shot_of_const(const vl_snapshot *s)
{
    return (const struct vl_q35_shot *)(const void *)s;
}

static inline vl_q35_cuda *vl_q35_of(vl_q35_model *m)
{
    return (vl_q35_cuda *)m;
}
static inline const vl_q35_cuda *vl_q35_of_const(const vl_q35_model *m)
{
    return (const vl_q35_cuda *)m;
}

/* A chain of calls on the stream: after the first failure the others do nothing. */
typedef struct vl_q35_run {
    vl_q35_cuda *m;
    vl_status rc;
    vl_error *err;
} vl_q35_run;

void vl_q35_launch(vl_q35_run *r, int kernel, uint32_t x, uint32_t y, uint32_t z, void **args);
void vl_q35_copy(vl_q35_run *r, void *dst, const void *src, size_t n,
                 const char *what); /* ordered on the stream */

/* open.c */
vl_status vl_q35_cuda_usable(const vl_host *host, int32_t device, const vl_q35_config *c,
                             vl_error *err);
vl_status vl_q35_cuda_estimate(const vl_q35_open *o, vl_model_estimate *out, vl_error *err);
uint64_t vl_q35_cuda_default_kv(const vl_q35_config *c, const vl_model_params *p);
vl_status vl_q35_cuda_open(const vl_q35_open *o, vl_q35_model **out, vl_error *err);
void vl_q35_cuda_close(vl_q35_model *m);
/* Remembers a failure of the device; from then on health and submit tell it. Returns status. [any]
 */
vl_status vl_q35_cuda_fail(vl_q35_cuda *m, vl_status status, const vl_error *err);
vl_status vl_q35_cuda_health(const vl_q35_model *m, vl_error *err);

/* load.c: carves the weights (twice, see arena.h), and uploads them. */
void vl_q35_cuda_carve_weights(vl_q35_cuda *m, const vl_q35_config *c);
vl_status vl_q35_cuda_upload(vl_q35_cuda *m, const vl_q35_open *o, vl_error *err);

/* forward.c: queue parts of a step. */
void vl_q35_forward_begin(vl_q35_run *r, int advance);
void vl_q35_forward_prefill(vl_q35_run *r, const int *ids, int n, int slot, int pos0, int place,
                            int mask);
void vl_q35_forward_sample_last(vl_q35_run *r, int n); /* samples behind a piece of n tokens */
void vl_q35_forward_decode(vl_q35_run *r,
                           int rows); /* layers, head and sampling; captured by graph.c */
/* Log probabilities of n ids given as next_ids (pinned), from the residual rows x[0..n); out
 * (pinned): [n][1 + k]. */
void vl_q35_forward_logprobs(vl_q35_run *r, float *x, int n, const int *next_ids, int k,
                             vl_logprob *out);
float *vl_q35_last_x(const vl_q35_cuda *m,
                     int slot); /* where a sequence's last residual row is kept */

/* graph.c */
vl_status vl_q35_graphs_make(vl_q35_cuda *m, vl_error *err);
/* Times the step of 9 to 16 rows with our own products and with cuBLASLt's, keeps the faster. */
vl_status vl_q35_graphs_choose(vl_q35_cuda *m, vl_error *err);
void vl_q35_graphs_free(vl_q35_cuda *m);
void vl_q35_graph_run(vl_q35_run *r, uint64_t rows);
int32_t vl_q35_graph_rows(const vl_q35_cuda *m, int32_t graph); /* batch size of a graph */

/* sequence.c */
vl_status vl_q35_cuda_sequence_begin(vl_q35_model *m, const vl_sequence_params *p,
                                     vl_sequence **out, vl_error *err);
void vl_q35_cuda_sequence_end(vl_q35_model *m, vl_sequence *s);
/* Pages for `tokens` tokens in all; those new are noted in the order record. VL_E_NOMEM changes
 * nothing. */
vl_status vl_q35_sequence_grow(vl_q35_cuda *m, struct vl_q35_seq *s, uint64_t tokens,
                               vl_error *err);
/* Waits for all steps, and reads the sequence's record. */
vl_status vl_q35_sequence_sync(vl_q35_cuda *m, struct vl_q35_seq *s, vl_slot *out, vl_error *err);

/* step.c */
vl_status vl_q35_cuda_submit(vl_q35_model *m, const vl_row *rows, uint64_t n_rows, uint64_t *ticket,
                             vl_error *err);
vl_status vl_q35_cuda_collect(vl_q35_model *m, uint64_t ticket, int64_t timeout_ms,
                              vl_row_result *results, uint64_t cap, vl_error *err);

/* snapshot.c */
uint64_t vl_q35_state_bytes(const vl_q35_cuda *m); /* of one state: recurrent and conv */
void vl_q35_state_copy(vl_q35_run *r, int32_t to, int32_t from); /* places in the pool of states */
vl_status vl_q35_cuda_take(vl_q35_model *m, vl_sequence *s, vl_snapshot **out, uint64_t *position,
                           vl_error *err);
uint64_t vl_q35_cuda_take_bytes(const vl_q35_model *m, const vl_sequence *s);
void vl_q35_cuda_snapshot_info(const vl_q35_model *m, const vl_snapshot *s, vl_snapshot_info *out);
uint64_t vl_q35_cuda_drop(vl_q35_model *m, vl_snapshot *s);
void vl_q35_cuda_tier(const vl_q35_model *m, int32_t tier, vl_tier_info *out);
uint64_t vl_q35_delta_bytes(const vl_q35_cuda *m); /* of one state: its recurrent part */
uint64_t vl_q35_conv_bytes(const vl_q35_cuda *m);  /* and its convolution part */
int32_t vl_q35_state_free(const vl_q35_cuda *m);   /* a free place of n_saved, or -1 */
/* One owner less of each page; returns the bytes that this freed. */
uint64_t vl_q35_pages_release(vl_q35_cuda *m, const uint32_t *pages, uint64_t n);
uint64_t vl_q35_shot_leave_device(vl_q35_cuda *m, struct vl_q35_shot *s); /* bytes freed */

/* tier.c: snapshots in host memory, and their ways there and back. */
uint64_t vl_q35_state_blocks(const vl_q35_cuda *m);
uint64_t vl_q35_shot_leave_host(vl_q35_cuda *m, struct vl_q35_shot *s); /* bytes freed */
void vl_q35_host_info(const vl_q35_cuda *m, const struct vl_q35_shot *s, vl_snapshot_info *out);
void vl_q35_block_forget(vl_q35_cuda *m, uint32_t page); /* the page's content is no more */
vl_status vl_q35_cuda_move(vl_q35_model *m, vl_snapshot *s, int32_t tier, uint64_t *ticket,
                           vl_error *err);
vl_status vl_q35_cuda_moved(vl_q35_model *m, uint64_t ticket, int64_t timeout_ms, vl_error *err);
/* Waits for a move under way. */
void vl_q35_shot_settle(vl_q35_cuda *m, struct vl_q35_shot *s);

#endif
