/* unit.error: formatting, cutting and prefixing of vl_error. */
#include "tests/unit/vl_cmocka.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

static void test_error_set_fills_status_and_text(void **state)
{
    vl_error err;
    (void)state;
    assert_int_equal(vl_error_set(&err, VL_E_RANGE, "%s: %d, want %d", "top_p", 3, 1), VL_E_RANGE);
    assert_int_equal(err.status, VL_E_RANGE);
    assert_string_equal(err.text, "top_p: 3, want 1");
}

static void test_error_set_without_target_returns_status(void **state)
{
    (void)state;
    assert_int_equal(vl_error_set(NULL, VL_E_IO, "%s", "x"), VL_E_IO);
}

static void test_error_control_bytes_become_question_marks(void **state)
{
    vl_error err;
    (void)state;
    vl_error_set(&err, VL_E_IO, "a\nb\tc\x7f");
    assert_string_equal(err.text, "a?b?c?");
}

/* Every way in which a four-byte, three-byte or two-byte character can lie over the end. */
static void test_error_long_text_is_cut_at_a_character(void **state)
{
    static const char *const chars[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\xba"};
    (void)state;
    for (size_t c = 0; c < 3; c++) {
        for (size_t pad = 0; pad < 4; pad++) {
            char text[1024];
            vl_error err;
            size_t len = 0;
            memset(text, 'x', pad);
            len = pad;
            while (len + 5 < sizeof(text)) {
                memcpy(text + len, chars[c], strlen(chars[c]));
                len += strlen(chars[c]);
            }
            text[len] = '\0';
            vl_error_set(&err, VL_E_IO, "%s", text);
            size_t got = strlen(err.text);
            assert_in_range(got, sizeof(err.text) - 4, sizeof(err.text) - 1);
            assert_int_equal(vl_utf8_valid(err.text, got), got);
            assert_memory_equal(err.text, text, got);
        }
    }
}

static void test_error_value_that_was_cut_stays_utf8(void **state)
{
    vl_error err;
    (void)state;
    vl_error_set(&err, VL_E_IO, "\"%.*s\" is wrong", 3, "\xc3\xa9\xe2\x82\xac");
    assert_string_equal(err.text, "\"\xc3\xa9?\" is wrong");
}

static void test_error_prefix_keeps_status_and_stacks(void **state)
{
    vl_error err;
    (void)state;
    vl_error_set(&err, VL_E_FORMAT, "bad magic");
    assert_int_equal(vl_error_prefix(&err, "%s", "a.gguf"), VL_E_FORMAT);
    assert_int_equal(vl_error_prefix(&err, "model %d", 2), VL_E_FORMAT);
    assert_string_equal(err.text, "model 2: a.gguf: bad magic");
}

static void test_status_name_knows_all_and_survives_others(void **state)
{
    (void)state;
    assert_string_equal(vl_status_name(VL_OK), "ok");
    assert_string_equal(vl_status_name(VL_E_INTERNAL), "internal");
    assert_string_equal(vl_status_name(-1), "unknown");
    assert_string_equal(vl_status_name(1000), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_set_fills_status_and_text),
        cmocka_unit_test(test_error_set_without_target_returns_status),
        cmocka_unit_test(test_error_control_bytes_become_question_marks),
        cmocka_unit_test(test_error_long_text_is_cut_at_a_character),
        cmocka_unit_test(test_error_value_that_was_cut_stays_utf8),
        cmocka_unit_test(test_error_prefix_keeps_status_and_stacks),
        cmocka_unit_test(test_status_name_knows_all_and_survives_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
