/* host/lib/options.c: parsing option values. Numbers are read without the locale's decimal point.
 */
#include "host/lib/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

/* The C locale's strtod, whatever the program set. The object lives until exit. */
static double number_of(const char *text, char **end)
{
    static locale_t c_locale;
    locale_t l = __atomic_load_n(&c_locale, __ATOMIC_ACQUIRE);

    if (l == (locale_t)0) {
        l = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        locale_t none = (locale_t)0;
        if (l == (locale_t)0)
            return strtod(text, end);
        if (!__atomic_compare_exchange_n(&c_locale, &none, l, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            freelocale(l);
            l = none;
        }
    }
    return strtod_l(text, end, l);
}

static vl_status bad(vl_error *err, const vl_option *o, const char *text, const char *want)
{
    return vl_error_set(err, VL_E_INVALID, "%s: \"%s\" is not %s", o->name, text, want);
}

static vl_status check_limits(const vl_option *o, double x, const char *text, vl_error *err)
{
    if (o->min != o->max && (x < o->min || x > o->max))
        return vl_error_set(err, VL_E_INVALID, "%s: %s is out of range: %.17g to %.17g", o->name,
                            text, o->min, o->max);
    return VL_OK;
}

static vl_status parse_bool(const vl_option *o, const char *text, vl_option_value *v, vl_error *err)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};

    for (size_t i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            v->number = strcmp(text, yes[i]) == 0;
            return VL_OK;
        }
    }
    return bad(err, o, text, "true or false");
}

static vl_status parse_int(const vl_option *o, const char *text, vl_option_value *v, vl_error *err)
{
    char *end;

    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno == ERANGE || isspace((unsigned char)*text))
        return bad(err, o, text, "a whole number");
    v->number = n;
    v->real = (double)n;
    return check_limits(o, (double)n, text, err);
}

static vl_status parse_float(const vl_option *o, const char *text, vl_option_value *v,
                             vl_error *err)
{
    char *end;
    double x = number_of(text, &end);

    if (end == text || *end != '\0' || !isfinite(x) || isspace((unsigned char)*text))
        return bad(err, o, text, "a number");
    v->real = x;
    return check_limits(o, x, text, err);
}

/* A number with a unit: BYTES ("64MiB", "8GB") and DURATION ("250ms"; without a unit: seconds). */
static vl_status parse_unit(const vl_option *o, const char *text, vl_option_value *v, vl_error *err)
{
    static const struct unit {
        const char *name;
        double factor;
    } bytes[] = {{"", 1},
                 {"B", 1},
                 {"KiB", 1024.0},
                 {"MiB", 1048576.0},
                 {"GiB", 1073741824.0},
                 {"TiB", 1099511627776.0},
                 {"kB", 1e3},
                 {"KB", 1e3},
                 {"MB", 1e6},
                 {"GB", 1e9},
                 {"TB", 1e12},
                 {"K", 1024.0},
                 {"M", 1048576.0},
                 {"G", 1073741824.0},
                 {NULL, 0}},
      times[] = {{"", 1e3},    {"ms", 1},    {"s", 1e3}, {"m", 6e4},
                 {"min", 6e4}, {"h", 3.6e6}, {NULL, 0}};
    bool is_bytes = o->type == VL_OPT_BYTES;
    const char *want = is_bytes ? "a size (1048576, 64MiB, 8GiB)" : "a duration (250ms, 30s, 5m)";
    char *end;
    double x = number_of(text, &end);

    if (end == text || !isfinite(x) || x < 0 || isspace((unsigned char)*text))
        return bad(err, o, text, want);
    while (*end == ' ')
        end++;
    for (const struct unit *u = is_bytes ? bytes : times; u->name != NULL; u++) {
        if (strcmp(u->name, end) != 0)
            continue;
        x *= u->factor;
        if (x >= 9.2e18)
            return bad(err, o, text, want);
        v->number = (int64_t)x;
        v->real = x;
        return check_limits(o, x, text, err);
    }
    return bad(err, o, text, want);
}

static vl_status parse_enum(const vl_option *o, const char *text, vl_option_value *v, vl_error *err)
{
    int64_t index = 0;
    size_t len = strlen(text);
    char want[256];

    for (const char *at = o->choices; at != NULL; index++) {
        const char *bar = strchr(at, '|');
        size_t n = bar != NULL ? (size_t)(bar - at) : strlen(at);
        if (n == len && memcmp(at, text, n) == 0) {
            v->number = index;
            return VL_OK;
        }
        at = bar != NULL ? bar + 1 : NULL;
    }
    snprintf(want, sizeof want, "one of %s", o->choices != NULL ? o->choices : "(none)");
    return bad(err, o, text, want);
}

static vl_status parse_list(const vl_option *o, const char *text, vl_option_value *v, char **owned,
                            vl_error *err)
{
    vl_buf b = VL_BUF_INIT;
    const char *at = text;

    while (*at != '\0') {
        size_t n = strcspn(at, ",");
        size_t from = 0, to = n;
        while (from < to && at[from] == ' ')
            from++;
        while (to > from && at[to - 1] == ' ')
            to--;
        vl_buf_append(&b, at + from, to - from);
        vl_buf_putc(&b, '\0');
        at += n + (at[n] == ',');
    }
    vl_buf_putc(&b, '\0');
    size_t len;
    char *list = vl_buf_take(&b, &len);
    if (list == NULL)
        return vl_error_set(err, VL_E_NOMEM, "%s: out of memory", o->name);
    *owned = list;
    v->text = list;
    v->text_len = len - 1;
    return VL_OK;
}

