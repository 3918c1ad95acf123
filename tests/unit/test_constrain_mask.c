/* Masks against their definition: a token is allowed exactly if the automaton takes its bytes one
 * by one. Over whole vocabularies, at every state of random texts. */
#include "tests/unit/vl_test.h"

#include "host/lib/constrain/masker.h"
#include "host/lib/constrain/schema.h"
#include "tests/unit/constrain_kit.h"

static void open_masker(vl_masker *m, struct kit *k, const char *schema)
{
    vl_grammar g;
    struct vl_rules r;
    struct vl_warm warm = {.n = 0};
    vl_json_doc doc;
    vl_error err = {0};

    assert_true(vl_grammar_init(&g));
    vl_rules_init(&r, &g, &warm);
    g.start = vl_grammar_state(&g);
    assert_int_equal(vl_json_parse(&doc, schema, strlen(schema), 100, 0, &err), VL_OK);
    if (vl_schema_compile(&r, vl_json_root(&doc), "schema", g.start, r.end, &err) != VL_OK ||
        vl_grammar_finish(&g, &err) != VL_OK || vl_masker_init(m, k->v, &g, &err) != VL_OK)
        fail_msg("%s", err.text);
    vl_json_doc_fini(&doc);
}

/* Every id of the vocabulary, stepped by itself. */
static size_t compare_all(vl_masker *m, struct kit *k, uint32_t set, const uint32_t *mask,
                          const vl_buf *text)
{
    size_t allowed = 0;

    for (uint32_t id = 0; id < k->v->n_tokens; id++) {
        bool want = vl_masker_step(m, set, (int32_t)id) != 0;
        bool got = (mask[id / 32] >> (id % 32) & 1) != 0;
        allowed += want;
        if (want != got) {
            vl_bytes b = k->v->api->token(k->v->tokenizer, (int32_t)id);
            fail_msg("behind %s: token %u (%.*s) is %sallowed by the mask",
                     text->ptr != NULL ? text->ptr : "nothing", id, (int)b.len, b.ptr,
                     got ? "" : "not ");
        }
    }
    assert_int_equal(m->machine.status, VL_OK);
    return allowed;
}

/* A random token that may come; likely ones that end things. */
static int32_t pick(struct kit *k, const uint32_t *mask, uint64_t *random)
{
    static const char *const likely[] = {"\"", "}", "]",   ",",   "1", "e",
                                         "{",  ":", "\"v", " \"", "\\"};
    int32_t id = -1;

    if (tok_random(random) % 3 > 0) {
        const char *text = likely[tok_random(random) % (sizeof likely / sizeof likely[0])];
        id = vl_bpe_tokenizer_find(k->t, text, strlen(text));
        if (id >= 0 && (mask[id / 32] >> (id % 32) & 1) != 0)
            return id;
    }
    uint32_t from = tok_random(random) % k->v->n_tokens;
    for (uint32_t i = 0; i < k->v->n_tokens; i++) {
        uint32_t at = (from + i) % k->v->n_tokens;
        if ((mask[at / 32] >> (at % 32) & 1) != 0)
            return (int32_t)at;
    }
    return -1;
}

static void check_schema(struct kit *k, const char *schema, int steps, uint64_t seed)
{
    vl_masker m;
    uint32_t *mask = calloc(k->n_words, sizeof *mask);
    vl_buf text = VL_BUF_INIT;
    vl_error err = {0};

    assert_non_null(mask);
    open_masker(&m, k, schema);
    uint32_t set = vl_machine_start(&m.machine, m.grammar.start);
    for (int i = 0; i < steps && set != 0; i++) {
        memset(mask, 0, k->n_words * sizeof *mask);
        if (vl_masker_mask(&m, set, mask, k->n_words, &err) != VL_OK)
            fail_msg("%s", err.text);
        size_t n = compare_all(&m, k, set, mask, &text);
        if (n == 0) {
            assert_true(vl_machine_complete(&m.machine, set));
            set = vl_machine_start(&m.machine, m.grammar.start);
            vl_buf_clear(&text);
            continue;
        }
        int32_t id = pick(k, mask, &seed);
        vl_bytes b = k->v->api->token(k->v->tokenizer, id);
        vl_buf_append(&text, b.ptr, b.len);
        set = vl_masker_step(&m, set, id);
        assert_true(set != 0);
    }
    vl_masker_fini(&m);
    vl_buf_fini(&text);
    free(mask);
}

static const char *const schemas[] = {
    "{\"type\":\"object\"}",
    "{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"string\",\"minLength\":3,\"maxLength\":"
    "9},\"w\":{\"type\":\"string\",\"minLength\":40}},\"required\":[\"v\"],"
    "\"additionalProperties\":false}",
    "{\"properties\":{\"ab\":{\"type\":\"integer\"},\"b\":{}},\"additionalProperties\":{\"type\":"
    "\"array\",\"items\":{\"type\":\"string\"}}}",
    "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^[a-m\xc3\xa4-"
    "\xc3\xb6]+,? "
    "?$\"},{\"type\":\"number\",\"minimum\":-3},{\"format\":\"date\"},{\"enum\":[\"e1\","
    "\"\xe6\x97\xa5\xe6\x9c\xac\",null]}]}}",
    "{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"l\":{\"type\":\"string\"},\"c\":{"
    "\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
    "n\"}}},\"additionalProperties\":false}},\"$ref\":\"#/$defs/n\"}",
};

static void test_mask_equals_stepping_small_vocabulary(void **state)
{
    struct kit *k = kit_open("poppyseed");

    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        for (uint64_t seed = 1; seed <= 4; seed++)
            check_schema(k, schemas[i], 120, seed);
    }
}

static void test_mask_equals_stepping_real_vocabulary(void **state)
{
    struct kit *k = kit_open("qwen35");

    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        check_schema(k, schemas[i], 12, 5 + i);
}

/* The trie holds each token that may be spelled, and spells it right. */
static void test_trie_spells_every_token(void **state)
{
    struct kit *k = kit_open("qwen35");
    const vl_vocabulary *v = k->v;
    char *path = malloc(v->longest + 1);
    uint8_t *seen = calloc(v->n_tokens, 1);
    size_t spelled = 0;

    (void)state;
    assert_non_null(path);
    assert_non_null(seen);
    for (uint32_t i = 0; i < v->n_nodes; i++) {
        path[v->depth[i]] = (char)v->byte[i];
        assert_true(v->skip[i] > i && v->skip[i] <= v->n_nodes);
        assert_true(i + 1 >= v->n_nodes || v->depth[i + 1] <= v->depth[i] + 1);
        for (int32_t id = v->token[i]; id >= 0; id = v->same[id]) {
            vl_bytes b = v->api->token(v->tokenizer, id);
            assert_int_equal(b.len, v->depth[i] + 1);
            assert_memory_equal(b.ptr, path, b.len);
            assert_false(seen[id]);
            seen[id] = 1;
            spelled++;
        }
    }
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        bool added = (v->api->flags(v->tokenizer, (int32_t)id) & VL_TOKEN_ADDED) != 0;
        assert_int_equal(seen[id] != 0, !added && v->api->token(v->tokenizer, (int32_t)id).len > 0);
    }
    assert_true(spelled > 248000);
    free(path);
    free(seen);
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
        cmocka_unit_test(test_mask_equals_stepping_small_vocabulary),
        cmocka_unit_test(test_mask_equals_stepping_real_vocabulary),
        cmocka_unit_test(test_trie_spells_every_token),
    };
    return cmocka_run_group_tests(tests, NULL, close_kits);
}
