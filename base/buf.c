/* base/buf.c: the growing byte buffer. */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void vl_buf_fini(vl_buf *b)
{
    free(b->ptr);
    *b = (vl_buf)VL_BUF_INIT;
}

void vl_buf_clear(vl_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->ptr)
        b->ptr[0] = '\0';
}

bool vl_buf_reserve(vl_buf *b, size_t more)
{
    if (b->failed)
        return false;
    if (more < b->cap - b->len) /* room for the NUL too */
        return true;
    uint64_t want;
    if (!vl_add(b->len, more, &want) || !vl_add(want, 1, &want)) {
        b->failed = true;
        return false;
    }
    size_t cap = b->cap ? b->cap : 64;
    while (cap < want)
        cap = cap > SIZE_MAX / 2 ? want : cap * 2;
    char *ptr = realloc(b->ptr, cap);
    if (!ptr) {
        b->failed = true;
        return false;
    }
    b->ptr = ptr;
    b->cap = cap;
    return true;
}

void vl_buf_append(vl_buf *b, const void *bytes, size_t len)
{
    if (!vl_buf_reserve(b, len))
        return;
    if (len)
        memcpy(b->ptr + b->len, bytes, len);
    b->len += len;
    b->ptr[b->len] = '\0';
}

void vl_buf_puts(vl_buf *b, const char *text)
{
    vl_buf_append(b, text, strlen(text));
}

void vl_buf_putc(vl_buf *b, char c)
{
    vl_buf_append(b, &c, 1);
}

void vl_buf_vprintf(vl_buf *b, const char *fmt, va_list args)
{
    va_list again;

    if (b->failed)
        return;
    va_copy(again, args);
    size_t room = b->cap - b->len;
    int n = vsnprintf(room ? b->ptr + b->len : NULL, room, fmt, args);
    if (n < 0) {
        b->failed = true;
    } else if ((size_t)n < room) {
        b->len += (size_t)n;
    } else if (vl_buf_reserve(b, (size_t)n)) {
        vsnprintf(b->ptr + b->len, b->cap - b->len, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void vl_buf_printf(vl_buf *b, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vl_buf_vprintf(b, fmt, args);
    va_end(args);
}

void vl_buf_consume(vl_buf *b, size_t len)
{
    if (len == 0 || !b->ptr)
        return;
    if (len >= b->len) {
        b->len = 0;
    } else {
        memmove(b->ptr, b->ptr + len, b->len - len);
        b->len -= len;
    }
    b->ptr[b->len] = '\0';
}

char *vl_buf_take(vl_buf *b, size_t *len)
{
    char *ptr = NULL;

    if (vl_buf_reserve(b, 0)) {
        ptr = b->ptr;
        ptr[b->len] = '\0';
        if (len)
            *len = b->len;
        b->ptr = NULL;
    }
    vl_buf_fini(b);
    return ptr;
}

bool vl_grow(void *ptr, size_t *cap, size_t want, size_t size)
{
    void **p = ptr;
    uint64_t bytes;

    if (want <= *cap)
        return true;
    size_t n = *cap > SIZE_MAX / 2 ? want : *cap * 2;
    if (n < want)
        n = want;
    if (n < 8)
        n = 8;
    if (!vl_mul(n, size, &bytes))
        return false;
    void *grown = realloc(*p, bytes);
    if (!grown)
        return false;
    *p = grown;
    *cap = n;
    return true;
}
