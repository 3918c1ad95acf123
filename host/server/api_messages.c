/* host/server/api_messages.c: bodies of /v1/messages (Anthropic's form) to chat bodies. Must not
 * know answers. */
#include <stdio.h>
#include <string.h>

#include "host/server/api_forms.h"

static const char *const known_fields[] = {"model",
                                           "messages",
                                           "system",
                                           "max_tokens",
                                           "metadata",
                                           "stream",
                                           "stop_sequences",
                                           "temperature",
                                           "top_p",
                                           "top_k",
                                           "tools",
                                           "tool_choice",
                                           "thinking",
                                           "output_format",
                                           "output_config",
                                           "service_tier",
                                           "container",
                                           "mcp_servers",
                                           "context_management",
                                           "seed",
                                           "min_p",
                                           "logit_bias",
                                           "cache_control",
                                           "repetition_penalty",
                                           "presence_penalty",
                                           "anthropic_beta",
                                           "frequency_penalty",
                                           "betas",
                                           "chat_template_kwargs",
                                           NULL};
/* Ours under the same name. The last ones are no part of the form, and are taken as for chat. */
static const char *const same_fields[] = {"model",
                                          "stream",
                                          "temperature",
                                          "top_p",
                                          "top_k",
                                          "seed",
                                          "min_p",
                                          "logit_bias",
                                          "repetition_penalty",
                                          "presence_penalty",
                                          "frequency_penalty",
                                          "chat_template_kwargs",
                                          NULL};

static bool assistant_block(vl_chat_writer *w, vl_json block, const char *path, vl_api_error *e)
{
    vl_json type = vl_json_get(block, "type"), id, name;
    if (vl_json_str_eq(type, "text")) {
        vl_bytes raw = vl_json_str_raw(vl_json_get(block, "text"));
        if (!vl_json_is(vl_json_get(block, "text"), VL_JSON_STRING))
            return vl_api_fail(e, 400, path, "%s.text: want a string", path);
        vl_buf_append(&w->content, raw.ptr, raw.len);
        return true;
    }
    if (vl_json_str_eq(type, "thinking")) {
        vl_json text = vl_json_get(block, "thinking");
        if (!vl_json_is(text, VL_JSON_STRING))
            return vl_api_fail(e, 400, path, "%s.thinking: want a string", path);
        vl_bytes raw = vl_json_str_raw(text);
        vl_buf_append(&w->reasoning, raw.ptr, raw.len);
        return true;
    }
    if (vl_json_str_eq(type, "redacted_thinking"))
        return true; /* nobody here can read it */
    if (!vl_json_str_eq(type, "tool_use"))
        return vl_api_fail(e, 400, path,
                           "%s.type: want text, thinking, redacted_thinking or tool_use", path);
    if (!vl_chat_need_text(block, path, "id", &id, e) ||
        !vl_chat_need_text(block, path, "name", &name, e))
        return false;
    vl_json input = vl_json_get(block, "input");
    if (!vl_json_is_null(input) && !vl_json_is(input, VL_JSON_OBJECT))
        return vl_api_fail(e, 400, path, "%s.input: want an object, got %s", path,
                           vl_json_type_name(input));
    vl_chat_writer_call(w, id, name,
                        vl_json_is_null(input) ? (vl_bytes){"{}", 2} : vl_json_raw(input));
    return true;
}

static bool assistant(vl_chat_writer *w, vl_json content, const char *path, vl_api_error *e)
{
    char place[128];
    vl_chat_writer_flush(w);
    w->open = true;
    if (!vl_json_is(content, VL_JSON_ARRAY)) {
        if (!vl_chat_text(content, path, "", &w->content, e))
            return false;
        vl_chat_writer_flush(w);
        return true;
    }
    for (vl_json_iter it = vl_json_each(content); vl_json_next(&it);) {
        snprintf(place, sizeof place, "%.100s[%u]", path, (unsigned)it.index);
        if (!vl_json_is(it.value, VL_JSON_OBJECT))
            return vl_api_fail(e, 400, place, "%s: want an object, got %s", place,
                               vl_json_type_name(it.value));
        if (!assistant_block(w, it.value, place, e))
            return false;
    }
    vl_chat_writer_flush(w);
    return true;
}

