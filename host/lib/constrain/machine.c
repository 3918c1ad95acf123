/* host/lib/constrain/machine.c: sets of (state, stack) pairs. */
#include "host/lib/constrain/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
    LARGE_SETS = 20000, /* forgetting is good */
    MAX_SETS = 40000,   /* more within one mask: the grammar is hostile */
    MAX_PAIRS = 4096,   /* in one set */
    MAX_CONFIGS = 2000000,
    MAX_STACKS = 2000000
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

static uint32_t fail(vl_machine *m, vl_status status)
{
    if (m->status == VL_OK)
        m->status = status;
    return 0;
}

/* ---- stacks ---- */

static bool grow_stack_slots(vl_machine *m)
{
    size_t n = m->n_stack_slots > 0 ? 2 * m->n_stack_slots : 256;
    uint32_t *slots = calloc(n, sizeof *slots);

    if (slots == NULL)
        return false;
    for (size_t i = 1; i < m->n_stacks; i++) {
        size_t at = mix((uint64_t)m->stacks[i].ret << 32 | m->stacks[i].below) & (n - 1);
        while (slots[at] != 0)
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i;
    }
    free(m->stack_slots);
    m->stack_slots = slots;
    m->n_stack_slots = n;
    return true;
}

static uint32_t push_stack(vl_machine *m, uint32_t ret, uint32_t below)
{
    if (2 * (m->n_stacks + 1) > m->n_stack_slots && !grow_stack_slots(m))
        return fail(m, VL_E_NOMEM);
    size_t at = mix((uint64_t)ret << 32 | below) & (m->n_stack_slots - 1);
    for (; m->stack_slots[at] != 0; at = (at + 1) & (m->n_stack_slots - 1)) {
        const struct vl_stack *s = &m->stacks[m->stack_slots[at]];
        if (s->ret == ret && s->below == below)
            return m->stack_slots[at];
    }
    if (m->n_stacks >= MAX_STACKS)
        return fail(m, VL_E_UNSUPPORTED);
    if (!vl_grow(&m->stacks, &m->stacks_cap, m->n_stacks + 1, sizeof *m->stacks))
        return fail(m, VL_E_NOMEM);
    m->stacks[m->n_stacks] = (struct vl_stack){ret, below, m->stacks[below].depth + 1};
    m->stack_slots[at] = (uint32_t)m->n_stacks;
    return (uint32_t)m->n_stacks++;
}

/* ---- the set being made ---- */

static void begin(vl_machine *m)
{
    m->n_made = 0;
    m->n_work = 0;
    m->n_seen = 0;
    m->complete = false;
    if (++m->now == 0) {
        memset(m->seen_when, 0, m->n_seen_slots * sizeof *m->seen_when);
        m->now = 1;
    }
}

static bool grow_seen(vl_machine *m)
{
    size_t n = m->n_seen_slots > 0 ? 2 * m->n_seen_slots : 256;
    uint64_t *seen = calloc(n, sizeof *seen);
    uint32_t *when = calloc(n, sizeof *when);

    if (seen == NULL || when == NULL) {
        free(seen);
        free(when);
        return false;
    }
    for (size_t i = 0; i < m->n_seen_slots; i++) {
        if (m->seen_when[i] != m->now)
            continue;
        size_t at = mix(m->seen[i]) & (n - 1);
        while (when[at] == m->now)
            at = (at + 1) & (n - 1);
        seen[at] = m->seen[i];
        when[at] = m->now;
    }
    free(m->seen);
    free(m->seen_when);
    m->seen = seen;
    m->seen_when = when;
    m->n_seen_slots = n;
    return true;
}

/* True the first time. */
static bool see(vl_machine *m, uint32_t state, uint32_t stack)
{
    uint64_t key = (uint64_t)state << 32 | stack;

    if (2 * (m->n_seen + 1) > m->n_seen_slots && !grow_seen(m)) {
        fail(m, VL_E_NOMEM);
        return false;
    }
    size_t at = mix(key) & (m->n_seen_slots - 1);
    for (; m->seen_when[at] == m->now; at = (at + 1) & (m->n_seen_slots - 1)) {
        if (m->seen[at] == key)
            return false;
    }
    m->seen[at] = key;
    m->seen_when[at] = m->now;
    m->n_seen++;
    return true;
}

/* Whether the rule can still end with this much of the depth left. */
static bool can_end(const vl_machine *m, uint32_t state, uint32_t stack)
{
    uint32_t h = m->g->states[state].height;

    return h != VL_GRAMMAR_NEVER && h + m->stacks[stack].depth <= VL_GRAMMAR_MAX_DEPTH;
}

static void add(vl_machine *m, uint32_t state, uint32_t stack)
{
    if (m->status != VL_OK || !can_end(m, state, stack) || !see(m, state, stack))
        return;
    if (m->n_seen > 16 * MAX_PAIRS)
        fail(m, VL_E_UNSUPPORTED);
    else if (!vl_grow(&m->work, &m->work_cap, m->n_work + 1, sizeof *m->work))
        fail(m, VL_E_NOMEM);
    else
        m->work[m->n_work++] = (struct vl_config){state, stack};
}

