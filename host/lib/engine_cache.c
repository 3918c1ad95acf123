/* host/lib/engine_cache.c: when snapshots are taken and used: the places in a prompt, the end of an
 * answer, the fork of n > 1. The cache itself is prefix.c. */
#include <stdlib.h>

#include "base/error.h"
#include "host/lib/engine_private.h"
#include "host/lib/log.h"

enum { EVERY_DEFAULT = 4096, LAST_MESSAGES = 3 };

/* The cache, if this request may use it. */
static vl_prefix *cache_of(const vl_engine *e, const vl_request *r)
{
    return (r->p.flags & VL_REQUEST_NO_PREFIX) == 0 ? e->prefix : NULL;
}

static bool table_fits(const vl_snapshot_api *s)
{
    return VL_ABI_MAJOR_OF(s->abi_version) == VL_ABI_MAJOR && s->struct_size >= sizeof *s;
}

vl_status vl_cache_init(vl_engine *e, vl_error *err)
{
    struct vl_prefix_params p = {
        .model = e->p.model,
        .device_bytes = e->p.prefix_cache_bytes,
        .host_bytes = e->p.prefix_host_bytes,
    };

    e->grid = e->info.snapshot_grid > 0 ? e->info.snapshot_grid : 1;
    e->snapshots = e->p.model_api->get_ext(e->p.model, VL_SNAPSHOT_ID);
    if (e->snapshots != NULL && !table_fits(e->snapshots)) {
        vl_log(VL_LOG_WARN, "engine", "%s of this model does not fit: %u bytes, want %zu; not used",
               VL_SNAPSHOT_ID, e->snapshots->struct_size, sizeof *e->snapshots);
        e->snapshots = NULL;
    }
    if (p.device_bytes == 0)
        return VL_OK;
    if (e->snapshots == NULL) {
        vl_log(VL_LOG_WARN, "engine", "no prefix cache: this model offers no snapshots");
        return VL_OK;
    }
    p.api = e->snapshots;
    return vl_prefix_create(&p, &e->prefix, err);
}

/* Keeps the list ascending and without doubles. When it is full the place is left out: only a cache
 * entry is lost. */
static void add_place(vl_request *r, uint64_t place)
{
    size_t i = r->n_places;

    if (place == 0 || place >= r->n_prompt)
        return;
    while (i > 0 && r->places[i - 1] > place)
        i--;
    if ((i > 0 && r->places[i - 1] == place) || r->n_places == VL_PLACES_MAX)
        return;
    for (size_t k = r->n_places; k > i; k--)
        r->places[k] = r->places[k - 1];
    r->places[i] = place;
    r->n_places++;
}

/* The end of the system block, the last three messages' ends, before the header; for n > 1 the last
 * place of all. */
static void mark_places(vl_request *r, uint64_t grid, const vl_chat_mark *marks,
                        const uint64_t *n_before, size_t n_marks)
{
    int messages = 0;

    for (size_t i = n_marks; i-- > 0;) {
        bool want = marks[i].kind != VL_MARK_MESSAGE_END || messages++ < LAST_MESSAGES;
        if (want)
            add_place(r, n_before[i] / grid * grid);
    }
}

void vl_cache_places(const vl_engine *e, vl_request *r, const vl_chat_mark *marks,
                     const uint64_t *n_before, size_t n_marks)
{
    uint64_t every = e->p.prefix_every_tokens > 0 ? e->p.prefix_every_tokens : EVERY_DEFAULT;

    if (e->snapshots == NULL || r->n_prompt < 2)
        return;
    if (r->n_answers > 1) {
        r->fork_place = (r->n_prompt - 1) / e->grid * e->grid;
        add_place(r, r->fork_place);
    }
    if (cache_of(e, r) == NULL)
        return;
    mark_places(r, e->grid, marks, n_before, n_marks);
    if (n_marks == 0) /* no messages: the prompt's own end */
        add_place(r, (r->n_prompt - 1) / e->grid * e->grid);
    every = every < e->grid ? e->grid : every / e->grid * e->grid;
    /* From the end: of a prompt too long for the list the later places are worth more. */
    for (uint64_t at = (r->n_prompt - 1) / every * every; at > 0; at -= every)
        add_place(r, at);
}

