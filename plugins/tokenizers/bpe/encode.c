/* encode.c: pieces of text to ids. Added tokens are found first, each wholly inside one template
 * piece; what lies between them is normalised, split and merged. All places are kept in bytes of
 * the concatenated pieces, so that marks can be answered. */
#include <stdlib.h>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer.h"

enum { TEXT_BYTES_MAX = INT32_MAX }; /* positions in a piece are 32-bit */

/* A text in which matching and splitting happens, and where it came from: text[from, to) is raw
 * bytes [raw_from, raw_to) with `changes` (offsets relative to raw_from and from). */
struct view {
    const uint8_t *text;
    size_t from, to;
    size_t raw_from, raw_to;
    const struct vl_nfc_changes *changes;
};

struct call {
    const vl_tokenizer *t;
    const vl_piece *pieces;
    size_t n_pieces;
    size_t piece_at, piece_at_from; /* the first piece that later gaps can reach, and its place */
    const uint8_t *raw;             /* the concatenation; owned if joined */
    uint8_t *joined;
    size_t raw_len;
    struct vl_ids ids;
    struct vl_bpe_scratch scratch;
    struct vl_split_run split_run;
    vl_buf normal; /* the NFC of the gap at hand */
    struct vl_nfc_changes changes;

    const uint64_t *marks;
    uint64_t *n_before; /* owned: the caller's stays untouched if the call fails */
    size_t n_marks;
    size_t mark;    /* the next one to be answered */
    size_t mark_at; /* its place in the view at hand; SIZE_MAX if it lies behind the view */
    const struct view *view;
};

/* ---- places ---- */

