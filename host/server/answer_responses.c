/* host/server/answer_responses.c: answers in the form of OpenAI's responses: a list of output
 * items, and typed events with rising numbers. Must not know sockets or the engine's workings. */
#include <string.h>

#include "host/server/api_forms.h"

static void put_text(vl_buf *out, const char *name, const vl_buf *text)
{
    vl_buf_printf(out, "\"%s\":", name);
    vl_json_put_str(out, text->ptr ? text->ptr : "", text->len);
}

/* A part of a message or a thought. empty: as it stands before its text. */
static void put_part(const vl_item *item, bool empty, vl_buf *out)
{
    static const vl_buf none = VL_BUF_INIT;
    bool text = item->kind == VL_ITEM_TEXT;
    vl_buf_printf(out, "{\"type\":\"%s\",", text ? "output_text" : "reasoning_text");
    put_text(out, "text", empty ? &none : &item->text);
    vl_buf_puts(out, text ? ",\"annotations\":[],\"logprobs\":[]}" : "}");
}

static void put_item(const vl_item *item, bool empty, vl_buf *out)
{
    static const vl_buf none = VL_BUF_INIT;
    const char *status = empty ? "in_progress" : item->complete ? "completed" : "incomplete";
    static const char *const types[] = {"reasoning", "message", "function_call"};
    vl_buf_printf(out, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\",", item->id,
                  types[item->kind], status);
    if (item->kind == VL_ITEM_CALL) {
        vl_buf_printf(out, "\"call_id\":\"%s\",", item->call_id);
        put_text(out, "name", &item->name);
        vl_buf_putc(out, ',');
        put_text(out, "arguments", empty ? &none : &item->text);
        vl_buf_putc(out, '}');
        return;
    }
    vl_buf_puts(out, item->kind == VL_ITEM_TEXT ? "\"role\":\"assistant\",\"content\":["
                                                : "\"summary\":[],\"content\":[");
    if (!empty)
        put_part(item, false, out);
    vl_buf_puts(out, "]}");
}

static void put_usage(const vl_answer *a, vl_buf *out)
{
    const struct vl_usage *u = &a->usage;
    vl_buf_printf(out,
                  "{\"input_tokens\":%llu,\"input_tokens_details\":{\"cached_tokens\":%llu},"
                  "\"output_tokens\":%llu,\"output_tokens_details\":{\"reasoning_tokens\":%llu},"
                  "\"total_tokens\":%llu}",
                  (unsigned long long)u->prompt_tokens, (unsigned long long)u->cached_tokens,
                  (unsigned long long)u->completion_tokens, (unsigned long long)u->reasoning_tokens,
                  (unsigned long long)(u->prompt_tokens + u->completion_tokens));
}

static const char *final_status(const vl_answer *a)
{
    return a->items->finish == VL_FINISH_LENGTH ? "incomplete" : "completed";
}

/* The response as it is now. error: NULL but when it failed. */
static void put_response(const vl_answer *a, const char *status, const vl_api_error *error,
                         vl_buf *out)
{
    const vl_items *items = a->items;
    bool over = strcmp(status, "in_progress") != 0;
    vl_buf_printf(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,", a->id,
                  (long long)a->created);
    vl_buf_printf(out, "\"status\":\"%s\",\"model\":", status);
    vl_json_put_str(out, a->model, strlen(a->model));
    if (error) {
        vl_buf_printf(out, ",\"error\":{\"code\":\"%s\",\"message\":",
                      error->code ? error->code : "server_error");
        vl_json_put_str(out, error->message, strlen(error->message));
        vl_buf_putc(out, '}');
    } else {
        vl_buf_puts(out, ",\"error\":null");
    }
    vl_buf_puts(out, strcmp(status, "incomplete") == 0
                         ? ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}"
                         : ",\"incomplete_details\":null");
    vl_buf_append(out, items->echo.ptr ? items->echo.ptr : "", items->echo.len);
    vl_buf_puts(out, ",\"previous_response_id\":null,\"store\":false,\"background\":false,"
                     "\"truncation\":\"disabled\",\"output\":[");
    for (size_t i = 0; i < items->n && over; i++) {
        if (i)
            vl_buf_putc(out, ',');
        put_item(&items->list[i], false, out);
    }
    vl_buf_puts(out, "],\"usage\":");
    if (over && !error)
        put_usage(a, out);
    else
        vl_buf_puts(out, "null");
    vl_buf_putc(out, '}');
}

/* ---- streams ---- */

/* The event up to its own members, which follow behind a comma. */
static void event_open(vl_answer *a, const char *type, vl_buf *out)
{
    vl_sse_open(out, type);
    vl_buf_printf(out, "{\"type\":\"%s\",\"sequence_number\":%llu", type,
                  (unsigned long long)a->items->sequence++);
}

