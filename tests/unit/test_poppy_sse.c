/* unit.poppy_sse: event streams in any chunking, with all forms of line ends and fields. */
#include "tests/unit/vl_test.h"

#include "chat/sse.h"

struct got {
    vl_buf text; /* events, each followed by '|' */
    int stop_at; /* return 7 at this event, 0: never */
    int n;
};

static int event(void *user, const char *data, size_t len)
{
    struct got *g = user;

    vl_buf_append(&g->text, data, len);
    vl_buf_putc(&g->text, '|');
    return ++g->n == g->stop_at ? 7 : 0;
}

static void expect(const char *stream, const char *want)
{
    size_t len = strlen(stream);

    for (size_t piece = 1; piece <= len; piece++) {
        struct got g = {VL_BUF_INIT, 0, 0};
        struct vl_sse s;

        vl_sse_init(&s, 1000);
        for (size_t at = 0; at < len; at += piece)
            assert_int_equal(
                vl_sse_feed(&s, stream + at, len - at < piece ? len - at : piece, event, &g), 0);
        assert_string_equal(g.text.ptr ? g.text.ptr : "", want);
        vl_sse_fini(&s);
        vl_buf_fini(&g.text);
    }
}

static void test_sse_events_come_in_any_chunking(void **state)
{
    (void)state;
    expect("data: a\n\ndata: b\n\n", "a|b|");
    expect("data: a\r\n\r\ndata: b\r\rdata: c\n\n", "a|b|c|");
    expect("data:a\ndata:  b\ndata\n\n", "a\n b\n|");
    expect(": note\n\n:x\r\n\r\nevent: m\nid: 7\nretry: 1\n\ndata: z\n\n", "z|");
    expect("\xEF\xBB\xBF"
           "data: a\n\n\xEF\xBB\xBF"
           "data: b\n\n",
           "a|");
    expect("database: no\n\ndata:\n\n", "|");
}

static void test_sse_event_without_blank_line_is_dropped(void **state)
{
    (void)state;
    expect("data: a\n\ndata: half\n", "a|");
    expect("data: a\n\ndata: hal", "a|");
}

static void test_sse_callback_stops(void **state)
{
    struct got g = {VL_BUF_INIT, 1, 0};
    struct vl_sse s;

    (void)state;
    vl_sse_init(&s, 1000);
    assert_int_equal(vl_sse_feed(&s, "data: a\n\ndata: b\n\n", 18, event, &g), 7);
    assert_string_equal(g.text.ptr, "a|");
    vl_sse_fini(&s);
    vl_buf_fini(&g.text);
}

static void test_sse_event_too_large_is_refused(void **state)
{
    struct got g = {VL_BUF_INIT, 0, 0};
    struct vl_sse s;
    char long_line[64];

    (void)state;
    memset(long_line, 'x', sizeof(long_line));
    vl_sse_init(&s, 100);
    assert_int_equal(vl_sse_feed(&s, "data:", 5, event, &g), 0);
    assert_int_equal(vl_sse_feed(&s, long_line, sizeof(long_line), event, &g), 0);
    assert_int_equal(vl_sse_feed(&s, long_line, sizeof(long_line), event, &g), -1);
    vl_sse_fini(&s);
    vl_buf_fini(&g.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sse_events_come_in_any_chunking),
        cmocka_unit_test(test_sse_event_without_blank_line_is_dropped),
        cmocka_unit_test(test_sse_callback_stops),
        cmocka_unit_test(test_sse_event_too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
