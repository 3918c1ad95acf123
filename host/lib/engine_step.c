/* host/lib/engine_step.c: the rows of the next step.
 *
 * A step holds a decode row of every answer that may go on, and prompt pieces within a budget: the
 * whole step when nothing decodes, else prefill_tokens, so that running streams keep their pace.
 * The budget is shared out, shortest rest first: short prompts are through soon, long ones get what
 * is left and at least a piece of the grid. Nothing is booked before the model has taken the step.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "host/lib/engine_private.h"
#include "host/lib/log.h"

/* A step being built. */
struct build {
    size_t n_rows;
    size_t n_decode; /* the first rows are those that decode */
};

static bool forcing(const struct vl_answer *a)
{
    return a->force_at < a->n_force;
}

/* Reasoning tokens may run out within the steps under way and one more. */
static bool budget_near(const vl_engine *e, const struct vl_answer *a)
{
    const vl_request *r = a->request;

    if (r->close_ids == NULL || a->closed_thought ||
        vl_output_state(a->output) != VL_CHAT_REASONING)
        return false;
    uint64_t most = (uint64_t)(a->in_flight + 1) * e->info.max_step_ids;
    return vl_output_reasoning_tokens(a->output) + most > (uint64_t)r->p.thinking_budget;
}

/* The thought has used its budget: what closes it comes next. Only with nothing in flight. */
static void close_thought(struct vl_answer *a)
{
    const vl_request *r = a->request;

    if (r->close_ids == NULL || a->closed_thought || forcing(a) || a->n_replay > 0 ||
        vl_output_state(a->output) != VL_CHAT_REASONING ||
        vl_output_reasoning_tokens(a->output) < (uint64_t)r->p.thinking_budget)
        return;
    a->force = r->close_ids;
    a->n_force = r->n_close_ids;
    a->force_at = 0;
    a->closed_thought = true;
}

static uint32_t *mask_of(vl_engine *e, size_t row)
{
    if (e->masks == NULL) {
        e->masks = calloc((size_t)e->info.max_sequences * e->mask_words, sizeof *e->masks);
        if (e->masks == NULL)
            return NULL;
    }
    uint32_t *m = e->masks + row * e->mask_words;
    memset(m, 0, e->mask_words * sizeof *m);
    return m;
}

/* The mask of a row that samples. True: the row may be added. */
static bool set_mask(vl_engine *e, struct vl_answer *a, vl_row *row, size_t at, vl_error *err)
{
    const vl_request *r = a->request;
    bool free_run = false;

    row->mask = NULL;
    bool one = a->mask_state == NULL && e->info.max_step_ids > 1 && budget_near(e, a);
    if ((a->mask_state == NULL && !one) || a->n_replay > 0)
        return true;
    uint32_t *m = mask_of(e, at);
    if (m == NULL) {
        vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
        return false;
    }
    if (one) { /* the budget is counted in tokens, not in steps */
        memset(m, 0xff, e->mask_words * sizeof *m);
        row->mask = m;
        return true;
    }
    int use = r->p.mask->mask(a->mask_state, vl_output_state(a->output), m, e->mask_words,
                              &free_run, err);
    a->free_run = use == 0 && free_run;
    /* Nothing is ruled out now, but perhaps after the next token: a row with a mask gives no more
     * than one. */
    if (use == 0 && !free_run && e->info.max_step_ids > 1)
        memset(m, 0xff, e->mask_words * sizeof *m);
    if (use > 0 || (use == 0 && !free_run && e->info.max_step_ids > 1))
        row->mask = m;
    return use >= 0;
}

static bool wants_decode(const vl_engine *e, const struct vl_answer *a)
{
    if (a->phase != ANSWER_DECODE || a->stopped ||
        atomic_load_explicit(&a->request->paused, memory_order_relaxed))
        return false;
    /* Every row gives one id at least: more rows than ids that may come are wasted. */
    if (a->in_flight > 0 && a->n_out + a->in_flight >= a->request->max_tokens)
        return false;
    /* What the host must look at before it can go on. */
    bool watched = forcing(a) || a->n_replay > 0 || (a->mask_state != NULL && !a->free_run) ||
                   budget_near(e, a);
    return a->in_flight == 0 || !watched;
}

