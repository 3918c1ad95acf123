/* plugins/qwen35/cpu/linear.c: the Gated DeltaNet mixer: the recurrence for decode rows, its
 * chunked form for prefill.
 *
 * Gates, decays, the triangular system and the carried state are f32 in
 * every form, with the product that enters that state (its errors would stay); the other products
 * of a chunk round their operands on AMX. One task is one key head of one span: it
 * convolves its channels, runs the delta rule for the value heads of its group, applies the gated
 * norm, and moves the convolution's rows on. Tasks share nothing that they write. */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/ops.h"
#include "plugins/qwen35/cpu/model.h"

enum { C = CPU_GRID, TAPS = VL_Q35_CONV_TAPS, OLD = TAPS - 1, BLOCK = 16 };

struct linear_job {
    vl_q35_cpu *m;
    const struct cpu_batch *b;
    const struct cpu_layer *l;
    size_t at_z, at_b, at_a; /* columns of m->in; qkv begins at 0 */
};

/* Scratch of one task, in the thread's scratch memory; all f32, sizes for heads of at most 256. */
struct chunk {
    float q[C * 256], k[C * 256],
        kt[256 * C];            /* of the key head: l2-normalised (q scaled), and k transposed */
    float kk[C * C], qk[C * C]; /* k k^T, q k^T: [row i, column j] */
    float v[C * 256];           /* of the value head; then the deltas u */
    float kw[C * 256];          /* rows of k or q with a factor each */
    float o[C * 256];
    float low[C * C]; /* -L, strictly lower; then P, lower with diagonal */
    float gamma[C], beta[C], g[C], grow[C], work[C];
    float stitch[2 * OLD * 256];
};
_Static_assert(sizeof(struct chunk) <= VL_CPU_THREAD_SCRATCH,
               "a task's scratch must fit a thread's");

/* One task's place: span, key head, and its state. */
struct task {
    const struct linear_job *j;
    const struct cpu_span *s;
    struct chunk *w;
    float *state; /* recurrent states of the layer [hv, dk, dv] */
    float *old;   /* its convolution rows [OLD, CD] */
    size_t key_head;
    size_t rows; /* of a product with a triangle that go together: BLOCK skips half of the zeros; a
                    form that packs its operands is faster with all of C */
};

/* Rows at .. at + n of the span after convolution and SiLU, channels ch .. ch + width, into y [n,
 * width]. */
static void convolve(const struct task *t, size_t ch, size_t width, size_t at, size_t n, float *y)
{
    const vl_q35_cpu *m = t->j->m;
    const size_t ld = m->in_cols, cd = (size_t)vl_q35_conv_dim(m->c);
    const float *rows = m->in + t->s->first * ld + ch, *weights = t->j->l->conv + TAPS * ch;
    size_t early = 0; /* outputs whose window reaches before the span */
    if (at < OLD) {
        early = (at + n < OLD ? at + n : OLD) - at;
        float *stitch = t->w->stitch;
        const size_t fresh = t->s->n < OLD ? t->s->n : OLD;
        for (size_t i = 0; i < OLD; i++)
            memcpy(stitch + i * width, t->old + i * cd + ch, width * sizeof(float));
        for (size_t i = 0; i < fresh; i++)
            memcpy(stitch + (OLD + i) * width, rows + i * ld, width * sizeof(float));
        vl_cpu_conv_silu(m->cpu, stitch + at * width, width, weights, TAPS, y, width, early, width);
    }
    if (early < n)
        vl_cpu_conv_silu(m->cpu, rows + (at + early - OLD) * ld, ld, weights, TAPS,
                         y + early * width, width, n - early, width);
}

/* The last OLD rows before the convolution, for the next piece; rows of before stay where the span
 * was shorter. */
static void keep_rows(const struct task *t, size_t ch, size_t width)
{
    const vl_q35_cpu *m = t->j->m;
    const size_t ld = m->in_cols, cd = (size_t)vl_q35_conv_dim(m->c), n = t->s->n;
    const float *rows = m->in + t->s->first * ld + ch;
    for (size_t i = 0; i < OLD; i++) {
        const float *from = n + i < OLD ? t->old + (n + i) * cd + ch : rows + (n + i - OLD) * ld;
        memcpy(t->old + i * cd + ch, from, width * sizeof(float));
    }
}

