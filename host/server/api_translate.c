/* host/server/api_translate.c: pieces of a chat body that other forms of request are turned into.
 * Must not know any form. */
#include <stdio.h>
#include <string.h>

#include "host/server/api_forms.h"

static void put(vl_buf *out, const vl_buf *text)
{
    vl_buf_append(out, text->ptr ? text->ptr : "", text->len);
}

static void put_raw(vl_buf *out, vl_json v)
{
    vl_bytes raw = vl_json_raw(v);
    vl_buf_append(out, raw.ptr ? raw.ptr : "null", raw.ptr ? raw.len : 4);
}

void vl_chat_writer_fini(vl_chat_writer *w)
{
    vl_buf_fini(&w->reasoning);
    vl_buf_fini(&w->content);
    vl_buf_fini(&w->calls);
}

/* Memory that ran out while gathering must not look like a shorter message. */
static void inherit_failure(vl_chat_writer *w)
{
    w->out->failed |= w->reasoning.failed || w->content.failed || w->calls.failed;
}

void vl_chat_writer_flush(vl_chat_writer *w)
{
    if (!w->open)
        return;
    inherit_failure(w);
    vl_buf_puts(w->out, w->n_messages++ ? ",{\"role\":\"assistant\"" : "{\"role\":\"assistant\"");
    vl_buf_puts(w->out, ",\"content\":\"");
    put(w->out, &w->content);
    vl_buf_putc(w->out, '"');
    if (w->reasoning.len) {
        vl_buf_puts(w->out, ",\"reasoning_content\":\"");
        put(w->out, &w->reasoning);
        vl_buf_putc(w->out, '"');
    }
    if (w->calls.len) {
        vl_buf_puts(w->out, ",\"tool_calls\":[");
        put(w->out, &w->calls);
        vl_buf_putc(w->out, ']');
    }
    vl_buf_putc(w->out, '}');
    vl_buf_clear(&w->reasoning);
    vl_buf_clear(&w->content);
    vl_buf_clear(&w->calls);
    w->open = false;
}

void vl_chat_writer_message(vl_chat_writer *w, const char *role, vl_json tool_call_id,
                            const vl_buf *content)
{
    vl_chat_writer_flush(w);
    w->out->failed |= content->failed;
    vl_buf_printf(w->out, "%s{\"role\":\"%s\"", w->n_messages++ ? "," : "", role);
    if (vl_json_exists(tool_call_id)) {
        vl_buf_puts(w->out, ",\"tool_call_id\":");
        put_raw(w->out, tool_call_id);
    }
    vl_buf_puts(w->out, ",\"content\":\"");
    put(w->out, content);
    vl_buf_puts(w->out, "\"}");
}

void vl_chat_writer_call(vl_chat_writer *w, vl_json id, vl_json name, vl_bytes arguments)
{
    w->open = true;
    vl_buf_puts(&w->calls, w->calls.len ? ",{\"id\":" : "{\"id\":");
    put_raw(&w->calls, id);
    vl_buf_puts(&w->calls, ",\"type\":\"function\",\"function\":{\"name\":");
    put_raw(&w->calls, name);
    vl_buf_puts(&w->calls, ",\"arguments\":");
    vl_buf_append(&w->calls, arguments.ptr, arguments.len);
    vl_buf_puts(&w->calls, "}}");
}

static bool part_text(vl_json part, const char *path, unsigned index, vl_buf *out, vl_api_error *e)
{
    char place[256], name[64];
    snprintf(place, sizeof place, "%.200s[%u]", path, index);
    vl_json type = vl_json_get(part, "type");
    bool refusal = vl_json_str_eq(type, "refusal");
    if (!vl_json_is(part, VL_JSON_OBJECT))
        return vl_api_fail(e, 400, place, "%s: want an object, got %s", place,
                           vl_json_type_name(part));
    if (!refusal && !vl_json_str_eq(type, "text") && !vl_json_str_eq(type, "input_text") &&
        !vl_json_str_eq(type, "output_text")) {
        if (!vl_json_str_copy(type, name, sizeof name))
            return vl_api_fail(e, 400, place, "%s.type: want the name of a kind of content", place);
        return vl_api_fail(e, 400, place, "%s: content of type '%s' is not taken here", place,
                           name);
    }
    vl_json text = vl_json_get(part, refusal ? "refusal" : "text");
    if (!vl_json_is(text, VL_JSON_STRING))
        return vl_api_fail(e, 400, place, "%s.text: want a string, got %s", place,
                           vl_json_type_name(text));
    vl_bytes raw = vl_json_str_raw(text);
    vl_buf_append(out, raw.ptr, raw.len);
    return true;
}

