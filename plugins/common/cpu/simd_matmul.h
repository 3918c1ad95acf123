/* simd_matmul.h: thin and blocked products in f32, for the vector type of the file that includes
 * it.
 *
 * Included once per form after its vec_*.h; gives static functions alone. */
#ifndef VL_CPU_SIMD_MATMUL_H
#define VL_CPU_SIMD_MATMUL_H

#include "plugins/common/cpu/kernels.h"

/* How far ahead of its use a weight is fetched in the thin form, on into the rows that come
 * next. */
#define THIN_AHEAD_BYTES 2048

INLINE vf load_w(int dtype, const void *w, size_t i)
{
    if (dtype == VL_DTYPE_BF16)
        return vf_load_bf16((const uint16_t *)w + i);
    if (dtype == VL_DTYPE_F16)
        return vf_load_f16((const uint16_t *)w + i);
    return vf_load((const float *)w + i);
}

INLINE vf load_w_n(int dtype, const void *w, size_t i, size_t n)
{
    if (dtype == VL_DTYPE_BF16)
        return vf_load_bf16_n((const uint16_t *)w + i, n);
    if (dtype == VL_DTYPE_F16)
        return vf_load_f16_n((const uint16_t *)w + i, n);
    return vf_load_n((const float *)w + i, n);
}

/* n_w rows of weights, `apart` rows from one to the next, n_x rows of x: every sum is one chain of
 * fused multiply-adds per lane, whatever n_w and n_x, so that a row has the same bits in any
 * company. */
