/* unit.poppy_input: the decoder of keys and the line editor, fed with bytes as a terminal sends
 * them. */
#include "tests/unit/vl_test.h"

#include "chat/input.h"
#include "chat/width.h"

static struct vl_keys keys;
static struct vl_input in;
static struct vl_history history;
static char *entries[] = {(char *)"plant an acacia", (char *)"prune the quince", (char *)"water it",
                          (char *)"prune the medlar"};

static int setup(void **state)
{
    (void)state;
    history = (struct vl_history){entries, 4, 4};
    vl_keys_init(&keys);
    vl_input_init(&in, &history);
    in.width = 40;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    vl_keys_fini(&keys);
    vl_input_fini(&in);
    return 0;
}

/* Feeds bytes one at a time; returns the last result. */
static enum vl_input_result type(const char *bytes)
{
    enum vl_input_result r = VL_INPUT_UNUSED;
    struct vl_key_event e;

    for (; *bytes; bytes++) {
        vl_keys_feed(&keys, bytes, 1);
        while (vl_keys_next(&keys, &e, false))
            r = vl_input_key(&in, &e);
    }
    while (vl_keys_pending(&keys) && vl_keys_next(&keys, &e, true))
        r = vl_input_key(&in, &e);
    return r;
}

static void text_is(const char *want)
{
    assert_string_equal(in.text.ptr ? in.text.ptr : "", want);
}

static void key_is(const char *bytes, enum vl_key key, int mods)
{
    struct vl_key_event e = {0};

    vl_keys_feed(&keys, bytes, strlen(bytes));
    assert_true(vl_keys_next(&keys, &e, true));
    assert_int_equal(e.key, key);
    assert_int_equal(e.mods, mods);
    assert_false(vl_keys_next(&keys, &e, true));
}

static void test_keys_codings_are_known(void **state)
{
    (void)state;
    key_is("\x1b[A", VL_KEY_UP, 0);
    key_is("\x1bOA", VL_KEY_UP, 0);
    key_is("\x1b[1;5D", VL_KEY_LEFT, VL_MOD_CTRL);
    key_is("\x1b[3~", VL_KEY_DELETE, 0);
    key_is("\x1b[13;2u", VL_KEY_ENTER, VL_MOD_SHIFT);
    key_is("\x1b[27;2;13~", VL_KEY_ENTER, VL_MOD_SHIFT);
    key_is("\x1b[27u", VL_KEY_ESC, 0);
    key_is("\x1b[99;5u", VL_KEY_CTRL, VL_MOD_CTRL);
    key_is("\x1b", VL_KEY_ESC, 0);
    key_is("\x1b\r", VL_KEY_ENTER, VL_MOD_ALT);
    key_is("\x1b"
           "b",
           VL_KEY_TEXT, VL_MOD_ALT);
    key_is("\x1b[<64;10;5M", VL_KEY_WHEEL_UP, 0);
    key_is("\x1b[?2026;2$y", VL_KEY_REPLY_MODE, 0);
    key_is("\x1b[?62;22c", VL_KEY_REPLY_DEVICE, 0);
    key_is("\x1b]11;rgb:1010/2020/3030\x1b\\", VL_KEY_REPLY_COLOUR, 0);
    key_is("\x1b[12;40R", VL_KEY_REPLY_CURSOR, 0);
}

static void test_keys_unknown_sequences_are_nothing(void **state)
{
    struct vl_key_event e;
    static const char *const strange[] = {"\x1b[<0;10;5M", "\x1b[<0;10;5m",  "\x1b[200000~",
                                          "\x1b[?1;2;3x",  "\x1bPxyz\x1b\\", "\x1b[M abc",
                                          "\xFF",          "\x1b[I"};

    (void)state;
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
        vl_keys_feed(&keys, strange[i], strlen(strange[i]));
        if (i == 5) { /* three bytes of the old mouse coding, then the c */
            assert_true(vl_keys_next(&keys, &e, false));
            assert_string_equal(e.text, "c");
        }
        assert_false(vl_keys_next(&keys, &e, true));
        assert_false(vl_keys_pending(&keys));
    }
}

