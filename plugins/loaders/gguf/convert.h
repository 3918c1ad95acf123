/* plugins/loaders/gguf/convert.h: the bytes of a tensor from the file's meaning to Hugging Face's.
 * Pure: no I/O, no memory of its own. */
#ifndef VL_GGUF_CONVERT_H
#define VL_GGUF_CONVERT_H

#include "vallmo/abi.h"

/* Value heads from tiled order (slot p uses key head p % nk) to grouped order (head h uses key head
 * h / (nv / nk)). nk divides nv. The map is its own inverse only where nk == nv / nk. */
static inline uint64_t vl_gguf_slot_of_head(uint64_t h, uint64_t nk, uint64_t nv)
{
    uint64_t r = nv / nk;
    return h % r * nk + h / r;
}

/* dst and src: head_bytes that stay, then nv blocks of block_bytes, from tiled to grouped. No
 * overlap. */
void vl_gguf_untile(uint8_t *dst, const uint8_t *src, uint64_t head_bytes, uint64_t block_bytes,
                    uint64_t nk, uint64_t nv);

/* n elements of dtype (F32, F16, BF16) as f32. */
void vl_gguf_widen(float *dst, const uint8_t *src, int32_t dtype, uint64_t n);

/* The zero-centred weight from the stored 1 + w, in place. */
void vl_gguf_norm(float *x, uint64_t n);

/* A_log from the stored -exp(A_log), in place. VL_E_FORMAT, with index and value, where x is not
 * below zero or not finite. */
vl_status vl_gguf_a_log(float *x, uint64_t n, vl_error *err);

#endif
