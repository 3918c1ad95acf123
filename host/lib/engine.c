/* host/lib/engine.c: the engine thread: its inbox, its loop, how requests end. Knows nothing of how
 * rows are chosen (engine_step.c).
 *
 * The loop: take what is new, look for cancels, give out slots, submit a step while fewer than
 * max_steps are under way, else wait for the oldest. All of it on one thread; only the inbox, the
 * flags of requests and the numbers are shared. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "host/lib/constrain/constrain.h"
#include "host/lib/engine_private.h"
#include "host/lib/log.h"

enum { DEFAULT_QUEUE = 64, DEFAULT_PREFILL = 512, MAX_STEPS = 16 };

/* The numbers that the model and the cache keep. */
static void update_gauges(vl_engine *e)
{
    uint64_t all = 0, unused = 0;
    struct vl_prefix_stats c = {0};

    e->p.model_api->pool(e->p.model, &all, &unused);
    if (e->prefix != NULL)
        vl_prefix_stats_get(e->prefix, &c);
    pthread_mutex_lock(&e->lock);
    struct vl_engine_stats *s = &e->stats;
    s->kv_tokens = all;
    s->kv_tokens_free = unused;
    s->prefix_entries = c.entries;
    s->prefix_device_bytes = c.device_bytes;
    s->prefix_host_bytes = c.host_bytes;
    s->prefix_hits = c.hits;
    s->prefix_misses = c.misses;
    s->prefix_evictions = c.evictions;
    s->prefix_stored = c.stored;
    s->prefix_too_large = c.too_large;
    pthread_mutex_unlock(&e->lock);
}

/* ---- ends ---- */

static void unlink_request(vl_engine *e, vl_request *r)
{
    vl_request **lists[] = {&e->waiting, &e->running};

    for (size_t i = 0; i < 2; i++) {
        for (vl_request **at = lists[i]; *at != NULL; at = &(*at)->next) {
            if (*at == r) {
                *at = r->next;
                return;
            }
        }
    }
}

/* The engine's hold on a request ends when nothing of it is in flight any more. */
bool vl_request_in_flight(const vl_request *r)
{
    for (uint32_t i = 0; i < r->n_answers; i++) {
        if (r->answers[i].in_flight > 0)
            return true;
    }
    return false;
}

static void close_request(vl_engine *e, vl_request *r, int32_t kind, const vl_error *why)
{
    size_t per = r->p.n_logprobs >= 0 ? (size_t)r->p.n_logprobs + 1 : 0;
    bool prompt = (r->p.flags & VL_REQUEST_PROMPT_LOGPROBS) != 0 && kind == VL_EVENT_DONE;
    /* A prompt of one token has no logprobs at all, but its token is told. */
    prompt = prompt && (r->prompt_logprobs != NULL || r->n_prompt == 1);
    size_t n = prompt ? r->n_prompt_logprobs + 1 : 0;
    vl_event *ev = vl_event_make(kind, r->user, NULL, 0, n, per > 1 ? per - 1 : 0);
    double now = vl_now_s();
    uint64_t completion = 0, reasoning = 0;

    for (uint32_t i = 0; i < r->n_answers; i++) {
        completion += r->answers[i].n_completion;
        reasoning +=
            r->answers[i].output != NULL ? vl_output_reasoning_tokens(r->answers[i].output) : 0;
    }
    update_gauges(e); /* whoever sees the event sees numbers that have it in */
    if (ev == NULL) { /* the smallest event may still do */
        n = 0;
        ev = vl_event_make(VL_EVENT_FAILED, r->user, NULL, 0, 0, 0);
        if (ev != NULL)
            vl_error_set(&ev->error, VL_E_NOMEM, "request: out of memory");
    } else if (why != NULL) {
        ev->error = *why;
        memcpy(ev->field, r->field, sizeof ev->field);
    }
    pthread_mutex_lock(&e->lock);
    e->n_live--;
    if (r->is_running)
        e->stats.requests_running--;
    if (kind == VL_EVENT_DONE)
        e->stats.requests_done++;
    else if (why != NULL && why->status == VL_E_CANCELLED)
        e->stats.requests_cancelled++;
    else
        e->stats.requests_failed++;
    if (r->is_running)
        vl_histogram_add(&e->stats.request_seconds, now - r->submit_s);
    pthread_mutex_unlock(&e->lock);
    vl_log(VL_LOG_INFO, "engine",
           "request=%s %s prompt_tokens=%zu cached_tokens=%llu completion_tokens=%llu "
           "total_ms=%.1f%s%s",
           r->name, kind == VL_EVENT_DONE ? "done" : "failed", r->n_prompt,
           (unsigned long long)r->cached_tokens, (unsigned long long)completion,
           (now - r->submit_s) * 1e3, why != NULL ? " error=" : "", why != NULL ? why->text : "");
    unlink_request(e, r);
    atomic_store(&r->closed, true);
    if (r->fork != NULL)
        e->snapshots->drop(e->p.model, r->fork);
    r->fork = NULL;
    if (ev != NULL) {
        ev->usage = (struct vl_usage){r->n_prompt, r->cached_tokens, completion, reasoning};
        if (r->first_token_s > 0) {
            ev->prefill_ms = (r->first_token_s - r->first_step_s) * 1e3;
            ev->decode_ms = (now - r->first_token_s) * 1e3;
        }
        for (size_t i = 0; i < n; i++) {
            ev->tokens[i].id = r->prompt[i];
            if (i == 0) {
                ev->tokens[i].logprob = NAN;
                ev->tokens[i].n_top = 0;
                continue;
            }
            const vl_logprob *from = r->prompt_logprobs + (i - 1) * per;
            ev->tokens[i].logprob = from[0].logprob;
            if (per > 1)
                memcpy((void *)(uintptr_t)ev->tokens[i].top, from + 1, (per - 1) * sizeof *from);
        }
        vl_event_queue_post(r->queue, ev);
    }
    if (!vl_request_in_flight(r))
        vl_request_let_go(r);
}

