/* base/utf8.h: UTF-8 by the standard: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef VL_BASE_UTF8_H
#define VL_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Reads one code point from s[0..len), len > 0. Returns the bytes it takes (1 to 4) and sets *cp;
 * for an ill-formed sequence *cp = 0xFFFFFFFF and the length of its maximal subpart (1 to 3), which
 * one U+FFFD replaces by the WHATWG rule; returns 0 when the bytes are a correct beginning that
 * ends too early. */
int vl_utf8_next(const char *s, size_t len, uint32_t *cp);
/* Writes cp (a valid scalar value) to out[4]; returns the bytes written. */
int vl_utf8_put(uint32_t cp, char out[4]);
/* Index of the first byte that is not part of valid UTF-8, or len when all is valid. Fast over
 * ASCII. */
size_t vl_utf8_valid(const char *s, size_t len);
/* Appends s with each ill-formed part as U+FFFD, an incomplete end included. */
void vl_utf8_lossy(vl_buf *out, const char *s, size_t len);
/* Bytes of s that can be shown now: len, less a correct but incomplete tail (0 to 3 bytes). */
size_t vl_utf8_complete(const char *s, size_t len);

#endif
