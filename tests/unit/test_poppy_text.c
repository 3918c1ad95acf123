/* unit.poppy_text: widths of clusters, the filter of foreign text, wrapping, clipboard. */
#include "tests/unit/poppy_kit.h"

#include "chat/clean.h"
#include "chat/copy.h"
#include "chat/width.h"

#define FAMILY "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7"
#define THUMB "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD"
#define FLAG "\xF0\x9F\x87\xB8\xF0\x9F\x87\xAA"

static int cells(const char *s)
{
    return vl_text_cells(s, strlen(s));
}

static void test_width_clusters_are_counted_once(void **state)
{
    (void)state;
    vl_width_set((struct vl_width_rules){true, true});
    assert_int_equal(cells("abc"), 3);
    assert_int_equal(cells("\xE6\xBC\xA2\xE5\xAD\x97"), 4);
    assert_int_equal(cells("e\xCC\xA3\xCC\x81"), 1);
    assert_int_equal(cells(FAMILY), 2);
    assert_int_equal(cells(THUMB), 2);
    assert_int_equal(cells(FLAG FLAG), 4);
    assert_int_equal(cells("\xE2\x9D\xA4\xEF\xB8\x8F"), 2); /* a heart with U+FE0F */
    assert_int_equal(cells("a\xFF"
                           "b"),
                     3); /* no UTF-8 */
    assert_int_equal(vl_cluster_next(FAMILY "x", strlen(FAMILY) + 1, NULL), strlen(FAMILY));
    assert_int_equal(vl_cluster_prev("x" FAMILY, 1 + strlen(FAMILY)), 1);
    assert_int_equal(vl_cluster_prev("a\nb", 2), 1);
}

static void test_width_terminal_without_clusters_adds_up(void **state)
{
    (void)state;
    vl_width_set((struct vl_width_rules){false, false});
    assert_int_equal(cells(FAMILY), 6);
    assert_int_equal(cells(FLAG), 2);
    assert_int_equal(cells("\xE2\x9D\xA4\xEF\xB8\x8F"), 1);
    vl_width_set((struct vl_width_rules){true, true});
}

/* Cleans in pieces of every size; the result must be the same. */
static void cleans(const char *text, const char *want)
{
    size_t len = strlen(text);

    for (size_t piece = 1; piece <= len; piece++) {
        struct vl_clean c;
        vl_buf out = VL_BUF_INIT;

        vl_clean_init(&c);
        for (size_t at = 0; at < len; at += piece)
            vl_clean_feed(&c, text + at, len - at < piece ? len - at : piece, &out);
        vl_clean_end(&c, &out);
        assert_string_equal(out.ptr ? out.ptr : "", want);
        vl_clean_fini(&c);
        vl_buf_fini(&out);
    }
}

static void test_clean_sequences_are_taken_out(void **state)
{
    (void)state;
    cleans("a\x1b[31mred\x1b[0m b", "ared b");
    cleans("a\x1b]0;title\x07 b\x1b]52;c;eA==\x1b\\ c", "a b c");
    cleans("a\x1bP+q\x1b\\b\x1b_x\x1b\\c\x1b"
           "cd\x1b(Be",
           "abcde");
    cleans("tab\tline\nbell\x07 bs\x08 del\x7f so\x0e.", "tab\tline\nbell bs del so.");
    cleans("c1 \xC2\x85\xC2\x9B"
           "31mx \xC2\x9D"
           "0;t\xC2\x9C.",
           "c1 x .");
    cleans("bidi \xE2\x80\xAE"
           "abc\xE2\x80\xAC \xE2\x81\xA6x\xE2\x81\xA9\xD8\x9C\xE2\x80\x8F.",
           "bidi abc x.");
    cleans("\xE6\xBC\xA2 " FAMILY, "\xE6\xBC\xA2 " FAMILY);
    cleans("cut \xE6\xBC", "cut \xEF\xBF\xBD");
    cleans("bad \xFF.", "bad \xEF\xBF\xBD.");
}

static void test_clean_sequence_without_end_keeps_its_text(void **state)
{
    (void)state;
    cleans("a\x1b]0;not ended\nnext", "a0;not ended\nnext");
    cleans("a\x1b]0;not ended", "a0;not ended");
    cleans("a\x1b]0;x\x1b[1mbold", "a0;xbold");
    cleans("end\x1b", "end");
    cleans("end\x1b[3", "end");
}

static void test_clean_one_line_has_no_line_ends(void **state)
{
    vl_buf out = VL_BUF_INIT;

    (void)state;
    vl_clean_text(&out, "a\tb\nc", 5, true);
    assert_string_equal(out.ptr, "a b c");
    vl_buf_fini(&out);
}

static void wraps(const char *text, int width, const char *want)
{
    struct vl_doc d = {0};
    struct vl_span s = {0};
    vl_buf out = VL_BUF_INIT;

    vl_span_put(&s, text, strlen(text), 0);
    vl_doc_wrap(&d, &s, width, NULL, NULL);
    kit_doc_text(&d, &out);
    assert_string_equal(out.ptr, want);
    vl_buf_fini(&out);
    vl_span_fini(&s);
    vl_doc_fini(&d);
}

static void test_wrap_breaks_between_words(void **state)
{
    (void)state;
    wraps("the quick brown fox", 10, "the quick\nbrown fox\n");
    wraps("the quick brown fox", 9, "the quick\nbrown fox\n");
    wraps("abcdefghij", 4, "abcd\nefgh\nij\n");
    wraps("a abcdefghij b", 4, "a\nabcd\nefgh\nij b\n");
    wraps("one\ntwo\n\nthree", 20, "one\ntwo\n\nthree\n");
    wraps("", 5, "\n");
    wraps("\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2", 4, "\xE6\xBC\xA2\xE5\xAD\x97\n\xE6\xBC\xA2\n");
    wraps("ab " FAMILY FAMILY, 5, "ab\n" FAMILY FAMILY "\n");
    wraps("ends with blanks    ", 30, "ends with blanks\n");
}

static void test_copy_finds_code_blocks(void **state)
{
    static const char text[] = "a\n```c\nint x;\n  y;\n```\nb\n~~~\n```\n~~~\n";
    vl_buf out = VL_BUF_INIT;

    (void)state;
    assert_int_equal(vl_copy_code(text, strlen(text), 1, &out), 2);
    assert_string_equal(out.ptr, "int x;\n  y;\n");
    vl_buf_clear(&out);
    assert_int_equal(vl_copy_code(text, strlen(text), 2, &out), 2);
    assert_string_equal(out.ptr, "```\n");
    vl_buf_clear(&out);
    assert_int_equal(vl_copy_code(text, strlen(text), 3, &out), 2);
    assert_int_equal(out.len, 0);
    vl_copy_sequence(&out, "hello", 5);
    assert_string_equal(out.ptr, "\x1b]52;c;aGVsbG8=\x1b\\");
    vl_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_width_clusters_are_counted_once),
        cmocka_unit_test(test_width_terminal_without_clusters_adds_up),
        cmocka_unit_test(test_clean_sequences_are_taken_out),
        cmocka_unit_test(test_clean_sequence_without_end_keeps_its_text),
        cmocka_unit_test(test_clean_one_line_has_no_line_ends),
        cmocka_unit_test(test_wrap_breaks_between_words),
        cmocka_unit_test(test_copy_finds_code_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