/* Gives up an answer's sequence; rows in flight come back as those of an ended one. */
void vl_answer_release_slot(vl_engine *e, struct vl_answer *a)
{
    if (a->seq == NULL)
        return;
    e->p.model_api->sequence_end(e->p.model, a->seq);
    a->seq = NULL;
    e->hold_admit = false;
    for (size_t i = 0; i < e->n_active; i++) {
        if (e->active[i] == a) {
            memmove(e->active + i, e->active + i + 1, (e->n_active - i - 1) * sizeof *e->active);
            e->n_active--;
            break;
        }
    }
    if (e->prefix != NULL)
        vl_prefix_trim(e->prefix);
}

void vl_request_fail(vl_engine *e, vl_request *r, const vl_error *why)
{
    for (uint32_t i = 0; i < r->n_answers; i++) {
        vl_answer_release_slot(e, &r->answers[i]);
        r->answers[i].phase = ANSWER_ENDED;
    }
    r->n_ended = r->n_answers;
    close_request(e, r, VL_EVENT_FAILED, why);
}

/* An answer is complete: tells so, and when it is the last one, that the request is. */
void vl_answer_end(vl_engine *e, struct vl_answer *a, int32_t finish, int32_t stop_id)
{
    vl_request *r = a->request;
    vl_error err = {0};
    size_t len = 0;

    if (vl_output_finish(a->output, finish == VL_FINISH_LENGTH, &err) != VL_OK) {
        vl_request_fail(e, r, &err);
        return;
    }
    vl_answer_release_slot(e, a);
    a->phase = ANSWER_ENDED;
    r->n_ended++;
    if (finish == VL_FINISH_STOP && vl_output_calls(a->output) > 0)
        finish = VL_FINISH_TOOL_CALLS;
    const char *stop = vl_output_stop_text(a->output, &len);
    vl_event *ev = vl_event_make(VL_EVENT_CHOICE_END, r->user, stop, len, 0, 0);
    if (ev == NULL) {
        vl_error_set(&err, VL_E_NOMEM, "request: out of memory");
        vl_request_fail(e, r, &err);
        return;
    }
    ev->choice = a->index;
    ev->finish = finish;
    ev->stop_id = stop_id;
    ev->usage = (struct vl_usage){r->n_prompt, r->cached_tokens, a->n_completion,
                                  vl_output_reasoning_tokens(a->output)};
    if (a->first_token_s > 0) {
        ev->prefill_ms = (a->first_token_s - a->first_step_s) * 1e3;
        ev->decode_ms = (a->last_token_s - a->first_token_s) * 1e3;
    }
    vl_event_queue_post(r->queue, ev);
    pthread_mutex_lock(&e->lock);
    e->stats.finish_stop += finish == VL_FINISH_STOP;
    e->stats.finish_length += finish == VL_FINISH_LENGTH;
    e->stats.finish_tool_calls += finish == VL_FINISH_TOOL_CALLS;
    vl_histogram_add(&e->stats.output_length, (double)a->n_completion);
    pthread_mutex_unlock(&e->lock);
    if (r->n_ended == r->n_answers)
        close_request(e, r, VL_EVENT_DONE, NULL);
}

