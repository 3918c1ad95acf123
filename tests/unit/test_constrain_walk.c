/* Random texts under a constraint: whatever tokens are drawn, the end is JSON that matches the
 * schema, by a validator of its own; and the rules of when a constraint begins and ends: thoughts,
 * calls, stop ids. */
#include "tests/unit/vl_test.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/utf8.h"
#include "tests/unit/constrain_kit.h"

/* ---- a validator, written from the schema's meaning ---- */

static bool valid(vl_json root, vl_json s, vl_json v);

static bool of_type(vl_json name, vl_json v)
{
    int64_t n;

    if (vl_json_str_eq(name, "integer")) {
        vl_bytes raw = vl_json_raw(v);
        return vl_json_is(v, VL_JSON_NUMBER) &&
               (vl_json_i64(v, &n) || memchr(raw.ptr, '.', raw.len) == NULL);
    }
    if (vl_json_str_eq(name, "boolean"))
        return vl_json_is(v, VL_JSON_TRUE) || vl_json_is(v, VL_JSON_FALSE);
    return (vl_json_str_eq(name, "null") && vl_json_is(v, VL_JSON_NULL)) ||
           (vl_json_str_eq(name, "number") && vl_json_is(v, VL_JSON_NUMBER)) ||
           (vl_json_str_eq(name, "string") && vl_json_is(v, VL_JSON_STRING)) ||
           (vl_json_str_eq(name, "array") && vl_json_is(v, VL_JSON_ARRAY)) ||
           (vl_json_str_eq(name, "object") && vl_json_is(v, VL_JSON_OBJECT));
}

static bool same(vl_json a, vl_json b)
{
    vl_buf x = VL_BUF_INIT, y = VL_BUF_INIT;

    vl_json_put(&x, a, ",", ":", 0);
    vl_json_put(&y, b, ",", ":", 0);
    bool equal = x.len == y.len && memcmp(x.ptr, y.ptr, x.len) == 0;
    vl_buf_fini(&x);
    vl_buf_fini(&y);
    return equal;
}

static bool pattern_matches(vl_json pattern, const vl_buf *text)
{
    vl_buf p = VL_BUF_INIT;
    int code;
    PCRE2_SIZE at;

    assert_true(vl_json_str(pattern, &p));
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)p.ptr, p.len, PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
    assert_non_null(re);
    pcre2_match_data *d = pcre2_match_data_create_from_pattern(re, NULL);
    int n =
        pcre2_match(re, (PCRE2_SPTR)(text->ptr != NULL ? text->ptr : ""), text->len, 0, 0, d, NULL);
    pcre2_match_data_free(d);
    pcre2_code_free(re);
    vl_buf_fini(&p);
    return n >= 0;
}

static bool valid_string(vl_json s, vl_json v)
{
    vl_buf text = VL_BUF_INIT;
    uint64_t n = 0, bound;
    uint32_t cp;

    assert_true(vl_json_str(v, &text));
    for (size_t i = 0; i < text.len; n++) {
        int step = vl_utf8_next(text.ptr + i, text.len - i, &cp);
        assert_true(step > 0 && cp != UINT32_MAX);
        i += (size_t)step;
    }
    bool ok = (!vl_json_u64(vl_json_get(s, "minLength"), &bound) || n >= bound) &&
              (!vl_json_u64(vl_json_get(s, "maxLength"), &bound) || n <= bound) &&
              (!vl_json_exists(vl_json_get(s, "pattern")) ||
               pattern_matches(vl_json_get(s, "pattern"), &text));
    vl_buf_fini(&text);
    return ok;
}

static bool valid_number(vl_json s, vl_json v)
{
    double x, b;

    assert_true(vl_json_f64(v, &x));
    return (!vl_json_f64(vl_json_get(s, "minimum"), &b) || x >= b) &&
           (!vl_json_f64(vl_json_get(s, "maximum"), &b) || x <= b) &&
           (!vl_json_f64(vl_json_get(s, "exclusiveMinimum"), &b) || x > b) &&
           (!vl_json_f64(vl_json_get(s, "exclusiveMaximum"), &b) || x < b);
}

