/* plugins/common/cuda/nvrtc.c: see nvrtc.h. */
#include "plugins/common/cuda/nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvrtc.h>

#include "base/error.h"
#include "base/file.h"
#include "plugins/common/cuda/diskcache.h"

enum {
    MAX_SOURCES = 64,
    MAX_FLAGS = 48,
    FLAG_CAP = 96,
    PATH_CAP = 4096,
    MAX_SOURCE_BYTES = 4 << 20
};

/* The texts of one compilation: the kernel's and those of all headers. */
struct texts {
    vl_buf read[MAX_SOURCES]; /* sources read live; owned */
    const char *names[MAX_SOURCES];
    const char *text[MAX_SOURCES];
    int n;
};

static void texts_fini(struct texts *t)
{
    for (int i = 0; i < t->n; i++)
        vl_buf_fini(&t->read[i]);
}

static vl_status source_text(struct texts *t, const vl_kernel_source *s, const char *live,
                             vl_error *err)
{
    vl_buf *b = &t->read[t->n];
    memset(b, 0, sizeof(*b));
    t->names[t->n] = s->name;
    t->text[t->n] = s->text;
    t->n++;
    if (live == NULL)
        return VL_OK;
    char path[PATH_CAP];
    vl_status rc = vl_path_join(path, sizeof(path), live, s->name, err);
    if (rc != VL_OK)
        return rc;
    rc = vl_file_read(path, MAX_SOURCE_BYTES, b, err);
    if (rc != VL_OK)
        return vl_error_prefix(err, "VL_KERNEL_DIR");
    t->text[t->n - 1] = b->ptr != NULL ? b->ptr : "";
    return VL_OK;
}

/* Entry 0 is the kernel, the others are all headers. */
static vl_status gather(struct texts *t, const vl_nvrtc_job *job, vl_error *err)
{
    const char *live = getenv("VL_KERNEL_DIR");
    if (live != NULL && live[0] == '\0')
        live = NULL;
    size_t len = strlen(job->kernel);
    t->n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (const vl_kernel_source *s = job->sources; s->name != NULL; s++) {
            bool kernel =
                strncmp(s->name, job->kernel, len) == 0 && strcmp(s->name + len, ".cu") == 0;
            size_t l = strlen(s->name);
            bool header = l > 4 && strcmp(s->name + l - 4, ".cuh") == 0;
            if (pass == 0 ? !kernel : !header)
                continue;
            if (t->n == MAX_SOURCES)
                return vl_error_set(err, VL_E_INTERNAL, "more than %d kernel sources", MAX_SOURCES);
            vl_status rc = source_text(t, s, live, err);
            if (rc != VL_OK)
                return rc;
        }
    if (t->n == 0 || strncmp(t->names[0], job->kernel, len) != 0)
        return vl_error_set(err, VL_E_INTERNAL, "no kernel named %s", job->kernel);
    return VL_OK;
}

struct flags {
    char text[MAX_FLAGS][FLAG_CAP];
    const char *ptr[MAX_FLAGS];
    int n;
    bool failed;
};

static void flag(struct flags *f, const char *head, const char *tail)
{
    if (f->n == MAX_FLAGS) {
        f->failed = true;
        return;
    }
    int n = snprintf(f->text[f->n], FLAG_CAP, "%s%s", head, tail);
    f->failed = f->failed || n < 0 || n >= FLAG_CAP;
    f->ptr[f->n] = f->text[f->n];
    f->n++;
}

static vl_status make_flags(struct flags *f, const vl_nvrtc_job *job, vl_error *err)
{
    f->n = 0;
    f->failed = false;
    flag(f, "--gpu-architecture=", job->arch);
    flag(f, "--std=c++17", "");
    flag(f, "--ptxas-options=-v", "");
    flag(f, "-default-device", "");
    for (uint32_t i = 0; i < job->n_defines; i++)
        flag(f, "-D", job->defines[i]);
    if (f->failed)
        return vl_error_set(err, VL_E_INTERNAL, "kernel %s: too many or too long flags",
                            job->kernel);
    return VL_OK;
}

