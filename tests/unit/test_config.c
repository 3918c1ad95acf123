/* A config from file, environment and command line: who wins, what is wrong and where; the example
 * that we ship. */
#include "tests/unit/vl_test.h"

#include "base/file.h"
#include "config/config.h"

static const vl_option plugin_options[] = {
    {"cpu_form", VL_OPT_ENUM, 0, "auto", 0, 0, "auto|scalar|avx2", "form"},
    {"threads", VL_OPT_INT, 0, "0", 0, 1024, NULL, "threads"},
};
static const vl_plugin_table tables[] = {{"qwen35", plugin_options, 2},
                                         {"my-plug", plugin_options, 2}};

struct world {
    vl_config c;
    vl_problems p;
    vl_buf text; /* the problems printed */
};

static void load(struct world *w, const char *text, const vl_setting *settings, size_t n,
                 char *const *env)
{
    vl_error err = {0};
    memset(w, 0, sizeof *w);
    assert_int_equal(vl_config_load_text(&w->c, text ? "dir/v.yaml" : NULL, text ? text : "",
                                         text ? strlen(text) : 0, settings, n, env, &w->p, &err),
                     VL_OK);
    assert_int_equal(vl_config_bind_plugins(&w->c, tables, 2, &w->p, &err), VL_OK);
    vl_problems_print(&w->p, &w->text);
}

static void unload(struct world *w)
{
    vl_config_fini(&w->c);
    vl_problems_fini(&w->p);
    vl_buf_fini(&w->text);
}

static int64_t server_number(const struct world *w, int i)
{
    return vl_server_value(&w->c, i)->number;
}

static void test_nothing_given_defaults(void **state)
{
    (void)state;
    struct world w;
    load(&w, NULL, NULL, 0, NULL);
    assert_int_equal(w.p.n, 0);
    assert_int_equal(server_number(&w, VL_S_PORT), 8080);
    assert_string_equal(vl_server_value(&w.c, VL_S_HOST)->text, "127.0.0.1");
    assert_int_equal(w.c.n_models, 0);
    unload(&w);
}

static void test_sources_later_wins(void **state)
{
    (void)state;
    struct world w;
    char *env[] = {"VALLMO_PORT=2", "VALLMO_STEP_TOKENS=64", "VALLMO_QWEN35_THREADS=5",
                   "VALLMO_MY_PLUG_THREADS=6", NULL};
    vl_setting set[] = {{"port", "3", "--port"}, {"qwen35.cpu_form", "scalar", "--set"}};
    const char *file = "port: 1\nhost: ::1\nmodel: m\nstep_tokens: 32\nplugins:\n  qwen35: "
                       "{threads: 4, cpu_form: avx2}\n";
    load(&w, file, set, 2, env);
    if (w.p.n)
        fail_msg("%s", w.text.ptr);
    assert_int_equal(server_number(&w, VL_S_PORT), 3);
    assert_string_equal(vl_server_value(&w.c, VL_S_HOST)->text, "::1");
    assert_int_equal(w.c.n_models, 1);
    assert_int_equal(vl_model_value(&w.c.models[0], VL_M_STEP_TOKENS)->number, 64);
    const vl_option_values *v = vl_config_plugin(&w.c, 0, "qwen35");
    assert_int_equal(v->n_values, 2);
    assert_int_equal(v->values[0].number, 1);
    assert_int_equal(v->values[1].number, 5);
    assert_int_equal(vl_config_plugin(&w.c, 0, "my-plug")->values[1].number, 6);
    unload(&w);
}

static void test_models_own_keys_over_shared_ones(void **state)
{
    (void)state;
    struct world w;
    load(&w,
         "context_tokens: 1024\nmodels:\n- model: a/one/\n  max_sequences: 2\n- model: /b/two\n  "
         "name: zwei\n"
         "  context_tokens: 2048\n  plugins: {qwen35: {threads: 9}}\nplugins: {qwen35: {threads: "
         "1}}\n",
         NULL, 0, NULL);
    if (w.p.n)
        fail_msg("%s", w.text.ptr);
    assert_int_equal(w.c.n_models, 2);
    assert_string_equal(vl_model_value(&w.c.models[0], VL_M_MODEL)->text, "dir/a/one/");
    assert_string_equal(vl_model_value(&w.c.models[0], VL_M_NAME)->text, "one");
    assert_int_equal(vl_model_value(&w.c.models[0], VL_M_CONTEXT_TOKENS)->number, 1024);
    assert_int_equal(vl_model_value(&w.c.models[0], VL_M_MAX_SEQUENCES)->number, 2);
    assert_string_equal(vl_model_value(&w.c.models[1], VL_M_MODEL)->text, "/b/two");
    assert_string_equal(vl_model_value(&w.c.models[1], VL_M_NAME)->text, "zwei");
    assert_int_equal(vl_model_value(&w.c.models[1], VL_M_CONTEXT_TOKENS)->number, 2048);
    assert_int_equal(vl_config_plugin(&w.c, 0, "qwen35")->values[1].number, 1);
    assert_int_equal(vl_config_plugin(&w.c, 1, "qwen35")->values[1].number, 9);
    unload(&w);
}

