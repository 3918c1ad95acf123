/* Tests of the registry on the small plugins: what is taken, what is refused and with which words.
 */
#include "vl_test.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/lib/log.h"
#include "host/lib/options.h"
#include "host/lib/registry.h"

#define SMALL VL_BUILD_DIR "/tests/plugins/small/"

static char dir[256]; /* a folder of our own, 0755 */

static int set_up(void **state)
{
    (void)state;
    vl_log_set_level(VL_LOG_ERROR);
    umask(022);
    snprintf(dir, sizeof dir, VL_BUILD_DIR "/tests/registry_XXXXXX");
    return mkdtemp(dir) == NULL || chmod(dir, 0755) != 0;
}

static int tear_down(void **state)
{
    char command[320];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static void copy_plugin(const char *name, const char *to)
{
    char command[1024];

    snprintf(command, sizeof command, "cp '" SMALL "%s.so' '%s/%s'", name, dir, to);
    assert_int_equal(system(command), 0);
}

static vl_registry *make(void)
{
    vl_registry *r = NULL;

    assert_int_equal(vl_registry_create(&r, NULL), VL_OK);
    return r;
}

/* Loading must fail with this status; the text has the path and all the words. */
static void check_refused(const char *name, vl_status want, const char *const *words)
{
    vl_registry *r = make();
    vl_error err = {0};
    char path[512];

    snprintf(path, sizeof path, SMALL "%s.so", name);
    assert_int_equal(vl_registry_load(r, path, &err), want);
    assert_non_null(strstr(err.text, path));
    for (; *words != NULL; words++) {
        if (strstr(err.text, *words) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", err.text, *words);
    }
    assert_int_equal(vl_registry_count(r), 1);
    assert_string_equal(vl_registry_at(r, 0)->refusal, err.text);
    assert_null(vl_registry_at(r, 0)->plugin);
    assert_null(vl_registry_find(r, name));
    vl_registry_destroy(r);
}

static void test_load_good_is_listed_and_started(void **state)
{
    vl_registry *r = make();
    vl_error err = {0};
    vl_instance *self = NULL;
    vl_buf out = VL_BUF_INIT;
    (void)state;

    assert_int_equal(vl_registry_load(r, SMALL "good.so", &err), VL_OK);
    const vl_registry_entry *e = vl_registry_find(r, "good");
    assert_non_null(e);
    assert_string_equal(e->kind, "loader");
    assert_non_null(e->loader);
    assert_null(e->model);
    assert_int_equal(vl_registry_start(r, e, &self, &err), VL_OK);
    vl_registry_print(r, &out);
    assert_non_null(strstr(out.ptr, "loader"));
    assert_non_null(strstr(out.ptr, "7.5"));
    assert_non_null(strstr(out.ptr, "1.0"));
    assert_non_null(strstr(out.ptr, SMALL "good.so"));
    vl_buf_fini(&out);
    vl_registry_destroy(r);
    /* Still mapped: a good init is for ever. */
    void *again = dlopen(SMALL "good.so", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(again);
    dlclose(again);
}

static void test_load_newer_minor_is_good(void **state)
{
    vl_registry *r = make();
    (void)state;

    assert_int_equal(vl_registry_load(r, SMALL "newer_minor.so", NULL), VL_OK);
    assert_non_null(vl_registry_find(r, "newer_minor"));
    vl_registry_destroy(r);
}

static void test_load_wrong_ones_are_refused_with_both_values(void **state)
{
    (void)state;
    check_refused("wrong_major", VL_E_ABI, (const char *const[]){"2.3", "1.0", NULL});
    check_refused("short_table", VL_E_ABI,
                  (const char *const[]){"vl.loader/1", "40 bytes", "at least 120", NULL});
    check_refused("short_head", VL_E_ABI,
                  (const char *const[]){"vl_plugin", "24 bytes", "at least", NULL});
    check_refused("null_member", VL_E_ABI,
                  (const char *const[]){"vl.loader/1", "data is NULL", NULL});
    check_refused("no_kind", VL_E_ABI, (const char *const[]){"vl.loader/1", "vl.model/1", NULL});
    check_refused("no_entry", VL_E_ABI, (const char *const[]){"vl_plugin_entry", NULL});
}

static void test_start_init_fails_is_refused_and_unmapped(void **state)
{
    vl_registry *r = make();
    vl_error err = {0};
    vl_instance *self = NULL;
    (void)state;

    assert_int_equal(vl_registry_load(r, SMALL "init_fails.so", &err), VL_OK);
    const vl_registry_entry *e = vl_registry_find(r, "init_fails");
    assert_int_equal(vl_registry_start(r, e, &self, &err), VL_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, SMALL "init_fails.so"));
    assert_non_null(strstr(err.text, "no abacus"));
    assert_null(vl_registry_find(r, "init_fails"));
    assert_non_null(e->refusal);
    assert_int_equal(vl_registry_start(r, e, &self, &err), VL_E_STATE);
    vl_registry_destroy(r);
}

static void test_load_no_library_is_refused(void **state)
{
    vl_registry *r = make();
    vl_error err = {0};
    char path[512];
    (void)state;

    snprintf(path, sizeof path, "%s/text.so", dir);
    FILE *f = fopen(path, "w");
    fputs("this is no library\n", f);
    fclose(f);
    assert_int_equal(vl_registry_load(r, path, &err), VL_E_FORMAT);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "not a loadable library"));
    assert_int_equal(vl_registry_load(r, "relative/good.so", &err), VL_E_INVALID);
    vl_registry_destroy(r);
}

