/* test_tokenizer_torture.c: each allocation of loading, encoding and decoding fails in turn: the
 * call says so, nothing leaks (the sanitizer's part) and nothing is half done. The linker wraps the
 * allocator. */
#include "tokenizer_util.h"

#include <stdlib.h>

static long countdown = -1; /* allocations until one fails; negative: none does */

static bool fails(void)
{
    return countdown >= 0 && countdown-- == 0;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

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
void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(align, n);
}

static const char pre_tokenizer[] = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                                    "\"pattern\":{\"Regex\":\"a+|\\\\s\"},"
                                    "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_"
                                    "prefix_space\":false,\"use_regex\":false}]}";
static const char added[] =
    "[{\"id\":300,\"content\":\"<x>\",\"normalized\":false,\"special\":true},"
    "{\"id\":301,\"content\":\"<\\u00e9>\",\"normalized\":true}]";
static const char config[] =
    "{\"added_tokens_decoder\":{\"302\":{\"content\":\"<y>\"}},\"eos_token\":\"<x>\"}";

static vl_status load(const vl_buf *text, vl_tokenizer **t, vl_error *err)
{
    struct vl_bpe_files files = {.tokenizer = {text->ptr, text->len}};
    files.tokenizer_config = (vl_bytes){config, sizeof config - 1};
    return vl_bpe_load_json(&files, t, err);
}

static void test_load_every_allocation_failing_is_said(void **state)
{
    vl_buf text = VL_BUF_INIT;
    vl_tokenizer *t = NULL;
    vl_error err = {0};
    long n = 0;
    (void)state;

    tok_write_small(&text, "a a\naa aa\nb c", added, pre_tokenizer, "{\"type\":\"NFC\"}");
    for (vl_status rc = VL_E_NOMEM; rc != VL_OK; n++) {
        assert_null(t);
        countdown = n;
        rc = load(&text, &t, &err);
        countdown = -1;
        if (rc != VL_OK && rc != VL_E_NOMEM)
            fail_msg("allocation %ld: %s", n, err.text);
    }
    assert_true(n > 20);
    assert_non_null(t);
    vl_bpe_tokenizer_destroy(t);
    vl_buf_fini(&text);
}

static void test_encode_every_allocation_failing_is_said(void **state)
{
    vl_buf text = VL_BUF_INIT, long_text = VL_BUF_INIT;
    vl_tokenizer *t = NULL;
    uint64_t marks[2] = {1, 5}, before[2] = {77, 77}, n_ids = 77;
    long n = 0;
    (void)state;

    tok_write_small(&text, "a a\naa aa\nb c", added, pre_tokenizer, "{\"type\":\"NFC\"}");
    assert_int_equal(load(&text, &t, NULL), VL_OK);
    for (int i = 0; i < 5000; i++) /* by lists, by heap, by scanning */
        vl_buf_putc(&long_text, 'a');
    vl_buf_puts(&long_text, "b<x>");
    for (int i = 0; i < 200; i++)
        vl_buf_puts(&long_text, "bc");
    vl_buf_puts(&long_text, " e\xcc\x81 <e\xcc\x81> aa bc");
    vl_piece pieces[] = {{long_text.ptr, long_text.len, VL_PIECE_TEMPLATE, 0},
                         {"<x>e\xcc\x81", 6, VL_PIECE_TEXT, 0}};
    int32_t *ids = malloc(sizeof *ids * (long_text.len + 64));
    assert_non_null(ids);
    for (vl_status rc = VL_E_NOMEM; rc != VL_OK; n++) {
        assert_int_equal(n_ids, 77);
        assert_int_equal(before[1], 77);
        countdown = n;
        rc = vl_bpe_tokenizer_encode(t, pieces, 2, marks, before, 2, ids, long_text.len + 64,
                                     &n_ids, NULL);
        countdown = -1;
        assert_true(rc == VL_OK || rc == VL_E_NOMEM);
    }
    assert_true(n > 10);
    assert_int_equal(ids[n_ids - 1], 0xa9); /* e with acute, by bytes */
    free(ids);

    vl_decoder *d = NULL;
    countdown = 0;
    assert_int_equal(vl_bpe_decoder_create(t, &d, NULL), VL_E_NOMEM);
    countdown = -1;
    assert_null(d);
    vl_bpe_tokenizer_destroy(t);
    vl_buf_fini(&text);
    vl_buf_fini(&long_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_every_allocation_failing_is_said),
        cmocka_unit_test(test_encode_every_allocation_failing_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
