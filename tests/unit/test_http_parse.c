/* Heads and chunked bodies: what is taken, what is refused, and that the cut of the input does not
 * matter. */
#include "tests/unit/vl_test.h"

#include "host/server/http_parse.h"

static int parse(vl_http_head *h, const char *text)
{
    const char *message = "";
    size_t scanned = 0;
    int64_t n = vl_http_head_length(text, strlen(text), &scanned);
    if (n <= 0)
        return n < 0 ? 400 : -1;
    return vl_http_head_parse(h, text, (size_t)n, &message);
}

static void test_head_plain_is_read(void **state)
{
    (void)state;
    vl_http_head h = {0};
    assert_int_equal(
        parse(&h, "POST //v1//chat/completions/?a=b HTTP/1.1\r\nHost: x:80\r\nX-Thing:  v w \t\r\n"
                  "Content-Length: 12\r\nExpect: 100-continue\r\n\r\nbody"),
        0);
    assert_string_equal(h.method, "POST");
    assert_string_equal(h.path.ptr, "/v1/chat/completions");
    assert_string_equal(h.query, "a=b");
    assert_string_equal(vl_http_header_get(&h, "x-thing"), "v w");
    assert_null(vl_http_header_get(&h, "x-other"));
    assert_int_equal(h.length, 12);
    assert_true(h.keep_alive && h.expect_continue && h.has_length && !h.chunked);
    vl_http_head_fini(&h);
}

static void test_head_paths_are_normalised(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"/", "/"},
                                           {"//models", "/models"},
                                           {"/models/", "/models"},
                                           {"/a%20b", "/a b"},
                                           {"/a%2Fb", "/a/b"},
                                           {"http://h:1/x?y", "/x"},
                                           {"http://h", "/"},
                                           {"/%e6%97%a5", "/\xe6\x97\xa5"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        vl_http_head h = {0};
        vl_buf b = VL_BUF_INIT;
        vl_buf_printf(&b, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", pairs[i][0]);
        assert_int_equal(parse(&h, b.ptr), 0);
        assert_string_equal(h.path.ptr, pairs[i][1]);
        vl_http_head_fini(&h);
        vl_buf_fini(&b);
    }
}

