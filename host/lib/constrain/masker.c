/* host/lib/constrain/masker.c: masks from machine and trie. */
#include "host/lib/constrain/masker.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

enum {
    LIST_MAX = 2048,          /* more ids than that are kept as bits */
    MASK_BYTES_MAX = 16 << 20 /* remembered masks of one grammar */
};

/* ---- ids being found ---- */

static void collect_add(struct vl_collect *c, uint32_t id)
{
    uint32_t bit = 1u << (id & 31);

    if ((c->bits[id >> 5] & bit) != 0)
        return;
    c->bits[id >> 5] |= bit;
    if (c->n < LIST_MAX)
        c->ids[c->n] = (int32_t)id;
    c->n++;
}

/* All tokens whose bytes end at a trie node. */
static void collect_node(vl_masker *m, uint32_t node)
{
    for (int32_t id = m->v->token[node]; id >= 0; id = m->v->same[id])
        collect_add(&m->collect, (uint32_t)id);
}

/* Into a set of its own; the collection is empty again. */
static bool collect_take(vl_masker *m, struct vl_id_set *out)
{
    struct vl_collect *c = &m->collect;
    size_t words = m->v->n_words;
    bool ok = true;

    *out = (struct vl_id_set){NULL, NULL, c->n};
    if (c->n > LIST_MAX) {
        out->bits = malloc(words * sizeof *out->bits);
        ok = out->bits != NULL;
        if (ok)
            memcpy(out->bits, c->bits, words * sizeof *out->bits);
        memset(c->bits, 0, words * sizeof *c->bits);
        m->mask_bytes += words * sizeof *out->bits;
    } else {
        out->ids = malloc(((size_t)c->n + 1) * sizeof *out->ids);
        ok = out->ids != NULL;
        if (ok)
            memcpy(out->ids, c->ids, c->n * sizeof *out->ids);
        for (uint32_t i = 0; i < c->n; i++)
            c->bits[c->ids[i] >> 5] = 0;
        m->mask_bytes += c->n * sizeof *out->ids;
    }
    c->n = 0;
    return ok;
}

/* ---- walking ---- */

static void note_exit(vl_masker *m, uint32_t node)
{
    if (!vl_grow(&m->exits, &m->exits_cap, m->n_exits + 1, sizeof *m->exits))
        m->failed = true;
    else
        m->exits[m->n_exits++] = node;
}

/* The trie nodes first..end-1 beside the machine, from `set`. local: an end of the text is the end
 * of a rule, noted in exits. */
static void walk(vl_masker *m, uint32_t first, uint32_t end, uint32_t set, bool local)
{
    const vl_vocabulary *v = m->v;
    vl_machine *a = &m->machine;

    if (first >= end)
        return;
    m->path[v->depth[first]] = set;
    for (uint32_t i = first; i < end;) {
        uint32_t to = vl_machine_byte(a, m->path[v->depth[i]], v->byte[i]);
        if (to == 0) {
            if (a->status != VL_OK)
                return;
            i = v->skip[i];
            continue;
        }
        bool reads = vl_machine_reads(a, to);
        if (vl_machine_complete(a, to) && local)
            note_exit(m, i);
        if (v->token[i] >= 0 && (reads || !local))
            collect_node(m, i);
        m->path[v->depth[i] + 1] = to;
        i = reads ? i + 1 : v->skip[i];
    }
}

/* Behind a rule's end at trie node `node`, the text goes on from `set`. */
static void walk_on(vl_masker *m, uint32_t node, uint32_t set)
{
    if (set == 0)
        return;
    collect_node(m, node);
    walk(m, node + 1, m->v->skip[node], set, false);
}

/* ---- remembered by set ---- */

static void free_masks(vl_masker *m)
{
    for (size_t i = 0; i < m->n_by_set; i++) {
        struct vl_local_mask *l = m->locals[i];
        struct vl_full_mask *f = m->fulls[i];
        if (l != NULL) {
            free(l->own.bits);
            free(l->own.ids);
            free(l->exits);
            free(l);
        }
        if (f != NULL) {
            free(f->own.bits);
            free(f->own.ids);
            free(f->parts);
            free(f);
        }
    }
    m->n_by_set = 0;
    m->mask_bytes = 0;
}

