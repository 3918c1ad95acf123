/* host/lib/constrain/schema.c: which schemas hold at a place, and a rule for each such list. */
#include <stdlib.h>
#include <string.h>

#include "host/lib/constrain/schema_private.h"

/* ---- errors ---- */

static void put_path(const struct compiler *c, vl_buf *out, uint32_t place, int depth)
{
    const struct place *p = &c->places[place];

    if (place == 0 || depth > 200) {
        vl_buf_puts(out, c->path);
        return;
    }
    put_path(c, out, p->parent, depth + 1);
    if (p->key.ptr != NULL) {
        vl_buf_putc(out, '.');
        vl_buf_append(out, p->key.ptr, p->key.len);
    } else {
        vl_buf_printf(out, "[%u]", p->index);
    }
}

void vl_schema_fail(struct compiler *c, uint32_t place, const char *keyword, const char *fmt, ...)
{
    vl_buf b = VL_BUF_INIT;
    va_list args;

    if (c->status != VL_OK)
        return;
    put_path(c, &b, place, 0);
    if (keyword != NULL)
        vl_buf_printf(&b, ".%s", keyword);
    vl_buf_puts(&b, ": ");
    va_start(args, fmt);
    vl_buf_vprintf(&b, fmt, args);
    va_end(args);
    c->status =
        vl_error_set(c->err, VL_E_INVALID, "%s", b.failed ? "schema: not supported" : b.ptr);
    vl_buf_fini(&b);
}

void vl_schema_no_memory(struct compiler *c)
{
    if (c->status == VL_OK)
        c->status = vl_error_set(c->err, VL_E_NOMEM, "constrained output: out of memory");
}

uint32_t vl_schema_place(struct compiler *c, uint32_t parent, vl_bytes key, uint32_t index)
{
    if (!vl_grow(&c->places, &c->places_cap, c->n_places + 1, sizeof *c->places)) {
        vl_schema_no_memory(c);
        return 0;
    }
    c->places[c->n_places] = (struct place){parent, index, key};
    return (uint32_t)c->n_places++;
}

void vl_schema_work(struct compiler *c, uint32_t place, uint64_t members)
{
    c->work += members;
    if (c->work > WORK_MAX)
        vl_schema_fail(c, place, NULL, "the schema takes more than %d steps to read", WORK_MAX);
}

/* ---- keywords ---- */

enum { WORD_NOTE, WORD_APPLY, WORD_VALUE };

static const struct {
    const char *name;
    int what;
} words[] = {
    {"type", WORD_VALUE},
    {"enum", WORD_VALUE},
    {"const", WORD_VALUE},
    {"properties", WORD_VALUE},
    {"required", WORD_VALUE},
    {"additionalProperties", WORD_VALUE},
    {"items", WORD_VALUE},
    {"prefixItems", WORD_VALUE},
    {"minItems", WORD_VALUE},
    {"maxItems", WORD_VALUE},
    {"minLength", WORD_VALUE},
    {"maxLength", WORD_VALUE},
    {"pattern", WORD_VALUE},
    {"format", WORD_VALUE},
    {"minimum", WORD_VALUE},
    {"maximum", WORD_VALUE},
    {"exclusiveMinimum", WORD_VALUE},
    {"exclusiveMaximum", WORD_VALUE},
    {"anyOf", WORD_APPLY},
    {"oneOf", WORD_APPLY},
    {"allOf", WORD_APPLY},
    {"$ref", WORD_APPLY},
    {"title", WORD_NOTE},
    {"description", WORD_NOTE},
    {"default", WORD_NOTE},
    {"examples", WORD_NOTE},
    {"example", WORD_NOTE},
    {"deprecated", WORD_NOTE},
    {"readOnly", WORD_NOTE},
    {"writeOnly", WORD_NOTE},
    {"$schema", WORD_NOTE},
    {"$id", WORD_NOTE},
    {"$comment", WORD_NOTE},
    {"$defs", WORD_NOTE},
    {"definitions", WORD_NOTE},
    {"contentEncoding", WORD_NOTE},
    {"contentMediaType", WORD_NOTE},
    {"discriminator", WORD_NOTE}, /* says which choice of a oneOf holds; the choices say it too */
};

