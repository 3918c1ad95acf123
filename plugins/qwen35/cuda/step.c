/* plugins/qwen35/cuda/step.c: steps: rows in, results out. Prefill pieces run eagerly one after
 * another, then all decode rows as one graph; nothing waits for the device but forced rows, whose
 * pending token only the device may know. [engine] */
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "plugins/qwen35/cuda/model.h"

static int *order_of(vl_q35_cuda *m, uint64_t ticket)
{
    return (int *)(void *)(m->orders + ticket % VL_RING_SLOTS * m->order_bytes);
}
static int32_t *ids_of(vl_q35_cuda *m, uint64_t ticket)
{
    return m->ids_in + ticket % VL_RING_SLOTS * (m->step_tokens + (uint64_t)m->s.n_rows);
}
static vl_logprob *prompt_lp_of(vl_q35_cuda *m, uint64_t ticket)
{
    return m->prompt_lp + ticket % VL_RING_SLOTS * m->step_tokens * (1 + VL_TOP_LOGPROBS);
}

static vl_status check_row(const vl_q35_cuda *m, const vl_row *row, uint64_t *tokens, vl_error *err)
{
    const struct vl_q35_seq *s = vl_q35_seq_of(row->sequence);
    if (s == NULL || !s->used)
        return vl_error_set(err, VL_E_INVALID, "a row without a running sequence");
    switch (row->kind) {
    case VL_ROW_PREFILL:
        if (s->decoding || row->n_ids == 0 || row->n_ids > s->n_prompt - s->position)
            return vl_error_set(
                err, VL_E_STATE, "prefill of %llu ids at %llu of a prompt of %llu%s",
                (unsigned long long)row->n_ids, (unsigned long long)s->position,
                (unsigned long long)s->n_prompt, s->decoding ? ", which is read" : "");
        if (((row->flags & VL_ROW_LAST) != 0) != (row->n_ids == s->n_prompt - s->position))
            return vl_error_set(
                err, VL_E_STATE,
                "the last piece of a prompt, and no other, is marked so: %llu ids at %llu of %llu",
                (unsigned long long)row->n_ids, (unsigned long long)s->position,
                (unsigned long long)s->n_prompt);
        if ((row->flags & VL_ROW_PROMPT_LOGPROBS) && s->position > 0 && !s->has_last_x)
            return vl_error_set(
                err, VL_E_STATE,
                "prompt log probabilities need the prompt read from its start, not from %llu",
                (unsigned long long)s->position);
        *tokens += row->n_ids;
        return VL_OK;
    case VL_ROW_DECODE:
    case VL_ROW_FORCED:
        if (!s->decoding)
            return vl_error_set(err, VL_E_STATE, "decode before the prompt is read: %llu of %llu",
                                (unsigned long long)s->position, (unsigned long long)s->n_prompt);
        if (row->kind == VL_ROW_FORCED) {
            if (row->n_ids == 0 || row->ids == NULL)
                return vl_error_set(err, VL_E_INVALID, "a forced row without ids");
            for (uint64_t i = 0; i < row->n_ids; i++)
                if (row->ids[i] < 0 || row->ids[i] >= m->s.vocab)
                    return vl_error_set(err, VL_E_INVALID,
                                        "forced id %d, the model has ids 0 to %lld",
                                        (int)row->ids[i], (long long)m->s.vocab - 1);
            *tokens += row->n_ids;
        }
        return VL_OK;
    default:
        return vl_error_set(err, VL_E_INVALID, "row kind %d", (int)row->kind);
    }
}

/* Tokens the sequence will hold when the row is done. */
static uint64_t tokens_after(const vl_row *row)
{
    const struct vl_q35_seq *s = vl_q35_seq_of(row->sequence);
    if (s->stop != VL_STOP_NONE)
        return s->position;
    return s->position + (row->kind == VL_ROW_DECODE ? 1 : row->n_ids);
}

