/* test_tokenizer_split.c: the scanners on the texts that the rules were found with, and against the
 * same patterns run by PCRE2; patterns without a scanner, and hostile ones. */
#include "tokenizer_util.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "plugins/tokenizers/bpe/pattern.h"
#include "plugins/tokenizers/bpe/unicode.h"

static uint8_t *classes;

/* The pieces of text, joined by '|'. */
static const char *pieces_of(vl_scan_fn scan, const char *text)
{
    static char out[512];
    size_t n = 0, len = strlen(text);
    for (size_t at = 0; at < len;) {
        size_t end = scan(classes, (const uint8_t *)text, at, len);
        assert_true(end > at && end <= len);
        if (n > 0)
            out[n++] = '|';
        memcpy(out + n, text + at, end - at);
        n += end - at;
        at = end;
    }
    out[n] = '\0';
    return out;
}

static void test_classes_counts_unicode16(void **state)
{
    size_t letters = 0, marks = 0, numbers = 0, spaces = 0;
    (void)state;
    for (uint32_t c = 0; c < VL_UNICODE_COUNT; c++) {
        letters += !!(classes[c] & VL_CP_LETTER);
        marks += !!(classes[c] & VL_CP_MARK);
        numbers += !!(classes[c] & VL_CP_NUMBER);
        spaces += !!(classes[c] & VL_CP_SPACE);
    }
    assert_int_equal(letters, 141028);
    assert_int_equal(marks, 2501);
    assert_int_equal(numbers, 1911);
    assert_int_equal(spaces, 25);
    assert_int_equal(classes[0x180e] & VL_CP_SPACE, 0);
    assert_int_equal(classes[0x1c] & VL_CP_SPACE, 0);
}

static void test_qwen35_examples_split(void **state)
{
    (void)state;
    assert_string_equal(pieces_of(vl_scan_qwen35, "x  y"), "x| | y");
    assert_string_equal(pieces_of(vl_scan_qwen35, "\t\tx"), "\t|\tx");
    assert_string_equal(pieces_of(vl_scan_qwen35, " \n\n  q"), " \n\n| | q");
    assert_string_equal(pieces_of(vl_scan_qwen35, "();\n</parameter>"), "();\n|</|parameter|>");
    assert_string_equal(pieces_of(vl_scan_qwen35, "'rest"), "'re|st");
    assert_string_equal(pieces_of(vl_scan_qwen35, "'\xc5\xbfox'LLx 'k"), "'\xc5\xbf|ox|'LL|x| '|k");
    assert_string_equal(pieces_of(vl_scan_qwen35, "2026"), "2|0|2|6");
    assert_string_equal(pieces_of(vl_scan_qwen35, "a   "), "a|   ");
    assert_string_equal(pieces_of(vl_scan_qwen35, " 1"), " |1");
    assert_string_equal(pieces_of(vl_scan_qwen35, "\xc2\xa0x\xe3\x80\x80y"),
                        "\xc2\xa0x|\xe3\x80\x80y");
}

static void test_marks_differ_between_qwen2_and_qwen35(void **state)
{
    (void)state;
    assert_string_equal(pieces_of(vl_scan_qwen35, "a\xcc\x81z"), "a\xcc\x81z");
    assert_string_equal(pieces_of(vl_scan_qwen2, "a\xcc\x81z"), "a|\xcc\x81z");
    assert_string_equal(pieces_of(vl_scan_qwen35, "\xe0\xa4\xb9\xe0\xa4\xbf"),
                        "\xe0\xa4\xb9\xe0\xa4\xbf");
    assert_string_equal(pieces_of(vl_scan_qwen2, "\xe0\xa4\xb9\xe0\xa4\xbf"),
                        "\xe0\xa4\xb9|\xe0\xa4\xbf");
    assert_string_equal(pieces_of(vl_scan_qwen2, "!\xcc\x81x"), "!\xcc\x81|x");
    assert_string_equal(pieces_of(vl_scan_qwen35, "!\xcc\x81x"), "!\xcc\x81x");
    assert_string_equal(pieces_of(vl_scan_qwen35, "1\xcc\x81"
                                                  "a"),
                        "1|\xcc\x81"
                        "a");
}

