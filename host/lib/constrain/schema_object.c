/* host/lib/constrain/schema_object.c: objects: named properties in the order of the schema, then
 * others where they are allowed.
 *
 * Others come only where a schema says so (additionalProperties true or a schema, or no properties
 * at all): an absent additionalProperties beside properties would allow them too, but nobody who
 * lists properties asks for more. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "host/lib/constrain/schema_private.h"

struct property {
    vl_bytes name; /* unescaped; owned */
    bool required;
    uint32_t rule; /* 0: nothing matches, so it never comes */
};

struct object {
    struct property *list;
    size_t n, cap;
    vl_strmap by_name; /* index in list */
    bool others;       /* unnamed properties may come */
    uint32_t others_rule;
};

/* ---- reading ---- */

static struct property *property_of(struct compiler *c, struct object *o, vl_json key,
                                    uint32_t place)
{
    vl_buf name = VL_BUF_INIT;
    uint64_t at = 0;
    struct property *p = NULL;
    int added;

    if (!vl_json_str(key, &name))
        goto no_memory;
    added = vl_strmap_add(&o->by_name, name.ptr != NULL ? name.ptr : "", name.len, o->n, &at);
    if (added < 0)
        goto no_memory;
    if (added == 0) {
        vl_buf_fini(&name);
        return &o->list[at];
    }
    if (o->n >= PROPERTIES_MAX) {
        vl_schema_fail(c, place, NULL, "more than %d properties", PROPERTIES_MAX);
        vl_buf_fini(&name);
        return NULL;
    }
    if (!vl_grow(&o->list, &o->cap, o->n + 1, sizeof *o->list))
        goto no_memory;
    p = &o->list[o->n++];
    *p = (struct property){0};
    p->name.len = name.len;
    p->name.ptr = name.ptr; /* the map's key too: it is freed with the object */
    return p;
no_memory:
    vl_buf_fini(&name);
    vl_schema_no_memory(c);
    return NULL;
}

/* Names, in order of appearance; those that are only required come last. */
static void read_names(struct compiler *c, const struct conj *list, struct object *o)
{
    for (int i = 0; i < list->n && vl_schema_ok(c); i++) {
        vl_json properties = vl_json_get(list->items[i].v, "properties");
        if (!vl_json_exists(properties))
            continue;
        if (!vl_json_is(properties, VL_JSON_OBJECT)) {
            vl_schema_fail(c, list->items[i].place, "properties", "want an object, not %s",
                           vl_json_type_name(properties));
            return;
        }
        for (vl_json_iter it = vl_json_each(properties); vl_json_next(&it) && vl_schema_ok(c);)
            property_of(c, o, it.key, list->items[i].place);
    }
    for (int i = 0; i < list->n && vl_schema_ok(c); i++) {
        vl_json required = vl_json_get(list->items[i].v, "required");
        if (!vl_json_exists(required))
            continue;
        bool good = vl_json_is(required, VL_JSON_ARRAY);
        for (vl_json_iter it = vl_json_each(required);
             good && vl_json_next(&it) && vl_schema_ok(c);) {
            good = vl_json_is(it.value, VL_JSON_STRING);
            struct property *p = good ? property_of(c, o, it.value, list->items[i].place) : NULL;
            if (p != NULL)
                p->required = true;
        }
        if (!good)
            vl_schema_fail(c, list->items[i].place, "required", "want an array of strings");
    }
}

/* additionalProperties of one schema: adds what it asks of a value that it does not name. */
static void add_other(struct compiler *c, const struct conj_item *item, struct conj *to)
{
    vl_json v = vl_json_get(item->v, "additionalProperties");

    if (vl_json_exists(v))
        vl_schema_add(c, to, v,
                      vl_schema_place(c, item->place, (vl_bytes){"additionalProperties", 20}, 0));
}

static void clear(struct conj *list)
{
    list->n = 0;
    list->n_expanded = 0;
    list->never = false;
}

