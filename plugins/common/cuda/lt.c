/* plugins/common/cuda/lt.c: see lt.h. Column-major is the library's view: Y^T [n, rows] = W [k,
 * n]^T x X^T [k, rows]. */
#include "plugins/common/cuda/lt.h"

#include <string.h>

#include "base/error.h"
#include "plugins/common/cuda/diskcache.h"

enum { MAX_CANDIDATES = 12, TIMED_RUNS = 4 };

static vl_status check(cublasStatus_t s, const char *what, vl_error *err)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return VL_OK;
    return vl_error_set(err, VL_E_DEVICE, "cuBLASLt: %s: %s", what, cublasLtGetStatusString(s));
}

/* The three operands of one product. */
struct layouts {
    cublasLtMatrixLayout_t w, x, y;
};

static void layouts_fini(struct layouts *l)
{
    if (l->w != NULL)
        (void)cublasLtMatrixLayoutDestroy(l->w);
    if (l->x != NULL)
        (void)cublasLtMatrixLayoutDestroy(l->x);
    if (l->y != NULL)
        (void)cublasLtMatrixLayoutDestroy(l->y);
}

static vl_status layouts_init(struct layouts *l, const vl_lt_shape *s, int64_t rows, vl_error *err)
{
    memset(l, 0, sizeof(*l));
    cublasStatus_t e =
        cublasLtMatrixLayoutCreate(&l->w, CUDA_R_16BF, (uint64_t)s->k, (uint64_t)s->n, s->k);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatrixLayoutCreate(&l->x, CUDA_R_16BF, (uint64_t)s->k, (uint64_t)rows,
                                       s->x_stride);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatrixLayoutCreate(&l->y, s->f32_out ? CUDA_R_32F : CUDA_R_16BF, (uint64_t)s->n,
                                       (uint64_t)rows, s->y_stride);
    if (e != CUBLAS_STATUS_SUCCESS)
        layouts_fini(l);
    return check(e, "describing matrices", err);
}

