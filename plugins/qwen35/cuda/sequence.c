/* plugins/qwen35/cuda/sequence.c: sequences: their slot's record on the device, their pages, what
 * they start from. [engine] */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/qwen35/cuda/model.h"

/* Below this temperature the largest logit is taken (plugins/common/cpu/sampling.h, step 6). */
#define GREEDY_BELOW 1e-5f

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static vl_status fill_slot(const vl_q35_cuda *m, const vl_sequence_params *p, vl_slot *s,
                           vl_error *err)
{
    const vl_sampling *g = p->sampling;
    if (p->n_stop_ids > VL_SLOT_STOPS)
        return vl_error_set(err, VL_E_INVALID, "%llu stop ids, at most %d",
                            (unsigned long long)p->n_stop_ids, VL_SLOT_STOPS);
    if (g->n_bias > VL_SLOT_BIAS)
        return vl_error_set(err, VL_E_INVALID, "%llu logit biases, at most %d",
                            (unsigned long long)g->n_bias, VL_SLOT_BIAS);
    memset(s, 0, sizeof(*s));
    s->max_out = (int)min_u64(p->max_tokens, INT32_MAX);
    s->min_out = (int)min_u64(p->min_tokens, INT32_MAX);
    s->context = (int)min_u64(m->context, INT32_MAX);
    s->n_stop = (int)p->n_stop_ids;
    for (uint64_t i = 0; i < p->n_stop_ids; i++)
        s->stop_ids[i] = p->stop_ids[i];
    s->temperature = g->temperature < GREEDY_BELOW ? 0.0f : g->temperature;
    s->top_p = g->top_p;
    s->min_p = g->min_p;
    s->top_k = g->top_k > 0 && g->top_k < m->s.n_tokens ? g->top_k : 0;
    s->repetition_penalty = g->repetition_penalty;
    s->frequency_penalty = g->frequency_penalty;
    s->presence_penalty = g->presence_penalty;
    s->counts = g->repetition_penalty != 1.0f || g->frequency_penalty != 0.0f ||
                g->presence_penalty != 0.0f;
    s->seed[0] = (unsigned)(g->seed & 0xffffffffu);
    s->seed[1] = (unsigned)(g->seed >> 32);
    s->choice = g->choice;
    s->n_logprobs = g->n_logprobs < VL_TOP_LOGPROBS ? g->n_logprobs : VL_TOP_LOGPROBS;
    s->n_bias = (int)g->n_bias;
    return VL_OK;
}

static void put_bias(vl_q35_run *r, int slot, const vl_sampling *g)
{
    int ids[VL_SLOT_BIAS];
    float bias[VL_SLOT_BIAS];
    if (g->n_bias == 0)
        return;
    for (uint64_t i = 0; i < g->n_bias; i++) {
        ids[i] = g->bias[i].id;
        bias[i] = g->bias[i].bias;
    }
    const size_t n = (size_t)g->n_bias * 4;
    vl_q35_copy(r, r->m->bias_ids + (size_t)slot * VL_SLOT_BIAS, ids, n, "copying biases");
    vl_q35_copy(r, r->m->bias + (size_t)slot * VL_SLOT_BIAS, bias, n, "copying biases");
}

/* Notes the prompt's ids for the penalties. */
static void put_counts(vl_q35_run *r, int slot, const int32_t *prompt, uint64_t n_prompt)
{
    vl_q35_cuda *m = r->m;
    uint32_t *counts = m->counts + (int64_t)slot * m->s.vocab;
    if (r->rc == VL_OK)
        r->rc = vl_cuda_check(cudaMemsetAsync(counts, 0, (size_t)m->s.vocab * 4, m->c.stream),
                              "clearing counts", r->err);
    for (uint64_t at = 0; at < n_prompt; at += m->chunk) {
        int n = (int)min_u64(m->chunk, n_prompt - at), output = 0;
        vl_q35_copy(r, m->w.ids, prompt + at, (size_t)n * 4, "copying prompt ids");
        vl_q35_launch(r, VL_K_MARK_IDS, (uint32_t)(n + 255) / 256, 1, 1,
                      (void *[]){&m->w.ids, &counts, &n, &output});
    }
}

