/* unit.chat_render: requests to prompts: the published examples, what is mended and what is
 * refused, which parts are text. */
#include "tests/unit/chat_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define U "{\"role\": \"user\", \"content\": \"Hi\"}"
#define A "{\"role\": \"assistant\", \"content\": \"Hello.\"}"
#define S(x) "{\"role\": \"system\", \"content\": \"" x "\"}"
#define M(x) "{\"messages\": [" x "]}"
#define MK(x, kwargs) "{\"messages\": [" x "], \"chat_template_kwargs\": {" kwargs "}}"
#define CALL(id, args)                                                                             \
    "{\"id\": \"" id                                                                               \
    "\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": " args "}}"
#define CALLS(calls) "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [" calls "]}"
#define RESULT(id, x) "{\"role\": \"tool\", \"tool_call_id\": \"" id "\", \"content\": \"" x "\"}"
#define TOOL(name) "{\"type\": \"function\", \"function\": {\"name\": \"" name "\"}}"
#define MT(tools, more) "{\"messages\": [" U "], \"tools\": [" tools "]" more "}"

static void check_vectors(const char *file, size_t n)
{
    vl_buf text = VL_BUF_INIT;
    vl_json_doc doc;

    kit_vectors(file, &text, &doc);
    vl_json root = vl_json_root(&doc);
    assert_int_equal(vl_json_count(root), n);
    for (vl_json_iter it = vl_json_each(root); vl_json_next(&it);) {
        char format[64];
        vl_buf got = VL_BUF_INIT, want = VL_BUF_INIT, request = VL_BUF_INIT;
        assert_true(vl_json_str_copy(vl_json_get(it.value, "format"), format, sizeof(format)));
        assert_true(vl_json_str(vl_json_get(it.value, "prompt"), &want));
        vl_bytes raw = vl_json_raw(vl_json_get(it.value, "request"));
        vl_buf_append(&request, raw.ptr, raw.len);
        vl_chat *c = kit_chat(format, VL_CHAT_MEDIA);
        kit_render(c, request.ptr, false, &got);
        if (strcmp(got.ptr, want.ptr) != 0)
            fail_msg("%s %u\n got %s\nwant %s", file, it.index, got.ptr, want.ptr);
        kit_api->destroy(c);
        vl_buf_fini(&got);
        vl_buf_fini(&want);
        vl_buf_fini(&request);
    }
    vl_json_doc_fini(&doc);
    vl_buf_fini(&text);
}

static void test_render_published_examples_are_exact(void **state)
{
    (void)state;
    check_vectors("examples.json", 22);
}

/* Prompts that another implementation of the template made, tools among them. */
static void test_render_reference_prompts_are_exact(void **state)
{
    (void)state;
    check_vectors("poppyseed.json", 40);
}

/* Both requests give the same prompt. */
static void same(const vl_chat *c, const char *a, const char *b)
{
    vl_buf x = VL_BUF_INIT, y = VL_BUF_INIT;
    kit_render(c, a, true, &x);
    kit_render(c, b, true, &y);
    if (strcmp(x.ptr, y.ptr) != 0)
        fail_msg("%s\n%s\n got %s\nwant %s", a, b, x.ptr, y.ptr);
    vl_buf_fini(&x);
    vl_buf_fini(&y);
}

static void gives(const vl_chat *c, const char *request, const char *want)
{
    vl_buf x = VL_BUF_INIT;
    kit_render(c, request, false, &x);
    if (strcmp(x.ptr, want) != 0)
        fail_msg("%s\n got %s\nwant %s", request, x.ptr, want);
    vl_buf_fini(&x);
}

static void test_render_system_messages_are_joined(void **state)
{
    vl_chat *c = kit_chat("qwen3.5", 0);
    (void)state;
    same(c, M(S("One.") "," S("Two.") "," U), M(S("One.\\n\\nTwo.") "," U));
    same(c, M(U "," A "," S("Late.") "," U), M(S("Late.") "," U "," A "," U));
    same(c, M(S("One.") "," U "," S("") "," A "," S("Three.") "," U),
         M(S("One.\\n\\nThree.") "," U "," A "," U));
    same(c, M("{\"role\": \"developer\", \"content\": \"Dev.\"}," U), M(S("Dev.") "," U));
    same(c,
         M("{\"role\": \"system\", \"content\": [{\"type\": \"text\", \"text\": \"One.\"}]}," S(
             "Two.") "," U),
         M(S("One.\\n\\nTwo.") "," U));
    same(c, M(S("") "," S(" ") "," U), M(S("") "," U));
    /* A system message among the results does not part them. */
    same(c,
         M(U "," CALLS(CALL("a", "{}") "," CALL("b", "{}")) "," RESULT("b", "2") "," S(
             "x") "," RESULT("a", "1")),
         M(S("x") "," U "," CALLS(CALL("a", "{}") "," CALL("b", "{}")) "," RESULT(
             "a", "1") "," RESULT("b", "2")));
    kit_api->destroy(c);
}

