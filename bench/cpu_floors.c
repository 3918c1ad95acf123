/* bench/cpu_floors.c: stream reads and register-only multiply loops. Knows no kernel of ours. */
#include "bench/cpu_floors.h"

#include <omp.h>
#include <string.h>
#include <time.h>

#include "plugins/common/cpu/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static clockid_t clock_id = CLOCK_MONOTONIC;

void bench_use_cpu_clock(void)
{
    clock_id = CLOCK_THREAD_CPUTIME_ID;
}

double bench_now(void)
{
    struct timespec t;
    clock_gettime(clock_id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile uint64_t sink;

#if defined(__x86_64__)
#define TARGET(x) __attribute__((target(x)))

/* One stream, or n_streams side by side, each an equal part of the range. */
TARGET("avx2")
static uint64_t read_range(const char *p, size_t bytes, size_t ahead, size_t n_streams)
{
    __m256i a = _mm256_setzero_si256(), b = a;
    size_t part = bytes / n_streams;

    for (size_t i = 0; i < part; i += 64) {
        for (size_t s = 0; s < n_streams; s++) {
            const char *q = p + s * part + i;
            if (ahead)
                _mm_prefetch(q + ahead, _MM_HINT_T0);
            a = _mm256_xor_si256(a, _mm256_load_si256((const void *)q));
            b = _mm256_xor_si256(b, _mm256_load_si256((const void *)(q + 32)));
        }
    }
    a = _mm256_xor_si256(a, b);
    return (uint64_t)_mm256_extract_epi64(a, 0) ^ (uint64_t)_mm256_extract_epi64(a, 1) ^
           (uint64_t)_mm256_extract_epi64(a, 2) ^ (uint64_t)_mm256_extract_epi64(a, 3);
}

/* n rounds of 12 independent chains; returns multiply-adds. */
TARGET("avx2,fma") static double peak_avx2(size_t n)
{
    __m256 a[12], x = _mm256_set1_ps(1.0f), y = _mm256_set1_ps(1e-9f);
    for (int i = 0; i < 12; i++)
        a[i] = _mm256_setzero_ps();
    for (size_t r = 0; r < n; r++) {
        __asm__ volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            a[i] = _mm256_fmadd_ps(x, y, a[i]);
    }
    for (int i = 1; i < 12; i++)
        a[0] = _mm256_add_ps(a[0], a[i]);
    sink ^= (uint64_t)_mm256_cvtss_f32(a[0]);
    return (double)n * 12 * 8;
}

TARGET("avx512f") static double peak_avx512(size_t n)
{
    __m512 a[24], x = _mm512_set1_ps(1.0f), y = _mm512_set1_ps(1e-9f);
    for (int i = 0; i < 24; i++)
        a[i] = _mm512_setzero_ps();
    for (size_t r = 0; r < n; r++) {
        __asm__ volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++)
            a[i] = _mm512_fmadd_ps(x, y, a[i]);
    }
    for (int i = 1; i < 24; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    sink ^= (uint64_t)_mm512_cvtss_f32(a[0]);
    return (double)n * 24 * 16;
}

TARGET("avx512f,avx512bf16") static double peak_avx512_bf16(size_t n)
{
    __m512 a[24];
    __m512i x = _mm512_set1_epi32(0x3f803f80), y = _mm512_set1_epi32(0x30803080);
    for (int i = 0; i < 24; i++)
        a[i] = _mm512_setzero_ps();
    for (size_t r = 0; r < n; r++) {
        __asm__ volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++)
            a[i] = _mm512_dpbf16_ps(a[i], (__m512bh)x, (__m512bh)y);
    }
    for (int i = 1; i < 24; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    sink ^= (uint64_t)_mm512_cvtss_f32(a[0]);
    return (double)n * 24 * 32;
}

TARGET("amx-tile,amx-bf16") static double peak_amx(size_t n)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t column_bytes[16];
        uint8_t rows[16];
    } config;
    memset(&config, 0, sizeof(config));
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.column_bytes[i] = 64;
        config.rows[i] = 16;
    }
    /* The intrinsic of GCC 12 tells the compiler of the first 8 bytes alone. */
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
    for (size_t r = 0; r < n; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return (double)n * 4 * 16 * 16 * 32;
}

static double peak_loop(int32_t form, size_t n)
{
    switch (form) {
    case VL_CPU_AVX2:
        return peak_avx2(n);
    case VL_CPU_AVX512:
        return peak_avx512(n);
    case VL_CPU_AVX512_BF16:
        return peak_avx512_bf16(n);
    case VL_CPU_AMX_BF16:
        return peak_amx(n);
    default:
        return 0;
    }
}
#else
static uint64_t read_range(const char *p, size_t bytes, size_t ahead, size_t n_streams)
{
    uint64_t sum = 0, v;
    (void)ahead;
    (void)n_streams;
    for (size_t i = 0; i < bytes; i += sizeof(v)) {
        memcpy(&v, p + i, sizeof(v));
        sum ^= v;
    }
    return sum;
}

static double peak_loop(int32_t form, size_t n)
{
    (void)form;
    (void)n;
    return 0;
}
#endif

double bench_stream_read(const void *memory, size_t bytes, int n_threads, int n_runs)
{
    static const size_t ahead[] = {0, 512, 1024, 2048, 4096}, streams[] = {1, 4, 8};
    const size_t piece = (size_t)256 << 10;
    const char *p = memory;
    double best = 0;

    for (size_t v = 0; v < 15; v++) {
        for (int run = 0; run < n_runs; run++) {
            double start = bench_now();
#pragma omp parallel for num_threads(n_threads) schedule(dynamic, 1)
            for (size_t i = 0; i < bytes / piece * piece; i += piece)
                sink ^= read_range(p + i, piece, ahead[v % 5], streams[v / 5]);
            double rate = (double)(bytes / piece * piece) / (bench_now() - start);
            best = rate > best ? rate : best;
        }
    }
    return best;
}

double bench_multiply_peak(int32_t form, int n_threads, int n_runs)
{
    const size_t n = form == VL_CPU_AMX_BF16 ? 400000 : 2000000;
    double best = 0;

    for (int run = 0; run < n_runs; run++) {
        double sum = 0, start = bench_now();
#pragma omp parallel num_threads(n_threads) reduction(+ : sum)
        sum += peak_loop(form, n);
        double rate = 2 * sum / (bench_now() - start);
        best = rate > best ? rate : best;
    }
    return best;
}
