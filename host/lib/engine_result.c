/* host/lib/engine_result.c: what a step brings back: ids into answers, stops, faults. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "host/lib/engine_private.h"
#include "host/lib/log.h"

static void note_token(vl_engine *e, struct vl_answer *a, double now)
{
    vl_request *r = a->request;

    pthread_mutex_lock(&e->lock);
    e->stats.generation_tokens++;
    if (a->first_token_s > 0)
        vl_histogram_add(&e->stats.between_tokens_seconds, now - a->last_token_s);
    if (r->first_token_s == 0)
        vl_histogram_add(&e->stats.first_token_seconds, now - r->submit_s);
    pthread_mutex_unlock(&e->lock);
    if (a->first_token_s == 0)
        a->first_token_s = now;
    if (r->first_token_s == 0)
        r->first_token_s = now;
    a->last_token_s = now;
}

/* Prompt log probabilities, in the order of the prompt. */
static bool keep_prompt_logprobs(struct vl_answer *a, const vl_row_result *res)
{
    vl_request *r = a->request;
    size_t per = r->p.n_logprobs >= 0 ? (size_t)r->p.n_logprobs + 1 : 0;
    size_t n = (size_t)res->n_prompt_logprobs;

    if (n == 0 || res->prompt_logprobs == NULL || per == 0 || a->index > 0)
        return true;
    if (r->prompt_logprobs == NULL)
        r->prompt_logprobs = calloc(r->n_prompt * per, sizeof *r->prompt_logprobs);
    if (r->prompt_logprobs == NULL)
        return false;
    size_t room = r->n_prompt - 1 - r->n_prompt_logprobs;
    n = n < room ? n : room;
    memcpy(r->prompt_logprobs + r->n_prompt_logprobs * per, res->prompt_logprobs,
           n * per * sizeof *r->prompt_logprobs);
    r->n_prompt_logprobs += n;
    return true;
}

/* One id. True: go on with the next. */
static bool take_id(vl_engine *e, struct vl_answer *a, int32_t id, const vl_logprob *logprobs,
                    bool is_stop, double now, vl_error *err)
{
    if (a->n_replay > 0) { /* told before the answer was preempted */
        a->n_replay--;
        return true;
    }
    if (!vl_grow(&a->out, &a->out_cap, a->n_out + 1, sizeof *a->out)) {
        vl_error_set(err, VL_E_NOMEM, "answer: out of memory");
        return false;
    }
    a->out[a->n_out++] = id;
    a->n_completion++;
    note_token(e, a, now);
    if (is_stop)
        return true;
    int32_t state = vl_output_state(a->output);
    if (vl_output_push(a->output, id, logprobs, err) != VL_OK)
        return false;
    if (a->mask_state != NULL && a->request->p.mask->accept != NULL &&
        a->request->p.mask->accept(a->mask_state, state, id) != 0)
        a->complete = true;
    return !vl_output_ended(a->output) && !a->complete;
}

/* A row that failed: for want of pages it is tried again later, else the request ends. */
static void fault(vl_engine *e, struct vl_answer *a, int32_t status)
{
    vl_error why;

    if (status == VL_E_NOMEM && e->n_active > 1) {
        if (a->in_flight == 0)
            vl_answer_preempt(e, a);
        else
            a->want_preempt = true;
        return;
    }
    vl_error_set(&why, status != VL_OK ? status : VL_E_INTERNAL,
                 status == VL_E_NOMEM
                     ? "the pool of %llu tokens is too small for this request"
                     : "the model's output is not a number (%llu tokens in the pool)",
                 (unsigned long long)e->info.kv_tokens);
    vl_request_fail(e, a->request, &why);
}

static void take_result(vl_engine *e, struct vl_answer *a, const vl_row_result *res, double now)
{
    size_t per = a->request->p.n_logprobs >= 0 ? (size_t)a->request->p.n_logprobs + 1 : 0;
    vl_error err = {0};

    if (a->stopped)
        return;
    if (res->stop == VL_STOP_FAULT || (res->status != VL_OK && res->status != VL_E_CANCELLED)) {
        a->stopped = true;
        fault(e, a, res->status);
        return;
    }
    if (!keep_prompt_logprobs(a, res)) {
        vl_error_set(&err, VL_E_NOMEM, "prompt logprobs: out of memory");
        vl_request_fail(e, a->request, &err);
        return;
    }
    for (uint64_t i = 0; i < res->n_ids; i++) {
        bool is_stop = res->stop == VL_STOP_ID && i + 1 == res->n_ids;
        const vl_logprob *lp = res->logprobs != NULL && per > 0 ? res->logprobs + i * per : NULL;
        if (take_id(e, a, res->ids[i], lp, is_stop, now, &err))
            continue;
        if (err.status != VL_OK)
            vl_request_fail(e, a->request, &err);
        else /* the state is past the cut: no snapshot of this end */
            vl_answer_end(e, a, VL_FINISH_STOP, -1);
        return;
    }
    if (res->stop == VL_STOP_NONE)
        return;
    a->stopped = true;
    vl_cache_answer_done(e, a);
    vl_answer_end(e, a, res->stop == VL_STOP_ID ? VL_FINISH_STOP : VL_FINISH_LENGTH,
                  res->stop == VL_STOP_ID && res->n_ids > 0 ? res->ids[res->n_ids - 1] : -1);
}

/* The engine's side of a row that is back. */
static void row_back(vl_engine *e, struct vl_answer *a, const vl_row_result *res, double now)
{
    vl_request *r = a->request;

    a->in_flight--;
    if (a->phase != ANSWER_ENDED && a->phase != ANSWER_WAITING && a->seq != NULL) {
        bool late = a->want_preempt;
        if (!late)
            take_result(e, a, res, now);
        else if (a->in_flight == 0)
            vl_answer_preempt(e, a);
        return;
    }
    if (r->n_ended == r->n_answers && !vl_request_in_flight(r))
        vl_request_let_go(r);
}

void vl_engine_collect(vl_engine *e)
{
    struct vl_step *s = &e->steps[e->first_step];
    vl_error err = {0};

    for (size_t i = 0; i < s->n_rows; i++)
        e->results[i] = (vl_row_result){.struct_size = sizeof e->results[i]};
    vl_status rc = e->p.model_api->collect(e->p.model, s->ticket, -1, e->results, s->n_rows, &err);
    if (rc == VL_E_TIMEOUT)
        return;
    if (rc != VL_OK) {
        err.status = rc;
        vl_engine_fail_all(e, &err);
        return;
    }
    double now = vl_now_s();
    /* Off the ring first: a row's end may end the request, which looks at what is in flight. */
    e->first_step = (e->first_step + 1) % e->max_steps;
    e->n_steps--;
    for (size_t i = 0; i < s->n_rows; i++)
        row_back(e, s->answers[i], &e->results[i], now);
}
