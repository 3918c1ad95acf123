/* host/lib/constrain/number.c: integers and numbers within bounds, as digits. */
#include "host/lib/constrain/rules.h"

#include <string.h>

enum { DIGITS_MAX = 64, EXPONENT_DIGITS = 2 };

/* from, then 0..n digits, each of which may be the last, then to. */
static void up_to_digits(vl_grammar *g, uint32_t from, int n, uint32_t to)
{
    vl_grammar_empty(g, from, to);
    for (int i = 0; i < n; i++) {
        uint32_t next = vl_grammar_state(g);
        vl_grammar_byte(g, from, '0', '9', next);
        vl_grammar_empty(g, next, to);
        from = next;
    }
}

/* Digits still to come, as states shared by all that are free in the rest. */
struct span {
    vl_grammar *g;
    char low[24], high[24]; /* digits, same length */
    int len;
    uint32_t states[2][2][24]; /* [bound by low][bound by high][at] */
    uint32_t to;
};

static uint32_t span_state(struct span *s, bool low, bool high, int at)
{
    if (at == s->len)
        return s->to;
    if (s->states[low][high][at] == 0)
        s->states[low][high][at] = vl_grammar_state(s->g);
    return s->states[low][high][at];
}

/* All numbers of one length from low to high. */
static void put_span(vl_grammar *g, uint32_t from, uint64_t low, uint64_t high, int len,
                     uint32_t to)
{
    struct span s = {.g = g, .len = len, .to = to};

    for (int i = len - 1; i >= 0; i--) {
        s.low[i] = (char)('0' + low % 10);
        s.high[i] = (char)('0' + high % 10);
        low /= 10;
        high /= 10;
    }
    s.states[1][1][0] = from;
    for (int at = 0; at < len; at++) {
        for (int k = 0; k < 4; k++) {
            bool by_low = (k & 1) != 0, by_high = (k & 2) != 0;
            uint32_t here = s.states[by_low][by_high][at];
            if (here == 0)
                continue;
            char a = by_low ? s.low[at] : '0', b = by_high ? s.high[at] : '9';
            for (char d = a; d <= b; d++)
                vl_grammar_byte(g, here, (uint8_t)d, (uint8_t)d,
                                span_state(&s, by_low && d == a, by_high && d == b, at + 1));
        }
    }
}

/* Digits of x, at least 1. */
static int length(uint64_t x)
{
    int n = 1;

    for (; x >= 10; x /= 10)
        n++;
    return n;
}

/* Whole numbers low..high without leading zeros; endless: no upper limit but DIGITS_MAX digits. */
static void put_whole(vl_grammar *g, uint32_t from, uint64_t low, uint64_t high, bool endless,
                      uint32_t to)
{
    uint64_t first = 1; /* the least number of `len` digits */

    if (!endless && low > high)
        return;
    for (int len = 1; len <= 20; len++, first = len <= 20 ? first * 10 : first) {
        uint64_t most = len < 20 ? first * 10 - 1 : UINT64_MAX;
        uint64_t least = len == 1 ? 0 : first;
        if (len < length(low) || (!endless && len > length(high)))
            continue;
        if (endless && len > length(low)) { /* any number that is longer */
            uint32_t next = vl_grammar_state(g), at = from;
            for (int i = 0; i < len; i++) {
                vl_grammar_byte(g, at, i == 0 ? '1' : '0', '9', next);
                at = next;
                next = vl_grammar_state(g);
            }
            up_to_digits(g, at, DIGITS_MAX - len, to);
            return;
        }
        uint32_t start = vl_grammar_state(g);
        vl_grammar_empty(g, from, start);
        put_span(g, start, low > least ? low : least, !endless && high < most ? high : most, len,
                 to);
    }
}

