/* chat/transcript.h: an item of the dialogue as styled lines, kept with the item and renewed only
 * as far as it changed. */
#ifndef VL_CHAT_TRANSCRIPT_H
#define VL_CHAT_TRANSCRIPT_H

#include "chat/markdown.h"
#include "chat/session.h"

enum vl_thoughts { VL_THOUGHTS_NONE, VL_THOUGHTS_FOLDED, VL_THOUGHTS_SHOWN };

struct vl_lines {
    struct vl_doc head; /* the question; the thought; a note */
    struct vl_markdown body;
    struct vl_doc foot; /* tool calls, why it stopped, the blank line at the end */
    int width;
    enum vl_thoughts thoughts;
    bool any;
    uint64_t version;
    size_t n; /* lines of all three */
};

/* The lines of an item, width cells wide; owned by the item. NULL when out of memory. now,
 * first_at: for the time that a running thought has taken so far. */
struct vl_lines *vl_transcript_lines(struct vl_item *item, int width, enum vl_thoughts thoughts,
                                     double now, double first_at);
/* Line i (< n) and the document that it lies in. */
const struct vl_line *vl_transcript_line(const struct vl_lines *l, size_t i,
                                         const struct vl_doc **doc);
/* Lines that will not change any more while the item grows. */
size_t vl_transcript_stable(const struct vl_lines *l, const struct vl_item *item);

#endif
