/* host/lib/constrain/rules.h: the rules every JSON grammar is made of: strings, numbers, white
 * space, any value; and characters by code point. Knows no schema.
 *
 * White space: nothing, one space, or one line end with its indent. Numbers are bounded (64 digits,
 * exponents of two), so that a model can't write digits for ever. */
#ifndef VL_CONSTRAIN_RULES_H
#define VL_CONSTRAIN_RULES_H

#include "host/lib/constrain/grammar.h"
#include "host/lib/constrain/vocabulary.h"

/* States whose masks hold most of the vocabulary: worth making before anybody waits for them. */
enum { VL_WARM_MAX = 16 };
struct vl_warm {
    uint32_t states[VL_WARM_MAX];
    size_t n;
};

struct vl_rules {
    vl_grammar *g;
    struct vl_warm *warm;    /* borrowed */
    uint32_t end;            /* a state that ends any rule */
    uint32_t tail[4];        /* [n]: n more bytes 80-BF end a character */
    uint32_t e0, ed, f0, f4; /* what may follow these lead bytes */
    uint32_t escape;         /* behind a backslash */
    uint32_t inside;         /* a string behind its opening quote */
    uint32_t string, space, any, object, array;
    uint32_t integer, number, boolean, null;
};

/* The same states in the same order in every grammar: must be the first to build in it. */
void vl_rules_init(struct vl_rules *r, vl_grammar *g, struct vl_warm *warm);
void vl_rules_warm(const struct vl_rules *r,
                   uint32_t state); /* adds to *warm while there is room */

/* One character of a JSON string, as it is written: itself, or an escape. */
void vl_rules_char(const struct vl_rules *r, uint32_t from, uint32_t to);
/* The code points low..high: as characters of a JSON string (json; by their shortest spelling) or
 * as UTF-8. Surrogates are left out. */
void vl_rules_points(const struct vl_rules *r, uint32_t from, uint32_t low, uint32_t high,
                     uint32_t to, bool json);
/* A whole string of min..max characters; max UINT32_MAX: no limit. */
void vl_rules_counted_string(const struct vl_rules *r, uint32_t from, uint32_t min, uint32_t max,
                             uint32_t to);

/* Bounds of a number; whole ones. */
struct vl_bounds {
    bool has_low, has_high, low_open,
        high_open; /* open: the bound itself is out (numbers; integers are moved by one) */
    int64_t low, high;
};
void vl_rules_integer(const struct vl_rules *r, uint32_t from, const struct vl_bounds *b,
                      uint32_t to);
void vl_rules_number(const struct vl_rules *r, uint32_t from, const struct vl_bounds *b,
                     uint32_t to);

/* Fills levels and exits of a vocabulary. */
vl_status vl_strings_init(vl_vocabulary *v, vl_error *err);

#endif
