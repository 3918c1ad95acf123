/* plugins/common/cuda/lt.h: matrix products through cuBLASLt by plans whose candidates were timed
 * on this card ("plan sieve"). bf16 operands, f32 accumulation. Knows shapes, not what the matrices
 * mean. */
#ifndef VL_CUDA_LT_H
#define VL_CUDA_LT_H

#include <cublasLt.h>

#include "plugins/common/cuda/device.h"

/* Y[t, n] = sum_k X[t, k] * W[n, k], all row-major: X bf16 [rows, k], W bf16 [n, k], Y bf16 or f32
 * [rows, n]. add: Y += instead of Y =. */
typedef struct vl_lt_shape {
    int64_t n;
    int64_t k;
    int64_t x_stride; /* elements from row to row of X (>= k) */
    int64_t y_stride; /* of Y (>= n) */
    bool f32_out;
    bool add;
} vl_lt_shape;

typedef struct vl_lt_plan {
    vl_lt_shape shape;
    int64_t rows; /* it was timed for; used up to here */
    cublasLtMatmulAlgo_t algo;
    uint64_t workspace_bytes;
    float ms; /* as timed; 0 from the cache */
    bool cached;
} vl_lt_plan;

typedef struct vl_lt {
    const vl_cuda *c;
    cublasLtHandle_t handle;         /* owned */
    cublasLtMatmulDesc_t desc;       /* owned */
    cublasLtMatmulPreference_t pref; /* owned */
    void *workspace;                 /* borrowed from an arena */
    uint64_t workspace_bytes;
    const char *cache_dir; /* borrowed */
} vl_lt;

vl_status vl_lt_init(vl_lt *lt, const vl_cuda *c, void *workspace, uint64_t workspace_bytes,
                     const char *cache_dir, vl_error *err);
void vl_lt_fini(vl_lt *lt);

/* Finds the fastest algorithm for `rows` rows on these (scratch) operands, or takes it from the
 * cache. [open] */
vl_status vl_lt_plan_make(vl_lt *lt, const vl_lt_shape *shape, int64_t rows, const void *x,
                          const void *w, void *y, vl_lt_plan *plan, vl_error *err);
/* Queues the product for rows <= plan->rows. [engine] */
vl_status vl_lt_run(const vl_lt *lt, const vl_lt_plan *plan, int64_t rows, const void *x,
                    const void *w, void *y, vl_error *err);

#endif