/* q and k of the task's key head, n rows from `at`: convolved, unit length, q times dk^-0.5. */
static void load_keys(const struct task *t, size_t at, size_t n)
{
    const vl_q35_config *c = t->j->m->c;
    const vl_cpu *cpu = t->j->m->cpu;
    const size_t dk = (size_t)c->dk, ch = t->key_head * dk;
    convolve(t, ch, dk, at, n, t->w->q);
    convolve(t, (size_t)vl_q35_key_dim(c) + ch, dk, at, n, t->w->k);
    vl_cpu_l2norm(cpu, t->w->q, dk, 1e-6f, 1.0f / sqrtf((float)dk), t->w->q, dk, n, dk);
    vl_cpu_l2norm(cpu, t->w->k, dk, 1e-6f, 1.0f, t->w->k, dk, n, dk);
}

/* beta and g of a value head, n rows from `at`. */
static void load_gates(const struct task *t, size_t head, size_t at, size_t n)
{
    const vl_q35_cpu *m = t->j->m;
    const float *row = m->in + (t->s->first + at) * m->in_cols;
    for (size_t i = 0; i < n; i++, row += m->in_cols) {
        t->w->beta[i] = row[t->j->at_b + head];
        t->w->g[i] = row[t->j->at_a + head] + t->j->l->dt_bias[head];
    }
    vl_cpu_sigmoid(m->cpu, t->w->beta, t->w->beta, n);
    vl_cpu_softplus(m->cpu, t->w->g, t->w->g, n);
    for (size_t i = 0; i < n; i++)
        t->w->g[i] *= t->j->l->decay[head];
}

/* The gated norm of o [n, dv] into the columns of out_proj's input. */
static void store_output(const struct task *t, size_t head, size_t at, size_t n, const float *o)
{
    const vl_q35_cpu *m = t->j->m;
    const size_t dv = (size_t)m->c->dv, row = t->s->first + at;
    const float *z = m->in + row * m->in_cols + t->j->at_z + head * dv;
    float *y = m->mid + row * m->mid_cols + head * dv;
    if (!m->c->z_sigmoid) {
        vl_cpu_rmsnorm_gated(m->cpu, o, dv, z, m->in_cols, t->j->l->gated_norm, m->c->eps, y,
                             m->mid_cols, n, dv);
        return;
    }
    vl_cpu_rmsnorm(m->cpu, o, dv, t->j->l->gated_norm, 0.0f, m->c->eps, y, m->mid_cols, n, dv);
    for (size_t i = 0; i < n; i++)
        vl_cpu_mul_sigmoid(m->cpu, y + i * m->mid_cols, z + i * m->in_cols, y + i * m->mid_cols,
                           dv);
}

/* low[i, j] = factor_i e^(gamma_i - gamma_j) product[i, j] for j < i + diagonal, 0 elsewhere. Only
 * differences <= 0 are exponentiated. */
static void decayed(const struct task *t, const float *product, const float *factor,
                    size_t diagonal, size_t n)
{
    struct chunk *w = t->w;
    for (size_t i = 0; i < n; i++) {
        const size_t m = i + diagonal;
        float *row = w->low + i * C;
        for (size_t j = 0; j < m; j++)
            w->work[j] = w->gamma[i] - w->gamma[j];
        vl_cpu_exp(t->j->m->cpu, w->work, w->work, m);
        for (size_t j = 0; j < m; j++)
            row[j] = (factor != NULL ? factor[i] : 1.0f) * w->work[j] * product[i * C + j];
        memset(row + m, 0, (C - m) * sizeof(float));
    }
}

/* kw[i] = factor_i x[i], rows of dk. */
static void scaled_rows(const struct task *t, const float *x, const float *factor, size_t n)
{
    const size_t dk = (size_t)t->j->m->c->dk;
    for (size_t i = 0; i < n; i++) {
        for (size_t d = 0; d < dk; d++)
            t->w->kw[i * dk + d] = factor[i] * x[i * dk + d];
    }
}

/* Solves (I + L) u = rhs in place in w->v, with w->low = -L: blocks of rows by products, rows
 * inside a block one by one. */