/* Every member is a keyword that is known. */
static bool check_words(struct compiler *c, vl_json v, uint32_t place)
{
    vl_schema_work(c, place, vl_json_count(v));
    for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);) {
        vl_bytes key = vl_json_str_raw(it.key);
        bool known = key.len > 2 && key.ptr[0] == 'x' && key.ptr[1] == '-';
        for (size_t i = 0; i < sizeof words / sizeof words[0] && !known; i++)
            known =
                strlen(words[i].name) == key.len && memcmp(words[i].name, key.ptr, key.len) == 0;
        if (known)
            continue;
        uint32_t at = vl_schema_place(c, place, key, 0);
        vl_schema_fail(c, at, NULL, "the keyword \"%.*s\" is not supported",
                       (int)(key.len < 60 ? key.len : 60), key.ptr);
        return false;
    }
    return true;
}

/* ---- references ---- */

/* One step of a pointer: ~0, ~1 and %XX undone, into buf. */
static bool pointer_step(const char *text, size_t len, vl_buf *out)
{
    vl_buf_clear(out);
    for (size_t i = 0; i < len; i++) {
        char ch = text[i];
        if (ch == '~' && i + 1 < len && (text[i + 1] == '0' || text[i + 1] == '1')) {
            ch = text[++i] == '0' ? '~' : '/';
        } else if (ch == '%' && i + 2 < len) {
            char hex[3] = {text[i + 1], text[i + 2], 0}, *end;
            long value = strtol(hex, &end, 16);
            if (*end == '\0' && hex[0] != '+' && hex[0] != '-' && hex[0] != ' ') {
                ch = (char)value;
                i += 2;
            }
        }
        vl_buf_putc(out, ch);
    }
    return !out->failed;
}

/* What "#/a/b" points to; *place is where. */
static vl_json resolve(struct compiler *c, const char *ref, size_t len, uint32_t from,
                       uint32_t *place)
{
    vl_json v = c->root;
    vl_buf step = VL_BUF_INIT;
    size_t at = 1;

    *place = 0;
    if (len == 0 || ref[0] != '#' || (len > 1 && ref[1] != '/')) {
        vl_schema_fail(c, from, "$ref",
                       "\"%.*s\" is not supported; want #, #/$defs/NAME or #/definitions/NAME",
                       (int)(len < 80 ? len : 80), ref);
        return (vl_json){v.doc, NULL};
    }
    while (at < len && v.node != NULL && vl_schema_ok(c)) {
        size_t end = ++at;
        while (end < len && ref[end] != '/')
            end++;
        if (!pointer_step(ref + at, end - at, &step))
            vl_schema_no_memory(c);
        const char *key = step.ptr != NULL ? step.ptr : "";
        vl_schema_work(c, from, vl_json_count(v));
        if (vl_json_is(v, VL_JSON_ARRAY)) {
            char *stop = NULL;
            unsigned long index = strtoul(key, &stop, 10);
            v = step.len > 0 && *stop == '\0' ? vl_json_at(v, index) : (vl_json){v.doc, NULL};
            *place = vl_schema_place(c, *place, (vl_bytes){NULL, 0}, (uint32_t)index);
        } else {
            v = vl_json_get_n(v, key, step.len);
            /* The reference's own text: it lives as long as the document, or longer than the error.
             */
            *place = vl_schema_place(c, *place, (vl_bytes){ref + at, end - at}, 0);
        }
        at = end;
    }
    vl_buf_fini(&step);
    if (v.node == NULL)
        vl_schema_fail(c, from, "$ref", "there is nothing at \"%.*s\"", (int)(len < 80 ? len : 80),
                       ref);
    return v;
}

/* ---- lists ---- */

static bool is_true(vl_json v)
{
    return vl_json_is(v, VL_JSON_TRUE) || (vl_json_is(v, VL_JSON_OBJECT) && vl_json_count(v) == 0);
}

static void add_item(struct compiler *c, struct conj *list, vl_json v, uint32_t place, int by)
{
    if (is_true(v))
        return;
    if (vl_json_is(v, VL_JSON_FALSE)) {
        list->never = true;
        return;
    }
    if (!vl_json_is(v, VL_JSON_OBJECT)) {
        vl_schema_fail(c, place, NULL, "a schema must be an object or a boolean, not %s",
                       vl_json_type_name(v));
        return;
    }
    for (int i = by; i >= 0; i = list->items[i].by) {
        if (list->items[i].v.node == v.node) {
            vl_schema_fail(c, place, NULL, "the schema refers to itself before any value begins");
            return;
        }
    }
    for (int i = 0; i < list->n; i++) {
        if (list->items[i].v.node == v.node)
            return;
    }
    if (list->n >= CONJ_MAX)
        vl_schema_fail(c, place, NULL, "more than %d schemas hold at once here", CONJ_MAX);
    else
        list->items[list->n++] = (struct conj_item){.v = v, .place = place, .by = by};
}

