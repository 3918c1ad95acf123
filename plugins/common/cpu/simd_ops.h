/* simd_ops.h: the small operations, attention and sampling scans, for the vector type of the file
 * that includes it (after its vec_*.h). Definitions: ops.h, kernels.h. */
#ifndef VL_CPU_SIMD_OPS_H
#define VL_CPU_SIMD_OPS_H

#include <math.h>

#include "plugins/common/cpu/kernels.h"

/* Runs STEP over whole vectors, then once over the tail. STEP(i, LOAD, STORE) sees loads and stores
 * of i that are whole or cut. */
#define EACH(n, STEP)                                                                              \
    do {                                                                                           \
        size_t i = 0, left;                                                                        \
        for (; i + LANES <= (n); i += LANES)                                                       \
            STEP(i, LOAD_ALL, STORE_ALL);                                                          \
        left = (n)-i;                                                                              \
        if (left)                                                                                  \
            STEP(i, LOAD_SOME, STORE_SOME);                                                        \
    } while (0)
#define LOAD_ALL(p) vf_load(p)
#define STORE_ALL(p, v) vf_store(p, v)
#define LOAD_SOME(p) vf_load_n(p, left)
#define STORE_SOME(p, v) vf_store_n(p, v, left)

INLINE vf vf_sigmoid(vf x)
{
    return vf_set1(1.0f) / (vf_set1(1.0f) + vf_exp(-x));
}

/* As x / (1 + e^-x), so that -infinity gives what the definition gives. */
INLINE vf vf_silu(vf x)
{
    return x / (vf_set1(1.0f) + vf_exp(-x));
}

/* The same for values of one row: where the form has a reciprocal that beats its division. */
INLINE vf vf_silu_row(vf x)
{
    return vf_div(x, vf_set1(1.0f) + vf_exp(-x));
}

static float simd_dot(const float *x, const float *y, size_t n)
{
    vf a = vf_zero(), b = vf_zero();
    size_t i = 0;

    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        a = vf_fma(vf_load(x + i), vf_load(y + i), a);
        b = vf_fma(vf_load(x + i + LANES), vf_load(y + i + LANES), b);
    }
    for (; i + LANES <= n; i += LANES)
        a = vf_fma(vf_load(x + i), vf_load(y + i), a);
    if (i < n)
        b = vf_fma(vf_load_n(x + i, n - i), vf_load_n(y + i, n - i), b);
    return vf_sum(a + b);
}

static float simd_max(const float *x, size_t n)
{
    float best = x[0];
    size_t i = 0;

    if (n >= LANES) {
        vf m = vf_load(x);
        uint32_t nan = 0;
        for (; i + LANES <= n; i += LANES) {
            vf v = vf_load(x + i);
            nan |= vf_ge(v, v) ^ (uint32_t)((1ull << LANES) - 1);
            m = vf_max(m, v);
        }
        if (nan)
            return NAN;
        best = vf_hmax(m);
    }
    for (; i < n; i++) {
        if (isnan(x[i]))
            return x[i];
        best = x[i] > best ? x[i] : best;
    }
    return best;
}

static void simd_norm_scale(const float *x, float scale, const float *w, float bias, float *y,
                            size_t n)
{
    vf s = vf_set1(scale), b = vf_set1(bias);
#define STEP(i, LOAD, STORE) STORE(y + (i), LOAD(x + (i)) * s * (b + LOAD(w + (i))))
    EACH(n, STEP);
#undef STEP
}

static void simd_norm_gate(const float *x, float scale, const float *w, const float *z, float *y,
                           size_t n)
{
    vf s = vf_set1(scale);
#define STEP(i, LOAD, STORE)                                                                       \
    STORE(y + (i), LOAD(x + (i)) * s * LOAD(w + (i)) * vf_silu_row(LOAD(z + (i))))
    EACH(n, STEP);
#undef STEP
}

