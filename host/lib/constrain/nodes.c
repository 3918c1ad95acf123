/* host/lib/constrain/nodes.c: one rule for each node that has children or a value; literals in
 * place. */
#include "host/lib/constrain/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "host/lib/constrain/schema.h"

enum { NODES_MAX = 100000, REPEAT_MAX = 10000, TEXT_MAX = 4096, JSON_DEPTH = 200, TWINS_MAX = 64 };

struct nodes {
    const struct vl_rules *r;
    const vl_vocabulary *v;
    const vl_constraint_node *list;
    uint64_t n;
    uint32_t *rules;   /* [n] entry of the node's rule; 0: not asked for */
    uint64_t *waiting; /* [n] nodes whose rule is asked for and not written */
    size_t n_waiting;
    uint32_t twins[TWINS_MAX]; /* nodes with a value whose rule others of the same text share */
    size_t n_twins;
    vl_error *err;
};

/* The rule of a node like this one (free text with the same end, a value of the same schema), so
 * that they share their masks. */
static uint32_t twin_of(struct nodes *x, uint32_t node)
{
    const vl_constraint_node *a = &x->list[node];

    if (a->kind != VL_CONSTRAINT_TEXT && a->kind != VL_CONSTRAINT_JSON)
        return 0;
    for (size_t i = 0; i < x->n_twins; i++) {
        const vl_constraint_node *b = &x->list[x->twins[i]];
        if (a->kind == b->kind && a->text.len == b->text.len &&
            (a->text.len == 0 || memcmp(a->text.ptr, b->text.ptr, a->text.len) == 0))
            return x->rules[x->twins[i]];
    }
    if (x->n_twins < TWINS_MAX)
        x->twins[x->n_twins++] = node;
    return 0;
}

/* The rule of a node, which is written later. */
static uint32_t rule_of(struct nodes *x, uint32_t node)
{
    if (x->rules[node] != 0)
        return x->rules[node];
    x->rules[node] = twin_of(x, node);
    if (x->rules[node] == 0) {
        x->rules[node] = vl_grammar_state(x->r->g);
        if (x->rules[node] != 0) /* else the grammar is too large, and all is over */
            x->waiting[x->n_waiting++] = node;
    }
    return x->rules[node];
}

static void put_literal(struct nodes *x, vl_bytes text, uint32_t from, uint32_t to)
{
    int32_t id = text.len > 0 ? vl_vocabulary_added(x->v, text) : -1;

    if (id >= 0)
        vl_grammar_token(x->r->g, from, id, to);
    else
        vl_grammar_text(x->r->g, from, text.ptr, text.len, to);
}

/* The longest beginning of text that ends text[0..at) + byte. */
static size_t fall_back(const char *text, const size_t *border, size_t at, char byte)
{
    while (at > 0 && text[at] != byte)
        at = border[at - 1];
    return at + (text[at] == byte);
}

static bool is_text(int b)
{
    return b >= 0x20 || b == '\t' || b == '\n' || b == '\r';
}

/* Any text up to and with the first `text`: state i has seen text[0..i). */
static vl_status put_text(struct nodes *x, vl_bytes text, uint32_t from, uint32_t to)
{
    vl_grammar *g = x->r->g;
    const struct vl_rules *r = x->r;
    size_t *border = NULL;
    uint32_t *state = NULL;

    for (size_t i = 0; i < text.len; i++) {
        if ((text.ptr[i] & 0x80) != 0)
            return vl_error_set(x->err, VL_E_INVALID,
                                "constraint: an end of free text must be ASCII");
    }
    if (text.len == 0 || text.len > TEXT_MAX)
        return vl_error_set(x->err, VL_E_INVALID, "constraint: free text with an end of %zu bytes",
                            text.len);
    border = calloc(text.len, sizeof *border);
    state = calloc(text.len + 1, sizeof *state);
    if (border == NULL || state == NULL) {
        free(border);
        free(state);
        return vl_error_set(x->err, VL_E_NOMEM, "constrained output: out of memory");
    }
    for (size_t i = 1; i < text.len; i++)
        border[i] = fall_back(text.ptr, border, border[i - 1], text.ptr[i]);
    for (size_t i = 0; i < text.len; i++)
        state[i] = vl_grammar_state(g);
    state[text.len] = to;
    vl_grammar_empty(g, from, state[0]);
    for (size_t i = 0; i < text.len; i++) {
        for (int b = 0, end; b < 0x80; b = end) { /* runs that lead to the same state */
            size_t next = fall_back(text.ptr, border, i, (char)b);
            for (end = b + 1; end < 0x80 && is_text(end) == is_text(b) &&
                              fall_back(text.ptr, border, i, (char)end) == next;)
                end++;
            if (is_text(b))
                vl_grammar_byte(g, state[i], (uint8_t)b, (uint8_t)(end - 1), state[next]);
        }
        vl_rules_points(r, state[i], 0x80, 0x10ffff, state[0], false);
        if (i < 2) /* anything, and what a line end may begin */
            vl_rules_warm(r, state[i]);
    }
    free(border);
    free(state);
    return VL_OK;
}

