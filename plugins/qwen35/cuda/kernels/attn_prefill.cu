/* attn_prefill: causal attention of a prompt piece over its sequence's pages, times the sigmoid of
 * the gate.
 *
 * - q bf16 [n_tok, VL_NQ, 256] (normed, rotated), token t at position pos0 + t; pages as in
 *   qk_rope; table i32: this sequence's
 * - p bf16 [n_tok, VL_P_STRIDE]: the gate of head h is at column 512 h + 256; o bf16 [n_tok,
 *   VL_NQ, 256]
 * - n_splits 1, or more for few tokens behind a long context: block z takes every n_splits-th
 *   stretch of pages, and leaves its part in part, ml (as attn_decode does) for attn_combine
 * - grid (ceil(n_tok / (16 VL_WARPS)), VL_NQ, n_splits), block 32 VL_WARPS, dynamic shared memory
 *   VL_SHARED bytes: the queries, and VL_STAGES buffers (1 or 2) of a page of K and of V. A warp
 *   has 16 queries: 16 x 256 outputs in registers. The longest rows start first. f32 sums and
 *   softmax, P in bf16. twin: attention in tests/kernels; relative RMS <= 8e-3 */
#include "vl.cuh"

constexpr int ROWS = 16 * VL_WARPS, THREADS = 32 * VL_WARPS, G = VL_NQ / VL_NKV;
constexpr u32 Q_BYTES = ROWS * 512, PAGE = 32768, K_AT = Q_BYTES, V_AT = K_AT + VL_STAGES * PAGE;
static_assert(VL_SHARED >= V_AT + VL_STAGES * PAGE, "shared memory");

extern __shared__ __align__(1024) u8 sm[];

/* The first n rows of a page; zeros behind: what nobody wrote may be NaN, and NaN times a weight of
 * 0 is NaN. */
__device__ __forceinline__ void load_page(u32 at, const u8 *src, int n)
{
#pragma unroll
    for (int i = 0; i < 2048 / THREADS; i++) {
        const int unit = threadIdx.x + THREADS * i;
        copy16_or_zero(shared_addr(sm + at) + tile_at<32>(unit >> 5, unit & 31), src + unit * 16,
                       (unit >> 5) < n);
    }
}

/* S (16 x 64) of this warp's queries with a page of keys. */
__device__ __forceinline__ void page_scores(float (&s)[8][4], u32 k_at, int warp, int lane)
{
    const int q4 = lane >> 3, l7 = lane & 7;
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] = 0.0f;
#pragma unroll
    for (int k = 0; k < 16; k++) {
        u32 a[4], b[4];
        ldmatrix(a,
                 shared_addr(sm) + tile_at<32>(16 * warp + (q4 & 1) * 8 + l7, 2 * k + (q4 >> 1)));
#pragma unroll
        for (int n = 0; n < 4; n++) {
            ldmatrix(b, shared_addr(sm + k_at) +
                            tile_at<32>(16 * n + (q4 >> 1) * 8 + l7, 2 * k + (q4 & 1)));
            mma(s[2 * n], a, b[0], b[1]);
            mma(s[2 * n + 1], a, b[2], b[3]);
        }
    }
}

