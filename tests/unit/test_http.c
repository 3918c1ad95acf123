/* The HTTP server over real loopback sockets: the loop runs in a thread of its own, the client here
 * is a plain blocking socket. */
#include "tests/unit/vl_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <event2/thread.h>

#include "host/server/http.h"

static struct world {
    struct event_base *base;
    vl_http *http;
    pthread_t thread;
    int port;
    _Atomic int n_handled, n_gone, n_slow, n_drained, n_paused, n_quiet;
    size_t flood_left; /* bytes still to write; [loop] */
} w;

/* Far more than the kernel's buffers on both sides take. */
enum { FLOOD_BYTES = 64 << 20, BLOCK_BYTES = 32768 };

static void flood(vl_http_request *r)
{
    static char block[BLOCK_BYTES];
    memset(block, 'x', sizeof block);
    for (; w.flood_left > 0 && !r->paused; w.flood_left -= BLOCK_BYTES)
        vl_http_stream_write(r, block, sizeof block);
    w.n_paused += r->paused;
    if (w.flood_left == 0)
        vl_http_stream_end(r, false);
}

static bool want_body(void *user, vl_http_request *r)
{
    (void)user;
    return strcmp(r->head.path.ptr, "/refuse") != 0;
}

static void handle(void *user, vl_http_request *r)
{
    (void)user;
    w.n_handled++;
    const char *path = r->head.path.ptr;
    if (strcmp(path, "/hold") == 0) {
        return; /* never answered */
    } else if (strcmp(path, "/stream") == 0) {
        vl_http_stream_begin(r, 200, "text/event-stream", NULL);
        vl_http_stream_write(r, "data: 1\n\n", 9);
        vl_http_stream_write(r, "data: 2\n\n", 9);
        vl_http_stream_end(r, false);
    } else if (strcmp(path, "/flood") == 0) {
        w.flood_left = FLOOD_BYTES;
        vl_http_stream_begin(r, 200, "text/plain", NULL);
        flood(r);
    } else if (strcmp(path, "/quiet") == 0) {
        r->user = &w; /* quiet() is about this one */
        vl_http_stream_begin(r, 200, "text/event-stream", NULL);
    } else {
        vl_http_reply(r, strcmp(path, "/refuse") == 0 ? 401 : 200, "text/plain", NULL,
                      r->body.ptr ? r->body.ptr : "", r->body.len);
    }
}

static void refuse(void *user, vl_http_request *r, int status, const char *message)
{
    (void)user;
    vl_http_reply(r, status, "text/plain", NULL, message, strlen(message));
}

static void gone(void *user, vl_http_request *r, bool too_slow)
{
    (void)user;
    (void)r;
    w.n_gone++;
    w.n_slow += too_slow;
}

static void drained(void *user, vl_http_request *r)
{
    (void)user;
    w.n_drained++;
    flood(r);
}

static void quiet(void *user, vl_http_request *r, double silent)
{
    (void)user;
    if (silent < 0.15 || !r->user)
        return;
    if (w.n_quiet++ < 2)
        vl_http_stream_write(r, ": ping\n\n", 8);
    else
        vl_http_stream_end(r, true);
}

static void add_headers(void *user, const vl_http_request *r, vl_buf *out)
{
    (void)user;
    (void)r;
    vl_buf_puts(out, "X-App: yes\r\n");
}

static void answered(void *user, const vl_http_request *r)
{
    (void)user;
    assert_true(r->status > 0);
}

static void *run_loop(void *user)
{
    (void)user;
    event_base_loop(w.base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    vl_error err = {0};
    evthread_use_pthreads();
    memset(&w, 0, sizeof w);
    w.base = event_base_new();
    vl_http_app app = {NULL,    want_body,   handle, refuse,  gone,
                       drained, add_headers, quiet,  answered};
    vl_http_limits limits = {200000, 8192, 64, 262144, 5, 1, 1};
    if (vl_http_create(w.base, "127.0.0.1", 0, &limits, &app, &w.http, &err) != VL_OK)
        return -1;
    w.port = vl_http_port(w.http);
    return pthread_create(&w.thread, NULL, run_loop, NULL);
}

static int teardown(void **state)
{
    (void)state;
    event_base_loopbreak(w.base);
    pthread_join(w.thread, NULL);
    vl_http_destroy(w.http);
    event_base_free(w.base);
    return 0;
}

static int connect_to(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)w.port)};
    struct timeval limit = {10, 0};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    size_t n = strlen(text);
    assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* Reads until `end` is there, or the connection closes. */
