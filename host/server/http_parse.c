/* host/server/http_parse.c: see http_parse.h. Pure: bytes in, a head or a status out. */
#include "host/server/http_parse.h"

#include <string.h>

static bool is_token(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

int64_t vl_http_head_length(const char *bytes, size_t n, size_t *scanned)
{
    size_t start = 0;
    while (start + 1 < n && bytes[start] == '\r' && bytes[start + 1] == '\n')
        start += 2;
    if (start > 4)
        return -1;
    if (start < n && !is_token((unsigned char)bytes[start]) &&
        !(bytes[start] == '\r' && start + 1 == n))
        return -1; /* TLS and other protocols are told at their first byte */
    size_t at = *scanned > start ? *scanned : start;
    while (at < n) {
        const char *lf = memchr(bytes + at, '\n', n - at);
        if (!lf)
            break;
        size_t i = (size_t)(lf - bytes);
        if (i == 0 || bytes[i - 1] != '\r')
            return -1; /* a bare line feed */
        if (i >= start + 3 && bytes[i - 2] == '\n')
            return (int64_t)i + 1;
        at = i + 1;
    }
    *scanned = n;
    return 0;
}

const char *vl_http_header_get(const vl_http_head *h, const char *name)
{
    for (size_t i = 0; i < h->n_headers; i++)
        if (strcmp(h->headers[i].name, name) == 0)
            return h->headers[i].value;
    return NULL;
}

void vl_http_head_fini(vl_http_head *h)
{
    vl_buf_fini(&h->text);
    vl_buf_fini(&h->path);
    h->method = h->target = h->query = NULL;
    h->n_headers = 0;
    h->minor = 0;
    h->length = 0;
    h->keep_alive = h->expect_continue = h->chunked = h->has_length = false;
}

static int hex(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* target's path, decoded, with one slash where several are, and none at the end. */
static int read_path(vl_http_head *h, const char **message)
{
    const char *t = h->target;
    if (strncasecmp(t, "http://", 7) == 0 || strncasecmp(t, "https://", 8) == 0) {
        t = strchr(strstr(t, "//") + 2, '/');
        t = t ? t : "/";
    }
    if (*t != '/' && strcmp(t, "*") != 0) {
        *message = "the request target must begin with a slash";
        return 400;
    }
    const char *end = strchr(t, '?');
    h->query = end ? end + 1 : "";
    size_t n = end ? (size_t)(end - t) : strlen(t);
    for (size_t i = 0; i < n; i++) {
        char c = t[i];
        if (c == '%') {
            int a = i + 2 < n ? hex((unsigned char)t[i + 1]) : -1;
            int b = a >= 0 ? hex((unsigned char)t[i + 2]) : -1;
            if (b < 0 || (a == 0 && b == 0)) {
                *message = "a wrong percent escape in the request target";
                return 400;
            }
            c = (char)(a * 16 + b);
            i += 2;
        }
        if (c == '/' && h->path.len && h->path.ptr[h->path.len - 1] == '/')
            continue;
        vl_buf_putc(&h->path, c);
    }
    if (h->path.len > 1 && h->path.ptr[h->path.len - 1] == '/')
        h->path.ptr[--h->path.len] = 0;
    return 0;
}

static int read_request_line(vl_http_head *h, char *line, const char **message)
{
    char *a = strchr(line, ' '), *b = a ? strchr(a + 1, ' ') : NULL;
    *message = "malformed request line";
    if (!a || !b || a == line || b == a + 1 || a - line > 32)
        return 400;
    *a = *b = 0;
    for (const char *p = line; *p; p++)
        if (!is_token((unsigned char)*p))
            return 400;
    for (const char *p = a + 1; *p; p++)
        if ((unsigned char)*p <= 0x20 || *p == 0x7f)
            return 400;
    const char *v = b + 1;
    if (strncmp(v, "HTTP/", 5) != 0 || strlen(v) != 8 || v[6] != '.')
        return 400;
    if (v[5] != '1' || (v[7] != '0' && v[7] != '1')) {
        *message = "only HTTP/1.0 and HTTP/1.1 are spoken here";
        return 505;
    }
    h->method = line;
    h->target = a + 1;
    h->minor = v[7] - '0';
    return 0;
}

static int read_header(vl_http_head *h, char *line, const char **message)
{
    char *colon = strchr(line, ':');
    *message = "malformed header line";
    if (!colon || colon == line)
        return 400;
    for (char *p = line; p < colon; p++) {
        if (!is_token((unsigned char)*p)) /* also a space before the colon and folded lines */
            return 400;
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p + 32);
    }
    char *value = colon + 1;
    while (*value == ' ' || *value == '\t')
        value++;
    char *end = value + strlen(value);
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = 0;
    for (const char *p = value; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return 400;
    *colon = 0;
    if (h->n_headers == VL_HTTP_MAX_HEADERS) {
        *message = "more than 256 header lines";
        return 431;
    }
    h->headers[h->n_headers++] = (vl_http_header){line, value};
    return 0;
}

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    while (list && *list) {
        while (*list == ' ' || *list == '\t' || *list == ',')
            list++;
        size_t len = strcspn(list, ",");
        size_t used = len;
        while (used && (list[used - 1] == ' ' || list[used - 1] == '\t'))
            used--;
        if (used == n && strncasecmp(list, word, n) == 0)
            return true;
        list += len;
    }
    return false;
}

/* The headers that say how long the request is and what becomes of the connection. */
static int read_framing(vl_http_head *h, const char **message)
{
    int n_hosts = 0, n_codings = 0;
    h->keep_alive = h->minor == 1;
    for (size_t i = 0; i < h->n_headers; i++) {
        const char *name = h->headers[i].name, *value = h->headers[i].value;
        if (strcmp(name, "host") == 0) {
            n_hosts++;
        } else if (strcmp(name, "content-length") == 0) {
            uint64_t x = 0;
            const char *p = value;
            for (; *p >= '0' && *p <= '9'; p++)
                if (!vl_mul(x, 10, &x) || !vl_add(x, (uint64_t)(*p - '0'), &x))
                    break;
            *message = "Content-Length must be one number";
            if (p == value || *p || (h->has_length && x != h->length))
                return 400;
            h->has_length = true;
            h->length = x;
        } else if (strcmp(name, "transfer-encoding") == 0) {
            *message = "the only transfer coding taken is chunked";
            if (++n_codings > 1 || strcasecmp(value, "chunked") != 0)
                return 501;
            h->chunked = true;
        } else if (strcmp(name, "connection") == 0) {
            if (has_word(value, "close"))
                h->keep_alive = false;
            else if (has_word(value, "keep-alive") && h->minor == 0)
                h->keep_alive = true;
        } else if (strcmp(name, "expect") == 0) {
            *message = "the only expectation met is 100-continue";
            if (strcasecmp(value, "100-continue") != 0)
                return 417;
            h->expect_continue = h->minor == 1;
        }
    }
    *message = "Content-Length and Transfer-Encoding exclude each other";
    if (h->chunked && (h->has_length || h->minor == 0))
        return 400;
    *message = "an HTTP/1.1 request needs one Host header";
    if (n_hosts > 1 || (n_hosts == 0 && h->minor == 1))
        return 400;
    return 0;
}

int vl_http_head_parse(vl_http_head *h, const char *bytes, size_t n, const char **message)
{
    vl_http_head_fini(h);
    while (n >= 2 && bytes[0] == '\r' && bytes[1] == '\n') {
        bytes += 2;
        n -= 2;
    }
    *message = "malformed request";
    if (n < 4 || memchr(bytes, 0, n))
        return 400;
    vl_buf_append(&h->text, bytes, n - 2); /* without the blank line */
    if (h->text.failed) {
        *message = "out of memory";
        return 503;
    }
    int status = 0;
    char *line = h->text.ptr, *end = h->text.ptr + h->text.len;
    for (bool first = true; line < end && status == 0; first = false) {
        char *stop = strstr(line, "\r\n");
        if (!stop || memchr(line, '\n', (size_t)(stop - line)))
            return 400;
        *stop = 0;
        status = first ? read_request_line(h, line, message) : read_header(h, line, message);
        line = stop + 2;
    }
    if (status == 0)
        status = read_framing(h, message);
    if (status == 0)
        status = read_path(h, message);
    if (status == 0 && h->path.failed) {
        *message = "out of memory";
        status = 503;
    }
    return status;
}

/* ---- chunked bodies ---- */

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF, END_LF };
enum { LINE_MAX = 8192 };

