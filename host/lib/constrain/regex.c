/* host/lib/constrain/regex.c: pattern text -> tree -> automaton over code points -> states of the grammar.
 *
 * The automaton over code points is laid out once a length: where a length is limited, state (s, k) means s behind k characters. */
#include "host/lib/constrain/regex.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/utf8.h"

enum { DEPTH_MAX = 100, NODES_MAX = 20000, STATES_MAX = 50000, COUNT_MAX = 10000,
       LAYERS_MAX = 4000000 };

enum { NODE_EMPTY, NODE_CLASS, NODE_SEQUENCE, NODE_CHOICE, NODE_REPEAT, NODE_BEGIN, NODE_END };

struct node {
    int kind;
    uint32_t first, n;   /* CLASS: ranges; SEQUENCE, CHOICE, REPEAT: children, by `next` from first */
    uint32_t next;       /* sibling; 0: none */
    uint32_t min, max;   /* REPEAT; max UINT32_MAX: no limit */
};
struct range {
    uint32_t low, high;
};
/* Edges of the automaton over code points: class UINT32_MAX reads nothing. */
struct step {
    uint32_t from, to, node;
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
    uint32_t depth;
    vl_status status;
    vl_error *err;
};

static VL_PRINTF(2, 3) uint32_t fail(struct regex *x, const char *fmt, ...)
{
    vl_buf what = VL_BUF_INIT;
    va_list args;

    if (x->status != VL_OK)
        return 0;
    va_start(args, fmt);
    vl_buf_vprintf(&what, fmt, args);
    va_end(args);
    x->status = vl_error_set(x->err, VL_E_INVALID, "at byte %zu of the pattern: %s", x->at,
                             what.ptr != NULL ? what.ptr : "out of memory");
    vl_buf_fini(&what);
    return 0;
}

static uint32_t no_memory(struct regex *x)
{
    if (x->status == VL_OK)
        x->status = vl_error_set(x->err, VL_E_NOMEM, "pattern: out of memory");
    return 0;
}

static uint32_t new_node(struct regex *x, int kind)
{
    if (x->status != VL_OK)
        return 0;
    if (x->n_nodes >= NODES_MAX)
        return fail(x, "it has more than %d parts", NODES_MAX);
    if (!vl_grow(&x->nodes, &x->nodes_cap, x->n_nodes + 1, sizeof *x->nodes))
        return no_memory(x);
    x->nodes[x->n_nodes] = (struct node){.kind = kind};
    return (uint32_t)x->n_nodes++;
}

static void add_range(struct regex *x, uint32_t low, uint32_t high)
{
    if (x->status != VL_OK)
        return;
    if (!vl_grow(&x->ranges, &x->ranges_cap, x->n_ranges + 1, sizeof *x->ranges))
        no_memory(x);
    else
        x->ranges[x->n_ranges++] = (struct range){low, high};
}

/* ---- classes ---- */

static int compare_ranges(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return x->low < y->low ? -1 : x->low > y->low;
}

/* Sorts and joins the ranges from `first` on. */
static void settle(struct regex *x, size_t first)
{
    size_t n = first;

    if (x->n_ranges <= first)
        return;
    qsort(x->ranges + first, x->n_ranges - first, sizeof *x->ranges, compare_ranges);
    for (size_t i = first + 1; i < x->n_ranges; i++) {
        if (x->ranges[i].low <= x->ranges[n].high || x->ranges[i].low == x->ranges[n].high + 1) {
            if (x->ranges[i].high > x->ranges[n].high)
                x->ranges[n].high = x->ranges[i].high;
        } else {
            x->ranges[++n] = x->ranges[i];
        }
    }
    x->n_ranges = n + 1;
}

