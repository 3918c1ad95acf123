/* tests/plugins/fake_model.c: the fake model's steps. A thread of its own runs them, so that
 * results come late; stops and limits act there, as on a device. */
#include "fake_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"

static _Atomic int64_t fail_submit, fail_collect;
static _Atomic int32_t fail_status;
static int32_t gate_closed;

void fake_fail(int64_t at_submit, int64_t at_collect, int32_t status);
void fake_fail(int64_t at_submit, int64_t at_collect, int32_t status)
{
    fail_status = status; /* first: the counts set it off */
    fail_submit = at_submit;
    fail_collect = at_collect;
}

void fake_gate(int32_t closed);
void fake_gate(int32_t closed)
{
    __atomic_store_n(&gate_closed, closed, __ATOMIC_SEQ_CST);
}

static void nap(int64_t ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* ---- what the model says ---- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x7fb5d329728ea185u;
    x ^= x >> 27;
    x *= 0x81dadef4bc2dd44du;
    return x ^ x >> 33;
}

static uint64_t state_of(const vl_sequence *s)
{
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < s->n_read; i++)
        h = (h ^ (uint64_t)s->read[i]) * 1099511628211u;
    if (s->sampling.temperature >= 1e-5f)
        h = mix(h ^ s->sampling.seed) + (uint64_t)s->sampling.choice * 77;
    return mix(h);
}

static bool is_stop(const vl_sequence *s, int32_t id)
{
    for (size_t i = 0; i < s->n_stop_ids; i++) {
        if (s->stop_ids[i] == id)
            return true;
    }
    return false;
}

static bool allowed(const vl_sequence *s, int32_t id, const uint32_t *mask)
{
    if (mask != NULL && (mask[id / 32] >> (id % 32) & 1) == 0)
        return false;
    if (s->n_out < s->min_tokens && is_stop(s, id))
        return false;
    for (uint64_t i = 0; i < s->sampling.n_bias; i++) {
        if (s->bias[i].id == id && s->bias[i].bias <= -100.0f)
            return false;
    }
    return true;
}

static int32_t next_id(const vl_sequence *s, const uint32_t *mask)
{
    uint64_t h = state_of(s);
    int32_t n = (int32_t)s->model->n_tokens;
    int32_t id = h % s->model->end_every == 0 ? FAKE_END
                 : (h >> 8) % 6 == 0          ? ' '
                                              : (int32_t)('a' + (h >> 16) % 26);

    if (s->say != NULL)
        id = s->n_out < s->n_say ? s->say[s->n_out] : FAKE_END;
    for (uint64_t i = 0; i < s->sampling.n_bias; i++) {
        if (s->bias[i].bias >= 100.0f)
            id = s->bias[i].id;
    }
    for (int32_t k = 0; k < n; k++) {
        int32_t try = (id + k) % n;
        if (allowed(s, try, mask))
            return try;
    }
    return id;
}

/* "say:X;" in the prompt: X as ids, special tokens by their spelling. */
static void find_say(vl_sequence *s)
{
    static const char *const names[] = {"<|end|>", "<think>", "</think>", "<call>", "</call>"};
    static const int32_t head[] = {'s', 'a', 'y', ':'};
    size_t at = s->n_prompt;

    for (size_t i = 0; i + 4 <= s->n_prompt; i++) {
        if (memcmp(s->prompt + i, head, sizeof head) == 0)
            at = i + 4;
    }
    if (at == s->n_prompt || (s->say = calloc(s->n_prompt, sizeof *s->say)) == NULL)
        return;
    while (at < s->n_prompt && s->prompt[at] != ';') {
        int32_t id = s->prompt[at];
        size_t len = 1;
        for (int32_t k = 0; k < 5; k++) {
            size_t n = strlen(names[k]), m = 0;
            while (m < n && at + m < s->n_prompt && s->prompt[at + m] == (unsigned char)names[k][m])
                m++;
            if (m == n) {
                id = FAKE_END + k;
                len = n;
            }
        }
        s->say[s->n_say++] = id;
        at += len;
    }
}

/* ---- running a row ---- */

static void put_logprobs(const vl_sequence *s, vl_logprob *to, int32_t id)
{
    to[0] = (vl_logprob){id, -0.25f - (float)(id % 7)};
    for (int32_t k = 1; k <= s->sampling.n_logprobs; k++)
        to[k] = (vl_logprob){(id + k) % FAKE_TOKENS, -0.25f * (float)k};
}

