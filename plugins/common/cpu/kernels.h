/* plugins/common/cpu/kernels.h: the table of kernels that each instruction form fills. Private to
 * the toolbox.
 *
 * All kernels run on the calling thread, allocate nothing and take pointers aligned to their
 * element only. A file of one form (form_*.c) is compiled with that form's -m flags, so nothing
 * outside the table may be called before the processor was asked (features.c). */
#ifndef VL_CPU_KERNELS_H
#define VL_CPU_KERNELS_H

#include "plugins/common/cpu/cpu.h"

#define VL_CPU_THIN_MAX 8    /* most rows of x in the thin form */
#define VL_CPU_PASS_ROWS 512 /* most rows of x in one pass of the blocked form */
#define VL_CPU_PIECE                                                                               \
    192 /* most output features that a thread takes at a time in the blocked form */
#define VL_CPU_STRIP                                                                               \
    48 /* ... and of which the weights meet x together: whole register tiles (6, 16) */
#define VL_CPU_PANEL 64 /* rows of x that lie side by side in a packed panel */

/* y[r, o] = sum_k x[r, k] w[o, k] for o in [begin, end), r < n_rows <= VL_CPU_THIN_MAX. */
typedef struct vl_cpu_thin {
    const void *w; /* [rows, in], of dtype */
    size_t w_ld;
    size_t in;
    const void *x; /* f32 [n_rows, in], or bf16 for thin_bf16 */
    size_t x_ld;   /* elements */
    size_t n_rows;
    float *y; /* [n_rows, rows] */
    size_t y_ld;
    int32_t dtype;
    int32_t reserved;
} vl_cpu_thin;

typedef struct vl_cpu_kernels {
    int32_t form;
    int32_t reserved;

    /* ---- matmul ---- */
    void (*thin_f32)(const vl_cpu_thin *t, size_t begin, size_t end);
    void (*thin_bf16)(const vl_cpu_thin *t, size_t begin, size_t end); /* NULL: not this form */
    /* As vl_cpu_gemm. */
    void (*gemm)(size_t m, size_t n, size_t k_len, const float *a, size_t a_row, size_t a_col,
                 const float *b, size_t b_ld, float *c, size_t c_ld, bool accumulate);
    /* c[i, j] (+)= sum_k w[i * w_ld + k] * b[k / 2, j, k % 2]: w bf16 [m, k_len], b bf16 pairs
     * [ceil(k_len / 2), b_ld, 2] whose odd tail is zero, n a multiple of 16. NULL: not this
     * form. */
    void (*gemm_bf16)(size_t m, size_t n, size_t k_len, const uint16_t *w, size_t w_ld,
                      const uint32_t *b, size_t b_ld, float *c, size_t c_ld, bool accumulate);
    /* dst[c * dst_ld + r] = src[r * src_ld + c], 32-bit elements, r < n_rows, c < n_cols. */
    void (*transpose)(const uint32_t *src, size_t src_ld, uint32_t *dst, size_t dst_ld,
                      size_t n_rows, size_t n_cols);
    void (*to_f32)(int32_t dtype, const void *w, float *y, size_t n);
    /* bf16, nearest even; NaN stays NaN. */
    void (*to_bf16)(const float *x, uint16_t *y, size_t n);

    /* ---- ops.h, on one row ---- */
    float (*dot)(const float *x, const float *y, size_t n);
    float (*max)(const float *x, size_t n);
    void (*norm_scale)(const float *x, float scale, const float *w, float bias, float *y, size_t n);
    void (*norm_gate)(const float *x, float scale, const float *w, const float *z, float *y,
                      size_t n);
    void (*exp)(const float *x, float *y, size_t n);
    /* y[i] = exp(x[i] - shift); returns the sum of y. */
    float (*exp_sum)(const float *x, float shift, float *y, size_t n);
    void (*silu)(const float *x, float *y, size_t n);
    void (*sigmoid)(const float *x, float *y, size_t n);
    void (*swiglu)(const float *gate, const float *up, float *y, size_t n);
    void (*mul_sigmoid)(const float *x, const float *g, float *y, size_t n);
    void (*axpy)(float a, const float *x, float *y, size_t n);
    void (*scale)(float a, float *y, size_t n);
    void (*conv_silu)(const float *x, size_t x_ld, const float *w, size_t n_taps, float *y,
                      size_t n);
    void (*delta_step)(float *s, size_t dk, size_t dv, float decay, float beta, const float *k,
                       const float *v, const float *q, float *o);
    void (*rope)(float *x, size_t half, const float *c, const float *s);

    /* ---- attention ---- */
    /* Scores of n_q query vectors against n keys: s[i * s_ld + t] = scale * dot(q_i, k_t);
     * q [n_q, size] stride q_ld, k [n, size] contiguous. */
    void (*attn_scores)(const float *q, size_t q_ld, size_t n_q, const float *k, size_t n,
                        size_t size, float scale, float *s, size_t s_ld);
    /* o_i += sum_t p[i * p_ld + t] * v_t; o [n_q, size] stride o_ld, v [n, size] contiguous. */
    void (*attn_values)(const float *p, size_t p_ld, size_t n_q, const float *v, size_t n,
                        size_t size, float *o, size_t o_ld);
    /* Online softmax on columns: for each of n_q columns j (a multiple of 16) of s [n_keys, n_q]:
     * m' = max(m, max_t s), s = exp(s - m'), l = l * exp(m - m') + sum s, c = exp(m - m'), m = m'.
     * Column j sees only t < limit[j]; the rest becomes 0. */
    void (*softmax_columns)(float *s, size_t n_keys, size_t n_q, const int32_t *limit, float *m,
                            float *l, float *c);
    /* o[i, j] *= c[j]: [n, n_q] */
    void (*scale_columns)(float *o, size_t n, size_t n_q, const float *c);

    /* ---- sampling ---- */
    /* The lowest index of the largest of x[0..n); *bad: a NaN or +infinity was seen. n >= 1. */
    size_t (*argmax)(const float *x, size_t n, bool *bad);
    /* Appends to ids the i with x[i] >= bar, at most cap; returns how many there are in all. */
    size_t (*select)(const float *x, size_t n, float bar, int32_t *ids, size_t cap);
} vl_cpu_kernels;

