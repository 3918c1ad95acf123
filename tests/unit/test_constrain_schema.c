/* Each keyword of a schema: texts that match can come, texts that do not can't; what is not
 * supported is refused by name. */
#include "tests/unit/vl_test.h"

#include <time.h>

#include "tests/unit/constrain_kit.h"

struct row {
    const char *schema;
    const char *good[6];
    const char *bad[8];
};

static void expect_rows(const char *vocabulary, const struct row *rows, size_t n)
{
    struct kit *k = kit_open(vocabulary);

    for (size_t i = 0; i < n; i++) {
        for (size_t g = 0; g < 6 && rows[i].good[g] != NULL; g++) {
            if (!kit_matches(k, rows[i].schema, rows[i].good[g]))
                fail_msg("%s can't come for %s", rows[i].good[g], rows[i].schema);
        }
        for (size_t b = 0; b < 8 && rows[i].bad[b] != NULL; b++) {
            if (kit_matches(k, rows[i].schema, rows[i].bad[b]))
                fail_msg("%s can come for %s", rows[i].bad[b], rows[i].schema);
        }
    }
}

#define EXPECT(rows) expect_rows("poppyseed", rows, sizeof(rows) / sizeof((rows)[0]))

static void test_type_each_kind_alone(void **state)
{
    static const struct row rows[] = {
        {"{\"type\":\"null\"}", {"null"}, {"0", "nul", "\"null\"", "nulll"}},
        {"{\"type\":\"boolean\"}", {"true", "false"}, {"True", "1", "tru"}},
        {"{\"type\":\"integer\"}", {"0", "-7", "120"}, {"01", "-0", "1.0", "1e3", "-", "+1"}},
        {"{\"type\":\"number\"}",
         {"0", "-0.5", "1e3", "2.50E-10"},
         {".5", "1.", "1e", "1e999", "NaN"}},
        {"{\"type\":\"string\"}",
         {"\"\"", "\"a\\n\\u00e9\\ud83d\\ude00\"", "\"\xc3\xa9\xf0\x9f\x98\x80\""},
         {"\"a", "\"\\x\"", "\"\\ud83d\"", "\"\n\"", "a"}},
        {"{\"type\":\"array\"}",
         {"[]", "[1, [2], {}]", "[\n  1\n]"},
         {"[", "[1,]", "[  1]", "[1 , 2]"}},
        {"{\"type\":\"object\"}",
         {"{}", "{\"a\": {\"b\": null}}"},
         {"{\"a\"}", "{a:1}", "[]", "{\"a\":1,}"}},
        {"{\"type\":[\"boolean\",\"null\"]}", {"null", "true"}, {"0", "\"\""}},
        {"{}", {"null", "-1.5", "\"x\"", "[{}]"}, {"nil", ""}},
        {"true", {"null", "[]"}, {"nil"}},
    };
    (void)state;
    EXPECT(rows);
}

static void test_object_keywords_hold(void **state)
{
    static const struct row rows[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"boolean\"}},\"required\":[\"b\"]}",
         {"{\"b\": true}", "{\"a\": 1, \"b\": false}", "{\"a\":1,\"b\":true}",
          "{\n  \"a\": 1,\n  \"b\": true\n}"},
         {"{}", "{\"a\": 1}", "{\"b\": true, \"a\": 1}", "{\"b\": true, \"c\": 1}",
          "{\"a\": true, \"b\": true}"}},
        {"{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"null\"}}",
         {"{}", "{\"a\": 5}", "{\"a\": 5, \"ab\": null}", "{\"\": null}",
          "{\"b\": null, \"\\n\": null}"},
         {"{\"b\": 1}", "{\"a\": 1, \"a\": null}", "{\"\\u0061\": null}"}},
        {"{\"type\":\"object\",\"additionalProperties\":false}", {"{}"}, {"{\"a\": 1}"}},
        {"{\"type\":\"object\",\"required\":[\"k\"]}",
         {"{\"k\": 1}", "{\"k\": [], \"l\": 2}"},
         {"{}", "{\"l\": 2}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":false,\"b\":{\"const\":1}}}",
         {"{}", "{\"b\": 1}"},
         {"{\"a\": 1}"}},
        {"{\"properties\":{\"q\\\"\\u00e9\":{\"const\":1}},\"required\":[\"q\\\"\xc3\xa9\"]}",
         {"{\"q\\\"\xc3\xa9\": 1}"},
         {"{\"q\": 1}"}},
    };
    (void)state;
    EXPECT(rows);
}

