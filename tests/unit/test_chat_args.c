/* unit.chat_args: the text of arguments to typed JSON, and the types that schemas name. */
#include "tests/unit/chat_kit.h"

#include <stdlib.h>
#include <string.h>

#include "plugins/qwen35/chat/chat_args.h"

/* schema: of the one parameter "p", within {"properties": {"p": ...}, "$defs": ...}. */
static int types_of(const char *schema)
{
    vl_buf text = VL_BUF_INIT;
    vl_json_doc doc;
    vl_buf_printf(&text,
                  "{\"properties\": {\"p\": %s}, \"$defs\": {\"I\": {\"type\": \"integer\"}, "
                  "\"ring\": {\"$ref\": \"#/$defs/ring\"}, \"a/b\": {\"type\": \"boolean\"}}}",
                  schema);
    assert_int_equal(vl_json_parse(&doc, text.ptr, text.len, 64, 0, NULL), VL_OK);
    vl_json root = vl_json_root(&doc);
    int types = vl_schema_types(root, vl_schema_property(root, root, "p", 1));
    vl_json_doc_fini(&doc);
    vl_buf_fini(&text);
    return types;
}

static void test_args_every_row_of_the_table(void **state)
{
    static const struct {
        const char *schema, *text, *want;
    } rows[] = {
        {"{\"type\":\"string\"}", "42", "\"42\""},
        {"{\"type\":\"integer\"}", "42", "42"},
        {"{\"type\":\"integer\"}", "forty", "\"forty\""},
        {"{\"type\":\"number\"}", "1e3", "1e3"},
        {"{\"type\":\"boolean\"}", "True", "true"},
        {"{\"type\":[\"string\",\"null\"]}", "None", "null"},
        {"{\"type\":\"array\"}", "[\"a\"]", "[\"a\"]"},
        {"{\"type\":\"array\"}", "['a', None]", "[\"a\",null]"},
        {"{\"type\":\"object\"}", "\"{\\\"a\\\":1}\"", "{\"a\":1}"},
        {"{\"type\":\"string\"}", "  x", "\"  x\""},
        /* 1: no type known */
        {"{}", "007", "\"007\""},
        {"{}", " {\"a\": [1, 2.50]} ", "{\"a\":[1,2.50]}"},
        {"{}", "[1,", "\"[1,\""},
        {"{}", "", "\"\""},
        {"{}", "true", "\"true\""},
        /* 2, 3 */
        {"{\"type\":\"string\"}", "null", "\"null\""},
        {"{\"type\":[\"null\",\"integer\"]}", "NULL", "null"},
        {"{\"type\":\"integer\"}", "null", "\"null\""},
        /* 4: scalars */
        {"{\"type\":\"boolean\"}", "1", "true"},
        {"{\"type\":\"boolean\"}", " 0\n", "false"},
        {"{\"type\":[\"boolean\",\"integer\"]}", "1", "1"},
        {"{\"type\":\"boolean\"}", "yes", "\"yes\""},
        {"{\"type\":\"integer\"}", "+007", "7"},
        {"{\"type\":\"integer\"}", "-12", "-12"},
        {"{\"type\":\"integer\"}", "3.0", "3"},
        {"{\"type\":\"integer\"}", "3.5", "\"3.5\""},
        {"{\"type\":\"integer\"}", "3.", "\"3.\""},
        {"{\"type\":\"integer\"}", "000", "0"},
        {"{\"type\":\"integer\"}", "123456789012345678901234567890",
         "123456789012345678901234567890"},
        {"{\"type\":\"number\"}", "5.0", "5.0"},
        {"{\"type\":\"number\"}", "-1.5E+3", "-1.5E+3"},
        {"{\"type\":\"number\"}", "nan", "\"nan\""},
        {"{\"type\":\"number\"}", "inf", "\"inf\""},
        {"{\"type\":\"number\"}", ".5", "\".5\""},
        {"{\"type\":[\"integer\",\"number\"]}", "2.5", "2.5"},
        {"{\"type\":[\"integer\",\"string\"]}", "12a", "\"12a\""},
        /* 4: containers */
        {"{\"type\":\"object\"}", "{'a': True, 'b': (1, 2,), \"c\": None,}",
         "{\"a\":true,\"b\":[1,2],\"c\":null}"},
        {"{\"type\":\"object\"}", "{1: 'x', True: \"it's\"}", "{\"1\":\"x\",\"true\":\"it's\"}"},
        {"{\"type\":\"array\"}", "('it\\'s', \"\\u00e9\\x41\\n\")",
         "[\"it's\",\"\xc3\xa9"
         "A\\n\"]"},
        {"{\"type\":\"array\"}", "[]", "[]"},
        {"{\"type\":\"array\"}", "{\"a\":1}", "\"{\\\"a\\\":1}\""},
        {"{\"type\":\"object\"}", "[1]", "\"[1]\""},
        {"{\"type\":\"array\"}", "\"[1, 2]\"", "[1,2]"},
        {"{\"type\":\"array\"}", "['a'", "\"['a'\""},
        {"{\"type\":\"array\"}", "['a' 'b']", "\"['a' 'b']\""},
        {"{\"type\":\"array\"}", "[1] x", "\"[1] x\""},
        {"{\"type\":\"array\"}", "[foo]", "\"[foo]\""},
        {"{\"type\":\"object\"}", "{'a'}", "\"{'a'}\""},
        {"{\"type\":\"array\"}", "[,]", "\"[,]\""},
        {"{\"type\":\"array\"}", "['\\ud83c\\udf3a']", "[\"\xf0\x9f\x8c\xba\"]"},
        {"{\"type\":\"array\"}", "['\\ud83c']", "\"['\\\\ud83c']\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        vl_buf out = VL_BUF_INIT;
        vl_args_put(&out, types_of(rows[i].schema), rows[i].text, strlen(rows[i].text));
        if (strcmp(out.ptr, rows[i].want) != 0)
            fail_msg("%s, \"%s\": got %s, want %s", rows[i].schema, rows[i].text, out.ptr,
                     rows[i].want);
        vl_buf_fini(&out);
    }
}

static void test_args_schema_types_are_found(void **state)
{
    (void)state;
    assert_int_equal(types_of("{\"$ref\": \"#/$defs/I\"}"), VL_TYPE_INTEGER);
    assert_int_equal(types_of("{\"$ref\": \"#/$defs/a~1b\"}"), VL_TYPE_BOOLEAN);
    assert_int_equal(types_of("{\"$ref\": \"#/$defs/ring\"}"), 0);
    assert_int_equal(types_of("{\"$ref\": \"#/$defs/none\"}"), 0);
    assert_int_equal(types_of("{\"anyOf\": [{\"type\": \"string\"}, {\"$ref\": \"#/$defs/I\"}]}"),
                     VL_TYPE_STRING | VL_TYPE_INTEGER);
    assert_int_equal(types_of("{\"oneOf\": [{\"type\": \"array\"}, {\"type\": \"null\"}]}"),
                     VL_TYPE_ARRAY | VL_TYPE_NULL);
    assert_int_equal(types_of("{\"enum\": [\"a\", 1, 2.5, null]}"),
                     VL_TYPE_STRING | VL_TYPE_INTEGER | VL_TYPE_NUMBER | VL_TYPE_NULL);
    assert_int_equal(types_of("{\"const\": false}"), VL_TYPE_BOOLEAN);
    assert_int_equal(
        types_of("{\"allOf\": [{\"type\": [\"string\", \"integer\"]}, {\"type\": \"number\"}]}"),
        VL_TYPE_INTEGER);
    assert_int_equal(types_of("{\"allOf\": [{\"$ref\": \"#/$defs/I\"}, {\"description\": \"x\"}]}"),
                     VL_TYPE_INTEGER);
    assert_int_equal(types_of("{\"type\": \"string\", \"nullable\": true}"),
                     VL_TYPE_STRING | VL_TYPE_NULL);
    assert_int_equal(types_of("{\"description\": \"x\"}"), 0);
    assert_int_equal(types_of("true"), 0);
}

/* A schema that branches into itself must not take exponential time. */
static void test_args_hostile_schema_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(
        types_of("{\"anyOf\": [{\"$ref\": \"#/properties/p\"}, {\"$ref\": \"#/properties/p\"}, "
                 "{\"$ref\": \"#/properties/p\"}, {\"$ref\": \"#/properties/p\"}]}"),
        0);
}

