/* host/lib/constrain/regex_private.h: what the pattern's reader (regex_parse.c) and its automaton
 * (regex.c) share: the tree. */
#ifndef VL_CONSTRAIN_REGEX_PRIVATE_H
#define VL_CONSTRAIN_REGEX_PRIVATE_H

#include "base/buf.h"
#include "base/error.h"
#include "host/lib/constrain/regex.h"

enum {
    DEPTH_MAX = 100,
    NODES_MAX = 20000,
    STATES_MAX = 50000,
    COUNT_MAX = 10000,
    LAYERS_MAX = 4000000
};

enum { NODE_EMPTY, NODE_CLASS, NODE_SEQUENCE, NODE_CHOICE, NODE_REPEAT, NODE_BEGIN, NODE_END };

struct node {
    int kind;
    uint32_t first, n; /* CLASS: ranges; SEQUENCE, CHOICE, REPEAT: children, by `next` from first */
    uint32_t next;     /* sibling; 0: none */
    uint32_t min, max; /* REPEAT; max UINT32_MAX: no limit */
};
struct range {
    uint32_t low, high;
};
/* Edges of the automaton over code points: node 0 reads nothing, else a class. */
struct step {
    uint32_t from, to, node;
};
/* The first bytes of a class's characters, and what follows each: a rule, or nothing (0). */
struct first_byte {
    uint8_t low, high;
    uint32_t rule;
};
struct class_bytes {
    uint32_t first, n;
    bool made;
};

struct regex {
    const char *text;
    size_t len, at;
    struct node *nodes; /* 0 is none */
    size_t n_nodes, nodes_cap;
    struct range *ranges;
    size_t n_ranges, ranges_cap;
    struct step *steps;
    size_t n_steps, steps_cap;
    uint32_t n_states;
    struct class_bytes *classes; /* [n_nodes], while it is laid out */
    struct first_byte *bytes;
    size_t n_bytes, bytes_cap;
    uint32_t depth;
    vl_status status;
    vl_error *err;
};

/* Fails with "at byte N of the pattern: text"; the first failure stands. Both return 0. */
uint32_t vl_regex_fail(struct regex *x, const char *fmt, ...) VL_PRINTF(2, 3);
uint32_t vl_regex_no_memory(struct regex *x);
void vl_regex_range(struct regex *x, uint32_t low, uint32_t high);
/* A node of the ranges from number `first` on. */
uint32_t vl_regex_class(struct regex *x, size_t first);
/* The tree of the whole pattern: a CHOICE. */
uint32_t vl_regex_parse(struct regex *x);

#endif