void vl_engine_fail_all(vl_engine *e, const vl_error *why)
{
    pthread_mutex_lock(&e->lock);
    if (!e->unhealthy && why->status != VL_E_CANCELLED) {
        e->unhealthy = true;
        e->health = *why;
    }
    pthread_mutex_unlock(&e->lock);
    while (e->running != NULL)
        vl_request_fail(e, e->running, why);
    while (e->waiting != NULL)
        vl_request_fail(e, e->waiting, why);
    /* Steps under way will not be collected: what they hold on to goes now. */
    while (e->n_steps > 0) {
        struct vl_step *s = &e->steps[e->first_step];
        for (size_t i = 0; i < s->n_rows; i++) {
            vl_request *r = s->answers[i]->request;
            s->answers[i]->in_flight--;
            if (r->n_ended == r->n_answers && !vl_request_in_flight(r))
                vl_request_let_go(r);
        }
        e->first_step = (e->first_step + 1) % e->max_steps;
        e->n_steps--;
    }
}

/* ---- inbox and loop ---- */

void vl_engine_deliver(vl_engine *e, vl_request *r)
{
    pthread_mutex_lock(&e->lock);
    r->next = NULL;
    *e->inbox_last = r;
    e->inbox_last = &r->next;
    e->n_preparing--;
    pthread_cond_signal(&e->wake);
    pthread_cond_signal(&e->idle);
    pthread_mutex_unlock(&e->lock);
}

