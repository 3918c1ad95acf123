/* unit.json: reading and writing of JSON, its errors, its speed on a vocabulary. */
#include "tests/unit/vl_cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"

static vl_status parse(vl_json_doc *doc, const char *text, uint32_t flags, vl_error *err)
{
    return vl_json_parse(doc, text, strlen(text), 64, flags, err);
}

static void test_json_values_are_found(void **state)
{
    vl_json_doc doc;
    vl_error err;
    int64_t i;
    bool b;
    (void)state;
    assert_int_equal(parse(&doc,
                           "\xef\xbb\xbf {\"a\": [1, {\"x\": null}, \"t\"], \"b\": true,\n"
                           "\"c\\u0041\": {}, \"a2\": -5, \"b\": false} ",
                           0, &err),
                     VL_OK);
    vl_json root = vl_json_root(&doc);
    assert_int_equal(vl_json_count(root), 5);
    vl_json a = vl_json_get(root, "a");
    assert_int_equal(vl_json_count(a), 3);
    assert_true(vl_json_is(vl_json_get(vl_json_at(a, 1), "x"), VL_JSON_NULL));
    assert_true(vl_json_str_eq(vl_json_at(a, 2), "t"));
    assert_false(vl_json_exists(vl_json_at(a, 3)));
    assert_true(vl_json_bool(vl_json_get(root, "b"), &b));
    assert_false(b); /* the last one wins */
    assert_true(vl_json_is(vl_json_get(root, "cA"), VL_JSON_OBJECT));
    assert_true(vl_json_i64(vl_json_get(root, "a2"), &i));
    assert_int_equal(i, -5);
    assert_string_equal(vl_json_type_name(vl_json_get(root, "zz")), "missing");
    assert_false(vl_json_exists(vl_json_get(vl_json_get(root, "zz"), "y")));
    vl_bytes raw = vl_json_raw(a);
    assert_int_equal(raw.len, strlen("[1, {\"x\": null}, \"t\"]"));
    vl_json_doc_fini(&doc);
}

static void test_json_string_escapes_are_decoded(void **state)
{
    static const char want[] = "\"\\/\b\f\n\r\t\0\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xba!";
    vl_json_doc doc;
    vl_error err;
    vl_buf b = VL_BUF_INIT;
    (void)state;
    assert_int_equal(
        parse(&doc, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u00e9\\u20AC\\ud83c\\udF3a!\"", 0, &err),
        VL_OK);
    assert_true(vl_json_str(vl_json_root(&doc), &b));
    assert_int_equal(b.len, sizeof(want) - 1);
    assert_memory_equal(b.ptr, want, sizeof(want));
    char small[64];
    assert_false(vl_json_str_copy(vl_json_root(&doc), small, sizeof(small))); /* has a NUL */
    vl_buf_fini(&b);
    vl_json_doc_fini(&doc);
}

static void test_json_wrong_text_is_refused_with_place(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "line 1, column 1: the text ends too early"},
        {"{\"a\": }", "line 1, column 7: a value was expected"},
        {"[1,\n 2,]", "line 2, column 4: a value was expected"},
        {"[1 2]", "line 1, column 4: ',' or ']' was expected"},
        {"{\"a\" 1}", "line 1, column 6: ':' was expected"},
        {"{a: 1}", "line 1, column 2: a key in quotes was expected"},
        {"{\"a\": 1", "line 1, column 8: the text ends inside an object"},
        {"[", "line 1, column 2: the text ends inside an array"},
        {"\"abc", "line 1, column 1: this string has no end"},
        {"\"a\nb\"", "line 1, column 3: a control character in a string"},
        {"\"a\\x\"", "line 1, column 3: unknown escape in a string"},
        {"\"\\u12g4\"", "line 1, column 2: \\u wants four hexadecimal digits"},
        {"\"\\ud800x\"", "line 1, column 2: a high surrogate without a low one"},
        {"\"\\ud800\\u0041\"", "line 1, column 2: a high surrogate without a low one"},
        {"\"\\udc00\"", "line 1, column 2: a low surrogate without a high one"},
        {"\"\xff\"", "line 1, column 2: invalid UTF-8 in a string"},
        {"\"\xed\xa0\x80\"", "line 1, column 2: invalid UTF-8 in a string"},
        {"01", "line 1, column 1: not a number"},
        {"1.", "line 1, column 1: not a number"},
        {"-", "line 1, column 1: not a number"},
        {"1e", "line 1, column 1: not a number"},
        {".5", "line 1, column 1: a value was expected"},
        {"nul", "line 1, column 1: a value was expected"},
        {"NaN", "line 1, column 1: a value was expected"},
        {"1 x", "line 1, column 3: something stands behind the value"},
        {"'a'", "line 1, column 1: a value was expected"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vl_json_doc doc;
        vl_error err = {0};
        assert_int_equal(parse(&doc, cases[i].text, 0, &err), VL_E_FORMAT);
        assert_string_equal(err.text, cases[i].want);
        assert_null(doc.nodes);
        assert_int_equal(parse(&doc, cases[i].text, 0, NULL), VL_E_FORMAT);
    }
}

