/* delta_prep: prefill of a linear layer, second part, parallel over chunks of up to 64 tokens and
 * value heads: what the recurrence over chunks needs and no state enters.
 *
 * - c bf16 [n_tok, VL_CD] (from delta_conv); g, beta f32 [n_tok, VL_HV]
 * - chunk i covers tokens max(0, 64 i - skew) .. min(n_tok, 64 (i + 1) - skew): the grid of
 *   absolute positions
 * - Out, for each (chunk, value head): wu bf16: -W [64][128], then U [64][128]; pm bf16 [64][64]:
 *   P; par f32 [132]: e^gamma [64], e^(gamma_last - gamma) [64], e^gamma_last
 * - L_ij = beta_i e^(gamma_i - gamma_j) k_i.k_j (j < i), T = (I + L)^-1, U = T diag(beta) V,
 *   W = T diag(beta e^gamma) K, P_ij = e^(gamma_i - gamma_j) q_i.k_j (j <= i). Tokens past the end
 *   count as k = q = v = 0, beta = 0, g = 0.
 * - grid (n_chunks, VL_HV), block 128, dynamic shared memory VL_SHARED bytes
 * - bf16 products with f32 sums; gamma, L and the inverse in f32. twin: the token recurrence in
 *   tests/kernels (delta_chunk) */
#include "vl.cuh"

constexpr int KD = VL_HK * 128, CD = 2 * KD + VL_HV * 128, R = VL_HV / VL_HK, LS = 68;
/* Shared memory: tiles of q (later T diag(beta), T diag(beta e^gamma)), k, v; L; gates. */
constexpr u32 Q_AT = 0, K_AT = 16384, V_AT = 32768, L_AT = 49152, G_AT = L_AT + 64 * LS * 4,
              TU_AT = Q_AT, TW_AT = Q_AT + 8192;
static_assert(VL_SHARED >= G_AT + 128 * 4, "shared memory");

extern __shared__ __align__(1024) u8 sm[];

__device__ __forceinline__ void load_tiles(const u8 *c, int first, int n, int head)
{
    const u8 *src[3] = {c + (head / R) * 256, c + (KD + (head / R) * 128) * 2,
                        c + (2 * KD + head * 128) * 2};
#pragma unroll
    for (int tile = 0; tile < 3; tile++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int unit = threadIdx.x + 128 * i, row = unit >> 4;
            const u8 *from =
                src[tile] + (u64)(first + (row < n ? row : 0)) * CD * 2 + (unit & 15) * 16;
            copy16_or_zero(shared_addr(sm + tile * 16384) + tile_at<16>(row, unit & 15), from,
                           row < n);
        }
    copy_commit();
}

/* gamma (prefix sums of g) and beta into shared memory, and this pair's parameters to global
 * memory: the first warp. */
__device__ __forceinline__ void load_gates(const float *g, const float *beta, float *par, int first,
                                           int n, int head)
{
    float *gamma = (float *)(sm + G_AT), *bet = gamma + 64;
    const int lane = threadIdx.x, a = 2 * lane, b = a + 1;
    float ga = a < n ? g[(u64)(first + a) * VL_HV + head] : 0.0f,
          gb = b < n ? g[(u64)(first + b) * VL_HV + head] : 0.0f;
    gb += ga;
    float before = gb;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        const float v = __shfl_up_sync(~0u, before, d);
        if (lane >= d)
            before += v;
    }
    const float last = __shfl_sync(~0u, before, 31);
    before -= gb;
    gamma[a] = before + ga;
    gamma[b] = before + gb;
    bet[a] = a < n ? beta[(u64)(first + a) * VL_HV + head] : 0.0f;
    bet[b] = b < n ? beta[(u64)(first + b) * VL_HV + head] : 0.0f;
    par[a] = __expf(before + ga);
    par[b] = __expf(before + gb);
    par[64 + a] = __expf(last - (before + ga));
    par[64 + b] = __expf(last - (before + gb));
    if (lane == 0)
        par[128] = __expf(last);
}

/* x = column `col` of (I + L)^-1 by forward substitution; every thread of the first two warps has a
 * column. */
__device__ __forceinline__ void invert(int col)
{
    const float *L = (const float *)(sm + L_AT), *gamma = (const float *)(sm + G_AT),
                *bet = gamma + 64;
    float x[64];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        float s[4] = {i == col ? 1.0f : 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int j = 0; j < i; j += 4) {
            const float4 l = *(const float4 *)(L + i * LS + j);
            s[0] -= l.x * x[j];
            if (j + 1 < i)
                s[1] -= l.y * x[j + 1];
            if (j + 2 < i)
                s[2] -= l.z * x[j + 2];
            if (j + 3 < i)
                s[3] -= l.w * x[j + 3];
        }
        x[i] = (s[0] + s[1]) + (s[2] + s[3]);
    }
    const float bu = bet[col], bw = bu * __expf(gamma[col]);
