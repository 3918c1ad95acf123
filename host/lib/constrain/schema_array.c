/* host/lib/constrain/schema_array.c: arrays: prefixItems, items, counts. */
#include <stdlib.h>

#include "host/lib/constrain/schema_private.h"

/* Checked form of the keywords of one schema. */
static void check_items(struct compiler *c, const struct conj *list)
{
    for (int i = 0; i < list->n; i++) {
        vl_json prefix = vl_json_get(list->items[i].v, "prefixItems");
        if (vl_json_exists(prefix) && !vl_json_is(prefix, VL_JSON_ARRAY))
            vl_schema_fail(c, list->items[i].place, "prefixItems", "want an array of schemas");
        if (vl_json_is(vl_json_get(list->items[i].v, "items"), VL_JSON_ARRAY))
            vl_schema_fail(c, list->items[i].place, "items",
                           "a list of schemas is not supported here; prefixItems is");
    }
}

/* The rule of element `at`; 0: nothing matches. */
static uint32_t element_rule(struct compiler *c, const struct conj *list, size_t at,
                             struct conj *value)
{
    value->n = 0;
    value->n_expanded = 0;
    value->never = false;
    for (int i = 0; i < list->n && vl_schema_ok(c); i++) {
        const struct conj_item *item = &list->items[i];
        vl_json prefix = vl_json_get(item->v, "prefixItems");
        vl_json rest = vl_json_get(item->v, "items");
        vl_schema_work(c, item->place, vl_json_count(item->v) + at);
        if (at < vl_json_count(prefix)) {
            uint32_t place = vl_schema_place(c, item->place, (vl_bytes){"prefixItems", 11}, 0);
            vl_schema_add(c, value, vl_json_at(prefix, at),
                          vl_schema_place(c, place, (vl_bytes){NULL, 0}, (uint32_t)at));
        } else if (vl_json_exists(rest)) {
            vl_schema_add(c, value, rest,
                          vl_schema_place(c, item->place, (vl_bytes){"items", 5}, 0));
        }
    }
    return vl_schema_ok(c) ? vl_schema_rule(c, value) : 0;
}

void vl_schema_array(struct compiler *c, const struct conj *list, const struct shape *s,
                     uint32_t from, uint32_t to)
{
    vl_grammar *g = c->r.g;
    struct conj *value = malloc(sizeof *value);
    uint32_t open = vl_grammar_state(g), before = vl_grammar_state(g), close = vl_grammar_state(g);
    size_t n_prefix = 0;

    check_items(c, list);
    if (value == NULL)
        vl_schema_no_memory(c);
    for (int i = 0; i < list->n; i++) {
        size_t n = vl_json_count(vl_json_get(list->items[i].v, "prefixItems"));
        n_prefix = n > n_prefix ? n : n_prefix;
    }
    vl_grammar_byte(g, from, '[', '[', open);
    vl_grammar_call(g, open, c->r.space, before);
    vl_grammar_byte(g, close, ']', ']', to);
    if (s->min_items == 0)
        vl_grammar_byte(g, before, ']', ']', to);
    /* before: where element i begins; behind: where it has ended. */
    uint32_t rest = 0;
    for (uint64_t i = 0; vl_schema_ok(c) && i < s->max_items; i++) {
        bool loop = i >= n_prefix && i + 1 >= s->min_items && s->max_items == UINT64_MAX;
        if (i <= n_prefix)
            rest = element_rule(c, list, (size_t)i, value);
        if (rest == 0)
            break;
        uint32_t behind = vl_grammar_state(g), comma = vl_grammar_state(g);
        uint32_t next = vl_grammar_state(g);
        vl_grammar_call(g, before, rest, behind);
        if (i + 1 >= s->min_items)
            vl_grammar_call(g, behind, c->r.space, close);
        vl_grammar_byte(g, behind, ',', ',', comma);
        vl_grammar_call(g, comma, c->r.space, next);
        if (loop) {
            vl_grammar_call(g, next, rest, behind);
            break;
        }
        before = next;
    }
    free(value);
}
