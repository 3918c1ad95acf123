/* YAML to a tree: places, the subset, limits, and random bytes that must not hurt. */
#include "tests/unit/vl_test.h"

#include "base/buf.h"
#include "config/yaml.h"

static vl_status parse(vl_yaml *y, const char *text, uint32_t *line, uint32_t *column,
                       vl_error *err)
{
    return vl_yaml_parse(y, text, strlen(text), line, column, err);
}

static void test_tree_places_and_kinds_known(void **state)
{
    (void)state;
    vl_yaml y;
    vl_error err = {0};
    uint32_t line, column;
    assert_int_equal(
        parse(&y, "# c\nport: 80\nlist:\n  - a\n  - {b: \"null\"}\nnone:\n", &line, &column, &err),
        VL_OK);
    assert_int_equal(y.nodes[0].kind, VL_YAML_MAP);
    assert_int_equal(y.nodes[0].n, 3);
    int32_t port = y.nodes[0].first, list = y.nodes[port].next, none = y.nodes[list].next;
    assert_string_equal(y.nodes[port].text.ptr, "80");
    assert_int_equal(y.nodes[port].line, 2);
    assert_int_equal(y.nodes[port].column, 7);
    assert_string_equal(y.nodes[y.nodes[list].key].text.ptr, "list");
    assert_int_equal(y.nodes[list].n, 2);
    int32_t map = y.nodes[y.nodes[list].first].next;
    assert_int_equal(y.nodes[map].kind, VL_YAML_MAP);
    assert_int_equal(y.nodes[y.nodes[map].first].kind, VL_YAML_SCALAR); /* quoted: text, not null */
    assert_int_equal(y.nodes[none].kind, VL_YAML_NULL);
    assert_int_equal(y.nodes[none].next, -1);
    vl_yaml_fini(&y);
}

static void test_empty_documents_are_null(void **state)
{
    (void)state;
    const char *texts[] = {"", "\n\n", "# only a comment\n", "---\n", "~"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        vl_yaml y;
        vl_error err = {0};
        uint32_t line, column;
        assert_int_equal(parse(&y, texts[i], &line, &column, &err), VL_OK);
        assert_int_equal(y.nodes[0].kind, VL_YAML_NULL);
        vl_yaml_fini(&y);
    }
}

static void test_refusals_have_places(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word;
        uint32_t line;
    } bad[] = {
        {"a: 1\na: 2\n", "twice", 2},
        {"a: &x 1\nb: *x\n", "anchors", 1},
        {"a: *x\n", "anchors", 1},
        {"a: !!str 1\n", "tags", 1},
        {"a: 1\n---\nb: 2\n", "second document", 2},
        {"? [1, 2]\n: x\n", "key must be text", 1},
        {"a: [1, 2\n", "not YAML", 2},
        {"\tx: 1\n", "not YAML", 1},
        {"a: \"\\0\"\n", "NUL", 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vl_yaml y;
        vl_error err = {0};
        uint32_t line = 0, column = 0;
        assert_int_not_equal(parse(&y, bad[i].text, &line, &column, &err), VL_OK);
        if (!strstr(err.text, bad[i].word))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.text, bad[i].word);
        assert_int_equal(line, bad[i].line);
        assert_true(column > 0);
        assert_null(y.nodes);
    }
}

static void test_limits_deep_large_many_refused(void **state)
{
    (void)state;
    vl_yaml y;
    vl_error err = {0};
    uint32_t line, column;
    vl_buf b = VL_BUF_INIT;
    for (int i = 0; i < 100000; i++)
        vl_buf_putc(&b, '[');
    assert_int_equal(vl_yaml_parse(&y, b.ptr, b.len, &line, &column, &err), VL_E_RANGE);
    vl_buf_clear(&b);
    vl_buf_puts(&b, "[");
    for (int i = 0; i < VL_YAML_MAX_NODES + 1; i++)
        vl_buf_puts(&b, "1,");
    vl_buf_puts(&b, "]");
    assert_int_equal(vl_yaml_parse(&y, b.ptr, b.len, &line, &column, &err), VL_E_RANGE);
    vl_buf_clear(&b);
    vl_buf_reserve(&b, VL_YAML_MAX_BYTES + 1);
    memset(b.ptr, '#', VL_YAML_MAX_BYTES + 1);
    assert_int_equal(vl_yaml_parse(&y, b.ptr, VL_YAML_MAX_BYTES + 1, &line, &column, &err),
                     VL_E_RANGE);
    vl_buf_fini(&b);
}

/* Random texts of YAML's own characters: whatever comes, it ends, and a refused tree is empty. */
static void test_random_texts_end(void **state)
{
    (void)state;
    static const char letters[] = "ab: -[]{}&*!|>'\"#%\n\n\t  ?,~0\\";
    uint64_t x = 88172645463325252u;
    for (int round = 0; round < 20000; round++) {
        char text[64];
        size_t n = 0;
        for (; n < sizeof text; n++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if (x % 61 == 0)
                break;
            text[n] = letters[(x >> 20) % (sizeof letters - 1)];
        }
        vl_yaml y;
        vl_error err = {0};
        uint32_t line, column;
        char *exact = malloc(n + 1); /* so that the sanitizer sees a read past the end */
        memcpy(exact, text, n);
        exact = realloc(exact, n ? n : 1);
        vl_status rc = vl_yaml_parse(&y, exact, n, &line, &column, &err);
        free(exact);
        assert_true(rc == VL_OK ? y.n > 0 : y.nodes == NULL && err.text[0]);
        vl_yaml_fini(&y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_places_and_kinds_known),
        cmocka_unit_test(test_empty_documents_are_null),
        cmocka_unit_test(test_refusals_have_places),
        cmocka_unit_test(test_limits_deep_large_many_refused),
        cmocka_unit_test(test_random_texts_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
