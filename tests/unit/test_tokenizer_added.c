/* test_tokenizer_added.c: added tokens of every kind, in the small vocabulary (ids 0-255 are
 * bytes). */
#include "tokenizer_util.h"

#include <stdlib.h>

#define ADDED(id, content, flags)                                                                  \
    "{\"id\":" #id ",\"content\":\"" content "\",\"normalized\":false" flags "}"

static vl_tokenizer *make(const char *added, const char *normalizer)
{
    vl_error err = {0};
    vl_tokenizer *t = tok_small("", added, NULL, normalizer, &err);
    if (t == NULL)
        fail_msg("%s", err.text);
    return t;
}

#define EXPECT(t, text, ...)                                                                       \
    do {                                                                                           \
        const int32_t want[] = {__VA_ARGS__};                                                      \
        tok_expect(t, text, strlen(text), VL_PIECE_TEMPLATE, want, sizeof want / sizeof want[0]);  \
    } while (0)

static void test_added_longest_of_leftmost_wins(void **state)
{
    (void)state;
    vl_tokenizer *t = make(
        "[" ADDED(300, "<a>", "") "," ADDED(301, "<a>b", "") "," ADDED(302, "bc", "") "]", NULL);
    EXPECT(t, "<a>bc", 301, 'c');
    EXPECT(t, "<a>cbc", 300, 'c', 302);
    EXPECT(t, "<a<a>", '<', 'a', 300);
    EXPECT(t, "<A>", '<', 'A', '>');
    tok_expect(t, "bc", 2, VL_PIECE_TEXT, (const int32_t[]){'b', 'c'}, 2);
    assert_int_equal(vl_bpe_tokenizer_find(t, "bc", 2), 302);
    assert_int_equal(t->bpe.tokens.n_ids, 303);
    assert_int_equal(vl_tokens_bytes(&t->bpe.tokens, 299).len, 0);
    vl_bpe_tokenizer_destroy(t);
}

static void test_added_strips_white_space(void **state)
{
    (void)state;
    vl_tokenizer *t = make(
        "[" ADDED(300, "<l>", ",\"lstrip\":true") "," ADDED(301, "<r>", ",\"rstrip\":true") "]",
        NULL);
    EXPECT(t, "a \n<l> b", 'a', 300, ' ', 'b');
    EXPECT(t, "a <r>\xe3\x80\x80 b", 'a', ' ', 301, 'b');
    EXPECT(t, "<r>  <l>", 301, 300);
    vl_bpe_tokenizer_destroy(t);
}

static void test_added_single_word_needs_borders(void **state)
{
    (void)state;
    vl_tokenizer *t = make("[" ADDED(300, "cat", ",\"single_word\":true") "]", NULL);
    EXPECT(t, "cat", 300);
    EXPECT(t, "a cat.", 'a', ' ', 300, '.');
    EXPECT(t, "cats", 'c', 'a', 't', 's');
    EXPECT(t, "_cat", '_', 'c', 'a', 't');
    EXPECT(t, "cat\xc2\xbd", 300, 0xc2, 0xbd); /* one half is no word character, */
    EXPECT(t, "cat1", 'c', 'a', 't', '1');
    EXPECT(t, "cat\xe2\x93\x90", 'c', 'a', 't', 0xe2, 0x93, 0x90); /* a circled letter is */
    EXPECT(t,
           "\xc3\xa9"
           "cat",
           0xc3, 0xa9, 'c', 'a', 't');
    vl_bpe_tokenizer_destroy(t);
}