bool vl_chat_text(vl_json content, const char *path, const char *between, vl_buf *out,
                  vl_api_error *e)
{
    if (vl_json_is_null(content))
        return true;
    if (vl_json_is(content, VL_JSON_STRING)) {
        vl_bytes raw = vl_json_str_raw(content);
        vl_buf_append(out, raw.ptr, raw.len);
        return true;
    }
    if (!vl_json_is(content, VL_JSON_ARRAY))
        return vl_api_fail(e, 400, path, "%s: want a string or a list, got %s", path,
                           vl_json_type_name(content));
    for (vl_json_iter it = vl_json_each(content); vl_json_next(&it);) {
        if (it.index && *between)
            vl_buf_puts(out, between);
        if (!part_text(it.value, path, (unsigned)it.index, out, e))
            return false;
    }
    return true;
}

bool vl_chat_need_text(vl_json o, const char *path, const char *name, vl_json *out, vl_api_error *e)
{
    char place[256];
    snprintf(place, sizeof place, "%.200s.%s", path, name);
    *out = vl_json_get(o, name);
    if (!vl_json_is(*out, VL_JSON_STRING) || vl_json_str_raw(*out).len == 0)
        return vl_api_fail(e, 400, place, "%s: want a string that is not empty, got %s", place,
                           vl_json_is(*out, VL_JSON_STRING) ? "an empty one"
                                                            : vl_json_type_name(*out));
    return true;
}

void vl_chat_copy(vl_json o, const char *const *names, vl_buf *out)
{
    for (; *names; names++) {
        vl_json v = vl_json_get(o, *names);
        if (vl_json_is_null(v))
            continue;
        vl_buf_printf(out, ",\"%s\":", *names);
        put_raw(out, v);
    }
}

bool vl_chat_open(vl_json_doc *doc, const char *body, size_t len, const vl_api_limits *limits,
                  vl_api_error *e)
{
    vl_error err = {0};
    vl_status rc = vl_json_parse(doc, body, len, limits->json_depth, 0, &err);
    if (rc == VL_E_NOMEM)
        return vl_api_fail(e, 503, NULL, "out of memory");
    if (rc != VL_OK)
        return vl_api_fail(e, 400, NULL, "the request's body is not JSON: %s", err.text);
    vl_json o = vl_json_root(doc);
    if (!vl_json_is(o, VL_JSON_OBJECT))
        return vl_api_fail(e, 400, NULL, "the request's body must be a JSON object, got %s",
                           vl_json_type_name(o));
    return true;
}

bool vl_chat_tool(vl_json tool, const char *path, const char *schema, vl_buf *out, vl_api_error *e)
{
    vl_json name, parameters = vl_json_get(tool, schema);
    if (!vl_chat_need_text(tool, path, "name", &name, e))
        return false;
    if (!vl_json_is_null(parameters) && !vl_json_is(parameters, VL_JSON_OBJECT))
        return vl_api_fail(e, 400, path, "%s.%s: want an object, got %s", path, schema,
                           vl_json_type_name(parameters));
    vl_buf_puts(out, "{\"type\":\"function\",\"function\":{\"name\":");
    put_raw(out, name);
    vl_json description = vl_json_get(tool, "description");
    if (!vl_json_is_null(description)) {
        vl_buf_puts(out, ",\"description\":");
        put_raw(out, description);
    }
    if (!vl_json_is_null(parameters)) {
        vl_buf_puts(out, ",\"parameters\":");
        put_raw(out, parameters);
    }
    vl_buf_puts(out, "}}");
    return true;
}
