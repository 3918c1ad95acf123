/* host/lib/constrain/schema_value.c: what a list of schemas says about a value, and all kinds of
 * values but objects and arrays. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/lib/constrain/regex.h"
#include "host/lib/constrain/schema_private.h"

/* ---- reading ---- */

enum { READS = 20 }; /* members asked for of each schema, each time it is read */

static int kind_of_name(vl_json name)
{
    static const struct {
        const char *name;
        int kinds;
    } names[] = {{"null", KIND_NULL},       {"boolean", KIND_BOOLEAN},
                 {"integer", KIND_INTEGER}, {"number", KIND_INTEGER | KIND_FRACTION},
                 {"string", KIND_STRING},   {"array", KIND_ARRAY},
                 {"object", KIND_OBJECT}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (vl_json_str_eq(name, names[i].name))
            return names[i].kinds;
    }
    return 0;
}

static void read_type(struct compiler *c, struct shape *s, const struct conj_item *item)
{
    vl_json type = vl_json_get(item->v, "type");
    int kinds = kind_of_name(type);
    bool good = kinds != 0;

    if (!vl_json_exists(type))
        return;
    if (vl_json_is(type, VL_JSON_ARRAY)) {
        good = true;
        for (vl_json_iter it = vl_json_each(type); vl_json_next(&it);) {
            good = good && kind_of_name(it.value) != 0;
            kinds |= kind_of_name(it.value);
        }
    }
    if (!good)
        vl_schema_fail(
            c, item->place, "type",
            "want null, boolean, integer, number, string, array, object or a list of them");
    s->kinds &= kinds;
    s->has_type = true;
}

/* A count; the larger minimum and the smaller maximum hold. */
static void read_count(struct compiler *c, const struct conj_item *item, const char *word, int hint,
                       struct shape *s, uint64_t *value, bool most)
{
    vl_json v = vl_json_get(item->v, word);
    uint64_t n;

    if (!vl_json_exists(v))
        return;
    s->hints |= hint;
    s->beside_enum = word;
    if (!vl_json_u64(v, &n)) {
        vl_schema_fail(c, item->place, word, "want a whole number that is not negative");
        return;
    }
    if (most ? n < *value : n > *value)
        *value = n;
}

static void read_text(struct compiler *c, const struct conj_item *item, const char *word,
                      struct shape *s, vl_json *out, uint32_t *place)
{
    vl_json v = vl_json_get(item->v, word);

    if (!vl_json_exists(v))
        return;
    if (!vl_json_is(v, VL_JSON_STRING)) {
        vl_schema_fail(c, item->place, word, "want a string, not %s", vl_json_type_name(v));
        return;
    }
    vl_bytes a = vl_json_str_raw(v), b = vl_json_str_raw(*out);
    if (vl_json_exists(*out) && (a.len != b.len || memcmp(a.ptr, b.ptr, a.len) != 0))
        vl_schema_fail(c, item->place, word,
                       "a second %s holds here too; two at once are not supported", word);
    *out = v;
    *place = item->place;
    if (strcmp(word, "pattern") == 0 || !s->has_type)
        s->hints |= KIND_STRING;
    s->beside_enum = word;
}

/* One bound; a fraction is moved to the next whole number inside, which is the same for integers.
 */
static void read_bound(struct compiler *c, const struct conj_item *item, const char *word, bool low,
                       bool open, struct shape *s)
{
    vl_json v = vl_json_get(item->v, word);
    struct vl_bounds *b = &s->bounds;
    int64_t n = 0;
    double x = 0;
    bool whole = vl_json_i64(v, &n);

    if (!vl_json_exists(v))
        return;
    s->hints |= KIND_INTEGER | KIND_FRACTION;
    s->beside_enum = word;
    s->bounds_place = item->place;
    if (!whole && (!vl_json_f64(v, &x) || fabs(x) >= 9007199254740992.0)) {
        vl_schema_fail(c, item->place, word, "want a number of at most 64 bits");
        return;
    }
    if (!whole) {
        n = (int64_t)(low ? ceil(x) : floor(x));
        open = false;
        *(low ? &s->cut_low : &s->cut_high) = true;
    }
    if (low && (!b->has_low || n > b->low || (n == b->low && open))) {
        b->has_low = true;
        b->low = n;
        b->low_open = open;
    } else if (!low && (!b->has_high || n < b->high || (n == b->high && open))) {
        b->has_high = true;
        b->high = n;
        b->high_open = open;
    }
}

