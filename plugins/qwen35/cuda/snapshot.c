/* plugins/qwen35/cuda/snapshot.c: snapshots: a copy of the recurrent and conv state at one
 * position, and references to the pages before it. States lie in a pool behind those of the running
 * sequences; copies are ordered on the stream. Host memory is tier.c's. [engine] */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/qwen35/cuda/model.h"

uint64_t vl_q35_delta_bytes(const vl_q35_cuda *m)
{
    return (uint64_t)(m->s.n_linear * m->s.hv) * 65536;
}
uint64_t vl_q35_conv_bytes(const vl_q35_cuda *m)
{
    return (uint64_t)(m->s.n_linear * vl_q35_cd(&m->s)) * 8;
}

uint64_t vl_q35_state_bytes(const vl_q35_cuda *m)
{
    return vl_q35_delta_bytes(m) + vl_q35_conv_bytes(m);
}

void vl_q35_state_copy(vl_q35_run *r, int32_t to, int32_t from)
{
    vl_q35_cuda *m = r->m;
    char *state = (char *)m->state;
    vl_q35_copy(r, state + (uint64_t)to * vl_q35_delta_bytes(m),
                state + (uint64_t)from * vl_q35_delta_bytes(m), vl_q35_delta_bytes(m),
                "copying a state");
    vl_q35_copy(r, m->ring + (uint64_t)to * vl_q35_conv_bytes(m),
                m->ring + (uint64_t)from * vl_q35_conv_bytes(m), vl_q35_conv_bytes(m),
                "copying a state");
}

int32_t vl_q35_state_free(const vl_q35_cuda *m)
{
    for (int32_t i = 0; i < m->n_saved; i++)
        if (!m->saved_used[i])
            return i;
    return -1;
}

/* Where the sequence really is. While its prompt is being read the host knows; afterwards only the
 * device may. */
static vl_status true_position(vl_q35_cuda *m, struct vl_q35_seq *s, vl_error *err)
{
    vl_slot slot;
    vl_status rc = VL_OK;
    if (s->decoding)
        rc = vl_q35_sequence_sync(m, s, &slot, err);
    if (rc == VL_OK && s->stop == VL_STOP_FAULT)
        rc = vl_error_set(err, VL_E_STATE, "no snapshot of a sequence that has failed");
    if (rc == VL_OK && s->position == 0)
        rc = vl_error_set(err, VL_E_STATE, "no snapshot of a sequence that has read nothing");
    return rc;
}

vl_status vl_q35_cuda_take(vl_q35_model *model, vl_sequence *sequence, vl_snapshot **out,
                           uint64_t *position, vl_error *err)
{
    struct vl_q35_seq *s = vl_q35_seq_of(sequence);
    vl_q35_cuda *m = vl_q35_of(model);
    vl_status rc = vl_q35_cuda_health(model, err);
    if (rc == VL_OK)
        rc = vl_cuda_use(&m->c, err);
    if (rc == VL_OK)
        rc = true_position(m, s, err);
    if (rc != VL_OK)
        return rc;
    const int32_t state = vl_q35_state_free(m);
    if (state < 0)
        return vl_error_set(err, VL_E_NOMEM, "all %d snapshot states are in use", (int)m->n_saved);
    const uint64_t n_pages = (s->position + VL_Q35_PAGE - 1) / VL_Q35_PAGE;
    struct vl_q35_shot *shot = calloc(1, sizeof(*shot));
    uint32_t *pages = malloc((size_t)n_pages * sizeof(*pages));
    if (shot == NULL || pages == NULL) {
        free(shot);
        free(pages);
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    }
    vl_q35_run r = {m, VL_OK, err};
    vl_q35_state_copy(&r, (int32_t)m->s.n_rows + state, s->slot);
    if (r.rc != VL_OK) {
        free(shot);
        free(pages);
        return vl_q35_cuda_fail(m, r.rc, err);
    }
    memcpy(pages, s->pages, (size_t)n_pages * sizeof(*pages));
    vl_pages_ref(m->pages, pages, (size_t)n_pages);
    for (uint64_t i = 0; i < n_pages; i++)
        m->shot_refs[pages[i]]++;
    m->saved_used[state] = true;
    *shot = (struct vl_q35_shot){.tier = VL_TIER_DEVICE,
                                 .state = state,
                                 .position = s->position,
                                 .n_pages = n_pages,
                                 .pages = pages};
    *out = (vl_snapshot *)(void *)shot;
    *position = shot->position;
    return VL_OK;
}

