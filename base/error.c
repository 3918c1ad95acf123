/* base/error.c: formatting into a vl_error. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Makes text[0..cap) printable: no control bytes, no cut UTF-8 sequence at its end. */
static void clean(char *text, size_t cap)
{
    size_t len = strnlen(text, cap - 1);

    text[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
    }
    /* Only a text that filled the buffer can have been cut inside a character. */
    if (len + 1 < cap)
        return;
    size_t start = len;
    while (start > 0 && len - start < 4 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0 || (unsigned char)text[start - 1] < 0xc0)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (len - (start - 1) < want)
        text[start - 1] = '\0';
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
