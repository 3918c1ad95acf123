/* unit.utf8: decoding, validation and mending, against Unicode's own table of well-formed bytes. */
#include "tests/unit/vl_cmocka.h"

#include <string.h>

#include "base/utf8.h"

static void test_utf8_every_scalar_value_round_trips(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        char s[4];
        uint32_t got;
        if (cp >= 0xd800 && cp <= 0xdfff)
            continue;
        int n = vl_utf8_put(cp, s);
        assert_int_equal(vl_utf8_next(s, (size_t)n, &got), n);
        assert_int_equal(got, cp);
        assert_int_equal(vl_utf8_valid(s, (size_t)n), n);
        for (int cut = 1; cut < n; cut++) {
            assert_int_equal(vl_utf8_next(s, (size_t)cut, &got), 0);
            assert_int_equal(vl_utf8_complete(s, (size_t)cut), 0);
        }
        assert_int_equal(vl_utf8_complete(s, (size_t)n), n);
    }
}

static void check_lossy(const char *in, const char *want)
{
    vl_buf b = VL_BUF_INIT;
    vl_utf8_lossy(&b, in, strlen(in));
    vl_buf_putc(&b, '\0');
    assert_string_equal(b.ptr, want);
    vl_buf_fini(&b);
}

#define R "\xef\xbf\xbd"

static void test_utf8_lossy_replaces_maximal_subparts(void **state)
{
    (void)state;
    check_lossy("plain ascii, long enough", "plain ascii, long enough");
    check_lossy("\x80", R);
    check_lossy("a\xc3(b", "a" R "(b");
    check_lossy("\xc0\xaf", R R);             /* overlong */
    check_lossy("\xe0\x80\xaf", R R R);       /* overlong */
    check_lossy("\xed\xa0\x80", R R R);       /* surrogate */
    check_lossy("\xf4\x90\x80\x80", R R R R); /* above U+10FFFF */
    check_lossy("\xf0\x9f\x8c x", R " x");    /* one subpart of three bytes */
    check_lossy("x\xf0\x9f\x8c", "x" R);      /* incomplete end */
    check_lossy("\xe2\x82\xac\xff\xe2\x82\xac", "\xe2\x82\xac" R "\xe2\x82\xac");
}

static void test_utf8_valid_finds_the_place(void **state)
{
    char s[64];
    (void)state;
    for (size_t at = 0; at < sizeof(s); at++) {
        memset(s, 'a', sizeof(s));
        s[at] = '\xff';
        assert_int_equal(vl_utf8_valid(s, sizeof(s)), at);
    }
    assert_int_equal(vl_utf8_valid("", 0), 0);
}

static void test_utf8_complete_leaves_bad_bytes(void **state)
{
    (void)state;
    assert_int_equal(vl_utf8_complete("", 0), 0);
    assert_int_equal(vl_utf8_complete("ab\xff", 3), 3); /* not a beginning of anything */
    assert_int_equal(vl_utf8_complete("ab\x80", 3), 3);
    assert_int_equal(vl_utf8_complete("ab\xf0\x9f", 4), 2);
    assert_int_equal(vl_utf8_complete("ab\xed\xa0", 4), 4); /* can't become valid */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_every_scalar_value_round_trips),
        cmocka_unit_test(test_utf8_lossy_replaces_maximal_subparts),
        cmocka_unit_test(test_utf8_valid_finds_the_place),
        cmocka_unit_test(test_utf8_complete_leaves_bad_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