static void test_array_keywords_hold(void **state)
{
    static const struct row rows[] = {
        {"{\"type\":\"array\",\"items\":{\"enum\":[\"a\"]},\"minItems\":2,\"maxItems\":3}",
         {"[\"a\", \"a\"]", "[\"a\",\"a\",\"a\"]"},
         {"[\"a\"]", "[]", "[\"a\",\"a\",\"a\",\"a\"]", "[\"b\",\"a\"]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"enum\":[\"a\"]},{\"enum\":[1]}],\"minItems\":2,"
         "\"maxItems\":2}",
         {"[\"a\", 1]"},
         {"[1, \"a\"]", "[\"a\"]", "[\"a\", 1, 1]"}},
        {"{\"prefixItems\":[{\"type\":\"null\"}],\"items\":{\"type\":\"integer\"}}",
         {"[]", "[null]", "[null, 1, 2]"},
         {"[1]", "[null, null]"}},
        {"{\"prefixItems\":[{\"type\":\"null\"}],\"items\":false}",
         {"[]", "[null]"},
         {"[null, 1]"}},
        {"{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1}",
         {"[1]", "[1, 2, 3, 4]"},
         {"[]"}},
    };
    (void)state;
    EXPECT(rows);
}

static void test_string_keywords_hold(void **state)
{
    static const struct row rows[] = {
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":4}",
         {"\"ab\"", "\"abcd\"", "\"\xc3\xa9\\n\xf0\x9f\x98\x80\"", "\"\\ud83d\\ude00x\""},
         {"\"a\"", "\"abcde\"", "\"\xc3\xa9\""}},
        {"{\"minLength\":3}", {"\"abc\"", "\"abcdefghijklmnopqrstuvwxyz\""}, {"\"ab\"", "1"}},
        {"{\"type\":\"string\",\"maxLength\":0}", {"\"\""}, {"\"a\""}},
        {"{\"type\":\"string\",\"pattern\":\"^[ab]{3}$\"}",
         {"\"aba\""},
         {"\"ab\"", "\"abab\"", "\"abc\""}},
        {"{\"type\":\"string\",\"pattern\":\"b\"}", {"\"b\"", "\"abc\""}, {"\"\"", "\"ac\""}},
        {"{\"type\":\"string\",\"pattern\":\"^a|b$\"}", {"\"ax\"", "\"xb\""}, {"\"xa\"", "\"bx\""}},
        {"{\"pattern\":\"^\\\\d+(\\\\.\\\\d{2})?$\",\"maxLength\":5}",
         {"\"12.34\"", "\"12345\""},
         {"\"123.45\"", "\"1.2\"", "\"123456\""}},
        {"{\"pattern\":\"^a*$\",\"minLength\":2}", {"\"aa\"", "\"aaaaaaa\""}, {"\"a\"", "\"ab\""}},
        {"{\"pattern\":\"^[^a-y\\\"]\\\\n$\"}",
         {"\"z\\n\"", "\"\xc3\xa9\\n\""},
         {"\"a\\n\"", "\"\\\"\\n\""}},
        {"{\"pattern\":\"^\\\\u00e9.\\\"$\"}", {"\"\xc3\xa9x\\\"\""}, {"\"ex\\\"\""}},
        {"{\"format\":\"date\"}",
         {"\"2024-02-29\"", "\"1999-12-31\""},
         {"\"2023-02-29\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"24-01-01\""}},
        {"{\"format\":\"time\"}",
         {"\"23:59:59Z\"", "\"00:00:00.5+02:00\""},
         {"\"24:00:00Z\"", "\"12:00:00\""}},
        {"{\"format\":\"date-time\"}",
         {"\"2024-02-29T01:02:03Z\""},
         {"\"2024-02-29 01:02:03Z\"", "\"2024-02-29\""}},
        {"{\"format\":\"uuid\"}",
         {"\"123e4567-e89b-12d3-a456-426614174000\""},
         {"\"123e4567e89b12d3a456426614174000\""}},
        {"{\"format\":\"email\"}", {"\"a.b@example.org\""}, {"\"a@b\"", "\"@example.org\""}},
    };
    (void)state;
    EXPECT(rows);
}

