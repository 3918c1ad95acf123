/* host/server/http.c: connections and their states; see http.h. Owns sockets and buffers; must not
 * know what is asked or answered. */
#include "host/server/http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>

#include "base/error.h"

enum state {
    READ_HEAD,
    READ_BODY,
    HANDLING, /* the app has the request */
    LINGER /* the answer is out, the rest of the request is thrown away until the client closes */
};
enum { TICK_MS = 100, LINGER_S = 3, PIPELINE_BYTES = 256 << 10 };

typedef struct vl_http_connection {
    vl_http *http;
    struct vl_http_connection *next, *prev;
    struct bufferevent *bev;
    enum state state;
    bool busy;        /* advance() is at work: don't enter it again */
    bool close;       /* after what is to be sent */
    bool body_unread; /* the answer comes before the body */
    bool chunked_out; /* the answer's body goes in chunks */
    bool no_body_out; /* HEAD */
    bool eof;         /* the client sends no more */
    size_t scanned;   /* of the head */
    vl_http_chunks chunks;
    double active;   /* last byte in, or out, or change of state */
    double written;  /* last time something was added to the output */
    double flowed;   /* last time output went out, or there was none */
    size_t out_seen; /* output bytes at the last look */
    vl_http_request request;
} conn;

struct vl_http {
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *tick;
    vl_http_app app;
    vl_http_limits limits;
    conn *conns;
    size_t n, n_handling;
    bool draining;
    int port;
    uint64_t id_seed, n_ids;
};

static void advance(conn *c);

