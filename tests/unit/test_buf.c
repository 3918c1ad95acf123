/* unit.buf: the growing buffer. */
#include "tests/unit/vl_cmocka.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static void test_buf_append_keeps_bytes_and_nul(void **state)
{
    vl_buf b = VL_BUF_INIT;
    (void)state;
    for (int i = 0; i < 1000; i++)
        vl_buf_printf(&b, "%d,", i);
    vl_buf_append(&b, "a\0b", 3);
    vl_buf_putc(&b, 'c');
    assert_false(b.failed);
    assert_memory_equal(b.ptr, "0,1,2,", 6);
    assert_memory_equal(b.ptr + b.len - 4, "a\0bc", 5);
    vl_buf_fini(&b);
    assert_null(b.ptr);
}

static void test_buf_printf_longer_than_room_is_whole(void **state)
{
    vl_buf b = VL_BUF_INIT;
    char text[5000];
    (void)state;
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    vl_buf_puts(&b, "<");
    vl_buf_printf(&b, "%s>", text);
    assert_int_equal(b.len, sizeof(text) + 1);
    assert_int_equal(b.ptr[b.len - 1], '>');
    vl_buf_fini(&b);
}

static void test_buf_consume_moves_the_rest(void **state)
{
    vl_buf b = VL_BUF_INIT;
    (void)state;
    vl_buf_consume(&b, 5); /* an empty one is fine */
    vl_buf_puts(&b, "hello");
    vl_buf_consume(&b, 2);
    assert_string_equal(b.ptr, "llo");
    vl_buf_consume(&b, 9);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.ptr, "");
    vl_buf_fini(&b);
}

static void test_buf_impossible_size_fails_and_stays_failed(void **state)
{
    vl_buf b = VL_BUF_INIT;
    (void)state;
    vl_buf_puts(&b, "x");
    assert_false(vl_buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    vl_buf_puts(&b, "y");
    assert_int_equal(b.len, 1);
    assert_null(vl_buf_take(&b, NULL));
}

static void test_buf_take_hands_the_memory_over(void **state)
{
    vl_buf b = VL_BUF_INIT;
    size_t len = 9;
    (void)state;
    char *empty = vl_buf_take(&b, &len);
    assert_non_null(empty);
    assert_string_equal(empty, "");
    assert_int_equal(len, 0);
    free(empty);
    vl_buf_puts(&b, "abc");
    char *text = vl_buf_take(&b, &len);
    assert_string_equal(text, "abc");
    assert_int_equal(len, 3);
    assert_null(b.ptr);
    free(text);
}

static void test_grow_doubles_and_refuses_overflow(void **state)
{
    uint64_t *p = NULL;
    size_t cap = 0;
    (void)state;
    assert_true(vl_grow(&p, &cap, 3, sizeof(*p)));
    assert_in_range(cap, 3, 64);
    size_t before = cap;
    assert_true(vl_grow(&p, &cap, cap + 1, sizeof(*p)));
    assert_true(cap >= before * 2);
    before = cap;
    assert_false(vl_grow(&p, &cap, SIZE_MAX / 4, sizeof(*p)));
    assert_int_equal(cap, before);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buf_append_keeps_bytes_and_nul),
        cmocka_unit_test(test_buf_printf_longer_than_room_is_whole),
        cmocka_unit_test(test_buf_consume_moves_the_rest),
        cmocka_unit_test(test_buf_impossible_size_fails_and_stays_failed),
        cmocka_unit_test(test_buf_take_hands_the_memory_over),
        cmocka_unit_test(test_grow_doubles_and_refuses_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
