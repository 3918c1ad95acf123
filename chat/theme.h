/* chat/theme.h: which colours the roles of text have. */
#ifndef VL_CHAT_THEME_H
#define VL_CHAT_THEME_H

#include "chat/doc.h"
#include "chat/options.h"

/* A colour: 0 the terminal's own, VL_RGB(r, g, b), or VL_ANSI(0 to 15). */
typedef uint32_t vl_paint;
#define VL_RGB(rgb) (0x01000000u | (uint32_t)(rgb))
#define VL_ANSI(i) (0x02000000u | (uint32_t)(i))
#define VL_PAINT_KIND(c) ((c) >> 24)

struct vl_theme {
    const char *name;
    const char *about;
    bool dark;
    uint32_t background;       /* what the terminal's own is taken for, when colours are mixed */
    uint32_t roles[VL_ROLE_N]; /* 0xRRGGBB; 0 = the terminal's own colour */
};

extern const struct vl_theme vl_themes[];
extern const size_t vl_n_themes;

/* NULL if there is none of that name. */
const struct vl_theme *vl_theme_find(const char *name);
const struct vl_theme *vl_theme_default(bool dark);
/* The colour of a role at a depth. */
vl_paint vl_theme_paint(const struct vl_theme *t, enum vl_role role, enum vl_colour depth);
/* a at 0, b at 256. */
uint32_t vl_colour_mix(uint32_t a, uint32_t b, int part);
/* The nearest of the 256 colours (16 to 255). */
int vl_colour_256(uint32_t rgb);

#endif
