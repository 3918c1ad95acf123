/* thin_matmul: Y[b, n] = sum_k X[b, k] W[n, k] for up to VL_B (8 or 16) rows b, weights read once,
 * straight from row-major order.
 *
 * - w bf16 [VL_N, VL_K]; x bf16 [n_rows, VL_K]; all 16-byte aligned
 * - RMSNorm costs no kernel of its own here: who makes the residual (mode 1) also leaves xn =
 *   bf16(residual * norm_w), [b, VL_N], and the sum of squares of each eight columns, ss f32 [b,
 *   VL_N / 8]; who reads such an x scales its sums by 1 / rms, from ss_in f32 [b, VL_K / 8].
 *   norm_w (with xn, ss) and ss_in may be NULL: then there is nothing to leave, or x is already
 *   normed
 * - y by VL_MODE: 0 bf16 [b, VL_N]; 1 f32 [b, VL_N] += (the residual); 2 bf16 [b, VL_N / 2] =
 *   silu(gate) * up, where rows of W are gate and up in turns of eight; 3 f32 [b, VL_N]
 * - grid (ceil(VL_N / (8 VL_GROUPS))), block 32 VL_WARPS; VL_K % 64 == 0, VL_N % 8 == 0 (16 in
 *   mode 2)
 * - The rows of X are the M side of the tensor-core product, eight weight rows the N side; a
 *   block's warps split K in chunks of 64 and their sums meet in shared memory in fixed order, so
 *   a row's result does not depend on the other rows.
 * - The order of k inside a chunk is permuted alike in both operands: a lane's 16 bytes serve two
 *   products.
 * - f32 accumulation. moves 2 VL_N VL_K bytes. twin: matmul in tests/kernels; relative RMS <= 4e-3
 *   (one bf16 rounding) */
#include "vl.cuh"

constexpr int CHUNKS = VL_K / 64;
constexpr int PER_WARP = (CHUNKS + VL_WARPS - 1) / VL_WARPS;
constexpr int DEPTH = PER_WARP < VL_DEPTH ? PER_WARP : VL_DEPTH; /* chunks in flight */
constexpr int COLS = 8 * VL_GROUPS;
static_assert(VL_K % 64 == 0 && VL_N % 8 == 0, "shape");
static_assert(VL_MODE != 2 || (VL_GROUPS % 2 == 0 && VL_N % 16 == 0),
              "gate and up rows come in pairs of groups");

__shared__ float sums[VL_WARPS][VL_B][COLS + 2];
__shared__ float factor[VL_B];

constexpr int SQUARES = (VL_K / 8 + 31) / 32; /* a lane, of one row */

/* 1 / rms of each row: a warp a row. mine: the squares of row `warp`, already loaded. */
__device__ __forceinline__ void norm_factors(const float (&mine)[SQUARES], const float *ss_in,
                                             int warp, int lane, int n_rows)
{
    for (int b = warp; b < n_rows; b += VL_WARPS) {
        float s = 0.0f;
#pragma unroll
        for (int i = 0; i < SQUARES; i++)
            s += b == warp                  ? mine[i]
                 : lane + 32 * i < VL_K / 8 ? ss_in[b * (VL_K / 8) + lane + 32 * i]
                                            : 0.0f;
        s = warp_sum(s);
        if (lane == 0)
            factor[b] = rsqrtf(s * (1.0f / VL_K) + VL_EPS);
    }
}

/* The residual's element (b, col) grows by v; its part of the next norm. Lanes of a group of eight
 * have consecutive columns. */
__device__ __forceinline__ void residual(float *x, const float *norm_w, bf16 *xn, float *ss, u64 b,
                                         int col, float v, bool real)
{
    float now = 0.0f;
    if (real) {
        now = x[b * VL_N + col] + v;
        x[b * VL_N + col] = now;
        if (norm_w != nullptr)
            xn[b * VL_N + col] = bf_round(now * norm_w[col]);
    }
    float q = now * now;
#pragma unroll
    for (int d = 1; d < 8; d <<= 1)
        q += __shfl_xor_sync(~0u, q, d);
    if (real && norm_w != nullptr && (col & 7) == 0)
        ss[b * (VL_N / 8) + col / 8] = q;
}

__device__ __forceinline__ void load_weights(uint4 (&f)[VL_GROUPS][2], const u8 *w, int row0,
                                             int chunk, int g, int t)
{
#pragma unroll
    for (int i = 0; i < VL_GROUPS; i++) {
        int row = row0 + 8 * i + g;
        if (VL_N % COLS != 0 && row >= VL_N)
            row = VL_N - 1;
        const u8 *p = w + ((u64)row * VL_K + chunk * 64 + 8 * t) * 2;
        f[i][0] = ld_stream(p);
        f[i][1] = ld_stream(p + 64);
    }
}

