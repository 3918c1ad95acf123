/* plugins/qwen35/cuda/open.c: opening and closing a model: sizes, memory, plans, graphs, the first
 * pass. Knows the order in which things are made; what they do stands elsewhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "plugins/qwen35/cuda/model.h"

enum {
    LT_WORKSPACE_BYTES = 32 << 20,
    MAX_ROWS = 512,
    MAX_STEP_TOKENS = 65536,
    MAX_SAVED = 4096,
    DEFAULT_SAVED = 16
};
#define GIB 1073741824.0

vl_status vl_q35_cuda_fail(vl_q35_cuda *m, vl_status status, const vl_error *err)
{
    (void)pthread_mutex_lock(&m->lock);
    if (m->fault.status == VL_OK)
        (void)vl_error_set(&m->fault, status, "%s", err != NULL ? err->text : "the device failed");
    (void)pthread_mutex_unlock(&m->lock);
    return status;
}

vl_status vl_q35_cuda_health(const vl_q35_model *model, vl_error *err)
{
    vl_q35_cuda *m = (vl_q35_cuda *)(uintptr_t)model; /* the lock is the only thing that changes */
    vl_status rc = VL_OK;
    (void)pthread_mutex_lock(&m->lock);
    if (m->fault.status != VL_OK)
        rc = vl_error_set(err, m->fault.status, "%s", m->fault.text);
    (void)pthread_mutex_unlock(&m->lock);
    return rc;
}

static vl_status supported(const vl_q35_config *c, vl_error *err)
{
    const struct {
        const char *key;
        int64_t have, want;
    } fixed[] = {{"head_dim", c->head_size, 256},
                 {"linear_key_head_dim", c->dk, 128},
                 {"linear_value_head_dim", c->dv, 128},
                 {"rotary dims", c->rotary, 64},
                 {"hidden_size modulo 64", c->hidden % 64, 0},
                 {"intermediate_size modulo 64", c->inner % 64, 0},
                 {"vocab_size modulo 8", c->vocab % 8, 0}};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (fixed[i].have != fixed[i].want)
            return vl_error_set(err, VL_E_UNSUPPORTED,
                                "the CUDA kernels need %s %lld, this model has %lld", fixed[i].key,
                                (long long)fixed[i].want, (long long)fixed[i].have);
    if (c->nq / c->nkv > 8)
        return vl_error_set(
            err, VL_E_UNSUPPORTED,
            "the CUDA kernels take up to 8 query heads a key head, this model has %lld",
            (long long)(c->nq / c->nkv));
    if (c->n_full == 0 || c->n_linear == 0)
        return vl_error_set(
            err, VL_E_UNSUPPORTED,
            "the CUDA kernels need layers of both kinds; this model has %lld linear, %lld full",
            (long long)c->n_linear, (long long)c->n_full);
    return VL_OK;
}

vl_status vl_q35_cuda_usable(const vl_host *host, int32_t device, const vl_q35_config *c,
                             vl_error *err)
{
    (void)host;
    vl_cuda cuda;
    vl_status rc = supported(c, err);
    if (rc == VL_OK)
        rc = vl_cuda_init(&cuda, device, err);
    if (rc == VL_OK)
        vl_cuda_fini(&cuda);
    return rc;
}

static uint64_t pow2_from(uint64_t least, uint64_t n)
{
    while (least < n)
        least *= 2;
    return least;
}

