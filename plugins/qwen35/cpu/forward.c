/* plugins/qwen35/cpu/forward.c: one pass of rows through embedding, layers and final norm.
 * Knows the skeleton and the MLP; the mixers are linear.c and full.c, what becomes
 * of the hidden states is output.c. */
#include <string.h>

#include "plugins/common/cpu/ops.h"
#include "plugins/qwen35/cpu/model.h"

vl_cpu_matrix vl_q35_cpu_matrix(const vl_q35_weight *w, float *y, size_t y_ld)
{
    return (vl_cpu_matrix){.w = w->data,
                           .w_ld = (size_t)w->cols,
                           .rows = (size_t)w->rows,
                           .y = y,
                           .y_ld = y_ld,
                           .dtype = w->dtype};
}

/* Decode rows go in thin passes, so that a row's bits don't depend on its neighbours; past
 * CPU_THIN_PASSES of them the weights would be read too often, and the blocked form takes all.
 * Prefill is padded to the blocked form, so that a short end of a prompt gives the bits that it
 * gives inside a long piece. */
void vl_q35_cpu_mm(vl_q35_cpu *m, const struct cpu_batch *b, const float *x, size_t x_ld, size_t in,
                   const vl_cpu_matrix *matrices, size_t n)
{
    const size_t thin = vl_cpu_thin_rows(m->cpu);
    if (!b->decode || b->n_rows > CPU_THIN_PASSES * thin) {
        vl_cpu_matmul(m->cpu, x, x_ld, b->n_padded, in, matrices, n);
        return;
    }
    for (size_t r = 0; r < b->n_rows; r += thin) {
        vl_cpu_matrix part[VL_CPU_MAX_MATRICES];
        for (size_t i = 0; i < n; i++) {
            part[i] = matrices[i];
            part[i].y += r * part[i].y_ld;
        }
        vl_cpu_matmul(m->cpu, x + r * x_ld, x_ld, b->n_rows - r < thin ? b->n_rows - r : thin, in,
                      part, n);
    }
}

struct rows_job {
    vl_q35_cpu *m;
    const float *norm; /* [H] */
    bool add;          /* x += t first */
};

static void embed_rows(void *arg, size_t begin, size_t end, int thread)
{
    (void)thread;
    vl_q35_cpu *m = arg;
    const size_t h = (size_t)m->c->hidden;
    const size_t row_bytes = h * (m->w->embed.dtype == VL_DTYPE_F32 ? 4 : 2);
    for (size_t r = begin; r < end; r++)
        vl_cpu_to_f32(m->cpu, m->w->embed.dtype,
                      (const char *)m->w->embed.data + (size_t)m->ids[r] * row_bytes, m->x + r * h,
                      h);
}

static void norm_rows(void *arg, size_t begin, size_t end, int thread)
{
    (void)thread;
    const struct rows_job *j = arg;
    vl_q35_cpu *m = j->m;
    const size_t h = (size_t)m->c->hidden;
    for (size_t r = begin; r < end; r++) {
        if (j->add)
            vl_cpu_add(m->cpu, m->t + r * h, m->x + r * h, h);
        vl_cpu_rmsnorm(m->cpu, m->x + r * h, h, j->norm, 1.0f, m->c->eps, m->y + r * h, h, 1, h);
    }
}

static void swiglu_rows(void *arg, size_t begin, size_t end, int thread)
{
    (void)thread;
    vl_q35_cpu *m = arg;
    const size_t n = (size_t)m->c->inner;
    for (size_t r = begin; r < end; r++)
        vl_cpu_swiglu(m->cpu, m->in + r * m->in_cols, m->in + r * m->in_cols + n,
                      m->mid + r * m->mid_cols, n);
}

static void add_and_norm(vl_q35_cpu *m, const struct cpu_batch *b, bool add, const float *norm)
{
    struct rows_job j = {m, norm, add};
    vl_cpu_for(m->cpu, b->n_padded, 4, norm_rows, &j);
}

static void mlp(vl_q35_cpu *m, const struct cpu_batch *b, int64_t layer)
{
    const vl_q35_layer *l = &m->w->layers[layer];
    const size_t n = (size_t)m->c->inner;
    const vl_cpu_matrix in[2] = {vl_q35_cpu_matrix(&l->gate, m->in, m->in_cols),
                                 vl_q35_cpu_matrix(&l->up, m->in + n, m->in_cols)};
    vl_q35_cpu_mm(m, b, m->y, (size_t)m->c->hidden, (size_t)m->c->hidden, in, 2);
    vl_cpu_for(m->cpu, b->n_padded, 4, swiglu_rows, m);
    const vl_cpu_matrix out = vl_q35_cpu_matrix(&l->down, m->t, (size_t)m->c->hidden);
    vl_q35_cpu_mm(m, b, m->mid, m->mid_cols, n, &out, 1);
}

void vl_q35_cpu_forward(vl_q35_cpu *m, const struct cpu_batch *b)
{
    const size_t h = (size_t)m->c->hidden;
    const int64_t n = m->c->n_layers;
    vl_cpu_for(m->cpu, b->n_rows, 16, embed_rows, m);
    if (b->n_padded > b->n_rows)
        memset(m->x + b->n_rows * h, 0, (b->n_padded - b->n_rows) * h * sizeof(float));
    cpu_show(m, "embed", -1, m->x, h, b->n_rows, h);
    add_and_norm(m, b, false, m->layers[0].input_norm);
    for (int64_t i = 0; i < n; i++) {
        if (m->c->full[i])
            vl_q35_cpu_full(m, b, i);
        else
            vl_q35_cpu_linear(m, b, i);
        cpu_show(m, "mixer", i, m->t, h, b->n_rows, h);
        add_and_norm(m, b, true, m->layers[i].post_norm);
        mlp(m, b, i);
        add_and_norm(m, b, true, i + 1 < n ? m->layers[i + 1].input_norm : m->final_norm);
        cpu_show(m, "layer", i, m->x, h, b->n_rows, h);
    }
    cpu_show(m, "norm", -1, m->y, h, b->n_rows, h);
}
