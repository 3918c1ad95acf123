/* chat/inline.c: appends to the scrollback, keeps a small live part below. It never writes above
 * its live rows, and those are never more than the screen has, so nothing comes twice. */
#include "chat/inline.h"

#include <stdlib.h>
#include <string.h>

#include "chat/ansi.h"
#include "chat/status.h"
#include "chat/transcript.h"
#include "chat/width.h"

enum { BOX_ROWS = 5, MENU_ROWS = 8, PROMPT = 2 };

struct rows {
    vl_buf *row; /* owned, n */
    size_t n, cap;
};

struct vl_inline {
    bool sync;
    struct rows live;  /* as they are on the screen */
    size_t cursor_row; /* of the live rows, where the terminal's cursor is */
    int cursor_cell;
    int cols;
    bool started;
};

struct vl_inline *vl_inline_create(bool sync)
{
    struct vl_inline *v = calloc(1, sizeof(*v));

    if (v)
        v->sync = sync;
    return v;
}

static void rows_fini(struct rows *r)
{
    for (size_t i = 0; i < r->n; i++)
        vl_buf_fini(&r->row[i]);
    free(r->row);
    memset(r, 0, sizeof(*r));
}

void vl_inline_destroy(struct vl_inline *v)
{
    if (!v)
        return;
    rows_fini(&v->live);
    free(v);
}

void vl_inline_forget(struct vl_inline *v)
{
    rows_fini(&v->live);
    v->cursor_row = 0;
    v->started = false;
}

static vl_buf *add_row(struct rows *r)
{
    if (!vl_grow(&r->row, &r->cap, r->n + 1, sizeof(*r->row)))
        return NULL;
    memset(&r->row[r->n], 0, sizeof(*r->row));
    return &r->row[r->n++];
}

static void put_span(const struct vl_face *f, struct rows *r, const struct vl_span *s)
{
    vl_buf *b = add_row(r);

    if (b && s->text.len)
        vl_ansi_put(b, s->text.ptr, s->styles, s->text.len, f->theme, f->depth);
}

/* Characters of a line that are there at any width: no blanks, no bars and rules. */
static size_t ink(const char *s, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char b = (unsigned char)s[i];
        bool box = b == 0xE2 && i + 1 < len && (unsigned char)s[i + 1] >= 0x94 &&
                   (unsigned char)s[i + 1] <= 0x96;

        n += b > ' ' && (b & 0xC0) != 0x80 && !box;
    }
    return n;
}

/* Adds lines [from, to) of an item as rows; returns their ink. skip: bytes of the first that do not
 * count. */
static size_t put_lines(const struct vl_face *f, const struct vl_lines *l, size_t from, size_t to,
                        size_t skip, struct rows *r)
{
    size_t sum = 0;

    for (size_t i = from; i < to; i++, skip = 0) {
        const struct vl_doc *d;
        struct vl_line line = *vl_transcript_line(l, i, &d);
        vl_buf *b = add_row(r);

        skip = skip < line.len ? skip : line.len;
        line.at += skip;
        line.len -= skip;
        if (line.len)
            sum += ink(d->span.text.ptr + line.at, line.len);
        if (b)
            vl_ansi_line(b, d, &line, f->theme, f->depth);
    }
    return sum;
}

/* The width has changed under an item that is in the scrollback in part: finds by its ink where the
 * rest begins in the new lines. */
static void find_rest(const struct vl_lines *l, struct vl_item *item)
{
    size_t left = item->printed_ink;

    item->printed_lines = item->printed_skip = 0;
    for (; item->printed_lines < l->n; item->printed_lines++) {
        const struct vl_doc *d;
        const struct vl_line *line = vl_transcript_line(l, item->printed_lines, &d);
        const char *text = line->len ? d->span.text.ptr + line->at : "";
        size_t here = ink(text, line->len), at = 0;

        if (here <= left && (left || !line->len)) {
            left -= here;
            continue;
        }
        while (at < line->len && (ink(text, at) < left || text[at] == ' '))
            at += vl_cluster_next(text + at, line->len - at, NULL);
        item->printed_skip = left ? at : 0;
        return;
    }
}

/* ---- the live rows ---- */

