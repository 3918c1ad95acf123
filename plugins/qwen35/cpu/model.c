/* plugins/qwen35/cpu/model.c: an open model on the CPU: its memory, opening, warm-up, closing.
 * Everything that steps need is carved from one block here; weights stay in the checkpoint's
 * mapping. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/error.h"
#include "plugins/common/cpu/attention.h"
#include "plugins/common/cpu/ops.h"
#include "plugins/qwen35/cpu/model.h"

_Static_assert((int)CPU_GRID == (int)VL_CPU_PAGE_TOKENS, "pages and chunks share one grid");

/* ---- sizes ---- */

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void set_sizes(vl_q35_cpu *m, const vl_q35_config *c, const vl_model_params *p)
{
    const size_t cd = (size_t)vl_q35_conv_dim(c), vd = (size_t)vl_q35_value_dim(c),
                 d = (size_t)c->head_size;
    m->c = c;
    m->max_sequences = p->max_sequences;
    m->context = (size_t)p->context_tokens;
    m->step_tokens = (size_t)p->step_tokens;
    m->n_tokens = (size_t)p->n_tokens;
    m->forced_ids = m->step_tokens + CPU_GRID * m->max_sequences;
    m->max_pages = cpu_pages_of(m->context);
    m->kv_tokens = cpu_pages_of((size_t)p->kv_tokens) * CPU_GRID;
    m->state_floats =
        (size_t)c->n_linear * ((size_t)(c->hv * c->dk * c->dv) + (VL_Q35_CONV_TAPS - 1) * cd);
    m->page_floats = max_size((size_t)c->n_full * 2 * (size_t)c->nkv * CPU_GRID * d, 16);
    const size_t step =
        m->step_tokens < CPU_PASS_ROWS ? cpu_pages_of(m->step_tokens) * CPU_GRID : CPU_PASS_ROWS;
    m->pass_rows = max_size(step, m->max_sequences);
    m->in_cols = max_size(max_size(cd + vd + 2 * (size_t)c->hv, 2 * (size_t)c->inner),
                          (2 * (size_t)c->nq + 2 * (size_t)c->nkv) * d);
    m->mid_cols = max_size(max_size(vd, (size_t)c->nq * d), (size_t)c->inner);
}

static vl_cpu_params toolbox_params(const vl_q35_cpu *m, int32_t form, int32_t threads)
{
    return (vl_cpu_params){.form = form,
                           .n_threads = threads,
                           .max_rows = 0,
                           .max_in = max_size(m->mid_cols, (size_t)m->c->hidden),
                           .n_heads = m->c->n_full > 0 ? (size_t)m->c->nq : 0,
                           .head_size = m->c->n_full > 0 ? (size_t)m->c->head_size : 0};
}

static vl_status read_options(const vl_model_params *p, int32_t *form, int32_t *threads,
                              uint64_t *snapshot_bytes, vl_error *err)
{
    *form = VL_CPU_AUTO;
    *threads = 0;
    *snapshot_bytes = 1ull << 30;
    const vl_option_values *o = p->options;
    if (o == NULL || o->n_values < VL_Q35_N_OPTIONS)
        return VL_OK;
    *threads = (int32_t)o->values[VL_Q35_OPT_THREADS].number;
    *snapshot_bytes = (uint64_t)o->values[VL_Q35_OPT_SNAPSHOT_BYTES].number;
    const char *text = o->values[VL_Q35_OPT_CPU_FORM].text;
    return text == NULL ? VL_OK : vl_cpu_form_parse(text, form, err);
}

/* ---- memory: one carve runs twice, first with no base, to measure ---- */

struct carve {
    char *base;
    uint64_t at;
    bool overflow;
};

static void *cut(struct carve *k, uint64_t n, uint64_t size)
{
    uint64_t bytes = 0, end = 0;
    k->at = (k->at + 63) & ~(uint64_t)63;
    if (!vl_mul(n, size, &bytes) || !vl_add(k->at, bytes, &end) || end > (uint64_t)1 << 52) {
        k->overflow = true;
        return NULL;
    }
    void *p = k->base != NULL ? k->base + k->at : NULL;
    k->at = end;
    return p;
}

