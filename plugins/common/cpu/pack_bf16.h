/* pack_bf16.h: the operands of a small f32 product, rounded to bf16 and laid out for
 * tiles. Included by form_amx.c after vec_avx512.h; static functions alone.
 *
 * A block is at most ROUND_BLOCK in every direction, so that both operands lie on the stack. */
#ifndef VL_CPU_PACK_BF16_H
#define VL_CPU_PACK_BF16_H

#define ROUND_BLOCK 128
#define ROUND_STEP                                                                                 \
    32 /* the reduction is padded with zeros to a multiple of it, a and b to rows                  \
        */

/* Operands of one block of a product. */
typedef struct rounded {
    /* left: [m rounded up to 32][ROUND_BLOCK], row-major */
    uint16_t a[ROUND_BLOCK * ROUND_BLOCK] __attribute__((aligned(64)));
    /* right: pairs along the reduction, [k / 2][ROUND_BLOCK], n rounded up to 32 */
    uint32_t b[ROUND_BLOCK / 2 * ROUND_BLOCK] __attribute__((aligned(64)));
} rounded;

INLINE size_t round_up(size_t n)
{
    return (n + ROUND_STEP - 1) / ROUND_STEP * ROUND_STEP;
}

/* (x[i], y[i]) as bf16 pairs, x in the lower half. */
INLINE __m512i pairs_of(vf x, vf y)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(y, x));
}

INLINE __mmask16 lanes_left(size_t at, size_t end)
{
    return at >= end ? 0 : end - at >= LANES ? (__mmask16)0xffff : lanes_below(end - at);
}

/* 16 pairs of rows k, k + 1 at column j of a matrix [k_len, n]; zero past its edges. */
INLINE __m512i pairs_at(const float *x, size_t ld, size_t k, size_t k_len, size_t j, size_t n)
{
    __mmask16 mask = lanes_left(j, n);
    vf lo = _mm512_maskz_loadu_ps(k < k_len ? mask : 0, x + k * ld + j);
    vf hi = _mm512_maskz_loadu_ps(k + 1 < k_len ? mask : 0, x + (k + 1) * ld + j);
    return pairs_of(lo, hi);
}

static void round_right(const float *b, size_t b_ld, size_t k_len, size_t n, uint32_t *dst)
{
    for (size_t k = 0; k < round_up(k_len); k += 2, dst += ROUND_BLOCK)
        for (size_t j = 0; j < round_up(n); j += LANES)
            _mm512_store_si512(dst + j, pairs_at(b, b_ld, k, k_len, j, n));
}

/* a [m, k_len] with unit steps along k. */
static void round_left(const float *a, size_t a_row, size_t m, size_t k_len, uint16_t *dst)
{
    for (size_t i = 0; i < round_up(m); i++, dst += ROUND_BLOCK) {
        const float *src = a + i * a_row;
        size_t end = i < m ? k_len : 0;
        for (size_t k = 0; k < round_up(k_len); k += 32) {
            vf lo = _mm512_maskz_loadu_ps(lanes_left(k, end), src + k);
            vf hi = _mm512_maskz_loadu_ps(lanes_left(k + LANES, end), src + k + LANES);
            _mm512_store_si512(dst + k, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
        }
    }
}

/* a [m, k_len] with unit steps along m: pairs along k first, then 16 x 16 of them are turned. */
static void round_left_turned(const float *a, size_t a_col, size_t m, size_t k_len, uint16_t *dst)
{
    uint32_t block[16 * 16] __attribute__((aligned(64)));

    for (size_t i = 0; i < round_up(m); i += LANES) {
        for (size_t k = 0; k < round_up(k_len); k += 32) {
            for (size_t t = 0; t < 16; t++)
                _mm512_store_si512(block + t * 16, pairs_at(a, a_col, k + 2 * t, k_len, i, m));
            block_transpose(block, 16, (uint32_t *)(void *)(dst + i * ROUND_BLOCK + k),
                            ROUND_BLOCK / 2);
        }
    }
}

/* Product of one packed block: c [m, n] (+)= a . b over k_len. */
typedef void round_product(const rounded *r, size_t m, size_t n, size_t k_len, float *c,
                           size_t c_ld, bool accumulate);

/* As vl_cpu_gemm, operands rounded; a_row or a_col is 1. */
INLINE void round_gemm(round_product *product, size_t m, size_t n, size_t k_len, const float *a,
                       size_t a_row, size_t a_col, const float *b, size_t b_ld, float *c,
                       size_t c_ld, bool accumulate)
{
    rounded r;
    size_t k = 0;

    do { /* once with an empty reduction too: it makes c zero */
        size_t n_k = k_len - k < ROUND_BLOCK ? k_len - k : ROUND_BLOCK;
        for (size_t j = 0; j < n; j += ROUND_BLOCK) {
            size_t n_j = n - j < ROUND_BLOCK ? n - j : ROUND_BLOCK;
            round_right(b + k * b_ld + j, b_ld, n_k, n_j, r.b);
            for (size_t i = 0; i < m; i += ROUND_BLOCK) {
                size_t n_i = m - i < ROUND_BLOCK ? m - i : ROUND_BLOCK;
                if (a_col == 1)
                    round_left(a + i * a_row + k, a_row, n_i, n_k, r.a);
                else
                    round_left_turned(a + i + k * a_col, a_col, n_i, n_k, r.a);
                product(&r, n_i, n_j, n_k, c + i * c_ld + j, c_ld, accumulate || k > 0);
            }
        }
        k += ROUND_BLOCK;
    } while (k < k_len);
}

#endif
