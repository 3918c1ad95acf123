/* chat/table.h: a table of styled cells to lines whose columns line up. */
#ifndef VL_CHAT_TABLE_H
#define VL_CHAT_TABLE_H

#include "chat/doc.h"

struct vl_table_cell_box {
    struct vl_span span;
    bool right; /* flush right */
};

struct vl_table {
    struct vl_table_cell_box *cells; /* owned; row by row */
    size_t n_cells, cap;
    size_t *rows; /* owned; index of each row's first cell */
    size_t n_rows, rows_cap;
};

void vl_table_begin(struct vl_table *t);
void vl_table_fini(struct vl_table *t);
void vl_table_row(struct vl_table *t);
/* Copies the text of a cell. */
void vl_table_cell(struct vl_table *t, const struct vl_span *text, bool right);
/* The first row is the head. Cells are wrapped when the table is wider than width; when there is no
 * room even for that, each row becomes a list of "head: cell" lines. */
void vl_table_render(const struct vl_table *t, struct vl_doc *doc, int width,
                     const struct vl_span *first, const struct vl_span *next);

#endif
