/* prefill_begin: names the tokens of a prompt piece for the kernels after it, and moves its
 * sequence's position.
 *
 * - ids_in i32 [n_tok] (pinned memory); out: ids, tok_slot, tok_pos i32 [n_tok]
 * - slots: records of slot.cuh; the position becomes pos0 + n_tok
 * - last i32 [6]: the row that samples behind the piece, laid out like a row of step_begin: slot,
 *   slot, position of its last token, unused, place in the results, mask
 * - grid (ceil(n_tok / 256)), block 256 */
#include "vl.cuh"
#include "slot.cuh"

extern "C" __global__ void __launch_bounds__(256)
    prefill_begin(const int *ids_in, int *ids, int *tok_slot, int *tok_pos, vl_slot *slots,
                  int *last, int n_tok, int slot, int pos0, int place, int mask)
{
    vl_wait();
    vl_enter();
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n_tok) {
        ids[i] = ids_in[i];
        tok_slot[i] = slot;
        tok_pos[i] = pos0 + i;
    }
    if (i == 0) {
        slots[slot].pos = pos0 + n_tok;
        last[0] = last[1] = slot;
        last[2] = pos0 + n_tok - 1;
        last[3] = -1;
        last[4] = place;
        last[5] = mask;
    }
}
