/* host/server/api_responses.c: bodies of /v1/responses (OpenAI's form, without anything kept
 * between requests) to chat bodies. Must not know answers. */
#include <stdio.h>
#include <string.h>

#include "host/server/api_forms.h"

static const char *const known_fields[] = {"model",
                                           "input",
                                           "instructions",
                                           "max_output_tokens",
                                           "temperature",
                                           "top_p",
                                           "top_k",
                                           "min_p",
                                           "seed",
                                           "stop",
                                           "logit_bias",
                                           "presence_penalty",
                                           "frequency_penalty",
                                           "repetition_penalty",
                                           "stream",
                                           "stream_options",
                                           "tools",
                                           "tool_choice",
                                           "parallel_tool_calls",
                                           "text",
                                           "reasoning",
                                           "metadata",
                                           "user",
                                           "store",
                                           "include",
                                           "truncation",
                                           "service_tier",
                                           "safety_identifier",
                                           "prompt_cache_key",
                                           "prompt_cache_retention",
                                           "previous_response_id",
                                           "conversation",
                                           "background",
                                           "prompt",
                                           "max_tool_calls",
                                           "top_logprobs",
                                           "client_metadata",
                                           "chat_template_kwargs",
                                           NULL};
static const char *const same_fields[] = {"model",
                                          "stream",
                                          "temperature",
                                          "top_p",
                                          "top_k",
                                          "min_p",
                                          "seed",
                                          "stop",
                                          "logit_bias",
                                          "presence_penalty",
                                          "frequency_penalty",
                                          "repetition_penalty",
                                          "parallel_tool_calls",
                                          "chat_template_kwargs",
                                          NULL};

static void put_raw(vl_buf *out, vl_json v)
{
    vl_bytes raw = vl_json_raw(v);
    vl_buf_append(out, raw.ptr ? raw.ptr : "null", raw.ptr ? raw.len : 4);
}

/* ---- input ---- */

/* A thought: its text, or where that was left out, its summary. Goes to the message behind it. */
static bool reasoning_item(vl_chat_writer *w, vl_json item, vl_api_error *e)
{
    vl_json list = vl_json_get(item, "content");
    if (vl_json_count(list) == 0)
        list = vl_json_get(item, "summary");
    if (w->open && (w->content.len || w->calls.len))
        vl_chat_writer_flush(w);
    w->open = true;
    for (vl_json_iter it = vl_json_each(list); vl_json_next(&it);) {
        vl_json text = vl_json_get(it.value, "text");
        if (!vl_json_is(text, VL_JSON_STRING))
            return vl_api_fail(e, 400, "input", "input: a part of a reasoning item has no text");
        vl_bytes raw = vl_json_str_raw(text);
        vl_buf_append(&w->reasoning, raw.ptr, raw.len);
    }
    return true;
}

static bool call_item(vl_chat_writer *w, vl_json item, const char *path, vl_api_error *e)
{
    vl_json id, name, arguments = vl_json_get(item, "arguments");
    if (!vl_chat_need_text(item, path, "call_id", &id, e) ||
        !vl_chat_need_text(item, path, "name", &name, e))
        return false;
    if (!vl_json_is(arguments, VL_JSON_STRING))
        return vl_api_fail(e, 400, path, "%s.arguments: want a string, got %s", path,
                           vl_json_type_name(arguments));
    vl_chat_writer_call(w, id, name, vl_json_raw(arguments));
    return true;
}

static bool output_item(vl_chat_writer *w, vl_json item, const char *path, vl_api_error *e)
{
    vl_json id;
    char place[128];
    vl_buf text = VL_BUF_INIT;
    snprintf(place, sizeof place, "%.100s.output", path);
    bool ok = vl_chat_need_text(item, path, "call_id", &id, e) &&
              vl_chat_text(vl_json_get(item, "output"), place, "", &text, e);
    if (ok)
        vl_chat_writer_message(w, "tool", id, &text);
    vl_buf_fini(&text);
    return ok;
}

static bool message_item(vl_chat_writer *w, vl_json item, const char *path, vl_api_error *e)
{
    static const char *const roles[] = {"user", "system", "developer"};
    vl_json role = vl_json_get(item, "role"), content = vl_json_get(item, "content");
    char place[128];
    vl_buf text = VL_BUF_INIT;
    snprintf(place, sizeof place, "%.100s.content", path);
    if (vl_json_str_eq(role, "assistant")) {
        if (w->open && (w->content.len || w->calls.len))
            vl_chat_writer_flush(w);
        w->open = true;
        return vl_chat_text(content, place, "", &w->content, e);
    }
    size_t k = 0;
    while (k < 3 && !vl_json_str_eq(role, roles[k]))
        k++;
    if (k == 3)
        return vl_api_fail(e, 400, path, "%s.role: want user, assistant, system or developer",
                           path);
    bool ok = vl_chat_text(content, place, "", &text, e);
    if (ok)
        vl_chat_writer_message(w, roles[k], (vl_json){0}, &text);
    vl_buf_fini(&text);
    return ok;
}