/* Room for what belongs to `set`. */
static bool reach(vl_masker *m, uint32_t set)
{
    size_t want = m->machine.n_sets > set ? m->machine.n_sets : (size_t)set + 1;

    if (set < m->n_by_set)
        return true;
    if (!vl_grow(&m->locals, &m->locals_cap, want, sizeof *m->locals) ||
        !vl_grow(&m->fulls, &m->fulls_cap, want, sizeof *m->fulls))
        return false;
    for (; m->n_by_set < want; m->n_by_set++) {
        m->locals[m->n_by_set] = NULL;
        m->fulls[m->n_by_set] = NULL;
    }
    return true;
}

/* Inside a string of which all rules are the same, but for the number of characters: the vocabulary
 * knows. */
static void local_of_string(vl_masker *m, struct vl_local_mask *l, uint32_t chars)
{
    const vl_vocabulary *v = m->v;
    struct vl_grammar_chars c = m->grammar.chars[chars - 1];
    uint32_t level = c.room < v->n_levels ? c.room : v->n_levels;

    if (level > 0)
        l->borrowed = v->levels + (size_t)(level - 1) * v->n_words;
    for (size_t i = 0; i < v->n_exits; i++) {
        if (v->exits[i].chars >= c.need && v->exits[i].chars <= c.room)
            note_exit(m, v->exits[i].node);
    }
}

static struct vl_local_mask *make_local(vl_masker *m, uint32_t set)
{
    const struct vl_set *s = &m->machine.sets[set];
    uint32_t chars = s->n == 1 ? m->grammar.states[m->machine.configs[s->first].state].chars : 0;
    struct vl_local_mask *l = calloc(1, sizeof *l);

    if (l == NULL)
        return NULL;
    m->n_exits = 0;
    if (chars != 0 && m->v->n_levels > 0)
        local_of_string(m, l, chars);
    else
        walk(m, 0, m->v->n_nodes, set, true);
    l->exits = malloc((m->n_exits + 1) * sizeof *l->exits);
    if (!collect_take(m, &l->own) || l->exits == NULL || m->failed) {
        free(l->own.bits);
        free(l->own.ids);
        free(l->exits);
        free(l);
        return NULL;
    }
    if (m->n_exits > 0)
        memcpy(l->exits, m->exits, m->n_exits * sizeof *l->exits);
    l->n_exits = (uint32_t)m->n_exits;
    m->mask_bytes += sizeof *l + m->n_exits * sizeof *l->exits;
    return l;
}

/* The local mask of the states that share one stack. */
static struct vl_local_mask *local_mask(vl_masker *m, const struct vl_config *configs, size_t n)
{
    uint32_t set = vl_machine_set_of(&m->machine, configs, n, 0);

    if (set == 0 || !reach(m, set))
        return NULL;
    if (m->locals[set] == NULL) {
        struct vl_local_mask *l = make_local(m, set);
        if (l != NULL && !reach(m, set)) /* never: it was reached above */
            return NULL;
        m->locals[set] = l;
    }
    return m->locals[set];
}

/* ---- the mask of a set ---- */

static bool add_part(struct vl_full_mask *f, const uint32_t *bits)
{
    const uint32_t **more = realloc(f->parts, (f->n_parts + 1) * sizeof *more);

    if (more == NULL)
        return false;
    f->parts = more;
    f->parts[f->n_parts++] = bits;
    return true;
}

/* The states on one stack. */
static bool add_group(vl_masker *m, struct vl_full_mask *f, const struct vl_config *configs,
                      size_t n)
{
    uint32_t stack = configs[0].stack;
    struct vl_local_mask *l = local_mask(m, configs, n);

    if (l == NULL)
        return false;
    if (l->own.bits != NULL && !add_part(f, l->own.bits))
        return false;
    if (l->borrowed != NULL && !add_part(f, l->borrowed))
        return false;
    for (uint32_t i = 0; l->own.bits == NULL && i < l->own.n; i++)
        collect_add(&m->collect, (uint32_t)l->own.ids[i]);
    if (stack == 0) { /* nothing may follow the end */
        for (uint32_t i = 0; i < l->n_exits; i++)
            collect_node(m, l->exits[i]);
        return true;
    }
    uint32_t back = l->n_exits > 0 ? vl_machine_return(&m->machine, stack) : 0;
    for (uint32_t i = 0; i < l->n_exits; i++)
        walk_on(m, l->exits[i], back);
    return true;
}