/* False: the request failed while its row was made (the list of active answers has changed). */
static bool add_decode(vl_engine *e, struct build *b, struct vl_answer *a)
{
    vl_row *row = &e->rows[b->n_rows];
    vl_error err = {0};

    *row = (vl_row){.sequence = a->seq, .kind = VL_ROW_DECODE};
    if (a->in_flight == 0)
        close_thought(a);
    if (forcing(a)) {
        size_t n = a->n_force - a->force_at;
        row->kind = VL_ROW_FORCED;
        row->ids = a->force + a->force_at;
        row->n_ids = n < e->info.step_tokens ? n : e->info.step_tokens;
    } else if (!set_mask(e, a, row, b->n_rows, &err)) {
        vl_request_fail(e, a->request, &err);
        return false;
    }
    e->row_of[b->n_rows++] = a;
    b->n_decode = b->n_rows;
    return true;
}

/* Collects the answers with prompt left, shortest rest first. */
static size_t prefill_list(vl_engine *e, struct vl_answer **list)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n_active; i++) {
        struct vl_answer *a = e->active[i];
        if (a->phase != ANSWER_PREFILL ||
            atomic_load_explicit(&a->request->paused, memory_order_relaxed))
            continue;
        size_t k = n++;
        size_t rest = a->request->n_prompt - a->n_read;
        for (; k > 0 && list[k - 1]->request->n_prompt - list[k - 1]->n_read > rest; k--)
            list[k] = list[k - 1];
        list[k] = a;
    }
    return n;
}

/* The length of a piece of at most `most` ids: up to the next place of a snapshot, and on the grid
 * unless it is the prompt's end. */
static size_t piece(const vl_engine *e, const struct vl_answer *a, uint64_t most)
{
    uint64_t end = vl_cache_next_cut(e, a);
    uint64_t want = end - a->n_read;

    if (want <= most)
        return (size_t)want;
    uint64_t cut = (a->n_read + most) / e->grid * e->grid;
    return (size_t)(cut > a->n_read ? cut - a->n_read : most);
}

static bool add_prefill(vl_engine *e, struct build *b, struct vl_answer *a, size_t n)
{
    const vl_request *r = a->request;
    vl_row *row = &e->rows[b->n_rows];
    vl_error err = {0};

    *row = (vl_row){.sequence = a->seq, .kind = VL_ROW_PREFILL, .n_ids = n};
    if ((r->p.flags & VL_REQUEST_PROMPT_LOGPROBS) != 0 && a->index == 0)
        row->flags |= VL_ROW_PROMPT_LOGPROBS;
    if (a->n_read + n == r->n_prompt) {
        row->flags |= VL_ROW_LAST;
        if (forcing(a)) { /* a mask that leaves one id */
            uint32_t *m = mask_of(e, b->n_rows);
            int32_t id = a->force[a->force_at];
            if (m == NULL || (size_t)id / 32 >= e->mask_words) {
                vl_error_set(&err, VL_E_NOMEM, "forced token %d: out of memory", id);
                vl_request_fail(e, a->request, &err);
                return false;
            }
            m[id / 32] |= 1u << (id % 32);
            row->mask = m;
        } else if (!set_mask(e, a, row, b->n_rows, &err)) {
            vl_request_fail(e, a->request, &err);
            return false;
        }
    }
    e->row_of[b->n_rows++] = a;
    return true;
}

/* False: start again, a request failed. */
static bool add_prefills(vl_engine *e, struct build *b)
{
    struct vl_answer **list = e->prefill_list;
    size_t n = prefill_list(e, list);
    uint64_t left = e->info.step_tokens;

    /* A whole step of prompt is not run ahead: a short request that comes meanwhile would wait for
     * two of them. Long steps leave the device no gap that counts. */
    if (b->n_decode == 0 && e->n_steps > 0)
        return true;
    if (b->n_decode > 0 && e->p.prefill_tokens < left)
        left = e->p.prefill_tokens;
    for (size_t i = 0; i < n && left > 0; i++) {
        uint64_t share = left / (n - i);
        if (share < e->grid)
            share = e->grid < left ? e->grid : left;
        size_t take = piece(e, list[i], share);
        if (!add_prefill(e, b, list[i], take))
            return false;
        left -= take;
    }
    return true;
}

