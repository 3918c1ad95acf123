/* attn_combine: the parts of attn_decode (or attn_prefill) become the attention output, times the
 * sigmoid of the gate.
 *
 * - part, ml, row_slot, row_pos as in attn_decode
 * - p bf16 [n_rows, VL_P_STRIDE]: the gate of head h is at column 512 h + 256
 * - n_given: parts of each row; 0: as attn_decode splits a context
 * - o bf16 [n_rows, VL_NQ, 256]
 * - grid (VL_NQ, n_rows), block 256. f32 math, one rounding. twin: attention in tests/kernels */
#include "vl.cuh"

extern "C" __global__ void __launch_bounds__(256)
    attn_combine(const float *part, const float *ml, const int *row_slot, const int *row_pos,
                 const bf16 *p, bf16 *o, int n_given)
{
    vl_enter();
    vl_wait();
    const int head = blockIdx.x, row = blockIdx.y, d = threadIdx.x;
    if (row_slot[row] < 0)
        return;
    const int len = row_pos[row] + 1, pages = (len + 63) / 64;
    const int each = max(VL_SPLIT_PAGES, (pages + VL_SPLITS - 1) / VL_SPLITS) * 64;
    const int n = n_given > 0 ? n_given : (len + each - 1) / each;
    const u64 at = ((u64)row * VL_NQ + head) * VL_SPLITS;
    float top = -1e30f, sum = 0.0f, v = 0.0f;
    for (int i = 0; i < n; i++)
        top = fmaxf(top, ml[2 * (at + i)]);
    for (int i = 0; i < n; i++) {
        const float f = exp2f(ml[2 * (at + i)] - top);
        sum += f * ml[2 * (at + i) + 1];
        v += f * part[(at + i) * 256 + d];
    }
    const float gate = bf_f32(p[(u64)row * VL_P_STRIDE + head * 512 + 256 + d]);
    o[((u64)row * VL_NQ + head) * 256 + d] = bf_round(v / sum * sigmoid(gate));
}