uint64_t vl_q35_cuda_take_bytes(const vl_q35_model *model, const vl_sequence *s)
{
    (void)s;
    return vl_q35_state_bytes(vl_q35_of_const(model));
}

/* Pages that nobody else holds. */
static uint64_t own_pages(const vl_q35_cuda *m, const struct vl_q35_shot *s)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < s->n_pages; i++)
        n += vl_pages_refs(m->pages, s->pages[i]) == 1;
    return n;
}

void vl_q35_cuda_snapshot_info(const vl_q35_model *model, const vl_snapshot *snapshot,
                               vl_snapshot_info *out)
{
    const struct vl_q35_shot *s = vl_q35_shot_of_const(snapshot);
    const vl_q35_cuda *m = vl_q35_of_const(model);
    out->tier = s->tier;
    out->position = s->position;
    if (s->tier == VL_TIER_HOST) {
        vl_q35_host_info(m, s, out);
        return;
    }
    const uint64_t own = own_pages(m, s), page = (uint64_t)vl_q35_page_bytes(&m->s);
    out->own_bytes = vl_q35_state_bytes(m) + own * page;
    out->shared_bytes = (s->n_pages - own) * page;
}

uint64_t vl_q35_pages_release(vl_q35_cuda *m, const uint32_t *pages, uint64_t n)
{
    const uint64_t bytes = vl_pages_unref(m->pages, pages, (size_t)n);
    for (uint64_t i = 0; i < n; i++)
        if (vl_pages_refs(m->pages, pages[i]) == 0)
            vl_q35_block_forget(m, pages[i]);
    return bytes;
}

uint64_t vl_q35_shot_leave_device(vl_q35_cuda *m, struct vl_q35_shot *s)
{
    m->saved_used[s->state] = false;
    s->state = -1;
    for (uint64_t i = 0; i < s->n_pages; i++)
        m->shot_refs[s->pages[i]]--;
    return vl_q35_state_bytes(m) + vl_q35_pages_release(m, s->pages, s->n_pages);
}

uint64_t vl_q35_cuda_drop(vl_q35_model *model, vl_snapshot *snapshot)
{
    struct vl_q35_shot *s = vl_q35_shot_of(snapshot);
    if (s == NULL)
        return 0;
    vl_q35_cuda *m = vl_q35_of(model);
    uint64_t bytes = 0;
    vl_q35_shot_settle(m, s);
    if (s->state >= 0)
        bytes += vl_q35_shot_leave_device(m, s);
    if (s->blocks != NULL)
        bytes += vl_q35_shot_leave_host(m, s);
    free(s->pages);
    free(s);
    return bytes;
}

void vl_q35_cuda_tier(const vl_q35_model *model, int32_t tier, vl_tier_info *out)
{
    const vl_q35_cuda *m = vl_q35_of_const(model);
    uint64_t used = 0, pages = 0;
    out->tier = tier;
    out->used_bytes = 0;
    out->free_bytes = 0;
    if (tier == VL_TIER_HOST) {
        out->used_bytes = vl_pinned_used_bytes(&m->host_tier);
        out->free_bytes = vl_pinned_free_bytes(&m->host_tier);
    }
    if (tier != VL_TIER_DEVICE)
        return;
    for (int32_t i = 0; i < m->n_saved; i++)
        used += m->saved_used[i];
    /* Pages that no running sequence holds. */
    for (size_t i = 0; i < vl_pages_total(m->pages); i++)
        pages += m->shot_refs[i] > 0 && vl_pages_refs(m->pages, (uint32_t)i) == m->shot_refs[i];
    out->used_bytes = used * vl_q35_state_bytes(m) + pages * (uint64_t)vl_q35_page_bytes(&m->s);
    out->free_bytes = ((uint64_t)m->n_saved - used) * vl_q35_state_bytes(m);
}
