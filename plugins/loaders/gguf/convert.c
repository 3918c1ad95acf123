/* plugins/loaders/gguf/convert.c: undoing what the converter to GGUF did to values. */
#include "plugins/loaders/gguf/convert.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plugins/common/cpu/bf16.h"

void vl_gguf_untile(uint8_t *dst, const uint8_t *src, uint64_t head_bytes, uint64_t block_bytes,
                    uint64_t nk, uint64_t nv)
{
    memcpy(dst, src, head_bytes);
    for (uint64_t h = 0; h < nv; h++)
        memcpy(dst + head_bytes + h * block_bytes,
               src + head_bytes + vl_gguf_slot_of_head(h, nk, nv) * block_bytes, block_bytes);
}

void vl_gguf_widen(float *dst, const uint8_t *src, int32_t dtype, uint64_t n)
{
    if (dtype == VL_DTYPE_F32) {
        memcpy(dst, src, n * sizeof(float));
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, sizeof(h));
        dst[i] = dtype == VL_DTYPE_BF16 ? bf16_to_f32(h) : f16_to_f32(h);
    }
}

void vl_gguf_norm(float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] -= 1.0f;
}

vl_status vl_gguf_a_log(float *x, uint64_t n, vl_error *err)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!(x[i] < 0.0f) || !isfinite(x[i]))
            return vl_error_set(err, VL_E_FORMAT,
                                "value %llu is %g, want a finite number below zero",
                                (unsigned long long)i, (double)x[i]);
        x[i] = (float)log(
            -(double)x[i]); /* in double: one rounding, so that a bf16 A_log comes back exactly */
    }
    return VL_OK;
}
