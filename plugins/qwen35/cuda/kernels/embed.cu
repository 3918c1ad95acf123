/* embed: x[t, :] = emb[ids[t], :]
 * ids i32 [n_tok] (an id below 0: the row is left as it is); emb bf16 [vocabulary, VL_HIDDEN]; x f32 [n_tok, VL_HIDDEN]
 * grid (n_tok), block 256; VL_HIDDEN % 8 == 0. exact. moves 6 n_tok VL_HIDDEN bytes */
#include "vl.cuh"

extern "C" __global__ void __launch_bounds__(256) embed(const int *ids, const u8 *emb, float *x)
{
    vl_wait();
    const int id = ids[blockIdx.x];
    if (id < 0)
        return;
    for (int i = threadIdx.x; i < VL_HIDDEN / 8; i += 256) {
        float v[8];
        bf_unpack8(*(const uint4 *)(emb + ((u64)id * VL_HIDDEN + 8 * i) * 2), v);
        float4 *o = (float4 *)(x + (u64)blockIdx.x * VL_HIDDEN + 8 * i);
        o[0] = make_float4(v[0], v[1], v[2], v[3]);
        o[1] = make_float4(v[4], v[5], v[6], v[7]);
    }
}