static bool valid_object(vl_json root, vl_json s, vl_json v)
{
    vl_json properties = vl_json_get(s, "properties"),
            other = vl_json_get(s, "additionalProperties");

    for (vl_json_iter it = vl_json_each(vl_json_get(s, "required")); vl_json_next(&it);) {
        vl_bytes key = vl_json_str_raw(it.value);
        if (!vl_json_exists(vl_json_get_n(v, key.ptr, key.len)))
            return false;
    }
    for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);) {
        vl_buf key = VL_BUF_INIT;
        assert_true(vl_json_str(it.key, &key));
        vl_json p = vl_json_get_n(properties, key.ptr != NULL ? key.ptr : "", key.len);
        vl_buf_fini(&key);
        if (!vl_json_exists(p))
            p = other;
        if (vl_json_exists(p) && !valid(root, p, it.value))
            return false;
    }
    return true;
}

static bool valid_array(vl_json root, vl_json s, vl_json v)
{
    vl_json prefix = vl_json_get(s, "prefixItems"), items = vl_json_get(s, "items");
    uint64_t bound;

    if ((vl_json_u64(vl_json_get(s, "minItems"), &bound) && vl_json_count(v) < bound) ||
        (vl_json_u64(vl_json_get(s, "maxItems"), &bound) && vl_json_count(v) > bound))
        return false;
    for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);) {
        vl_json e = it.index < vl_json_count(prefix) ? vl_json_at(prefix, it.index) : items;
        if (vl_json_exists(e) && !valid(root, e, it.value))
            return false;
    }
    return true;
}

static bool valid_choice(vl_json root, vl_json list, vl_json v, bool all)
{
    bool any = false;

    for (vl_json_iter it = vl_json_each(list); vl_json_next(&it);) {
        bool ok = valid(root, it.value, v);
        if (all && !ok)
            return false;
        any = any || ok;
    }
    return any || vl_json_count(list) == 0;
}

static bool valid(vl_json root, vl_json s, vl_json v)
{
    vl_json type = vl_json_get(s, "type"), list = vl_json_get(s, "enum");
    bool ok = !vl_json_is(s, VL_JSON_FALSE);

    if (vl_json_is(type, VL_JSON_STRING))
        ok = ok && of_type(type, v);
    if (vl_json_is(type, VL_JSON_ARRAY)) {
        bool any = false;
        for (vl_json_iter it = vl_json_each(type); vl_json_next(&it);)
            any = any || of_type(it.value, v);
        ok = ok && any;
    }
    if (vl_json_exists(list)) {
        bool any = false;
        for (vl_json_iter it = vl_json_each(list); vl_json_next(&it);)
            any = any || same(it.value, v);
        ok = ok && any;
    }
    if (vl_json_is(vl_json_get(s, "$ref"), VL_JSON_STRING)) {
        vl_bytes ref = vl_json_str_raw(vl_json_get(s, "$ref"));
        const char *slash = memrchr(ref.ptr, '/', ref.len);
        vl_json target = slash == NULL ? root
                                       : vl_json_get_n(vl_json_get(root, "$defs"), slash + 1,
                                                       ref.len - (size_t)(slash + 1 - ref.ptr));
        ok = ok && valid(root, target, v);
    }
    ok = ok && (!vl_json_exists(vl_json_get(s, "const")) || same(vl_json_get(s, "const"), v));
    ok = ok && valid_choice(root, vl_json_get(s, "anyOf"), v, false) &&
         valid_choice(root, vl_json_get(s, "oneOf"), v, false) &&
         valid_choice(root, vl_json_get(s, "allOf"), v, true);
    if (vl_json_is(v, VL_JSON_STRING))
        ok = ok && valid_string(s, v);
    if (vl_json_is(v, VL_JSON_NUMBER))
        ok = ok && valid_number(s, v);
    if (vl_json_is(v, VL_JSON_OBJECT))
        ok = ok && valid_object(root, s, v);
    if (vl_json_is(v, VL_JSON_ARRAY))
        ok = ok && valid_array(root, s, v);
    return ok;
}