/* A user's blocks: results of tools become messages of their own, in their order. */
static bool user_blocks(vl_chat_writer *w, vl_json content, const char *path, vl_buf *text,
                        vl_api_error *e)
{
    char place[128];
    vl_json id;
    bool any = false;
    for (vl_json_iter it = vl_json_each(content); vl_json_next(&it);) {
        if (!vl_json_str_eq(vl_json_get(it.value, "type"), "tool_result")) {
            /* vl_chat_text reads lists: what is wrong with a part is told as of this one. */
            snprintf(place, sizeof place, "%.100s[%u]", path, (unsigned)it.index);
            vl_json part = vl_json_get(it.value, "text");
            if (!vl_json_str_eq(vl_json_get(it.value, "type"), "text") ||
                !vl_json_is(part, VL_JSON_STRING))
                return vl_api_fail(e, 400, place,
                                   "%s: want a text or tool_result block; other content (images, "
                                   "documents) is not taken here",
                                   place);
            vl_bytes raw = vl_json_str_raw(part);
            vl_buf_append(text, raw.ptr, raw.len);
            any = true;
            continue;
        }
        if (any)
            vl_chat_writer_message(w, "user", (vl_json){0}, text);
        vl_buf_clear(text);
        any = false;
        snprintf(place, sizeof place, "%.100s[%u]", path, (unsigned)it.index);
        if (!vl_chat_need_text(it.value, place, "tool_use_id", &id, e))
            return false;
        snprintf(place, sizeof place, "%.100s[%u].content", path, (unsigned)it.index);
        if (!vl_chat_text(vl_json_get(it.value, "content"), place, "", text, e))
            return false;
        vl_chat_writer_message(w, "tool", id, text);
        vl_buf_clear(text);
    }
    if (any)
        vl_chat_writer_message(w, "user", (vl_json){0}, text);
    return true;
}

static bool message(vl_chat_writer *w, vl_json m, const char *path, vl_api_error *e)
{
    char place[128];
    vl_buf text = VL_BUF_INIT;
    bool ok = true;
    vl_json role = vl_json_get(m, "role"), content = vl_json_get(m, "content");
    snprintf(place, sizeof place, "%.100s.content", path);
    if (!vl_json_is(m, VL_JSON_OBJECT))
        return vl_api_fail(e, 400, path, "%s: want an object, got %s", path, vl_json_type_name(m));
    if (vl_json_is_null(content))
        return vl_api_fail(e, 400, place, "%s: the field is missing", place);
    if (vl_json_str_eq(role, "assistant"))
        return assistant(w, content, place, e);
    bool user = vl_json_str_eq(role, "user");
    if (!user && !vl_json_str_eq(role, "system"))
        return vl_api_fail(e, 400, path, "%s.role: want user or assistant", path);
    if (user && vl_json_is(content, VL_JSON_ARRAY)) {
        ok = user_blocks(w, content, place, &text, e);
    } else {
        ok = vl_chat_text(content, place, "", &text, e);
        if (ok)
            vl_chat_writer_message(w, user ? "user" : "system", (vl_json){0}, &text);
    }
    vl_buf_fini(&text);
    return ok;
}

/* The messages, and whether the last is an assistant's, which the answer then goes on with. */
static bool put_messages(vl_json o, vl_chat_writer *w, vl_api_error *e)
{
    vl_json list, last;
    char place[64];
    vl_buf text = VL_BUF_INIT;
    if (!vl_field_is(o, "messages", VL_JSON_ARRAY, &list, e))
        return false;
    if (vl_json_count(list) == 0)
        return vl_api_fail(e, 400, "messages", "messages: %s",
                           vl_json_exists(list) ? "the list is empty" : "the field is missing");
    vl_json system = vl_json_get(o, "system");
    bool ok = vl_chat_text(system, "system", "\\n\\n", &text, e);
    vl_buf_puts(w->out, "\"messages\":[");
    if (ok && !vl_json_is_null(system))
        vl_chat_writer_message(w, "system", (vl_json){0}, &text);
    vl_buf_fini(&text);
    for (vl_json_iter it = vl_json_each(list); ok && vl_json_next(&it);) {
        snprintf(place, sizeof place, "messages[%u]", (unsigned)it.index);
        ok = message(w, it.value, place, e);
        last = it.value;
        if (ok && it.index + 1 == vl_json_count(list)) {
            vl_buf_putc(w->out, ']');
            if (vl_json_str_eq(vl_json_get(last, "role"), "assistant"))
                vl_buf_puts(w->out,
                            ",\"continue_final_message\":true,\"add_generation_prompt\":false");
        }
    }
    return ok;
}

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
        if (!vl_json_is_null(type) && !vl_json_str_eq(type, "custom"))
            return vl_api_fail(e, 400, place, "%s: tools of type '%s' are not run here", place,
                               vl_json_str_copy(type, name, sizeof name) ? name : "?");
        if (it.index)
            vl_buf_putc(out, ',');
        if (!vl_chat_tool(it.value, place, "input_schema", out, e))
            return false;
    }
    vl_buf_putc(out, ']');
    return true;
}

static bool put_tool_choice(vl_json o, vl_buf *out, vl_api_error *e)
{
    vl_json choice, name;
    bool one = false;
    if (!vl_field_is(o, "tool_choice", VL_JSON_OBJECT, &choice, e))
        return false;
    if (!vl_json_exists(choice))
        return true;
    if (!vl_field_bool(choice, "disable_parallel_tool_use", &one, NULL, e))
        return false;
    if (one)
        vl_buf_puts(out, ",\"parallel_tool_calls\":false");
    vl_json type = vl_json_get(choice, "type");
    if (vl_json_str_eq(type, "auto") || vl_json_str_eq(type, "none")) {
        vl_buf_puts(out, ",\"tool_choice\":");
        vl_buf_append(out, vl_json_raw(type).ptr, vl_json_raw(type).len);
    } else if (vl_json_str_eq(type, "any")) {
        vl_buf_puts(out, ",\"tool_choice\":\"required\"");
    } else if (vl_json_str_eq(type, "tool")) {
        if (!vl_chat_need_text(choice, "tool_choice", "name", &name, e))
            return false;
        vl_buf_puts(out, ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":");
        vl_buf_append(out, vl_json_raw(name).ptr, vl_json_raw(name).len);
        vl_buf_puts(out, "}}");
    } else {
        return vl_api_fail(e, 400, "tool_choice", "tool_choice.type: want auto, any, tool or none");
    }
    return true;
}

