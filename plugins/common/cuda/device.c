/* plugins/common/cuda/device.c: see device.h. Owns the streams; must not know what runs on them. */
#include "plugins/common/cuda/device.h"

#include <stdio.h>
#include <string.h>

#include <nvrtc.h>

#include "base/error.h"

enum { MIN_CC = 80, MAX_ARCHS = 64 };

vl_status vl_cuda_check(cudaError_t e, const char *what, vl_error *err)
{
    if (e == cudaSuccess)
        return VL_OK;
    vl_status s = e == cudaErrorMemoryAllocation ? VL_E_NOMEM : VL_E_DEVICE;
    return vl_error_set(err, s, "CUDA: %s: %s (%s)", what, cudaGetErrorString(e),
                        cudaGetErrorName(e));
}

vl_status vl_cuda_check_driver(const vl_cuda *c, CUresult e, const char *what, vl_error *err)
{
    if (e == CUDA_SUCCESS)
        return VL_OK;
    const char *text = NULL;
    if (c->driver.error_string == NULL || c->driver.error_string(e, &text) != CUDA_SUCCESS ||
        text == NULL)
        text = "unknown error";
    vl_status s = e == CUDA_ERROR_OUT_OF_MEMORY ? VL_E_NOMEM : VL_E_DEVICE;
    return vl_error_set(err, s, "CUDA: %s: %s (driver error %d)", what, text, (int)e);
}

bool vl_cuda_arch(int32_t cc, const int *known, int32_t n_known, char *out, size_t cap)
{
    int32_t best = 0;
    /* A cubin runs on its own major version, from its own minor version on. */
    for (int32_t i = 0; i < n_known; i++)
        if (known[i] / 10 == cc / 10 && known[i] <= cc && known[i] > best)
            best = known[i];
    if (best == 0)
        return false;
    /* wgmma and setmaxnreg exist for sm_90a alone. */
    int n = snprintf(out, cap, "sm_%d%s", (int)best, best == 90 ? "a" : "");
    return n > 0 && (size_t)n < cap;
}

static vl_status pick_arch(vl_cuda *c, vl_error *err)
{
    int known[MAX_ARCHS], n = 0;
    if (nvrtcGetNumSupportedArchs(&n) != NVRTC_SUCCESS || n <= 0 || n > MAX_ARCHS ||
        nvrtcGetSupportedArchs(known) != NVRTC_SUCCESS)
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "CUDA: the kernel compiler (NVRTC) does not tell its targets");
    if (!vl_cuda_arch(c->cc, known, n, c->arch, sizeof(c->arch)))
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "CUDA: the kernel compiler (NVRTC) is too old for %s (compute "
                            "capability %d.%d; it knows "
                            "up to %d.%d)",
                            c->name, c->cc / 10, c->cc % 10, known[n - 1] / 10, known[n - 1] % 10);
    return VL_OK;
}

/* Entry points have had their shape since the CUDA version asked for. */
static vl_status driver_function(const char *name, unsigned version, void *slot, vl_error *err)
{
    void *f = NULL;
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    cudaError_t e = cudaGetDriverEntryPointByVersion(name, &f, version, cudaEnableDefault, &found);
#else
    cudaError_t e = cudaGetDriverEntryPoint(name, &f, cudaEnableDefault, &found);
    (void)version;
#endif
    if (e != cudaSuccess || found != cudaDriverEntryPointSuccess || f == NULL)
        return vl_error_set(err, VL_E_UNSUPPORTED, "CUDA: the driver is too old: it has no %s",
                            name);
    memcpy(slot, &f, sizeof(f));
    return VL_OK;
}

static vl_status load_driver(vl_cuda_driver *d, vl_error *err)
{
    const struct {
        const char *name;
        unsigned version;
        void *slot;
    } table[] = {
        {"cuModuleLoadData", 2000, &d->module_load},
        {"cuModuleUnload", 2000, &d->module_unload},
        {"cuModuleGetFunction", 2000, &d->module_function},
        {"cuFuncGetAttribute", 2020, &d->function_attribute},
        {"cuFuncSetAttribute", 9000, &d->function_set},
        {"cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, &d->function_blocks},
        {"cuLaunchKernelEx", 11060, &d->launch},
        {"cuGetErrorString", 6000, &d->error_string},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        vl_status s = driver_function(table[i].name, table[i].version, table[i].slot, err);
        if (s != VL_OK)
            return s;
    }
    return VL_OK;
}

static vl_status find_device(int32_t ordinal, vl_error *err)
{
    int n = 0, driver = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        driver = 0;
    if (driver == 0)
        return vl_error_set(err, VL_E_NOT_FOUND, "CUDA: no NVIDIA driver on this machine");
    if (e == cudaErrorInsufficientDriver || driver / 1000 < CUDART_VERSION / 1000)
        return vl_error_set(
            err, VL_E_UNSUPPORTED,
            "CUDA: the driver is too old: it supports CUDA %d.%d, this build needs %d.0",
            driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000);
    if (e == cudaErrorNoDevice || (e == cudaSuccess && n == 0))
        return vl_error_set(err, VL_E_NOT_FOUND, "CUDA: no NVIDIA GPU on this machine");
    if (e != cudaSuccess)
        return vl_cuda_check(e, "counting devices", err);
    if (ordinal < 0 || ordinal >= n)
        return vl_error_set(err, VL_E_NOT_FOUND,
                            "CUDA: device %d is not there: this machine has %d (0 to %d)",
                            (int)ordinal, n, n - 1);
    return VL_OK;
}

vl_status vl_cuda_init(vl_cuda *c, int32_t ordinal, vl_error *err)
{
    memset(c, 0, sizeof(*c));
    vl_status rc = find_device(ordinal, err);
    if (rc != VL_OK)
        return rc;
    struct cudaDeviceProp p;
    rc = vl_cuda_check(cudaGetDeviceProperties(&p, ordinal), "reading device properties", err);
    if (rc != VL_OK)
        goto out;
    c->device = ordinal;
    c->cc = p.major * 10 + p.minor;
    c->n_sms = p.multiProcessorCount;
    c->shared_block_bytes = (int32_t)p.sharedMemPerBlockOptin;
    c->total_bytes = p.totalGlobalMem;
    (void)snprintf(c->name, sizeof(c->name), "%.90s", p.name);
    if (c->cc < MIN_CC) {
        rc = vl_error_set(err, VL_E_UNSUPPORTED,
                          "CUDA: %s has compute capability %d.%d, 8.0 is the least", c->name,
                          p.major, p.minor);
        goto out;
    }
    rc = pick_arch(c, err);
    if (rc != VL_OK)
        goto out;
    rc = vl_cuda_check(cudaSetDevice(ordinal), "starting the device", err);
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaFree(NULL), "starting the device", err);
    if (rc == VL_OK)
        rc = load_driver(&c->driver, err);
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking),
                           "making a stream", err);
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaStreamCreateWithFlags(&c->copy, cudaStreamNonBlocking),
                           "making a stream", err);
out:
    if (rc != VL_OK)
        vl_cuda_fini(c);
    return rc;
}

void vl_cuda_fini(vl_cuda *c)
{
    if (c->stream != NULL)
        (void)cudaStreamDestroy(c->stream);
    if (c->copy != NULL)
        (void)cudaStreamDestroy(c->copy);
    memset(c, 0, sizeof(*c));
}

vl_status vl_cuda_use(const vl_cuda *c, vl_error *err)
{
    return vl_cuda_check(cudaSetDevice(c->device), "selecting the device", err);
}
