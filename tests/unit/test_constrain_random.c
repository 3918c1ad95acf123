/* Schemas drawn at random, odd ones among them: each is refused with a reason or gives texts that
 * are JSON; nothing hangs or breaks. CONSTRAIN_SEEDS in the environment says how many (default
 * 400). */
#include "tests/unit/vl_test.h"

#include <time.h>

#include "tests/unit/constrain_kit.h"

static const char *pick(uint64_t *random, const char *const *list, size_t n)
{
    return list[tok_random(random) % n];
}
#define PICK(random, list) pick(random, list, sizeof(list) / sizeof((list)[0]))

static void put_schema(vl_buf *out, uint64_t *random, int depth);

static void put_list(vl_buf *out, uint64_t *random, int depth)
{
    size_t n = 1 + tok_random(random) % 3;

    vl_buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            vl_buf_putc(out, ',');
        put_schema(out, random, depth - 1);
    }
    vl_buf_putc(out, ']');
}

static void put_properties(vl_buf *out, uint64_t *random, int depth)
{
    static const char *const names[] = {"a",       "ab",    "b",    "",
                                        "\\u00e9", "q\\\"", "n\\n", "\\ud83d\\ude00"};
    size_t n = tok_random(random) % 4;

    vl_buf_putc(out, '{');
    for (size_t i = 0; i < n; i++) {
        vl_buf_printf(out, "%s\"%s\":", i > 0 ? "," : "", PICK(random, names));
        put_schema(out, random, depth - 1);
    }
    vl_buf_putc(out, '}');
}

static void put_keyword(vl_buf *out, uint64_t *random, int depth)
{
    static const char *const plain[] = {"\"type\":\"string\"",
                                        "\"type\":\"integer\"",
                                        "\"type\":\"number\"",
                                        "\"type\":\"object\"",
                                        "\"type\":\"array\"",
                                        "\"type\":[\"null\",\"string\"]",
                                        "\"minLength\":2",
                                        "\"maxLength\":5",
                                        "\"maxLength\":0",
                                        "\"minimum\":-3",
                                        "\"maximum\":250",
                                        "\"exclusiveMaximum\":0.5",
                                        "\"exclusiveMinimum\":9223372036854775807",
                                        "\"minItems\":1",
                                        "\"maxItems\":3",
                                        "\"pattern\":\"^a+(b|[^c-\xc3\xa9]{0,3})$\"",
                                        "\"pattern\":\"x|^y|z$\"",
                                        "\"pattern\":\"(a*)*\"",
                                        "\"pattern\":\"[\"",
                                        "\"format\":\"time\"",
                                        "\"enum\":[1,\"a\",null,[],{\"a\":1.50}]",
                                        "\"const\":\"\xe6\x97\xa5\\n\"",
                                        "\"required\":[\"a\",\"zz\"]",
                                        "\"additionalProperties\":false",
                                        "\"additionalProperties\":true",
                                        "\"$ref\":\"#\"",
                                        "\"$ref\":\"#/$defs/A\"",
                                        "\"$ref\":\"#/$defs/B\"",
                                        "\"$ref\":\"#/properties/a\"",
                                        "\"title\":7",
                                        "\"foo\":1",
                                        "\"items\":false",
                                        "\"type\":7",
                                        "\"minLength\":1e99"};
    static const char *const one[] = {"items", "additionalProperties"};
    static const char *const many[] = {"anyOf", "oneOf", "allOf", "prefixItems"};

    switch (tok_random(random) % 8) {
    case 0:
        vl_buf_printf(out, "\"%s\":", PICK(random, one));
        put_schema(out, random, depth - 1);
        return;
    case 1:
        vl_buf_printf(out, "\"%s\":", PICK(random, many));
        put_list(out, random, depth);
        return;
    case 2:
        vl_buf_puts(out, "\"properties\":");
        put_properties(out, random, depth);
        return;
    default:
        vl_buf_puts(out, PICK(random, plain));
    }
}

static void put_schema(vl_buf *out, uint64_t *random, int depth)
{
    size_t n = depth > 0 ? 1 + tok_random(random) % 3 : 0;

    if (tok_random(random) % 20 == 0) {
        vl_buf_puts(out, tok_random(random) % 2 == 0 ? "true" : "false");
        return;
    }
    vl_buf_putc(out, '{');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            vl_buf_putc(out, ',');
        put_keyword(out, random, depth);
    }
    if (depth == 4) { /* the root */
        vl_buf_puts(out, n > 0 ? ",\"$defs\":{\"A\":" : "\"$defs\":{\"A\":");
        put_schema(out, random, 2);
        vl_buf_puts(out, ",\"B\":");
        put_schema(out, random, 2);
        vl_buf_putc(out, '}');
    }
    vl_buf_putc(out, '}');
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* True: it ended. */
static bool walk(struct kit *k, vl_constrain *c, uint64_t seed, const char *schema)
{
    struct kit_run r = {.k = k, .c = c, .parser = VL_CHAT_CONTENT, .random = seed};
    vl_json_doc doc;
    vl_error err = {0};

    r.state = vl_constrain_api.create(c, 0);
    r.mask = calloc(k->n_words, sizeof *r.mask);
    assert_non_null(r.state);
    assert_non_null(r.mask);
    bool ended = kit_walk(&r, 150);
    if (ended && vl_json_parse(&doc, r.text.ptr != NULL ? r.text.ptr : "", r.text.len, 1000, 0,
                               &err) != VL_OK)
        fail_msg("%s: %s gave %s", schema, err.text, r.text.ptr);
    if (ended)
        vl_json_doc_fini(&doc);
    kit_end(&r);
    return ended;
}

static void test_random_schema_is_refused_or_gives_json(void **state)
{
    struct kit *k = kit_open("poppyseed");
    const char *wish = getenv("CONSTRAIN_SEEDS");
    uint64_t seeds = wish != NULL ? strtoull(wish, NULL, 10) : 400;
    size_t n_ok = 0, n_ended = 0;
    double worst = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        vl_buf b = VL_BUF_INIT;
        uint64_t random = seed * 104729;
        vl_constrain *c = NULL;
        vl_error err = {0};
        vl_buf_puts(&b, "{\"type\":\"json_object\",\"schema\":");
        put_schema(&b, &random, 4);
        vl_buf_putc(&b, '}');
        struct vl_constrain_params p = {.response_format = {b.ptr, b.len}};
        double t0 = now_ms();
        vl_status rc = vl_constrain_create(k->v, &p, &c, NULL, &err);
        worst = now_ms() - t0 > worst ? now_ms() - t0 : worst;
        if (rc == VL_OK) {
            n_ok++;
            n_ended += walk(k, c, seed, b.ptr);
        } else {
            assert_int_equal(rc, VL_E_INVALID);
            if (strstr(err.text, "response_format") == NULL)
                fail_msg("%s: %s", b.ptr, err.text);
        }
        vl_buf_fini(&b);
    }
    print_message("%zu of %zu schemas compiled, %zu texts ended; slowest compile %.1f ms\n", n_ok,
                  (size_t)seeds, n_ended, worst);
    assert_true(n_ok > seeds / 10 && n_ended > n_ok / 4);
    kit_close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_schema_is_refused_or_gives_json)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
