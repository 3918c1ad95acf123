/* tests/plugins/fake_state.c: the fake model's pages and snapshots. Pages are numbers with two
 * counts: how many sequences and how many snapshots hold them. */
#include "fake_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

uint64_t fake_pages_free(const vl_model *m)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->n_pages; i++)
        n += m->seq_refs[i] == 0 && m->snap_refs[i] == 0;
    return n;
}

static bool take_page(vl_model *m, uint32_t *refs, uint32_t *page)
{
    for (uint32_t i = 0; i < m->n_pages; i++) {
        if (m->seq_refs[i] == 0 && m->snap_refs[i] == 0) {
            refs[i] = 1;
            *page = i;
            return true;
        }
    }
    return false;
}

bool fake_pages_hold(vl_model *m, vl_sequence *s, size_t tokens)
{
    size_t want = (tokens + FAKE_PAGE - 1) / FAKE_PAGE;

    if (want > s->n_pages && want - s->n_pages > fake_pages_free(m))
        return false;
    while (s->n_pages < want) {
        if (!take_page(m, m->seq_refs, &s->pages[s->n_pages]))
            return false;
        s->n_pages++;
    }
    return true;
}

void fake_pages_drop(vl_model *m, uint32_t *pages, size_t n, uint32_t *refs)
{
    (void)m;
    for (size_t i = 0; i < n; i++)
        refs[pages[i]]--;
}

void fake_drain(vl_model *m)
{
    for (;;) {
        bool busy = false;
        for (struct fake_step *s = m->first; s != NULL; s = s->next)
            busy |= !s->done;
        if (!busy)
            return;
        pthread_cond_wait(&m->change, &m->lock);
    }
}

vl_status fake_restore(vl_model *m, vl_sequence *s, const vl_snapshot *from, vl_error *err)
{
    if (from->tier != VL_TIER_DEVICE || from->moving != 0) {
        fake_bad("begin from a snapshot that is not on the device");
        return vl_error_set(err, VL_E_BUSY, "fake: the snapshot is not on the device");
    }
    if (from->n >= s->n_prompt || memcmp(from->ids, s->prompt, from->n * sizeof *from->ids) != 0) {
        fake_bad("begin from a snapshot of other tokens");
        return vl_error_set(err, VL_E_INVALID, "fake: snapshot of %zu other tokens", from->n);
    }
    memcpy(s->read, from->ids, from->n * sizeof *from->ids);
    s->n_read = s->bound = s->n_prompt_submitted = from->n;
    /* Whole pages are shared; the last, partial one will be the sequence's own. */
    s->n_pages = from->n / FAKE_PAGE;
    memcpy(s->pages, from->pages, s->n_pages * sizeof *s->pages);
    for (size_t i = 0; i < s->n_pages; i++)
        m->seq_refs[s->pages[i]]++;
    return VL_OK;
}

static vl_status snap_take(vl_model *m, vl_sequence *s, vl_snapshot **out, uint64_t *position,
                           vl_error *err)
{
    vl_status rc = VL_OK;
    vl_snapshot *x = calloc(1, sizeof *x);

    pthread_mutex_lock(&m->lock);
    fake_drain(m);
    if (x == NULL || s->stop == VL_STOP_FAULT || s->n_read == 0) {
        rc = vl_error_set(err, VL_E_STATE, "fake: nothing to take");
        goto out;
    }
    x->n = s->n_read;
    x->ids = malloc(x->n * sizeof *x->ids);
    x->n_pages = x->n / FAKE_PAGE;
    x->pages = malloc((x->n_pages + 1) * sizeof *x->pages);
    if (x->ids == NULL || x->pages == NULL) {
        rc = vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
        goto out;
    }
    memcpy(x->ids, s->read, x->n * sizeof *x->ids);
    memcpy(x->pages, s->pages, x->n_pages * sizeof *x->pages);
    for (size_t i = 0; i < x->n_pages; i++)
        m->snap_refs[x->pages[i]]++;
    x->tier = VL_TIER_DEVICE;
    m->n_snapshots[VL_TIER_DEVICE]++;
    *position = x->n;
    *out = x;
    x = NULL;
    FAKE_ADD(snapshots, 1);
out:
    pthread_mutex_unlock(&m->lock);
    if (x != NULL) {
        free(x->ids);
        free(x->pages);
    }
    free(x);
    return rc;
}

static uint64_t snap_take_bytes(const vl_model *m, const vl_sequence *s)
{
    (void)m;
    (void)s;
    return FAKE_STATE_BYTES;
}

