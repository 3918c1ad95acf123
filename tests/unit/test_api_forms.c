/* Bodies of /v1/messages and /v1/responses to chat bodies: what each part becomes, what is refused
 * and by what name; mutated bodies give either a chat body that parses or an error. */
#include "tests/unit/vl_test.h"

#include "host/server/api_forms.h"

static const vl_api_limits limits = {16, 64};

static bool to_chat(bool messages, const char *body, size_t len, vl_buf *chat, vl_buf *echo,
                    vl_api_error *e)
{
    return messages ? vl_api_messages_to_chat(body, len, false, &limits, NULL, NULL, chat, e)
                    : vl_api_responses_to_chat(body, len, &limits, NULL, NULL, chat, echo, e);
}

static void gives(bool messages, const char *body, const char *want)
{
    vl_buf chat = VL_BUF_INIT, echo = VL_BUF_INIT;
    vl_api_error e = {0};
    vl_api_request r;
    if (!to_chat(messages, body, strlen(body), &chat, &echo, &e))
        fail_msg("%s: %s", body, e.message);
    assert_string_equal(chat.ptr, want);
    if (!vl_api_chat_parse(&r, chat.ptr, chat.len, &limits, NULL, NULL, &e))
        fail_msg("%s: as chat: %s", body, e.message);
    vl_api_request_fini(&r);
    vl_buf_fini(&chat);
    vl_buf_fini(&echo);
}

static void refuses(bool messages, const char *body, const char *param)
{
    vl_buf chat = VL_BUF_INIT, echo = VL_BUF_INIT;
    vl_api_error e = {0};
    if (to_chat(messages, body, strlen(body), &chat, &echo, &e))
        fail_msg("%s: not refused, but %s", body, chat.ptr);
    assert_int_equal(e.status, 400);
    assert_string_equal(e.param, param);
    assert_true(strstr(e.message, param) != NULL);
    vl_buf_fini(&chat);
    vl_buf_fini(&echo);
}

#define USER "{\"role\":\"user\",\"content\":\"Hi\"}"
#define M "\"messages\":[" USER "]"
#define MAX ",\"max_tokens\":9"

static void test_messages_plain_and_system_become_chat(void **state)
{
    (void)state;
    gives(true, "{" M MAX "}", "{" M MAX "}");
    gives(true,
          "{\"system\":[{\"type\":\"text\",\"text\":\"a\\u00e9\",\"cache_control\":{}},{\"type\":"
          "\"text\",\"text\":\"b\"}]," M MAX ",\"stream\":true,\"top_k\":3,\"temperature\":0.50,"
          "\"stop_sequences\":[\"x\"]}",
          "{\"messages\":[{\"role\":\"system\",\"content\":\"a\\u00e9\\n\\nb\"}," USER "]" MAX
          ",\"stop\":[\"x\"],\"stream\":true,\"temperature\":0.50,\"top_k\":3}");
}

static void test_messages_tools_and_results_keep_ids_and_order(void **state)
{
    (void)state;
    gives(true,
          "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
          "\"thinking\":\"hm\",\"signature\":\"s\"},{\"type\":\"text\",\"text\":\"Look.\"},"
          "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{\"n\":"
          "12345678901234567890}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
          "\"tool_use_id\":\"t1\",\"content\":[{\"type\":\"text\",\"text\":\"21\"}]},"
          "{\"type\":\"text\",\"text\":\"So?\"}]}]" MAX
          ",\"tools\":[{\"name\":\"f\",\"description\":\"d\",\"input_schema\":{\"type\":"
          "\"object\"}}],\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":true}}",
          "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"Look.\","
          "\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"t1\",\"type\":\"function\","
          "\"function\":{\"name\":\"f\",\"arguments\":{\"n\":12345678901234567890}}}]},"
          "{\"role\":\"tool\",\"tool_call_id\":\"t1\",\"content\":\"21\"},"
          "{\"role\":\"user\",\"content\":\"So?\"}],\"tools\":[{\"type\":\"function\","
          "\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":"
          "\"object\"}}}],\"parallel_tool_calls\":false,\"tool_choice\":\"required\"" MAX "}");
}

static void test_messages_last_of_assistant_is_gone_on_with(void **state)
{
    (void)state;
    gives(true,
          "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"Well\"}]" MAX
          ",\"thinking\":{\"type\":\"disabled\"}}",
          "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"Well\"}],"
          "\"continue_final_message\":true,\"add_generation_prompt\":false,"
          "\"enable_thinking\":false" MAX "}");
}

static void test_messages_thinking_budget_and_format_become_chat(void **state)
{
    (void)state;
    gives(true,
          "{" M MAX ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":7},\"output_config\":"
          "{\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"object\"}}}}",
          "{" M ",\"enable_thinking\":true,\"thinking_token_budget\":7,\"response_format\":"
          "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"output\",\"schema\":{\"type\":"
          "\"object\"}}}" MAX "}");
}