static void solve(const struct task *t, size_t n)
{
    const vl_cpu *cpu = t->j->m->cpu;
    const size_t dv = (size_t)t->j->m->c->dv;
    struct chunk *w = t->w;
    for (size_t b = 0; b < n; b += BLOCK) {
        const size_t rows = n - b < BLOCK ? n - b : BLOCK;
        if (b > 0)
            vl_cpu_gemm(cpu, rows, dv, b, w->low + b * C, C, 1, w->v, dv, w->v + b * dv, dv, true);
        for (size_t i = 1; i < rows; i++)
            vl_cpu_gemm(cpu, 1, dv, i, w->low + (b + i) * C + b, C, 1, w->v + b * dv, dv,
                        w->v + (b + i) * dv, dv, true);
    }
}

/* One chunk of one value head; q, k, kt, kk, qk are loaded. n <= C rows from `at`. */
static void chunk_head(const struct task *t, size_t head, size_t at, size_t n)
{
    vl_q35_cpu *m = t->j->m;
    struct chunk *w = t->w;
    const size_t dk = (size_t)m->c->dk, dv = (size_t)m->c->dv;
    float *s = t->state + head * dk * dv;
    convolve(t, 2 * (size_t)vl_q35_key_dim(m->c) + head * dv, dv, at, n, w->v);
    load_gates(t, head, at, n);
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        w->gamma[i] = sum += w->g[i];
    vl_cpu_exp(m->cpu, w->gamma, w->grow, n);

    /* u: rhs = beta (v - e^gamma k S), then the triangular system. */
    for (size_t i = 0; i < n; i++) {
        vl_cpu_scale(m->cpu, w->beta[i], w->v + i * dv, dv);
        w->work[i] = -w->beta[i] * w->grow[i];
    }
    scaled_rows(t, w->k, w->work, n);
    vl_cpu_gemm_rounded(m->cpu, n, dv, dk, w->kw, dk, 1, s, dv, w->v, dv, true);
    for (size_t i = 0; i < n; i++)
        w->beta[i] = -w->beta[i];
    decayed(t, w->kk, w->beta, 0, n);
    solve(t, n);

    /* o = e^gamma q S + P u */
    scaled_rows(t, w->q, w->grow, n);
    vl_cpu_gemm_rounded(m->cpu, n, dv, dk, w->kw, dk, 1, s, dv, w->o, dv, false);
    decayed(t, w->qk, NULL, 1, n);
    for (size_t b = 0; b < n; b += t->rows) {
        const size_t rows = n - b < t->rows ? n - b : t->rows;
        vl_cpu_gemm_rounded(m->cpu, rows, dv, b + rows, w->low + b * C, C, 1, w->v, dv,
                            w->o + b * dv, dv, true);
    }

    /* S = e^gamma_n S + k^T (e^(gamma_n - gamma) u) */
    for (size_t i = 0; i < n; i++)
        w->work[i] = w->gamma[n - 1] - w->gamma[i];
    vl_cpu_exp(m->cpu, w->work, w->work, n);
    scaled_rows(t, w->k, w->work, n);
    vl_cpu_scale(m->cpu, w->grow[n - 1], s, dk * dv);
    vl_cpu_gemm(m->cpu, dk, dv, n, w->kw, 1, dk, w->v, dv, s, dv, true);
    store_output(t, head, at, n, w->o);
}

/* The span in chunks that end on the grid of absolute positions, so that a resumed prompt has the
 * chunks of a whole one. */
static void run_chunked(const struct task *t)
{
    vl_q35_cpu *m = t->j->m;
    struct chunk *w = t->w;
    const size_t dk = (size_t)m->c->dk, r = (size_t)(m->c->hv / m->c->hk);
    for (size_t at = 0; at < t->s->n;) {
        const size_t room = C - (t->s->position + at) % C, left = t->s->n - at;
        const size_t n = left < room ? left : room;
        load_keys(t, at, n);
        vl_cpu_transpose(m->cpu, w->k, dk, w->kt, C, n, dk);
        for (size_t d = 0; n < C && d < dk; d++)
            memset(w->kt + d * C + n, 0, (C - n) * sizeof(float));
        for (size_t b = 0; b < n; b += t->rows) { /* only j <= i is used: columns to the end */
            const size_t rows = n - b < t->rows ? n - b : t->rows;
            vl_cpu_gemm_rounded(m->cpu, rows, b + t->rows, dk, w->k + b * dk, dk, 1, w->kt, C,
                                w->kk + b * C, C, false);
            vl_cpu_gemm_rounded(m->cpu, rows, b + t->rows, dk, w->q + b * dk, dk, 1, w->kt, C,
                                w->qk + b * C, C, false);
        }
        for (size_t i = 0; i < r; i++)
            chunk_head(t, cpu_value_head(m, t->key_head, i), at, n);
        at += n;
    }
}

