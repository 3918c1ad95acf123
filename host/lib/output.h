/* host/lib/output.h: one answer on its way out: token ids in; text events out, through the
 * streaming decoder, the chat parser and the stop strings. Knows nothing of steps or sequences.
 * [engine] */
#ifndef VL_LIB_OUTPUT_H
#define VL_LIB_OUTPUT_H

#include "host/lib/events.h"
#include "host/lib/stop_strings.h"
#include "vallmo/tokenizer.h"

typedef struct vl_output vl_output;

struct vl_output_params {
    const vl_tokenizer_api *tokenizer_api;
    const vl_tokenizer *tokenizer;
    const vl_chat_api *chat_api; /* NULL: raw text */
    vl_chat_parser *parser;      /* taken over, also on failure; NULL without chat */
    const vl_stop_set *stops;    /* borrowed */
    vl_event_queue *queue;
    void *user;
    uint32_t choice;
    int32_t n_logprobs; /* -1: none */
    bool keep_special, include_stop, stop_raw, one_call;
};

vl_status vl_output_create(const struct vl_output_params *p, vl_output **out, vl_error *err);
void vl_output_destroy(vl_output *o); /* NULL is a no-op */

/* One generated token that is no stop id. logprobs: its own entry and then the n_logprobs best, or
 * NULL. */
vl_status vl_output_push(vl_output *o, int32_t id, const vl_logprob *logprobs, vl_error *err);
/* True once nothing after what was pushed counts: a stop string, or the one call that was wanted.
 */
bool vl_output_ended(const vl_output *o);
/* The end: gives out what was held back. cut: the answer was cut by a limit. */
vl_status vl_output_finish(vl_output *o, bool cut, vl_error *err);

const char *vl_output_stop_text(const vl_output *o,
                                size_t *len); /* the stop string that matched, or NULL */
int32_t vl_output_state(const vl_output *o);  /* VL_CHAT_..., of the parser */
uint64_t vl_output_reasoning_tokens(const vl_output *o);
uint32_t vl_output_calls(const vl_output *o); /* complete ones */

#endif
