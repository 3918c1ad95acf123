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
    if (a->n_nodes >= NONE / 2 ||
        !vl_grow(&a->nodes, &a->nodes_cap, a->n_nodes + 1, sizeof *a->nodes))
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

vl_status vl_added_put(struct vl_added *a, int32_t id, uint32_t flags, const char *content,
                       size_t len, vl_error *err)
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

/* A word character as \w is in the reference: letters, marks, decimal digits and letter numbers,
 * and what is alphabetic, connecting or joining besides. */
static const struct vl_range no_word[] = {
    /* Numbers that are none of it: the category No. */
    /* clang-format off */
    {0xb2, 0xb3}, {0xb9, 0xb9}, {0xbc, 0xbe}, {0x9f4, 0x9f9}, {0xb72, 0xb77}, {0xbf0, 0xbf2},
    {0xc78, 0xc7e}, {0xd58, 0xd5e}, {0xd70, 0xd78}, {0xf2a, 0xf33}, {0x1369, 0x137c},
    {0x17f0, 0x17f9}, {0x19da, 0x19da}, {0x2070, 0x2070}, {0x2074, 0x2079}, {0x2080, 0x2089},
    {0x2150, 0x215f}, {0x2189, 0x2189}, {0x2460, 0x249b}, {0x24ea, 0x24ff}, {0x2776, 0x2793},
    {0x2cfd, 0x2cfd}, {0x3192, 0x3195}, {0x3220, 0x3229}, {0x3248, 0x324f}, {0x3251, 0x325f},
    {0x3280, 0x3289}, {0x32b1, 0x32bf}, {0xa830, 0xa835}, {0x10107, 0x10133}, {0x10175, 0x10178},
    {0x1018a, 0x1018b}, {0x102e1, 0x102fb}, {0x10320, 0x10323}, {0x10858, 0x1085f},
    {0x10879, 0x1087f}, {0x108a7, 0x108af}, {0x108fb, 0x108ff}, {0x10916, 0x1091b},
    {0x109bc, 0x109bd}, {0x109c0, 0x109cf}, {0x109d2, 0x109ff}, {0x10a40, 0x10a48},
    {0x10a7d, 0x10a7e}, {0x10a9d, 0x10a9f}, {0x10aeb, 0x10aef}, {0x10b58, 0x10b5f},
    {0x10b78, 0x10b7f}, {0x10ba9, 0x10baf}, {0x10cfa, 0x10cff}, {0x10e60, 0x10e7e},
    {0x10f1d, 0x10f26}, {0x10f51, 0x10f54}, {0x10fc5, 0x10fcb}, {0x11052, 0x11065},
    {0x111e1, 0x111f4}, {0x1173a, 0x1173b}, {0x118ea, 0x118f2}, {0x11c5a, 0x11c6c},
    {0x11fc0, 0x11fd4}, {0x16b5b, 0x16b61}, {0x16e80, 0x16e96}, {0x1d2c0, 0x1d2d3},
    {0x1d2e0, 0x1d2f3}, {0x1d360, 0x1d378}, {0x1e8c7, 0x1e8cf}, {0x1ec71, 0x1ecab},
    {0x1ecad, 0x1ecaf}, {0x1ecb1, 0x1ecb4}, {0x1ed01, 0x1ed2d}, {0x1ed2f, 0x1ed3d},
    {0x1f100, 0x1f10c},
    /* clang-format on */
};
static const struct vl_range more_word[] = {
    /* clang-format off */
    {0x5f, 0x5f}, {0x200c, 0x200d}, {0x203f, 0x2040}, {0x2054, 0x2054}, {0x24b6, 0x24e9},
    {0xfe33, 0xfe34}, {0xfe4d, 0xfe4f}, {0xff3f, 0xff3f}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169},
    {0x1f170, 0x1f189},
    /* clang-format on */
};

static bool in_ranges(const struct vl_range *r, size_t n, uint32_t c)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (r[mid].last < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && r[lo].first <= c;
}

static bool is_word(const struct vl_added *a, const uint8_t *p)
{
    uint32_t len;
    uint32_t c = vl_unicode_read(p, &len);
    if (a->classes[c] & (VL_CP_LETTER | VL_CP_MARK))
        return true;
    if (a->classes[c] & VL_CP_NUMBER)
        return !in_ranges(no_word, sizeof no_word / sizeof no_word[0], c);
    return in_ranges(more_word, sizeof more_word / sizeof more_word[0], c);
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

bool vl_added_next(const struct vl_added *a, const uint8_t *text, size_t lo, size_t hi,
                   size_t floor, size_t at, size_t end, struct vl_added_match *m)
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
