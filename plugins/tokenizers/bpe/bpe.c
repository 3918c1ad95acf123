/* bpe.c: merging one piece: among adjacent pairs that have a rank the lowest goes first, the
 * leftmost of equals; until none is left. Three ways, equal in result: scanning for short pieces, a
 * heap, and for very long ones lists by rank, which take linear time. Short pieces that are a token
 * as a whole skip all of it once that is known to be the same. */
#include "bpe.h"

#include <stdlib.h>

#include "base/error.h"

#define NONE UINT32_MAX

enum {
    SCAN_MAX = 48,   /* bytes of a piece that is merged by scanning */
    LISTS_MIN = 4096 /* bytes from which lists by rank pay for their set-up */
};

void vl_bpe_scratch_fini(struct vl_bpe_scratch *s)
{
    free(s->words);
    free(s->heads);
    free(s->bits);
    memset(s, 0, sizeof *s);
}

static bool put_all(struct vl_ids *out, const int32_t *ids, size_t n)
{
    if (out->cap - out->n < n && !vl_grow(&out->ptr, &out->cap, out->n + n, sizeof *out->ptr))
        return false;
    memcpy(out->ptr + out->n, ids, n * sizeof *ids);
    out->n += n;
    return true;
}

/* len <= SCAN_MAX. ids[i], and what the pair (i, i + 1) would become; both arrays stay dense. */
static bool merge_scan(const struct vl_bpe *b, const uint8_t *piece, size_t len, struct vl_ids *out)
{
    int32_t ids[SCAN_MAX];
    uint32_t ranks[SCAN_MAX];
    int32_t merged[SCAN_MAX];
    size_t n = len;

    for (size_t i = 0; i < n; i++)
        ids[i] = b->byte_id[piece[i]];
    for (size_t i = 0; i + 1 < n; i++) {
        struct vl_bpe_rank r = b->byte_pairs[piece[i] << 8 | piece[i + 1]];
        ranks[i] = r.rank;
        merged[i] = r.merged;
    }
    while (n > 1) {
        size_t at = 0;
        uint32_t best = ranks[0];
        for (size_t i = 1; i + 1 < n; i++) {
            if (ranks[i] < best) {
                best = ranks[i];
                at = i;
            }
        }
        if (best == NONE)
            break;
        ids[at] = merged[at];
        n--;
        memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof *ids);
        if (at + 1 < n) {
            memmove(ranks + at, ranks + at + 1, (n - at - 1) * sizeof *ranks);
            memmove(merged + at, merged + at + 1, (n - at - 1) * sizeof *merged);
            const struct vl_bpe_pair *p = vl_bpe_pair_find(b, ids[at], ids[at + 1]);
            ranks[at] = p != NULL ? p->rank : NONE;
            merged[at] = p != NULL ? p->merged : -1;
        }
        if (at > 0) {
            const struct vl_bpe_pair *p = vl_bpe_pair_find(b, ids[at - 1], ids[at]);
            ranks[at - 1] = p != NULL ? p->rank : NONE;
            merged[at - 1] = p != NULL ? p->merged : -1;
        }
    }
    return put_all(out, ids, n);
}

/* A list of symbols, by their first byte. id NONE: swallowed by the one before it. */
struct chain {
    uint32_t *id, *next, *prev, *rank; /* [n]; rank of the pair (i, next[i]), NONE if it has none */
    uint32_t *list_next, *list_prev;   /* [n]; lists by rank alone */
    uint64_t *heap;                    /* heap alone: rank << 32 | position */
    size_t n_heap;
};

static bool chain_init(struct chain *c, const struct vl_bpe *b, struct vl_bpe_scratch *s,
                       const uint8_t *piece, size_t n, bool heap)
{
    /* The heap gets n - 1 pairs at first, and each merge (n - 1 at most) adds two at most. */
    size_t words = heap ? 4 * n + 2 * 3 * n : 6 * n;
    if (words > s->words_cap && !vl_grow(&s->words, &s->words_cap, words, sizeof *s->words))
        return false;
    c->id = s->words;
    c->next = c->id + n;
    c->prev = c->next + n;
    c->rank = c->prev + n;
    c->list_next = c->rank + n;
    c->list_prev = c->list_next + n;
    c->heap = (uint64_t *)(void *)(s->words + 4 * n); /* malloc'ed, and 4 n words: aligned to 8 */
    c->n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        c->id[i] = (uint32_t)b->byte_id[piece[i]];
        c->next[i] = i + 1 < n ? (uint32_t)i + 1 : NONE;
        c->prev[i] = i > 0 ? (uint32_t)i - 1 : NONE;
        c->rank[i] = i + 1 < n ? b->byte_pairs[piece[i] << 8 | piece[i + 1]].rank : NONE;
    }
    return true;
}