static vl_status check_rows(vl_q35_cuda *m, const vl_row *rows, uint64_t n_rows, vl_error *err)
{
    uint64_t tokens = 0, pages = 0;
    if (n_rows == 0 || n_rows > (uint64_t)m->s.n_rows)
        return vl_error_set(err, VL_E_INVALID, "%llu rows in a step, 1 to %lld fit",
                            (unsigned long long)n_rows, (long long)m->s.n_rows);
    if (m->next_ticket - m->next_collect >= VL_Q35_IN_FLIGHT)
        return vl_error_set(err, VL_E_BUSY, "%d steps are under way", VL_Q35_IN_FLIGHT);
    for (uint64_t i = 0; i < n_rows; i++) {
        vl_status rc = check_row(m, &rows[i], &tokens, err);
        if (rc != VL_OK)
            return rc;
        struct vl_q35_seq *s = vl_q35_seq_of(rows[i].sequence);
        if (s->stamp == m->next_ticket + 1 && i > 0)
            for (uint64_t j = 0; j < i; j++)
                if (vl_q35_seq_of(rows[j].sequence) == s)
                    return vl_error_set(err, VL_E_INVALID, "two rows of one sequence in a step");
        s->stamp = m->next_ticket + 1;
        uint64_t want = tokens_after(&rows[i]);
        want = ((want < s->context ? want : s->context) + VL_Q35_PAGE - 1) / VL_Q35_PAGE;
        pages += want > s->n_pages ? want - s->n_pages : 0;
    }
    if (tokens > m->step_tokens)
        return vl_error_set(err, VL_E_INVALID, "%llu prompt tokens in a step, at most %llu",
                            (unsigned long long)tokens, (unsigned long long)m->step_tokens);
    if (pages > vl_pages_free(m->pages))
        return vl_error_set(err, VL_E_NOMEM, "the rows need %llu pages of %d tokens, %llu are free",
                            (unsigned long long)pages, VL_Q35_PAGE,
                            (unsigned long long)vl_pages_free(m->pages));
    return VL_OK;
}

/* The masks of a step, where its kernels look for them. */
static void put_masks(vl_q35_cuda *m, const vl_row *rows, uint64_t n_rows)
{
    uint32_t *masks =
        (uint32_t *)(void *)(m->masks + m->next_ticket % VL_RING_SLOTS * m->mask_bytes);
    const size_t words = (size_t)vl_q35_mask_words(&m->s);
    for (uint64_t i = 0; i < n_rows; i++)
        if (rows[i].mask != NULL)
            memcpy(masks + i * words, rows[i].mask, words * 4);
}

/* Passes of up to a chunk over ids[0..n) at s->position. lp: log probabilities are wanted; returns
 * the ids described. */
static uint64_t run_pieces(vl_q35_run *r, struct vl_q35_seq *s, const int32_t *ids, uint64_t n,
                           uint64_t place, int mask, bool lp, vl_logprob *lp_out, int *last)
{
    vl_q35_cuda *m = r->m;
    uint64_t described = 0;
    const int k = s->n_logprobs > 0 ? s->n_logprobs : 0;
    for (uint64_t at = 0; at < n && r->rc == VL_OK; at += m->chunk) {
        const int now = (int)(n - at < m->chunk ? n - at : m->chunk);
        const int pos = (int)(s->position + at);
        vl_q35_forward_prefill(r, ids + at, now, s->slot, pos, (int)place, mask);
        if (lp && s->has_last_x && pos > 0) {
            vl_q35_forward_logprobs(r, vl_q35_last_x(m, s->slot), 1, ids + at, k,
                                    lp_out + described * (uint64_t)(1 + k));
            described++;
        }
        if (lp && now > 1) {
            vl_q35_forward_logprobs(r, m->w.x, now - 1, ids + at + 1, k,
                                    lp_out + described * (uint64_t)(1 + k));
            described += (uint64_t)now - 1;
        }
        vl_q35_copy(r, vl_q35_last_x(m, s->slot), m->w.x + (int64_t)(now - 1) * m->s.hidden,
                    (size_t)m->s.hidden * 4, "keeping a row");
        s->has_last_x = true;
        *last = now;
    }
    return described;
}

static void prefill_row(vl_q35_run *r, const vl_row *row, uint64_t place, int32_t **ids,
                        uint64_t *lp_used)
{
    vl_q35_cuda *m = r->m;
    struct vl_q35_seq *s = vl_q35_seq_of(row->sequence);
    struct vl_q35_ticket_row *t = &m->tickets[m->next_ticket % VL_RING_SLOTS].rows[place];
    int last = 0;
    memcpy(*ids, s->prompt + s->position, (size_t)row->n_ids * 4);
    t->lp = *lp_used;
    vl_logprob *lp = prompt_lp_of(m, m->next_ticket) + *lp_used;
    t->n_prompt_lp = run_pieces(r, s, *ids, row->n_ids, place, row->mask != NULL,
                                (row->flags & VL_ROW_PROMPT_LOGPROBS) != 0, lp, &last);
    *lp_used += t->n_prompt_lp * (uint64_t)(1 + (s->n_logprobs > 0 ? s->n_logprobs : 0));
    *ids += row->n_ids;
    s->position += row->n_ids;
    t->position = s->position;
    if (row->flags & VL_ROW_LAST) {
        vl_q35_forward_sample_last(r, last);
        t->sampled = 1;
        s->decoding = true;
    }
}

