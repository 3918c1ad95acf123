/* ops.c: the small operations by rows, on top of the kernels of the form in use. Definitions:
 * ops.h. */
#include "plugins/common/cpu/ops.h"

#include <math.h>

#include "plugins/common/cpu/bf16.h"
#include "plugins/common/cpu/kernels.h"

void vl_cpu_rmsnorm(const vl_cpu *cpu, const float *x, size_t x_ld, const float *w, float bias,
                    float eps, float *y, size_t y_ld, size_t n_rows, size_t n)
{
    for (size_t r = 0; r < n_rows; r++, x += x_ld, y += y_ld) {
        float mean = cpu->k->dot(x, x, n) / (float)n;
        cpu->k->norm_scale(x, 1.0f / sqrtf(mean + eps), w, bias, y, n);
    }
}

void vl_cpu_rmsnorm_gated(const vl_cpu *cpu, const float *x, size_t x_ld, const float *z,
                          size_t z_ld, const float *w, float eps, float *y, size_t y_ld,
                          size_t n_rows, size_t n)
{
    for (size_t r = 0; r < n_rows; r++, x += x_ld, z += z_ld, y += y_ld) {
        float mean = cpu->k->dot(x, x, n) / (float)n;
        cpu->k->norm_gate(x, 1.0f / sqrtf(mean + eps), w, z, y, n);
    }
}

void vl_cpu_l2norm(const vl_cpu *cpu, const float *x, size_t x_ld, float eps, float scale, float *y,
                   size_t y_ld, size_t n_rows, size_t n)
{
    for (size_t r = 0; r < n_rows; r++, x += x_ld, y += y_ld) {
        float s = scale / sqrtf(cpu->k->dot(x, x, n) + eps);
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * s;
    }
}

void vl_cpu_exp(const vl_cpu *cpu, const float *x, float *y, size_t n)
{
    cpu->k->exp(x, y, n);
}

void vl_cpu_silu(const vl_cpu *cpu, const float *x, float *y, size_t n)
{
    cpu->k->silu(x, y, n);
}

void vl_cpu_sigmoid(const vl_cpu *cpu, const float *x, float *y, size_t n)
{
    cpu->k->sigmoid(x, y, n);
}

/* One value a head and token: the library's functions are fast enough. */
void vl_cpu_softplus(const vl_cpu *cpu, const float *x, float *y, size_t n)
{
    (void)cpu;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] > 20.0f ? x[i] : log1pf(expf(x[i]));
}

void vl_cpu_swiglu(const vl_cpu *cpu, const float *gate, const float *up, float *y, size_t n)
{
    cpu->k->swiglu(gate, up, y, n);
}

void vl_cpu_mul_sigmoid(const vl_cpu *cpu, const float *x, const float *g, float *y, size_t n)
{
    cpu->k->mul_sigmoid(x, g, y, n);
}

void vl_cpu_add(const vl_cpu *cpu, const float *x, float *y, size_t n)
{
    cpu->k->axpy(1.0f, x, y, n);
}

void vl_cpu_axpy(const vl_cpu *cpu, float a, const float *x, float *y, size_t n)
{
    cpu->k->axpy(a, x, y, n);
}

void vl_cpu_scale(const vl_cpu *cpu, float a, float *y, size_t n)
{
    cpu->k->scale(a, y, n);
}

float vl_cpu_dot(const vl_cpu *cpu, const float *x, const float *y, size_t n)
{
    return cpu->k->dot(x, y, n);
}

float vl_cpu_max(const vl_cpu *cpu, const float *x, size_t n)
{
    return cpu->k->max(x, n);
}

void vl_cpu_to_f32(const vl_cpu *cpu, int32_t dtype, const void *w, float *y, size_t n)
{
    cpu->k->to_f32(dtype, w, y, n);
}

void vl_cpu_round_bf16(const vl_cpu *cpu, float *x, size_t n)
{
    (void)cpu;
    for (size_t i = 0; i < n; i++)
        x[i] = bf16_to_f32(bf16_of_f32(x[i]));
}

void vl_cpu_conv_silu(const vl_cpu *cpu, const float *x, size_t x_ld, const float *w, size_t n_taps,
                      float *y, size_t y_ld, size_t n_rows, size_t n)
{
    for (size_t t = 0; t < n_rows; t++)
        cpu->k->conv_silu(x + t * x_ld, x_ld, w, n_taps, y + t * y_ld, n);
}

void vl_cpu_delta_step(const vl_cpu *cpu, float *s, size_t dk, size_t dv, float decay, float beta,
                       const float *k, const float *v, const float *q, float *o)
{
    cpu->k->delta_step(s, dk, dv, decay, beta, k, v, q, o);
}

void vl_cpu_rope_table(const float *inv_freq, size_t half, size_t begin, size_t end,
                       float *cos_table, float *sin_table)
{
    for (size_t p = begin; p < end; p++) {
        for (size_t i = 0; i < half; i++) {
            float angle = (float)p * inv_freq[i];
            cos_table[p * half + i] = cosf(angle);
            sin_table[p * half + i] = sinf(angle);
        }
    }
}

void vl_cpu_rope(const vl_cpu *cpu, float *x, size_t n_heads, size_t head_ld, size_t half,
                 const float *c, const float *s)
{
    for (size_t h = 0; h < n_heads; h++)
        cpu->k->rope(x + h * head_ld, half, c, s);
}
