/* unit.poppy_view: golden screens at several sizes, and the bytes that bring a terminal from one to
 * the next. */
#include "tests/unit/poppy_kit.h"

#include "chat/inline.h"
#include "chat/menu.h"
#include "chat/view.h"

struct stage {
    struct vl_session session;
    struct vl_turn turn;
    struct vl_settings settings;
    struct vl_input input;
    struct vl_menu menu;
    struct vl_view view;
    struct vl_screen screen;
    struct vl_face face;
};

static struct stage s;

static int setup(void **state)
{
    static const char answer[] =
        "A **short** answer:\n\n- one\n- two\n\n```c\nint main(void);\n```\n\nThe end of it, "
        "which is long enough to be wrapped on a narrow screen.";
    struct vl_item *a;

    (void)state;
    memset(&s, 0, sizeof(s));
    vl_session_init(&s.session);
    vl_settings_init(&s.settings);
    vl_turn_init(&s.turn, NULL);
    vl_input_init(&s.input, NULL);
    vl_view_init(&s.view);
    vl_screen_init(&s.screen, VL_COLOUR_TRUE);
    vl_session_add(&s.session, VL_ITEM_USER, "How?", 4);
    a = vl_session_add(&s.session, VL_ITEM_ASSISTANT, answer, sizeof(answer) - 1);
    vl_item_put_thinking(a, "Let me see.", 11);
    a->thinking_s = 1.25;
    vl_item_close(a);
    vl_buf_puts(&s.turn.model, "test-model");
    s.turn.context_tokens = 8192;
    s.turn.stats.began = 1;
    s.turn.stats.prompt_tokens = 143;
    s.turn.stats.answer_tokens = 21;
    s.turn.stats.cached_tokens = 87;
    s.turn.stats.tokens_per_s = 40.04;
    memcpy(s.turn.stats.finish, "stop", 5);
    vl_input_set(&s.input, "next question", 13);
    s.face = (struct vl_face){.session = &s.session,
                              .turn = &s.turn,
                              .input = &s.input,
                              .theme = vl_theme_default(true),
                              .depth = VL_COLOUR_TRUE,
                              .thoughts = VL_THOUGHTS_FOLDED,
                              .cols = 80,
                              .rows = 24,
                              .fade = 0,
                              .now = 5};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    vl_session_fini(&s.session);
    vl_turn_fini(&s.turn);
    vl_settings_fini(&s.settings);
    vl_input_fini(&s.input);
    vl_menu_fini(&s.menu);
    vl_view_fini(&s.view);
    vl_screen_fini(&s.screen);
    return 0;
}

static void draw(int cols, int rows)
{
    assert_true(vl_screen_resize(&s.screen, cols, rows));
    vl_view_draw(&s.view, &s.face, &s.screen);
}

static void golden(const char *name, int cols, int rows)
{
    vl_buf text = VL_BUF_INIT;

    draw(cols, rows);
    kit_screen_text(&s.screen, &text);
    kit_golden(name, &text);
    vl_buf_fini(&text);
}

static void test_view_screens_are_golden(void **state)
{
    (void)state;
    golden("screen-60x24.txt", 60, 24);
    golden("screen-30x12.txt", 30, 12);
    s.face.thoughts = VL_THOUGHTS_SHOWN;
    vl_menu_add(&s.menu, "/theme  colours");
    vl_menu_add(&s.menu, "/thinking  thoughts");
    s.face.menu = &s.menu;
    s.face.hint = "a hint";
    golden("screen-menu.txt", 60, 24);
}

static void test_view_any_size_lives(void **state)
{
    (void)state;
    for (int cols = 1; cols < 40; cols++)
        for (int rows = 1; rows < 12; rows++) {
            draw(cols, rows);
            assert_in_range(s.screen.cursor_x, 0, cols - 1);
            assert_in_range(s.screen.cursor_y, 0, rows - 1);
        }
}

static void test_view_scroll_stays_in_bounds(void **state)
{
    (void)state;
    s.face.scroll = 1000000;
    draw(60, 10);
    assert_int_equal(s.face.scroll, s.view.n_lines - s.view.page);
    s.face.scroll = 0;
    draw(60, 60);
    assert_int_equal(s.face.scroll, 0);
}

static int braille(void)
{
    int n = 0;

    for (int i = 0; i < s.screen.cols * s.screen.rows; i++)
        n += s.screen.next[i].ch > 0x2800 && s.screen.next[i].ch < 0x2900;
    return n;
}

static void test_view_flower_only_where_there_is_room(void **state)
{
    (void)state;
    s.face.fade = 60;
    s.face.bloom = 1;
    draw(100, 40);
    assert_in_range(braille(), 100, 4000);
    draw(63, 40);
    assert_int_equal(braille(), 0);
    draw(100, 15);
    assert_int_equal(braille(), 0);
    s.face.fade = 0;
    draw(100, 40);
    assert_int_equal(braille(), 0);
}

static void test_screen_sends_only_what_changed(void **state)
{
    vl_buf out = VL_BUF_INIT;

    (void)state;
    s.screen.sync = true;
    draw(60, 24);
    vl_screen_flush(&s.screen, &out);
    assert_non_null(strstr(out.ptr, "short"));
    assert_non_null(strstr(out.ptr, "\x1b[?2026h"));
    vl_buf_clear(&out);
    draw(60, 24);
    vl_screen_flush(&s.screen, &out);
    assert_int_equal(out.len, 0);
    vl_input_insert(&s.input, "X", 1);
    draw(60, 24);
    vl_screen_flush(&s.screen, &out);
    assert_in_range(out.len, 1, 80);
    assert_non_null(strchr(out.ptr, 'X'));
    assert_null(strstr(out.ptr, "2J"));
    assert_string_equal(out.ptr + out.len - 8, "\x1b[?2026l");
    vl_buf_fini(&out);
}