static void test_number_bounds_hold(void **state)
{
    static const struct row rows[] = {
        {"{\"type\":\"integer\",\"minimum\":40,\"maximum\":49}",
         {"40", "49"},
         {"39", "50", "4", "400", "-45"}},
        {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}",
         {"-12", "0", "99", "105"},
         {"-13", "106", "1000"}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":0}",
         {"1", "10", "99999999999999999999999"},
         {"0", "-1"}},
        {"{\"type\":\"integer\",\"exclusiveMaximum\":-99}", {"-100", "-1234"}, {"-99", "0", "-9"}},
        {"{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":2.5}", {"1", "2"}, {"0", "3"}},
        {"{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807}",
         {"-9223372036854775808", "9223372036854775807"},
         {"9223372036854775808", "-9223372036854775809"}},
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
         {"0", "0.25", "1", "1.00"},
         {"1.01", "-0.5", "2"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":-1,\"exclusiveMaximum\":0}",
         {"-0.5", "-0.001"},
         {"-1", "0", "-1.0", "-0.0"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":3}", {"3.1", "4"}, {"3", "3.0", "2.9"}},
    };
    (void)state;
    EXPECT(rows);
}

static void test_choices_and_references_hold(void **state)
{
    static const struct row rows[] = {
        {"{\"enum\":[\"red\",5,null,true,{\"a\":[1]}]}",
         {"\"red\"", "5", "null", "true", "{\"a\": [1]}"},
         {"\"re\"", "55", "false"}},
        {"{\"type\":\"string\",\"enum\":[\"a\",1]}", {"\"a\""}, {"1"}},
        {"{\"const\":\"</think><tool_call>\"}", {"\"</think><tool_call>\""}, {"\"\""}},
        {"{\"anyOf\":[{\"type\":\"boolean\"},{\"enum\":[\"a\"]}]}",
         {"true", "\"a\""},
         {"1", "\"b\""}},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"discriminator\":{"
         "\"propertyName\":\"k\"}}",
         {"1", "null"},
         {"true"}},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"],\"anyOf\":[{"
         "\"properties\":{\"a\":{\"minimum\":5}}},{\"properties\":{\"a\":{\"maximum\":1}}}]}",
         {"{\"a\": 5}", "{\"a\": 0}"},
         {"{\"a\": 3}", "{}"}},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},{"
         "\"properties\":{\"b\":{\"type\":\"null\"}},\"required\":[\"b\"]}]}",
         {"{\"a\": 1, \"b\": null}"},
         {"{\"a\": 1}", "{\"b\": null}"}},
        {"{\"$defs\":{\"P\":{\"enum\":[\"x\"]}},\"properties\":{\"p\":{\"$ref\":\"#/$defs/"
         "P\"}},\"required\":[\"p\"],\"additionalProperties\":false}",
         {"{\"p\": \"x\"}"},
         {"{\"p\": \"y\"}", "{}"}},
        {"{\"definitions\":{\"a/b\":{\"type\":\"null\"}},\"$ref\":\"#/definitions/a~1b\"}",
         {"null"},
         {"1"}},
        {"{\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"$ref\":\"#\"}},\"required\":["
         "\"v\"],\"additionalProperties\":false}",
         {"{\"v\": 1}", "{\"v\": 1, \"next\": {\"v\": 2, \"next\": {\"v\": 3}}}"},
         {"{\"v\": 1, \"next\": {}}"}},
        {"{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[2],\"x-order\":1,"
         "\"type\":\"null\"}",
         {"null"},
         {"1"}},
    };
    (void)state;
    EXPECT(rows);
}

