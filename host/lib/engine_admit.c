/* host/lib/engine_admit.c: the waiting list, and which answers get a slot when one is free.
 *
 * Order: priority, then arrival. An answer begins when the pool has room for its whole prompt, or
 * nothing else runs. One that was preempted waits in the same list and reads its outputs again as
 * forced ids. */
#include <stdlib.h>

#include "base/error.h"
#include "host/lib/engine_private.h"
#include "host/lib/log.h"

static bool before(const vl_request *a, const vl_request *b)
{
    return a->p.priority != b->p.priority ? a->p.priority > b->p.priority : a->number < b->number;
}

void vl_engine_enqueue(vl_engine *e, vl_request *r)
{
    vl_request **at = &e->waiting;

    while (*at != NULL && !before(r, *at))
        at = &(*at)->next;
    r->next = *at;
    *at = r;
}

/* The request's next answer that could begin now, or NULL. */
static struct vl_answer *startable(vl_request *r)
{
    for (uint32_t i = 0; i < r->n_answers; i++) {
        struct vl_answer *a = &r->answers[i];
        if (a->phase != ANSWER_WAITING)
            continue;
        /* The first answer of several reads the prompt; its snapshot is what the others begin from.
         */
        if (i > 0 && r->fork_place > 0 && r->fork == NULL && !r->fork_failed &&
            r->answers[0].phase != ANSWER_ENDED &&
            (r->answers[0].phase == ANSWER_WAITING || r->answers[0].n_read < r->fork_place))
            return NULL;
        /* Rows of its former sequence must be back before it may begin again. */
        if (a->in_flight == 0)
            return a;
    }
    return NULL;
}

static bool any_waits(const vl_request *r)
{
    for (uint32_t i = 0; i < r->n_answers; i++) {
        if (r->answers[i].phase == ANSWER_WAITING)
            return true;
    }
    return false;
}

/* Tokens free in the pool for this one's prompt, outputs read before, and a page each for those
 * that run. */
static bool pool_has_room(vl_engine *e, const struct vl_answer *a, uint64_t from)
{
    uint64_t all, unused;
    uint64_t want = a->request->n_prompt + a->n_out - from + 64 * (uint64_t)(e->n_active + 1);

    for (;;) {
        e->p.model_api->pool(e->p.model, &all, &unused);
        if (unused >= want)
            return true;
        if (e->prefix == NULL || !vl_prefix_evict(e->prefix))
            return false;
    }
}

static void tell_started(vl_engine *e, vl_request *r, uint64_t cached)
{
    double now = vl_now_s();

    r->first_step_s = now;
    r->cached_tokens = cached;
    r->told_started = true;
    vl_event *ev = vl_event_make(VL_EVENT_STARTED, r->user, NULL, 0, 0, 0);
    if (ev != NULL) {
        ev->usage = (struct vl_usage){r->n_prompt, cached, 0, 0};
        ev->queue_ms = (now - r->submit_s) * 1e3;
        vl_event_queue_post(r->queue, ev);
    }
    pthread_mutex_lock(&e->lock);
    e->stats.requests_running++;
    r->is_running = true;
    e->stats.prompt_tokens += r->n_prompt;
    e->stats.cached_prompt_tokens += cached;
    vl_histogram_add(&e->stats.prompt_length, (double)r->n_prompt);
    pthread_mutex_unlock(&e->lock);
}

/* What must come before the model is asked: outputs read before a preemption, or the end of a
 * thought whose budget is 0. */
static void set_force(struct vl_answer *a)
{
    const vl_request *r = a->request;

    a->force = NULL;
    a->n_force = a->force_at = 0;
    a->stopped = a->want_preempt = a->free_run = false;
    /* Preempted amid the ids that close a thought: they come again. */
    if (a->closed_thought && vl_output_state(a->output) == VL_CHAT_REASONING)
        a->closed_thought = false;
    if (a->n_out > 0) {
        a->force = a->out;
        a->n_force = a->n_replay = a->n_out;
    } else if (r->close_ids != NULL && r->p.thinking_budget == 0 &&
               r->start_state == VL_CHAT_REASONING) {
        a->force = r->close_ids;
        a->n_force = r->n_close_ids;
        a->closed_thought = true;
    }
}