static void test_json_depth_is_bounded_without_recursion(void **state)
{
    enum { N = 1000000 };
    char *text = malloc(N);
    vl_json_doc doc;
    vl_error err;
    (void)state;
    memset(text, '[', N);
    assert_int_equal(vl_json_parse(&doc, text, N, 128, 0, &err), VL_E_FORMAT);
    assert_string_equal(err.text, "line 1, column 129: nested deeper than 128 levels");
    memset(text, '[', 60000);
    memset(text + 60000, ']', 60000);
    assert_int_equal(vl_json_parse(&doc, text, 120000, 65535, 0, &err), VL_OK);
    vl_buf b = VL_BUF_INIT;
    vl_json_put(&b, vl_json_root(&doc), ", ", ": ", 0);
    assert_int_equal(b.len, 120000);
    assert_memory_equal(b.ptr, text, 120000);
    vl_buf_fini(&b);
    vl_json_doc_fini(&doc);
    free(text);
}

static void test_json_equal_keys_are_refused_on_request(void **state)
{
    vl_json_doc doc;
    vl_error err;
    (void)state;
    assert_int_equal(parse(&doc, "{\"a\":1,\n \"b\":2,\"\\u0061\":3}", VL_JSON_UNIQUE_KEYS, &err),
                     VL_E_FORMAT);
    assert_string_equal(err.text, "line 2, column 9: the key \"a\" stands twice in one object");
    assert_int_equal(parse(&doc, "{\"a\":{\"a\":1},\"b\":[{\"a\":2}]}", VL_JSON_UNIQUE_KEYS, &err),
                     VL_OK);
    vl_json_doc_fini(&doc);
}

static void test_json_integers_are_exact_or_refused(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t want;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"3.000", true, 3},
        {"3e2", true, 300},
        {"1200e-2", true, 12},
        {"0.5e1", true, 5},
        {"100", true, 100},
        {"1001", true, 1001},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"3.5", false, 0},
        {"1e-1", false, 0},
        {"1e999999999999", false, 0},
        {"0e999999999999", true, 0},
        {"\"3\"", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vl_json_doc doc;
        int64_t x = 77;
        assert_int_equal(parse(&doc, cases[i].text, 0, NULL), VL_OK);
        assert_int_equal(vl_json_i64(vl_json_root(&doc), &x), cases[i].ok);
        assert_int_equal(x, cases[i].ok ? cases[i].want : 77);
        vl_json_doc_fini(&doc);
    }
}

static void check_f64(double x, const char *want)
{
    vl_buf b = VL_BUF_INIT;
    vl_json_put_f64(&b, x);
    assert_string_equal(b.ptr, want);
    vl_buf_fini(&b);
}

static void test_json_floats_are_written_as_python_does(void **state)
{
    (void)state;
    check_f64(1.0, "1.0");
    check_f64(1e5, "100000.0");
    check_f64(1e15, "1000000000000000.0");
    check_f64(1e16, "1e+16");
    check_f64(1.5e300, "1.5e+300");
    check_f64(1e-4, "0.0001");
    check_f64(1e-5, "1e-05");
    check_f64(1.25e-7, "1.25e-07");
    check_f64(0.1, "0.1");
    check_f64(-0.0, "-0.0");
    check_f64(0.1 + 0.2, "0.30000000000000004");
    check_f64(123456789.125, "123456789.125");
    check_f64(5e-324, "5e-324");
    check_f64(1.7976931348623157e308, "1.7976931348623157e+308");
    check_f64(9007199254740993.0, "9007199254740992.0");
    check_f64(INFINITY, "null");
    check_f64(NAN, "null");
}

/* Any double, written, reads back as itself. */
static void test_json_floats_round_trip(void **state)
{
    uint64_t seed = 12345;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double x, y = 0;
        memcpy(&x, &seed, sizeof(x));
        if (!isfinite(x))
            continue;
        vl_buf b = VL_BUF_INIT;
        vl_json_doc doc;
        vl_json_put_f64(&b, x);
        assert_int_equal(parse(&doc, b.ptr, 0, NULL), VL_OK);
        assert_true(vl_json_f64(vl_json_root(&doc), &y));
        assert_true(x == y);
        vl_json_doc_fini(&doc);
        vl_buf_fini(&b);
    }
}

static void check_put(const char *in, const char *item, const char *key, uint32_t flags,
                      const char *want)
{
    vl_json_doc doc;
    vl_buf b = VL_BUF_INIT;
    assert_int_equal(parse(&doc, in, 0, NULL), VL_OK);
    vl_json_put(&b, vl_json_root(&doc), item, key, flags);
    assert_string_equal(b.ptr, want);
    vl_buf_fini(&b);
    vl_json_doc_fini(&doc);
}