static float *cut_floats(struct carve *k, uint64_t rows, uint64_t cols)
{
    uint64_t n = 0;
    if (!vl_mul(rows, cols, &n))
        k->overflow = true;
    return cut(k, n, sizeof(float));
}

static void carve_layers(vl_q35_cpu *m, struct carve *k)
{
    const vl_q35_config *c = m->c;
    const size_t cd = (size_t)vl_q35_conv_dim(c), d = (size_t)c->head_size,
                 kv = (size_t)c->nkv * CPU_GRID * d;
    const size_t state = (size_t)(c->hv * c->dk * c->dv) + (VL_Q35_CONV_TAPS - 1) * cd;
    size_t linear = 0, full = 0;
    m->layers = cut(k, (uint64_t)c->n_layers, sizeof(*m->layers));
    m->final_norm = cut_floats(k, 1, (uint64_t)c->hidden);
    for (int64_t i = 0; i < c->n_layers; i++) {
        struct cpu_layer l = {0};
        l.input_norm = cut_floats(k, 1, (uint64_t)c->hidden);
        l.post_norm = cut_floats(k, 1, (uint64_t)c->hidden);
        if (c->full[i]) {
            l.q_norm = cut_floats(k, 1, d);
            l.k_norm = cut_floats(k, 1, d);
            l.k_at = full * 2 * kv;
            l.v_at = l.k_at + kv;
            full++;
        } else {
            l.conv = cut_floats(k, VL_Q35_CONV_TAPS, cd);
            l.decay = cut_floats(k, 1, (uint64_t)c->hv);
            l.dt_bias = cut_floats(k, 1, (uint64_t)c->hv);
            l.gated_norm = cut_floats(k, 1, (uint64_t)c->dv);
            l.state_at = linear * state;
            linear++;
        }
        if (k->base != NULL)
            m->layers[i] = l;
    }
}

static void carve_tickets(vl_q35_cpu *m, struct carve *k)
{
    const uint64_t rows = m->max_sequences, tokens = m->step_tokens;
    for (size_t i = 0; i < sizeof(m->tickets) / sizeof(m->tickets[0]); i++) {
        struct cpu_ticket *t = &m->tickets[i];
        t->results = cut(k, rows, sizeof(*t->results));
        t->serials = cut(k, rows, sizeof(*t->serials));
        t->ids = cut(k, rows + m->forced_ids, sizeof(*t->ids));
        t->logprobs = cut(k, rows + m->forced_ids, CPU_LOGPROB_ENTRIES * sizeof(*t->logprobs));
        t->prompt = cut(k, tokens, CPU_LOGPROB_ENTRIES * sizeof(*t->prompt));
    }
}

static void carve_sequences(vl_q35_cpu *m, struct carve *k)
{
    m->sequences = cut(k, m->max_sequences, sizeof(*m->sequences));
    for (size_t i = 0; i < m->max_sequences; i++) {
        vl_sequence s = {0};
        s.prompt = cut(k, m->context, sizeof(*s.prompt));
        s.pages = cut(k, m->max_pages, sizeof(*s.pages));
        s.page_ptr = cut(k, m->max_pages + 1, sizeof(*s.page_ptr));
        s.state = cut_floats(k, 1, m->state_floats);
        s.hidden = cut_floats(k, 1, (uint64_t)m->c->hidden);
        if (k->base != NULL)
            m->sequences[i] = s;
    }
}

