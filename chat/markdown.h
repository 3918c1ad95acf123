/* chat/markdown.h: a growing Markdown text to styled lines. Blocks that are over are rendered once;
 * only the last one, which may still change, is rendered again. */
#ifndef VL_CHAT_MARKDOWN_H
#define VL_CHAT_MARKDOWN_H

#include "chat/doc.h"
#include "chat/highlight.h"

struct vl_markdown {
    struct vl_doc doc;
    int width;
    size_t done;         /* bytes of the source that are rendered for good */
    struct vl_mark tail; /* where the lines of the block that may change begin */
    struct vl_mark
        last;    /* of the tail before that: lines from here on changed in the last update */
    bool joined; /* the next block goes on a list: no blank line before it */
    bool in_fence;
    char fence; /* '`' or '~' */
    size_t fence_len, fence_indent;
    struct vl_highlight highlight;
};

void vl_markdown_init(struct vl_markdown *m, int width);
void vl_markdown_fini(struct vl_markdown *m);
/* src is the same text as before with more at its end, cleaned (clean.h). complete: nothing will
 * follow. */
void vl_markdown_update(struct vl_markdown *m, const char *src, size_t len, bool complete);
/* Renders one block or text on its own, below what is in doc (markdown_block.c). */
void vl_markdown_block(struct vl_doc *doc, const char *src, size_t len, int width);

#endif
