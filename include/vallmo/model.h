/* vallmo/model.h: "vl.model/1": open weights on a device, and the steps that run them.
 *
 * Words. A *model* owns weights, pages and states. A *sequence* is one running generation: its KV
 * pages, recurrent states, sampling state and counters. A *step* runs one *row* of each of several
 * sequences: a piece of a prompt, or one decode. A *snapshot* (ext/snapshot.h) is a sequence's
 * state at one position.
 *
 * A sequence has a *position*: how many tokens its state has read. After a sampled (or forced)
 * token one token is *pending*: known, given out as a result, not yet read. A decode row reads the
 * pending token and samples the next; so the next step can be submitted before the last one is
 * collected, and the host's view runs behind.
 *
 * Steps are asynchronous: submit gives a ticket, collect its results, both in order and only from
 * the engine thread. A plugin on a CPU may do all the work in submit. */
#ifndef VALLMO_MODEL_H
#define VALLMO_MODEL_H

#include "vallmo/abi.h"
#include "vallmo/loader.h"
#include "vallmo/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VL_MODEL_ID "vl.model/1"

typedef struct vl_model vl_model;
typedef struct vl_sequence vl_sequence;
typedef struct vl_snapshot vl_snapshot;

/* ---- opening ---- */

typedef struct vl_model_params {
    uint32_t struct_size;
    uint32_t max_sequences;  /* that run at once, >= 1 */
    uint64_t context_tokens; /* most tokens one sequence may hold (prompt and answer) */
    uint64_t kv_tokens;   /* the pool that sequences and snapshots share; 0: the plugin's choice */
    uint64_t step_tokens; /* most prompt tokens in one step (all rows together), >= 1 */
    uint64_t n_tokens;    /* ids that may be sampled: rows past them never are; 0: all rows */
    const char *device;   /* "auto", "cpu", "cuda", "cuda:1" */
    const vl_option_values *options; /* of the plugin's own table; borrowed for the call */
    /* Called now and then while opening, with 0..1 and what is being done; nonzero return cancels
     * the opening (VL_E_CANCELLED). May be NULL. Called on the opening thread. */
    int32_t (*progress)(void *user, double fraction, const char *what);
    void *user;
} vl_model_params;

/* What a checkpoint will need, without opening a device. */
typedef struct vl_model_estimate {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t n_parameters;    /* of the text model, without draft layers */
    uint64_t weight_bytes;    /* copied to the device; 0 when they are used from the mapping */
    uint64_t mapped_bytes;    /* weights used from the mapping */
    uint64_t state_bytes;     /* recurrent and convolution state of one sequence */
    uint64_t kv_token_bytes;  /* of one token in the pool */
    uint64_t workspace_bytes; /* fixed, for these parameters */
    uint64_t total_bytes; /* weight + workspace + max_sequences * state + kv_tokens * kv_token */
    uint64_t kv_tokens;   /* the pool these parameters give (kv_tokens 0 resolved) */
    uint64_t max_context_tokens; /* what the checkpoint was trained for */
} vl_model_estimate;

typedef struct vl_model_info {
    uint32_t struct_size;
    uint32_t max_sequences;
    const char *architecture; /* "qwen3_5_text" */
    const char *device;       /* "cpu avx512-bf16, 2 threads", "cuda:0 NVIDIA H200" */
    uint64_t context_tokens;
    uint64_t kv_tokens; /* in the pool */
    uint64_t step_tokens;
    uint64_t vocab_rows; /* rows of the head; masks have this many bits */
    uint64_t n_tokens;   /* ids that can be sampled */
    uint64_t
        max_step_ids; /* most ids that a decode row gives in one step (1 without speculation) */
    uint64_t max_in_flight; /* steps that may be submitted before the first is collected, >= 1 */
    uint64_t snapshot_grid; /* positions at which snapshots keep resumed = cold bit for bit (64) */
    uint64_t n_layers;
} vl_model_info;

/* ---- sequences ---- */

typedef struct vl_logit_bias {
    int32_t id;
    float bias; /* added to the logit */
} vl_logit_bias;

/* Rules and order of the steps: docs/sampling.md; neutral values in parentheses. Already validated.
 */
typedef struct vl_sampling {
    uint32_t struct_size;
    int32_t top_k;            /* (0) keep the k largest */
    float temperature;        /* below 1e-5: greedy */
    float top_p;              /* (1) */
    float min_p;              /* (0) */
    float repetition_penalty; /* (1) over prompt and output */
    float frequency_penalty;  /* (0) over output */
    float presence_penalty;   /* (0) over output */
    uint64_t seed;            /* of the counter-based generator, with the position and choice */
    int32_t choice;           /* which of n answers this is */
    int32_t n_logprobs;       /* -1 none; 0..20: the sampled token's and that many of the best */
    const vl_logit_bias *bias;
    uint64_t n_bias;
} vl_sampling;

typedef struct vl_sequence_params {
    uint32_t struct_size;
    uint32_t reserved;
    const vl_sampling *sampling;
    const int32_t *prompt; /* all ids of the prompt, also those a snapshot covers; >= 1 */
    uint64_t n_prompt;     /* n_prompt < context_tokens */
    const int32_t *stop_ids;
    uint64_t n_stop_ids;
    uint64_t
        min_tokens; /* stop ids can't be sampled before so many tokens are out; UINT64_MAX: never */
    uint64_t max_tokens; /* answer's limit, >= 1; the context's end is a limit too */
    const vl_snapshot
        *snapshot; /* start from it (position < n_prompt, same first ids); NULL: from nothing */
} vl_sequence_params;

/* ---- steps ---- */

