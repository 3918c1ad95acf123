/* plugins/common/cpu/ops.h: the small operations between matmuls, in the form of a vl_cpu.
 *
 * Everything here runs on the calling thread and allocates nothing: call it inside a vl_cpu_for
 * body to use more threads [task]. All data is f32 and contiguous unless a stride is given; y == x
 * is allowed where both have the same shape. SIMD forms agree with the scalar form (libm) to: exp
 * 3e-7 relative for x in [-87, 88] (below: 0, above 88.72: +inf), sigmoid and silu 5e-7, softplus
 * 5e-7 relative. NaN goes in, NaN comes out. */
#ifndef VL_CPU_OPS_H
#define VL_CPU_OPS_H

#include "plugins/common/cpu/cpu.h"

/* y[r, i] = x[r, i] * rsqrt(mean_i(x[r, i]^2) + eps) * (bias + w[i]).  x, y [n_rows, n], strides in
 * floats, w [n]. bias 1: the zero-centred norm (factor 1 + w); bias 0: the plain one. A per-head
 * norm is this one with n = head size and a row per head. */
void vl_cpu_rmsnorm(const vl_cpu *cpu, const float *x, size_t x_ld, const float *w, float bias,
                    float eps, float *y, size_t y_ld, size_t n_rows, size_t n);

/* y[r, i] = x[r, i] * rsqrt(mean_i(x[r, i]^2) + eps) * w[i] * silu(z[r, i]): the gated norm (norm
 * first). */
void vl_cpu_rmsnorm_gated(const vl_cpu *cpu, const float *x, size_t x_ld, const float *z,
                          size_t z_ld, const float *w, float eps, float *y, size_t y_ld,
                          size_t n_rows, size_t n);

/* y[r, i] = scale * x[r, i] * rsqrt(sum_i(x[r, i]^2) + eps): l2 normalisation. */
void vl_cpu_l2norm(const vl_cpu *cpu, const float *x, size_t x_ld, float eps, float scale, float *y,
                   size_t y_ld, size_t n_rows, size_t n);

void vl_cpu_exp(const vl_cpu *cpu, const float *x, float *y, size_t n);
void vl_cpu_silu(const vl_cpu *cpu, const float *x, float *y, size_t n);    /* x / (1 + e^-x) */
void vl_cpu_sigmoid(const vl_cpu *cpu, const float *x, float *y, size_t n); /* 1 / (1 + e^-x) */
void vl_cpu_softplus(const vl_cpu *cpu, const float *x, float *y,
                     size_t n); /* x > 20 ? x : log1p(e^x) */
void vl_cpu_swiglu(const vl_cpu *cpu, const float *gate, const float *up, float *y,
                   size_t n); /* silu(gate) * up */
void vl_cpu_mul_sigmoid(const vl_cpu *cpu, const float *x, const float *g, float *y,
                        size_t n);                                      /* x * sigmoid(g) */
void vl_cpu_add(const vl_cpu *cpu, const float *x, float *y, size_t n); /* y += x */
void vl_cpu_axpy(const vl_cpu *cpu, float a, const float *x, float *y, size_t n); /* y += a * x */
void vl_cpu_scale(const vl_cpu *cpu, float a, float *y, size_t n);                /* y *= a */
float vl_cpu_dot(const vl_cpu *cpu, const float *x, const float *y, size_t n);
float vl_cpu_max(const vl_cpu *cpu, const float *x, size_t n); /* n >= 1; NaN if any is NaN */

/* A row of weights or of the embedding to f32. w: n elements of dtype (VL_DTYPE_BF16, F16, F32). */
void vl_cpu_to_f32(const vl_cpu *cpu, int32_t dtype, const void *w, float *y, size_t n);

/* x[i] = x[i] rounded to bf16 (nearest even; NaN stays NaN) and back: mimics a bf16 store. */
void vl_cpu_round_bf16(const vl_cpu *cpu, float *x, size_t n);

/* Causal depthwise convolution with n_taps taps, then SiLU:
 *   y[t, c] = silu(sum_j w[j * n + c] * x[(t + j) * x_ld + c]),  t < n_rows, c < n, j < n_taps
 * x points at the row n_taps - 1 before the first output's own: rows [n_rows + n_taps - 1, n]. w is
 * [n_taps, n] (taps outermost: the transposed [n, 1, n_taps] of a checkpoint, in f32). */
void vl_cpu_conv_silu(const vl_cpu *cpu, const float *x, size_t x_ld, const float *w, size_t n_taps,
                      float *y, size_t y_ld, size_t n_rows, size_t n);

/* One step of the gated delta rule for one head. s [dk, dv] f32 is read and written:
 *   s *= decay;  e = s^T k;  u = beta * (v - e);  s += k u^T;  o = s^T q
 * k, q [dk]; v, o [dv]; dv a multiple of 16, at most 256. o must not overlap q, k, v. */
void vl_cpu_delta_step(const vl_cpu *cpu, float *s, size_t dk, size_t dv, float decay, float beta,
                       const float *k, const float *v, const float *q, float *o);

/* ---- rope ---- */

/* Rows [begin, end) of the tables cos, sin [max_pos, half]: entry [p, i] is cos/sin of the f32
 * product (float)p * inv_freq[i], with full range reduction. inv_freq [half] f32. */
void vl_cpu_rope_table(const float *inv_freq, size_t half, size_t begin, size_t end,
                       float *cos_table, float *sin_table);

/* Half-split partial rope in place: for each of n_heads heads of one row (x + h * head_ld), with c,
 * s [half] of its position: (a, b) = (x[i], x[i + half]);  x[i] = a c[i] - b s[i];  x[i + half] = b
 * c[i] + a s[i]. The rest of the head is left alone. */
void vl_cpu_rope(const vl_cpu *cpu, float *x, size_t n_heads, size_t head_ld, size_t half,
                 const float *c, const float *s);

#endif