static void spinner(const struct vl_face *f, int width, struct rows *r)
{
    static const char *const frames[] = {"\xE2\xA2\x80\xE2\xA1\x80", "\xE2\xA3\x80\xE2\xA3\x80",
                                         "\xE2\xA3\x84\xE2\xA3\xA0", "\xE2\xA3\x8E\xE2\xA3\xB1",
                                         "\xE2\xA2\x8E\xE2\xA1\xB1", "\xE2\xA3\x8E\xE2\xA3\xB1",
                                         "\xE2\xA3\x84\xE2\xA3\xA0", "\xE2\xA3\x80\xE2\xA3\x80"};
    struct vl_span s = {0};
    vl_buf text = VL_BUF_INIT;

    vl_status_activity(f, &text);
    if (text.len) {
        vl_span_put(&s, frames[(unsigned)(f->now * 6) % 8], 6, VL_ROLE_ACCENT);
        vl_span_put(&s, " ", 1, VL_ROLE_DIM);
        vl_span_put(&s, text.ptr, vl_text_fit(text.ptr, text.len, width - 3, NULL), VL_ROLE_DIM);
        put_span(f, r, &s);
    }
    vl_span_fini(&s);
    vl_buf_fini(&text);
}

static void menu(const struct vl_face *f, int width, struct rows *r)
{
    const struct vl_menu *m = f->menu;
    size_t from = 0;

    if (!m || !m->n)
        return;
    if (m->selected < m->n && m->selected >= MENU_ROWS)
        from = m->selected - MENU_ROWS + 1;
    for (size_t i = from; i < m->n && i < from + MENU_ROWS; i++) {
        struct vl_span s = {0};

        vl_span_put(&s, "  ", 2, VL_ROLE_DIM);
        vl_span_put(&s, m->lines[i], vl_text_fit(m->lines[i], strlen(m->lines[i]), width - 2, NULL),
                    i == m->selected ? VL_STYLE(VL_ROLE_TEXT, VL_ATTR_REVERSE) : VL_ROLE_NOTE);
        put_span(f, r, &s);
        vl_span_fini(&s);
    }
}

static void box(const struct vl_face *f, int width, struct rows *r, size_t *cursor_row,
                int *cursor_cell)
{
    struct vl_input *in = f->input;
    struct vl_input_row *rows = NULL;
    size_t n, row, first = 0, cap = 0;
    int cell, most = BOX_ROWS;

    in->width = width - PROMPT > 1 ? width - PROMPT : 1;
    n = vl_input_rows(in, NULL, 0, &row, &cell);
    if (!vl_grow(&rows, &cap, n, sizeof(*rows)))
        return;
    vl_input_rows(in, rows, n, NULL, NULL);
    if (row >= (size_t)most)
        first = row - (size_t)most + 1;
    for (size_t k = first; k < n && k < first + (size_t)most; k++) {
        struct vl_span s = {0};

        vl_span_put(&s, k == first ? "\xE2\x80\xBA " : "  ", k == first ? 4 : 2,
                    VL_STYLE(VL_ROLE_ACCENT, VL_ATTR_BOLD));
        if (in->text.len)
            vl_span_put(&s, in->text.ptr + rows[k].from, rows[k].to - rows[k].from, VL_ROLE_TEXT);
        if (k == row) {
            *cursor_row = r->n;
            *cursor_cell = PROMPT + cell;
        }
        put_span(f, r, &s);
        vl_span_fini(&s);
    }
    free(rows);
}

/* ---- what is final ---- */

/* Puts final lines of all items into done; what may still change of the last one into live, as much
 * as fits into `room` rows. */
static void sort_lines(const struct vl_face *f, int width, size_t room, bool all, struct rows *done,
                       struct rows *live)
{
    for (size_t i = 0; i < f->session->n_items; i++) {
        struct vl_item *item = f->session->items[i];
        struct vl_lines *l;
        size_t stable;

        if (item->printed)
            continue;
        l = vl_transcript_lines(item, width, f->thoughts, f->now, f->turn->stats.first_at);
        if (!l)
            continue;
        if (item->printed_ink && item->printed_width != width)
            find_rest(l, item);
        item->printed_width = width;
        stable = all ? l->n : vl_transcript_stable(l, item);
        /* More than fits can't stay live: its top is taken for final. */
        if (stable < l->n && l->n - stable > room)
            stable = l->n - room;
        if (stable > item->printed_lines) {
            item->printed_ink +=
                put_lines(f, l, item->printed_lines, stable, item->printed_skip, done);
            item->printed_lines = stable;
            item->printed_skip = 0;
        }
        if (!item->open || all)
            item->printed = true;
        else if (l->n > item->printed_lines)
            put_lines(f, l, item->printed_lines, l->n, item->printed_skip, live);
    }
}

static bool same_rows(const struct rows *a, const struct rows *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->row[i].len != b->row[i].len ||
            (a->row[i].len && memcmp(a->row[i].ptr, b->row[i].ptr, a->row[i].len) != 0))
            return false;
    return true;
}

