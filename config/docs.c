/* config/docs.c: what option tables say about themselves (YAML comments, Markdown), and the nearest
 * known name. Must not know any option by name. */
#include <stdlib.h>
#include <string.h>

#include "config/schema.h"

static const char *type_name(const vl_option *o)
{
    static const char *const names[] = {"true or false", "whole number", "number", "text", "choice",
                                        "bytes",         "duration",     "path",   "list"};
    return o->type >= 0 && o->type < 9 ? names[o->type] : "?";
}

/* "whole number, 1 to 64" or "one of auto|cpu". */
static void put_type(vl_buf *out, const vl_option *o)
{
    if (o->type == VL_OPT_ENUM) {
        vl_buf_printf(out, "one of %s", o->choices);
        return;
    }
    vl_buf_puts(out, type_name(o));
    if (o->min == o->max)
        return;
    const char *unit = o->type == VL_OPT_BYTES ? " bytes" : o->type == VL_OPT_DURATION ? " ms" : "";
    vl_buf_printf(out, ", %.15g to %.15g%s", o->min, o->max, unit);
}

void vl_options_print_yaml(vl_buf *out, const vl_option *options, size_t n, int indent)
{
    for (size_t i = 0; i < n; i++) {
        const vl_option *o = &options[i];
        vl_buf_printf(out, "%*s# %s (", indent, "", o->help);
        put_type(out, o);
        vl_buf_puts(out, ")\n");
        if (!o->def)
            vl_buf_printf(out, "%*s#%s:\n", indent, "", o->name);
        else if (o->type == VL_OPT_LIST)
            vl_buf_printf(out, "%*s%s: [%s]\n", indent, "", o->name, o->def);
        else if (!*o->def || strpbrk(o->def, ":#{}[]*&!|>'\"%@`,"))
            vl_buf_printf(out, "%*s%s: \"%s\"\n", indent, "", o->name, o->def);
        else
            vl_buf_printf(out, "%*s%s: %s\n", indent, "", o->name, o->def);
    }
}

static void put_cell(vl_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            vl_buf_putc(out, '\\');
        vl_buf_putc(out, *text);
    }
}

void vl_options_print_markdown(vl_buf *out, const vl_option *options, size_t n)
{
    vl_buf type = VL_BUF_INIT;
    vl_buf_puts(out, "| key | value | default | what it does |\n|---|---|---|---|\n");
    for (size_t i = 0; i < n; i++) {
        const vl_option *o = &options[i];
        vl_buf_clear(&type);
        put_type(&type, o);
        vl_buf_printf(out, "| `%s` | ", o->name);
        put_cell(out, type.ptr ? type.ptr : "");
        vl_buf_puts(out, " | ");
        if (o->def && *o->def) {
            vl_buf_putc(out, '`');
            put_cell(out, o->def);
            vl_buf_putc(out, '`');
        }
        vl_buf_puts(out, " | ");
        put_cell(out, o->help);
        vl_buf_puts(out, " |\n");
    }
    vl_buf_fini(&type);
}

/* ---- nearest name ---- */

enum { NAME_CAP = 64 };

/* Edits (insert, drop, change, swap of neighbours) from a to b; both at most NAME_CAP long. */
static int edits(const char *a, size_t n, const char *b, size_t m)
{
    int rows[3][NAME_CAP + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = rows[i % 3], *up = rows[(i - 1) % 3], *up2 = rows[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = up[j - 1] + (a[i - 1] != b[j - 1]);
            best = up[j] + 1 < best ? up[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *vl_name_nearest(const char *name, size_t len, vl_name_fn next, const void *user)
{
    const char *best = NULL, *known;
    int best_edits = len < 4 ? 2 : 3; /* one less than this is near enough */
    if (len == 0 || len > NAME_CAP)
        return NULL;
    for (size_t k = 0; (known = next(user, k)); k++) {
        size_t m = strlen(known);
        if (m > NAME_CAP)
            continue;
        int d = edits(name, len, known, m);
        if (d < best_edits) {
            best_edits = d;
            best = known;
        }
    }
    if (best || len < 3)
        return best;
    for (size_t k = 0; (known = next(user, k)); k++) {
        size_t m = strlen(known);
        bool begins = m > len && memcmp(known, name, len) == 0;
        bool begun = m >= 4 && m < len && memcmp(known, name, m) == 0;
        if ((begins || begun) && (!best || m > strlen(best)))
            best = known;
    }
    return best;
}
