/* host/lib/workers.c: the pool: one list of jobs, one lock, a few threads. */
#include "host/lib/workers.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

enum { QUEUE_CAP = 4096, DEFAULT_THREADS = 2, MAX_THREADS = 64 };

struct job {
    struct job *next;
    void (*fn)(void *user);
    void *user;
    vl_event_queue *queue; /* borrowed; NULL: nobody is told */
    vl_event *done;        /* made beforehand, so that telling can't fail */
};

struct vl_workers {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct job *first;
    struct job **last;
    size_t n_waiting;
    bool stop;
    uint32_t n_threads;
    pthread_t threads[MAX_THREADS];
};

static void *worker(void *arg)
{
    vl_workers *w = arg;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->first == NULL && !w->stop)
            pthread_cond_wait(&w->more, &w->lock);
        struct job *j = w->first;
        if (j == NULL)
            break;
        w->first = j->next;
        if (w->first == NULL)
            w->last = &w->first;
        w->n_waiting--;
        pthread_mutex_unlock(&w->lock);
        j->fn(j->user);
        if (j->queue != NULL)
            vl_event_queue_post(j->queue, j->done);
        free(j);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

vl_status vl_workers_create(uint32_t n_threads, vl_workers **out, vl_error *err)
{
    vl_workers *w = calloc(1, sizeof *w);

    if (w == NULL)
        return vl_error_set(err, VL_E_NOMEM, "workers: out of memory");
    if (n_threads == 0)
        n_threads = DEFAULT_THREADS;
    if (n_threads > MAX_THREADS)
        n_threads = MAX_THREADS;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->last = &w->first;
    while (w->n_threads < n_threads &&
           pthread_create(&w->threads[w->n_threads], NULL, worker, w) == 0)
        w->n_threads++;
    if (w->n_threads == 0) {
        vl_workers_destroy(w);
        return vl_error_set(err, VL_E_NOMEM, "workers: no thread could be started");
    }
    *out = w;
    return VL_OK;
}

void vl_workers_destroy(vl_workers *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->more);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

vl_status vl_workers_submit(vl_workers *w, void (*fn)(void *user), void *user,
                            vl_event_queue *queue, vl_error *err)
{
    struct job *j = calloc(1, sizeof *j);
    vl_event *done = queue != NULL ? vl_event_make(VL_EVENT_WORK, user, NULL, 0, 0, 0) : NULL;
    vl_status rc = VL_OK;

    if (j == NULL || (queue != NULL && done == NULL)) {
        rc = vl_error_set(err, VL_E_NOMEM, "workers: out of memory");
        goto out;
    }
    *j = (struct job){.fn = fn, .user = user, .queue = queue, .done = done};
    pthread_mutex_lock(&w->lock);
    if (w->stop || w->n_waiting >= QUEUE_CAP) {
        rc = vl_error_set(err, w->stop ? VL_E_STATE : VL_E_BUSY, "workers: %zu jobs are waiting",
                          w->n_waiting);
    } else {
        *w->last = j;
        w->last = &j->next;
        w->n_waiting++;
        j = NULL;
        done = NULL;
        pthread_cond_signal(&w->more);
    }
    pthread_mutex_unlock(&w->lock);
out:
    free(j);
    vl_event_free(done);
    return rc;
}
