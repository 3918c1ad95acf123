/* tests/plugins/fake_model.h: the fake model's insides, shared by fake_model.c (steps) and
 * fake_state.c (pages, snapshots). Everything is under vl_model.lock. */
#ifndef VL_TESTS_FAKE_MODEL_H
#define VL_TESTS_FAKE_MODEL_H

#include <pthread.h>
#include <stdbool.h>

#include "fake.h"

enum { FAKE_STEP_IDS_MAX = 8, FAKE_STEPS_MAX = 8 };

struct vl_sequence {
    vl_model *model;
    int32_t *prompt; /* owned */
    size_t n_prompt;
    int32_t *read; /* owned: tokens the state has read, [context] */
    size_t n_read;
    int32_t pending; /* -1: none */
    size_t bound; /* tokens it may have read after the steps under way: pages are held for these */
    uint64_t n_out;
    vl_sampling sampling;
    vl_logit_bias *bias;
    int32_t *stop_ids;
    size_t n_stop_ids;
    uint64_t min_tokens, max_tokens;
    int32_t stop; /* VL_STOP_... */
    int32_t status;
    int32_t *say; /* owned: the answer the prompt asks for; NULL: none */
    size_t n_say;
    uint32_t *pages; /* owned */
    size_t n_pages;
    size_t in_flight;
    bool ended; /* freed once nothing is in flight */
    bool last_submitted;
    size_t n_prompt_submitted;
};

struct vl_snapshot {
    int32_t *ids;
    size_t n;
    uint32_t *pages;
    size_t n_pages;
    int32_t tier;
    uint64_t moving; /* ticket of the move under way, or 0 */
    int looked;      /* at the ticket */
};

struct fake_row {
    vl_sequence *seq;
    int32_t kind;
    uint32_t flags;
    int32_t *forced; /* owned */
    uint64_t n;
    uint32_t *mask; /* owned, or NULL */
    /* results */
    int32_t *out_ids; /* owned: the ids */
    uint64_t n_ids, position;
    vl_logprob *logprobs, *prompt_logprobs; /* owned */
    uint64_t n_prompt_logprobs;
    int32_t stop, status;
};

struct fake_step {
    struct fake_step *next;
    uint64_t ticket;
    size_t n_rows;
    struct fake_row *rows;
    bool done;
};

struct vl_model {
    pthread_mutex_t lock;
    pthread_cond_t change;
    pthread_t thread;
    bool quit;
    int64_t delay_ms;
    uint64_t step_ids, max_in_flight, context, grid, step_tokens, end_every, n_tokens;
    uint32_t max_sequences, n_sequences;
    bool snapshots;
    struct fake_step *first; /* submitted and not collected, oldest first */
    struct fake_step *collected;
    uint64_t next_ticket, n_under_way;
    bool broken;
    uint32_t n_pages, *seq_refs, *snap_refs;
    int64_t n_snapshots[2]; /* by tier */
    uint64_t host_tokens;   /* of snapshots in host memory */
};

/* fake_state.c */
bool fake_pages_hold(vl_model *m, vl_sequence *s,
                     size_t tokens); /* for the first `tokens`; false: none free */
void fake_pages_drop(vl_model *m, uint32_t *pages, size_t n, uint32_t *refs);
uint64_t fake_pages_free(const vl_model *m);
vl_status fake_restore(vl_model *m, vl_sequence *s, const vl_snapshot *from, vl_error *err);
void fake_drain(vl_model *m); /* waits until all submitted steps have run; with the lock held */
extern const vl_snapshot_api fake_snapshot_api;

#endif