/* Where an edge leads: into a rule with a taller stack, or along. */
static void follow(vl_machine *m, const struct vl_grammar_edge *e, uint32_t stack)
{
    if (e->ret != 0) {
        if (!can_end(m, e->ret, stack) || m->g->states[e->target].height == VL_GRAMMAR_NEVER)
            return;
        stack = push_stack(m, e->ret, stack);
        if (stack == 0)
            return;
    }
    add(m, e->target, stack);
}

/* Everything that is reached without reading. */
static void close_set(vl_machine *m)
{
    while (m->n_work > 0 && m->status == VL_OK) {
        struct vl_config c = m->work[--m->n_work];
        const struct vl_grammar_state *s = &m->g->states[c.state];
        if (s->reads) {
            if (m->n_made >= MAX_PAIRS)
                fail(m, VL_E_UNSUPPORTED);
            else if (!vl_grow(&m->made, &m->made_cap, m->n_made + 1, sizeof *m->made))
                fail(m, VL_E_NOMEM);
            else
                m->made[m->n_made++] = c;
        }
        if (s->accept && c.stack == 0)
            m->complete = true;
        else if (s->accept)
            add(m, m->stacks[c.stack].ret, m->stacks[c.stack].below);
        for (uint32_t i = 0; i < s->n_empty; i++)
            follow(m, &m->g->edges[s->first + i], c.stack);
    }
}

static int compare_configs(const void *a, const void *b)
{
    const struct vl_config *x = a, *y = b;

    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return (x->state > y->state) - (x->state < y->state);
}

/* ---- sets ---- */

static bool grow_set_slots(vl_machine *m)
{
    size_t n = m->n_set_slots > 0 ? 2 * m->n_set_slots : 256;
    uint32_t *slots = calloc(n, sizeof *slots);

    if (slots == NULL)
        return false;
    for (size_t i = 1; i < m->n_sets; i++) {
        size_t at = m->sets[i].hash & (n - 1);
        while (slots[at] != 0)
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i;
    }
    free(m->set_slots);
    m->set_slots = slots;
    m->n_set_slots = n;
    return true;
}

static bool add_set(vl_machine *m, uint64_t hash)
{
    size_t classes = m->g->n_classes;

    if (m->n_sets >= MAX_SETS || m->n_configs + m->n_made > MAX_CONFIGS) {
        fail(m, VL_E_UNSUPPORTED);
        return false;
    }
    if (!vl_grow(&m->sets, &m->sets_cap, m->n_sets + 1, sizeof *m->sets) ||
        !vl_grow(&m->next, &m->next_cap, (m->n_sets + 1) * classes, sizeof *m->next) ||
        !vl_grow(&m->configs, &m->configs_cap, m->n_configs + m->n_made + 1, sizeof *m->configs)) {
        fail(m, VL_E_NOMEM);
        return false;
    }
    m->sets[m->n_sets] = (struct vl_set){.first = (uint32_t)m->n_configs,
                                         .n = (uint32_t)m->n_made,
                                         .hash = hash,
                                         .complete = m->complete};
    if (m->n_made > 0)
        memcpy(m->configs + m->n_configs, m->made, m->n_made * sizeof *m->made);
    m->n_configs += m->n_made;
    memset(m->next + m->n_sets * classes, 0xff, classes * sizeof *m->next);
    m->n_sets++;
    return true;
}

/* The number of the set that was made. */
static uint32_t intern(vl_machine *m)
{
    if (m->status != VL_OK || (m->n_made == 0 && !m->complete))
        return 0;
    qsort(m->made, m->n_made, sizeof *m->made, compare_configs);
    uint64_t hash = m->complete;
    for (size_t i = 0; i < m->n_made; i++)
        hash = mix(hash * 31 + ((uint64_t)m->made[i].state << 32 | m->made[i].stack));
    if (2 * (m->n_sets + 1) > m->n_set_slots && !grow_set_slots(m))
        return fail(m, VL_E_NOMEM);
    size_t at = hash & (m->n_set_slots - 1);
    for (; m->set_slots[at] != 0; at = (at + 1) & (m->n_set_slots - 1)) {
        const struct vl_set *s = &m->sets[m->set_slots[at]];
        if (s->hash == hash && s->n == m->n_made && (s->complete != 0) == m->complete &&
            (s->n == 0 || memcmp(m->configs + s->first, m->made, s->n * sizeof *m->made) == 0))
            return m->set_slots[at];
    }
    if (!add_set(m, hash))
        return 0;
    m->set_slots[at] = (uint32_t)(m->n_sets - 1);
    return (uint32_t)(m->n_sets - 1);
}

