/* chat/ansi.c: styles to SGR sequences. Pure. */
#include "chat/ansi.h"

void vl_ansi_put(vl_buf *out, const char *text, const vl_style *styles, size_t len,
                 const struct vl_theme *theme, enum vl_colour depth)
{
    bool set = false;

    for (size_t at = 0; at < len;) {
        size_t n = at;
        enum vl_role role = styles[at] & 255;
        int attr = styles[at] >> 8;
        vl_paint fg = vl_theme_paint(theme, role, depth);

        while (n < len && styles[n] == styles[at])
            n++;
        if (depth == VL_COLOUR_NONE && role == VL_ROLE_DIM)
            attr |= VL_ATTR_DIM;
        if (fg || attr) {
            vl_screen_sgr(out, fg, 0, attr, depth);
            set = true;
        } else if (set) {
            vl_buf_puts(out, "\x1b[0m");
            set = false;
        }
        vl_buf_append(out, text + at, n - at);
        at = n;
    }
    if (set)
        vl_buf_puts(out, "\x1b[0m");
}

void vl_ansi_line(vl_buf *out, const struct vl_doc *d, const struct vl_line *line,
                  const struct vl_theme *theme, enum vl_colour depth)
{
    if (line->len)
        vl_ansi_put(out, d->span.text.ptr + line->at, d->span.styles + line->at, line->len, theme,
                    depth);
}
