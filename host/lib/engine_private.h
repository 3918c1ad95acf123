/* host/lib/engine_private.h: what the engine's files share: requests, their answers, steps under
 * way.
 *
 * engine.c the thread, its inbox and life; engine_admit.c who gets a slot; engine_step.c the rows
 * of a step; engine_result.c what comes back; engine_cache.c snapshots; request.c a request before
 * the engine has it; stats.c numbers. Everything is the engine thread's but what says otherwise. */
#ifndef VL_LIB_ENGINE_PRIVATE_H
#define VL_LIB_ENGINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "host/lib/engine.h"
#include "host/lib/output.h"
#include "host/lib/prefix.h"
#include "vallmo/ext/snapshot.h"

enum { VL_ANSWERS_MAX = 16, VL_PLACES_MAX = 64 };

enum {
    ANSWER_WAITING = 0, /* has no sequence (yet, or since it was preempted) */
    ANSWER_PREFILL = 1, /* prompt rows are left to submit */
    ANSWER_DECODE = 2,  /* the row that samples the first token was submitted */
    ANSWER_ENDED = 3    /* its end was told; rows of it may still be in flight */
};

/* One of the n answers to a request. */
struct vl_answer {
    vl_request *request;
    uint32_t index;
    int32_t phase;
    uint64_t order;     /* of admission; the largest is the youngest */
    vl_sequence *seq;   /* NULL without a slot */
    size_t n_read;      /* prompt ids submitted */
    size_t next_place;  /* index into the request's places: next snapshot to take */
    uint32_t in_flight; /* rows submitted and not collected */

    int32_t *out; /* owned: ids so far, without what a stop string cut off */
    size_t n_out, out_cap;
    uint64_t n_completion; /* tokens that count for usage: n_out and the stop id */
    size_t n_replay;       /* results to come that are in `out` already (after a preemption) */

    /* Ids that come next whatever the model would say: the end of a thought, or outputs to read
     * again. */
    const int32_t *force;
    size_t n_force, force_at;
    bool closed_thought; /* the budget has been applied */
    bool free_run;       /* the mask provider wants no look at the next token */
    bool complete;       /* the mask provider says so */
    bool want_preempt;   /* as soon as its rows are back */
    bool stopped;        /* the model has stopped it: no more rows */

    vl_output *output;
    void *mask_state;
    double first_step_s, first_token_s, last_token_s;
};

struct vl_request {
    _Atomic int refs; /* the caller's and the engine's */
    _Atomic bool cancelled;
    _Atomic bool paused;
    _Atomic bool closed; /* the last event is on its way: the engine may go */
    vl_engine *engine;
    vl_request *next; /* inbox, waiting or running list */
    vl_event_queue *queue;
    void *user;
    uint64_t number;
    char name[64];

    /* copies of the parameters */
    struct vl_request_params p; /* its pointers are dead but for mask and mask_factory */
    char *chat_json;
    size_t chat_json_len;
    char *response_format;
    size_t response_format_len;
    vl_piece *pieces; /* with text_copy behind them */
    size_t n_pieces;
    char *text_copy;
    vl_logit_bias *bias;
    int32_t
        *stop_ids; /* all that end an answer: the tokenizer's (unless ignored) and the request's */
    size_t n_stop_ids;
    vl_stop_set stops;

    /* made by a worker */
    int32_t *prompt;
    size_t n_prompt;
    vl_chat_prompt *chat_prompt; /* until the parsers are made */
    int32_t start_state;
    bool thinking;
    int32_t *close_ids; /* of the text that ends a thought; NULL without a budget */
    size_t n_close_ids;
    uint64_t places[VL_PLACES_MAX]; /* prompt positions where snapshots are taken, ascending */
    size_t n_places;
    uint64_t fork_place; /* n > 1: where the other answers begin; 0: they read it all */
    vl_sampling sampling;
    uint64_t max_tokens;
    bool failed; /* err and field say why */
    vl_error err;
    char field[248];

    /* engine */
    struct vl_answer answers[VL_ANSWERS_MAX];
    uint32_t n_answers, n_ended;
    vl_snapshot *fork; /* owned, NULL: not taken (yet) */
    bool fork_failed;
    bool told_started, is_running;
    uint64_t cached_tokens;
    vl_logprob *prompt_logprobs; /* owned: [n_prompt_logprobs * (1 + n_logprobs)], from the second
                                    prompt id on */
    size_t n_prompt_logprobs;
    double submit_s, first_step_s, first_token_s;
};

/* A step under way. */
struct vl_step {
    uint64_t ticket;
    size_t n_rows;
    struct vl_answer **answers; /* [max_sequences] row i is of answers[i] */
};