/* ---- after the model has taken the step ---- */

static void book_row(vl_engine *e, struct vl_answer *a, const vl_row *row)
{
    a->in_flight++;
    if (row->kind == VL_ROW_FORCED) {
        a->force_at += (size_t)row->n_ids;
    } else if (row->kind == VL_ROW_PREFILL) {
        a->n_read += (size_t)row->n_ids;
        if ((row->flags & VL_ROW_LAST) != 0) {
            a->phase = ANSWER_DECODE;
            if (forcing(a))
                a->force_at++;
        } else {
            vl_cache_prefill_done(e, a);
        }
    }
}

static void book(vl_engine *e, const struct build *b, uint64_t ticket)
{
    struct vl_step *s = &e->steps[(e->first_step + e->n_steps) % e->max_steps];

    s->ticket = ticket;
    s->n_rows = b->n_rows;
    memcpy(s->answers, e->row_of, b->n_rows * sizeof(struct vl_answer *));
    e->n_steps++;
    pthread_mutex_lock(&e->lock);
    e->stats.steps++;
    pthread_mutex_unlock(&e->lock);
    for (size_t i = 0; i < b->n_rows; i++)
        book_row(e, e->row_of[i], &e->rows[i]);
}

/* ---- when the pool has no page ---- */

/* The one that gives way: a paused one first, else the youngest. */
static struct vl_answer *victim(const vl_engine *e)
{
    struct vl_answer *v = NULL;
    bool v_paused = false;

    for (size_t i = 0; i < e->n_active; i++) {
        struct vl_answer *a = e->active[i];
        bool paused = atomic_load_explicit(&a->request->paused, memory_order_relaxed);
        if (v == NULL || (paused && !v_paused) || (paused == v_paused && a->order > v->order)) {
            v = a;
            v_paused = paused;
        }
    }
    return v;
}

/* Makes room. True: call again; false: wait for the steps under way. */
static bool make_room(vl_engine *e, const vl_error *why)
{
    if (e->prefix != NULL && vl_prefix_evict(e->prefix))
        return true;
    if (e->n_steps > 0)
        return false; /* what is in flight may end and free pages; and a victim must have nothing
                         there */
    if (e->n_active > 1)
        vl_answer_preempt(e, victim(e));
    else
        vl_request_fail(e, e->active[0]->request, why);
    return true;
}

/* Of several prompt pieces only that of the answer begun first: so one of them always gets on. */
static void keep_oldest(vl_engine *e, struct build *b)
{
    size_t oldest = 0;

    for (size_t i = 1; i < b->n_rows; i++) {
        if (e->row_of[i]->order < e->row_of[oldest]->order)
            oldest = i;
    }
    e->rows[0] = e->rows[oldest];
    e->row_of[0] = e->row_of[oldest];
    b->n_rows = 1;
}

/* Submits what was built; without the prompt pieces when the pool has no room for them. */
static bool submit(vl_engine *e, struct build *b)
{
    vl_error err = {0};
    uint64_t ticket = 0;

    for (;;) {
        vl_status rc = e->p.model_api->submit(e->p.model, e->rows, b->n_rows, &ticket, &err);
        if (rc == VL_OK) {
            book(e, b, ticket);
            return true;
        }
        if (rc == VL_E_BUSY && e->n_steps > 0)
            return false;
        if (rc != VL_E_NOMEM) {
            err.status = rc;
            vl_engine_fail_all(e, &err);
            return true;
        }
        if (e->prefix != NULL && vl_prefix_evict(e->prefix))
            continue;
        if (b->n_decode > 0 && b->n_decode < b->n_rows)
            b->n_rows = b->n_decode;
        else if (b->n_decode == 0 && b->n_rows > 1)
            keep_oldest(e, b);
        else
            return make_room(e, &err);
    }
}

bool vl_engine_submit(vl_engine *e)
{
    struct build b = {0, 0};

    /* From the back: a request that fails takes itself out of the list. */
    for (size_t i = e->n_active; i-- > 0;) {
        if (i < e->n_active && wants_decode(e, e->active[i]) && !add_decode(e, &b, e->active[i]))
            return true;
    }
    if (!add_prefills(e, &b))
        return true;
    return b.n_rows > 0 && submit(e, &b);
}