static void carve(vl_q35_cpu *m, struct carve *k)
{
    const vl_q35_config *c = m->c;
    const uint64_t rows = m->pass_rows + CPU_SPARE_ROWS, h = (uint64_t)c->hidden,
                   half = (uint64_t)c->rotary / 2;
    carve_layers(m, k);
    m->rope_cos = cut_floats(k, m->context, half);
    m->rope_sin = cut_floats(k, m->context, half);
    m->x = cut_floats(k, rows, h);
    m->y = cut_floats(k, rows, h);
    m->t = cut_floats(k, rows, h);
    m->in = cut_floats(k, rows, m->in_cols);
    m->mid = cut_floats(k, rows, m->mid_cols);
    m->pair_q = cut_floats(k, 2 * m->max_sequences, m->in_cols);
    m->pair_o = cut_floats(k, 2 * m->max_sequences, m->mid_cols);
    m->head_x = cut_floats(k, CPU_HEAD_ROWS, h);
    m->logits = cut_floats(k, CPU_HEAD_ROWS, (uint64_t)c->vocab);
    m->ids = cut(k, rows, sizeof(*m->ids));
    m->row_pos = cut(k, rows, sizeof(*m->row_pos));
    m->row_span = cut(k, rows, sizeof(*m->row_span));
    m->spans = cut(k, m->max_sequences, sizeof(*m->spans));
    m->groups = cut(k, m->max_sequences, sizeof(*m->groups));
    m->wants = cut(k, rows + m->max_sequences, sizeof(*m->wants));
    m->work = cut(k, m->max_sequences, sizeof(*m->work));
    m->snapshot_refs = cut(k, m->kv_tokens / CPU_GRID, sizeof(*m->snapshot_refs));
    carve_tickets(m, k);
    carve_sequences(m, k);
}

/* Zeroed memory that is taken from the system as it is touched. */
static void *map_memory(uint64_t bytes)
{
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, (size_t)bytes,
                  MADV_HUGEPAGE); /* fewer misses where the system can; no matter if not */
    return p;
}

static uint64_t counts_room(const vl_q35_cpu *m)
{
    return m->context < (size_t)m->c->vocab ? m->context : (uint64_t)m->c->vocab;
}

/* ---- estimate ---- */

static uint64_t cpu_default_kv_tokens(const vl_q35_config *c, const vl_model_params *p)
{
    (void)c;
    /* Two whole contexts when several sequences may run: one long one never blocks the others
     * altogether. */
    const uint64_t one = (p->context_tokens + CPU_GRID - 1) / CPU_GRID * CPU_GRID;
    return p->max_sequences > 1 ? 2 * one : one;
}

static vl_status cpu_usable(const vl_host *host, int32_t device_index, const vl_q35_config *c,
                            vl_error *err)
{
    (void)host;
    (void)device_index;
    (void)c;
    (void)err;
    return VL_OK;
}

static vl_status cpu_estimate(const vl_q35_open *o, vl_model_estimate *out, vl_error *err)
{
    vl_q35_cpu m = {0};
    int32_t form, threads;
    uint64_t snapshot_bytes;
    vl_status rc = read_options(o->params, &form, &threads, &snapshot_bytes, err);
    if (rc != VL_OK)
        return rc;
    set_sizes(&m, o->config, o->params);
    struct carve k = {0};
    carve(&m, &k);
    uint64_t pool = 0;
    if (k.overflow || !vl_mul(m.kv_tokens, m.page_floats / CPU_GRID * sizeof(float), &pool))
        return vl_error_set(
            err, VL_E_RANGE,
            "%llu tokens of context and %llu in the pool need more memory than can be addressed",
            (unsigned long long)o->params->context_tokens,
            (unsigned long long)o->params->kv_tokens);
    const vl_cpu_params t = toolbox_params(&m, form, threads);
    out->state_bytes = (uint64_t)m.state_floats * sizeof(float);
    out->workspace_bytes = k.at - m.max_sequences * out->state_bytes + vl_cpu_scratch_bytes(&t) +
                           m.max_sequences * counts_room(&m) * 2 * sizeof(vl_count);
    out->kv_token_bytes = (uint64_t)m.page_floats / CPU_GRID * sizeof(float);
    out->mapped_bytes = o->weights->in_place_bytes;
    out->weight_bytes = o->weights->n_bytes - o->weights->in_place_bytes;
    return VL_OK;
}

