/* chat/view.h: the full-screen view: a face to the cells of a screen. */
#ifndef VL_CHAT_VIEW_H
#define VL_CHAT_VIEW_H

#include "chat/face.h"
#include "chat/flower.h"
#include "chat/screen.h"

struct vl_view {
    struct vl_flower_cell *cells; /* the flower as it was drawn last; owned */
    int flower_cols, flower_rows;
    float drawn_bloom, drawn_phase;
    size_t n_lines; /* of the transcript in the last frame */
    size_t page;    /* rows that show it */
};

void vl_view_init(struct vl_view *v);
void vl_view_fini(struct vl_view *v);
/* Draws the next frame into s. *scroll is brought into its bounds. */
void vl_view_draw(struct vl_view *v, struct vl_face *f, struct vl_screen *s);
/* True if a screen of this size has a flower. */
bool vl_view_has_flower(const struct vl_face *f, int cols, int rows);
/* The transcript for the normal screen, as bytes with line ends. */
void vl_view_print(const struct vl_face *f, int cols, vl_buf *out);

#endif
