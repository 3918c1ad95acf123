/* chat/highlight.h: colours code line by line for the common languages. */
#ifndef VL_CHAT_HIGHLIGHT_H
#define VL_CHAT_HIGHLIGHT_H

#include "chat/doc.h"

struct vl_highlight {
    const struct vl_language *language; /* NULL: no colours */
    const char *until; /* inside a comment or string that goes on: what ends it; NULL outside */
    bool is_comment;
};

/* name: the word behind the fence ("c", "python", "js" ...); unknown is fine. */
void vl_highlight_begin(struct vl_highlight *h, const char *name, size_t len);
/* Appends one line (without its end) to out; tabs become blanks. */
void vl_highlight_line(struct vl_highlight *h, const char *line, size_t len, struct vl_span *out);

#endif
