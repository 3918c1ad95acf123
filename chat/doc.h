/* chat/doc.h: styled lines of text, as wide as they may be: what a transcript is made of. A style
 * is a role (what the text is) and attributes; which colours a role has is the theme's business. */
#ifndef VL_CHAT_DOC_H
#define VL_CHAT_DOC_H

#include "base/buf.h"

enum vl_role {
    VL_ROLE_TEXT,
    VL_ROLE_DIM,
    VL_ROLE_HEADING,
    VL_ROLE_CODE,
    VL_ROLE_QUOTE,
    VL_ROLE_LINK,
    VL_ROLE_BULLET,
    VL_ROLE_USER,
    VL_ROLE_ERROR,
    VL_ROLE_NOTE,
    VL_ROLE_ACCENT,
    VL_ROLE_KEYWORD,
    VL_ROLE_STRING,
    VL_ROLE_COMMENT,
    VL_ROLE_NUMBER,
    VL_ROLE_TYPE,
    VL_ROLE_N
};

enum {
    VL_ATTR_BOLD = 1,
    VL_ATTR_ITALIC = 2,
    VL_ATTR_UNDERLINE = 4,
    VL_ATTR_STRIKE = 8,
    VL_ATTR_DIM = 16,
    VL_ATTR_REVERSE = 32
};

typedef uint16_t vl_style; /* role in the low byte, attributes in the high one */
#define VL_STYLE(role, attr) ((vl_style)((role) | ((attr) << 8)))

/* A run of text with one style a byte. */
struct vl_span {
    vl_buf text;
    vl_style *styles; /* owned; text.len of them */
    size_t cap;
    bool failed;
};
void vl_span_put(struct vl_span *s, const char *text, size_t len, vl_style style);
void vl_span_cut(struct vl_span *s, size_t len);
void vl_span_fini(struct vl_span *s);

struct vl_line {
    size_t at, len; /* bytes of doc->span */
};

struct vl_doc {
    struct vl_span span;
    struct vl_line *lines; /* owned, n_lines; the last one that has not ended is not among them */
    size_t n_lines, cap;
};

/* A place to go back to. */
struct vl_mark {
    size_t bytes, lines;
};

void vl_doc_fini(struct vl_doc *d);
struct vl_mark vl_doc_mark(const struct vl_doc *d);
void vl_doc_rewind(struct vl_doc *d, struct vl_mark m);
/* Adds to the line that is open. */
void vl_doc_put(struct vl_doc *d, const char *text, size_t len, vl_style style);
void vl_doc_puts(struct vl_doc *d, const char *text, vl_style style);
void vl_doc_put_span(struct vl_doc *d, const struct vl_span *s, size_t at, size_t len);
void vl_doc_end_line(struct vl_doc *d);
/* Adds s as lines of at most width cells, broken between words where it can be; '\n' in it breaks.
 * first and next (may be NULL) stand before the first line and before the others. */
void vl_doc_wrap(struct vl_doc *d, const struct vl_span *s, int width, const struct vl_span *first,
                 const struct vl_span *next);
/* The same for text of which every character counts: broken where the width ends. */
void vl_doc_wrap_code(struct vl_doc *d, const struct vl_span *s, int width,
                      const struct vl_span *prefix);

#endif
