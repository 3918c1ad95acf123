/* host/server/api_chat.c: the body of /v1/chat/completions to a request. What shapes the prompt
 * (messages, tools, thinking) is read again by the model's chat format, which knows its rules; here
 * stand the fields that no format knows, and early refusals. */
#include <string.h>

#include "host/server/api.h"

/* Everything OpenAI, vLLM and llama.cpp clients send and we either use or know to be harmless. */
static const char *const known_fields[] = {"messages",
                                           "model",
                                           "stream",
                                           "stream_options",
                                           "max_completion_tokens",
                                           "max_tokens",
                                           "temperature",
                                           "top_p",
                                           "frequency_penalty",
                                           "presence_penalty",
                                           "top_k",
                                           "min_p",
                                           "repetition_penalty",
                                           "repeat_penalty",
                                           "stop",
                                           "stop_token_ids",
                                           "include_stop_str_in_output",
                                           "skip_special_tokens",
                                           "min_tokens",
                                           "ignore_eos",
                                           "seed",
                                           "n",
                                           "logprobs",
                                           "top_logprobs",
                                           "logit_bias",
                                           "response_format",
                                           "tools",
                                           "tool_choice",
                                           "parallel_tool_calls",
                                           "reasoning_effort",
                                           "chat_template_kwargs",
                                           "enable_thinking",
                                           "add_generation_prompt",
                                           "continue_final_message",
                                           "thinking_token_budget",
                                           "reasoning_budget",
                                           "include_reasoning",
                                           "functions",
                                           "function_call",
                                           "user",
                                           "metadata",
                                           "store",
                                           "service_tier",
                                           "safety_identifier",
                                           "prompt_cache_key",
                                           "prompt_cache_retention",
                                           "prediction",
                                           "verbosity",
                                           "cache_prompt",
                                           "id_slot",
                                           "modalities",
                                           "audio",
                                           "web_search_options",
                                           "chat_template",
                                           "reasoning_format",
                                           "reasoning",
                                           "timings_per_token",
                                           "return_progress",
                                           NULL};

static bool parse_logprobs(vl_json o, vl_api_request *r, vl_api_error *e)
{
    bool on = false, has_top;
    int64_t top = 0;
    if (!vl_field_bool(o, "logprobs", &on, NULL, e) ||
        !vl_field_int(o, "top_logprobs", 0, 20, &top, &has_top, e))
        return false;
    if (has_top && !on)
        return vl_api_fail(e, 400, "top_logprobs", "top_logprobs needs logprobs: true");
    r->n_top = on ? (int32_t)top : -1;
    r->params.n_logprobs = r->n_top;
    return true;
}

static bool parse_refused(vl_json o, vl_api_error *e)
{
    static const char *const refused[][2] = {
        {"audio", "this server makes no audio"},
        {"web_search_options", "this server does not search the web"},
        {"chat_template", "templates from requests are not run; the model's own is built in"},
    };
    vl_json list;
    for (size_t i = 0; i < 3; i++)
        if (!vl_json_is_null(vl_json_get(o, refused[i][0])))
            return vl_api_fail(e, 400, refused[i][0], "%s: %s", refused[i][0], refused[i][1]);
    if (!vl_field_is(o, "modalities", VL_JSON_ARRAY, &list, e))
        return false;
    for (vl_json_iter it = vl_json_each(list); vl_json_next(&it);)
        if (!vl_json_str_eq(it.value, "text"))
            return vl_api_fail(e, 400, "modalities",
                               "modalities: this server answers with text only");
    return true;
}

/* The schema itself is read with the prompt, on a worker. */
static bool parse_response_format(vl_json o, vl_api_request *r, vl_api_error *e)
{
    vl_json f;
    if (!vl_field_is(o, "response_format", VL_JSON_OBJECT, &f, e))
        return false;
    if (!vl_json_exists(f))
        return true;
    vl_json type = vl_json_get(f, "type");
    if (vl_json_str_eq(type, "text"))
        return true;
    r->params.response_format = vl_json_raw(f);
    if (vl_json_str_eq(type, "json_object") || vl_json_str_eq(type, "json_schema"))
        return true;
    return vl_api_fail(e, 400, "response_format",
                       "response_format.type: want text, json_object or json_schema");
}