/* ---- what is refused ---- */

static void test_unknown_keyword_is_named_with_its_path(void **state)
{
    static const char *const rows[][3] = {
        {"{\"type\":\"object\",\"properties\":{\"x\":{\"foo\":1}}}",
         "response_format.json_schema.schema.properties.x.foo", "\"foo\""},
        {"{\"multipleOf\":7}", "schema.multipleOf", "\"multipleOf\""},
        {"{\"type\":\"array\",\"uniqueItems\":true}", "schema.uniqueItems", "uniqueItems"},
        {"{\"not\":{}}", "schema.not", "\"not\""},
        {"{\"if\":{},\"then\":{}}", "schema.if", "\"if\""},
        {"{\"patternProperties\":{}}", "schema.patternProperties", "patternProperties"},
        {"{\"dependentRequired\":{}}", "schema.dependentRequired", "dependentRequired"},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"minProperties\":1}]}", "schema.anyOf[1].minProperties",
         "minProperties"},
        {"{\"$defs\":{\"A\":{\"bar\":1}},\"items\":{\"$ref\":\"#/$defs/A\"}}", "schema.$defs.A.bar",
         "bar"},
        {"{\"type\":\"string\",\"format\":\"ipv4\"}", "schema.format", "not supported"},
        {"{\"type\":\"strin\"}", "schema.type", "want"},
        {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "schema.pattern", "lookaround"},
        {"{\"type\":\"string\",\"pattern\":\"a\\\\b\"}", "schema.pattern", "\\b is not supported"},
        {"{\"type\":\"string\",\"pattern\":\"(a\"}", "schema.pattern", "missing )"},
        {"{\"type\":\"string\",\"pattern\":\"[b-a]\"}", "schema.pattern", "end is before"},
        {"{\"type\":\"string\",\"minLength\":-1}", "schema.minLength", "not negative"},
        {"{\"$ref\":\"#/$defs/None\"}", "schema.$ref", "nothing at"},
        {"{\"$ref\":\"http://x/y\"}", "schema.$ref", "not supported"},
        {"{\"$ref\":\"#\"}", "schema", "refers to itself"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "schema", "refers to itself"},
        {"{\"required\":[1]}", "schema.required", "array of strings"},
        {"{\"properties\":[]}", "schema.properties", "want an object"},
        {"{\"items\":[{}]}", "schema.items", "prefixItems"},
        {"{\"enum\":[]}", "schema.enum", "want an array"},
        {"{\"enum\":[\"a\"],\"minLength\":1}", "schema.minLength", "beside enum"},
        {"{\"type\":\"number\",\"minimum\":0.5}", "schema.minimum", "whole"},
        {"false", "response_format.json_schema.schema", "false"},
        {"7", "response_format.json_schema.schema", "not number"},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "response_format",
         "no value can match"},
        {"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "response_format",
         "no value can match"},
        {"{\"type\":\"string\",\"maxLength\":100000000}", "response_format", "states"},
        {"{\"type\":\"array\",\"minItems\":100000000}", "response_format", "states"},
        {"{\"type\":\"string\",\"pattern\":\"((((a{1000}){1000}){1000}){1000})\"}",
         "schema.pattern", "states"},
        {"{\"type\":\"string\",\"pattern\":\"a{3}\",\"minLength\":150000,\"maxLength\":190000}",
         "response_format", "states"},
    };
    struct kit *k = kit_open("poppyseed");
    char field[248];
    vl_error err;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kit_refused(k, rows[i][0], &err, field);
        assert_string_equal(field, "response_format");
        if (strstr(err.text, rows[i][1]) == NULL || strstr(err.text, rows[i][2]) == NULL)
            fail_msg("%s: %s", rows[i][0], err.text);
    }
}

