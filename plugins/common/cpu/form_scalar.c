/* form_scalar.c: every kernel in plain C, from its definition: the twin of the vector forms, and
 * what runs where none of them can. Products are summed in double. */
#include <math.h>

#include "plugins/common/cpu/bf16.h"
#include "plugins/common/cpu/kernels.h"

static float load_w(int32_t dtype, const void *w, size_t i)
{
    if (dtype == VL_DTYPE_BF16)
        return bf16_to_f32(((const uint16_t *)w)[i]);
    if (dtype == VL_DTYPE_F16)
        return f16_to_f32(((const uint16_t *)w)[i]);
    return ((const float *)w)[i];
}

static void thin_f32(const vl_cpu_thin *t, size_t begin, size_t end)
{
    const float *x = t->x;

    for (size_t o = begin; o < end; o++) {
        double sum[VL_CPU_THIN_MAX] = {0};
        for (size_t k = 0; k < t->in; k++) {
            double w = (double)load_w(t->dtype, t->w, o * t->w_ld + k);
            for (size_t r = 0; r < t->n_rows; r++)
                sum[r] += w * (double)x[r * t->x_ld + k];
        }
        for (size_t r = 0; r < t->n_rows; r++)
            t->y[r * t->y_ld + o] = (float)sum[r];
    }
}

static void gemm(size_t m, size_t n, size_t k_len, const float *a, size_t a_row, size_t a_col,
                 const float *b, size_t b_ld, float *c, size_t c_ld, bool accumulate)
{
    enum { BLOCK = 64 };

    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j += BLOCK) {
            size_t n_j = n - j < BLOCK ? n - j : BLOCK;
            double sum[BLOCK] = {0};
            for (size_t l = 0; accumulate && l < n_j; l++)
                sum[l] = (double)c[i * c_ld + j + l];
            for (size_t k = 0; k < k_len; k++) {
                double s = (double)a[i * a_row + k * a_col];
                for (size_t l = 0; l < n_j; l++)
                    sum[l] += s * (double)b[k * b_ld + j + l];
            }
            for (size_t l = 0; l < n_j; l++)
                c[i * c_ld + j + l] = (float)sum[l];
        }
    }
}

static void transpose(const uint32_t *src, size_t src_ld, uint32_t *dst, size_t dst_ld,
                      size_t n_rows, size_t n_cols)
{
    for (size_t r = 0; r < n_rows; r++)
        for (size_t c = 0; c < n_cols; c++)
            dst[c * dst_ld + r] = src[r * src_ld + c];
}

static void to_f32(int32_t dtype, const void *w, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = load_w(dtype, w, i);
}

static void to_bf16(const float *x, uint16_t *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = bf16_of_f32(x[i]);
}

static float dot(const float *x, const float *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return (float)sum;
}

static float max(const float *x, size_t n)
{
    float best = x[0];
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            return x[i];
        best = x[i] > best ? x[i] : best;
    }
    return best;
}

static float sigmoid1(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static float silu1(float x)
{
    return x / (1.0f + expf(-x));
}

static void norm_scale(const float *x, float scale, const float *w, float bias, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * scale * (bias + w[i]);
}

static void norm_gate(const float *x, float scale, const float *w, const float *z, float *y,
                      size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * scale * w[i] * silu1(z[i]);
}

static void exp_(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = expf(x[i]);
}

static float exp_sum(const float *x, float shift, float *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        y[i] = expf(x[i] - shift);
        sum += (double)y[i];
    }
    return (float)sum;
}

static void silu(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = silu1(x[i]);
}

static void sigmoid(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sigmoid1(x[i]);
}

static void swiglu(const float *gate, const float *up, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = silu1(gate[i]) * up[i];
}

static void mul_sigmoid(const float *x, const float *g, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * sigmoid1(g[i]);
}

static void axpy(float a, const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

static void scale_(float a, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= a;
}

static void conv_silu(const float *x, size_t x_ld, const float *w, size_t n_taps, float *y,
                      size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (size_t j = 0; j < n_taps; j++)
            sum += w[j * n + i] * x[j * x_ld + i];
        y[i] = silu1(sum);
    }
}