static vl_cache_key make_key(const struct texts *t, const struct flags *f)
{
    int version[2] = {0, 0};
    (void)nvrtcVersion(&version[0], &version[1]);
    vl_cache_key k = vl_cache_key_begin("cubin");
    vl_cache_key_add(&k, version, sizeof(version));
    for (int i = 0; i < f->n; i++)
        vl_cache_key_add(&k, f->text[i], strlen(f->text[i]));
    for (int i = 0; i < t->n; i++) {
        vl_cache_key_add(&k, t->names[i], strlen(t->names[i]));
        vl_cache_key_add(&k, t->text[i], strlen(t->text[i]));
    }
    return k;
}

static void read_log(nvrtcProgram p, vl_buf *log)
{
    size_t n = 0;
    if (nvrtcGetProgramLogSize(p, &n) != NVRTC_SUCCESS || n <= 1 || !vl_buf_reserve(log, n))
        return;
    if (nvrtcGetProgramLog(p, log->ptr + log->len) == NVRTC_SUCCESS)
        log->len += n - 1;
}

static vl_status compile(const vl_nvrtc_job *job, const struct texts *t, const struct flags *f,
                         vl_buf *cubin, vl_buf *log, vl_error *err)
{
    nvrtcProgram p = NULL;
    nvrtcResult e =
        nvrtcCreateProgram(&p, t->text[0], t->names[0], t->n - 1, t->text + 1, t->names + 1);
    vl_status rc = VL_OK;
    size_t n = 0;
    if (e == NVRTC_SUCCESS) {
        e = nvrtcCompileProgram(p, f->n, f->ptr);
        read_log(p, log);
    }
    if (e != NVRTC_SUCCESS) {
        /* The first error, not the notes before it. */
        const char *at = log->ptr != NULL ? strstr(log->ptr, "error") : NULL;
        while (at != NULL && at > log->ptr && at[-1] != '\n')
            at--;
        rc = vl_error_set(err, VL_E_INTERNAL, "kernel %s for %s: %s: %.300s", job->kernel,
                          job->arch, nvrtcGetErrorString(e),
                          at != NULL         ? at
                          : log->ptr != NULL ? log->ptr
                                             : "");
        goto out;
    }
    vl_buf_clear(cubin);
    if (nvrtcGetCUBINSize(p, &n) != NVRTC_SUCCESS || n == 0) {
        rc = vl_error_set(err, VL_E_INTERNAL, "kernel %s for %s: no device code came out",
                          job->kernel, job->arch);
        goto out;
    }
    if (!vl_buf_reserve(cubin, n)) {
        rc = vl_error_set(err, VL_E_NOMEM, "out of memory");
        goto out;
    }
    if (nvrtcGetCUBIN(p, cubin->ptr) != NVRTC_SUCCESS)
        rc = vl_error_set(err, VL_E_INTERNAL, "kernel %s for %s: its device code cannot be read",
                          job->kernel, job->arch);
    else
        cubin->len = n;
out:
    if (p != NULL)
        (void)nvrtcDestroyProgram(&p);
    return rc;
}

vl_status vl_nvrtc_compile(const vl_nvrtc_job *job, vl_buf *cubin, vl_buf *log, bool *cached,
                           vl_error *err)
{
    vl_buf own = VL_BUF_INIT;
    struct flags f;
    struct texts *t = malloc(sizeof(*t));
    if (t == NULL)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    t->n = 0;
    if (log == NULL)
        log = &own;
    if (cached != NULL)
        *cached = false;
    vl_status rc = gather(t, job, err);
    if (rc == VL_OK)
        rc = make_flags(&f, job, err);
    if (rc != VL_OK)
        goto out;
    vl_cache_key key = make_key(t, &f);
    if (vl_cache_get(job->cache_dir, &key, cubin)) {
        if (cached != NULL)
            *cached = true;
        goto out;
    }
    rc = compile(job, t, &f, cubin, log, err);
    if (rc == VL_OK) /* A cache that cannot be written costs time at the next start, no more. */
        (void)vl_cache_put(job->cache_dir, &key, cubin->ptr, cubin->len, NULL);
out:
    texts_fini(t);
    free(t);
    vl_buf_fini(&own);
    return rc;
}
