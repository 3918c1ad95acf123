/* host/lib/prefix.c: a radix tree. Each node's edge is a run of ids; a node may hold a snapshot of
 * the state after its last one. Nodes without a snapshot have at least two children, but the root.
 * All with snapshots are in one list, used last first. */
#include "host/lib/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

struct node {
    struct node *parent;
    struct node *child, *sibling; /* first child; next child of the same parent */
    int32_t *ids;                 /* owned, [n]: the edge that leads here */
    size_t n;
    uint64_t depth;        /* ids from the root to here */
    vl_snapshot *snapshot; /* owned; NULL: an inner node */
    int32_t tier;
    struct node *newer, *older; /* of those with snapshots */
};

struct vl_prefix {
    struct vl_prefix_params p;
    struct node root;
    struct node *newest, *oldest;
    struct node *pinned; /* on its way back to the device: must not be evicted for it; or NULL */
    struct vl_prefix_stats stats;
};

vl_status vl_prefix_create(const struct vl_prefix_params *p, vl_prefix **out, vl_error *err)
{
    vl_prefix *x = calloc(1, sizeof *x);

    if (x == NULL)
        return vl_error_set(err, VL_E_NOMEM, "prefix cache: out of memory");
    x->p = *p;
    *out = x;
    return VL_OK;
}

/* ---- the list of use ---- */

static void unlist(vl_prefix *p, struct node *n)
{
    *(n->newer != NULL ? &n->newer->older : &p->newest) = n->older;
    *(n->older != NULL ? &n->older->newer : &p->oldest) = n->newer;
    n->newer = n->older = NULL;
}

static void enlist(vl_prefix *p, struct node *n)
{
    n->newer = NULL;
    n->older = p->newest;
    *(p->newest != NULL ? &p->newest->newer : &p->oldest) = n;
    p->newest = n;
}

static void use(vl_prefix *p, struct node *n)
{
    unlist(p, n);
    enlist(p, n);
}

/* ---- the tree ---- */

static struct node *child_of(const struct node *n, int32_t id)
{
    struct node *c = n->child;

    while (c != NULL && c->ids[0] != id)
        c = c->sibling;
    return c;
}

static void detach(struct node *n)
{
    struct node **at = &n->parent->child;

    while (*at != n)
        at = &(*at)->sibling;
    *at = n->sibling;
}

static void attach(struct node *parent, struct node *n)
{
    n->parent = parent;
    n->sibling = parent->child;
    parent->child = n;
}

static void node_free(struct node *n)
{
    free(n->ids);
    free(n);
}

/* n may have lost its reason to be: a leaf without snapshot goes, one with a single child melts
 * into it. Walks up. */
static void tidy(vl_prefix *p, struct node *n)
{
    while (n != &p->root && n->snapshot == NULL && n->child == NULL) {
        struct node *parent = n->parent;
        detach(n);
        node_free(n);
        n = parent;
    }
    if (n == &p->root || n->snapshot != NULL || n->child == NULL || n->child->sibling != NULL)
        return;
    struct node *c = n->child;
    int32_t *ids = malloc((n->n + c->n) * sizeof *ids);
    if (ids == NULL)
        return; /* a node too many does no harm */
    memcpy(ids, n->ids, n->n * sizeof *ids);
    memcpy(ids + n->n, c->ids, c->n * sizeof *ids);
    free(c->ids);
    c->ids = ids;
    c->n += n->n;
    detach(n);
    attach(n->parent, c);
    node_free(n);
}

static void drop(vl_prefix *p, struct node *n)
{
    p->p.api->drop(p->p.model, n->snapshot);
    n->snapshot = NULL;
    unlist(p, n);
    p->stats.entries--;
    tidy(p, n);
}

void vl_prefix_destroy(vl_prefix *p)
{
    if (p == NULL)
        return;
    while (p->oldest != NULL)
        drop(p, p->oldest);
    free(p);
}

/* Walks down as far as ids go. *deep: the last node wholly on the path; returns the ids in common.
 */
