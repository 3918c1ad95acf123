/* chat/markdown.c: cuts a growing text into blocks, so that what is over need not be looked at
 * again, and renders fenced code itself, line by line. The inside of all other blocks is
 * markdown_block.c's. Pure. */
#include "chat/markdown.h"

#include <string.h>

/* A list longer than this is cut at an item, or a list of a megabyte would be one block. */
enum { LONG_LIST = 4096 };

void vl_markdown_init(struct vl_markdown *m, int width)
{
    memset(m, 0, sizeof(*m));
    m->width = width;
}

void vl_markdown_fini(struct vl_markdown *m)
{
    vl_doc_fini(&m->doc);
}

static size_t line_len(const char *s, size_t len)
{
    const char *nl = memchr(s, '\n', len);

    return nl ? (size_t)(nl - s) : len;
}

static size_t indent_of(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && (s[i] == ' ' || s[i] == '\t'))
        i += 1;
    return i;
}

static bool is_blank(const char *s, size_t n)
{
    return indent_of(s, n) == n;
}

/* Length of a run of fence characters at s (3 or more), else 0. */
static size_t fence_run(const char *s, size_t n)
{
    size_t k = 0;

    if (n == 0 || (*s != '`' && *s != '~'))
        return 0;
    while (k < n && s[k] == *s)
        k++;
    if (k < 3 || (*s == '`' && memchr(s + k, '`', n - k)))
        return 0;
    return k;
}

static bool is_item(const char *s, size_t n)
{
    size_t k = 0;

    if (n >= 2 && strchr("-*+", s[0]) && s[1] == ' ')
        return true;
    while (k < n && k < 9 && s[k] >= '0' && s[k] <= '9')
        k++;
    return k > 0 && k + 1 < n && (s[k] == '.' || s[k] == ')') && s[k + 1] == ' ';
}

static void gap(struct vl_markdown *m)
{
    if (m->doc.n_lines && !m->joined)
        vl_doc_end_line(&m->doc);
    m->joined = false;
}

static void code_line(struct vl_markdown *m, const char *s, size_t n)
{
    struct vl_span line = {0}, prefix = {0};
    size_t skip = indent_of(s, n);

    if (skip > m->fence_indent)
        skip = m->fence_indent;
    vl_span_put(&prefix, "  ", 2, VL_ROLE_CODE);
    vl_highlight_line(&m->highlight, s + skip, n - skip, &line);
    vl_doc_wrap_code(&m->doc, &line, m->width, &prefix);
    vl_span_fini(&line);
    vl_span_fini(&prefix);
}

static bool closes_fence(const struct vl_markdown *m, const char *s, size_t n)
{
    size_t in = indent_of(s, n), k = in;

    while (k < n && s[k] == m->fence)
        k++;
    return in < 4 && k - in >= m->fence_len && is_blank(s + k, n - k);
}

/* The first line at src is inside a fence. True if it was rendered for good. */
static bool fence_line(struct vl_markdown *m, const char *src, size_t len, bool complete)
{
    size_t n = line_len(src, len), used = n < len ? n + 1 : n;
    bool ended = n < len || complete;

    if (ended && closes_fence(m, src, n)) {
        m->in_fence = false;
        m->done += used;
        return true;
    }
    if (ended) {
        code_line(m, src, n);
        m->done += used;
        return true;
    }
    /* The beginning of a closing fence would only flash up as code. */
    if (n && !(src[indent_of(src, n)] == m->fence)) {
        struct vl_highlight before = m->highlight;

        code_line(m, src, n);
        m->highlight = before;
    }
    return false;
}

static bool open_fence(struct vl_markdown *m, const char *s, size_t n)
{
    size_t in = indent_of(s, n), run = in < 4 ? fence_run(s + in, n - in) : 0, k;
    const char *info;

    if (!run)
        return false;
    m->in_fence = true;
    m->fence = s[in];
    m->fence_len = run;
    m->fence_indent = in;
    info = s + in + run;
    n -= in + run;
    k = indent_of(info, n);
    info += k;
    n -= k;
    for (k = 0; k < n && info[k] != ' ' && info[k] != '{' && info[k] != ','; k++)
        ;
    vl_highlight_begin(&m->highlight, info, k);
    return true;
}

/* Bytes of the block of text at src. *whole: it can't grow any more. *cut: it ends inside a list.
 */
static size_t text_block(const char *src, size_t len, bool complete, bool *whole, bool *cut)
{
    size_t at = 0, end = 0;
    bool blank = false, nested = false;
    bool list = is_item(src, line_len(src, len));

    *cut = false;
    *whole = true;
    while (at < len) {
        const char *s = src + at;
        size_t n = line_len(s, len - at), in = indent_of(s, n);
        bool ended = at + n < len;

        if (!ended && !complete && n < 4 && is_blank(s, n)) /* too little to tell */
            break;
        if (is_blank(s, n)) {
            blank = !nested;
        } else {
            if (fence_run(s + in, n - in) && (in >= 2 || nested))
                nested = !nested;
            else if (at > 0 && !nested && in < 2 && fence_run(s + in, n - in))
                return end;
            if (blank && !nested && in < 2)
                return end;
            if (list && !nested && at > LONG_LIST && in == 0 && is_item(s, n)) {
                *cut = !blank;
                return end;
            }
            blank = false;
        }
        at += ended ? n + 1 : n;
        if (!blank)
            end = at;
    }
    *whole = complete;
    return end ? end : len;
}

static bool text_part(struct vl_markdown *m, const char *src, size_t len, bool complete)
{
    bool whole, cut;
    size_t n = text_block(src, len, complete, &whole, &cut);

    gap(m);
    vl_markdown_block(&m->doc, src, n, m->width);
    if (whole) {
        m->done += n;
        m->joined = cut;
    }
    return whole;
}

/* Renders what begins at m->done; true if that was for good and more may follow. */
static bool step(struct vl_markdown *m, const char *src, size_t len, bool complete)
{
    size_t n = line_len(src, len);
    bool ended = n < len || complete;

    if (m->in_fence)
        return fence_line(m, src, len, complete);
    if (is_blank(src, n)) {
        if (!ended)
            return false;
        m->done += n < len ? n + 1 : n;
        return true;
    }
    if (!ended && (src[indent_of(src, n)] == '`' || src[indent_of(src, n)] == '~') &&
        fence_run(src + indent_of(src, n), n - indent_of(src, n)))
        return false; /* the name of the language is still coming */
    if (ended && fence_run(src + indent_of(src, n), n - indent_of(src, n)) &&
        indent_of(src, n) < 4) {
        gap(m);
        open_fence(m, src, n);
        m->done += n < len ? n + 1 : n;
        return true;
    }
    return text_part(m, src, len, complete);
}

void vl_markdown_update(struct vl_markdown *m, const char *src, size_t len, bool complete)
{
    bool joined;

    vl_doc_rewind(&m->doc, m->tail);
    m->last = m->tail;
    while (m->done < len) {
        joined = m->joined;
        if (!step(m, src + m->done, len - m->done, complete)) {
            m->joined = joined;
            return;
        }
        m->tail = vl_doc_mark(&m->doc);
    }
}