/* State and pages of the snapshot: whole pages are shared, the one that goes on being written is
 * copied. */
static vl_status restore(vl_q35_run *r, struct vl_q35_seq *s, const struct vl_q35_shot *from)
{
    vl_q35_cuda *m = r->m;
    const uint64_t whole = from->position / VL_Q35_PAGE,
                   page_bytes = (uint64_t)vl_q35_page_bytes(&m->s);
    if (from->n_pages > whole) {
        r->rc = vl_pages_alloc(m->pages, 1, &s->pages[whole], r->err);
        if (r->rc != VL_OK)
            return r->rc;
        vl_q35_copy(r, m->kv + s->pages[whole] * page_bytes,
                    m->kv + from->pages[whole] * page_bytes, page_bytes, "copying a page");
    }
    memcpy(s->pages, from->pages, (size_t)whole * sizeof(uint32_t));
    vl_pages_ref(m->pages, s->pages, (size_t)whole);
    s->n_pages = from->n_pages;
    s->position = from->position;
    vl_q35_state_copy(r, s->slot, (int32_t)m->s.n_rows + from->state);
    vl_q35_copy(r, m->tables + (int64_t)s->slot * m->s.max_pages, s->pages, (size_t)s->n_pages * 4,
                "copying a page table");
    return r->rc;
}

static struct vl_q35_seq *free_slot(vl_q35_cuda *m)
{
    for (int64_t i = 0; i < m->s.n_rows; i++)
        if (!m->sequences[i].used)
            return &m->sequences[i];
    return NULL;
}

static vl_status check_prompt(const vl_q35_cuda *m, const vl_sequence_params *p, vl_error *err)
{
    if (p->n_prompt == 0 || p->n_prompt >= m->context)
        return vl_error_set(err, VL_E_INVALID, "a prompt of %llu tokens, 1 to %llu fit",
                            (unsigned long long)p->n_prompt, (unsigned long long)m->context - 1);
    for (uint64_t i = 0; i < p->n_prompt; i++)
        if (p->prompt[i] < 0 || p->prompt[i] >= m->s.vocab)
            return vl_error_set(
                err, VL_E_INVALID, "prompt id %d at %llu, the model has ids 0 to %lld",
                (int)p->prompt[i], (unsigned long long)i, (long long)m->s.vocab - 1);
    const struct vl_q35_shot *from = vl_q35_shot_of_const(p->snapshot);
    if (from != NULL && from->position >= p->n_prompt)
        return vl_error_set(err, VL_E_INVALID,
                            "a snapshot at %llu cannot begin a prompt of %llu tokens",
                            (unsigned long long)from->position, (unsigned long long)p->n_prompt);
    if (from != NULL && from->done != NULL)
        return vl_error_set(err, VL_E_BUSY, "the snapshot at %llu is on its way to tier %d",
                            (unsigned long long)from->position, (int)from->tier);
    if (from != NULL && from->tier != VL_TIER_DEVICE)
        return vl_error_set(err, VL_E_STATE, "the snapshot at %llu is in tier %d, want %d",
                            (unsigned long long)from->position, (int)from->tier, VL_TIER_DEVICE);
    return VL_OK;
}