void vl_engine_poke(vl_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->poked = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

static void take_request(vl_engine *e, vl_request *r)
{
    vl_error why;

    if (r->failed) {
        why = r->err;
        close_request(e, r, VL_EVENT_FAILED, &why);
    } else if (e->unhealthy) {
        close_request(e, r, VL_EVENT_FAILED, &e->health);
    } else {
        vl_engine_enqueue(e, r);
    }
}

static void cancel_marked(vl_engine *e)
{
    vl_error why;

    vl_error_set(&why, VL_E_CANCELLED, "the request was cancelled");
    for (int list = 0; list < 2; list++) {
        vl_request *next;
        for (vl_request *r = list == 0 ? e->waiting : e->running; r != NULL; r = next) {
            next = r->next;
            if (atomic_load_explicit(&r->cancelled, memory_order_relaxed))
                vl_request_fail(e, r, &why);
        }
    }
}

/* What came in from other threads. Sleeps when there is nothing to do and no step under way. False:
 * stop. */
static bool take_news(vl_engine *e, bool may_sleep)
{
    pthread_mutex_lock(&e->lock);
    while (may_sleep && e->inbox == NULL && !e->poked && !e->stop)
        pthread_cond_wait(&e->wake, &e->lock);
    vl_request *list = e->inbox;
    bool stop = e->stop;
    e->inbox = NULL;
    e->inbox_last = &e->inbox;
    e->poked = false;
    pthread_mutex_unlock(&e->lock);
    while (list != NULL) {
        vl_request *next = list->next;
        list->next = NULL;
        take_request(e, list);
        list = next;
    }
    return !stop;
}

static void *engine_main(void *arg)
{
    vl_engine *e = arg;
    bool idle = false;
    vl_error why;

    for (uint64_t turn = 0; take_news(e, idle && e->n_steps == 0); turn++) {
        cancel_marked(e);
        vl_engine_admit(e);
        idle = e->n_steps == e->max_steps || !vl_engine_submit(e);
        if (idle && e->n_steps > 0) {
            vl_engine_collect(e);
            idle = false;
        }
        if (idle || turn % 16 == 0)
            update_gauges(e);
    }
    vl_error_set(&why, VL_E_CANCELLED, "the server is shutting down");
    vl_engine_fail_all(e, &why);
    return NULL;
}

/* ---- the outside ---- */

vl_status vl_request_submit(vl_engine *e, const struct vl_request_params *p, vl_event_queue *queue,
                            void *user, vl_request **out, char *field, vl_error *err)
{
    vl_request *r = NULL;

    if (field != NULL)
        field[0] = '\0';
    vl_status rc = vl_request_make(e, p, queue, user, &r, field, err);
    if (rc != VL_OK)
        return rc;
    pthread_mutex_lock(&e->lock);
    uint64_t cap = e->p.queue_cap + e->info.max_sequences;
    if (e->unhealthy)
        rc = vl_error_set(err, VL_E_DEVICE, "%s", e->health.text);
    else if (e->drain || e->stop)
        rc = vl_error_set(err, VL_E_STATE, "the server is shutting down");
    else if (e->n_live >= cap)
        rc = vl_error_set(err, VL_E_BUSY, "the queue is full: %llu requests, at most %llu",
                          (unsigned long long)e->n_live, (unsigned long long)cap);
    if (rc == VL_OK) {
        r->number = e->next_number++;
        e->n_live++;
        e->n_preparing++;
        e->stats.requests_total++;
    } else {
        e->stats.requests_refused++;
    }
    pthread_mutex_unlock(&e->lock);
    if (rc != VL_OK)
        goto out;
    r->p.mask = p->mask;
    r->submit_s = vl_now_s();
    vl_request_ref(r); /* the engine's */
    rc = vl_workers_submit(e->p.workers, vl_request_prepare, r, NULL, err);
    if (rc != VL_OK) {
        pthread_mutex_lock(&e->lock);
        e->n_live--;
        e->n_preparing--;
        e->stats.requests_total--;
        e->stats.requests_refused++;
        pthread_mutex_unlock(&e->lock);
        r->p.mask = NULL; /* the caller's again */
        vl_request_release(r);
        goto out;
    }
    *out = r;
    r = NULL;
out:
    vl_request_release(r);
    return rc;
}

void vl_request_cancel(vl_request *r)
{
    atomic_store(&r->cancelled, true);
    if (!atomic_load(&r->closed))
        vl_engine_poke(r->engine);
}

void vl_request_pause(vl_request *r, bool pause)
{
    if (atomic_exchange(&r->paused, pause) != pause && !pause && !atomic_load(&r->closed))
        vl_engine_poke(r->engine);
}

static vl_status alloc_arrays(vl_engine *e, vl_error *err)
{
    size_t n = e->info.max_sequences;

    e->active = calloc(n, sizeof(struct vl_answer *));
    e->row_of = calloc(n, sizeof(struct vl_answer *));
    e->prefill_list = calloc(n, sizeof(struct vl_answer *));
    e->rows = calloc(n, sizeof *e->rows);
    e->results = calloc(n, sizeof *e->results);
    e->steps = calloc(e->max_steps, sizeof *e->steps);
    if (e->active == NULL || e->row_of == NULL || e->prefill_list == NULL || e->rows == NULL ||
        e->results == NULL || e->steps == NULL)
        return vl_error_set(err, VL_E_NOMEM, "engine: out of memory");
    for (uint32_t i = 0; i < e->max_steps; i++) {
        e->steps[i].answers = calloc(n, sizeof(struct vl_answer *));
        if (e->steps[i].answers == NULL)
            return vl_error_set(err, VL_E_NOMEM, "engine: out of memory");
    }
    return VL_OK;
}

static void engine_free(vl_engine *e)
{
    vl_prefix_destroy(e->prefix);
    for (uint32_t i = 0; e->steps != NULL && i < e->max_steps; i++)
        free(e->steps[i].answers);
    free(e->steps);
    free(e->active);
    free(e->row_of);
    free(e->prefill_list);
    free(e->rows);
    free(e->masks);
    free(e->results);
    pthread_cond_destroy(&e->wake);
    pthread_cond_destroy(&e->idle);
    pthread_mutex_destroy(&e->lock);
    vl_vocabulary_destroy(e->vocabulary);
    pthread_mutex_destroy(&e->vocabulary_lock);
    free(e);
}

vl_status vl_engine_create(const struct vl_engine_params *p, vl_engine **out, vl_error *err)
{
    vl_engine *e = calloc(1, sizeof *e);

    if (e == NULL)
        return vl_error_set(err, VL_E_NOMEM, "engine: out of memory");
    e->p = *p;
    e->p.queue_cap = p->queue_cap > 0 ? p->queue_cap : DEFAULT_QUEUE;
    e->p.prefill_tokens = p->prefill_tokens > 0 ? p->prefill_tokens : DEFAULT_PREFILL;
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->vocabulary_lock, NULL);
    pthread_cond_init(&e->wake, NULL);
    pthread_cond_init(&e->idle, NULL);
    e->inbox_last = &e->inbox;
    vl_stats_init(&e->stats);
    e->info.struct_size = sizeof e->info;
    p->model_api->info(p->model, &e->info);
    e->max_steps = e->info.max_in_flight < MAX_STEPS ? (uint32_t)e->info.max_in_flight : MAX_STEPS;
    if (p->run_ahead > 0 && (uint32_t)p->run_ahead < e->max_steps)
        e->max_steps = (uint32_t)p->run_ahead;
    e->mask_words = (size_t)(e->info.vocab_rows + 31) / 32;
    vl_status rc = VL_OK;
    if (e->info.max_sequences == 0 || e->max_steps == 0)
        rc = vl_error_set(err, VL_E_ABI,
                          "model: %u sequences and %llu steps in flight, want 1 of each",
                          e->info.max_sequences, (unsigned long long)e->info.max_in_flight);
    if (rc == VL_OK)
        rc = alloc_arrays(e, err);
    if (rc == VL_OK)
        rc = vl_cache_init(e, err);
    if (rc == VL_OK && pthread_create(&e->thread, NULL, engine_main, e) != 0)
        rc = vl_error_set(err, VL_E_NOMEM, "engine: no thread could be started");
    if (rc != VL_OK) {
        engine_free(e);
        return rc;
    }
    *out = e;
    return VL_OK;
}

