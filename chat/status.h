/* chat/status.h: the line that tells model, speed, context, and what goes on. */
#ifndef VL_CHAT_STATUS_H
#define VL_CHAT_STATUS_H

#include "chat/doc.h"
#include "chat/face.h"

/* Appends the line for at most width cells. */
void vl_status_line(const struct vl_face *f, int width, struct vl_span *out);
/* What is going on, "" when nothing is: "reading the prompt 3 s". */
void vl_status_activity(const struct vl_face *f, vl_buf *out);

#endif