/* Sizes of everything, from the config and the parameters; no device. */
static vl_status set_shape(vl_q35_cuda *m, const vl_q35_config *c, const vl_model_params *p,
                           vl_error *err)
{
    vl_status rc = supported(c, err);
    if (rc != VL_OK)
        return rc;
    if (p->max_sequences > MAX_ROWS)
        return vl_error_set(err, VL_E_INVALID, "max_sequences is %u, at most %d on CUDA",
                            p->max_sequences, MAX_ROWS);
    m->context = p->context_tokens;
    m->kv_tokens = (p->kv_tokens + VL_Q35_PAGE - 1) / VL_Q35_PAGE * VL_Q35_PAGE;
    m->step_tokens = p->step_tokens < MAX_STEP_TOKENS ? p->step_tokens : MAX_STEP_TOKENS;
    m->chunk = m->step_tokens < VL_Q35_MAX_CHUNK ? pow2_from(64, m->step_tokens) : VL_Q35_MAX_CHUNK;
    m->thin_rows = VL_Q35_THIN_ROWS;
    m->n_layers = c->n_layers;
    m->s = (vl_q35_shape){.hidden = c->hidden,
                          .inner = c->inner,
                          .n_linear = c->n_linear,
                          .n_full = c->n_full,
                          .nq = c->nq,
                          .nkv = c->nkv,
                          .hk = c->hk,
                          .hv = c->hv,
                          .vocab = c->vocab,
                          .n_tokens = p->n_tokens > 0 && p->n_tokens < (uint64_t)c->vocab
                                          ? (int64_t)p->n_tokens
                                          : c->vocab,
                          .n_rows = p->max_sequences,
                          .max_pages = (int64_t)((m->context + VL_Q35_PAGE - 1) / VL_Q35_PAGE),
                          .eps = c->eps,
                          .z_sigmoid = c->z_sigmoid};
    uint64_t saved = DEFAULT_SAVED;
    if (p->options != NULL && p->options->n_values > VL_Q35_OPT_SNAPSHOT_BYTES)
        saved =
            (uint64_t)p->options->values[VL_Q35_OPT_SNAPSHOT_BYTES].number / vl_q35_state_bytes(m);
    m->n_saved = (int32_t)(saved < MAX_SAVED ? saved : MAX_SAVED);
    m->layers = calloc((size_t)m->n_layers, sizeof(*m->layers));
    if (m->layers == NULL)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    return VL_OK;
}

static void carve_states(vl_q35_cuda *m)
{
    vl_arena *a = &m->states;
    const vl_q35_shape *s = &m->s;
    const uint64_t rows = (uint64_t)s->n_rows, states = rows + (uint64_t)m->n_saved,
                   linear = (uint64_t)s->n_linear;
    m->kv = vl_arena_take(a, m->kv_tokens / VL_Q35_PAGE, (uint64_t)vl_q35_page_bytes(s));
    m->state = vl_arena_take(a, states * linear, (uint64_t)s->hv * 65536);
    m->ring = vl_arena_take(a, states * linear, (uint64_t)vl_q35_cd(s) * 8);
    m->slots = vl_arena_take(a, rows, sizeof(vl_slot));
    m->tables = vl_arena_take(a, rows * (uint64_t)s->max_pages, 4);
    m->counts = vl_arena_take(a, rows * (uint64_t)s->vocab, 4);
    m->bias_ids = vl_arena_take(a, rows * VL_SLOT_BIAS, 4);
    m->bias = vl_arena_take(a, rows * VL_SLOT_BIAS, 4);
}