static void read_item(struct compiler *c, struct shape *s, const struct conj_item *item)
{
    static const char *const of_objects[] = {"properties", "required", "additionalProperties"};
    static const char *const of_arrays[] = {"items", "prefixItems"};

    vl_schema_work(c, item->place, READS * vl_json_count(item->v));
    read_type(c, s, item);
    read_count(c, item, "minLength", KIND_STRING, s, &s->min_length, false);
    read_count(c, item, "maxLength", KIND_STRING, s, &s->max_length, true);
    read_count(c, item, "minItems", KIND_ARRAY, s, &s->min_items, false);
    read_count(c, item, "maxItems", KIND_ARRAY, s, &s->max_items, true);
    read_text(c, item, "pattern", s, &s->pattern, &s->pattern_place);
    read_text(c, item, "format", s, &s->format, &s->format_place);
    read_bound(c, item, "minimum", true, false, s);
    read_bound(c, item, "exclusiveMinimum", true, true, s);
    read_bound(c, item, "maximum", false, false, s);
    read_bound(c, item, "exclusiveMaximum", false, true, s);
    s->has_enum = s->has_enum || vl_json_exists(vl_json_get(item->v, "enum")) ||
                  vl_json_exists(vl_json_get(item->v, "const"));
    for (size_t i = 0; i < 3; i++) {
        if (vl_json_exists(vl_json_get(item->v, of_objects[i]))) {
            s->hints |= KIND_OBJECT;
            s->beside_enum = of_objects[i];
        }
    }
    for (size_t i = 0; i < 2; i++) {
        if (vl_json_exists(vl_json_get(item->v, of_arrays[i]))) {
            s->hints |= KIND_ARRAY;
            s->beside_enum = of_arrays[i];
        }
    }
}

/* ---- enum and const ---- */

enum { BOTH_MAX = 1000 };

static int kind_of_value(vl_json v)
{
    int64_t n;
    vl_bytes raw = vl_json_raw(v);

    switch (v.node->type) {
    case VL_JSON_NULL:
        return KIND_NULL;
    case VL_JSON_FALSE:
    case VL_JSON_TRUE:
        return KIND_BOOLEAN;
    case VL_JSON_NUMBER:
        return vl_json_i64(v, &n) || (memchr(raw.ptr, '.', raw.len) == NULL &&
                                      memchr(raw.ptr, 'e', raw.len) == NULL &&
                                      memchr(raw.ptr, 'E', raw.len) == NULL)
                   ? KIND_INTEGER
                   : KIND_FRACTION;
    case VL_JSON_STRING:
        return KIND_STRING;
    case VL_JSON_ARRAY:
        return KIND_ARRAY;
    default:
        return KIND_OBJECT;
    }
}

/* A value as it will be written. */
static bool put_value(vl_buf *out, vl_json v)
{
    vl_buf_clear(out);
    vl_json_put(out, v, ", ", ": ", VL_JSON_PUT_RAW_NUMBERS);
    return !out->failed;
}

/* Whether an enum or const allows a value (given as text). */
static bool allows(vl_json values, bool is_list, const vl_buf *text, vl_buf *work)
{
    if (!is_list)
        return put_value(work, values) && work->len == text->len &&
               memcmp(work->ptr, text->ptr, text->len) == 0;
    for (vl_json_iter it = vl_json_each(values); vl_json_next(&it);) {
        if (put_value(work, it.value) && work->len == text->len &&
            memcmp(work->ptr, text->ptr, text->len) == 0)
            return true;
    }
    return false;
}

/* All enums and consts of the list allow it. */
static bool all_allow(const struct conj *list, const vl_buf *text, vl_buf *work)
{
    for (int i = 0; i < list->n; i++) {
        vl_json many = vl_json_get(list->items[i].v, "enum");
        vl_json one = vl_json_get(list->items[i].v, "const");
        if ((vl_json_exists(many) && !allows(many, true, text, work)) ||
            (vl_json_exists(one) && !allows(one, false, text, work)))
            return false;
    }
    return true;
}

