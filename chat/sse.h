/* chat/sse.h: reads a text/event-stream body (WHATWG HTML, 9.2.6), fed in pieces of any size. */
#ifndef VL_CHAT_SSE_H
#define VL_CHAT_SSE_H

#include "base/buf.h"

struct vl_sse {
    vl_buf line; /* the line that is not complete yet */
    vl_buf data; /* data lines of the event so far, each with '\n' behind it */
    bool begun;  /* a byte order mark can't come any more */
    bool after_cr;
    bool have_data;
    size_t max_bytes; /* of one event */
};

/* One event's data, without the last line end. Nonzero: stop reading. */
typedef int (*vl_sse_event)(void *user, const char *data, size_t len);

void vl_sse_init(struct vl_sse *s, size_t max_bytes);
void vl_sse_fini(struct vl_sse *s);
/* 0; the callback's nonzero value; or -1 when an event is larger than max_bytes or memory ran out.
 * An event that is not ended by a blank line is dropped at the end of the body, as the standard
 * says. */
int vl_sse_feed(struct vl_sse *s, const char *bytes, size_t len, vl_sse_event event, void *user);

#endif
