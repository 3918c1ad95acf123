/* plugins/qwen35/cpu/full.c: the gated full-attention mixer over paged keys
 * and values. */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/attention.h"
#include "plugins/common/cpu/ops.h"
#include "plugins/qwen35/cpu/model.h"

struct full_job {
    vl_q35_cpu *m;
    const struct cpu_layer *l;
    size_t at_k, at_v; /* columns of m->in where k and v begin */
};

static float *page_of(const vl_sequence *s, size_t position)
{
    /* The pages are the model's own memory; page_ptr is const for the readers. */
    return (float *)(uintptr_t)s->page_ptr[position / CPU_GRID];
}

static void store_kv(const struct full_job *j, const vl_sequence *s, size_t position,
                     const float *k, const float *v)
{
    const size_t d = (size_t)j->m->c->head_size;
    float *page = page_of(s, position);
    for (size_t g = 0; g < (size_t)j->m->c->nkv; g++) {
        const size_t at = (g * CPU_GRID + position % CPU_GRID) * d;
        if (k == NULL) {
            memset(page + j->l->k_at + at, 0, d * sizeof(float));
            memset(page + j->l->v_at + at, 0, d * sizeof(float));
            continue;
        }
        memcpy(page + j->l->k_at + at, k + g * d, d * sizeof(float));
        memcpy(page + j->l->v_at + at, v + g * d, d * sizeof(float));
    }
}

/* Norm and rope of q and k, and k, v into their page. */
static void prepare_rows(void *arg, size_t begin, size_t end, int thread)
{
    (void)thread;
    const struct full_job *j = arg;
    vl_q35_cpu *m = j->m;
    const size_t d = (size_t)m->c->head_size, nq = (size_t)m->c->nq, nkv = (size_t)m->c->nkv;
    const size_t half = (size_t)m->c->rotary / 2;
    for (size_t r = begin; r < end; r++) {
        float *q = m->in + r * m->in_cols, *k = q + j->at_k;
        const float *cos_row = m->rope_cos + m->row_pos[r] * half,
                    *sin_row = m->rope_sin + m->row_pos[r] * half;
        vl_cpu_rmsnorm(m->cpu, q, 2 * d, j->l->q_norm, 1.0f, m->c->eps, q, 2 * d, nq, d);
        vl_cpu_rmsnorm(m->cpu, k, d, j->l->k_norm, 1.0f, m->c->eps, k, d, nkv, d);
        vl_cpu_rope(m->cpu, q, nq, 2 * d, half, cos_row, sin_row);
        vl_cpu_rope(m->cpu, k, nkv, d, half, cos_row, sin_row);
        store_kv(j, m->row_span[r]->seq, m->row_pos[r], k, q + j->at_v);
    }
}

static void gate_rows(void *arg, size_t begin, size_t end, int thread)
{
    (void)thread;
    const struct full_job *j = arg;
    vl_q35_cpu *m = j->m;
    const size_t d = (size_t)m->c->head_size, nq = (size_t)m->c->nq;
    for (size_t r = begin; r < end; r++) {
        for (size_t h = 0; h < nq; h++) {
            float *o = m->mid + r * m->mid_cols + h * d;
            vl_cpu_mul_sigmoid(m->cpu, o, m->in + r * m->in_cols + h * 2 * d + d, o, d);
        }
    }
}

/* The toolbox sums a group of one row in another order than a row of a longer group. A prefill
 * piece of one token therefore gets a neighbour at the next position, whose key and value are zero,
 * so that its bits are those it has inside a longer piece. */
static void pair_up(const struct full_job *j, const struct cpu_span *s, size_t i,
                    struct vl_cpu_attention_rows *g)
{
    vl_q35_cpu *m = j->m;
    const size_t q_cols = 2 * (size_t)m->c->nq * (size_t)m->c->head_size;
    const size_t next = s->position + 1;
    float *q = m->pair_q + i * (2 * m->in_cols);
    memcpy(q, m->in + s->first * m->in_cols, q_cols * sizeof(float));
    memset(q + m->in_cols, 0, q_cols * sizeof(float));
    if (next % CPU_GRID != 0)
        store_kv(j, s->seq, next, NULL, NULL);
    else
        s->seq->page_ptr[next / CPU_GRID] =
            m->kv + (size_t)vl_pages_total(m->page_pool) * m->page_floats;
    g->q = q;
    g->out = m->pair_o + i * (2 * m->mid_cols);
    g->n_rows = 2;
}

static void attend(const struct full_job *j, const struct cpu_batch *b)
{
    vl_q35_cpu *m = j->m;
    const size_t d = (size_t)m->c->head_size, cols = (size_t)m->c->nq * d;
    for (size_t i = 0; i < b->n_spans; i++) {
        const struct cpu_span *s = &b->spans[i];
        m->groups[i] = (struct vl_cpu_attention_rows){.pages = s->seq->page_ptr,
                                                      .q = m->in + s->first * m->in_cols,
                                                      .out = m->mid + s->first * m->mid_cols,
                                                      .position = s->position,
                                                      .n_rows = s->n};
        if (!b->decode && s->n == 1)
            pair_up(j, s, i, &m->groups[i]);
    }
    const vl_cpu_attention a = {.n_heads = (size_t)m->c->nq,
                                .n_kv_heads = (size_t)m->c->nkv,
                                .head_size = d,
                                .k_offset = j->l->k_at,
                                .v_offset = j->l->v_at,
                                .q_ld = m->in_cols,
                                .q_head_ld = 2 * d,
                                .out_ld = m->mid_cols,
                                .scale = 1.0f / sqrtf((float)d),
                                .round = true};
    vl_cpu_attention_run(m->cpu, &a, m->groups, b->n_spans);
    for (size_t i = 0; i < b->n_spans; i++) {
        const struct cpu_span *s = &b->spans[i];
        if (!b->decode && s->n == 1)
            memcpy(m->mid + s->first * m->mid_cols, m->groups[i].out, cols * sizeof(float));
    }
}

void vl_q35_cpu_full(vl_q35_cpu *m, const struct cpu_batch *b, int64_t layer)
{
    const vl_q35_config *c = m->c;
    const vl_q35_layer *w = &m->w->layers[layer];
    const size_t d = (size_t)c->head_size, h = (size_t)c->hidden, cols = (size_t)c->nq * d;
    struct full_job j = {m, &m->layers[layer], 2 * cols, 2 * cols + (size_t)c->nkv * d};
    const vl_cpu_matrix in[3] = {vl_q35_cpu_matrix(&w->q, m->in, m->in_cols),
                                 vl_q35_cpu_matrix(&w->k, m->in + j.at_k, m->in_cols),
                                 vl_q35_cpu_matrix(&w->v, m->in + j.at_v, m->in_cols)};
    vl_q35_cpu_mm(m, b, m->y, h, h, in, 3);
    vl_cpu_for(m->cpu, b->n_rows, 4, prepare_rows, &j);
    attend(&j, b);
    cpu_show(m, "attention", layer, m->mid, m->mid_cols, b->n_rows, cols);
    vl_cpu_for(m->cpu, b->n_rows, 4, gate_rows, &j);
    const vl_cpu_matrix out = vl_q35_cpu_matrix(&w->out, m->t, h);
    vl_q35_cpu_mm(m, b, m->mid, m->mid_cols, cols, &out, 1);
}
