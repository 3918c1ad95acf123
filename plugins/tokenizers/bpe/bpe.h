/* bpe.h: the merge core: one piece of bytes to ids. Knows no files, no text and no Unicode.
 * Read-only once sealed, but for bpe's memory of which tokens are their own encoding, which is written
 * with atomics and always with the same answer: [any]. */
#ifndef VL_BPE_BPE_H
#define VL_BPE_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tokens.h"

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
    int32_t byte_id[256];
    struct vl_bpe_merge {
        int32_t left, right, merged;
    } *merges; /* [n_merges], by rank */
    size_t n_merges, merges_cap;
    struct vl_bpe_pair *pairs; /* open addressing, at most half full */
    size_t n_pairs;            /* a power of two */
    /* What two single bytes merge to, [256 * 256]: the first round of every piece. */
    struct vl_bpe_rank {
        uint32_t rank;
        int32_t merged;
    } *byte_pairs;
    bool ordered; /* no merge makes a pair of a lower rank than its own */
    uint8_t *whole; /* [n_ids] of WHOLE_...: does the content of the token encode to the token? */
};

/* Buffers of one call; zero it first. */
struct vl_bpe_scratch {
    uint32_t *words; /* owned */
    size_t words_cap;
    uint32_t *heads; /* [n_merges], owned; all NONE between pieces */
    uint64_t *bits;  /* [n_merges / 64 + 1], owned; all 0 between pieces */
};
void vl_bpe_scratch_fini(struct vl_bpe_scratch *s);

/* Order of calls: init, vl_tokens_add for all tokens, reserve_merges, add_merge by rank, seal. */
vl_status vl_bpe_init(struct vl_bpe *b, size_t n_tokens, size_t pool_bytes, vl_error *err);
void vl_bpe_fini(struct vl_bpe *b);
/* Finds the 256 single bytes and makes room for n merges. VL_E_FORMAT if a byte has no token. */
vl_status vl_bpe_reserve_merges(struct vl_bpe *b, size_t n, vl_error *err);
/* The next rank: two contents, which must be tokens, and so must be their concatenation. */
vl_status vl_bpe_add_merge(struct vl_bpe *b, const void *left, size_t left_len, const void *right,
                           size_t right_len, vl_error *err);
vl_status vl_bpe_seal(struct vl_bpe *b, vl_error *err);
/* After seal: a piece that spells this token is merged like any other. */
void vl_bpe_never_whole(struct vl_bpe *b, int32_t id);

/* Appends the ids of one piece (len > 0). VL_E_NOMEM alone can go wrong. */
vl_status vl_bpe_encode(const struct vl_bpe *b, struct vl_bpe_scratch *s, const uint8_t *piece,
                        size_t len, struct vl_ids *out, vl_error *err);

static inline bool vl_ids_put(struct vl_ids *ids, int32_t id)
{
    if (ids->n == ids->cap && !vl_grow(&ids->ptr, &ids->cap, ids->n + 1, sizeof *ids->ptr))
        return false;
    ids->ptr[ids->n++] = id;
    return true;
}

#endif