static void event_close(vl_buf *out)
{
    vl_buf_putc(out, '}');
    vl_sse_close(out);
}

static void response_event(vl_answer *a, const char *type, const char *status,
                           const vl_api_error *error, vl_buf *out)
{
    event_open(a, type, out);
    vl_buf_puts(out, ",\"response\":");
    put_response(a, status, error, out);
    event_close(out);
}

static void item_event(vl_answer *a, const char *type, size_t i, bool empty, vl_buf *out)
{
    event_open(a, type, out);
    vl_buf_printf(out, ",\"output_index\":%zu,\"item\":", i);
    put_item(&a->items->list[i], empty, out);
    event_close(out);
}

/* An event on the text of item i, up to its own members. */
static void text_open(vl_answer *a, const char *type, size_t i, vl_buf *out)
{
    const vl_item *item = &a->items->list[i];
    event_open(a, type, out);
    vl_buf_printf(out, ",\"item_id\":\"%s\",\"output_index\":%zu", item->id, i);
    if (item->kind != VL_ITEM_CALL)
        vl_buf_puts(out, ",\"content_index\":0");
}

static void part_event(vl_answer *a, const char *type, size_t i, bool empty, vl_buf *out)
{
    text_open(a, type, i, out);
    vl_buf_puts(out, ",\"part\":");
    put_part(&a->items->list[i], empty, out);
    event_close(out);
}

static void start(vl_answer *a, vl_buf *out)
{
    response_event(a, "response.created", "in_progress", NULL, out);
    response_event(a, "response.in_progress", "in_progress", NULL, out);
}

static void item_open(vl_answer *a, size_t i, vl_buf *out)
{
    item_event(a, "response.output_item.added", i, true, out);
    if (a->items->list[i].kind != VL_ITEM_CALL)
        part_event(a, "response.content_part.added", i, true, out);
}

static void item_text(vl_answer *a, size_t i, const char *text, size_t len, vl_buf *out)
{
    static const char *const types[] = {"response.reasoning_text.delta",
                                        "response.output_text.delta",
                                        "response.function_call_arguments.delta"};
    int32_t kind = a->items->list[i].kind;
    text_open(a, types[kind], i, out);
    vl_buf_puts(out, ",\"delta\":");
    vl_json_put_str(out, text, len);
    if (kind == VL_ITEM_TEXT)
        vl_buf_puts(out, ",\"logprobs\":[]");
    event_close(out);
}

static void item_close(vl_answer *a, size_t i, vl_buf *out)
{
    static const char *const types[] = {"response.reasoning_text.done", "response.output_text.done",
                                        "response.function_call_arguments.done"};
    const vl_item *item = &a->items->list[i];
    text_open(a, types[item->kind], i, out);
    vl_buf_putc(out, ',');
    if (item->kind == VL_ITEM_CALL) {
        put_text(out, "name", &item->name);
        vl_buf_putc(out, ',');
    }
    put_text(out, item->kind == VL_ITEM_CALL ? "arguments" : "text", &item->text);
    if (item->kind == VL_ITEM_TEXT)
        vl_buf_puts(out, ",\"logprobs\":[]");
    event_close(out);
    if (item->kind != VL_ITEM_CALL)
        part_event(a, "response.content_part.done", i, false, out);
    item_event(a, "response.output_item.done", i, false, out);
}

static void end(vl_answer *a, vl_buf *out)
{
    const char *status = final_status(a);
    response_event(a,
                   strcmp(status, "incomplete") == 0 ? "response.incomplete" : "response.completed",
                   status, NULL, out);
}

static void whole(vl_answer *a, vl_buf *out)
{
    put_response(a, final_status(a), NULL, out);
}

/* Twice: the response's own end, and the event whose `error` makes SDKs raise. */
static void stream_error(vl_answer *a, const vl_api_error *e, vl_buf *out)
{
    response_event(a, "response.failed", "failed", e, out);
    event_open(a, "error", out);
    vl_buf_printf(
        out, ",\"code\":\"%s\",\"param\":null,\"message\":", e->code ? e->code : "server_error");
    vl_json_put_str(out, e->message, strlen(e->message));
    vl_buf_putc(out, ',');
    vl_buf error = VL_BUF_INIT;
    vl_api_error_json(e, &error); /* {"error":{...}} */
    if (error.len > 2)
        vl_buf_append(out, error.ptr + 1, error.len - 2);
    out->failed |= error.failed;
    vl_buf_fini(&error);
    event_close(out);
}

const struct vl_answer_form vl_form_responses = {
    "resp_", ": ping\n\n", start, item_open, item_text, item_close, end, stream_error, whole};