/* ---- walks ---- */

static const char *const schemas[] = {
    "{\"type\":\"object\"}",
    "{}",
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
    "\"integer\"},\"member\":{\"type\":\"boolean\"}},\"required\":[\"name\",\"member\"],"
    "\"additionalProperties\":false}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"ab\":{\"type\":\"null\"}},"
    "\"additionalProperties\":{\"type\":[\"string\",\"boolean\"]}}",
    "{\"type\":\"array\",\"prefixItems\":[{\"enum\":[\"a\",\"ab\",1]},{\"const\":{\"k\":[null]}}],"
    "\"items\":{\"type\":\"number\",\"minimum\":-5,\"exclusiveMaximum\":12},\"minItems\":2,"
    "\"maxItems\":6}",
    "{\"type\":\"integer\",\"exclusiveMinimum\":-120,\"maximum\":7}",
    "{\"type\":\"string\",\"minLength\":3,\"maxLength\":7}",
    "{\"type\":\"string\",\"minLength\":30,\"maxLength\":90}",
    "{\"type\":\"string\",\"pattern\":\"^(ab?|[0-9]{2,4}|[^a-z\\\\s]+x)*$\",\"maxLength\":24}",
    "{\"type\":\"string\",\"pattern\":\"[0-9]-\\\\w+\",\"maxLength\":30}",
    "{\"type\":\"string\",\"pattern\":\"^\\\\D*$\",\"minLength\":2,\"maxLength\":12}",
    "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\","
    "\"minimum\":0,\"maximum\":300},\"kids\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
    "node\"},\"maxItems\":2}},"
    "\"required\":[\"v\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/node\"}",
    "{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},"
    "\"minItems\":1,\"maxItems\":5},{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"x\"}},"
    "\"required\":[\"t\"],\"additionalProperties\":false}]}",
    "{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":3}},\"required\":[\"a\"]}"
    ",{\"properties\":{\"a\":{\"maximum\":40},\"b\":{\"type\":\"string\",\"maxLength\":3}}}],"
    "\"type\":\"object\"}",
    "{\"type\":\"object\",\"properties\":{\"d\":{\"type\":\"string\",\"format\":\"date-time\"},"
    "\"u\":{\"type\":\"string\",\"format\":\"uuid\"},\"m\":{\"type\":\"string\",\"format\":"
    "\"email\"}},\"required\":[\"d\",\"u\",\"m\"],\"additionalProperties\":false}",
};

static size_t walk_schema(struct kit *k, const char *schema, uint64_t seeds, size_t tokens)
{
    vl_json_doc s, v;
    vl_error err = {0};
    size_t ended = 0;

    assert_int_equal(vl_json_parse(&s, schema, strlen(schema), 100, 0, &err), VL_OK);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct kit_run r;
        kit_start_schema(&r, k, schema);
        r.random = seed * 7919;
        if (kit_walk(&r, tokens)) {
            ended++;
            if (vl_json_parse(&v, r.text.ptr, r.text.len, 1000, 0, &err) != VL_OK)
                fail_msg("%s: %s gave %s", schema, err.text, r.text.ptr);
            if (!valid(vl_json_root(&s), vl_json_root(&s), vl_json_root(&v)))
                fail_msg("%s gave %s", schema, r.text.ptr);
            vl_json_doc_fini(&v);
        }
        kit_end(&r);
    }
    vl_json_doc_fini(&s);
    return ended;
}

static void test_random_walk_always_matches(void **state)
{
    static const struct {
        const char *name;
        uint64_t seeds;
    } vocabularies[] = {{"poppyseed", 60}, {"qwen35", 12}};

    (void)state;
    for (size_t n = 0; n < 2; n++) {
        struct kit *k = kit_open(vocabularies[n].name);
        for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
            size_t ended = walk_schema(k, schemas[i], vocabularies[n].seeds, 400);
            if (2 * ended < vocabularies[n].seeds)
                fail_msg("%s: only %zu of %zu walks ended", schemas[i], ended,
                         (size_t)vocabularies[n].seeds);
        }
    }
}