/* A bound's distance from 0. */
static uint64_t size_of(int64_t x)
{
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

void vl_rules_integer(const struct vl_rules *r, uint32_t from, const struct vl_bounds *b,
                      uint32_t to)
{
    vl_grammar *g = r->g;
    int64_t low = b->low, high = b->high;

    if ((b->has_low && b->low_open && __builtin_add_overflow(low, 1, &low)) ||
        (b->has_high && b->high_open && __builtin_sub_overflow(high, 1, &high)))
        return; /* nothing is past the last one */
    if (!b->has_high || high >= 0) {
        uint32_t start = vl_grammar_state(g);
        vl_grammar_empty(g, from, start);
        put_whole(g, start, b->has_low && low > 0 ? (uint64_t)low : 0,
                  b->has_high ? (uint64_t)high : 0, !b->has_high, to);
    }
    if (!b->has_low || low < 0) {
        uint32_t start = vl_grammar_state(g);
        vl_grammar_byte(g, from, '-', '-', start);
        put_whole(g, start, b->has_high && high < 0 ? size_of(high) : 1,
                  b->has_low ? size_of(low) : 0, !b->has_low, to);
    }
}

/* ---- numbers ---- */

enum {
    FRACTION_ANY,
    FRACTION_ZERO,
    FRACTION_MORE
}; /* any or none; zeros or none; one that is not zero */

static void put_fraction(vl_grammar *g, uint32_t from, int kind, uint32_t to)
{
    uint32_t point = vl_grammar_state(g), at = point;

    vl_grammar_byte(g, from, '.', '.', point);
    if (kind != FRACTION_MORE)
        vl_grammar_empty(g, from, to);
    uint32_t more = kind == FRACTION_MORE ? vl_grammar_state(g) : 0;
    for (int i = 0; i < DIGITS_MAX; i++) {
        uint32_t next = vl_grammar_state(g);
        if (kind == FRACTION_MORE) { /* zeros, then a digit that is none */
            vl_grammar_byte(g, at, '0', '0', next);
            vl_grammar_byte(g, at, '1', '9', more);
        } else {
            vl_grammar_byte(g, at, '0', kind == FRACTION_ANY ? '9' : '0', next);
            vl_grammar_empty(g, next, to);
        }
        at = next;
    }
    if (kind == FRACTION_MORE)
        up_to_digits(g, more, DIGITS_MAX, to);
}

/* Distances from 0, low to high. Where a bound is open, the number itself is out. */
static void put_size(vl_grammar *g, uint32_t from, uint64_t low, bool low_open, uint64_t high,
                     bool high_open, bool endless, uint32_t to)
{
    uint32_t whole = vl_grammar_state(g);
    uint64_t first = low;

    if (!endless && (low > high || (low == high && (low_open || high_open))))
        return;
    if (low_open) {
        uint32_t at = vl_grammar_state(g), start = vl_grammar_state(g);
        vl_grammar_empty(g, from, start);
        put_whole(g, start, low, low, false, at);
        put_fraction(g, at, FRACTION_MORE, to);
        first = low + 1;
    }
    if (endless || (high > 0 && first <= high - 1)) {
        uint32_t start = vl_grammar_state(g);
        vl_grammar_empty(g, from, start);
        put_whole(g, start, first, endless ? 0 : high - 1, endless, whole);
        put_fraction(g, whole, FRACTION_ANY, to);
    }
    if (!endless && !high_open && high >= first) {
        uint32_t at = vl_grammar_state(g), start = vl_grammar_state(g);
        vl_grammar_empty(g, from, start);
        put_whole(g, start, high, high, false, at);
        put_fraction(g, at, FRACTION_ZERO, to);
    }
}

static void put_exponent(vl_grammar *g, uint32_t from, uint32_t to)
{
    uint32_t sign = vl_grammar_state(g), digits = vl_grammar_state(g), one = vl_grammar_state(g);

    vl_grammar_empty(g, from, to);
    vl_grammar_byte(g, from, 'e', 'e', sign);
    vl_grammar_byte(g, from, 'E', 'E', sign);
    vl_grammar_empty(g, sign, digits);
    vl_grammar_byte(g, sign, '+', '+', digits);
    vl_grammar_byte(g, sign, '-', '-', digits);
    vl_grammar_byte(g, digits, '0', '9', one);
    up_to_digits(g, one, EXPONENT_DIGITS - 1, to);
}

void vl_rules_number(const struct vl_rules *r, uint32_t from, const struct vl_bounds *b,
                     uint32_t to)
{
    vl_grammar *g = r->g;
    uint32_t minus = vl_grammar_state(g);

    if (!b->has_low && !b->has_high) {
        uint32_t at = vl_grammar_state(g);
        vl_grammar_byte(g, from, '-', '-', minus);
        vl_grammar_empty(g, from, minus);
        put_size(g, minus, 0, false, 0, false, true, at);
        put_exponent(g, at, to);
        return;
    }
    if (!b->has_high || b->high >= 0) {
        bool from_zero = !b->has_low || b->low < 0;
        put_size(g, from, from_zero ? 0 : (uint64_t)b->low, !from_zero && b->low_open,
                 b->has_high ? (uint64_t)b->high : 0, b->high_open, !b->has_high, to);
    }
    if (!b->has_low || b->low < 0) { /* below 0: the bounds change places */
        bool from_zero = !b->has_high || b->high >= 0;
        vl_grammar_byte(g, from, '-', '-', minus);
        put_size(g, minus, from_zero ? 0 : size_of(b->high), from_zero || b->high_open,
                 b->has_low ? size_of(b->low) : 0, b->low_open, !b->has_low, to);
    }
}
