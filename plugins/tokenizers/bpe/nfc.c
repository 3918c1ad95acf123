/* nfc.c: canonical decomposition, ordering and composition. A text is normalised in stretches: one
 * character that can't change what is before it, and the "maybe" characters behind it. Nearly all
 * stretches are unchanged and are never looked at, so ordinary text costs one class lookup a
 * character. */
#include "nfc.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "unicode.h"

enum {
    S_BASE = 0xac00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11a7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    N_COUNT = V_COUNT * T_COUNT,
    S_COUNT = L_COUNT * N_COUNT
};

struct pair {
    uint32_t first, second, cp;
};

struct vl_nfc {
    struct pair *pairs; /* ascending by (first, second) */
    size_t n_pairs;
};

/* Code points of one stretch, with their combining classes. */
struct stretch {
    uint32_t *cp;
    uint8_t *ccc;
    uint32_t *tmp_cp; /* for the counting sort */
    uint8_t *tmp_ccc;
    size_t n, cap;
};

void vl_nfc_mark_maybe(uint8_t *classes, uint8_t bit)
{
    for (size_t i = 0; i < vl_nfc_n_classes; i++)
        for (uint32_t c = vl_nfc_classes[i].first; c <= vl_nfc_classes[i].last; c++)
            classes[c] |= bit;
    for (size_t i = 0; i < vl_nfc_n_decomps; i++) {
        if (vl_nfc_decomps[i].composes)
            classes[vl_nfc_decomps[i].second] |= bit;
        else
            classes[vl_nfc_decomps[i].cp] |= bit;
    }
    for (uint32_t c = V_BASE; c < V_BASE + V_COUNT; c++)
        classes[c] |= bit;
    for (uint32_t c = T_BASE + 1; c < T_BASE + T_COUNT; c++)
        classes[c] |= bit;
}

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->second < y->second ? -1 : x->second > y->second;
}

vl_nfc *vl_nfc_create(void)
{
    vl_nfc *n = calloc(1, sizeof *n);
    if (n == NULL)
        return NULL;
    n->pairs = calloc(vl_nfc_n_decomps, sizeof *n->pairs);
    if (n->pairs == NULL) {
        free(n);
        return NULL;
    }
    for (size_t i = 0; i < vl_nfc_n_decomps; i++) {
        const struct vl_nfc_decomp *d = &vl_nfc_decomps[i];
        if (d->composes)
            n->pairs[n->n_pairs++] = (struct pair){d->first, d->second, d->cp};
    }
    qsort(n->pairs, n->n_pairs, sizeof *n->pairs, compare_pairs);
    return n;
}

void vl_nfc_destroy(vl_nfc *n)
{
    if (n == NULL)
        return;
    free(n->pairs);
    free(n);
}

