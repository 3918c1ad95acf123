/* plugins/common/cuda/device.h: one NVIDIA device: found, checked, with its streams and the few
 * driver functions that the runtime library has no equal for. Knows no model. Nothing here links
 * libcuda: without a driver it gives an error. */
#ifndef VL_CUDA_DEVICE_H
#define VL_CUDA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "vallmo/abi.h"

/* Driver functions, looked up through the runtime. */
typedef struct vl_cuda_driver {
    CUresult (*module_load)(CUmodule *module, const void *image);
    CUresult (*module_unload)(CUmodule module);
    CUresult (*module_function)(CUfunction *function, CUmodule module, const char *name);
    CUresult (*function_attribute)(int *value, CUfunction_attribute attribute, CUfunction function);
    CUresult (*function_set)(CUfunction function, CUfunction_attribute attribute, int value);
    CUresult (*function_blocks)(int *blocks, CUfunction function, int threads, size_t shared_bytes);
    CUresult (*launch)(const CUlaunchConfig *config, CUfunction function, void **args,
                       void **extra);
    CUresult (*error_string)(CUresult result, const char **text);
} vl_cuda_driver;

typedef struct vl_cuda {
    int32_t device; /* ordinal */
    int32_t cc;     /* compute capability, 10 * major + minor */
    int32_t n_sms;
    int32_t shared_block_bytes; /* most shared memory of one block (opt-in) */
    uint64_t total_bytes;       /* of device memory */
    char arch[16];              /* "sm_90a": what kernels are compiled for */
    char name[96];              /* "NVIDIA H200" */
    cudaStream_t stream;        /* all computing; owned */
    cudaStream_t copy;          /* copies that need not wait for it; owned */
    vl_cuda_driver driver;
} vl_cuda;

/* Opens device number `ordinal`. One clear line each for: no driver, driver too old, no such
 * device, compute capability below 8.0, a toolkit that cannot compile for it. [open] */
vl_status vl_cuda_init(vl_cuda *c, int32_t ordinal, vl_error *err);
void vl_cuda_fini(vl_cuda *c); /* a zeroed one is fine [open] */
/* Makes the device current for the calling thread (each thread that uses it calls this once). [any]
 */
vl_status vl_cuda_use(const vl_cuda *c, vl_error *err);

/* VL_OK, or VL_E_DEVICE (VL_E_NOMEM for lack of memory) with "what: reason". [any] */
vl_status vl_cuda_check(cudaError_t e, const char *what, vl_error *err);
vl_status vl_cuda_check_driver(const vl_cuda *c, CUresult e, const char *what, vl_error *err);

/* The target that kernels for compute capability cc are compiled for ("sm_90a"), given the targets
 * that the compiler knows. False: it knows none that runs there. [any] */
bool vl_cuda_arch(int32_t cc, const int *known, int32_t n_known, char *out, size_t cap);

#endif