static void test_load_writable_by_all_is_refused(void **state)
{
    vl_registry *r = make();
    vl_error err = {0};
    char path[512];
    (void)state;

    copy_plugin("good", "open.so");
    snprintf(path, sizeof path, "%s/open.so", dir);
    chmod(path, 0757);
    assert_int_equal(vl_registry_load(r, path, &err), VL_E_INVALID);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "0757"));
    vl_registry_destroy(r);
    r = make();
    chmod(path, 0755);
    chmod(dir, 0777);
    assert_int_equal(vl_registry_load(r, path, &err), VL_E_INVALID);
    assert_non_null(strstr(err.text, "folder"));
    assert_int_equal(vl_registry_scan(r, dir, &err), VL_E_INVALID);
    vl_registry_destroy(r);
}

static void test_scan_folder_takes_good_and_lists_refused(void **state)
{
    vl_registry *r = make();
    vl_error err = {0};
    char path[512];
    (void)state;

    copy_plugin("good", "b.so");
    copy_plugin("wrong_major", "c.so");
    copy_plugin("newer_minor", "not_a_plugin.txt");
    copy_plugin("newer_minor", ".hidden.so");
    copy_plugin("good", "z_twin.so");
    assert_int_equal(vl_registry_scan(r, dir, &err), VL_OK);
    assert_int_equal(vl_registry_count(r), 3);
    snprintf(path, sizeof path, "%s/b.so", dir);
    assert_string_equal(vl_registry_find(r, "good")->path, path);
    assert_non_null(strstr(vl_registry_at(r, 1)->refusal, "2.3"));
    /* Of two with one id the first is kept, and the refusal names both. */
    assert_non_null(strstr(vl_registry_at(r, 2)->refusal, path));
    assert_non_null(strstr(vl_registry_at(r, 2)->refusal, "z_twin.so"));
    assert_int_equal(vl_registry_scan(r, dir, &err), VL_OK); /* again: nothing new */
    assert_int_equal(vl_registry_count(r), 3);
    vl_registry_destroy(r);
}

static void test_scan_missing_and_relative_are_errors(void **state)
{
    vl_registry *r = make();
    vl_error err = {0};
    char path[512];
    (void)state;

    snprintf(path, sizeof path, "%s/nowhere", dir);
    assert_int_equal(vl_registry_scan(r, path, &err), VL_E_NOT_FOUND);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(vl_registry_scan(r, "plugins", &err), VL_E_INVALID);
    vl_registry_destroy(r);
}