static void test_messages_bad_is_refused_by_name(void **state)
{
    (void)state;
    refuses(true, "{" M "}", "max_tokens");
    refuses(true, "{" M ",\"max_tokens\":0}", "max_tokens");
    refuses(true, "{\"messages\":[]" MAX "}", "messages");
    refuses(true, "{\"messages\":\"x\"" MAX "}", "messages");
    refuses(true, "{\"max_tokens\":1}", "messages");
    refuses(true, "{\"messages\":[7]" MAX "}", "messages[0]");
    refuses(true, "{\"messages\":[{\"role\":\"wizard\",\"content\":\"x\"}]" MAX "}", "messages[0]");
    refuses(true, "{\"messages\":[{\"role\":\"user\"}]" MAX "}", "messages[0].content");
    refuses(
        true,
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{}}]}]" MAX
        "}",
        "messages[0].content[0]");
    refuses(true,
            "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"}]}]" MAX "}",
            "messages[0].content[0].tool_use_id");
    refuses(true, "{" M MAX ",\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"w\"}]}",
            "tools[0]");
    refuses(true, "{" M MAX ",\"tools\":[{\"input_schema\":{}}]}", "tools[0].name");
    refuses(true, "{" M MAX ",\"tool_choice\":{\"type\":\"some\"}}", "tool_choice");
    refuses(true, "{" M MAX ",\"thinking\":{\"type\":\"yes\"}}", "thinking");
    refuses(true, "{" M MAX ",\"mcp_servers\":[{}]}", "mcp_servers");
}

static void test_messages_count_needs_no_limit(void **state)
{
    (void)state;
    vl_buf chat = VL_BUF_INIT;
    vl_api_error e;
    const char *body = "{" M "}";
    assert_true(vl_api_messages_to_chat(body, strlen(body), true, &limits, NULL, NULL, &chat, &e));
    assert_string_equal(chat.ptr, body);
    vl_buf_fini(&chat);
}

static void test_responses_input_forms_become_chat(void **state)
{
    (void)state;
    gives(false, "{\"input\":\"Hi\"}", "{" M "}");
    gives(false, "{\"input\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", "{" M "}");
    gives(false,
          "{\"instructions\":\"Be \\\"x\\\"\",\"input\":[{\"type\":\"message\",\"role\":\"user\","
          "\"content\":[{\"type\":\"input_text\",\"text\":\"H\"},{\"type\":\"input_text\","
          "\"text\":\"i\"}]}],\"max_output_tokens\":9,\"reasoning\":{\"effort\":\"none\"},"
          "\"temperature\":0}",
          "{\"messages\":[{\"role\":\"system\",\"content\":\"Be \\\"x\\\"\"}," USER
          "],\"reasoning_effort\":\"none\"" MAX ",\"temperature\":0}");
}

static void test_responses_turns_are_gathered(void **state)
{
    (void)state;
    gives(false,
          "{\"input\":[" USER ",{\"type\":\"reasoning\",\"id\":\"r\",\"summary\":[],\"content\":["
          "{\"type\":\"reasoning_text\",\"text\":\"hm\"}]},{\"type\":\"message\",\"role\":"
          "\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"Look.\",\"annotations\":"
          "[]}]},{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":"
          "\"{\\\"a\\\":1}\"},{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"g\","
          "\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":"
          "\"21\"},{\"type\":\"function_call_output\",\"call_id\":\"c2\",\"output\":[{\"type\":"
          "\"input_text\",\"text\":\"9\"}]}],\"tools\":[{\"type\":\"function\",\"name\":\"f\","
          "\"parameters\":{},\"strict\":true}],\"tool_choice\":{\"type\":\"function\",\"name\":"
          "\"f\"}}",
          "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"Look.\","
          "\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\","
          "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}},{\"id\":\"c2\",\"type\":"
          "\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\","
          "\"tool_call_id\":\"c1\",\"content\":\"21\"},{\"role\":\"tool\",\"tool_call_id\":\"c2\","
          "\"content\":\"9\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
          "\"parameters\":{}}}],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":"
          "\"f\"}}}");
}

static void test_responses_format_becomes_response_format(void **state)
{
    (void)state;
    gives(false,
          "{\"input\":\"Hi\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\","
          "\"strict\":true,\"schema\":{\"type\":\"object\"}}}}",
          "{" M ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"description\":"
          "null,\"name\":\"n\",\"schema\":{\"type\":\"object\"},\"strict\":true}}}");
    gives(false, "{\"input\":\"Hi\",\"text\":{\"format\":{\"type\":\"json_object\"}}}",
          "{" M ",\"response_format\":{\"type\":\"json_object\"}}");
}