vl_status vl_q35_cuda_sequence_begin(vl_q35_model *model, const vl_sequence_params *p,
                                     vl_sequence **out, vl_error *err)
{
    vl_q35_cuda *m = vl_q35_of(model);
    vl_slot slot;
    vl_status rc = vl_q35_cuda_health(model, err);
    if (rc == VL_OK)
        rc = check_prompt(m, p, err);
    if (rc == VL_OK)
        rc = fill_slot(m, p, &slot, err);
    if (rc == VL_OK)
        rc = vl_cuda_use(&m->c, err);
    if (rc != VL_OK)
        return rc;
    struct vl_q35_seq *s = free_slot(m);
    if (s == NULL)
        return vl_error_set(err, VL_E_NOMEM, "all %lld sequences are in use",
                            (long long)m->s.n_rows);
    int32_t *prompt = malloc((size_t)p->n_prompt * sizeof(*prompt));
    if (prompt == NULL)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    memcpy(prompt, p->prompt, (size_t)p->n_prompt * sizeof(*prompt));
    vl_q35_run r = {m, VL_OK, err};
    s->n_pages = 0;
    s->position = 0;
    if (p->snapshot != NULL && restore(&r, s, vl_q35_shot_of_const(p->snapshot)) != VL_OK &&
        r.rc != VL_E_NOMEM)
        (void)vl_q35_cuda_fail(m, r.rc, err);
    if (r.rc != VL_OK) {
        free(prompt);
        return r.rc;
    }
    slot.pos = (int)s->position;
    vl_q35_copy(&r, &m->slots[s->slot], &slot, sizeof(slot), "copying a sequence's record");
    put_bias(&r, s->slot, p->sampling);
    if (slot.counts)
        put_counts(&r, s->slot, prompt, p->n_prompt);
    if (r.rc != VL_OK) {
        (void)vl_q35_pages_release(m, s->pages, s->n_pages);
        free(prompt);
        return vl_q35_cuda_fail(m, r.rc, err);
    }
    s->used = true;
    s->decoding = false;
    s->has_last_x = false;
    s->stop = VL_STOP_NONE;
    s->prompt = prompt;
    s->n_prompt = p->n_prompt;
    s->context = m->context;
    s->n_logprobs = slot.n_logprobs;
    s->counts = slot.counts != 0;
    s->stamp = 0;
    *out = (vl_sequence *)(void *)s;
    return VL_OK;
}

void vl_q35_cuda_sequence_end(vl_q35_model *model, vl_sequence *sequence)
{
    struct vl_q35_seq *s = vl_q35_seq_of(sequence);
    if (s == NULL || !s->used)
        return;
    /* What is under way still writes to these pages, and whoever gets them next writes later on the
     * same stream. */
    (void)vl_q35_pages_release(vl_q35_of(model), s->pages, s->n_pages);
    free(s->prompt);
    s->prompt = NULL;
    s->n_pages = 0;
    s->used = false;
    s->generation++;
}

vl_status vl_q35_sequence_grow(vl_q35_cuda *m, struct vl_q35_seq *s, uint64_t tokens, vl_error *err)
{
    uint64_t want = (min_u64(tokens, s->context) + VL_Q35_PAGE - 1) / VL_Q35_PAGE;
    if (want <= s->n_pages)
        return VL_OK;
    int *head = (int *)(void *)(m->orders + m->next_ticket % VL_RING_SLOTS * m->order_bytes);
    vl_page_entry *e = (vl_page_entry *)(head + 4);
    const uint64_t more = want - s->n_pages;
    if ((uint64_t)head[0] + more > VL_STEP_PAGES)
        return vl_error_set(err, VL_E_INVALID, "one step needs more than %d new pages",
                            VL_STEP_PAGES);
    vl_status rc = vl_pages_alloc(m->pages, (size_t)more, s->pages + s->n_pages, err);
    if (rc != VL_OK)
        return rc;
    for (uint64_t i = 0; i < more; i++)
        e[head[0] + (int)i] =
            (vl_page_entry){s->slot, (int)(s->n_pages + i), (int)s->pages[s->n_pages + i]};
    head[0] += (int)more;
    s->n_pages = want;
    return VL_OK;
}

vl_status vl_q35_sequence_sync(vl_q35_cuda *m, struct vl_q35_seq *s, vl_slot *out, vl_error *err)
{
    vl_q35_run r = {m, VL_OK, err};
    vl_q35_copy(&r, out, &m->slots[s->slot], sizeof(*out), "reading a sequence's record");
    if (r.rc == VL_OK)
        r.rc = vl_cuda_check(cudaStreamSynchronize(m->c.stream), "waiting for the steps under way",
                             err);
    if (r.rc != VL_OK)
        return vl_q35_cuda_fail(m, r.rc, err);
    s->stop = out->stop;
    s->position = (uint64_t)out->pos;
    return VL_OK;
}