/* ---- opening ---- */

static const float *constants(const vl_q35_weight *w, const float *to, size_t n)
{
    vl_q35_weight_to_f32(w, (float *)(uintptr_t)to, n); /* carved by us; const for the passes */
    return to;
}

/* conv1d is [CD, taps] in the file; a head's channels are convolved together, so they lie as [taps,
 * channels] here. */
static void pack_conv(const vl_q35_cpu *m, const vl_q35_weight *w, float *out, float *scratch)
{
    const vl_q35_config *c = m->c;
    const size_t taps = VL_Q35_CONV_TAPS, keys = 2 * (size_t)vl_q35_key_dim(c),
                 cd = (size_t)vl_q35_conv_dim(c);
    vl_q35_weight_to_f32(w, scratch, cd * taps);
    for (size_t ch = 0; ch < cd; ch++) {
        const size_t width = ch < keys ? (size_t)c->dk : (size_t)c->dv;
        const size_t head = ch < keys ? ch / width * width : keys + (ch - keys) / width * width;
        for (size_t j = 0; j < taps; j++)
            out[taps * head + j * width + (ch - head)] = scratch[ch * taps + j];
    }
}

static void load_constants(vl_q35_cpu *m)
{
    const vl_q35_config *c = m->c;
    const size_t h = (size_t)c->hidden, hv = (size_t)c->hv;
    (void)constants(&m->w->norm, m->final_norm, h);
    for (int64_t i = 0; i < c->n_layers; i++) {
        const vl_q35_layer *w = &m->w->layers[i];
        const struct cpu_layer *l = &m->layers[i];
        (void)constants(&w->input_norm, l->input_norm, h);
        (void)constants(&w->post_norm, l->post_norm, h);
        if (c->full[i]) {
            (void)constants(&w->q_norm, l->q_norm, (size_t)c->head_size);
            (void)constants(&w->k_norm, l->k_norm, (size_t)c->head_size);
            continue;
        }
        pack_conv(m, &w->conv, (float *)(uintptr_t)l->conv, m->in);
        (void)constants(&w->dt_bias, l->dt_bias, hv);
        (void)constants(&w->gated_norm, l->gated_norm, (size_t)c->dv);
        float *decay = (float *)(uintptr_t)constants(&w->a_log, l->decay, hv);
        for (size_t j = 0; j < hv; j++)
            decay[j] = -expf(decay[j]);
    }
}

static void fill_rope(vl_q35_cpu *m)
{
    const size_t half = (size_t)m->c->rotary / 2;
    float inv_freq[128]; /* rotary <= head size <= 256 */
    for (size_t i = 0; i < half; i++)
        inv_freq[i] = (float)pow(m->c->rope_theta, -2.0 * (double)i / (double)m->c->rotary);
    vl_cpu_rope_table(inv_freq, half, 0, m->context, m->rope_cos, m->rope_sin);
}

static vl_status take_memory(vl_q35_cpu *m, vl_error *err)
{
    struct carve k = {0};
    carve(m, &k);
    uint64_t pages = (uint64_t)m->kv_tokens / CPU_GRID, kv_bytes = 0;
    if (k.overflow || !vl_mul(pages + 1, (uint64_t)m->page_floats * sizeof(float), &kv_bytes))
        return vl_error_set(
            err, VL_E_RANGE,
            "%zu tokens of context and %zu in the pool need more memory than can be addressed",
            m->context, m->kv_tokens);
    m->memory = map_memory(k.at);
    m->memory_bytes = m->memory != NULL ? k.at : 0;
    m->kv = map_memory(kv_bytes);
    m->kv_bytes = m->kv != NULL ? kv_bytes : 0;
    if (m->memory == NULL || m->kv == NULL)
        return vl_error_set(
            err, VL_E_NOMEM,
            "no memory: %llu bytes of workspace and states, %llu of keys and values",
            (unsigned long long)k.at, (unsigned long long)kv_bytes);
    k = (struct carve){.base = m->memory};
    carve(m, &k);
    vl_status rc =
        vl_pages_create((size_t)pages, m->page_floats * sizeof(float), &m->page_pool, err);
    for (size_t i = 0; rc == VL_OK && i < m->max_sequences; i++)
        rc = vl_counts_create((size_t)counts_room(m), &m->sequences[i].counts, err);
    return rc;
}

