/* plugins/qwen35/cuda/tier.c: snapshots in host memory: their blocks, and the ways there and back.
 *
 * A snapshot that moves out takes a block for each page, and gives the device's up when the copies
 * are done. A full page never changes, so several snapshots share its block as they share the page:
 * block_of and the blocks' marks say which page and which block hold the same. The last, partly
 * filled page of a snapshot may still be written behind its position: its block is its own.
 *
 * Copies run on the copy stream, one move after another, so a block that one move fills may be read
 * by the next. They wait for what the computing stream was asked for before; nothing there waits
 * for them: what a move frees or fills is used only when moved() has seen its end. [engine] */
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "plugins/qwen35/cuda/model.h"

enum { NAP_NS = 50000 };

static uint64_t blocks_for(const vl_q35_cuda *m, uint64_t bytes)
{
    return (bytes + m->host_tier.block_bytes - 1) / m->host_tier.block_bytes;
}

uint64_t vl_q35_state_blocks(const vl_q35_cuda *m)
{
    return blocks_for(m, vl_q35_delta_bytes(m)) + blocks_for(m, vl_q35_conv_bytes(m));
}

static uint64_t n_blocks(const vl_q35_cuda *m, const struct vl_q35_shot *s)
{
    return vl_q35_state_blocks(m) + s->n_pages;
}

void vl_q35_block_forget(vl_q35_cuda *m, uint32_t page)
{
    if (m->block_of[page] != 0)
        m->host_tier.marks[m->block_of[page] - 1] = 0;
    m->block_of[page] = 0;
}

/* Page and block hold the same from now on. */
static void pair(vl_q35_cuda *m, uint32_t page, uint32_t block)
{
    m->block_of[page] = block + 1;
    m->host_tier.marks[block] = page + 1;
}

static uint64_t unref_blocks(vl_q35_cuda *m, const uint32_t *blocks, uint64_t n)
{
    uint64_t freed = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (vl_pinned_unref(&m->host_tier, blocks[i]) != 0)
            continue;
        if (m->host_tier.marks[blocks[i]] != 0)
            m->block_of[m->host_tier.marks[blocks[i]] - 1] = 0;
        m->host_tier.marks[blocks[i]] = 0;
        freed += m->host_tier.block_bytes;
    }
    return freed;
}

uint64_t vl_q35_shot_leave_host(vl_q35_cuda *m, struct vl_q35_shot *s)
{
    const uint64_t freed = unref_blocks(m, s->blocks, n_blocks(m, s));
    free(s->blocks);
    s->blocks = NULL;
    return freed;
}

void vl_q35_host_info(const vl_q35_cuda *m, const struct vl_q35_shot *s, vl_snapshot_info *out)
{
    uint64_t own = 0;
    for (uint64_t i = 0; i < n_blocks(m, s); i++)
        own += m->host_tier.refs[s->blocks[i]] == 1;
    out->own_bytes = own * m->host_tier.block_bytes;
    out->shared_bytes = (n_blocks(m, s) - own) * m->host_tier.block_bytes;
}

/* ---- copies ---- */

static void copy(vl_q35_run *r, void *dst, const void *src, uint64_t n)
{
    if (r->rc == VL_OK)
        r->rc = vl_cuda_check(cudaMemcpyAsync(dst, src, n, cudaMemcpyDefault, r->m->c.copy),
                              "moving a snapshot", r->err);
}

/* One region of device memory to or from its blocks; returns how many those are. */
static uint64_t copy_region(vl_q35_run *r, char *device, uint64_t bytes, const uint32_t *blocks,
                            bool out)
{
    const vl_pinned *p = &r->m->host_tier;
    uint64_t i = 0;
    for (uint64_t at = 0; at < bytes; at += p->block_bytes, i++) {
        const uint64_t n = bytes - at < p->block_bytes ? bytes - at : p->block_bytes;
        char *host = vl_pinned_at(p, blocks[i]);
        copy(r, out ? host : device + at, out ? device + at : host, n);
    }
    return i;
}

static void copy_state(vl_q35_run *r, const struct vl_q35_shot *s, bool out)
{
    vl_q35_cuda *m = r->m;
    const uint64_t place = (uint64_t)m->s.n_rows + (uint64_t)s->state,
                   delta = vl_q35_delta_bytes(m), conv = vl_q35_conv_bytes(m);
    const uint64_t n = copy_region(r, (char *)m->state + place * delta, delta, s->blocks, out);
    (void)copy_region(r, m->ring + place * conv, conv, s->blocks + n, out);
}

