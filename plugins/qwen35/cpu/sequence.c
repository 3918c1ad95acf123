/* plugins/qwen35/cpu/sequence.c: slots of running sequences, and the pages they hold.
 * Knows no arithmetic of the model. All memory of a slot is there since open, but the copies of a
 * request's lists. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/qwen35/cpu/model.h"

static float *page_memory(const vl_q35_cpu *m, uint32_t page)
{
    return m->kv + (size_t)page * m->page_floats;
}

/* The last page is shared and would be written to. */
static bool must_copy(const vl_q35_cpu *m, const vl_sequence *s)
{
    return s->position % CPU_GRID != 0 &&
           vl_pages_refs(m->page_pool, s->pages[s->position / CPU_GRID]) > 1;
}

size_t vl_q35_cpu_pages_needed(const vl_q35_cpu *m, const vl_sequence *s, size_t n)
{
    if (n == 0)
        return 0;
    return cpu_pages_of(s->position + n) - s->n_pages + (must_copy(m, s) ? 1 : 0);
}

void vl_q35_cpu_pages_take(vl_q35_cpu *m, vl_sequence *s, size_t n)
{
    if (n == 0)
        return;
    if (must_copy(m, s)) {
        const size_t at = s->position / CPU_GRID;
        const uint32_t old = s->pages[at];
        uint32_t fresh;
        if (vl_pages_alloc(m->page_pool, 1, &fresh, NULL) == VL_OK) {
            memcpy(page_memory(m, fresh), page_memory(m, old), m->page_floats * sizeof(float));
            (void)vl_pages_unref(m->page_pool, &old, 1);
            s->pages[at] = fresh;
            s->page_ptr[at] = page_memory(m, fresh);
        }
    }
    const size_t want = cpu_pages_of(s->position + n) - s->n_pages;
    if (want > 0 && vl_pages_alloc(m->page_pool, want, s->pages + s->n_pages, NULL) == VL_OK) {
        for (size_t i = 0; i < want; i++, s->n_pages++)
            s->page_ptr[s->n_pages] = page_memory(m, s->pages[s->n_pages]);
    }
}

static vl_status check_ids(const char *what, const int32_t *ids, size_t n, int64_t limit,
                           vl_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= limit)
            return vl_error_set(err, VL_E_INVALID, "%s[%zu] is %d, the model has ids 0 to %lld",
                                what, i, (int)ids[i], (long long)limit - 1);
    }
    return VL_OK;
}

static vl_status check_params(const vl_q35_cpu *m, const vl_sequence_params *p, vl_error *err)
{
    if (p->sampling == NULL || p->prompt == NULL || p->n_prompt < 1)
        return vl_error_set(
            err, VL_E_INVALID,
            "a sequence needs sampling parameters and a prompt of at least one token");
    if (p->n_prompt >= m->context)
        return vl_error_set(err, VL_E_RANGE,
                            "the prompt has %llu tokens, the context holds %zu with the answer",
                            (unsigned long long)p->n_prompt, m->context);
    if (p->sampling->n_logprobs > CPU_MAX_LOGPROBS)
        return vl_error_set(err, VL_E_INVALID, "n_logprobs is %d, at most %d",
                            (int)p->sampling->n_logprobs, CPU_MAX_LOGPROBS);
    if (p->max_tokens < 1)
        return vl_error_set(err, VL_E_INVALID, "max_tokens is 0, want at least 1");
    vl_status rc = check_ids("prompt", p->prompt, (size_t)p->n_prompt, m->c->vocab, err);
    for (size_t i = 0; rc == VL_OK && i < p->sampling->n_bias; i++)
        rc = check_ids("bias", &p->sampling->bias[i].id, 1, (int64_t)m->n_tokens, err);
    if (rc == VL_OK && p->snapshot != NULL && p->snapshot->position >= p->n_prompt)
        rc = vl_error_set(err, VL_E_INVALID,
                          "the snapshot is at %zu, the prompt has only %llu tokens",
                          p->snapshot->position, (unsigned long long)p->n_prompt);
    return rc;
}

static vl_sequence *free_slot(vl_q35_cpu *m)
{
    for (size_t i = 0; i < m->max_sequences; i++) {
        if (!m->sequences[i].used)
            return &m->sequences[i];
    }
    return NULL;
}