static void test_head_connection_words(void **state)
{
    (void)state;
    vl_http_head h = {0};
    assert_int_equal(parse(&h, "GET / HTTP/1.0\r\n\r\n"), 0);
    assert_false(h.keep_alive);
    assert_int_equal(parse(&h, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"), 0);
    assert_true(h.keep_alive);
    assert_int_equal(parse(&h, "GET / HTTP/1.1\r\nHost: h\r\nConnection: TE, close\r\n\r\n"), 0);
    assert_false(h.keep_alive);
    vl_http_head_fini(&h);
}

static void test_head_wrong_ones_refused_with_status(void **state)
{
    (void)state;
#define H " HTTP/1.1\r\nHost: h\r\n"
    static const struct {
        int status;
        const char *text;
    } bad[] = {
        {400, "GET /\r\n\r\n"},
        {400, "\x16\x03\x01 TLS"},
        {400, "GET / HTTP/1.1\nHost: h\n\n"},
        {400, "GET  / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET x" H "\r\n"},
        {400, "GET /%00" H "\r\n"},
        {400, "GET /%zz" H "\r\n"},
        {505, "GET / HTTP/9.9\r\nHost: h\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n\r\n"},
        {400, "GET /" H "Host: h\r\n\r\n"},
        {400, "GET /" H "X-A : b\r\n\r\n"},
        {400, "GET /" H "X-A: b\r\n folded\r\n\r\n"},
        {400, "GET /" H "nonsense\r\n\r\n"},
        {400, "GET /" H "X-A: a\x01\r\n\r\n"},
        {400, "POST /" H "Content-Length: -5\r\n\r\n"},
        {400, "POST /" H "Content-Length: 3, 3\r\n\r\n"},
        {400, "POST /" H "Content-Length: 99999999999999999999\r\n\r\n"},
        {400, "POST /" H "Content-Length: 3\r\nContent-Length: 4\r\n\r\n"},
        {400, "POST /" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {501, "POST /" H "Transfer-Encoding: gzip, chunked\r\n\r\n"},
        {501, "POST /" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {417, "POST /" H "Expect: tea\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vl_http_head h = {0};
        int status = parse(&h, bad[i].text);
        if (status != bad[i].status)
            fail_msg("%s: status %d, want %d", bad[i].text, status, bad[i].status);
        vl_http_head_fini(&h);
    }
}

static void test_head_many_headers_refused(void **state)
{
    (void)state;
    vl_http_head h = {0};
    vl_buf b = VL_BUF_INIT;
    vl_buf_puts(&b, "GET /" H);
    for (int i = 0; i < VL_HTTP_MAX_HEADERS; i++)
        vl_buf_puts(&b, "X: y\r\n");
    vl_buf_puts(&b, "\r\n");
    assert_int_equal(parse(&h, b.ptr), 431);
    vl_http_head_fini(&h);
    vl_buf_fini(&b);
}

static void test_head_length_same_at_every_cut(void **state)
{
    (void)state;
    const char *text = "\r\nGET /health" H "X-A: b\r\n\r\nnext";
    size_t n = strlen(text), scanned = 0;
    int64_t want = (int64_t)(n - 4), got = 0;
    for (size_t i = 1; i <= n && got == 0; i++)
        got = vl_http_head_length(text, i, &scanned);
    assert_int_equal(got, want);
}

static int feed_all(const char *text, size_t step, vl_buf *body, size_t *used)
{
    vl_http_chunks c = {0};
    bool done = false;
    size_t n = strlen(text), at = 0;
    vl_buf_clear(body);
    while (at < n && !done) {
        size_t take = n - at < step ? n - at : step;
        int64_t rc = vl_http_chunks_feed(&c, text + at, take, 1000, body, &done);
        if (rc < 0)
            return (int)rc;
        at += (size_t)rc;
    }
    *used = at;
    return done;
}

static void test_chunks_same_at_every_cut(void **state)
{
    (void)state;
    const char *text = "5;ext=\"1\"\r\nhello\r\nA\r\n, chunked!\r\n0\r\nX-Trailer: y\r\n\r\nGET";
    vl_buf body = VL_BUF_INIT;
    for (size_t step = 1; step < 60; step++) {
        size_t used = 0;
        assert_int_equal(feed_all(text, step, &body, &used), 1);
        assert_int_equal(used, strlen(text) - 3);
        assert_int_equal(body.len, 15);
        assert_memory_equal(body.ptr, "hello, chunked!", 15);
    }
    vl_buf_fini(&body);
}

static void test_chunks_wrong_ones_refused(void **state)
{
    (void)state;
    static const struct {
        int rc;
        const char *text;
    } bad[] = {{-1, "xyz\r\n"},  {-1, "\r\n"},          {-1, "ffffffffffffffffff\r\n"},
               {-1, "5\nhello"}, {-1, "3\r\nabcd\r\n"}, {-1, "3\r\nabc\n"},
               {-2, "3E9\r\n"},  {-2, "3E8\r\nx"},      {-1, "0\r\nA: b\n\r\n"}};
    vl_buf body = VL_BUF_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t used;
        int rc = feed_all(bad[i].text, 7, &body, &used);
        int want = i == 7 ? 0 : bad[i].rc; /* 1000 bytes just fit the limit of this test */
        if (rc != want)
            fail_msg("case %zu: %d, want %d", i, rc, want);
    }
    vl_buf_fini(&body);
}

/* Mutated heads and chunks: no crash, and what is taken is within what was given. */
static void test_random_bytes_stay_inside(void **state)
{
    (void)state;
    const char *seed = "POST /v1/x?y=z HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: "
                       "100-continue\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    uint64_t x = 0x2545f4914f6cdd1du;
    size_t n = strlen(seed);
    vl_http_head h = {0};
    for (int round = 0; round < 50000; round++) {
        char text[256];
        memcpy(text, seed, n);
        for (int k = 0; k < 1 + round % 4; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            text[(x >> 33) % n] = (char)(x >> 24);
        }
        size_t scanned = 0;
        const char *message = NULL;
        int64_t len = vl_http_head_length(text, n, &scanned);
        assert_true(len <= (int64_t)n);
        if (len > 0 && vl_http_head_parse(&h, text, (size_t)len, &message) == 0)
            assert_true(h.path.len > 0 && h.path.ptr[0] != 0);
        vl_http_chunks c = {0};
        vl_buf body = VL_BUF_INIT;
        bool done;
        size_t at = n - 20;
        int64_t used = vl_http_chunks_feed(&c, text + at, 20, 1000, &body, &done);
        assert_true(used <= 20 && body.len <= 20);
        vl_buf_fini(&body);
    }
    vl_http_head_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_plain_is_read),
        cmocka_unit_test(test_head_paths_are_normalised),
        cmocka_unit_test(test_head_connection_words),
        cmocka_unit_test(test_head_wrong_ones_refused_with_status),
        cmocka_unit_test(test_head_many_headers_refused),
        cmocka_unit_test(test_head_length_same_at_every_cut),
        cmocka_unit_test(test_chunks_same_at_every_cut),
        cmocka_unit_test(test_chunks_wrong_ones_refused),
        cmocka_unit_test(test_random_bytes_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