static void test_render_tool_results_come_in_call_order(void **state)
{
    vl_chat *c = kit_chat("qwen3.5", 0);
    (void)state;
#define TWO U "," CALLS(CALL("a", "{}") "," CALL("b", "{}")) ","
    same(c, M(TWO RESULT("b", "2") "," RESULT("a", "1")),
         M(TWO RESULT("a", "1") "," RESULT("b", "2")));
    /* Not exactly the calls' ids: the given order stays. */
    gives(c, M(TWO RESULT("b", "2") "," RESULT("x", "1")),
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
          "<tool_call>\n<function=f>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n</"
          "function>\n</tool_call><|im_end|>\n"
          "<|im_start|>user\n<tool_response>\n2\n</tool_response>\n<tool_response>\n1\n</"
          "tool_response><|im_end|>\n"
          "<|im_start|>assistant\n<think>\n");
    kit_api->destroy(c);
}

static void test_render_strict_refuses_what_is_mended(void **state)
{
    vl_chat *c = kit_chat("qwen3.5", VL_CHAT_STRICT);
    (void)state;
    kit_refuse(c, M(S("a") "," S("b") "," U), "messages[1]",
               "System message must be at the beginning.");
    kit_refuse(c, M(TWO RESULT("a", "1") "," RESULT("x", "1")), "messages[3].tool_call_id",
               "messages[3].tool_call_id is x, which belongs to none of the calls before it");
    kit_refuse(c, M(TWO RESULT("a", "1") "," RESULT("a", "1")), "messages[3].tool_call_id",
               "messages[3].tool_call_id is a, which has a result already");
    kit_refuse(c, M(TWO RESULT("a", "1")), "messages[1].tool_calls[1]",
               "messages[1].tool_calls[1] (id b) has no result");
    kit_refuse(c, M(U ",{\"role\": \"tool\", \"content\": \"x\"}"), "messages[1].tool_call_id",
               "messages[1].tool_call_id is missing, which belongs to none of the calls before it");
    kit_api->destroy(c);
}

static void test_render_arguments_of_every_spelling(void **state)
{
    static const struct {
        const char *args, *want;
    } rows[] = {
        {"\"\"", ""},
        {"null", ""},
        {"\"null\"", ""},
        {"\"  \"", ""},
        {"{}", ""},
        {"\"{}\"", ""},
        {"\"{\\\"z\\\": 1, \\\"a\\\": \\\"x\\\\ny\\\"}\"",
         "<parameter=z>\n1\n</parameter>\n<parameter=a>\nx\ny\n</parameter>\n"},
        {"{\"k\": [1, {\"a\": 1e5}], \"t\": true}",
         "<parameter=k>\n[1, {\"a\": "
         "100000.0}]\n</parameter>\n<parameter=t>\nTrue\n</parameter>\n"},
        {"\"{\\\"city\\\": \\\"Par\"", "<parameter=arguments>\n{\"city\": \"Par\n</parameter>\n"},
        {"\"[1, 2]\"", "<parameter=arguments>\n[1, 2]\n</parameter>\n"},
        {"[1, 2]", "<parameter=arguments>\n[1, 2]\n</parameter>\n"},
        {"\"not json\"", "<parameter=arguments>\nnot json\n</parameter>\n"},
    };
    vl_chat *c = kit_chat("qwen3.5-small", 0);
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        vl_buf request = VL_BUF_INIT, want = VL_BUF_INIT;
        vl_buf_printf(&request,
                      "{\"messages\": [" U
                      ", {\"role\": \"assistant\", \"tool_calls\": [{\"function\": "
                      "{\"name\": \"f\", \"arguments\": %s}}]}], \"add_generation_prompt\": false}",
                      rows[i].args);
        vl_buf_printf(&want,
                      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</"
                      "think>\n\n<tool_call>\n"
                      "<function=f>\n%s</function>\n</tool_call><|im_end|>\n",
                      rows[i].want);
        gives(c, request.ptr, want.ptr);
        vl_buf_fini(&request);
        vl_buf_fini(&want);
    }
    /* Legacy fields. */
    same(
        c,
        M(U
          ",{\"role\": \"assistant\", \"function_call\": {\"name\": \"f\", \"arguments\": \"{}\"}},"
          "{\"role\": \"function\", \"name\": \"f\", \"content\": \"1\"}"),
        M(U "," CALLS(CALL("a", "{}")) "," RESULT("a", "1")));
    same(c, "{\"messages\": [" U "], \"functions\": [{\"name\": \"f\"}]}",
         "{\"messages\": [" U
         "], \"tools\": [{\"type\":\"function\",\"function\":{\"name\": \"f\"}}]}");
    kit_api->destroy(c);
}