extern "C" __global__ void __launch_bounds__(32 * VL_WARPS)
    thin_matmul(const u8 *w, const u8 *x, const float *ss_in, void *y, const float *norm_w,
                bf16 *xn, float *ss, int n_rows)
{
    vl_enter();
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int row0 = blockIdx.x * COLS;
    uint4 f[DEPTH][VL_GROUPS][2];
    float acc[VL_GROUPS][4] = {};
#pragma unroll
    for (int d = 0; d < DEPTH; d++)
        if (warp + d * VL_WARPS < CHUNKS)
            load_weights(f[d], w, row0, warp + d * VL_WARPS, g, t);
    vl_wait();
    const bool lo = g<n_rows, hi = VL_B> 8 && g + 8 < n_rows;
    const u8 *xl = x + ((u64)g * VL_K + 8 * t) * 2, *xh = xl + (u64)8 * VL_K * 2;
    float squares[SQUARES];
#pragma unroll
    for (int i = 0; i < SQUARES; i++)
        squares[i] = VL_MODE != 1 && ss_in != nullptr && warp < n_rows && lane + 32 * i < VL_K / 8
                         ? ss_in[warp * (VL_K / 8) + lane + 32 * i]
                         : 0.0f;
#pragma unroll
    for (int c0 = 0; c0 < PER_WARP; c0 += DEPTH) {
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            if (c0 + d >= PER_WARP)
                continue;
            const int chunk = warp + (c0 + d) * VL_WARPS;
            if (CHUNKS % VL_WARPS != 0 && chunk >= CHUNKS)
                continue;
            uint4 a[2], b[2] = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
            a[0] = a[1] = make_uint4(0, 0, 0, 0);
            if (lo) {
                a[0] = *(const uint4 *)(xl + chunk * 128);
                a[1] = *(const uint4 *)(xl + chunk * 128 + 64);
            }
            if (hi) {
                b[0] = *(const uint4 *)(xh + chunk * 128);
                b[1] = *(const uint4 *)(xh + chunk * 128 + 64);
            }
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int i = 0; i < VL_GROUPS; i++) {
                    mma(acc[i], a[h].x, b[h].x, a[h].y, b[h].y, f[d][i][h].x, f[d][i][h].y);
                    mma(acc[i], a[h].z, b[h].z, a[h].w, b[h].w, f[d][i][h].z, f[d][i][h].w);
                }
            const int next = chunk + DEPTH * VL_WARPS;
            if (c0 + d + DEPTH < PER_WARP && next < CHUNKS)
                load_weights(f[d], w, row0, next, g, t);
        }
    }
#pragma unroll
    for (int i = 0; i < VL_GROUPS; i++) {
        sums[warp][g][8 * i + 2 * t] = acc[i][0];
        sums[warp][g][8 * i + 2 * t + 1] = acc[i][1];
        if (VL_B > 8) {
            sums[warp][(g + 8) % VL_B][8 * i + 2 * t] = acc[i][2];
            sums[warp][(g + 8) % VL_B][8 * i + 2 * t + 1] = acc[i][3];
        }
    }
    if (VL_MODE != 1 && ss_in != nullptr)
        norm_factors(squares, ss_in, warp, lane, n_rows);
    __syncthreads();
    constexpr int OUT = VL_MODE == 2 ? COLS / 2 : COLS;
    for (int i0 = 0; i0 < OUT * n_rows; i0 += 32 * VL_WARPS) {
        const int i = i0 + threadIdx.x, b = i / OUT, o = i % OUT,
                  col = VL_MODE == 2 ? (o / 8) * 16 + o % 8 : o;
        const bool real = i < OUT * n_rows && (VL_N % COLS == 0 || row0 + col < VL_N);
        float v = 0.0f, up = 0.0f;
        if (real) {
#pragma unroll
            for (int j = 0; j < VL_WARPS; j++) {
                v += sums[j][b][col];
                if (VL_MODE == 2)
                    up += sums[j][b][col + 8];
            }
            if (VL_MODE != 1 && ss_in != nullptr) {
                v *= factor[b];
                up *= factor[b];
            }
        }
        if (VL_MODE == 1)
            residual((float *)y, norm_w, xn, ss, b, row0 + col, v, real);
        else if (!real)
            continue;
        else if (VL_MODE == 0)
            ((bf16 *)y)[(u64)b * VL_N + row0 + o] = bf_round(v);
        else if (VL_MODE == 2)
            ((bf16 *)y)[(u64)b * (VL_N / 2) + row0 / 2 + o] = bf_round(silu(v) * up);
        else
            ((float *)y)[(u64)b * VL_N + row0 + o] = v;
    }
}
