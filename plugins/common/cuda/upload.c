/* plugins/common/cuda/upload.c: see upload.h. */
#include "plugins/common/cuda/upload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

enum { MAX_THREADS = 8, CHUNK_BYTES = 8 << 20 };

/* Work is handed out in chunks; chunk i of a piece holds whole groups. */
struct upload {
    const vl_cuda *c;
    const vl_upload_piece *pieces;
    uint32_t n;
    pthread_mutex_t lock;
    uint32_t piece; /* next chunk: under lock */
    uint64_t offset;
    atomic_uint_fast64_t done;
    atomic_bool stop;
    cudaError_t error; /* the first; under lock */
};

struct chunk {
    const vl_upload_piece *p;
    uint64_t offset;
    uint64_t len;
};

static bool next_chunk(struct upload *u, struct chunk *out)
{
    bool got = false;
    (void)pthread_mutex_lock(&u->lock);
    while (u->piece < u->n && !got && !atomic_load(&u->stop)) {
        const vl_upload_piece *p = &u->pieces[u->piece];
        uint64_t step = CHUNK_BYTES;
        if (p->group_bytes < p->n_bytes) /* spread: whole groups, at least one */
            step = p->group_bytes >= CHUNK_BYTES ? p->group_bytes
                                                 : CHUNK_BYTES / p->group_bytes * p->group_bytes;
        if (step > CHUNK_BYTES)
            step = CHUNK_BYTES; /* a group above the buffer is refused before */
        uint64_t left = p->n_bytes - u->offset;
        if (left == 0) {
            u->piece++;
            u->offset = 0;
            continue;
        }
        out->p = p;
        out->offset = u->offset;
        out->len = left < step ? left : step;
        u->offset += out->len;
        got = true;
    }
    (void)pthread_mutex_unlock(&u->lock);
    return got;
}

static cudaError_t send_chunk(const struct chunk *k, const void *host, cudaStream_t stream)
{
    const vl_upload_piece *p = k->p;
    char *dst = p->dst;
    if (p->group_bytes >= p->n_bytes)
        return cudaMemcpyAsync(dst + k->offset, host, k->len, cudaMemcpyHostToDevice, stream);
    uint64_t group = k->offset / p->group_bytes;
    return cudaMemcpy2DAsync(dst + group * p->dst_stride, p->dst_stride, host, p->group_bytes,
                             p->group_bytes, k->len / p->group_bytes, cudaMemcpyHostToDevice,
                             stream);
}

static void fail(struct upload *u, cudaError_t e)
{
    (void)pthread_mutex_lock(&u->lock);
    if (u->error == cudaSuccess)
        u->error = e;
    (void)pthread_mutex_unlock(&u->lock);
    atomic_store(&u->stop, true);
}

/* Each thread has two pinned buffers and a stream: it fills one while the other travels. */
static void *worker(void *user)
{
    struct upload *u = user;
    void *buf[2] = {NULL, NULL};
    cudaEvent_t sent[2] = {NULL, NULL};
    cudaStream_t stream = NULL;
    struct chunk k;
    cudaError_t e = cudaSetDevice(u->c->device);
    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int i = 0; i < 2 && e == cudaSuccess; i++) {
        e = cudaHostAlloc(&buf[i], CHUNK_BYTES, cudaHostAllocDefault);
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&sent[i], cudaEventDisableTiming);
    }
    for (unsigned i = 0; e == cudaSuccess && next_chunk(u, &k); i++) {
        e = cudaEventSynchronize(sent[i % 2]);
        if (e != cudaSuccess)
            break;
        memcpy(buf[i % 2], (const char *)k.p->src + k.offset, k.len);
        e = send_chunk(&k, buf[i % 2], stream);
        if (e == cudaSuccess)
            e = cudaEventRecord(sent[i % 2], stream);
        atomic_fetch_add(&u->done, k.len);
    }
    if (e == cudaSuccess && stream != NULL)
        e = cudaStreamSynchronize(stream);
    if (e != cudaSuccess)
        fail(u, e);
    for (int i = 0; i < 2; i++) {
        if (sent[i] != NULL)
            (void)cudaEventDestroy(sent[i]);
        if (buf[i] != NULL)
            (void)cudaFreeHost(buf[i]);
    }
    if (stream != NULL)
        (void)cudaStreamDestroy(stream);
    return NULL;
}

static vl_status check_pieces(const vl_upload_piece *pieces, uint32_t n, uint64_t *total,
                              vl_error *err)
{
    *total = 0;
    for (uint32_t i = 0; i < n; i++) {
        const vl_upload_piece *p = &pieces[i];
        bool plain = p->group_bytes >= p->n_bytes;
        if (!plain && (p->group_bytes == 0 || p->group_bytes > CHUNK_BYTES ||
                       p->n_bytes % p->group_bytes != 0 || p->dst_stride < p->group_bytes))
            return vl_error_set(err, VL_E_INTERNAL,
                                "upload: piece %u: groups of %llu in %llu bytes", i,
                                (unsigned long long)p->group_bytes, (unsigned long long)p->n_bytes);
        *total += p->n_bytes;
    }
    return VL_OK;
}

vl_status vl_upload(const vl_cuda *c, const vl_upload_piece *pieces, uint32_t n,
                    int32_t (*progress)(void *user, double fraction), void *user, vl_error *err)
{
    uint64_t total;
    vl_status rc = check_pieces(pieces, n, &total, err);
    if (rc != VL_OK)
        return rc;
    struct upload u = {
        .c = c, .pieces = pieces, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER, .error = cudaSuccess};
    pthread_t threads[MAX_THREADS];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int want = cpus < 1 ? 1 : cpus > MAX_THREADS ? MAX_THREADS : (int)cpus, started = 0;
    while (started < want && pthread_create(&threads[started], NULL, worker, &u) == 0)
        started++;
    if (started == 0)
        (void)worker(&u);
    while (started > 0 && progress != NULL && !atomic_load(&u.stop)) {
        uint64_t done = atomic_load(&u.done);
        if (progress(user, total > 0 ? (double)done / (double)total : 1.0) != 0) {
            rc = vl_error_set(err, VL_E_CANCELLED,
                              "cancelled while weights were copied to the device");
            atomic_store(&u.stop, true);
        }
        if (done >= total)
            break;
        (void)usleep(20000);
    }
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    if (rc == VL_OK)
        rc = vl_cuda_check(u.error, "copying weights to the device", err);
    (void)pthread_mutex_destroy(&u.lock);
    return rc;
}
