/* chat/inline.h: the view that writes into the terminal's own scrollback: what is final is appended
 * once; below it a few live rows are redrawn in place. */
#ifndef VL_CHAT_INLINE_H
#define VL_CHAT_INLINE_H

#include "chat/face.h"

struct vl_inline;

/* sync: the terminal knows synchronized updates. NULL when out of memory. */
struct vl_inline *vl_inline_create(bool sync);
void vl_inline_destroy(struct vl_inline *v);
/* Appends to out what brings the terminal up to date; nothing when it is. */
void vl_inline_frame(struct vl_inline *v, const struct vl_face *f, vl_buf *out);
/* All that there is becomes final; the cursor stands at the beginning of a fresh line. */
void vl_inline_end(struct vl_inline *v, const struct vl_face *f, vl_buf *out);
/* Another program wrote to the screen: the live rows are gone. */
void vl_inline_forget(struct vl_inline *v);

#endif
