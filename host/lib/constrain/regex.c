/* host/lib/constrain/regex.c: a pattern's tree -> automaton over code points -> states of the
 * grammar.
 *
 * The automaton over code points is laid out once a length: where a length is limited, state (s, k)
 * means s behind k characters. */
#include <stdlib.h>
#include <string.h>

#include "host/lib/constrain/regex_private.h"

/* ---- the automaton over code points ---- */

static uint32_t new_state(struct regex *x)
{
    if (x->n_states >= STATES_MAX)
        return vl_regex_fail(x, "it needs more than %d states", STATES_MAX);
    return x->n_states++;
}

static void add_step(struct regex *x, uint32_t from, uint32_t to, uint32_t node)
{
    if (x->status != VL_OK)
        return;
    if (x->n_steps >= 4 * STATES_MAX)
        vl_regex_fail(x, "it needs more than %d states", STATES_MAX);
    else if (!vl_grow(&x->steps, &x->steps_cap, x->n_steps + 1, sizeof *x->steps))
        vl_regex_no_memory(x);
    else
        x->steps[x->n_steps++] = (struct step){from, to, node};
}

static void build(struct regex *x, uint32_t node, uint32_t from, uint32_t to);

static void build_repeat(struct regex *x, uint32_t node, uint32_t from, uint32_t to)
{
    struct node n = x->nodes[node];

    for (uint32_t i = 0; i < n.min && x->status == VL_OK; i++) {
        uint32_t next = new_state(x);
        build(x, n.first, from, next);
        from = next;
    }
    if (n.max == UINT32_MAX) {
        uint32_t loop = new_state(x);
        add_step(x, from, loop, 0);
        build(x, n.first, loop, loop);
        add_step(x, loop, to, 0);
        return;
    }
    add_step(x, from, to, 0);
    for (uint32_t i = n.min; i < n.max && x->status == VL_OK; i++) {
        uint32_t next = new_state(x);
        build(x, n.first, from, next);
        add_step(x, next, to, 0);
        from = next;
    }
}

static void build(struct regex *x, uint32_t node, uint32_t from, uint32_t to)
{
    if (x->status != VL_OK)
        return;
    switch (x->nodes[node].kind) {
    case NODE_CLASS:
        add_step(x, from, to, node);
        return;
    case NODE_REPEAT:
        build_repeat(x, node, from, to);
        return;
    case NODE_CHOICE:
        for (uint32_t c = x->nodes[node].first; c != 0; c = x->nodes[c].next)
            build(x, c, from, to);
        return;
    case NODE_SEQUENCE:
        for (uint32_t c = x->nodes[node].first; c != 0; c = x->nodes[c].next) {
            uint32_t next = x->nodes[c].next != 0 ? new_state(x) : to;
            build(x, c, from, next);
            from = next;
        }
        if (x->nodes[node].first == 0)
            add_step(x, from, to, 0);
        return;
    default:
        vl_regex_fail(
            x, "^ and $ are supported at the ends of the pattern and of its alternatives only");
    }
}

/* One alternative at the top: anything may stand around it where it has no anchor. */
static void build_top(struct regex *x, uint32_t sequence, uint32_t any, uint32_t from, uint32_t to)
{
    uint32_t first = x->nodes[sequence].first, last = first, before = 0;

    for (; last != 0 && x->nodes[last].next != 0; last = x->nodes[last].next)
        before = last;
    bool begins = first != 0 && x->nodes[first].kind == NODE_BEGIN;
    bool ends = last != 0 && x->nodes[last].kind == NODE_END;
    if (begins)
        x->nodes[sequence].first = x->nodes[first].next;
    if (ends && (!begins || last != first)) {
        if (before == 0 || (begins && before == first))
            x->nodes[sequence].first = 0;
        else
            x->nodes[before].next = 0;
    }
    uint32_t a = new_state(x), b = new_state(x);
    add_step(x, from, a, 0);
    if (!begins)
        add_step(x, a, a, any);
    build(x, sequence, a, b);
    if (!ends)
        add_step(x, b, b, any);
    add_step(x, b, to, 0);
}