vl_status vl_lt_init(vl_lt *lt, const vl_cuda *c, void *workspace, uint64_t workspace_bytes,
                     const char *cache_dir, vl_error *err)
{
    memset(lt, 0, sizeof(*lt));
    lt->c = c;
    lt->workspace = workspace;
    lt->workspace_bytes = workspace_bytes;
    lt->cache_dir = cache_dir;
    cublasOperation_t t = CUBLAS_OP_T;
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    vl_status rc = check(cublasLtCreate(&lt->handle), "starting", err);
    if (rc == VL_OK)
        rc = check(cublasLtMatmulDescCreate(&lt->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                   "describing a product", err);
    if (rc == VL_OK)
        rc = check(
            cublasLtMatmulDescSetAttribute(lt->desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof(t)),
            "describing a product", err);
    if (rc == VL_OK)
        rc = check(cublasLtMatmulPreferenceCreate(&lt->pref), "stating preferences", err);
    if (rc == VL_OK)
        rc = check(
            cublasLtMatmulPreferenceSetAttribute(lt->pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                 &lt->workspace_bytes, sizeof(lt->workspace_bytes)),
            "stating preferences", err);
    /* Partial sums stay f32. */
    if (rc == VL_OK)
        rc = check(cublasLtMatmulPreferenceSetAttribute(lt->pref,
                                                        CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                        &reduction, sizeof(reduction)),
                   "stating preferences", err);
    if (rc != VL_OK)
        vl_lt_fini(lt);
    return rc;
}

void vl_lt_fini(vl_lt *lt)
{
    if (lt->pref != NULL)
        (void)cublasLtMatmulPreferenceDestroy(lt->pref);
    if (lt->desc != NULL)
        (void)cublasLtMatmulDescDestroy(lt->desc);
    if (lt->handle != NULL)
        (void)cublasLtDestroy(lt->handle);
    memset(lt, 0, sizeof(*lt));
}

static cublasStatus_t product(const vl_lt *lt, const struct layouts *l, const vl_lt_shape *s,
                              const cublasLtMatmulAlgo_t *algo, const void *x, const void *w,
                              void *y)
{
    const float one = 1.0f, zero = 0.0f;
    return cublasLtMatmul(lt->handle, lt->desc, &one, w, l->w, x, l->x, s->add ? &one : &zero, y,
                          l->y, y, l->y, algo, lt->workspace, lt->workspace_bytes, lt->c->stream);
}

/* Milliseconds of one run, the best of a few; negative when it does not run. */
static float time_candidate(const vl_lt *lt, const struct layouts *l, const vl_lt_shape *s,
                            const cublasLtMatmulAlgo_t *algo, const void *x, const void *w, void *y,
                            cudaEvent_t begin, cudaEvent_t end)
{
    float best = -1.0f;
    for (int i = 0; i < TIMED_RUNS; i++) {
        float ms = 0.0f;
        if (cudaEventRecord(begin, lt->c->stream) != cudaSuccess ||
            product(lt, l, s, algo, x, w, y) != CUBLAS_STATUS_SUCCESS ||
            cudaEventRecord(end, lt->c->stream) != cudaSuccess ||
            cudaEventSynchronize(end) != cudaSuccess ||
            cudaEventElapsedTime(&ms, begin, end) != cudaSuccess) {
            (void)cudaGetLastError();
            return -1.0f;
        }
        if (i > 0 && (best < 0.0f || ms < best)) /* the first one loads code */
            best = ms;
    }
    return best;
}

static vl_status sieve(vl_lt *lt, const struct layouts *l, const void *x, const void *w, void *y,
                       vl_lt_plan *plan, vl_error *err)
{
    cublasLtMatmulHeuristicResult_t found[MAX_CANDIDATES];
    int n = 0;
    vl_status rc = check(cublasLtMatmulAlgoGetHeuristic(lt->handle, lt->desc, l->w, l->x, l->y,
                                                        l->y, lt->pref, MAX_CANDIDATES, found, &n),
                         "asking for algorithms", err);
    if (rc != VL_OK)
        return rc;
    cudaEvent_t begin = NULL, end = NULL;
    rc = vl_cuda_check(cudaEventCreate(&begin), "timing", err);
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaEventCreate(&end), "timing", err);
    plan->ms = -1.0f;
    for (int i = 0; rc == VL_OK && i < n; i++) {
        if (found[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        float ms = time_candidate(lt, l, &plan->shape, &found[i].algo, x, w, y, begin, end);
        if (ms >= 0.0f && (plan->ms < 0.0f || ms < plan->ms)) {
            plan->ms = ms;
            plan->algo = found[i].algo;
            plan->workspace_bytes = found[i].workspaceSize;
        }
    }
    if (rc == VL_OK && plan->ms < 0.0f)
        rc =
            vl_error_set(err, VL_E_DEVICE, "cuBLASLt: no algorithm runs [%lld,%lld] x %lld rows",
                         (long long)plan->shape.n, (long long)plan->shape.k, (long long)plan->rows);
    if (begin != NULL)
        (void)cudaEventDestroy(begin);
    if (end != NULL)
        (void)cudaEventDestroy(end);
    return rc;
}

/* What the cache keeps: the library's own opaque description, checked again before it is believed.
 */
struct entry {
    cublasLtMatmulAlgo_t algo;
    uint64_t workspace_bytes;
};

static vl_cache_key plan_key(const vl_lt *lt, const vl_lt_plan *p)
{
    const int64_t parts[] = {p->shape.n,
                             p->shape.k,
                             p->shape.x_stride,
                             p->shape.y_stride,
                             p->shape.f32_out,
                             p->shape.add,
                             p->rows,
                             (int64_t)cublasLtGetVersion(),
                             lt->c->n_sms,
                             (int64_t)lt->workspace_bytes,
                             (int64_t)sizeof(struct entry)};
    vl_cache_key k = vl_cache_key_begin("lt-plan");
    vl_cache_key_add(&k, lt->c->name, strlen(lt->c->name));
    vl_cache_key_add(&k, parts, sizeof(parts));
    return k;
}

static bool from_cache(const vl_lt *lt, const struct layouts *l, const vl_cache_key *key,
                       vl_lt_plan *plan)
{
    vl_buf b = VL_BUF_INIT;
    bool good = vl_cache_get(lt->cache_dir, key, &b) && b.len == sizeof(struct entry);
    if (good) {
        struct entry e;
        memcpy(&e, b.ptr, sizeof(e));
        cublasLtMatmulHeuristicResult_t r;
        good = cublasLtMatmulAlgoCheck(lt->handle, lt->desc, l->w, l->x, l->y, l->y, &e.algo, &r) ==
                   CUBLAS_STATUS_SUCCESS &&
               r.state == CUBLAS_STATUS_SUCCESS && r.workspaceSize <= lt->workspace_bytes;
        if (good) {
            plan->algo = e.algo;
            plan->workspace_bytes = e.workspace_bytes;
            plan->ms = 0.0f;
            plan->cached = true;
        }
    }
    vl_buf_fini(&b);
    return good;
}

vl_status vl_lt_plan_make(vl_lt *lt, const vl_lt_shape *shape, int64_t rows, const void *x,
                          const void *w, void *y, vl_lt_plan *plan, vl_error *err)
{
    struct layouts l;
    memset(plan, 0, sizeof(*plan));
    plan->shape = *shape;
    plan->rows = rows;
    vl_status rc = layouts_init(&l, shape, rows, err);
    if (rc != VL_OK)
        return rc;
    vl_cache_key key = plan_key(lt, plan);
    if (!from_cache(lt, &l, &key, plan)) {
        rc = sieve(lt, &l, x, w, y, plan, err);
        struct entry e;
        memset(&e, 0, sizeof(e));
        e.algo = plan->algo;
        e.workspace_bytes = plan->workspace_bytes;
        if (rc == VL_OK)
            (void)vl_cache_put(lt->cache_dir, &key, &e, sizeof(e), NULL);
    }
    layouts_fini(&l);
    return rc;
}

vl_status vl_lt_run(const vl_lt *lt, const vl_lt_plan *plan, int64_t rows, const void *x,
                    const void *w, void *y, vl_error *err)
{
    struct layouts l;
    vl_status rc = layouts_init(&l, &plan->shape, rows, err);
    if (rc != VL_OK)
        return rc;
    cublasStatus_t s = product(lt, &l, &plan->shape, &plan->algo, x, w, y);
    if (s == CUBLAS_STATUS_NOT_SUPPORTED ||
        s == CUBLAS_STATUS_INVALID_VALUE) /* this row count has another best */
        s = product(lt, &l, &plan->shape, NULL, x, w, y);
    layouts_fini(&l);
    return check(s, "a product", err);
}
