/* host/lib/stats.c: the engine's numbers. */
#include "host/lib/engine_private.h"

#include <math.h>
#include <string.h>
#include <time.h>

double vl_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Bounds that double (times) or quadruple (counts) from the first; the last is infinite. */
static void histogram_init(struct vl_histogram *h, double first, double factor)
{
    memset(h, 0, sizeof *h);
    for (int i = 0; i < VL_HISTOGRAM_BUCKETS - 1; i++, first *= factor)
        h->bounds[i] = first;
    h->bounds[VL_HISTOGRAM_BUCKETS - 1] = INFINITY;
}

void vl_histogram_add(struct vl_histogram *h, double x)
{
    int i = 0;

    while (i < VL_HISTOGRAM_BUCKETS - 1 && x > h->bounds[i])
        i++;
    h->counts[i]++;
    h->n++;
    h->sum += x;
}

void vl_stats_init(struct vl_engine_stats *s)
{
    memset(s, 0, sizeof *s);
    histogram_init(&s->first_token_seconds, 0.005, 2);
    histogram_init(&s->between_tokens_seconds, 0.0005, 2);
    histogram_init(&s->request_seconds, 0.02, 2.5);
    histogram_init(&s->prompt_length, 16, 2);
    histogram_init(&s->output_length, 1, 2.5);
}

void vl_engine_stats_get(vl_engine *e, struct vl_engine_stats *out)
{
    pthread_mutex_lock(&e->lock);
    *out = e->stats;
    out->requests_waiting = e->n_live - e->stats.requests_running;
    pthread_mutex_unlock(&e->lock);
}
