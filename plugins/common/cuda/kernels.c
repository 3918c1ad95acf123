/* plugins/common/cuda/kernels.c: see kernels.h. */
#include "plugins/common/cuda/kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

enum { MAX_THREADS = 16, DEFAULT_SHARED_BYTES = 48 << 10 };

void vl_kernel_begin(vl_kernel *k, const char *name, uint32_t block, uint32_t shared_bytes)
{
    memset(k, 0, sizeof(*k));
    k->name = name;
    k->block = block;
    k->shared_bytes = shared_bytes;
}

void vl_kernel_define(vl_kernel *k, const char *name, int64_t value)
{
    if (k->n_defines < VL_KERNEL_DEFINES)
        (void)snprintf(k->defines[k->n_defines], VL_KERNEL_DEFINE_CAP, "%.40s=%lld", name,
                       (long long)value);
    k->n_defines++; /* one too many is reported when it is built */
}

/* What the compiling threads share. */
struct build {
    const vl_cuda *c;
    vl_kernel *kernels;
    vl_buf *cubins; /* [n] */
    const vl_kernel_source *sources;
    const char *cache_dir;
    uint32_t n;
    atomic_uint next;
    atomic_uint done;
    atomic_bool stop;
};

static void compile_one(struct build *b, uint32_t i)
{
    vl_kernel *k = &b->kernels[i];
    const char *defines[VL_KERNEL_DEFINES];
    if (k->n_defines > VL_KERNEL_DEFINES) {
        k->status = vl_error_set(&k->error, VL_E_INTERNAL, "kernel %s: %u constants, room for %d",
                                 k->name, k->n_defines, VL_KERNEL_DEFINES);
        return;
    }
    for (uint32_t d = 0; d < k->n_defines; d++)
        defines[d] = k->defines[d];
    vl_nvrtc_job job = {b->sources, k->name, defines, k->n_defines, b->c->arch, b->cache_dir};
    k->status = vl_nvrtc_compile(&job, &b->cubins[i], NULL, &k->cached, &k->error);
}

static void *worker(void *user)
{
    struct build *b = user;
    for (;;) {
        uint32_t i = atomic_fetch_add(&b->next, 1);
        if (i >= b->n || atomic_load(&b->stop))
            return NULL;
        compile_one(b, i);
        atomic_fetch_add(&b->done, 1);
    }
}

static int32_t attribute(const vl_cuda *c, CUfunction f, CUfunction_attribute a)
{
    int v = 0;
    return c->driver.function_attribute(&v, a, f) == CUDA_SUCCESS ? v : -1;
}

static vl_status load(const vl_cuda *c, vl_kernel *k, const vl_buf *cubin, vl_error *err)
{
    const vl_cuda_driver *d = &c->driver;
    vl_status rc = vl_cuda_check_driver(c, d->module_load(&k->module, cubin->ptr), k->name, err);
    if (rc != VL_OK)
        return rc;
    rc =
        vl_cuda_check_driver(c, d->module_function(&k->function, k->module, k->name), k->name, err);
    if (rc != VL_OK)
        return rc;
    k->n_regs = attribute(c, k->function, CU_FUNC_ATTRIBUTE_NUM_REGS);
    k->local_bytes = attribute(c, k->function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    if (k->shared_bytes > DEFAULT_SHARED_BYTES) {
        rc = vl_cuda_check_driver(c,
                                  d->function_set(k->function,
                                                  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                  (int)k->shared_bytes),
                                  k->name, err);
        if (rc != VL_OK)
            return vl_error_prefix(err, "%u bytes of shared memory", k->shared_bytes);
    }
    int blocks = 0;
    rc = vl_cuda_check_driver(
        c, d->function_blocks(&blocks, k->function, (int)k->block, k->shared_bytes), k->name, err);
    k->blocks_per_sm = blocks;
    if (rc == VL_OK && blocks == 0)
        rc = vl_error_set(err, VL_E_INTERNAL,
                          "kernel %s: a block of %u threads, %u bytes of shared memory and %d "
                          "registers does not fit",
                          k->name, k->block, k->shared_bytes, k->n_regs);
    return rc;
}

/* Runs the threads until all are compiled, telling progress from this one. */
static vl_status run_threads(struct build *b, int32_t (*progress)(void *, uint32_t), void *user,
                             vl_error *err)
{
    pthread_t threads[MAX_THREADS];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = 0, want = cpus < 1 ? 1 : cpus > MAX_THREADS ? MAX_THREADS : (uint32_t)cpus;
    if (want > b->n)
        want = b->n;
    while (n < want && pthread_create(&threads[n], NULL, worker, b) == 0)
        n++;
    if (n == 0)
        (void)worker(b);
    vl_status rc = VL_OK;
    uint32_t told = 0;
    while (n > 0 && progress != NULL && !atomic_load(&b->stop)) {
        uint32_t done = atomic_load(&b->done);
        if (done != told && progress(user, done) != 0) {
            atomic_store(&b->stop, true);
            rc = vl_error_set(err, VL_E_CANCELLED, "cancelled while compiling kernels");
        }
        told = done;
        if (done >= b->n)
            break;
        (void)usleep(5000);
    }
    for (uint32_t i = 0; i < n; i++)
        (void)pthread_join(threads[i], NULL);
    return rc;
}

vl_status vl_kernels_build(const vl_cuda *c, vl_kernel *kernels, uint32_t n,
                           const vl_kernel_source *sources, const char *cache_dir,
                           int32_t (*progress)(void *user, uint32_t done), void *user,
                           vl_error *err)
{
    struct build b = {
        .c = c, .kernels = kernels, .sources = sources, .cache_dir = cache_dir, .n = n};
    b.cubins = calloc(n > 0 ? n : 1, sizeof(*b.cubins));
    if (b.cubins == NULL)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    vl_status rc = run_threads(&b, progress, user, err);
    for (uint32_t i = 0; rc == VL_OK && i < n; i++) {
        if (kernels[i].status != VL_OK)
            rc = vl_error_set(err, kernels[i].status, "%s", kernels[i].error.text);
        else
            rc = load(c, &kernels[i], &b.cubins[i], err);
    }
    for (uint32_t i = 0; i < n; i++)
        vl_buf_fini(&b.cubins[i]);
    free(b.cubins);
    return rc;
}

void vl_kernels_fini(const vl_cuda *c, vl_kernel *kernels, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (kernels[i].module != NULL)
            (void)c->driver.module_unload(kernels[i].module);
        kernels[i].module = NULL;
        kernels[i].function = NULL;
    }
}

vl_status vl_kernel_launch(const vl_cuda *c, const vl_kernel *k, uint32_t x, uint32_t y, uint32_t z,
                           void **args, vl_error *err)
{
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                           .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {
        .gridDimX = x,
        .gridDimY = y,
        .gridDimZ = z,
        .blockDimX = k->block,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = k->shared_bytes,
        .hStream = (CUstream)c->stream,
        .attrs = &a,
        .numAttrs = k->overlap && c->cc >= 90 ? 1 : 0,
    };
    return vl_cuda_check_driver(c, c->driver.launch(&config, k->function, args, NULL), k->name,
                                err);
}