static int32_t tell(const vl_model_params *p, double fraction, const char *what)
{
    return p->progress != NULL ? p->progress(p->user, fraction, what) : 0;
}

/* One real step in each form, so that the first request finds weights in memory, threads awake and
 * pages mapped. */
static vl_status warm_up(vl_q35_cpu *m, vl_error *err)
{
    const vl_sampling sampling = {.struct_size = sizeof(sampling),
                                  .top_p = 1.0f,
                                  .repetition_penalty = 1.0f,
                                  .n_logprobs = -1};
    const int32_t prompt[1] = {0};
    const vl_sequence_params p = {.struct_size = sizeof(p),
                                  .sampling = &sampling,
                                  .prompt = prompt,
                                  .n_prompt = 1,
                                  .max_tokens = 2};
    vl_sequence *s = NULL;
    vl_status rc = vl_q35_cpu_sequence_begin(&m->base, &p, &s, err);
    for (int i = 0; rc == VL_OK && i < 2; i++) {
        vl_row row = {.sequence = s,
                      .kind = i == 0 ? VL_ROW_PREFILL : VL_ROW_DECODE,
                      .flags = i == 0 ? VL_ROW_LAST : 0,
                      .n_ids = i == 0 ? 1 : 0};
        uint64_t ticket;
        vl_row_result result;
        rc = vl_q35_cpu_submit(&m->base, &row, 1, &ticket, err);
        if (rc == VL_OK)
            rc = vl_q35_cpu_collect(&m->base, ticket, -1, &result, 1, err);
        if (rc == VL_OK && result.status != VL_OK)
            rc = vl_error_set(err, VL_E_FORMAT,
                              "the weights give logits that are no numbers (NaN or infinity)");
        if (rc == VL_OK && result.stop != VL_STOP_NONE) /* a context of two tokens ends here */
            break;
    }
    vl_q35_cpu_sequence_end(&m->base, s);
    return rc;
}

static void cpu_close(vl_q35_model *base);

static vl_status open_parts(vl_q35_cpu *m, const vl_q35_open *o, vl_error *err)
{
    const vl_model_params *p = o->params;
    int32_t form, threads;
    vl_status rc = read_options(p, &form, &threads, &m->snapshot_cap, err);
    if (rc != VL_OK)
        return rc;
    set_sizes(m, o->config, p);
    const vl_cpu_params t = toolbox_params(m, form, threads);
    rc = vl_cpu_create(&t, &m->cpu, err);
    if (rc == VL_OK)
        rc = take_memory(m, err);
    if (rc == VL_OK)
        rc = vl_sampler_create(m->cpu, m->n_tokens, &m->sampler, err);
    if (rc != VL_OK)
        return rc;
    if (tell(p, 0.0, "mapping weights") != 0)
        return vl_error_set(err, VL_E_CANCELLED, "opening was cancelled");
    rc = vl_q35_weights_map(o->config, o->loader, o->checkpoint, o->weights, err);
    if (rc != VL_OK)
        return rc;
    load_constants(m);
    fill_rope(m);
    (void)snprintf(m->device, sizeof(m->device), "cpu %s, %d threads",
                   vl_cpu_form_name(vl_cpu_form(m->cpu)), (int)vl_cpu_threads(m->cpu));
    if (tell(p, 0.2, "warming up") != 0)
        return vl_error_set(err, VL_E_CANCELLED, "opening was cancelled");
    rc = warm_up(m, err);
    if (rc == VL_OK && tell(p, 1.0, "ready") != 0)
        return vl_error_set(err, VL_E_CANCELLED, "opening was cancelled");
    return rc;
}

