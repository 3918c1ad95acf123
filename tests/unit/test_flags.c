/* The command line of vallmo-host. */
#include "tests/unit/vl_test.h"

#include "host/server/flags.h"

static vl_status parse(struct flags *f, vl_error *err, int n, char **args)
{
    char *argv[16] = {"vallmo-host"};
    for (int i = 0; i < n; i++)
        argv[i + 1] = args[i];
    return flags_parse(f, n + 1, argv, err);
}

static void test_flags_become_settings(void **state)
{
    (void)state;
    struct flags f;
    vl_error err = {0};
    char *args[] = {"-c",
                    "v.yaml",
                    "--model",
                    "m",
                    "--port=1",
                    "--ctx",
                    "64",
                    "--set",
                    "qwen35.threads=2=3",
                    "--check-config"};
    static const char *const want[][2] = {
        {"model", "m"}, {"port", "1"}, {"context_tokens", "64"}, {"qwen35.threads", "2=3"}};
    assert_int_equal(parse(&f, &err, 10, args), VL_OK);
    assert_int_equal(f.action, CHECK_CONFIG);
    assert_string_equal(f.file, "v.yaml");
    assert_int_equal(f.n_settings, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(f.settings[i].key, want[i][0]);
        assert_string_equal(f.settings[i].value, want[i][1]);
    }
    flags_fini(&f);
}

static void test_flags_wrong_ones_are_named(void **state)
{
    (void)state;
    static const struct {
        char *args[2];
        int n;
        const char *word;
    } bad[] = {{{"--modle", "x"}, 2, "--model"}, {{"--port"}, 1, "wants a value"},
               {{"--set", "x"}, 2, "KEY=VALUE"}, {{"--set", "=x"}, 2, "KEY=VALUE"},
               {{"stray"}, 1, "stray"},          {{"-c=a", "-c=b"}, 2, "twice"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct flags f;
        vl_error err = {0};
        assert_int_equal(parse(&f, &err, bad[i].n, (char **)bad[i].args), VL_E_INVALID);
        if (!strstr(err.text, bad[i].word))
            fail_msg("'%s' does not say %s", err.text, bad[i].word);
        flags_fini(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_become_settings),
        cmocka_unit_test(test_flags_wrong_ones_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
