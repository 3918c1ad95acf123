/* host/lib/options.h: texts to the values of a plugin's option table. Knows no file format: the
 * config reader hands over names and texts. [any] */
#ifndef VL_LIB_OPTIONS_H
#define VL_LIB_OPTIONS_H

#include "vallmo/plugin.h"

/* One value by its type and limits: "8GiB", "30s", "on". LIST: items separated by commas. PATH as
 * it stands. The value's text points to `text`, but for LIST, whose text is malloc'ed when *owned
 * is set (free it). An error says what is wanted. */
vl_status vl_option_parse(const vl_option *o, const char *text, vl_option_value *out, char **owned,
                          vl_error *err);

/* All values of a table: defaults, then the pairs "name=value" of settings. */
struct vl_option_set {
    vl_option_values values; /* what a plugin is given */
    vl_option_value *list;   /* owned */
    char **owned;            /* [n] texts that belong to the set */
};
/* VL_E_INVALID names the unknown key and the nearest known one, or the value that does not fit. */
vl_status vl_option_set_init(struct vl_option_set *set, const vl_option *options, size_t n,
                             const char *const *settings, size_t n_settings, vl_error *err);
void vl_option_set_fini(struct vl_option_set *set); /* a zeroed one is fine */

/* The known name nearest to `name`, or NULL when none is near enough to be meant. */
const char *vl_option_nearest(const vl_option *options, size_t n, const char *name);

#endif
