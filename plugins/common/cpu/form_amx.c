/* form_amx.c: the blocked product of bf16 weights on AMX tiles. Compiled with -mamx-tile
 * -mamx-bf16.
 *
 * A tile product takes 16 rows of x, 32 values of the reduction and 16 rows of weights. x is the
 * left operand: row-major tiles of 1 KiB, made once per call. Weights are the right one, in pairs
 * along the reduction: a block of 32 rows is turned into such tiles in the cache (this fetches it
 * from memory and makes every edge zero), then meets all of x. (Fetching the next block's weights
 * meanwhile was tried in several ways and gained nothing: tile loads and fetches share the few line
 * buffers of a core.) */
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plugins/common/cpu/kernels.h"

#include "plugins/common/cpu/vec_avx512.h"

#include "plugins/common/cpu/pack_bf16.h"

#define TILE 16               /* rows of a tile; also its 32-bit columns */
#define TILE_K 32             /* reduction of one product */
#define BLOCK VL_CPU_AMX_ROWS /* rows of x, and of weights, that meet in registers: 2 x 2 tiles */
/* Reduction for which a block of weights is turned at a time: long, so that memory is read in long
 * pieces, but not longer than what of x stays in the second cache. */
#define K_LOAD_MIN 1024
#define K_LOAD_MAX 4096
#define X_BYTES ((size_t)1 << 20)
#define K_PASS                                                                                     \
    256 /* ... of which so much meets x at a time: 16 KiB of each, in the first cache              \
         */
#define PAST_FLOATS ((size_t)1 << 19)                             /* 2 MiB */
#define STEP_BYTES ((size_t)2 * TILE * TILE_K * sizeof(uint16_t)) /* both tiles of one TILE_K */

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

_Static_assert(K_LOAD_MAX / TILE_K * STEP_BYTES +
                       VL_CPU_AMX_PIECE * VL_CPU_PASS_ROWS * sizeof(float) <=
                   VL_CPU_THREAD_SCRATCH,
               "tiles and c of a strip fit the scratch");

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t column_bytes[16];
    uint8_t rows[16];
};

bool vl_cpu_amx_request(void)
{
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static void load_config(void)
{
    struct tile_config c;

    memset(&c, 0, sizeof(c));
    c.palette = 1;
    for (int i = 0; i < 8; i++) {
        c.column_bytes[i] = 64;
        c.rows[i] = TILE;
    }
    /* The intrinsic of GCC 12 tells the compiler of the first 8 bytes alone. */
    __asm__ volatile("" : : "r"(&c) : "memory");
    _tile_loadconfig(&c);
}

void vl_cpu_amx_pack(const float *x, size_t x_ld, size_t n_rows, size_t in, size_t k_begin,
                     size_t k_end, char *block)
{
    for (size_t r = 0; r < BLOCK; r++) {
        char *dst =
            block + k_begin / TILE_K * STEP_BYTES + r / TILE * STEP_BYTES / 2 + r % TILE * 64;
        const float *src = x + r * x_ld;
        for (size_t k = k_begin; k < k_end; k += TILE_K, dst += STEP_BYTES) {
            size_t n = r >= n_rows || k >= in ? 0 : in - k < TILE_K ? in - k : TILE_K;
            __mmask32 mask = (__mmask32)((1ull << n) - 1);
            __m512 lo = _mm512_maskz_loadu_ps((__mmask16)mask, src + k);
            __m512 hi = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), src + k + 16);
            _mm512_store_si512(dst, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
        }
    }
}

/* Weights [m <= BLOCK, n_k] to tiles [n_k / 32 rounded up][2][16 pairs][16 rows], zero at the
 * edges. */
