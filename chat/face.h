/* chat/face.h: everything that a view shows, gathered by whoever runs it. */
#ifndef VL_CHAT_FACE_H
#define VL_CHAT_FACE_H

#include "chat/input.h"
#include "chat/session.h"
#include "chat/theme.h"
#include "chat/transcript.h"
#include "chat/turn.h"

/* A list above the input box: completions, or something to choose from. */
struct vl_menu {
    vl_buf title;
    char **lines; /* owned */
    size_t n, cap;
    size_t selected; /* n: none */
};

struct vl_face {
    const struct vl_session *session;
    const struct vl_turn *turn;
    struct vl_input *input;     /* NULL: no box (one-shot) */
    const struct vl_menu *menu; /* NULL: none */
    const struct vl_theme *theme;
    enum vl_colour depth;
    const char *hint; /* NULL: none */
    enum vl_thoughts thoughts;
    double now;     /* vl_now_s */
    size_t scroll;  /* lines from the end */
    int cols, rows; /* of the terminal, for the view that has no screen */
    int fade;       /* 0 to 100 */
    float bloom, phase;
};

#endif