static void simd_exp(const float *x, float *y, size_t n)
{
#define STEP(i, LOAD, STORE) STORE(y + (i), vf_exp(LOAD(x + (i))))
    EACH(n, STEP);
#undef STEP
}

static float simd_exp_sum(const float *x, float shift, float *y, size_t n)
{
    vf s = vf_set1(shift), sum = vf_zero();
    size_t i = 0;
    float rest = 0;

    for (; i + LANES <= n; i += LANES) {
        vf e = vf_exp(vf_load(x + i) - s);
        vf_store(y + i, e);
        sum = sum + e;
    }
    if (i < n) {
        vf_store_n(y + i, vf_exp(vf_load_n(x + i, n - i) - s), n - i);
        for (; i < n; i++)
            rest += y[i];
    }
    return vf_sum(sum) + rest;
}

static void simd_silu(const float *x, float *y, size_t n)
{
#define STEP(i, LOAD, STORE) STORE(y + (i), vf_silu(LOAD(x + (i))))
    EACH(n, STEP);
#undef STEP
}

static void simd_sigmoid(const float *x, float *y, size_t n)
{
#define STEP(i, LOAD, STORE) STORE(y + (i), vf_sigmoid(LOAD(x + (i))))
    EACH(n, STEP);
#undef STEP
}

static void simd_swiglu(const float *gate, const float *up, float *y, size_t n)
{
#define STEP(i, LOAD, STORE) STORE(y + (i), vf_silu_row(LOAD(gate + (i))) * LOAD(up + (i)))
    EACH(n, STEP);
#undef STEP
}

static void simd_mul_sigmoid(const float *x, const float *g, float *y, size_t n)
{
#define STEP(i, LOAD, STORE) STORE(y + (i), LOAD(x + (i)) * vf_sigmoid(LOAD(g + (i))))
    EACH(n, STEP);
#undef STEP
}

static void simd_axpy(float a, const float *x, float *y, size_t n)
{
    vf s = vf_set1(a);
#define STEP(i, LOAD, STORE) STORE(y + (i), vf_fma(s, LOAD(x + (i)), LOAD(y + (i))))
    EACH(n, STEP);
#undef STEP
}

static void simd_scale(float a, float *y, size_t n)
{
    vf s = vf_set1(a);
#define STEP(i, LOAD, STORE) STORE(y + (i), s * LOAD(y + (i)))
    EACH(n, STEP);
#undef STEP
}

/* Rows lie far apart, which the processor does not foresee: those to come are fetched early. */
#define CONV_AHEAD_ROWS 8

static void simd_conv_silu(const float *x, size_t x_ld, const float *w, size_t n_taps, float *y,
                           size_t n)
{
    const size_t ahead = (n_taps + CONV_AHEAD_ROWS) * x_ld;

#define STEP(i, LOAD, STORE)                                                                       \
    do {                                                                                           \
        vf a = vf_zero();                                                                          \
        _mm_prefetch((const char *)(x + ahead + (i)), _MM_HINT_T0);                                \
        for (size_t j = 0; j < n_taps; j++)                                                        \
            a = vf_fma(LOAD(w + j * n + (i)), LOAD(x + j * x_ld + (i)), a);                        \
        STORE(y + (i), vf_silu_row(a));                                                            \
    } while (0)
    EACH(n, STEP);
#undef STEP
}

