/* plugins/qwen35/cpu/step.c: a step: rows checked, pages taken, passes run, results queued for
 * collect.
 *
 * The work is done inside submit; collect hands out what is there. Prefill pieces (and forced rows
 * of several tokens) go through the layers in passes of pass_rows rows, then all decode rows
 * together in one pass. */
#include <string.h>

#include "base/error.h"
#include "plugins/qwen35/cpu/model.h"

static vl_status check_prefill(const vl_row *r, vl_error *err)
{
    const vl_sequence *s = r->sequence;
    const size_t left = s->n_prompt - s->position;
    if (s->has_pending || s->position >= s->n_prompt)
        return vl_error_set(err, VL_E_STATE, "prefill row: the prompt of %zu tokens is read",
                            s->n_prompt);
    if (r->n_ids < 1 || r->n_ids > left)
        return vl_error_set(err, VL_E_INVALID, "prefill row: %llu tokens, the prompt has %zu left",
                            (unsigned long long)r->n_ids, left);
    if (((r->flags & VL_ROW_LAST) != 0) != (r->n_ids == left))
        return vl_error_set(
            err, VL_E_INVALID, "prefill row: %llu of %zu tokens left, %s the last flag",
            (unsigned long long)r->n_ids, left, (r->flags & VL_ROW_LAST) ? "with" : "without");
    if ((r->flags & VL_ROW_PROMPT_LOGPROBS) && s->position > 0 && !s->has_hidden)
        return vl_error_set(
            err, VL_E_STATE,
            "prompt log probabilities need the prompt read from its start, not from %zu",
            s->position);
    return VL_OK;
}

static vl_status check_row(const vl_q35_cpu *m, const vl_row *r, vl_error *err)
{
    const vl_sequence *s = r->sequence;
    if (s == NULL || s < m->sequences || s >= m->sequences + m->max_sequences || !s->used)
        return vl_error_set(err, VL_E_INVALID, "a row of no running sequence");
    if (s->stamp == m->next_stamp)
        return vl_error_set(err, VL_E_INVALID, "two rows of one sequence in a step");
    if (r->kind != VL_ROW_PREFILL && r->kind != VL_ROW_DECODE && r->kind != VL_ROW_FORCED)
        return vl_error_set(err, VL_E_INVALID, "a row of unknown kind %d", (int)r->kind);
    if (s->stop != VL_STOP_NONE)
        return VL_OK;
    if (r->kind == VL_ROW_PREFILL)
        return check_prefill(r, err);
    if (!s->has_pending)
        return vl_error_set(
            err, VL_E_STATE, "%s row: no token is pending; %zu of %zu prompt tokens are read",
            r->kind == VL_ROW_DECODE ? "decode" : "forced", s->position, s->n_prompt);
    if (r->kind == VL_ROW_DECODE)
        return VL_OK;
    if (r->n_ids < 1 || r->ids == NULL)
        return vl_error_set(err, VL_E_INVALID, "forced row: no ids");
    for (uint64_t i = 0; i < r->n_ids; i++) {
        if (r->ids[i] < 0 || r->ids[i] >= m->c->vocab)
            return vl_error_set(err, VL_E_INVALID,
                                "forced row: ids[%llu] is %d, the model has ids 0 to %lld",
                                (unsigned long long)i, (int)r->ids[i], (long long)m->c->vocab - 1);
    }
    return VL_OK;
}

/* How many forced ids are taken: up to and with the first that stops the sequence. */
static size_t forced_taken(const vl_q35_cpu *m, const vl_row *r)
{
    const vl_sequence *s = r->sequence;
    for (size_t i = 0; i < (size_t)r->n_ids; i++) {
        if (vl_q35_cpu_stop_of(m, s, r->ids[i], s->n_out + i + 1, s->position + 1 + i) !=
            VL_STOP_NONE)
            return i + 1;
    }
    return (size_t)r->n_ids;
}