/* ---- option values ---- */

static const vl_option table[] = {
    {"threads", VL_OPT_INT, 0, "2", 1, 64, NULL, ""},
    {"ratio", VL_OPT_FLOAT, 0, "0.5", 0, 1, NULL, ""},
    {"form", VL_OPT_ENUM, 0, "auto", 0, 0, "auto|scalar|avx2", ""},
    {"cache", VL_OPT_BYTES, 0, "64MiB", 0, 0, NULL, ""},
    {"wait", VL_OPT_DURATION, 0, "30s", 0, 0, NULL, ""},
    {"fast", VL_OPT_BOOL, 0, "true", 0, 0, NULL, ""},
    {"names", VL_OPT_LIST, 0, "a, bc", 0, 0, NULL, ""},
    {"note", VL_OPT_STRING, 0, NULL, 0, 0, NULL, ""},
};
enum { N_TABLE = sizeof table / sizeof table[0] };

static void test_options_defaults_and_settings_are_read(void **state)
{
    struct vl_option_set set;
    const char *settings[] = {"threads=8",  "form=avx2", "cache=1.5GiB",
                              "wait=250ms", "fast=off",  "note=x=y"};
    (void)state;

    assert_int_equal(vl_option_set_init(&set, table, N_TABLE, NULL, 0, NULL), VL_OK);
    const vl_option_value *v = set.values.values;
    assert_int_equal(v[0].number, 2);
    assert_false(v[0].is_set);
    assert_true(v[1].real == 0.5);
    assert_int_equal(v[2].number, 0);
    assert_int_equal(v[3].number, 64 << 20);
    assert_int_equal(v[4].number, 30000);
    assert_int_equal(v[5].number, 1);
    assert_int_equal(v[6].text_len, 5);
    assert_memory_equal(v[6].text, "a\0bc", 5);
    assert_null(v[7].text);
    vl_option_set_fini(&set);
    assert_int_equal(vl_option_set_init(&set, table, N_TABLE, settings, 6, NULL), VL_OK);
    v = set.values.values;
    assert_int_equal(v[0].number, 8);
    assert_true(v[0].is_set);
    assert_int_equal(v[2].number, 2);
    assert_int_equal(v[3].number, (int64_t)3 << 29);
    assert_int_equal(v[4].number, 250);
    assert_int_equal(v[5].number, 0);
    assert_string_equal(v[7].text, "x=y");
    vl_option_set_fini(&set);
}

static void test_options_wrong_settings_say_what_is_wanted(void **state)
{
    static const char *const bad[][2] = {
        {"threads=65", "1 to 64"},
        {"threads=two", "whole number"},
        {"threads= 3", "whole number"},
        {"ratio=nan", "a number"},
        {"form=fast", "auto|scalar|avx2"},
        {"cache=-1", "size"},
        {"cache=9XB", "size"},
        {"wait=1y", "duration"},
        {"fast=maybe", "true or false"},
        {"thread=3", "threads"},
        {"nothing_like_it=3", "no such option"},
        {"threads", "name=value"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct vl_option_set set;
        vl_error err = {0};
        assert_int_equal(vl_option_set_init(&set, table, N_TABLE, &bad[i][0], 1, &err),
                         VL_E_INVALID);
        if (strstr(err.text, bad[i][1]) == NULL)
            fail_msg("%s: \"%s\" lacks \"%s\"", bad[i][0], err.text, bad[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_load_good_is_listed_and_started, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_load_newer_minor_is_good, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_load_wrong_ones_are_refused_with_both_values, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_start_init_fails_is_refused_and_unmapped, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_load_no_library_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_load_writable_by_all_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scan_folder_takes_good_and_lists_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_scan_missing_and_relative_are_errors, set_up,
                                        tear_down),
        cmocka_unit_test(test_options_defaults_and_settings_are_read),
        cmocka_unit_test(test_options_wrong_settings_say_what_is_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