/* Two passes over s for each 4 vectors of columns: e, then the update with the read-out. */
INLINE void delta_columns(const int n_v, float *s, size_t dk, size_t dv, float decay, float beta,
                          const float *k, const float *v, const float *q, float *o)
{
    vf d = vf_set1(decay), e[4], u[4], r[4];

#pragma GCC unroll 4
    for (int j = 0; j < n_v; j++)
        e[j] = r[j] = vf_zero();
    for (size_t i = 0; i < dk; i++) {
        vf ki = vf_set1(k[i]);
#pragma GCC unroll 4
        for (int j = 0; j < n_v; j++)
            e[j] = vf_fma(ki, d * vf_load(s + i * dv + (size_t)j * LANES), e[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < n_v; j++)
        u[j] = vf_set1(beta) * (vf_load(v + (size_t)j * LANES) - e[j]);
    for (size_t i = 0; i < dk; i++) {
        vf ki = vf_set1(k[i]), qi = vf_set1(q[i]);
#pragma GCC unroll 4
        for (int j = 0; j < n_v; j++) {
            float *p = s + i * dv + (size_t)j * LANES;
            vf t = vf_fma(ki, u[j], d * vf_load(p));
            vf_store(p, t);
            r[j] = vf_fma(qi, t, r[j]);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < n_v; j++)
        vf_store(o + (size_t)j * LANES, r[j]);
}

static void simd_delta_step(float *s, size_t dk, size_t dv, float decay, float beta, const float *k,
                            const float *v, const float *q, float *o)
{
    size_t c = 0;

    for (; c + 4 * LANES <= dv; c += 4 * LANES)
        delta_columns(4, s + c, dk, dv, decay, beta, k, v + c, q, o + c);
    for (; c < dv; c += LANES)
        delta_columns(1, s + c, dk, dv, decay, beta, k, v + c, q, o + c);
}

static void simd_rope(float *x, size_t half, const float *c, const float *s)
{
#define STEP(i, LOAD, STORE)                                                                       \
    do {                                                                                           \
        vf a = LOAD(x + (i)), b = LOAD(x + half + (i)), cv = LOAD(c + (i)), sv = LOAD(s + (i));    \
        STORE(x + (i), a * cv - b * sv);                                                           \
        STORE(x + half + (i), b * cv + a * sv);                                                    \
    } while (0)
    EACH(half, STEP);
#undef STEP
}

/* ---- attention ---- */

static void simd_attn_scores(const float *q, size_t q_ld, size_t n_q, const float *k, size_t n,
                             size_t size, float scale, float *s, size_t s_ld)
{
    for (size_t t = 0; t < n; t++) {
        const float *kt = k + t * size;
        size_t i = 0;
        for (; i + 4 <= n_q; i += 4) {
            const float *qi = q + i * q_ld;
            vf a = vf_zero(), b = vf_zero(), c = vf_zero(), d = vf_zero();
            for (size_t j = 0; j < size; j += LANES) {
                vf v = vf_load(kt + j);
                a = vf_fma(v, vf_load(qi + j), a);
                b = vf_fma(v, vf_load(qi + q_ld + j), b);
                c = vf_fma(v, vf_load(qi + 2 * q_ld + j), c);
                d = vf_fma(v, vf_load(qi + 3 * q_ld + j), d);
            }
            s[i * s_ld + t] = scale * vf_sum(a);
            s[(i + 1) * s_ld + t] = scale * vf_sum(b);
            s[(i + 2) * s_ld + t] = scale * vf_sum(c);
            s[(i + 3) * s_ld + t] = scale * vf_sum(d);
        }
        for (; i < n_q; i++)
            s[i * s_ld + t] = scale * simd_dot(q + i * q_ld, kt, size);
    }
}

static void simd_attn_values(const float *p, size_t p_ld, size_t n_q, const float *v, size_t n,
                             size_t size, float *o, size_t o_ld)
{
    simd_gemm(n_q, size, n, p, p_ld, 1, v, size, o, o_ld, true);
}

static void simd_softmax_columns(float *s, size_t n_keys, size_t n_q, const int32_t *limit,
                                 float *m, float *l, float *c)
{
    vf none = vf_set1(-INFINITY);

    for (size_t j = 0; j < n_q; j += LANES) {
        vf old = vf_load(m + j), top = old, sum = vf_zero();
        for (size_t t = 0; t < n_keys; t++)
            top = vf_max(top, vf_keep_below(vf_load(s + t * n_q + j), (int32_t)t, limit + j, none));
        /* A column that has seen no key yet keeps m = -infinity; exp(-inf - 0) below is 0. */
        vf base = vf_max(top, vf_set1(-3.0e38f));
        vf scale = vf_exp(old - base);
        for (size_t t = 0; t < n_keys; t++) {
            vf x = vf_keep_below(vf_load(s + t * n_q + j), (int32_t)t, limit + j, none);
            vf e = vf_exp(x - base);
            vf_store(s + t * n_q + j, e);
            sum = sum + e;
        }
        vf_store(m + j, top);
        vf_store(c + j, scale);
        vf_store(l + j, vf_fma(vf_load(l + j), scale, sum));
    }
}

static void simd_scale_columns(float *o, size_t n, size_t n_q, const float *c)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n_q; j += LANES)
            vf_store(o + i * n_q + j, vf_load(o + i * n_q + j) * vf_load(c + j));
}

/* ---- sampling ---- */

static size_t simd_argmax(const float *x, size_t n, bool *bad)
{
    const uint32_t all = (uint32_t)((1ull << LANES) - 1);
    vf best_v = vf_set1(-INFINITY), top = vf_set1(3.4028234e38f);
    size_t i = 0, best = 0;
    uint32_t odd = 0;
    float m;

    /* The largest value first, 4 vectors at a time; then where it is. */
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        vf a = vf_load(x + i), b = vf_load(x + i + LANES);
        vf c = vf_load(x + i + 2 * LANES), d = vf_load(x + i + 3 * LANES);
        odd |= (vf_ge(top, a) & vf_ge(top, b) & vf_ge(top, c) & vf_ge(top, d)) ^ all;
        best_v = vf_max(best_v, vf_max(vf_max(a, b), vf_max(c, d)));
    }
    m = vf_hmax(best_v);
    for (; i < n; i++) {
        odd |= !(x[i] <= 3.4028234e38f);
        m = x[i] > m ? x[i] : m;
    }
    *bad = odd != 0;
    if (odd)
        return 0;
    vf mv = vf_set1(m);
    for (i = 0; i + LANES <= n; i += LANES) {
        uint32_t hit = vf_ge(vf_load(x + i), mv);
        if (hit)
            return i + (size_t)__builtin_ctz(hit);
    }
    for (best = i; best < n && x[best] < m; best++)
        ;
    return best < n ? best : 0;
}

