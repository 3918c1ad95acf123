/* test_tokenizer_load.c: tokenizer.json and its companions, right and wrong: what is refused, and
 * that the message has the words that a user needs. */
#include "tokenizer_util.h"

#include <stdlib.h>

#define MERGES "a b\nab c\nc d\n\xc4\xa0 a"
#define REGEX35                                                                                    \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}| "    \
    "?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"

/* Replaces the first `from`. */
static void replace(vl_buf *text, const char *from, const char *to)
{
    vl_buf changed = VL_BUF_INIT;
    char *at = strstr(text->ptr, from);
    assert_non_null(at);
    vl_buf_append(&changed, text->ptr, (size_t)(at - text->ptr));
    vl_buf_puts(&changed, to);
    vl_buf_puts(&changed, at + strlen(from));
    vl_buf_fini(text);
    *text = changed;
}

/* The small file with the first `from` replaced by `to`; must be refused with every word. */
static void expect_refused(const char *from, const char *to, const char *word1, const char *word2,
                           const char *word3)
{
    vl_buf text = VL_BUF_INIT;
    vl_tokenizer *t = NULL;
    vl_error err = {0};
    struct vl_bpe_files files = {.n_rows = 512};

    tok_write_small(&text, MERGES, "[{\"id\":300,\"content\":\"<x>\",\"normalized\":false}]",
                    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
                    "\"Regex\":\"" REGEX35
                    "\"},\"behavior\":\"Isolated\",\"invert\":false}," BYTE_LEVEL "]}",
                    "{\"type\":\"NFC\"}");
    replace(&text, from, to);
    files.tokenizer = (vl_bytes){text.ptr, text.len};
    vl_status rc = vl_bpe_load_json(&files, &t, &err);
    if (rc == VL_OK || t != NULL)
        fail_msg("%s instead of %s was taken", to, from);
    const char *words[] = {"tokenizer.json", word1, word2, word3};
    for (size_t i = 0; i < 4; i++)
        if (words[i] != NULL && strstr(err.text, words[i]) == NULL)
            fail_msg("no \"%s\" in: %s", words[i], err.text);
    vl_buf_fini(&text);
}

static void test_load_wrong_values_refused_by_name(void **state)
{
    (void)state;
    expect_refused("\"model\":", "\"modul\":", "model", "missing", NULL);
    expect_refused("\"type\":\"BPE\"", "\"type\":\"WordPiece\"", "WordPiece", NULL, NULL);
    expect_refused("\"type\":\"BPE\"", "\"type\":\"BPE\",\"dropout\":0.5", "dropout", "0.5", NULL);
    expect_refused("\"type\":\"BPE\"", "\"type\":\"BPE\",\"byte_fallback\":true", "byte_fallback",
                   "true", NULL);
    expect_refused("\"type\":\"BPE\"", "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"",
                   "end_of_word_suffix", "</w>", NULL);
    expect_refused("\"type\":\"BPE\"", "\"type\":\"BPE\",\"continuing_subword_prefix\":\"##\"",
                   "continuing_subword_prefix", "##", NULL);
    expect_refused("\"type\":\"BPE\"", "\"type\":\"BPE\",\"ignore_merges\":3", "ignore_merges", "3",
                   NULL);
    expect_refused("\"vocab\":", "\"vocap\":", "vocab", "missing", NULL);
    expect_refused("\"merges\":", "\"merchs\":", "merges", "missing", NULL);
    expect_refused("\"type\":\"NFC\"", "\"type\":\"Rot13\"", "normalizer", "Rot13", NULL);
    expect_refused(
        "{\"type\":\"NFC\"}",
        "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Lowercase\"}]}",
        "normalizer", "Lowercase", NULL);
    expect_refused("{\"type\":\"Split\"", "{\"type\":\"Shuffle\"},{\"type\":\"Split\"",
                   "pre_tokenizer", "Shuffle", NULL);
    expect_refused("\"add_prefix_space\":false", "\"add_prefix_space\":true", "add_prefix_space",
                   NULL, NULL);
    expect_refused("," BYTE_LEVEL, "", "ByteLevel", NULL, NULL);
    expect_refused("\"Isolated\"", "\"MergedWithNext\"", "behavior", "MergedWithNext", NULL);
    expect_refused("(?i:", "([a-z]+(?i:", "pattern", "pre_tokenizer", NULL);
    expect_refused("\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"Metaspace\"}",
                   "decoder", "Metaspace", NULL);
}

