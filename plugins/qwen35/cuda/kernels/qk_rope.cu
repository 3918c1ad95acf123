/* qk_rope: for each token the query and key heads are normed and rotated; k and v go into the KV
 * pages.
 *
 * - p bf16 [n_tok, VL_P_STRIDE]: VL_NQ x (query 256, gate 256), then VL_NKV keys, VL_NKV values
 * - qw, kw f32 [256] (1 + the stored weights); rope f32 [context, 32] (cos, sin) pairs
 * - tok_slot, tok_pos i32 [n_tok] (slot -1: the row is skipped); tables i32 [slots, VL_MAX_PAGES]
 * - q bf16 [n_tok, VL_NQ, 256]; kv: pages of 64 tokens, each [VL_FULL_LAYERS][K,
 *   V][VL_NKV][64][256] bf16; layer: of the full ones
 * - grid (n_tok, ceil((VL_NQ + 2 VL_NKV) / 8)), block 256: a warp a head, eight dims a lane. Dims
 *   i and i + 32 of the first 64 rotate. f32 math, one rounding. twin: qk_rope in tests/kernels;
 *   max |d| <= 1e-6 + 8e-3 |ref| */
#include "vl.cuh"

constexpr int HEADS = VL_NQ + 2 * VL_NKV;

extern "C" __global__ void __launch_bounds__(256)
    qk_rope(const u8 *p, const float *qw, const float *kw, const float2 *rope, const int *tok_slot,
            const int *tok_pos, const int *tables, u8 *q, u8 *kv, int layer)
{
    vl_enter();
    vl_wait();
    const int head = blockIdx.y * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31, tok = blockIdx.x;
    const int slot = tok_slot[tok], pos = tok_pos[tok];
    if (head >= HEADS || slot < 0)
        return;
    const bool query = head < VL_NQ, value = head >= VL_NQ + VL_NKV;
    const int column = query ? head * 512 : VL_NQ * 512 + (head - VL_NQ) * 256;
    const uint4 in = *(const uint4 *)(p + ((u64)tok * VL_P_STRIDE + column + 8 * lane) * 2);
    u8 *out = q + (((u64)tok * VL_NQ + head) * 256 + 8 * lane) * 2;
    if (!query) {
        const int page = tables[(u64)slot * VL_MAX_PAGES + (pos >> 6)];
        const int kh = value ? head - VL_NQ - VL_NKV : head - VL_NQ;
        out = kv +
              (((((u64)page * VL_FULL_LAYERS + layer) * 2 + (value ? 1 : 0)) * VL_NKV + kh) * 64 +
               (pos & 63)) *
                  512 +
              16 * lane;
    }
    if (value) {
        *(uint4 *)out = in;
        return;
    }
    float x[8], s = 0.0f;
    bf_unpack8(in, x);
#pragma unroll
    for (int i = 0; i < 8; i++)
        s += x[i] * x[i];
    const float f = rsqrtf(warp_sum(s) * (1.0f / 256) + VL_EPS);
    const float *w = (query ? qw : kw) + 8 * lane;
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] *= f * w[i];
        /* Lanes 0-3 hold dims 0..31, lanes 4-7 their partners 32..63. */
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float other = __shfl_xor_sync(~0u, x[i], 4);
        if (lane < 8) {
            const float2 cs = rope[(u64)pos * 32 + 8 * (lane & 3) + i];
            x[i] = lane < 4 ? x[i] * cs.x - other * cs.y : x[i] * cs.x + other * cs.y;
        }
    }
    *(uint4 *)out = bf_pack8(x);
}