/* Makes the pair at `at` one symbol. The ranks of the pairs that it touches are the caller's. */
static void chain_merge(struct chain *c, uint32_t at, uint32_t id)
{
    uint32_t gone = c->next[at];
    c->id[at] = id;
    c->id[gone] = NONE;
    c->rank[gone] = NONE;
    c->next[at] = c->next[gone];
    if (c->next[at] != NONE)
        c->prev[c->next[at]] = at;
}

static uint32_t chain_rank(const struct chain *c, const struct vl_bpe *b, uint32_t at)
{
    if (c->next[at] == NONE)
        return NONE;
    const struct vl_bpe_pair *p =
        vl_bpe_pair_find(b, (int32_t)c->id[at], (int32_t)c->id[c->next[at]]);
    return p != NULL ? p->rank : NONE;
}

/* Symbols stand at ascending positions, the first one always at 0. */
static bool chain_put(const struct chain *c, struct vl_ids *out)
{
    for (uint32_t i = 0; i != NONE; i = c->next[i])
        if (!vl_ids_put(out, (int32_t)c->id[i]))
            return false;
    return true;
}

static void heap_push(struct chain *c, uint32_t rank, uint32_t at)
{
    uint64_t key = (uint64_t)rank << 32 | at;
    size_t i = c->n_heap++;
    while (i > 0 && c->heap[(i - 1) / 2] > key) {
        c->heap[i] = c->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    c->heap[i] = key;
}

static uint64_t heap_pop(struct chain *c)
{
    uint64_t top = c->heap[0];
    uint64_t key = c->heap[--c->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= c->n_heap)
            break;
        if (child + 1 < c->n_heap && c->heap[child + 1] < c->heap[child])
            child++;
        if (c->heap[child] >= key)
            break;
        c->heap[i] = c->heap[child];
        i = child;
    }
    c->heap[i] = key;
    return top;
}

/* Any length, any order of ranks: n log n. An entry whose pair has changed since is recognised by
 * its rank. */
static bool merge_heap(const struct vl_bpe *b, struct vl_bpe_scratch *s, const uint8_t *piece,
                       size_t len, struct vl_ids *out)
{
    struct chain c;
    if (!chain_init(&c, b, s, piece, len, true))
        return false;
    for (size_t i = 0; i + 1 < len; i++)
        if (c.rank[i] != NONE)
            heap_push(&c, c.rank[i], (uint32_t)i);
    while (c.n_heap > 0) {
        uint64_t top = heap_pop(&c);
        uint32_t rank = (uint32_t)(top >> 32), at = (uint32_t)top;
        if (c.rank[at] != rank)
            continue;
        chain_merge(&c, at, (uint32_t)b->merges[rank].merged);
        c.rank[at] = chain_rank(&c, b, at);
        if (c.rank[at] != NONE)
            heap_push(&c, c.rank[at], at);
        uint32_t before = c.prev[at];
        if (at != 0) {
            c.rank[before] = chain_rank(&c, b, before);
            if (c.rank[before] != NONE)
                heap_push(&c, c.rank[before], before);
        }
    }
    return chain_put(&c, out);
}

static void list_add(struct chain *c, struct vl_bpe_scratch *s, uint32_t rank, uint32_t at)
{
    c->rank[at] = rank;
    if (rank == NONE)
        return;
    c->list_next[at] = s->heads[rank];
    c->list_prev[at] = NONE;
    if (s->heads[rank] != NONE)
        c->list_prev[s->heads[rank]] = at;
    s->heads[rank] = at;
    s->bits[rank / 64] |= (uint64_t)1 << (rank % 64);
}