void vl_schema_add(struct compiler *c, struct conj *list, vl_json v, uint32_t place)
{
    add_item(c, list, v, place, -1);
}

static void add_reference(struct compiler *c, struct conj *list, int i)
{
    struct conj_item item = list->items[i];
    vl_json ref = vl_json_get(item.v, "$ref");
    vl_bytes raw = vl_json_str_raw(ref);
    uint32_t place = 0;

    if (!vl_json_exists(ref))
        return;
    if (!vl_json_is(ref, VL_JSON_STRING) || ref.node->escaped) {
        vl_schema_fail(c, item.place, "$ref", "want a plain string, not %s",
                       vl_json_type_name(ref));
        return;
    }
    vl_json target = resolve(c, raw.ptr, raw.len, item.place, &place);
    if (target.node != NULL && vl_schema_ok(c))
        add_item(c, list, target, place, i);
}

/* A keyword's array of schemas; false: absent, or wrong (which fails). */
static bool list_of(struct compiler *c, const struct conj_item *item, const char *word,
                    vl_json *out)
{
    *out = vl_json_get(item->v, word);
    if (!vl_json_exists(*out))
        return false;
    if (!vl_json_is(*out, VL_JSON_ARRAY) || vl_json_count(*out) == 0) {
        vl_schema_fail(c, item->place, word, "want an array with a schema at least");
        return false;
    }
    return true;
}

/* What is brought in by $ref and allOf, until nothing is new. */
static void expand(struct compiler *c, struct conj *list)
{
    for (; list->n_expanded < list->n && vl_schema_ok(c); list->n_expanded++) {
        int i = list->n_expanded;
        struct conj_item item = list->items[i];
        vl_json all;
        if (!check_words(c, item.v, item.place))
            return;
        add_reference(c, list, i);
        if (!list_of(c, &item, "allOf", &all))
            continue;
        uint32_t at = vl_schema_place(c, item.place, (vl_bytes){"allOf", 5}, 0);
        for (vl_json_iter it = vl_json_each(all); vl_json_next(&it) && vl_schema_ok(c);)
            add_item(c, list, it.value, vl_schema_place(c, at, (vl_bytes){NULL, 0}, it.index), i);
    }
}

static void choose(struct compiler *c, const struct conj *from_list, uint32_t from, uint32_t to);

/* One way for each choice of the first anyOf or oneOf that is still open. False: there is none. */
static bool branch(struct compiler *c, const struct conj *list, uint32_t from, uint32_t to)
{
    for (int i = 0; i < list->n; i++) {
        for (int one = 0; one < 2; one++) {
            const struct conj_item *item = &list->items[i];
            const char *word = one ? "oneOf" : "anyOf";
            vl_json options;
            if ((one ? item->one_done : item->any_done) || !list_of(c, item, word, &options))
                continue;
            uint32_t at = vl_schema_place(c, item->place, (vl_bytes){word, 5}, 0);
            for (vl_json_iter it = vl_json_each(options); vl_json_next(&it) && vl_schema_ok(c);) {
                struct conj *copy = malloc(sizeof *copy);
                if (copy == NULL) {
                    vl_schema_no_memory(c);
                    return true;
                }
                *copy = *list;
                if (one)
                    copy->items[i].one_done = true;
                else
                    copy->items[i].any_done = true;
                add_item(c, copy, it.value, vl_schema_place(c, at, (vl_bytes){NULL, 0}, it.index),
                         i);
                choose(c, copy, from, to);
                free(copy);
            }
            return true;
        }
    }
    return false;
}

/* All the ways in which the list can hold. Recursion: as deep as choices lie within each other,
 * CONJ_MAX at most. */
