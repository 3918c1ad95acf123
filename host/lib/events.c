/* host/lib/events.c: the event queue: a list under a lock and an eventfd that is set while the list
 * is not empty. */
#include "host/lib/events.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"

struct vl_event_queue {
    pthread_mutex_t lock;
    vl_event *first;
    vl_event **last; /* where the next one is hung */
    int fd;
};

vl_status vl_event_queue_create(vl_event_queue **out, vl_error *err)
{
    vl_event_queue *q = calloc(1, sizeof *q);

    if (q == NULL)
        return vl_error_set(err, VL_E_NOMEM, "event queue: out of memory");
    q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->fd < 0) {
        vl_status rc = vl_error_set(err, VL_E_IO, "event queue: eventfd: %s", strerror(errno));
        free(q);
        return rc;
    }
    pthread_mutex_init(&q->lock, NULL);
    q->last = &q->first;
    *out = q;
    return VL_OK;
}

static void free_list(vl_event *e)
{
    while (e != NULL) {
        vl_event *next = e->next;
        vl_event_free(e);
        e = next;
    }
}

void vl_event_queue_destroy(vl_event_queue *q)
{
    if (q == NULL)
        return;
    free_list(q->first);
    close(q->fd);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

int vl_event_queue_fd(const vl_event_queue *q)
{
    return q->fd;
}

vl_event *vl_event_queue_take(vl_event_queue *q)
{
    uint64_t n;

    pthread_mutex_lock(&q->lock);
    vl_event *list = q->first;
    q->first = NULL;
    q->last = &q->first;
    /* Under the lock: the fd is readable exactly while the list is not empty. */
    if (list != NULL && read(q->fd, &n, sizeof n) < 0 && errno != EAGAIN)
        n = 0;
    pthread_mutex_unlock(&q->lock);
    return list;
}

vl_event *vl_event_queue_wait(vl_event_queue *q, int timeout_ms)
{
    struct pollfd p = {.fd = q->fd, .events = POLLIN};
    int n;

    do {
        n = poll(&p, 1, timeout_ms);
    } while (n < 0 && errno == EINTR);
    return vl_event_queue_take(q);
}

void vl_event_queue_post(vl_event_queue *q, vl_event *e)
{
    uint64_t one = 1;

    e->next = NULL;
    pthread_mutex_lock(&q->lock);
    bool was_empty = q->first == NULL;
    *q->last = e;
    q->last = &e->next;
    /* Can't fail: the counter is 0 or 1. */
    if (was_empty && write(q->fd, &one, sizeof one) < 0)
        one = 0;
    pthread_mutex_unlock(&q->lock);
}

void vl_event_free(vl_event *e)
{
    free(e);
}

/* One block: event, tokens, their best ids, text with NUL. */
vl_event *vl_event_make(int32_t kind, void *user, const char *text, size_t text_len,
                        size_t n_tokens, size_t n_top)
{
    uint64_t tokens_bytes, top_count, top_bytes, total;

    if (!vl_mul(n_tokens, sizeof(struct vl_event_token), &tokens_bytes) ||
        !vl_mul(n_tokens, n_top, &top_count) ||
        !vl_mul(top_count, sizeof(vl_logprob), &top_bytes) ||
        !vl_add(sizeof(vl_event), tokens_bytes, &total) || !vl_add(total, top_bytes, &total) ||
        !vl_add(total, text_len, &total) || !vl_add(total, 1, &total) || total > SIZE_MAX)
        return NULL;
    char *block = calloc(1, total);
    if (block == NULL)
        return NULL;
    vl_event *e = (vl_event *)(void *)block;
    char *at = block + sizeof *e;
    e->kind = kind;
    e->user = user;
    e->stop_id = -1;
    if (n_tokens > 0) {
        e->tokens = (struct vl_event_token *)(void *)at;
        e->n_tokens = n_tokens;
        at += tokens_bytes;
        for (size_t i = 0; i < n_tokens && n_top > 0; i++) {
            e->tokens[i].top =
                (const vl_logprob *)(const void *)(at + i * n_top * sizeof(vl_logprob));
            e->tokens[i].n_top = (uint32_t)n_top;
        }
        at += top_bytes;
    }
    if (text != NULL) {
        memcpy(at, text, text_len);
        e->text = at;
        e->text_len = text_len;
    }
    return e;
}
