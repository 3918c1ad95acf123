/* plugins/qwen35/cuda/load.c: the checkpoint's tensors in the form the kernels want: projections
 * fused by rows, gate and up rows in turns of eight, matrices in bf16, vectors in f32 with what can
 * be folded in. Knows the weights' names only through weights.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "plugins/common/cuda/upload.h"
#include "plugins/qwen35/cuda/model.h"

void vl_q35_cuda_carve_weights(vl_q35_cuda *m, const vl_q35_config *c)
{
    vl_arena *a = &m->weights;
    const vl_q35_shape *s = &m->s;
    const uint64_t h = (uint64_t)s->hidden, inner = (uint64_t)s->inner;
    int32_t seen[2] = {0, 0};
    m->embed = vl_arena_take(a, (uint64_t)s->vocab * h, 2);
    m->lm_head = c->tied ? m->embed : vl_arena_take(a, (uint64_t)s->vocab * h, 2);
    m->norm = vl_arena_take(a, h, 4);
    for (int64_t i = 0; i < m->n_layers; i++) {
        vl_q35_dev_layer *l = &m->layers[i];
        l->full = c->full[i] != 0;
        l->index = seen[l->full]++;
        l->in =
            vl_arena_take(a, (uint64_t)(l->full ? vl_q35_in_full(s) : vl_q35_in_linear(s)) * h, 2);
        l->out = vl_arena_take(a, (uint64_t)(l->full ? s->nq * 256 : s->hv * 128) * h, 2);
        l->gate_up = vl_arena_take(a, 2 * inner * h, 2);
        l->down = vl_arena_take(a, inner * h, 2);
        l->norm1 = vl_arena_take(a, h, 4);
        l->norm2 = vl_arena_take(a, h, 4);
        if (l->full) {
            l->q_norm = vl_arena_take(a, 256, 4);
            l->k_norm = vl_arena_take(a, 256, 4);
        } else {
            l->conv = vl_arena_take(a, (uint64_t)vl_q35_cd(s) * 4, 4);
            l->neg_a = vl_arena_take(a, (uint64_t)s->hv, 4);
            l->dt_bias = vl_arena_take(a, (uint64_t)s->hv, 4);
            l->gated = vl_arena_take(a, 128, 4);
        }
    }
    m->rope = vl_arena_take(a, (uint64_t)s->max_pages * VL_Q35_PAGE * 32, 8);
}

/* The list of what is to be copied, and host memory that was made for it. */
struct plan {
    vl_upload_piece *pieces;
    size_t n, cap;
    void **owned;
    size_t n_owned, owned_cap;
    vl_status rc;
    vl_error *err;
};

static void *own(struct plan *p, size_t bytes)
{
    void *x = NULL;
    if (p->rc == VL_OK && vl_grow(&p->owned, &p->owned_cap, p->n_owned + 1, sizeof(*p->owned)))
        x = malloc(bytes > 0 ? bytes : 1);
    if (x != NULL)
        p->owned[p->n_owned++] = x;
    else if (p->rc == VL_OK)
        p->rc = vl_error_set(p->err, VL_E_NOMEM, "out of memory");
    return x;
}

static void piece(struct plan *p, void *dst, const void *src, uint64_t n_bytes, uint64_t group,
                  uint64_t stride)
{
    if (p->rc != VL_OK)
        return;
    if (!vl_grow(&p->pieces, &p->cap, p->n + 1, sizeof(*p->pieces))) {
        p->rc = vl_error_set(p->err, VL_E_NOMEM, "out of memory");
        return;
    }
    p->pieces[p->n++] = (vl_upload_piece){dst, src, n_bytes, group, stride};
}

static uint16_t to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    if ((u & 0x7fffffffu) > 0x7f800000u) /* NaN stays one */
        return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* The matrix's bytes as bf16: the mapping's own, or converted. */
static const void *as_bf16(struct plan *p, const vl_q35_weight *w)
{
    if (w->dtype == VL_DTYPE_BF16)
        return w->data;
    const size_t n = (size_t)(w->rows * w->cols);
    uint16_t *out = own(p, n * 2);
    float *row = own(p, (size_t)w->cols * 4);
    if (out == NULL || row == NULL)
        return NULL;
    const size_t size = w->dtype == VL_DTYPE_F32 ? 4 : 2;
    for (int64_t r = 0; r < w->rows; r++) {
        vl_q35_weight one = *w;
        one.data = (const char *)w->data + (size_t)(r * w->cols) * size;
        vl_q35_weight_to_f32(&one, row, (uint64_t)w->cols);
        for (int64_t i = 0; i < w->cols; i++)
            out[r * w->cols + i] = to_bf16(row[i]);
    }
    return out;
}

/* Rows `at`.. of dst become the matrix. */
static void matrix(struct plan *p, void *dst, int64_t at, const vl_q35_weight *w)
{
    const uint64_t bytes = (uint64_t)(w->rows * w->cols) * 2;
    const void *src = as_bf16(p, w);
    piece(p, (char *)dst + (uint64_t)(at * w->cols) * 2, src, bytes, bytes, 0);
}