static void pack_weights(const uint16_t *w, size_t w_ld, size_t m, size_t n_k, char *tiles)
{
    for (size_t half = 0; half < 2; half++) {
        const uint16_t *src = w + half * TILE * w_ld;
        size_t rows = m <= half * TILE ? 0 : m - half * TILE < TILE ? m - half * TILE : TILE;
        char *dst = tiles + half * STEP_BYTES / 2;
        __m512i r[16];
        size_t k = 0;
        for (; rows == TILE && k + TILE_K <= n_k; k += TILE_K, dst += STEP_BYTES) {
#pragma GCC unroll 16
            for (int i = 0; i < TILE; i++)
                r[i] = _mm512_loadu_si512(src + (size_t)i * w_ld + k);
            store_turned(r, (uint32_t *)(void *)dst, 16);
        }
        for (; k < n_k; k += TILE_K, dst += STEP_BYTES) {
            size_t n = n_k - k < TILE_K ? n_k - k : TILE_K;
            for (size_t i = 0; i < TILE; i++)
                r[i] = i < rows ? _mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1),
                                                           src + i * w_ld + k)
                                : _mm512_setzero_si512();
            store_turned(r, (uint32_t *)(void *)dst, 16);
        }
    }
}

/* c[32, 32] (+)= x . tiles, over n_steps of TILE_K. */
static void product(const char *x, const char *tiles, size_t n_steps, float *c, bool first)
{
    const int c_step = BLOCK * 4;

    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, c, c_step);
        _tile_loadd(1, c + TILE, c_step);
        _tile_loadd(2, c + TILE * BLOCK, c_step);
        _tile_loadd(3, c + TILE * BLOCK + TILE, c_step);
    }
    for (size_t i = 0; i < n_steps; i++, x += STEP_BYTES, tiles += STEP_BYTES) {
        _tile_loadd(6, tiles, 64);
        _tile_loadd(4, x, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, tiles + STEP_BYTES / 2, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, x + STEP_BYTES / 2, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_step);
    _tile_stored(1, c + TILE, c_step);
    _tile_stored(2, c + TILE * BLOCK, c_step);
    _tile_stored(3, c + TILE * BLOCK + TILE, c_step);
}

/* Copies c [blocks of m][n_rows rounded up][BLOCK] to y [n_rows, m]: a row of y in one go, since
 * short pieces of far rows are slow to write. A y beyond the caches goes past them where it is
 * aligned: that spares reading it first. */
static void store_rows(const float *c, size_t block_floats, size_t n_rows, size_t m, float *y,
                       size_t y_ld)
{
    bool past = (uintptr_t)y % 64 == 0 && y_ld % 16 == 0 && n_rows * y_ld > PAST_FLOATS;

    for (size_t r = 0; r < n_rows; r++, c += BLOCK, y += y_ld) {
        const float *src = c;
        size_t o = 0;
        for (; o + BLOCK <= m; o += BLOCK, src += block_floats) {
            __m512 lo = _mm512_load_ps(src), hi = _mm512_load_ps(src + 16);
            if (past) {
                _mm512_stream_ps(y + o, lo);
                _mm512_stream_ps(y + o + 16, hi);
            } else {
                _mm512_storeu_ps(y + o, lo);
                _mm512_storeu_ps(y + o + 16, hi);
            }
        }
        if (o < m) {
            __mmask32 mask = (__mmask32)((1ull << (m - o)) - 1);
            _mm512_mask_storeu_ps(y + o, (__mmask16)mask, _mm512_load_ps(src));
            _mm512_mask_storeu_ps(y + o + 16, (__mmask16)(mask >> 16), _mm512_load_ps(src + 16));
        }
    }
    if (past)
        _mm_sfence(); /* other threads read y next */
}

