/* sample.cuh: what the two sampling kernels share: the order of steps is that of
 * plugins/common/cpu/sampling.h. */
#pragma once
#include "vl.cuh"
#include "slot.cuh"

constexpr int PART = ((VL_VOCAB + VL_PARTS - 1) / VL_PARTS + 3) / 4 * 4; /* ids a part */

/* What a part of a row of logits gave. */
struct part_out {
    float raw_max, raw_sum; /* of the raw logits: max, sum of e^(z - max) */
    float best; /* the largest, after masks, biases and penalties (over the temperature) */
    int best_id;
    float drawn; /* the largest with its Gumbel noise */
    int drawn_id;
    int bad; /* a logit is NaN or +infinity */
    int unused;
};

/* (value, id): the larger value wins, then the lower id. */
__device__ __forceinline__ void take_best(float &v, int &id, float v2, int id2)
{
    if (v2 > v || (v2 == v && id2 < id))
        v = v2, id = id2;
}
__device__ __forceinline__ void warp_best(float &v, int &id)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1)
        take_best(v, id, __shfl_xor_sync(~0u, v, d), __shfl_xor_sync(~0u, id, d));
}

__device__ __forceinline__ void philox(u32 (&c)[4], u32 k0, u32 k1)
{
#pragma unroll
    for (int i = 0; i < 10; i++) {
        const u64 a = (u64)0xD2511F53u * c[0], b = (u64)0xCD9E8D57u * c[2];
        const u32 x0 = (u32)(b >> 32) ^ c[1] ^ k0, x2 = (u32)(a >> 32) ^ c[3] ^ k1;
        c[0] = x0, c[1] = (u32)b, c[2] = x2, c[3] = (u32)a;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
}
/* The noise of ids 4 quad .. 4 quad + 3. */
__device__ __forceinline__ void gumbel4(const vl_slot &s, int position, int quad, float (&g)[4])
{
    u32 c[4] = {(u32)quad, (u32)position, 0u, (u32)s.choice};
    philox(c, s.seed[0], s.seed[1]);
#pragma unroll
    for (int i = 0; i < 4; i++)
        g[i] = -logf(-logf(((float)(c[i] >> 9) + 0.5f) * 1.1920928955078125e-07f));
}

__device__ __forceinline__ bool cuts(const vl_slot &s)
{
    return s.temperature > 0.0f && (s.top_k > 0 || s.top_p < 1.0f || s.min_p > 0.0f);
}