static void copy_page(vl_q35_run *r, uint32_t page, uint32_t block, bool out)
{
    const uint64_t bytes = r->m->host_tier.block_bytes;
    (void)copy_region(r, r->m->kv + page * bytes, bytes, &block, out);
}

/* The copy stream waits for all that the computing stream was asked for so far. */
static void after_computing(vl_q35_run *r, cudaEvent_t e)
{
    if (r->rc == VL_OK)
        r->rc = vl_cuda_check(cudaEventRecord(e, r->m->c.stream), "moving a snapshot", r->err);
    if (r->rc == VL_OK)
        r->rc = vl_cuda_check(cudaStreamWaitEvent(r->m->c.copy, e, 0), "moving a snapshot", r->err);
}

/* ---- out ---- */

static vl_status move_out(vl_q35_run *r, struct vl_q35_shot *s, cudaEvent_t e)
{
    vl_q35_cuda *m = r->m;
    const uint64_t n_state = vl_q35_state_blocks(m), whole = s->position / VL_Q35_PAGE;
    uint64_t fresh = 0, used = 0;
    for (uint64_t i = 0; i < s->n_pages; i++)
        fresh += i >= whole || m->block_of[s->pages[i]] == 0;
    uint32_t *blocks = malloc((size_t)n_blocks(m, s) * sizeof(*blocks));
    uint32_t *taken = malloc((size_t)(n_state + fresh) * sizeof(*taken));
    if (blocks == NULL || taken == NULL)
        r->rc = vl_error_set(r->err, VL_E_NOMEM, "out of memory");
    else
        r->rc = vl_pinned_take(&m->host_tier, (size_t)(n_state + fresh), taken, r->err);
    if (r->rc != VL_OK) {
        free(blocks);
        free(taken);
        return r->rc;
    }
    s->blocks = blocks;
    while (used < n_state) {
        blocks[used] = taken[used];
        used++;
    }
    after_computing(r, e);
    copy_state(r, s, true);
    for (uint64_t i = 0; i < s->n_pages; i++) {
        const uint32_t page = s->pages[i];
        uint32_t *block = &blocks[n_state + i];
        if (i < whole && m->block_of[page] != 0) {
            *block = m->block_of[page] - 1;
            vl_pinned_ref(&m->host_tier, *block);
            continue;
        }
        *block = taken[used++];
        copy_page(r, page, *block, true);
        if (i < whole)
            pair(m, page, *block);
    }
    free(taken);
    s->tier = VL_TIER_HOST;
    return r->rc;
}

/* ---- back ---- */

static uint32_t page_of(const vl_q35_cuda *m, uint32_t block)
{
    return m->host_tier.marks[block];
}

static vl_status move_back(vl_q35_run *r, struct vl_q35_shot *s, cudaEvent_t e)
{
    vl_q35_cuda *m = r->m;
    const uint32_t *blocks = s->blocks + vl_q35_state_blocks(m);
    const uint64_t whole = s->position / VL_Q35_PAGE;
    const int32_t state = vl_q35_state_free(m);
    uint64_t fresh = 0, used = 0;
    for (uint64_t i = 0; i < s->n_pages; i++)
        fresh += page_of(m, blocks[i]) == 0;
    if (state < 0)
        return r->rc = vl_error_set(r->err, VL_E_NOMEM, "all %d snapshot states are in use",
                                    (int)m->n_saved);
    uint32_t *taken = malloc((size_t)(fresh + 1) * sizeof(*taken));
    if (taken == NULL)
        return r->rc = vl_error_set(r->err, VL_E_NOMEM, "out of memory");
    r->rc = vl_pages_alloc(m->pages, (size_t)fresh, taken, r->err);
    if (r->rc != VL_OK) {
        free(taken);
        return r->rc;
    }
    m->saved_used[state] = true;
    s->state = state;
    after_computing(r, e);
    copy_state(r, s, false);
    for (uint64_t i = 0; i < s->n_pages; i++) {
        if (page_of(m, blocks[i]) != 0) {
            s->pages[i] = page_of(m, blocks[i]) - 1;
            vl_pages_ref(m->pages, &s->pages[i], 1);
        } else {
            s->pages[i] = taken[used++];
            copy_page(r, s->pages[i], blocks[i], false);
            if (i < whole)
                pair(m, s->pages[i], blocks[i]);
        }
        m->shot_refs[s->pages[i]]++;
    }
    free(taken);
    s->tier = VL_TIER_DEVICE;
    return r->rc;
}

