/* chat/view.c: what stands where on the full screen: transcript over the flower, a list, the rule,
 * the input box, the status line. A function of the face and the size; sends nothing. */
#include "chat/view.h"

#include <stdlib.h>
#include <string.h>

#include "chat/ansi.h"
#include "chat/status.h"
#include "chat/transcript.h"
#include "chat/width.h"

enum { BOX_ROWS = 5, FLOWER_COLS_MIN = 64, FLOWER_ROWS_MIN = 16, MENU_ROWS = 10, PROMPT = 2 };

void vl_view_init(struct vl_view *v)
{
    memset(v, 0, sizeof(*v));
}

void vl_view_fini(struct vl_view *v)
{
    free(v->cells);
    vl_view_init(v);
}

/* Rows from the top: transcript, list, rule, box, status. */
struct layout {
    int cols, margin;
    int transcript, menu, rule, box, status; /* heights */
};

static void style_of(const struct vl_face *f, vl_style style, vl_paint *fg, int *attr)
{
    enum vl_role role = style & 255;

    *attr = style >> 8;
    *fg = vl_theme_paint(f->theme, role, f->depth);
    if (f->depth == VL_COLOUR_NONE && role == VL_ROLE_DIM)
        *attr |= VL_ATTR_DIM;
}

/* Puts styled text; returns the column behind it. tint: keep the background that is there. */
static int put_styled(const struct vl_face *f, struct vl_screen *s, int y, int x, int end,
                      const char *text, const vl_style *styles, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t n = at;
        vl_paint fg;
        int attr;

        while (n < len && styles[n] == styles[at])
            n++;
        style_of(f, styles[at], &fg, &attr);
        x = vl_screen_put(s, y, x, end, text + at, n - at, fg, 0, attr);
        at = n;
    }
    return x;
}

/* ---- the flower ---- */

bool vl_view_has_flower(const struct vl_face *f, int cols, int rows)
{
    return f->fade > 0 && cols >= FLOWER_COLS_MIN && rows >= FLOWER_ROWS_MIN;
}

static vl_paint flower_paint(const struct vl_face *f, uint32_t rgb)
{
    int r = (int)(rgb >> 16), g = (int)(rgb >> 8 & 255), part = f->fade * 256 / 100;
    uint32_t mixed;

    if (f->depth == VL_COLOUR_NONE)
        return 0;
    if (f->depth == VL_COLOUR_16)
        return r > g + 20 ? VL_ANSI(1) : g > r ? VL_ANSI(2) : VL_ANSI(8);
    mixed = vl_colour_mix(f->theme->background, rgb, part);
    return VL_RGB(mixed & 0xf8f8f8);
}

static void draw_flower(struct vl_view *v, const struct vl_face *f, struct vl_screen *s, int height)
{
    int rows = height, cols, left;

    if (!vl_view_has_flower(f, s->cols, s->rows) || height < 6)
        return;
    rows = rows > 56 ? 56 : rows;
    cols = rows * 2 < s->cols - 2 ? rows * 2 : s->cols - 2;
    left = s->cols - cols + cols / 6; /* the box is wider than the flower: part of it may go */
    if (left + cols > s->cols)
        left = s->cols - cols;
    if (cols != v->flower_cols || rows != v->flower_rows) {
        free(v->cells);
        v->cells = calloc((size_t)cols * (size_t)rows, sizeof(*v->cells));
        v->flower_cols = v->cells ? cols : 0;
        v->flower_rows = v->cells ? rows : 0;
        v->drawn_phase = -1;
    }
    if (!v->cells)
        return;
    if (f->bloom != v->drawn_bloom || f->phase != v->drawn_phase)
        vl_flower_draw(v->cells, cols, rows, f->bloom, f->phase);
    v->drawn_bloom = f->bloom;
    v->drawn_phase = f->phase;
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < cols; x++) {
            const struct vl_flower_cell *c = &v->cells[y * cols + x];
            struct vl_cell *cell = vl_screen_at(s, height - rows + y, left + x);

            if (!c->dots || !cell)
                continue;
            cell->ch = 0x2800u + c->dots;
            cell->fg = flower_paint(f, c->rgb);
            if (f->depth <= VL_COLOUR_16)
                cell->attr = VL_ATTR_DIM;
        }
}