/* Checks all rows and counts what they need, changing nothing but stamps. */
static vl_status check_rows(vl_q35_cpu *m, const vl_row *rows, size_t n_rows, vl_error *err)
{
    size_t tokens = 0, forced = 0, pages = 0;
    for (size_t i = 0; i < n_rows; i++) {
        vl_status rc = check_row(m, &rows[i], err);
        if (rc != VL_OK)
            return rc;
        rows[i].sequence->stamp = m->next_stamp;
        if (rows[i].sequence->stop != VL_STOP_NONE)
            continue;
        size_t n = 1;
        if (rows[i].kind == VL_ROW_PREFILL) {
            if (rows[i].n_ids > m->step_tokens - tokens)
                return vl_error_set(err, VL_E_RANGE,
                                    "a step takes %zu prompt tokens, its rows have more",
                                    m->step_tokens);
            n = (size_t)rows[i].n_ids;
            tokens += n;
        } else if (rows[i].kind == VL_ROW_FORCED) {
            if (rows[i].n_ids > m->forced_ids - forced)
                return vl_error_set(err, VL_E_RANGE,
                                    "a step takes %zu forced ids, its rows have more",
                                    m->forced_ids);
            n = forced_taken(m, &rows[i]);
            forced += n;
        }
        pages += vl_q35_cpu_pages_needed(m, rows[i].sequence, n);
    }
    if (pages > vl_pages_free(m->page_pool))
        return vl_error_set(err, VL_E_NOMEM,
                            "the step needs %zu pages of %d tokens, %zu of %zu are free", pages,
                            CPU_GRID, vl_pages_free(m->page_pool), vl_pages_total(m->page_pool));
    return VL_OK;
}

static void want(vl_q35_cpu *m, struct cpu_want w)
{
    m->wants[m->n_wants++] = w;
}

/* The i-th token that the row reads; of a prompt, from where it is now. */
static int32_t token_of(const struct cpu_work *w, size_t i)
{
    if (w->row->kind == VL_ROW_PREFILL)
        return w->s->prompt[w->s->position + i];
    return i == 0 ? w->s->pending : w->row->ids[i - 1];
}

/* Log probabilities of the prompt: the token at position p is told by the state at p - 1, which for
 * a piece's first token is the one kept from the piece before. */
static void want_prompt_logprobs(vl_q35_cpu *m, struct cpu_work *w, const struct cpu_span *span)
{
    const int32_t k = w->s->sampling.n_logprobs > 0 ? w->s->sampling.n_logprobs : 0;
    for (size_t i = 0; i < span->n; i++) {
        const size_t at = span->position + i;
        if (at == 0)
            continue;
        want(m, (struct cpu_want){.row = i == 0 ? SIZE_MAX : span->first + i - 1,
                                  .seq = w->s,
                                  .kind = WANT_LOGPROB,
                                  .id = w->s->prompt[at],
                                  .k = k,
                                  .logprobs =
                                      w->prompt + w->result->n_prompt_logprobs * (size_t)(1 + k)});
        w->result->n_prompt_logprobs++;
        w->result->prompt_logprobs = w->prompt;
    }
}

/* What the pass has to give for a piece of this row; `done` says that the row ends with it. */
static void want_outputs(vl_q35_cpu *m, struct cpu_work *w, const struct cpu_span *span,
                         size_t read, bool done)
{
    const int32_t k = w->s->sampling.n_logprobs;
    if (w->row->kind == VL_ROW_PREFILL && (w->row->flags & VL_ROW_PROMPT_LOGPROBS))
        want_prompt_logprobs(m, w, span);
    if (w->row->kind == VL_ROW_FORCED) {
        for (size_t i = 0; k >= 0 && i < span->n; i++)
            want(m, (struct cpu_want){.row = span->first + i,
                                      .seq = w->s,
                                      .kind = WANT_LOGPROB,
                                      .id = w->row->ids[read + i],
                                      .k = k,
                                      .logprobs = (vl_logprob *)(uintptr_t)w->result->logprobs +
                                                  (read + i) * (size_t)(1 + k)});
        return;
    }
    if (done && (w->row->kind == VL_ROW_DECODE || (w->row->flags & VL_ROW_LAST)))
        want(m, (struct cpu_want){.row = span->first + span->n - 1,
                                  .seq = w->s,
                                  .mask = w->row->mask,
                                  .kind = WANT_SAMPLE,
                                  .result = w->result,
                                  .logprobs = k >= 0 ? (vl_logprob *)(uintptr_t)w->result->logprobs
                                                     : NULL});
}

