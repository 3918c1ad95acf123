/* plugins/qwen35/cpu/snapshot.c: copies of a sequence's state, with its pages shared by count. One
 * tier: host memory. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/qwen35/cpu/model.h"

static uint64_t state_bytes(const vl_q35_cpu *m)
{
    return (uint64_t)m->state_floats * sizeof(float);
}

uint64_t vl_q35_cpu_take_bytes(const vl_q35_model *base, const vl_sequence *s)
{
    (void)s;
    return state_bytes(cpu_of_const(base));
}

static void free_snapshot(vl_snapshot *s)
{
    if (s == NULL)
        return;
    free(s->pages);
    free(s->state);
    free(s);
}

vl_status vl_q35_cpu_take(vl_q35_model *base, vl_sequence *s, vl_snapshot **out, uint64_t *position,
                          vl_error *err)
{
    vl_q35_cpu *m = cpu_of(base);
    if (s->stop == VL_STOP_FAULT)
        return vl_error_set(err, VL_E_STATE,
                            "the sequence has faulted: its state is not to be kept");
    if (s->position == 0)
        return vl_error_set(err, VL_E_STATE, "the sequence has read nothing yet");
    const uint64_t bytes = state_bytes(m);
    if (bytes > m->snapshot_cap - m->snapshot_used)
        return vl_error_set(err, VL_E_NOMEM, "a snapshot takes %llu bytes, %llu of %llu are free",
                            (unsigned long long)bytes,
                            (unsigned long long)(m->snapshot_cap - m->snapshot_used),
                            (unsigned long long)m->snapshot_cap);
    /* The page that a run-ahead step may have begun past the position is not part of it. */
    const size_t n_pages = cpu_pages_of(s->position);
    vl_snapshot *snap = calloc(1, sizeof(*snap));
    if (snap != NULL) {
        snap->pages = malloc(n_pages * sizeof(*snap->pages));
        snap->state = malloc((size_t)bytes);
    }
    if (snap == NULL || snap->pages == NULL || snap->state == NULL) {
        free_snapshot(snap);
        return vl_error_set(err, VL_E_NOMEM, "no memory for a snapshot of %llu bytes",
                            (unsigned long long)bytes);
    }
    memcpy(snap->pages, s->pages, n_pages * sizeof(*snap->pages));
    memcpy(snap->state, s->state, (size_t)bytes);
    snap->n_pages = n_pages;
    snap->position = s->position;
    vl_pages_ref(m->page_pool, snap->pages, n_pages);
    for (size_t i = 0; i < n_pages; i++)
        m->snapshot_refs[snap->pages[i]]++;
    m->snapshot_used += bytes;
    snap->next = m->snapshots;
    if (snap->next != NULL)
        snap->next->prev = snap;
    m->snapshots = snap;
    *out = snap;
    *position = snap->position;
    return VL_OK;
}

void vl_q35_cpu_snapshot_info(const vl_q35_model *base, const vl_snapshot *s, vl_snapshot_info *out)
{
    const vl_q35_cpu *m = cpu_of_const(base);
    const uint64_t page_bytes = (uint64_t)vl_pages_bytes(m->page_pool);
    out->tier = VL_TIER_DEVICE;
    out->position = s->position;
    out->own_bytes = state_bytes(m);
    out->shared_bytes = 0;
    for (size_t i = 0; i < s->n_pages; i++) {
        if (vl_pages_refs(m->page_pool, s->pages[i]) == 1)
            out->own_bytes += page_bytes;
        else
            out->shared_bytes += page_bytes;
    }
}

vl_status vl_q35_cpu_move(vl_q35_model *base, vl_snapshot *s, int32_t tier, uint64_t *ticket,
                          vl_error *err)
{
    (void)base;
    (void)s;
    (void)ticket;
    return vl_error_set(err, VL_E_UNSUPPORTED, "a model on the CPU has one tier, %d is not it",
                        (int)tier);
}

vl_status vl_q35_cpu_moved(vl_q35_model *base, uint64_t ticket, int64_t timeout_ms, vl_error *err)
{
    (void)base;
    (void)timeout_ms;
    return vl_error_set(err, VL_E_STATE, "no move has ticket %llu: a model on the CPU has one tier",
                        (unsigned long long)ticket);
}

uint64_t vl_q35_cpu_drop(vl_q35_model *base, vl_snapshot *s)
{
    vl_q35_cpu *m = cpu_of(base);
    if (s == NULL)
        return 0;
    for (size_t i = 0; i < s->n_pages; i++)
        m->snapshot_refs[s->pages[i]]--;
    uint64_t freed = state_bytes(m) + vl_pages_unref(m->page_pool, s->pages, s->n_pages);
    m->snapshot_used -= state_bytes(m);
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        m->snapshots = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
    free_snapshot(s);
    return freed;
}

void vl_q35_cpu_tier(const vl_q35_model *base, int32_t tier, vl_tier_info *out)
{
    const vl_q35_cpu *m = cpu_of_const(base);
    out->tier = tier;
    out->used_bytes = 0;
    out->free_bytes = 0;
    if (tier != VL_TIER_DEVICE)
        return;
    out->used_bytes = m->snapshot_used;
    out->free_bytes = m->snapshot_cap - m->snapshot_used;
    for (size_t i = 0; i < vl_pages_total(m->page_pool); i++) {
        if (m->snapshot_refs[i] > 0 &&
            m->snapshot_refs[i] == vl_pages_refs(m->page_pool, (uint32_t)i))
            out->used_bytes += vl_pages_bytes(m->page_pool);
    }
}