/* How many forced ids are taken: up to and with the first that stops the sequence; its stop goes
 * into the record. */
static uint64_t take_forced(vl_slot *slot, const int32_t *ids, uint64_t n)
{
    uint64_t taken = 0;
    while (taken < n && slot->stop == VL_STOP_NONE) {
        const int id = ids[taken++];
        slot->pos++;
        slot->n_out++;
        slot->pending = id;
        for (int i = 0; i < slot->n_stop; i++)
            if (slot->stop_ids[i] == id)
                slot->stop = VL_STOP_ID;
        if (slot->stop == VL_STOP_NONE)
            slot->stop = slot->n_out >= slot->max_out     ? VL_STOP_LIMIT
                         : slot->pos + 1 >= slot->context ? VL_STOP_CONTEXT
                                                          : VL_STOP_NONE;
    }
    return taken;
}

/* Log probabilities of the forced ids, from the rows of the pass that read what stands before each
 * (at most one pass). */
static void forced_logprobs(vl_q35_run *r, const struct vl_q35_ticket_row *t, const int32_t *ids,
                            uint64_t n, uint64_t *lp_used)
{
    vl_q35_forward_logprobs(r, r->m->w.x, (int)n, ids, t->n_logprobs,
                            prompt_lp_of(r->m, r->m->next_ticket) + *lp_used);
    *lp_used += n * (uint64_t)(1 + t->n_logprobs);
}

/* Reads the pending token and all but the last of the ids taken; that one is pending then. */
static void forced_row(vl_q35_run *r, const vl_row *row, uint64_t place, int32_t **ids,
                       uint64_t *lp_used)
{
    vl_q35_cuda *m = r->m;
    struct vl_q35_seq *s = vl_q35_seq_of(row->sequence);
    vl_q35_ticket *ticket = &m->tickets[m->next_ticket % VL_RING_SLOTS];
    struct vl_q35_ticket_row *t = &ticket->rows[place];
    vl_slot slot;
    int last = 0;
    if (r->rc == VL_OK)
        r->rc = vl_q35_sequence_sync(m, s, &slot, r->err);
    if (r->rc != VL_OK)
        return;
    int32_t *in = *ids; /* pinned: the pending id, then those that are forced */
    in[0] = slot.pending;
    const uint64_t n = take_forced(&slot, row->ids, row->n_ids);
    memcpy(in + 1, row->ids, (size_t)n * 4);
    memcpy(ticket->forced_ids + t->forced_at, row->ids, (size_t)n * 4);
    *ids += n + 1;
    t->lp = *lp_used;
    for (uint64_t at = 0; at < n; at += m->chunk) {
        const uint64_t now = n - at < m->chunk ? n - at : m->chunk;
        (void)run_pieces(r, s, in + at, now, place, 0, false, NULL, &last);
        if (t->n_logprobs >= 0)
            forced_logprobs(r, t, in + 1 + at, now, lp_used);
        s->position += now;
    }
    if (n > 0) {
        vl_q35_copy(r, &m->slots[s->slot], &slot, sizeof(slot), "copying a sequence's record");
        if (slot.counts) {
            int count = (int)n, output = 1;
            uint32_t *counts = m->counts + (int64_t)s->slot * m->s.vocab;
            int *forced = in + 1;
            vl_q35_launch(r, VL_K_MARK_IDS, (uint32_t)(n + 255) / 256, 1, 1,
                          (void *[]){&forced, &counts, &count, &output});
        }
    }
    s->stop = slot.stop;
    t->n_forced = n;
    t->position = s->position;
    t->stop = s->stop;
}

/* Room for all forced ids of the step, and each row's place in it. */
static vl_status place_forced(vl_q35_ticket *t, const vl_row *rows, uint64_t n_rows, vl_error *err)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < n_rows; i++) {
        t->rows[i].forced_at = n;
        if (rows[i].kind == VL_ROW_FORCED)
            n += rows[i].n_ids;
    }
    if (!vl_grow(&t->forced_ids, &t->forced_cap, (size_t)n, sizeof(*t->forced_ids)))
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    return VL_OK;
}