static uint64_t walk(vl_prefix *p, const int32_t *ids, size_t n, struct node **deep)
{
    struct node *at = &p->root;
    size_t done = 0;

    *deep = at;
    while (done < n) {
        struct node *c = child_of(at, ids[done]);
        size_t k = 0;
        if (c == NULL)
            break;
        while (k < c->n && done + k < n && c->ids[k] == ids[done + k])
            k++;
        done += k;
        if (k < c->n)
            break;
        *deep = at = c;
    }
    return done;
}

/* ---- tiers and budgets ---- */

static vl_tier_info tier_info(const vl_prefix *p, int32_t tier)
{
    vl_tier_info info = {.struct_size = sizeof info};

    p->p.api->tier(p->p.model, tier, &info);
    return info;
}

static uint64_t own_bytes(const vl_prefix *p, const struct node *n)
{
    vl_snapshot_info info = {.struct_size = sizeof info};

    p->p.api->info(p->p.model, n->snapshot, &info);
    return info.own_bytes;
}

static struct node *oldest_on(const vl_prefix *p, int32_t tier)
{
    struct node *n = p->oldest;

    while (n != NULL && (n->tier != tier || n == p->pinned))
        n = n->newer;
    return n;
}

/* Moves and waits: some milliseconds for a state, far less than reading the tokens again. */
static vl_status move(vl_prefix *p, struct node *n, int32_t tier)
{
    uint64_t ticket;
    vl_status rc = p->p.api->move(p->p.model, n->snapshot, tier, &ticket, NULL);

    if (rc == VL_OK)
        rc = p->p.api->moved(p->p.model, ticket, -1, NULL);
    if (rc == VL_OK)
        n->tier = tier;
    return rc;
}

static bool host_room(vl_prefix *p, uint64_t bytes)
{
    if (bytes > p->p.host_bytes)
        return false;
    for (;;) {
        vl_tier_info t = tier_info(p, VL_TIER_HOST);
        struct node *n;
        if (t.used_bytes <= p->p.host_bytes - bytes && t.free_bytes >= bytes)
            return true;
        n = oldest_on(p, VL_TIER_HOST);
        if (n == NULL)
            return false;
        p->stats.evictions++;
        drop(p, n);
    }
}

/* One snapshot off the device: to host memory where there is room for it, else gone. */
static void off_device(vl_prefix *p, struct node *n)
{
    if (p->p.host_bytes > 0) {
        vl_snapshot_info info = {.struct_size = sizeof info};
        p->p.api->info(p->p.model, n->snapshot, &info);
        if (host_room(p, info.own_bytes + info.shared_bytes)) {
            vl_status rc = move(p, n, VL_TIER_HOST);
            if (rc == VL_OK)
                return;
            if (rc == VL_E_UNSUPPORTED)
                p->p.host_bytes = 0;
        }
    }
    p->stats.evictions++;
    drop(p, n);
}

bool vl_prefix_evict(vl_prefix *p)
{
    struct node *n = oldest_on(p, VL_TIER_DEVICE);

    if (n == NULL)
        return false;
    off_device(p, n);
    return true;
}

static bool fits(const vl_prefix *p, uint64_t bytes)
{
    vl_tier_info t = tier_info(p, VL_TIER_DEVICE);

    return t.used_bytes <= p->p.device_bytes - bytes && t.free_bytes >= bytes;
}

bool vl_prefix_room(vl_prefix *p, uint64_t bytes)
{
    if (bytes > p->p.device_bytes) {
        p->stats.too_large++;
        return false;
    }
    while (!fits(p, bytes)) {
        if (!vl_prefix_evict(p))
            return false;
    }
    return true;
}

void vl_prefix_trim(vl_prefix *p)
{
    while (tier_info(p, VL_TIER_DEVICE).used_bytes > p->p.device_bytes) {
        if (!vl_prefix_evict(p))
            return;
    }
}

