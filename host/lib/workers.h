/* host/lib/workers.h: a small pool of threads for work that must hold neither the loop nor an
 * engine: rendering and tokenizing prompts. Jobs start in the order they came. Knows nothing about
 * what they do. */
#ifndef VL_LIB_WORKERS_H
#define VL_LIB_WORKERS_H

#include "host/lib/events.h"

typedef struct vl_workers vl_workers;

/* n_threads 0: 2. */
vl_status vl_workers_create(uint32_t n_threads, vl_workers **out, vl_error *err);
/* Runs what is queued to its end, then stops. */
void vl_workers_destroy(vl_workers *w);
/* fn(user) on some worker; afterwards, with a queue, a VL_EVENT_WORK with this user. VL_E_BUSY past
 * 4096 waiting. [any] */
vl_status vl_workers_submit(vl_workers *w, void (*fn)(void *user), void *user,
                            vl_event_queue *queue, vl_error *err);

#endif