static void test_load_wrong_vocabulary_refused_by_name(void **state)
{
    (void)state;
    expect_refused("\"a\":97", "\"a\":98", "vocab", "98", NULL);
    expect_refused("\"a\":97", "\"a\":-1", "vocab", "-1", NULL);
    expect_refused("\"a\":97", "\"a\":97.5", "vocab", "97.5", NULL);
    expect_refused("\"a\":97", "\"a\":600", "600", "512", "vocab");
    expect_refused("\"a\":97,", "", "byte", "0x61", NULL);
    expect_refused("\"a\":97", "\"a\":97,\"\xe6\x97\xa5\":400", "byte alphabet", "400", NULL);
    expect_refused("\"merges\":[", "\"merges\":[[\"zq\",\"qz\"],", "merge 0", "zq", NULL);
    expect_refused("\"merges\":[", "\"merges\":[[\"q\",\"z\"],", "merge 0", "qz", NULL);
    expect_refused("\"merges\":[", "\"merges\":[[\"a\",\"b\",\"c\"],", "merge", "[0]", NULL);
    expect_refused("\"merges\":[", "\"merges\":[\"abc\",", "merge", "abc", NULL);
    expect_refused("\"merges\":[", "\"merges\":[\"a b c\",", "merge", "a b c", NULL);
    expect_refused("\"merges\":[", "\"merges\":[7,", "merge", "7", NULL);
    expect_refused("\"id\":300", "\"id\":97", "97", "<x>", "two contents");
    expect_refused("\"id\":300", "\"id\":700", "added_tokens", "700", "512");
    expect_refused("\"id\":300", "\"id\":\"300\"", "added_tokens", "id", NULL);
    expect_refused("\"content\":\"<x>\"", "\"contend\":\"<x>\"", "added_tokens", "content", "300");
    expect_refused("\"normalized\":false", "\"normalized\":0", "added_tokens", "normalized", NULL);
    expect_refused("]}}", "]}", "line", NULL, NULL);
}

static vl_status load_with(const char *tokenizer_config, const char *generation_config,
                           const char *config, vl_tokenizer **t, vl_error *err)
{
    vl_buf text = VL_BUF_INIT;
    struct vl_bpe_files files = {0};
    tok_write_small(
        &text, MERGES,
        "[{\"id\":300,\"content\":\"<x>\",\"normalized\":false,\"special\":true},"
        "{\"id\":301,\"content\":\"<|im_end|>\",\"normalized\":false,\"special\":true}]",
        NULL, NULL);
    files.tokenizer = (vl_bytes){text.ptr, text.len};
    if (tokenizer_config != NULL)
        files.tokenizer_config = (vl_bytes){tokenizer_config, strlen(tokenizer_config)};
    if (generation_config != NULL)
        files.generation_config = (vl_bytes){generation_config, strlen(generation_config)};
    if (config != NULL)
        files.config = (vl_bytes){config, strlen(config)};
    vl_status rc = vl_bpe_load_json(&files, t, err);
    vl_buf_fini(&text);
    return rc;
}