static bool input_item(vl_chat_writer *w, vl_json item, unsigned index, vl_api_error *e)
{
    char path[64], name[64];
    snprintf(path, sizeof path, "input[%u]", index);
    vl_json type = vl_json_get(item, "type");
    if (!vl_json_is(item, VL_JSON_OBJECT))
        return vl_api_fail(e, 400, path, "%s: want an object, got %s", path,
                           vl_json_type_name(item));
    if (vl_json_is_null(type) || vl_json_str_eq(type, "message"))
        return message_item(w, item, path, e);
    if (vl_json_str_eq(type, "reasoning"))
        return reasoning_item(w, item, e);
    if (vl_json_str_eq(type, "function_call"))
        return call_item(w, item, path, e);
    if (vl_json_str_eq(type, "function_call_output"))
        return output_item(w, item, path, e);
    return vl_api_fail(e, 400, path, "%s: items of type '%s' are not taken here", path,
                       vl_json_str_copy(type, name, sizeof name) ? name : "?");
}

static bool put_input(vl_json o, vl_chat_writer *w, vl_api_error *e)
{
    vl_json input = vl_json_get(o, "input");
    vl_buf text = VL_BUF_INIT;
    bool found = false, ok = vl_field_text(o, "instructions", &text, &found, e);
    vl_buf_clear(&text);
    vl_buf_puts(w->out, "\"messages\":[");
    if (ok && found) {
        ok = vl_chat_text(vl_json_get(o, "instructions"), "instructions", "", &text, e);
        vl_chat_writer_message(w, "system", (vl_json){0}, &text);
    }
    vl_buf_clear(&text);
    if (ok && vl_json_is(input, VL_JSON_STRING)) {
        ok = vl_chat_text(input, "input", "", &text, e);
        vl_chat_writer_message(w, "user", (vl_json){0}, &text);
    } else if (ok && !vl_json_is(input, VL_JSON_ARRAY)) {
        ok = vl_api_fail(e, 400, "input", "input: want a string or a list of items, got %s",
                         vl_json_type_name(input));
    } else if (ok && vl_json_count(input) == 0) {
        ok = vl_api_fail(e, 400, "input", "input: the list is empty");
    }
    for (vl_json_iter it = vl_json_each(input);
         ok && vl_json_is(input, VL_JSON_ARRAY) && vl_json_next(&it);)
        ok = input_item(w, it.value, (unsigned)it.index, e);
    if (ok)
        vl_chat_writer_flush(w);
    vl_buf_putc(w->out, ']');
    vl_buf_fini(&text);
    return ok;
}

/* ---- tools, format, reasoning ---- */

static bool put_tools(vl_json o, vl_buf *out, vl_api_error *e)
{
    vl_json list;
    char place[64], name[64];
    if (!vl_field_is(o, "tools", VL_JSON_ARRAY, &list, e))
        return false;
    if (vl_json_count(list) == 0)
        return true;
    vl_buf_puts(out, ",\"tools\":[");
    for (vl_json_iter it = vl_json_each(list); vl_json_next(&it);) {
        snprintf(place, sizeof place, "tools[%u]", (unsigned)it.index);
        vl_json type = vl_json_get(it.value, "type");
        if (!vl_json_str_eq(type, "function"))
            return vl_api_fail(e, 400, place,
                               "%s: tools of type '%s' are not offered by this server; want "
                               "function",
                               place, vl_json_str_copy(type, name, sizeof name) ? name : "?");
        if (it.index)
            vl_buf_putc(out, ',');
        if (!vl_chat_tool(it.value, place, "parameters", out, e))
            return false;
    }
    vl_buf_putc(out, ']');
    return true;
}

/* A named function stands one level higher here than in a chat body. */
static void put_named(vl_json choice, vl_buf *out)
{
    vl_buf_puts(out, "{\"type\":\"function\",\"function\":{\"name\":");
    put_raw(out, vl_json_get(choice, "name"));
    vl_buf_puts(out, "}}");
}

