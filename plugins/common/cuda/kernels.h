/* plugins/common/cuda/kernels.h: a set of compiled kernels on one device: what is missing in the
 * cache is compiled by several threads at once, then loaded; and launching them. Knows names and
 * flags, not what a kernel does. */
#ifndef VL_CUDA_KERNELS_H
#define VL_CUDA_KERNELS_H

#include "plugins/common/cuda/device.h"
#include "plugins/common/cuda/nvrtc.h"

enum { VL_KERNEL_DEFINES = 32, VL_KERNEL_DEFINE_CAP = 64 };

/* One kernel of a set. The caller fills the first part, building the second. */
typedef struct vl_kernel {
    const char *name;
    char defines[VL_KERNEL_DEFINES][VL_KERNEL_DEFINE_CAP];
    uint32_t n_defines;
    uint32_t block;        /* threads */
    uint32_t shared_bytes; /* dynamic shared memory */
    bool overlap;          /* may start while its predecessor ends (it waits with griddepcontrol) */

    CUmodule module; /* owned */
    CUfunction function;
    int32_t n_regs;
    int32_t local_bytes;   /* a thread: spills and arrays in local memory */
    int32_t blocks_per_sm; /* that fit at once */
    bool cached;
    vl_status status; /* of its compilation, with its text */
    vl_error error;
} vl_kernel;

/* Starts the description of one kernel, and adds a constant "NAME=value" to it. */
void vl_kernel_begin(vl_kernel *k, const char *name, uint32_t block, uint32_t shared_bytes);
void vl_kernel_define(vl_kernel *k, const char *name, int64_t value);

/* Compiles and loads kernels[0..n). progress (may be NULL) is called on this thread after each with
 * the number done; its nonzero return cancels (VL_E_CANCELLED). After a failure vl_kernels_fini
 * frees what was loaded. [open] */
vl_status vl_kernels_build(const vl_cuda *c, vl_kernel *kernels, uint32_t n,
                           const vl_kernel_source *sources, const char *cache_dir,
                           int32_t (*progress)(void *user, uint32_t done), void *user,
                           vl_error *err);
void vl_kernels_fini(const vl_cuda *c, vl_kernel *kernels, uint32_t n);

/* Queues grid (x, y, z) blocks on the device's stream; args points at each argument. [engine] */
vl_status vl_kernel_launch(const vl_cuda *c, const vl_kernel *k, uint32_t x, uint32_t y, uint32_t z,
                           void **args, vl_error *err);

#endif
