/* unit.poppy_markdown: golden lines; the same lines whether a text comes at once or byte by byte;
 * work that does not grow with the square of the length. */
#include "tests/unit/poppy_kit.h"

#include <time.h>

#include "chat/markdown.h"
#include "chat/width.h"

static const char page[] =
    "# Growing poppies\n\nPoppies like **full sun** and *poor* soil, see [the "
    "guide](http://x.org/g) or "
    "<http://y.org>. A long line is wrapped between its words.\n\n"
    "1. Rake\n2. Scatter\n   - thinly\n   - not too deep\n3. Wait\n\n- [x] soil\n- [ ] seeds\n\n"
    "- loose\n\n- list\n\n> A weed is a flower\n> in the *wrong* place.\n>\n> - quoted item\n\n"
    "| name | colour | height |\n|---|:-:|--:|\n| Papaver | red | 60 |\n| \xE6\xBC\xA2\xE5\xAD\x97 "
    "| "
    "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7 | 7 |\n\n"
    "```python\ndef f(a):\n\tif a:\n\t\treturn '**two**'  # not a heading\n```\n\n"
    "1. code in a list:\n\n   ```c\n   int x;\n   ```\n\n2. next\n\n---\n\n"
    "### Small `heading`\ntext right behind it &amp; an entity &#x1b;[31m ~~gone~~\n\n"
    "    indented code\n\n<b>html stays text</b>\n\nlast line";

static void render(struct vl_markdown *m, const char *text, size_t piece, int width)
{
    size_t len = strlen(text);

    vl_markdown_init(m, width);
    for (size_t n = piece; n < len; n += piece)
        vl_markdown_update(m, text, n, false);
    vl_markdown_update(m, text, len, true);
}

static void test_markdown_page_is_golden(void **state)
{
    struct vl_markdown m;
    vl_buf out = VL_BUF_INIT;

    (void)state;
    render(&m, page, strlen(page), 60);
    kit_doc_text(&m.doc, &out);
    kit_golden("markdown.txt", &out);
    vl_buf_fini(&out);
    vl_markdown_fini(&m);
}

static void test_markdown_growing_text_gives_the_same_lines(void **state)
{
    static const size_t pieces[] = {1, 2, 3, 7, 50};
    struct vl_markdown whole, grown;
    vl_buf a = VL_BUF_INIT, b = VL_BUF_INIT;

    (void)state;
    render(&whole, page, strlen(page), 60);
    kit_doc_text(&whole.doc, &a);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        render(&grown, page, pieces[i], 60);
        vl_buf_clear(&b);
        kit_doc_text(&grown.doc, &b);
        assert_string_equal(b.ptr, a.ptr);
        assert_memory_equal(grown.doc.span.styles, whole.doc.span.styles,
                            whole.doc.span.text.len * sizeof(vl_style));
        vl_markdown_fini(&grown);
    }
    vl_markdown_fini(&whole);
    vl_buf_fini(&a);
    vl_buf_fini(&b);
}

static void test_markdown_styles_mark_bold_and_code(void **state)
{
    struct vl_markdown m;
    const char *at;
    size_t i;

    (void)state;
    render(&m, "a **bold** `code` *slant*", 100, 60);
    at = m.doc.span.text.ptr;
    i = (size_t)(strstr(at, "bold") - at);
    assert_true(m.doc.span.styles[i] >> 8 & VL_ATTR_BOLD);
    assert_int_equal(m.doc.span.styles[0] >> 8, 0);
    i = (size_t)(strstr(at, "code") - at);
    assert_int_equal(m.doc.span.styles[i] & 255, VL_ROLE_CODE);
    i = (size_t)(strstr(at, "slant") - at);
    assert_true(m.doc.span.styles[i] >> 8 & VL_ATTR_ITALIC);
    vl_markdown_fini(&m);
}

static void test_markdown_narrow_columns_lose_nothing(void **state)
{
    (void)state;
    for (int width = 1; width < 30; width++) {
        struct vl_markdown m;
        vl_buf out = VL_BUF_INIT;
        size_t letters = 0;

        render(&m,
               "| aa | bb | cc |\n|---|---|---|\n| dddd eeee | ffff | gggg hhhh |\n\n> - wwww\n", 9,
               width);
        kit_doc_text(&m.doc, &out);
        for (size_t i = 0; i < out.len; i++)
            letters += out.ptr[i] >= 'd' && out.ptr[i] <= 'w';
        assert_int_equal(letters, 24);
        vl_buf_fini(&out);
        vl_markdown_fini(&m);
    }
}

static void test_markdown_deep_nesting_keeps_the_words(void **state)
{
    static const char *const nests[] = {"> ", "- ", "> - ", "1. > - "};

    (void)state;
    for (size_t i = 0; i < sizeof(nests) / sizeof(nests[0]); i++) {
        struct vl_markdown m;
        vl_buf text = VL_BUF_INIT;

        for (int k = 0; k < 150; k++)
            vl_buf_puts(&text, nests[i]);
        vl_buf_puts(&text, "deepword\n\nafterword");
        render(&m, text.ptr, 11, 40);
        assert_non_null(strstr(m.doc.span.text.ptr, "deepword"));
        assert_non_null(strstr(m.doc.span.text.ptr, "afterword"));
        vl_markdown_fini(&m);
        vl_buf_fini(&text);
    }
}

/* Seconds to render a text of n lines that comes line by line. */
static double cost(const char *line, size_t n)
{
    vl_buf text = VL_BUF_INIT;
    struct vl_markdown m;
    clock_t begin = clock();
    double took;

    vl_markdown_init(&m, 100);
    for (size_t i = 0; i < n; i++) {
        vl_buf_puts(&text, line);
        vl_markdown_update(&m, text.ptr, text.len, false);
    }
    took = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_true(m.doc.n_lines >= n);
    vl_markdown_fini(&m);
    vl_buf_fini(&text);
    return took;
}

static void test_markdown_long_answers_cost_in_proportion(void **state)
{
    static const char *const lines[] = {"- an item of a list without blank lines\n",
                                        "A paragraph of its own, with *marks*.\n\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        double small = cost(lines[i], 1000), large = cost(lines[i], 8000);

        /* Eight times the text: about 8 times the work, 64 if it grew with the square. */
        assert_true(large < 24 * small + 0.2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_markdown_page_is_golden),
        cmocka_unit_test(test_markdown_growing_text_gives_the_same_lines),
        cmocka_unit_test(test_markdown_styles_mark_bold_and_code),
        cmocka_unit_test(test_markdown_narrow_columns_lose_nothing),
        cmocka_unit_test(test_markdown_deep_nesting_keeps_the_words),
        cmocka_unit_test(test_markdown_long_answers_cost_in_proportion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
