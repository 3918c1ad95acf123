/* Option tables: values, limits, documentation, nearest names. */
#include "tests/unit/vl_test.h"

#include "config/schema.h"

enum { BOOL, INT, FLOAT, STRING, ENUM, BYTES, DURATION, PATH, LIST, N };
static const vl_option table[N] = {
    {"flag", VL_OPT_BOOL, 0, "false", 0, 0, NULL, "a flag"},
    {"count", VL_OPT_INT, 0, "3", 1, 10, NULL, "a count"},
    {"ratio", VL_OPT_FLOAT, 0, "0.5", 0, 1, NULL, "a ratio"},
    {"title", VL_OPT_STRING, 0, NULL, 0, 0, NULL, "a title"},
    {"form", VL_OPT_ENUM, 0, "auto", 0, 0, "auto|cpu|cuda", "a form"},
    {"cache_bytes", VL_OPT_BYTES, 0, "64MiB", 0, 1e12, NULL, "bytes"},
    {"wait", VL_OPT_DURATION, 0, "250ms", 0, 1e9, NULL, "a duration"},
    {"file", VL_OPT_PATH, 0, NULL, 0, 0, NULL, "a path"},
    {"names", VL_OPT_LIST, 0, "a, b", 0, 0, NULL, "names"},
};

static int setup(void **state)
{
    static vl_values v;
    vl_error err = {0};
    assert_int_equal(vl_values_init(&v, table, N, &err), VL_OK);
    *state = &v;
    return 0;
}

static int teardown(void **state)
{
    vl_values_fini(*state);
    return 0;
}

static vl_status set(vl_values *v, int i, const char *text, vl_error *err)
{
    return vl_values_set(v, (size_t)i, text, strlen(text), NULL, err);
}

static void test_defaults_all_parsed_not_set(void **state)
{
    vl_values *v = *state;
    assert_int_equal(v->values[BOOL].number, 0);
    assert_int_equal(v->values[INT].number, 3);
    assert_true(v->values[FLOAT].real == 0.5);
    assert_null(v->values[STRING].text);
    assert_int_equal(v->values[ENUM].number, 0);
    assert_int_equal(v->values[BYTES].number, 64 << 20);
    assert_int_equal(v->values[DURATION].number, 250);
    assert_int_equal(v->values[LIST].text_len, 4);
    for (int i = 0; i < N; i++)
        assert_int_equal(v->values[i].is_set, 0);
}

static void test_values_good_are_taken(void **state)
{
    vl_values *v = *state;
    vl_error err = {0};
    assert_int_equal(set(v, BOOL, "Yes", &err), VL_OK);
    assert_int_equal(v->values[BOOL].number, 1);
    assert_int_equal(set(v, INT, "10", &err), VL_OK);
    assert_int_equal(v->values[INT].number, 10);
    assert_int_equal(set(v, ENUM, "cuda", &err), VL_OK);
    assert_int_equal(v->values[ENUM].number, 2);
    assert_int_equal(set(v, BYTES, "1.5GiB", &err), VL_OK);
    assert_int_equal(v->values[BYTES].number, 1610612736);
    assert_int_equal(set(v, BYTES, "1048576", &err), VL_OK);
    assert_int_equal(v->values[BYTES].number, 1048576);
    assert_int_equal(set(v, DURATION, "5m", &err), VL_OK);
    assert_int_equal(v->values[DURATION].number, 300000);
    assert_int_equal(set(v, DURATION, "0", &err), VL_OK);
    assert_int_equal(v->values[DURATION].is_set, 1);
}

static void test_values_bad_are_refused_and_nothing_changes(void **state)
{
    static const struct {
        int option;
        const char *text, *word;
    } bad[] = {{BOOL, "maybe", "maybe"},
               {INT, "11", "1 to 10"},
               {INT, "3.5", "3.5"},
               {INT, "", "whole"},
               {INT, "9999999999999999999", "whole"},
               {FLOAT, "1.5", "1.5"},
               {FLOAT, "nan", "nan"},
               {FLOAT, "1e999", "1e999"},
               {ENUM, "gpu", "auto|cpu|cuda"},
               {BYTES, "-1", "-1"},
               {BYTES, "12XB", "12XB"},
               {BYTES, "1e40", "1e40"},
               {DURATION, "5", "5"},
               {DURATION, "5 years", "years"}};
    vl_values *v = *state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vl_error err = {0};
        assert_int_not_equal(set(v, bad[i].option, bad[i].text, &err), VL_OK);
        assert_non_null(strstr(err.text, bad[i].word));
        assert_non_null(strstr(err.text, table[bad[i].option].name));
        assert_int_equal(v->values[bad[i].option].is_set, 0);
    }
    vl_error err = {0};
    assert_int_equal(vl_values_set(v, STRING, "a\0b", 3, NULL, &err), VL_E_INVALID);
}

