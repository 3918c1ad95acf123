/* chat/copy.h: text for the terminal's clipboard. */
#ifndef VL_CHAT_COPY_H
#define VL_CHAT_COPY_H

#include "base/buf.h"

/* The sequence that hands text to the clipboard (OSC 52). */
void vl_copy_sequence(vl_buf *out, const char *text, size_t len);
/* The inside of the nth (from 1) fenced block of a Markdown text; returns how many there are (fewer
 * than n: out is untouched). */
size_t vl_copy_code(const char *text, size_t len, size_t n, vl_buf *out);

#endif
