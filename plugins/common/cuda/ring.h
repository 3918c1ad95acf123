/* plugins/common/cuda/ring.h: results of steps in pinned host memory that the device writes: slot
 * (ticket % n_slots) holds what step `ticket` gave, and an event tells when it is there. Knows
 * slots and bytes, not what is in them. */
#ifndef VL_CUDA_RING_H
#define VL_CUDA_RING_H

#include "plugins/common/cuda/device.h"

enum { VL_RING_SLOTS = 8 };

typedef struct vl_ring {
    char *host;   /* [VL_RING_SLOTS][slot_bytes], pinned and mapped; owned */
    char *device; /* the same memory as the device sees it */
    uint64_t slot_bytes;
    cudaEvent_t done[VL_RING_SLOTS]; /* owned */
} vl_ring;

vl_status vl_ring_init(vl_ring *r, uint64_t slot_bytes, vl_error *err);
void vl_ring_fini(vl_ring *r); /* a zeroed one is fine */

static inline char *vl_ring_host(const vl_ring *r, uint64_t ticket)
{
    return r->host + ticket % VL_RING_SLOTS * r->slot_bytes;
}
static inline char *vl_ring_device(const vl_ring *r, uint64_t ticket)
{
    return r->device + ticket % VL_RING_SLOTS * r->slot_bytes;
}

/* Marks the end of step `ticket` on the stream. [engine] */
vl_status vl_ring_close(vl_ring *r, uint64_t ticket, cudaStream_t stream, vl_error *err);
/* Waits for it: timeout_ms 0 looks, -1 waits. VL_E_TIMEOUT, VL_E_DEVICE. [engine] */
vl_status vl_ring_wait(vl_ring *r, uint64_t ticket, int64_t timeout_ms, vl_error *err);

#endif
