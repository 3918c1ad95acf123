/* host/lib/constrain/grammar.c: building the automaton, and what is computed about it once. */
#include "host/lib/constrain/grammar.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

bool vl_grammar_init(vl_grammar *g)
{
    *g = (vl_grammar){0};
    vl_grammar_state(g); /* 0 is no state */
    return !g->failed;
}

void vl_grammar_fini(vl_grammar *g)
{
    free(g->states);
    free(g->edges);
    free(g->chars);
    *g = (vl_grammar){0};
}

/* Room for one more; the first refusal stands. */
static bool room(vl_grammar *g, void *ptr, size_t *cap, size_t n, size_t most, size_t size)
{
    if (g->failed || g->too_large)
        return false;
    if (n >= most)
        g->too_large = true;
    else if (!vl_grow(ptr, cap, n + 1, size))
        g->failed = true;
    return !g->failed && !g->too_large;
}

uint32_t vl_grammar_state(vl_grammar *g)
{
    if (!room(g, &g->states, &g->states_cap, g->n_states, VL_GRAMMAR_MAX_STATES, sizeof *g->states))
        return 0;
    g->states[g->n_states] = (struct vl_grammar_state){.height = VL_GRAMMAR_NEVER};
    return (uint32_t)g->n_states++;
}

uint32_t vl_grammar_end(vl_grammar *g)
{
    uint32_t s = vl_grammar_state(g);

    if (s != 0)
        g->states[s].accept = 1;
    return s;
}

static void add_edge(vl_grammar *g, struct vl_grammar_edge e)
{
    if (!room(g, &g->edges, &g->edges_cap, g->n_edges, VL_GRAMMAR_MAX_EDGES, sizeof *g->edges))
        return;
    g->edges[g->n_edges++] = e;
}

void vl_grammar_byte(vl_grammar *g, uint32_t from, uint8_t low, uint8_t high, uint32_t target)
{
    vl_grammar_byte_call(g, from, low, high, target, 0);
}

void vl_grammar_byte_call(vl_grammar *g, uint32_t from, uint8_t low, uint8_t high, uint32_t rule,
                          uint32_t ret)
{
    add_edge(g, (struct vl_grammar_edge){.from = from,
                                         .target = rule,
                                         .ret = ret,
                                         .kind = VL_EDGE_BYTE,
                                         .low = low,
                                         .high = high});
}

void vl_grammar_empty(vl_grammar *g, uint32_t from, uint32_t target)
{
    vl_grammar_call(g, from, target, 0);
}

void vl_grammar_call(vl_grammar *g, uint32_t from, uint32_t rule, uint32_t ret)
{
    add_edge(g, (struct vl_grammar_edge){
                    .from = from, .target = rule, .ret = ret, .kind = VL_EDGE_EMPTY});
}

void vl_grammar_token(vl_grammar *g, uint32_t from, int32_t id, uint32_t target)
{
    add_edge(g, (struct vl_grammar_edge){
                    .from = from, .target = target, .token = id, .kind = VL_EDGE_TOKEN});
}

void vl_grammar_mark_chars(vl_grammar *g, uint32_t state, uint32_t need, uint32_t more)
{
    if (!room(g, &g->chars, &g->chars_cap, g->n_chars, VL_GRAMMAR_MAX_STATES, sizeof *g->chars))
        return;
    g->chars[g->n_chars++] = (struct vl_grammar_chars){need, more};
    g->states[state].chars = (uint32_t)g->n_chars;
}

void vl_grammar_text(vl_grammar *g, uint32_t from, const char *text, size_t len, uint32_t target)
{
    if (len == 0)
        vl_grammar_empty(g, from, target);
    for (size_t i = 0; i < len && !g->failed && !g->too_large; i++) {
        uint32_t next = i + 1 < len ? vl_grammar_state(g) : target;
        vl_grammar_byte(g, from, (uint8_t)text[i], (uint8_t)text[i], next);
        from = next;
    }
}

/* ---- several texts ---- */

static int compare_texts(const void *a, const void *b)
{
    const vl_bytes *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = n > 0 ? memcmp(x->ptr, y->ptr, n) : 0;

    return c != 0 ? c : (x->len > y->len) - (x->len < y->len);
}

static size_t shared(vl_bytes a, vl_bytes b)
{
    size_t n = 0;

    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n])
        n++;
    return n;
}

void vl_grammar_texts(vl_grammar *g, uint32_t from, vl_bytes *texts, size_t n, uint32_t target)
{
    uint32_t *path = NULL; /* states behind the first 0, 1, 2 ... bytes of the current text */
    size_t cap = 0;

    qsort(texts, n, sizeof *texts, compare_texts);
    for (size_t i = 0; i < n && !g->failed && !g->too_large; i++) {
        size_t have = i > 0 ? shared(texts[i - 1], texts[i]) : 0;
        if (i > 0 && have == texts[i].len && have == texts[i - 1].len)
            continue;
        if (!vl_grow(&path, &cap, texts[i].len + 1, sizeof *path)) {
            g->failed = true;
            break;
        }
        path[0] = from;
        for (size_t k = have; k < texts[i].len; k++) {
            uint8_t byte = (uint8_t)texts[i].ptr[k];
            path[k + 1] = vl_grammar_state(g);
            vl_grammar_byte(g, path[k], byte, byte, path[k + 1]);
        }
        vl_grammar_empty(g, path[texts[i].len], target);
    }
    free(path);
}

/* ---- finishing ---- */

/* The order within one state: EMPTY, BYTE by low, TOKEN. */
static int compare_edges(const void *a, const void *b)
{
    static const int order[] = {[VL_EDGE_EMPTY] = 0, [VL_EDGE_BYTE] = 1, [VL_EDGE_TOKEN] = 2};
    const struct vl_grammar_edge *x = a, *y = b;

    if (x->kind != y->kind)
        return order[x->kind] - order[y->kind];
    return (x->low > y->low) - (x->low < y->low);
}