/* An id is out: sampled or forced. */
static void put_id(struct fake_row *r, int32_t id)
{
    vl_sequence *s = r->seq;

    r->out_ids[r->n_ids] = id;
    if (r->logprobs != NULL)
        put_logprobs(s, r->logprobs + r->n_ids * (uint64_t)(s->sampling.n_logprobs + 1), id);
    r->n_ids++;
    s->pending = id;
    s->n_out++;
    if (is_stop(s, id) && s->n_out > s->min_tokens)
        s->stop = VL_STOP_ID;
    else if (s->n_out >= s->max_tokens)
        s->stop = VL_STOP_LIMIT;
    else if (s->n_read + 1 >= s->model->context)
        s->stop = VL_STOP_CONTEXT;
}

static void read_pending(vl_sequence *s)
{
    s->read[s->n_read++] = s->pending;
    s->pending = -1;
}

static void run_prefill(struct fake_row *r)
{
    vl_sequence *s = r->seq;

    for (uint64_t i = 0; i < r->n; i++) {
        if (r->prompt_logprobs != NULL && s->n_read > 0)
            put_logprobs(s,
                         r->prompt_logprobs +
                             r->n_prompt_logprobs++ * (uint64_t)(s->sampling.n_logprobs + 1),
                         s->prompt[s->n_read]);
        s->read[s->n_read] = s->prompt[s->n_read];
        s->n_read++;
    }
    if ((r->flags & VL_ROW_LAST) != 0)
        put_id(r, next_id(s, r->mask));
}

static void run_row(struct fake_row *r)
{
    static const int32_t nan_text[] = {'n', 'a', 'n', '!'};
    vl_sequence *s = r->seq;
    uint64_t n = 1;

    if (s->ended)
        return;
    if (s->stop != VL_STOP_NONE) {
        FAKE_ADD(frozen_rows, 1);
    } else if (r->kind == VL_ROW_PREFILL) {
        run_prefill(r);
    } else if (r->kind == VL_ROW_FORCED) {
        for (uint64_t i = 0; i < r->n && s->stop == VL_STOP_NONE; i++) {
            read_pending(s);
            put_id(r, r->forced[i]);
        }
    } else {
        if (r->mask == NULL)
            n = 1 + mix(state_of(s) + 1) % s->model->step_ids;
        for (uint64_t i = 0; i < n && s->stop == VL_STOP_NONE; i++) {
            read_pending(s);
            put_id(r, next_id(s, r->mask));
        }
        if (s->n_out >= 3 && s->n_prompt >= 4 &&
            memcmp(s->prompt, nan_text, sizeof nan_text) == 0) {
            s->stop = VL_STOP_FAULT;
            s->status = VL_E_INTERNAL;
            r->n_ids = 0;
        }
    }
    r->position = s->n_read;
    r->stop = s->stop;
    r->status = s->status;
}

