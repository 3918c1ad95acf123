/* form_amx.c: the blocked product of bf16 weights on AMX tiles. Compiled with -mamx-tile -mamx-bf16.
 *
 * A tile product takes 16 rows of weights, 32 values of the reduction and 16 rows of x. The weights
 * are the left operand, so their row-major layout fits as it is: a strip of 32 rows is copied once into
 * tiles of 1 KiB (which fetches it from memory and makes every edge zero) and then meets all of x.
 * The result is y transposed; it is turned on its way out. */
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plugins/common/cpu/kernels.h"

#define TILE 16        /* rows of a tile; also 32-bit columns */
#define TILE_K 32      /* reduction of one product */
#define BLOCK 32       /* rows of weights, and rows of x, that meet in registers: 2 x 2 tiles */
#define K_PASS 512     /* reduction in one pass: 32 KiB of weights, which the first cache holds */
#define C_LD VL_CPU_PASS_ROWS

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

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
    _tile_loadconfig(&c);
}

/* Weights [m <= BLOCK, n_k] to tiles [n_k / 32 rounded up][2][16][32], zero at the edges. */
static void pack_weights(const uint16_t *w, size_t w_ld, size_t m, size_t n_k, uint16_t *tiles)
{
    for (size_t r = 0; r < BLOCK; r++) {
        uint16_t *dst = tiles + (r / TILE) * TILE * TILE_K + (r % TILE) * TILE_K;
        const uint16_t *src = w + r * w_ld;
        size_t k = 0;
        if (r >= m) {
            for (; k < n_k; k += TILE_K, dst += 2 * TILE * TILE_K)
                _mm512_store_si512(dst, _mm512_setzero_si512());
            continue;
        }
        for (; k + TILE_K <= n_k; k += TILE_K, dst += 2 * TILE * TILE_K) {
            _mm_prefetch((const char *)(src + k) + 2048, _MM_HINT_T0);
            _mm512_store_si512(dst, _mm512_loadu_si512(src + k));
        }
        if (k < n_k)
            _mm512_store_si512(
                dst, _mm512_maskz_loadu_epi16((__mmask32)((1ull << (n_k - k)) - 1), src + k));
    }
}

/* c[32, 32] (+)= tiles . x, c row-major with stride C_LD; n_k a multiple of TILE_K. Tiles 0 to 3 are c. */
static void product(const uint16_t *tiles, size_t n_k, const uint32_t *x, float *c, bool first)
{
    const int x_step = VL_CPU_PANEL * 4, c_step = C_LD * 4;

    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, c, c_step);
        _tile_loadd(1, c + TILE, c_step);
        _tile_loadd(2, c + (size_t)TILE * C_LD, c_step);
        _tile_loadd(3, c + (size_t)TILE * C_LD + TILE, c_step);
    }
    for (size_t k = 0; k < n_k; k += TILE_K) {
        _tile_loadd(4, tiles, 64);
        _tile_loadd(6, x, x_step);
        _tile_loadd(7, x + TILE, x_step);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, tiles + TILE * TILE_K, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        tiles += 2 * TILE * TILE_K;
        x += (size_t)TILE * VL_CPU_PANEL;
    }
    _tile_stored(0, c, c_step);
    _tile_stored(1, c + TILE, c_step);
    _tile_stored(2, c + (size_t)TILE * C_LD, c_step);
    _tile_stored(3, c + (size_t)TILE * C_LD + TILE, c_step);
}

void vl_cpu_amx_strip(const uint16_t *w, size_t w_ld, size_t m, size_t in, const uint32_t *panels,
                      size_t panel_size, size_t n_rows, float *y, size_t y_ld, void *scratch)
{
    uint16_t *tiles = scratch;
    float *c = (float *)(void *)((char *)scratch + (size_t)BLOCK * K_PASS * sizeof(uint16_t));
    size_t in_padded = (in + TILE_K - 1) / TILE_K * TILE_K;

    load_config();
    for (size_t o = 0; o < m; o += BLOCK) {
        size_t n_o = m - o < BLOCK ? m - o : BLOCK;
        for (size_t k = 0; k < in_padded; k += K_PASS) {
            size_t n_k = in - k < K_PASS ? in - k : K_PASS;
            size_t n_k_padded = in_padded - k < K_PASS ? in_padded - k : K_PASS;
            pack_weights(w + o * w_ld + k, w_ld, n_o, n_k, tiles);
            for (size_t r = 0; r < n_rows; r += BLOCK) {
                const uint32_t *x = panels + r / VL_CPU_PANEL * panel_size +
                                    k / 2 * VL_CPU_PANEL + r % VL_CPU_PANEL;
                product(tiles, n_k_padded, x, c + r, k == 0);
            }
        }
        vl_cpu_kernels_avx512_bf16.transpose((const uint32_t *)(const void *)c, C_LD,
                                             (uint32_t *)(void *)(y + o), y_ld, n_o, n_rows);
    }
    _tile_release();
}
