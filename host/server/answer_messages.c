/* host/server/answer_messages.c: answers in Anthropic's form: a message of content blocks, its
 * event stream, its errors. Must not know sockets or the engine's workings. */
#include <string.h>

#include "host/server/api_forms.h"

/* Clients keep a thought for later turns only with a signature. Ours says who made it and is not
 * looked at. */
static const char signature[] = "vallmo";

static void put_text(vl_buf *out, const char *name, const vl_buf *text)
{
    vl_buf_printf(out, "\"%s\":", name);
    vl_json_put_str(out, text->ptr ? text->ptr : "", text->len);
}

static void put_usage(const vl_answer *a, bool with_output, vl_buf *out)
{
    const struct vl_usage *u = &a->usage;
    uint64_t cached = u->cached_tokens < u->prompt_tokens ? u->cached_tokens : u->prompt_tokens;
    /* In this form input_tokens are those that no cache had. */
    vl_buf_printf(out,
                  "{\"input_tokens\":%llu,\"cache_creation_input_tokens\":0,"
                  "\"cache_read_input_tokens\":%llu,\"output_tokens\":%llu}",
                  (unsigned long long)(u->prompt_tokens - cached), (unsigned long long)cached,
                  (unsigned long long)(with_output ? u->completion_tokens : 0));
}

/* A call's input is an object in this form; what was cut short goes as text under one name. */
static void put_input(const vl_item *item, vl_buf *out)
{
    vl_json_doc doc = {0};
    const char *text = item->text.ptr ? item->text.ptr : "{}";
    size_t len = item->text.ptr ? item->text.len : 2;
    if (vl_json_parse(&doc, text, len, 1000, 0, NULL) == VL_OK &&
        vl_json_is(vl_json_root(&doc), VL_JSON_OBJECT)) {
        vl_buf_append(out, text, len);
    } else {
        vl_buf_putc(out, '{');
        put_text(out, "arguments", &item->text);
        vl_buf_putc(out, '}');
    }
    vl_json_doc_fini(&doc);
}

static void put_block(const vl_item *item, bool empty, vl_buf *out)
{
    static const vl_buf none = VL_BUF_INIT;
    const vl_buf *text = empty ? &none : &item->text;
    switch (item->kind) {
    case VL_ITEM_REASONING:
        vl_buf_puts(out, "{\"type\":\"thinking\",");
        put_text(out, "thinking", text);
        vl_buf_printf(out, ",\"signature\":\"%s\"}", empty ? "" : signature);
        break;
    case VL_ITEM_TEXT:
        vl_buf_puts(out, "{\"type\":\"text\",");
        put_text(out, "text", text);
        vl_buf_putc(out, '}');
        break;
    default:
        vl_buf_printf(out, "{\"type\":\"tool_use\",\"id\":\"%s\",", item->call_id);
        put_text(out, "name", &item->name);
        vl_buf_puts(out, ",\"input\":");
        if (empty)
            vl_buf_puts(out, "{}");
        else
            put_input(item, out);
        vl_buf_putc(out, '}');
        break;
    }
}

static void put_head(const vl_answer *a, vl_buf *out)
{
    vl_buf_printf(out,
                  "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", a->id);
    vl_json_put_str(out, a->model, strlen(a->model));
    vl_buf_puts(out, ",\"content\":[");
}

/* "stop_reason":..,"stop_sequence":.. */
static void put_stop(const vl_answer *a, vl_buf *out)
{
    const vl_items *items = a->items;
    const char *reason = items->finish == VL_FINISH_LENGTH       ? "max_tokens"
                         : items->finish == VL_FINISH_TOOL_CALLS ? "tool_use"
                         : items->has_stop                       ? "stop_sequence"
                                                                 : "end_turn";
    vl_buf_printf(out, "\"stop_reason\":\"%s\",", reason);
    if (items->has_stop)
        put_text(out, "stop_sequence", &items->stop);
    else
        vl_buf_puts(out, "\"stop_sequence\":null");
}

/* ---- streams ---- */

