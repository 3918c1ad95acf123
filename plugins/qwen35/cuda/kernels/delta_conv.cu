/* delta_conv: prefill of a linear layer, first part: causal conv over 4 tokens, SiLU, norms of q
 * and k; and the gates.
 *
 * - p bf16 [n_tok, VL_P_STRIDE]: q VL_HK x 128, k VL_HK x 128, v VL_HV x 128, z VL_HV x 128, b
 *   VL_HV, a VL_HV
 * - conv_w f32 [VL_CD, 4] (tap 3 is the current token); neg_a f32 [VL_HV] = -exp(A_log); dt_bias
 *   f32 [VL_HV]
 * - ring bf16 [4, VL_CD]: row p mod 4 is position p of this sequence's layer; read for positions
 *   before pos0 (0 before 0)
 * - c bf16 [n_tok, VL_CD]: v as it is, k with unit length, q with length 128^-0.5
 * - g f32 [n_tok, VL_HV]: log of the decay (<= 0); beta f32 [n_tok, VL_HV]
 * - grid (ceil(n_tok / 16), ceil((2 VL_HK + VL_HV + 1) / 8)), block 256: a warp takes 16 tokens of
 *   one head, four channels a lane; the last "head" is the gates; pos0: position of the first token
 * - f32 math, one rounding. twin: delta_conv in tests/kernels; max |d| <= 1e-6 + 8e-3 |ref| */
#include "vl.cuh"

constexpr int KD = VL_HK * 128, CD = 2 * KD + VL_HV * 128, HEADS = 2 * VL_HK + VL_HV, TILE = 16;

__device__ __forceinline__ void gates(const u8 *p, const float *neg_a, const float *dt_bias,
                                      float *g, float *beta, int t0, int t1, int lane)
{
    for (int t = t0; t < t1; t++)
        for (int h = lane; h < VL_HV; h += 32) {
            const bf16 *row = (const bf16 *)p + (u64)t * VL_P_STRIDE + CD + VL_HV * 128;
            beta[(u64)t * VL_HV + h] = sigmoid(bf_f32(row[h]));
            g[(u64)t * VL_HV + h] = neg_a[h] * softplus(bf_f32(row[VL_HV + h]) + dt_bias[h]);
        }
}

__device__ __forceinline__ void unpack4(uint2 v, float (&x)[4])
{
    x[0] = bf_lo(v.x), x[1] = bf_hi(v.x), x[2] = bf_lo(v.y), x[3] = bf_hi(v.y);
}

extern "C" __global__ void __launch_bounds__(256)
    delta_conv(const u8 *p, const float *conv_w, const float *neg_a, const float *dt_bias,
               const u8 *ring, u8 *c, float *g, float *beta, int n_tok, int pos0)
{
    vl_enter();
    vl_wait();
    const int head = blockIdx.y * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    const int t0 = blockIdx.x * TILE, t1 = min(t0 + TILE, n_tok);
    if (head == HEADS)
        gates(p, neg_a, dt_bias, g, beta, t0, t1, lane);
    if (head >= HEADS)
        return;
    const int ch = head * 128 + 4 * lane;
    float4 w[4]; /* [channel], taps inside */
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = ((const float4 *)conv_w)[ch + i];
    float old[3][4] = {}; /* three, two and one tokens back */
#pragma unroll
    for (int i = 0; i < 3; i++) {
        const int t = t0 - 3 + i, pos = pos0 + t;
        if (t >= 0)
            unpack4(*(const uint2 *)(p + ((u64)t * VL_P_STRIDE + ch) * 2), old[i]);
        else if (pos >= 0)
            unpack4(*(const uint2 *)(ring + ((u64)(pos & 3) * CD + ch) * 2), old[i]);
    }
    for (int t = t0; t < t1; t++) {
        float m[4], y[4], s = 0.0f;
        unpack4(*(const uint2 *)(p + ((u64)t * VL_P_STRIDE + ch) * 2), m);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            y[i] =
                silu(w[i].x * old[0][i] + w[i].y * old[1][i] + w[i].z * old[2][i] + w[i].w * m[i]);
            s += y[i] * y[i];
            old[0][i] = old[1][i], old[1][i] = old[2][i], old[2][i] = m[i];
        }
        if (head < 2 * VL_HK) {
            const float f =
                rsqrtf(warp_sum(s) + 1e-6f) * (head < VL_HK ? 0.08838834764831845f : 1.0f);
#pragma unroll
            for (int i = 0; i < 4; i++)
                y[i] *= f;
        }
        *(uint2 *)(c + ((u64)t * CD + ch) * 2) =
            make_uint2(bf_pack(y[0], y[1]), bf_pack(y[2], y[3]));
    }
}