static void test_load_added_tokens_of_both_files_united(void **state)
{
    (void)state;
    vl_tokenizer *t = NULL;
    vl_error err = {0};
    assert_int_equal(load_with("{\"added_tokens_decoder\":{\"300\":{\"content\":\"<x>\","
                               "\"special\":true,\"normalized\":false},"
                               "\"302\":{\"content\":\"<y>\",\"normalized\":false}},\"eos_token\":{"
                               "\"content\":\"<x>\"}}",
                               NULL, NULL, &t, &err),
                     VL_OK);
    assert_int_equal(t->bpe.tokens.n_ids, 303);
    assert_int_equal(vl_bpe_tokenizer_find(t, "<y>", 3), 302);
    tok_expect(t, "<x><y>", 6, VL_PIECE_TEMPLATE, (const int32_t[]){300, 302}, 2);
    vl_bpe_tokenizer_destroy(t);

    static const struct {
        const char *config, *word1, *word2;
    } bad[] = {
        {"{\"added_tokens_decoder\":{\"300\":{\"content\":\"<z>\"}}}", "300", "<z>"},
        {"{\"added_tokens_decoder\":{\"abc\":{\"content\":\"<z>\"}}}", "abc",
         "added_tokens_decoder"},
        {"{\"added_tokens_decoder\":[1]}", "added_tokens_decoder", "array"},
        {"{\"eos_token\":\"<nope>\"}", "eos_token", "<nope>"},
        {"{", "line", "1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        t = NULL;
        assert_int_not_equal(load_with(bad[i].config, NULL, NULL, &t, &err), VL_OK);
        assert_null(t);
        assert_non_null(strstr(err.text, "tokenizer_config.json"));
        assert_non_null(strstr(err.text, bad[i].word1));
        assert_non_null(strstr(err.text, bad[i].word2));
    }
}

static void expect_stops(const char *tokenizer_config, const char *generation_config,
                         const char *config, const int32_t *want, size_t n)
{
    vl_tokenizer *t = NULL;
    vl_error err = {0};
    if (load_with(tokenizer_config, generation_config, config, &t, &err) != VL_OK)
        fail_msg("%s", err.text);
    assert_int_equal(t->n_stop_ids, n);
    assert_memory_equal(t->stop_ids, want, n * sizeof *want);
    vl_bpe_tokenizer_destroy(t);
}

static void test_load_stop_ids_united(void **state)
{
    (void)state;
    vl_tokenizer *t = NULL;
    vl_error err = {0};
    expect_stops(NULL, NULL, NULL, (const int32_t[]){301}, 1);
    expect_stops(NULL, "{\"eos_token_id\":300}", NULL, (const int32_t[]){300, 301}, 2);
    expect_stops(NULL, "{\"eos_token_id\":[301,10,300]}", NULL, (const int32_t[]){10, 300, 301}, 3);
    expect_stops("{\"eos_token\":\"<x>\"}", NULL, NULL, (const int32_t[]){300, 301}, 2);
    expect_stops("{\"eos_token\":null}", NULL, "{\"text_config\":{\"eos_token_id\":12}}",
                 (const int32_t[]){12, 301}, 2);
    expect_stops(NULL, NULL, "{\"eos_token_id\":[9999,13]}", (const int32_t[]){13, 301}, 2);
    assert_int_not_equal(load_with(NULL, "{\"eos_token_id\":9999}", NULL, &t, &err), VL_OK);
    assert_non_null(strstr(err.text, "generation_config.json"));
    assert_non_null(strstr(err.text, "9999"));
    assert_int_not_equal(load_with(NULL, "{\"eos_token_id\":\"x\"}", NULL, &t, &err), VL_OK);
    assert_non_null(strstr(err.text, "eos_token_id"));
}

/* With an unknown token to its name a vocabulary may lack bytes; a text that has them is refused
 * then. */
static void test_load_missing_byte_refused_when_used(void **state)
{
    (void)state;
    vl_buf text = VL_BUF_INIT;
    vl_error err = {0};
    vl_tokenizer *t = NULL;
    struct vl_bpe_files files = {0};
    int32_t ids[8];
    uint64_t n;

    tok_write_small(&text, MERGES, NULL, NULL, NULL);
    replace(&text, "\"z\":122,", "");
    replace(&text, "\"type\":\"BPE\"", "\"unk_token\":\"a\"");
    files.tokenizer = (vl_bytes){text.ptr, text.len};
    if (vl_bpe_load_json(&files, &t, &err) != VL_OK)
        fail_msg("%s", err.text);
    tok_expect(t, "abc", 3, VL_PIECE_TEXT, (const int32_t[]){257}, 1);
    vl_piece piece = {"abcz", 4, VL_PIECE_TEXT, 0};
    assert_int_equal(vl_bpe_tokenizer_encode(t, &piece, 1, NULL, NULL, 0, ids, 8, &n, &err),
                     VL_E_INVALID);
    assert_non_null(strstr(err.text, "0x7A"));
    vl_bpe_tokenizer_destroy(t);
    vl_buf_fini(&text);
}

/* Both spellings of merges, an escaped vocabulary and a #version line give the same tokenizer. */
static void test_load_merge_forms_equal(void **state)
{
    (void)state;
    vl_buf text = VL_BUF_INIT, pairs = VL_BUF_INIT;
    vl_error err = {0};
    struct vl_bpe_files files = {0};
    vl_tokenizer *a, *b = NULL;

    a = tok_small(MERGES, NULL, NULL, NULL, &err);
    assert_non_null(a);
    tok_write_small(&text, MERGES, NULL, NULL, NULL);
    char *merges = strstr(text.ptr, "\"merges\":[");
    vl_buf_append(&pairs, text.ptr, (size_t)(merges - text.ptr));
    vl_buf_puts(&pairs, "\"merges\":[\"#version: "
                        "0.2\",[\"\\u0061\",\"b\"],[\"ab\",\"\\u0063\"],[\"c\",\"d\"],[\"\\u0120\","
                        "\"\\u0061\"]]}}");
    files.tokenizer = (vl_bytes){pairs.ptr, pairs.len};
    if (vl_bpe_load_json(&files, &b, &err) != VL_OK)
        fail_msg("%s", err.text);
    assert_int_equal(a->bpe.n_merges, 4);
    assert_int_equal(b->bpe.n_merges, 4);
    assert_memory_equal(a->bpe.merges, b->bpe.merges, 4 * sizeof *a->bpe.merges);
    tok_expect(b, "abcd ac", 7, VL_PIECE_TEXT, (const int32_t[]){257, 'd', 259, 'c'}, 4);
    vl_bpe_tokenizer_destroy(a);
    vl_bpe_tokenizer_destroy(b);
    vl_buf_fini(&text);
    vl_buf_fini(&pairs);
}

/* Every prefix of a file, and the file with every byte changed in turn: refused or taken, never a
 * crash. */
static void test_load_damaged_files_end_calmly(void **state)
{
    (void)state;
    vl_buf text = VL_BUF_INIT;
    tok_write_small(&text, MERGES,
                    "[{\"id\":300,\"content\":\"<x>\",\"normalized\":true,\"special\":true}]", NULL,
                    "{\"type\":\"NFC\"}");
    for (size_t i = 0; i < text.len; i += 3) {
        struct vl_bpe_files files = {.tokenizer = {text.ptr, i}};
        vl_tokenizer *t = NULL;
        vl_error err = {0};
        assert_int_not_equal(vl_bpe_load_json(&files, &t, &err), VL_OK);
        assert_non_null(strstr(err.text, "tokenizer.json"));
    }
    uint64_t seed = 5;
    for (int i = 0; i < 3000; i++) {
        size_t at = tok_random(&seed) % text.len;
        char had = text.ptr[at];
        struct vl_bpe_files files = {.tokenizer = {text.ptr, text.len}, .n_rows = 1024};
        vl_tokenizer *t = NULL;
        text.ptr[at] = "0\"a,]}{-9:\x80 "[tok_random(&seed) % 12];
        if (vl_bpe_load_json(&files, &t, NULL) == VL_OK) {
            int32_t *ids;
            tok_encode(t, "abcd <x> cafe\xcc\x81", 15, VL_PIECE_TEMPLATE, &ids);
            free(ids);
        }
        vl_bpe_tokenizer_destroy(t);
        text.ptr[at] = had;
    }
    vl_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_wrong_values_refused_by_name),
        cmocka_unit_test(test_load_wrong_vocabulary_refused_by_name),
        cmocka_unit_test(test_load_added_tokens_of_both_files_united),
        cmocka_unit_test(test_load_stop_ids_united),
        cmocka_unit_test(test_load_missing_byte_refused_when_used),
        cmocka_unit_test(test_load_merge_forms_equal),
        cmocka_unit_test(test_load_damaged_files_end_calmly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