void vl_engine_drain(vl_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->drain = true;
    pthread_mutex_unlock(&e->lock);
}

void vl_engine_destroy(vl_engine *e)
{
    vl_error why;

    if (e == NULL)
        return;
    pthread_mutex_lock(&e->lock);
    e->drain = e->stop = true;
    pthread_cond_signal(&e->wake);
    while (e->n_preparing > 0)
        pthread_cond_wait(&e->idle, &e->lock);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    /* What the workers brought after the thread had gone. */
    vl_error_set(&why, VL_E_CANCELLED, "the server is shutting down");
    while (e->inbox != NULL) {
        vl_request *r = e->inbox;
        e->inbox = r->next;
        r->next = NULL;
        close_request(e, r, VL_EVENT_FAILED, &why);
    }
    engine_free(e);
}

vl_status vl_engine_warm_up(vl_engine *e, vl_error *err)
{
    struct vl_request_params p;
    vl_event_queue *q = NULL;
    vl_request *r = NULL;
    int32_t id = 0;
    bool done = false;

    vl_request_params_init(&p);
    p.ids = &id;
    p.n_ids = 1;
    p.max_tokens = 1;
    p.name = "warm-up";
    p.flags = VL_REQUEST_NO_PREFIX;
    p.sampling.set = VL_SET_TEMPERATURE;
    vl_status rc = vl_event_queue_create(&q, err);
    if (rc == VL_OK)
        rc = vl_request_submit(e, &p, q, NULL, &r, NULL, err);
    while (rc == VL_OK && !done) {
        for (vl_event *ev = vl_event_queue_wait(q, -1), *next; ev != NULL; ev = next) {
            next = ev->next;
            done |= ev->kind == VL_EVENT_DONE || ev->kind == VL_EVENT_FAILED;
            if (ev->kind == VL_EVENT_FAILED) {
                rc = ev->error.status;
                if (err != NULL)
                    *err = ev->error;
            }
            vl_event_free(ev);
        }
    }
    vl_request_release(r);
    vl_event_queue_destroy(q);
    pthread_mutex_lock(&e->lock);
    vl_stats_init(&e->stats); /* the warm-up is nobody's request */
    pthread_mutex_unlock(&e->lock);
    return rc;
}

vl_status vl_engine_health(vl_engine *e, vl_error *err)
{
    pthread_mutex_lock(&e->lock);
    vl_error why = e->health;
    bool bad = e->unhealthy;
    pthread_mutex_unlock(&e->lock);
    if (!bad)
        return VL_OK;
    return vl_error_set(err, VL_E_DEVICE, "%s", why.text);
}

const vl_model_info *vl_engine_model_info(const vl_engine *e)
{
    return &e->info;
}