/* A cell that text stands in: the flower under it is a faint tint. */
static vl_paint tint_of(const struct vl_face *f, const struct vl_cell *c)
{
    if (c->ch < 0x2800 || c->ch > 0x28FF || VL_PAINT_KIND(c->fg) != 1)
        return c->bg;
    return VL_RGB(vl_colour_mix(f->theme->background, c->fg & 0xffffff, 80));
}

static void put_line(const struct vl_face *f, struct vl_screen *s, int y, int x, int end,
                     const char *text, const vl_style *styles, size_t len)
{
    vl_paint tints[4096];
    size_t skip = 0;
    int from, to;

    while (skip < len && text[skip] == ' ' && !(styles[skip] >> 8))
        skip++; /* the flower shows through an indent */
    from = x + (int)skip;
    if (from >= end || from < 0)
        return;
    for (int k = from; k < end && k < 4096; k++)
        tints[k] = vl_screen_at(s, y, k) ? tint_of(f, vl_screen_at(s, y, k)) : 0;
    to = put_styled(f, s, y, from, end, text + skip, styles + skip, len - skip);
    for (int k = from; k < to && k < 4096; k++)
        vl_screen_at(s, y, k)->bg = tints[k];
}

/* ---- parts ---- */

static size_t count_lines(const struct vl_face *f, int width)
{
    size_t n = 0;

    for (size_t i = 0; i < f->session->n_items; i++) {
        struct vl_lines *l = vl_transcript_lines(f->session->items[i], width, f->thoughts, f->now,
                                                 f->turn->stats.first_at);

        n += l ? l->n : 0;
    }
    return n;
}

static void draw_transcript(struct vl_view *v, struct vl_face *f, struct vl_screen *s,
                            const struct layout *lay)
{
    size_t total = count_lines(f, lay->cols - 2 * lay->margin), room = (size_t)lay->transcript, top;
    size_t before = 0;

    if (f->scroll && v->n_lines && total > v->n_lines) /* what was looked at stays where it is */
        f->scroll += total - v->n_lines;
    v->n_lines = total;
    v->page = room;
    if (f->scroll > (total > room ? total - room : 0))
        f->scroll = total > room ? total - room : 0;
    top = total > room ? total - room - f->scroll : 0;
    for (size_t i = 0; i < f->session->n_items; i++) {
        const struct vl_lines *l = f->session->items[i]->view;
        size_t n = l ? l->n : 0;

        for (size_t k = before < top ? top - before : 0; k < n && before + k < top + room; k++) {
            const struct vl_doc *d;
            const struct vl_line *line = vl_transcript_line(l, k, &d);

            if (line->len)
                put_line(f, s, (int)(before + k - top), lay->margin, lay->cols - lay->margin,
                         d->span.text.ptr + line->at, d->span.styles + line->at, line->len);
        }
        before += n;
    }
}

static void put_plain(const struct vl_face *f, struct vl_screen *s, int y, int x, int end,
                      const char *text, size_t len, vl_style style)
{
    vl_paint fg;
    int attr;

    style_of(f, style, &fg, &attr);
    vl_screen_put(s, y, x, end, text, len, fg, 0, attr);
}

static void draw_menu(const struct vl_face *f, struct vl_screen *s, const struct layout *lay, int y)
{
    const struct vl_menu *m = f->menu;
    int rows = lay->menu, title = m && m->title.len && rows > 1;
    size_t from = 0;

    if (!rows)
        return;
    for (int k = 0; k < rows; k++) /* the list stands on clear ground */
        for (int x = 0; x < lay->cols; x++)
            *vl_screen_at(s, y + k, x) = (struct vl_cell){' ', 0, 0, 0, 1, 0};
    if (title)
        put_plain(f, s, y, lay->margin, lay->cols, m->title.ptr, m->title.len, VL_ROLE_ACCENT);
    if (m->selected < m->n && m->selected >= (size_t)(rows - title))
        from = m->selected - (size_t)(rows - title) + 1;
    for (int k = title; k < rows && from < m->n; k++, from++)
        put_plain(f, s, y + k, lay->margin + 2, lay->cols, m->lines[from], strlen(m->lines[from]),
                  from == m->selected ? VL_STYLE(VL_ROLE_TEXT, VL_ATTR_REVERSE) : VL_ROLE_NOTE);
}