static void carve_work(vl_q35_cuda *m)
{
    vl_arena *a = &m->workspace;
    vl_q35_work *w = &m->w;
    const vl_q35_shape *s = &m->s;
    const uint64_t decode = pow2_from(16, (uint64_t)s->n_rows), rows = pow2_from(decode, m->chunk),
                   hv = (uint64_t)s->hv;
    const uint64_t chunks = rows / 64 + 2;
    w->x = vl_arena_take(a, rows * (uint64_t)s->hidden, 4);
    w->xn = vl_arena_take(a, rows * (uint64_t)s->hidden, 2);
    w->ss = vl_arena_take(a, VL_Q35_THIN_ROWS * (uint64_t)s->hidden / 8, 4);
    w->p = vl_arena_take(a, rows * (uint64_t)vl_q35_in_max(s), 2);
    w->mix = vl_arena_take(a, rows * (uint64_t)vl_q35_out_max(s), 2);
    w->gu = vl_arena_take(a, rows * 2 * (uint64_t)s->inner, 2);
    w->h = vl_arena_take(a, rows * (uint64_t)s->inner, 2);
    w->q = vl_arena_take(a, rows * (uint64_t)s->nq * 256, 2);
    w->c = vl_arena_take(a, rows * (uint64_t)vl_q35_cd(s), 2);
    w->g = vl_arena_take(a, rows * hv, 4);
    w->beta = vl_arena_take(a, rows * hv, 4);
    w->wu = vl_arena_take(a, chunks * hv, 32768);
    w->pm = vl_arena_take(a, chunks * hv, 8192);
    w->par = vl_arena_take(a, chunks * hv, 132 * 4);
    w->ids = vl_arena_take(a, rows, 4);
    w->slot = vl_arena_take(a, rows, 4);
    w->pos = vl_arena_take(a, rows, 4);
    const uint64_t split_rows =
        s->n_rows > VL_Q35_SPLIT_ROWS ? (uint64_t)s->n_rows : VL_Q35_SPLIT_ROWS;
    const uint64_t parts = split_rows * (uint64_t)s->nq * VL_Q35_SPLITS;
    w->part = vl_arena_take(a, parts * 256, 4);
    w->ml = vl_arena_take(a, parts * 2, 4);
    w->logits = vl_arena_take(a, decode * (uint64_t)s->vocab, 4);
    w->scan = vl_arena_take(a, (uint64_t)s->n_rows * (uint64_t)s->vocab, 4);
    w->last_x = vl_arena_take(a, (uint64_t)(s->n_rows * s->hidden), 4);
    w->parts = vl_arena_take(a, (uint64_t)s->n_rows * VL_PARTS, 32);
    w->rows = vl_arena_take(a, 6 * (uint64_t)s->n_rows, 4);
    w->last = vl_arena_take(a, 6, 4);
    w->current = vl_arena_take(a, 1, 4);
    w->counter = vl_arena_take(a, 1, 8);
    w->lt = vl_arena_take(a, 1, LT_WORKSPACE_BYTES);
}

uint64_t vl_q35_cuda_default_kv(const vl_q35_config *c, const vl_model_params *p)
{
    const uint64_t token = (uint64_t)(c->n_full * 2 * c->nkv * c->head_size) * 2,
                   budget = (uint64_t)(24 * GIB) / token;
    uint64_t context = (p->context_tokens + VL_Q35_PAGE - 1) / VL_Q35_PAGE * VL_Q35_PAGE, all;
    if (!vl_mul(context, p->max_sequences, &all) || all > budget)
        all = budget;
    all = all < context ? context : all;
    return all / VL_Q35_PAGE * VL_Q35_PAGE;
}

vl_status vl_q35_cuda_estimate(const vl_q35_open *o, vl_model_estimate *out, vl_error *err)
{
    vl_q35_cuda *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    vl_status rc = set_shape(m, o->config, o->params, err);
    if (rc == VL_OK) {
        vl_q35_cuda_carve_weights(m, o->config);
        carve_states(m);
        carve_work(m);
        const uint64_t pages = m->kv_tokens / VL_Q35_PAGE * (uint64_t)vl_q35_page_bytes(&m->s);
        out->weight_bytes = m->weights.used;
        out->mapped_bytes = 0;
        out->state_bytes = vl_q35_state_bytes(m);
        out->kv_token_bytes = (uint64_t)vl_q35_page_bytes(&m->s) / VL_Q35_PAGE;
        out->workspace_bytes =
            m->workspace.used + m->states.used - pages - out->state_bytes * (uint64_t)m->s.n_rows;
        if (m->weights.failed || m->states.failed || m->workspace.failed)
            rc = vl_error_set(err, VL_E_RANGE, "the model's sizes overflow");
    }
    free(m->layers);
    free(m);
    return rc;
}

