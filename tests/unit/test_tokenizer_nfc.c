/* test_tokenizer_nfc.c: composition, ordering, exclusions, Hangul; what came after Unicode 9.0
 * stays as it is; the map back to the source. */
#include "tokenizer_util.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "plugins/tokenizers/bpe/unicode.h"

static uint8_t *classes;
static vl_nfc *nfc;

static void expect_nfc(const char *text, const char *want)
{
    vl_buf out = VL_BUF_INIT;
    struct vl_nfc_changes changes = {NULL, 0, 0};
    size_t len = strlen(text);
    bool stable = vl_nfc_is_stable(classes, VL_CP_NFC_MAYBE, (const uint8_t *)text, len);

    assert_true(
        vl_nfc_apply(nfc, classes, VL_CP_NFC_MAYBE, (const uint8_t *)text, len, &out, &changes));
    assert_string_equal(out.ptr, want);
    assert_int_equal(changes.n == 0, strcmp(text, want) == 0);
    if (stable)
        assert_int_equal(changes.n, 0);
    free(changes.ptr);
    vl_buf_fini(&out);
}

static void test_nfc_examples_composed(void **state)
{
    (void)state;
    expect_nfc("plain", "plain");
    expect_nfc("e\xcc\x81", "\xc3\xa9");
    expect_nfc("xe\xcc\x81y", "x\xc3\xa9y");
    expect_nfc("\xe2\x84\xab", "\xc3\x85");                 /* U+212B */
    expect_nfc("\xe2\x84\xa6", "\xce\xa9");                 /* U+2126 */
    expect_nfc("\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"); /* U+0958: excluded from composing */
    expect_nfc("\xef\xa4\x80", "\xe8\xb1\x88");             /* U+F900 */
    expect_nfc("\xe1\xb8\x8b\xcc\xa3", "\xe1\xb8\x8d\xcc\x87"); /* d dot above, dot below */
    expect_nfc("d\xcc\x87\xcc\xa3", "\xe1\xb8\x8d\xcc\x87");    /* the marks change places */
    expect_nfc("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"); /* Hangul jamo */
    expect_nfc("\xea\xb0\x80\xe1\x86\xa8", "\xea\xb0\x81");
    expect_nfc("\xe1\x84\x80", "\xe1\x84\x80");
    expect_nfc("\xe0\xa7\x87\xe0\xa6\xbe", "\xe0\xa7\x8b"); /* Bengali: starter with starter */
    expect_nfc("\xcc\x81", "\xcc\x81");
    expect_nfc("\xcc\x88\xcc\x81", "\xcc\x88\xcc\x81");   /* not U+0344, which is excluded */
    expect_nfc("a\xcc\xa7\xcc\x81", "\xc3\xa1\xcc\xa7");  /* a cedilla does not block */
    expect_nfc("a\xcc\x85\xcc\x81", "a\xcc\x85\xcc\x81"); /* an equal class does */
}

static void test_nfc_younger_than_unicode9_unchanged(void **state)
{
    (void)state;
    expect_nfc("\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0",
               "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0");                     /* U+11935 U+11930 */
    expect_nfc("\xf0\x91\x84\xb1\xf0\x91\x84\xa7", "\xf0\x91\x84\xae"); /* U+1112E: 6.1 */
}

/* Sources of random characters give the same when done twice, and in one go or around a stable
 * border. */
static void test_nfc_random_is_idempotent(void **state)
{
    static const uint32_t pool[] = {'a',    'e',    'd',    ' ',     0x300,  0x301,  0x307,
                                    0x323,  0x327,  0x345,  0xe9,    0x1e0b, 0x1100, 0x1161,
                                    0x11a8, 0xac00, 0x958,  0x212b,  0x9c7,  0x9be,  0xf900,
                                    0x5b0,  0x591,  0x4e00, 0x1d15e, 0x2f800};
    uint64_t seed = 3;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        vl_buf text = VL_BUF_INIT, once = VL_BUF_INIT, twice = VL_BUF_INIT;
        struct vl_nfc_changes a = {NULL, 0, 0}, b = {NULL, 0, 0};
        size_t n = 1 + tok_random(&seed) % (round % 100 == 0 ? 200 : 12);
        for (size_t i = 0; i < n; i++) {
            char utf8[4];
            int len = vl_utf8_put(pool[tok_random(&seed) % (sizeof pool / sizeof pool[0])], utf8);
            vl_buf_append(&text, utf8, (size_t)len);
        }
        assert_true(
            vl_nfc_apply(nfc, classes, VL_CP_NFC_MAYBE, (uint8_t *)text.ptr, text.len, &once, &a));
        assert_true(
            vl_nfc_apply(nfc, classes, VL_CP_NFC_MAYBE, (uint8_t *)once.ptr, once.len, &twice, &b));
        assert_int_equal(b.n, 0);
        assert_int_equal(once.len, twice.len);
        /* Outside of the changes the texts are equal, and the changes ascend. */
        size_t from = 0, to = 0;
        for (size_t i = 0; i <= a.n; i++) {
            size_t end = i < a.n ? a.ptr[i].from : text.len;
            size_t to_end = i < a.n ? a.ptr[i].to : once.len;
            assert_true(end >= from && end - from == to_end - to);
            assert_memory_equal(text.ptr + from, once.ptr + to, end - from);
            from = i < a.n ? a.ptr[i].from_end : from;
            to = i < a.n ? a.ptr[i].to_end : to;
        }
        free(a.ptr);
        free(b.ptr);
        vl_buf_fini(&text);
        vl_buf_fini(&once);
        vl_buf_fini(&twice);
    }
}

/* A megabyte of marks on one letter is one stretch; it must not take quadratic time. */
static void test_nfc_million_marks_ends(void **state)
{
    vl_buf text = VL_BUF_INIT, out = VL_BUF_INIT;
    struct vl_nfc_changes changes = {NULL, 0, 0};
    (void)state;
    vl_buf_putc(&text, 'a');
    for (int i = 0; i < 250000; i++)
        vl_buf_puts(&text, "\xcc\x81\xcc\xa3"); /* classes 230, 220 */
    assert_true(
        vl_nfc_apply(nfc, classes, VL_CP_NFC_MAYBE, (uint8_t *)text.ptr, text.len, &out, &changes));
    assert_int_equal(out.len, text.len); /* a with dot below has 3 bytes, as both had */
    assert_memory_equal(out.ptr, "\xe1\xba\xa1\xcc\xa3", 5);
    free(changes.ptr);
    vl_buf_fini(&text);
    vl_buf_fini(&out);
}

static int make(void **state)
{
    (void)state;
    classes = vl_unicode_classes_create();
    nfc = vl_nfc_create();
    return classes == NULL || nfc == NULL;
}

static int drop(void **state)
{
    (void)state;
    free(classes);
    vl_nfc_destroy(nfc);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nfc_examples_composed),
        cmocka_unit_test(test_nfc_younger_than_unicode9_unchanged),
        cmocka_unit_test(test_nfc_random_is_idempotent),
        cmocka_unit_test(test_nfc_million_marks_ends),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