/* One byte outside data; the next state, or -1. */
static int step(vl_http_chunks *c, char b)
{
    int digit;
    if (++c->line > LINE_MAX)
        return -1;
    switch (c->state) {
    case SIZE:
        digit = hex((unsigned char)b);
        if (digit >= 0) {
            if (++c->digits > 15)
                return -1;
            c->left = c->left * 16 + (uint64_t)digit;
            return SIZE;
        }
        if (c->digits == 0)
            return -1;
        return b == '\r' ? SIZE_LF : b == ';' || b == ' ' || b == '\t' ? EXTENSION : -1;
    case EXTENSION:
        return b == '\r' ? SIZE_LF : b == '\n' || b == 0 ? -1 : EXTENSION;
    case SIZE_LF:
        if (b != '\n')
            return -1;
        c->line = c->digits = 0;
        return c->left ? DATA : TRAILER;
    case DATA_CR:
        return b == '\r' ? DATA_LF : -1;
    case DATA_LF:
        if (b != '\n')
            return -1;
        c->line = c->digits = 0;
        return SIZE;
    case TRAILER: /* skipped; a blank line ends them */
        if (b == '\r')
            return c->digits ? TRAILER_LF : END_LF;
        c->digits = 1; /* this trailer line is not blank */
        return b == '\n' || b == 0 ? -1 : TRAILER;
    case TRAILER_LF:
        c->digits = 0; /* line goes on: all trailers together are bounded */
        return b == '\n' ? TRAILER : -1;
    default:
        return -1;
    }
}

int64_t vl_http_chunks_feed(vl_http_chunks *c, const char *bytes, size_t n, uint64_t max_bytes,
                            vl_buf *body, bool *done)
{
    size_t i = 0;
    *done = false;
    while (i < n) {
        if (c->state == DATA) {
            size_t take = n - i < c->left ? n - i : (size_t)c->left;
            vl_buf_append(body, bytes + i, take);
            i += take;
            c->left -= take;
            if (c->left == 0)
                c->state = DATA_CR;
            continue;
        }
        if (c->state == END_LF) {
            if (bytes[i] != '\n')
                return -1;
            *done = true;
            return (int64_t)i + 1;
        }
        int next = step(c, bytes[i++]);
        if (next < 0)
            return -1;
        c->state = next;
        if (next == DATA && (c->left > max_bytes || body->len > max_bytes - c->left))
            return -2;
    }
    return (int64_t)i;
}