/* Characters cut between tokens: bytes alone are allowed where a character may begin, and then only
 * what ends it. */
static void test_utf8_is_whole_at_every_border(void **state)
{
    struct kit *k = kit_open("qwen35");
    struct kit_run r;
    int32_t e6 = vl_bpe_tokenizer_find(k->t, "\xe6", 1),
            tail = vl_bpe_tokenizer_find(k->t, "\x97", 1);
    int32_t quote = vl_bpe_tokenizer_find(k->t, "\"", 1),
            ed = vl_bpe_tokenizer_find(k->t, "\xed", 1);
    int32_t a0 = vl_bpe_tokenizer_find(k->t, "\xa0", 1),
            c0 = vl_bpe_tokenizer_find(k->t, "\xc0", 1);

    (void)state;
    kit_start_schema(&r, k, "{\"type\":\"string\",\"minLength\":1,\"maxLength\":2}");
    assert_true(kit_feed(&r, "\""));
    kit_mask(&r);
    assert_false(kit_allows(&r, quote));
    assert_false(kit_allows(&r, tail));
    assert_false(kit_allows(&r, c0));
    kit_take(&r, e6);
    kit_mask(&r);
    assert_false(kit_allows(&r, quote));
    assert_false(kit_allows(&r, e6));
    kit_take(&r, tail);
    kit_mask(&r);
    assert_false(kit_allows(&r, quote));
    kit_take(&r, tail);
    kit_mask(&r);
    assert_true(kit_allows(&r, quote));
    kit_take(&r, ed);
    kit_mask(&r);
    assert_false(kit_allows(&r, a0)); /* would be a surrogate */
    kit_take(&r, tail);
    kit_mask(&r);
    kit_take(&r, tail);
    kit_mask(&r);
    assert_true(kit_allows(&r, quote));
    assert_false(kit_allows(&r, e6)); /* two characters are enough */
    kit_take(&r, quote);
    assert_true(r.complete);
    kit_end(&r);
}

/* ---- when it begins and ends ---- */

static void test_thought_is_free_and_the_answer_is_not(void **state)
{
    struct kit *k = kit_open("poppyseed");
    struct kit_run r;
    int32_t close = vl_bpe_tokenizer_find(k->t, "</think>", 8);
    int32_t line = vl_bpe_tokenizer_find(k->t, "\n", 1), word = vl_bpe_tokenizer_find(k->t, "a", 1);

    (void)state;
    assert_true(close >= 0);
    kit_start_schema(&r, k, "{\"enum\":[true]}");
    r.parser = VL_CHAT_REASONING;
    assert_int_equal(kit_mask(&r), 0);
    assert_int_equal(vl_constrain_api.accept(r.state, r.parser, word), 0);
    assert_int_equal(kit_mask(&r), 0);
    assert_int_equal(vl_constrain_api.accept(r.state, r.parser, close), 0);
    r.parser = VL_CHAT_CONTENT;
    assert_int_equal(kit_mask(&r), 1);
    assert_true(kit_allows(&r, line));
    assert_false(kit_allows(&r, word));
    assert_false(kit_allows(&r, close));
    kit_take(&r, line);
    kit_mask(&r);
    kit_take(&r, line);
    kit_mask(&r);
    assert_false(kit_allows(&r, line)); /* two are enough */
    assert_false(kit_stop_allowed(&r));
    assert_true(kit_feed(&r, "true"));
    assert_true(r.complete);
    kit_end(&r);
    /* Without a thought it begins at once, without line ends. */
    kit_start_schema(&r, k, "{\"enum\":[true]}");
    assert_int_equal(kit_mask(&r), 1);
    assert_false(kit_allows(&r, line));
    kit_end(&r);
}

