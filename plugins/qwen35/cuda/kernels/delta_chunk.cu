/* delta_chunk: prefill of a linear layer, third part: the recurrence over chunks.
 *
 * - c bf16 [n_tok, VL_CD]; wu, pm, par as delta_prep gives them; same chunks
 * - state f32 [VL_HV, 128 (key), 128 (value)]: read (zeros instead when fresh), then written
 * - p bf16 [n_tok, VL_P_STRIDE], ring bf16 [4, VL_CD]: the last rows of p go into the ring (see
 *   delta_conv)
 * - o bf16 [n_tok, VL_HV, 128]
 * - grid (4, VL_HV), block 128, dynamic shared memory VL_SHARED bytes; a block has 32 value
 *   columns of one head
 * - Everything is transposed: warps 0 and 1 ("chain") hold S^T, 16 value columns x 128, as
 *   accumulators; in bf16 these are the A operand of U~ = U - W S, whose transpose is again an A
 *   operand for S += K^T U~. Warps 2 and 3 make the outputs of the chunk before from what the
 *   chain left in shared memory. Tiles arrive by cp.async: a chunk ahead and one barrier a chunk
 *   with VL_STAGES 2; with 1, for cards with less shared memory, they are waited for.
 * - f32 state, bf16 products with f32 sums. twin: token recurrence in tests/kernels; relative RMS
 *   <= 1e-2 */
#include "vl.cuh"

constexpr int KD = VL_HK * 128, CD = 2 * KD + VL_HV * 128, R = VL_HV / VL_HK;
/* Shared memory. VL_STAGES buffers each of: W, K, U (rows of 80 bytes), e^(last - gamma); Q, P,
 * e^gamma; two of S and U~ fragments. */
constexpr u32 W_BYTES = 16384, U_BYTES = 64 * 80, CHAIN = 2 * W_BYTES + U_BYTES + 320,
              OUT = W_BYTES + 8192 + 256, FRAG = 2 * 6144, TURN = 2 * 64 * 48;
constexpr u32 CHAIN_AT = 0, OUT_AT = VL_STAGES * CHAIN, FRAG_AT = OUT_AT + VL_STAGES * OUT,
              TURN_AT = FRAG_AT + 2 * FRAG;
static_assert(VL_SHARED >= TURN_AT + TURN, "shared memory");

extern __shared__ __align__(1024) u8 sm[];

struct Chunk {
    int first, n;
    __device__ __forceinline__ Chunk(int i, int n_tok, int skew)
        : first(max(0, 64 * i - skew)), n(min(n_tok, 64 * (i + 1) - skew) - first)
    {
    }
};

/* 64 rows of 256 bytes, `stride` bytes apart, into a tile; rows from n on are zeros. */
__device__ __forceinline__ void load_rows(u32 at, const u8 *src, u64 stride, int n)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int unit = threadIdx.x + 128 * i, row = unit >> 4;
        copy16_or_zero(shared_addr(sm + at) + tile_at<16>(row, unit & 15),
                       src + (row < n ? row : 0) * stride + (unit & 15) * 16, row < n);
    }
}

__device__ __forceinline__ void load_chain(const u8 *c, const bf16 *wu, const float *par, int chunk,
                                           Chunk k, int head, int slice)
{
    const u32 at = CHAIN_AT + chunk % VL_STAGES * CHAIN;
    const u64 pair = (u64)chunk * VL_HV + head;
    const u8 *w = (const u8 *)(wu + pair * 16384), *u = w + 16384 + slice * 64;
    load_rows(at, w, 256, 64);
    load_rows(at + W_BYTES, c + (u64)k.first * CD * 2 + (KD + (head / R) * 128) * 2, (u64)CD * 2,
              k.n);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int unit = threadIdx.x + 128 * i;
        copy16(shared_addr(sm + at + 2 * W_BYTES) + (unit >> 2) * 80 + (unit & 3) * 16,
               u + (unit >> 2) * 256 + (unit & 3) * 16);
    }
    if (threadIdx.x < 17) /* e^(last - gamma) and, behind it, e^last */
        copy16(shared_addr(sm + at + 2 * W_BYTES + U_BYTES) + threadIdx.x * 16,
               par + pair * 132 + 64 + 4 * threadIdx.x);
}

__device__ __forceinline__ void load_out(const u8 *c, const bf16 *pm, const float *par, int chunk,
                                         Chunk k, int head)
{
    const u32 at = OUT_AT + chunk % VL_STAGES * OUT;
    const u64 pair = (u64)chunk * VL_HV + head;
    load_rows(at, c + (u64)k.first * CD * 2 + (head / R) * 256, (u64)CD * 2, k.n);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int unit = threadIdx.x + 128 * i;
        copy16(shared_addr(sm + at + W_BYTES) + tile_at<8>(unit >> 3, unit & 7),
               pm + pair * 4096 + unit * 8);
    }
    if (threadIdx.x < 16)
        copy16(shared_addr(sm + at + W_BYTES + 8192) + threadIdx.x * 16,
               par + pair * 132 + 4 * threadIdx.x);
}