vl_status vl_option_parse(const vl_option *o, const char *text, vl_option_value *out, char **owned,
                          vl_error *err)
{
    vl_option_value v = {.text = text, .text_len = strlen(text)};
    vl_status rc = VL_OK;

    *owned = NULL;
    switch (o->type) {
    case VL_OPT_BOOL:
        rc = parse_bool(o, text, &v, err);
        break;
    case VL_OPT_INT:
        rc = parse_int(o, text, &v, err);
        break;
    case VL_OPT_FLOAT:
        rc = parse_float(o, text, &v, err);
        break;
    case VL_OPT_ENUM:
        rc = parse_enum(o, text, &v, err);
        break;
    case VL_OPT_BYTES:
    case VL_OPT_DURATION:
        rc = parse_unit(o, text, &v, err);
        break;
    case VL_OPT_LIST:
        rc = parse_list(o, text, &v, owned, err);
        break;
    default:
        break;
    }
    if (rc == VL_OK)
        *out = v;
    return rc;
}

/* Edit distance of two short names, at most `most`, counting a swap of neighbours as one. */
static size_t distance(const char *a, const char *b, size_t most)
{
    size_t rows[3][64];
    size_t n = strlen(a), m = strlen(b);

    if (n >= 64 || m >= 64 || n > m + most || m > n + most)
        return most + 1;
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        above[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t d = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < d)
                d = above[j] + 1;
            if (row[j - 1] + 1 < d)
                d = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < d)
                d = before[j - 2] + 1;
            row[j] = d;
        }
        size_t *t = before;
        before = above;
        above = row;
        row = t;
    }
    return above[m];
}

const char *vl_option_nearest(const vl_option *options, size_t n, const char *name)
{
    size_t best = strlen(name) / 3 + 1;
    const char *found = NULL;

    for (size_t i = 0; i < n; i++) {
        size_t d = distance(options[i].name, name, best);
        if (d <= best && (found == NULL || d < best)) {
            best = d;
            found = options[i].name;
        }
    }
    return found;
}

static vl_status set_one(struct vl_option_set *set, size_t i, const vl_option *o, const char *text,
                         bool is_set, vl_error *err)
{
    char *owned = NULL;
    vl_option_value v;
    vl_status rc = vl_option_parse(o, text, &v, &owned, err);

    if (rc != VL_OK)
        return rc;
    if (owned == NULL) {
        owned = strdup(text);
        if (owned == NULL)
            return vl_error_set(err, VL_E_NOMEM, "%s: out of memory", o->name);
        v.text = owned;
    }
    free(set->owned[i]);
    set->owned[i] = owned;
    v.is_set = is_set;
    set->list[i] = v;
    return VL_OK;
}

static vl_status apply_setting(struct vl_option_set *set, const vl_option *options, size_t n,
                               const char *setting, vl_error *err)
{
    const char *eq = strchr(setting, '=');
    char name[64];

    if (eq == NULL || eq == setting || (size_t)(eq - setting) >= sizeof name)
        return vl_error_set(err, VL_E_INVALID, "\"%s\" is not name=value", setting);
    memcpy(name, setting, (size_t)(eq - setting));
    name[eq - setting] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (strcmp(options[i].name, name) == 0)
            return set_one(set, i, &options[i], eq + 1, true, err);
    }
    const char *near = vl_option_nearest(options, n, name);
    if (near != NULL)
        return vl_error_set(err, VL_E_INVALID, "%s: no such option; the nearest is %s", name, near);
    return vl_error_set(err, VL_E_INVALID, "%s: no such option", name);
}

vl_status vl_option_set_init(struct vl_option_set *set, const vl_option *options, size_t n,
                             const char *const *settings, size_t n_settings, vl_error *err)
{
    vl_status rc = VL_OK;

    memset(set, 0, sizeof *set);
    set->list = calloc(n + 1, sizeof *set->list);
    set->owned = calloc(n + 1, sizeof *set->owned);
    if (set->list == NULL || set->owned == NULL) {
        vl_option_set_fini(set);
        return vl_error_set(err, VL_E_NOMEM, "options: out of memory");
    }
    set->values.struct_size = sizeof set->values;
    set->values.n_values = (uint32_t)n;
    set->values.values = set->list;
    for (size_t i = 0; i < n && rc == VL_OK; i++) {
        if (options[i].def != NULL)
            rc = set_one(set, i, &options[i], options[i].def, false, err);
    }
    for (size_t i = 0; i < n_settings && rc == VL_OK; i++)
        rc = apply_setting(set, options, n, settings[i], err);
    for (size_t i = 0; i < n && rc == VL_OK; i++) {
        if ((options[i].flags & VL_OPT_REQUIRED) != 0 && set->list[i].text == NULL)
            rc = vl_error_set(err, VL_E_INVALID, "%s: a value is needed", options[i].name);
    }
    if (rc != VL_OK)
        vl_option_set_fini(set);
    return rc;
}

void vl_option_set_fini(struct vl_option_set *set)
{
    for (size_t i = 0; set->owned != NULL && i < set->values.n_values; i++)
        free(set->owned[i]);
    free(set->owned);
    free(set->list);
    memset(set, 0, sizeof *set);
}