/* Sets up rows first .. first + n of the pass: ids, positions, span. */
static void add_span(vl_q35_cpu *m, struct cpu_batch *b, const struct cpu_work *w, size_t read,
                     size_t n)
{
    struct cpu_span *span = &b->spans[b->n_spans++];
    *span = (struct cpu_span){w->s, b->n_rows, n, w->s->position};
    for (size_t i = 0; i < n; i++) {
        m->ids[b->n_rows + i] = token_of(w, w->row->kind == VL_ROW_PREFILL ? i : read + i);
        m->row_pos[b->n_rows + i] = w->s->position + i;
        m->row_span[b->n_rows + i] = span;
    }
    b->n_rows += n;
}

/* Runs the pass and lets its sequences move on. */
static void run_pass(vl_q35_cpu *m, struct cpu_batch *b)
{
    if (b->n_spans == 0)
        return;
    const size_t least = vl_cpu_thin_rows(m->cpu) + 1;
    b->n_padded = b->decode || b->n_rows >= least ? b->n_rows : least;
    vl_q35_cpu_forward(m, b);
    for (size_t i = 0; i < b->n_spans; i++)
        b->spans[i].seq->position += b->spans[i].n;
    vl_q35_cpu_output(m);
    for (size_t i = 0; !b->decode && i < b->n_spans; i++) {
        const struct cpu_span *s = &b->spans[i];
        memcpy(s->seq->hidden, m->y + (s->first + s->n - 1) * (size_t)m->c->hidden,
               (size_t)m->c->hidden * sizeof(float));
        s->seq->has_hidden = true;
    }
    b->n_spans = 0;
    b->n_rows = 0;
}

/* How much of the left tokens goes into `room` rows: all, or up to the last multiple of the grid
 * that fits. */
static size_t piece(size_t position, size_t left, size_t room)
{
    if (left <= room)
        return left;
    const size_t end = (position + room) / CPU_GRID * CPU_GRID;
    return end > position ? end - position : 0;
}

static bool chunked(const struct cpu_work *w)
{
    return w->n > 0 && (w->row->kind == VL_ROW_PREFILL || w->n > 1);
}

static void run_prefill(vl_q35_cpu *m, struct cpu_work *work, size_t n_work)
{
    struct cpu_batch b = {.spans = m->spans};
    for (size_t i = 0; i < n_work; i++) {
        if (!chunked(&work[i]))
            continue;
        for (size_t read = 0; read < work[i].n;) {
            const size_t n = piece(work[i].s->position, work[i].n - read, m->pass_rows - b.n_rows);
            if (n == 0) {
                run_pass(m, &b);
                continue;
            }
            add_span(m, &b, &work[i], read, n);
            want_outputs(m, &work[i], &b.spans[b.n_spans - 1], read, read + n == work[i].n);
            read += n;
            if (read < work[i].n) /* the next piece needs this one's state */
                run_pass(m, &b);
        }
    }
    run_pass(m, &b);
}

static void run_decode(vl_q35_cpu *m, struct cpu_work *work, size_t n_work)
{
    struct cpu_batch b = {.spans = m->spans, .decode = true};
    for (size_t i = 0; i < n_work; i++) {
        if (work[i].n == 0 || chunked(&work[i]))
            continue;
        add_span(m, &b, &work[i], 0, 1);
        want_outputs(m, &work[i], &b.spans[b.n_spans - 1], 0, true);
    }
    run_pass(m, &b);
}

/* Forced ids become output after their row has been read; positions are already past it. */
static void take_forced(vl_q35_cpu *m, struct cpu_work *w)
{
    if (w->n == 0 || w->row->kind != VL_ROW_FORCED || w->s->stop == VL_STOP_FAULT)
        return;
    for (size_t i = 0; i < w->n_forced; i++) {
        /* The stop of each id counts from the position it had: all but the last never stop
         * (forced_taken). */
        vl_q35_cpu_take_token(m, w->s, w->row->ids[i]);
        ((int32_t *)(uintptr_t)w->result->ids)[i] = w->row->ids[i];
        if (i + 1 < w->n_forced)
            w->s->stop = VL_STOP_NONE;
    }
    w->result->n_ids = w->n_forced;
}

