/* bf16.h: one bf16 to and from f32 in integer arithmetic: the definition that the vector forms
 * follow. */
#ifndef VL_CPU_BF16_H
#define VL_CPU_BF16_H

#include <stdint.h>
#include <string.h>

static inline float bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

/* Nearest, ties to even; NaN stays NaN (quiet). */
static inline uint16_t bf16_of_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    uint32_t nan = (u >> 16) | 0x40u;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

/* IEEE half to f32, with subnormals, infinities and NaN. */
static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 0x1fu, m = h & 0x3ffu, u;
    float f;
    if (e == 0) {
        f = (float)m * 5.9604644775390625e-8f; /* 2^-24 */
        memcpy(&u, &f, sizeof(u));
        u |= sign;
    } else if (e == 31) {
        u = sign | 0x7f800000u | m << 13;
    } else {
        u = sign | (e + 112u) << 23 | m << 13;
    }
    memcpy(&f, &u, sizeof(f));
    return f;
}

#endif
