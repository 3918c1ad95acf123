/* plugins/common/cuda/nvrtc.h: kernel sources to device code (cubin), through the disk cache. Needs
 * no device: the tests compile for targets that this machine has not. Knows sources and flags, not
 * what a kernel does. */
#ifndef VL_CUDA_NVRTC_H
#define VL_CUDA_NVRTC_H

#include "base/buf.h"
#include "vallmo/abi.h"

/* One source file, embedded at build time (cmake/EmbedKernels.cmake). */
typedef struct vl_kernel_source {
    const char *name; /* "rms_norm.cu", "vl.cuh" */
    const char *text; /* NUL-terminated */
} vl_kernel_source;

/* A folder of sources: kernels (.cu) and the headers (.cuh) they may include. Ends with a NULL
 * name. VL_KERNEL_DIR in the environment names a folder from which they are read instead, for work
 * on kernels. */
typedef struct vl_nvrtc_job {
    const vl_kernel_source *sources;
    const char *kernel; /* "rms_norm": the file's name without .cu, and the function's name */
    const char *const *defines; /* "VL_HIDDEN=2560", n_defines of them */
    uint32_t n_defines;
    const char *arch;      /* "sm_90a" */
    const char *cache_dir; /* NULL or "": no cache */
} vl_nvrtc_job;

/* cubin: the device code. log (may be NULL): what the compiler said with --ptxas-options=-v, empty
 * when the cubin came from the cache. *cached tells (may be NULL). VL_E_INTERNAL with the first
 * lines of the log when the source does not compile. [any] */
vl_status vl_nvrtc_compile(const vl_nvrtc_job *job, vl_buf *cubin, vl_buf *log, bool *cached,
                           vl_error *err);

#endif
