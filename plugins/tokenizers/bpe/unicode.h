/* unicode.h: what a code point is, for splitting and for the question whether NFC could change it.
 * Knows nothing of tokens. The table is read-only once made: [any]. */
#ifndef VL_BPE_UNICODE_H
#define VL_BPE_UNICODE_H

#include <stddef.h>
#include <stdint.h>

struct vl_range {
    uint32_t first; /* inclusive */
    uint32_t last;
};

/* Bits of a class. A code point with none of the first four is "other". */
enum {
    VL_CP_LETTER = 1,
    VL_CP_MARK = 2,
    VL_CP_NUMBER = 4,
    VL_CP_SPACE = 8,     /* the 25 code points that \s is in the reference, CR and LF among them */
    VL_CP_NEWLINE = 16,  /* CR, LF */
    VL_CP_NFC_MAYBE = 32 /* a text without any of these is its own NFC */
};

/* Unicode 16.0 categories (unicode16.c). */
extern const struct vl_range vl_unicode_letters[];
extern const size_t vl_unicode_n_letters;
extern const struct vl_range vl_unicode_marks[];
extern const size_t vl_unicode_n_marks;
extern const struct vl_range vl_unicode_numbers[];
extern const size_t vl_unicode_n_numbers;
extern const struct vl_range vl_unicode_spaces[];
extern const size_t vl_unicode_n_spaces;

#define VL_UNICODE_COUNT 0x110000u

/* One byte of class bits a code point, [VL_UNICODE_COUNT]; free() it. NULL when out of memory. Flat
 * on purpose: a lookup is one load, and the kernel gives pages only for the scripts that are used.
 */
uint8_t *vl_unicode_classes_create(void);

/* Reads the code point at s (valid UTF-8) and its length in bytes, 1 to 4. */
static inline uint32_t vl_unicode_read(const uint8_t *s, uint32_t *n_bytes)
{
    uint32_t c = s[0];
    if (c < 0x80) {
        *n_bytes = 1;
        return c;
    }
    if (c < 0xe0) {
        *n_bytes = 2;
        return (c & 0x1f) << 6 | (s[1] & 0x3f);
    }
    if (c < 0xf0) {
        *n_bytes = 3;
        return (c & 0x0f) << 12 | (uint32_t)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
    }
    *n_bytes = 4;
    return (c & 0x07) << 18 | (uint32_t)(s[1] & 0x3f) << 12 | (uint32_t)(s[2] & 0x3f) << 6 |
           (s[3] & 0x3f);
}

#endif