/* Where raw byte `raw` is in the view. Inside a changed stretch: its end if up, else its start. */
static size_t to_view(const struct view *v, size_t raw, bool up)
{
    size_t at = raw - v->raw_from;
    size_t lo = 0, hi = v->changes != NULL ? v->changes->n : 0;
    while (lo < hi) { /* the first change that ends behind `at` */
        size_t mid = (lo + hi) / 2;
        if (v->changes->ptr[mid].from_end <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (v->changes != NULL && lo < v->changes->n && v->changes->ptr[lo].from < at)
        return v->from + (up ? v->changes->ptr[lo].to_end : v->changes->ptr[lo].to);
    if (lo == 0)
        return v->from + at;
    const struct vl_nfc_change *last = &v->changes->ptr[lo - 1];
    return v->from + last->to_end + (at - last->from_end);
}

/* Answers marks while they lie at or before raw place `raw`: all ids so far are before them. */
static void answer_marks(struct call *c, size_t raw)
{
    while (c->mark < c->n_marks && c->marks[c->mark] <= raw)
        c->n_before[c->mark++] = c->ids.n;
}

static void next_mark(struct call *c)
{
    const struct view *v = c->view;
    if (c->mark < c->n_marks && c->marks[c->mark] < v->raw_to)
        c->mark_at = to_view(v, c->marks[c->mark], false);
    else
        c->mark_at = SIZE_MAX;
}

/* Answers the marks inside the piece [from, to) of the view, whose ids begin at first_id. */
static void answer_in_piece(struct call *c, size_t from, size_t to, size_t first_id)
{
    size_t end = from;
    size_t n = first_id;
    while (c->mark_at <= to) {
        while (n < c->ids.n) {
            size_t len = vl_tokens_bytes(&c->t->bpe.tokens, c->ids.ptr[n]).len;
            if (end + len > c->mark_at)
                break;
            end += len;
            n++;
        }
        c->n_before[c->mark++] = n;
        next_mark(c);
    }
}

/* ---- split and merge ---- */

static vl_status on_piece(void *user, size_t from, size_t to, vl_error *err)
{
    struct call *c = user;
    size_t first_id = c->ids.n;
    vl_status rc =
        vl_bpe_encode(&c->t->bpe, &c->scratch, c->view->text + from, to - from, &c->ids, err);
    if (rc == VL_OK && c->mark_at <= to)
        answer_in_piece(c, from, to, first_id);
    return rc;
}

/* Splits and merges text[from, to) of the view. */
static vl_status encode_plain(struct call *c, const struct view *v, size_t from, size_t to,
                              vl_error *err)
{
    const struct vl_splitter *s = &c->t->splitter;
    vl_status rc = VL_OK;

    c->view = v;
    next_mark(c);
    if (s->n_stages != 1 || s->stages[0].scan == NULL)
        return vl_split(s, &c->split_run, v->text, from, to, on_piece, c, err);
    while (from < to && rc == VL_OK) {
        size_t end = s->stages[0].scan(s->classes, v->text, from, to);
        rc = on_piece(c, from, end, err);
        from = end;
    }
    return rc;
}

static vl_status encode_normalized(struct call *c, const struct view *v, vl_error *err);

/* What lies between two added tokens: view bytes [from, to). Pass 0 works on the raw text, pass 1
 * on the normalised one. */
static vl_status encode_gap(struct call *c, const struct view *v, int pass, size_t from, size_t to,
                            vl_error *err)
{
    const vl_tokenizer *t = c->t;

    if (from == to)
        return VL_OK;
    if (pass == 1)
        return encode_plain(c, v, from, to, err);
    struct view gap = {v->text, from, to, from, to, NULL};
    if (t->nfc != NULL &&
        !vl_nfc_is_stable(t->classes, VL_CP_NFC_MAYBE, v->text + from, to - from)) {
        vl_buf_clear(&c->normal);
        c->changes.n = 0;
        if (!vl_nfc_apply(t->nfc, t->classes, VL_CP_NFC_MAYBE, v->text + from, to - from,
                          &c->normal, &c->changes))
            return vl_error_set(err, VL_E_NOMEM, "encode: out of memory");
        gap.text = (const uint8_t *)c->normal.ptr;
        gap.from = 0;
        gap.to = c->normal.len;
        gap.changes = &c->changes;
    }
    return encode_normalized(c, &gap, err);
}

/* Finds the added tokens of `set` in the view, each inside one template piece, and encodes the
 * gaps. */
static vl_status encode_matches(struct call *c, const struct view *v, const struct vl_added *set,
                                int pass, vl_error *err)
{
    size_t done = v->from; /* view bytes that are encoded */
    size_t i = pass == 1 ? c->piece_at : 0;
    size_t piece_from = pass == 1 ? c->piece_at_from : 0;
    vl_status rc;

    for (; i < c->n_pieces && piece_from < v->raw_to && set->n > 0; i++) {
        size_t piece_to = piece_from + c->pieces[i].len;
        if (pass == 1 && piece_to <= v->raw_from) { /* gaps ascend: none reaches it again */
            c->piece_at = i + 1;
            c->piece_at_from = piece_to;
        }
        size_t a = piece_from > v->raw_from ? piece_from : v->raw_from;
        size_t b = piece_to < v->raw_to ? piece_to : v->raw_to;
        piece_from = piece_to;
        if (c->pieces[i].kind != VL_PIECE_TEMPLATE || a >= b)
            continue;
        size_t at = to_view(v, a, true), end = to_view(v, b, false);
        size_t floor = at;
        struct vl_added_match m;
        while (vl_added_next(set, v->text, v->from, v->to, floor, at, end, &m)) {
            rc = encode_gap(c, v, pass, done, m.from, err);
            if (rc != VL_OK)
                return rc;
            c->view = v;
            for (next_mark(c); c->mark_at <= m.from; next_mark(c))
                c->n_before[c->mark++] = c->ids.n;
            size_t before = c->ids.n;
            if (!vl_ids_put(&c->ids, m.id))
                return vl_error_set(err, VL_E_NOMEM, "encode: out of memory");
            for (; c->mark_at < m.to; next_mark(c))
                c->n_before[c->mark++] = before;
            at = m.search;
            done = floor = m.to;
        }
    }
    return encode_gap(c, v, pass, done, v->to, err);
}

static vl_status encode_normalized(struct call *c, const struct view *v, vl_error *err)
{
    if (c->t->normalized.n == 0)
        return encode_plain(c, v, v->from, v->to, err);
    return encode_matches(c, v, &c->t->normalized, 1, err);
}

/* ---- the call ---- */

/* Sets raw to the concatenation, checked. One piece is used where it lies. */
static vl_status join_pieces(struct call *c, vl_error *err)
{
    uint64_t total = 0;
    for (size_t i = 0; i < c->n_pieces; i++) {
        if (c->pieces[i].kind != VL_PIECE_TEXT && c->pieces[i].kind != VL_PIECE_TEMPLATE)
            return vl_error_set(err, VL_E_INVALID, "encode: piece %zu has the kind %d", i,
                                c->pieces[i].kind);
        if (!vl_add(total, c->pieces[i].len, &total) || total > TEXT_BYTES_MAX)
            return vl_error_set(err, VL_E_RANGE, "encode: the text is longer than %d bytes",
                                TEXT_BYTES_MAX);
    }
    c->raw_len = (size_t)total;
    c->raw = (const uint8_t *)(c->n_pieces == 1 ? c->pieces[0].ptr : "");
    if (c->n_pieces > 1 && total > 0) {
        size_t at = 0;
        c->raw = c->joined = malloc((size_t)total);
        if (c->joined == NULL)
            return vl_error_set(err, VL_E_NOMEM, "encode: out of memory for %zu bytes", c->raw_len);
        for (size_t i = 0; i < c->n_pieces; i++) {
            if (c->pieces[i].len > 0)
                memcpy(c->joined + at, c->pieces[i].ptr, (size_t)c->pieces[i].len);
            at += (size_t)c->pieces[i].len;
        }
    }
    size_t valid = c->raw_len > 0 ? vl_utf8_valid((const char *)c->raw, c->raw_len) : 0;
    if (valid != c->raw_len)
        return vl_error_set(err, VL_E_INVALID, "encode: invalid UTF-8 at byte %zu of %zu", valid,
                            c->raw_len);
    for (size_t i = 0; i < c->n_marks; i++)
        if (c->marks[i] > c->raw_len || (i > 0 && c->marks[i] < c->marks[i - 1]))
            return vl_error_set(err, VL_E_INVALID,
                                "encode: mark %zu (byte %llu of %zu) is out of place", i,
                                (unsigned long long)c->marks[i], c->raw_len);
    return VL_OK;
}

vl_status vl_bpe_tokenizer_encode(const vl_tokenizer *t, const vl_piece *pieces, uint64_t n_pieces,
                                  const uint64_t *marks, uint64_t *n_before, uint64_t n_marks,
                                  int32_t *ids, uint64_t cap, uint64_t *n_ids, vl_error *err)
{
    struct call c = {.t = t,
                     .pieces = pieces,
                     .n_pieces = (size_t)n_pieces,
                     .marks = marks,
                     .n_marks = (size_t)n_marks,
                     .mark_at = SIZE_MAX};

    vl_status rc = join_pieces(&c, err);
    if (rc != VL_OK)
        goto out;
    c.n_before = calloc(c.n_marks + 1, sizeof *c.n_before);
    if (c.n_before == NULL) {
        rc = vl_error_set(err, VL_E_NOMEM, "encode: out of memory for %zu marks", c.n_marks);
        goto out;
    }
    answer_marks(&c, 0);
    struct view whole = {c.raw, 0, c.raw_len, 0, c.raw_len, NULL};
    rc = encode_matches(&c, &whole, &t->raw, 0, err);
    if (rc != VL_OK)
        goto out;
    answer_marks(&c, c.raw_len);

    *n_ids = c.ids.n;
    if (c.n_marks > 0)
        memcpy(n_before, c.n_before, c.n_marks * sizeof *n_before);
    size_t n = c.ids.n < cap ? c.ids.n : (size_t)cap;
    if (n > 0)
        memcpy(ids, c.ids.ptr, n * sizeof *ids);
    if (n < c.ids.n)
        rc = vl_error_set(err, VL_E_RANGE, "encode: %zu ids, room for %llu", c.ids.n,
                          (unsigned long long)cap);
out:
    free(c.joined);
    free(c.n_before);
    free(c.ids.ptr);
    free(c.changes.ptr);
    vl_buf_fini(&c.normal);
    vl_bpe_scratch_fini(&c.scratch);
    vl_split_run_fini(&c.split_run);
    return rc;
}
