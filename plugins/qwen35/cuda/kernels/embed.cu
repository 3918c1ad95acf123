/* embed: x[t, :] = emb[ids[t], :]; and what the first norm needs, as thin_matmul leaves it behind
 * a layer
 *
 * - ids i32 [n_tok] (an id below 0: the row is left as it is); emb bf16 [vocabulary, VL_HIDDEN]; x
 *   f32 [n_tok, VL_HIDDEN]
 * - norm_w f32 [VL_HIDDEN] or NULL: nothing more is left; xn bf16 [n_tok, VL_HIDDEN]; ss f32
 *   [n_tok, VL_HIDDEN / 8]
 * - grid (n_tok), block 256; VL_HIDDEN % 8 == 0. exact but for xn (one rounding). moves 6 n_tok
 *   VL_HIDDEN bytes */
#include "vl.cuh"

extern "C" __global__ void __launch_bounds__(256)
    embed(const int *ids, const u8 *emb, float *x, const float *norm_w, u8 *xn, float *ss)
{
    vl_wait();
    vl_enter();
    const int id = ids[blockIdx.x];
    if (id < 0)
        return;
    for (int i = threadIdx.x; i < VL_HIDDEN / 8; i += 256) {
        float v[8], s = 0.0f;
        bf_unpack8(*(const uint4 *)(emb + ((u64)id * VL_HIDDEN + 8 * i) * 2), v);
        float4 *o = (float4 *)(x + (u64)blockIdx.x * VL_HIDDEN + 8 * i);
        o[0] = make_float4(v[0], v[1], v[2], v[3]);
        o[1] = make_float4(v[4], v[5], v[6], v[7]);
        if (norm_w == nullptr)
            continue;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            s += v[k] * v[k];
            v[k] *= norm_w[8 * i + k];
        }
        *(uint4 *)(xn + ((u64)blockIdx.x * VL_HIDDEN + 8 * i) * 2) = bf_pack8(v);
        ss[(u64)blockIdx.x * (VL_HIDDEN / 8) + i] = s;
    }
}
