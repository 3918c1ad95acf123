/* tests/unit/poppy_kit.h: what the tests of the terminal client share. */
#ifndef VL_TESTS_POPPY_KIT_H
#define VL_TESTS_POPPY_KIT_H

#include "tests/unit/vl_test.h"

#include "base/buf.h"
#include "chat/doc.h"
#include "chat/screen.h"

/* Compares text with tests/vectors/poppy/NAME; with VL_UPDATE_GOLDEN set, writes it instead. */
void kit_golden(const char *name, const vl_buf *text);
/* The lines of a document, each with '\n'. */
void kit_doc_text(const struct vl_doc *d, vl_buf *out);
/* The next frame of a screen as rows of text, blanks at their ends cut. */
void kit_screen_text(struct vl_screen *s, vl_buf *out);

#endif
