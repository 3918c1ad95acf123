/* host/server/http_parse.h: the head of an HTTP/1.1 request and chunked bodies, from bytes in
 * memory. No sockets, no routes; fuzzed. Strict: what two parsers could read in two ways is
 * refused. */
#ifndef VL_SERVER_HTTP_PARSE_H
#define VL_SERVER_HTTP_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { VL_HTTP_MAX_HEADERS = 256 };

typedef struct vl_http_header {
    const char *name;  /* lower case, NUL-terminated; in the head's own copy */
    const char *value; /* trimmed, NUL-terminated */
} vl_http_header;

typedef struct vl_http_head {
    vl_buf text; /* owned copy that all strings point into */
    const char *method;
    const char *target; /* as sent */
    vl_buf path;        /* decoded, slashes collapsed, no trailing one; NUL-terminated */
    const char *query;  /* behind the '?', or "" */
    int minor;          /* HTTP/1.minor */
    vl_http_header headers[VL_HTTP_MAX_HEADERS];
    size_t n_headers;
    bool keep_alive;
    bool expect_continue;
    bool chunked;
    bool has_length;
    uint64_t length; /* Content-Length; 0 without */
} vl_http_head;

/* How far the head at the beginning of bytes[0..n) goes. Returns its length with the blank line; 0:
 * more is needed (*scanned remembers where to go on, start with 0); -1: no HTTP. Blank lines before
 * the request line are part of it. */
int64_t vl_http_head_length(const char *bytes, size_t n, size_t *scanned);

/* Parses a whole head. Returns 0, or the status to refuse it with and *message (static text). */
int vl_http_head_parse(vl_http_head *h, const char *bytes, size_t n, const char **message);
void vl_http_head_fini(vl_http_head *h); /* a zeroed one is fine; zeroes it */
/* Value of the first header with this (lower-case) name, or NULL. */
const char *vl_http_header_get(const vl_http_head *h, const char *name);

/* A chunked body, fed in pieces. Zeroed at the start. */
typedef struct vl_http_chunks {
    uint64_t left; /* bytes of the chunk at hand */
    int32_t state;
    uint32_t line; /* bytes of the line at hand (size line, trailers), bounded */
    uint32_t digits;
} vl_http_chunks;
/* Takes from bytes[0..n), appends data to body. Returns bytes used; *done at the end of the body.
 * -1: malformed; -2: body would be longer than max_bytes. */
int64_t vl_http_chunks_feed(vl_http_chunks *c, const char *bytes, size_t n, uint64_t max_bytes,
                            vl_buf *body, bool *done);

#endif
