/* host/lib/prefix.h: the prefix cache: a tree over token ids whose nodes hold snapshots of a
 * model's states.
 *
 * Owns the snapshots given to it, their budgets (bytes on the device, bytes in host memory) and the
 * order in which they go. Knows nothing of requests. [engine] */
#ifndef VL_LIB_PREFIX_H
#define VL_LIB_PREFIX_H

#include <stdbool.h>

#include "vallmo/ext/snapshot.h"

typedef struct vl_prefix vl_prefix;

struct vl_prefix_params {
    const vl_snapshot_api *api;
    vl_model *model;
    uint64_t device_bytes; /* budget; > 0 */
    uint64_t host_bytes;   /* budget; 0: what leaves the device is dropped */
};

struct vl_prefix_stats {
    uint64_t entries, hits, misses, evictions, stored, too_large;
    uint64_t device_bytes, host_bytes; /* in use, as the model counts them */
};

vl_status vl_prefix_create(const struct vl_prefix_params *p, vl_prefix **out, vl_error *err);
void vl_prefix_destroy(vl_prefix *p); /* drops all snapshots; NULL is a no-op */

/* The deepest snapshot whose tokens are the first of ids[0..n) and whose position is at most
 * max_position; NULL when there is none. It is on the device then, and valid until the next call.
 * *common: how many first tokens any path in the tree shares with ids. */
const vl_snapshot *vl_prefix_find(vl_prefix *p, const int32_t *ids, size_t n, uint64_t max_position,
                                  uint64_t *position, uint64_t *common);
void vl_prefix_count(vl_prefix *p,
                     bool hit); /* for the numbers: a request was begun from one, or from none */
/* Is there a snapshot of exactly these tokens? Counts as a use. */
bool vl_prefix_touch(vl_prefix *p, const int32_t *ids, size_t n);
/* Makes room for `bytes` more on the device, within the budget. False: can't be, store nothing. */
bool vl_prefix_room(vl_prefix *p, uint64_t bytes);
/* Takes s over as the state after ids[0..n). Drops it when there is one of these tokens, or memory
 * is out. */
void vl_prefix_put(vl_prefix *p, const int32_t *ids, size_t n, vl_snapshot *s);
/* Drops the snapshot used longest ago from the device (pages are wanted). False: there is none. */
bool vl_prefix_evict(vl_prefix *p);
/* Evicts until the budgets hold: pages that a sequence shared count once it is gone. */
void vl_prefix_trim(vl_prefix *p);
void vl_prefix_stats_get(const vl_prefix *p, struct vl_prefix_stats *out);

#endif
