/* thin_matmul: Y[b, n] = sum_k X[b, k] W[n, k] for up to VL_B (8 or 16) rows b, weights read once, straight from row-major order.
 * w bf16 [VL_N, VL_K]; x bf16 [n_rows, VL_K]; all 16-byte aligned
 * y by VL_MODE: 0 bf16 [b, VL_N]; 1 f32 [b, VL_N] += (the residual); 2 bf16 [b, VL_N / 2] = silu(gate) * up, where rows of W are
 *   gate and up in turns of eight; 3 f32 [b, VL_N]
 * grid (ceil(VL_N / (8 VL_GROUPS))), block 32 VL_WARPS; VL_K % 64 == 0, VL_N % 8 == 0 (16 in mode 2)
 * The rows of X are the M side of the tensor-core product, eight weight rows the N side; a block's warps split K in chunks of 64
 * and their sums meet in shared memory in fixed order, so a row's result does not depend on the other rows.
 * The order of k inside a chunk is permuted alike in both operands: a lane's 16 bytes serve two products.
 * f32 accumulation. moves 2 VL_N VL_K bytes. twin: matmul in tests/kernels; relative RMS <= 4e-3 (one bf16 rounding) */
#include "vl.cuh"

constexpr int CHUNKS = VL_K / 64;
constexpr int PER_WARP = (CHUNKS + VL_WARPS - 1) / VL_WARPS;
constexpr int DEPTH = PER_WARP < VL_DEPTH ? PER_WARP : VL_DEPTH; /* chunks in flight */
constexpr int COLS = 8 * VL_GROUPS;
static_assert(VL_K % 64 == 0 && VL_N % 8 == 0, "shape");
static_assert(VL_MODE != 2 || (VL_GROUPS % 2 == 0 && VL_N % 16 == 0), "gate and up rows come in pairs of groups");

__shared__ float sums[VL_WARPS][VL_B][COLS + 2];

__device__ __forceinline__ void load_weights(uint4 (&f)[VL_GROUPS][2], const u8 *w, int row0, int chunk, int g, int t)
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

extern "C" __global__ void __launch_bounds__(32 * VL_WARPS) thin_matmul(const u8 *w, const u8 *x, void *y, int n_rows)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int row0 = blockIdx.x * COLS;
    uint4 f[DEPTH][VL_GROUPS][2];
    float acc[VL_GROUPS][4] = {};
#pragma unroll
    for (int d = 0; d < DEPTH; d++)
        if (warp + d * VL_WARPS < CHUNKS)
            load_weights(f[d], w, row0, warp + d * VL_WARPS, g, t);
    vl_wait();
    const bool lo = g < n_rows, hi = VL_B > 8 && g + 8 < n_rows;
    const u8 *xl = x + ((u64)g * VL_K + 8 * t) * 2, *xh = xl + (u64)8 * VL_K * 2;
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
    __syncthreads();
    constexpr int OUT = VL_MODE == 2 ? COLS / 2 : COLS;
    for (int i = threadIdx.x; i < OUT * n_rows; i += 32 * VL_WARPS) {
        const int b = i / OUT, o = i % OUT, col = VL_MODE == 2 ? (o / 8) * 16 + o % 8 : o;
        if (VL_N % COLS != 0 && row0 + col >= VL_N)
            continue;
        float v = 0.0f, up = 0.0f;
#pragma unroll
        for (int j = 0; j < VL_WARPS; j++) {
            v += sums[j][b][col];
            if (VL_MODE == 2)
                up += sums[j][b][col + 8];
        }
        if (VL_MODE == 0)
            ((bf16 *)y)[(u64)b * VL_N + row0 + o] = bf_round(v);
        else if (VL_MODE == 1)
            ((float *)y)[(u64)b * VL_N + row0 + o] += v;
        else if (VL_MODE == 2)
            ((bf16 *)y)[(u64)b * (VL_N / 2) + row0 / 2 + o] = bf_round(silu(v) * up);
        else
            ((float *)y)[(u64)b * VL_N + row0 + o] = v;
    }
}