static void test_json_put_is_json_dumps(void **state)
{
    (void)state;
    check_put("{\"b\":[1,2.0,1e5,{}],\"a\":{\"x\" : null},\"c\":[ ]}", ", ", ": ", 0,
              "{\"b\": [1, 2.0, 100000.0, {}], \"a\": {\"x\": null}, \"c\": []}");
    check_put("[1e5, 1.50, 123456789012345678901234567890]", ",", ":", VL_JSON_PUT_RAW_NUMBERS,
              "[1e5,1.50,123456789012345678901234567890]");
    check_put("\"\\u00e9\\/\\u001f\\u007f\\n\\u0022\"", ", ", ": ", 0,
              "\"\xc3\xa9/\\u001f\x7f\\n\\\"\"");
    check_put("{\"\\u006bey\": \"\\ud83c\\udf3a\"}", ", ", ": ", 0,
              "{\"key\": \"\xf0\x9f\x8c\xba\"}");
    check_put("[[[]],{\"a\":[true,false]}]", ",", ":", 0, "[[[]],{\"a\":[true,false]}]");
    check_put("7", ", ", ": ", 0, "7");
}

static void test_json_put_str_mends_utf8(void **state)
{
    vl_buf b = VL_BUF_INIT;
    (void)state;
    vl_json_put_str(&b, "a\xff\x01\xe2\x82", 5);
    assert_string_equal(b.ptr, "\"a\xef\xbf\xbd\\u0001\xef\xbf\xbd\"");
    vl_buf_fini(&b);
}

/* 250,000 members, about 5 MB. The bound is loose, for slow and sanitized machines: quadratic
 * reading would take minutes. */
static void test_json_large_vocabulary_is_read_in_linear_time(void **state)
{
    vl_buf b = VL_BUF_INIT;
    vl_json_doc doc;
    double best = 1e9;
    (void)state;
    vl_buf_putc(&b, '{');
    for (int i = 0; i < 250000; i++)
        vl_buf_printf(&b, "%s\"\xc4\xa0token_%d_%s\": %d", i ? ", " : "", i,
                      i % 9 ? "x" : "\\u00e9y", i);
    vl_buf_putc(&b, '}');
    for (int run = 0; run < 5; run++) {
        struct timespec t0, t1;
        clock_gettime(CLOCK_MONOTONIC, &t0);
        assert_int_equal(vl_json_parse(&doc, b.ptr, b.len, 4, 0, NULL), VL_OK);
        clock_gettime(CLOCK_MONOTONIC, &t1);
        double ms =
            (double)(t1.tv_sec - t0.tv_sec) * 1e3 + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-6;
        best = ms < best ? ms : best;
        assert_int_equal(vl_json_count(vl_json_root(&doc)), 250000);
        vl_json_doc_fini(&doc);
    }
    print_message("%zu bytes, 250000 members: %.1f ms\n", b.len, best);
    assert_true(best < 2000);
    vl_buf_fini(&b);
}

/* Every prefix and every changed byte of a text: an error or a value, never a fault. */
static void test_json_damaged_text_never_faults(void **state)
{
    static const char text[] =
        "{\"a\": [1, -2.5e+3, \"x\\n\\ud83c\\udf3a\", true], \"\xc3\xa9\": null}";
    char copy[sizeof(text)];
    vl_json_doc doc;
    vl_error err;
    (void)state;
    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        char *exact = malloc(len ? len : 1); /* so that a sanitizer sees a read past the end */
        memcpy(exact, text, len);
        assert_int_equal(vl_json_parse(&doc, exact, len, 64, 0, &err), VL_E_FORMAT);
        free(exact);
    }
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        for (int c = 0; c < 256; c++) {
            memcpy(copy, text, sizeof(text));
            copy[i] = (char)c;
            if (vl_json_parse(&doc, copy, sizeof(text) - 1, 64, VL_JSON_UNIQUE_KEYS, &err) == VL_OK)
                vl_json_doc_fini(&doc);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_values_are_found),
        cmocka_unit_test(test_json_string_escapes_are_decoded),
        cmocka_unit_test(test_json_wrong_text_is_refused_with_place),
        cmocka_unit_test(test_json_depth_is_bounded_without_recursion),
        cmocka_unit_test(test_json_equal_keys_are_refused_on_request),
        cmocka_unit_test(test_json_integers_are_exact_or_refused),
        cmocka_unit_test(test_json_floats_are_written_as_python_does),
        cmocka_unit_test(test_json_floats_round_trip),
        cmocka_unit_test(test_json_put_is_json_dumps),
        cmocka_unit_test(test_json_put_str_mends_utf8),
        cmocka_unit_test(test_json_large_vocabulary_is_read_in_linear_time),
        cmocka_unit_test(test_json_damaged_text_never_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
