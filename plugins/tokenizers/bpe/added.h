/* added.h: finding added tokens in a text: leftmost, and the longest of those that start there.
 * Knows neither merges nor files. Read-only once sealed: [any]. */
#ifndef VL_BPE_ADDED_H
#define VL_BPE_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vallmo/abi.h"

enum {
    VL_ADDED_SPECIAL = 1,     /* dropped when special tokens are skipped */
    VL_ADDED_NORMALIZED = 2,  /* matched in the normalised text, otherwise before normalising */
    VL_ADDED_LSTRIP = 4,      /* a match takes the white space before it along */
    VL_ADDED_RSTRIP = 8,      /* ... and behind it */
    VL_ADDED_SINGLE_WORD = 16 /* no match beside a word character */
};

/* A set of token contents as a trie; edges in a hash. */
struct vl_added_edge {
    uint32_t from; /* NONE: free */
    uint32_t byte;
    uint32_t to;
};
struct vl_added {
    const uint8_t *classes;      /* borrowed; of unicode.h */
    struct vl_added_edge *edges; /* owned, [n_edges], a power of two */
    size_t n_edges, n_edges_used;
    struct vl_added_node {
        int32_t id; /* of the token that ends here, or -1 */
        uint32_t flags;
    } * nodes; /* owned */
    size_t n_nodes, nodes_cap;
    bool first[256]; /* bytes that a token starts with */
    int only_first;  /* the one such byte, or -1 */
    size_t n;        /* tokens */
};

void vl_added_fini(struct vl_added *a); /* a zeroed one is fine */
/* Of two tokens with the same content the first one stays. Empty contents never match. */
vl_status vl_added_put(struct vl_added *a, int32_t id, uint32_t flags, const char *content,
                       size_t len, vl_error *err);

/* The token with exactly this content, or -1. */
int32_t vl_added_find(const struct vl_added *a, const char *content, size_t len);

struct vl_added_match {
    size_t from, to; /* white space that it takes along included */
    size_t search;   /* where the next search begins */
    int32_t id;
};

/* The first token that lies wholly in text[at, end), which lies in the whole text [lo, hi) that
 * decides on word borders. White space is taken from [floor, end) alone. False if there is none. */
bool vl_added_next(const struct vl_added *a, const uint8_t *text, size_t lo, size_t hi,
                   size_t floor, size_t at, size_t end, struct vl_added_match *m);

#endif
