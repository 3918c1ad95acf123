/* logprob_rows: log probabilities of given ids (the next ids of a prompt), and the k best.
 *
 * - logits f32 [n_rows, VL_VOCAB]; next_ids i32 [n_rows] (pinned memory); out: pinned, [n_rows][1
 *   + k] of (id, log probability)
 * - grid (n_rows), block 1024. f32 math. twin: vl_sampler_logprobs in plugins/common/cpu */
#include "select.cuh"

struct entry {
    int id;
    float logprob;
};

extern "C" __global__ void __launch_bounds__(1024)
    logprob_rows(const float *logits, const int *next_ids, entry *out, int k)
{
    vl_enter();
    __shared__ float part[32];
    vl_wait();
    const float *z = logits + (u64)blockIdx.x * VL_VOCAB;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float m = -INFINITY, s = 0.0f;
    for (int i = threadIdx.x; i < VL_TOKENS; i += THREADS)
        m = fmaxf(m, z[i]);
    m = warp_max(m);
    if (lane == 0)
        part[warp] = m;
    __syncthreads();
    m = warp_max(part[lane]);
    __syncthreads();
    for (int i = threadIdx.x; i < VL_TOKENS; i += THREADS)
        s += __expf(z[i] - m);
    s = warp_sum(s);
    if (lane == 0)
        part[warp] = s;
    __syncthreads();
    const float norm = m + logf(warp_sum(part[lane]));
    const int best = min(min(k, VL_TOP_LOGPROBS), VL_TOKENS);
    if (best > 0)
        best_raw(z, best);
    if (threadIdx.x != 0)
        return;
    entry *o = out + (u64)blockIdx.x * (1 + k);
    const int id = next_ids[blockIdx.x];
    o[0].id = id;
    o[0].logprob = id >= 0 && id < VL_VOCAB ? z[id] - norm : -INFINITY;
    for (int i = 0; i < k; i++) {
        o[1 + i].id = i < best ? cand_id[i] : -1;
        o[1 + i].logprob = i < best ? cand_z[i] - norm : -INFINITY;
    }
    __threadfence_system();
}
