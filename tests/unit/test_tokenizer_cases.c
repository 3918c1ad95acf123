/* test_tokenizer_cases.c: real vocabularies against what the reference made of hundreds of strings:
 * ids with added tokens, with special ones as text, with none; decoded text. */
#include "tokenizer_util.h"

#include <stdio.h>
#include <stdlib.h>

struct ids {
    int32_t ptr[4096];
    size_t n;
};

static void read_ids(vl_json v, struct ids *out)
{
    out->n = 0;
    for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);) {
        int64_t id;
        assert_true(vl_json_i64(it.value, &id));
        assert_true(out->n < 4096);
        out->ptr[out->n++] = (int32_t)id;
    }
}

static void read_vectors(const char *name, vl_buf *text, vl_json_doc *doc)
{
    char path[1024];
    vl_error err = {0};
    snprintf(path, sizeof path, "%s/tokenizer/%s", VL_TEST_VECTORS, name);
    if (vl_file_read(path, 1 << 24, text, &err) != VL_OK ||
        vl_json_parse(doc, text->ptr, text->len, 16, 0, &err) != VL_OK)
        fail_msg("%s", err.text);
}

/* The same text cut at every tenth or so byte, also inside characters: as one text it must give the
 * same. */
static void expect_in_pieces(const vl_tokenizer *t, const char *text, size_t len,
                             const struct ids *want)
{
    vl_piece pieces[4096];
    size_t n_pieces = 0, at = 0;
    uint64_t seed = len, n = 0;
    int32_t *ids = malloc((len + 1) * sizeof *ids);

    assert_non_null(ids);
    while (at < len) {
        size_t step = 1 + tok_random(&seed) % 10;
        step = step < len - at && n_pieces < 4095 ? step : len - at;
        pieces[n_pieces++] = (vl_piece){text + at, step, VL_PIECE_TEXT, 0};
        at += step;
    }
    assert_int_equal(
        vl_bpe_tokenizer_encode(t, pieces, n_pieces, NULL, NULL, 0, ids, len + 1, &n, NULL), VL_OK);
    assert_int_equal(n, want->n);
    assert_memory_equal(ids, want->ptr, want->n * sizeof *ids);
    free(ids);
}

/* Special tokens as text pieces, all else as template pieces. */
static void expect_special_as_text(const vl_tokenizer *t, const char *text, size_t len,
                                   const struct ids *want)
{
    vl_piece pieces[512];
    size_t n_pieces = 0, from = 0, at = 0;
    uint64_t n = 0;
    int32_t *ids = malloc((len + 1) * sizeof *ids);

    assert_non_null(ids);
    while (at < len) {
        size_t hit = 0;
        for (size_t i = 0; i < t->bpe.tokens.n_ids; i++) {
            vl_bytes b = vl_tokens_bytes(&t->bpe.tokens, (int64_t)i);
            if ((vl_bpe_tokenizer_flags(t, (int32_t)i) & VL_TOKEN_SPECIAL) && b.len > hit &&
                b.len <= len - at && memcmp(b.ptr, text + at, b.len) == 0)
                hit = b.len;
            if (text[at] != '<')
                break; /* all contents of these vocabularies begin so */
        }
        if (hit == 0) {
            at++;
            continue;
        }
        assert_true(n_pieces + 3 < 512);
        pieces[n_pieces++] = (vl_piece){text + from, at - from, VL_PIECE_TEMPLATE, 0};
        pieces[n_pieces++] = (vl_piece){text + at, hit, VL_PIECE_TEXT, 0};
        at += hit;
        from = at;
    }
    pieces[n_pieces++] = (vl_piece){text + from, len - from, VL_PIECE_TEMPLATE, 0};
    assert_int_equal(
        vl_bpe_tokenizer_encode(t, pieces, n_pieces, NULL, NULL, 0, ids, len + 1, &n, NULL), VL_OK);
    assert_int_equal(n, want->n);
    assert_memory_equal(ids, want->ptr, want->n * sizeof *ids);
    free(ids);
}

