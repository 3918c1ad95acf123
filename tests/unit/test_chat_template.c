/* unit.chat_template: which format a checkpoint gets. */
#include "tests/unit/chat_kit.h"

#include <string.h>

#define TOOLS "<|im_start|> <tool_call> <function= <parameter= "
#define LARGE                                                                                      \
    "{%- if enable_thinking is defined and enable_thinking is false %}no{% else %}yes{% endif %}"
#define SMALL                                                                                      \
    "{%- if enable_thinking is defined and enable_thinking is true %}yes{% else %}no{% endif %}"

static void check(const char *format, const char *text, const char *config, const char *want)
{
    vl_chat *c = NULL;
    vl_error err = {0};
    if (kit_create(format, text, config, NULL, 0, &c, &err) != VL_OK)
        fail_msg("%s", err.text);
    assert_string_equal(kit_api->format(c), want);
    kit_api->destroy(c);
}

static void refuse(const char *format, const char *text, const char *config, vl_status status,
                   const char *mention)
{
    vl_chat *c = NULL;
    vl_error err = {0};
    assert_int_equal(kit_create(format, text, config, NULL, 0, &c, &err), status);
    assert_null(c);
    if (!strstr(err.text, mention))
        fail_msg("\"%s\" does not mention \"%s\"", err.text, mention);
    assert_int_equal(kit_create(format, text, config, NULL, 0, &c, NULL), status);
}

static void test_template_known_text_chooses_by_meaning(void **state)
{
    (void)state;
    check("auto", TOOLS LARGE, "{}", "qwen3.5");
    check(NULL, TOOLS SMALL, "{}", "qwen3.5-small");
    check("", TOOLS SMALL LARGE, "{}", "qwen3.5"); /* the last test counts */
    check("auto", TOOLS SMALL "enable_thinking or so", "{}", "qwen3.5-small");
    check("auto", TOOLS "preserve_thinking " LARGE, "{}", "qwen3.6");
    check("auto", TOOLS "preserve_thinking reasoning_effort " LARGE, "{}", "qwen3.8");
    check("auto", TOOLS "reasoning_effort enable_thinking Disabling thinking is not supported.",
          "{}", "qwen3.8-always-thinks");
}

static void test_template_unknown_text_is_refused_with_a_hint(void **state)
{
    (void)state;
    refuse("auto", "{{ messages }}", "{\"hidden_size\": 256}", VL_E_UNSUPPORTED,
           "set the key chat to");
    refuse("auto", "<|im_start|> <tool_call> " LARGE, "{}", VL_E_UNSUPPORTED, "<function=");
    refuse("auto", TOOLS "no switch", "{}", VL_E_UNSUPPORTED, "enable_thinking");
    refuse("auto", TOOLS "enable_thinking", "{}", VL_E_UNSUPPORTED, "never tests");
}

static void test_template_name_in_the_config_wins(void **state)
{
    (void)state;
    check("qwen3.5", "{{ unknown }}", "{}", "qwen3.5");
    check("qwen3.8", TOOLS SMALL, "{}", "qwen3.8");
    refuse("qwen3.7", TOOLS SMALL, "{}", VL_E_INVALID, "\"qwen3.7\" is no chat format");
}

static void test_template_none_goes_by_hidden_size(void **state)
{
    (void)state;
    check("auto", NULL, "{\"text_config\": {\"hidden_size\": 256}}", "qwen3.5-small");
    check("auto", NULL, "{\"hidden_size\": 2048}", "qwen3.5-small");
    check("auto", NULL, "{\"hidden_size\": 2560}", "qwen3.5");
    check("auto", NULL, "{\"hidden_size\": 2048, \"num_experts\": 256}", "qwen3.5");
    refuse("auto", NULL, "{}", VL_E_UNSUPPORTED, "hidden_size");
    refuse("auto", NULL, "{", VL_E_FORMAT, "config");
}

static void test_default_kwargs_act_and_wrong_ones_are_refused(void **state)
{
    vl_chat *c = NULL;
    vl_error err = {0};
    vl_buf out = VL_BUF_INIT;
    (void)state;
    assert_int_equal(kit_create("qwen3.5", NULL, NULL, "{\"enable_thinking\": false}", 0, &c, &err),
                     VL_OK);
    kit_render(c, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}", false, &out);
    assert_non_null(strstr(out.ptr, "<think>\n\n</think>\n\n"));
    vl_buf_clear(&out);
    kit_render(c,
               "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], "
               "\"chat_template_kwargs\": {\"enable_thinking\": true}}",
               false, &out);
    assert_null(strstr(out.ptr, "</think>"));
    kit_api->destroy(c);
    c = NULL;
    vl_buf_fini(&out);
    assert_int_equal(kit_create("qwen3.5", NULL, NULL, "{\"enable_thinking\": 0}", 0, &c, &err),
                     VL_E_INVALID);
    assert_int_equal(kit_create("qwen3.5", NULL, NULL, "[]", 0, &c, &err), VL_E_INVALID);
    assert_int_equal(kit_create("qwen3.5", NULL, NULL, "{", 0, &c, &err), VL_E_FORMAT);
    assert_null(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template_known_text_chooses_by_meaning),
        cmocka_unit_test(test_template_unknown_text_is_refused_with_a_hint),
        cmocka_unit_test(test_template_name_in_the_config_wins),
        cmocka_unit_test(test_template_none_goes_by_hidden_size),
        cmocka_unit_test(test_default_kwargs_act_and_wrong_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
