/* nfc.h: canonical composition by Unicode 9.0's data, with a map from the result to the source.
 * Knows nothing of tokens and pieces. Read-only once made: [any]. */
#ifndef VL_BPE_NFC_H
#define VL_BPE_NFC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct vl_nfc_class_range {
    uint32_t first;
    uint32_t last;
    uint8_t ccc;
};
struct vl_nfc_decomp {
    uint32_t cp;
    uint32_t first;
    uint32_t second;   /* 0: decomposes to one character */
    uint32_t composes; /* 1: first + second compose to cp again */
};
extern const struct vl_nfc_class_range vl_nfc_classes[];
extern const size_t vl_nfc_n_classes;
extern const struct vl_nfc_decomp vl_nfc_decomps[];
extern const size_t vl_nfc_n_decomps;

/* Sets `bit` for every code point before which a normalised text may still change. */
void vl_nfc_mark_maybe(uint8_t *classes, uint8_t bit);

typedef struct vl_nfc vl_nfc;
vl_nfc *vl_nfc_create(void); /* NULL when out of memory */
void vl_nfc_destroy(vl_nfc *n);

/* A stretch that NFC changed: source bytes [from, from_end) became result bytes [to, to_end).
 * Outside the changes both texts are equal. */
struct vl_nfc_change {
    size_t from, from_end;
    size_t to, to_end;
};
struct vl_nfc_changes {
    struct vl_nfc_change *ptr; /* owned, ascending; free() */
    size_t n, cap;
};

/* True if no code point of text (valid UTF-8) has `maybe` in its class: text is its own NFC. */
bool vl_nfc_is_stable(const uint8_t *classes, uint8_t maybe, const uint8_t *text, size_t len);

/* Appends the NFC of text (valid UTF-8) to out and the changed stretches to changes, with offsets
 * relative to text and to the first byte appended. False when out of memory. */
bool vl_nfc_apply(const vl_nfc *n, const uint8_t *classes, uint8_t maybe, const uint8_t *text,
                  size_t len, vl_buf *out, struct vl_nfc_changes *changes);

#endif