#pragma unroll
    for (int i = 0; i < 64; i++) {
        const u32 at = tile_at<8>(i, col >> 3) + (col & 7) * 2;
        *(bf16 *)(sm + TU_AT + at) = bf_round(x[i] * bu);
        *(bf16 *)(sm + TW_AT + at) = bf_round(x[i] * bw);
    }
}

/* Rows 16 warp .. + 15 of T x (a tile of 64 x 128), rounded to bf16, with this sign, to out
 * [64][128]. */
__device__ __forceinline__ void product(u32 t_at, u32 x_at, float sign, bf16 *out, int warp,
                                        int lane)
{
    const int q4 = lane >> 3, l7 = lane & 7, g = lane >> 2, t = lane & 3;
    float acc[16][4] = {};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if (k > warp) /* T is lower triangular */
            continue;
        u32 a[4];
        ldmatrix(a, shared_addr(sm + t_at) +
                        tile_at<8>(16 * warp + (q4 & 1) * 8 + l7, 2 * k + (q4 >> 1)));
#pragma unroll
        for (int n = 0; n < 8; n++) {
            u32 b[4];
            ldmatrix_t(b, shared_addr(sm + x_at) +
                              tile_at<16>(16 * k + (q4 & 1) * 8 + l7, 2 * n + (q4 >> 1)));
            mma(acc[2 * n], a, b[0], b[1]);
            mma(acc[2 * n + 1], a, b[2], b[3]);
        }
    }
#pragma unroll
    for (int n = 0; n < 16; n++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            *(u32 *)(out + (16 * warp + g + 8 * h) * 128 + 8 * n + 2 * t) =
                bf_pack(sign * acc[n][2 * h], sign * acc[n][2 * h + 1]);
}

/* Rows 16 warp .. of K K^T (strictly lower, into L) and of Q K^T (lower, to global memory). */
__device__ __forceinline__ void scores(bf16 *pm, int warp, int lane)
{
    const int q4 = lane >> 3, l7 = lane & 7, g = lane >> 2, t = lane & 3;
    const float *gamma = (const float *)(sm + G_AT), *bet = gamma + 64;
    float *L = (float *)(sm + L_AT);
    float kk[8][4] = {}, qk[8][4] = {};
#pragma unroll
    for (int k = 0; k < 8; k++) {
        u32 a[4], q[4], b[4];
        const u32 at = tile_at<16>(16 * warp + (q4 & 1) * 8 + l7, 2 * k + (q4 >> 1));
        ldmatrix(a, shared_addr(sm + K_AT) + at);
        ldmatrix(q, shared_addr(sm + Q_AT) + at);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            if (n > warp)
                continue;
            ldmatrix(b, shared_addr(sm + K_AT) +
                            tile_at<16>(16 * n + (q4 >> 1) * 8 + l7, 2 * k + (q4 & 1)));
            mma(kk[2 * n], a, b[0], b[1]);
            mma(kk[2 * n + 1], a, b[2], b[3]);
            mma(qk[2 * n], q, b[0], b[1]);
            mma(qk[2 * n + 1], q, b[2], b[3]);
        }
    }
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int i = 16 * warp + g + 8 * h, j = 8 * n + 2 * t;
            /* Only differences that are <= 0 are exponentiated: the mask comes first. */
            const float e0 = j <= i ? __expf(gamma[i] - gamma[j]) : 0.0f,
                        e1 = j < i ? __expf(gamma[i] - gamma[j + 1]) : 0.0f;
            L[i * LS + j] = j < i ? bet[i] * e0 * kk[n][2 * h] : 0.0f;
            L[i * LS + j + 1] = j + 1 < i ? bet[i] * e1 * kk[n][2 * h + 1] : 0.0f;
            *(u32 *)(pm + i * 64 + j) = bf_pack(e0 * qk[n][2 * h], e1 * qk[n][2 * h + 1]);
        }
}

extern "C" __global__ void __launch_bounds__(128)
    delta_prep(const u8 *c, const float *g, const float *beta, bf16 *wu, bf16 *pm, float *par,
               int n_tok, int skew)
{
    vl_enter();
    vl_wait();
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, head = blockIdx.y;
    const int first = max(0, 64 * (int)blockIdx.x - skew),
              n = min(n_tok, 64 * ((int)blockIdx.x + 1) - skew) - first;
    const u64 pair = (u64)blockIdx.x * VL_HV + head;
    load_tiles(c, first, n, head);
    if (warp == 0)
        load_gates(g, beta, par + pair * 132, first, n, head);
    copy_wait<0>();
    __syncthreads();
    scores(pm + pair * 4096, warp, lane);
    __syncthreads();
    if (threadIdx.x < 64)
        invert(threadIdx.x);
    __syncthreads();
    product(TW_AT, K_AT, -1.0f, wu + pair * 16384, warp, lane);
    product(TU_AT, V_AT, 1.0f, wu + pair * 16384 + 8192, warp, lane);
}
