/* chat/clean.h: takes out of a text all that could act on a terminal: escape sequences, control
 * bytes but newline and tab, C1 controls, bidi controls. Fed in pieces of any size. */
#ifndef VL_CHAT_CLEAN_H
#define VL_CHAT_CLEAN_H

#include "base/buf.h"

struct vl_clean {
    int state;
    vl_buf held; /* text inside a string sequence that has not ended yet; shown if it never does */
    unsigned char part[4]; /* an incomplete UTF-8 character */
    int n_part;
    int n_csi;
};

void vl_clean_init(struct vl_clean *c);
void vl_clean_fini(struct vl_clean *c);
/* Appends the harmless part of text to out; a sequence that is not complete yet is held back. */
void vl_clean_feed(struct vl_clean *c, const char *text, size_t len, vl_buf *out);
/* End of the text: what is still held back comes as plain text, or goes. */
void vl_clean_end(struct vl_clean *c, vl_buf *out);
/* All of a text at once. one_line: newlines and tabs become blanks (names, titles). */
void vl_clean_text(vl_buf *out, const char *text, size_t len, bool one_line);

#endif