/* Tokens that the grammar names. */
static void add_tokens(vl_masker *m, const struct vl_config *configs, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const struct vl_grammar_state *s = &m->grammar.states[configs[k].state];
        for (uint32_t i = 0; i < s->n; i++) {
            const struct vl_grammar_edge *e = &m->grammar.edges[s->first + i];
            if (e->kind == VL_EDGE_TOKEN)
                collect_add(&m->collect, (uint32_t)e->token);
        }
    }
}

/* Local masks are found at depth 0; where the limit of depth is near they would promise too much.
 */
static bool is_deep(const vl_masker *m, uint32_t stack)
{
    return m->machine.stacks[stack].depth + m->v->longest + m->max_height > VL_GRAMMAR_MAX_DEPTH;
}

/* The set's pairs, which move when sets are made: a copy. */
static struct vl_config *copy_configs(const vl_masker *m, uint32_t set, size_t *n)
{
    const struct vl_set *s = &m->machine.sets[set];
    struct vl_config *copy = malloc(((size_t)s->n + 1) * sizeof *copy);

    *n = s->n;
    if (copy != NULL && s->n > 0)
        memcpy(copy, m->machine.configs + s->first, s->n * sizeof *copy);
    return copy;
}

static struct vl_full_mask *make_full(vl_masker *m, uint32_t set)
{
    struct vl_full_mask *f = calloc(1, sizeof *f);
    size_t n = 0;
    struct vl_config *c = copy_configs(m, set, &n);
    bool ok = f != NULL && c != NULL;
    bool deep = false;

    for (size_t i = 0; ok && i < n; i++)
        deep = deep || is_deep(m, c[i].stack);
    if (deep)
        walk(m, 0, m->v->n_nodes, set, false);
    /* Local masks first fill the collection themselves: all are there before anything is collected
     * for this one. */
    for (size_t i = 0, end; ok && !deep && i < n; i = end) {
        for (end = i + 1; end < n && c[end].stack == c[i].stack; end++)
            ;
        ok = local_mask(m, c + i, end - i) != NULL;
    }
    for (size_t i = 0, end; ok && !deep && i < n; i = end) {
        for (end = i + 1; end < n && c[end].stack == c[i].stack; end++)
            ;
        ok = add_group(m, f, c + i, end - i);
    }
    if (ok)
        add_tokens(m, c, n);
    free(c);
    struct vl_id_set own;
    bool taken = collect_take(m, &own); /* empties the collection, whatever came before */
    if (!ok || !taken || m->machine.status != VL_OK) {
        free(own.bits);
        free(own.ids);
        if (f != NULL)
            free(f->parts);
        free(f);
        return NULL;
    }
    f->own = own;
    m->mask_bytes += sizeof *f;
    return f;
}

static void put(const vl_masker *m, const struct vl_full_mask *f, uint32_t *mask, size_t n_words)
{
    size_t n = n_words < m->v->n_words ? n_words : m->v->n_words;

    for (uint32_t k = 0; k < f->n_parts; k++) {
        for (size_t i = 0; i < n; i++)
            mask[i] |= f->parts[k][i];
    }
    for (size_t i = 0; f->own.bits != NULL && i < n; i++)
        mask[i] |= f->own.bits[i];
    for (uint32_t i = 0; f->own.bits == NULL && i < f->own.n; i++) {
        uint32_t id = (uint32_t)f->own.ids[i];
        if (id / 32 < n)
            mask[id / 32] |= 1u << (id % 32);
    }
}

/* After a failure: nothing is remembered but where the walkers are. */
static void start_anew(vl_masker *m)
{
    m->failed = false;
    vl_machine_forget(&m->machine, m->walkers, m->n_walkers);
    free_masks(m);
}

static vl_status too_much(vl_masker *m, vl_error *err)
{
    vl_status rc = m->machine.status == VL_E_UNSUPPORTED ? VL_E_UNSUPPORTED : VL_E_NOMEM;

    start_anew(m);
    return vl_error_set(err, rc,
                        rc == VL_E_NOMEM
                            ? "constrained output: out of memory"
                            : "constrained output: the schema leaves too many readings "
                              "of the text open at once");
}

