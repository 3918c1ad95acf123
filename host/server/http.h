/* host/server/http.h: HTTP/1.1 on libevent's bufferevents: connections, requests, answers whole or
 * as a stream, time limits. Knows no routes, no JSON, no models. Everything is [loop].
 *
 * Why not evhttp: version 2.1, which the distributions have, stops reading a connection while its
 * request is answered, so that a client that went away is noticed only when something is written;
 * it gives no hook between head and body (413 and 401 before the body is read), answers its own
 * errors in HTML, and cannot bound what waits to be sent. */
#ifndef VL_SERVER_HTTP_H
#define VL_SERVER_HTTP_H

#include <event2/event.h>

#include "host/server/http_parse.h"
#include "vallmo/abi.h"

typedef struct vl_http vl_http;

/* One request and its answer. Valid from the first callback with it until it has been answered
 * (vl_http_reply, vl_http_stream_end), or until gone() returns. */
typedef struct vl_http_request {
    vl_http_head head;
    vl_buf body;
    char id[136];     /* x-request-id: the client's, or one of ours */
    void *user;       /* the app's; NULL at first */
    bool paused;      /* stream: more waits to be sent than should */
    bool head_is_bad; /* nothing in head can be relied on */
    bool streaming;   /* the answer's head is out */
    double started;   /* seconds of the monotonic clock */
    int status;       /* of the answer, once it began */
    uint64_t sent_bytes;
    struct vl_http_connection *connection;
} vl_http_request;

typedef struct vl_http_app {
    void *user;
    /* The head is there and the body is large or not announced: true: read it; false: handle() is
     * called without the body, and the connection ends after the answer. */
    bool (*want_body)(void *user, vl_http_request *r);
    /* The request is complete. Answer now or later. */
    void (*handle)(void *user, vl_http_request *r);
    /* HTTP itself was wrong: answer with this status. */
    void (*refuse)(void *user, vl_http_request *r, int status, const char *message);
    /* The client is gone, or too slow. r is not valid afterwards. Only for requests that handle()
     * left unanswered. */
    void (*gone)(void *user, vl_http_request *r, bool too_slow);
    /* Output of a paused stream has drained. */
    void (*drained)(void *user, vl_http_request *r);
    /* Header lines for every answer (CORS), each with its line end. */
    void (*add_headers)(void *user, const vl_http_request *r, vl_buf *out);
    /* A few times a second for every stream that has sent nothing for `silent` seconds. */
    void (*quiet)(void *user, vl_http_request *r, double silent);
    /* The answer is complete: for the log and the counters. */
    void (*answered)(void *user, const vl_http_request *r);
} vl_http_app;

typedef struct vl_http_limits {
    uint64_t body_max_bytes;
    size_t head_max_bytes;
    size_t connections_max;
    size_t output_buffer_bytes;
    double idle_s, read_s, slow_s;
} vl_http_limits;

/* Listens on host:port at once. */
vl_status vl_http_create(struct event_base *base, const char *host, int port,
                         const vl_http_limits *limits, const vl_http_app *app, vl_http **out,
                         vl_error *err);
void vl_http_destroy(vl_http *h); /* gone() for what runs */
int vl_http_port(const vl_http *h);
/* No new connections; idle ones are closed, others after their answer. */
void vl_http_drain(vl_http *h);
size_t
vl_http_n_active(const vl_http *h); /* requests being handled, and answers not yet sent off */
size_t vl_http_n_connections(const vl_http *h);

/* A whole answer. extra: header lines with line ends, or NULL. */
void vl_http_reply(vl_http_request *r, int status, const char *content_type, const char *extra,
                   const char *body, size_t len);
/* A stream: chunked on HTTP/1.1. */
void vl_http_stream_begin(vl_http_request *r, int status, const char *content_type,
                          const char *extra);
void vl_http_stream_write(vl_http_request *r, const char *bytes, size_t len);
/* close: the connection ends behind it. */
void vl_http_stream_end(vl_http_request *r, bool close);

double vl_http_now(void); /* monotonic seconds */
const char *vl_http_reason(int status);

#endif
