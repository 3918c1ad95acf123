/* plugins/common/cpu/attention.h: causal grouped-query attention over paged f32 keys and values.
 *
 * Knows pages as pointers; who owns and shares them is pages.h and the caller. */
#ifndef VL_CPU_ATTENTION_H
#define VL_CPU_ATTENTION_H

#include "plugins/common/cpu/cpu.h"

#define VL_CPU_PAGE_TOKENS 64

/* Rows of one sequence. Token t's key of kv head g is at
 *   pages[t / 64] + k_offset + (g * 64 + t % 64) * head_size
 * and its value at the same place from v_offset: a page holds [n_kv_heads, 64, head_size] of each,
 * of one or many layers (the offsets choose the layer). Keys and values of the rows themselves must
 * be stored before the call. */
typedef struct vl_cpu_attention_rows {
    const float *const *pages; /* [ceil((position + n_rows) / 64)] */
    const float
        *q;     /* [n_rows, n_heads, head_size]; row stride q_ld, head stride q_head_ld floats */
    float *out; /* [n_rows, n_heads, head_size]; row stride out_ld, heads contiguous */
    size_t position; /* of the first row: row i sees tokens 0 .. position + i */
    size_t n_rows;   /* 1: a decode row */
} vl_cpu_attention_rows;

typedef struct vl_cpu_attention {
    size_t n_heads, n_kv_heads; /* n_heads a multiple of n_kv_heads; head h uses kv head h /
                                   (n_heads / n_kv_heads) */
    size_t head_size;           /* multiple of 16, at most 256 */
    size_t k_offset, v_offset;  /* floats into a page */
    size_t q_ld, q_head_ld, out_ld;
    float scale; /* on q . k, usually head_size^-0.5 */
    bool round;  /* groups of several rows may round q, k, v and the softmax's weights to bf16
                    where vl_cpu_gemm_rounded does */
} vl_cpu_attention;

/* Softmax in f32, online. All groups in one call: prefill pieces and decode rows of several
 * sequences. n_heads and head_size as given to vl_cpu_create (or fewer). A row's result does not
 * depend on the other groups or on the number of threads; a row of a group with n_rows >= 2 is
 * summed in another order than a group of one row, and does not depend on n_rows otherwise. Not
 * [task]. */
void vl_cpu_attention_run(vl_cpu *cpu, const vl_cpu_attention *a,
                          const vl_cpu_attention_rows *groups, size_t n_groups);

#endif
