/* unit.poppy_torture: each allocation in turn fails while a dialogue is built, drawn and saved.
 * What must hold: nothing crashes, nothing leaks (the sanitizer build looks), and a later try
 * works. */
#include "tests/unit/vl_test.h"

#include "chat/client.h"
#include "chat/inline.h"
#include "chat/view.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static long fail_at = -1; /* counts down; the allocation at 0 fails */

static bool fails(void)
{
    return fail_at >= 0 && fail_at-- == 0;
}

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

static const char answer[] = "# Head\n\nA **bold** word, `code`, [link](http://x.org).\n\n- one\n- "
                             "two\n\n| a | b |\n|---|---|\n| 1 | "
                             "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 |\n\n```c\nint x; /* "
                             "note */\n```\n\nThe end \x1b]0;t\x07.";

/* A dialogue through all that shows it; false if the screen could not be made. */
static bool whole_way(void)
{
    struct vl_session session;
    struct vl_turn turn;
    struct vl_input input;
    struct vl_view view;
    struct vl_screen screen;
    struct vl_inline *rows = NULL;
    struct vl_face face;
    vl_buf out = VL_BUF_INIT, body = VL_BUF_INIT;
    struct vl_item *item;
    bool ok;

    memset(&turn, 0, sizeof(turn));
    vl_session_init(&session);
    vl_input_init(&input, NULL);
    vl_view_init(&view);
    vl_screen_init(&screen, VL_COLOUR_TRUE);
    vl_buf_puts(&turn.model, "m");
    vl_session_add(&session, VL_ITEM_USER, "question", 8);
    item = vl_session_add(&session, VL_ITEM_ASSISTANT, "", 0);
    if (item) {
        struct vl_tool_call *call = vl_item_tool(item, 1);

        item->open = true;
        if (call)
            vl_buf_puts(&call->name, "f");
        vl_item_put_thinking(item, "hm", 2);
        for (size_t i = 0; i < sizeof(answer) - 1; i += 50)
            vl_item_put_text(item, answer + i,
                             sizeof(answer) - 1 - i < 50 ? sizeof(answer) - 1 - i : 50);
    }
    vl_input_insert(&input, "typed\rtext", 10);
    face = (struct vl_face){.session = &session,
                            .turn = &turn,
                            .input = &input,
                            .theme = vl_theme_default(true),
                            .depth = VL_COLOUR_TRUE,
                            .thoughts = VL_THOUGHTS_SHOWN,
                            .fade = 60,
                            .bloom = 1,
                            .now = 1};
    ok = vl_screen_resize(&screen, 80, 24);
    if (ok) {
        vl_view_draw(&view, &face, &screen);
        vl_screen_flush(&screen, &out);
    }
    if (item)
        vl_item_close(item);
    rows = vl_inline_create(true);
    if (rows) {
        vl_inline_frame(rows, &face, &out);
        vl_inline_end(rows, &face, &out);
    }
    vl_view_print(&face, 80, &out);
    vl_session_messages(&session, "next", 4, &body);
    vl_inline_destroy(rows);
    vl_buf_fini(&out);
    vl_buf_fini(&body);
    vl_buf_fini(&turn.model);
    vl_session_fini(&session);
    vl_input_fini(&input);
    vl_view_fini(&view);
    vl_screen_fini(&screen);
    return ok;
}

static void test_torture_every_allocation_may_fail(void **state)
{
    long n = 0;

    (void)state;
    for (;; n++) {
        fail_at = n;
        whole_way();
        if (fail_at >= 0) /* it was never reached: all have failed once */
            break;
    }
    fail_at = -1;
    assert_true(n > 100);
    assert_true(whole_way());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_torture_every_allocation_may_fail)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
