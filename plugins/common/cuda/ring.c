/* plugins/common/cuda/ring.c: see ring.h. */
#include "plugins/common/cuda/ring.h"

#include <string.h>
#include <time.h>

#include "base/error.h"

/* A decode step takes one to a few milliseconds: short naps first keep its end from being noticed
 * late. */
enum { SPINS = 2000, NAP_NS = 50000 };

vl_status vl_ring_init(vl_ring *r, uint64_t slot_bytes, vl_error *err)
{
    memset(r, 0, sizeof(*r));
    r->slot_bytes = (slot_bytes + 63) / 64 * 64;
    void *p = NULL;
    vl_status rc =
        vl_cuda_check(cudaHostAlloc(&p, r->slot_bytes * VL_RING_SLOTS, cudaHostAllocMapped),
                      "pinning the result ring", err);
    if (rc != VL_OK)
        return rc;
    r->host = p;
    memset(r->host, 0, r->slot_bytes * VL_RING_SLOTS);
    rc = vl_cuda_check(cudaHostGetDevicePointer(&p, r->host, 0), "mapping the result ring", err);
    r->device = p;
    for (int i = 0; rc == VL_OK && i < VL_RING_SLOTS; i++)
        rc = vl_cuda_check(cudaEventCreateWithFlags(&r->done[i], cudaEventDisableTiming),
                           "making an event", err);
    if (rc != VL_OK)
        vl_ring_fini(r);
    return rc;
}

void vl_ring_fini(vl_ring *r)
{
    for (int i = 0; i < VL_RING_SLOTS; i++)
        if (r->done[i] != NULL)
            (void)cudaEventDestroy(r->done[i]);
    if (r->host != NULL)
        (void)cudaFreeHost(r->host);
    memset(r, 0, sizeof(*r));
}

vl_status vl_ring_close(vl_ring *r, uint64_t ticket, cudaStream_t stream, vl_error *err)
{
    return vl_cuda_check(cudaEventRecord(r->done[ticket % VL_RING_SLOTS], stream), "ending a step",
                         err);
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

vl_status vl_ring_wait(vl_ring *r, uint64_t ticket, int64_t timeout_ms, vl_error *err)
{
    cudaEvent_t done = r->done[ticket % VL_RING_SLOTS];
    int64_t until = timeout_ms > 0 ? now_ms() + timeout_ms : 0;
    for (uint64_t i = 0;; i++) {
        cudaError_t e = cudaEventQuery(done);
        if (e == cudaSuccess)
            return VL_OK;
        if (e != cudaErrorNotReady)
            return vl_cuda_check(e, "a step", err);
        if (timeout_ms == 0 || (timeout_ms > 0 && i % 64 == 63 && now_ms() >= until))
            return vl_error_set(err, VL_E_TIMEOUT, "the step is not done yet");
        if (i >= SPINS) {
            struct timespec nap = {0, NAP_NS};
            (void)nanosleep(&nap, NULL);
        }
    }
}
