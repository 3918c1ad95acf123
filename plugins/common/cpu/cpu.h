/* plugins/common/cpu/cpu.h: the CPU toolbox: which instruction forms this processor has, threads,
 * and matmul.
 *
 * Owns: the form that is in use, the thread count, the scratch memory of matmul and attention.
 * Knows no model, no file and no sequence. Other headers of the toolbox: ops.h (norms, activations,
 * rope), attention.h, sampling.h.
 *
 * Threads: a vl_cpu is used by one thread at a time (the [engine] thread); its calls spread their
 * work over n_threads by OpenMP themselves. Functions marked [task] may be called inside a
 * vl_cpu_for body. Memory: everything is allocated in vl_cpu_create; no call after it allocates. */
#ifndef VL_CPU_CPU_H
#define VL_CPU_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vallmo/abi.h"

/* Forms: the instruction sets that the kernels are written for, slowest first.
 * AVX512_BF16 and AMX_BF16 round activations to bf16 for bf16 weights; every other case keeps them
 * in f32. AMX_BF16 runs the blocked matmul and vl_cpu_gemm_rounded on tiles and everything else as
 * AVX512_BF16. */
enum {
    VL_CPU_AUTO = 0,
    VL_CPU_SCALAR = 1,
    VL_CPU_AVX2 = 2,
    VL_CPU_AVX512 = 3,
    VL_CPU_AVX512_BF16 = 4,
    VL_CPU_AMX_BF16 = 5,
    VL_CPU_N_FORMS = 6
};

/* "auto", "scalar", "avx2", "avx512", "avx512-bf16", "amx-bf16". Unknown text: VL_E_INVALID, which
 * lists them. */
vl_status vl_cpu_form_parse(const char *text, int32_t *form, vl_error *err);
const char *vl_cpu_form_name(int32_t form); /* never NULL */
bool vl_cpu_form_supported(
    int32_t form);              /* by this processor and its operating system, and compiled in */
int32_t vl_cpu_form_best(void); /* the fastest supported one; never AUTO */
int32_t vl_cpu_default_threads(void); /* processors that this process may run on */

typedef struct vl_cpu vl_cpu;

typedef struct vl_cpu_params {
    int32_t form;      /* VL_CPU_...; AUTO: the best */
    int32_t n_threads; /* 0: vl_cpu_default_threads() */
    size_t max_rows;   /* rows of x that matmul takes at a time; more are done in several passes. 0:
                          512 */
    size_t max_in;     /* longest reduction (in) of any matrix, >= 1 */
    size_t n_heads;    /* query heads of attention, and their */
    size_t head_size;  /* ... size (multiple of 16, at most 256); both 0: attention is not used */
} vl_cpu_params;

/* VL_E_UNSUPPORTED: the form is not to be had here (the text says which is); VL_E_NOMEM;
 * VL_E_INVALID. */
vl_status vl_cpu_create(const vl_cpu_params *params, vl_cpu **out, vl_error *err);
void vl_cpu_destroy(vl_cpu *cpu); /* NULL is a no-op */
int32_t vl_cpu_form(const vl_cpu *cpu);
int32_t vl_cpu_threads(const vl_cpu *cpu);
size_t vl_cpu_scratch_bytes(const vl_cpu_params *params); /* what create will allocate */

/* ---- parallel loop ---- */

/* Runs fn(arg, begin, end, thread) over [0, n) in pieces of at most `grain` items (0: n / (4 *
 * threads), at least 1), taken by the threads in turn; thread is in [0, n_threads). Returns when
 * all are done. With n <= grain or one thread it runs on the caller alone (thread 0). Not
 * [task]. */
typedef void vl_cpu_body(void *arg, size_t begin, size_t end, int thread);
void vl_cpu_for(vl_cpu *cpu, size_t n, size_t grain, vl_cpu_body *fn, void *arg);

/* ---- matmul ---- */

/* One weight matrix of a call, where it lies in the mapping, and where its product goes. */
typedef struct vl_cpu_matrix {
    const void *w; /* [rows, in] row-major, the reduction contiguous; aligned to its element (2 or 4
                      bytes) */
    size_t w_ld;   /* elements from one row of w to the next, >= in */
    size_t rows;   /* output features */
    float *y;      /* [n_rows, rows] f32: overwritten; must not overlap x or another y */
    size_t y_ld;   /* floats from one row of y to the next, >= rows */
    int32_t dtype; /* VL_DTYPE_BF16, VL_DTYPE_F16 or VL_DTYPE_F32 */
    int32_t reserved;
} vl_cpu_matrix;

/* y_m[n, rows_m] = x[n, in] . W_m^T for each of n_matrices matrices that share x (q|k|v, gate|up,
 * qkv|z|b|a): one pass of the threads for all. x [n_rows, in] f32, x_ld floats from row to row. in
 * <= max_in. At most VL_CPU_MAX_MATRICES. n_rows, n_matrices or rows may be 0.
 *
 * n_rows <= vl_cpu_thin_rows(cpu) takes the thin form (each weight byte read once, memory-bound),
 * more rows the blocked one. Within one of the two, a row's result has the same bits however many
 * rows or matrices the call has, where the row stands, and with any number of threads; between the
 * two only the order of summation differs. Not [task]. */
#define VL_CPU_MAX_MATRICES 8
void vl_cpu_matmul(vl_cpu *cpu, const float *x, size_t x_ld, size_t n_rows, size_t in,
                   const vl_cpu_matrix *matrices, size_t n_matrices);
size_t vl_cpu_thin_rows(const vl_cpu *cpu);

/* Small f32 product for use inside bodies (attention, chunked recurrences), on one thread:
 *   c[i, j] (+)= sum_k a[i * a_row + k * a_col] * b[k * b_ld + j],   i < m, j < n, k < k_len
 * a may be a transposed view (a_row 1, a_col = ld). Fastest with n a multiple of 16 (better 64). c
 * must not overlap a or b. Each c[i, j] is summed in f32 in the order of k, whatever m and n.
 * [task] */
void vl_cpu_gemm(const vl_cpu *cpu, size_t m, size_t n, size_t k_len, const float *a, size_t a_row,
                 size_t a_col, const float *b, size_t b_ld, float *c, size_t c_ld, bool accumulate);

/* The same with a and b rounded to bf16 (sums in f32) where the form is much faster so: on AMX
 * tiles. In every other form exactly vl_cpu_gemm: a pairwise vector product that must pack its
 * operands first gains nothing. For callers whose numerics allow it; a_row or a_col must be 1. Each
 * c[i, j] has the same bits whatever m and n. vl_cpu_rounds: this form rounds. [task] */
void vl_cpu_gemm_rounded(const vl_cpu *cpu, size_t m, size_t n, size_t k_len, const float *a,
                         size_t a_row, size_t a_col, const float *b, size_t b_ld, float *c,
                         size_t c_ld, bool accumulate);
bool vl_cpu_rounds(const vl_cpu *cpu);
/* dst[j, i] = src[i, j] for i < n_rows, j < n_cols. [task] */
void vl_cpu_transpose(const vl_cpu *cpu, const float *src, size_t src_ld, float *dst, size_t dst_ld,
                      size_t n_rows, size_t n_cols);

/* Scratch of one thread for the caller's bodies: VL_CPU_THREAD_SCRATCH bytes, 64-byte aligned,
 * thread as given to the body. Attention and matmul use it too: contents last for one vl_cpu_for.
 * [task] */
#define VL_CPU_THREAD_SCRATCH ((size_t)1 << 20)
void *vl_cpu_scratch(const vl_cpu *cpu, int thread);

#endif