static void test_render_reasoning_field_in_every_form(void **state)
{
    static const char *const forms[] = {
        "\"reasoning_content\": \"Easy.\", \"content\": \"2\"",
        "\"reasoning\": \"Easy.\", \"content\": \"2\"",
        "\"reasoning_content\": \"\", \"reasoning\": \"Easy.\", \"content\": \"2\"",
        "\"reasoning_content\": 5, \"content\": \"<think>\\nEasy.\\n</think>\\n\\n2\"",
        "\"reasoning_content\": \"\", \"content\": \"Easy.\\n</think>\\n\\n2\"",
        "\"content\": \"<think>no<think>\\nEasy.\\n</think> x </think>\\n\\n2\"",
    };
    vl_chat *c = kit_chat("qwen3.6", 0);
    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        vl_buf request = VL_BUF_INIT;
        vl_buf_printf(&request,
                      MK(U ",{\"role\": \"assistant\", %s}," U, "\"preserve_thinking\": true"),
                      forms[i]);
        gives(c, request.ptr,
              "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\nEasy.\n</"
              "think>\n\n2<|im_end|>\n"
              "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n");
        vl_buf_fini(&request);
    }
    kit_api->destroy(c);
    /* 3.8 takes no thought out of old content. */
    c = kit_chat("qwen3.8", 0);
    gives(c,
          MK(U ",{\"role\": \"assistant\", \"content\": \"<think>\\na\\n</think>\\n\\n2\"}," U,
             "\"enable_thinking\": false"),
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</"
          "think>\n\n<think>\na\n</think>\n\n2<|im_end|>\n"
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    kit_api->destroy(c);
}

static void test_render_white_space_is_pythons(void **state)
{
    vl_chat *c = kit_chat("qwen3.5", 0);
    (void)state;
    gives(c,
          M("{\"role\": \"user\", \"content\": \"\\u3000\\u2028\\u001c\\u0085 a\\u200b\\u00a0b "
            "\\u1680\\t\"}"),
          "<|im_start|>user\na\xe2\x80\x8b\xc2\xa0"
          "b<|im_end|>\n<|im_start|>assistant\n<think>\n");
    kit_api->destroy(c);
}