/* What all schemas of the list ask of the property's value. */
static void read_property(struct compiler *c, const struct conj *list, struct property *p,
                          struct conj *value)
{
    clear(value);
    for (int i = 0; i < list->n && vl_schema_ok(c); i++) {
        const struct conj_item *item = &list->items[i];
        vl_json properties = vl_json_get(item->v, "properties");
        vl_schema_work(c, item->place, vl_json_count(item->v) + vl_json_count(properties));
        vl_json v = vl_json_get_n(properties, p->name.ptr != NULL ? p->name.ptr : "", p->name.len);
        if (!vl_json_exists(v)) {
            add_other(c, item, value);
            continue;
        }
        uint32_t at = vl_schema_place(c, item->place, (vl_bytes){"properties", 10}, 0);
        vl_bytes key = {v.doc->text + (v.node - 1)->start, (size_t)(v.node - 1)->len};
        vl_schema_add(c, value, v, vl_schema_place(c, at, key, 0));
    }
    p->rule = vl_schema_ok(c) ? vl_schema_rule(c, value) : 0;
}

static void read_others(struct compiler *c, const struct conj *list, struct object *o,
                        struct conj *value)
{
    bool named = false, asked = false;

    clear(value);
    for (int i = 0; i < list->n && vl_schema_ok(c); i++) {
        named = named || vl_json_exists(vl_json_get(list->items[i].v, "properties"));
        asked = asked || vl_json_exists(vl_json_get(list->items[i].v, "additionalProperties"));
        add_other(c, &list->items[i], value);
    }
    o->others = !value->never && (asked || !named);
    o->others_rule = o->others && vl_schema_ok(c) ? vl_schema_rule(c, value) : 0;
}

/* ---- names of others: any string that is none of the named ---- */

static int compare_names(const void *a, const void *b)
{
    const vl_bytes *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int d = n > 0 ? memcmp(x->ptr, y->ptr, n) : 0;

    return d != 0 ? d : (x->len > y->len) - (x->len < y->len);
}

/* A state behind a beginning that names[first..end) share. */
struct prefix {
    size_t first, end, len;
    uint32_t state;
};

static uint32_t point_at(vl_bytes name, size_t at, size_t *len)
{
    uint32_t cp = 0;

    *len = (size_t)vl_utf8_next(name.ptr + at, name.len - at, &cp);
    return cp;
}

/* From one beginning on: the named ones go down, all else leaves for the inside of any string.
 * Escapes that spell a character otherwise are left out here, since they could spell a name. */
static bool put_prefix(struct compiler *c, const vl_bytes *names, struct prefix p,
                       struct prefix **work, size_t *n, size_t *cap)
{
    size_t i = p.first;
    uint32_t low = 0;

    if (names[i].len == p.len)
        i++; /* the quote here would end a name that is taken */
    else
        vl_grammar_byte(c->r.g, p.state, '"', '"', c->r.end);
    while (i < p.end) {
        size_t len, same, end = i + 1;
        uint32_t cp = point_at(names[i], p.len, &len);
        while (end < p.end && point_at(names[end], p.len, &same) == cp)
            end++;
        if (cp > low)
            vl_rules_points(&c->r, p.state, low, cp - 1, c->r.inside, true);
        low = cp + 1;
        if (!vl_grow(work, cap, *n + 1, sizeof **work))
            return false;
        struct prefix next = {i, end, p.len + len, vl_grammar_state(c->r.g)};
        vl_rules_points(&c->r, p.state, cp, cp, next.state, true);
        (*work)[(*n)++] = next;
        i = end;
    }
    if (low <= 0x10ffff)
        vl_rules_points(&c->r, p.state, low, 0x10ffff, c->r.inside, true);
    return true;
}

/* The rule of a string that is none of the object's names. */
static uint32_t other_name(struct compiler *c, const struct object *o)
{
    vl_grammar *g = c->r.g;
    vl_bytes *names = NULL;
    struct prefix *work = NULL;
    size_t names_cap = 0, n = 0, cap = 0;
    uint32_t entry = c->r.string;
    bool ok = true;

    if (o->n == 0)
        return entry;
    ok = vl_grow(&names, &names_cap, o->n, sizeof *names) && vl_grow(&work, &cap, 1, sizeof *work);
    for (size_t i = 0; ok && i < o->n; i++)
        names[i] = o->list[i].name;
    if (ok) {
        qsort(names, o->n, sizeof *names, compare_names);
        entry = vl_grammar_state(g);
        work[n++] = (struct prefix){0, o->n, 0, vl_grammar_state(g)};
        vl_grammar_byte(g, entry, '"', '"', work[0].state);
        vl_rules_warm(&c->r, work[0].state);
    }
    while (ok && n > 0 && vl_schema_ok(c)) {
        struct prefix p = work[--n];
        ok = put_prefix(c, names, p, &work, &n, &cap);
    }
    if (!ok)
        vl_schema_no_memory(c);
    free(names);
    free(work);
    return entry;
}

