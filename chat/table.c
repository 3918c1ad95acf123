/* chat/table.c: columns that line up by cells of the terminal, not by characters. Pure. */
#include "chat/table.h"

#include <stdlib.h>
#include <string.h>

#include "chat/width.h"

enum { COLUMNS_MAX = 64, NARROW = 5, GAP = 3 /* " | " */ };

void vl_table_begin(struct vl_table *t)
{
    memset(t, 0, sizeof(*t));
}

void vl_table_fini(struct vl_table *t)
{
    for (size_t i = 0; i < t->n_cells; i++)
        vl_span_fini(&t->cells[i].span);
    free(t->cells);
    free(t->rows);
    vl_table_begin(t);
}

void vl_table_row(struct vl_table *t)
{
    if (vl_grow(&t->rows, &t->rows_cap, t->n_rows + 1, sizeof(*t->rows)))
        t->rows[t->n_rows++] = t->n_cells;
}

void vl_table_cell(struct vl_table *t, const struct vl_span *text, bool right)
{
    struct vl_table_cell_box *c;

    if (!vl_grow(&t->cells, &t->cap, t->n_cells + 1, sizeof(*t->cells)))
        return;
    c = &t->cells[t->n_cells++];
    memset(c, 0, sizeof(*c));
    c->right = right;
    for (size_t i = 0; i < text->text.len; i++) /* styles go along byte by byte */
        vl_span_put(&c->span, text->text.ptr + i, 1, text->styles[i]);
}

static size_t row_cells(const struct vl_table *t, size_t row)
{
    size_t end = row + 1 < t->n_rows ? t->rows[row + 1] : t->n_cells;

    return end - t->rows[row];
}

static const struct vl_table_cell_box *cell_at(const struct vl_table *t, size_t row, size_t col)
{
    return col < row_cells(t, row) ? &t->cells[t->rows[row] + col] : NULL;
}

static int span_cells(const struct vl_span *s)
{
    return s->text.len ? vl_text_cells(s->text.ptr, s->text.len) : 0;
}

/* Widths of the columns within `room` cells; false if there is no room for columns. */
static bool column_widths(const struct vl_table *t, size_t n_cols, int room, int *widths)
{
    int sum = 0;

    for (size_t c = 0; c < n_cols; c++) {
        widths[c] = 1;
        for (size_t r = 0; r < t->n_rows; r++) {
            const struct vl_table_cell_box *b = cell_at(t, r, c);
            int w = b ? span_cells(&b->span) : 0;

            widths[c] = w > widths[c] ? w : widths[c];
        }
        sum += widths[c];
    }
    room -= GAP * ((int)n_cols - 1);
    while (sum > room) { /* the widest column gives way */
        size_t widest = 0;

        for (size_t c = 1; c < n_cols; c++)
            if (widths[c] > widths[widest])
                widest = c;
        if (widths[widest] <= NARROW)
            return false;
        widths[widest]--;
        sum--;
    }
    return true;
}

static void blanks(struct vl_doc *doc, int n)
{
    for (int i = 0; i < n; i++)
        vl_doc_put(doc, " ", 1, VL_ROLE_TEXT);
}

static void prefix(struct vl_doc *doc, const struct vl_span *p)
{
    if (p && p->text.len)
        vl_doc_put_span(doc, p, 0, p->text.len);
}

static void render_row(const struct vl_table *t, size_t row, size_t n_cols, const int *widths,
                       struct vl_doc *doc, const struct vl_span *first, const struct vl_span *next)
{
    struct vl_doc parts[COLUMNS_MAX];
    size_t height = 1;

    memset(parts, 0, n_cols * sizeof(parts[0]));
    for (size_t c = 0; c < n_cols; c++) {
        const struct vl_table_cell_box *b = cell_at(t, row, c);

        if (b)
            vl_doc_wrap(&parts[c], &b->span, widths[c], NULL, NULL);
        height = parts[c].n_lines > height ? parts[c].n_lines : height;
    }
    for (size_t y = 0; y < height; y++) {
        prefix(doc, y ? next : first);
        for (size_t c = 0; c < n_cols; c++) {
            const struct vl_line *l = y < parts[c].n_lines ? &parts[c].lines[y] : NULL;
            const struct vl_table_cell_box *b = cell_at(t, row, c);
            int used = l && l->len ? vl_text_cells(parts[c].span.text.ptr + l->at, l->len) : 0;

            if (b && b->right)
                blanks(doc, widths[c] - used);
            if (l && l->len)
                vl_doc_put_span(doc, &parts[c].span, l->at, l->len);
            if (!(b && b->right))
                blanks(doc, c + 1 < n_cols ? widths[c] - used : 0);
            if (c + 1 < n_cols)
                vl_doc_puts(doc, " \xE2\x94\x82 ", VL_ROLE_DIM);
        }
        vl_doc_end_line(doc);
    }
    for (size_t c = 0; c < n_cols; c++)
        vl_doc_fini(&parts[c]);
}

static void head_rule(size_t n_cols, const int *widths, struct vl_doc *doc,
                      const struct vl_span *next)
{
    prefix(doc, next);
    for (size_t c = 0; c < n_cols; c++) {
        for (int i = 0; i < widths[c]; i++)
            vl_doc_puts(doc, "\xE2\x94\x80", VL_ROLE_DIM);
        if (c + 1 < n_cols)
            vl_doc_puts(doc, "\xE2\x94\x80\xE2\x94\xBC\xE2\x94\x80", VL_ROLE_DIM);
    }
    vl_doc_end_line(doc);
}

static void render_stacked(const struct vl_table *t, struct vl_doc *doc, int width,
                           const struct vl_span *first, const struct vl_span *next)
{
    struct vl_span line = {0};

    for (size_t r = t->n_rows > 1 ? 1 : 0; r < t->n_rows; r++)
        for (size_t c = 0; c < row_cells(t, r); c++) {
            const struct vl_table_cell_box *head = r ? cell_at(t, 0, c) : NULL;
            const struct vl_table_cell_box *b = cell_at(t, r, c);

            vl_span_cut(&line, 0);
            if (head && head->span.text.len) {
                vl_span_put(&line, head->span.text.ptr, head->span.text.len,
                            VL_STYLE(VL_ROLE_TEXT, VL_ATTR_BOLD));
                vl_span_put(&line, ": ", 2, VL_ROLE_TEXT);
            }
            vl_span_put(&line, b->span.text.ptr, b->span.text.len, VL_ROLE_TEXT);
            vl_doc_wrap(doc, &line, width, r == 1 && c == 0 ? first : next, next);
        }
    vl_span_fini(&line);
}

void vl_table_render(const struct vl_table *t, struct vl_doc *doc, int width,
                     const struct vl_span *first, const struct vl_span *next)
{
    int widths[COLUMNS_MAX];
    size_t n_cols = 0;

    for (size_t r = 0; r < t->n_rows; r++)
        n_cols = row_cells(t, r) > n_cols ? row_cells(t, r) : n_cols;
    if (n_cols == 0)
        return;
    if (n_cols > COLUMNS_MAX || !column_widths(t, n_cols, width - span_cells(next), widths)) {
        render_stacked(t, doc, width, first, next);
        return;
    }
    for (size_t r = 0; r < t->n_rows; r++) {
        render_row(t, r, n_cols, widths, doc, r ? next : first, next);
        if (r == 0)
            head_rule(n_cols, widths, doc, next);
    }
}
