/* host/lib/events.h: what happens to requests, on its way from the engine to whoever asked: a queue
 * with an eventfd.
 *
 * Any thread posts, one thread (the loop) drains and never blocks. Owns the events until they are
 * taken. */
#ifndef VL_LIB_EVENTS_H
#define VL_LIB_EVENTS_H

#include <stdbool.h>

#include "vallmo/chat.h"
#include "vallmo/model.h"

typedef struct vl_event_queue vl_event_queue;

enum {
    /* The prompt is tokenized and read as far as usage needs: usage.prompt_tokens and
       cached_tokens. First, once. */
    VL_EVENT_STARTED = 0,
    VL_EVENT_TEXT = 1,       /* more text of a choice */
    VL_EVENT_CHOICE_END = 2, /* a choice is complete: reason, stop, usage of the choice */
    VL_EVENT_DONE = 3,       /* last: all choices are complete; usage of all */
    VL_EVENT_FAILED = 4,     /* last: error; VL_E_CANCELLED after a cancel */
    VL_EVENT_WORK = 5,       /* a job given to the workers is done (workers.h): user is the job's */
    VL_EVENT_LOAD =
        6, /* a runtime's state or progress changed (runtime.h): user is the runtime's */
    VL_EVENT_QUEUED = 7 /* rendered, tokenized, found to fit; waits for a sequence:
                           usage.prompt_tokens. Before STARTED */
};

enum {
    VL_TEXT_KIND_REASONING = 0,
    VL_TEXT_KIND_CONTENT = 1, /* all text of a request without chat */
    VL_TEXT_KIND_CALL = 2,    /* a tool call begins: text is the function's name, call its index */
    VL_TEXT_KIND_ARGUMENTS = 3, /* more of its arguments */
    VL_TEXT_KIND_CALL_END = 4   /* it is complete; no text */
};

enum {
    VL_FINISH_STOP = 0,      /* stop id or stop string */
    VL_FINISH_LENGTH = 1,    /* max_tokens or the context's end */
    VL_FINISH_TOOL_CALLS = 2 /* a normal stop after at least one complete call */
};

struct vl_usage {
    uint64_t prompt_tokens;     /* whole prompt, cached part included, once */
    uint64_t cached_tokens;     /* of these, not read again */
    uint64_t completion_tokens; /* sampled and forced, the stop id too */
    uint64_t reasoning_tokens;  /* of these, in thoughts */
};

/* A generated token whose text an event completes. */
struct vl_event_token {
    int32_t id;
    float logprob;         /* valid with logprobs asked for */
    const vl_logprob *top; /* the n_top best; NULL without */
    uint32_t n_top;
    uint32_t reserved;
};

/* Taken from the queue; freed by vl_event_free, with all it points to. */
typedef struct vl_event {
    struct vl_event *next; /* of the list that vl_event_queue_take gives */
    int32_t kind;
    uint32_t choice;
    void *user;        /* of the request, job or runtime */
    int32_t text_kind; /* TEXT: VL_TEXT_KIND_... */
    uint32_t call;     /* TEXT: index of the tool call */
    const char *text;  /* TEXT: valid UTF-8; CHOICE_END: the stop string that matched, or NULL */
    size_t text_len;
    /* TEXT: tokens whose text is complete with it, maybe none. DONE, with prompt logprobs: one a
     * prompt token; the first has no value (logprob NAN, n_top 0). */
    struct vl_event_token *tokens;
    size_t n_tokens;
    int32_t finish;        /* CHOICE_END: VL_FINISH_... */
    int32_t stop_id;       /* CHOICE_END: the id that stopped it, or -1 */
    struct vl_usage usage; /* STARTED, CHOICE_END (its own completion), DONE */
    double queue_ms;       /* STARTED: waited before its first step */
    double prefill_ms;     /* CHOICE_END, DONE: from first step to first token */
    double decode_ms;      /* CHOICE_END, DONE: from first token to last */
    vl_error error;        /* FAILED */
    char field[248];       /* FAILED: the request field at fault, or "" */
} vl_event;

vl_status vl_event_queue_create(vl_event_queue **out, vl_error *err);
void vl_event_queue_destroy(
    vl_event_queue *q); /* frees what was not taken; nobody posts any more */
/* Readable when events wait. Watch it; don't read it. */
int vl_event_queue_fd(const vl_event_queue *q);
/* All waiting events in order, or NULL; makes the fd unreadable. [loop] */
vl_event *vl_event_queue_take(vl_event_queue *q);
/* As take, but waits up to timeout_ms (-1: for ever) for the first. Not for the loop. */
vl_event *vl_event_queue_wait(vl_event_queue *q, int timeout_ms);
void vl_event_free(vl_event *e); /* one event, not the list; NULL is a no-op */
/* Takes e over; e comes from vl_event_make. [any] */
void vl_event_queue_post(vl_event_queue *q, vl_event *e);
/* An event with copies of text (may be NULL), room for n_tokens tokens and n_top logprobs for each
 * (zeroed). NULL: out of memory. */
vl_event *vl_event_make(int32_t kind, void *user, const char *text, size_t text_len,
                        size_t n_tokens, size_t n_top);

#endif
