/* chat/term.h: the terminal's modes: entered, left, and left whatever happens. */
#ifndef VL_CHAT_TERM_H
#define VL_CHAT_TERM_H

#include <stdbool.h>
#include <stddef.h>

enum {
    VL_TERM_ALT = 1,   /* the alternate screen */
    VL_TERM_PASTE = 2, /* bracketed paste */
    VL_TERM_MOUSE = 4,
    VL_TERM_KITTY = 8,   /* the kitty keyboard protocol, its first level */
    VL_TERM_CLUSTER = 16 /* mode 2027 */
};

/* Makes standard input raw and switches the modes on. From now on exit() and the signals of a crash
 * put everything back. False when standard input is no terminal. */
bool vl_term_enter(unsigned modes);
/* Switches single modes; on or off. */
void vl_term_mode(unsigned modes, bool on);
unsigned vl_term_modes(void);
/* Everything as it was found. What was written before is on the screen. */
void vl_term_leave(void);
/* Writes all of it; false when the terminal is gone. */
bool vl_term_write(const char *bytes, size_t len);
/* True if a write now would not wait for a slow terminal. */
bool vl_term_ready(void);
/* The size; 80 x 24 when nobody knows. */
void vl_term_size(int *cols, int *rows);

#endif
