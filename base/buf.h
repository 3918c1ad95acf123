/* base/buf.h: a byte buffer that grows. Out of memory is sticky: after it every append is a no-op
 * and vl_buf.failed is set, so that a writer checks once, at its end. Not shared between threads.
 */
#ifndef VL_BASE_BUF_H
#define VL_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "vallmo/abi.h"

typedef struct vl_buf {
    char *ptr; /* owned; a NUL follows the last byte, not counted in len; NULL when empty */
    size_t len;
    size_t cap;
    bool failed;
} vl_buf;

#define VL_BUF_INIT                                                                                \
    {                                                                                              \
        NULL, 0, 0, false                                                                          \
    }

void vl_buf_fini(vl_buf *b);                 /* frees; *b is empty again */
void vl_buf_clear(vl_buf *b);                /* length 0 (and not failed); keeps the memory */
bool vl_buf_reserve(vl_buf *b, size_t more); /* room for `more` bytes past len */
void vl_buf_append(vl_buf *b, const void *bytes, size_t len);
void vl_buf_puts(vl_buf *b, const char *text);
void vl_buf_putc(vl_buf *b, char c);
void vl_buf_printf(vl_buf *b, const char *fmt, ...) VL_PRINTF(2, 3);
void vl_buf_vprintf(vl_buf *b, const char *fmt, va_list args) VL_PRINTF(2, 0);
void vl_buf_consume(vl_buf *b, size_t len); /* drops the first len bytes */
char *vl_buf_take(vl_buf *b,
                  size_t *len); /* hands the NUL-terminated memory over (free()); NULL if failed */

/* Array growth with overflow checks: makes *ptr hold at least `want` elements of `size` bytes, at
 * least doubling *cap. False (nothing changed) when out of memory. */
bool vl_grow(void *ptr, size_t *cap, size_t want, size_t size);

/* a*b and a+b that fail instead of wrapping. */
static inline bool vl_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool vl_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

#endif
