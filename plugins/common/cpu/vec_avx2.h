/* vec_avx2.h: the vector type of the AVX2 form, under the names that simd_*.h use. */
#ifndef VL_CPU_VEC_H
#define VL_CPU_VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define GEMM_ROWS 6    /* rows of c in registers; 6 * 2 accumulators + 2 of b + 1 of a */
#define GEMM_VECS 2    /* vectors of c per row */
#define THIN_ACC_CAP 8 /* accumulators of the thin form */
#define INLINE static inline __attribute__((always_inline))

typedef __m256 vf;

static const int32_t lane_masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

INLINE __m256i lanes_below(size_t n)
{
    return _mm256_loadu_si256((const void *)(lane_masks + 8 - n));
}
INLINE vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
INLINE vf vf_load_n(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, lanes_below(n));
}
INLINE void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}
INLINE void vf_store_n(float *p, vf v, size_t n)
{
    _mm256_maskstore_ps(p, lanes_below(n), v);
}
INLINE vf vf_set1(float a)
{
    return _mm256_set1_ps(a);
}
INLINE vf vf_zero(void)
{
    return _mm256_setzero_ps();
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
INLINE vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}
INLINE vf vf_div(vf x, vf d)
{
    return x / d;
}
INLINE float vf_sum(vf v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
INLINE float vf_hmax(vf v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
INLINE vf vf_of_bf16(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
INLINE __m128i load_u16_n(const uint16_t *p, size_t n)
{
    uint16_t tmp[8] = {0};
    memcpy(tmp, p, n * sizeof(*p));
    return _mm_loadu_si128((const void *)tmp);
}
INLINE vf vf_load_bf16(const uint16_t *p)
{
    return vf_of_bf16(_mm_loadu_si128((const void *)p));
}
INLINE vf vf_load_bf16_n(const uint16_t *p, size_t n)
{
    return vf_of_bf16(load_u16_n(p, n));
}
INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}
INLINE vf vf_load_f16_n(const uint16_t *p, size_t n)
{
    return _mm256_cvtph_ps(load_u16_n(p, n));
}
/* Bits of lanes where a >= b; false with a NaN. */
INLINE uint32_t vf_ge(vf a, vf b)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ));
}
/* Bits of lanes where not a < b; true with a NaN. */
INLINE uint32_t vf_nlt(vf a, vf b)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ));
}
INLINE vf vf_keep_below(vf a, int32_t t, const int32_t *limit, vf b)
{
    __m256i k = _mm256_cmpgt_epi32(_mm256_loadu_si256((const void *)limit), _mm256_set1_epi32(t));
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(k));
}

INLINE vf pow2(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* e^x, 2 ulp. Underflows to 0, overflows to +infinity, keeps NaN. */
INLINE vf vf_exp(vf x)
{
    x = _mm256_max_ps(_mm256_set1_ps(-110.0f), x); /* the operand order lets NaN through */
    x = _mm256_min_ps(_mm256_set1_ps(90.0f), x);
    vf n = _mm256_round_ps(x * 1.44269504088896341f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vf r = vf_fma(n, vf_set1(-0.693145751953125f), x);
    r = vf_fma(n, vf_set1(-1.42860682030941723212e-6f), r);
    vf p = vf_set1(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
    p = vf_fma(p, r * r, r) + vf_set1(1.0f);
    /* 2^n in two factors: n reaches 130 and -159. */
    __m256i i = _mm256_cvtps_epi32(n), h = _mm256_srai_epi32(i, 1);
    return p * pow2(h) * pow2(_mm256_sub_epi32(i, h));
}

/* 8 x 8 block of 32-bit elements. */
INLINE void block_transpose(const uint32_t *src, size_t src_ld, uint32_t *dst, size_t dst_ld)
{
    __m256 r[8], t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps((const float *)(const void *)(src + (size_t)i * src_ld));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        float *lo = (float *)(void *)(dst + (size_t)i * dst_ld);
        float *hi = (float *)(void *)(dst + (size_t)(4 + i) * dst_ld);
        _mm256_storeu_ps(lo, _mm256_permute2f128_ps(r[i], r[4 + i], 0x20));
        _mm256_storeu_ps(hi, _mm256_permute2f128_ps(r[i], r[4 + i], 0x31));
    }
}

#endif
