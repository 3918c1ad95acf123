/* attn_decode: attention of one new token a row over its pages, split over the context;
 * attn_combine puts the parts together.
 *
 * - q bf16 [n_rows, VL_NQ, 256] (normed, rotated); pages and tables as in qk_rope
 * - row_slot, row_pos i32 [n_rows] (slot -1: skipped); the context is row_pos + 1 tokens
 * - part f32 [n_rows, VL_NQ, VL_SPLITS, 256]: sums of e^(s - max) v; ml f32 [n_rows, VL_NQ,
 *   VL_SPLITS, 2]: max, sum of e^(s - max)
 * - grid (VL_SPLITS, VL_NKV, n_rows), block 128. How a context is split depends on its length
 *   alone, not on the batch.
 * - A warp takes 16 tokens at a time for the G <= 8 query heads of one kv
 *   head: S = Q K^T with the heads as M (padded), then O^T = V^T P^T with the dims as M; both
 *   operands come from global memory as 16-byte rows, the order of k permuted alike. f32 sums and
 *   softmax, P in bf16. moves 1024 bytes a token and kv head. twin: attention in tests/kernels;
 *   relative RMS <= 8e-3 */
#include "vl.cuh"

constexpr int G = VL_NQ / VL_NKV, WARPS = 4;
static_assert(G <= 8 && VL_NQ % VL_NKV == 0, "query heads of a kv head");

__shared__ float acc_sm[WARPS][G][256];
__shared__ float max_sm[WARPS][8], sum_sm[WARPS][8];

__device__ __forceinline__ u32 lows(u32 a, u32 b)
{
    return __byte_perm(a, b, 0x5410);
}
__device__ __forceinline__ u32 highs(u32 a, u32 b)
{
    return __byte_perm(a, b, 0x7632);
}

/* Scores of 8 tokens (n) for the heads (m): c0, c1 of lane (g, t) are head g, tokens 2t, 2t + 1. */
__device__ __forceinline__ void score(float (&s)[4], const uint4 (&q)[8], const uint4 (&k)[8])
{
    s[0] = s[1] = s[2] = s[3] = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        mma(s, q[i].x, 0, q[i].y, 0, k[i].x, k[i].y);
        mma(s, q[i].z, 0, q[i].w, 0, k[i].z, k[i].w);
    }
}

extern "C" __global__ void __launch_bounds__(128)
    attn_decode(const u8 *q, const u8 *kv, const int *row_slot, const int *row_pos,
                const int *tables, float *part, float *ml, int layer)
{
    vl_enter();
    vl_wait();
    const int row = blockIdx.z, kh = blockIdx.y, split = blockIdx.x;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int slot = row_slot[row], len = row_pos[row] + 1;
    const int pages = (len + 63) / 64,
              each = max(VL_SPLIT_PAGES, (pages + VL_SPLITS - 1) / VL_SPLITS) * 64;
    const int from = split * each, to = min(len, from + each);
    if (slot < 0 || from >= len)
        return;
    const int *table = tables + (u64)slot * VL_MAX_PAGES;
    const u64 page_bytes = (u64)VL_FULL_LAYERS * 2 * VL_NKV * 32768;
    const u8 *base = kv + ((u64)layer * 2 * VL_NKV + kh) * 32768;
    uint4 qf[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        qf[i] =
            g < G
                ? *(const uint4 *)(q + (((u64)row * VL_NQ + kh * G + g) * 256 + 32 * i + 8 * t) * 2)
                : make_uint4(0, 0, 0, 0);
    float o[4][4][4] = {}, m = -1e30f, l = 0.0f;
    for (int tok = from + 16 * warp; tok < to; tok += 16 * WARPS) {
        const u8 *pk = base + (u64)table[tok >> 6] * page_bytes + (tok & 63) * 512,
                 *pv = pk + (u64)VL_NKV * 32768;
        uint4 k[8], v[4];
        float s[2][4];
#pragma unroll
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                k[i] = *(const uint4 *)(pk + (8 * h + g) * 512 + 64 * i + 16 * t);
            score(s[h], qf, k);
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                s[h][e] = tok + 8 * h + 2 * t + e < len ? s[h][e] * (VL_LOG2E / 16) : -1e30f;
        float top = fmaxf(fmaxf(s[0][0], s[0][1]), fmaxf(s[1][0], s[1][1]));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        top = fmaxf(top, m);
        const float f = exp2f(m - top);
        m = top;
        float sum = 0.0f;
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                s[h][e] = exp2f(s[h][e] - m);
                sum += s[h][e];
            }
        l = l * f + sum; /* of this lane's tokens; the lanes meet at the end */
        const u32 p0 = bf_pack(s[0][0], s[0][1]), p1 = bf_pack(s[1][0], s[1][1]);
        const float fa = __shfl_sync(~0u, f, 8 * t),
                    fb = __shfl_sync(~0u, f, 8 * t + 4); /* of heads 2t, 2t + 1 */
#pragma unroll
        for (int d = 0; d < 4; d++) {
            /* Tokens past the context lie in the page but were never written: their weight is 0,
             * their bits may be NaN. */
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = 2 * t + (i & 1) + 8 * (i >> 1);
                v[i] = tok + at < len ? *(const uint4 *)(pv + at * 512 + 128 * d + 16 * g)
                                      : make_uint4(0, 0, 0, 0);
            }
            const u32 a[4][4] = {{v[0].x, v[0].y, v[0].z, v[0].w},
                                 {v[1].x, v[1].y, v[1].z, v[1].w},
                                 {v[2].x, v[2].y, v[2].z, v[2].w},
                                 {v[3].x, v[3].y, v[3].z, v[3].w}};
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float(&c)[4] = o[d][j];
                c[0] *= fa, c[1] *= fb, c[2] *= fa, c[3] *= fb;
                mma(c, lows(a[0][j], a[1][j]), highs(a[0][j], a[1][j]), lows(a[2][j], a[3][j]),
                    highs(a[2][j], a[3][j]), p0, p1);
            }
        }
    }
    l += __shfl_xor_sync(~0u, l, 1);
    l += __shfl_xor_sync(~0u, l, 2);
    if (t == 0)
        max_sm[warp][g] = m, sum_sm[warp][g] = l;
#pragma unroll
    for (int d = 0; d < 4; d++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (2 * t + (e & 1) < G)
                    acc_sm[warp][(2 * t + (e & 1)) % G][64 * d + 8 * g + 2 * j + (e >> 1)] =
                        o[d][j][e];
    __syncthreads();
    for (int i = threadIdx.x; i < G * 256; i += 128) {
        const int h = i >> 8, d = i & 255;
        float top = max_sm[0][h], sum = 0.0f, v = 0.0f;
#pragma unroll
        for (int w = 1; w < WARPS; w++)
            top = fmaxf(top, max_sm[w][h]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float f = exp2f(max_sm[w][h] - top);
            sum += f * sum_sm[w][h];
            v += f * acc_sm[w][h][d];
        }
        const u64 at = ((u64)row * VL_NQ + kh * G + h) * VL_SPLITS + split;
        part[at * 256 + d] = v;
        if (d == 0)
            ml[2 * at] = top, ml[2 * at + 1] = sum;
    }
}
