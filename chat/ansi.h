/* chat/ansi.h: a styled line as bytes for a terminal, for output that is only ever appended. */
#ifndef VL_CHAT_ANSI_H
#define VL_CHAT_ANSI_H

#include "chat/screen.h"

/* Appends len bytes of text with their styles, and ends with plain attributes. */
void vl_ansi_put(vl_buf *out, const char *text, const vl_style *styles, size_t len,
                 const struct vl_theme *theme, enum vl_colour depth);
void vl_ansi_line(vl_buf *out, const struct vl_doc *d, const struct vl_line *line,
                  const struct vl_theme *theme, enum vl_colour depth);

#endif