static void test_model_flag_replaces_the_list(void **state)
{
    (void)state;
    struct world w;
    vl_setting set[] = {{"context_tokens", "512", "--ctx"}, {"model", "here", "--model"}};
    char *env[] = {"VALLMO_MAX_SEQUENCES=3", "VALLMO_CONTEXT_TOKENS=99", "VALLMO_MODEL=there",
                   NULL};
    load(&w, "models: [{model: a}, {model: b}]\n", set, 2, env);
    assert_int_equal(w.p.n, 0);
    assert_int_equal(vl_model_value(&w.c.models[0], VL_M_MAX_SEQUENCES)->number, 3);
    assert_int_equal(w.c.n_models, 1);
    assert_string_equal(vl_model_value(&w.c.models[0], VL_M_MODEL)->text, "here");
    assert_int_equal(vl_model_value(&w.c.models[0], VL_M_CONTEXT_TOKENS)->number, 512);
    unload(&w);
}

static void test_problems_all_at_once_with_places(void **state)
{
    (void)state;
    struct world w;
    char *env[] = {"VALLMO_IDLE_TIMEOUT=soon", NULL};
    vl_setting set[] = {
        {"prot", "1", "--set"}, {"qwen53.threads", "1", "--set"}, {"qwen35.treads", "1", "--set"}};
    load(&w,
         "port: 99999\nhots: x\nmodels:\n  - context_token: 3\n    model: m\n  - name: no path\n"
         "plugins:\n  qwen35:\n    thread: 1\n    cpu_form: sse\n  gwen35: {}\nbody_max_bytes: "
         "[1]\n",
         set, 3, env);
    static const char *const lines[] = {
        "dir/v.yaml:1:7: port: 99999 is out of range, want 0 to 65535\n",
        "dir/v.yaml:2:1: unknown key 'hots'; did you mean 'host'?\n",
        "dir/v.yaml:4:5: unknown key of a model 'context_token'; did you mean 'context_tokens'?\n",
        "dir/v.yaml:6:5: this model has no 'model: PATH'\n",
        "dir/v.yaml:9:5: unknown option of this plugin: 'thread'; did you mean 'threads'?\n",
        "dir/v.yaml:10:15: cpu_form: want one of auto|scalar|avx2, got 'sse'\n",
        "dir/v.yaml:11:3: unknown plugin 'gwen35'; did you mean 'qwen35'?\n",
        "dir/v.yaml:12:17: body_max_bytes: want one value, got a list\n",
        "environment: idle_timeout: want a duration",
        "--set: unknown key 'prot'; did you mean 'port'?\n",
        "--set: unknown plugin 'qwen53'; did you mean 'qwen35'?\n",
        "--set: unknown option of this plugin: 'treads'; did you mean 'threads'?\n",
    };
    enum { N = sizeof lines / sizeof lines[0] };
    for (size_t i = 0; i < N; i++)
        if (!strstr(w.text.ptr, lines[i]))
            fail_msg("missing: %sin:\n%s", lines[i], w.text.ptr);
    assert_int_equal(w.p.n, N);
    unload(&w);
}

static void test_broken_yaml_is_one_problem(void **state)
{
    (void)state;
    struct world w;
    load(&w, "port: [1\n", NULL, 0, NULL);
    assert_int_equal(w.p.n, 1);
    assert_non_null(strstr(w.text.ptr, "dir/v.yaml:2:1: not YAML"));
    unload(&w);
    load(&w, "- a\n", NULL, 0, NULL);
    assert_int_equal(w.p.n, 1);
    unload(&w);
    load(&w, "models: {a: b}\n", NULL, 0, NULL);
    assert_int_equal(w.p.n, 1);
    unload(&w);
}

