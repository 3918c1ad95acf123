/* config/schema.c: see schema.h. Owns the values of option tables; must not know any option, file
 * or environment. */
#include "config/schema.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

static bool has_limits(const vl_option *o)
{
    return o->min != o->max;
}

int vl_option_find(const vl_option *options, size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
            return (int)i;
    return -1;
}

/* A whole number, digits with an optional sign; the rest of the text begins at *end. */
static bool read_i64(const char *text, const char **end, int64_t *out)
{
    char *stop = NULL;
    if (!(text[0] >= '0' && text[0] <= '9') &&
        !((text[0] == '-' || text[0] == '+') && text[1] >= '0' && text[1] <= '9'))
        return false;
    errno = 0;
    long long x = strtoll(text, &stop, 10);
    if (errno)
        return false;
    *out = x;
    *end = stop;
    return true;
}

static bool parse_bool(const char *s, int64_t *out)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < 4; i++) {
        if (strcasecmp(s, yes[i]) == 0) {
            *out = 1;
            return true;
        }
        if (strcasecmp(s, no[i]) == 0) {
            *out = 0;
            return true;
        }
    }
    return false;
}

/* A number of units: "64MiB", "1.5GiB", "250ms". False when the text is none or leaves the range of
 * int64. */
struct unit {
    const char *name;
    double factor;
};
static bool parse_units(const char *s, const struct unit *units, size_t n_units, int64_t *out)
{
    char *end = NULL;
    if (!(*s >= '0' && *s <= '9'))
        return false;
    double x = strtod(s, &end);
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < n_units; i++) {
        if (strcasecmp(end, units[i].name) != 0)
            continue;
        x = rint(x * units[i].factor);
        if (!(x >= 0 && x < 9e18))
            return false;
        *out = (int64_t)x;
        return true;
    }
    return false;
}

static bool parse_bytes(const char *s, int64_t *out)
{
    static const struct unit units[] = {
        {"", 1},         {"b", 1},      {"kib", 1024}, {"mib", 0x1p20}, {"gib", 0x1p30},
        {"tib", 0x1p40}, {"kb", 1e3},   {"mb", 1e6},   {"gb", 1e9},     {"tb", 1e12},
        {"k", 1024},     {"m", 0x1p20}, {"g", 0x1p30}};
    return parse_units(s, units, sizeof units / sizeof units[0], out);
}