/* The values to try: of the first enum or const. Checks all of them. */
static vl_json first_values(struct compiler *c, const struct conj *list, bool *is_list)
{
    vl_json found = {NULL, NULL};

    for (int i = 0; i < list->n; i++) {
        vl_json many = vl_json_get(list->items[i].v, "enum");
        vl_json one = vl_json_get(list->items[i].v, "const");
        if (vl_json_exists(many) && (!vl_json_is(many, VL_JSON_ARRAY) || vl_json_count(many) == 0))
            vl_schema_fail(c, list->items[i].place, "enum", "want an array with a value at least");
        if (found.node == NULL && vl_json_exists(one)) {
            found = one;
            *is_list = false;
        } else if (found.node == NULL && vl_json_exists(many)) {
            found = many;
            *is_list = true;
        }
    }
    return found;
}

static void put_enum(struct compiler *c, const struct conj *list, const struct shape *s,
                     uint32_t from, uint32_t to)
{
    bool is_list = false;
    int n_sources = 0;
    vl_json values = first_values(c, list, &is_list);
    size_t n = is_list ? vl_json_count(values) : 1, n_texts = 0;
    vl_bytes *texts = calloc(n + 1, sizeof *texts);
    vl_buf text = VL_BUF_INIT, work = VL_BUF_INIT;
    vl_json_iter it = vl_json_each(values);

    for (int i = 0; i < list->n; i++)
        n_sources += vl_json_exists(vl_json_get(list->items[i].v, "enum")) +
                     vl_json_exists(vl_json_get(list->items[i].v, "const"));
    bool several = n_sources > 1;
    if (several && n > BOTH_MAX)
        vl_schema_fail(c, list->items[0].place, "enum",
                       "%zu values where several enums hold at once; %d are supported", n,
                       BOTH_MAX);
    for (size_t i = 0; texts != NULL && i < n && vl_schema_ok(c); i++) {
        vl_json v = values;
        if (is_list) {
            vl_json_next(&it);
            v = it.value;
        }
        if ((kind_of_value(v) & s->kinds) == 0 || !put_value(&text, v) ||
            (several && !all_allow(list, &text, &work)))
            continue;
        size_t len = 0;
        char *copy = vl_buf_take(&text, &len);
        if (copy == NULL)
            vl_schema_no_memory(c);
        else
            texts[n_texts++] = (vl_bytes){copy, len};
    }
    if (texts == NULL || text.failed || work.failed)
        vl_schema_no_memory(c);
    if (vl_schema_ok(c))
        vl_grammar_texts(c->r.g, from, texts, n_texts, to);
    for (size_t i = 0; i < n_texts; i++)
        free((char *)(uintptr_t)texts[i].ptr);
    free(texts);
    vl_buf_fini(&text);
    vl_buf_fini(&work);
}

/* ---- strings and numbers ---- */

static void put_pattern(struct compiler *c, uint32_t place, const char *word, vl_bytes pattern,
                        const struct shape *s, uint32_t from, uint32_t to)
{
    vl_error err = {0};
    uint32_t max = s->max_length < UINT32_MAX ? (uint32_t)s->max_length : UINT32_MAX;

    if (s->min_length > VL_GRAMMAR_MAX_STATES) {
        vl_schema_fail(c, place, "minLength", "%llu is more than the %d that are supported",
                       (unsigned long long)s->min_length, VL_GRAMMAR_MAX_STATES);
        return;
    }
    vl_status rc = vl_regex_string(&c->r, from, pattern, (uint32_t)s->min_length, max, to, &err);
    if (rc == VL_E_NOMEM)
        vl_schema_no_memory(c);
    else if (rc != VL_OK)
        vl_schema_fail(c, place, word, "%s", err.text);
}