static void begin_ticket(vl_q35_cuda *m, const vl_row *rows, uint64_t n_rows)
{
    vl_q35_ticket *t = &m->tickets[m->next_ticket % VL_RING_SLOTS];
    t->n_rows = n_rows;
    for (uint64_t i = 0; i < n_rows; i++) {
        struct vl_q35_ticket_row *r = &t->rows[i];
        const struct vl_q35_seq *s = vl_q35_seq_of(rows[i].sequence);
        memset(r, 0, sizeof(*r));
        r->slot = s->slot;
        r->generation = s->generation;
        r->n_logprobs = s->n_logprobs;
        r->stop = s->stop;
        r->position = s->position;
        r->sampled = rows[i].kind == VL_ROW_DECODE;
    }
}

/* Writes the orders of a step: pages for all rows, and the list of those that decode (their number
 * is returned). */
static vl_status put_orders(vl_q35_cuda *m, const vl_row *rows, uint64_t n_rows, uint64_t *n_decode,
                            vl_error *err)
{
    int *head = order_of(m, m->next_ticket);
    int *slots = (int *)(void *)((vl_page_entry *)(head + 4) + VL_STEP_PAGES),
        *places = slots + m->s.n_rows, *masks = places + m->s.n_rows;
    head[0] = 0;
    *n_decode = 0;
    for (uint64_t i = 0; i < n_rows; i++) {
        struct vl_q35_seq *s = vl_q35_seq_of(rows[i].sequence);
        vl_status rc = vl_q35_sequence_grow(m, s, tokens_after(&rows[i]), err);
        if (rc != VL_OK)
            return rc;
        if (rows[i].kind != VL_ROW_DECODE)
            continue;
        slots[*n_decode] = s->slot;
        places[*n_decode] = (int)i;
        masks[*n_decode] = rows[i].mask != NULL;
        ++*n_decode;
        if (s->stop == VL_STOP_NONE)
            s->position++;
    }
    head[1] = (int)*n_decode;
    return VL_OK;
}

vl_status vl_q35_cuda_submit(vl_q35_model *model, const vl_row *rows, uint64_t n_rows,
                             uint64_t *ticket, vl_error *err)
{
    vl_q35_cuda *m = vl_q35_of(model);
    vl_q35_ticket *t = &m->tickets[m->next_ticket % VL_RING_SLOTS];
    uint64_t n_decode = 0, lp_used = 0;
    vl_error local;
    err = err != NULL ? err : &local;
    vl_status rc = vl_q35_cuda_health(model, err);
    if (rc == VL_OK)
        rc = check_rows(m, rows, n_rows, err);
    if (rc == VL_OK)
        rc = vl_cuda_use(&m->c, err);
    if (rc != VL_OK)
        return rc;
    begin_ticket(m, rows, n_rows);
    rc = place_forced(t, rows, n_rows, err);
    if (rc == VL_OK)
        rc = put_orders(m, rows, n_rows, &n_decode, err);
    if (rc != VL_OK)
        return rc;
    put_masks(m, rows, n_rows);
    vl_q35_run r = {m, VL_OK, err};
    int32_t *ids = ids_of(m, m->next_ticket);
    if (n_decode < n_rows)
        vl_q35_forward_begin(&r, n_decode == 0);
    for (uint64_t i = 0; i < n_rows; i++) {
        if (rows[i].kind == VL_ROW_PREFILL)
            prefill_row(&r, &rows[i], i, &ids, &lp_used);
        else if (rows[i].kind == VL_ROW_FORCED)
            forced_row(&r, &rows[i], i, &ids, &lp_used);
    }
    if (n_decode > 0)
        vl_q35_graph_run(&r, n_decode);
    if (r.rc == VL_OK)
        r.rc = vl_ring_close(&m->ring_out, m->next_ticket, m->c.stream, err);
    if (r.rc != VL_OK) /* half a step is under way: its sequences cannot be trusted any more */
        return vl_q35_cuda_fail(m, r.rc == VL_E_NOMEM ? VL_E_DEVICE : r.rc, err);
    *ticket = m->next_ticket++;
    return VL_OK;
}

/* ---- results ---- */