static void hear(int fd, vl_buf *b, const char *end)
{
    char block[4096];
    while (!(end && b->ptr && strstr(b->ptr, end))) {
        ssize_t n = recv(fd, block, sizeof block, 0);
        if (n <= 0)
            break;
        vl_buf_append(b, block, (size_t)n);
    }
    if (end && !(b->ptr && strstr(b->ptr, end)))
        fail_msg("'%s' did not come, but: %s", end, b->ptr ? b->ptr : "(nothing)");
}

static bool closed(int fd)
{
    char c;
    return recv(fd, &c, 1, 0) == 0;
}

static void wait_for(_Atomic int *n, int want)
{
    for (int i = 0; i < 500 && atomic_load(n) < want; i++)
        usleep(10000);
    assert_int_equal(atomic_load(n), want);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

#define HOST "Host: localhost\r\n"

static void test_requests_pipelined_answered_in_order(void **state)
{
    (void)state;
    int fd = connect_to();
    vl_buf b = VL_BUF_INIT;
    say(fd, "POST /a HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nonePOST /b HTTP/1.1\r\n" HOST
            "Transfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\nGET /stream HTTP/1.1\r\n" HOST
            "\r\nHEAD /c HTTP/1.1\r\n" HOST "x-request-id: mine-1\r\n\r\n");
    hear(fd, &b, "mine-1\r\n");
    hear(fd, &b, "X-App: yes\r\n\r\n");
    assert_int_equal(count(b.ptr, "HTTP/1.1 200 OK"), 4);
    const char *one = strstr(b.ptr, "\r\n\r\none"), *two = strstr(b.ptr, "\r\n\r\ntwo");
    const char *s = strstr(b.ptr, "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n");
    assert_true(one && two && s && one < two && two < s);
    assert_int_equal(count(b.ptr, "x-request-id: "), 4);
    assert_null(strstr(b.ptr, "Connection: close"));
    close(fd);
    vl_buf_fini(&b);
}

/* urllib does it so: Connection: close, and the body in a packet of its own. */
static void test_request_last_with_late_body_is_answered(void **state)
{
    (void)state;
    int fd = connect_to();
    vl_buf b = VL_BUF_INIT;
    say(fd, "POST /a HTTP/1.1\r\n" HOST "Connection: close\r\nContent-Length: 5\r\n\r\n");
    usleep(150000); /* longer than a tick */
    say(fd, "he");
    usleep(150000);
    say(fd, "llo");
    hear(fd, &b, "hello");
    assert_non_null(strstr(b.ptr, "Connection: close"));
    assert_true(closed(fd));
    close(fd);
    vl_buf_fini(&b);
}

static void test_expect_continue_is_met_before_the_body(void **state)
{
    (void)state;
    int fd = connect_to();
    vl_buf b = VL_BUF_INIT;
    say(fd, "POST /a HTTP/1.1\r\n" HOST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    hear(fd, &b, "HTTP/1.1 100 Continue\r\n\r\n");
    say(fd, "hello");
    hear(fd, &b, "hello");
    close(fd);
    vl_buf_fini(&b);
}

static void test_body_unwanted_answered_before_it_comes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *status;
    } cases[] = {
        {"POST /a HTTP/1.1\r\n" HOST "Content-Length: 10737418240\r\nExpect: 100-continue\r\n\r\n",
         "HTTP/1.1 413"},
        {"POST /a HTTP/1.1\r\n" HOST "Content-Length: 200001\r\n\r\n", "HTTP/1.1 413"},
        {"POST /refuse HTTP/1.1\r\n" HOST "Content-Length: 100000\r\nExpect: 100-continue\r\n\r\n",
         "HTTP/1.1 401"},
        {"POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n30D41\r\n", "HTTP/1.1 413"},
        {"POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
        {"garbage\r\n\r\n", "HTTP/1.1 400"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = connect_to();
        vl_buf b = VL_BUF_INIT;
        say(fd, cases[i].text);
        hear(fd, &b, "\r\n\r\n");
        assert_int_equal(strncmp(b.ptr, cases[i].status, 12), 0);
        assert_non_null(strstr(b.ptr, "Connection: close"));
        assert_null(strstr(b.ptr, "100 Continue"));
        hear(fd, &b, NULL); /* until it closes */
        close(fd);
        vl_buf_fini(&b);
    }
}

static void test_head_too_large_refused(void **state)
{
    (void)state;
    int fd = connect_to();
    vl_buf b = VL_BUF_INIT;
    say(fd, "GET / HTTP/1.1\r\nX: ");
    char block[1024];
    memset(block, 'a', sizeof block);
    for (int i = 0; i < 9; i++)
        (void)!send(fd, block, sizeof block, MSG_NOSIGNAL);
    hear(fd, &b, "HTTP/1.1 431");
    close(fd);
    vl_buf_fini(&b);
}

static void test_client_gone_while_handled_is_told(void **state)
{
    (void)state;
    int fd = connect_to(), half = connect_to();
    say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    wait_for(&w.n_handled, 1);
    close(fd);
    wait_for(&w.n_gone, 1);
    say(half, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    wait_for(&w.n_handled, 2);
    shutdown(half, SHUT_WR); /* the end of what it says counts as gone */
    wait_for(&w.n_gone, 2);
    close(half);
    assert_int_equal(w.n_slow, 0);
}

/* Bytes until the connection is silent for a second or closed; the stream's end is in *end. */
static size_t swallow(int fd, bool *end)
{
    static char block[1 << 16];
    size_t total = 0;
    char tail[8] = "";
    for (ssize_t n; (n = recv(fd, block, sizeof block, 0)) > 0;) {
        total += (size_t)n;
        if (n >= 7)
            memcpy(tail, block + n - 7, 7);
        *end = memcmp(tail, "\r\n0\r\n\r\n", 7) == 0;
        if (*end)
            break;
    }
    return total;
}

static void test_reader_slow_pauses_and_goes_on(void **state)
{
    (void)state;
    int fd = connect_to();
    bool end = false;
    say(fd, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
    usleep(400000); /* the kernel's buffers fill, then ours stays full */
    assert_true(w.n_paused >= 1 && w.n_paused < FLOOD_BYTES / 262144);
    assert_true(swallow(fd, &end) > FLOOD_BYTES);
    assert_true(end);
    assert_true(w.n_drained >= 1);
    assert_int_equal(w.n_gone, 0);
    close(fd);
}

static void test_reader_stuck_is_dropped(void **state)
{
    (void)state;
    int fd = connect_to();
    say(fd, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
    wait_for(&w.n_slow, 1); /* after its limit of 1 s */
    assert_int_equal(w.n_gone, 1);
    close(fd);
}

static void test_stream_silent_is_pinged(void **state)
{
    (void)state;
    int fd = connect_to();
    vl_buf b = VL_BUF_INIT;
    say(fd, "GET /quiet HTTP/1.1\r\n" HOST "\r\n");
    hear(fd, &b, "\r\n0\r\n\r\n");
    assert_int_equal(count(b.ptr, ": ping\n\n"), 2);
    assert_true(closed(fd));
    close(fd);
    vl_buf_fini(&b);
}

static void test_request_unfinished_times_out(void **state)
{
    (void)state;
    int head = connect_to(), body = connect_to();
    vl_buf a = VL_BUF_INIT, b = VL_BUF_INIT;
    say(head, "GET / HTT");
    say(body, "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhe");
    hear(head, &a, "HTTP/1.1 408");
    hear(body, &b, "HTTP/1.1 408");
    close(head);
    close(body);
    vl_buf_fini(&a);
    vl_buf_fini(&b);
}

static void do_drain(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    (void)user;
    vl_http_drain(w.http);
}

static void test_drain_closes_idle_and_refuses_new(void **state)
{
    (void)state;
    int idle = connect_to();
    vl_buf b = VL_BUF_INIT;
    struct timeval now = {0, 0};
    say(idle, "GET / HTTP/1.1\r\n" HOST "\r\n");
    hear(idle, &b, "\r\n\r\n");
    event_base_once(w.base, -1, EV_TIMEOUT, do_drain, NULL, &now);
    assert_true(closed(idle));
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)w.port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), -1);
    close(fd);
    close(idle);
    vl_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_requests_pipelined_answered_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_request_last_with_late_body_is_answered, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_expect_continue_is_met_before_the_body, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_body_unwanted_answered_before_it_comes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_head_too_large_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_client_gone_while_handled_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reader_slow_pauses_and_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reader_stuck_is_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stream_silent_is_pinged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_request_unfinished_times_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drain_closes_idle_and_refuses_new, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