/* Set 0: nothing. */
static bool add_nothing(vl_machine *m)
{
    m->n_made = 0;
    m->complete = false;
    if (!add_set(m, 0))
        return false;
    memset(m->next, 0, m->g->n_classes * sizeof *m->next);
    return true;
}

bool vl_machine_init(vl_machine *m, const vl_grammar *g)
{
    *m = (vl_machine){.g = g};
    if (!vl_grow(&m->stacks, &m->stacks_cap, 1, sizeof *m->stacks)) {
        m->status = VL_E_NOMEM;
        return false;
    }
    m->stacks[0] = (struct vl_stack){0, 0, 0};
    m->n_stacks = 1;
    return add_nothing(m);
}

void vl_machine_fini(vl_machine *m)
{
    free(m->sets);
    free(m->configs);
    free(m->next);
    free(m->set_slots);
    free(m->stacks);
    free(m->stack_slots);
    free(m->made);
    free(m->work);
    free(m->seen);
    free(m->seen_when);
    *m = (vl_machine){0};
}

bool vl_machine_is_large(const vl_machine *m)
{
    return m->n_sets > LARGE_SETS || m->n_configs > MAX_CONFIGS / 2;
}

bool vl_machine_forget(vl_machine *m, uint32_t **keep, size_t n_keep)
{
    struct vl_set *sets = m->sets;
    struct vl_config *configs = m->configs;

    free(m->set_slots);
    free(m->next);
    m->sets = NULL;
    m->configs = NULL;
    m->next = NULL;
    m->set_slots = NULL;
    m->n_sets = m->sets_cap = m->n_configs = m->configs_cap = m->next_cap = m->n_set_slots = 0;
    m->status = VL_OK;
    bool ok = add_nothing(m);
    for (size_t i = 0; i < n_keep && ok; i++) {
        const struct vl_set *s = &sets[*keep[i]];
        if (*keep[i] == 0)
            continue;
        ok = vl_grow(&m->made, &m->made_cap, (size_t)s->n + 1, sizeof *m->made);
        if (!ok)
            break;
        m->n_made = s->n;
        m->complete = s->complete != 0;
        if (s->n > 0)
            memcpy(m->made, configs + s->first, s->n * sizeof *m->made);
        *keep[i] = intern(m);
        ok = *keep[i] != 0;
    }
    if (!ok)
        fail(m, VL_E_NOMEM);
    free(sets);
    free(configs);
    return ok;
}

uint32_t vl_machine_start(vl_machine *m, uint32_t state)
{
    begin(m);
    add(m, state, 0);
    close_set(m);
    return intern(m);
}

uint32_t vl_machine_return(vl_machine *m, uint32_t stack)
{
    begin(m);
    add(m, m->stacks[stack].ret, m->stacks[stack].below);
    close_set(m);
    return intern(m);
}

uint32_t vl_machine_set_of(vl_machine *m, const struct vl_config *configs, size_t n, uint32_t stack)
{
    if (!vl_grow(&m->made, &m->made_cap, n + 1, sizeof *m->made))
        return fail(m, VL_E_NOMEM);
    for (size_t i = 0; i < n; i++)
        m->made[i] = (struct vl_config){configs[i].state, stack};
    m->n_made = n;
    m->complete = false;
    return intern(m);
}

uint32_t vl_machine_token(vl_machine *m, uint32_t set, int32_t id)
{
    uint32_t first = m->sets[set].first, n = m->sets[set].n;

    begin(m);
    for (uint32_t k = 0; k < n; k++) {
        struct vl_config c = m->configs[first + k];
        const struct vl_grammar_state *s = &m->g->states[c.state];
        for (uint32_t i = s->n_empty; i < s->n; i++) {
            const struct vl_grammar_edge *e = &m->g->edges[s->first + i];
            if (e->kind == VL_EDGE_TOKEN && e->token == id)
                follow(m, e, c.stack);
        }
    }
    close_set(m);
    return intern(m);
}

uint32_t vl_machine_make(vl_machine *m, uint32_t set, uint32_t byte_class)
{
    uint8_t byte = m->g->byte_of[byte_class];
    uint32_t first = m->sets[set].first, n = m->sets[set].n;

    if (m->status != VL_OK)
        return 0;
    begin(m);
    for (uint32_t k = 0; k < n; k++) {
        struct vl_config c = m->configs[first + k];
        const struct vl_grammar_state *s = &m->g->states[c.state];
        for (uint32_t i = s->n_empty; i < s->n; i++) {
            const struct vl_grammar_edge *e = &m->g->edges[s->first + i];
            if (e->kind != VL_EDGE_BYTE || e->low > byte)
                break;
            if (byte <= e->high)
                follow(m, e, c.stack);
        }
    }
    close_set(m);
    uint32_t to = intern(m);
    if (m->status == VL_OK)
        m->next[(size_t)set * m->g->n_classes + byte_class] = to;
    return to;
}