INLINE void thin_block(const vl_cpu_thin *t, size_t o, size_t apart, const int dtype, const int n_w,
                       const int n_x)
{
    const size_t size = dtype == VL_DTYPE_F32 ? 4 : 2;
    const char *w = (const char *)t->w + o * t->w_ld * size;
    const size_t w_step = apart * t->w_ld * size;
    const float *x = t->x;
    vf acc[4][VL_CPU_THIN_MAX];
    size_t k = 0;

#pragma GCC unroll 4
    for (int i = 0; i < n_w; i++)
#pragma GCC unroll 8
        for (int j = 0; j < n_x; j++)
            acc[i][j] = vf_zero();
    for (; k + LANES <= t->in; k += LANES) {
#pragma GCC unroll 4
        for (int i = 0; i < n_w; i++) {
            const char *row = w + (size_t)i * w_step;
            _mm_prefetch(row + k * size + THIN_AHEAD_BYTES, _MM_HINT_T0);
            vf v = load_w(dtype, row, k);
#pragma GCC unroll 8
            for (int j = 0; j < n_x; j++)
                acc[i][j] = vf_fma(v, vf_load(x + (size_t)j * t->x_ld + k), acc[i][j]);
        }
    }
    if (k < t->in) {
        size_t n = t->in - k;
#pragma GCC unroll 4
        for (int i = 0; i < n_w; i++) {
            vf v = load_w_n(dtype, w + (size_t)i * w_step, k, n);
#pragma GCC unroll 8
            for (int j = 0; j < n_x; j++)
                acc[i][j] = vf_fma(v, vf_load_n(x + (size_t)j * t->x_ld + k, n), acc[i][j]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < n_w; i++)
#pragma GCC unroll 8
        for (int j = 0; j < n_x; j++)
            t->y[(size_t)j * t->y_ld + o + (size_t)i * apart] = vf_sum(acc[i][j]);
}

/* Rows of weights taken together: enough chains to hide the latency, few enough for the
 * registers. */
#define THIN_ROWS(n_x) ((n_x)*4 <= THIN_ACC_CAP ? 4 : (n_x)*2 <= THIN_ACC_CAP ? 2 : 1)

/* The rows that go together lie far apart, so that each is one of a few long streams through
 * memory. */
INLINE void thin_rows(const vl_cpu_thin *t, size_t begin, size_t end, const int dtype,
                      const int n_x)
{
    const size_t step = THIN_ROWS(n_x), apart = (end - begin) / step;
    size_t o = begin;

    for (; o < begin + apart; o++)
        thin_block(t, o, apart, dtype, (int)step, n_x);
    for (o = begin + step * apart; o < end; o++)
        thin_block(t, o, 0, dtype, 1, n_x);
}

INLINE void thin_dtype(const vl_cpu_thin *t, size_t begin, size_t end, const int dtype)
{
    switch (t->n_rows) {
    case 1:
        thin_rows(t, begin, end, dtype, 1);
        break;
    case 2:
        thin_rows(t, begin, end, dtype, 2);
        break;
    case 3:
        thin_rows(t, begin, end, dtype, 3);
        break;
    case 4:
        thin_rows(t, begin, end, dtype, 4);
        break;
    case 5:
        thin_rows(t, begin, end, dtype, 5);
        break;
    case 6:
        thin_rows(t, begin, end, dtype, 6);
        break;
    case 7:
        thin_rows(t, begin, end, dtype, 7);
        break;
    case 8:
        thin_rows(t, begin, end, dtype, 8);
        break;
    default:
        break;
    }
}

static void simd_thin_f32(const vl_cpu_thin *t, size_t begin, size_t end)
{
    if (t->dtype == VL_DTYPE_BF16)
        thin_dtype(t, begin, end, VL_DTYPE_BF16);
    else if (t->dtype == VL_DTYPE_F16)
        thin_dtype(t, begin, end, VL_DTYPE_F16);
    else
        thin_dtype(t, begin, end, VL_DTYPE_F32);
}

/* One register tile: n_m rows of c, n_v vectors wide (tail > 0: the last vector has that many). */
INLINE void gemm_tile(const int n_m, const int n_v, size_t tail, size_t k_len, const float *a,
                      size_t a_row, size_t a_col, const float *b, size_t b_ld, float *c,
                      size_t c_ld, bool accumulate)
{
    vf acc[GEMM_ROWS][GEMM_VECS];

#pragma GCC unroll 8
    for (int i = 0; i < n_m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < n_v; j++) {
            const float *p = c + (size_t)i * c_ld + (size_t)j * LANES;
            acc[i][j] = !accumulate            ? vf_zero()
                        : j == n_v - 1 && tail ? vf_load_n(p, tail)
                                               : vf_load(p);
        }
    for (size_t k = 0; k < k_len; k++) {
        const float *ak = a + k * a_col, *bk = b + k * b_ld;
        vf v[GEMM_VECS];
#pragma GCC unroll 4
        for (int j = 0; j < n_v; j++)
            v[j] = j == n_v - 1 && tail ? vf_load_n(bk + (size_t)j * LANES, tail)
                                        : vf_load(bk + (size_t)j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < n_m; i++) {
            vf s = vf_set1(ak[(size_t)i * a_row]);
#pragma GCC unroll 4
            for (int j = 0; j < n_v; j++)
                acc[i][j] = vf_fma(s, v[j], acc[i][j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < n_m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < n_v; j++) {
            float *p = c + (size_t)i * c_ld + (size_t)j * LANES;
            if (j == n_v - 1 && tail)
                vf_store_n(p, acc[i][j], tail);
            else
                vf_store(p, acc[i][j]);
        }
}

/* All rows of c for one column block. */
INLINE void gemm_columns(size_t m, const int n_v, size_t tail, size_t k_len, const float *a,
                         size_t a_row, size_t a_col, const float *b, size_t b_ld, float *c,
                         size_t c_ld, bool accumulate)
{
    size_t i = 0;

    for (; i + GEMM_ROWS <= m; i += GEMM_ROWS)
        gemm_tile(GEMM_ROWS, n_v, tail, k_len, a + i * a_row, a_row, a_col, b, b_ld, c + i * c_ld,
                  c_ld, accumulate);
    for (; i + 2 <= m; i += 2)
        gemm_tile(2, n_v, tail, k_len, a + i * a_row, a_row, a_col, b, b_ld, c + i * c_ld, c_ld,
                  accumulate);
    if (i < m)
        gemm_tile(1, n_v, tail, k_len, a + i * a_row, a_row, a_col, b, b_ld, c + i * c_ld, c_ld,
                  accumulate);
}

static void simd_gemm(size_t m, size_t n, size_t k_len, const float *a, size_t a_row, size_t a_col,
                      const float *b, size_t b_ld, float *c, size_t c_ld, bool accumulate)
{
    size_t j = 0;

    for (; j + GEMM_VECS * LANES <= n; j += GEMM_VECS * LANES)
        gemm_columns(m, GEMM_VECS, 0, k_len, a, a_row, a_col, b + j, b_ld, c + j, c_ld, accumulate);
    for (; j + LANES <= n; j += LANES)
        gemm_columns(m, 1, 0, k_len, a, a_row, a_col, b + j, b_ld, c + j, c_ld, accumulate);
    if (j < n)
        gemm_columns(m, 1, n - j, k_len, a, a_row, a_col, b + j, b_ld, c + j, c_ld, accumulate);
}

static void simd_transpose(const uint32_t *src, size_t src_ld, uint32_t *dst, size_t dst_ld,
                           size_t n_rows, size_t n_cols)
{
    size_t r = 0;

    for (; r + LANES <= n_rows; r += LANES) {
        size_t c = 0;
        for (; c + LANES <= n_cols; c += LANES)
            block_transpose(src + r * src_ld + c, src_ld, dst + c * dst_ld + r, dst_ld);
        for (; c < n_cols; c++)
            for (size_t i = r; i < r + LANES; i++)
                dst[c * dst_ld + i] = src[i * src_ld + c];
    }
    for (; r < n_rows; r++)
        for (size_t c = 0; c < n_cols; c++)
            dst[c * dst_ld + r] = src[r * src_ld + c];
}

static void simd_to_f32(int32_t dtype, const void *w, float *y, size_t n)
{
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        vf_store(y + i, load_w(dtype, w, i));
    if (i < n)
        vf_store_n(y + i, load_w_n(dtype, w, i, n - i), n - i);
}

#endif