void vl_cpu_amx_strip(const uint16_t *w, size_t w_ld, size_t m, size_t in, const char *blocks,
                      size_t n_rows, float *y, size_t y_ld, void *scratch)
{
    char *tiles = scratch;
    /* [blocks of m][blocks of x][BLOCK, BLOCK] */
    float *c = (float *)(void *)(tiles + K_LOAD_MAX / TILE_K * STEP_BYTES);
    size_t block_bytes = (in + TILE_K - 1) / TILE_K * STEP_BYTES;
    size_t n_blocks = (n_rows + BLOCK - 1) / BLOCK;
    size_t k_load = X_BYTES / (n_blocks * BLOCK * sizeof(uint16_t)) / K_PASS * K_PASS;

    k_load = k_load < K_LOAD_MIN ? K_LOAD_MIN : k_load > K_LOAD_MAX ? K_LOAD_MAX : k_load;
    load_config();
    for (size_t k = 0; k < in; k += k_load) {
        size_t n_k = in - k < k_load ? in - k : k_load;
        for (size_t o = 0; o < m; o += BLOCK) {
            pack_weights(w + o * w_ld + k, w_ld, m - o < BLOCK ? m - o : BLOCK, n_k, tiles);
            for (size_t l = 0; l < n_k; l += K_PASS) {
                size_t steps = ((n_k - l < K_PASS ? n_k - l : K_PASS) + TILE_K - 1) / TILE_K;
                for (size_t b = 0; b < n_blocks; b++)
                    product(blocks + b * block_bytes + (k + l) / TILE_K * STEP_BYTES,
                            tiles + l / TILE_K * STEP_BYTES, steps,
                            c + (o * n_blocks + b * BLOCK) * BLOCK, k + l == 0);
            }
        }
    }
    _tile_release();
    store_rows(c, n_blocks * BLOCK * BLOCK, n_rows, m, y, y_ld);
}

/* ---- small products of f32 operands ---- */

/* c[32, 32] (+)= a . b over n_steps of TILE_K; a and b with the strides of struct rounded. */
static void small_product(const uint16_t *a, const uint32_t *b, size_t n_steps, float *c,
                          size_t c_ld, bool accumulate)
{
    const size_t step = c_ld * sizeof(float), a_step = ROUND_BLOCK * sizeof(*a),
                 b_step = ROUND_BLOCK * sizeof(*b);

    if (accumulate) {
        _tile_loadd(0, c, step);
        _tile_loadd(1, c + TILE, step);
        _tile_loadd(2, c + TILE * c_ld, step);
        _tile_loadd(3, c + TILE * c_ld + TILE, step);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t i = 0; i < n_steps; i++, a += TILE_K, b += TILE_K / 2 * ROUND_BLOCK) {
        _tile_loadd(6, b, b_step);
        _tile_loadd(4, a, a_step);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + TILE, b_step);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + TILE * ROUND_BLOCK, a_step);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, step);
    _tile_stored(1, c + TILE, step);
    _tile_stored(2, c + TILE * c_ld, step);
    _tile_stored(3, c + TILE * c_ld + TILE, step);
}

/* Blocks of 32 x 32; one that sticks out of c goes through a buffer. */
static void rounded_product(const rounded *r, size_t m, size_t n, size_t k_len, float *c,
                            size_t c_ld, bool accumulate)
{
    float edge[BLOCK * BLOCK] __attribute__((aligned(64)));
    size_t n_steps = round_up(k_len) / TILE_K;

    for (size_t i = 0; i < m; i += BLOCK) {
        for (size_t j = 0; j < n; j += BLOCK) {
            size_t n_i = m - i < BLOCK ? m - i : BLOCK, n_j = n - j < BLOCK ? n - j : BLOCK;
            const uint16_t *a = r->a + i * ROUND_BLOCK;
            float *to = c + i * c_ld + j;
            if (n_i == BLOCK && n_j == BLOCK) {
                small_product(a, r->b + j, n_steps, to, c_ld, accumulate);
                continue;
            }
            memset(edge, 0, sizeof(edge));
            for (size_t e = 0; accumulate && e < n_i; e++)
                memcpy(edge + e * BLOCK, to + e * c_ld, n_j * sizeof(float));
            small_product(a, r->b + j, n_steps, edge, BLOCK, accumulate);
            for (size_t e = 0; e < n_i; e++)
                memcpy(to + e * c_ld, edge + e * BLOCK, n_j * sizeof(float));
        }
    }
}

void vl_cpu_amx_gemm(size_t m, size_t n, size_t k_len, const float *a, size_t a_row, size_t a_col,
                     const float *b, size_t b_ld, float *c, size_t c_ld, bool accumulate)
{
    load_config();
    round_gemm(rounded_product, m, n, k_len, a, a_row, a_col, b, b_ld, c, c_ld, accumulate);
    _tile_release();
}
