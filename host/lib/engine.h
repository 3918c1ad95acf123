/* host/lib/engine.h: requests, and the engine that runs them: a bounded queue, one engine thread a
 * model, several sequences in one step, prompts in pieces. Knows tokens and the chat interface; no
 * sockets, no HTTP.
 *
 * A request's life: submit [any] copies what it is given and hands it to the workers, which render
 * and tokenize it; the engine gives it sequences and steps; everything that happens comes as events
 * into the queue that was given, ending with exactly one VL_EVENT_DONE or VL_EVENT_FAILED. */
#ifndef VL_LIB_ENGINE_H
#define VL_LIB_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "host/lib/events.h"
#include "host/lib/sampling_rules.h"
#include "host/lib/workers.h"
#include "vallmo/chat.h"
#include "vallmo/model.h"
#include "vallmo/tokenizer.h"

typedef struct vl_engine vl_engine;
typedef struct vl_request vl_request;

/* ---- constrained output: who says which ids may come next. One state a choice. ---- */
struct vl_mask_api {
    /* A state for one choice; NULL when out of memory. On a worker thread; all else is on the
     * engine's. */
    void *(*create)(void *factory, uint32_t choice);
    void (*destroy)(void *state);
    /* Fills mask (n_words words, all bits 0) for the next token. parser_state: VL_CHAT_... of the
     * chat parser now. Returns 1: use it; 0: every id may come, one at a time (any number, and run
     * ahead, when the callee sets `free_run`: nothing that comes will need a mask); negative:
     * error, the request fails with err. */
    int (*mask)(void *state, int32_t parser_state, uint32_t *mask, size_t n_words, bool *free_run,
                vl_error *err);
    /* A token was generated; nonzero: the output is complete, stop after it (finish stop). */
    int (*accept)(void *state, int32_t parser_state, int32_t id);
    void (*factory_free)(void *factory); /* when the request is gone; may be NULL */
};

/* ---- a request ---- */
enum {
    VL_REQUEST_INCLUDE_STOP = 1, /* include_stop_str_in_output */
    VL_REQUEST_KEEP_SPECIAL = 2, /* skip_special_tokens false: special tokens are shown */
    VL_REQUEST_IGNORE_EOS = 4,   /* the model's stop ids never come */
    VL_REQUEST_STOP_RAW = 8,     /* stop strings match reasoning and calls too */
    VL_REQUEST_ONE_CALL = 16,    /* parallel_tool_calls false: end after the first complete call */
    VL_REQUEST_PROMPT_LOGPROBS = 32, /* echo with logprobs */
    VL_REQUEST_CLAMP_MAX = 64, /* max_tokens past the context's end is cut to it; else VL_E_RANGE */
    VL_REQUEST_NO_PREFIX = 128 /* neither reads nor feeds the prefix cache */
};

/* Everything is copied by submit. The prompt is one of chat_json, pieces, ids. */
struct vl_request_params {
    vl_bytes
        chat_json; /* request for vl_chat_api.render: messages, tools, ...; the answer is parsed */
    const vl_piece *pieces;
    size_t n_pieces;
    const int32_t *ids; /* checked against the tokenizer's n_tokens */
    size_t n_ids;

    struct vl_sampling_options sampling;
    const vl_logit_bias *bias; /* ids are checked here: field "logit_bias" */
    size_t n_bias;
    const vl_bytes *stops; /* stop strings; empty ones are dropped; at most 16 */
    size_t n_stops;
    const int32_t *stop_ids; /* besides the tokenizer's own */
    size_t n_stop_ids;
    uint64_t
        max_tokens; /* 0: rest of the context, or the engine's max_new_tokens when that is set */
    uint64_t min_tokens;
    uint32_t n;               /* answers; 0 means 1; at most 16 */
    int32_t n_logprobs;       /* -1: none; 0..20 */
    int64_t thinking_budget;  /* -1: none; after so many reasoning tokens the thought is closed */
    int32_t priority;         /* higher first; 0 */
    uint32_t flags;           /* VL_REQUEST_... */
    vl_bytes response_format; /* JSON text of the field: the answer must match it; empty: none */
    const struct vl_mask_api *mask; /* NULL: free output */
    void *mask_factory;
    const char *name; /* for the log: the request's id */
};
void vl_request_params_init(struct vl_request_params *p); /* neutral values */