static void test_responses_bad_is_refused_by_name(void **state)
{
    (void)state;
    refuses(false, "{}", "input");
    refuses(false, "{\"input\":5}", "input");
    refuses(false, "{\"input\":[]}", "input");
    refuses(false, "{\"input\":[{\"role\":\"wizard\",\"content\":\"x\"}]}", "input[0]");
    refuses(false, "{\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]}", "input[0]");
    refuses(false, "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
            "input[0].content[0]");
    refuses(false, "{\"input\":\"x\",\"max_output_tokens\":0}", "max_output_tokens");
    refuses(false, "{\"input\":\"x\",\"previous_response_id\":\"resp_1\"}", "previous_response_id");
    refuses(false, "{\"input\":\"x\",\"conversation\":\"c\"}", "conversation");
    refuses(false, "{\"input\":\"x\",\"background\":true}", "background");
    refuses(false, "{\"input\":\"x\",\"top_logprobs\":2}", "top_logprobs");
    refuses(false, "{\"input\":\"x\",\"tools\":[{\"type\":\"web_search\"}]}", "tools[0]");
    refuses(false, "{\"input\":\"x\",\"tool_choice\":{\"type\":\"mcp\"}}", "tool_choice");
    refuses(false, "{\"input\":\"x\",\"text\":{\"format\":{\"type\":\"x\"}}}", "text.format");
}

static void test_responses_echo_repeats_the_request(void **state)
{
    (void)state;
    vl_buf chat = VL_BUF_INIT, echo = VL_BUF_INIT;
    vl_api_error e;
    const char *body = "{\"input\":\"x\",\"temperature\":0.50,\"metadata\":{\"k\":\"v\"}}";
    assert_true(to_chat(false, body, strlen(body), &chat, &echo, &e));
    assert_non_null(strstr(echo.ptr, ",\"temperature\":0.50,"));
    assert_non_null(strstr(echo.ptr, ",\"metadata\":{\"k\":\"v\"},"));
    assert_non_null(strstr(echo.ptr, ",\"tool_choice\":\"auto\","));
    vl_buf_fini(&chat);
    vl_buf_fini(&echo);
}

/* Any body gives an error with a text, or JSON. */
static void test_mutated_bodies_never_break(void **state)
{
    (void)state;
    static const char seed_messages[] =
        "{\"system\":\"s\",\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":[{\"type\":"
        "\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":"
        "[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"x\"}]}]" MAX
        ",\"tools\":[{\"name\":\"f\",\"input_schema\":{}}],\"tool_choice\":{\"type\":\"any\"},"
        "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":5}}";
    static const char seed_responses[] =
        "{\"instructions\":\"s\",\"input\":[" USER ",{\"type\":\"function_call\",\"call_id\":\"c\","
        "\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"c\","
        "\"output\":\"x\"}],\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],\"tool_choice\":"
        "\"auto\",\"text\":{\"format\":{\"type\":\"text\"}},\"reasoning\":{\"effort\":\"low\"}}";
    uint32_t x = 12345, good = 0;
    char body[1024];
    for (int round = 0; round < 40000; round++) {
        bool messages = round & 1;
        const char *seed = messages ? seed_messages : seed_responses;
        size_t len = messages ? sizeof seed_messages - 1 : sizeof seed_responses - 1;
        memcpy(body, seed, len);
        for (int k = 0; k < 1 + round % 3; k++) {
            x = x * 1664525u + 1013904223u;
            size_t at = (x >> 8) % len;
            x = x * 1664525u + 1013904223u;
            body[at] = round % 5 ? seed[(x >> 8) % len] : (char)(x >> 24);
        }
        vl_buf chat = VL_BUF_INIT, echo = VL_BUF_INIT;
        vl_api_error e = {0};
        vl_json_doc doc = {0};
        if (to_chat(messages, body, len, &chat, &echo, &e)) {
            good++;
            vl_error err = {0};
            if (vl_json_parse(&doc, chat.ptr, chat.len, 100, 0, &err) != VL_OK)
                fail_msg("%s: %s from %.*s", err.text, chat.ptr, (int)len, body);
        } else {
            assert_int_equal(e.status, 400);
            assert_true(e.message[0] != 0);
        }
        vl_json_doc_fini(&doc);
        vl_buf_fini(&chat);
        vl_buf_fini(&echo);
    }
    assert_true(good > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_plain_and_system_become_chat),
        cmocka_unit_test(test_messages_tools_and_results_keep_ids_and_order),
        cmocka_unit_test(test_messages_last_of_assistant_is_gone_on_with),
        cmocka_unit_test(test_messages_thinking_budget_and_format_become_chat),
        cmocka_unit_test(test_messages_bad_is_refused_by_name),
        cmocka_unit_test(test_messages_count_needs_no_limit),
        cmocka_unit_test(test_responses_input_forms_become_chat),
        cmocka_unit_test(test_responses_turns_are_gathered),
        cmocka_unit_test(test_responses_format_becomes_response_format),
        cmocka_unit_test(test_responses_bad_is_refused_by_name),
        cmocka_unit_test(test_responses_echo_repeats_the_request),
        cmocka_unit_test(test_mutated_bodies_never_break),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