static void snap_info(const vl_model *m, const vl_snapshot *s, vl_snapshot_info *out)
{
    out->tier = s->tier;
    out->position = s->n;
    out->own_bytes = FAKE_STATE_BYTES;
    out->shared_bytes = 0;
    for (size_t i = 0; s->tier == VL_TIER_DEVICE && i < s->n_pages; i++) {
        bool own = m->seq_refs[s->pages[i]] == 0 && m->snap_refs[s->pages[i]] == 1;
        *(own ? &out->own_bytes : &out->shared_bytes) += FAKE_PAGE * FAKE_TOKEN_BYTES;
    }
    if (s->tier == VL_TIER_HOST)
        out->own_bytes += s->n * FAKE_TOKEN_BYTES;
}

static vl_status to_device(vl_model *m, vl_snapshot *s, vl_error *err)
{
    if (fake_pages_free(m) < s->n_pages)
        return vl_error_set(err, VL_E_NOMEM, "fake: no pages");
    for (size_t i = 0; i < s->n_pages; i++)
        take_page(m, m->snap_refs, &s->pages[i]);
    m->host_tokens -= s->n;
    return VL_OK;
}

static vl_status snap_move(vl_model *m, vl_snapshot *s, int32_t tier, uint64_t *ticket,
                           vl_error *err)
{
    vl_status rc = VL_OK;

    pthread_mutex_lock(&m->lock);
    if (tier != s->tier) {
        if (tier == VL_TIER_DEVICE) {
            rc = to_device(m, s, err);
        } else {
            fake_pages_drop(m, s->pages, s->n_pages, m->snap_refs);
            m->host_tokens += s->n;
        }
        if (rc == VL_OK) {
            m->n_snapshots[s->tier]--;
            m->n_snapshots[tier]++;
            s->tier = tier;
        }
    }
    if (rc == VL_OK) {
        FAKE_ADD(moves, 1);
        *ticket = s->moving = (uint64_t)(uintptr_t)s; /* one move a snapshot at a time */
        s->looked = 0;
    }
    pthread_mutex_unlock(&m->lock);
    return rc;
}

static vl_status snap_moved(vl_model *m, uint64_t ticket, int64_t timeout_ms, vl_error *err)
{
    vl_snapshot *s = (vl_snapshot *)(uintptr_t)ticket;

    (void)m;
    if (timeout_ms == 0 && s->looked++ == 0)
        return vl_error_set(err, VL_E_TIMEOUT, "fake: still moving");
    s->moving = 0;
    return VL_OK;
}

static uint64_t snap_drop(vl_model *m, vl_snapshot *s)
{
    uint64_t freed = FAKE_STATE_BYTES;

    if (s == NULL)
        return 0;
    pthread_mutex_lock(&m->lock);
    if (s->tier == VL_TIER_DEVICE) {
        fake_pages_drop(m, s->pages, s->n_pages, m->snap_refs);
        for (size_t i = 0; i < s->n_pages; i++) {
            if (m->snap_refs[s->pages[i]] == 0 && m->seq_refs[s->pages[i]] == 0)
                freed += FAKE_PAGE * FAKE_TOKEN_BYTES;
        }
    } else {
        m->host_tokens -= s->n;
    }
    m->n_snapshots[s->tier]--;
    pthread_mutex_unlock(&m->lock);
    free(s->ids);
    free(s->pages);
    free(s);
    FAKE_ADD(snapshots, -1);
    return freed;
}

static void snap_tier(const vl_model *m, int32_t tier, vl_tier_info *out)
{
    out->tier = tier;
    out->used_bytes = (uint64_t)m->n_snapshots[tier] * FAKE_STATE_BYTES;
    if (tier == VL_TIER_HOST)
        out->used_bytes += m->host_tokens * FAKE_TOKEN_BYTES;
    for (uint32_t i = 0; tier == VL_TIER_DEVICE && i < m->n_pages; i++) {
        if (m->snap_refs[i] > 0 && m->seq_refs[i] == 0)
            out->used_bytes += FAKE_PAGE * FAKE_TOKEN_BYTES;
    }
    out->free_bytes = (1u << 30) - out->used_bytes;
}

const vl_snapshot_api fake_snapshot_api = {
    .struct_size = sizeof(vl_snapshot_api),
    .abi_version = VL_ABI_VERSION,
    .take = snap_take,
    .take_bytes = snap_take_bytes,
    .info = snap_info,
    .move = snap_move,
    .moved = snap_moved,
    .drop = snap_drop,
    .tier = snap_tier,
};