static void draw_box(const struct vl_face *f, struct vl_screen *s, const struct layout *lay, int y)
{
    struct vl_input_row *rows = NULL;
    size_t n, row, first = 0, cap = 0;
    int cell, prompt = lay->cols > 4 ? PROMPT : 0;

    f->input->width = lay->cols - prompt - (lay->cols > 4 ? lay->margin : 0);
    n = vl_input_rows(f->input, NULL, 0, &row, &cell);
    if (!vl_grow(&rows, &cap, n, sizeof(*rows)))
        return;
    vl_input_rows(f->input, rows, n, NULL, NULL);
    if (row >= (size_t)lay->box)
        first = row - (size_t)lay->box + 1;
    if (prompt)
        put_plain(f, s, y, 0, lay->cols, "\xE2\x80\xBA ", 4,
                  VL_STYLE(VL_ROLE_ACCENT, VL_ATTR_BOLD));
    for (size_t k = 0; k < (size_t)lay->box && first + k < n; k++) {
        const struct vl_input_row *r = &rows[first + k];

        put_plain(f, s, y + (int)k, prompt, lay->cols,
                  f->input->text.ptr ? f->input->text.ptr + r->from : "", r->to - r->from,
                  VL_ROLE_TEXT);
    }
    s->cursor_y = y + (int)(row - first);
    s->cursor_x = prompt + cell < lay->cols ? prompt + cell : lay->cols - 1;
    free(rows);
}

static struct layout plan(const struct vl_face *f, const struct vl_screen *s)
{
    struct layout lay = {.cols = s->cols, .margin = s->cols >= 24 ? 1 : 0};
    int left = s->rows, want;

    f->input->width = lay.cols - (lay.cols > 4 ? PROMPT + lay.margin : 0);
    want = (int)vl_input_rows(f->input, NULL, 0, NULL, NULL);
    want = want > BOX_ROWS ? BOX_ROWS : want;
    lay.box = want < left ? want : left;
    if (left - lay.box < 3 && lay.box > 1)
        lay.box = left > 3 ? left - 3 : 1;
    left -= lay.box;
    lay.status = left >= 2;
    left -= lay.status;
    lay.rule = left >= 4;
    left -= lay.rule;
    if (f->menu && f->menu->n) {
        lay.menu = (int)f->menu->n + (f->menu->title.len ? 1 : 0);
        lay.menu = lay.menu > MENU_ROWS ? MENU_ROWS : lay.menu;
        lay.menu = lay.menu > left / 2 ? left / 2 : lay.menu;
    }
    lay.transcript = left;
    return lay;
}

void vl_view_draw(struct vl_view *v, struct vl_face *f, struct vl_screen *s)
{
    struct layout lay = plan(f, s);
    struct vl_span status = {0};
    int y = lay.transcript;

    vl_screen_begin(s);
    draw_flower(v, f, s, lay.transcript);
    draw_transcript(v, f, s, &lay);
    draw_menu(f, s, &lay, y - lay.menu);
    for (int x = 0; lay.rule && x < lay.cols; x++)
        put_plain(f, s, y, x, lay.cols, "\xE2\x94\x80", 3, VL_ROLE_DIM);
    y += lay.rule;
    draw_box(f, s, &lay, y);
    y += lay.box;
    if (lay.status) {
        vl_status_line(f, lay.cols - 2 * lay.margin, &status);
        if (f->scroll) {
            static const char more[] = " \xC2\xB7 \xE2\x86\x93 more below";

            vl_span_put(&status, more, sizeof(more) - 1, VL_ROLE_ACCENT);
        }
        put_styled(f, s, y, lay.margin, lay.cols, status.text.ptr, status.styles, status.text.len);
    }
    vl_span_fini(&status);
}

void vl_view_print(const struct vl_face *f, int cols, vl_buf *out)
{
    int margin = cols >= 24 ? 1 : 0;

    count_lines(f, cols - 2 * margin);
    for (size_t i = 0; i < f->session->n_items; i++) {
        const struct vl_lines *l = f->session->items[i]->view;

        for (size_t k = 0; l && k < l->n; k++) {
            const struct vl_doc *d;
            const struct vl_line *line = vl_transcript_line(l, k, &d);

            vl_ansi_line(out, d, line, f->theme, f->depth);
            vl_buf_puts(out, "\r\n");
        }
    }
}
