/* base/error.c: formatting into a vl_error. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Makes text[0..cap) printable: no control bytes, valid UTF-8. What was cut at the end of the
 * buffer goes whole, other ill-formed bytes (a value that the caller cut) become '?'. */
static void clean(char *text, size_t cap)
{
    size_t len = strnlen(text, cap - 1);

    text[len] = '\0';
    if (len + 1 == cap) {
        len = vl_utf8_complete(text, len);
        text[len] = '\0';
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
    }
    for (size_t i = 0; i < len;) {
        i += vl_utf8_valid(text + i, len - i);
        if (i < len)
            text[i++] = '?';
    }
}

vl_status vl_error_set(vl_error *err, vl_status status, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, args);
        va_end(args);
        clean(err->text, sizeof(err->text));
        err->status = status;
    }
    return status;
}

vl_status vl_error_prefix(vl_error *err, const char *fmt, ...)
{
    char text[sizeof(err->text)];
    va_list args;

    if (!err)
        return VL_E_INTERNAL;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n < 0)
        return err->status;
    size_t len = (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    /* What does not fit behind the prefix is cut, as in vl_error_set. */
    char rest[sizeof(err->text)];
    memcpy(rest, err->text, sizeof(rest));
    memcpy(err->text, text, len);
    const char *const parts[] = {": ", rest};
    for (size_t i = 0; i < 2; i++) {
        size_t n_part = strlen(parts[i]);
        size_t room = sizeof(err->text) - 1 - len;
        n_part = n_part < room ? n_part : room;
        memcpy(err->text + len, parts[i], n_part);
        len += n_part;
    }
    err->text[len] = '\0';
    clean(err->text, sizeof(err->text));
    return err->status;
}

const char *vl_status_name(vl_status status)
{
    static const char *const names[] = {"ok",      "invalid", "format", "unsupported", "not found",
                                        "i/o",     "memory",  "range",  "device",      "cancelled",
                                        "timeout", "busy",    "abi",    "state",       "internal"};

    if (status < 0 || (size_t)status >= sizeof(names) / sizeof(names[0]))
        return "unknown";
    return names[status];
}