static void delta_step(float *s, size_t dk, size_t dv, float decay, float beta, const float *k,
                       const float *v, const float *q, float *o)
{
    for (size_t j = 0; j < dv; j++) {
        double e = 0, r = 0;
        for (size_t i = 0; i < dk; i++) {
            s[i * dv + j] *= decay;
            e += (double)s[i * dv + j] * (double)k[i];
        }
        float u = beta * (v[j] - (float)e);
        for (size_t i = 0; i < dk; i++) {
            s[i * dv + j] += k[i] * u;
            r += (double)s[i * dv + j] * (double)q[i];
        }
        o[j] = (float)r;
    }
}

static void rope(float *x, size_t half, const float *c, const float *s)
{
    for (size_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];
        x[i] = a * c[i] - b * s[i];
        x[i + half] = b * c[i] + a * s[i];
    }
}

static void attn_scores(const float *q, size_t q_ld, size_t n_q, const float *k, size_t n,
                        size_t size, float scale, float *s, size_t s_ld)
{
    for (size_t i = 0; i < n_q; i++)
        for (size_t t = 0; t < n; t++)
            s[i * s_ld + t] = scale * dot(q + i * q_ld, k + t * size, size);
}

static void attn_values(const float *p, size_t p_ld, size_t n_q, const float *v, size_t n,
                        size_t size, float *o, size_t o_ld)
{
    gemm(n_q, size, n, p, p_ld, 1, v, size, o, o_ld, true);
}

static void softmax_columns(float *s, size_t n_keys, size_t n_q, const int32_t *limit, float *m,
                            float *l, float *c)
{
    for (size_t j = 0; j < n_q; j++) {
        float top = m[j];
        double sum = 0;
        for (size_t t = 0; t < n_keys && (int32_t)t < limit[j]; t++)
            top = s[t * n_q + j] > top ? s[t * n_q + j] : top;
        float base = top > -3.0e38f ? top : -3.0e38f;
        c[j] = expf(m[j] - base);
        for (size_t t = 0; t < n_keys; t++) {
            s[t * n_q + j] = (int32_t)t < limit[j] ? expf(s[t * n_q + j] - base) : 0.0f;
            sum += (double)s[t * n_q + j];
        }
        m[j] = top;
        l[j] = l[j] * c[j] + (float)sum;
    }
}

static void scale_columns(float *o, size_t n, size_t n_q, const float *c)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n_q; j++)
            o[i * n_q + j] *= c[j];
}

static size_t argmax(const float *x, size_t n, bool *bad)
{
    size_t best = 0;
    *bad = false;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i]) || x[i] == INFINITY)
            *bad = true;
        if (x[i] > x[best])
            best = i;
    }
    return best;
}

static size_t select_(const float *x, size_t n, float bar, int32_t *ids, size_t cap)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (x[i] >= bar) {
            if (count < cap)
                ids[count] = (int32_t)i;
            count++;
        }
    }
    return count;
}

const vl_cpu_kernels vl_cpu_kernels_scalar = {
    .form = VL_CPU_SCALAR,
    .thin_f32 = thin_f32,
    .gemm = gemm,
    .transpose = transpose,
    .to_f32 = to_f32,
    .to_bf16 = to_bf16,
    .dot = dot,
    .max = max,
    .norm_scale = norm_scale,
    .norm_gate = norm_gate,
    .exp = exp_,
    .exp_sum = exp_sum,
    .silu = silu,
    .sigmoid = sigmoid,
    .swiglu = swiglu,
    .mul_sigmoid = mul_sigmoid,
    .axpy = axpy,
    .scale = scale_,
    .conv_silu = conv_silu,
    .delta_step = delta_step,
    .rope = rope,
    .attn_scores = attn_scores,
    .attn_values = attn_values,
    .softmax_columns = softmax_columns,
    .scale_columns = scale_columns,
    .argmax = argmax,
    .select = select_,
};