/* Tells before anything is loaded whether it will fit, and if not, what would. */
static vl_status check_memory(const vl_q35_cuda *m, vl_error *err)
{
    size_t free_bytes = 0, total = 0;
    vl_status rc =
        vl_cuda_check(cudaMemGetInfo(&free_bytes, &total), "asking for free memory", err);
    if (rc != VL_OK)
        return rc;
    const uint64_t reserve = 512u << 20; /* the libraries' own */
    const uint64_t token = (uint64_t)vl_q35_page_bytes(&m->s) / VL_Q35_PAGE,
                   kv = m->kv_tokens * token;
    const uint64_t need = m->weights.used + m->states.used + m->workspace.used + reserve;
    if (need <= free_bytes)
        return VL_OK;
    const uint64_t fixed = need - kv, fits = fixed < free_bytes ? (free_bytes - fixed) / token /
                                                                      VL_Q35_PAGE * VL_Q35_PAGE
                                                                : 0;
    return vl_error_set(
        err, VL_E_NOMEM,
        "%s: %.2f GiB wanted, %.2f free: weights %.2f, %lld states of %.3f, KV of %llu tokens %.2f "
        "(%llu bytes a "
        "token), rest %.2f; kv_tokens %llu would fit: lower kv_tokens, max_sequences or "
        "context_tokens",
        m->c.name, (double)need / GIB, (double)free_bytes / GIB, (double)m->weights.used / GIB,
        (long long)(m->s.n_rows + m->n_saved), (double)vl_q35_state_bytes(m) / GIB,
        (unsigned long long)m->kv_tokens, (double)kv / GIB, (unsigned long long)token,
        (double)(m->states.used - kv + m->workspace.used) / GIB, (unsigned long long)fits);
}

static vl_status make_memory(vl_q35_cuda *m, const vl_q35_config *c, vl_error *err)
{
    vl_q35_cuda_carve_weights(m, c);
    carve_states(m);
    carve_work(m);
    vl_status rc = check_memory(m, err);
    if (rc == VL_OK)
        rc = vl_arena_place(&m->weights, "weights", err);
    if (rc == VL_OK)
        rc = vl_arena_place(&m->states, "KV pages and states", err);
    if (rc == VL_OK)
        rc = vl_arena_place(&m->workspace, "workspace", err);
    if (rc != VL_OK)
        return rc;
    vl_q35_cuda_carve_weights(m, c);
    carve_states(m);
    carve_work(m);
    if (m->weights.failed || m->states.failed || m->workspace.failed)
        return vl_error_set(err, VL_E_INTERNAL, "CUDA: more was carved than measured");
    return VL_OK;
}

static vl_status pin(void *out, uint64_t bytes, const char *what, vl_error *err)
{
    void *p = NULL;
    vl_status rc =
        vl_cuda_check(cudaHostAlloc(&p, bytes > 0 ? bytes : 1, cudaHostAllocMapped), what, err);
    if (rc == VL_OK) {
        memset(p, 0, bytes);
        memcpy(out, &p, sizeof(p));
    }
    return rc;
}

/* Host memory: sequences, tickets, and the pinned records. With unified addressing the device sees
 * pinned memory at the same address. */