uint64_t vl_cache_next_cut(const vl_engine *e, const struct vl_answer *a)
{
    const vl_request *r = a->request;

    (void)e;
    for (size_t i = a->next_place; i < r->n_places; i++) {
        if (r->places[i] > a->n_read)
            return r->places[i];
    }
    return r->n_prompt;
}

/* The snapshot an answer starts from, or NULL. *common: tokens that some path in the tree shares
 * with the prompt. */
const vl_snapshot *vl_cache_find(vl_engine *e, const struct vl_answer *a, uint64_t *position,
                                 uint64_t *common)
{
    const vl_request *r = a->request;

    *position = *common = 0;
    if (a->index > 0 && r->fork != NULL) {
        *position = r->fork_place;
        return r->fork;
    }
    /* Prompt log probabilities need every row of the prompt; the first answer brings them. */
    if (cache_of(e, r) == NULL || (a->index == 0 && (r->p.flags & VL_REQUEST_PROMPT_LOGPROBS) != 0))
        return NULL;
    return vl_prefix_find(e->prefix, r->prompt, r->n_prompt, r->n_prompt - 1, position, common);
}

void vl_cache_count(vl_engine *e, const struct vl_answer *a, uint64_t position, uint64_t common)
{
    const vl_request *r = a->request;

    if (cache_of(e, r) == NULL || a->index > 0)
        return;
    vl_prefix_count(e->prefix, position > 0);
    vl_log(VL_LOG_INFO, "engine",
           "request=%s prefix reused_tokens=%llu parted_at=%llu prompt_tokens=%zu", r->name,
           (unsigned long long)position, (unsigned long long)common, r->n_prompt);
}

static void take_place(vl_engine *e, struct vl_answer *a)
{
    vl_request *r = a->request;
    uint64_t position = 0;
    vl_snapshot *s = NULL;

    if (vl_prefix_touch(e->prefix, r->prompt, a->n_read))
        return;
    if (!vl_prefix_room(e->prefix, e->snapshots->take_bytes(e->p.model, a->seq)))
        return;
    if (e->snapshots->take(e->p.model, a->seq, &s, &position, NULL) != VL_OK)
        return; /* no room after all: nothing but a cache entry is lost */
    if (position == a->n_read)
        vl_prefix_put(e->prefix, r->prompt, a->n_read, s);
    else
        e->snapshots->drop(e->p.model, s);
}

static void take_fork(vl_engine *e, struct vl_answer *a)
{
    vl_request *r = a->request;
    uint64_t position = 0;

    if (r->fork != NULL || a->n_read != r->fork_place)
        return;
    if (e->snapshots->take(e->p.model, a->seq, &r->fork, &position, NULL) != VL_OK) {
        r->fork = NULL;
        r->fork_failed = true; /* the other answers read the prompt themselves */
    }
}

void vl_cache_prefill_done(vl_engine *e, struct vl_answer *a)
{
    vl_request *r = a->request;

    if (a->next_place >= r->n_places || r->places[a->next_place] > a->n_read)
        return;
    bool here = r->places[a->next_place] == a->n_read;
    while (a->next_place < r->n_places && r->places[a->next_place] <= a->n_read)
        a->next_place++;
    if (!here)
        return;
    if (r->fork_place > 0 && a->index == 0)
        take_fork(e, a);
    if (cache_of(e, r) != NULL)
        take_place(e, a);
}

/* The state at the end of an answer: its prompt and ids, as far as the state has read them. */
void vl_cache_answer_done(vl_engine *e, struct vl_answer *a)
{
    vl_request *r = a->request;
    vl_snapshot *s = NULL;
    uint64_t position = 0;

    if (cache_of(e, r) == NULL || a->seq == NULL)
        return;
    if (!vl_prefix_room(e->prefix, e->snapshots->take_bytes(e->p.model, a->seq)))
        return;
    if (e->snapshots->take(e->p.model, a->seq, &s, &position, NULL) != VL_OK)
        return;
    int32_t *ids = NULL;
    if (position > r->n_prompt && position - r->n_prompt <= a->n_out)
        ids = malloc((size_t)position * sizeof *ids);
    if (ids == NULL) {
        e->snapshots->drop(e->p.model, s);
        return;
    }
    for (size_t i = 0; i < position; i++)
        ids[i] = i < r->n_prompt ? r->prompt[i] : a->out[i - r->n_prompt];
    vl_prefix_put(e->prefix, ids, (size_t)position, s);
    free(ids);
}
