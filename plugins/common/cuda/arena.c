/* plugins/common/cuda/arena.c: see arena.h. The only place where device memory is allocated. */
#include "plugins/common/cuda/arena.h"

#include <stdatomic.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "base/buf.h"
#include "base/error.h"
#include "plugins/common/cuda/device.h"

enum { ALIGN = 256 };

static atomic_uint_fast64_t n_allocations;

void *vl_arena_take(vl_arena *a, uint64_t n, uint64_t size)
{
    uint64_t bytes, end;
    if (!vl_mul(n, size, &bytes) || !vl_add(bytes, ALIGN - 1, &bytes) ||
        !vl_add(a->used, bytes / ALIGN * ALIGN, &end)) {
        a->failed = true;
        return NULL;
    }
    char *p = a->base;
    if (p != NULL) {
        if (end > a->size) {
            a->failed = true;
            return NULL;
        }
        p += a->used;
    }
    a->used = end;
    return p;
}

vl_status vl_arena_place(vl_arena *a, const char *what, vl_error *err)
{
    if (a->failed)
        return vl_error_set(err, VL_E_RANGE, "CUDA: the sizes of the %s overflow", what);
    size_t free_bytes = 0, total = 0;
    (void)cudaMemGetInfo(&free_bytes, &total);
    void *p = NULL;
    uint64_t want = a->used > 0 ? a->used : ALIGN;
    cudaError_t e = cudaMalloc(&p, want);
    if (e == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return vl_error_set(
            err, VL_E_NOMEM, "CUDA: no room for the %s: %llu bytes wanted, %llu of %llu free", what,
            (unsigned long long)want, (unsigned long long)free_bytes, (unsigned long long)total);
    }
    if (e != cudaSuccess)
        return vl_cuda_check(e, what, err);
    atomic_fetch_add(&n_allocations, 1);
    e = cudaMemset(p, 0, want);
    if (e ==
        cudaSuccess) /* what comes next runs on other streams, which do not wait for this one */
        e = cudaDeviceSynchronize();
    if (e != cudaSuccess) {
        (void)cudaFree(p);
        return vl_cuda_check(e, what, err);
    }
    a->base = p;
    a->size = want;
    a->used = 0;
    return VL_OK;
}

void vl_arena_fini(vl_arena *a)
{
    if (a->base != NULL)
        (void)cudaFree(a->base);
    memset(a, 0, sizeof(*a));
}

uint64_t vl_arena_allocations(void)
{
    return atomic_load(&n_allocations);
}
