/* plugins/common/cuda/pinned.h: page-locked host memory in blocks of one size, counted like pages.
 *
 * Owns the memory; made in slabs when it is first wanted, kept until fini (locking memory costs
 * more than copying into it). A block carries a mark of its taker's. Knows no snapshot. [engine] */
#ifndef VL_CUDA_PINNED_H
#define VL_CUDA_PINNED_H

#include <stddef.h>
#include <stdint.h>

#include "vallmo/abi.h"

typedef struct vl_pinned {
    uint64_t block_bytes;
    uint32_t slab_blocks; /* blocks in a slab */
    char **slabs;         /* [n_slabs], owned */
    size_t n_slabs, slabs_cap;
    uint32_t *refs;  /* [n_slabs * slab_blocks]: owners; 0: free */
    uint32_t *marks; /* [n_slabs * slab_blocks]: 0 when taken, then the taker's */
    uint32_t *free;  /* stack of free blocks, [n_free] of n_slabs * slab_blocks */
    size_t refs_cap, marks_cap, free_cap, n_free;
} vl_pinned;

void vl_pinned_init(vl_pinned *p, uint64_t block_bytes); /* no memory yet */
void vl_pinned_fini(vl_pinned *p);                       /* a zeroed one is fine */

/* n blocks with one owner each, or none: VL_E_NOMEM. The device must be current. */
vl_status vl_pinned_take(vl_pinned *p, size_t n, uint32_t *blocks, vl_error *err);
void vl_pinned_ref(vl_pinned *p, uint32_t block);
uint32_t vl_pinned_unref(vl_pinned *p, uint32_t block); /* owners left */
char *vl_pinned_at(const vl_pinned *p, uint32_t block);
uint64_t vl_pinned_used_bytes(const vl_pinned *p);
/* What take could still give: free blocks, and three quarters of what the system calls available.
 */
uint64_t vl_pinned_free_bytes(const vl_pinned *p);

#endif
