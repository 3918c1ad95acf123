/* test_tokenizer_decode.c: the streaming decoder: what is held back, what comes out as U+FFFD, and
 * that streamed text equals the text of all bytes at once. */
#include "tokenizer_util.h"

#include <stdlib.h>

#include "base/utf8.h"

#define BAD "\xef\xbf\xbd"

static vl_tokenizer *bytes; /* ids 0-255 are bytes, 300 is special, 301 is not */

/* What each push gives, joined by '|', then the flush. */
static const char *stream(const char *input, size_t len)
{
    static char out[256];
    vl_decoder *d = NULL;
    size_t n = 0;
    uint64_t got;

    assert_int_equal(vl_bpe_decoder_create(bytes, &d, NULL), VL_OK);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(vl_bpe_decoder_push(d, (uint8_t)input[i], 0, out + n, 64, &got, NULL),
                         VL_OK);
        n += got;
        out[n++] = '|';
    }
    assert_int_equal(vl_bpe_decoder_flush(d, out + n, 64, &got, NULL), VL_OK);
    out[n + got] = '\0';
    vl_bpe_decoder_destroy(d);
    return out;
}

static void test_decode_incomplete_is_held(void **state)
{
    (void)state;
    assert_string_equal(stream("ab", 2), "a|b|");
    assert_string_equal(stream("\xf0\x9f\x9a\x80", 4), "|||\xf0\x9f\x9a\x80|");
    assert_string_equal(stream("\xc3\xa9z", 3), "|\xc3\xa9|z|");
    assert_string_equal(stream("\xf0\x9f\x9a", 3), "|||" BAD);
}

static void test_decode_ill_formed_comes_at_once(void **state)
{
    (void)state;
    assert_string_equal(stream("\x80"
                               "a",
                               2),
                        BAD "|a|");
    assert_string_equal(stream("\xff", 1), BAD "|");
    assert_string_equal(stream("\xe2\x82"
                               "a",
                               3),
                        "||" BAD "a|");
    assert_string_equal(stream("\xe0\x80", 2),
                        "|" BAD BAD "|"); /* overlong: no part of a character */
    assert_string_equal(stream("\xed\xa0\x80", 3), "|" BAD BAD "|" BAD "|"); /* a surrogate */
    assert_string_equal(stream("\xf0\x9f\xf0\x9f\x9a\x80", 6), "||" BAD "|||\xf0\x9f\x9a\x80|");
    assert_string_equal(stream(BAD, 3), "||" BAD "|"); /* a real one is text */
}

static void test_decode_special_skipped_and_unknown_silent(void **state)
{
    (void)state;
    const int32_t ids[] = {'a', 300, 301, -1, 299, 5000, INT32_MAX, 'b'};
    vl_buf all = VL_BUF_INIT, some = VL_BUF_INIT;
    tok_decode(bytes, ids, 8, 0, &all);
    assert_string_equal(all.ptr, "a<s><t>b");
    tok_decode(bytes, ids, 8, 1, &some);
    assert_string_equal(some.ptr, "a<t>b");
    vl_buf_fini(&all);
    vl_buf_fini(&some);
}

static void test_decode_short_buffer_consumes_nothing(void **state)
{
    (void)state;
    vl_decoder *d = NULL;
    vl_error err = {0};
    char out[16];
    uint64_t len = 77;
    assert_int_equal(vl_bpe_decoder_create(bytes, &d, NULL), VL_OK);
    assert_int_equal(vl_bpe_decoder_push(d, 301, 0, out, 2, &len, &err), VL_E_RANGE);
    assert_int_equal(len, 77);
    assert_int_equal(vl_bpe_decoder_push(d, 301, 0, out, 3, &len, &err), VL_OK);
    assert_int_equal(len, 3);
    assert_int_equal(vl_bpe_decoder_push(d, 0xe2, 0, out, 0, &len, &err), VL_OK);
    assert_int_equal(vl_bpe_decoder_flush(d, out, 2, &len, &err), VL_E_RANGE);
    assert_int_equal(vl_bpe_decoder_flush(d, out, 3, &len, &err), VL_OK);
    assert_memory_equal(out, BAD, 3);
    assert_int_equal(vl_bpe_decoder_flush(d, out, 3, &len, &err), VL_OK);
    assert_int_equal(len, 0);
    vl_bpe_decoder_destroy(d);
}

/* Random ids of a real vocabulary, most of them no text at all: streamed equals lossy of all bytes.
 */
static void test_decode_random_ids_equal_whole(void **state)
{
    (void)state;
    vl_tokenizer *t = tok_load("qwen35");
    uint64_t seed = 9;
    for (int round = 0; round < 2000; round++) {
        int32_t ids[40];
        vl_buf all = VL_BUF_INIT, want = VL_BUF_INIT, got = VL_BUF_INIT;
        for (int i = 0; i < 40; i++) {
            ids[i] = (int32_t)(tok_random(&seed) % (i % 2 ? 256 : 248320));
            vl_bytes b = vl_tokens_bytes(&t->bpe.tokens, ids[i]);
            vl_buf_append(&all, b.ptr, b.len);
        }
        vl_utf8_lossy(&want, all.ptr, all.len);
        tok_decode(t, ids, 40, 0, &got);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.ptr, want.ptr, want.len);
        vl_buf_fini(&all);
        vl_buf_fini(&want);
        vl_buf_fini(&got);
    }
    vl_bpe_tokenizer_destroy(t);
}

static int make(void **state)
{
    vl_error err;
    (void)state;
    bytes = tok_small(
        "", "[{\"id\":300,\"content\":\"<s>\",\"special\":true},{\"id\":301,\"content\":\"<t>\"}]",
        NULL, NULL, &err);
    return bytes == NULL;
}

static int drop(void **state)
{
    (void)state;
    vl_bpe_tokenizer_destroy(bytes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_incomplete_is_held),
        cmocka_unit_test(test_decode_ill_formed_comes_at_once),
        cmocka_unit_test(test_decode_special_skipped_and_unknown_silent),
        cmocka_unit_test(test_decode_short_buffer_consumes_nothing),
        cmocka_unit_test(test_decode_random_ids_equal_whole),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
