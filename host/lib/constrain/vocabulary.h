/* host/lib/constrain/vocabulary.h: a tokenizer's tokens as a trie of bytes, for walking beside an
 * automaton. Made once a model; read-only then, [any]. Added tokens are not in it: they are never
 * spelled, only named.
 *
 * The nodes lie in preorder: a node's first child, if any, is behind it; skip is the node behind
 * its whole subtree. */
#ifndef VL_CONSTRAIN_VOCABULARY_H
#define VL_CONSTRAIN_VOCABULARY_H

#include "vallmo/tokenizer.h"

/* What a token does when it begins inside a JSON string: part of the vocabulary, since every
 * grammar's strings are alike. */
struct vl_string_exit {
    uint32_t node;  /* whose last byte is the closing quote */
    uint32_t chars; /* before the quote */
};

typedef struct vl_vocabulary {
    const vl_tokenizer_api *api; /* borrowed, with its tokenizer: must outlive this */
    const vl_tokenizer *tokenizer;
    uint32_t n_tokens;
    size_t n_words;   /* of a mask: (n_tokens + 31) / 32 */
    uint32_t longest; /* token, bytes */

    uint32_t n_nodes;
    uint8_t *byte;   /* [n_nodes] */
    uint16_t *depth; /* [n_nodes] bytes before this one */
    uint32_t *skip;  /* [n_nodes] */
    int32_t *token;  /* [n_nodes] the token that ends here, or -1 */
    int32_t *same;   /* [n_tokens] the next token of the same bytes, or -1 */
    int32_t *stops;  /* [n_stops] ids that end an answer */
    size_t n_stops;

    /* Tokens that stay inside a JSON string, by the characters they make (an unfinished one
     * counts): levels[c - 1] holds those with at most c. made by vl_strings_init. */
    uint32_t *levels; /* [n_levels * n_words] */
    uint32_t n_levels;
    struct vl_string_exit *exits;
    size_t n_exits;
    struct vl_grammar_cache *cache; /* compiled grammars; constrain.c */
} vl_vocabulary;

/* The trie alone; constrain.h has what makes the whole. */
vl_status vl_vocabulary_build(vl_vocabulary *v, const vl_tokenizer_api *api, const vl_tokenizer *t,
                              vl_error *err);
void vl_vocabulary_free_trie(vl_vocabulary *v);
/* An added token of exactly this text, or -1. */
int32_t vl_vocabulary_added(const vl_vocabulary *v, vl_bytes text);

#endif
