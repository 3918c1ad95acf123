/* logits_scan: one pass over the logits, VL_PARTS parts a row: raw sums for log probabilities,
 * then masks, bans, biases, penalties and temperature, the best id, and the best with Gumbel noise
 * (what is drawn when nothing is cut).
 *
 * - logits f32 [n_rows, VL_VOCAB]; work f32 alike: written for rows whose sampling cuts (top_k,
 *   top_p, min_p)
 * - row_slot i32 [n_rows] (-1: skipped), row_pos i32: position of the token just read
 * - place i32 [n_rows]: place in the step's results and masks; has_mask i32 [n_rows]
 * - slots: slot.cuh; counts u32 [slots, VL_VOCAB] (mark_ids); bias_ids i32, bias f32 [slots,
 *   VL_SLOT_BIAS]
 * - masks: pinned memory, VL_RING_SLOTS records of mask_bytes, each: u32 [VL_ROWS][VL_MASK_WORDS]
 * - current u32: the step's record; parts [n_rows, VL_PARTS]
 * - grid (VL_PARTS, n_rows), block 256. f32 math. twin: plugins/common/cpu/sampling.c */
#include "sample.cuh"

__shared__ float z[PART];
__shared__ float part_f[8][4];
__shared__ int part_i[8][3];

/* Raw maximum and sum of exponentials of z[0..n), over the block; tells bad logits. */
__device__ __forceinline__ void raw_sums(int n, float &top, float &sum, int &bad)
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    float m = -INFINITY;
    int wrong = 0;
    for (int i = threadIdx.x; i < n; i += 256) {
        wrong |= !(z[i] < INFINITY);
        m = fmaxf(m, z[i]);
    }
    m = warp_max(m);
    wrong = __any_sync(~0u, wrong);
    if (lane == 0)
        part_f[warp][0] = m, part_i[warp][0] = wrong;
    __syncthreads();
    bad = 0;
    for (int w = 0; w < 8; w++)
        m = fmaxf(m, part_f[w][0]), bad |= part_i[w][0];
    float s = 0.0f;
    if (m > -INFINITY)
        for (int i = threadIdx.x; i < n; i += 256)
            s += __expf(z[i] - m);
    s = warp_sum(s);
    if (lane == 0)
        part_f[warp][1] = s;
    __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < 8; w++)
        sum += part_f[w][1];
    top = m;
}

/* Steps 1 to 6 of the order, on z[0..n) = ids base .. */
__device__ __forceinline__ void edit(const vl_slot &s, int base, int n, const u32 *mask,
                                     const u32 *counts, const int *bias_ids, const float *bias)
{
    if (mask != nullptr)
        for (int i = threadIdx.x; i < n; i += 256)
            if (!(mask[(base + i) >> 5] >> ((base + i) & 31) & 1))
                z[i] = -INFINITY;
    if (s.n_out < s.min_out)
        for (int i = threadIdx.x; i < s.n_stop; i += 256)
            if (s.stop_ids[i] >= base && s.stop_ids[i] < base + n)
                z[s.stop_ids[i] - base] = -INFINITY;
    __syncthreads();
    for (int i = threadIdx.x; i < s.n_bias; i += 256)
        if (bias_ids[i] >= base && bias_ids[i] < base + n)
            z[bias_ids[i] - base] += bias[i];
    __syncthreads();
    if (s.counts)
        for (int i = threadIdx.x; i < n; i += 256) {
            const u32 c = counts[base + i], out = c & 0x7fffffffu;
            if (c != 0)
                z[i] = z[i] > 0.0f ? z[i] / s.repetition_penalty : z[i] * s.repetition_penalty;
            if (out != 0)
                z[i] = z[i] - s.frequency_penalty * (float)out - s.presence_penalty;
        }
    if (s.temperature > 0.0f)
        for (int i = threadIdx.x; i < n; i += 256)
            z[i] = z[i] / s.temperature;
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256)
    logits_scan(const float *logits, float *work, const int *row_slot, const int *row_pos,
                const int *place, const int *has_mask, const vl_slot *slots, const u32 *counts,
                const int *bias_ids, const float *bias, const u8 *masks, u64 mask_bytes,
                const u32 *current, part_out *parts)
{
    vl_enter();
    vl_wait();
    const int row = blockIdx.y, slot = row_slot[row], base = blockIdx.x * PART;
    const int n = max(0, min(PART, VL_TOKENS - base)), warp = threadIdx.x >> 5,
              lane = threadIdx.x & 31;
    if (slot < 0)
        return;
    const vl_slot &s = slots[slot];
    for (int i = threadIdx.x; i < n; i += 256)
        z[i] = logits[(u64)row * VL_VOCAB + base + i];
    __syncthreads();
    part_out o;
    raw_sums(n, o.raw_max, o.raw_sum, o.bad);
    const u32 *mask = nullptr;
    if (has_mask[row])
        mask = (const u32 *)(masks + *current * mask_bytes) + (u64)place[row] * VL_MASK_WORDS;
    edit(s, base, n, mask, counts + (u64)slot * VL_VOCAB, bias_ids + slot * VL_SLOT_BIAS,
         bias + slot * VL_SLOT_BIAS);
    if (cuts(s))
        for (int i = threadIdx.x; i < n; i += 256)
            work[(u64)row * VL_VOCAB + base + i] = z[i];
    o.best = o.drawn = -INFINITY;
    o.best_id = o.drawn_id = 0x7fffffff;
    for (int i = threadIdx.x; i < n; i += 256)
        take_best(o.best, o.best_id, z[i], base + i);
    if (s.temperature > 0.0f && !cuts(s))
        for (int i = 4 * threadIdx.x; i < n; i += 1024) {
            float g[4];
            gumbel4(s, row_pos[row] + 1, (base + i) >> 2, g);
            for (int k = 0; k < 4; k++)
                if (i + k < n)
                    take_best(o.drawn, o.drawn_id, z[i + k] + g[k], base + i + k);
        }
    warp_best(o.best, o.best_id);
    warp_best(o.drawn, o.drawn_id);
    if (lane == 0) {
        part_f[warp][2] = o.best, part_i[warp][1] = o.best_id;
        part_f[warp][3] = o.drawn, part_i[warp][2] = o.drawn_id;
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int w = 1; w < 8; w++) {
        take_best(o.best, o.best_id, part_f[w][2], part_i[w][1]);
        take_best(o.drawn, o.drawn_id, part_f[w][3], part_i[w][2]);
    }
    o.unused = 0;
    parts[row * VL_PARTS + blockIdx.x] = o;
}
