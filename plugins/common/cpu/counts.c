/* counts.c: how often a sequence has seen each id: a list of entries and an open-addressed
 * index. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/common/cpu/sampling.h"

struct vl_counts {
    vl_count *entries; /* [cap], n are used */
    uint32_t *index;   /* [n_slots], a power of two >= 2 * cap: entry number + 1; 0: empty */
    size_t cap, n, n_slots;
};

vl_status vl_counts_create(size_t n_distinct, vl_counts **out, vl_error *err)
{
    size_t n_slots = 2;

    if (n_distinct == 0 || n_distinct > (size_t)INT32_MAX)
        return vl_error_set(err, VL_E_INVALID, "token counts: room for %zu ids, want 1 to %d",
                            n_distinct, INT32_MAX);
    while (n_slots < 2 * n_distinct)
        n_slots *= 2;
    vl_counts *c = calloc(1, sizeof(*c));
    if (c) {
        c->entries = malloc(n_distinct * sizeof(*c->entries));
        c->index = calloc(n_slots, sizeof(*c->index));
    }
    if (!c || !c->entries || !c->index) {
        vl_counts_destroy(c);
        return vl_error_set(err, VL_E_NOMEM, "token counts: no memory for %zu ids", n_distinct);
    }
    c->cap = n_distinct;
    c->n_slots = n_slots;
    *out = c;
    return VL_OK;
}

void vl_counts_destroy(vl_counts *c)
{
    if (!c)
        return;
    free(c->entries);
    free(c->index);
    free(c);
}

void vl_counts_clear(vl_counts *c)
{
    c->n = 0;
    memset(c->index, 0, c->n_slots * sizeof(*c->index));
}

bool vl_counts_add(vl_counts *c, int32_t id, bool output)
{
    size_t slot = (size_t)((uint32_t)id * 2654435769u) & (c->n_slots - 1);

    while (c->index[slot] && c->entries[c->index[slot] - 1].id != id)
        slot = (slot + 1) & (c->n_slots - 1);
    if (!c->index[slot]) {
        if (c->n == c->cap)
            return false;
        c->entries[c->n] = (vl_count){.id = id};
        c->index[slot] = (uint32_t)++c->n;
    }
    vl_count *e = &c->entries[c->index[slot] - 1];
    if (output && e->n_output < UINT32_MAX)
        e->n_output++;
    return true;
}

const vl_count *vl_counts_entries(const vl_counts *c, size_t *n)
{
    *n = c->n;
    return c->entries;
}
