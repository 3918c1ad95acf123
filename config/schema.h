/* config/schema.h: option tables (vl_option) and the values they give: text to a checked value,
 * defaults, documentation, the nearest known name for a misspelt one. Knows no file format and no
 * option by name. Not shared between threads while it is written. */
#ifndef VL_CONFIG_SCHEMA_H
#define VL_CONFIG_SCHEMA_H

#include <stdbool.h>

#include "base/buf.h"
#include "vallmo/plugin.h"

/* The values of one option table; values[i] belongs to options[i]. */
typedef struct vl_values {
    const vl_option *options; /* borrowed: static tables */
    size_t n;
    vl_option_value *values; /* [n], owned; each text is owned */
} vl_values;

/* Every value its default. VL_E_INTERNAL if the table itself is wrong (a default that does not
 * parse). */
vl_status vl_values_init(vl_values *set, const vl_option *options, size_t n, vl_error *err);
void vl_values_fini(vl_values *set); /* a zeroed set is fine */
/* All written values of `from` (same table) over those of set. */
vl_status vl_values_merge(vl_values *set, const vl_values *from, vl_error *err);

/* Index of the option with this name, or -1. */
int vl_option_find(const vl_option *options, size_t n, const char *name, size_t len);

/* Checks text by option i and stores it. base_dir: what a relative PATH is relative to; NULL: leave
 * it. A LIST takes one comma-separated text. On failure the value is untouched; the text says what
 * is wanted and what came. */
vl_status vl_values_set(vl_values *set, size_t i, const char *text, size_t len,
                        const char *base_dir, vl_error *err);
/* A LIST from its items. */
vl_status vl_values_set_items(vl_values *set, size_t i, const vl_bytes *items, size_t n_items,
                              vl_error *err);

/* What the vtables take; borrowed from set. */
vl_option_values vl_values_view(const vl_values *set);

/* Items of a LIST: for (const char *s = NULL; (s = vl_option_next(v, s));) */
const char *vl_option_next(const vl_option_value *v, const char *previous);

/* Documentation as YAML comments and keys, each with its default, indented by `indent` spaces. */
void vl_options_print_yaml(vl_buf *out, const vl_option *options, size_t n, int indent);
/* Documentation as a Markdown table. */
void vl_options_print_markdown(vl_buf *out, const vl_option *options, size_t n);

/* The known name nearest to `name`, or NULL when none is near: an edit or two away, or the longest
 * one that begins with it. next(user, k) gives the k-th known name, NULL behind the last. */
typedef const char *(*vl_name_fn)(const void *user, size_t k);
const char *vl_name_nearest(const char *name, size_t len, vl_name_fn next, const void *user);

#endif
