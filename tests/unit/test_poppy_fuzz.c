/* unit.poppy_fuzz: seeded random bytes through everything that reads foreign ones: keys and editor,
 * event streams, the filter, Markdown. What must hold: nothing breaks (the sanitizer build looks),
 * and nothing that could act on a terminal comes out. VL_FUZZ_ROUNDS: how long (default 300). */
#include "tests/unit/vl_test.h"

#include "base/utf8.h"
#include "chat/clean.h"
#include "chat/input.h"
#include "chat/markdown.h"
#include "chat/sse.h"

static uint64_t seed;

static unsigned rnd(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

static int rounds(void)
{
    const char *n = getenv("VL_FUZZ_ROUNDS");

    return n ? (int)strtol(n, NULL, 10) : 300;
}

/* Pieces that mean something, so that random text gets deep. */
static size_t random_text(char *out, size_t cap)
{
    static const char *const parts[] = {"\x1b[",
                                        "\x1b]",
                                        "\x1b",
                                        "0;t\x07",
                                        "\x1b\\",
                                        "31m",
                                        "\xC2\x9B",
                                        "\xE2\x80\xAE",
                                        "\xFF",
                                        "\xE6\xBC",
                                        "\xF0\x9F\x91\xA8\xE2\x80\x8D",
                                        "\xF0\x9F\x87\xB8",
                                        "\xCC\x81",
                                        "\xE6\xBC\xA2",
                                        "**",
                                        "_",
                                        "`",
                                        "```",
                                        "~~~\n",
                                        "\n",
                                        "\n\n",
                                        "\r\n",
                                        "- ",
                                        "  - ",
                                        "1. ",
                                        "> ",
                                        "| a ",
                                        "|---|",
                                        "# ",
                                        "[x](",
                                        "http://a.b ",
                                        ")",
                                        "&#27;",
                                        "&amp;",
                                        "\t",
                                        "    ",
                                        "word ",
                                        "data: ",
                                        "data",
                                        ":",
                                        "\xEF\xBB\xBF",
                                        "\x1b[200~",
                                        "\x1b[201~",
                                        "\x12",
                                        "\x1b[A",
                                        "\x7f",
                                        "\\",
                                        "---\n",
                                        "<b>",
                                        "[ ] "};
    size_t n = 0, want = 1 + rnd((unsigned)cap - 1);

    while (n < want) {
        const char *p = parts[rnd(sizeof(parts) / sizeof(parts[0]))];
        size_t k = strlen(p);

        if (rnd(8) == 0) {
            out[n++] = (char)rnd(256);
        } else if (n + k <= want) {
            memcpy(out + n, p, k);
            n += k;
        } else {
            break;
        }
    }
    return n;
}

static void no_controls(const char *s, size_t len)
{
    assert_int_equal(vl_utf8_valid(s, len), len);
    for (size_t i = 0; i < len; i++) {
        unsigned char b = (unsigned char)s[i];

        assert_false(b == 0x7F || (b < 0x20 && b != '\n' && b != '\t'));
        assert_false(b == 0xC2 && (unsigned char)s[i + 1] < 0xA0);
        assert_false(b == 0xE2 && (unsigned char)s[i + 1] == 0x80 &&
                     (unsigned char)s[i + 2] >= 0xAA && (unsigned char)s[i + 2] <= 0xAE);
    }
}

static void test_fuzz_cleaned_markdown_is_harmless(void **state)
{
    (void)state;
    for (int k = 0; k < rounds(); k++) {
        char text[600];
        vl_buf shown = VL_BUF_INIT;
        struct vl_clean c;
        struct vl_markdown m;
        size_t len;

        seed = (uint64_t)k + 1;
        len = random_text(text, sizeof(text));
        vl_clean_init(&c);
        vl_markdown_init(&m, 1 + (int)rnd(60));
        for (size_t at = 0; at < len;) {
            size_t n = 1 + rnd(40);

            n = n > len - at ? len - at : n;
            vl_clean_feed(&c, text + at, n, &shown);
            vl_markdown_update(&m, shown.len ? shown.ptr : "", shown.len, false);
            at += n;
        }
        vl_clean_end(&c, &shown);
        vl_markdown_update(&m, shown.len ? shown.ptr : "", shown.len, true);
        if (shown.len)
            no_controls(shown.ptr, shown.len);
        if (m.doc.span.text.len)
            no_controls(m.doc.span.text.ptr, m.doc.span.text.len);
        vl_markdown_fini(&m);
        vl_clean_fini(&c);
        vl_buf_fini(&shown);
    }
}

static void test_fuzz_editor_holds_text_without_controls(void **state)
{
    static char *entries[] = {(char *)"one", (char *)"two\nlines"};
    struct vl_history history = {entries, 2, 2};

    (void)state;
    for (int k = 0; k < rounds(); k++) {
        char text[400];
        struct vl_keys keys;
        struct vl_input in;
        struct vl_key_event e;
        size_t len;

        seed = (uint64_t)k + 1000001;
        len = random_text(text, sizeof(text));
        vl_keys_init(&keys);
        vl_input_init(&in, &history);
        in.width = 1 + (int)rnd(50);
        for (size_t at = 0; at < len;) {
            size_t n = 1 + rnd(9);

            n = n > len - at ? len - at : n;
            vl_keys_feed(&keys, text + at, n);
            while (vl_keys_next(&keys, &e, rnd(6) == 0))
                vl_input_key(&in, &e);
            at += n;
        }
        assert_true(in.at <= in.text.len);
        vl_input_rows(&in, NULL, 0, NULL, NULL);
        if (in.text.len)
            no_controls(in.text.ptr, in.text.len);
        vl_keys_fini(&keys);
        vl_input_fini(&in);
    }
}

static int collect(void *user, const char *data, size_t len)
{
    vl_buf_append(user, data, len);
    vl_buf_putc(user, '|');
    return 0;
}

static void test_fuzz_chunking_changes_no_events(void **state)
{
    (void)state;
    for (int k = 0; k < rounds(); k++) {
        char text[400];
        struct vl_sse s;
        vl_buf whole = VL_BUF_INIT, pieces = VL_BUF_INIT;
        size_t len;

        seed = (uint64_t)k + 2000001;
        len = random_text(text, sizeof(text));
        vl_sse_init(&s, 10000);
        vl_sse_feed(&s, text, len, collect, &whole);
        vl_sse_fini(&s);
        vl_sse_init(&s, 10000);
        for (size_t at = 0; at < len;) {
            size_t n = 1 + rnd(5);

            n = n > len - at ? len - at : n;
            vl_sse_feed(&s, text + at, n, collect, &pieces);
            at += n;
        }
        vl_sse_fini(&s);
        assert_int_equal(whole.len, pieces.len);
        if (whole.len)
            assert_memory_equal(whole.ptr, pieces.ptr, whole.len);
        vl_buf_fini(&whole);
        vl_buf_fini(&pieces);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fuzz_cleaned_markdown_is_harmless),
        cmocka_unit_test(test_fuzz_editor_holds_text_without_controls),
        cmocka_unit_test(test_fuzz_chunking_changes_no_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