/* One chunk of the chain: s = S^T of this warp's 16 columns. */
__device__ __forceinline__ void chain_step(float (&s)[16][4], int chunk, int warp, int lane)
{
    const int q4 = lane >> 3, l7 = lane & 7, t = lane & 3;
    const u32 at = CHAIN_AT + chunk % VL_STAGES * CHAIN,
              frag = FRAG_AT + (chunk & 1) * FRAG + warp * 6144;
    u32 a[8][4];
    uint4 *out = (uint4 *)(sm + frag) + lane;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        a[k][0] = bf_pack(s[2 * k][0], s[2 * k][1]);
        a[k][1] = bf_pack(s[2 * k][2], s[2 * k][3]);
        a[k][2] = bf_pack(s[2 * k + 1][0], s[2 * k + 1][1]);
        a[k][3] = bf_pack(s[2 * k + 1][2], s[2 * k + 1][3]);
        out[32 * k] = make_uint4(a[k][0], a[k][1], a[k][2], a[k][3]);
    }
    float y[8][4]; /* U~^T: 16 columns x 64 tokens */
    const u32 u = shared_addr(sm + at + 2 * W_BYTES) + 32 * warp;
#pragma unroll
    for (int n = 0; n < 4; n++) {
        u32 v[4];
        ldmatrix_t(v, u + (16 * n + (q4 >> 1) * 8 + l7) * 80 + (q4 & 1) * 16);
        y[2 * n][0] = bf_lo(v[0]), y[2 * n][1] = bf_hi(v[0]), y[2 * n][2] = bf_lo(v[1]),
              y[2 * n][3] = bf_hi(v[1]);
        y[2 * n + 1][0] = bf_lo(v[2]), y[2 * n + 1][1] = bf_hi(v[2]);
        y[2 * n + 1][2] = bf_lo(v[3]), y[2 * n + 1][3] = bf_hi(v[3]);
    }
    const float *par = (const float *)(sm + at + 2 * W_BYTES + U_BYTES);
    const float decay = par[64];
#pragma unroll
    for (int k = 0; k < 8; k++) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
            u32 b[4];
            ldmatrix(b, shared_addr(sm + at) +
                            tile_at<16>(16 * n + (q4 >> 1) * 8 + l7, 2 * k + (q4 & 1)));
            mma(y[2 * n], a[k], b[0], b[1]);
            mma(y[2 * n + 1], a[k], b[2], b[3]);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[2 * k][e] *= decay;
            s[2 * k + 1][e] *= decay;
        }
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float2 f0 = *(const float2 *)(par + 16 * k + 2 * t),
                     f1 = *(const float2 *)(par + 16 * k + 8 + 2 * t);
        float(&p)[4] = y[2 * k], (&q)[4] = y[2 * k + 1];
        out[32 * (8 + k)] = make_uint4(bf_pack(p[0], p[1]), bf_pack(p[2], p[3]),
                                       bf_pack(q[0], q[1]), bf_pack(q[2], q[3]));
        const u32 ua[4] = {bf_pack(p[0] * f0.x, p[1] * f0.y), bf_pack(p[2] * f0.x, p[3] * f0.y),
                           bf_pack(q[0] * f1.x, q[1] * f1.y), bf_pack(q[2] * f1.x, q[3] * f1.y)};
#pragma unroll
        for (int n = 0; n < 8; n++) {
            u32 b[4];
            ldmatrix_t(b, shared_addr(sm + at + W_BYTES) +
                              tile_at<16>(16 * k + (q4 & 1) * 8 + l7, 2 * n + (q4 >> 1)));
            mma(s[2 * n], ua, b[0], b[1]);
            mma(s[2 * n + 1], ua, b[2], b[3]);
        }
    }
}