/* A snapshot in host memory that is wanted: back to the device. */
static bool on_device(vl_prefix *p, struct node *n)
{
    if (n->tier == VL_TIER_DEVICE)
        return true;
    p->pinned = n;
    bool moved = vl_prefix_room(p, own_bytes(p, n)) && move(p, n, VL_TIER_DEVICE) == VL_OK;
    p->pinned = NULL;
    return moved;
}

const vl_snapshot *vl_prefix_find(vl_prefix *p, const int32_t *ids, size_t n, uint64_t max_position,
                                  uint64_t *position, uint64_t *common)
{
    struct node *at;

    *common = walk(p, ids, n, &at);
    *position = 0;
    while (at != NULL) {
        struct node *up = at->parent;
        if (at->snapshot != NULL && at->depth <= max_position) {
            use(p, at);
            if (on_device(p, at)) {
                *position = at->depth;
                return at->snapshot;
            }
            /* Making room may have moved inner nodes about: begin again, above this one. */
            max_position = at->depth - 1;
            walk(p, ids, n, &at);
            continue;
        }
        at = up;
    }
    return NULL;
}

void vl_prefix_count(vl_prefix *p, bool hit)
{
    p->stats.hits += hit;
    p->stats.misses += !hit;
}

bool vl_prefix_touch(vl_prefix *p, const int32_t *ids, size_t n)
{
    struct node *at;

    if (walk(p, ids, n, &at) != n || at->depth != n || at->snapshot == NULL)
        return false;
    use(p, at);
    return true;
}

static struct node *node_make(const int32_t *ids, size_t n, uint64_t depth)
{
    struct node *x = calloc(1, sizeof *x);

    if (x == NULL || (x->ids = malloc(n * sizeof *ids)) == NULL) {
        free(x);
        return NULL;
    }
    memcpy(x->ids, ids, n * sizeof *ids);
    x->n = n;
    x->depth = depth;
    return x;
}

/* Cuts c's edge after its first k ids; returns the new node in between. */
static struct node *split(struct node *c, size_t k)
{
    struct node *mid = node_make(c->ids, k, c->depth - c->n + k);
    struct node *parent = c->parent;

    if (mid == NULL)
        return NULL;
    detach(c);
    attach(parent, mid);
    memmove(c->ids, c->ids + k, (c->n - k) * sizeof *c->ids);
    c->n -= k;
    attach(mid, c);
    return mid;
}

/* The node of exactly ids[0..n), made if need be; NULL when memory is out. */
static struct node *make_path(vl_prefix *p, const int32_t *ids, size_t n)
{
    struct node *at;
    uint64_t common = walk(p, ids, n, &at);

    if (common > at->depth) { /* part of an edge */
        struct node *mid = split(child_of(at, ids[at->depth]), (size_t)(common - at->depth));
        if (mid == NULL)
            return NULL;
        at = mid;
    }
    if (at->depth < n) {
        struct node *leaf = node_make(ids + at->depth, n - (size_t)at->depth, n);
        if (leaf == NULL) {
            tidy(p, at);
            return NULL;
        }
        attach(at, leaf);
        at = leaf;
    }
    return at;
}

void vl_prefix_put(vl_prefix *p, const int32_t *ids, size_t n, vl_snapshot *s)
{
    struct node *at = n > 0 ? make_path(p, ids, n) : NULL;

    if (at == NULL || at->snapshot != NULL) {
        p->p.api->drop(p->p.model, s);
        if (at != NULL)
            use(p, at);
        return;
    }
    at->snapshot = s;
    at->tier = VL_TIER_DEVICE;
    enlist(p, at);
    p->stats.entries++;
    p->stats.stored++;
    vl_prefix_trim(p);
}

void vl_prefix_stats_get(const vl_prefix *p, struct vl_prefix_stats *out)
{
    *out = p->stats;
    out->device_bytes = tier_info(p, VL_TIER_DEVICE).used_bytes;
    out->host_bytes = p->p.host_bytes > 0 ? tier_info(p, VL_TIER_HOST).used_bytes : 0;
}
