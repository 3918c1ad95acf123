/* plugins/qwen35/cuda/shape.c: see shape.h. The one place where sizes become constants of kernels.
 */
#include "plugins/qwen35/cuda/shape.h"

#include <stdio.h>
#include <string.h>

#include "plugins/common/cuda/ring.h"
#include "plugins/qwen35/cuda/kernels/slot.cuh"

/* How a thin product is cut: groups of eight weight rows a block, warps a block, chunks of 64 in
 * flight a warp. */
struct cut {
    int groups, warps, depth;
};

/* As measured on an H200 for the 4B: few, wide blocks, each with much in flight. */
static struct cut thin_cut(const vl_q35_shape *s, int mm, int rows)
{
    if (mm == VL_MM_DOWN &&
        s->inner >
            12288) /* the loop over a deep product is long: less in flight keeps it in registers */
        return (struct cut){2, 8, 2};
    if (s->hidden < 1024)
        return (struct cut){2, 4, 2};
    if (mm == VL_MM_IN_LINEAR || mm == VL_MM_IN_FULL || mm == VL_MM_GATE_UP)
        return (struct cut){4, 8, 1};
    if (mm == VL_MM_DOWN && rows > 8)
        return (struct cut){1, 8, 4};
    return (struct cut){4, 8, 2};
}

int64_t vl_q35_thin_columns(const vl_q35_shape *s, int mm, int rows)
{
    return 8 * thin_cut(s, mm, rows).groups;
}

void vl_q35_mm_size(const vl_q35_shape *s, int mm, int64_t *n, int64_t *k)
{
    *k = s->hidden;
    *n = s->hidden;
    switch (mm) {
    case VL_MM_IN_LINEAR:
        *n = vl_q35_in_linear(s);
        break;
    case VL_MM_IN_FULL:
        *n = vl_q35_in_full(s);
        break;
    case VL_MM_OUT_LINEAR:
        *k = s->hv * 128;
        break;
    case VL_MM_OUT_FULL:
        *k = s->nq * 256;
        break;
    case VL_MM_GATE_UP:
        *n = 2 * s->inner;
        break;
    case VL_MM_DOWN:
        *k = s->inner;
        break;
    default:
        *n = s->vocab;
        break;
    }
}

static void define_float(vl_kernel *k, const char *name, float value)
{
    if (k->n_defines < VL_KERNEL_DEFINES)
        (void)snprintf(k->defines[k->n_defines], VL_KERNEL_DEFINE_CAP, "%.40s=%.9ef", name,
                       (double)value);
    k->n_defines++;
}

static void thin_kernel(const vl_q35_shape *s, vl_kernel *k, int mm, int rows)
{
    static const int modes[VL_N_MM] = {0, 0, 1, 1, 2, 1, 3};
    const struct cut c = thin_cut(s, mm, rows);
    int64_t n, depth;
    vl_q35_mm_size(s, mm, &n, &depth);
    vl_kernel_begin(k, "thin_matmul", (uint32_t)(32 * c.warps), 0);
    vl_kernel_define(k, "VL_N", n);
    vl_kernel_define(k, "VL_K", depth);
    vl_kernel_define(k, "VL_B", rows);
    vl_kernel_define(k, "VL_MODE", modes[mm]);
    vl_kernel_define(k, "VL_GROUPS", c.groups);
    vl_kernel_define(k, "VL_WARPS", c.warps);
    vl_kernel_define(k, "VL_DEPTH", c.depth);
    define_float(k, "VL_EPS", s->eps);
}

static void define_delta(const vl_q35_shape *s, vl_kernel *k)
{
    vl_kernel_define(k, "VL_HK", s->hk);
    vl_kernel_define(k, "VL_HV", s->hv);
    vl_kernel_define(k, "VL_P_STRIDE", vl_q35_in_linear(s));
    vl_kernel_define(k, "VL_Z_SIGMOID", s->z_sigmoid);
}

static void delta_kernels(const vl_q35_shape *s, int64_t shared, vl_kernel *kernels)
{
    vl_kernel *k = &kernels[VL_K_DELTA_CONV];
    vl_kernel_begin(k, "delta_conv", 256, 0);
    define_delta(s, k);
    k = &kernels[VL_K_DELTA_PREP];
    vl_kernel_begin(k, "delta_prep", 128, 49152 + 64 * 68 * 4 + 512);
    define_delta(s, k);
    vl_kernel_define(k, "VL_SHARED", k->shared_bytes);
    const uint32_t two = 2 * (38208 + 24832) + 24576 + 6144, one = 38208 + 24832 + 24576 + 6144;
    k = &kernels[VL_K_DELTA_CHUNK];
    vl_kernel_begin(k, "delta_chunk", 128, shared >= two ? two : one);
    define_delta(s, k);
    vl_kernel_define(k, "VL_SHARED", k->shared_bytes);
    vl_kernel_define(k, "VL_STAGES", shared >= two ? 2 : 1);
    k = &kernels[VL_K_DELTA_STEP];
    vl_kernel_begin(k, "delta_step", 512, 0);
    define_delta(s, k);
    vl_kernel_define(k, "VL_LINEAR_LAYERS", s->n_linear);
    define_float(k, "VL_EPS", s->eps);
    k = &kernels[VL_K_GATED_LINEAR];
    vl_kernel_begin(k, "gated_norm", 256, 0);
    vl_kernel_define(k, "VL_HV", s->hv);
    vl_kernel_define(k, "VL_Z_STRIDE", vl_q35_in_linear(s));
    vl_kernel_define(k, "VL_Z_SIGMOID", s->z_sigmoid);
    define_float(k, "VL_EPS", s->eps);
}