static bool same_row(const struct rows *a, const struct rows *b, size_t i)
{
    return i < a->n && a->row[i].len == b->row[i].len &&
           (!a->row[i].len || memcmp(a->row[i].ptr, b->row[i].ptr, a->row[i].len) == 0);
}

static void emit(struct vl_inline *v, const struct rows *done, const struct rows *live,
                 size_t cursor_row, int cursor_cell, vl_buf *out)
{
    bool redraw = done->n > 0 || !v->started;

    if (v->sync)
        vl_buf_puts(out, "\x1b[?2026h");
    vl_buf_puts(out, "\x1b[?25l\r");
    if (v->cursor_row)
        vl_buf_printf(out, "\x1b[%zuA", v->cursor_row);
    /* Erased row by row: a terminal may take "erase all below" in its first row for a new page, and
     * keep what was there in its scrollback. */
    for (size_t i = 0; i < done->n; i++) {
        vl_buf_puts(out, "\x1b[K");
        vl_buf_append(out, done->row[i].ptr, done->row[i].len);
        vl_buf_puts(out, "\r\n");
    }
    for (size_t i = 0; i < live->n; i++) {
        if (i)
            vl_buf_puts(out, "\r\n");
        if (!redraw && same_row(&v->live, live, i))
            continue;
        vl_buf_puts(out, "\x1b[K");
        vl_buf_append(out, live->row[i].ptr, live->row[i].len);
    }
    if (redraw)
        vl_buf_puts(out, "\x1b[J");
    else if (v->live.n > live->n)
        vl_buf_puts(out, live->n ? "\r\n\x1b[J\x1b[A" : "\x1b[J");
    if (live->n && live->n - 1 > cursor_row)
        vl_buf_printf(out, "\x1b[%zuA", live->n - 1 - cursor_row);
    vl_buf_putc(out, '\r');
    if (cursor_cell > 0)
        vl_buf_printf(out, "\x1b[%dC", cursor_cell);
    vl_buf_puts(out, "\x1b[?25h");
    if (v->sync)
        vl_buf_puts(out, "\x1b[?2026l");
}

static void draw(struct vl_inline *v, const struct vl_face *f, bool all, vl_buf *out)
{
    struct rows done = {0}, live = {0}, below = {0};
    int cols = f->cols, rows = f->rows, width, cell = 0;
    size_t row = 0, room;
    struct vl_span status = {0};

    width = cols > 2 ? cols - 1 : 1;
    if (v->started && cols != v->cols) {
        /* A terminal that wraps anew has moved the live rows down by a number that nobody tells: to
         * go up as far as before may leave a piece of them, and never overwrites what is final. */
        v->started = false;
        if (rows > 0 && v->cursor_row > (size_t)(rows - 1))
            v->cursor_row = (size_t)(rows - 1);
    }
    v->cols = cols;
    if (!all) {
        spinner(f, width, &below);
        if (f->input) {
            menu(f, width, &below);
            box(f, width, &below, &row, &cell);
            vl_status_line(f, width, &status);
            put_span(f, &below, &status);
            vl_span_fini(&status);
        }
    }
    room = rows - 1 > (int)below.n ? (size_t)(rows - 1) - below.n : 0;
    sort_lines(f, width, room, all, &done, &live);
    row += live.n;
    if (!f->input && below.n) /* one-shot: behind the spinner */
        row = live.n + below.n - 1;
    for (size_t i = 0; i < below.n; i++) {
        vl_buf *b = add_row(&live);

        if (b) {
            *b = below.row[i];
            memset(&below.row[i], 0, sizeof(below.row[i]));
        }
    }
    while (live.n > (size_t)(rows > 1 ? rows - 1 : 1)) { /* a tiny screen: the box stays */
        vl_buf_fini(&live.row[0]);
        memmove(live.row, live.row + 1, --live.n * sizeof(*live.row));
        row = row ? row - 1 : 0;
    }
    if (done.n || !v->started || !same_rows(&live, &v->live) || row != v->cursor_row ||
        cell != v->cursor_cell) {
        emit(v, &done, &live, row, cell, out);
        v->started = true;
        v->cursor_row = row;
        v->cursor_cell = cell;
        rows_fini(&v->live);
        v->live = live;
        memset(&live, 0, sizeof(live));
    }
    rows_fini(&done);
    rows_fini(&live);
    rows_fini(&below);
}

void vl_inline_frame(struct vl_inline *v, const struct vl_face *f, vl_buf *out)
{
    draw(v, f, false, out);
}

void vl_inline_end(struct vl_inline *v, const struct vl_face *f, vl_buf *out)
{
    draw(v, f, true, out);
    vl_inline_forget(v);
}