/* Absent: the model's default, as for chat. */
static bool put_thinking(vl_json o, vl_buf *out, vl_api_error *e)
{
    vl_json t;
    int64_t budget = 0;
    bool found;
    if (!vl_field_is(o, "thinking", VL_JSON_OBJECT, &t, e))
        return false;
    if (!vl_json_exists(t))
        return true;
    vl_json type = vl_json_get(t, "type");
    if (vl_json_str_eq(type, "disabled")) {
        vl_buf_puts(out, ",\"enable_thinking\":false");
        return true;
    }
    if (!vl_json_str_eq(type, "enabled") && !vl_json_str_eq(type, "adaptive"))
        return vl_api_fail(e, 400, "thinking", "thinking.type: want enabled, adaptive or disabled");
    if (!vl_field_int(t, "budget_tokens", 1, INT64_MAX, &budget, &found, e))
        return false;
    vl_buf_puts(out, ",\"enable_thinking\":true");
    if (found)
        vl_buf_printf(out, ",\"thinking_token_budget\":%lld", (long long)budget);
    return true;
}

/* output_format, or output_config.format in newer clients. */
static bool put_format(vl_json o, vl_buf *out, vl_api_error *e)
{
    vl_json config, format;
    if (!vl_field_is(o, "output_config", VL_JSON_OBJECT, &config, e) ||
        !vl_field_is(vl_json_exists(config) ? config : o,
                     vl_json_exists(config) ? "format" : "output_format", VL_JSON_OBJECT, &format,
                     e))
        return false;
    if (!vl_json_exists(format))
        return true;
    vl_json schema = vl_json_get(format, "schema");
    if (!vl_json_str_eq(vl_json_get(format, "type"), "json_schema") ||
        !vl_json_is(schema, VL_JSON_OBJECT))
        return vl_api_fail(e, 400, "output_format",
                           "output_format: want type json_schema and a schema");
    vl_buf_puts(out, ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":"
                     "\"output\",\"schema\":");
    vl_buf_append(out, vl_json_raw(schema).ptr, vl_json_raw(schema).len);
    vl_buf_puts(out, "}}");
    return true;
}

static bool put_limits(vl_json o, bool count, vl_buf *out, vl_api_error *e)
{
    int64_t max = 0;
    bool found;
    vl_json stops;
    if (!vl_field_int(o, "max_tokens", 1, INT64_MAX, &max, &found, e) ||
        !vl_field_is(o, "stop_sequences", VL_JSON_ARRAY, &stops, e))
        return false;
    if (!found && !count)
        return vl_api_fail(e, 400, "max_tokens", "max_tokens: the field is missing");
    if (found)
        vl_buf_printf(out, ",\"max_tokens\":%lld", (long long)max);
    if (vl_json_exists(stops)) {
        vl_buf_puts(out, ",\"stop\":");
        vl_buf_append(out, vl_json_raw(stops).ptr, vl_json_raw(stops).len);
    }
    return true;
}

static bool refuse_others(vl_json o, vl_api_error *e)
{
    static const char *const refused[] = {"mcp_servers", "container"};
    for (size_t i = 0; i < 2; i++) {
        vl_json v = vl_json_get(o, refused[i]);
        if (!vl_json_is_null(v) && !(vl_json_is(v, VL_JSON_ARRAY) && vl_json_count(v) == 0))
            return vl_api_fail(e, 400, refused[i], "%s: not offered by this server", refused[i]);
    }
    return true;
}

bool vl_api_messages_to_chat(const char *body, size_t len, bool count, const vl_api_limits *limits,
                             vl_api_unknown_fn unknown, void *user, vl_buf *chat, vl_api_error *e)
{
    vl_json_doc doc = {0};
    vl_chat_writer w = {.out = chat};
    bool ok = vl_chat_open(&doc, body, len, limits, e);
    vl_json o = vl_json_root(&doc);
    vl_buf_putc(chat, '{');
    ok = ok && refuse_others(o, e) && put_messages(o, &w, e) && put_tools(o, chat, e) &&
         put_tool_choice(o, chat, e) && put_thinking(o, chat, e) && put_format(o, chat, e) &&
         put_limits(o, count, chat, e);
    if (ok) {
        vl_chat_copy(o, same_fields, chat);
        vl_buf_putc(chat, '}');
        vl_api_report_unknown(o, known_fields, unknown, user);
    }
    if (ok && chat->failed)
        ok = vl_api_fail(e, 503, NULL, "out of memory");
    vl_chat_writer_fini(&w);
    vl_json_doc_fini(&doc);
    return ok;
}
