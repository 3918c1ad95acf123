/* vec_avx512.h: the vector type of the AVX-512 forms, under the names that simd_*.h use. */
#ifndef VL_CPU_VEC_H
#define VL_CPU_VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LANES 16
#define GEMM_ROWS 6     /* rows of c in registers; 6 * 4 accumulators + 4 of b + 1 of a */
#define GEMM_VECS 4     /* vectors of c per row */
#define THIN_ACC_CAP 16 /* accumulators of the thin form */
#define INLINE static inline __attribute__((always_inline))

typedef __m512 vf;

INLINE __mmask16 lanes_below(size_t n)
{
    return (__mmask16)((1u << n) - 1u);
}
INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE vf vf_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(lanes_below(n), p);
}
INLINE void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
INLINE void vf_store_n(float *p, vf v, size_t n)
{
    _mm512_mask_storeu_ps(p, lanes_below(n), v);
}
INLINE vf vf_set1(float a)
{
    return _mm512_set1_ps(a);
}
INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
INLINE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
/* x / d, 1 ulp: a reciprocal and one Newton step where d is of a common size, else the division. */
INLINE vf vf_div(vf x, vf d)
{
    if (_mm512_cmp_ps_mask(_mm512_abs_ps(d), _mm512_set1_ps(0x1p120f), _CMP_GE_OQ))
        return x / d;
    vf r = _mm512_rcp14_ps(d);
    return x * _mm512_fmadd_ps(_mm512_fnmadd_ps(d, r, _mm512_set1_ps(1.0f)), r, r);
}
INLINE float vf_sum(vf v)
{
    return _mm512_reduce_add_ps(v);
}
INLINE float vf_hmax(vf v)
{
    return _mm512_reduce_max_ps(v);
}
INLINE vf vf_of_bf16(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
INLINE vf vf_load_bf16(const uint16_t *p)
{
    return vf_of_bf16(_mm256_loadu_si256((const void *)p));
}
INLINE vf vf_load_bf16_n(const uint16_t *p, size_t n)
{
    return vf_of_bf16(_mm256_maskz_loadu_epi16(lanes_below(n), p));
}
INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
INLINE vf vf_load_f16_n(const uint16_t *p, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_below(n), p));
}
/* Bits of lanes where a >= b; false with a NaN. */
INLINE uint32_t vf_ge(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
/* Bits of lanes where not a < b; true with a NaN. */
INLINE uint32_t vf_nlt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ);
}
/* a where i >= 0 ... lane index below limit, else b */
INLINE vf vf_keep_below(vf a, int32_t t, const int32_t *limit, vf b)
{
    __mmask16 k = _mm512_cmplt_epi32_mask(_mm512_set1_epi32(t), _mm512_loadu_si512(limit));
    return _mm512_mask_blend_ps(k, b, a);
}

/* e^x, 2 ulp. Underflows to 0, overflows to +infinity, keeps NaN. */
INLINE vf vf_exp(vf x)
{
    x = _mm512_max_ps(_mm512_set1_ps(-110.0f), x); /* the operand order lets NaN through */
    x = _mm512_min_ps(_mm512_set1_ps(90.0f), x);
    vf n = _mm512_roundscale_ps(x * 1.44269504088896341f, _MM_FROUND_TO_NEAREST_INT);
    vf r = vf_fma(n, vf_set1(-0.693145751953125f), x);
    r = vf_fma(n, vf_set1(-1.42860682030941723212e-6f), r);
    vf p = vf_set1(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
    p = vf_fma(p, r * r, r) + vf_set1(1.0f);
    return _mm512_scalef_ps(p, n);
}

/* Stores the columns of a 16 x 16 block of 32-bit elements, whose rows are in r (which it uses up).
 */
INLINE void store_turned(__m512i r[16], uint32_t *dst, size_t dst_ld)
{
    __m512i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm512_storeu_si512(dst + (size_t)i * dst_ld, _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88));
        _mm512_storeu_si512(dst + (size_t)(4 + i) * dst_ld,
                            _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88));
        _mm512_storeu_si512(dst + (size_t)(8 + i) * dst_ld,
                            _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd));
        _mm512_storeu_si512(dst + (size_t)(12 + i) * dst_ld,
                            _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd));
    }
}

/* 16 x 16 block of 32-bit elements. */
INLINE void block_transpose(const uint32_t *src, size_t src_ld, uint32_t *dst, size_t dst_ld)
{
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        r[i] = _mm512_loadu_si512(src + (size_t)i * src_ld);
    store_turned(r, dst, dst_ld);
}

#endif