enum {
    VL_ROW_PREFILL = 0, /* read the next n_ids of the prompt */
    VL_ROW_DECODE = 1,  /* read the pending token and sample the next */
    VL_ROW_FORCED = 2 /* read the pending token, take ids[0..n_ids) as if they had been sampled: the
                         last is pending then */
};
enum {
    VL_ROW_LAST = 1,           /* PREFILL: this ends the prompt: sample the first token */
    VL_ROW_PROMPT_LOGPROBS = 2 /* PREFILL: give the log probabilities of the prompt tokens read */
};

typedef struct vl_row {
    vl_sequence *sequence; /* at most one row of a sequence in a step */
    int32_t kind;          /* VL_ROW_... */
    uint32_t flags;
    const int32_t *ids; /* FORCED only */
    uint64_t n_ids;     /* PREFILL, FORCED */
    /* Ids that may be sampled in this row: bit i % 32 of word i / 32, (vocab_rows + 31) / 32 words;
     * NULL: all. Copied at submit. The next mask depends on the token, so such a row is not run
     * ahead. */
    const uint32_t *mask;
} vl_row;

enum {
    VL_STOP_NONE = 0,
    VL_STOP_ID = 1,      /* a stop id was sampled; it is the last of ids */
    VL_STOP_LIMIT = 2,   /* max_tokens are out */
    VL_STOP_CONTEXT = 3, /* the sequence holds context_tokens */
    VL_STOP_FAULT = 4    /* the row failed: see status (NaN logits, no pages left) */
};

typedef struct vl_logprob {
    int32_t id;
    float logprob; /* natural log-softmax of the raw logits; -infinity is possible */
} vl_logprob;

/* results[i] belongs to rows[i] of the submit. Once a sequence has stopped it is frozen on the
 * device: rows that were submitted ahead give no ids, the same stop, and change nothing. */
typedef struct vl_row_result {
    uint32_t struct_size;
    int32_t status; /* VL_OK; VL_E_CANCELLED: the sequence was ended meanwhile; else a fault */
    vl_sequence *sequence; /* NULL if it was ended meanwhile */
    const int32_t *ids;    /* new ids, n_ids of them; borrowed until the next collect */
    uint64_t n_ids;        /* 0 for a prefill piece that is not the last */
    uint64_t position;     /* tokens that the state has read */
    /* With n_logprobs = k >= 0: n_ids * (1 + k) entries, for each id its own and then the k best.
     * Else NULL. */
    const vl_logprob *logprobs;
    /* VL_ROW_PROMPT_LOGPROBS: for each prompt id read by this row (but the very first of the
     * prompt) 1 + k entries. */
    const vl_logprob *prompt_logprobs;
    uint64_t n_prompt_logprobs; /* ids described there */
    int32_t stop;               /* VL_STOP_... */
    uint32_t reserved;
} vl_row_result;

typedef struct vl_model_api {
    uint32_t struct_size;
    uint32_t abi_version;

    /* VL_OK if this plugin runs a model with such a config.json; VL_E_UNSUPPORTED: not one of mine
     * (says why); another status: mine, but wrong (says what). [any] */
    vl_status (*accepts)(vl_instance *self, vl_bytes config_json, vl_error *err);

    /* Checks names, shapes and parameters as open would, and tells what open would take. Needs no
     * device. [any] */
    vl_status (*estimate)(vl_instance *self, const vl_loader_api *loader, vl_checkpoint *c,
                          const vl_model_params *params, vl_model_estimate *out, vl_error *err);

    /* Opens the weights; the checkpoint must stay open as long as the model. Includes the warm-up:
     * after it no memory is allocated on the device. [open] */
    vl_status (*open)(vl_instance *self, const vl_loader_api *loader, vl_checkpoint *c,
                      const vl_model_params *params, vl_model **out, vl_error *err);
    /* Ends what still runs. NULL is a no-op. [open] */
    void (*close)(vl_model *m);

    void (*info)(const vl_model *m, vl_model_info *out); /* caller sets struct_size [any] */
    /* VL_OK, or the failure of the device after which nothing works any more. [any] */
    vl_status (*health)(const vl_model *m, vl_error *err);

    /* VL_E_NOMEM when no slot is free (pages are taken step by step). The parameters are copied.
     * [engine] */
    vl_status (*sequence_begin)(vl_model *m, const vl_sequence_params *params, vl_sequence **out,
                                vl_error *err);
    /* Frees slot and pages at once, also with steps in flight. NULL is a no-op. [engine] */
    void (*sequence_end)(vl_model *m, vl_sequence *s);

    /* Submits one step. On failure nothing was submitted. VL_E_NOMEM: the pool has no page for
     * these rows: end or drop something, or submit fewer rows. VL_E_BUSY: max_in_flight steps are
     * under way. VL_E_DEVICE is final. [engine] */
    vl_status (*submit)(vl_model *m, const vl_row *rows, uint64_t n_rows, uint64_t *ticket,
                        vl_error *err);
    /* Results of the oldest step that was not collected, which must be `ticket`. timeout_ms 0: only
     * look; -1: wait. VL_E_TIMEOUT: not ready yet. results has room for the step's rows. [engine]
     */
    vl_status (*collect)(vl_model *m, uint64_t ticket, int64_t timeout_ms, vl_row_result *results,
                         uint64_t cap, vl_error *err);

    /* Tokens in the pool: all, and free for new pages (shared pages count once). [engine] */
    void (*pool)(const vl_model *m, uint64_t *kv_tokens, uint64_t *kv_tokens_free);

    /* An optional interface of this model, such as VL_SNAPSHOT_ID; NULL: not offered. [any] */
    const void *(*get_ext)(const vl_model *m, const char *id);
} vl_model_api;

#ifdef __cplusplus
}
#endif
#endif