double vl_http_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *vl_http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {{200, "OK"},
                   {204, "No Content"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {413, "Content Too Large"},
                   {417, "Expectation Failed"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

static size_t pending(const conn *c)
{
    return evbuffer_get_length(bufferevent_get_output(c->bev));
}

static void request_reset(conn *c)
{
    vl_http_request *r = &c->request;
    vl_http_head_fini(&r->head);
    vl_buf_fini(&r->body);
    r->user = NULL;
    r->paused = r->head_is_bad = r->streaming = false;
    r->status = 0;
    r->sent_bytes = 0;
    r->id[0] = 0;
    r->connection = c;
    c->scanned = 0;
    c->chunks = (vl_http_chunks){0};
    c->body_unread = c->chunked_out = c->no_body_out = false;
}

static void conn_free(conn *c)
{
    vl_http *h = c->http;
    if (c->state == HANDLING)
        h->n_handling--;
    request_reset(c);
    if (c->prev)
        c->prev->next = c->next;
    else
        h->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    h->n--;
    bufferevent_free(c->bev);
    free(c);
    if (!h->draining && h->listener && h->n + 1 == h->limits.connections_max)
        evconnlistener_enable(h->listener);
}

/* The client is not there any more: tell the app, forget the connection. */
static void conn_lost(conn *c, bool too_slow)
{
    if (c->state == HANDLING && c->request.status == 0) {
        c->request.status = 499; /* as nginx logs it */
    }
    if (c->state == HANDLING)
        c->http->app.gone(c->http->app.user, &c->request, too_slow);
    conn_free(c);
}

/* ---- request ids ---- */

static void make_id(conn *c)
{
    vl_http_request *r = &c->request;
    const char *given = r->head_is_bad ? NULL : vl_http_header_get(&r->head, "x-request-id");
    size_t n = given ? strlen(given) : 0;
    if (n > 0 && n <= 128 &&
        strspn(given, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789-_.:+=/@") == n) {
        memcpy(r->id, given, n + 1);
        return;
    }
    uint64_t x = c->http->id_seed + ++c->http->n_ids * 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    static const char digits[] = "0123456789abcdef";
    memcpy(r->id, "req-", 4);
    for (int i = 0; i < 16; i++)
        r->id[4 + i] = digits[(x >> (60 - 4 * i)) & 15];
    r->id[20] = 0;
}

/* ---- reading ---- */

static void begin_handling(conn *c)
{
    c->state = HANDLING;
    c->http->n_handling++;
    c->written = vl_http_now();
}

static void refuse(conn *c, int status, const char *message)
{
    c->close = true;
    c->body_unread = true;
    begin_handling(c);
    if (!c->request.id[0])
        make_id(c);
    c->http->app.refuse(c->http->app.user, &c->request, status, message);
}

static bool read_head(conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t limit = c->http->limits.head_max_bytes;
    size_t n = evbuffer_get_length(in);
    const char *message = "not an HTTP request";
    if (n == 0)
        return false;
    if (n > limit)
        n = limit;
    const char *bytes = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
    c->request.head_is_bad = true;
    if (!bytes) {
        refuse(c, 503, "out of memory");
        return true;
    }
    int64_t len = vl_http_head_length(bytes, n, &c->scanned);
    if (len < 0) {
        refuse(c, 400, message);
        return true;
    }
    if (len == 0) {
        if (n < limit)
            return false;
        refuse(c, 431, "the request's head is too large");
        return true;
    }
    c->request.started = vl_http_now();
    int status = vl_http_head_parse(&c->request.head, bytes, (size_t)len, &message);
    evbuffer_drain(in, (size_t)len);
    if (status) {
        refuse(c, status, message);
        return true;
    }
    c->request.head_is_bad = false;
    make_id(c);
    c->no_body_out = strcmp(c->request.head.method, "HEAD") == 0;
    if (!c->request.head.keep_alive || c->http->draining)
        c->close = true;
    c->state = READ_BODY;
    return true;
}

enum { SMALL_BODY = 64 << 10 }; /* read without asking: cheaper than a lost connection */

/* After the head, once: is there a body, and is it wanted? False: it was answered without. */
static bool accept_body(conn *c)
{
    vl_http_request *r = &c->request;
    vl_http *h = c->http;
    bool small = !r->head.chunked && r->head.length <= SMALL_BODY && !r->head.expect_continue;
    if (r->head.length > h->limits.body_max_bytes) {
        refuse(c, 413, "the request's body is too large");
        return false;
    }
    if (!small && !h->app.want_body(h->app.user, r)) {
        c->close = c->body_unread = true;
        begin_handling(c);
        h->app.handle(h->app.user, r);
        return false;
    }
    if (r->head.expect_continue && evbuffer_get_length(bufferevent_get_input(c->bev)) == 0)
        bufferevent_write(c->bev, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    r->head.expect_continue = false;
    return true;
}

/* Takes what has come of the body. 1: complete; 0: more is needed; -1: it was refused. */
static int read_body(conn *c)
{
    vl_http_request *r = &c->request;
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t n;
    bool done = !r->head.chunked && r->body.len == r->head.length;
    while (!done && (n = evbuffer_get_contiguous_space(in)) > 0) {
        const char *bytes = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
        int64_t used;
        if (r->head.chunked) {
            used = vl_http_chunks_feed(&c->chunks, bytes, n, c->http->limits.body_max_bytes,
                                       &r->body, &done);
            if (used < 0) {
                refuse(c, used == -2 ? 413 : 400,
                       used == -2 ? "the request's body is too large" : "malformed chunked body");
                return -1;
            }
        } else {
            uint64_t left = r->head.length - r->body.len;
            used = (int64_t)(n < left ? n : left);
            vl_buf_append(&r->body, bytes, (size_t)used);
            done = r->body.len == r->head.length;
        }
        evbuffer_drain(in, (size_t)used);
        if (r->body.failed) {
            refuse(c, 503, "out of memory for the request's body");
            return -1;
        }
    }
    return done;
}

/* As far as the input goes. The only place that starts the handling of requests; not re-entered, so
 * that a reply inside handle() leads to the next pipelined request by the loop here and not by
 * recursion. */
static void advance(conn *c)
{
    if (c->busy)
        return;
    c->busy = true;
    bool on = true;
    while (on) {
        bool first = c->state == READ_HEAD;
        if (c->state == READ_HEAD)
            on = !c->close && read_head(c);
        if (on && c->state == READ_BODY) {
            if (first && !accept_body(c))
                continue;
            int got = read_body(c);
            if (got > 0) {
                begin_handling(c);
                c->http->app.handle(c->http->app.user, &c->request);
            }
            on = got != 0;
        }
        if (c->state == HANDLING || c->state == LINGER)
            on = false;
    }
    c->busy = false;
    if (c->state == LINGER)
        evbuffer_drain(bufferevent_get_input(c->bev),
                       evbuffer_get_length(bufferevent_get_input(c->bev)));
}

/* After an answer or end of input: closes what has nothing left to do. True if it is gone. */
static bool close_if_done(conn *c)
{
    if (c->state == HANDLING || c->busy || pending(c) > 0)
        return false;
    if (c->state == LINGER) {
        if (!c->eof) {
            shutdown(bufferevent_getfd(c->bev), SHUT_WR);
            return false;
        }
        conn_free(c);
        return true;
    }
    if (c->state == READ_HEAD &&
        (c->close || c->eof)) { /* a body that is still to come is waited for */
        conn_free(c);
        return true;
    }
    return false;
}

static void on_read(struct bufferevent *bev, void *user)
{
    conn *c = user;
    (void)bev;
    c->active = vl_http_now();
    advance(c);
    close_if_done(c);
}

static void on_write(struct bufferevent *bev, void *user)
{
    conn *c = user;
    (void)bev;
    vl_http_request *r = &c->request;
    c->flowed = c->active = vl_http_now();
    if (c->state == HANDLING && r->paused &&
        pending(c) <= c->http->limits.output_buffer_bytes / 2) {
        r->paused = false;
        bufferevent_setwatermark(c->bev, EV_WRITE, 0, 0);
        c->http->app.drained(c->http->app.user, r);
        return;
    }
    close_if_done(c);
}

static void on_event(struct bufferevent *bev, short what, void *user)
{
    conn *c = user;
    (void)bev;
    if (what & BEV_EVENT_EOF) {
        /* Nothing more comes. What was asked in full and can be answered at once has been answered
         * by now. */
        c->eof = true;
        if (c->state == HANDLING || c->state == READ_BODY || pending(c) == 0)
            conn_lost(c, false);
        else
            c->close = true;
        return;
    }
    conn_lost(c, false); /* reset, or another error */
}

/* ---- answers ---- */

static void put_head(vl_http_request *r, int status, const char *content_type, const char *extra,
                     int64_t length)
{
    conn *c = r->connection;
    vl_buf b = VL_BUF_INIT;
    r->status = status;
    vl_buf_printf(&b, "HTTP/1.1 %d %s\r\n", status, vl_http_reason(status));
    if (content_type)
        vl_buf_printf(&b, "Content-Type: %s\r\n", content_type);
    if (length >= 0)
        vl_buf_printf(&b, "Content-Length: %lld\r\n", (long long)length);
    if (c->chunked_out)
        vl_buf_puts(&b, "Transfer-Encoding: chunked\r\n");
    vl_buf_printf(&b, "x-request-id: %s\r\n", r->id);
    if (c->close)
        vl_buf_puts(&b, "Connection: close\r\n");
    else if (!r->head_is_bad && r->head.minor == 0)
        vl_buf_puts(&b, "Connection: keep-alive\r\n");
    if (extra)
        vl_buf_puts(&b, extra);
    c->http->app.add_headers(c->http->app.user, r, &b);
    vl_buf_puts(&b, "\r\n");
    if (b.failed)
        c->close = true; /* no memory for a head: the client sees a closed connection */
    else
        bufferevent_write(c->bev, b.ptr, b.len);
    vl_buf_fini(&b);
    c->written = vl_http_now();
}

/* The answer is complete: on to the next request, or to the end. */
static void finish(conn *c)
{
    vl_http *h = c->http;
    h->app.answered(h->app.user, &c->request);
    h->n_handling--;
    bool unread = c->body_unread;
    bufferevent_setwatermark(c->bev, EV_WRITE, 0, 0);
    request_reset(c);
    c->active = c->flowed = vl_http_now();
    c->close |= h->draining;
    c->state = unread && !c->eof ? LINGER : READ_HEAD;
    if (c->busy)
        return; /* advance() goes on */
    advance(c);
    /* No close here: the caller's caller may be walking over connections; the write callback or the
     * tick does it. */
}

void vl_http_reply(vl_http_request *r, int status, const char *content_type, const char *extra,
                   const char *body, size_t len)
{
    conn *c = r->connection;
    put_head(r, status, content_type, extra, status == 204 ? -1 : (int64_t)len);
    if (!c->no_body_out && len) {
        bufferevent_write(c->bev, body, len);
        r->sent_bytes += len;
    }
    finish(c);
}

void vl_http_stream_begin(vl_http_request *r, int status, const char *content_type,
                          const char *extra)
{
    conn *c = r->connection;
    c->chunked_out = r->head.minor == 1;
    if (!c->chunked_out)
        c->close = true;
    put_head(r, status, content_type, extra, -1);
    r->streaming = true;
}

void vl_http_stream_write(vl_http_request *r, const char *bytes, size_t len)
{
    conn *c = r->connection;
    struct evbuffer *out = bufferevent_get_output(c->bev);
    if (len == 0)
        return;
    if (c->chunked_out)
        evbuffer_add_printf(out, "%zx\r\n", len);
    evbuffer_add(out, bytes, len);
    if (c->chunked_out)
        evbuffer_add(out, "\r\n", 2);
    r->sent_bytes += len;
    c->written = vl_http_now();
    if (!r->paused && pending(c) > c->http->limits.output_buffer_bytes) {
        r->paused = true;
        c->flowed = c->written;
        bufferevent_setwatermark(c->bev, EV_WRITE, c->http->limits.output_buffer_bytes / 2, 0);
    }
}

void vl_http_stream_end(vl_http_request *r, bool close)
{
    conn *c = r->connection;
    if (c->chunked_out)
        bufferevent_write(c->bev, "0\r\n\r\n", 5);
    if (close)
        c->close = true;
    finish(c);
}

/* ---- time ---- */

static void look_at(conn *c, double now)
{
    const vl_http_limits *l = &c->http->limits;
    size_t out = pending(c);
    if (out == 0 || out < c->out_seen)
        c->flowed = now;
    c->out_seen = out;
    if (out > 0 && now - c->flowed > l->slow_s) {
        conn_lost(c, true);
        return;
    }
    switch (c->state) {
    case READ_HEAD:
        if (close_if_done(c))
            return;
        if (evbuffer_get_length(bufferevent_get_input(c->bev)) > 0) {
            if (now - c->active > l->read_s)
                refuse(c, 408, "the request stopped in its head");
        } else if (out == 0 && now - c->active > l->idle_s) {
            conn_free(c);
        }
        return;
    case READ_BODY:
        if (now - c->active > l->read_s)
            refuse(c, 408, "the request stopped in its body");
        return;
    case HANDLING:
        if (c->request.streaming && c->http->app.quiet)
            c->http->app.quiet(c->http->app.user, &c->request, now - c->written);
        return;
    case LINGER:
        if (now - c->written > LINGER_S || (out == 0 && c->eof))
            conn_free(c);
        else
            close_if_done(c);
        return;
    }
}

static void on_tick(evutil_socket_t fd, short what, void *user)
{
    vl_http *h = user;
    (void)fd;
    (void)what;
    double now = vl_http_now();
    for (conn *c = h->conns, *next; c; c = next) {
        next = c->next;
        look_at(c, now);
    }
}

/* ---- listening ---- */

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int len,
                      void *user)
{
    vl_http *h = user;
    int one = 1;
    (void)l;
    (void)addr;
    (void)len;
    conn *c = calloc(1, sizeof *c);
    struct bufferevent *bev = c ? bufferevent_socket_new(h->base, fd, BEV_OPT_CLOSE_ON_FREE) : NULL;
    if (!bev) {
        free(c);
        evutil_closesocket(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->http = h;
    c->bev = bev;
    c->active = c->flowed = c->written = vl_http_now();
    request_reset(c);
    c->next = h->conns;
    if (h->conns)
        h->conns->prev = c;
    h->conns = c;
    h->n++;
    bufferevent_setcb(bev, on_read, on_write, on_event, c);
    bufferevent_setwatermark(bev, EV_READ, 0, h->limits.head_max_bytes + PIPELINE_BYTES);
    bufferevent_set_max_single_read(bev, 256 << 10);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
    if (h->n >= h->limits.connections_max)
        evconnlistener_disable(h->listener);
}

static void on_retry(evutil_socket_t fd, short what, void *user)
{
    vl_http *h = user;
    (void)fd;
    (void)what;
    if (!h->draining && h->listener && h->n < h->limits.connections_max)
        evconnlistener_enable(h->listener);
}

/* Out of descriptors, mostly: without a pause the loop would spin on it. */
static void on_accept_error(struct evconnlistener *l, void *user)
{
    vl_http *h = user;
    struct timeval pause = {0, 200000};
    evconnlistener_disable(l);
    event_base_once(h->base, -1, EV_TIMEOUT, on_retry, h, &pause);
}

static int bind_to(const char *host, int port, int *bound, vl_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    char service[16];
    int fd = -1, saved = 0, one = 1;
    evutil_snprintf(service, sizeof service, "%d", port);
    int rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0) {
        vl_error_set(err, VL_E_INVALID, "host %s: %s", host, gai_strerror(rc));
        return -1;
    }
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            saved = errno;
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 1024) != 0) {
            saved = errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0) {
        vl_error_set(err, VL_E_IO, "can't listen on %s port %d: %s", host, port, strerror(saved));
        return -1;
    }
    struct sockaddr_storage at;
    socklen_t at_len = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &at_len) == 0)
        port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                              : ((struct sockaddr_in *)&at)->sin_port);
    *bound = port;
    return fd;
}