static void test_added_normalized_matches_composed(void **state)
{
    (void)state;
    vl_tokenizer *t = make(
        "[{\"id\":300,\"content\":\"caf\xc3\xa9\",\"normalized\":true}," ADDED(301, "<x>", "") "]",
        "{\"type\":\"NFC\"}");
    EXPECT(t, "cafe\xcc\x81", 300);
    EXPECT(t, "caf\xc3\xa9", 300);
    EXPECT(t, "a<x>cafe\xcc\x81<x>", 'a', 301, 300, 301);
    /* A raw token is found before the normaliser: it is a border that NFC does not cross. */
    EXPECT(t, "e<x>\xcc\x81", 'e', 301, 0xcc, 0x81);
    tok_expect(t, "caf\xc3\xa9", 5, VL_PIECE_TEXT, (const int32_t[]){'c', 'a', 'f', 0xc3, 0xa9}, 5);

    uint64_t marks[] = {0, 3, 4, 5, 6, 7}, before[6], n;
    int32_t ids[8];
    vl_piece piece = {"cafe\xcc\x81z", 7, VL_PIECE_TEMPLATE, 0};
    assert_int_equal(vl_bpe_tokenizer_encode(t, &piece, 1, marks, before, 6, ids, 8, &n, NULL),
                     VL_OK);
    const uint64_t want[] = {0, 0, 0, 0, 1, 2};
    assert_int_equal(n, 2);
    assert_memory_equal(before, want, sizeof want);
    vl_bpe_tokenizer_destroy(t);
}

static void test_added_normalized_keeps_to_template_pieces(void **state)
{
    (void)state;
    vl_tokenizer *t = make(
        "[{\"id\":300,\"content\":\"caf\xc3\xa9\",\"normalized\":true}," ADDED(301, "<x>", "") "]",
        "{\"type\":\"NFC\"}");
    const vl_piece pieces[] = {
        {"a<x>", 4, VL_PIECE_TEMPLATE, 0},
        {"cafe\xcc\x81", 6, VL_PIECE_TEXT, 0},
        {"cafe\xcc\x81", 6, VL_PIECE_TEMPLATE, 0},
        {"<x>", 3, VL_PIECE_TEMPLATE, 0},
        {"<x>cafe\xcc\x81", 9, VL_PIECE_TEMPLATE, 0},
        {"cafe", 4, VL_PIECE_TEMPLATE, 0},
        {"\xcc\x81", 2, VL_PIECE_TEMPLATE, 0},
    };
    const int32_t want[] = {'a', 301, 'c', 'a', 'f', 0xc3, 0xa9, 300,
                            301, 301, 300, 'c', 'a', 'f',  0xc3, 0xa9};
    int32_t ids[32];
    uint64_t n = 0;
    assert_int_equal(vl_bpe_tokenizer_encode(t, pieces, 7, NULL, NULL, 0, ids, 32, &n, NULL),
                     VL_OK);
    assert_int_equal(n, sizeof want / sizeof want[0]);
    assert_memory_equal(ids, want, sizeof want);
    vl_bpe_tokenizer_destroy(t);
}

static void test_added_empty_content_never_matches(void **state)
{
    (void)state;
    vl_tokenizer *t = make("[" ADDED(300, "", "") "," ADDED(301, "<x>", "") "]", NULL);
    EXPECT(t, "a<x>", 'a', 301);
    vl_bpe_tokenizer_destroy(t);
}

/* Thousands of tokens, as other families have: each is found, and only there. */
static void test_added_many_each_found(void **state)
{
    vl_buf added = VL_BUF_INIT;
    vl_error err = {0};
    (void)state;
    for (int i = 0; i < 3000; i++)
        vl_buf_printf(&added,
                      "%s{\"id\":%d,\"content\":\"%c%d|\",\"normalized\":false,\"special\":true}",
                      i ? "," : "[", 300 + i, "<[{"[i % 3], i);
    vl_buf_putc(&added, ']');
    vl_tokenizer *t = tok_small("", added.ptr, NULL, NULL, &err);
    assert_non_null(t);
    for (int i = 0; i < 3000; i += 7) {
        vl_buf text = VL_BUF_INIT;
        int32_t want[] = {'x', 300 + i, 'y'};
        vl_buf_printf(&text, "x%c%d|y", "<[{"[i % 3], i);
        tok_expect(t, text.ptr, text.len, VL_PIECE_TEMPLATE, want, 3);
        vl_buf_fini(&text);
    }
    vl_buf_fini(&added);
    vl_bpe_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added_longest_of_leftmost_wins),
        cmocka_unit_test(test_added_strips_white_space),
        cmocka_unit_test(test_added_single_word_needs_borders),
        cmocka_unit_test(test_added_normalized_matches_composed),
        cmocka_unit_test(test_added_normalized_keeps_to_template_pieces),
        cmocka_unit_test(test_added_empty_content_never_matches),
        cmocka_unit_test(test_added_many_each_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
