/* rms_norm: y[t] = x[t] * rsqrt(mean(x[t]^2) + VL_EPS) * w   (w holds 1 + the stored weight)
 *
 * - x f32 [n_tok, VL_HIDDEN] (the residual); w f32 [VL_HIDDEN]; y bf16 [n_tok, VL_HIDDEN]
 * - grid (n_tok), block 256; VL_HIDDEN % 4 == 0. f32 math, one rounding at the store. moves 6
 *   n_tok VL_HIDDEN bytes
 * - twin: rms_norm in tests/kernels; max |d| <= 1e-6 + 4e-3 |ref| */
#include "vl.cuh"

constexpr int VECS = VL_HIDDEN / 4, EACH = (VECS + 255) / 256;
static_assert(VL_HIDDEN % 4 == 0, "shape");

extern "C" __global__ void __launch_bounds__(256) rms_norm(const float *x, const float *w, u8 *y)
{
    vl_enter();
    __shared__ float part[8];
    const int tid = threadIdx.x;
    float4 wv[EACH], v[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++)
        wv[i] = tid + 256 * i < VECS ? ((const float4 *)w)[tid + 256 * i] : make_float4(0, 0, 0, 0);
    vl_wait();
    const float4 *row = (const float4 *)(x + (u64)blockIdx.x * VL_HIDDEN);
    float s = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        v[i] = tid + 256 * i < VECS ? row[tid + 256 * i] : make_float4(0, 0, 0, 0);
        s += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
    }
    s = warp_sum(s);
    if ((tid & 31) == 0)
        part[tid >> 5] = s;
    __syncthreads();
    s = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++)
        s += part[i];
    const float f = rsqrtf(s * (1.0f / VL_HIDDEN) + VL_EPS);
    uint2 *out = (uint2 *)(y + (u64)blockIdx.x * VL_HIDDEN * 2);
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (tid + 256 * i < VECS)
            out[tid + 256 * i] = make_uint2(bf_pack(v[i].x * f * wv[i].x, v[i].y * f * wv[i].y),
                                            bf_pack(v[i].z * f * wv[i].z, v[i].w * f * wv[i].w));
}
