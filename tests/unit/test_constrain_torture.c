/* Each allocation of making a vocabulary, a constraint and its masks fails in turn: the call says
 * so, nothing leaks (the sanitizer's part), and what is left works. The linker wraps the allocator.
 */
#include "tests/unit/vl_test.h"

#include "tests/unit/constrain_kit.h"

static long countdown = -1; /* allocations until one fails; negative: none does */

static bool fails(void)
{
    return countdown >= 0 && countdown-- == 0;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

static const char format[] = "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"$defs\":{"
                             "\"t\":{\"enum\":[\"ab\",1]}},\"type\":\"object\","
                             "\"properties\":{\"a\":{\"pattern\":\"^a[bc]*$\",\"maxLength\":4},"
                             "\"b\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"}},"
                             "\"c\":{\"anyOf\":[{\"type\":\"integer\",\"minimum\":3},{\"allOf\":[{"
                             "\"type\":\"string\"},{\"minLength\":1}]}]}},"
                             "\"required\":[\"a\"],\"additionalProperties\":{\"type\":\"null\"}}}}";
static const char text[] = "{\"a\": \"abc\", \"b\": [\"ab\", 1], \"c\": 12, \"other\": null}";

static const uint32_t in_root[] = {1, 2};
static const vl_constraint_node nodes[] = {
    {VL_CONSTRAINT_SEQUENCE, 2, in_root, {NULL, 0}, 0, 0},
    {VL_CONSTRAINT_LITERAL, 0, NULL, {"<x>", 3}, 0, 0},
    {VL_CONSTRAINT_TEXT, 0, NULL, {"\nend", 4}, 0, 0},
};

static vl_tokenizer *tokenizer(void)
{
    static const char added[] =
        "[{\"id\":300,\"content\":\"<x>\",\"normalized\":false,\"special\":true},"
        "{\"id\":301,\"content\":\"<|im_end|>\",\"normalized\":false,\"special\":true}]";
    vl_error err = {0};
    vl_tokenizer *t = tok_small("a b\nab c\n] ,\n1 2", added, NULL, NULL, &err);

    if (t == NULL)
        fail_msg("%s", err.text);
    return t;
}

static void test_vocabulary_every_allocation_failing_is_said(void **state)
{
    vl_tokenizer *t = tokenizer();
    vl_vocabulary *v = NULL;
    vl_error err = {0};
    long n = 0;

    (void)state;
    for (vl_status rc = VL_E_NOMEM; rc != VL_OK; n++) {
        assert_null(v);
        countdown = n;
        rc = vl_vocabulary_create(&kit_tokenizer_api, t, &v, &err);
        countdown = -1;
        if (rc != VL_OK && rc != VL_E_NOMEM)
            fail_msg("allocation %ld: %s", n, err.text);
    }
    assert_true(n > 20);
    vl_vocabulary_destroy(v);
    vl_bpe_tokenizer_destroy(t);
}

static void test_compile_every_allocation_failing_is_said(void **state)
{
    vl_tokenizer *t = tokenizer();
    vl_vocabulary *v = NULL;
    vl_constrain *c = NULL;
    vl_error err = {0};
    char field[248];
    struct vl_constrain_params p = {
        .response_format = {format, sizeof format - 1}, .nodes = nodes, .n_nodes = 3};
    long n = 0;

    (void)state;
    assert_int_equal(vl_vocabulary_create(&kit_tokenizer_api, t, &v, &err), VL_OK);
    for (vl_status rc = VL_E_NOMEM; rc != VL_OK; n++) {
        assert_null(c);
        countdown = n;
        rc = vl_constrain_create(v, &p, &c, field, &err);
        countdown = -1;
        if (rc != VL_OK && rc != VL_E_NOMEM)
            fail_msg("allocation %ld: %s", n, err.text);
    }
    assert_true(n > 50);
    vl_constrain_destroy(c);
    vl_vocabulary_destroy(v);
    vl_bpe_tokenizer_destroy(t);
}

/* The whole text under the mask, with the n-th allocation failing. True: none did. */
static bool write_text(struct kit_run *r, long n)
{
    vl_error err = {0};
    bool free_run, good = true;

    countdown = n;
    r->state = vl_constrain_api.create(r->c, 0);
    if (r->state == NULL) {
        countdown = -1;
        return false;
    }
    for (size_t i = 0; i < sizeof text - 1 && good; i++) {
        memset(r->mask, 0, r->k->n_words * sizeof *r->mask);
        good = vl_constrain_api.mask(r->state, VL_CHAT_CONTENT, r->mask, r->k->n_words, &free_run,
                                     &err) == 1;
        int32_t id = (uint8_t)text[i]; /* ids of bytes are the bytes */
        if (good)
            assert_true(kit_allows(r, id));
        if (good)
            r->complete = vl_constrain_api.accept(r->state, VL_CHAT_CONTENT, id) != 0;
    }
    bool failed = countdown < 0 && n >= 0;
    countdown = -1;
    if (!good) { /* said, and the next mask works if the text was kept */
        assert_true(err.status == VL_E_NOMEM || err.status == VL_E_STATE);
        if (err.status == VL_E_NOMEM && vl_constrain_api.mask(r->state, VL_CHAT_CONTENT, r->mask,
                                                              r->k->n_words, &free_run, &err) != 1)
            assert_int_equal(err.status, VL_E_STATE);
    }
    vl_constrain_api.destroy(r->state);
    return good && !failed && r->complete;
}

static void test_masks_every_allocation_failing_is_said(void **state)
{
    struct kit k = {.t = tokenizer()};
    struct vl_constrain_params p = {.response_format = {format, sizeof format - 1}};
    vl_error err = {0};
    long n = 0;

    (void)state;
    k.n_words = (k.t->bpe.tokens.n_ids + 31) / 32;
    for (bool done = false; !done; n++) {
        struct kit_run r = {.k = &k};
        assert_int_equal(vl_vocabulary_create(&kit_tokenizer_api, k.t, &k.v, &err), VL_OK);
        assert_int_equal(vl_constrain_create(k.v, &p, &r.c, NULL, &err), VL_OK);
        r.mask = calloc(k.n_words, sizeof *r.mask);
        assert_non_null(r.mask);
        done = write_text(&r, n);
        assert_true(write_text(&r, -1)); /* the same constraint, by another choice */
        vl_constrain_destroy(r.c);
        vl_vocabulary_destroy(k.v);
        free(r.mask);
    }
    assert_true(n > 100);
    vl_bpe_tokenizer_destroy(k.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vocabulary_every_allocation_failing_is_said),
        cmocka_unit_test(test_compile_every_allocation_failing_is_said),
        cmocka_unit_test(test_masks_every_allocation_failing_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
