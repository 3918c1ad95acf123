/* bench/cpu_floors.h: what the machine itself can do: the floors that the kernels are measured
 * beside. */
#ifndef VL_BENCH_CPU_FLOORS_H
#define VL_BENCH_CPU_FLOORS_H

#include <stddef.h>
#include <stdint.h>

double
bench_now(void); /* seconds, monotonic; or of the calling thread's processor time, see below */
/* On a machine that others use too: count the calling thread's processor time instead. Only with
 * one thread. */
void bench_use_cpu_clock(void);

/* Bytes per second at which n_threads read `bytes` of memory once, as fast as plain loads can: the
 * best of several numbers of streams and prefetch distances, n_runs each. memory: 64-byte
 * aligned. */
double bench_stream_read(const void *memory, size_t bytes, int n_threads, int n_runs);

/* Multiply-adds times two per second, from registers alone, of the instruction that a form's
 * products use (VL_CPU_AVX2: ymm fma, VL_CPU_AVX512: zmm fma, VL_CPU_AVX512_BF16: vdpbf16ps,
 * VL_CPU_AMX_BF16: tdpbf16ps; VL_CPU_SCALAR: 0). The form must be supported. */
double bench_multiply_peak(int32_t form, int n_threads, int n_runs);

#endif
