/* added.c: the trie of added tokens and its search. */
#include "added.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "unicode.h"

#define NONE UINT32_MAX

void vl_added_fini(struct vl_added *a)
{
    free(a->edges);
    free(a->nodes);
    memset(a, 0, sizeof *a);
}

static inline size_t edge_slot(const struct vl_added *a, uint32_t from, uint8_t byte)
{
    uint64_t h = ((uint64_t)from << 8 | byte) * 0x9e3779b97f4a7c15u;
    return (h >> 32) & (a->n_edges - 1);
}

static inline uint32_t follow(const struct vl_added *a, uint32_t from, uint8_t byte)
{
    for (size_t i = edge_slot(a, from, byte);; i = (i + 1) & (a->n_edges - 1)) {
        const struct vl_added_edge *e = &a->edges[i];
        if (e->from == NONE)
            return NONE;
        if (e->from == from && e->byte == byte)
            return e->to;
    }
}

static bool grow_edges(struct vl_added *a)
{
    size_t n = a->n_edges == 0 ? 256 : a->n_edges * 2;
    size_t n_old = a->n_edges;
    struct vl_added_edge *old = a->edges;
    struct vl_added_edge *edges = malloc(n * sizeof *edges);
    if (edges == NULL)
        return false;
    memset(edges, 0xff, n * sizeof *edges);
    a->edges = edges;
    a->n_edges = n;
    for (size_t i = 0; i < n_old; i++) {
        if (old[i].from == NONE)
            continue;
        size_t to = edge_slot(a, old[i].from, (uint8_t)old[i].byte);
        while (edges[to].from != NONE)
            to = (to + 1) & (n - 1);
        edges[to] = old[i];
    }
    free(old);
    return true;
}

static bool new_node(struct vl_added *a)
{
    if (a->n_nodes >= NONE / 2 || !vl_grow(&a->nodes, &a->nodes_cap, a->n_nodes + 1, sizeof *a->nodes))
        return false;
    a->nodes[a->n_nodes++] = (struct vl_added_node){-1, 0};
    return true;
}

static bool add_edge(struct vl_added *a, uint32_t from, uint8_t byte, uint32_t *to)
{
    if (2 * (a->n_edges_used + 1) > a->n_edges && !grow_edges(a))
        return false;
    *to = (uint32_t)a->n_nodes;
    if (!new_node(a))
        return false;
    size_t i = edge_slot(a, from, byte);
    while (a->edges[i].from != NONE)
        i = (i + 1) & (a->n_edges - 1);
    a->edges[i] = (struct vl_added_edge){from, byte, *to};
    a->n_edges_used++;
    return true;
}

vl_status vl_added_put(struct vl_added *a, int32_t id, uint32_t flags, const char *content, size_t len,
                       vl_error *err)
{
    uint32_t node = 0;

    if (len == 0)
        return VL_OK;
    if (a->n_nodes == 0 && (!new_node(a) || !grow_edges(a)))
        goto no_memory;
    for (size_t i = 0; i < len; i++) {
        uint8_t byte = (uint8_t)content[i];
        uint32_t next = follow(a, node, byte);
        if (next == NONE && !add_edge(a, node, byte, &next))
            goto no_memory;
        node = next;
    }
    if (a->nodes[node].id >= 0)
        return VL_OK;
    a->nodes[node] = (struct vl_added_node){id, flags};
    uint8_t first = (uint8_t)content[0];
    a->only_first = a->n == 0 || a->only_first == first ? first : -1;
    a->first[first] = true;
    a->n++;
    return VL_OK;
no_memory:
    return vl_error_set(err, VL_E_NOMEM, "added_tokens: out of memory");
}

int32_t vl_added_find(const struct vl_added *a, const char *content, size_t len)
{
    uint32_t node = 0;
    if (a->n == 0)
        return -1;
    for (size_t i = 0; i < len && node != NONE; i++)
        node = follow(a, node, (uint8_t)content[i]);
    return node != NONE ? a->nodes[node].id : -1;
}

/* The next position in [at, end) where a token may start, or end. */
static size_t candidate(const struct vl_added *a, const uint8_t *text, size_t at, size_t end)
{
    if (a->only_first >= 0) {
        const uint8_t *p = at < end ? memchr(text + at, a->only_first, end - at) : NULL;
        return p != NULL ? (size_t)(p - text) : end;
    }
    while (at < end && !a->first[text[at]])
        at++;
    return at;
}

/* A word character as \w is in the reference: letters, marks, numbers, connecting punctuation, joiners.
 * (Its numbers leave out the category No, which our classes don't tell apart.) */
static bool is_word(const struct vl_added *a, const uint8_t *p)
{
    uint32_t len;
    uint32_t c = vl_unicode_read(p, &len);
    if (a->classes[c] & (VL_CP_LETTER | VL_CP_MARK | VL_CP_NUMBER))
        return true;
    return c == '_' || c == 0x200c || c == 0x200d || c == 0x203f || c == 0x2040 || c == 0x2054 ||
           (c >= 0xfe33 && c <= 0xfe34) || (c >= 0xfe4d && c <= 0xfe4f) || c == 0xff3f;
}

static size_t char_before(const uint8_t *text, size_t lo, size_t at)
{
    do
        at--;
    while (at > lo && (text[at] & 0xc0) == 0x80);
    return at;
}

static bool is_space(const struct vl_added *a, const uint8_t *p, uint32_t *len)
{
    return a->classes[vl_unicode_read(p, len)] & VL_CP_SPACE;
}

static bool beside_word(const struct vl_added *a, const uint8_t *text, size_t lo, size_t hi,
                        const struct vl_added_match *m)
{
    return (m->from > lo && is_word(a, text + char_before(text, lo, m->from))) ||
           (m->to < hi && is_word(a, text + m->to));
}

static void take_spaces(const struct vl_added *a, const uint8_t *text, size_t floor, size_t end,
                        uint32_t flags, struct vl_added_match *m)
{
    uint32_t len;
    while ((flags & VL_ADDED_LSTRIP) && m->from > floor) {
        size_t before = char_before(text, floor, m->from);
        if (!is_space(a, text + before, &len))
            break;
        m->from = before;
    }
    while ((flags & VL_ADDED_RSTRIP) && m->to < end && is_space(a, text + m->to, &len))
        m->to += len;
}

bool vl_added_next(const struct vl_added *a, const uint8_t *text, size_t lo, size_t hi, size_t floor,
                   size_t at, size_t end, struct vl_added_match *m)
{
    if (a->n == 0)
        return false;
    for (;;) {
        at = candidate(a, text, at, end);
        if (at >= end)
            return false;
        uint32_t node = 0, found = NONE;
        size_t to = at;
        for (size_t i = at; i < end && (node = follow(a, node, text[i])) != NONE; i++) {
            if (a->nodes[node].id >= 0) {
                found = node;
                to = i + 1;
            }
        }
        if (found == NONE) {
            at++;
            continue;
        }
        *m = (struct vl_added_match){at, to, to, a->nodes[found].id};
        uint32_t flags = a->nodes[found].flags;
        /* A discarded match is passed over as a whole, as in the reference. */
        at = to;
        if ((flags & VL_ADDED_SINGLE_WORD) && beside_word(a, text, lo, hi, m))
            continue;
        if (flags & (VL_ADDED_LSTRIP | VL_ADDED_RSTRIP))
            take_spaces(a, text, floor, end, flags, m);
        return true;
    }
}