static void test_stop_only_where_the_value_may_end(void **state)
{
    struct kit *k = kit_open("poppyseed");
    struct kit_run r;

    (void)state;
    kit_start_schema(&r, k, "{\"type\":\"integer\"}");
    kit_mask(&r);
    assert_false(kit_stop_allowed(&r));
    assert_true(kit_feed(&r, "12"));
    assert_false(r.complete); /* more digits may come */
    kit_mask(&r);
    assert_true(kit_stop_allowed(&r));
    kit_end(&r);
}

/* Forced tokens may break the constraint: the next mask says so. */
static void test_text_outside_the_constraint_is_an_error(void **state)
{
    struct kit *k = kit_open("poppyseed");
    struct kit_run r;
    vl_error err = {0};
    bool free_run;

    (void)state;
    kit_start_schema(&r, k, "{\"type\":\"integer\"}");
    vl_constrain_api.accept(r.state, r.parser, vl_bpe_tokenizer_find(k->t, "x", 1));
    assert_int_equal(vl_constrain_api.mask(r.state, r.parser, r.mask, k->n_words, &free_run, &err),
                     -1);
    assert_non_null(strstr(err.text, "not what the schema allows"));
    kit_end(&r);
}

/* ---- calls ---- */

/* <tool_call> "\n<function=" (get|put) ">\n" (<parameter=n> INTEGER | <parameter=t> TEXT){1,2}
 * "</function>\n" </tool_call>, again behind "\n". */
static const uint32_t in_root[] = {1, 13}, in_call[] = {2, 3, 4, 7, 11, 12}, in_names[] = {5, 6},
                      in_repeat[] = {8}, in_choice[] = {9, 10}, in_number[] = {15, 16, 17},
                      in_text[] = {18, 19}, in_more[] = {14}, in_again[] = {20, 1};
#define TEXT(s)                                                                                    \
    {                                                                                              \
        s, sizeof(s) - 1                                                                           \
    }
static const vl_constraint_node call_nodes[] = {
    {VL_CONSTRAINT_SEQUENCE, 2, in_root, {NULL, 0}, 0, 0},
    {VL_CONSTRAINT_SEQUENCE, 6, in_call, {NULL, 0}, 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, TEXT("<tool_call>"), 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, TEXT("\n<function="), 0, 0},
    {VL_CONSTRAINT_CHOICE, 2, in_names, {NULL, 0}, 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, TEXT("get>\n"), 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, TEXT("put>\n"), 0, 0},
    {VL_CONSTRAINT_REPEAT, 1, in_repeat, {NULL, 0}, 1, 2},
    {VL_CONSTRAINT_CHOICE, 2, in_choice, {NULL, 0}, 0, 0},
    {VL_CONSTRAINT_SEQUENCE, 3, in_number, {NULL, 0}, 0, 0},
    {VL_CONSTRAINT_SEQUENCE, 2, in_text, {NULL, 0}, 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, TEXT("</function>\n"), 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, TEXT("</tool_call>"), 0, 0},
    {VL_CONSTRAINT_REPEAT, 1, in_more, {NULL, 0}, 0, 1},
    {VL_CONSTRAINT_SEQUENCE, 2, in_again, {NULL, 0}, 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, TEXT("<parameter=n>\n"), 0, 0},
    {VL_CONSTRAINT_JSON, 0, NULL, TEXT("{\"type\":\"integer\"}"), 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, TEXT("\n</parameter>\n"), 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, TEXT("<parameter=t>\n"), 0, 0},
    {VL_CONSTRAINT_TEXT, 0, NULL, TEXT("\n</parameter>\n"), 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, TEXT("\n"), 0, 0},
};
enum { N_CALL_NODES = sizeof call_nodes / sizeof call_nodes[0] };

static const char call_body[] =
    "\n<function=put>\n<parameter=t>\nany "
    "text\n</param\n</parameter\n\n</parameter>\n<parameter=n>\n-12\n</parameter>\n</function>\n";