static void test_llama3_and_gpt2_examples_split(void **state)
{
    (void)state;
    assert_string_equal(pieces_of(vl_scan_llama3, "12345"), "123|45");
    assert_string_equal(pieces_of(vl_scan_gpt2, "I'M don't 12345 x\n\n y"),
                        "I|'|M| don|'t| 12345| x|\n\n| y");
    assert_string_equal(pieces_of(vl_scan_digit, "ab12c3"), "ab|1|2|c|3");
    assert_string_equal(pieces_of(vl_scan_digits, "ab12c3"), "ab|12|c|3");
}

/* ---- scanners against PCRE2 ---- */

static const char qwen35_regex[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
    "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char qwen2_regex[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char llama3_regex[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* Characters that every PCRE2 of the last years has in the same category as Unicode 16. */
static size_t random_text(uint64_t *seed, char *out, size_t cap)
{
    static const uint32_t pool[] = {
        'a',     'Z',     'e',      '\'',   '\'',   's',    'S',    't',     'r',     'e',
        'v',     'l',     'L',      'd',    'm',    ' ',    ' ',    ' ',     '\n',    '\r',
        '\t',    '.',     ',',      '!',    '<',    '|',    '>',    '_',     '-',     '1',
        '9',     '0',     0,        0x1c,   0x7f,   0x85,   0xa0,   0x1680,  0x2003,  0x2028,
        0x202f,  0x3000,  0x180e,   0x200b, 0x200d, 0xfeff, 0xe9,   0x301,   0x323,   0x17f,
        0x212a,  0x2019,  0xbd,     0x660,  0x216b, 0x2460, 0x4e2d, 0x6587,  0x3042,  0xac00,
        0xe17,   0xe48,   0x93f,    0x939,  0x5d0,  0x5b0,  0x627,  0x1d400, 0x1f600, 0x1f3fd,
        0x20000, 0xe0100, 0x10ffff, 0x3002, 0x2014};
    size_t n = 0, want = tok_random(seed) % 24;
    for (size_t i = 0; i < want && n + 4 <= cap; i++) {
        char utf8[4];
        int len = vl_utf8_put(pool[tok_random(seed) % (sizeof pool / sizeof pool[0])], utf8);
        memcpy(out + n, utf8, (size_t)len);
        n += (size_t)len;
    }
    return n;
}

static void expect_scanner_is_pattern(vl_scan_fn scan, const char *regex)
{
    vl_pattern *p = NULL;
    vl_pattern_run *run = NULL;
    vl_error err = {0};
    uint64_t seed = 7;
    char text[128];

    assert_ptr_equal(vl_scan_for_pattern(regex, strlen(regex)), scan);
    if (vl_pattern_create(regex, strlen(regex), false, true, &p, &err) != VL_OK)
        fail_msg("%s", err.text);
    for (int round = 0; round < 30000; round++) {
        size_t len = random_text(&seed, text, sizeof text);
        assert_int_equal(vl_pattern_run_create(p, &run, &err), VL_OK);
        for (size_t at = 0; at < len;) {
            size_t a, b, end = scan(classes, (const uint8_t *)text, at, len);
            assert_int_equal(vl_pattern_next(run, (const uint8_t *)text, 0, len, at, &a, &b, &err),
                             VL_OK);
            if (a != at || b != end) {
                vl_buf shown = VL_BUF_INIT;
                vl_json_put_str(&shown, text, len);
                fail_msg("%s at %zu: the scanner ends at %zu, the pattern takes %zu to %zu",
                         shown.ptr, at, end, a, b);
            }
            at = end;
        }
        vl_pattern_run_destroy(run);
    }
    vl_pattern_destroy(p);
}

static void test_scanners_random_equal_pcre2(void **state)
{
    (void)state;
    expect_scanner_is_pattern(vl_scan_qwen35, qwen35_regex);
    expect_scanner_is_pattern(vl_scan_qwen2, qwen2_regex);
    expect_scanner_is_pattern(vl_scan_llama3, llama3_regex);
    expect_scanner_is_pattern(vl_scan_gpt2, vl_pattern_gpt2);
}

/* ---- patterns ---- */

static vl_status put_piece(void *user, size_t from, size_t to, vl_error *err)
{
    (void)err;
    vl_buf_printf(user, "[%zu,%zu)", from, to);
    return VL_OK;
}

static const char *split_with(const char *regex, bool literal, bool keeps_gaps, const char *text)
{
    static char out[256];
    struct vl_splitter s = {.classes = classes};
    struct vl_split_run run = {{NULL}};
    vl_pattern *p = NULL;
    vl_buf got = VL_BUF_INIT;
    vl_error err = {0};

    if (vl_pattern_create(regex, strlen(regex), literal, keeps_gaps, &p, &err) != VL_OK ||
        vl_splitter_add_pattern(&s, p, &err) != VL_OK ||
        vl_split(&s, &run, (const uint8_t *)text, 0, strlen(text), put_piece, &got, &err) != VL_OK)
        fail_msg("%s", err.text);
    memcpy(out, got.ptr != NULL ? got.ptr : "", got.len + (got.ptr != NULL));
    vl_buf_fini(&got);
    vl_split_run_fini(&run);
    vl_splitter_fini(&s);
    return out;
}

static void test_pattern_gaps_kept_or_dropped(void **state)
{
    (void)state;
    assert_string_equal(split_with("[0-9]+", false, true, "ab12c345"), "[0,2)[2,4)[4,5)[5,8)");
    assert_string_equal(split_with("[0-9]+", false, false, "ab12c345"), "[2,4)[5,8)");
    assert_string_equal(split_with("^b", false, true, "a\nb"), "[0,2)[2,3)");
    assert_string_equal(split_with("1.", true, true, "x1.y12"), "[0,1)[1,3)[3,6)");
    assert_string_equal(split_with("x*", false, true, "abxxc"), "[0,1)[1,2)[2,4)[4,5)");
    assert_string_equal(split_with("\\S+", false, true,
                                   "a\xe1\xa0\x8e"
                                   "b c"),
                        "[0,5)[5,6)[6,7)");
    assert_string_equal(split_with("[\\S]+", false, true,
                                   "a\xc2\x85"
                                   "b"),
                        "[0,1)[1,3)[3,4)");
}

static void test_pattern_broken_refused(void **state)
{
    static const char *const broken[] = {"([a-z]+", "[a",     "a{2,1}", "\\p{Nonsense}", "\\C",
                                         "[a&&b]",  "[a[b]]", "(?m)a",  "(?i-s:a.)",     "a{1,3}+"};
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        vl_pattern *p = NULL;
        vl_error err = {0};
        assert_int_not_equal(vl_pattern_create(broken[i], strlen(broken[i]), false, true, &p, &err),
                             VL_OK);
        assert_null(p);
        assert_non_null(strstr(err.text, "pattern"));
    }
}

