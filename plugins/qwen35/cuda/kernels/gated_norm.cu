/* gated_norm: n = o * rsqrt(mean(o^2) + VL_EPS) * w * silu(z), per value head of 128
 *
 * - o bf16 [n_tok, VL_HV, 128]; z bf16 [n_tok, VL_Z_STRIDE] from column 0 of the pointer given; w
 *   f32 [128]; n bf16 like o (may be o)
 * - grid (ceil(n_tok VL_HV / 16)), block 256, 16 lanes a head. f32 math, one rounding. moves 6
 *   n_tok VL_HV 128 bytes
 * - twin: gated_norm in tests/kernels; max |d| <= 1e-6 + 4e-3 |ref| */
#include "vl.cuh"

__device__ __forceinline__ float gate(float z)
{
    return VL_Z_SIGMOID ? sigmoid(z) : silu(z);
}

extern "C" __global__ void __launch_bounds__(256)
    gated_norm(const u8 *o, const u8 *z, const float *w, u8 *n, int n_tok)
{
    vl_enter();
    vl_wait();
    const u32 row = (blockIdx.x * 256 + threadIdx.x) >> 4;
    const int l = threadIdx.x & 15;
    if (row >= (u32)n_tok *
                   VL_HV) /* whole halves of a warp leave: the shuffles below stay inside a half */
        return;
    const u32 tok = row / VL_HV, head = row % VL_HV,
              half = threadIdx.x & 16 ? 0xffff0000u : 0xffffu;
    float x[8], g[8];
    bf_unpack8(*(const uint4 *)(o + ((u64)row * 128 + 8 * l) * 2), x);
    bf_unpack8(*(const uint4 *)(z + ((u64)tok * VL_Z_STRIDE + head * 128 + 8 * l) * 2), g);
    float s = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++)
        s += x[i] * x[i];
#pragma unroll
    for (int d = 1; d < 16; d <<= 1)
        s += __shfl_xor_sync(half, s, d);
    const float f = rsqrtf(s * (1.0f / 128) + VL_EPS);
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = x[i] * f * w[8 * l + i] * gate(g[i]);
    *(uint4 *)(n + ((u64)row * 128 + 8 * l) * 2) = bf_pack8(x);
}
