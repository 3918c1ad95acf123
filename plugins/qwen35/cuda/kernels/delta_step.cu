/* delta_step: one token of a linear layer, all behind its input projections: conv, SiLU, norms,
 * gates, the gated delta rule, gated norm.
 *
 * - p bf16 [n_rows, VL_P_STRIDE] and conv_w, neg_a, dt_bias as in delta_conv; norm_w f32 [128]
 * - row_slot, row_pos i32 [n_rows] (slot -1: the row is skipped)
 * - state f32 [slots][VL_LINEAR_LAYERS][VL_HV][128 (key)][128 (value)]; ring bf16
 *   [slots][VL_LINEAR_LAYERS][4][VL_CD]: row pos mod 4 is written, the three before are read, so
 *   nobody reads what another block writes; layer: of the linear ones
 * - n bf16 [n_rows, VL_HV, 128]
 * - grid (VL_HV, n_rows), block 512: a warp has eight key rows of the state, a lane four value
 *   columns
 * - S' k and S' q are taken in one pass over the decayed state: o = S' q + (k.q) u
 * - f32 math, one rounding at the store. moves 131072 bytes of state a block. twin: delta_step in
 *   tests/kernels; relative RMS <= 4e-3 (out, bf16), 1e-5 (state) */
#include "vl.cuh"

constexpr int KD = VL_HK * 128, CD = 2 * KD + VL_HV * 128, R = VL_HV / VL_HK, WARPS = 16, ROWS = 8;

__shared__ float qkv[3][128];
__shared__ float sums[WARPS][2][128];
__shared__ float both[2][128], delta[128], part[4];

/* Conv and SiLU of one channel; stores the new row of the ring if this block is the channel's
 * writer. */
__device__ __forceinline__ void conv_channel(const bf16 *p, const float *conv_w, bf16 *ring, int i,
                                             int head, int pos)
{
    const int which = i >> 7, c = i & 127;
    const int ch = which == 2 ? 2 * KD + head * 128 + c : which * KD + (head / R) * 128 + c;
    const bf16 now = p[ch];
    const float4 w = ((const float4 *)conv_w)[ch];
    float old[3];
#pragma unroll
    for (int k = 1; k <= 3; k++)
        old[k - 1] = pos >= k ? bf_f32(ring[(u64)((pos - k) & 3) * CD + ch]) : 0.0f;
    if (which == 2 || head % R == 0)
        ring[(u64)(pos & 3) * CD + ch] = now;
    qkv[which][c] = silu(w.x * old[2] + w.y * old[1] + w.z * old[0] + w.w * bf_f32(now));
}

__device__ __forceinline__ float gate(float z)
{
    return VL_Z_SIGMOID ? sigmoid(z) : silu(z);
}

extern "C" __global__ void __launch_bounds__(512)
    delta_step(const bf16 *p, const float *conv_w, const float *neg_a, const float *dt_bias,
               const float *norm_w, const int *row_slot, const int *row_pos, float *state,
               bf16 *ring, bf16 *n, int layer)
{
    vl_enter();
    const int head = blockIdx.x, row = blockIdx.y, tid = threadIdx.x, warp = tid >> 5,
              lane = tid & 31;
    const int slot = row_slot[row], pos = row_pos[row];
    float4 s[ROWS];
    float4 *st =
        (float4 *)(state + ((((u64)max(slot, 0) * VL_LINEAR_LAYERS + layer) * VL_HV + head) * 128 +
                            warp * ROWS) *
                               128) +
        lane;
    if (slot >= 0)
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            s[i] = pos > 0 ? st[32 * i] : make_float4(0, 0, 0, 0);
    vl_wait();
    if (slot < 0)
        return;
    p += (u64)row * VL_P_STRIDE;
    ring += ((u64)slot * VL_LINEAR_LAYERS + layer) * 4 * CD;
    if (tid < 384)
        conv_channel(p, conv_w, ring, tid, head, pos);
    const float beta = sigmoid(bf_f32(p[CD + VL_HV * 128 + head]));
    const float decay =
        __expf(neg_a[head] * softplus(bf_f32(p[CD + VL_HV * 129 + head]) + dt_bias[head]));
    __syncthreads();
    const float4 q4 = ((const float4 *)qkv[0])[lane], k4 = ((const float4 *)qkv[1])[lane];
    const float rq =
        rsqrtf(warp_sum(q4.x * q4.x + q4.y * q4.y + q4.z * q4.z + q4.w * q4.w) + 1e-6f) *
        0.08838834764831845f;
    const float rk =
        rsqrtf(warp_sum(k4.x * k4.x + k4.y * k4.y + k4.z * k4.z + k4.w * k4.w) + 1e-6f);
    const float kq = warp_sum(q4.x * k4.x + q4.y * k4.y + q4.z * k4.z + q4.w * k4.w) * rq * rk;
    float k[ROWS];
    float4 e = make_float4(0, 0, 0, 0), r = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        k[i] = qkv[1][warp * ROWS + i] * rk;
        const float q = qkv[0][warp * ROWS + i] * rq;
        s[i].x *= decay, s[i].y *= decay, s[i].z *= decay, s[i].w *= decay;
        e.x += s[i].x * k[i], e.y += s[i].y * k[i], e.z += s[i].z * k[i], e.w += s[i].w * k[i];
        r.x += s[i].x * q, r.y += s[i].y * q, r.z += s[i].z * q, r.w += s[i].w * q;
    }
    ((float4 *)sums[warp][0])[lane] = e;
    ((float4 *)sums[warp][1])[lane] = r;
    __syncthreads();
    if (tid < 256) {
        float v = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            v += sums[w][tid >> 7][tid & 127];
        both[tid >> 7][tid & 127] = v;
    }
    __syncthreads();
    float o = 0.0f;
    if (tid < 128) {
        const float u = beta * (qkv[2][tid] - both[0][tid]);
        delta[tid] = u;
        o = both[1][tid] + kq * u;
        const float ss = warp_sum(o * o);
        if (lane == 0)
            part[warp] = ss;
    }
    __syncthreads();
    const float4 u = ((const float4 *)delta)[lane];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        s[i].x += k[i] * u.x, s[i].y += k[i] * u.y, s[i].z += k[i] * u.z, s[i].w += k[i] * u.w;
        st[32 * i] = s[i];
    }
    if (tid < 128) {
        const float f = rsqrtf((part[0] + part[1] + part[2] + part[3]) * (1.0f / 128) + VL_EPS);
        n[((u64)row * VL_HV + head) * 128 + tid] =
            bf_round(o * f * norm_w[tid] * gate(bf_f32(p[CD + head * 128 + tid])));
    }
}