__device__ __forceinline__ void page_values(float (&o)[32][4], const float (&s)[8][4], u32 v_at,
                                            int lane)
{
    const int q4 = lane >> 3, l7 = lane & 7;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const u32 a[4] = {bf_pack(s[2 * k][0], s[2 * k][1]), bf_pack(s[2 * k][2], s[2 * k][3]),
                          bf_pack(s[2 * k + 1][0], s[2 * k + 1][1]),
                          bf_pack(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < 16; n++) {
            u32 b[4];
            ldmatrix_t(b, shared_addr(sm + v_at) +
                              tile_at<32>(16 * k + (q4 & 1) * 8 + l7, 2 * n + (q4 >> 1)));
            mma(o[2 * n], a, b[0], b[1]);
            mma(o[2 * n + 1], a, b[2], b[3]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * VL_WARPS)
    attn_prefill(const u8 *q, const u8 *kv, const int *table, const u8 *p, u8 *o_out, float *part,
                 float *ml, int n_tok, int pos0, int layer, int n_splits)
{
    vl_enter();
    vl_wait();
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int tile = gridDim.x - 1 - blockIdx.x, head = blockIdx.y, kh = head / G;
    const int t0 = tile * ROWS, last = pos0 + min(t0 + ROWS, n_tok) - 1, pages = last / 64 + 1;
    const u64 page_bytes = (u64)VL_FULL_LAYERS * 2 * VL_NKV * PAGE, v_off = (u64)VL_NKV * PAGE;
    const u8 *base = kv + ((u64)layer * 2 * VL_NKV + kh) * PAGE;
#pragma unroll
    for (int i = 0; i < ROWS * 32 / THREADS; i++) {
        const int unit = threadIdx.x + THREADS * i, row = unit >> 5;
        copy16_or_zero(shared_addr(sm) + tile_at<32>(row, unit & 31),
                       q + ((u64)min(t0 + row, n_tok - 1) * VL_NQ + head) * 512 + (unit & 31) * 16,
                       t0 + row < n_tok);
    }
    const int each = ((pos0 + n_tok - 1) / 64 + n_splits) / n_splits, first = blockIdx.z * each,
              end = min(pages, first + each);
    if (first < end)
        load_page(K_AT, base + (u64)table[first] * page_bytes, last + 1 - 64 * first);
    copy_commit();
    if (first < end)
        load_page(V_AT, base + (u64)table[first] * page_bytes + v_off, last + 1 - 64 * first);
    copy_commit();
    float o[32][4] = {}, m[2] = {-1e30f, -1e30f}, l[2] = {0.0f, 0.0f};
    for (int i = first; i < end; i++) {
        const u32 k_at = K_AT + ((i - first) % VL_STAGES) * PAGE,
                  v_at = V_AT + ((i - first) % VL_STAGES) * PAGE;
        const u8 *next = i + 1 < end ? base + (u64)table[i + 1] * page_bytes : base;
        const int left = last + 1 - 64 * (i + 1); /* rows of the next page that count */
        copy_wait<1>();                           /* K of this page; its V may still travel */
        __syncthreads();
        if (VL_STAGES == 2) {
            if (i + 1 < end)
                load_page(K_AT + ((i + 1 - first) % VL_STAGES) * PAGE, next, left);
            copy_commit();
        }
        float s[8][4];
        page_scores(s, k_at, warp, lane);
        float top[2] = {m[0], m[1]};
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int key = 64 * i + 8 * n + 2 * t + (e & 1),
                          mine = pos0 + t0 + 16 * warp + g + 8 * (e >> 1);
                s[n][e] = key <= mine ? s[n][e] * (VL_LOG2E / 16) : -1e30f;
                top[e >> 1] = fmaxf(top[e >> 1], s[n][e]);
            }
        float f[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 1));
            top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 2));
            f[h] = exp2f(m[h] - top[h]);
            m[h] = top[h];
            l[h] *= f[h];
        }
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                s[n][e] = exp2f(s[n][e] - m[e >> 1]);
                l[e >> 1] += s[n][e];
            }
#pragma unroll
        for (int n = 0; n < 32; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[n][e] *= f[e >> 1];
        if (VL_STAGES == 2)
            copy_wait<1>(); /* V of this page; the next K may travel */
        else
            copy_wait<0>();
        __syncthreads();
        if (VL_STAGES == 1 && i + 1 < end) /* all warps are done with this K */
            load_page(K_AT, next, left);
        if (VL_STAGES == 1)
            copy_commit();
        if (VL_STAGES == 2 && i + 1 < end)
            load_page(V_AT + ((i + 1 - first) % VL_STAGES) * PAGE, next + v_off, left);
        if (VL_STAGES == 2)
            copy_commit();
        page_values(o, s, v_at, lane);
        if (VL_STAGES == 1) {
            __syncthreads();
            if (i + 1 < end)
                load_page(V_AT, next + v_off, left);
            copy_commit();
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        l[h] += __shfl_xor_sync(~0u, l[h], 1);
        l[h] += __shfl_xor_sync(~0u, l[h], 2);
        const int tok = t0 + 16 * warp + g + 8 * h;
        if (tok >= n_tok)
            continue;
        if (n_splits > 1) {
            const u64 at = ((u64)tok * VL_NQ + head) * VL_SPLITS + blockIdx.z;
            if (t == 0)
                ml[2 * at] = m[h], ml[2 * at + 1] = l[h];
#pragma unroll
            for (int n = 0; n < 32; n++)
                *(float2 *)(part + at * 256 + 8 * n + 2 * t) =
                    make_float2(o[n][2 * h], o[n][2 * h + 1]);
            continue;
        }
        const float inv = 1.0f / l[h];
        const u8 *gate = p + ((u64)tok * VL_P_STRIDE + head * 512 + 256) * 2;
        u8 *out = o_out + ((u64)tok * VL_NQ + head) * 512;
#pragma unroll
        for (int n = 0; n < 32; n++) {
            const u32 gv = *(const u32 *)(gate + (8 * n + 2 * t) * 2);
            *(u32 *)(out + (8 * n + 2 * t) * 2) = bf_pack(
                o[n][2 * h] * inv * sigmoid(bf_lo(gv)), o[n][2 * h + 1] * inv * sigmoid(bf_hi(gv)));
        }
    }
}
