/* bpe.h: the merge core: one piece of bytes to ids. Knows no files, no text and no Unicode.
 * Read-only once sealed, but for bpe's memory of which tokens are their own encoding, which is
 * written with atomics and always with the same answer: [any]. */
#ifndef VL_BPE_BPE_H
#define VL_BPE_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tokens.h"

enum { VL_WHOLE_UNKNOWN = 0, VL_WHOLE_YES = 1, VL_WHOLE_NO = 2 };

/* A list of ids that grows. Owned by whoever zeroed it; free(ptr). */
struct vl_ids {
    int32_t *ptr;
    size_t n, cap;
};

struct vl_bpe_pair {
    int32_t left; /* -1: free */
    int32_t right;
    uint32_t rank;
    int32_t merged;
};

struct vl_bpe {
    struct vl_tokens tokens;
    bool ignore_merges;   /* a piece that is a token is that token */
    int32_t byte_id[256]; /* -1: the vocabulary has no token for this byte */
    size_t n_missing;     /* such bytes */
    struct vl_bpe_merge {
        int32_t left, right, merged;
    } * merges; /* [n_merges], by rank */
    size_t n_merges, merges_cap;
    struct vl_bpe_pair *pairs; /* open addressing, at most half full */
    size_t n_pairs;            /* a power of two */
    /* What two single bytes merge to, [256 * 256]: the first round of every piece. */
    struct vl_bpe_rank {
        uint32_t rank;
        int32_t merged;
    } * byte_pairs;
    bool ordered; /* no merge makes a pair of a lower rank than its own */
    uint8_t
        *whole; /* [n_ids] of VL_WHOLE_...: does the content of the token encode to the token? */
};

/* Buffers of one call; zero it first. */
struct vl_bpe_scratch {
    uint32_t *words; /* owned */
    size_t words_cap;
    uint32_t *heads; /* [n_merges], owned; all NONE between pieces */
    uint64_t *bits;  /* [n_merges / 64 + 1], owned; all 0 between pieces */
};
void vl_bpe_scratch_fini(struct vl_bpe_scratch *s);

/* ---- building (bpe_build.c) ---- */

/* Order of calls: init, vl_tokens_add for all tokens, reserve_merges, merges by rank in batches,
 * seal. */
vl_status vl_bpe_init(struct vl_bpe *b, size_t n_tokens, size_t pool_bytes, vl_error *err);
void vl_bpe_fini(struct vl_bpe *b);
/* Finds the single bytes and makes room for n merges. VL_E_FORMAT if a byte has no token and
 * may_miss is not set; if it is, pieces with such a byte are refused later. */
vl_status vl_bpe_reserve_merges(struct vl_bpe *b, size_t n, bool may_miss, vl_error *err);

/* Merges on their way in. They are taken in groups, so that the memory of the tables that one needs
 * is fetched while others are worked on. Zero it and set bpe; fini when done. */
struct vl_bpe_batch {
    struct vl_bpe *bpe;
    vl_buf bytes;
    struct vl_bpe_batch_item {
        size_t at; /* of the left half in bytes; the right one follows */
        uint32_t left_len, right_len;
        size_t index; /* in the file, for messages */
        uint64_t left_key, right_key;
        int32_t left, right;
    } items[64];
    size_t n;
};
/* The next rank: two token strings in the byte alphabet. They and their concatenation must be
 * tokens; an error may come with a later call, and names the merge by its index. */
vl_status vl_bpe_batch_add(struct vl_bpe_batch *m, size_t index, vl_bytes left, vl_bytes right,
                           vl_error *err);
vl_status vl_bpe_batch_flush(struct vl_bpe_batch *m,
                             vl_error *err); /* all that is still on its way */
void vl_bpe_batch_fini(struct vl_bpe_batch *m);

vl_status vl_bpe_seal(struct vl_bpe *b, vl_error *err);
/* After seal: a piece that spells this token is merged like any other. */
void vl_bpe_never_whole(struct vl_bpe *b, int32_t id);

/* ---- encoding (bpe.c) ---- */

/* Appends the ids of one piece (len > 0). VL_E_INVALID for a byte that has no token. */
vl_status vl_bpe_encode(const struct vl_bpe *b, struct vl_bpe_scratch *s, const uint8_t *piece,
                        size_t len, struct vl_ids *out, vl_error *err);

static inline size_t vl_bpe_pair_slot(const struct vl_bpe *b, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return vl_fold(key ^ b->tokens.seed, 0x9e3779b97f4a7c15u) & (b->n_pairs - 1);
}

/* The rank of a pair of ids, or NULL. */
static inline const struct vl_bpe_pair *vl_bpe_pair_find(const struct vl_bpe *b, int32_t left,
                                                         int32_t right)
{
    for (size_t i = vl_bpe_pair_slot(b, left, right);; i = (i + 1) & (b->n_pairs - 1)) {
        const struct vl_bpe_pair *p = &b->pairs[i];
        if (p->left == left && p->right == right)
            return p;
        if (p->left < 0)
            return NULL;
    }
}

static inline bool vl_ids_put(struct vl_ids *ids, int32_t id)
{
    if (ids->n == ids->cap && !vl_grow(&ids->ptr, &ids->cap, ids->n + 1, sizeof *ids->ptr))
        return false;
    ids->ptr[ids->n++] = id;
    return true;
}

#endif