static void list_remove(struct chain *c, struct vl_bpe_scratch *s, uint32_t at)
{
    uint32_t rank = c->rank[at];
    if (rank == NONE)
        return;
    if (c->list_prev[at] != NONE)
        c->list_next[c->list_prev[at]] = c->list_next[at];
    else
        s->heads[rank] = c->list_next[at];
    if (c->list_next[at] != NONE)
        c->list_prev[c->list_next[at]] = c->list_prev[at];
    c->rank[at] = NONE;
}

static void lists_merge_at(struct chain *c, const struct vl_bpe *b, struct vl_bpe_scratch *s,
                           uint32_t at, uint32_t merged)
{
    list_remove(c, s, at);
    list_remove(c, s, c->next[at]);
    chain_merge(c, at, merged);
    list_add(c, s, chain_rank(c, b, at), at);
    if (at != 0) {
        uint32_t before = c->prev[at];
        list_remove(c, s, before);
        list_add(c, s, chain_rank(c, b, before), before);
    }
}

/* For ordered merges: a merge makes only pairs of higher ranks, so the ranks are gone through once,
 * upward, and each is done when it is left. Within a rank the order matters only where pairs
 * overlap, which is inside a run of one symbol: there the work starts at the run's left end. Linear
 * in len. */
static bool merge_lists(const struct vl_bpe *b, struct vl_bpe_scratch *s, const uint8_t *piece,
                        size_t len, struct vl_ids *out)
{
    struct chain c;
    size_t n_words = b->n_merges / 64 + 1;

    if (s->heads == NULL) {
        s->bits = calloc(n_words, sizeof *s->bits);
        if (s->bits != NULL)
            s->heads = malloc((b->n_merges + 1) * sizeof *s->heads);
        if (s->heads == NULL)
            return false;
        memset(s->heads, 0xff, (b->n_merges + 1) * sizeof *s->heads);
    }
    if (!chain_init(&c, b, s, piece, len, false))
        return false;
    for (size_t i = len - 1; i-- > 0;)
        list_add(&c, s, c.rank[i], (uint32_t)i);
    for (size_t w = 0; w < n_words; w++) {
        while (s->bits[w] != 0) {
            uint32_t rank = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(s->bits[w]);
            const struct vl_bpe_merge *m = &b->merges[rank];
            s->bits[w] &= s->bits[w] - 1;
            while (s->heads[rank] != NONE) {
                uint32_t at = s->heads[rank];
                if (m->left == m->right)
                    while (at != 0 && c.id[c.prev[at]] == (uint32_t)m->left)
                        at = c.prev[at];
                do {
                    lists_merge_at(&c, b, s, at, (uint32_t)m->merged);
                    at = c.next[at];
                } while (at != NONE && c.rank[at] == rank);
            }
        }
    }
    return chain_put(&c, out);
}

static bool merge_piece(const struct vl_bpe *b, struct vl_bpe_scratch *s, const uint8_t *piece,
                        size_t len, struct vl_ids *out)
{
    if (len <= SCAN_MAX)
        return merge_scan(b, piece, len, out);
    if (len >= LISTS_MIN && b->ordered)
        return merge_lists(b, s, piece, len, out);
    return merge_heap(b, s, piece, len, out);
}

vl_status vl_bpe_encode(const struct vl_bpe *b, struct vl_bpe_scratch *s, const uint8_t *piece,
                        size_t len, struct vl_ids *out, vl_error *err)
{
    size_t had = out->n;
    int32_t id = vl_tokens_find(&b->tokens, piece, len);
    uint8_t whole = id >= 0 ? __atomic_load_n(&b->whole[id], __ATOMIC_RELAXED) : VL_WHOLE_NO;
    bool ok;

    if (whole == VL_WHOLE_YES) {
        ok = vl_ids_put(out, id);
    } else {
        for (size_t i = 0; b->n_missing > 0 && i < len; i++)
            if (b->byte_id[piece[i]] < 0)
                return vl_error_set(err, VL_E_INVALID,
                                    "encode: the vocabulary has no token for the byte 0x%02X",
                                    piece[i]);
        ok = merge_piece(b, s, piece, len, out);
        if (ok && whole == VL_WHOLE_UNKNOWN)
            __atomic_store_n(&b->whole[id],
                             out->n == had + 1 && out->ptr[had] == id ? VL_WHOLE_YES : VL_WHOLE_NO,
                             __ATOMIC_RELAXED);
    }
    return ok ? VL_OK : vl_error_set(err, VL_E_NOMEM, "encode: out of memory");
}