static void run_recurrent(const struct task *t)
{
    vl_q35_cpu *m = t->j->m;
    struct chunk *w = t->w;
    const size_t dk = (size_t)m->c->dk, dv = (size_t)m->c->dv, r = (size_t)(m->c->hv / m->c->hk);
    load_keys(t, 0, 1);
    for (size_t i = 0; i < r; i++) {
        const size_t head = cpu_value_head(m, t->key_head, i);
        convolve(t, 2 * (size_t)vl_q35_key_dim(m->c) + head * dv, dv, 0, 1, w->v);
        load_gates(t, head, 0, 1);
        vl_cpu_exp(m->cpu, w->g, w->grow, 1);
        vl_cpu_delta_step(m->cpu, t->state + head * dk * dv, dk, dv, w->grow[0], w->beta[0], w->k,
                          w->v, w->q, w->o);
        store_output(t, head, 0, 1, w->o);
    }
}

static void run_tasks(void *arg, size_t begin, size_t end, int thread)
{
    const struct linear_job *j = arg;
    vl_q35_cpu *m = j->m;
    const size_t hk = (size_t)m->c->hk, dk = (size_t)m->c->dk, dv = (size_t)m->c->dv,
                 r = (size_t)(m->c->hv / m->c->hk);
    for (size_t i = begin; i < end; i++) {
        struct task t = {.j = j,
                         .s = &j->b->spans[i / hk],
                         .w = vl_cpu_scratch(m->cpu, thread),
                         .key_head = i % hk,
                         .rows = vl_cpu_rounds(m->cpu) ? C : BLOCK};
        t.state = t.s->seq->state + j->l->state_at;
        t.old = t.state + (size_t)m->c->hv * dk * dv;
        if (j->b->decode)
            run_recurrent(&t);
        else
            run_chunked(&t);
        keep_rows(&t, t.key_head * dk, dk);
        keep_rows(&t, (size_t)vl_q35_key_dim(m->c) + t.key_head * dk, dk);
        for (size_t v = 0; v < r; v++)
            keep_rows(&t, 2 * (size_t)vl_q35_key_dim(m->c) + cpu_value_head(m, t.key_head, v) * dv,
                      dv);
    }
}

void vl_q35_cpu_linear(vl_q35_cpu *m, const struct cpu_batch *b, int64_t layer)
{
    const vl_q35_config *c = m->c;
    const vl_q35_layer *w = &m->w->layers[layer];
    const size_t h = (size_t)c->hidden, cd = (size_t)vl_q35_conv_dim(c),
                 vd = (size_t)vl_q35_value_dim(c);
    struct linear_job j = {m, b, &m->layers[layer], cd, cd + vd, cd + vd + (size_t)c->hv};
    const vl_cpu_matrix in[4] = {vl_q35_cpu_matrix(&w->qkv, m->in, m->in_cols),
                                 vl_q35_cpu_matrix(&w->z, m->in + j.at_z, m->in_cols),
                                 vl_q35_cpu_matrix(&w->b, m->in + j.at_b, m->in_cols),
                                 vl_q35_cpu_matrix(&w->a, m->in + j.at_a, m->in_cols)};
    vl_q35_cpu_mm(m, b, m->y, h, h, in, 4);
    cpu_show(m, "qkv", layer, m->in, m->in_cols, b->n_rows, cd);
    vl_cpu_for(m->cpu, b->n_spans * (size_t)c->hk, 1, run_tasks, &j);
    cpu_show(m, "gated_norm", layer, m->mid, m->mid_cols, b->n_rows, vd);
    const vl_cpu_matrix out = vl_q35_cpu_matrix(&w->out, m->t, h);
    vl_q35_cpu_mm(m, b, m->mid, m->mid_cols, vd, &out, 1);
}