static void define_attention(const vl_q35_shape *s, vl_kernel *k)
{
    vl_kernel_define(k, "VL_NQ", s->nq);
    vl_kernel_define(k, "VL_NKV", s->nkv);
    vl_kernel_define(k, "VL_FULL_LAYERS", s->n_full);
    vl_kernel_define(k, "VL_MAX_PAGES", s->max_pages);
    vl_kernel_define(k, "VL_P_STRIDE", vl_q35_in_full(s));
    vl_kernel_define(k, "VL_SPLITS", VL_Q35_SPLITS);
    vl_kernel_define(k, "VL_SPLIT_PAGES", VL_Q35_SPLIT_PAGES);
}

static void attention_kernels(const vl_q35_shape *s, int64_t shared, vl_kernel *kernels)
{
    vl_kernel *k = &kernels[VL_K_QK_ROPE];
    vl_kernel_begin(k, "qk_rope", 256, 0);
    define_attention(s, k);
    define_float(k, "VL_EPS", s->eps);
    k = &kernels[VL_K_ATTN_DECODE];
    vl_kernel_begin(k, "attn_decode", 128, 0);
    define_attention(s, k);
    k = &kernels[VL_K_ATTN_COMBINE];
    vl_kernel_begin(k, "attn_combine", 256, 0);
    define_attention(s, k);
    /* Queries of 4 or 8 warps, one or two buffers of a page of K and of V. */
    const int stages = shared >= 32768 + 4 * 32768 ? 2 : 1,
              warps = shared >= 65536 + 4 * 32768 ? 8 : 4;
    k = &kernels[VL_K_ATTN_PREFILL];
    vl_kernel_begin(k, "attn_prefill", (uint32_t)(32 * warps),
                    (uint32_t)(warps * 8192 + stages * 65536));
    define_attention(s, k);
    vl_kernel_define(k, "VL_WARPS", warps);
    vl_kernel_define(k, "VL_STAGES", stages);
    vl_kernel_define(k, "VL_SHARED", k->shared_bytes);
}

static void step_kernels(const vl_q35_shape *s, vl_kernel *kernels)
{
    static const struct {
        int which;
        const char *name;
        uint32_t block;
    } table[] = {
        {VL_K_STEP_BEGIN, "step_begin", 256},    {VL_K_PREFILL_BEGIN, "prefill_begin", 256},
        {VL_K_MARK_IDS, "mark_ids", 256},        {VL_K_LOGITS_SCAN, "logits_scan", 256},
        {VL_K_SAMPLE_PICK, "sample_pick", 1024}, {VL_K_LOGPROB_ROWS, "logprob_rows", 1024},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        vl_kernel *k = &kernels[table[i].which];
        vl_kernel_begin(k, table[i].name, table[i].block, 0);
        vl_kernel_define(k, "VL_ROWS", s->n_rows);
        vl_kernel_define(k, "VL_RING_SLOTS", VL_RING_SLOTS);
        vl_kernel_define(k, "VL_VOCAB", s->vocab);
        vl_kernel_define(k, "VL_TOKENS", s->n_tokens);
        vl_kernel_define(k, "VL_MASK_WORDS", vl_q35_mask_words(s));
        vl_kernel_define(k, "VL_MAX_PAGES", s->max_pages);
    }
}

void vl_q35_kernels(const vl_q35_shape *s, int32_t cc, int64_t shared_block_bytes,
                    vl_kernel *kernels)
{
    vl_kernel *k = &kernels[VL_K_EMBED];
    vl_kernel_begin(k, "embed", 256, 0);
    vl_kernel_define(k, "VL_HIDDEN", s->hidden);
    k = &kernels[VL_K_RMS_NORM];
    vl_kernel_begin(k, "rms_norm", 256, 0);
    vl_kernel_define(k, "VL_HIDDEN", s->hidden);
    define_float(k, "VL_EPS", s->eps);
    k = &kernels[VL_K_SWIGLU];
    vl_kernel_begin(k, "swiglu", 256, 0);
    vl_kernel_define(k, "VL_INNER", s->inner);
    delta_kernels(s, shared_block_bytes, kernels);
    attention_kernels(s, shared_block_bytes, kernels);
    step_kernels(s, kernels);
    for (int mm = 0; mm < VL_N_MM; mm++) {
        thin_kernel(s, &kernels[VL_K_THIN8 + mm], mm, 8);
        thin_kernel(s, &kernels[VL_K_THIN16 + mm], mm, 16);
    }
    for (int i = 0; i < VL_N_KERNELS; i++)
        kernels[i].overlap = cc >= 90;
}