/* Exponential backtracking, quadratic search, deep recursion: each ends in an error or in time. */
static void test_pattern_hostile_ends(void **state)
{
    static const char *const hostile[] = {"(a+)+$", "(a|aa)+$",       "(?:a*)*b",
                                          ".*?x",   "(a?){60}a{60}b", "(?R)?a+b"};
    (void)state;
    size_t len = 200000;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'a', len);
    text[len - 1] = '!';
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct vl_splitter s = {.classes = classes};
        struct vl_split_run run = {{NULL}};
        vl_pattern *p = NULL;
        vl_buf got = VL_BUF_INIT;
        vl_error err = {0};
        assert_int_equal(vl_pattern_create(hostile[i], strlen(hostile[i]), false, true, &p, &err),
                         VL_OK);
        assert_int_equal(vl_splitter_add_pattern(&s, p, &err), VL_OK);
        vl_status rc = vl_split(&s, &run, (const uint8_t *)text, 0, len, put_piece, &got, &err);
        assert_true(rc == VL_OK || rc == VL_E_UNSUPPORTED);
        vl_buf_fini(&got);
        vl_split_run_fini(&run);
        vl_splitter_fini(&s);
    }
    free(text);
}

static int make_classes(void **state)
{
    (void)state;
    classes = vl_unicode_classes_create();
    return classes == NULL;
}

static int free_classes(void **state)
{
    (void)state;
    free(classes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_counts_unicode16),
        cmocka_unit_test(test_qwen35_examples_split),
        cmocka_unit_test(test_marks_differ_between_qwen2_and_qwen35),
        cmocka_unit_test(test_llama3_and_gpt2_examples_split),
        cmocka_unit_test(test_scanners_random_equal_pcre2),
        cmocka_unit_test(test_pattern_gaps_kept_or_dropped),
        cmocka_unit_test(test_pattern_broken_refused),
        cmocka_unit_test(test_pattern_hostile_ends),
    };
    return cmocka_run_group_tests(tests, make_classes, free_classes);
}