/* Which calls must come is read with the prompt, by the chat format. */
static bool parse_tool_choice(vl_json o, vl_api_request *r, vl_api_error *e)
{
    bool parallel = true;
    vl_json tools;
    if (!vl_field_bool(o, "parallel_tool_calls", &parallel, NULL, e) ||
        !vl_field_is(o, "tools", VL_JSON_ARRAY, &tools, e))
        return false;
    r->params.flags |= parallel ? 0 : VL_REQUEST_ONE_CALL;
    vl_json choice = vl_json_get(o, "tool_choice");
    if (vl_json_is_null(choice) || vl_json_str_eq(choice, "auto") || vl_json_str_eq(choice, "none"))
        return true;
    bool object = vl_json_is(choice, VL_JSON_OBJECT);
    bool required = vl_json_str_eq(choice, "required");
    if (!object && !required)
        return vl_api_fail(
            e, 400, "tool_choice",
            "tool_choice: want auto, none, required or an object that names a function");
    if (vl_json_count(tools) == 0)
        return vl_api_fail(e, 400, "tool_choice", "tool_choice: there are no tools to choose from");
    return true;
}

static bool parse_budget(vl_json o, vl_api_request *r, vl_api_error *e)
{
    bool found;
    int64_t x = -1;
    if (!vl_field_int(o, "thinking_token_budget", -1, INT64_MAX, &x, &found, e))
        return false;
    if (!found && !vl_field_int(o, "reasoning_budget", -1, INT64_MAX, &x, NULL, e))
        return false;
    r->params.thinking_budget = x;
    return true;
}

/* llama.cpp's field: none leaves the thought in the content. */
static bool parse_reasoning_format(vl_json o, vl_api_request *r, vl_api_error *e)
{
    vl_json v = vl_json_get(o, "reasoning_format");
    if (vl_json_is_null(v) || vl_json_str_eq(v, "auto"))
        return true;
    r->reasoning_field = VL_FIELD_REASONING_CONTENT;
    if (vl_json_str_eq(v, "none"))
        r->reasoning_field = VL_FIELD_REASONING_INLINE;
    else if (!vl_json_str_eq(v, "deepseek") && !vl_json_str_eq(v, "deepseek-legacy"))
        return vl_api_fail(e, 400, "reasoning_format",
                           "reasoning_format: want none, auto, deepseek or deepseek-legacy");
    return true;
}

bool vl_api_chat_parse(vl_api_request *r, const char *body, size_t len, const vl_api_limits *limits,
                       vl_api_unknown_fn unknown, void *user, vl_api_error *e)
{
    vl_json messages;
    memset(r, 0, sizeof *r);
    if (!vl_api_common_parse(r, body, len, limits, e))
        return false;
    vl_json o = vl_json_root(&r->doc);
    if (!vl_field_is(o, "messages", VL_JSON_ARRAY, &messages, e))
        return false;
    if (vl_json_count(messages) == 0)
        return vl_api_fail(e, 400, "messages", "messages: %s",
                           vl_json_exists(messages) ? "the list is empty" : "the field is missing");
    if (!parse_refused(o, e) || !parse_logprobs(o, r, e) || !parse_response_format(o, r, e) ||
        !parse_tool_choice(o, r, e) || !parse_budget(o, r, e) || !parse_reasoning_format(o, r, e) ||
        !vl_field_bool(o, "include_reasoning", &r->include_reasoning, NULL, e))
        return false;
    vl_api_report_unknown(o, known_fields, unknown, user);
    r->params.chat_json = (vl_bytes){body, len};
    return true;
}