static void expect_decoded(const vl_tokenizer *t, const struct ids *ids, int32_t skip, vl_json want)
{
    vl_buf got = VL_BUF_INIT, text = VL_BUF_INIT;
    assert_true(vl_json_str(want, &text));
    tok_decode(t, ids->ptr, ids->n, skip, &got);
    assert_int_equal(got.len, text.len);
    if (got.len > 0)
        assert_memory_equal(got.ptr, text.ptr, got.len);
    vl_buf_fini(&got);
    vl_buf_fini(&text);
}

static void run_cases(const char *vocabulary, const char *vectors, size_t n_want)
{
    vl_tokenizer *t = tok_load(vocabulary);
    vl_buf file = VL_BUF_INIT, text = VL_BUF_INIT;
    vl_json_doc doc;
    struct ids want;
    size_t n = 0;

    read_vectors(vectors, &file, &doc);
    for (vl_json_iter it = vl_json_each(vl_json_get(vl_json_root(&doc), "cases"));
         vl_json_next(&it); n++) {
        vl_json c = it.value;
        vl_buf_clear(&text);
        assert_true(vl_json_str(vl_json_get(c, "text"), &text));
        const char *s = text.ptr != NULL ? text.ptr : "";
        read_ids(vl_json_get(c, "ids"), &want);
        tok_expect(t, s, text.len, VL_PIECE_TEMPLATE, want.ptr, want.n);
        if (!vl_json_exists(vl_json_get(c, "ids_plain")))
            continue;
        expect_decoded(t, &want, 0, vl_json_get(c, "decoded"));
        expect_decoded(t, &want, 1, vl_json_get(c, "decoded_skip_special"));
        read_ids(vl_json_get(c, "ids_plain"), &want);
        tok_expect(t, s, text.len, VL_PIECE_TEXT, want.ptr, want.n);
        expect_in_pieces(t, s, text.len, &want);
        read_ids(vl_json_get(c, "ids_special_as_text"), &want);
        expect_special_as_text(t, s, text.len, &want);
    }
    assert_int_equal(n, n_want);
    vl_json_doc_fini(&doc);
    vl_buf_fini(&file);
    vl_buf_fini(&text);
    vl_bpe_tokenizer_destroy(t);
}

static void test_cases_poppyseed_equal_reference(void **state)
{
    (void)state;
    run_cases("poppyseed", "poppyseed_cases.json", 300);
}

static void test_cases_qwen35_equal_reference(void **state)
{
    (void)state;
    run_cases("qwen35", "qwen35_cases.json", 300);
}

/* Ids of the published vocabulary, made by others: the specification's vectors. */
static void test_cases_qwen35_published_equal(void **state)
{
    (void)state;
    run_cases("qwen35", "qwen35_published.json", 78);
}

static void test_special_ids_qwen35_as_published(void **state)
{
    (void)state;
    vl_tokenizer *t = tok_load("qwen35");
    static const int32_t stops[] = {248044, 248046};

    assert_int_equal(t->bpe.tokens.n_ids, 248077);
    assert_int_equal(t->n_stop_ids, 2);
    assert_memory_equal(t->stop_ids, stops, sizeof stops);
    assert_int_equal(vl_bpe_tokenizer_find(t, "<think>", 7), 248068);
    assert_int_equal(vl_bpe_tokenizer_find(t, "<|im_start|>", 12), 248045);
    assert_int_equal(vl_bpe_tokenizer_find(t, " the", 4) >= 0, 1);
    assert_int_equal(vl_bpe_tokenizer_find(t, "no such token", 13), -1);
    assert_int_equal(vl_bpe_tokenizer_flags(t, 248046), VL_TOKEN_ADDED | VL_TOKEN_SPECIAL);
    assert_int_equal(vl_bpe_tokenizer_flags(t, 248068), VL_TOKEN_ADDED);
    assert_int_equal(vl_bpe_tokenizer_flags(t, 248063), VL_TOKEN_ADDED); /* <|fim_pad|> */
    assert_int_equal(vl_bpe_tokenizer_flags(t, 100), 0);
    assert_int_equal(vl_tokens_bytes(&t->bpe.tokens, 248077).len, 0);
    vl_bpe_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_poppyseed_equal_reference),
        cmocka_unit_test(test_cases_qwen35_equal_reference),
        cmocka_unit_test(test_cases_qwen35_published_equal),
        cmocka_unit_test(test_special_ids_qwen35_as_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
