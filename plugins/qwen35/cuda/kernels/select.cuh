/* select.cuh: a block of 1024 threads picks leading sets out of a row of logits: by radix selection
 * on the values' bits, no sorting. */
#pragma once
#include "sample.cuh"

constexpr int THREADS = 1024;

__shared__ u64 hist[256];
__shared__ u64 found[3]; /* bucket, sum above it, scratch */
__shared__ int tally[32];
__shared__ float cand_z[VL_TOP_LOGPROBS];
__shared__ int cand_id[VL_TOP_LOGPROBS], n_cand;
__shared__ float best_v[32];
__shared__ int best_i[32];

/* Bits that order like the float. */
__device__ __forceinline__ u32 key_of(float x)
{
    const u32 u = __float_as_uint(x);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* A set of ids: value above the border, or equal to it and id up to last. */
struct border {
    u32 key;
    int last;
    __device__ __forceinline__ bool has(float v, int id) const
    {
        const u32 k = key_of(v);
        return k > key || (k == key && id <= last);
    }
};

/* Weight of an id in a selection: 1, or its share of probability in units of 2^-40. */
struct weigh {
    bool mass;
    float top;
    border in; /* ids outside weigh nothing */
    __device__ __forceinline__ u64 operator()(float v, int id) const
    {
        if (!in.has(v, id))
            return 0;
        return mass ? (u64)(__expf(v - top) * 1099511627776.0f) : 1;
    }
};

__device__ __forceinline__ u64 block_sum(u64 v)
{
    if (threadIdx.x == 0)
        found[2] = 0;
    __syncthreads();
#pragma unroll
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_xor_sync(~0u, v, d);
    if ((threadIdx.x & 31) == 0)
        atomicAdd(&found[2], v);
    __syncthreads();
    v = found[2];
    __syncthreads();
    return v;
}

/* The smallest leading set (value falling, id rising) whose weight reaches `want` (>= 1, and at
 * most the weight of all). */
__device__ border select(const float *v, const weigh &w, u64 want)
{
    u32 prefix = 0;
    u64 above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (threadIdx.x < 256)
            hist[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < VL_TOKENS; i += THREADS) {
            const u32 k = key_of(v[i]);
            if (shift == 24 || k >> (shift + 8) == prefix >> (shift + 8)) {
                const u64 x = w(v[i], i);
                if (x != 0)
                    atomicAdd(&hist[k >> shift & 255], x);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            u64 sum = above;
            int b = 255;
            while (b > 0 && sum + hist[b] < want)
                sum += hist[b--];
            found[0] = (u64)b, found[1] = sum;
        }
        __syncthreads();
        prefix |= (u32)found[0] << shift;
        above = found[1];
        __syncthreads();
    }
    /* Ids equal to the border, in order: each thread counts its stretch. */
    constexpr int STRETCH = (VL_TOKENS + THREADS - 1) / THREADS;
    const int a = min(VL_TOKENS, (int)threadIdx.x * STRETCH), b = min(VL_TOKENS, a + STRETCH),
              lane = threadIdx.x & 31;
    u64 each = 0;
    int mine = 0, before;
    for (int i = a; i < b; i++)
        if (key_of(v[i]) == prefix && w(v[i], i) != 0)
            mine++, each = w(v[i], i);
    before = mine;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        const int x = __shfl_up_sync(~0u, before, d);
        if (lane >= d)
            before += x;
    }
    if (lane == 31)
        tally[threadIdx.x >> 5] = before;
    if (threadIdx.x == 0)
        found[0] = 0x7fffffff;
    __syncthreads();
    for (int i = 0; i < (int)(threadIdx.x >> 5); i++)
        before += tally[i];
    before -= mine;
    if (mine > 0) {
        const u64 need =
            (want - min(above, want) + each - 1) / each; /* of the equal ones, at least 1 */
        const int nth = (int)max(need, (u64)1) - before;
        if (nth >= 1 && nth <= mine) {
            int n = 0;
            for (int i = a; i < b; i++)
                if (key_of(v[i]) == prefix && w(v[i], i) != 0 && ++n == nth)
                    found[0] = (u64)i;
        }
    }
    __syncthreads();
    const border r = {prefix, (int)found[0]};
    __syncthreads();
    return r;
}

__device__ __forceinline__ void block_best(float &v, int &id)
{
    warp_best(v, id);
    if ((threadIdx.x & 31) == 0)
        best_v[threadIdx.x >> 5] = v, best_i[threadIdx.x >> 5] = id;
    __syncthreads();
    v = best_v[threadIdx.x & 31], id = best_i[threadIdx.x & 31];
    warp_best(v, id);
    __syncthreads();
}

/* The k best of the raw logits into cand_*, best first. */
__device__ void best_raw(const float *z, int k)
{
    const weigh one = {false, 0.0f, {0u, 0x7fffffff}};
    const border b = select(z, one, (u64)k);
    if (threadIdx.x == 0)
        n_cand = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < VL_TOKENS; i += THREADS)
        if (b.has(z[i], i)) {
            const int at = atomicAdd(&n_cand, 1);
            if (at < VL_TOP_LOGPROBS)
                cand_z[at] = z[i], cand_id[at] = i;
        }
    __syncthreads();
    if (threadIdx.x == 0) /* insertion sort: at most 20 */
        for (int i = 1; i < k; i++) {
            const float v = cand_z[i];
            const int id = cand_id[i];
            int j = i - 1;
            for (; j >= 0 && (cand_z[j] < v || (cand_z[j] == v && cand_id[j] > id)); j--)
                cand_z[j + 1] = cand_z[j], cand_id[j + 1] = cand_id[j];
            cand_z[j + 1] = v, cand_id[j + 1] = id;
        }
    __syncthreads();
}