static void test_names_equal_is_a_problem(void **state)
{
    (void)state;
    struct world w;
    load(&w, "models: [{model: a/x}, {model: b/x}]\n", NULL, 0, NULL);
    assert_int_equal(w.p.n, 1);
    assert_non_null(strstr(w.text.ptr, "named 'x'"));
    unload(&w);
}

static void test_file_missing_is_a_problem(void **state)
{
    (void)state;
    vl_config c;
    vl_problems p = {NULL, 0, 0, false};
    vl_error err = {0};
    assert_int_equal(vl_config_load(&c, "/nonexistent/v.yaml", NULL, 0, NULL, &p, &err), VL_OK);
    assert_int_equal(p.n, 1);
    assert_non_null(strstr(p.list[0].text, "/nonexistent/v.yaml"));
    vl_config_fini(&c);
    vl_problems_fini(&p);
}

/* The example loads, and its every value is the default, so that it documents what happens without
 * it. */
static void test_example_loads_and_shows_defaults(void **state)
{
    (void)state;
    vl_config c;
    vl_problems p = {NULL, 0, 0, false};
    vl_error err = {0};
    vl_buf text = VL_BUF_INIT;
    const char *path = VL_SOURCE_DIR "/config/vallmo.example.yaml";
    assert_int_equal(vl_config_load(&c, path, NULL, 0, NULL, &p, &err), VL_OK);
    vl_problems_print(&p, &text);
    if (p.n)
        fail_msg("%s", text.ptr);
    assert_int_equal(c.n_models, 1);
    vl_values defaults;
    assert_int_equal(vl_values_init(&defaults, vl_server_options, VL_S_COUNT, &err), VL_OK);
    for (int i = 0; i < VL_S_COUNT; i++) {
        const vl_option_value *a = vl_server_value(&c, i), *b = &defaults.values[i];
        if (a->number != b->number || a->real != b->real)
            fail_msg("%s: the example says %s", vl_server_options[i].name, a->text);
    }
    vl_values_fini(&defaults);
    assert_int_equal(vl_values_init(&defaults, vl_model_options, VL_M_COUNT, &err), VL_OK);
    for (int i = 0; i < VL_M_COUNT; i++) {
        const vl_option_value *a = vl_model_value(&c.models[0], i), *b = &defaults.values[i];
        if (a->number != b->number || a->real != b->real)
            fail_msg("%s: the example says %s", vl_model_options[i].name, a->text);
    }
    vl_values_fini(&defaults);
    /* Every key stands in it, if only as a comment. */
    vl_buf_clear(&text);
    assert_int_equal(vl_file_read(path, 1 << 20, &text, &err), VL_OK);
    for (int i = 0; i < VL_S_COUNT; i++)
        if (!strstr(text.ptr, vl_server_options[i].help))
            fail_msg("the example lacks %s", vl_server_options[i].name);
    for (int i = 0; i < VL_M_COUNT; i++)
        if (!strstr(text.ptr, vl_model_options[i].help))
            fail_msg("the example lacks %s", vl_model_options[i].name);
    vl_buf_fini(&text);
    vl_config_fini(&c);
    vl_problems_fini(&p);
}

static void test_documentation_is_what_the_tables_say(void **state)
{
    (void)state;
    vl_buf page = VL_BUF_INIT, table = VL_BUF_INIT;
    vl_error err = {0};
    assert_int_equal(vl_file_read(VL_SOURCE_DIR "/docs/config.md", 1 << 20, &page, &err), VL_OK);
    vl_options_print_markdown(&table, vl_server_options, VL_S_COUNT);
    assert_non_null(strstr(page.ptr, table.ptr));
    vl_buf_clear(&table);
    vl_options_print_markdown(&table, vl_model_options, VL_M_COUNT);
    assert_non_null(strstr(page.ptr, table.ptr));
    vl_buf_fini(&page);
    vl_buf_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_given_defaults),
        cmocka_unit_test(test_sources_later_wins),
        cmocka_unit_test(test_models_own_keys_over_shared_ones),
        cmocka_unit_test(test_model_flag_replaces_the_list),
        cmocka_unit_test(test_problems_all_at_once_with_places),
        cmocka_unit_test(test_broken_yaml_is_one_problem),
        cmocka_unit_test(test_names_equal_is_a_problem),
        cmocka_unit_test(test_file_missing_is_a_problem),
        cmocka_unit_test(test_example_loads_and_shows_defaults),
        cmocka_unit_test(test_documentation_is_what_the_tables_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