static void *model_main(void *arg)
{
    vl_model *m = arg;

    pthread_mutex_lock(&m->lock);
    for (;;) {
        struct fake_step *s = m->first;
        while (s != NULL && s->done)
            s = s->next;
        if (s == NULL) {
            if (m->quit)
                break;
            pthread_cond_wait(&m->change, &m->lock);
            continue;
        }
        pthread_mutex_unlock(&m->lock);
        while (__atomic_load_n(&gate_closed, __ATOMIC_SEQ_CST) != 0)
            nap(1);
        if (m->delay_ms > 0)
            nap(m->delay_ms);
        pthread_mutex_lock(&m->lock);
        for (size_t i = 0; i < s->n_rows; i++)
            run_row(&s->rows[i]);
        s->done = true;
        pthread_cond_broadcast(&m->change);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- sequences ---- */

static void sequence_free(vl_sequence *s)
{
    free(s->prompt);
    free(s->read);
    free(s->bias);
    free(s->stop_ids);
    free(s->say);
    free(s->pages);
    free(s);
}

static void *dup_array(const void *from, size_t n, size_t size)
{
    void *to = calloc(n + 1, size);

    if (to != NULL && n > 0)
        memcpy(to, from, n * size);
    return to;
}

static vl_status model_begin(vl_model *m, const vl_sequence_params *p, vl_sequence **out,
                             vl_error *err)
{
    vl_sequence *s = calloc(1, sizeof *s);
    vl_status rc = VL_OK;

    pthread_mutex_lock(&m->lock);
    if (p->n_prompt == 0 || p->n_prompt >= m->context || p->max_tokens == 0) {
        fake_bad("begin: prompt or max_tokens out of range");
        rc = vl_error_set(err, VL_E_INVALID, "fake: %llu prompt tokens",
                          (unsigned long long)p->n_prompt);
    } else if (m->n_sequences == m->max_sequences) {
        rc = vl_error_set(err, VL_E_NOMEM, "fake: all %u slots are taken", m->max_sequences);
    } else if (s == NULL) {
        rc = vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
    }
    if (rc != VL_OK)
        goto out;
    s->model = m;
    s->pending = -1;
    s->n_prompt = (size_t)p->n_prompt;
    s->prompt = dup_array(p->prompt, s->n_prompt, sizeof *s->prompt);
    s->read = calloc((size_t)m->context + 64, sizeof *s->read);
    s->pages = calloc((size_t)m->context / FAKE_PAGE + 8, sizeof *s->pages);
    s->sampling = *p->sampling;
    s->bias = dup_array(p->sampling->bias, (size_t)p->sampling->n_bias, sizeof *s->bias);
    s->stop_ids = dup_array(p->stop_ids, (size_t)p->n_stop_ids, sizeof *s->stop_ids);
    s->n_stop_ids = (size_t)p->n_stop_ids;
    s->min_tokens = p->min_tokens;
    s->max_tokens = p->max_tokens;
    find_say(s);
    if (p->snapshot != NULL)
        rc = fake_restore(m, s, p->snapshot, err);
    if (rc != VL_OK)
        goto out;
    m->n_sequences++;
    FAKE_ADD(sequences, 1);
    fake_max(&fake_n.max_sequences_at_once, m->n_sequences);
    *out = s;
    s = NULL;
out:
    pthread_mutex_unlock(&m->lock);
    if (s != NULL)
        sequence_free(s);
    return rc;
}

static void model_end(vl_model *m, vl_sequence *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&m->lock);
    s->ended = true;
    fake_pages_drop(m, s->pages, s->n_pages, m->seq_refs);
    s->n_pages = 0;
    m->n_sequences--;
    bool gone = s->in_flight == 0;
    pthread_mutex_unlock(&m->lock);
    FAKE_ADD(sequences, -1);
    if (gone)
        sequence_free(s);
}

/* ---- steps ---- */

/* Is the row one that the interface allows now? */
static const char *check_row(const vl_model *m, const vl_row *r, const vl_row *rows, uint64_t i)
{
    const vl_sequence *s = r->sequence;

    for (uint64_t k = 0; k < i; k++) {
        if (rows[k].sequence == s)
            return "two rows of a sequence in a step";
    }
    if (s == NULL || s->ended)
        return "a row of no sequence";
    if (r->kind == VL_ROW_PREFILL) {
        size_t end = s->n_prompt_submitted + (size_t)r->n_ids;
        if (r->n_ids == 0 || end > s->n_prompt)
            return "prompt rows past the prompt";
        if ((end == s->n_prompt) != ((r->flags & VL_ROW_LAST) != 0))
            return "LAST is wrong";
        return NULL;
    }
    if (!s->last_submitted)
        return "a decode row before the prompt's end";
    if (r->kind == VL_ROW_FORCED && (r->n_ids == 0 || r->n_ids > m->step_tokens))
        return "forced row of a wrong length";
    if (r->mask != NULL && s->in_flight > 0)
        return "a masked row was run ahead";
    return NULL;
}

static size_t row_growth(const vl_model *m, const vl_row *r)
{
    return r->kind == VL_ROW_DECODE ? (size_t)m->step_ids : (size_t)r->n_ids;
}

static bool fill_row(vl_model *m, struct fake_row *to, const vl_row *r)
{
    vl_sequence *s = r->sequence;
    size_t per = s->sampling.n_logprobs >= 0 ? (size_t)s->sampling.n_logprobs + 1 : 0;
    size_t most = (size_t)r->n_ids + FAKE_STEP_IDS_MAX;

    *to = (struct fake_row){.seq = s, .kind = r->kind, .flags = r->flags, .n = r->n_ids};
    to->out_ids = calloc(most, sizeof *to->out_ids);
    if (r->kind == VL_ROW_FORCED)
        to->forced = dup_array(r->ids, (size_t)r->n_ids, sizeof *r->ids);
    if (r->mask != NULL) {
        to->mask = dup_array(r->mask, (FAKE_ROWS + 31) / 32, sizeof *r->mask);
        FAKE_ADD(masked_rows, 1);
    }
    if (per > 0)
        to->logprobs = calloc(most * per, sizeof *to->logprobs);
    if ((r->flags & VL_ROW_PROMPT_LOGPROBS) != 0 && per > 0)
        to->prompt_logprobs = calloc(((size_t)r->n_ids + 1) * per, sizeof *to->prompt_logprobs);
    s->in_flight++;
    s->bound += row_growth(m, r);
    if (r->kind == VL_ROW_PREFILL) {
        s->n_prompt_submitted += (size_t)r->n_ids;
        s->last_submitted = (r->flags & VL_ROW_LAST) != 0;
        FAKE_ADD(prompt_tokens, (int64_t)r->n_ids);
    } else if (r->kind == VL_ROW_FORCED) {
        FAKE_ADD(forced_ids, (int64_t)r->n_ids);
    }
    return to->out_ids != NULL;
}

static vl_status check_step(vl_model *m, const vl_row *rows, uint64_t n_rows, vl_error *err)
{
    size_t want = 0;
    int64_t prompt = 0;

    if (fail_submit > 0 && --fail_submit == 0) {
        m->broken |= fail_status == VL_E_DEVICE;
        return vl_error_set(err, fail_status, "fake: submit was told to fail");
    }
    if (m->broken)
        return vl_error_set(err, VL_E_DEVICE, "fake: the device is broken");
    if (m->n_under_way >= m->max_in_flight) {
        fake_bad("more steps than max_in_flight");
        return vl_error_set(err, VL_E_BUSY, "fake: %llu steps are under way",
                            (unsigned long long)m->n_under_way);
    }
    if (n_rows == 0 || n_rows > m->max_sequences)
        return fake_bad("a step without rows, or with too many"), VL_E_INVALID;
    for (uint64_t i = 0; i < n_rows; i++) {
        const char *bad = check_row(m, &rows[i], rows, i);
        if (bad != NULL) {
            fake_bad(bad);
            return vl_error_set(err, VL_E_INVALID, "fake: %s", bad);
        }
        if (rows[i].kind == VL_ROW_PREFILL)
            prompt += (int64_t)rows[i].n_ids;
        size_t tokens = rows[i].sequence->bound + row_growth(m, &rows[i]);
        size_t pages = (tokens + FAKE_PAGE - 1) / FAKE_PAGE;
        if (pages > rows[i].sequence->n_pages)
            want += pages - rows[i].sequence->n_pages;
    }
    if (prompt > (int64_t)m->step_tokens)
        return fake_bad("more prompt tokens than step_tokens"), VL_E_INVALID;
    fake_max(&fake_n.max_step_prompt_tokens, prompt);
    if (want > fake_pages_free(m))
        return vl_error_set(err, VL_E_NOMEM,
                            "fake: the pool has %llu free pages, the step needs %zu",
                            (unsigned long long)fake_pages_free(m), want);
    return VL_OK;
}

static vl_status model_submit(vl_model *m, const vl_row *rows, uint64_t n_rows, uint64_t *ticket,
                              vl_error *err)
{
    pthread_mutex_lock(&m->lock);
    vl_status rc = check_step(m, rows, n_rows, err);
    if (rc != VL_OK)
        goto out;
    struct fake_step *s = calloc(1, sizeof *s);
    if (s != NULL)
        s->rows = calloc((size_t)n_rows, sizeof *s->rows);
    if (s == NULL || s->rows == NULL) {
        free(s);
        rc = vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
        goto out;
    }
    s->n_rows = (size_t)n_rows;
    for (uint64_t i = 0; i < n_rows; i++) {
        fill_row(m, &s->rows[i], &rows[i]);
        fake_pages_hold(m, rows[i].sequence, rows[i].sequence->bound);
    }
    s->ticket = *ticket = ++m->next_ticket;
    struct fake_step **at = &m->first;
    while (*at != NULL)
        at = &(*at)->next;
    *at = s;
    m->n_under_way++;
    fake_max(&fake_n.max_in_flight_at_once, (int64_t)m->n_under_way);
    FAKE_ADD(steps, 1);
    FAKE_ADD(rows, (int64_t)n_rows);
    pthread_cond_broadcast(&m->change);
out:
    pthread_mutex_unlock(&m->lock);
    return rc;
}

static void step_free(struct fake_step *s)
{
    for (size_t i = 0; s != NULL && i < s->n_rows; i++) {
        free(s->rows[i].forced);
        free(s->rows[i].mask);
        free(s->rows[i].out_ids);
        free(s->rows[i].logprobs);
        free(s->rows[i].prompt_logprobs);
    }
    if (s != NULL)
        free(s->rows);
    free(s);
}

/* The row is back: what was reserved for it and not used is free again. */
static void settle(vl_model *m, struct fake_row *r, vl_row_result *out)
{
    vl_sequence *s = r->seq;

    s->in_flight--;
    if (s->ended) {
        *out = (vl_row_result){.struct_size = sizeof *out, .status = VL_E_CANCELLED};
        if (s->in_flight == 0)
            sequence_free(s);
        return;
    }
    if (s->in_flight == 0)
        s->bound = s->n_read;
    *out = (vl_row_result){
        .struct_size = sizeof *out,
        .status = r->status,
        .sequence = s,
        .ids = r->out_ids,
        .n_ids = r->n_ids,
        .position = r->position,
        .logprobs = r->logprobs,
        .prompt_logprobs = r->prompt_logprobs,
        .n_prompt_logprobs = r->n_prompt_logprobs,
        .stop = r->stop,
    };
    (void)m;
}

static vl_status model_collect(vl_model *m, uint64_t ticket, int64_t timeout_ms,
                               vl_row_result *results, uint64_t cap, vl_error *err)
{
    vl_status rc = VL_OK;

    pthread_mutex_lock(&m->lock);
    struct fake_step *s = m->first;
    if (s == NULL || s->ticket != ticket || cap < s->n_rows) {
        fake_bad("collect out of order");
        rc = vl_error_set(err, VL_E_INVALID, "fake: collect of ticket %llu",
                          (unsigned long long)ticket);
        goto out;
    }
    while (!s->done && timeout_ms < 0)
        pthread_cond_wait(&m->change, &m->lock);
    if (!s->done) {
        rc = vl_error_set(err, VL_E_TIMEOUT, "fake: not yet");
        goto out;
    }
    if (fail_collect > 0 && --fail_collect == 0) {
        m->broken |= fail_status == VL_E_DEVICE;
        rc = vl_error_set(err, fail_status, "fake: the device was told to fail");
        goto out;
    }
    m->first = s->next;
    m->n_under_way--;
    for (size_t i = 0; i < s->n_rows; i++)
        settle(m, &s->rows[i], &results[i]);
    step_free(m->collected);
    m->collected = s;
out:
    pthread_mutex_unlock(&m->lock);
    return rc;
}

/* ---- opening ---- */

static vl_status model_accepts(vl_instance *self, vl_bytes config, vl_error *err)
{
    (void)self;
    if (memmem(config.ptr, config.len, "\"fake\"", 6) != NULL)
        return VL_OK;
    return vl_error_set(err, VL_E_UNSUPPORTED, "fake: not the fake model");
}

static uint64_t pool_of(const vl_model_params *p)
{
    int64_t option = p->options->values[FAKE_OPT_POOL].number;

    return option > 0 ? (uint64_t)option : p->kv_tokens > 0 ? p->kv_tokens : 65536;
}

static vl_status model_estimate(vl_instance *self, const vl_loader_api *loader, vl_checkpoint *c,
                                const vl_model_params *p, vl_model_estimate *out, vl_error *err)
{
    (void)self;
    (void)loader;
    (void)c;
    (void)err;
    out->state_bytes = FAKE_STATE_BYTES;
    out->kv_token_bytes = FAKE_TOKEN_BYTES;
    out->kv_tokens = pool_of(p);
    out->total_bytes =
        p->max_sequences * (uint64_t)FAKE_STATE_BYTES + out->kv_tokens * FAKE_TOKEN_BYTES;
    out->max_context_tokens = 4096;
    return VL_OK;
}

static void model_close(vl_model *m)
{
    if (m == NULL)
        return;
    pthread_mutex_lock(&m->lock);
    m->quit = true;
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    while (m->first != NULL) {
        struct fake_step *s = m->first;
        m->first = s->next;
        for (size_t i = 0; i < s->n_rows; i++) {
            if (--s->rows[i].seq->in_flight == 0 && s->rows[i].seq->ended)
                sequence_free(s->rows[i].seq);
        }
        step_free(s);
    }
    step_free(m->collected);
    free(m->seq_refs);
    free(m->snap_refs);
    free(m);
    FAKE_ADD(models, -1);
}

static vl_status model_open(vl_instance *self, const vl_loader_api *loader, vl_checkpoint *c,
                            const vl_model_params *p, vl_model **out, vl_error *err)
{
    const vl_option_value *o = p->options->values;
    (void)self;
    (void)loader;
    (void)c;

    if (o[FAKE_OPT_FAIL_OPEN].number != 0)
        return vl_error_set(err, VL_E_DEVICE, "fake: open was told to fail");
    if (p->progress != NULL && p->progress(p->user, 0.5, "weights") != 0)
        return vl_error_set(err, VL_E_CANCELLED, "fake: cancelled");
    vl_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->change, NULL);
    m->delay_ms = o[FAKE_OPT_DELAY_MS].number;
    m->step_ids = (uint64_t)o[FAKE_OPT_STEP_IDS].number;
    m->max_in_flight = (uint64_t)o[FAKE_OPT_IN_FLIGHT].number;
    m->snapshots = o[FAKE_OPT_SNAPSHOTS].number != 0;
    m->grid = (uint64_t)o[FAKE_OPT_GRID].number;
    m->end_every = (uint64_t)o[FAKE_OPT_END_EVERY].number;
    m->context = p->context_tokens;
    m->step_tokens = p->step_tokens;
    m->max_sequences = p->max_sequences;
    m->n_tokens = p->n_tokens;
    m->n_pages = (uint32_t)(pool_of(p) / FAKE_PAGE);
    m->seq_refs = calloc(m->n_pages + 1, sizeof *m->seq_refs);
    m->snap_refs = calloc(m->n_pages + 1, sizeof *m->snap_refs);
    if (m->seq_refs == NULL || m->snap_refs == NULL ||
        pthread_create(&m->thread, NULL, model_main, m) != 0) {
        free(m->seq_refs);
        free(m->snap_refs);
        free(m);
        return vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
    }
    FAKE_ADD(models, 1);
    *out = m;
    return VL_OK;
}