static vl_status make_host(vl_q35_cuda *m, vl_error *err)
{
    const uint64_t rows = (uint64_t)m->s.n_rows;
    m->order_bytes = (16 + VL_STEP_PAGES * sizeof(vl_page_entry) + rows * 12 + 63) / 64 * 64;
    m->mask_bytes = (rows * (uint64_t)vl_q35_mask_words(&m->s) * 4 + 63) / 64 * 64;
    m->sequences = calloc(rows, sizeof(*m->sequences));
    m->saved_used = calloc((size_t)m->n_saved + 1, sizeof(*m->saved_used));
    m->shot_refs = calloc((size_t)(m->kv_tokens / VL_Q35_PAGE), sizeof(*m->shot_refs));
    m->block_of = calloc((size_t)(m->kv_tokens / VL_Q35_PAGE), sizeof(*m->block_of));
    vl_pinned_init(&m->host_tier, (uint64_t)vl_q35_page_bytes(&m->s));
    bool good = m->sequences != NULL && m->saved_used != NULL && m->shot_refs != NULL &&
                m->block_of != NULL;
    for (uint64_t i = 0; good && i < rows; i++) {
        m->sequences[i].slot = (int32_t)i;
        m->sequences[i].pages = calloc((size_t)m->s.max_pages, sizeof(uint32_t));
        good = m->sequences[i].pages != NULL;
    }
    for (int i = 0; good && i < VL_RING_SLOTS; i++) {
        m->tickets[i].rows = calloc(rows, sizeof(*m->tickets[i].rows));
        good = m->tickets[i].rows != NULL;
    }
    if (!good)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    vl_status rc = vl_pages_create(m->kv_tokens / VL_Q35_PAGE, (size_t)vl_q35_page_bytes(&m->s),
                                   &m->pages, err);
    if (rc == VL_OK)
        rc = vl_ring_init(&m->ring_out, rows * sizeof(vl_row_out), err);
    if (rc == VL_OK)
        rc = pin(&m->orders, m->order_bytes * VL_RING_SLOTS, "pinning orders", err);
    if (rc == VL_OK)
        rc = pin(&m->masks, m->mask_bytes * VL_RING_SLOTS, "pinning masks", err);
    if (rc == VL_OK)
        rc =
            pin(&m->ids_in, (m->step_tokens + rows) * 4 * VL_RING_SLOTS, "pinning prompt ids", err);
    if (rc == VL_OK)
        rc = pin(&m->prompt_lp,
                 m->step_tokens * (1 + VL_TOP_LOGPROBS) * sizeof(vl_logprob) * VL_RING_SLOTS,
                 "pinning log probabilities", err);
    return rc;
}

/* Plans for every product and row count that the thin kernels may not take. */
static vl_status make_plans(vl_q35_cuda *m, vl_error *err)
{
    const vl_q35_dev_layer *linear = NULL, *full = NULL;
    for (int64_t i = 0; i < m->n_layers; i++)
        *(m->layers[i].full ? &full : &linear) = &m->layers[i];
    vl_q35_work *w = &m->w;
    const struct {
        const void *w, *x;
        void *y;
    } use[VL_N_MM] = {{linear->in, w->xn, w->p},     {full->in, w->xn, w->p},
                      {linear->out, w->mix, w->x},   {full->out, w->mix, w->x},
                      {full->gate_up, w->xn, w->gu}, {full->down, w->h, w->x},
                      {m->lm_head, w->xn, w->logits}};
    const uint64_t decode = pow2_from(16, (uint64_t)m->s.n_rows),
                   rows = pow2_from(decode, m->chunk);
    /* Not zeros: they would run faster than real data. */
    vl_status rc =
        vl_cuda_check(cudaMemset(w->xn, 0x3c, rows * (uint64_t)m->s.hidden * 2), "warming up", err);
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaMemset(w->mix, 0x3c, rows * (uint64_t)vl_q35_out_max(&m->s) * 2),
                           "warming up", err);
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaMemset(w->h, 0x3c, rows * (uint64_t)m->s.inner * 2), "warming up",
                           err);
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaDeviceSynchronize(), "warming up", err);
    for (int mm = 0; rc == VL_OK && mm < VL_N_MM; mm++) {
        vl_lt_shape s = {0};
        vl_q35_mm_size(&m->s, mm, &s.n, &s.k);
        s.x_stride = s.k;
        s.y_stride = s.n;
        s.add = mm == VL_MM_OUT_LINEAR || mm == VL_MM_OUT_FULL || mm == VL_MM_DOWN;
        s.f32_out = s.add || mm == VL_MM_HEAD;
        for (int i = 0; rc == VL_OK && i < VL_Q35_BUCKETS &&
                        (16ull << i) <= (mm == VL_MM_HEAD ? decode : rows);
             i++)
            rc = vl_lt_plan_make(&m->lt, &s, 16ll << i, use[mm].x, use[mm].w, use[mm].y,
                                 &m->plans[mm][i], err);
    }
    return rc;
}

