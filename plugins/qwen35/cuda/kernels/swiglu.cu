/* swiglu: h[t, i] = silu(gate[t, i]) * up[t, i]
 *
 * - gu bf16 [n_tok, 2 VL_INNER], gate and up in turns of eight columns; h bf16 [n_tok, VL_INNER]
 * - grid (ceil(VL_INNER / 8 / 256), n_tok), block 256; VL_INNER % 8 == 0. f32 math, one rounding.
 *   moves 6 n_tok VL_INNER bytes
 * - twin: swiglu in tests/kernels; max |d| <= 1e-6 + 4e-3 |ref| */
#include "vl.cuh"

static_assert(VL_INNER % 8 == 0, "shape");

extern "C" __global__ void __launch_bounds__(256) swiglu(const u8 *gu, u8 *h)
{
    vl_enter();
    vl_wait();
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= VL_INNER / 8)
        return;
    const uint4 *in = (const uint4 *)(gu + (u64)blockIdx.y * VL_INNER * 4) + 2 * i;
    float g[8], u[8];
    bf_unpack8(in[0], g);
    bf_unpack8(in[1], u);
#pragma unroll
    for (int k = 0; k < 8; k++)
        g[k] = silu(g[k]) * u[k];
    ((uint4 *)(h + (u64)blockIdx.y * VL_INNER * 2))[i] = bf_pack8(g);
}