static void test_call_is_forced_with_its_single_ids(void **state)
{
    struct kit *k = kit_open("poppyseed");
    struct kit_run r;
    int32_t open = vl_bpe_tokenizer_find(k->t, "<tool_call>", 11),
            close = vl_bpe_tokenizer_find(k->t, "</tool_call>", 12);
    int32_t less = vl_bpe_tokenizer_find(k->t, "<", 1), line = vl_bpe_tokenizer_find(k->t, "\n", 1);

    (void)state;
    kit_start_nodes(&r, k, NULL, call_nodes, N_CALL_NODES, true);
    kit_mask(&r);
    assert_true(kit_allows(&r, open));
    assert_false(kit_allows(&r, less)); /* not spelled */
    kit_take(&r, open);
    assert_true(kit_feed(&r, call_body));
    kit_mask(&r);
    assert_true(kit_allows(&r, close));
    assert_false(kit_allows(&r, less));
    kit_take(&r, close);
    assert_false(r.complete); /* another call may follow */
    kit_mask(&r);
    assert_true(kit_stop_allowed(&r));
    assert_true(kit_allows(&r, line));
    kit_take(&r, line);
    kit_mask(&r);
    kit_take(&r, open);
    assert_true(kit_feed(&r, "\n<function=get>\n<parameter=n>\n0\n</parameter>\n</function>\n"));
    kit_mask(&r);
    kit_take(&r, close);
    assert_true(r.complete);
    kit_end(&r);
}

static void test_call_inside_a_thought_begins_the_constraint(void **state)
{
    struct kit *k = kit_open("poppyseed");
    struct kit_run r;
    int32_t open = vl_bpe_tokenizer_find(k->t, "<tool_call>", 11);

    (void)state;
    kit_start_nodes(&r, k, NULL, call_nodes, N_CALL_NODES, true);
    r.parser = VL_CHAT_REASONING;
    assert_int_equal(kit_mask(&r), 0);
    vl_constrain_api.accept(r.state, r.parser, vl_bpe_tokenizer_find(k->t, "a", 1));
    assert_int_equal(kit_mask(&r), 0);
    vl_constrain_api.accept(r.state, r.parser, open);
    assert_int_equal(kit_mask(&r), 1); /* the parser may still say thought */
    assert_true(kit_feed(&r, call_body));
    kit_end(&r);
}

static void test_calls_or_content_where_tools_are_free(void **state)
{
    struct kit *k = kit_open("poppyseed");
    struct kit_run r;
    static const char format[] =
        "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"const\":5}}}";
    int32_t open = vl_bpe_tokenizer_find(k->t, "<tool_call>", 11);

    (void)state;
    kit_start_nodes(&r, k, format, call_nodes, N_CALL_NODES, false);
    assert_true(kit_feed(&r, "5"));
    assert_true(r.complete);
    kit_end(&r);
    kit_start_nodes(&r, k, format, call_nodes, N_CALL_NODES, false);
    kit_mask(&r);
    kit_take(&r, open);
    assert_true(kit_feed(&r, call_body));
    kit_end(&r);
    kit_start_nodes(&r, k, format, call_nodes, N_CALL_NODES, true); /* required: calls alone */
    kit_mask(&r);
    assert_true(kit_allows(&r, open));
    assert_false(kit_allows(&r, vl_bpe_tokenizer_find(k->t, "5", 1)));
    kit_end(&r);
}

/* Random calls always follow the form; free text holds whole characters only. */
static void test_random_calls_end(void **state)
{
    struct kit *k = kit_open("qwen35");
    size_t ended = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct kit_run r;
        kit_start_nodes(&r, k, NULL, call_nodes, N_CALL_NODES, true);
        r.random = seed;
        if (kit_walk(&r, 600)) {
            ended++;
            assert_memory_equal(r.text.ptr, "<tool_call>\n<function=", 22);
            assert_memory_equal(r.text.ptr + r.text.len - 12, "</tool_call>", 12);
            assert_true(vl_utf8_valid(r.text.ptr, r.text.len) == r.text.len);
        }
        kit_end(&r);
    }
    assert_true(ended > 0);
}

