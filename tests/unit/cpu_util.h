/* tests/unit/cpu_util.h: what the CPU kernels' tests share: seeded numbers, guarded memory,
 * comparison. */
#ifndef VL_TESTS_CPU_UTIL_H
#define VL_TESTS_CPU_UTIL_H

#include "plugins/common/cpu/cpu.h"
#include "tests/unit/vl_test.h"

float test_uniform(uint64_t *state); /* in (-1, 1) */
void test_fill(float *x, size_t n, float scale, uint64_t seed);

/* bytes that end at a page that can't be read: an overrun is a crash. */
void *test_guarded(size_t bytes);
void test_guarded_free(void *p, size_t bytes);

uint16_t test_to_bf16(float x); /* nearest even; finite */
float test_from_bf16(uint16_t h);
uint16_t test_to_f16(float x);   /* nearest; |x| in [2^-14, 65504) or 0 */
float test_from_f16(uint16_t h); /* as test_to_f16 makes them */

/* Fails with max abs, relative L2 and the first bad index unless |a - b| <= abs + rel * |b| for
 * all. */
void test_close(const char *what, const float *a, const float *b, size_t n, float abs, float rel);

/* Opens form with n_threads, or NULL (and says so) when the processor lacks it. */
vl_cpu *test_open(int32_t form, int32_t n_threads, size_t max_in, size_t n_heads, size_t head_size);

#define FOR_EACH_FORM(form) for (int32_t form = VL_CPU_SCALAR; form < VL_CPU_N_FORMS; form++)

#endif