static void test_render_errors_name_field_and_fault(void **state)
{
#define ASK "messages[0].content"
    static const struct {
        const char *request, *field, *text;
    } rows[] = {
        {M(""), "messages", "No messages provided."},
        {"{}", "messages", "messages must be a list, it is missing"},
        {"[]", "", "the request must be an object, not an array"},
        {"{", "", "line 1, column 2: the text ends inside an object"},
        {"{\"messages\": 5}", "messages", "messages must be a list, it is a number"},
        {M("5"), "messages[0]", "messages[0] must be an object, not a number"},
        {M(U ",{\"role\": \"king\", \"content\": \"x\"}"), "messages[1].role",
         "Unexpected message role."},
        {M("{\"content\": \"x\"}"), "messages[0].role", "Unexpected message role."},
        {M(S("x")), "messages", "No user query found in messages."},
        {M(A), "messages", "No user query found in messages."},
        {M("{\"role\": \"user\", \"content\": \" <tool_response>\\n21\\n</tool_response> \"}"),
         "messages", "No user query found in messages."},
        {M("{\"role\": \"user\", \"content\": 5}"), ASK, "Unexpected content type."},
        {M("{\"role\": \"user\", \"content\": {}}"), ASK, "Unexpected content type."},
        {M("{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {}]}"),
         ASK "[1]", "Unexpected item type in content."},
        {M("{\"role\": \"user\", \"content\": [\"a\"]}"), ASK "[0]",
         "Unexpected item type in content."},
        {M("{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": 5}]}"),
         ASK "[0].text", "messages[0].content[0].text must be a string, not a number"},
        {M("{\"role\": \"system\", \"content\": [{\"type\": \"image\"}]}," U), ASK "[0]",
         "System message cannot contain images."},
        {M("{\"role\": \"system\", \"content\": [{\"type\": \"video_url\", \"video_url\": "
           "{}}]}," U),
         ASK "[0]", "System message cannot contain videos."},
        {M("{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": "
           "\"x\"}}]}"),
         ASK "[0]", "messages[0].content[0]: this server takes no image input"},
        {M("{\"role\": \"user\", \"content\": [{\"type\": \"input_audio\", \"input_audio\": {}}]}"),
         ASK "[0]", "messages[0].content[0]: this server takes no audio input"},
        {M("{\"role\": \"user\", \"content\": [{\"type\": \"file\", \"file\": {}}]}"), ASK "[0]",
         "messages[0].content[0]: this server takes no file input"},
        {M(U ",{\"role\": \"assistant\", \"tool_calls\": \"x\"}"), "messages[1].tool_calls",
         "messages[1].tool_calls must be a list, not a string"},
        {M(U ",{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"a\"}]}"),
         "messages[1].tool_calls[0].function",
         "messages[1].tool_calls[0].function must be an object, it is missing"},
        {M(U ",{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": 5}}]}"),
         "messages[1].tool_calls[0].function.name",
         "messages[1].tool_calls[0].function.name must be a string, it is a number"},
        {MK(U, "\"enable_thinking\": \"false\""), "chat_template_kwargs.enable_thinking",
         "chat_template_kwargs.enable_thinking must be true or false, not a string"},
        {MK(U, "\"preserve_thinking\": 0"), "chat_template_kwargs.preserve_thinking",
         "chat_template_kwargs.preserve_thinking must be true or false, not a number"},
        {"{\"messages\": [" U "], \"enable_thinking\": 1}", "enable_thinking",
         "enable_thinking must be true or false, not a number"},
        {"{\"messages\": [" U "], \"chat_template_kwargs\": []}", "chat_template_kwargs",
         "chat_template_kwargs must be an object, not an array"},
        {"{\"messages\": [" U "], \"reasoning_effort\": \"lots\"}", "reasoning_effort",
         "reasoning_effort is \"lots\", want none, minimal, low, medium, high, xhigh or max"},
        {MK(U, "\"reasoning_effort\": \"high\""), "chat_template_kwargs.reasoning_effort",
         "Unexpected reasoning effort high. Supported types are xhigh (default), medium, and low."},
        {"{\"messages\": [" U "], \"continue_final_message\": true}", "continue_final_message",
         "continue_final_message: the last message is not the assistant's"},
        {"{\"messages\": [" U "," A
         "], \"continue_final_message\": true, \"add_generation_prompt\": true}",
         "continue_final_message",
         "continue_final_message and add_generation_prompt can't both be true"},
        {MT("5", ""), "tools[0]", "tools[0] must be an object, not a number"},
        {"{\"messages\": [" U "], \"tools\": {}}", "tools", "tools must be a list, not an object"},
        {MT("{\"type\": \"retrieval\"}", ""), "tools[0].type",
         "tools[0].type is \"retrieval\", want \"function\""},
        {MT(TOOL("a") ",{\"type\": \"function\"}", ""), "tools[1].function",
         "tools[1].function must be an object, it is missing"},
        {MT("{\"type\": \"function\", \"function\": {}}", ""), "tools[0].function.name",
         "tools[0].function.name is missing, want 1 to 64 characters without white space, quotes, "
         "< and >"},
        {MT(TOOL("a>b"), ""), "tools[0].function.name",
         "tools[0].function.name is \"a>b\", want 1 to 64 characters without white space, quotes, "
         "< and >"},
        {MT(TOOL("a\\nb"), ""), "tools[0].function.name",
         "tools[0].function.name is \"a\\nb\", want 1 to 64 characters without white space, "
         "quotes, < and >"},
        {MT("{\"type\": \"function\", \"function\": {\"name\": \"a\", \"parameters\": 5}}", ""),
         "tools[0].function.parameters",
         "tools[0].function.parameters must be an object, not a number"},
        {"{\"messages\": [" U "], \"tool_choice\": \"required\"}", "tool_choice",
         "tool_choice asks for a call, but there are no tools"},
        {MT("", ", \"tool_choice\": " TOOL("now")), "tool_choice",
         "tool_choice asks for a call, but there are no tools"},
        {MT(TOOL("a"), ", \"tool_choice\": " TOOL("now")), "tool_choice",
         "tool_choice names \"now\", which is none of the tools"},
        {MT(TOOL("a"), ", \"tool_choice\": \"always\""), "tool_choice",
         "tool_choice is \"always\", want auto, none, required or a tool"},
        {MT(TOOL("a"), ", \"tool_choice\": {\"type\": \"function\"}"), "tool_choice.function.name",
         "tool_choice.function.name must be a string, it is missing"},
        {MT(TOOL("a"), ", \"tool_choice\": {\"type\": \"allowed_tools\", \"allowed_tools\": "
                       "{\"mode\": \"auto\", \"tools\": [" TOOL("b") "]}}"),
         "tool_choice.allowed_tools.tools[0]",
         "tool_choice.allowed_tools.tools[0] is {\"type\": \"function\", \"function\": {\"name\": "
         "\"b\"}}, which is none of the tools"},
        {MT(TOOL("a"), ", \"parallel_tool_calls\": \"x\""), "parallel_tool_calls",
         "parallel_tool_calls must be true or false, not a string"},
    };
    vl_chat *c = kit_chat("qwen3.8", 0);
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        kit_refuse(c, rows[i].request, rows[i].field, rows[i].text);
    kit_api->destroy(c);
    c = kit_chat("qwen3.8-always-thinks", 0);
    kit_refuse(c, MK(U, "\"enable_thinking\": false"), "chat_template_kwargs.enable_thinking",
               "Disabling thinking is not supported.");
    kit_refuse(c, "{\"messages\": [" U "], \"reasoning_effort\": \"none\"}",
               "chat_template_kwargs.enable_thinking", "Disabling thinking is not supported.");
    kit_api->destroy(c);
}