static void test_bad_nodes_are_refused(void **state)
{
    struct kit *k = kit_open("poppyseed");
    static const uint32_t beyond[] = {7};
    static const vl_constraint_node bad[][1] = {
        {{VL_CONSTRAINT_SEQUENCE, 1, beyond, {NULL, 0}, 0, 0}},
        {{VL_CONSTRAINT_TEXT, 0, NULL, {NULL, 0}, 0, 0}},
        {{99, 0, NULL, {NULL, 0}, 0, 0}},
        {{VL_CONSTRAINT_REPEAT, 0, NULL, {NULL, 0}, 0, 1}},
        {{VL_CONSTRAINT_JSON, 0, NULL, TEXT("{\"foo\":1}"), 0, 0}}};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct vl_constrain_params p = {.nodes = bad[i], .n_nodes = 1, .calls_required = true};
        vl_constrain *c = NULL;
        vl_error err = {0};
        char field[248] = "";
        assert_true(vl_constrain_create(k->v, &p, &c, field, &err) != VL_OK);
        assert_null(c);
        assert_string_equal(field, "tools");
        assert_non_null(strstr(err.text, "constraint"));
    }
}

/* The same constraint is compiled once, and each choice has a state of its own. */
static void test_choices_share_what_was_compiled(void **state)
{
    struct kit *k = kit_open("poppyseed");
    struct kit_run a, b;

    (void)state;
    kit_start_schema(&a, k, "{\"enum\":[\"one\",\"two\"]}");
    kit_start_schema(&b, k, "{\"enum\":[\"one\",\"two\"]}");
    assert_true(kit_feed(&a, "\"o"));
    assert_true(kit_feed(&b, "\"tw"));
    assert_true(kit_feed(&a, "ne\""));
    assert_true(a.complete);
    kit_end(&a);
    assert_true(kit_feed(&b, "o\""));
    assert_true(b.complete);
    kit_end(&b);
    for (int i = 0; i < 60; i++) { /* more than are kept */
        char schema[64];
        snprintf(schema, sizeof schema, "{\"const\":%d}", i % 40);
        kit_start_schema(&a, k, schema);
        assert_true(kit_mask(&a) == 1);
        kit_end(&a);
    }
}

/* Sets are forgotten when there are many: the walk goes on where it was. */
static void test_long_walk_survives_forgetting(void **state)
{
    struct kit *k = kit_open("poppyseed");
    struct kit_run r;
    vl_buf text = VL_BUF_INIT;

    (void)state;
    kit_start_schema(
        &r, k,
        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":600},\"maxItems\":120}");
    vl_buf_puts(&text, "[");
    for (int i = 0; i < 120; i++) {
        vl_buf_puts(&text, i > 0 ? ", \"" : "\"");
        for (int c = 0; c < 300; c++)
            vl_buf_putc(&text, (char)('a' + (i * 7 + c * c) % 26));
        vl_buf_puts(&text, "\"");
    }
    vl_buf_puts(&text, "]");
    assert_true(kit_feed(&r, text.ptr));
    assert_true(r.complete);
    vl_buf_fini(&text);
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
        cmocka_unit_test(test_random_walk_always_matches),
        cmocka_unit_test(test_utf8_is_whole_at_every_border),
        cmocka_unit_test(test_thought_is_free_and_the_answer_is_not),
        cmocka_unit_test(test_stop_only_where_the_value_may_end),
        cmocka_unit_test(test_text_outside_the_constraint_is_an_error),
        cmocka_unit_test(test_call_is_forced_with_its_single_ids),
        cmocka_unit_test(test_call_inside_a_thought_begins_the_constraint),
        cmocka_unit_test(test_calls_or_content_where_tools_are_free),
        cmocka_unit_test(test_random_calls_end),
        cmocka_unit_test(test_bad_nodes_are_refused),
        cmocka_unit_test(test_choices_share_what_was_compiled),
        cmocka_unit_test(test_long_walk_survives_forgetting),
    };
    return cmocka_run_group_tests(tests, NULL, close_kits);
}