/* The request's lists, copied. On failure nothing is kept. */
static vl_status copy_lists(vl_sequence *s, const vl_sequence_params *p, vl_error *err)
{
    const uint64_t n_bias = p->sampling->n_bias, n_stop = p->n_stop_ids;
    s->bias = n_bias > 0 ? calloc((size_t)n_bias, sizeof(*s->bias)) : NULL;
    s->stop_ids = n_stop > 0 ? calloc((size_t)n_stop, sizeof(*s->stop_ids)) : NULL;
    if ((n_bias > 0 && s->bias == NULL) || (n_stop > 0 && s->stop_ids == NULL)) {
        free(s->bias);
        free(s->stop_ids);
        s->bias = NULL;
        s->stop_ids = NULL;
        return vl_error_set(err, VL_E_NOMEM, "no memory for %llu stop ids and %llu biases",
                            (unsigned long long)n_stop, (unsigned long long)n_bias);
    }
    if (n_bias > 0)
        memcpy(s->bias, p->sampling->bias, (size_t)n_bias * sizeof(*s->bias));
    if (n_stop > 0)
        memcpy(s->stop_ids, p->stop_ids, (size_t)n_stop * sizeof(*s->stop_ids));
    return VL_OK;
}

static void load_state(vl_q35_cpu *m, vl_sequence *s, const vl_snapshot *from)
{
    if (from == NULL) {
        memset(s->state, 0, m->state_floats * sizeof(float));
        return;
    }
    memcpy(s->state, from->state, m->state_floats * sizeof(float));
    vl_pages_ref(m->page_pool, from->pages, from->n_pages);
    s->position = from->position;
    s->n_pages = from->n_pages;
    for (size_t i = 0; i < s->n_pages; i++) {
        s->pages[i] = from->pages[i];
        s->page_ptr[i] = page_memory(m, from->pages[i]);
    }
}

vl_status vl_q35_cpu_sequence_begin(vl_q35_model *base, const vl_sequence_params *p,
                                    vl_sequence **out, vl_error *err)
{
    vl_q35_cpu *m = cpu_of(base);
    vl_status rc = check_params(m, p, err);
    if (rc != VL_OK)
        return rc;
    vl_sequence *s = free_slot(m);
    if (s == NULL)
        return vl_error_set(err, VL_E_NOMEM, "all %zu sequences are in use", m->max_sequences);
    /* What the slot owns for good stays; all else starts from nothing. */
    vl_sequence fresh = {.prompt = s->prompt,
                         .pages = s->pages,
                         .page_ptr = s->page_ptr,
                         .state = s->state,
                         .hidden = s->hidden,
                         .counts = s->counts};
    *s = fresh;
    rc = copy_lists(s, p, err);
    if (rc != VL_OK)
        return rc;
    s->used = true;
    s->serial = ++m->next_serial;
    s->sampling = *p->sampling;
    s->sampling.bias = s->bias;
    s->n_stop_ids = (size_t)p->n_stop_ids;
    s->min_tokens = p->min_tokens;
    s->max_tokens = p->max_tokens;
    s->n_prompt = (size_t)p->n_prompt;
    memcpy(s->prompt, p->prompt, s->n_prompt * sizeof(*s->prompt));
    s->counting = s->sampling.repetition_penalty != 1.0f || s->sampling.frequency_penalty != 0.0f ||
                  s->sampling.presence_penalty != 0.0f;
    if (s->counting) {
        vl_counts_clear(s->counts);
        for (size_t i = 0; i < s->n_prompt; i++)
            (void)vl_counts_add(s->counts, s->prompt[i], false);
    }
    load_state(m, s, p->snapshot);
    *out = s;
    return VL_OK;
}

void vl_q35_cpu_sequence_end(vl_q35_model *base, vl_sequence *s)
{
    vl_q35_cpu *m = cpu_of(base);
    if (s == NULL || !s->used)
        return;
    (void)vl_pages_unref(m->page_pool, s->pages, s->n_pages);
    s->n_pages = 0;
    free(s->bias);
    free(s->stop_ids);
    s->bias = NULL;
    s->stop_ids = NULL;
    s->used = false;
}

void vl_q35_cpu_pool(const vl_q35_model *base, uint64_t *kv_tokens, uint64_t *kv_tokens_free)
{
    const vl_q35_cpu *m = cpu_of_const(base);
    *kv_tokens = (uint64_t)vl_pages_total(m->page_pool) * CPU_GRID;
    *kv_tokens_free = (uint64_t)vl_pages_free(m->page_pool) * CPU_GRID;
}