static void ends(const vl_chat *c, const char *request, const char *want)
{
    vl_buf x = VL_BUF_INIT;
    kit_render(c, request, false, &x);
    if (x.len < strlen(want) || strcmp(x.ptr + x.len - strlen(want), want) != 0)
        fail_msg("%s\n%s", request, x.ptr);
    vl_buf_fini(&x);
}

static void test_render_thinking_switches(void **state)
{
#define OPEN "assistant\n<think>\n"
#define CLOSED "assistant\n<think>\n\n</think>\n\n"
#define EFFORT(x, more) "{\"messages\": [" U "], \"reasoning_effort\": " x more "}"
    vl_chat *small = kit_chat("qwen3.5-small", 0), *large = kit_chat("qwen3.5", 0),
            *q38 = kit_chat("qwen3.8", 0);
    (void)state;
    ends(small, M(U), CLOSED);
    ends(large, M(U), OPEN);
    ends(small, MK(U, "\"enable_thinking\": null, \"unknown\": 5"), CLOSED);
    ends(small, MK(U, "\"enable_thinking\": true"), OPEN);
    ends(small, "{\"messages\": [" U "], \"enable_thinking\": true}", OPEN);
    ends(small, EFFORT("\"low\"", ""), OPEN);
    ends(large, EFFORT("\"none\"", ""), CLOSED);
    ends(large, EFFORT("null", ""), OPEN);
    ends(large, EFFORT("\"none\"", ", \"chat_template_kwargs\": {\"enable_thinking\": true}"),
         OPEN);
    same(q38, EFFORT("\"minimal\"", ""), MK(U, "\"reasoning_effort\": \"low\""));
    same(q38, EFFORT("\"max\"", ""), M(U));
    gives(q38, EFFORT("\"medium\"", ""), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>" OPEN);
    kit_api->destroy(small);
    kit_api->destroy(large);
    kit_api->destroy(q38);
}

static void test_render_continuation_is_left_open(void **state)
{
    vl_chat *c = kit_chat("qwen3.5", 0);
    (void)state;
    gives(c, "{\"messages\": [" U "," A "], \"continue_final_message\": true}",
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nHello.");
    same(c, "{\"messages\": [" U "," A "], \"continue_final_message\": true}",
         "{\"messages\": [" U "," A
         "], \"continue_final_message\": true, \"add_generation_prompt\": false}");
    kit_api->destroy(c);
}

static void test_render_tool_choice_shapes_the_prompt(void **state)
{
    vl_chat *c = kit_chat("qwen3.5", 0);
    (void)state;
    same(c, MT(TOOL("a"), ", \"tool_choice\": \"none\""), M(U));
    same(c, MT("", ""), M(U));
    same(c, "{\"messages\": [" U "], \"tools\": null, \"tool_choice\": \"auto\"}", M(U));
    same(c, MT(TOOL("a"), ", \"tool_choice\": \"required\""), MT(TOOL("a"), ""));
    same(c,
         MT(TOOL("a") "," TOOL("b"),
            ", \"tool_choice\": {\"type\": \"allowed_tools\", \"allowed_tools\": "
            "{\"mode\": \"required\", \"tools\": [" TOOL("b") "]}}"),
         MT(TOOL("b"), ""));
    same(c, MT(TOOL("mcp.server/tool:v1"), ""), MT(TOOL("mcp.server\\/tool:v1"), ""));
    kit_api->destroy(c);
}

/* The template pieces of a prompt as one text. */
static void template_text(const vl_chat *c, const char *request, vl_buf *out)
{
    vl_chat_prompt *p = NULL;
    vl_chat_view v = {.struct_size = sizeof(v)};
    vl_error err = {0};

    if (kit_api->render(c, (vl_bytes){request, strlen(request)}, &p, NULL, &err) != VL_OK)
        fail_msg("%s", err.text);
    kit_api->view(p, &v);
    for (uint64_t i = 0; i < v.n_pieces; i++) {
        assert_true(v.pieces[i].len > 0);
        if (v.pieces[i].kind == VL_PIECE_TEMPLATE)
            vl_buf_append(out, v.pieces[i].ptr, v.pieces[i].len);
        else
            vl_buf_puts(out, "@");
    }
    kit_api->prompt_free(p);
}

/* Whatever special token someone spells, wherever: the template pieces stay what they are with a
 * dash in its place. */
static void test_render_spelled_tokens_stay_text(void **state)
{
    static const char *const tokens[] = {"-",
                                         "<|im_start|>",
                                         "<|im_end|>",
                                         "<|endoftext|>",
                                         "<think>",
                                         "</think>",
                                         "<tool_call>",
                                         "</tool_call>",
                                         "<tool_response>",
                                         "</tool_response>",
                                         "<|fim_prefix|>",
                                         "<|fim_middle|>",
                                         "<|fim_suffix|>",
                                         "<|vision_start|>",
                                         "<|vision_end|>",
                                         "<|image_pad|>",
                                         "<|video_pad|>",
                                         "<|repo_name|>",
                                         "<|file_sep|>",
                                         "<|object_ref_start|>"};
    vl_chat *c = kit_chat("qwen3.5", VL_CHAT_MEDIA);
    vl_buf want = VL_BUF_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        const char *x = tokens[i];
        vl_buf request = VL_BUF_INIT, got = VL_BUF_INIT;
        vl_buf_printf(&request,
                      "{\"messages\": [{\"role\": \"system\", \"content\": \"s%ss\"}, {\"role\": "
                      "\"user\", \"content\": "
                      "[{\"type\": \"text\", \"text\": \"u%su\"}, {\"type\": \"image\"}, "
                      "{\"type\": \"text\", \"text\": \"%s\"}]}, "
                      "{\"role\": \"assistant\", \"reasoning_content\": \"r%sr\", \"content\": "
                      "\"a%sa\", \"tool_calls\": [{\"id\": "
                      "\"c\", \"function\": {\"name\": \"f%s\", \"arguments\": {\"k\": \"v%sv\", "
                      "\"y%sy\": [\"%s\"]}}}]}, {\"role\": "
                      "\"tool\", \"tool_call_id\": \"c\", \"content\": \"t%st\"}], \"tools\": "
                      "[{\"type\": \"function\", \"function\": "
                      "{\"name\": \"f\", \"description\": \"d%sd\"}}]}",
                      x, x, x, x, x, x, x, x, x, x, x);
        template_text(c, request.ptr, i == 0 ? &want : &got);
        if (i > 0 && strcmp(got.ptr, want.ptr) != 0)
            fail_msg("%s\n got %s\nwant %s", x, got.ptr, want.ptr);
        vl_buf_fini(&request);
        vl_buf_fini(&got);
    }
    vl_buf_fini(&want);
    kit_api->destroy(c);
}

static void test_render_marks_lie_at_the_boundaries(void **state)
{
    static const char request[] = M(S("s") "," U "," CALLS(
        CALL("a", "{}") "," CALL("b", "{}")) "," RESULT("b", "2") "," RESULT("a", "1"));
    static const struct {
        int kind;
        uint32_t message;
        const char *before, *behind;
    } want[] = {
        {VL_MARK_SYSTEM_END, 0, "s<|im_end|>\n", "<|im_start|>user"},
        {VL_MARK_MESSAGE_END, 1, "Hi<|im_end|>\n", "<|im_start|>assistant"},
        {VL_MARK_MESSAGE_END, 2, "</tool_call><|im_end|>\n", "<|im_start|>user"},
        {VL_MARK_MESSAGE_END, 4, "1\n</tool_response>", "\n<tool_response>"},
        {VL_MARK_MESSAGE_END, 3, "2\n</tool_response><|im_end|>\n", "<|im_start|>assistant"},
        {VL_MARK_HEADER, 0, "</tool_response><|im_end|>\n", "<|im_start|>assistant\n<think>\n"},
    };
    vl_chat *c = kit_chat("qwen3.5", 0);
    vl_chat_prompt *p = NULL;
    vl_chat_view v = {.struct_size = sizeof(v)};
    vl_buf text = VL_BUF_INIT;
    (void)state;
    assert_int_equal(kit_api->render(c, (vl_bytes){request, sizeof(request) - 1}, &p, NULL, NULL),
                     VL_OK);
    kit_api->view(p, &v);
    for (uint64_t i = 0; i < v.n_pieces; i++)
        vl_buf_append(&text, v.pieces[i].ptr, v.pieces[i].len);
    assert_int_equal(v.n_marks, sizeof(want) / sizeof(want[0]));
    for (uint64_t i = 0; i < v.n_marks; i++) {
        size_t n = strlen(want[i].before);
        assert_int_equal(v.marks[i].kind, want[i].kind);
        assert_int_equal(v.marks[i].message, want[i].message);
        assert_memory_equal(text.ptr + v.marks[i].byte - n, want[i].before, n);
        assert_memory_equal(text.ptr + v.marks[i].byte, want[i].behind, strlen(want[i].behind));
    }
    assert_int_equal(v.start_state, VL_CHAT_REASONING);
    assert_int_equal(v.thinking, 1);
    assert_int_equal(v.has_tools, 0);
    kit_api->prompt_free(p);
    kit_api->destroy(c);
    vl_buf_fini(&text);
}

/* Writes a constraint out as a readable grammar. */
static void show_node(const vl_constraint_node *nodes, uint32_t i, vl_buf *out, int depth)
{
    static const char *const kinds[] = {"'", "J", "T", "(", "[", "{"};
    const vl_constraint_node *n = &nodes[i];

    assert_true(depth < 20);
    vl_buf_puts(out, kinds[n->kind]);
    vl_buf_append(out, n->text.ptr, n->text.len);
    if (n->kind == VL_CONSTRAINT_REPEAT)
        vl_buf_printf(out, "%u-%u ", n->min_count, n->max_count);
    for (uint32_t k = 0; k < n->n_children; k++)
        show_node(nodes, n->children[k], out, depth + 1);
    vl_buf_puts(out, n->kind == VL_CONSTRAINT_SEQUENCE ? ")"
                     : n->kind == VL_CONSTRAINT_CHOICE ? "]"
                     : n->kind == VL_CONSTRAINT_REPEAT ? "}"
                                                       : "'");
}

static void check_constraint(const vl_chat *c, const char *request, const char *want)
{
    vl_chat_prompt *p = NULL;
    const vl_constraint_node *nodes = NULL;
    uint64_t n = 0;
    vl_buf text = VL_BUF_INIT;

    assert_int_equal(kit_api->render(c, (vl_bytes){request, strlen(request)}, &p, NULL, NULL),
                     VL_OK);
    assert_int_equal(kit_api->constraint(p, &nodes, &n, NULL), VL_OK);
    vl_buf_puts(&text, "");
    if (n)
        show_node(nodes, 0, &text, 0);
    vl_buf_putc(&text, '\0');
    assert_string_equal(text.ptr, want);
    vl_buf_fini(&text);
    kit_api->prompt_free(p);
}

static void test_constraint_spells_required_and_named_calls(void **state)
{
#define TYPED                                                                                      \
    "{\"type\": \"function\", \"function\": {\"name\": \"g\", \"parameters\": {\"type\": "         \
    "\"object\", \"properties\": "                                                                 \
    "{\"n\": {\"type\": \"integer\"}, \"s\": {\"type\": \"string\"}, \"e\": {\"enum\": [\"x\", "   \
    "\"y\"]}}, \"required\": [\"n\"]}}}"
    vl_chat *c = kit_chat("qwen3.5", 0);
    (void)state;
    check_constraint(c, MT(TOOL("a"), ""), "");
    check_constraint(c,
                     MT(TOOL("a") "," TOOL("b"),
                        ", \"tool_choice\": \"required\", \"parallel_tool_calls\": false"),
                     "(('<tool_call>''\n<function='['a>\n''b>\n']'</function>\n''</tool_call>'))");
    check_constraint(c, MT(TOOL("a") "," TYPED, ", \"tool_choice\": " TOOL("g")),
                     "(('<tool_call>''\n<function='[('g>\n'{1-3 "
                     "[('<parameter=n>\n'(J{\"type\":\"integer\"}''\n</parameter>\n'))"
                     "('<parameter=s>\n'T\n</parameter>\n')('<parameter=e>\n'['x\n</"
                     "parameter>\n''y\n</parameter>\n'])]})]"
                     "'</function>\n''</tool_call>')"
                     "{0-127 ('\n'('<tool_call>''\n<function='[('g>\n'{1-3 "
                     "[('<parameter=n>\n'(J{\"type\":\"integer\"}''\n</parameter>\n'))"
                     "('<parameter=s>\n'T\n</parameter>\n')('<parameter=e>\n'['x\n</"
                     "parameter>\n''y\n</parameter>\n'])]})]"
                     "'</function>\n''</tool_call>'))})");
    kit_api->destroy(c);
}

/* Every prefix and many damaged forms of a request: a prompt or an error, never a fault. */
static void test_render_damaged_requests_never_fault(void **state)
{
    static const char request[] = MT(TYPED, ", \"tool_choice\": \"required\", \"functions\": null");
    static const char history[] =
        M(S("s") "," U "," CALLS(CALL("a", "\"{\\\"k\\\": [1]}\"")) "," RESULT("a", "1"));
    static const char *const texts[] = {request, history};
    vl_chat *c = kit_chat("qwen3.6", 0);
    uint32_t seed = 5;
    (void)state;
    for (int t = 0; t < 2; t++) {
        size_t len = strlen(texts[t]);
        for (int i = 0; i < 20000; i++) {
            char *copy = malloc(len);
            vl_chat_prompt *p = NULL;
            vl_chat_field f;
            vl_error err;
            memcpy(copy, texts[t], len);
            for (int k = 0; k < 2; k++) {
                seed = seed * 1664525u + 1013904223u;
                copy[(seed >> 8) % len] = "{}[]\",:0n"[(seed >> 4) % 9];
            }
            if (kit_api->render(c, (vl_bytes){copy, len}, &p, &f, &err) == VL_OK)
                kit_api->prompt_free(p);
            free(copy);
        }
    }
    kit_api->destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_render_published_examples_are_exact),
        cmocka_unit_test(test_render_reference_prompts_are_exact),
        cmocka_unit_test(test_render_system_messages_are_joined),
        cmocka_unit_test(test_render_tool_results_come_in_call_order),
        cmocka_unit_test(test_render_strict_refuses_what_is_mended),
        cmocka_unit_test(test_render_arguments_of_every_spelling),
        cmocka_unit_test(test_render_reasoning_field_in_every_form),
        cmocka_unit_test(test_render_white_space_is_pythons),
        cmocka_unit_test(test_render_errors_name_field_and_fault),
        cmocka_unit_test(test_render_thinking_switches),
        cmocka_unit_test(test_render_continuation_is_left_open),
        cmocka_unit_test(test_render_tool_choice_shapes_the_prompt),
        cmocka_unit_test(test_render_spelled_tokens_stay_text),
        cmocka_unit_test(test_render_marks_lie_at_the_boundaries),
        cmocka_unit_test(test_constraint_spells_required_and_named_calls),
        cmocka_unit_test(test_render_damaged_requests_never_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