/* VL_E_NOMEM: not now. Any other failure is the request's end. */
static vl_status begin(vl_engine *e, struct vl_answer *a, vl_error *err)
{
    vl_request *r = a->request;
    uint64_t from = 0, common = 0;
    const vl_snapshot *snapshot = vl_cache_find(e, a, &from, &common);

    if (e->n_active > 0 && !pool_has_room(e, a, from))
        return VL_E_NOMEM;
    snapshot = vl_cache_find(e, a, &from, &common); /* again: making room may have dropped it */
    r->sampling.choice = (int32_t)a->index;
    vl_sequence_params sp = {
        .struct_size = sizeof sp,
        .sampling = &r->sampling,
        .prompt = r->prompt,
        .n_prompt = r->n_prompt,
        .stop_ids = r->stop_ids,
        .n_stop_ids = r->n_stop_ids,
        .min_tokens = r->p.min_tokens,
        .max_tokens = r->max_tokens,
        .snapshot = snapshot,
    };
    vl_status rc = e->p.model_api->sequence_begin(e->p.model, &sp, &a->seq, err);
    if (rc != VL_OK) {
        a->seq = NULL;
        return rc;
    }
    a->phase = ANSWER_PREFILL;
    a->n_read = (size_t)from;
    a->next_place = 0;
    while (a->next_place < r->n_places && r->places[a->next_place] <= from)
        a->next_place++;
    /* Begun past the fork's place: the other answers find their own way. */
    if (a->index == 0 && r->fork_place > 0 && from >= r->fork_place && r->fork == NULL)
        r->fork_failed = true;
    vl_cache_count(e, a, from, common);
    a->order = e->next_order++;
    if (a->index == 0 && r->n_prompt_logprobs + 1 < r->n_prompt)
        r->n_prompt_logprobs = 0;
    if (a->first_step_s == 0) /* a preempted answer began once already */
        a->first_step_s = vl_now_s();
    set_force(a);
    e->active[e->n_active++] = a;
    if (!r->told_started)
        tell_started(e, r, from);
    return VL_OK;
}

void vl_engine_admit(vl_engine *e)
{
    vl_request **at = &e->waiting;

    /* Whoever gave way would take the pages that it gave, and give way again, for ever. */
    if (e->hold_admit && e->n_active > 0)
        return;
    while (*at != NULL && e->n_active < e->info.max_sequences) {
        vl_request *r = *at;
        struct vl_answer *a = startable(r);
        vl_error err = {0};
        if (a == NULL) {
            at = &r->next;
            continue;
        }
        vl_status rc = begin(e, a, &err);
        if (rc == VL_E_NOMEM && e->n_active > 0)
            return; /* those behind it wait too: a long prompt must get its turn */
        if (rc == VL_E_BUSY && (e->n_active > 0 || e->n_steps > 0))
            return;
        if (rc == VL_E_DEVICE) {
            vl_engine_fail_all(e, &err);
            return;
        }
        if (rc != VL_OK) {
            vl_request_fail(e, r, &err);
            at = &e->waiting;
            continue;
        }
        if (!any_waits(r)) {
            if (r->fork != NULL)
                e->snapshots->drop(e->p.model, r->fork);
            r->fork = NULL;
            r->fork_failed = true; /* one that is preempted later looks in the cache */
            *at = r->next;
            r->next = e->running;
            e->running = r;
        }
    }
}

/* Gives its slot and pages back; nothing of it is lost: what it has written is read again when its
 * turn comes. */
void vl_answer_preempt(vl_engine *e, struct vl_answer *a)
{
    vl_request *r = a->request;
    bool listed = any_waits(r);

    vl_log(VL_LOG_INFO, "engine",
           "request=%s preempted choice=%u prompt_tokens=%zu output_tokens=%zu", r->name, a->index,
           r->n_prompt, a->n_out);
    vl_answer_release_slot(e, a);
    e->hold_admit = true;
    a->phase = ANSWER_WAITING;
    a->n_read = 0;
    a->n_replay = 0;
    pthread_mutex_lock(&e->lock);
    e->stats.preemptions++;
    pthread_mutex_unlock(&e->lock);
    if (listed)
        return;
    for (vl_request **at = &e->running; *at != NULL; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            break;
        }
    }
    vl_engine_enqueue(e, r);
}