static void test_input_keys_of_readline_edit(void **state)
{
    (void)state;
    type("one two three\x17"
         "four\x01zero \x05 five\x1b"
         "b\x1b"
         "bX");
    text_is("zero one two Xfour five");
    type("\x1b[H\x1b[3~\x1b[CY\x1b"
         "f\x0b");
    text_is("eYro");
    type("\x15"
         "abc def ghi\x1b[F\x1b[D\x1b[D\x1b[D\x1b[D\x7f\x7f\x7f\x01\x1b"
         "d");
    text_is("  ghi");
    type("\x19"); /* what was cut comes back */
    text_is("abc  ghi");
}

static void test_input_clusters_are_one_step(void **state)
{
    (void)state;
    type("ab\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7"
         "c\x1b[D\x7f");
    text_is("abc");
    assert_int_equal(in.at, 2);
    type("\x15xe\xCC\xA3\xCC\x81\x7f");
    text_is("xc");
}

static void test_input_new_lines_and_enter(void **state)
{
    (void)state;
    assert_int_equal(type("a\nb\x1b\r"
                          "c"),
                     VL_INPUT_DONE);
    text_is("a\nb\nc");
    assert_int_equal(type("\\\r"), VL_INPUT_DONE);
    text_is("a\nb\nc\n");
    assert_int_equal(type("\x1b[13;2u"), VL_INPUT_DONE);
    assert_int_equal(type("d\r"), VL_INPUT_SUBMIT);
    text_is("a\nb\nc\n\nd");
}

static void test_input_paste_is_text(void **state)
{
    (void)state;
    assert_int_equal(type("see: \x1b[200~a\x1b[31mb\x03"
                          "c\rd\r\ne\tf\x1b[201~!"),
                     VL_INPUT_DONE);
    text_is("see: abc\nd\ne\tf!");
}

static void test_input_history_goes_by_prefix(void **state)
{
    (void)state;
    type("prune\x1b[A");
    text_is("prune the medlar");
    type("\x1b[A");
    text_is("prune the quince");
    type("\x1b[A");
    text_is("prune the quince");
    type("\x1b[B\x1b[B");
    text_is("prune");
}

static void test_input_search_finds_parts(void **state)
{
    (void)state;
    type("draft\x12"
         "ru");
    text_is("prune the medlar");
    type("\x12");
    text_is("prune the quince");
    assert_int_equal(type("\r"), VL_INPUT_DONE); /* takes it over, sends nothing */
    assert_int_equal(type("\r"), VL_INPUT_SUBMIT);
    text_is("prune the quince");
    vl_input_set(&in, "draft", 5);
    type("\x12"
         "acac\x1b");
    text_is("draft");
}

static void test_input_rows_hold_the_cursor(void **state)
{
    struct vl_input_row rows[8];
    size_t row;
    int cell;

    (void)state;
    in.width = 4;
    vl_input_set(&in, "abcdefgh", 8);
    assert_int_equal(vl_input_rows(&in, rows, 8, &row, &cell), 3);
    assert_int_equal(row, 2);
    assert_int_equal(cell, 0);
    vl_input_set(&in, "ab\xE6\xBC\xA2\xE5\xAD\x97", 8);
    assert_int_equal(vl_input_rows(&in, rows, 8, &row, &cell), 2);
    assert_int_equal(rows[1].from, 5);
    assert_int_equal(cell, 2);
    vl_input_set(&in, "a\n\nb", 4);
    assert_int_equal(vl_input_rows(&in, rows, 8, &row, &cell), 3);
    assert_int_equal(rows[1].from, rows[1].to);
    type("\x1b[A");
    assert_int_equal(in.at, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keys_codings_are_known, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keys_unknown_sequences_are_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_input_keys_of_readline_edit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_input_clusters_are_one_step, setup, teardown),
        cmocka_unit_test_setup_teardown(test_input_new_lines_and_enter, setup, teardown),
        cmocka_unit_test_setup_teardown(test_input_paste_is_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_input_history_goes_by_prefix, setup, teardown),
        cmocka_unit_test_setup_teardown(test_input_search_finds_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_input_rows_hold_the_cursor, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