static size_t simd_select(const float *x, size_t n, float bar, int32_t *ids, size_t cap)
{
    vf b = vf_set1(bar);
    size_t i = 0, count = 0;

    for (; i + LANES <= n; i += LANES) {
        for (uint32_t hit = vf_ge(vf_load(x + i), b); hit; hit &= hit - 1) {
            if (count < cap)
                ids[count] = (int32_t)(i + (size_t)__builtin_ctz(hit));
            count++;
        }
    }
    for (; i < n; i++) {
        if (x[i] >= bar) {
            if (count < cap)
                ids[count] = (int32_t)i;
            count++;
        }
    }
    return count;
}

#define SIMD_OPS                                                                                   \
    .gemm = simd_gemm, .thin_f32 = simd_thin_f32, .transpose = simd_transpose,                     \
    .to_f32 = simd_to_f32, .dot = simd_dot, .max = simd_max, .norm_scale = simd_norm_scale,        \
    .norm_gate = simd_norm_gate, .exp = simd_exp, .exp_sum = simd_exp_sum, .silu = simd_silu,      \
    .sigmoid = simd_sigmoid, .swiglu = simd_swiglu, .mul_sigmoid = simd_mul_sigmoid,               \
    .axpy = simd_axpy, .scale = simd_scale, .conv_silu = simd_conv_silu,                           \
    .delta_step = simd_delta_step, .rope = simd_rope, .attn_scores = simd_attn_scores,             \
    .attn_values = simd_attn_values, .softmax_columns = simd_softmax_columns,                      \
    .scale_columns = simd_scale_columns, .argmax = simd_argmax, .select = simd_select

#endif