/* ---- into the grammar ---- */

/* The grammar's states of one count of characters, made as they are reached. */
static uint32_t *new_layer(struct regex *x)
{
    uint32_t *layer = calloc((size_t)x->n_states + 1, sizeof *layer);

    if (layer == NULL)
        vl_regex_no_memory(x);
    return layer;
}

static uint32_t layer_state(const struct vl_rules *r, uint32_t *layer, uint32_t s)
{
    if (layer[s] == 0)
        layer[s] = vl_grammar_state(r->g);
    return layer[s];
}

/* Makes what a layer's states reach without reading; where the layer reads into itself (loop), all
 * that they reach. */
static void spread(const struct regex *x, const struct vl_rules *r, uint32_t *layer,
                   const uint32_t *first, uint32_t *work, bool loop)
{
    size_t n = 0;

    for (uint32_t s = 0; s < x->n_states; s++) {
        if (layer[s] != 0)
            work[n++] = s;
    }
    while (n > 0) {
        uint32_t s = work[--n];
        for (uint32_t i = first[s]; i < first[s + 1]; i++) {
            const struct step *e = &x->steps[i];
            if ((e->node != 0 && !loop) || layer[e->to] != 0)
                continue;
            if (layer_state(r, layer, e->to) != 0)
                work[n++] = e->to;
        }
    }
    for (size_t i = 0; i < x->n_steps; i++) {
        const struct step *e = &x->steps[i];
        if (e->node == 0 && layer[e->from] != 0)
            vl_grammar_empty(r->g, layer[e->from], layer[e->to]);
    }
}

/* A class as bytes, made once: its characters' later bytes are rules that all places share. */
static struct class_bytes bytes_of(struct regex *x, const struct vl_rules *r, uint32_t node)
{
    struct class_bytes *c = &x->classes[node];
    const struct node *n = &x->nodes[node];
    size_t before = r->g->n_edges;

    if (c->made || x->status != VL_OK)
        return *c;
    uint32_t entry = vl_grammar_state(r->g);
    for (uint32_t k = 0; k < n->n; k++)
        vl_rules_points(r, entry, x->ranges[n->first + k].low, x->ranges[n->first + k].high, r->end,
                        true);
    c->made = true;
    c->first = (uint32_t)x->n_bytes;
    for (size_t i = before; i < r->g->n_edges; i++) {
        const struct vl_grammar_edge *e = &r->g->edges[i];
        if (e->from != entry)
            continue;
        if (!vl_grow(&x->bytes, &x->bytes_cap, x->n_bytes + 1, sizeof *x->bytes)) {
            vl_regex_no_memory(x);
            return *c;
        }
        x->bytes[x->n_bytes++] =
            (struct first_byte){e->low, e->high, e->target == r->end ? 0 : e->target};
    }
    c->n = (uint32_t)x->n_bytes - c->first;
    return *c;
}

static void read_into(struct regex *x, const struct vl_rules *r, uint32_t *layer, uint32_t *next,
                      const uint32_t *first)
{
    for (uint32_t s = 0; s < x->n_states && x->status == VL_OK; s++) {
        if (layer[s] == 0)
            continue;
        for (uint32_t i = first[s]; i < first[s + 1]; i++) {
            const struct step *e = &x->steps[i];
            if (e->node == 0)
                continue;
            struct class_bytes c = bytes_of(x, r, e->node);
            uint32_t to = c.n > 0 ? layer_state(r, next, e->to) : 0;
            for (uint32_t k = 0; k < c.n; k++) {
                const struct first_byte *b = &x->bytes[c.first + k];
                if (b->rule == 0)
                    vl_grammar_byte(r->g, layer[s], b->low, b->high, to);
                else
                    vl_grammar_byte_call(r->g, layer[s], b->low, b->high, b->rule, to);
            }
        }
    }
}

static int compare_steps(const void *a, const void *b)
{
    const struct step *x = a, *y = b;

    return x->from < y->from ? -1 : x->from > y->from;
}