static bool parse_duration(const char *s, int64_t *out)
{
    static const struct unit units[] = {
        {"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"min", 6e4}, {"h", 3.6e6}};
    if (strcmp(s, "0") == 0) {
        *out = 0;
        return true;
    }
    return parse_units(s, units, sizeof units / sizeof units[0], out);
}

static bool parse_enum(const char *choices, const char *s, int64_t *out)
{
    size_t len = strlen(s);
    int64_t index = 0;
    for (const char *c = choices; c; index++) {
        const char *bar = strchr(c, '|');
        size_t n = bar ? (size_t)(bar - c) : strlen(c);
        if (n == len && memcmp(c, s, n) == 0) {
            *out = index;
            return true;
        }
        c = bar ? bar + 1 : NULL;
    }
    return false;
}

static vl_status check_range(const vl_option *o, double x, const char *text, vl_error *err)
{
    if (!has_limits(o) || (x >= o->min && x <= o->max))
        return VL_OK;
    return vl_error_set(err, VL_E_RANGE, "%s: %s is out of range, want %.15g to %.15g", o->name,
                        text, o->min, o->max);
}

/* Text to number and real by the option's type; text is NUL-terminated. */
static vl_status convert(const vl_option *o, const char *text, vl_option_value *v, vl_error *err)
{
    const char *end = NULL;
    char *stop = NULL;
    switch (o->type) {
    case VL_OPT_BOOL:
        if (!parse_bool(text, &v->number))
            return vl_error_set(err, VL_E_INVALID, "%s: want true or false, got '%s'", o->name,
                                text);
        return VL_OK;
    case VL_OPT_INT:
        if (!read_i64(text, &end, &v->number) || *end)
            return vl_error_set(err, VL_E_INVALID, "%s: want a whole number, got '%s'", o->name,
                                text);
        v->real = (double)v->number;
        return check_range(o, v->real, text, err);
    case VL_OPT_FLOAT:
        v->real = strtod(text, &stop);
        if (stop == text || *stop || !isfinite(v->real))
            return vl_error_set(err, VL_E_INVALID, "%s: want a number, got '%s'", o->name, text);
        return check_range(o, v->real, text, err);
    case VL_OPT_ENUM:
        if (!parse_enum(o->choices, text, &v->number))
            return vl_error_set(err, VL_E_INVALID, "%s: want one of %s, got '%s'", o->name,
                                o->choices, text);
        return VL_OK;
    case VL_OPT_BYTES:
        if (!parse_bytes(text, &v->number))
            return vl_error_set(err, VL_E_INVALID,
                                "%s: want bytes, such as 1048576, 64MiB or 8GiB, got '%s'", o->name,
                                text);
        return check_range(o, (double)v->number, text, err);
    case VL_OPT_DURATION:
        if (!parse_duration(text, &v->number))
            return vl_error_set(err, VL_E_INVALID,
                                "%s: want a duration, such as 250ms, 30s or 5m, got '%s'", o->name,
                                text);
        return check_range(o, (double)v->number, text, err);
    default:
        return VL_OK;
    }
}

static void replace(vl_option_value *at, const vl_option_value *with)
{
    free((char *)(uintptr_t)at->text);
    *at = *with;
}

/* text must not contain NUL: the values of options are C strings for plugins. */
static vl_status store_text(const vl_option *o, vl_option_value *at, const char *text, size_t len,
                            const char *base_dir, vl_error *err)
{
    vl_option_value v = {0};
    vl_buf b = VL_BUF_INIT;
    if (memchr(text, 0, len))
        return vl_error_set(err, VL_E_INVALID, "%s: the value contains a NUL byte", o->name);
    if (o->type == VL_OPT_PATH && base_dir && len && text[0] != '/')
        vl_buf_printf(&b, "%s/", base_dir);
    vl_buf_append(&b, text, len);
    vl_buf_putc(&b, 0);
    if (b.failed) {
        vl_buf_fini(&b);
        return vl_error_set(err, VL_E_NOMEM, "%s: out of memory", o->name);
    }
    vl_status rc = convert(o, b.ptr, &v, err);
    if (rc != VL_OK) {
        vl_buf_fini(&b);
        return rc;
    }
    v.text_len = b.len - 1;
    v.text = b.ptr; /* handed over */
    v.is_set = 1;
    replace(at, &v);
    return VL_OK;
}

vl_status vl_values_set_items(vl_values *set, size_t i, const vl_bytes *items, size_t n_items,
                              vl_error *err)
{
    const vl_option *o = &set->options[i];
    vl_option_value v = {0};
    vl_buf b = VL_BUF_INIT;
    for (size_t k = 0; k < n_items; k++) {
        if (items[k].len == 0 || memchr(items[k].ptr, 0, items[k].len)) {
            vl_buf_fini(&b);
            return vl_error_set(err, VL_E_INVALID, "%s: item %zu is empty or contains a NUL byte",
                                o->name, k + 1);
        }
        vl_buf_append(&b, items[k].ptr, items[k].len);
        vl_buf_putc(&b, 0);
    }
    v.text_len = b.len;
    vl_buf_putc(&b, 0);
    if (b.failed) {
        vl_buf_fini(&b);
        return vl_error_set(err, VL_E_NOMEM, "%s: out of memory", o->name);
    }
    v.text = b.ptr;
    v.number = (int64_t)n_items;
    v.is_set = 1;
    replace(&set->values[i], &v);
    return VL_OK;
}

/* "a, b" to items. */
static vl_status store_list(vl_values *set, size_t i, const char *text, size_t len, vl_error *err)
{
    vl_bytes *items = NULL;
    size_t n = 0, cap = 0;
    const char *p = text, *end = text + len;
    vl_status rc = VL_OK;
    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma ? comma : end;
        const char *a = p, *z = stop;
        while (a < z && *a == ' ')
            a++;
        while (z > a && z[-1] == ' ')
            z--;
        if (z > a) {
            if (!vl_grow(&items, &cap, n + 1, sizeof *items)) {
                rc = vl_error_set(err, VL_E_NOMEM, "%s: out of memory", set->options[i].name);
                goto out;
            }
            items[n++] = (vl_bytes){a, (size_t)(z - a)};
        }
        p = stop + 1;
    }
    rc = vl_values_set_items(set, i, items, n, err);
out:
    free(items);
    return rc;
}

vl_status vl_values_set(vl_values *set, size_t i, const char *text, size_t len,
                        const char *base_dir, vl_error *err)
{
    if (set->options[i].type == VL_OPT_LIST)
        return store_list(set, i, text, len, err);
    return store_text(&set->options[i], &set->values[i], text, len, base_dir, err);
}

vl_status vl_values_init(vl_values *set, const vl_option *options, size_t n, vl_error *err)
{
    vl_values s = {options, n, NULL};
    s.values = calloc(n ? n : 1, sizeof *s.values);
    if (!s.values)
        return vl_error_set(err, VL_E_NOMEM, "out of memory for %zu options", n);
    for (size_t i = 0; i < n; i++) {
        if (!options[i].def)
            continue;
        vl_status rc = vl_values_set(&s, i, options[i].def, strlen(options[i].def), NULL, err);
        if (rc != VL_OK) {
            vl_values_fini(&s);
            vl_error_prefix(err, "the table's own default");
            return rc == VL_E_NOMEM ? rc : VL_E_INTERNAL;
        }
        s.values[i].is_set = 0;
    }
    *set = s;
    return VL_OK;
}

void vl_values_fini(vl_values *set)
{
    for (size_t i = 0; set->values && i < set->n; i++)
        free((char *)(uintptr_t)set->values[i].text);
    free(set->values);
    *set = (vl_values){NULL, 0, NULL};
}

vl_status vl_values_merge(vl_values *set, const vl_values *from, vl_error *err)
{
    for (size_t i = 0; i < set->n; i++) {
        const vl_option_value *f = &from->values[i];
        if (!f->is_set)
            continue;
        vl_option_value v = *f;
        size_t bytes = (size_t)f->text_len + 1;
        char *copy = malloc(bytes);
        if (!copy)
            return vl_error_set(err, VL_E_NOMEM, "%s: out of memory", set->options[i].name);
        memcpy(copy, f->text, bytes);
        v.text = copy;
        replace(&set->values[i], &v);
    }
    return VL_OK;
}

vl_option_values vl_values_view(const vl_values *set)
{
    return (vl_option_values){sizeof(vl_option_values), (uint32_t)set->n, set->values};
}

const char *vl_option_next(const vl_option_value *v, const char *previous)
{
    if (!v->text || v->text_len == 0)
        return NULL;
    const char *next = previous ? previous + strlen(previous) + 1 : v->text;
    return next < v->text + v->text_len ? next : NULL;
}
