/* chat/turn.h: one question and its answer: which model, the request, the rules for trying again,
 * what is measured. Shared by the chat and by one-shot use; no terminal. */
#ifndef VL_CHAT_TURN_H
#define VL_CHAT_TURN_H

#include "chat/client.h"
#include "chat/session.h"
#include "chat/settings.h"

enum vl_turn_state {
    VL_TURN_IDLE,
    VL_TURN_MODELS, /* the list of models is under way */
    VL_TURN_ASKING,
    VL_TURN_WAITING /* the server said when to come again */
};

enum vl_turn_result {
    VL_TURN_NOTHING,
    VL_TURN_OK,
    VL_TURN_FAILED,
    VL_TURN_CHOOSE, /* several models and none named: nothing was asked */
    VL_TURN_LISTED  /* the list of models is there, nothing was to be asked */
};

/* What is known of the answer that runs, and of the last one until the next begins. */
struct vl_turn_stats {
    double began, first_at, last_at; /* vl_now_s; first_at 0: nothing has come yet */
    int64_t n_deltas;
    int64_t prompt_tokens, answer_tokens, cached_tokens; /* -1: not told */
    double tokens_per_s;                                 /* 0: not known */
    char finish[32];
};

struct vl_turn {
    struct vl_client *client; /* owned */
    vl_buf base;              /* of vl_url_normalise */
    const char *key;          /* borrowed, may be NULL */
    vl_buf model;             /* "" = not known yet */
    char **models;            /* what the server has; owned */
    size_t n_models;
    int64_t context_tokens; /* 0 = not told */
    enum vl_turn_state state;
    struct vl_turn_stats stats;
    vl_buf message;    /* why it failed, or why it waits (not cleaned) */
    double wait_until; /* vl_now_s, in state WAITING */
    bool retried;
    bool will_ask; /* once the model is known */
    vl_buf body;   /* of the request that may be sent again */
    vl_buf question;
    struct vl_item *answer; /* borrowed while a turn runs */
    const struct vl_session *session;
    const struct vl_settings *settings;
};

vl_status vl_turn_init(struct vl_turn *t, vl_error *err);
void vl_turn_fini(struct vl_turn *t);
/* Another server: what was known of the old one is forgotten. */
vl_status vl_turn_server(struct vl_turn *t, const char *url, vl_error *err);
/* Fetches the list of models, so that the first question need not wait for it. */
void vl_turn_look(struct vl_turn *t);
/* Asks. session, settings and answer must live until the turn has ended or was stopped. */
void vl_turn_ask(struct vl_turn *t, const struct vl_session *session,
                 const struct vl_settings *settings, const char *question, size_t len,
                 struct vl_item *answer);
/* After each vl_client_wait. NOTHING while it runs. */
enum vl_turn_result vl_turn_step(struct vl_turn *t);
/* Hangs up. */
void vl_turn_stop(struct vl_turn *t);
static inline bool vl_turn_busy(const struct vl_turn *t)
{
    return t->state != VL_TURN_IDLE && t->will_ask;
}

#endif
