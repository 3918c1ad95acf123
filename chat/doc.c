/* chat/doc.c: styled lines and the breaking of text into them. Pure; knows no Markdown and no
 * colours. */
#include "chat/doc.h"

#include <stdlib.h>
#include <string.h>

#include "chat/width.h"

void vl_span_put(struct vl_span *s, const char *text, size_t len, vl_style style)
{
    size_t at = s->text.len;

    if (len == 0 || s->failed)
        return;
    vl_buf_append(&s->text, text, len);
    if (s->text.failed || !vl_grow(&s->styles, &s->cap, at + len, sizeof(*s->styles))) {
        s->failed = true;
        vl_span_cut(s, at);
        return;
    }
    for (size_t i = 0; i < len; i++)
        s->styles[at + i] = style;
}

void vl_span_cut(struct vl_span *s, size_t len)
{
    if (s->text.ptr && len < s->text.len) {
        s->text.len = len;
        s->text.ptr[len] = 0;
    }
}

void vl_span_fini(struct vl_span *s)
{
    vl_buf_fini(&s->text);
    free(s->styles);
    memset(s, 0, sizeof(*s));
}

void vl_doc_fini(struct vl_doc *d)
{
    vl_span_fini(&d->span);
    free(d->lines);
    memset(d, 0, sizeof(*d));
}

struct vl_mark vl_doc_mark(const struct vl_doc *d)
{
    struct vl_mark m = {d->span.text.len, d->n_lines};

    return m;
}

void vl_doc_rewind(struct vl_doc *d, struct vl_mark m)
{
    vl_span_cut(&d->span, m.bytes);
    d->n_lines = m.lines;
}

void vl_doc_put(struct vl_doc *d, const char *text, size_t len, vl_style style)
{
    vl_span_put(&d->span, text, len, style);
}

void vl_doc_puts(struct vl_doc *d, const char *text, vl_style style)
{
    vl_span_put(&d->span, text, strlen(text), style);
}

void vl_doc_put_span(struct vl_doc *d, const struct vl_span *s, size_t at, size_t len)
{
    size_t to = d->span.text.len;

    vl_span_put(&d->span, s->text.ptr + at, len, 0);
    if (d->span.text.len == to + len && len)
        memcpy(d->span.styles + to, s->styles + at, len * sizeof(*s->styles));
}

void vl_doc_end_line(struct vl_doc *d)
{
    size_t from = 0;

    if (!vl_grow(&d->lines, &d->cap, d->n_lines + 1, sizeof(*d->lines)))
        return;
    if (d->n_lines)
        from = d->lines[d->n_lines - 1].at + d->lines[d->n_lines - 1].len;
    d->lines[d->n_lines].at = from;
    d->lines[d->n_lines].len = d->span.text.len - from;
    d->n_lines++;
}

static int prefix_cells(const struct vl_span *p)
{
    return p && p->text.len ? vl_text_cells(p->text.ptr, p->text.len) : 0;
}

static void put_prefix(struct vl_doc *d, const struct vl_span *p)
{
    if (p && p->text.len)
        vl_doc_put_span(d, p, 0, p->text.len);
}

/* The end of the line that begins at `at` and may take `room` cells; *next gets where the line
 * after it begins. */
static size_t line_end(const char *s, size_t len, size_t at, int room, size_t *next)
{
    size_t i = at, end = at, after = at; /* the last place to break: [at,end), go on at `after` */
    int used = 0;
    bool can = false, was_cjk = false;

    while (i < len && s[i] != '\n') {
        int w;
        size_t n = vl_cluster_next(s + i, len - i, &w);
        bool cjk = (unsigned char)s[i] >= 0x80 && vl_cluster_is_cjk(s + i, n);

        if (s[i] == ' ') {
            if (!can || after != i) /* of several blanks the first ends the line */
                end = i;
            after = i + 1;
            can = true;
        } else if ((cjk || was_cjk) && i > at && s[i - 1] != ' ') {
            end = after = i;
            can = true;
        }
        if (used + w > room && s[i] != ' ' && i > at) {
            if (!can || end == at)
                end = after = i;
            *next = after;
            return end;
        }
        used += w;
        was_cjk = cjk;
        i += n;
    }
    *next = i < len ? i + 1 : i;
    return i;
}

void vl_doc_wrap(struct vl_doc *d, const struct vl_span *s, int width, const struct vl_span *first,
                 const struct vl_span *next)
{
    const char *text = s->text.ptr;
    size_t len = s->text.len, at = 0;
    const struct vl_span *prefix = first;

    do {
        int room = width - prefix_cells(prefix);
        size_t after = at, end = line_end(text, len, at, room > 1 ? room : 1, &after);

        put_prefix(d, prefix);
        while (end > at && text[end - 1] == ' ')
            end--;
        if (end > at)
            vl_doc_put_span(d, s, at, end - at);
        vl_doc_end_line(d);
        prefix = next;
        at = after;
    } while (at < len);
}

void vl_doc_wrap_code(struct vl_doc *d, const struct vl_span *s, int width,
                      const struct vl_span *prefix)
{
    int room = width - prefix_cells(prefix);
    size_t at = 0;

    do {
        size_t n = s->text.len
                       ? vl_text_fit(s->text.ptr + at, s->text.len - at, room > 1 ? room : 1, NULL)
                       : 0;

        if (n == 0 && at < s->text.len) /* a wide character in a column of one cell */
            n = vl_cluster_next(s->text.ptr + at, s->text.len - at, NULL);
        put_prefix(d, prefix);
        if (n)
            vl_doc_put_span(d, s, at, n);
        vl_doc_end_line(d);
        at += n;
    } while (at < s->text.len);
}