static void model_info(const vl_model *m, vl_model_info *out)
{
    *out = (vl_model_info){
        .struct_size = sizeof *out,
        .max_sequences = m->max_sequences,
        .architecture = "fake",
        .device = "fake",
        .context_tokens = m->context,
        .kv_tokens = (uint64_t)m->n_pages * FAKE_PAGE,
        .step_tokens = m->step_tokens,
        .vocab_rows = FAKE_ROWS,
        .n_tokens = m->n_tokens,
        .max_step_ids = m->step_ids,
        .max_in_flight = m->max_in_flight,
        .snapshot_grid = m->grid,
        .n_layers = 1,
    };
}

static vl_status model_health(const vl_model *m, vl_error *err)
{
    return m->broken ? vl_error_set(err, VL_E_DEVICE, "fake: the device is broken") : VL_OK;
}

static void model_pool(const vl_model *m, uint64_t *all, uint64_t *unused)
{
    *all = (uint64_t)m->n_pages * FAKE_PAGE;
    *unused = fake_pages_free(m) * FAKE_PAGE;
}

static const void *model_get_ext(const vl_model *m, const char *id)
{
    return m->snapshots && strcmp(id, VL_SNAPSHOT_ID) == 0 ? &fake_snapshot_api : NULL;
}

const vl_model_api fake_model_api = {
    .struct_size = sizeof(vl_model_api),
    .abi_version = VL_ABI_VERSION,
    .accepts = model_accepts,
    .estimate = model_estimate,
    .open = model_open,
    .close = model_close,
    .info = model_info,
    .health = model_health,
    .sequence_begin = model_begin,
    .sequence_end = model_end,
    .submit = model_submit,
    .collect = model_collect,
    .pool = model_pool,
    .get_ext = model_get_ext,
};
