/* chat/sse.c: the event-stream reader. Pure: bytes in, event data out; knows nothing of JSON or
 * HTTP. */
#include "chat/sse.h"

#include <string.h>

void vl_sse_init(struct vl_sse *s, size_t max_bytes)
{
    memset(s, 0, sizeof(*s));
    s->max_bytes = max_bytes;
}

void vl_sse_fini(struct vl_sse *s)
{
    vl_buf_fini(&s->line);
    vl_buf_fini(&s->data);
}

static int dispatch(struct vl_sse *s, vl_sse_event event, void *user)
{
    int rc = 0;

    if (s->have_data)
        rc = event(user, s->data.ptr, s->data.len - 1);
    vl_buf_clear(&s->data);
    s->have_data = false;
    return rc;
}

static int end_of_line(struct vl_sse *s, vl_sse_event event, void *user)
{
    const char *p = s->line.len ? s->line.ptr : "";
    size_t n = s->line.len;

    if (!s->begun && n >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0) {
        p += 3;
        n -= 3;
    }
    s->begun = true;
    if (n == 0) {
        vl_buf_clear(&s->line);
        return dispatch(s, event, user);
    }
    /* All other fields (event, id, retry) and comments say nothing about the answer. */
    if (n >= 4 && memcmp(p, "data", 4) == 0 && (n == 4 || p[4] == ':')) {
        size_t skip = n == 4 ? 4 : n > 5 && p[5] == ' ' ? 6 : 5;

        vl_buf_append(&s->data, p + skip, n - skip);
        vl_buf_putc(&s->data, '\n');
        s->have_data = true;
    }
    vl_buf_clear(&s->line);
    return 0;
}

int vl_sse_feed(struct vl_sse *s, const char *bytes, size_t len, vl_sse_event event, void *user)
{
    size_t i = 0;

    while (i < len) {
        size_t k = i;
        int rc;

        if (s->after_cr && bytes[i] == '\n') {
            s->after_cr = false;
            i++;
            continue;
        }
        s->after_cr = false;
        while (k < len && bytes[k] != '\n' && bytes[k] != '\r')
            k++;
        vl_buf_append(&s->line, bytes + i, k - i);
        if (s->line.len + s->data.len > s->max_bytes || s->line.failed || s->data.failed)
            return -1;
        if (k == len)
            return 0;
        s->after_cr = bytes[k] == '\r';
        i = k + 1;
        rc = end_of_line(s, event, user);
        if (rc)
            return rc;
    }
    return 0;
}
