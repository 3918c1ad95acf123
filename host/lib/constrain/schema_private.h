/* host/lib/constrain/schema_private.h: what schema.c (which schemas hold at a place) and the files
 * that write values (schema_value.c, schema_object.c, schema_array.c) share.
 *
 * At each place of a value several schemas may hold at once: a schema, what it refers to, the parts
 * of its allOf, one choice of its anyOf. Such a list is a `conj`; a rule of the grammar is made
 * once for each list. */
#ifndef VL_CONSTRAIN_SCHEMA_PRIVATE_H
#define VL_CONSTRAIN_SCHEMA_PRIVATE_H

#include "base/buf.h"
#include "base/error.h"
#include "host/lib/constrain/schema.h"

enum {
    KIND_NULL = 1,
    KIND_BOOLEAN = 2,
    KIND_INTEGER = 4,
    KIND_FRACTION = 8, /* numbers that are no integers; type number is both */
    KIND_STRING = 16,
    KIND_ARRAY = 32,
    KIND_OBJECT = 64,
    KIND_ALL = 127
};

enum {
    CONJ_MAX = 48,
    PROPERTIES_MAX = 4096,
    RULES_MAX = 20000,
    CHOICES_MAX = 4096,
    WORK_MAX = 30000000
};

/* Where a schema stands: for errors. */
struct place {
    uint32_t parent;
    uint32_t index; /* of an element, when key is empty */
    vl_bytes key;   /* raw, of the document; or a literal of ours */
};
struct conj_item {
    vl_json v;
    uint32_t place;
    int32_t by; /* the item that brought it in; -1: none */
    bool any_done, one_done;
};
struct conj {
    struct conj_item items[CONJ_MAX];
    int n, n_expanded;
    bool never; /* false is among them */
};

/* All that the schemas of a list say, but for what object and array read from the list themselves.
 */
struct shape {
    int kinds;
    int hints; /* kinds that keywords speak of */
    bool has_type, has_enum;
    uint64_t min_length, max_length, min_items, max_items; /* UINT64_MAX: none */
    vl_json pattern, format;
    uint32_t pattern_place, format_place;
    struct vl_bounds bounds;
    bool cut_low, cut_high; /* the bound was no whole number and was moved to the next */
    uint32_t bounds_place;
    const char *beside_enum; /* a keyword that enum can't stand beside here */
};

struct rule_entry {
    uint32_t state;
    uint32_t first, n; /* in `lists` */
    uint32_t next;     /* same hash; 0: none */
};

struct compiler {
    struct vl_rules r;
    vl_json root;
    const char *path;
    vl_error *err;
    vl_status status;
    struct place *places; /* 0: the root */
    size_t n_places, places_cap;
    struct rule_entry *rules; /* 0: none */
    size_t n_rules, rules_cap, n_done;
    struct conj_item *lists;
    size_t n_lists, lists_cap;
    uint32_t buckets[4096];
    uint32_t n_choices; /* of the rule that is being written */
    uint64_t work;      /* members looked at, all in all */
};

/* Fails with "PATH: text"; keyword NULL: the place itself. */
void vl_schema_fail(struct compiler *c, uint32_t place, const char *keyword, const char *fmt, ...)
    VL_PRINTF(4, 5);
void vl_schema_no_memory(struct compiler *c);
uint32_t vl_schema_place(struct compiler *c, uint32_t parent, vl_bytes key, uint32_t index);
/* Adds a schema to a list that becomes a rule. */
void vl_schema_add(struct compiler *c, struct conj *list, vl_json v, uint32_t place);
/* Counts members that are looked at; fails past WORK_MAX. Look-ups are linear: this bounds the time
 * a hostile schema can take. */
void vl_schema_work(struct compiler *c, uint32_t place, uint64_t members);
/* The rule of a list. */
uint32_t vl_schema_rule(struct compiler *c, const struct conj *list);

/* What follows writes into the grammar: from, the value, to. */
void vl_schema_values(struct compiler *c, const struct conj *list, uint32_t from, uint32_t to);
void vl_schema_object(struct compiler *c, const struct conj *list, uint32_t from, uint32_t to);
void vl_schema_array(struct compiler *c, const struct conj *list, const struct shape *s,
                     uint32_t from, uint32_t to);

static inline bool vl_schema_ok(const struct compiler *c)
{
    return c->status == VL_OK && !c->r.g->failed && !c->r.g->too_large;
}

#endif
