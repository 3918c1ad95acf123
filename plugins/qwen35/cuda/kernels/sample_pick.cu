/* sample_pick: the token of each row from what logits_scan left; cuts (min_p, top_k, top_p) where
 * they are asked for; log probabilities; then the sequence's record: position, pending id, stop;
 * and the result into pinned memory.
 *
 * - logits, work f32 [n_rows, VL_VOCAB]; row_slot, row_real, row_pos, place i32 [n_rows]
 *   (step_begin); parts as in logits_scan
 * - results: pinned memory, VL_RING_SLOTS records of result_bytes, each vl_row_out [VL_ROWS];
 *   current u32: the step's record
 * - grid (n_rows), block 1024. Borders are found by radix selection on the values' bits, masses in
 *   whole numbers (2^-40), so that a draw does not depend on the order of additions. twin:
 *   plugins/common/cpu/sampling.c */
#include "select.cuh"

__shared__ part_out row_out;

/* Steps 7 to 10: the draw among what the cuts leave. */
__device__ int draw(const vl_slot &s, const float *v, float top, int position)
{
    border keep = {key_of(-INFINITY), -1}; /* all but -infinity */
    if (s.min_p > 0.0f)
        keep = {key_of(top + logf(s.min_p)), 0x7fffffff};
    if (s.top_k > 0) {
        const weigh one = {false, top, keep};
        u64 n = 0;
        for (int i = threadIdx.x; i < VL_TOKENS; i += THREADS)
            n += one(v[i], i);
        if (block_sum(n) > (u64)s.top_k)
            keep = select(v, one, (u64)s.top_k);
    }
    if (s.top_p < 1.0f) {
        const weigh mass = {true, top, keep};
        u64 n = 0;
        for (int i = threadIdx.x; i < VL_TOKENS; i += THREADS)
            n += mass(v[i], i);
        n = block_sum(n);
        keep = select(v, mass, max((u64)1, min(n, (u64)((double)n * (double)s.top_p))));
    }
    float best = -INFINITY;
    int id = 0x7fffffff;
    for (int i = 4 * threadIdx.x; i < VL_TOKENS; i += 4 * THREADS) {
        bool any = false;
        for (int k = 0; k < 4 && i + k < VL_TOKENS; k++)
            any = any || (keep.has(v[i + k], i + k) && v[i + k] > top - 20.0f);
        if (!any)
            continue;
        float g[4];
        gumbel4(s, position, i >> 2, g);
        for (int k = 0; k < 4 && i + k < VL_TOKENS; k++)
            if (keep.has(v[i + k], i + k))
                take_best(best, id, v[i + k] + g[k], i + k);
    }
    block_best(best, id);
    return id;
}

/* All parts of the row together, by the first warp. */
__device__ void join_parts(const part_out *parts)
{
    if (threadIdx.x < 32) {
        part_out o = parts[threadIdx.x];
        for (int i = threadIdx.x + 32; i < VL_PARTS; i += 32) {
            const part_out p = parts[i];
            const float m = fmaxf(o.raw_max, p.raw_max);
            if (m > -INFINITY)
                o.raw_sum = o.raw_sum * __expf(o.raw_max - m) + p.raw_sum * __expf(p.raw_max - m);
            o.raw_max = m;
            take_best(o.best, o.best_id, p.best, p.best_id);
            take_best(o.drawn, o.drawn_id, p.drawn, p.drawn_id);
            o.bad |= p.bad;
        }
        const float m = warp_max(o.raw_max);
        o.raw_sum = warp_sum(m > -INFINITY ? o.raw_sum * __expf(o.raw_max - m) : 0.0f);
        o.raw_max = m;
        warp_best(o.best, o.best_id);
        warp_best(o.drawn, o.drawn_id);
        o.bad = __any_sync(~0u, o.bad);
        if (threadIdx.x == 0)
            row_out = o;
    }
    __syncthreads();
}

/* The sequence's record after its new token, or after a fault. */
__device__ void advance(vl_slot *s, u32 *counts, vl_row_out *r, int id, int pos, int fault)
{
    s->pos = pos;
    r->pos = pos;
    r->id = -1;
    r->fault = fault;
    if (fault != 0) {
        s->stop = 4;
    } else {
        s->pending = id;
        s->n_out++;
        if (s->counts)
            counts[id]++;
        for (int i = 0; i < s->n_stop; i++)
            if (s->stop_ids[i] == id)
                s->stop = 1;
        if (s->stop == 0)
            s->stop = s->n_out >= s->max_out ? 2 : pos + 1 >= s->context ? 3 : 0;
        r->id = id;
    }
    r->stop = s->stop;
}

extern "C" __global__ void __launch_bounds__(1024)
    sample_pick(const float *logits, const float *work, const int *row_slot, const int *row_real,
                const int *row_pos, const int *place, vl_slot *slots, u32 *counts,
                const part_out *parts, u8 *results, u64 result_bytes, const u32 *current)
{
    vl_enter();
    vl_wait();
    const int row = blockIdx.x, real = row_real[row];
    if (real < 0)
        return;
    vl_row_out *r = (vl_row_out *)(results + *current * result_bytes) + place[row];
    vl_slot *s = slots + real;
    if (row_slot[row] < 0) { /* frozen: nothing changes */
        if (threadIdx.x == 0)
            r->id = -1, r->pos = s->pos, r->stop = s->stop, r->fault = 0, r->n_top = -1;
        return;
    }
    join_parts(parts + row * VL_PARTS);
    const float *z = logits + (u64)row * VL_VOCAB;
    const int pos = row_pos[row] + 1, k = min(min(s->n_logprobs, VL_TOP_LOGPROBS), VL_TOKENS);
    const int fault = row_out.bad ? 1 : row_out.best > -INFINITY ? 0 : 2;
    int id = row_out.best_id;
    if (fault == 0 && s->temperature > 0.0f)
        id = cuts(*s) ? draw(*s, work + (u64)row * VL_VOCAB, row_out.best, pos) : row_out.drawn_id;
    if (fault == 0 && k > 0)
        best_raw(z, k);
    if (threadIdx.x != 0)
        return;
    const float norm = row_out.raw_max + logf(row_out.raw_sum);
    r->n_top = fault == 0 ? s->n_logprobs : -1;
    if (fault == 0 && k >= 0)
        r->logprob = z[id] - norm;
    for (int i = 0; fault == 0 && i < k; i++)
        r->top_id[i] = cand_id[i], r->top_logprob[i] = cand_z[i] - norm;
    advance(s, counts + (u64)real * VL_VOCAB, r, id, pos, fault);
    __threadfence_system();
}
