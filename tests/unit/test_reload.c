/* A config read anew: what changes at once, what is named as needing a restart, and that a bad one
 * changes nothing. */
#include "tests/unit/vl_test.h"

#include "host/lib/log.h"
#include "host/server/reload.h"

static void load(vl_config *c, const char *text, size_t n_problems)
{
    static char *const none[] = {NULL};
    vl_problems p = {NULL, 0, 0, false};
    vl_error err = {0};
    assert_int_equal(vl_config_load_text(c, "v.yaml", text, strlen(text), NULL, 0, none, &p, &err),
                     VL_OK);
    assert_int_equal(p.n, n_problems);
    vl_problems_fini(&p);
}

static char logged[4096];
static void sink(void *user, int32_t level, const char *line)
{
    size_t n = strlen(logged);
    (void)user;
    (void)level;
    snprintf(logged + n, sizeof logged - n, "%s\n", line);
}

static vl_status read_text(void *user, vl_config *out, vl_problems *p, vl_error *err)
{
    static char *const none[] = {NULL};
    const char *text = user;
    return vl_config_load_text(out, "v.yaml", text, strlen(text), NULL, 0, none, p, err);
}

#define BASE "model: /m\n"

/* Runs a reload from `text` over an app that began with BASE and a key. */
static bool run(struct app *app, struct reload *r, vl_config *first, const char *text)
{
    static reload_source source;
    vl_error err = {0};
    source = (reload_source){read_text, (void *)(uintptr_t)text};
    load(first, BASE "api_keys: [old]\n", 0);
    *app = (struct app){.config = first, .first_config = first};
    *r = (struct reload){.source = &source};
    assert_int_equal(access_init(&app->access, first, &err), VL_OK);
    reload_apply(app, first);
    logged[0] = 0;
    vl_log_set_sink(sink, NULL);
    bool good = reload_run(r, app);
    vl_log_set_sink(NULL, NULL);
    return good;
}

static void end(struct app *app, struct reload *r, vl_config *first)
{
    access_fini(&app->access);
    reload_fini(r);
    vl_config_fini(first);
}

static void test_live_options_change_at_once(void **state)
{
    (void)state;
    struct app app;
    struct reload r;
    vl_config first;
    assert_true(run(&app, &r, &first,
                    BASE "api_keys: [new, two]\nping_interval: 2s\nchoices_max: 3\njson_depth: "
                         "20\nreasoning_field: both\nmetrics_open: true\n"));
    assert_int_equal(app.access.n_keys, 2);
    assert_string_equal(app.access.keys.ptr, "new");
    assert_true(app.access.metrics_open && app.ping_s == 2.0);
    assert_int_equal(app.limits.choices_max, 3);
    assert_int_equal(app.limits.json_depth, 20);
    assert_int_equal(app.reasoning_field, VL_FIELD_REASONING_BOTH);
    assert_ptr_equal(app.config, &r.config);
    assert_null(strstr(logged, "restart"));
    /* A second time: the first reload's config is let go. */
    assert_true(reload_run(&r, &app));
    end(&app, &r, &first);
}

static void test_fixed_options_are_named(void **state)
{
    (void)state;
    struct app app;
    struct reload r;
    vl_config first;
    assert_true(run(&app, &r, &first, "model: /other\nport: 9\ncontext_tokens: 512\n"));
    assert_non_null(strstr(logged, "need a restart: port model name context_tokens\n"));
    assert_int_equal(app.access.n_keys, 0);
    end(&app, &r, &first);
}

static void test_another_number_of_models_is_named(void **state)
{
    (void)state;
    vl_config a, b;
    vl_buf out = VL_BUF_INIT;
    load(&a, BASE, 0);
    load(&b, "models:\n  - model: /m\n  - model: /n\n", 0);
    reload_differences(&a, &b, &out);
    assert_string_equal(out.ptr, "models");
    vl_buf_clear(&out);
    reload_differences(&a, &a, &out);
    assert_int_equal(out.len, 0);
    vl_buf_fini(&out);
    vl_config_fini(&a);
    vl_config_fini(&b);
}

static void test_bad_config_keeps_the_old(void **state)
{
    (void)state;
    static const char *const bad[] = {BASE "prot: 1\nping_interval: soon\n", "model: [",
                                      BASE "api_keys_file: /nothing/here\n"};
    static const char *const says[] = {"v.yaml:2:1: unknown key 'prot'",
                                       "v.yaml:", "/nothing/here"};
    for (size_t i = 0; i < 3; i++) {
        struct app app;
        struct reload r;
        vl_config first;
        assert_false(run(&app, &r, &first, bad[i]));
        assert_non_null(strstr(logged, says[i]));
        assert_non_null(strstr(logged, "the old config stays"));
        assert_int_equal(app.access.n_keys, 1);
        assert_string_equal(app.access.keys.ptr, "old");
        assert_ptr_equal(app.config, &first);
        end(&app, &r, &first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live_options_change_at_once),
        cmocka_unit_test(test_fixed_options_are_named),
        cmocka_unit_test(test_another_number_of_models_is_named),
        cmocka_unit_test(test_bad_config_keeps_the_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