/* ---- tickets ---- */

vl_status vl_q35_cuda_move(vl_q35_model *model, vl_snapshot *snapshot, int32_t tier,
                           uint64_t *ticket, vl_error *err)
{
    vl_q35_cuda *m = vl_q35_of(model);
    struct vl_q35_shot *s = vl_q35_shot_of(snapshot);
    vl_status rc = vl_q35_cuda_health(model, err);
    if (rc == VL_OK)
        rc = vl_cuda_use(&m->c, err);
    if (rc == VL_OK && tier != VL_TIER_DEVICE && tier != VL_TIER_HOST)
        rc = vl_error_set(err, VL_E_UNSUPPORTED, "there is no tier %d", (int)tier);
    if (rc == VL_OK && s->done != NULL)
        rc = vl_error_set(err, VL_E_BUSY, "the snapshot at %llu is on its way to tier %d",
                          (unsigned long long)s->position, (int)s->tier);
    if (rc != VL_OK)
        return rc;
    if (tier == s->tier) {
        *ticket = m->next_move++;
        return VL_OK;
    }
    cudaEvent_t e = NULL;
    rc =
        vl_cuda_check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "making an event", err);
    if (rc != VL_OK)
        return rc;
    vl_q35_run r = {m, VL_OK, err};
    const int32_t before = s->tier;
    rc = tier == VL_TIER_HOST ? move_out(&r, s, e) : move_back(&r, s, e);
    if (s->tier == before) { /* no room: nothing has been begun */
        (void)cudaEventDestroy(e);
        return rc;
    }
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaEventRecord(e, m->c.copy), "moving a snapshot", err);
    s->done = e;
    s->ticket = m->next_move++;
    s->next = m->moving;
    m->moving = s;
    if (rc != VL_OK)
        return vl_q35_cuda_fail(m, rc == VL_E_NOMEM ? VL_E_DEVICE : rc, err);
    *ticket = s->ticket;
    return VL_OK;
}

/* Its copies are done: what it has left behind is free. */
static void arrive(vl_q35_cuda *m, struct vl_q35_shot *s)
{
    struct vl_q35_shot **at = &m->moving;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    (void)cudaEventDestroy(s->done);
    s->done = NULL;
    s->next = NULL;
    if (s->tier == VL_TIER_HOST)
        (void)vl_q35_shot_leave_device(m, s);
    else
        (void)vl_q35_shot_leave_host(m, s);
}

void vl_q35_shot_settle(vl_q35_cuda *m, struct vl_q35_shot *s)
{
    if (s->done == NULL)
        return;
    (void)vl_cuda_use(&m->c, NULL);
    (void)cudaEventSynchronize(s->done); /* a failure shows at the next step */
    arrive(m, s);
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

vl_status vl_q35_cuda_moved(vl_q35_model *model, uint64_t ticket, int64_t timeout_ms, vl_error *err)
{
    vl_q35_cuda *m = vl_q35_of(model);
    struct vl_q35_shot *s = m->moving;
    vl_error local;
    err = err != NULL ? err : &local;
    if (ticket >= m->next_move)
        return vl_error_set(err, VL_E_INVALID, "no move has ticket %llu",
                            (unsigned long long)ticket);
    while (s != NULL && s->ticket != ticket)
        s = s->next;
    if (s == NULL)
        return VL_OK;
    vl_status rc = vl_cuda_use(&m->c, err);
    const int64_t until = timeout_ms > 0 ? now_ms() + timeout_ms : 0;
    while (rc == VL_OK) {
        const cudaError_t e = cudaEventQuery(s->done);
        if (e == cudaSuccess) {
            arrive(m, s);
            return VL_OK;
        }
        if (e != cudaErrorNotReady)
            rc = vl_cuda_check(e, "moving a snapshot", err);
        else if (timeout_ms == 0 || (timeout_ms > 0 && now_ms() >= until))
            return vl_error_set(err, VL_E_TIMEOUT, "the snapshot is still on its way");
        else
            (void)nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    return vl_q35_cuda_fail(m, rc, err);
}