extern const vl_cpu_kernels vl_cpu_kernels_scalar;
#ifdef VL_CPU_X86
extern const vl_cpu_kernels vl_cpu_kernels_avx2;
extern const vl_cpu_kernels vl_cpu_kernels_avx512;
extern const vl_cpu_kernels vl_cpu_kernels_avx512_bf16;
/* form_amx.c. A block of VL_CPU_AMX_ROWS rows of x in bf16 tiles, [in rounded up to 32] a row, zero
 * past x; this fills the part from k_begin to k_end (multiples of 32) from n_rows rows of x [..,
 * in] f32. */
#define VL_CPU_AMX_ROWS 32
#define VL_CPU_AMX_PIECE 256
void vl_cpu_amx_pack(const float *x, size_t x_ld, size_t n_rows, size_t in, size_t k_begin,
                     size_t k_end, char *block);
/* y[r, o] for o < m <= VL_CPU_AMX_PIECE and all n_rows <= VL_CPU_PASS_ROWS: w bf16 [m, in], the
 * blocks of x one after the other, y at the strip's first column. scratch: VL_CPU_THREAD_SCRATCH
 * bytes, 64-byte aligned. */
void vl_cpu_amx_strip(const uint16_t *w, size_t w_ld, size_t m, size_t in, const char *blocks,
                      size_t n_rows, float *y, size_t y_ld, void *scratch);
/* vl_cpu_gemm_rounded on tiles. */
void vl_cpu_amx_gemm(size_t m, size_t n, size_t k_len, const float *a, size_t a_row, size_t a_col,
                     const float *b, size_t b_ld, float *c, size_t c_ld, bool accumulate);
/* Asks the operating system for tile state, for the whole process; false: not to be had. */
bool vl_cpu_amx_request(void);
#endif

/* The kernels of a supported form. */
const vl_cpu_kernels *vl_cpu_kernels_of(int32_t form);

struct vl_cpu {
    const vl_cpu_kernels *k;
    int32_t form;
    int32_t n_threads;
    size_t max_in;
    size_t max_rows; /* of one pass */
    size_t n_heads;
    size_t head_size;
    char *memory; /* one block for all that follows */
    size_t memory_bytes;
    float *panel_f32; /* packed x, f32: [panels, max_in, VL_CPU_PANEL] */
    /* Packed x, bf16 pairs: [panels, in rounded up to 32 / 2, VL_CPU_PANEL], zero past x; with AMX
     * the blocks of vl_cpu_amx_pack; NULL in f32 forms. */
    uint32_t *panel_bf16;
    uint16_t *thin_bf16; /* [VL_CPU_THIN_MAX, max_in rounded up]; or NULL */
    float *attn_part;    /* decode partials: [rows, n_heads, splits, head_size + 2] */
    char *scratch;       /* [n_threads, VL_CPU_THREAD_SCRATCH] */
};

#define VL_CPU_ATTN_SPLITS 16 /* pieces of a long context in a decode row */
#define VL_CPU_ATTN_ROWS 16   /* decode rows done in one pass */

#endif