/* A real pass of each kind on slot 0, so that a first request pays for itself alone; then
 * everything is as it was. */
static vl_status warm_up(vl_q35_cuda *m, vl_error *err)
{
    vl_q35_run r = {m, VL_OK, err};
    const uint64_t most = m->kv_tokens < m->context ? m->kv_tokens : m->context;
    int n = (int)(most - 2 < m->chunk ? most - 2 : m->chunk);
    n = n < (int)m->step_tokens ? n : (int)m->step_tokens;
    vl_slot s = {.pos = 0, .max_out = 1000000, .context = 1000000, .n_logprobs = -1};
    int *head = (int *)(void *)m->orders;
    const int64_t pages = (n + 2 + VL_Q35_PAGE - 1) / VL_Q35_PAGE;
    vl_page_entry *e = (vl_page_entry *)(head + 4);
    for (int64_t i = 0; i < pages; i++)
        e[i] = (vl_page_entry){0, (int)i, (int)i};
    head[0] = (int)pages;
    head[1] = 1;
    int *slot = (int *)(void *)(e + VL_STEP_PAGES);
    slot[0] = 0;
    slot[m->s.n_rows] = 0;
    vl_q35_copy(&r, m->slots, &s, sizeof(s), "warming up");
    vl_q35_forward_begin(&r, 0);
    vl_q35_forward_prefill(&r, m->ids_in, n, 0, 0, 0, 0);
    vl_q35_forward_sample_last(&r, n);
    /* Graphs replay the same record: the counter is put back each time. */
    for (int32_t i = 0; i < m->n_graphs && r.rc == VL_OK; i++) {
        uint64_t zero = 0;
        vl_q35_copy(&r, m->w.counter, &zero, sizeof(zero), "warming up");
        vl_q35_copy(&r, m->slots, &s, sizeof(s), "warming up");
        vl_q35_graph_run(&r, (uint64_t)vl_q35_graph_rows(m, i));
    }
    if (r.rc == VL_OK)
        r.rc = vl_cuda_check(cudaStreamSynchronize(m->c.stream), "the first pass", err);
    const vl_row_out *o = (const vl_row_out *)(const void *)vl_ring_host(&m->ring_out, 0);
    if (r.rc == VL_OK && o->fault == 1)
        r.rc = vl_error_set(
            err, VL_E_FORMAT,
            "the first pass gives logits that are not finite: the weights are damaged");
    uint64_t zero = 0;
    vl_q35_copy(&r, m->w.counter, &zero, sizeof(zero), "warming up");
    memset(m->orders, 0, m->order_bytes);
    return r.rc;
}

static int32_t tell(const vl_q35_open *o, double fraction, const char *what)
{
    return o->params->progress != NULL ? o->params->progress(o->params->user, fraction, what) : 0;
}

static int32_t tell_kernels(void *user, uint32_t done)
{
    return tell(user, 0.05 * done / VL_N_KERNELS, "compiling kernels");
}

static void set_texts(vl_q35_cuda *m, const vl_q35_open *o)
{
    (void)snprintf(m->device_text, sizeof(m->device_text), "cuda:%d %s", (int)m->c.device,
                   m->c.name);
    const char *dir =
        o->host != NULL && o->host->cache_dir != NULL ? o->host->cache_dir(o->host->ctx) : "";
    int n = snprintf(m->cache_dir, sizeof(m->cache_dir), "%s", dir != NULL ? dir : "");
    if (n < 0 || (size_t)n >= sizeof(m->cache_dir))
        m->cache_dir[0] = '\0';
}

