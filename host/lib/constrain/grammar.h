/* host/lib/constrain/grammar.h: a recursive automaton over bytes: states with edges that read a
 * byte or a token, or nothing, and that may call a rule. What the schema compiler builds and the
 * machine runs. Knows no JSON and no vocabulary.
 *
 * A rule is known by its entry state; it ends in any state marked accept, which goes on in the
 * state its call named (`ret`). Building never fails in the middle: out of memory and too large are
 * sticky, and vl_grammar_finish tells. */
#ifndef VL_CONSTRAIN_GRAMMAR_H
#define VL_CONSTRAIN_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vallmo/abi.h"

enum {
    VL_GRAMMAR_MAX_STATES = 200000,
    VL_GRAMMAR_MAX_EDGES = 1000000,
    VL_GRAMMAR_MAX_DEPTH =
        256 /* rules called within each other at run time: deeper values are not made */
};
#define VL_GRAMMAR_NEVER UINT32_MAX /* height of a state from which no end can be reached */

enum { VL_EDGE_BYTE = 0, VL_EDGE_EMPTY = 1, VL_EDGE_TOKEN = 2 };

struct vl_grammar_edge {
    uint32_t from;
    uint32_t target;
    uint32_t ret;  /* 0: none; else target is the entry of a rule, and its end goes on in ret */
    int32_t token; /* TOKEN: this id and no spelling of it */
    uint8_t kind, low, high, reserved;
};

struct vl_grammar_state {
    uint32_t first,
        n; /* edges, once finished: those that read nothing, then BYTE by low, then TOKEN */
    uint32_t n_empty; /* of them */
    uint32_t height;  /* least depth of calls on a way to the rule's end; VL_GRAMMAR_NEVER: there is
                         none */
    uint32_t chars;   /* index + 1 into `chars` for states between the characters of a JSON string;
                         else 0 */
    uint8_t accept, reads, reserved[2]; /* reads: has a BYTE or TOKEN edge */
};

/* Between two characters of a JSON string: how many more must and may come before the quote. */
struct vl_grammar_chars {
    uint32_t need, room; /* room UINT32_MAX: any number */
};

typedef struct vl_grammar {
    struct vl_grammar_state *states; /* 0 is no state */
    struct vl_grammar_edge *edges;   /* by `from`, once finished */
    struct vl_grammar_chars *chars;
    size_t n_states, states_cap, n_edges, edges_cap, n_chars, chars_cap;
    bool failed, too_large;
    uint8_t class_of[256]; /* bytes that every state treats alike */
    uint8_t byte_of[256];  /* one byte of each class */
    uint32_t n_classes;
    uint32_t start;         /* the text at once */
    uint32_t start_thought; /* the text behind a thought: its line ends may come first */
} vl_grammar;

bool vl_grammar_init(vl_grammar *g); /* false: out of memory */
void vl_grammar_fini(vl_grammar *g);

uint32_t vl_grammar_state(vl_grammar *g);
uint32_t vl_grammar_end(vl_grammar *g); /* a state marked accept */
void vl_grammar_byte(vl_grammar *g, uint32_t from, uint8_t low, uint8_t high, uint32_t target);
void vl_grammar_byte_call(vl_grammar *g, uint32_t from, uint8_t low, uint8_t high, uint32_t rule,
                          uint32_t ret);
void vl_grammar_empty(vl_grammar *g, uint32_t from, uint32_t target);
void vl_grammar_call(vl_grammar *g, uint32_t from, uint32_t rule, uint32_t ret);
void vl_grammar_token(vl_grammar *g, uint32_t from, int32_t id, uint32_t target);
/* Marks a state as standing between characters of a JSON string. */
void vl_grammar_mark_chars(vl_grammar *g, uint32_t state, uint32_t need, uint32_t room);
/* The bytes of text, then target. */
void vl_grammar_text(vl_grammar *g, uint32_t from, const char *text, size_t len, uint32_t target);
/* One of several texts, shared beginnings shared: sorts the array. */
void vl_grammar_texts(vl_grammar *g, uint32_t from, vl_bytes *texts, size_t n, uint32_t target);

/* Sorts the edges, finds byte classes and heights. VL_E_NOMEM, or VL_E_INVALID when it became too
 * large. */
vl_status vl_grammar_finish(vl_grammar *g, vl_error *err);

#endif
