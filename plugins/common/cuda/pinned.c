/* plugins/common/cuda/pinned.c: see pinned.h. */
#include "plugins/common/cuda/pinned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "base/buf.h"
#include "base/error.h"
#include "plugins/common/cuda/device.h"

enum { SLAB_BYTES = 64 << 20 };

void vl_pinned_init(vl_pinned *p, uint64_t block_bytes)
{
    memset(p, 0, sizeof(*p));
    p->block_bytes = block_bytes;
    p->slab_blocks = block_bytes < SLAB_BYTES ? (uint32_t)(SLAB_BYTES / block_bytes) : 1;
}

void vl_pinned_fini(vl_pinned *p)
{
    for (size_t i = 0; i < p->n_slabs; i++)
        (void)cudaFreeHost(p->slabs[i]);
    free(p->slabs);
    free(p->refs);
    free(p->marks);
    free(p->free);
    memset(p, 0, sizeof(*p));
}

static vl_status add_slab(vl_pinned *p, vl_error *err)
{
    const size_t have = p->n_slabs * p->slab_blocks, want = have + p->slab_blocks;
    void *memory = NULL;
    if (want > UINT32_MAX - 1 ||
        !vl_grow(&p->slabs, &p->slabs_cap, p->n_slabs + 1, sizeof(*p->slabs)) ||
        !vl_grow(&p->refs, &p->refs_cap, want, sizeof(*p->refs)) ||
        !vl_grow(&p->marks, &p->marks_cap, want, sizeof(*p->marks)) ||
        !vl_grow(&p->free, &p->free_cap, want, sizeof(*p->free)))
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    const uint64_t bytes = p->block_bytes * p->slab_blocks;
    if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) != cudaSuccess) {
        (void)cudaGetLastError();
        return vl_error_set(err, VL_E_NOMEM, "the system gives no %llu bytes of locked memory",
                            (unsigned long long)bytes);
    }
    p->slabs[p->n_slabs++] = memory;
    for (size_t i = want; i-- > have;) {
        p->refs[i] = 0;
        p->free[p->n_free++] = (uint32_t)i;
    }
    return VL_OK;
}

vl_status vl_pinned_take(vl_pinned *p, size_t n, uint32_t *blocks, vl_error *err)
{
    while (p->n_free < n) {
        vl_status rc = add_slab(p, err);
        if (rc != VL_OK)
            return rc;
    }
    for (size_t i = 0; i < n; i++) {
        blocks[i] = p->free[--p->n_free];
        p->refs[blocks[i]] = 1;
        p->marks[blocks[i]] = 0;
    }
    return VL_OK;
}

void vl_pinned_ref(vl_pinned *p, uint32_t block)
{
    p->refs[block]++;
}

uint32_t vl_pinned_unref(vl_pinned *p, uint32_t block)
{
    if (--p->refs[block] == 0)
        p->free[p->n_free++] = block;
    return p->refs[block];
}

char *vl_pinned_at(const vl_pinned *p, uint32_t block)
{
    return p->slabs[block / p->slab_blocks] + block % p->slab_blocks * p->block_bytes;
}

uint64_t vl_pinned_used_bytes(const vl_pinned *p)
{
    return (p->n_slabs * p->slab_blocks - p->n_free) * p->block_bytes;
}

static uint64_t available_bytes(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[160];
    uint64_t kib = 0;
    while (f != NULL && kib == 0 && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kib = strtoull(line + 13, NULL, 10);
    if (f != NULL)
        (void)fclose(f);
    return kib * 1024;
}

uint64_t vl_pinned_free_bytes(const vl_pinned *p)
{
    return p->n_free * p->block_bytes + available_bytes() / 4 * 3;
}