static void test_path_relative_joins_base(void **state)
{
    vl_values *v = *state;
    vl_error err = {0};
    assert_int_equal(vl_values_set(v, PATH, "m/x", 3, "/etc", &err), VL_OK);
    assert_string_equal(v->values[PATH].text, "/etc/m/x");
    assert_int_equal(vl_values_set(v, PATH, "/m", 2, "/etc", &err), VL_OK);
    assert_string_equal(v->values[PATH].text, "/m");
}

static void test_list_items_walk_in_order(void **state)
{
    vl_values *v = *state;
    vl_error err = {0};
    assert_int_equal(set(v, LIST, "one,two , three", &err), VL_OK);
    const char *want[] = {"one", "two", "three"};
    size_t n = 0;
    for (const char *s = NULL; (s = vl_option_next(&v->values[LIST], s));)
        assert_string_equal(s, want[n++]);
    assert_int_equal(n, 3);
    assert_int_equal(set(v, LIST, "", &err), VL_OK);
    assert_null(vl_option_next(&v->values[LIST], NULL));
}

static void test_merge_written_values_only(void **state)
{
    vl_values *v = *state, other;
    vl_error err = {0};
    assert_int_equal(vl_values_init(&other, table, N, &err), VL_OK);
    assert_int_equal(set(&other, INT, "7", &err), VL_OK);
    assert_int_equal(set(v, STRING, "kept", &err), VL_OK);
    assert_int_equal(vl_values_merge(v, &other, &err), VL_OK);
    vl_values_fini(&other);
    assert_int_equal(v->values[INT].number, 7);
    assert_string_equal(v->values[STRING].text, "kept");
}

static const char *name_at(const void *user, size_t k)
{
    (void)user;
    return k < N ? table[k].name : NULL;
}

static void test_nearest_finds_typos_not_strangers(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"cuont", "count"},
                                           {"counts", "count"},
                                           {"cache_byte", "cache_bytes"},
                                           {"cache", "cache_bytes"},
                                           {"fiel", "file"},
                                           {"zebra", NULL},
                                           {"", NULL}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const char *near = vl_name_nearest(pairs[i][0], strlen(pairs[i][0]), name_at, NULL);
        if (pairs[i][1]) {
            assert_non_null(near);
            assert_string_equal(near, pairs[i][1]);
        } else {
            assert_null(near);
        }
    }
    char longest[200];
    memset(longest, 'x', sizeof longest);
    assert_null(vl_name_nearest(longest, sizeof longest, name_at, NULL));
}

static void test_documentation_names_every_option(void **state)
{
    (void)state;
    vl_buf yaml = VL_BUF_INIT, markdown = VL_BUF_INIT;
    vl_options_print_yaml(&yaml, table, N, 2);
    vl_options_print_markdown(&markdown, table, N);
    for (int i = 0; i < N; i++) {
        assert_non_null(strstr(yaml.ptr, table[i].name));
        assert_non_null(strstr(markdown.ptr, table[i].name));
        assert_non_null(strstr(markdown.ptr, table[i].help));
    }
    assert_non_null(strstr(markdown.ptr, "auto\\|cpu"));
    vl_buf_fini(&yaml);
    vl_buf_fini(&markdown);
}

static void test_table_with_wrong_default_is_our_bug(void **state)
{
    (void)state;
    static const vl_option wrong[] = {{"x", VL_OPT_INT, 0, "99", 1, 10, NULL, "x"}};
    vl_values v;
    vl_error err = {0};
    assert_int_equal(vl_values_init(&v, wrong, 1, &err), VL_E_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults_all_parsed_not_set, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values_good_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values_bad_are_refused_and_nothing_changes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_path_relative_joins_base, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_items_walk_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_merge_written_values_only, setup, teardown),
        cmocka_unit_test(test_nearest_finds_typos_not_strangers),
        cmocka_unit_test(test_documentation_names_every_option),
        cmocka_unit_test(test_table_with_wrong_default_is_our_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