struct vl_engine {
    struct vl_engine_params p;
    vl_model_info info;
    const vl_snapshot_api *snapshots; /* NULL: the model has none */
    vl_prefix *prefix;                /* NULL: off */
    uint64_t grid;
    uint32_t max_steps; /* in flight */
    size_t mask_words;

    pthread_t thread;

    /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* the engine: something is in the inbox, or a flag changed */
    pthread_cond_t idle; /* destroy: no job of ours is with the workers */
    vl_request *inbox, **inbox_last;
    uint64_t n_preparing;
    uint64_t n_live; /* accepted, last event not sent */
    uint64_t next_number;
    bool stop, drain, poked;
    bool unhealthy;
    vl_error health;
    struct vl_engine_stats stats;

    pthread_mutex_t vocabulary_lock;
    struct vl_vocabulary
        *vocabulary; /* of constrained output; NULL: not needed yet. Under its lock. */

    /* engine thread */
    vl_request *waiting;       /* with an answer that waits for a slot; by priority, then number */
    vl_request *running;       /* with no answer that waits, and one that has not ended */
    struct vl_answer **active; /* [max_sequences] answers that have a sequence */
    size_t n_active;
    bool hold_admit; /* pages ran out: nobody begins before one that is active ends */
    uint64_t next_order;
    struct vl_step *steps; /* ring of max_steps */
    uint32_t first_step, n_steps;
    struct vl_answer **prefill_list; /* [max_sequences] while a step is built */
    vl_row *rows;                    /* [max_sequences] of the step being built */
    struct vl_answer **row_of;       /* [max_sequences] */
    uint32_t *masks;                 /* [max_sequences * mask_words], made when first needed */
    vl_row_result *results;          /* [max_sequences] */
};

double vl_now_s(void); /* monotonic */

/* request.c */
void vl_request_ref(vl_request *r);
vl_status vl_request_make(vl_engine *e, const struct vl_request_params *p, vl_event_queue *queue,
                          void *user, vl_request **out, char *field, vl_error *err);
void vl_request_prepare(void *request); /* on a worker: renders, tokenizes; then the inbox */
bool vl_request_in_flight(const vl_request *r);
/* The engine's end with it: what needs the tokenizer or the chat format goes now, the rest with the
 * last reference. */
void vl_request_let_go(vl_request *r);

/* request_constrain.c: on a worker, with the rendered prompt: sets p.mask where something
 * constrains the answer */
vl_status vl_request_constrain(vl_engine *e, vl_request *r, vl_error *err);

/* engine.c */
void vl_engine_deliver(vl_engine *e, vl_request *r);        /* from a worker: into the inbox */
void vl_engine_poke(vl_engine *e);                          /* [any] */
void vl_engine_fail_all(vl_engine *e, const vl_error *why); /* the device is gone */
void vl_answer_end(vl_engine *e, struct vl_answer *a, int32_t finish, int32_t stop_id);
void vl_request_fail(vl_engine *e, vl_request *r, const vl_error *why);
void vl_answer_release_slot(vl_engine *e, struct vl_answer *a);

/* engine_admit.c */
void vl_engine_enqueue(vl_engine *e, vl_request *r);
void vl_engine_admit(vl_engine *e);
void vl_answer_preempt(vl_engine *e, struct vl_answer *a);

/* engine_step.c */
bool vl_engine_submit(vl_engine *e); /* true: a step was submitted, or room was made: call again */

/* engine_result.c */
void vl_engine_collect(vl_engine *e); /* waits for the oldest step */

/* engine_cache.c */
vl_status vl_cache_init(vl_engine *e, vl_error *err);
void vl_cache_places(const vl_engine *e, vl_request *r, const vl_chat_mark *marks,
                     const uint64_t *n_before, size_t n_marks); /* [any] */
const vl_snapshot *vl_cache_find(vl_engine *e, const struct vl_answer *a, uint64_t *position,
                                 uint64_t *common);
void vl_cache_count(vl_engine *e, const struct vl_answer *a, uint64_t position, uint64_t common);
void vl_cache_prefill_done(vl_engine *e,
                           struct vl_answer *a); /* after a prompt row was submitted */
void vl_cache_answer_done(vl_engine *e, struct vl_answer *a);
uint64_t vl_cache_next_cut(const vl_engine *e,
                           const struct vl_answer *a); /* prompt position, or n_prompt */

/* stats.c */
void vl_stats_init(struct vl_engine_stats *s);
void vl_histogram_add(struct vl_histogram *h, double x);

#endif