/* What comes out is always one JSON value, whatever went in. */
static void test_args_random_text_gives_valid_json(void **state)
{
    static const char *const atoms[] = {
        "{", "}", "[", "]", "(",    ")",    "'",    "\"", ",",  ":",        "\\", "u00e9",
        "1", "-", ".", "e", "True", "None", "null", " ",  "\n", "\xc3\xa9", "x"};
    uint32_t seed = 99;
    (void)state;
    for (int i = 0; i < 50000; i++) {
        vl_buf text = VL_BUF_INIT, out = VL_BUF_INIT;
        vl_json_doc doc;
        seed = seed * 1664525u + 1013904223u;
        for (uint32_t n = (seed >> 20) % 12, k = 0; k <= n; k++) {
            seed = seed * 1664525u + 1013904223u;
            vl_buf_puts(&text, atoms[(seed >> 12) % (sizeof(atoms) / sizeof(atoms[0]))]);
        }
        seed = seed * 1664525u + 1013904223u;
        vl_args_put(&out, (int)(seed >> 16) % 128, text.ptr, text.len);
        if (vl_json_parse(&doc, out.ptr, out.len, 64, 0, NULL) != VL_OK)
            fail_msg("\"%s\" gave %s", text.ptr, out.ptr);
        vl_json_doc_fini(&doc);
        vl_buf_fini(&text);
        vl_buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_args_every_row_of_the_table),
        cmocka_unit_test(test_args_schema_types_are_found),
        cmocka_unit_test(test_args_hostile_schema_is_bounded),
        cmocka_unit_test(test_args_random_text_gives_valid_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