static void start(vl_answer *a, vl_buf *out)
{
    vl_sse_open(out, "message_start");
    vl_buf_puts(out, "{\"type\":\"message_start\",\"message\":");
    put_head(a, out);
    vl_buf_puts(out, "],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
    put_usage(a, false, out);
    vl_buf_puts(out, "}}");
    vl_sse_close(out);
}

static void item_open(vl_answer *a, size_t i, vl_buf *out)
{
    vl_sse_open(out, "content_block_start");
    vl_buf_printf(out, "{\"type\":\"content_block_start\",\"index\":%zu,\"content_block\":", i);
    put_block(&a->items->list[i], true, out);
    vl_buf_putc(out, '}');
    vl_sse_close(out);
}

static void put_delta(size_t i, const char *type, const char *name, const char *text, size_t len,
                      vl_buf *out)
{
    vl_sse_open(out, "content_block_delta");
    vl_buf_printf(out,
                  "{\"type\":\"content_block_delta\",\"index\":%zu,\"delta\":{\"type\":\"%s\","
                  "\"%s\":",
                  i, type, name);
    vl_json_put_str(out, text, len);
    vl_buf_puts(out, "}}");
    vl_sse_close(out);
}

static void item_text(vl_answer *a, size_t i, const char *text, size_t len, vl_buf *out)
{
    static const char *const types[][2] = {{"thinking_delta", "thinking"},
                                           {"text_delta", "text"},
                                           {"input_json_delta", "partial_json"}};
    int32_t kind = a->items->list[i].kind;
    put_delta(i, types[kind][0], types[kind][1], text, len, out);
}

static void item_close(vl_answer *a, size_t i, vl_buf *out)
{
    if (a->items->list[i].kind == VL_ITEM_REASONING)
        put_delta(i, "signature_delta", "signature", signature, sizeof signature - 1, out);
    vl_sse_open(out, "content_block_stop");
    vl_buf_printf(out, "{\"type\":\"content_block_stop\",\"index\":%zu}", i);
    vl_sse_close(out);
}

static void end(vl_answer *a, vl_buf *out)
{
    vl_sse_open(out, "message_delta");
    vl_buf_puts(out, "{\"type\":\"message_delta\",\"delta\":{");
    put_stop(a, out);
    vl_buf_puts(out, "},\"usage\":");
    put_usage(a, true, out);
    vl_buf_putc(out, '}');
    vl_sse_close(out);
    vl_sse_open(out, "message_stop");
    vl_buf_puts(out, "{\"type\":\"message_stop\"}");
    vl_sse_close(out);
}

static void whole(vl_answer *a, vl_buf *out)
{
    put_head(a, out);
    for (size_t i = 0; i < a->items->n; i++) {
        if (i)
            vl_buf_putc(out, ',');
        put_block(&a->items->list[i], false, out);
    }
    vl_buf_puts(out, "],");
    put_stop(a, out);
    vl_buf_puts(out, ",\"usage\":");
    put_usage(a, true, out);
    vl_buf_putc(out, '}');
}

/* ---- errors ---- */

static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 500:
        return "api_error";
    case 503:
        return "overloaded_error";
    default:
        return "invalid_request_error";
    }
}

void vl_api_error_messages_json(const vl_api_error *e, const char *request_id, vl_buf *out)
{
    const char *message = e->message[0] ? e->message : "unknown error";
    vl_buf_printf(
        out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type_of(e->status));
    vl_json_put_str(out, message, strlen(message));
    vl_buf_puts(out, "},\"request_id\":");
    if (request_id)
        vl_json_put_str(out, request_id, strlen(request_id));
    else
        vl_buf_puts(out, "null");
    vl_buf_putc(out, '}');
}

static void stream_error(vl_answer *a, const vl_api_error *e, vl_buf *out)
{
    vl_sse_open(out, "error");
    vl_api_error_messages_json(e, a->request_id, out);
    vl_sse_close(out);
}

const struct vl_answer_form vl_form_messages = {
    "msg_",    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    start,     item_open,
    item_text, item_close,
    end,       stream_error,
    whole};
