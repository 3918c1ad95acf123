/* tests/unit/engine_util.h: an engine on the fake plugin, and requests whose events are put
 * together again. */
#ifndef VL_UNIT_ENGINE_UTIL_H
#define VL_UNIT_ENGINE_UTIL_H

#include "vl_test.h"

#include "host/lib/log.h"
#include "host/lib/runtime.h"
#include "tests/plugins/fake.h"

struct eng {
    vl_registry *reg;
    vl_runtime *rt;
    vl_engine *e;
    vl_event_queue *q;
    const fake_probe *probe;
    struct vl_runtime_params p;
    const char *settings[16]; /* options of the fake plugin, "delay_ms=5" */
};

/* Zeroed, then p and settings changed by the test, then: */
void eng_open(struct eng *g);
/* Closes all and fails unless every handle of the plugin is gone and the interface was kept to. */
void eng_close(struct eng *g);
struct fake_counts eng_counts(const struct eng *g);

enum { RUN_TOKENS = 5000 };
struct run_answer {
    vl_buf reasoning, content, calls;         /* calls: "name(arguments)" each */
    struct vl_event_token tokens[RUN_TOKENS]; /* of content and raw text; top is not kept */
    vl_logprob best[RUN_TOKENS];              /* the first of top */
    size_t n_tokens, n_text_events;
    bool ended;
    int32_t finish, stop_id;
    char stop_text[64];
    struct vl_usage usage;
};
struct run {
    vl_request *r;
    struct run_answer *a; /* [n], owned */
    uint32_t n;
    bool started, done, failed;
    int n_last; /* last events seen: must be 1 */
    uint64_t cached;
    vl_error err;
    char field[248];
    struct vl_usage usage;
    struct vl_event_token *prompt_tokens; /* owned */
    size_t n_prompt_tokens;
};

/* Parameters of a greedy request for raw text. */
struct vl_request_params text_params(const char *text, vl_piece *piece);
void run_start(struct eng *g, struct run *x, const struct vl_request_params *p);
void run_wait(struct eng *g,
              struct run *x); /* until its last event; other runs' events are taken too */
bool run_step(struct eng *g, int timeout_ms); /* takes what there is; false: nothing came in time */
void run_free(struct run *x);
/* start + wait; the run must be done, not failed. */
void run_text(struct eng *g, struct run *x, const char *text, uint64_t max_tokens);
const char *run_content(const struct run *x, uint32_t choice);

#endif