static vl_status put_json(struct nodes *x, vl_bytes schema, uint32_t from, uint32_t to)
{
    vl_json_doc doc = {0};

    if (schema.len == 0) {
        vl_grammar_call(x->r->g, from, x->r->object, to);
        return VL_OK;
    }
    vl_status rc = vl_json_parse(&doc, schema.ptr, schema.len, JSON_DEPTH, 0, x->err);
    if (rc == VL_OK)
        rc = vl_schema_compile(x->r, vl_json_root(&doc), "constraint", from, to, x->err);
    vl_json_doc_fini(&doc);
    return rc;
}

static void put_child(struct nodes *x, uint32_t child, uint32_t from, uint32_t to)
{
    const vl_constraint_node *n = &x->list[child];

    if (n->kind == VL_CONSTRAINT_LITERAL)
        put_literal(x, n->text, from, to);
    else
        vl_grammar_call(x->r->g, from, rule_of(x, child), to);
}

static vl_status put_repeat(struct nodes *x, const vl_constraint_node *n, uint32_t from,
                            uint32_t to)
{
    vl_grammar *g = x->r->g;

    if (n->n_children != 1 || n->min_count > n->max_count || n->max_count > REPEAT_MAX)
        return vl_error_set(x->err, VL_E_INVALID, "constraint: %u children repeated %u to %u times",
                            n->n_children, n->min_count, n->max_count);
    for (uint32_t i = 0; i < n->max_count; i++) {
        uint32_t next = vl_grammar_state(g);
        if (i >= n->min_count)
            vl_grammar_empty(g, from, to);
        put_child(x, n->children[0], from, next);
        from = next;
    }
    vl_grammar_empty(g, from, to);
    return VL_OK;
}

static vl_status put_node(struct nodes *x, uint64_t at, uint32_t from)
{
    const vl_constraint_node *n = &x->list[at];
    vl_grammar *g = x->r->g;
    uint32_t to = x->r->end;

    switch (n->kind) {
    case VL_CONSTRAINT_LITERAL:
        put_literal(x, n->text, from, to);
        return VL_OK;
    case VL_CONSTRAINT_JSON:
        return put_json(x, n->text, from, to);
    case VL_CONSTRAINT_TEXT:
        return put_text(x, n->text, from, to);
    case VL_CONSTRAINT_SEQUENCE:
        for (uint32_t i = 0; i < n->n_children; i++) {
            uint32_t next = vl_grammar_state(g);
            put_child(x, n->children[i], from, next);
            from = next;
        }
        vl_grammar_empty(g, from, to);
        return VL_OK;
    case VL_CONSTRAINT_CHOICE:
        for (uint32_t i = 0; i < n->n_children; i++)
            put_child(x, n->children[i], from, to);
        return VL_OK;
    case VL_CONSTRAINT_REPEAT:
        return put_repeat(x, n, from, to);
    default:
        return vl_error_set(x->err, VL_E_UNSUPPORTED, "constraint: node %llu is of unknown kind %d",
                            (unsigned long long)at, n->kind);
    }
}

static vl_status check_children(const struct nodes *x)
{
    for (uint64_t i = 0; i < x->n; i++) {
        for (uint32_t k = 0; k < x->list[i].n_children; k++) {
            if (x->list[i].children[k] >= x->n)
                return vl_error_set(
                    x->err, VL_E_INVALID, "constraint: node %llu has child %u of %llu",
                    (unsigned long long)i, x->list[i].children[k], (unsigned long long)x->n);
        }
    }
    return VL_OK;
}

vl_status vl_nodes_compile(const struct vl_rules *r, const vl_vocabulary *v,
                           const vl_constraint_node *nodes, uint64_t n, uint32_t from, uint32_t to,
                           vl_error *err)
{
    struct nodes x = {.r = r, .v = v, .list = nodes, .n = n, .err = err};
    vl_status rc = VL_OK;

    if (n == 0 || n > NODES_MAX)
        return vl_error_set(err, VL_E_INVALID, "constraint: %llu nodes; want 1 to %d",
                            (unsigned long long)n, NODES_MAX);
    rc = check_children(&x);
    x.rules = calloc((size_t)n, sizeof *x.rules);
    x.waiting = calloc((size_t)n + 1, sizeof *x.waiting);
    if (x.rules == NULL || x.waiting == NULL)
        rc = vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
    if (rc == VL_OK)
        vl_grammar_call(r->g, from, rule_of(&x, 0), to);
    while (rc == VL_OK && x.n_waiting > 0 && !r->g->failed && !r->g->too_large) {
        uint64_t at = x.waiting[--x.n_waiting];
        rc = put_node(&x, at, x.rules[at]);
    }
    free(x.rules);
    free(x.waiting);
    return rc;
}