static uint8_t ccc_of(uint32_t cp)
{
    size_t lo = 0, hi = vl_nfc_n_classes;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (cp > vl_nfc_classes[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < vl_nfc_n_classes && cp >= vl_nfc_classes[lo].first)
        return vl_nfc_classes[lo].ccc;
    return 0;
}

static const struct vl_nfc_decomp *decomp_of(uint32_t cp)
{
    size_t lo = 0, hi = vl_nfc_n_decomps;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (cp > vl_nfc_decomps[mid].cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < vl_nfc_n_decomps && vl_nfc_decomps[lo].cp == cp ? &vl_nfc_decomps[lo] : NULL;
}

/* The composite of a and b, or 0. */
static uint32_t compose(const vl_nfc *n, uint32_t a, uint32_t b)
{
    if (a - L_BASE < L_COUNT && b - V_BASE < V_COUNT)
        return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
    if (a - S_BASE < S_COUNT && (a - S_BASE) % T_COUNT == 0 && b > T_BASE && b < T_BASE + T_COUNT)
        return a + (b - T_BASE);
    struct pair key = {a, b, 0};
    const struct pair *p = bsearch(&key, n->pairs, n->n_pairs, sizeof *n->pairs, compare_pairs);
    return p != NULL ? p->cp : 0;
}

static bool stretch_reserve(struct stretch *s, size_t want)
{
    size_t cap = s->cap;
    if (want <= cap)
        return true;
    size_t c1 = cap, c2 = cap, c3 = cap, c4 = cap;
    if (!vl_grow(&s->cp, &c1, want, sizeof *s->cp) ||
        !vl_grow(&s->ccc, &c2, want, sizeof *s->ccc) ||
        !vl_grow(&s->tmp_cp, &c3, want, sizeof *s->tmp_cp) ||
        !vl_grow(&s->tmp_ccc, &c4, want, sizeof *s->tmp_ccc))
        return false;
    s->cap = c1 < c2 ? c1 : c2;
    s->cap = s->cap < c3 ? s->cap : c3;
    s->cap = s->cap < c4 ? s->cap : c4;
    return true;
}

static bool stretch_put(struct stretch *s, uint32_t cp)
{
    if (!stretch_reserve(s, s->n + 1))
        return false;
    s->cp[s->n] = cp;
    s->ccc[s->n] = ccc_of(cp);
    s->n++;
    return true;
}

/* Puts the full decomposition of cp. Steps nest at most a few deep (Unicode guarantees it), always
 * in the first part, so a small stack of second parts is enough. */
static bool stretch_decompose(struct stretch *s, uint32_t cp)
{
    uint32_t later[8];
    size_t n_later = 0;

    if (cp - S_BASE < S_COUNT) {
        uint32_t i = cp - S_BASE;
        return stretch_put(s, L_BASE + i / N_COUNT) &&
               stretch_put(s, V_BASE + i % N_COUNT / T_COUNT) &&
               (i % T_COUNT == 0 || stretch_put(s, T_BASE + i % T_COUNT));
    }
    for (;;) {
        const struct vl_nfc_decomp *d = decomp_of(cp);
        if (d != NULL && n_later < 8) {
            if (d->second != 0)
                later[n_later++] = d->second;
            cp = d->first;
            continue;
        }
        if (!stretch_put(s, cp))
            return false;
        if (n_later == 0)
            return true;
        cp = later[--n_later];
    }
}

/* Stable sort by class of every run of nonzero classes; a counting sort for long runs, which a
 * hostile text may have by the megabyte. */
static void stretch_order(struct stretch *s)
{
    for (size_t i = 0; i < s->n;) {
        if (s->ccc[i] == 0) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < s->n && s->ccc[end] != 0)
            end++;
        if (end - i < 32) {
            for (size_t j = i + 1; j < end; j++) {
                uint32_t cp = s->cp[j];
                uint8_t ccc = s->ccc[j];
                size_t k = j;
                for (; k > i && s->ccc[k - 1] > ccc; k--) {
                    s->cp[k] = s->cp[k - 1];
                    s->ccc[k] = s->ccc[k - 1];
                }
                s->cp[k] = cp;
                s->ccc[k] = ccc;
            }
        } else {
            size_t at[256] = {0};
            size_t sum = i;
            for (size_t j = i; j < end; j++)
                at[s->ccc[j]]++;
            for (size_t c = 0; c < 256; c++) {
                size_t n = at[c];
                at[c] = sum;
                sum += n;
            }
            for (size_t j = i; j < end; j++) {
                size_t to = at[s->ccc[j]]++;
                s->tmp_cp[to] = s->cp[j];
                s->tmp_ccc[to] = s->ccc[j];
            }
            memcpy(s->cp + i, s->tmp_cp + i, (end - i) * sizeof *s->cp);
            memcpy(s->ccc + i, s->tmp_ccc + i, end - i);
        }
        i = end;
    }
}

/* Composes in place: a character joins the last starter unless something with the same or a higher
 * class, or another starter, stands between (it is blocked then). */
static void stretch_compose(const vl_nfc *n, struct stretch *s)
{
    size_t starter = SIZE_MAX;
    size_t out = 0;

    for (size_t i = 0; i < s->n; i++) {
        uint8_t ccc = s->ccc[i];
        bool adjacent = starter != SIZE_MAX && starter + 1 == out;
        bool open = starter != SIZE_MAX && (adjacent || (ccc != 0 && s->ccc[out - 1] < ccc));
        uint32_t c = open ? compose(n, s->cp[starter], s->cp[i]) : 0;
        if (c != 0) {
            s->cp[starter] = c;
            continue;
        }
        if (ccc == 0)
            starter = out;
        s->cp[out] = s->cp[i];
        s->ccc[out] = ccc;
        out++;
    }
    s->n = out;
}

/* Normalises source bytes [from, end) of text and appends the result; a change is noted. */
static bool apply_stretch(const vl_nfc *n, struct stretch *s, const uint8_t *text, size_t from,
                          size_t end, size_t out_base, vl_buf *out, struct vl_nfc_changes *changes)
{
    size_t to = out->len;

    s->n = 0;
    for (size_t i = from; i < end;) {
        uint32_t len;
        if (!stretch_decompose(s, vl_unicode_read(text + i, &len)))
            return false;
        i += len;
    }
    stretch_order(s);
    stretch_compose(n, s);
    if (!vl_buf_reserve(out, s->n * 4))
        return false;
    for (size_t i = 0; i < s->n; i++) {
        char utf8[4];
        int len = vl_utf8_put(s->cp[i], utf8);
        vl_buf_append(out, utf8, (size_t)len);
    }
    if (out->len - to == end - from && memcmp(out->ptr + to, text + from, end - from) == 0)
        return true;
    if (!vl_grow(&changes->ptr, &changes->cap, changes->n + 1, sizeof *changes->ptr))
        return false;
    changes->ptr[changes->n++] =
        (struct vl_nfc_change){from, end, to - out_base, out->len - out_base};
    return true;
}

bool vl_nfc_is_stable(const uint8_t *classes, uint8_t maybe, const uint8_t *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        /* The first code point with the bit is U+0300, whose first byte is 0xCC. */
        if (text[i] < 0xcc) {
            i++;
            continue;
        }
        uint32_t n_bytes;
        if (classes[vl_unicode_read(text + i, &n_bytes)] & maybe)
            return false;
        i += n_bytes;
    }
    return true;
}

bool vl_nfc_apply(const vl_nfc *n, const uint8_t *classes, uint8_t maybe, const uint8_t *text,
                  size_t len, vl_buf *out, struct vl_nfc_changes *changes)
{
    struct stretch s = {NULL, NULL, NULL, NULL, 0, 0};
    size_t out_base = out->len;
    size_t copied = 0; /* source bytes that are in out already */
    size_t last = 0;   /* start of the last code point without the bit */
    bool ok = false;

    for (size_t i = 0; i < len;) {
        uint32_t n_bytes;
        if (!(classes[vl_unicode_read(text + i, &n_bytes)] & maybe)) {
            last = i;
            i += n_bytes;
            continue;
        }
        size_t from = last;
        while (i < len && (classes[vl_unicode_read(text + i, &n_bytes)] & maybe))
            i += n_bytes;
        vl_buf_append(out, text + copied, from - copied);
        if (out->failed || !apply_stretch(n, &s, text, from, i, out_base, out, changes))
            goto out;
        copied = i;
        last = i;
    }
    vl_buf_append(out, text + copied, len - copied);
    ok = !out->failed;
out:
    free(s.cp);
    free(s.ccc);
    free(s.tmp_cp);
    free(s.tmp_ccc);
    return ok;
}