static void test_screen_depth_decides_the_colours(void **state)
{
    static const struct {
        enum vl_colour depth;
        const char *has, *lacks;
    } depths[] = {{VL_COLOUR_TRUE, "38;2;", "38;5;"},
                  {VL_COLOUR_256, "38;5;", "38;2;"},
                  {VL_COLOUR_16, ";91m", "38;"},
                  {VL_COLOUR_NONE, "\x1b[0;1m", "38;"}};

    (void)state;
    vl_session_add(&s.session, VL_ITEM_ERROR, "no", 2);
    for (size_t i = 0; i < 4; i++) {
        vl_buf out = VL_BUF_INIT;

        s.face.depth = s.screen.depth = depths[i].depth;
        draw(60, 24);
        s.screen.unknown = true;
        vl_screen_flush(&s.screen, &out);
        assert_non_null(strstr(out.ptr, depths[i].has));
        assert_null(strstr(out.ptr, depths[i].lacks));
        vl_buf_fini(&out);
    }
}

static void test_inline_final_lines_come_once(void **state)
{
    struct vl_inline *v = vl_inline_create(false);
    struct vl_item *a;
    vl_buf out = VL_BUF_INIT;
    int n = 0;

    (void)state;
    a = vl_session_add(&s.session, VL_ITEM_ASSISTANT, "", 0);
    a->open = true;
    for (int i = 0; i < 40; i++) {
        vl_item_put_text(a, "marigold paragraph\n\n", 20);
        vl_inline_frame(v, &s.face, &out);
    }
    vl_item_close(a);
    vl_inline_end(v, &s.face, &out);
    for (const char *p = out.ptr; (p = strstr(p, "The end of it")); p++)
        n++;
    assert_int_equal(n, 1);
    n = 0;
    for (const char *p = out.ptr; (p = strstr(p, "marigold")); p++)
        n++;
    assert_in_range(n, 40, 120); /* live ones are drawn again, final ones are not */
    vl_inline_destroy(v);
    vl_buf_fini(&out);
}

/* A terminal of endless height that wraps nothing: enough for what the inline view sends. */
static char grid[400][128];

static void feed(const char *p, size_t len)
{
    static int x, y;
    const char *end = p + len;

    while (p < end) {
        if (p[0] == 0x1B && p[1] == '[') {
            char *fin;
            long n = strtol(p + 2 + (p[2] == '?'), &fin, 10);

            while (*fin == ';')
                strtol(fin + 1, &fin, 10);
            if (*fin == 'A')
                y -= n ? (int)n : 1;
            else if (*fin == 'C')
                x += (int)n;
            else if (*fin == 'K')
                memset(grid[y] + x, ' ', sizeof(grid[y]) - (size_t)x);
            else if (*fin == 'J')
                for (int k = y; k < 400; k++)
                    memset(grid[k] + (k == y ? x : 0), ' ',
                           sizeof(grid[k]) - (size_t)(k == y ? x : 0));
            assert_true(y >= 0); /* never above its own beginning */
            p = fin + 1;
        } else if (*p == '\r') {
            x = 0;
            p++;
        } else if (*p == '\n') {
            y++;
            assert_true(y < 400);
            p++;
        } else {
            if (x < 127 && ((unsigned char)*p & 0xC0) != 0x80)
                grid[y][x++] = *p;
            p++;
        }
    }
}

static void test_inline_width_changes_lose_nothing(void **state)
{
    static const int sizes[][2] = {{80, 24}, {40, 12}, {100, 30}, {24, 8},
                                   {80, 24}, {50, 10}, {90, 24}};
    struct vl_inline *v = vl_inline_create(false);
    struct vl_item *a;
    vl_buf out = VL_BUF_INIT;
    char word[16];

    (void)state;
    memset(grid, ' ', sizeof(grid));
    a = vl_session_add(&s.session, VL_ITEM_ASSISTANT, "", 0);
    a->open = true;
    for (int i = 0; i < 150; i++) {
        snprintf(word, sizeof(word), "item%03d ", i);
        vl_item_put_text(a, word, strlen(word));
        s.face.cols = sizes[i / 22][0];
        s.face.rows = sizes[i / 22][1];
        vl_buf_clear(&out);
        vl_inline_frame(v, &s.face, &out);
        if (out.len)
            feed(out.ptr, out.len);
    }
    vl_item_close(a);
    vl_buf_clear(&out);
    vl_inline_end(v, &s.face, &out);
    feed(out.ptr, out.len);
    for (int i = 0; i < 150; i++) {
        snprintf(word, sizeof(word), "item%03d", i);
        assert_non_null(memmem(grid, sizeof(grid), word, 7));
    }
    vl_inline_destroy(v);
    vl_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_view_screens_are_golden, setup, teardown),
        cmocka_unit_test_setup_teardown(test_view_any_size_lives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_view_scroll_stays_in_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_view_flower_only_where_there_is_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_screen_sends_only_what_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_screen_depth_decides_the_colours, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inline_width_changes_lose_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inline_final_lines_come_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