/* Counting sort by `from`: a state's edges become one run. */
static bool sort_edges(vl_grammar *g)
{
    struct vl_grammar_edge *sorted = malloc((g->n_edges + 1) * sizeof *sorted);

    if (sorted == NULL)
        return false;
    for (size_t i = 0; i < g->n_edges; i++) {
        struct vl_grammar_state *s = &g->states[g->edges[i].from];
        s->n++;
        s->reads |= g->edges[i].kind != VL_EDGE_EMPTY;
    }
    uint32_t at = 0;
    for (size_t i = 0; i < g->n_states; i++) {
        g->states[i].first = at;
        at += g->states[i].n;
        g->states[i].n = 0;
    }
    for (size_t i = 0; i < g->n_edges; i++) {
        struct vl_grammar_state *s = &g->states[g->edges[i].from];
        sorted[s->first + s->n++] = g->edges[i];
    }
    for (size_t i = 0; i < g->n_states; i++) {
        struct vl_grammar_state *s = &g->states[i];
        if (s->n > 1)
            qsort(sorted + s->first, s->n, sizeof *sorted, compare_edges);
        while (s->n_empty < s->n && sorted[s->first + s->n_empty].kind == VL_EDGE_EMPTY)
            s->n_empty++;
    }
    free(g->edges);
    g->edges = sorted;
    g->edges_cap = g->n_edges + 1;
    return true;
}

/* Bytes between two borders of edges are one class. */
static void find_classes(vl_grammar *g)
{
    bool border[257] = {false};

    for (size_t i = 0; i < g->n_edges; i++) {
        if (g->edges[i].kind == VL_EDGE_BYTE) {
            border[g->edges[i].low] = true;
            border[g->edges[i].high + 1] = true;
        }
    }
    g->n_classes = 0;
    for (int b = 0; b < 256; b++) {
        if (b == 0 || border[b])
            g->byte_of[g->n_classes++] = (uint8_t)b;
        g->class_of[b] = (uint8_t)(g->n_classes - 1);
    }
}

/* Least depth over the edges as far as it is known. */
static uint32_t height_of(const vl_grammar *g, const struct vl_grammar_state *s)
{
    uint32_t best = s->accept ? 0 : VL_GRAMMAR_NEVER;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct vl_grammar_edge *e = &g->edges[s->first + i];
        uint32_t h = g->states[e->target].height;
        if (e->ret != 0 && h != VL_GRAMMAR_NEVER) {
            uint32_t rest = g->states[e->ret].height;
            h = h + 1 > rest ? h + 1 : rest;
        }
        best = h < best ? h : best;
    }
    return best;
}

/* Who looks at a state: reverse edges, by target and by ret. */
struct reverse {
    uint32_t *first; /* [n_states + 1] */
    uint32_t *from;
};

static bool make_reverse(const vl_grammar *g, struct reverse *r)
{
    r->first = calloc(g->n_states + 2, sizeof *r->first);
    r->from = malloc((2 * g->n_edges + 1) * sizeof *r->from);
    if (r->first == NULL || r->from == NULL)
        return false;
    for (size_t i = 0; i < g->n_edges; i++) {
        r->first[g->edges[i].target + 2]++;
        if (g->edges[i].ret != 0)
            r->first[g->edges[i].ret + 2]++;
    }
    for (size_t i = 2; i < g->n_states + 2; i++)
        r->first[i] += r->first[i - 1];
    for (size_t i = 0; i < g->n_edges; i++) {
        r->from[r->first[g->edges[i].target + 1]++] = g->edges[i].from;
        if (g->edges[i].ret != 0)
            r->from[r->first[g->edges[i].ret + 1]++] = g->edges[i].from;
    }
    return true;
}

/* Heights from the ends backwards: a state is looked at again when one it leads to has come down.
 */
static bool find_heights(vl_grammar *g)
{
    struct reverse r = {NULL, NULL};
    size_t n = g->n_states, head = 0, waiting = 0;
    uint32_t *queue = malloc(n * sizeof *queue); /* a ring: each state is in it once at most */
    uint8_t *queued = calloc(n, 1);
    bool ok = make_reverse(g, &r) && queue != NULL && queued != NULL;

    for (size_t i = 1; ok && i < n; i++) {
        if (g->states[i].accept) {
            queue[waiting++] = (uint32_t)i;
            queued[i] = 1;
        }
    }
    while (ok && waiting > 0) {
        uint32_t at = queue[head];
        head = head + 1 < n ? head + 1 : 0;
        waiting--;
        queued[at] = 0;
        uint32_t h = height_of(g, &g->states[at]);
        if (h >= g->states[at].height)
            continue;
        g->states[at].height = h;
        for (uint32_t i = r.first[at]; i < r.first[at + 1]; i++) {
            uint32_t from = r.from[i];
            if (queued[from])
                continue;
            queued[from] = 1;
            queue[(head + waiting++) % n] = from;
        }
    }
    free(r.first);
    free(r.from);
    free(queue);
    free(queued);
    return ok;
}

vl_status vl_grammar_finish(vl_grammar *g, vl_error *err)
{
    if (g->too_large)
        return vl_error_set(
            err, VL_E_INVALID,
            "it needs more than %d states or %d edges; counts (maxLength, maxItems, "
            "repetitions) make most of them",
            VL_GRAMMAR_MAX_STATES, VL_GRAMMAR_MAX_EDGES);
    if (g->failed || !sort_edges(g) || !find_heights(g))
        return vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
    find_classes(g);
    return VL_OK;
}
