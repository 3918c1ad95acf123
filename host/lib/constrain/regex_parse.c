/* host/lib/constrain/regex_parse.c: pattern text -> tree. Groups nest DEPTH_MAX deep, which bounds
 * the recursion. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "host/lib/constrain/regex_private.h"

uint32_t vl_regex_fail(struct regex *x, const char *fmt, ...)
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

uint32_t vl_regex_no_memory(struct regex *x)
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
        return vl_regex_fail(x, "it has more than %d parts", NODES_MAX);
    if (!vl_grow(&x->nodes, &x->nodes_cap, x->n_nodes + 1, sizeof *x->nodes))
        return vl_regex_no_memory(x);
    x->nodes[x->n_nodes] = (struct node){.kind = kind};
    return (uint32_t)x->n_nodes++;
}

void vl_regex_range(struct regex *x, uint32_t low, uint32_t high)
{
    if (x->status != VL_OK)
        return;
    if (!vl_grow(&x->ranges, &x->ranges_cap, x->n_ranges + 1, sizeof *x->ranges))
        vl_regex_no_memory(x);
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
            vl_regex_range(x, low, r.low - 1);
        low = r.high + 1;
    }
    if (low <= 0x10ffff)
        vl_regex_range(x, low, 0x10ffff);
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
    static const struct range space[] = {
        {9, 13},          {32, 32},         {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
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
        vl_regex_range(x, list[i].low, list[i].high);
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
            return vl_regex_fail(x, "want %zu hexadecimal digits", n);
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
                return vl_regex_fail(x, "no such code point");
        }
        if (x->at >= x->len)
            return vl_regex_fail(x, "missing }");
        x->at++;
        return value;
    }
    value = read_hex(x, 4);
    if (value >= 0xd800 && value < 0xdc00 && x->at + 1 < x->len && x->text[x->at] == '\\' &&
        x->text[x->at + 1] == 'u') {
        x->at += 2;
        uint32_t low = read_hex(x, 4);
        if (low < 0xdc00 || low > 0xdfff)
            return vl_regex_fail(x, "a surrogate without its other half");
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
        return vl_regex_fail(x, "it ends in a backslash");
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
    if (c == 'c' && x->at < x->len &&
        ((x->text[x->at] | 32) >= 'a' && (x->text[x->at] | 32) <= 'z'))
        return (uint32_t)x->text[x->at++] & 31;
    if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c & 0x80) != 0)
        return vl_regex_fail(x, "\\%c is not supported", (c & 0x80) != 0 ? '?' : c);
    return (uint8_t)c;
}

static uint32_t read_point(struct regex *x)
{
    uint32_t cp = 0;
    int n = x->at < x->len ? vl_utf8_next(x->text + x->at, x->len - x->at, &cp) : 0;

    if (n <= 0 || cp == UINT32_MAX)
        return vl_regex_fail(x, "not UTF-8");
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
                return vl_regex_fail(x, "a range needs single characters at both ends");
            if (high < low)
                return vl_regex_fail(x, "a range whose end is before its beginning");
        }
        if (!is_class)
            vl_regex_range(x, low, high);
    }
    if (x->at >= x->len)
        return vl_regex_fail(x, "missing ]");
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

uint32_t vl_regex_class(struct regex *x, size_t first)
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
            return vl_regex_fail(x, "lookaround and flags ((?%c) are not supported",
                                 c != 0 ? c : ')');
        }
    }
    if (++x->depth > DEPTH_MAX)
        return vl_regex_fail(x, "groups nest more than %d deep", DEPTH_MAX);
    uint32_t node = read_choice(x);
    x->depth--;
    if (x->at >= x->len || x->text[x->at] != ')')
        return vl_regex_fail(x, "missing )");
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
        vl_regex_range(x, '\n', '\n');
        vl_regex_range(x, '\r', '\r');
        vl_regex_range(x, 0x2028, 0x2029);
        negate(x, first);
        return vl_regex_class(x, first);
    case '^':
    case '$':
        x->at++;
        return new_node(x, c == '^' ? NODE_BEGIN : NODE_END);
    case '*':
    case '+':
    case '?':
    case '{':
        return vl_regex_fail(x, "%c with nothing to repeat", c);
    case '\\':
        x->at++;
        if (x->at < x->len && named_class(x, x->text[x->at])) {
            x->at++;
        } else {
            uint32_t cp = read_escape(x);
            vl_regex_range(x, cp, cp);
        }
        return vl_regex_class(x, first);
    default: {
        uint32_t cp = read_point(x);
        vl_regex_range(x, cp, cp);
        return vl_regex_class(x, first);
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
            vl_regex_fail(x, "more than %d repetitions", COUNT_MAX);
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
        vl_regex_fail(x, "want a number behind {");
        return false;
    }
    *max = *min;
    if (x->at < x->len && x->text[x->at] == ',') {
        x->at++;
        if (!read_number(x, max))
            *max = UINT32_MAX;
    }
    if (x->at >= x->len || x->text[x->at] != '}') {
        vl_regex_fail(x, "missing }");
        return false;
    }
    x->at++;
    if (*max < *min)
        vl_regex_fail(x, "{%u,%u}: the larger number comes first", *min, *max);
    return x->status == VL_OK;
}

static uint32_t read_repeat(struct regex *x)
{
    uint32_t node = read_atom(x);

    while (x->status == VL_OK && x->at < x->len && strchr("*+?{", x->text[x->at]) != NULL &&
           x->text[x->at] != '\0') {
        uint32_t min = x->text[x->at] == '+', max = x->text[x->at] == '?' ? 1 : UINT32_MAX;
        if (x->nodes[node].kind == NODE_BEGIN || x->nodes[node].kind == NODE_END)
            return vl_regex_fail(x, "^ and $ can't be repeated");
        if (x->nodes[node].kind == NODE_REPEAT)
            return vl_regex_fail(x, "a repetition of a repetition needs a group");
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

    while (x->status == VL_OK && x->at < x->len && x->text[x->at] != '|' && x->text[x->at] != ')') {
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

uint32_t vl_regex_parse(struct regex *x)
{
    new_node(x, NODE_EMPTY); /* 0 is none */
    uint32_t top = read_choice(x);

    if (x->status == VL_OK && x->at < x->len)
        vl_regex_fail(x, "a ) without its (");
    return top;
}
