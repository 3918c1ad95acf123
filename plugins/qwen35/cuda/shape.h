/* plugins/qwen35/cuda/shape.h: the sizes of a model, and the set of kernels compiled for them.
 * Knows no weights, no device memory. */
#ifndef VL_QWEN35_CUDA_SHAPE_H
#define VL_QWEN35_CUDA_SHAPE_H

#include "plugins/common/cuda/kernels.h"

typedef struct vl_q35_shape {
    int64_t hidden;    /* H */
    int64_t inner;     /* I */
    int64_t n_linear;  /* linear-attention layers */
    int64_t n_full;    /* full-attention layers */
    int64_t nq, nkv;   /* query and key/value heads, of 256 */
    int64_t hk, hv;    /* key and value heads of the linear layers, of 128 */
    int64_t vocab;     /* rows of the head */
    int64_t n_tokens;  /* of which can be sampled */
    int64_t n_rows;    /* most rows that decode at once */
    int64_t max_pages; /* of a sequence */
    float eps;
    bool z_sigmoid; /* the gate of the linear layers' norm is a sigmoid, not SiLU */
} vl_q35_shape;

/* Derived sizes, in elements. */
static inline int64_t vl_q35_vd(const vl_q35_shape *s)
{
    return s->hv * 128;
}
static inline int64_t vl_q35_cd(const vl_q35_shape *s)
{
    return 2 * s->hk * 128 + s->hv * 128;
}
/* Rows of the fused input projections, padded to 32 with rows of zeros: q|k|v|z|b|a, and (q, gate)
 * a head|k|v. */
static inline int64_t vl_q35_in_linear(const vl_q35_shape *s)
{
    return (vl_q35_cd(s) + vl_q35_vd(s) + 2 * s->hv + 31) / 32 * 32;
}
static inline int64_t vl_q35_in_full(const vl_q35_shape *s)
{
    return 512 * (s->nq + s->nkv);
}
static inline int64_t vl_q35_in_max(const vl_q35_shape *s)
{
    return vl_q35_in_linear(s) > vl_q35_in_full(s) ? vl_q35_in_linear(s) : vl_q35_in_full(s);
}
static inline int64_t vl_q35_out_max(const vl_q35_shape *s)
{
    return s->hv * 128 > s->nq * 256 ? s->hv * 128 : s->nq * 256;
}
static inline int64_t vl_q35_page_bytes(const vl_q35_shape *s)
{
    return s->n_full * 2 * s->nkv * 64 * 256 * 2;
}
static inline int64_t vl_q35_mask_words(const vl_q35_shape *s)
{
    return (s->vocab + 31) / 32;
}

/* The matrix products of a step. */
enum {
    VL_MM_IN_LINEAR,
    VL_MM_IN_FULL,
    VL_MM_OUT_LINEAR,
    VL_MM_OUT_FULL,
    VL_MM_GATE_UP,
    VL_MM_DOWN,
    VL_MM_HEAD,
    VL_N_MM
};

enum {
    VL_K_EMBED,
    VL_K_RMS_NORM,
    VL_K_QK_ROPE,
    VL_K_ATTN_DECODE,
    VL_K_ATTN_COMBINE,
    VL_K_ATTN_PREFILL,
    VL_K_DELTA_CONV,
    VL_K_DELTA_PREP,
    VL_K_DELTA_CHUNK,
    VL_K_DELTA_STEP,
    VL_K_GATED_LINEAR,
    VL_K_SWIGLU,
    VL_K_STEP_BEGIN,
    VL_K_PREFILL_BEGIN,
    VL_K_MARK_IDS,
    VL_K_LOGITS_SCAN,
    VL_K_SAMPLE_PICK,
    VL_K_LOGPROB_ROWS,
    VL_K_THIN8,                         /* + VL_MM_...: up to 8 rows */
    VL_K_THIN16 = VL_K_THIN8 + VL_N_MM, /* up to 16 */
    VL_N_KERNELS = VL_K_THIN16 + VL_N_MM
};

enum { VL_Q35_SPLITS = 32, VL_Q35_SPLIT_PAGES = 2, VL_Q35_SPLIT_ROWS = 128, VL_Q35_THIN_ROWS = 16 };

/* Rows n and depth k of a product's weights. */
void vl_q35_mm_size(const vl_q35_shape *s, int mm, int64_t *n, int64_t *k);
/* Describes all kernels (VL_N_KERNELS) for cards with that much shared memory a block and this
 * compute capability. */
void vl_q35_kernels(const vl_q35_shape *s, int32_t cc, int64_t shared_block_bytes,
                    vl_kernel *kernels);
/* Columns that one block of a thin product makes. */
int64_t vl_q35_thin_columns(const vl_q35_shape *s, int mm, int rows);

/* The embedded sources. */
extern const vl_kernel_source vl_q35_sources[];

#endif