static void refuse_format(const char *format, const char *want)
{
    struct kit *k = kit_open("poppyseed");
    struct vl_constrain_params p = {.response_format = {format, strlen(format)}};
    vl_constrain *c = NULL;
    vl_error err = {0};
    char field[248] = "";

    assert_int_equal(vl_constrain_create(k->v, &p, &c, field, &err), VL_E_INVALID);
    assert_null(c);
    if (strstr(err.text, want) == NULL)
        fail_msg("%s: %s", format, err.text);
}

static void test_response_format_forms(void **state)
{
    static const char *const formats[] = {
        "{\"type\":\"json_schema\",\"schema\":{\"const\":1}}",
        "{\"type\":\"json_object\",\"schema\":{\"const\":1}}",
        "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"const\":1}}}"};
    struct kit *k = kit_open("poppyseed");
    static const char text[] = "{\"type\":\"text\"}";
    struct vl_constrain_params p = {.response_format = {text, sizeof text - 1}};
    vl_constrain *c = NULL;
    vl_error err = {0};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct kit_run r;
        kit_start(&r, k, formats[i]);
        assert_true(kit_feed(&r, "1"));
        assert_true(r.complete);
        kit_end(&r);
    }
    assert_int_equal(vl_constrain_create(k->v, &p, &c, NULL, &err), VL_OK);
    assert_null(c);
    refuse_format("{\"type\":\"xml\"}", "want text, json_object or json_schema");
    refuse_format("{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"}}", "missing");
    refuse_format("{\"type\":\"json_schema\",\"json_schema\":3}", "want an object");
    refuse_format("[", "line 1");
}

static void make_nested(vl_buf *out, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        vl_buf_puts(out, "{\"type\":\"array\",\"minItems\":1,\"items\":");
    vl_buf_puts(out, "{\"type\":\"null\"}");
    for (size_t i = 0; i < depth; i++)
        vl_buf_putc(out, '}');
}