vl_status vl_masker_mask(vl_masker *m, uint32_t set, uint32_t *mask, size_t n_words, vl_error *err)
{
    if (vl_machine_is_large(&m->machine) || m->mask_bytes > MASK_BYTES_MAX) {
        /* Everything is made again as it is needed. */
        uint32_t *keep = &set;
        free_masks(m);
        if (!vl_masker_hold(m, keep))
            return vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
        bool ok = vl_machine_forget(&m->machine, m->walkers, m->n_walkers);
        vl_masker_drop(m, keep);
        if (!ok)
            return vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
    }
    if (!reach(m, set))
        return vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
    if (m->fulls[set] == NULL) {
        struct vl_full_mask *f = make_full(m, set);
        if (f == NULL || m->failed)
            return too_much(m, err);
        m->fulls[set] = f;
    }
    put(m, m->fulls[set], mask, n_words);
    return VL_OK;
}

void vl_masker_warm(vl_masker *m, uint32_t state)
{
    uint32_t set = vl_machine_start(&m->machine, state);
    size_t n = 0;
    struct vl_config *c = copy_configs(m, set, &n);

    for (size_t i = 0, end; c != NULL && i < n; i = end) {
        for (end = i + 1; end < n && c[end].stack == c[i].stack; end++)
            ;
        if (local_mask(m, c + i, end - i) == NULL)
            break; /* it will be found again, and told, when it is needed */
    }
    free(c);
}

uint32_t vl_masker_step(vl_masker *m, uint32_t set, int32_t id)
{
    const vl_vocabulary *v = m->v;

    if (id < 0 || (uint32_t)id >= v->n_tokens)
        return 0;
    if ((v->api->flags(v->tokenizer, id) & (VL_TOKEN_ADDED | VL_TOKEN_SPECIAL)) != 0)
        return vl_machine_token(&m->machine, set, id);
    vl_bytes b = v->api->token(v->tokenizer, id);
    if (b.len == 0)
        return 0;
    for (size_t i = 0; i < b.len && set != 0; i++)
        set = vl_machine_byte(&m->machine, set, (uint8_t)b.ptr[i]);
    if (m->machine.status != VL_OK) /* too much for one token: this text ends here, others that
                                       share the machine go on */
        start_anew(m);
    return set;
}

/* ---- life ---- */

bool vl_masker_hold(vl_masker *m, uint32_t *set)
{
    if (!vl_grow(&m->walkers, &m->walkers_cap, m->n_walkers + 1, sizeof *m->walkers))
        return false;
    m->walkers[m->n_walkers++] = set;
    return true;
}

void vl_masker_drop(vl_masker *m, uint32_t *set)
{
    for (size_t i = 0; i < m->n_walkers; i++) {
        if (m->walkers[i] == set) {
            m->walkers[i] = m->walkers[--m->n_walkers];
            return;
        }
    }
}

vl_status vl_masker_init(vl_masker *m, const vl_vocabulary *v, vl_grammar *g, vl_error *err)
{
    *m = (vl_masker){.v = v, .grammar = *g};
    *g = (vl_grammar){0};
    for (size_t i = 0; i < m->grammar.n_states; i++) {
        uint32_t h = m->grammar.states[i].height;
        if (h != VL_GRAMMAR_NEVER && h > m->max_height)
            m->max_height = h;
    }
    m->path = malloc(((size_t)v->longest + 2) * sizeof *m->path);
    m->collect.bits = calloc(v->n_words + 1, sizeof *m->collect.bits);
    m->collect.ids = malloc(LIST_MAX * sizeof *m->collect.ids);
    if (!vl_machine_init(&m->machine, &m->grammar) || m->path == NULL || m->collect.bits == NULL ||
        m->collect.ids == NULL) {
        vl_masker_fini(m);
        return vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
    }
    return VL_OK;
}

void vl_masker_fini(vl_masker *m)
{
    free_masks(m);
    free(m->locals);
    free(m->fulls);
    free(m->path);
    free(m->collect.bits);
    free(m->collect.ids);
    free(m->exits);
    free(m->walkers);
    vl_machine_fini(&m->machine);
    vl_grammar_fini(&m->grammar);
    *m = (vl_masker){0};
}
