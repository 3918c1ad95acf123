/* base/json_write.c: JSON text out: strings, numbers as Python writes them, whole values again. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

void vl_json_put_escaped(vl_buf *out, const char *text, size_t len)
{
    size_t i = 0;

    while (i < len) {
        size_t run = i;
        while (run < len) {
            unsigned char c = (unsigned char)text[run];
            if (c < 0x20 || c == '"' || c == '\\' || c >= 0x80)
                break;
            run++;
        }
        vl_buf_append(out, text + i, run - i);
        i = run;
        if (i >= len)
            break;
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x80) {
            uint32_t cp;
            int n = vl_utf8_next(text + i, len - i, &cp);
            if (n == 0 || cp == UINT32_MAX) {
                vl_buf_puts(out, "\xef\xbf\xbd");
                i = n == 0 ? len : i + (size_t)n;
            } else {
                vl_buf_append(out, text + i, (size_t)n);
                i += (size_t)n;
            }
            continue;
        }
        switch (c) {
        case '"':
            vl_buf_puts(out, "\\\"");
            break;
        case '\\':
            vl_buf_puts(out, "\\\\");
            break;
        case '\n':
            vl_buf_puts(out, "\\n");
            break;
        case '\r':
            vl_buf_puts(out, "\\r");
            break;
        case '\t':
            vl_buf_puts(out, "\\t");
            break;
        case '\b':
            vl_buf_puts(out, "\\b");
            break;
        case '\f':
            vl_buf_puts(out, "\\f");
            break;
        default:
            vl_buf_printf(out, "\\u%04x", c);
            break;
        }
        i++;
    }
}

void vl_json_put_str(vl_buf *out, const char *text, size_t len)
{
    vl_buf_putc(out, '"');
    vl_json_put_escaped(out, text, len);
    vl_buf_putc(out, '"');
}

void vl_json_put_i64(vl_buf *out, int64_t x)
{
    vl_buf_printf(out, "%" PRId64, x);
}

void vl_json_put_f64(vl_buf *out, double x)
{
    char text[40], digits[24];
    int n = 0, precision;

    if (!isfinite(x)) {
        vl_buf_puts(out, "null");
        return;
    }
    if (x == 0) {
        vl_buf_puts(out, signbit(x) ? "-0.0" : "0.0");
        return;
    }
    /* %e prints d.ddde±XX; its point is the locale's, so only digits and exponent are taken from
     * it. */
    for (precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof(text), "%.*e", precision, x);
        if (strtod(text, NULL) == x)
            break;
    }
    const char *e = strchr(text, 'e');
    for (const char *c = text; c < e; c++) {
        if (*c >= '0' && *c <= '9')
            digits[n++] = *c;
    }
    int exponent = (int)strtol(e + 1, NULL, 10);
    if (x < 0)
        vl_buf_putc(out, '-');
    if (exponent >= 16 || exponent < -4) {
        vl_buf_putc(out, digits[0]);
        if (n > 1) {
            vl_buf_putc(out, '.');
            vl_buf_append(out, digits + 1, (size_t)n - 1);
        }
        vl_buf_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        vl_buf_puts(out, "0.");
        for (int i = -1; i > exponent; i--)
            vl_buf_putc(out, '0');
        vl_buf_append(out, digits, (size_t)n);
    } else {
        for (int i = 0; i <= exponent; i++)
            vl_buf_putc(out, i < n ? digits[i] : '0');
        vl_buf_putc(out, '.');
        if (n > exponent + 1)
            vl_buf_append(out, digits + exponent + 1, (size_t)(n - exponent - 1));
        else
            vl_buf_putc(out, '0');
    }
}

static void put_scalar(vl_buf *out, vl_json v, uint32_t flags)
{
    vl_bytes raw = vl_json_raw(v);

    if (v.node->type == VL_JSON_STRING && v.node->escaped) {
        vl_buf text = VL_BUF_INIT;
        if (!vl_json_str(v, &text))
            out->failed = true;
        vl_json_put_str(out, text.ptr, text.len);
        vl_buf_fini(&text);
    } else if (v.node->type == VL_JSON_NUMBER && !(flags & VL_JSON_PUT_RAW_NUMBERS)) {
        double x;
        bool real = memchr(raw.ptr, '.', raw.len) || memchr(raw.ptr, 'e', raw.len) ||
                    memchr(raw.ptr, 'E', raw.len);
        if (real && vl_json_f64(v, &x))
            vl_json_put_f64(out, x);
        else if (raw.len == 2 && memcmp(raw.ptr, "-0", 2) == 0)
            vl_buf_putc(out, '0'); /* Python's integers have one zero */
        else
            vl_buf_append(out, raw.ptr, raw.len);
    } else {
        vl_buf_append(out, raw.ptr, raw.len);
    }
}

void vl_json_put(vl_buf *out, vl_json v, const char *item_sep, const char *key_sep, uint32_t flags)
{
    /* Nodes lie in document order: walk them and close what ends. `open` holds the containers on
     * the way. */
    size_t n_open = 0, cap = 0;
    vl_json_iter *open = NULL;

    for (;;) {
        if (v.node && v.node->type >= VL_JSON_ARRAY) {
            if (!vl_grow(&open, &cap, n_open + 1, sizeof(*open))) {
                out->failed = true;
                break;
            }
            open[n_open++] = vl_json_each(v);
            vl_buf_putc(out, v.node->type == VL_JSON_OBJECT ? '{' : '[');
        } else if (v.node) {
            put_scalar(out, v, flags);
        }
        while (n_open > 0 && open[n_open - 1].left == 0) {
            vl_buf_putc(out, open[n_open - 1].container.node->type == VL_JSON_OBJECT ? '}' : ']');
            n_open--;
        }
        if (n_open == 0)
            break;
        vl_json_iter *it = &open[n_open - 1];
        vl_json_next(it);
        if (it->index > 0)
            vl_buf_puts(out, item_sep);
        if (it->key.node) {
            put_scalar(out, it->key, flags);
            vl_buf_puts(out, key_sep);
        }
        v = it->value;
    }
    free(open);
}