/* All but the ranges from `first` on. */
static void negate(struct regex *x, size_t first)
{
    uint32_t low = 0;

    settle(x, first);
    size_t end = x->n_ranges;
    for (size_t i = first; i < end; i++) {
        struct range r = x->ranges[i];
        if (r.low > low)
            add_range(x, low, r.low - 1);
        low = r.high + 1;
    }
    if (low <= 0x10ffff)
        add_range(x, low, 0x10ffff);
    if (x->status != VL_OK)
        return;
    memmove(x->ranges + first, x->ranges + end, (x->n_ranges - end) * sizeof *x->ranges);
    x->n_ranges -= end - first;
}

/* \d \w \s and their opposites. False: c is none of them. */
static bool named_class(struct regex *x, char c)
{
    static const struct range digits[] = {{'0', '9'}};
    static const struct range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const struct range space[] = {{9, 13}, {32, 32}, {0xa0, 0xa0}, {0x1680, 0x1680},
                                         {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                         {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    const struct range *list;
    size_t n, first = x->n_ranges;

    switch (c | 32) {
    case 'd':
        list = digits;
        n = 1;
        break;
    case 'w':
        list = word;
        n = 4;
        break;
    case 's':
        list = space;
        n = sizeof space / sizeof space[0];
        break;
    default:
        return false;
    }
    for (size_t i = 0; i < n; i++)
        add_range(x, list[i].low, list[i].high);
    if ((c & 32) == 0)
        negate(x, first);
    return true;
}

static uint32_t read_hex(struct regex *x, size_t n)
{
    uint32_t value = 0;

    for (size_t i = 0; i < n; i++, x->at++) {
        char c = x->at < x->len ? x->text[x->at] : 0;
        char low = (char)(c | 32);
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (uint32_t)(low - 'a') + 10;
        else
            return fail(x, "want %zu hexadecimal digits", n);
    }
    return value;
}

/* Behind \u: four digits, also a surrogate pair, or digits in braces. */
static uint32_t read_unicode(struct regex *x)
{
    uint32_t value = 0;

    if (x->at < x->len && x->text[x->at] == '{') {
        for (x->at++; x->at < x->len && x->text[x->at] != '}';) {
            value = value * 16 + read_hex(x, 1);
            if (x->status != VL_OK || value > 0x10ffff)
                return fail(x, "no such code point");
        }
        if (x->at >= x->len)
            return fail(x, "missing }");
        x->at++;
        return value;
    }
    value = read_hex(x, 4);
    if (value >= 0xd800 && value < 0xdc00 && x->at + 1 < x->len && x->text[x->at] == '\\' &&
        x->text[x->at + 1] == 'u') {
        x->at += 2;
        uint32_t low = read_hex(x, 4);
        if (low < 0xdc00 || low > 0xdfff)
            return fail(x, "a surrogate without its other half");
        return 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
    }
    return value;
}

/* Behind a backslash: one code point. */
static uint32_t read_escape(struct regex *x)
{
    static const char names[] = "n\nr\rt\tf\fv\v";
    char c = x->at < x->len ? x->text[x->at] : 0;

    if (x->at >= x->len)
        return fail(x, "it ends in a backslash");
    x->at++;
    for (size_t i = 0; i + 1 < sizeof names; i += 2) {
        if (names[i] == c)
            return (uint8_t)names[i + 1];
    }
    if (c == 'x')
        return read_hex(x, 2);
    if (c == 'u')
        return read_unicode(x);
    if (c == '0' && (x->at >= x->len || x->text[x->at] < '0' || x->text[x->at] > '9'))
        return 0;
    if (c == 'c' && x->at < x->len && ((x->text[x->at] | 32) >= 'a' && (x->text[x->at] | 32) <= 'z'))
        return (uint32_t)x->text[x->at++] & 31;
    if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c & 0x80) != 0)
        return fail(x, "\\%c is not supported", (c & 0x80) != 0 ? '?' : c);
    return (uint8_t)c;
}

static uint32_t read_point(struct regex *x)
{
    uint32_t cp = 0;
    int n = x->at < x->len ? vl_utf8_next(x->text + x->at, x->len - x->at, &cp) : 0;

    if (n <= 0 || cp == UINT32_MAX)
        return fail(x, "not UTF-8");
    x->at += (size_t)n;
    return cp;
}

/* One end of a range in [...]. *is_class: it was \d or the like, and has been added. */
static uint32_t read_class_atom(struct regex *x, bool *is_class)
{
    *is_class = false;
    if (x->text[x->at] != '\\')
        return read_point(x);
    x->at++;
    if (x->at < x->len && named_class(x, x->text[x->at])) {
        x->at++;
        *is_class = true;
        return 0;
    }
    if (x->at < x->len && x->text[x->at] == 'b') {
        x->at++;
        return 8;
    }
    if (x->at < x->len && x->text[x->at] == '-') {
        x->at++;
        return '-';
    }
    return read_escape(x);
}

/* Behind [. */
static uint32_t read_class(struct regex *x)
{
    uint32_t node = new_node(x, NODE_CLASS);
    size_t first = x->n_ranges;
    bool other = x->at < x->len && x->text[x->at] == '^';

    x->at += other;
    while (x->status == VL_OK && x->at < x->len && x->text[x->at] != ']') {
        bool is_class, high_is_class = false;
        uint32_t low = read_class_atom(x, &is_class), high = low;
        if (x->status == VL_OK && x->at + 1 < x->len && x->text[x->at] == '-' &&
            x->text[x->at + 1] != ']') {
            x->at++;
            high = read_class_atom(x, &high_is_class);
            if (is_class || high_is_class)
                return fail(x, "a range needs single characters at both ends");
            if (high < low)
                return fail(x, "a range whose end is before its beginning");
        }
        if (!is_class)
            add_range(x, low, high);
    }
    if (x->at >= x->len)
        return fail(x, "missing ]");
    x->at++;
    if (other)
        negate(x, first);
    else
        settle(x, first);
    if (x->status != VL_OK)
        return 0;
    x->nodes[node].first = (uint32_t)first;
    x->nodes[node].n = (uint32_t)(x->n_ranges - first);
    return node;
}

static uint32_t class_node(struct regex *x, size_t first)
{
    uint32_t node = new_node(x, NODE_CLASS);

    if (x->status != VL_OK)
        return 0;
    x->nodes[node].first = (uint32_t)first;
    x->nodes[node].n = (uint32_t)(x->n_ranges - first);
    return node;
}

/* ---- the tree ---- */

static uint32_t read_choice(struct regex *x);

/* Behind (. */
static uint32_t read_group(struct regex *x)
{
    if (x->at < x->len && x->text[x->at] == '?') {
        char c = x->at + 1 < x->len ? x->text[x->at + 1] : 0;
        char d = x->at + 2 < x->len ? x->text[x->at + 2] : 0;
        if (c == ':') {
            x->at += 2;
        } else if (c == '<' && d != '=' && d != '!') { /* a name, which nothing here asks for */
            while (x->at < x->len && x->text[x->at] != '>')
                x->at++;
            x->at++;
        } else {
            return fail(x, "lookaround and flags ((?%c) are not supported", c != 0 ? c : ')');
        }
    }
    if (++x->depth > DEPTH_MAX)
        return fail(x, "groups nest more than %d deep", DEPTH_MAX);
    uint32_t node = read_choice(x);
    x->depth--;
    if (x->at >= x->len || x->text[x->at] != ')')
        return fail(x, "missing )");
    x->at++;
    return node;
}

static uint32_t read_atom(struct regex *x)
{
    size_t first = x->n_ranges;
    char c = x->text[x->at];

    switch (c) {
    case '(':
        x->at++;
        return read_group(x);
    case '[':
        x->at++;
        return read_class(x);
    case '.':
        x->at++;
        add_range(x, '\n', '\n');
        add_range(x, '\r', '\r');
        add_range(x, 0x2028, 0x2029);
        negate(x, first);
        return class_node(x, first);
    case '^':
    case '$':
        x->at++;
        return new_node(x, c == '^' ? NODE_BEGIN : NODE_END);
    case '*':
    case '+':
    case '?':
    case '{':
        return fail(x, "%c with nothing to repeat", c);
    case '\\':
        x->at++;
        if (x->at < x->len && named_class(x, x->text[x->at])) {
            x->at++;
        } else {
            uint32_t cp = read_escape(x);
            add_range(x, cp, cp);
        }
        return class_node(x, first);
    default: {
        uint32_t cp = read_point(x);
        add_range(x, cp, cp);
        return class_node(x, first);
    }
    }
}

static bool read_number(struct regex *x, uint32_t *out)
{
    size_t from = x->at;

    *out = 0;
    while (x->at < x->len && x->text[x->at] >= '0' && x->text[x->at] <= '9') {
        *out = *out * 10 + (uint32_t)(x->text[x->at++] - '0');
        if (*out > COUNT_MAX) {
            fail(x, "more than %d repetitions", COUNT_MAX);
            return false;
        }
    }
    return x->at > from;
}

/* {n}, {n,} or {n,m}; at the brace. */
static bool read_counts(struct regex *x, uint32_t *min, uint32_t *max)
{
    x->at++;
    if (!read_number(x, min)) {
        fail(x, "want a number behind {");
        return false;
    }
    *max = *min;
    if (x->at < x->len && x->text[x->at] == ',') {
        x->at++;
        if (!read_number(x, max))
            *max = UINT32_MAX;
    }
    if (x->at >= x->len || x->text[x->at] != '}') {
        fail(x, "missing }");
        return false;
    }
    x->at++;
    if (*max < *min)
        fail(x, "{%u,%u}: the larger number comes first", *min, *max);
    return x->status == VL_OK;
}

static uint32_t read_repeat(struct regex *x)
{
    uint32_t node = read_atom(x);

    while (x->status == VL_OK && x->at < x->len && strchr("*+?{", x->text[x->at]) != NULL &&
           x->text[x->at] != '\0') {
        uint32_t min = x->text[x->at] == '+', max = x->text[x->at] == '?' ? 1 : UINT32_MAX;
        if (x->nodes[node].kind == NODE_BEGIN || x->nodes[node].kind == NODE_END)
            return fail(x, "^ and $ can't be repeated");
        if (x->nodes[node].kind == NODE_REPEAT)
            return fail(x, "a repetition of a repetition needs a group");
        if (x->text[x->at] == '{') {
            if (!read_counts(x, &min, &max))
                return 0;
        } else {
            x->at++;
        }
        if (x->at < x->len && x->text[x->at] == '?') /* lazy: the same strings */
            x->at++;
        uint32_t repeat = new_node(x, NODE_REPEAT);
        if (x->status != VL_OK)
            return 0;
        x->nodes[repeat].first = node;
        x->nodes[repeat].min = min;
        x->nodes[repeat].max = max;
        node = repeat;
    }
    return node;
}

static uint32_t read_sequence(struct regex *x)
{
    uint32_t node = new_node(x, NODE_SEQUENCE), last = 0;

    while (x->status == VL_OK && x->at < x->len && x->text[x->at] != '|' &&
           x->text[x->at] != ')') {
        uint32_t child = read_repeat(x);
        if (x->status != VL_OK)
            return 0;
        if (last == 0)
            x->nodes[node].first = child;
        else
            x->nodes[last].next = child;
        last = child;
    }
    return node;
}

static uint32_t read_choice(struct regex *x)
{
    uint32_t node = new_node(x, NODE_CHOICE), last = read_sequence(x);

    if (x->status != VL_OK)
        return 0;
    x->nodes[node].first = last;
    while (x->status == VL_OK && x->at < x->len && x->text[x->at] == '|') {
        x->at++;
        uint32_t next = read_sequence(x);
        if (x->status != VL_OK)
            return 0;
        x->nodes[last].next = next;
        last = next;
    }
    return x->status == VL_OK ? node : 0;
}

/* ---- the automaton over code points ---- */

static uint32_t new_state(struct regex *x)
{
    if (x->n_states >= STATES_MAX)
        return fail(x, "it needs more than %d states", STATES_MAX);
    return x->n_states++;
}

static void add_step(struct regex *x, uint32_t from, uint32_t to, uint32_t node)
{
    if (x->status != VL_OK)
        return;
    if (x->n_steps >= 4 * STATES_MAX)
        fail(x, "it needs more than %d states", STATES_MAX);
    else if (!vl_grow(&x->steps, &x->steps_cap, x->n_steps + 1, sizeof *x->steps))
        no_memory(x);
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
        fail(x, "^ and $ are supported at the ends of the pattern and of its alternatives only");
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
        no_memory(x);
    return layer;
}

static uint32_t layer_state(const struct vl_rules *r, uint32_t *layer, uint32_t s)
{
    if (layer[s] == 0)
        layer[s] = vl_grammar_state(r->g);
    return layer[s];
}

/* Makes what a layer's states reach without reading; where the layer reads into itself (loop), all that they reach. */
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

static void read_into(const struct regex *x, const struct vl_rules *r, uint32_t *layer,
                      uint32_t *next, const uint32_t *first)
{
    for (uint32_t s = 0; s < x->n_states; s++) {
        if (layer[s] == 0)
            continue;
        for (uint32_t i = first[s]; i < first[s + 1]; i++) {
            const struct step *e = &x->steps[i];
            if (e->node == 0)
                continue;
            const struct node *c = &x->nodes[e->node];
            uint32_t to = c->n > 0 ? layer_state(r, next, e->to) : 0;
            for (uint32_t k = 0; k < c->n; k++)
                vl_rules_points(r, layer[s], x->ranges[c->first + k].low,
                                x->ranges[c->first + k].high, to, true);
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

    if (x->status != VL_OK || first == NULL) {
        no_memory(x);
        goto out;
    }
    if (x->n_steps > 0)
        qsort(x->steps, x->n_steps, sizeof *x->steps, compare_steps);
    for (size_t i = 0; i < x->n_steps; i++)
        first[x->steps[i].from + 1]++;
    for (uint32_t s = 0; s < x->n_states; s++)
        first[s + 1] += first[s];
    if (n > 0 && (uint64_t)n * x->n_states > LAYERS_MAX) {
        fail(x, "with lengths up to %u it needs more than %d states", n, LAYERS_MAX);
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

static uint32_t parse(struct regex *x)
{
    new_node(x, NODE_EMPTY); /* 0 is none */
    uint32_t top = read_choice(x);

    if (x->status == VL_OK && x->at < x->len)
        fail(x, "a ) without its (");
    return top;
}

vl_status vl_regex_string(const struct vl_rules *r, uint32_t from, vl_bytes pattern, uint32_t min,
                          uint32_t max, uint32_t to, vl_error *err)
{
    struct regex x = {.text = pattern.ptr, .len = pattern.len, .err = err};
    uint32_t top = parse(&x), any = 0, open, close;

    if (x.status == VL_OK) {
        size_t first = x.n_ranges;
        add_range(&x, 0, 0x10ffff);
        any = class_node(&x, first);
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
    free(x.nodes);
    free(x.ranges);
    free(x.steps);
    return x.status;
}

/* ---- formats ---- */

#define YEAR "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP_YEAR                                                                                  \
    "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DAY_OF_YEAR                                                                                \
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"                \
    "02-(0[1-9]|1[0-9]|2[0-8]))"
#define DATE "(" YEAR "-" DAY_OF_YEAR "|" LEAP_YEAR "-02-29)"
#define TIME                                                                                       \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
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