/* Outputs of one chunk for 16 columns: O^T = e^gamma S^T Q^T + U~^T P^T. */
__device__ __forceinline__ void out_step(u8 *o, int chunk, Chunk k, int head, int slice, int warp,
                                         int lane)
{
    const int q4 = lane >> 3, l7 = lane & 7, g = lane >> 2, t = lane & 3;
    const u32 at = OUT_AT + chunk % VL_STAGES * OUT, turn = TURN_AT + warp * 64 * 48;
    const uint4 *in = (const uint4 *)(sm + FRAG_AT + (chunk & 1) * FRAG + warp * 6144) + lane;
    float y[8][4] = {};
#pragma unroll
    for (int kk = 0; kk < 8; kk++) {
        const uint4 a = in[32 * kk];
#pragma unroll
        for (int n = 0; n < 4; n++) {
            u32 b[4];
            ldmatrix(b, shared_addr(sm + at) +
                            tile_at<16>(16 * n + (q4 >> 1) * 8 + l7, 2 * kk + (q4 & 1)));
            mma(y[2 * n], a.x, a.y, a.z, a.w, b[0], b[1]);
            mma(y[2 * n + 1], a.x, a.y, a.z, a.w, b[2], b[3]);
        }
    }
    const float *par = (const float *)(sm + at + W_BYTES + 8192);
#pragma unroll
    for (int n = 0; n < 8; n++) {
        const float2 f = *(const float2 *)(par + 8 * n + 2 * t);
        y[n][0] *= f.x, y[n][1] *= f.y, y[n][2] *= f.x, y[n][3] *= f.y;
    }
#pragma unroll
    for (int kk = 0; kk < 4; kk++) {
        const uint4 a = in[32 * (8 + kk)];
#pragma unroll
        for (int n = kk; n < 4; n++) { /* P is lower triangular */
            u32 b[4];
            ldmatrix(b, shared_addr(sm + at + W_BYTES) +
                            tile_at<8>(16 * n + (q4 >> 1) * 8 + l7, 2 * kk + (q4 & 1)));
            mma(y[2 * n], a.x, a.y, a.z, a.w, b[0], b[1]);
            mma(y[2 * n + 1], a.x, a.y, a.z, a.w, b[2], b[3]);
        }
    }
    /* Turned in shared memory: rows of 16 columns, 48 bytes apart. */
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            *(bf16 *)(sm + turn + (8 * n + 2 * t + (e & 1)) * 48 + (g + 8 * (e >> 1)) * 2) =
                bf_round(y[n][e]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = 16 * i + (lane >> 1);
        if (row < k.n)
            *(uint4 *)(o + (((u64)(k.first + row) * VL_HV + head) * 128 + slice * 32 + warp * 16 +
                            (lane & 1) * 8) *
                               2) = *(const uint4 *)(sm + turn + row * 48 + (lane & 1) * 16);
    }
    __syncwarp();
}

/* The last three (at most) rows of p into the ring: this block's channels are those of its head, a
 * quarter of them. */
__device__ __forceinline__ void save_rows(const u8 *p, u8 *ring, int n_tok, int pos0, int head,
                                          int slice)
{
    const int which = threadIdx.x >> 5, ch = slice * 32 + (threadIdx.x & 31);
    if (which == 3 || (which < 2 && head % R != 0))
        return;
    const int channel = which == 2 ? 2 * KD + head * 128 + ch : which * KD + (head / R) * 128 + ch;
    for (int t = max(0, n_tok - 3); t < n_tok; t++)
        *((bf16 *)ring + (u64)((pos0 + t) & 3) * CD + channel) =
            *((const bf16 *)p + (u64)t * VL_P_STRIDE + channel);
}

extern "C" __global__ void __launch_bounds__(128)
    delta_chunk(const u8 *c, const bf16 *wu, const bf16 *pm, const float *par, float *state,
                const u8 *p, u8 *ring, u8 *o, int n_tok, int skew, int pos0, int fresh)
{
    vl_enter();
    vl_wait();
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int slice = blockIdx.x, head = blockIdx.y, n_chunks = (n_tok + skew + 63) / 64;
    float *st = state + (u64)head * 16384 + slice * 32 + warp * 16 + g; /* [key][value] */
    float s[16][4];
    if (warp < 2)
#pragma unroll
        for (int n = 0; n < 16; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[n][e] = fresh ? 0.0f : st[(8 * n + 2 * t + (e & 1)) * 128 + 8 * (e >> 1)];
    if (VL_STAGES == 2)
        load_chain(c, wu, par, 0, Chunk(0, n_tok, skew), head, slice);
    copy_commit();
    for (int i = 0; i <= n_chunks; i++) {
        if (VL_STAGES == 1) {
            __syncthreads();
            if (i < n_chunks)
                load_chain(c, wu, par, i, Chunk(i, n_tok, skew), head, slice);
            if (i > 0)
                load_out(c, pm, par, i - 1, Chunk(i - 1, n_tok, skew), head);
            copy_commit();
        }
        copy_wait<0>();
        __syncthreads();
        if (VL_STAGES == 2) {
            if (i + 1 < n_chunks)
                load_chain(c, wu, par, i + 1, Chunk(i + 1, n_tok, skew), head, slice);
            if (i < n_chunks)
                load_out(c, pm, par, i, Chunk(i, n_tok, skew), head);
            copy_commit();
        }
        if (warp < 2) {
            if (i < n_chunks)
                chain_step(s, i, warp, lane);
        } else if (i > 0) {
            out_step(o, i - 1, Chunk(i - 1, n_tok, skew), head, slice, warp - 2, lane);
        }
    }
    if (warp < 2)
#pragma unroll
        for (int n = 0; n < 16; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                st[(8 * n + 2 * t + (e & 1)) * 128 + 8 * (e >> 1)] = s[n][e];
    save_rows(p, ring, n_tok, pos0, head, slice);
}
