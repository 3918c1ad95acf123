/* sample_pick: the token of each row from what logits_scan left; cuts (min_p, top_k, top_p) where they are asked for; log
 * probabilities; then the sequence's record: position, pending id, stop; and the result into pinned memory.
 * logits, work f32 [n_rows, VL_VOCAB]; row_slot, row_real, row_pos, place i32 [n_rows] (step_begin); parts as in logits_scan
 * results: pinned memory, VL_RING_SLOTS records of result_bytes, each vl_row_out [VL_ROWS]; current u32: the step's record
 * grid (n_rows), block 1024. Borders are found by radix selection on the values' bits, masses in whole numbers (2^-40), so that
 * a draw does not depend on the order of additions. twin: plugins/common/cpu/sampling.c */
#include "sample.cuh"

constexpr int THREADS = 1024;

__shared__ u64 hist[256];
__shared__ u64 found[3];   /* bucket, sum above it, scratch */
__shared__ int tally[32];
__shared__ part_out row_out;
__shared__ float cand_z[VL_TOP_LOGPROBS];
__shared__ int cand_id[VL_TOP_LOGPROBS], n_cand;
__shared__ float best_v[32];
__shared__ int best_i[32];

/* Bits that order like the float. */
__device__ __forceinline__ u32 key_of(float x)
{
    const u32 u = __float_as_uint(x);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* A set of ids: value above the border, or equal to it and id up to last. */
struct border {
    u32 key;
    int last;
    __device__ __forceinline__ bool has(float v, int id) const
    {
        const u32 k = key_of(v);
        return k > key || (k == key && id <= last);
    }
};

/* Weight of an id in a selection: 1, or its share of probability in units of 2^-40. */
struct weigh {
    bool mass;
    float top;
    border in; /* ids outside weigh nothing */
    __device__ __forceinline__ u64 operator()(float v, int id) const
    {
        if (!in.has(v, id))
            return 0;
        return mass ? (u64)(__expf(v - top) * 1099511627776.0f) : 1;
    }
};

__device__ __forceinline__ u64 block_sum(u64 v)
{
    if (threadIdx.x == 0)
        found[2] = 0;
    __syncthreads();
#pragma unroll
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_xor_sync(~0u, v, d);
    if ((threadIdx.x & 31) == 0)
        atomicAdd(&found[2], v);
    __syncthreads();
    v = found[2];
    __syncthreads();
    return v;
}

/* The smallest leading set (value falling, id rising) whose weight reaches `want` (>= 1, and at most the weight of all). */
__device__ border select(const float *v, const weigh &w, u64 want)
{
    u32 prefix = 0;
    u64 above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (threadIdx.x < 256)
            hist[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < VL_TOKENS; i += THREADS) {
            const u32 k = key_of(v[i]);
            if (shift == 24 || k >> (shift + 8) == prefix >> (shift + 8)) {
                const u64 x = w(v[i], i);
                if (x != 0)
                    atomicAdd(&hist[k >> shift & 255], x);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            u64 sum = above;
            int b = 255;
            while (b > 0 && sum + hist[b] < want)
                sum += hist[b--];
            found[0] = (u64)b, found[1] = sum;
        }
        __syncthreads();
        prefix |= (u32)found[0] << shift;
        above = found[1];
        __syncthreads();
    }
    /* Ids equal to the border, in order: each thread counts its stretch. */
    constexpr int STRETCH = (VL_TOKENS + THREADS - 1) / THREADS;
    const int a = min(VL_TOKENS, (int)threadIdx.x * STRETCH), b = min(VL_TOKENS, a + STRETCH), lane = threadIdx.x & 31;
    u64 each = 0;
    int mine = 0, before;
    for (int i = a; i < b; i++)
        if (key_of(v[i]) == prefix && w(v[i], i) != 0)
            mine++, each = w(v[i], i);
    before = mine;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        const int x = __shfl_up_sync(~0u, before, d);
        if (lane >= d)
            before += x;
    }
    if (lane == 31)
        tally[threadIdx.x >> 5] = before;
    if (threadIdx.x == 0)
        found[0] = 0x7fffffff;
    __syncthreads();
    for (int i = 0; i < (int)(threadIdx.x >> 5); i++)
        before += tally[i];
    before -= mine;
    if (mine > 0) {
        const u64 need = (want - min(above, want) + each - 1) / each; /* of the equal ones, at least 1 */
        const int nth = (int)max(need, (u64)1) - before;
        if (nth >= 1 && nth <= mine) {
            int n = 0;
            for (int i = a; i < b; i++)
                if (key_of(v[i]) == prefix && w(v[i], i) != 0 && ++n == nth)
                    found[0] = (u64)i;
        }
    }
    __syncthreads();
    const border r = {prefix, (int)found[0]};
    __syncthreads();
    return r;
}

__device__ __forceinline__ void block_best(float &v, int &id)
{
    warp_best(v, id);
    if ((threadIdx.x & 31) == 0)
        best_v[threadIdx.x >> 5] = v, best_i[threadIdx.x >> 5] = id;
    __syncthreads();
    v = best_v[threadIdx.x & 31], id = best_i[threadIdx.x & 31];
    warp_best(v, id);
    __syncthreads();
}

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

/* The k best of the raw logits into cand_*, best first. */
__device__ void best_raw(const float *z, int k)
{
    const weigh one = {false, 0.0f, {0u, 0x7fffffff}};
    const border b = select(z, one, (u64)k);
    if (threadIdx.x == 0)
        n_cand = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < VL_TOKENS; i += THREADS)
        if (b.has(z[i], i)) {
            const int at = atomicAdd(&n_cand, 1);
            if (at < VL_TOP_LOGPROBS)
                cand_z[at] = z[i], cand_id[at] = i;
        }
    __syncthreads();
    if (threadIdx.x == 0) /* insertion sort: at most 20 */
        for (int i = 1; i < k; i++) {
            const float v = cand_z[i];
            const int id = cand_id[i];
            int j = i - 1;
            for (; j >= 0 && (cand_z[j] < v || (cand_z[j] == v && cand_id[j] > id)); j--)
                cand_z[j + 1] = cand_z[j], cand_id[j + 1] = cand_id[j];
            cand_z[j + 1] = v, cand_id[j + 1] = id;
        }
    __syncthreads();
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

extern "C" __global__ void __launch_bounds__(1024) sample_pick(const float *logits, const float *work, const int *row_slot,
                                                               const int *row_real, const int *row_pos, const int *place,
                                                               vl_slot *slots, u32 *counts, const part_out *parts, u8 *results,
                                                               u64 result_bytes, const u32 *current)
{
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