/* Log probabilities of one sampled id into lp[0..k]. */
static void sampled_logprobs(const vl_row_out *o, int32_t k, vl_logprob *lp)
{
    lp[0] = (vl_logprob){o->id, o->logprob};
    for (int32_t i = 0; i < k; i++)
        lp[1 + i] = (vl_logprob){o->top_id[i], o->top_logprob[i]};
}

static void sampled_result(vl_q35_cuda *m, const struct vl_q35_ticket_row *t, const vl_row_out *o,
                           uint64_t i, vl_row_result *res)
{
    struct vl_q35_seq *s = &m->sequences[t->slot];
    res->position = (uint64_t)o->pos;
    res->stop = o->stop;
    if (o->stop != VL_STOP_NONE) {
        s->stop = o->stop;
        s->position = (uint64_t)o->pos;
    }
    if (o->stop == VL_STOP_FAULT) {
        res->status = o->fault == 2 ? VL_E_STATE : VL_E_INVALID;
        return;
    }
    if (o->id < 0)
        return;
    m->out_ids[i] = o->id;
    res->ids = &m->out_ids[i];
    res->n_ids = 1;
    if (t->n_logprobs >= 0) {
        vl_logprob *lp = m->out_lp + i * (1 + VL_TOP_LOGPROBS);
        sampled_logprobs(o, t->n_logprobs, lp);
        res->logprobs = lp;
    }
}

static vl_status result_memory(vl_q35_cuda *m, uint64_t n, vl_error *err)
{
    if (!vl_grow(&m->out_ids, &m->out_ids_cap, (size_t)n, sizeof(*m->out_ids)) ||
        !vl_grow(&m->out_lp, &m->out_lp_cap, (size_t)n * (1 + VL_TOP_LOGPROBS), sizeof(*m->out_lp)))
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    return VL_OK;
}

vl_status vl_q35_cuda_collect(vl_q35_model *model, uint64_t ticket, int64_t timeout_ms,
                              vl_row_result *results, uint64_t cap, vl_error *err)
{
    vl_q35_cuda *m = vl_q35_of(model);
    vl_error local;
    err = err != NULL ? err : &local;
    if (ticket != m->next_collect || ticket >= m->next_ticket)
        return vl_error_set(err, VL_E_INVALID, "ticket %llu, the oldest not collected is %llu",
                            (unsigned long long)ticket, (unsigned long long)m->next_collect);
    vl_q35_ticket *t = &m->tickets[ticket % VL_RING_SLOTS];
    if (cap < t->n_rows)
        return vl_error_set(err, VL_E_RANGE, "room for %llu results, the step has %llu rows",
                            (unsigned long long)cap, (unsigned long long)t->n_rows);
    vl_status rc = result_memory(m, (uint64_t)m->s.n_rows, err);
    if (rc != VL_OK)
        return rc;
    rc = vl_ring_wait(&m->ring_out, ticket, timeout_ms, err);
    if (rc == VL_E_TIMEOUT)
        return rc;
    if (rc != VL_OK)
        return vl_q35_cuda_fail(m, VL_E_DEVICE, err);
    const vl_row_out *out = (const vl_row_out *)(const void *)vl_ring_host(&m->ring_out, ticket);
    for (uint64_t i = 0; i < t->n_rows; i++) {
        const struct vl_q35_ticket_row *row = &t->rows[i];
        struct vl_q35_seq *s = &m->sequences[row->slot];
        vl_row_result res = {.struct_size = sizeof(res),
                             .status = VL_OK,
                             .sequence = (vl_sequence *)(void *)s,
                             .position = row->position,
                             .stop = row->stop};
        if (!s->used || s->generation != row->generation) {
            res.status = VL_E_CANCELLED;
            res.sequence = NULL;
            res.stop = VL_STOP_NONE;
        } else if (row->sampled) {
            sampled_result(m, row, &out[i], i, &res);
        } else if (row->n_forced > 0) {
            res.ids = t->forced_ids + row->forced_at;
            res.n_ids = row->n_forced;
            if (row->n_logprobs >= 0)
                res.logprobs = prompt_lp_of(m, ticket) + row->lp;
        }
        if (res.sequence != NULL && row->n_prompt_lp > 0) {
            res.prompt_logprobs = prompt_lp_of(m, ticket) + row->lp;
            res.n_prompt_logprobs = row->n_prompt_lp;
        }
        results[i] = res;
    }
    m->next_collect++;
    return VL_OK;
}