/* Queues it. VL_E_BUSY: the queue is full (429). VL_E_STATE: draining. VL_E_DEVICE: the model is
 * unhealthy. VL_E_INVALID: *field (248 bytes, may be NULL) names what is wrong. What rendering and
 * tokenizing find comes as VL_EVENT_FAILED: VL_E_INVALID with field, VL_E_RANGE: the prompt does
 * not fit the context (usage.prompt_tokens and the limit in error text; see vl_event.usage). On
 * failure mask_factory stays the caller's. *out is the caller's: vl_request_release after the last
 * event. [any, does not block] */
vl_status vl_request_submit(vl_engine *e, const struct vl_request_params *p, vl_event_queue *queue,
                            void *user, vl_request **out, char *field, vl_error *err);
/* It ends at the next step; the last event is then FAILED with VL_E_CANCELLED, or what had come
 * before. [any] */
void vl_request_cancel(vl_request *r);
/* While paused no more steps run for it than are under way: for readers that are too slow. [any] */
void vl_request_pause(vl_request *r, bool pause);
void vl_request_release(vl_request *r); /* NULL is a no-op; does not cancel [any] */

/* ---- the engine ---- */
struct vl_engine_params {
    const vl_model_api *model_api;
    vl_model *model;
    const vl_tokenizer_api *tokenizer_api;
    const vl_tokenizer *tokenizer;
    const vl_chat_api *chat_api; /* NULL: no chat requests */
    const vl_chat *chat;
    vl_workers *workers;
    struct vl_sampling_options checkpoint;      /* generation_config */
    struct vl_sampling_options server;          /* when the answer starts outside a thought */
    struct vl_sampling_options server_thinking; /* when it starts in one */
    uint64_t queue_cap;                         /* accepted requests that wait; 0: 64 */
    uint64_t prefill_tokens;      /* most prompt tokens in a step that also decodes; 0: 512 */
    uint64_t max_new_tokens;      /* default of max_tokens; 0: rest of the context */
    uint64_t prefix_cache_bytes;  /* device budget for snapshots; 0: off */
    uint64_t prefix_host_bytes;   /* host memory budget for them; 0: none */
    uint64_t prefix_every_tokens; /* further snapshots in a long prompt; 0: 4096 */
    int32_t run_ahead; /* steps in flight; 0: as many as the model allows; 1: none ahead */
    uint32_t reserved;
};
vl_status vl_engine_create(const struct vl_engine_params *p, vl_engine **out, vl_error *err);
/* No new requests; those accepted run on. [any] */
void vl_engine_drain(vl_engine *e);
/* Ends what still runs (FAILED, VL_E_CANCELLED), stops the thread. The workers must still live.
 * [open] */
void vl_engine_destroy(vl_engine *e);
/* A request of one token through the whole path, before anybody else: the warm-up. [open] */
vl_status vl_engine_warm_up(vl_engine *e, vl_error *err);
/* VL_OK, or why nothing will work any more. [any] */
vl_status vl_engine_health(vl_engine *e, vl_error *err);
const vl_model_info *vl_engine_model_info(const vl_engine *e); /* [any] */

/* Histograms: counts of values <= bounds[i], the last bound is +infinity. */
enum { VL_HISTOGRAM_BUCKETS = 16 };
struct vl_histogram {
    double bounds[VL_HISTOGRAM_BUCKETS];
    uint64_t counts[VL_HISTOGRAM_BUCKETS]; /* not cumulative */
    uint64_t n;
    double sum;
};
/* A copy of all numbers, taken at once. [any] */
struct vl_engine_stats {
    uint64_t requests_total, requests_done, requests_failed, requests_cancelled, requests_refused;
    uint64_t requests_waiting, requests_running; /* now; running includes prefill */
    uint64_t prompt_tokens, cached_prompt_tokens, generation_tokens;
    uint64_t finish_stop, finish_length, finish_tool_calls; /* choices */
    uint64_t steps, preemptions;
    uint64_t kv_tokens, kv_tokens_free;
    uint64_t prefix_entries, prefix_device_bytes, prefix_host_bytes;
    uint64_t prefix_hits, prefix_misses, prefix_evictions, prefix_stored, prefix_too_large;
    struct vl_histogram first_token_seconds, between_tokens_seconds, request_seconds, prompt_length,
        output_length;
};
void vl_engine_stats_get(vl_engine *e, struct vl_engine_stats *out);

#endif