/* Groups of eight rows, every other one. */
static void interleaved(struct plan *p, void *dst, int64_t first, const vl_q35_weight *w)
{
    const uint64_t group = (uint64_t)w->cols * 16;
    const void *src = as_bf16(p, w);
    piece(p, (char *)dst + (uint64_t)first * group, src, (uint64_t)(w->rows * w->cols) * 2, group,
          2 * group);
}

enum { PLAIN, PLUS_ONE, NEG_EXP };

static void vector(struct plan *p, float *dst, const vl_q35_weight *w, int how)
{
    const uint64_t n = (uint64_t)(w->rows * w->cols);
    float *x = own(p, n * 4);
    if (x == NULL)
        return;
    vl_q35_weight_to_f32(w, x, n);
    for (uint64_t i = 0; i < n; i++)
        x[i] = how == PLUS_ONE ? 1.0f + x[i] : how == NEG_EXP ? -expf(x[i]) : x[i];
    piece(p, dst, x, n * 4, n * 4, 0);
}

static void layer(struct plan *p, const vl_q35_cuda *m, const vl_q35_dev_layer *d,
                  const vl_q35_layer *l)
{
    if (d->full) {
        matrix(p, d->in, 0, &l->q);
        matrix(p, d->in, l->q.rows, &l->k);
        matrix(p, d->in, l->q.rows + l->k.rows, &l->v);
        vector(p, d->q_norm, &l->q_norm, PLUS_ONE);
        vector(p, d->k_norm, &l->k_norm, PLUS_ONE);
    } else {
        const int64_t cd = vl_q35_cd(&m->s), vd = vl_q35_vd(&m->s);
        matrix(p, d->in, 0, &l->qkv);
        matrix(p, d->in, cd, &l->z);
        matrix(p, d->in, cd + vd, &l->b);
        matrix(p, d->in, cd + vd + m->s.hv, &l->a);
        vector(p, d->conv, &l->conv, PLAIN);
        vector(p, d->neg_a, &l->a_log, NEG_EXP);
        vector(p, d->dt_bias, &l->dt_bias, PLAIN);
        vector(p, d->gated, &l->gated_norm, PLAIN);
    }
    matrix(p, d->out, 0, &l->out);
    interleaved(p, d->gate_up, 0, &l->gate);
    interleaved(p, d->gate_up, 1, &l->up);
    matrix(p, d->down, 0, &l->down);
    vector(p, d->norm1, &l->input_norm, PLUS_ONE);
    vector(p, d->norm2, &l->post_norm, PLUS_ONE);
}

/* cos and sin of the f32 product position x frequency, as the model's definition has it. */
static void rope_table(struct plan *p, const vl_q35_cuda *m, double theta)
{
    const uint64_t n = (uint64_t)m->s.max_pages * VL_Q35_PAGE;
    float *t = own(p, n * 64 * 4), freq[32];
    if (t == NULL)
        return;
    for (int i = 0; i < 32; i++)
        freq[i] = (float)pow(theta, -2.0 * i / 64.0);
    for (uint64_t pos = 0; pos < n; pos++)
        for (int i = 0; i < 32; i++) {
            const float angle = (float)pos * freq[i];
            t[pos * 64 + 2 * (uint64_t)i] = cosf(angle);
            t[pos * 64 + 2 * (uint64_t)i + 1] = sinf(angle);
        }
    piece(p, m->rope, t, n * 256, n * 256, 0);
}

struct tell {
    const vl_model_params *params;
};

static int32_t tell_upload(void *user, double fraction)
{
    const vl_model_params *p = ((const struct tell *)user)->params;
    return p->progress != NULL
               ? p->progress(p->user, 0.05 + 0.75 * fraction, "copying weights to the device")
               : 0;
}

vl_status vl_q35_cuda_upload(vl_q35_cuda *m, const vl_q35_open *o, vl_error *err)
{
    struct plan p = {.rc = VL_OK, .err = err};
    const vl_q35_weights *w = o->weights;
    matrix(&p, m->embed, 0, &w->embed);
    if (m->lm_head != m->embed)
        matrix(&p, m->lm_head, 0, &w->head);
    vector(&p, m->norm, &w->norm, PLUS_ONE);
    for (int64_t i = 0; i < m->n_layers && p.rc == VL_OK; i++)
        layer(&p, m, &m->layers[i], &w->layers[i]);
    rope_table(&p, m, o->config->rope_theta);
    if (p.rc == VL_OK) {
        struct tell t = {o->params};
        p.rc = vl_upload(&m->c, p.pieces, (uint32_t)p.n, tell_upload, &t, err);
    }
    for (size_t i = 0; i < p.n_owned; i++)
        free(p.owned[i]);
    free(p.owned);
    free(p.pieces);
    return p.rc;
}