static void choose(struct compiler *c, const struct conj *from_list, uint32_t from, uint32_t to)
{
    struct conj *list = malloc(sizeof *list);

    if (list == NULL) {
        vl_schema_no_memory(c);
        return;
    }
    *list = *from_list;
    expand(c, list);
    if (vl_schema_ok(c) && !list->never && !branch(c, list, from, to) && vl_schema_ok(c)) {
        if (++c->n_choices > CHOICES_MAX)
            vl_schema_fail(c, list->n > 0 ? list->items[0].place : 0, NULL,
                           "anyOf and oneOf make more than %d combinations", CHOICES_MAX);
        else
            vl_schema_values(c, list, from, to);
    }
    free(list);
}

/* ---- rules ---- */

static size_t bucket_of(const struct conj *list)
{
    uint64_t h = list->never;

    for (int i = 0; i < list->n; i++)
        h = (h ^ (uintptr_t)list->items[i].v.node) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 52) & 4095;
}

static bool same_list(const struct compiler *c, const struct rule_entry *e, const struct conj *list)
{
    bool same = e->n == (uint32_t)list->n;

    for (int i = 0; i < list->n && same; i++)
        same = c->lists[e->first + (uint32_t)i].v.node == list->items[i].v.node;
    return same;
}

uint32_t vl_schema_rule(struct compiler *c, const struct conj *list)
{
    size_t bucket = bucket_of(list);

    if (list->never || !vl_schema_ok(c))
        return 0;
    if (list->n == 0)
        return c->r.any;
    for (uint32_t i = c->buckets[bucket]; i != 0; i = c->rules[i].next) {
        if (same_list(c, &c->rules[i], list))
            return c->rules[i].state;
    }
    if (c->n_rules > RULES_MAX) {
        vl_schema_fail(c, list->items[0].place, NULL, "it is made of more than %d schemas",
                       RULES_MAX);
        return 0;
    }
    if (!vl_grow(&c->rules, &c->rules_cap, c->n_rules + 1, sizeof *c->rules) ||
        !vl_grow(&c->lists, &c->lists_cap, c->n_lists + (size_t)list->n, sizeof *c->lists)) {
        vl_schema_no_memory(c);
        return 0;
    }
    memcpy(c->lists + c->n_lists, list->items, (size_t)list->n * sizeof *c->lists);
    c->rules[c->n_rules] = (struct rule_entry){vl_grammar_state(c->r.g), (uint32_t)c->n_lists,
                                               (uint32_t)list->n, c->buckets[bucket]};
    c->n_lists += (size_t)list->n;
    c->buckets[bucket] = (uint32_t)c->n_rules;
    return c->rules[c->n_rules++].state;
}

/* Writes the rules that were asked for, which may ask for more. */
static void write_rules(struct compiler *c)
{
    struct conj *list = malloc(sizeof *list);

    if (list == NULL)
        vl_schema_no_memory(c);
    for (; vl_schema_ok(c) && c->n_done < c->n_rules; c->n_done++) {
        struct rule_entry e = c->rules[c->n_done];
        list->n = 0;
        list->n_expanded = 0;
        list->never = false;
        for (uint32_t i = 0; i < e.n; i++)
            list->items[list->n++] = c->lists[e.first + i];
        c->n_choices = 0;
        choose(c, list, e.state, c->r.end);
    }
    free(list);
}

vl_status vl_schema_compile(const struct vl_rules *r, vl_json schema, const char *path,
                            uint32_t from, uint32_t to, vl_error *err)
{
    struct compiler *c = calloc(1, sizeof *c);
    struct conj *list = calloc(1, sizeof *list);

    if (c == NULL || list == NULL || !vl_grow(&c->rules, &c->rules_cap, 1, sizeof *c->rules)) {
        free(c);
        free(list);
        return vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
    }
    c->r = *r;
    c->root = schema;
    c->path = path;
    c->err = err;
    c->rules[0] = (struct rule_entry){0};
    c->n_rules = c->n_done = 1;
    vl_schema_place(c, 0, (vl_bytes){NULL, 0}, 0); /* the root's place is 0 */
    vl_schema_add(c, list, schema, 0);
    uint32_t rule = vl_schema_rule(c, list);
    if (list->never)
        vl_schema_fail(c, 0, NULL, "the schema is false: no value matches it");
    write_rules(c);
    vl_grammar_call(r->g, from, rule, to);
    vl_status rc = c->status;
    free(c->places);
    free(c->rules);
    free(c->lists);
    free(c);
    free(list);
    return rc;
}