static void finish_row(const struct cpu_work *w)
{
    const vl_sequence *s = w->s;
    w->result->position = s->position;
    w->result->stop = s->stop;
    w->result->status = s->stop == VL_STOP_FAULT ? s->fault : VL_OK;
    if (w->result->n_ids == 0 || s->sampling.n_logprobs < 0)
        w->result->logprobs = NULL;
    if (s->stop == VL_STOP_FAULT) {
        w->result->prompt_logprobs = NULL;
        w->result->n_prompt_logprobs = 0;
    }
}

vl_status vl_q35_cpu_submit(vl_q35_model *base, const vl_row *rows, uint64_t n_rows,
                            uint64_t *ticket, vl_error *err)
{
    vl_q35_cpu *m = cpu_of(base);
    if (m->next_ticket - m->next_collect >= CPU_IN_FLIGHT)
        return vl_error_set(err, VL_E_BUSY, "%d steps are under way", CPU_IN_FLIGHT);
    if (n_rows < 1 || n_rows > m->max_sequences)
        return vl_error_set(err, VL_E_INVALID, "a step of %llu rows, want 1 to %zu",
                            (unsigned long long)n_rows, m->max_sequences);
    m->next_stamp++;
    vl_status rc = check_rows(m, rows, (size_t)n_rows, err);
    if (rc != VL_OK)
        return rc;
    struct cpu_ticket *t = &m->tickets[m->next_ticket % (CPU_IN_FLIGHT + 1)];
    struct cpu_work *work = m->work;
    size_t id_at = 0, prompt_at = 0;
    t->number = m->next_ticket;
    t->n_rows = (size_t)n_rows;
    for (size_t i = 0; i < t->n_rows; i++) {
        vl_sequence *s = rows[i].sequence;
        struct cpu_work *w = &work[i];
        *w = (struct cpu_work){.row = &rows[i],
                               .s = s,
                               .result = &t->results[i],
                               .prompt = t->prompt + prompt_at * CPU_LOGPROB_ENTRIES};
        if (s->stop == VL_STOP_NONE) {
            w->n_forced = rows[i].kind == VL_ROW_FORCED ? forced_taken(m, &rows[i]) : 0;
            w->n = rows[i].kind == VL_ROW_PREFILL  ? (size_t)rows[i].n_ids
                   : rows[i].kind == VL_ROW_DECODE ? 1
                                                   : w->n_forced;
        }
        *w->result = (vl_row_result){.struct_size = sizeof(vl_row_result),
                                     .sequence = s,
                                     .ids = t->ids + id_at,
                                     .logprobs = t->logprobs + id_at * CPU_LOGPROB_ENTRIES};
        t->serials[i] = s->serial;
        id_at += w->n_forced > 0 ? w->n_forced : 1;
        prompt_at += rows[i].kind == VL_ROW_PREFILL ? w->n : 0;
        vl_q35_cpu_pages_take(m, s, w->n);
    }
    run_prefill(m, work, t->n_rows);
    run_decode(m, work, t->n_rows);
    for (size_t i = 0; i < t->n_rows; i++) {
        take_forced(m, &work[i]);
        finish_row(&work[i]);
    }
    *ticket = m->next_ticket++;
    return VL_OK;
}

vl_status vl_q35_cpu_collect(vl_q35_model *base, uint64_t ticket, int64_t timeout_ms,
                             vl_row_result *results, uint64_t cap, vl_error *err)
{
    (void)timeout_ms; /* a step that was submitted is done */
    vl_q35_cpu *m = cpu_of(base);
    if (ticket != m->next_collect || ticket >= m->next_ticket)
        return vl_error_set(err, VL_E_INVALID, "ticket %llu is not the oldest, %llu",
                            (unsigned long long)ticket, (unsigned long long)m->next_collect);
    const struct cpu_ticket *t = &m->tickets[ticket % (CPU_IN_FLIGHT + 1)];
    if (cap < t->n_rows)
        return vl_error_set(err, VL_E_RANGE, "the step has %zu rows, there is room for %llu",
                            t->n_rows, (unsigned long long)cap);
    for (size_t i = 0; i < t->n_rows; i++) {
        results[i] = t->results[i];
        const vl_sequence *s = results[i].sequence;
        if (s->used && s->serial == t->serials[i])
            continue;
        results[i] =
            (vl_row_result){.struct_size = sizeof(vl_row_result), .status = VL_E_CANCELLED};
    }
    m->next_collect++;
    return VL_OK;
}