static void put_string(struct compiler *c, const struct shape *s, uint32_t from, uint32_t to)
{
    char name[32];
    bool has_format = vl_json_exists(s->format), has_pattern = vl_json_exists(s->pattern);
    const char *format =
        has_format && vl_json_str_copy(s->format, name, sizeof name) ? vl_regex_format(name) : NULL;
    vl_buf text = VL_BUF_INIT;

    if (has_format && format == NULL) {
        vl_schema_fail(c, s->format_place, "format",
                       "this format is not supported; date, time, date-time, uuid and email are");
    } else if (has_format && has_pattern) {
        vl_schema_fail(c, s->pattern_place, "pattern",
                       "a pattern beside a format is not supported");
    } else if (has_format) {
        put_pattern(c, s->format_place, "format", (vl_bytes){format, strlen(format)}, s, from, to);
    } else if (has_pattern) {
        if (vl_json_str(s->pattern, &text))
            put_pattern(c, s->pattern_place, "pattern",
                        (vl_bytes){text.ptr != NULL ? text.ptr : "", text.len}, s, from, to);
        else
            vl_schema_no_memory(c);
    } else if (s->min_length == 0 && s->max_length == UINT64_MAX) {
        vl_grammar_call(c->r.g, from, c->r.string, to);
    } else if (s->min_length <= s->max_length) {
        uint64_t max = s->max_length < UINT32_MAX ? s->max_length : UINT32_MAX;
        uint64_t n = max < UINT32_MAX ? max : s->min_length;
        if (n > VL_GRAMMAR_MAX_STATES)
            c->r.g->too_large = true;
        else
            vl_rules_counted_string(&c->r, from, (uint32_t)s->min_length, (uint32_t)max, to);
    }
    vl_buf_fini(&text);
}

static void put_number(struct compiler *c, const struct shape *s, uint32_t from, uint32_t to)
{
    bool bound = s->bounds.has_low || s->bounds.has_high;

    if ((s->kinds & KIND_FRACTION) == 0) {
        if (bound)
            vl_rules_integer(&c->r, from, &s->bounds, to);
        else
            vl_grammar_call(c->r.g, from, c->r.integer, to);
        return;
    }
    if (s->cut_low || s->cut_high)
        vl_schema_fail(c, s->bounds_place, s->cut_low ? "minimum" : "maximum",
                       "for type number only whole bounds are supported");
    if (bound)
        vl_rules_number(&c->r, from, &s->bounds, to);
    else
        vl_grammar_call(c->r.g, from, c->r.number, to);
}

/* ---- all ---- */

static void read_shape(struct compiler *c, const struct conj *list, struct shape *s)
{
    *s = (struct shape){.kinds = KIND_ALL, .max_length = UINT64_MAX, .max_items = UINT64_MAX};
    for (int i = 0; i < list->n && vl_schema_ok(c); i++)
        read_item(c, s, &list->items[i]);
    /* Without a type the keywords tell what is meant. */
    if (!s->has_type && !s->has_enum && s->hints != 0)
        s->kinds = s->hints;
}

void vl_schema_values(struct compiler *c, const struct conj *list, uint32_t from, uint32_t to)
{
    struct shape s;
    vl_grammar *g = c->r.g;

    read_shape(c, list, &s);
    if (!vl_schema_ok(c))
        return;
    if (s.has_enum) {
        if ((s.hints & s.kinds) != 0 && s.beside_enum != NULL) {
            vl_schema_fail(c, list->items[0].place, s.beside_enum,
                           "%s beside enum or const is not supported", s.beside_enum);
            return;
        }
        put_enum(c, list, &s, from, to);
        return;
    }
    if (s.kinds == KIND_ALL && s.hints == 0) {
        vl_grammar_call(g, from, c->r.any, to);
        return;
    }
    if ((s.kinds & KIND_NULL) != 0)
        vl_grammar_call(g, from, c->r.null, to);
    if ((s.kinds & KIND_BOOLEAN) != 0)
        vl_grammar_call(g, from, c->r.boolean, to);
    if ((s.kinds & (KIND_INTEGER | KIND_FRACTION)) != 0)
        put_number(c, &s, from, to);
    if ((s.kinds & KIND_STRING) != 0)
        put_string(c, &s, from, to);
    if ((s.kinds & KIND_ARRAY) != 0)
        vl_schema_array(c, list, &s, from, to);
    if ((s.kinds & KIND_OBJECT) != 0)
        vl_schema_object(c, list, from, to);
}
