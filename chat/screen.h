/* chat/screen.h: a grid of cells, and the bytes that turn what the terminal shows into it. */
#ifndef VL_CHAT_SCREEN_H
#define VL_CHAT_SCREEN_H

#include "base/buf.h"
#include "chat/theme.h"

/* ch: a code point; or VL_CELL_POOL | index of a cluster in the pool; 0 is the right half of a wide
 * character. */
#define VL_CELL_POOL 0x80000000u
struct vl_cell {
    uint32_t ch;
    vl_paint fg, bg;
    uint8_t attr;
    uint8_t cells; /* 1 or 2; 0 in the right half */
    uint16_t pad;  /* zero: cells are compared as memory */
};

struct vl_screen {
    int cols, rows;
    struct vl_cell *shown, *next; /* owned, rows * cols */
    bool unknown;                 /* nothing is known of what the terminal shows */
    bool sync;                    /* the terminal knows synchronized updates */
    enum vl_colour depth;
    int cursor_x, cursor_y; /* wanted; y < 0: hidden */
    int shown_x, shown_y;
    char **pool; /* clusters of more than one code point; owned */
    size_t n_pool, pool_cap;
    size_t *pool_hash; /* open addressing; index + 1 */
    size_t hash_cap;
};

void vl_screen_init(struct vl_screen *s, enum vl_colour depth);
void vl_screen_fini(struct vl_screen *s);
/* False when out of memory (the old size stays). */
bool vl_screen_resize(struct vl_screen *s, int cols, int rows);
/* Blanks the next frame. */
void vl_screen_begin(struct vl_screen *s);
/* Writes text at row y from column x on, not past column end; returns the column behind it. A wide
 * character that does not fit leaves a blank. Outside of the grid nothing happens. */
int vl_screen_put(struct vl_screen *s, int y, int x, int end, const char *text, size_t len,
                  vl_paint fg, vl_paint bg, int attr);
struct vl_cell *vl_screen_at(struct vl_screen *s, int y, int x); /* NULL outside */
/* Appends what makes the terminal show the next frame; nothing when it does already. */
void vl_screen_flush(struct vl_screen *s, vl_buf *out);
/* Appends the SGR sequence of a look. */
void vl_screen_sgr(vl_buf *out, vl_paint fg, vl_paint bg, int attr, enum vl_colour depth);

#endif
