/* mark_ids: notes for the penalties which ids a sequence has read and written.
 *
 * - ids i32 [n]; counts u32 [VL_VOCAB] of one slot: bit 31: in the prompt, below it: times in the
 *   output
 * - grid (ceil(n / 256)), block 256 */
#include "vl.cuh"

extern "C" __global__ void __launch_bounds__(256)
    mark_ids(const int *ids, u32 *counts, int n, int output)
{
    vl_enter();
    vl_wait();
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n || ids[i] < 0 || ids[i] >= VL_VOCAB)
        return;
    if (output)
        atomicAdd(counts + ids[i], 1u);
    else
        atomicOr(counts + ids[i], 0x80000000u);
}