static vl_status build(vl_q35_cuda *m, const vl_q35_open *o, vl_error *err)
{
    vl_status rc = set_shape(m, o->config, o->params, err);
    if (rc != VL_OK)
        return rc;
    rc = vl_cuda_init(&m->c, o->device_index, err);
    if (rc != VL_OK)
        return rc;
    m->open = true;
    set_texts(m, o);
    rc = make_memory(m, o->config, err);
    if (rc != VL_OK)
        return rc;
    vl_q35_kernels(&m->s, m->c.cc, m->c.shared_block_bytes, m->kernels);
    rc = vl_kernels_build(&m->c, m->kernels, VL_N_KERNELS, vl_q35_sources, m->cache_dir,
                          tell_kernels, (void *)(uintptr_t)o, err);
    if (rc == VL_OK)
        rc = vl_q35_weights_map(o->config, o->loader, o->checkpoint, o->weights, err);
    if (rc == VL_OK)
        rc = vl_q35_cuda_upload(m, o, err);
    if (rc == VL_OK)
        rc = make_host(m, err);
    if (rc == VL_OK && tell(o, 0.8, "timing matrix products") != 0)
        rc = vl_error_set(err, VL_E_CANCELLED, "cancelled");
    if (rc == VL_OK)
        rc = vl_lt_init(&m->lt, &m->c, m->w.lt, LT_WORKSPACE_BYTES, m->cache_dir, err);
    if (rc == VL_OK)
        rc = make_plans(m, err);
    if (rc == VL_OK && tell(o, 0.95, "capturing the decode step") != 0)
        rc = vl_error_set(err, VL_E_CANCELLED, "cancelled");
    if (rc == VL_OK)
        rc = vl_q35_graphs_make(m, err);
    if (rc == VL_OK)
        rc = vl_q35_graphs_choose(m, err);
    if (rc == VL_OK)
        rc = warm_up(m, err);
    m->allocations = vl_arena_allocations();
    return rc;
}

vl_status vl_q35_cuda_open(const vl_q35_open *o, vl_q35_model **out, vl_error *err)
{
    vl_q35_cuda *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    (void)pthread_mutex_init(&m->lock, NULL);
    m->head.backend = &vl_q35_cuda_backend;
    m->host = o->host;
    vl_status rc = build(m, o, err);
    if (rc != VL_OK) {
        vl_q35_cuda_close(&m->head);
        return rc;
    }
    *out = &m->head;
    return VL_OK;
}

static void free_host(vl_q35_cuda *m)
{
    for (int64_t i = 0; m->sequences != NULL && i < m->s.n_rows; i++) {
        free(m->sequences[i].pages);
        free(m->sequences[i].prompt);
    }
    for (int i = 0; i < VL_RING_SLOTS; i++) {
        free(m->tickets[i].rows);
        free(m->tickets[i].forced_ids);
    }
    free(m->sequences);
    free(m->saved_used);
    free(m->shot_refs);
    free(m->block_of);
    free(m->layers);
    free(m->out_ids);
    free(m->out_lp);
}

void vl_q35_cuda_close(vl_q35_model *model)
{
    if (model == NULL)
        return;
    vl_q35_cuda *m = vl_q35_of(model);
    if (m->open) {
        (void)vl_cuda_use(&m->c, NULL);
        (void)cudaStreamSynchronize(m->c.stream);
        vl_q35_graphs_free(m);
        vl_lt_fini(&m->lt);
        vl_kernels_fini(&m->c, m->kernels, VL_N_KERNELS);
        vl_ring_fini(&m->ring_out);
        vl_pinned_fini(&m->host_tier);
        void *pinned[] = {m->orders, m->masks, m->ids_in, m->prompt_lp};
        for (size_t i = 0; i < sizeof(pinned) / sizeof(pinned[0]); i++)
            if (pinned[i] != NULL)
                (void)cudaFreeHost(pinned[i]);
        vl_arena_fini(&m->workspace);
        vl_arena_fini(&m->states);
        vl_arena_fini(&m->weights);
        vl_cuda_fini(&m->c);
    }
    vl_pages_destroy(m->pages);
    free_host(m);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}