/* The text between the quotes: state 0 is the beginning, 1 the end. */
static void lay_out(struct regex *x, const struct vl_rules *r, uint32_t from, uint32_t min,
                    uint32_t max, uint32_t to)
{
    bool endless = max == UINT32_MAX;
    uint32_t n = endless ? min : max;
    uint32_t *layer = new_layer(x), *next = NULL, *work = new_layer(x);
    uint32_t *first = calloc((size_t)x->n_states + 2, sizeof *first);

    x->classes = calloc(x->n_nodes, sizeof *x->classes);
    if (x->status != VL_OK || first == NULL || x->classes == NULL) {
        vl_regex_no_memory(x);
        goto out;
    }
    if (x->n_steps > 0)
        qsort(x->steps, x->n_steps, sizeof *x->steps, compare_steps);
    for (size_t i = 0; i < x->n_steps; i++)
        first[x->steps[i].from + 1]++;
    for (uint32_t s = 0; s < x->n_states; s++)
        first[s + 1] += first[s];
    if (n > 0 && (uint64_t)n * x->n_states > LAYERS_MAX) {
        vl_regex_fail(x, "with lengths up to %u it needs more than %d states", n, LAYERS_MAX);
        goto out;
    }
    vl_grammar_empty(r->g, from, layer_state(r, layer, 0));
    for (uint32_t k = 0; k <= n && x->status == VL_OK && !r->g->too_large; k++) {
        bool loop = k == n && endless, last = k == n;
        next = loop ? layer : last ? NULL : new_layer(x);
        spread(x, r, layer, first, work, loop);
        if (next != NULL)
            read_into(x, r, layer, next, first);
        if (k >= min && layer[1] != 0)
            vl_grammar_empty(r->g, layer[1], to);
        if (loop || last)
            break;
        free(layer);
        layer = next;
        next = NULL;
    }
out:
    if (next != layer)
        free(next);
    free(layer);
    free(work);
    free(first);
}

vl_status vl_regex_string(const struct vl_rules *r, uint32_t from, vl_bytes pattern, uint32_t min,
                          uint32_t max, uint32_t to, vl_error *err)
{
    struct regex x = {.text = pattern.ptr, .len = pattern.len, .err = err};
    uint32_t top = vl_regex_parse(&x), any = 0, open, close;

    if (x.status == VL_OK) {
        size_t first = x.n_ranges;
        vl_regex_range(&x, 0, 0x10ffff);
        any = vl_regex_class(&x, first);
    }
    x.n_states = 2;
    for (uint32_t c = x.status == VL_OK ? x.nodes[top].first : 0; c != 0 && x.status == VL_OK;
         c = x.nodes[c].next)
        build_top(&x, c, any, 0, 1);
    if (x.status == VL_OK) {
        open = vl_grammar_state(r->g);
        close = vl_grammar_state(r->g);
        vl_grammar_byte(r->g, from, '"', '"', open);
        vl_grammar_byte(r->g, close, '"', '"', to);
        lay_out(&x, r, open, min, max, close);
    }
    free(x.classes);
    free(x.bytes);
    free(x.nodes);
    free(x.ranges);
    free(x.steps);
    return x.status;
}

/* ---- formats ---- */

#define YEAR "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP_YEAR "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DAY_OF_YEAR                                                                                \
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"                \
    "02-(0[1-9]|1[0-9]|2[0-8]))"
#define DATE "(" YEAR "-" DAY_OF_YEAR "|" LEAP_YEAR "-02-29)"
#define TIME                                                                                       \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]" \
    ")"
#define LABEL "[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20}){0,2}"

const char *vl_regex_format(const char *name)
{
    static const char *const formats[][2] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "T" TIME "$"},
        {"uuid", "^[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$"},
        {"email", "^[A-Za-z0-9_%+-]{1,32}(\\.[A-Za-z0-9_%+-]{1,10}){0,3}@(" LABEL
                  "\\.){1,3}[A-Za-z]{2,24}$"},
    };

    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i][0], name) == 0)
            return formats[i][1];
    }
    return NULL;
}
