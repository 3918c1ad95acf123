/* form_avx2.c: the kernels with AVX2 vectors; activations stay in f32. Compiled with that form's
 * flags. */
#include "plugins/common/cpu/vec_avx2.h"

#include "plugins/common/cpu/bf16.h"
#include "plugins/common/cpu/simd_matmul.h"
#include "plugins/common/cpu/simd_ops.h"

static void to_bf16(const float *x, uint16_t *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = bf16_of_f32(x[i]);
}

const vl_cpu_kernels vl_cpu_kernels_avx2 = {
    .form = VL_CPU_AVX2,
    .to_bf16 = to_bf16,
    SIMD_OPS,
};