/* ---- writing ---- */

/* "name": value, from a state that stands before the name. */
static void put_property(struct compiler *c, const struct property *p, uint32_t from, uint32_t to)
{
    vl_grammar *g = c->r.g;
    vl_buf name = VL_BUF_INIT;
    uint32_t colon = vl_grammar_state(g), value = vl_grammar_state(g);

    vl_json_put_str(&name, p->name.ptr != NULL ? p->name.ptr : "", p->name.len);
    vl_buf_putc(&name, ':');
    if (name.failed)
        vl_schema_no_memory(c);
    else
        vl_grammar_text(g, from, name.ptr, name.len, colon);
    vl_grammar_call(g, colon, c->r.space, value);
    vl_grammar_call(g, value, p->rule, to);
    vl_buf_fini(&name);
}

/* Two states before each property: `first`, none has come yet, and `more`, where a comma stands
 * before the next. */
static void put_object(struct compiler *c, const struct object *o, uint32_t from, uint32_t to)
{
    vl_grammar *g = c->r.g;
    uint32_t first = vl_grammar_state(g), more = vl_grammar_state(g), open = vl_grammar_state(g);
    uint32_t comma = vl_grammar_state(g), close = vl_grammar_state(g);

    vl_grammar_byte(g, from, '{', '{', open);
    vl_grammar_call(g, open, c->r.space, first);
    for (size_t i = 0; i < o->n && vl_schema_ok(c); i++) {
        const struct property *p = &o->list[i];
        uint32_t next_first = vl_grammar_state(g), next_more = vl_grammar_state(g);
        if (p->rule != 0) {
            uint32_t name = vl_grammar_state(g), behind = vl_grammar_state(g);
            vl_grammar_empty(g, first, name);
            vl_grammar_byte(g, more, ',', ',', behind);
            vl_grammar_call(g, behind, c->r.space, name);
            put_property(c, p, name, next_more);
        }
        if (!p->required) {
            vl_grammar_empty(g, first, next_first);
            vl_grammar_empty(g, more, next_more);
        }
        first = next_first;
        more = next_more;
    }
    if (o->others && o->others_rule != 0) {
        uint32_t name = vl_grammar_state(g), colon = vl_grammar_state(g), gap = vl_grammar_state(g),
                 value = vl_grammar_state(g);
        vl_grammar_empty(g, first, name);
        vl_grammar_byte(g, more, ',', ',', comma);
        vl_grammar_call(g, comma, c->r.space, name);
        vl_grammar_call(g, name, other_name(c, o), colon);
        vl_grammar_byte(g, colon, ':', ':', gap);
        vl_grammar_call(g, gap, c->r.space, value);
        vl_grammar_call(g, value, o->others_rule, more);
    }
    vl_grammar_byte(g, first, '}', '}', to);
    vl_grammar_call(g, more, c->r.space, close);
    vl_grammar_byte(g, close, '}', '}', to);
}

void vl_schema_object(struct compiler *c, const struct conj *list, uint32_t from, uint32_t to)
{
    struct object o = {0};
    struct conj *value = malloc(sizeof *value);

    vl_strmap_init(&o.by_name);
    if (value == NULL) {
        vl_schema_no_memory(c);
        return;
    }
    read_names(c, list, &o);
    for (size_t i = 0; i < o.n && vl_schema_ok(c); i++)
        read_property(c, list, &o.list[i], value);
    if (vl_schema_ok(c))
        read_others(c, list, &o, value);
    if (vl_schema_ok(c))
        put_object(c, &o, from, to);
    vl_strmap_fini(&o.by_name);
    for (size_t i = 0; i < o.n; i++)
        free((char *)(uintptr_t)o.list[i].name.ptr);
    free(o.list);
    free(value);
}