static bool put_tool_choice(vl_json o, vl_buf *out, vl_api_error *e)
{
    vl_json choice = vl_json_get(o, "tool_choice"), name;
    if (vl_json_is_null(choice))
        return true;
    vl_buf_puts(out, ",\"tool_choice\":");
    vl_json type = vl_json_get(choice, "type");
    if (!vl_json_is(choice, VL_JSON_OBJECT)) {
        put_raw(out, choice);
        return true;
    }
    if (vl_json_str_eq(type, "function")) {
        if (!vl_chat_need_text(choice, "tool_choice", "name", &name, e))
            return false;
        put_named(choice, out);
        return true;
    }
    if (!vl_json_str_eq(type, "allowed_tools"))
        return vl_api_fail(e, 400, "tool_choice",
                           "tool_choice.type: want function or allowed_tools");
    vl_buf_puts(out, "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":");
    put_raw(out, vl_json_get(choice, "mode"));
    vl_buf_puts(out, ",\"tools\":[");
    for (vl_json_iter it = vl_json_each(vl_json_get(choice, "tools")); vl_json_next(&it);) {
        if (it.index)
            vl_buf_putc(out, ',');
        put_named(it.value, out);
    }
    vl_buf_puts(out, "]}}");
    return true;
}

static bool put_format(vl_json o, vl_buf *out, vl_api_error *e)
{
    static const char *const names[] = {"name", "schema", "strict", NULL};
    vl_json text, format;
    if (!vl_field_is(o, "text", VL_JSON_OBJECT, &text, e) ||
        !vl_field_is(text, "format", VL_JSON_OBJECT, &format, e))
        return false;
    if (!vl_json_exists(format))
        return true;
    vl_json type = vl_json_get(format, "type");
    if (vl_json_str_eq(type, "json_schema")) {
        vl_buf_puts(out, ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
                         "\"description\":null");
        vl_chat_copy(format, names, out);
        vl_buf_puts(out, "}}");
    } else if (vl_json_str_eq(type, "json_object") || vl_json_str_eq(type, "text")) {
        vl_buf_puts(out, ",\"response_format\":{\"type\":");
        put_raw(out, type);
        vl_buf_putc(out, '}');
    } else {
        return vl_api_fail(e, 400, "text.format",
                           "text.format.type: want text, json_object or json_schema");
    }
    return true;
}

static bool put_reasoning(vl_json o, vl_buf *out, vl_api_error *e)
{
    vl_json reasoning;
    if (!vl_field_is(o, "reasoning", VL_JSON_OBJECT, &reasoning, e))
        return false;
    vl_json effort = vl_json_get(reasoning, "effort");
    if (!vl_json_is_null(effort)) {
        vl_buf_puts(out, ",\"reasoning_effort\":");
        put_raw(out, effort);
    }
    return true;
}

static bool put_limit(vl_json o, vl_buf *out, vl_api_error *e)
{
    int64_t max = 0;
    bool found;
    if (!vl_field_int(o, "max_output_tokens", 1, INT64_MAX, &max, &found, e))
        return false;
    if (found)
        vl_buf_printf(out, ",\"max_tokens\":%lld", (long long)max);
    return true;
}

/* What needs a store behind the server, or is not there. */
static bool refuse_others(vl_json o, vl_api_error *e)
{
    static const char *const refused[] = {"previous_response_id", "conversation", "prompt"};
    bool background = false;
    int64_t top = 0;
    for (size_t i = 0; i < 3; i++)
        if (!vl_json_is_null(vl_json_get(o, refused[i])))
            return vl_api_fail(e, 400, refused[i],
                               "%s: this server keeps nothing between requests; send the whole "
                               "conversation as input",
                               refused[i]);
    if (!vl_field_bool(o, "background", &background, NULL, e) ||
        !vl_field_int(o, "top_logprobs", 0, 20, &top, NULL, e))
        return false;
    if (background)
        return vl_api_fail(e, 400, "background", "background: not offered by this server");
    if (top > 0)
        return vl_api_fail(e, 400, "top_logprobs",
                           "top_logprobs: not offered here; /v1/chat/completions has it");
    return true;
}

/* What the response repeats, with what stands for the absent. */
static void put_echo(vl_json o, vl_buf *echo)
{
    static const struct {
        const char *name, *absent;
    } fields[] = {{"instructions", "null"},
                  {"max_output_tokens", "null"},
                  {"temperature", "null"},
                  {"top_p", "null"},
                  {"tools", "[]"},
                  {"tool_choice", "\"auto\""},
                  {"metadata", "{}"},
                  {"parallel_tool_calls", "true"},
                  {"user", "null"},
                  {"text", "{\"format\":{\"type\":\"text\"}}"},
                  {"reasoning", "{\"effort\":null,\"summary\":null}"}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        vl_json v = vl_json_get(o, fields[i].name);
        vl_buf_printf(echo, ",\"%s\":", fields[i].name);
        if (vl_json_is_null(v))
            vl_buf_puts(echo, fields[i].absent);
        else
            put_raw(echo, v);
    }
}

bool vl_api_responses_to_chat(const char *body, size_t len, const vl_api_limits *limits,
                              vl_api_unknown_fn unknown, void *user, vl_buf *chat, vl_buf *echo,
                              vl_api_error *e)
{
    vl_json_doc doc = {0};
    vl_chat_writer w = {.out = chat};
    bool ok = vl_chat_open(&doc, body, len, limits, e);
    vl_json o = vl_json_root(&doc);
    vl_buf_putc(chat, '{');
    ok = ok && refuse_others(o, e) && put_input(o, &w, e) && put_tools(o, chat, e) &&
         put_tool_choice(o, chat, e) && put_format(o, chat, e) && put_reasoning(o, chat, e) &&
         put_limit(o, chat, e);
    if (ok) {
        vl_chat_copy(o, same_fields, chat);
        vl_buf_putc(chat, '}');
        put_echo(o, echo);
        vl_api_report_unknown(o, known_fields, unknown, user);
    }
    if (ok && (chat->failed || echo->failed))
        ok = vl_api_fail(e, 503, NULL, "out of memory");
    vl_chat_writer_fini(&w);
    vl_json_doc_fini(&doc);
    return ok;
}