static vl_status cpu_open(const vl_q35_open *o, vl_q35_model **out, vl_error *err)
{
    vl_q35_cpu *m = map_memory(sizeof(*m));
    if (m == NULL)
        return vl_error_set(err, VL_E_NOMEM, "no memory for a model");
    m->base.backend = &vl_q35_cpu_backend;
    m->host = o->host;
    m->w = o->weights;
    m->next_ticket = m->next_collect = 1;
    vl_status rc = open_parts(m, o, err);
    if (rc != VL_OK) {
        cpu_close(&m->base);
        return rc;
    }
    vl_q35_log(m->host, VL_LOG_INFO, "cpu",
               "ready form=%s threads=%d weights_mapped_mb=%llu weights_converted_mb=%llu "
               "workspace_mb=%llu kv_tokens=%zu "
               "value_heads=%s",
               vl_cpu_form_name(vl_cpu_form(m->cpu)), (int)vl_cpu_threads(m->cpu),
               (unsigned long long)(m->w->in_place_bytes >> 20),
               (unsigned long long)((m->w->n_bytes - m->w->in_place_bytes) >> 20),
               (unsigned long long)(m->memory_bytes >> 20), m->kv_tokens,
               m->w->tiled ? "tiled" : "grouped");
    *out = &m->base;
    return VL_OK;
}

static void cpu_close(vl_q35_model *base)
{
    if (base == NULL)
        return;
    vl_q35_cpu *m = cpu_of(base);
    while (m->snapshots != NULL)
        (void)vl_q35_cpu_drop(base, m->snapshots);
    for (size_t i = 0; m->memory != NULL && i < m->max_sequences; i++) {
        vl_q35_cpu_sequence_end(base, &m->sequences[i]);
        vl_counts_destroy(m->sequences[i].counts);
    }
    vl_sampler_destroy(m->sampler);
    vl_pages_destroy(m->page_pool);
    vl_cpu_destroy(m->cpu);
    if (m->memory != NULL)
        (void)munmap(m->memory, (size_t)m->memory_bytes);
    if (m->kv != NULL)
        (void)munmap(m->kv, (size_t)m->kv_bytes);
    (void)munmap(m, sizeof(*m));
}

static void cpu_info(const vl_q35_model *base, vl_model_info *out)
{
    const vl_q35_cpu *m = cpu_of_const(base);
    out->max_sequences = (uint32_t)m->max_sequences;
    out->device = m->device;
    out->context_tokens = m->context;
    out->kv_tokens = m->kv_tokens;
    out->step_tokens = m->step_tokens;
    out->vocab_rows = (uint64_t)m->c->vocab;
    out->n_tokens = m->n_tokens;
    out->max_step_ids = 1;
    out->max_in_flight = CPU_IN_FLIGHT;
    out->snapshot_grid = CPU_GRID;
    out->n_layers = (uint64_t)m->c->n_layers;
}

static vl_status cpu_health(const vl_q35_model *base, vl_error *err)
{
    (void)base;
    (void)err;
    return VL_OK; /* memory that fails ends the process; nothing else can fail for good here */
}

const vl_q35_backend vl_q35_cpu_backend = {
    .name = "cpu",
    .takes_tiled = 1,
    .usable = cpu_usable,
    .estimate = cpu_estimate,
    .default_kv_tokens = cpu_default_kv_tokens,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .health = cpu_health,
    .sequence_begin = vl_q35_cpu_sequence_begin,
    .sequence_end = vl_q35_cpu_sequence_end,
    .submit = vl_q35_cpu_submit,
    .collect = vl_q35_cpu_collect,
    .pool = vl_q35_cpu_pool,
    .take = vl_q35_cpu_take,
    .take_bytes = vl_q35_cpu_take_bytes,
    .snapshot_info = vl_q35_cpu_snapshot_info,
    .move = vl_q35_cpu_move,
    .moved = vl_q35_cpu_moved,
    .drop = vl_q35_cpu_drop,
    .tier = vl_q35_cpu_tier,
};
