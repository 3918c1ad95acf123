/* plugins/qwen35/cuda/forward.c: the layers of the model as a list of launches, for a piece of a
 * prompt and for a batch of decode rows. Knows the order of kernels and which memory each takes;
 * decides nothing about sequences. */
#include <cuda_runtime_api.h>

#include "plugins/qwen35/cuda/model.h"

#define ARGS(...) ((void *[]){__VA_ARGS__})

void vl_q35_launch(vl_q35_run *r, int kernel, uint32_t x, uint32_t y, uint32_t z, void **args)
{
    if (r->rc == VL_OK)
        r->rc = vl_kernel_launch(&r->m->c, &r->m->kernels[kernel], x, y, z, args, r->err);
}

void vl_q35_copy(vl_q35_run *r, void *dst, const void *src, size_t n, const char *what)
{
    if (r->rc == VL_OK)
        r->rc = vl_cuda_check(cudaMemcpyAsync(dst, src, n, cudaMemcpyDefault, r->m->c.stream), what,
                              r->err);
}

static uint32_t ceil_div(int64_t a, int64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

static bool thin(const vl_q35_run *r, int n)
{
    return n <= r->m->thin_rows;
}

/* One of the products of a layer on n rows of x, by our own kernel for few rows (see thin_matmul.cu
 * for ss_in and norm_w), by a cuBLASLt plan for more. */
static void product(vl_q35_run *r, int mm, int n, void *w, void *x, float *ss_in, void *y,
                    float *norm_w)
{
    vl_q35_work *k = &r->m->w;
    if (r->rc != VL_OK)
        return;
    if (thin(r, n)) {
        int64_t rows, depth;
        const int b = n <= 8 ? 8 : 16;
        vl_q35_mm_size(&r->m->s, mm, &rows, &depth);
        vl_q35_launch(r, (b == 8 ? VL_K_THIN8 : VL_K_THIN16) + mm,
                      ceil_div(rows, vl_q35_thin_columns(&r->m->s, mm, b)), 1, 1,
                      ARGS(&w, &x, &ss_in, &y, &norm_w, &k->xn, &k->ss, &n));
        return;
    }
    int i = 0;
    while (i + 1 < VL_Q35_BUCKETS && (16 << i) < n)
        i++;
    r->rc = vl_lt_run(&r->m->lt, &r->m->plans[mm][i], n, x, w, y, r->err);
}

/* A product of the normed residual. Few rows: its norm was prepared by who made the residual. */
static void normed_product(vl_q35_run *r, int mm, int n, void *w, float *norm_w, void *y)
{
    vl_q35_work *k = &r->m->w;
    if (!thin(r, n))
        vl_q35_launch(r, VL_K_RMS_NORM, (uint32_t)n, 1, 1, ARGS(&k->x, &norm_w, &k->xn));
    product(r, mm, n, w, k->xn, thin(r, n) ? k->ss : NULL, y, NULL);
}

/* Everything of a layer behind its mixer: output projection into the residual, norm, MLP.
 * next_norm: the weights of the norm that reads the residual then. */
static void layer_tail(vl_q35_run *r, const vl_q35_dev_layer *l, int n, float *next_norm)
{
    vl_q35_work *w = &r->m->w;
    product(r, l->full ? VL_MM_OUT_FULL : VL_MM_OUT_LINEAR, n, l->out, w->mix, NULL, w->x,
            l->norm2);
    normed_product(r, VL_MM_GATE_UP, n, l->gate_up, l->norm2, thin(r, n) ? w->h : w->gu);
    if (!thin(r, n)) /* the thin kernel has done it */
        vl_q35_launch(r, VL_K_SWIGLU, ceil_div(r->m->s.inner / 8, 256), (uint32_t)n, 1,
                      ARGS(&w->gu, &w->h));
    product(r, VL_MM_DOWN, n, l->down, w->h, NULL, w->x, next_norm);
}

static float *next_norm(const vl_q35_cuda *m, int64_t layer)
{
    return layer + 1 < m->n_layers ? m->layers[layer + 1].norm1 : m->norm;
}

static void embed(vl_q35_run *r, int n, int *ids)
{
    vl_q35_cuda *m = r->m;
    float *norm_w = thin(r, n) ? m->layers[0].norm1 : NULL;
    vl_q35_launch(r, VL_K_EMBED, (uint32_t)n, 1, 1,
                  ARGS(&ids, &m->embed, &m->w.x, &norm_w, &m->w.xn, &m->w.ss));
}

/* Norm and rope of queries and keys, keys and values into the pages; slot and pos: of each token.
 */
static void rope(vl_q35_run *r, vl_q35_dev_layer *l, int n, int *slot, int *pos)
{
    vl_q35_cuda *m = r->m;
    vl_q35_launch(r, VL_K_QK_ROPE, (uint32_t)n, ceil_div(m->s.nq + 2 * m->s.nkv, 8), 1,
                  ARGS(&m->w.p, &l->q_norm, &l->k_norm, &m->rope, &slot, &pos, &m->tables, &m->w.q,
                       &m->kv, &l->index));
}

static float *state_of(const vl_q35_cuda *m, int slot, int layer)
{
    return m->state + ((int64_t)slot * m->s.n_linear + layer) * m->s.hv * 16384;
}
static char *ring_of(const vl_q35_cuda *m, int slot, int layer)
{
    return m->ring + ((int64_t)slot * m->s.n_linear + layer) * 4 * vl_q35_cd(&m->s) * 2;
}

static void prefill_linear(vl_q35_run *r, vl_q35_dev_layer *l, int n, int slot, int pos0)
{
    vl_q35_cuda *m = r->m;
    vl_q35_work *w = &m->w;
    const vl_q35_shape *s = &m->s;
    int skew = pos0 % 64, fresh = pos0 == 0;
    float *state = state_of(m, slot, l->index);
    char *ring = ring_of(m, slot, l->index), *z = (char *)w->p + vl_q35_cd(s) * 2;
    const uint32_t chunks = ceil_div(n + skew, 64), hv = (uint32_t)s->hv;
    vl_q35_launch(
        r, VL_K_DELTA_CONV, ceil_div(n, 16), ceil_div(2 * s->hk + s->hv + 1, 8), 1,
        ARGS(&w->p, &l->conv, &l->neg_a, &l->dt_bias, &ring, &w->c, &w->g, &w->beta, &n, &pos0));
    vl_q35_launch(r, VL_K_DELTA_PREP, chunks, hv, 1,
                  ARGS(&w->c, &w->g, &w->beta, &w->wu, &w->pm, &w->par, &n, &skew));
    vl_q35_launch(r, VL_K_DELTA_CHUNK, 4, hv, 1,
                  ARGS(&w->c, &w->wu, &w->pm, &w->par, &state, &w->p, &ring, &w->mix, &n, &skew,
                       &pos0, &fresh));
    vl_q35_launch(r, VL_K_GATED_LINEAR, ceil_div(n * s->hv, 16), 1, 1,
                  ARGS(&w->mix, &z, &l->gated, &w->mix, &n));
}

static void prefill_full(vl_q35_run *r, vl_q35_dev_layer *l, int n, int slot, int pos0)
{
    vl_q35_cuda *m = r->m;
    vl_q35_work *w = &m->w;
    int *table = m->tables + (int64_t)slot * m->s.max_pages;
    const uint32_t tiles = ceil_div(n, m->kernels[VL_K_ATTN_PREFILL].block / 2),
                   pages = (uint32_t)(pos0 + n) / 64 + 1;
    const uint32_t blocks = tiles * (uint32_t)m->s.nq, sms = (uint32_t)m->c.n_sms;
    int splits = 1;
    /* Few tokens behind a long context would leave most of the card idle. */
    if (n <= VL_Q35_SPLIT_ROWS && blocks < sms) {
        splits = (int)ceil_div(2 * sms, blocks);
        splits = splits < (int)pages / 4 ? splits : (int)pages / 4;
        splits = splits > VL_Q35_SPLITS ? VL_Q35_SPLITS : splits < 1 ? 1 : splits;
    }
    rope(r, l, n, w->slot, w->pos);
    vl_q35_launch(r, VL_K_ATTN_PREFILL, tiles, (uint32_t)m->s.nq, (uint32_t)splits,
                  ARGS(&w->q, &m->kv, &table, &w->p, &w->mix, &w->part, &w->ml, &n, &pos0,
                       &l->index, &splits));
    if (splits > 1)
        vl_q35_launch(r, VL_K_ATTN_COMBINE, (uint32_t)m->s.nq, (uint32_t)n, 1,
                      ARGS(&w->part, &w->ml, &w->slot, &w->pos, &w->p, &w->mix, &splits));
}

void vl_q35_forward_begin(vl_q35_run *r, int advance)
{
    vl_q35_cuda *m = r->m;
    vl_q35_launch(r, VL_K_STEP_BEGIN, 1, 1, 1,
                  ARGS(&m->orders, &m->order_bytes, &m->w.counter, &m->tables, &m->slots,
                       &m->w.rows, &m->w.current, &advance));
}

void vl_q35_forward_prefill(vl_q35_run *r, const int *ids, int n, int slot, int pos0, int place,
                            int mask)
{
    vl_q35_cuda *m = r->m;
    vl_q35_work *w = &m->w;
    vl_q35_launch(r, VL_K_PREFILL_BEGIN, ceil_div(n, 256), 1, 1,
                  ARGS(&ids, &w->ids, &w->slot, &w->pos, &m->slots, &w->last, &n, &slot, &pos0,
                       &place, &mask));
    embed(r, n, w->ids);
    for (int64_t i = 0; i < m->n_layers; i++) {
        vl_q35_dev_layer *l = &m->layers[i];
        normed_product(r, l->full ? VL_MM_IN_FULL : VL_MM_IN_LINEAR, n, l->in, l->norm1, w->p);
        if (l->full)
            prefill_full(r, l, n, slot, pos0);
        else
            prefill_linear(r, l, n, slot, pos0);
        layer_tail(r, l, n, next_norm(m, i));
    }
}

/* Logits of n rows of the residual, wherever they lie. */
static void head_of(vl_q35_run *r, int n, float *x)
{
    vl_q35_cuda *m = r->m;
    vl_q35_launch(r, VL_K_RMS_NORM, (uint32_t)n, 1, 1, ARGS(&x, &m->norm, &m->w.xn));
    product(r, VL_MM_HEAD, n, m->lm_head, m->w.xn, NULL, m->w.logits, NULL);
}

/* Sampling from n rows of logits; rows: six lists, `stride` apart, as step_begin makes them. */
static void sample(vl_q35_run *r, int n, int *rows, int64_t stride)
{
    vl_q35_cuda *m = r->m;
    vl_q35_work *w = &m->w;
    int *active = rows, *real = rows + stride, *pos = rows + 2 * stride, *place = rows + 4 * stride,
        *mask = rows + 5 * stride;
    char *results = m->ring_out.device;
    uint64_t result_bytes = m->ring_out.slot_bytes;
    vl_q35_launch(r, VL_K_LOGITS_SCAN, VL_PARTS, (uint32_t)n, 1,
                  ARGS(&w->logits, &w->scan, &active, &pos, &place, &mask, &m->slots, &m->counts,
                       &m->bias_ids, &m->bias, &m->masks, &m->mask_bytes, &w->current, &w->parts));
    vl_q35_launch(r, VL_K_SAMPLE_PICK, (uint32_t)n, 1, 1,
                  ARGS(&w->logits, &w->scan, &active, &real, &pos, &place, &m->slots, &m->counts,
                       &w->parts, &results, &result_bytes, &w->current));
}

void vl_q35_forward_sample_last(vl_q35_run *r, int n)
{
    head_of(r, 1, r->m->w.x + (int64_t)(n - 1) * r->m->s.hidden);
    sample(r, 1, r->m->w.last, 1);
}

void vl_q35_forward_decode(vl_q35_run *r, int n)
{
    vl_q35_cuda *m = r->m;
    vl_q35_work *w = &m->w;
    const int64_t stride = m->s.n_rows;
    int *slot = w->rows, *pos = w->rows + 2 * stride, *ids = w->rows + 3 * stride, by_length = 0;
    embed(r, n, ids);
    for (int64_t i = 0; i < m->n_layers; i++) {
        vl_q35_dev_layer *l = &m->layers[i];
        normed_product(r, l->full ? VL_MM_IN_FULL : VL_MM_IN_LINEAR, n, l->in, l->norm1, w->p);
        if (l->full) {
            rope(r, l, n, slot, pos);
            vl_q35_launch(
                r, VL_K_ATTN_DECODE, VL_Q35_SPLITS, (uint32_t)m->s.nkv, (uint32_t)n,
                ARGS(&w->q, &m->kv, &slot, &pos, &m->tables, &w->part, &w->ml, &l->index));
            vl_q35_launch(r, VL_K_ATTN_COMBINE, (uint32_t)m->s.nq, (uint32_t)n, 1,
                          ARGS(&w->part, &w->ml, &slot, &pos, &w->p, &w->mix, &by_length));
        } else {
            vl_q35_launch(r, VL_K_DELTA_STEP, (uint32_t)m->s.hv, (uint32_t)n, 1,
                          ARGS(&w->p, &l->conv, &l->neg_a, &l->dt_bias, &l->gated, &slot, &pos,
                               &m->state, &m->ring, &w->mix, &l->index));
        }
        layer_tail(r, l, n, next_norm(m, i));
    }
    normed_product(r, VL_MM_HEAD, n, m->lm_head, m->norm, w->logits);
    sample(r, n, w->rows, stride);
}

float *vl_q35_last_x(const vl_q35_cuda *m, int slot)
{
    return m->w.last_x + (int64_t)slot * m->s.hidden;
}

void vl_q35_forward_logprobs(vl_q35_run *r, float *x, int n, const int *next_ids, int k,
                             vl_logprob *out)
{
    vl_q35_work *w = &r->m->w;
    for (int i = 0; i < n; i += VL_Q35_LOGPROB_ROWS) {
        int rows = n - i < VL_Q35_LOGPROB_ROWS ? n - i : VL_Q35_LOGPROB_ROWS;
        const int *ids = next_ids + i;
        vl_logprob *to = out + (int64_t)i * (1 + k);
        head_of(r, rows, x + (int64_t)i * r->m->s.hidden);
        vl_q35_launch(r, VL_K_LOGPROB_ROWS, (uint32_t)rows, 1, 1, ARGS(&w->logits, &ids, &to, &k));
    }
}