/* Schemas made to hurt: each is an error or a constraint, soon. */
static void test_hostile_schemas_are_bounded(void **state)
{
    struct kit *k = kit_open("poppyseed");
    vl_buf b = VL_BUF_INIT;
    vl_error err;
    char field[248];

    (void)state;
    make_nested(&b, 190); /* the least value is deeper than is made */
    kit_refused(k, b.ptr, &err, field);
    assert_non_null(strstr(err.text, "nests"));
    vl_buf_clear(&b);
    make_nested(&b, 400); /* deeper than JSON may be here */
    kit_refused(k, b.ptr, &err, field);
    vl_buf_clear(&b);
    vl_buf_puts(&b, "{\"properties\":{");
    for (int i = 0; i < 5000; i++)
        vl_buf_printf(&b, "%s\"p%d\":{}", i > 0 ? "," : "", i);
    vl_buf_puts(&b, "}}");
    kit_refused(k, b.ptr, &err, field);
    assert_non_null(strstr(err.text, "4096 properties"));
    vl_buf_clear(&b);
    vl_buf_puts(&b, "{\"allOf\":["); /* 2^20 combinations */
    for (int i = 0; i < 20; i++)
        vl_buf_printf(&b, "%s{\"anyOf\":[{\"minimum\":%d},{\"maximum\":%d}]}", i > 0 ? "," : "", i,
                      i);
    vl_buf_puts(&b, "]}");
    kit_refused(k, b.ptr, &err, field);
    assert_non_null(strstr(err.text, "combinations"));
    vl_buf_fini(&b);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Small texts that would take hours if each look-up were made. */
static void test_work_is_bounded(void **state)
{
    struct kit *k = kit_open("poppyseed");
    vl_buf b = VL_BUF_INIT;
    vl_error err;
    char field[248];
    double t0 = seconds();

    (void)state;
    vl_buf_puts(&b, "{\"properties\":{"); /* thousands of properties, thousands of choices */
    for (int i = 0; i < 4000; i++)
        vl_buf_printf(&b, "%s\"p%d\":{}", i > 0 ? "," : "", i);
    vl_buf_puts(&b, "},\"allOf\":[");
    for (int i = 0; i < 11; i++)
        vl_buf_printf(&b, "%s{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}",
                      i > 0 ? "," : "", i, i);
    vl_buf_puts(&b, "]}");
    kit_refused(k, b.ptr, &err, field);
    assert_non_null(strstr(err.text, "steps"));
    vl_buf_clear(&b);
    vl_buf_puts(&b, "{\"prefixItems\":[{}"); /* references among thousands of definitions */
    for (int i = 0; i < 15000; i++)
        vl_buf_printf(&b, ",{\"$ref\":\"#/$defs/d%d\"}", i);
    vl_buf_puts(&b, "],\"$defs\":{\"e\":{}");
    for (int i = 0; i < 15000; i++)
        vl_buf_printf(&b, ",\"d%d\":{\"type\":\"null\",\"title\":\"%d\"}", i, i);
    vl_buf_puts(&b, "}}");
    kit_refused(k, b.ptr, &err, field);
    assert_non_null(strstr(err.text, "steps"));
    vl_buf_fini(&b);
    assert_true(seconds() - t0 < 30);
}

/* Readings that double with each level: the request fails with a reason, or goes on; nothing hangs.
 */
static void test_ambiguous_schema_fails_soon(void **state)
{
    struct kit *k = kit_open("poppyseed");
    struct kit_run r;
    vl_error err = {0};
    bool free_run;
    int use = 1;

    (void)state;
    kit_start_schema(
        &r, k,
        "{\"$defs\":{\"T\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
        "T\"},\"maxItems\":3},{\"type\":\"array\",\"items\":"
        "{\"$ref\":\"#/$defs/T\"},\"maxItems\":4},{\"type\":\"null\"}]}},\"$ref\":\"#/$defs/T\"}");
    int32_t open = vl_bpe_tokenizer_find(k->t, "[", 1);
    for (int i = 0; i < 40 && use == 1; i++) {
        memset(r.mask, 0, k->n_words * sizeof *r.mask);
        use = vl_constrain_api.mask(r.state, r.parser, r.mask, k->n_words, &free_run, &err);
        if (use == 1)
            kit_take(&r, open);
    }
    assert_int_equal(use, -1);
    assert_non_null(strstr(err.text, "constrained output"));
    kit_end(&r);
    /* What others compiled goes on. */
    assert_true(kit_matches(k, "{\"type\":\"null\"}", "null"));
}

static void test_recursion_ends_at_the_depth_limit(void **state)
{
    struct kit *k = kit_open("poppyseed");
    struct kit_run r;
    int32_t open = vl_bpe_tokenizer_find(k->t, "[", 1), close = vl_bpe_tokenizer_find(k->t, "]", 1);
    size_t depth = 0;

    (void)state;
    kit_start_schema(&r, k, "{\"type\":\"array\"}");
    for (; depth < 1000; depth++) {
        kit_mask(&r);
        if (!kit_allows(&r, open))
            break;
        kit_take(&r, open);
    }
    assert_true(depth > 60 && depth < 300);
    for (; depth > 0; depth--) {
        kit_mask(&r);
        kit_take(&r, close);
    }
    assert_true(r.complete);
    kit_end(&r);
}

static int close_kits(void **state)
{
    (void)state;
    kit_close_all();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_type_each_kind_alone),
        cmocka_unit_test(test_object_keywords_hold),
        cmocka_unit_test(test_array_keywords_hold),
        cmocka_unit_test(test_string_keywords_hold),
        cmocka_unit_test(test_number_bounds_hold),
        cmocka_unit_test(test_choices_and_references_hold),
        cmocka_unit_test(test_unknown_keyword_is_named_with_its_path),
        cmocka_unit_test(test_response_format_forms),
        cmocka_unit_test(test_hostile_schemas_are_bounded),
        cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_ambiguous_schema_fails_soon),
        cmocka_unit_test(test_recursion_ends_at_the_depth_limit),
    };
    return cmocka_run_group_tests(tests, NULL, close_kits);
}
