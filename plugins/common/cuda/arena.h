/* plugins/common/cuda/arena.h: one block of device memory that is carved, not allocated from. The
 * same carve function runs twice: on an arena without memory it measures, then it places. So
 * nothing is allocated on the device after a model is open. */
#ifndef VL_CUDA_ARENA_H
#define VL_CUDA_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "vallmo/abi.h"

typedef struct vl_arena {
    char *base;    /* device memory, owned; NULL while measuring */
    uint64_t size; /* bytes at base */
    uint64_t used; /* bytes carved so far; in a measuring pass what will be needed */
    bool failed;   /* an overflow of sizes, or (placing) more carved than measured */
} vl_arena;

/* Carves n * size bytes, aligned to 256. While measuring the result is NULL. n or size 0 is fine.
 * [open] */
void *vl_arena_take(vl_arena *a, uint64_t n, uint64_t size);
/* Ends the measuring pass: allocates what was counted, zeroed, and starts over. `what` names it in
 * errors ("weights"): VL_E_NOMEM tells wanted and free bytes. [open] */
vl_status vl_arena_place(vl_arena *a, const char *what, vl_error *err);
void vl_arena_fini(vl_arena *a); /* a zeroed one is fine [open] */

/* Device allocations made by arenas since the program began: tests hold it constant after a model
 * is open. [any] */
uint64_t vl_arena_allocations(void);

#endif