vl_status vl_http_create(struct event_base *base, const char *host, int port,
                         const vl_http_limits *limits, const vl_http_app *app, vl_http **out,
                         vl_error *err)
{
    struct timeval tick = {0, TICK_MS * 1000};
    vl_http *h = calloc(1, sizeof *h);
    if (!h)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    h->base = base;
    h->app = *app;
    h->limits = *limits;
    if (getrandom(&h->id_seed, sizeof h->id_seed, GRND_NONBLOCK) != (ssize_t)sizeof h->id_seed)
        h->id_seed = (uint64_t)(vl_http_now() * 1e9) ^ ((uint64_t)getpid() << 40);
    vl_status rc = VL_E_IO;
    int fd = bind_to(host, port, &h->port, err);
    if (fd < 0)
        goto out;
    rc = VL_E_NOMEM;
    h->listener = evconnlistener_new(base, on_accept, h,
                                     LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (!h->listener) {
        close(fd);
        vl_error_set(err, rc, "out of memory");
        goto out;
    }
    evconnlistener_set_error_cb(h->listener, on_accept_error);
    h->tick = event_new(base, -1, EV_PERSIST, on_tick, h);
    if (!h->tick || event_add(h->tick, &tick) != 0) {
        vl_error_set(err, rc, "out of memory");
        goto out;
    }
    *out = h;
    return VL_OK;
out:
    vl_http_destroy(h);
    return rc;
}

void vl_http_destroy(vl_http *h)
{
    if (!h)
        return;
    h->draining = true;
    while (h->conns)
        conn_lost(h->conns, false);
    if (h->listener)
        evconnlistener_free(h->listener);
    if (h->tick)
        event_free(h->tick);
    free(h);
}

int vl_http_port(const vl_http *h)
{
    return h->port;
}

void vl_http_drain(vl_http *h)
{
    h->draining = true;
    if (h->listener)
        evconnlistener_free(h->listener); /* from here on connects are refused, not kept waiting */
    h->listener = NULL;
    for (conn *c = h->conns, *next; c; c = next) {
        next = c->next;
        c->close = true;
        if (c->state == READ_HEAD && pending(c) == 0 &&
            evbuffer_get_length(bufferevent_get_input(c->bev)) == 0)
            conn_free(c);
    }
}

size_t vl_http_n_active(const vl_http *h)
{
    size_t n = h->n_handling;
    for (const conn *c = h->conns; c; c = c->next)
        n += c->state != HANDLING && pending(c) > 0;
    return n;
}

size_t vl_http_n_connections(const vl_http *h)
{
    return h->n;
}
