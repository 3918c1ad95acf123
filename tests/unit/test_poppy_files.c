/* unit.poppy_files: chats, settings and history on disk, and addresses. */
#include "tests/unit/vl_test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "chat/client.h"
#include "chat/history.h"
#include "chat/session.h"
#include "chat/settings.h"

static char home[] = "/tmp/poppy-test-XXXXXX";

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(home))
        return 1;
    setenv("HOME", home, 1);
    unsetenv("XDG_DATA_HOME");
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("XDG_STATE_HOME");
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", home);
    return system(command);
}

static void put(const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", home, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_session_comes_back_as_it_was(void **state)
{
    struct vl_session a, b;
    struct vl_item *item;
    vl_buf x = VL_BUF_INIT, y = VL_BUF_INIT;
    vl_error err = {0};

    (void)state;
    vl_session_init(&a);
    vl_session_init(&b);
    vl_buf_puts(&a.system, "Be \"brief\".");
    vl_session_add(&a, VL_ITEM_USER, "one\n\xE2\x98\x83", 7);
    item = vl_session_add(&a, VL_ITEM_ASSISTANT, "**two**\x1b[31m", 12);
    vl_item_put_thinking(item, "hm", 2);
    vl_buf_puts(&vl_item_tool(item, 0)->name, "f");
    vl_session_add(&a, VL_ITEM_NOTE, "not saved", 9);
    item = vl_session_add(&a, VL_ITEM_USER, "lost", 4);
    item->failed = true;
    assert_int_equal(vl_session_rename(&a, "garden", &err), VL_OK);
    assert_int_equal(vl_session_load(&b, "garden", &err), VL_OK);
    assert_int_equal(b.n_items, 3);
    assert_string_equal(b.items[1]->text.ptr, "**two**\x1b[31m"); /* as the server sent it */
    assert_string_equal(b.items[1]->shown.ptr, "**two**");        /* what is shown is harmless */
    assert_string_equal(b.items[1]->thinking.ptr, "hm");
    assert_string_equal(b.items[1]->tools[0].name.ptr, "f");
    assert_true(b.items[2]->failed);
    vl_session_messages(&a, "next", 4, &x);
    vl_session_messages(&b, "next", 4, &y);
    assert_string_equal(x.ptr, y.ptr);
    assert_string_equal(x.ptr, "[{\"role\":\"system\",\"content\":\"Be \\\"brief\\\".\"},"
                               "{\"role\":\"user\",\"content\":\"one\\n\xE2\x98\x83\"},"
                               "{\"role\":\"assistant\",\"content\":\"**two**\\u001b[31m\"},"
                               "{\"role\":\"user\",\"content\":\"next\"}]");
    vl_buf_fini(&x);
    vl_buf_fini(&y);
    vl_session_fini(&a);
    vl_session_fini(&b);
}

static void test_session_bad_names_and_files_are_refused(void **state)
{
    struct vl_session s;
    vl_error err = {0};

    (void)state;
    vl_session_init(&s);
    vl_session_add(&s, VL_ITEM_USER, "kept", 4);
    assert_int_equal(vl_session_load(&s, "../x", &err), VL_E_INVALID);
    assert_int_equal(vl_session_load(&s, ".x", &err), VL_E_INVALID);
    assert_int_not_equal(vl_session_load(&s, "absent", &err), VL_OK);
    assert_int_equal(vl_session_rename(&s, "first", &err), VL_OK);
    assert_int_equal(vl_session_rename(&s, "garden", &err), VL_E_INVALID); /* another one's */
    assert_string_equal(s.name.ptr, "first");
    put(".local/share/poppy/chats/bad.json", "{\"messages\": [{\"role\": \"user\"}]}");
    assert_int_equal(vl_session_load(&s, "bad", &err), VL_E_FORMAT);
    assert_non_null(strstr(err.text, "bad.json"));
    put(".local/share/poppy/chats/bad.json", "{\"messages\": ");
    assert_int_equal(vl_session_load(&s, "bad", &err), VL_E_FORMAT);
    assert_int_equal(s.n_items, 1); /* untouched */
    vl_session_fini(&s);
}

static void test_session_continue_takes_the_newest_with_a_turn(void **state)
{
    struct vl_session s;
    char **names;
    size_t n;
    vl_error err = {0};

    (void)state;
    vl_session_init(&s);
    vl_session_add(&s, VL_ITEM_USER, "old", 3);
    assert_int_equal(vl_session_rename(&s, "old", &err), VL_OK);
    vl_session_fini(&s);
    usleep(20000);
    vl_session_add(&s, VL_ITEM_USER, "new", 3);
    assert_int_equal(vl_session_save(&s, &err), VL_OK); /* a name from the time */
    vl_session_fini(&s);
    usleep(20000);
    put(".local/share/poppy/chats/empty.json", "{\"messages\": []}");
    assert_int_equal(vl_session_continue(&s, &err), VL_OK);
    assert_string_equal(s.items[0]->text.ptr, "new");
    assert_int_equal(vl_session_names(&names, &n, &err), VL_OK);
    assert_string_equal(names[0], "empty");
    vl_names_free(names, n);
    vl_session_fini(&s);
}

static void test_settings_file_has_only_changes(void **state)
{
    struct vl_settings a, b;
    vl_buf file = VL_BUF_INIT;
    vl_error err = {0};
    char path[256];

    (void)state;
    vl_settings_init(&a);
    vl_settings_init(&b);
    assert_int_equal(vl_settings_load(&a, &err), VL_OK); /* there is none yet */
    a.fade = 0;
    assert_int_equal(vl_settings_param(&a, "temperature", "0.25", &err), VL_OK);
    assert_int_equal(vl_settings_param(&a, "reasoning_effort", "low", &err), VL_OK);
    assert_int_equal(vl_settings_param(&a, "top_p", "0.9", &err), VL_OK);
    assert_int_equal(vl_settings_param(&a, "top_p", "", &err), VL_OK);
    assert_int_equal(vl_settings_param(&a, "temprature", "1", &err), VL_E_NOT_FOUND);
    assert_int_equal(vl_settings_param(&a, "min_p", "much", &err), VL_E_INVALID);
    assert_int_equal(vl_settings_save(&a, &err), VL_OK);
    snprintf(path, sizeof(path), "%s/.config/poppy/settings.json", home);
    assert_int_equal(vl_file_read(path, 1 << 20, &file, &err), VL_OK);
    assert_string_equal(file.ptr, "{\n  \"fade\": 0,\n  \"set\": {\"temperature\": 0.25, "
                                  "\"reasoning_effort\": \"low\"}\n}\n");
    assert_int_equal(vl_settings_load(&b, &err), VL_OK);
    assert_int_equal(b.fade, 0);
    assert_int_equal(b.n_params, 2);
    assert_string_equal(b.params[1].value.ptr, "\"low\"");
    put(".config/poppy/settings.json", "{\"fade\": }");
    assert_int_equal(vl_settings_load(&b, &err), VL_E_FORMAT);
    assert_non_null(strstr(err.text, "line 1"));
    vl_buf_fini(&file);
    vl_settings_fini(&a);
    vl_settings_fini(&b);
}

static void test_history_outlives_the_program(void **state)
{
    struct vl_history a = {0}, b = {0};
    vl_error err = {0};

    (void)state;
    assert_int_equal(vl_history_add(&a, "one\ntwo", 7, &err), VL_OK);
    assert_int_equal(vl_history_add(&a, "three", 5, &err), VL_OK);
    assert_int_equal(vl_history_add(&a, "three", 5, &err), VL_OK); /* not twice */
    assert_int_equal(vl_history_load(&b, &err), VL_OK);
    assert_int_equal(b.n, 2);
    assert_string_equal(b.entries[0], "one\ntwo");
    assert_int_equal(vl_history_find(&b, 2, "o", 1, false), 0);
    assert_int_equal(vl_history_find(&b, 2, "hre", 3, true), 1);
    assert_int_equal(vl_history_find(&b, 2, "hre", 3, false), -1);
    vl_history_fini(&a);
    vl_history_fini(&b);
}

static void test_url_all_forms_are_one(void **state)
{
    static const char *const same[] = {"http://h:1",      "http://h:1/", "http://h:1/v1",
                                       "http://h:1/v1//", "h:1",         "h:1/v1"};
    static const char *const wrong[] = {"",          "ftp://h", "http://",
                                        "http:///x", "a b",     "http://h\r\nX: y"};
    vl_buf out = VL_BUF_INIT;
    vl_error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        assert_int_equal(vl_url_normalise(&out, same[i], &err), VL_OK);
        assert_string_equal(out.ptr, "http://h:1/v1");
    }
    assert_int_equal(vl_url_normalise(&out, "https://api.x.org/openai/v4", &err), VL_OK);
    assert_string_equal(out.ptr, "https://api.x.org/openai/v4");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(vl_url_normalise(&out, wrong[i], &err), VL_E_INVALID);
    vl_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session_comes_back_as_it_was),
        cmocka_unit_test(test_session_bad_names_and_files_are_refused),
        cmocka_unit_test(test_session_continue_takes_the_newest_with_a_turn),
        cmocka_unit_test(test_settings_file_has_only_changes),
        cmocka_unit_test(test_history_outlives_the_program),
        cmocka_unit_test(test_url_all_forms_are_one),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
