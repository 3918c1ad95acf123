/* form_avx512_bf16.c: products of bf16 weights with activations rounded to bf16, two at a time in
 * one instruction, summed in f32. Everything else is as in the AVX-512 form. Compiled with
 * -mavx512bf16.
 *
 * The instruction takes subnormal bf16 values (below 1.2e-38) as zero. */
#include "plugins/common/cpu/vec_avx512.h"

#include "plugins/common/cpu/simd_matmul.h"
#include "plugins/common/cpu/simd_ops.h"

#define PAIRS 32 /* bf16 values in a vector */

INLINE __m512bh load_bh(const uint16_t *p)
{
    return (__m512bh)_mm512_loadu_si512(p);
}

INLINE __m512bh load_bh_n(const uint16_t *p, size_t n)
{
    return (__m512bh)_mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), p);
}

static void to_bf16(const float *x, uint16_t *y, size_t n)
{
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        _mm256_storeu_si256((void *)(y + i), (__m256i)_mm512_cvtneps_pbh(vf_load(x + i)));
    if (i < n)
        _mm256_mask_storeu_epi16(y + i, lanes_below(n - i),
                                 (__m256i)_mm512_cvtneps_pbh(vf_load_n(x + i, n - i)));
}

/* As thin_block in simd_matmul.h, on pairs. */
INLINE void bf16_block(const vl_cpu_thin *t, size_t o, size_t apart, const int n_w, const int n_x)
{
    const size_t w_step = apart * t->w_ld;
    const uint16_t *w = (const uint16_t *)t->w + o * t->w_ld, *x = t->x;
    vf acc[4][VL_CPU_THIN_MAX];
    size_t k = 0;

#pragma GCC unroll 4
    for (int i = 0; i < n_w; i++)
#pragma GCC unroll 8
        for (int j = 0; j < n_x; j++)
            acc[i][j] = vf_zero();
    for (; k + PAIRS <= t->in; k += PAIRS) {
#pragma GCC unroll 4
        for (int i = 0; i < n_w; i++) {
            const uint16_t *row = w + (size_t)i * w_step + k;
            _mm_prefetch((const char *)row + THIN_AHEAD_BYTES, _MM_HINT_T0);
            __m512bh v = load_bh(row);
#pragma GCC unroll 8
            for (int j = 0; j < n_x; j++)
                acc[i][j] = _mm512_dpbf16_ps(acc[i][j], v, load_bh(x + (size_t)j * t->x_ld + k));
        }
    }
    if (k < t->in) {
        size_t n = t->in - k;
#pragma GCC unroll 4
        for (int i = 0; i < n_w; i++) {
            __m512bh v = load_bh_n(w + (size_t)i * w_step + k, n);
#pragma GCC unroll 8
            for (int j = 0; j < n_x; j++)
                acc[i][j] =
                    _mm512_dpbf16_ps(acc[i][j], v, load_bh_n(x + (size_t)j * t->x_ld + k, n));
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < n_w; i++)
#pragma GCC unroll 8
        for (int j = 0; j < n_x; j++)
            t->y[(size_t)j * t->y_ld + o + (size_t)i * apart] = vf_sum(acc[i][j]);
}

INLINE void bf16_rows(const vl_cpu_thin *t, size_t begin, size_t end, const int n_x)
{
    const size_t step = THIN_ROWS(n_x), apart = (end - begin) / step;
    size_t o = begin;

    for (; o < begin + apart; o++)
        bf16_block(t, o, apart, (int)step, n_x);
    for (o = begin + step * apart; o < end; o++)
        bf16_block(t, o, 0, 1, n_x);
}

static void thin_bf16(const vl_cpu_thin *t, size_t begin, size_t end)
{
    switch (t->n_rows) {
    case 1:
        bf16_rows(t, begin, end, 1);
        break;
    case 2:
        bf16_rows(t, begin, end, 2);
        break;
    case 3:
        bf16_rows(t, begin, end, 3);
        break;
    case 4:
        bf16_rows(t, begin, end, 4);
        break;
    case 5:
        bf16_rows(t, begin, end, 5);
        break;
    case 6:
        bf16_rows(t, begin, end, 6);
        break;
    case 7:
        bf16_rows(t, begin, end, 7);
        break;
    case 8:
        bf16_rows(t, begin, end, 8);
        break;
    default:
        break;
    }
}

INLINE __m512bh set1_pair(const uint16_t *p)
{
    int32_t pair;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return (__m512bh)_mm512_set1_epi32(pair);
}

/* n_m rows of weights against n_v vectors of packed pairs. */
INLINE void bf16_tile(const int n_m, const int n_v, size_t k_len, const uint16_t *w, size_t w_ld,
                      const uint32_t *b, size_t b_ld, float *c, size_t c_ld, bool accumulate)
{
    vf acc[GEMM_ROWS][GEMM_VECS];
    size_t k = 0;

#pragma GCC unroll 8
    for (int i = 0; i < n_m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < n_v; j++)
            acc[i][j] = accumulate ? vf_load(c + (size_t)i * c_ld + (size_t)j * LANES) : vf_zero();
    for (; k + 2 <= k_len; k += 2, b += b_ld) {
        __m512bh v[GEMM_VECS];
#pragma GCC unroll 4
        for (int j = 0; j < n_v; j++)
            v[j] = (__m512bh)_mm512_loadu_si512(b + (size_t)j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < n_m; i++) {
            __m512bh s = set1_pair(w + (size_t)i * w_ld + k);
#pragma GCC unroll 4
            for (int j = 0; j < n_v; j++)
                acc[i][j] = _mm512_dpbf16_ps(acc[i][j], s, v[j]);
        }
    }
    if (k < k_len) { /* an odd reduction: nothing is read past the row */
#pragma GCC unroll 8
        for (int i = 0; i < n_m; i++) {
            __m512bh s = (__m512bh)_mm512_set1_epi32(w[(size_t)i * w_ld + k]);
#pragma GCC unroll 4
            for (int j = 0; j < n_v; j++)
                acc[i][j] = _mm512_dpbf16_ps(acc[i][j], s,
                                             (__m512bh)_mm512_loadu_si512(b + (size_t)j * LANES));
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < n_m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < n_v; j++)
            vf_store(c + (size_t)i * c_ld + (size_t)j * LANES, acc[i][j]);
}

INLINE void bf16_columns(size_t m, const int n_v, size_t k_len, const uint16_t *w, size_t w_ld,
                         const uint32_t *b, size_t b_ld, float *c, size_t c_ld, bool accumulate)
{
    size_t i = 0;

    for (; i + GEMM_ROWS <= m; i += GEMM_ROWS)
        bf16_tile(GEMM_ROWS, n_v, k_len, w + i * w_ld, w_ld, b, b_ld, c + i * c_ld, c_ld,
                  accumulate);
    for (; i + 2 <= m; i += 2)
        bf16_tile(2, n_v, k_len, w + i * w_ld, w_ld, b, b_ld, c + i * c_ld, c_ld, accumulate);
    if (i < m)
        bf16_tile(1, n_v, k_len, w + i * w_ld, w_ld, b, b_ld, c + i * c_ld, c_ld, accumulate);
}

static void gemm_bf16(size_t m, size_t n, size_t k_len, const uint16_t *w, size_t w_ld,
                      const uint32_t *b, size_t b_ld, float *c, size_t c_ld, bool accumulate)
{
    size_t j = 0;

    for (; j + GEMM_VECS * LANES <= n; j += GEMM_VECS * LANES)
        bf16_columns(m, GEMM_VECS, k_len, w, w_ld, b + j, b_ld, c + j, c_ld, accumulate);
    for (; j + LANES <= n; j += LANES)
        bf16_columns(m, 1, k_len, w, w_ld, b + j, b_ld, c + j, c_ld, accumulate);
}

const vl_cpu_kernels vl_cpu_kernels_avx512_bf16 = {
    .form = VL_CPU_AVX512_BF16,
    .thin_bf16 = thin_bf16,
    .gemm_bf16 = gemm_bf16,
    .to_bf16 = to_bf16,
    SIMD_OPS,
};
