/* host/server/answer.c: engine events to the bodies of answers: whole ones and event streams, of
 * chat and text completions. Owns the text collected so far. Must not know sockets or the engine's
 * workings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "host/server/api_forms.h"

struct answer_call {
    char id[32];
    vl_buf name;
    vl_buf arguments;
};

struct vl_answer_choice {
    bool begun; /* stream: the role is out */
    bool ended;
    bool thinking;             /* inline reasoning: a <think> is open */
    vl_buf content, reasoning; /* whole answers */
    vl_buf logprobs;           /* entries, with commas between; streams: those not yet sent */
    vl_buf top, offsets,
        values; /* text completions have their logprobs in four lists; `logprobs` is the tokens */
    uint64_t offset; /* characters of text before the next token */
    struct answer_call *calls;
    size_t n_calls, calls_cap;
    int32_t finish, stop_id;
    vl_buf stop; /* the stop string that matched */
    bool has_stop;
};

void vl_random_text(char *out, size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    unsigned char bytes[64];
    for (size_t i = 0; i < n; i++) {
        if (i % sizeof bytes == 0 && getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
            memset(bytes, (int)i, sizeof bytes); /* only without a kernel source of randomness */
        out[i] = letters[bytes[i % sizeof bytes] % 62];
    }
    out[n] = 0;
}

void vl_sse_data(vl_buf *out, const char *json, size_t len)
{
    vl_buf_puts(out, "data: ");
    vl_buf_append(out, json, len);
    vl_buf_puts(out, "\n\n");
}

bool vl_answer_init(vl_answer *a, bool chat, const vl_api_request *r, uint32_t n_choices,
                    const char *model)
{
    *a = (vl_answer){.chat = chat,
                     .stream = r->stream,
                     .include_usage = r->include_usage,
                     .include_reasoning = r->include_reasoning,
                     .n_top = r->n_top,
                     .created = (int64_t)time(NULL),
                     .model = model};
    const char *prefix = chat ? "chatcmpl-" : "cmpl-";
    size_t n = strlen(prefix);
    memcpy(a->id, prefix, n);
    vl_random_text(a->id + n, 24);
    a->choices = calloc(n_choices, sizeof *a->choices);
    a->n_choices = a->choices ? n_choices : 0;
    a->n_stop_ids = r->params.n_stop_ids;
    a->stop_ids = calloc(a->n_stop_ids + 1, sizeof *a->stop_ids);
    if (!a->choices || !a->stop_ids) {
        vl_answer_fini(a);
        return false;
    }
    if (a->n_stop_ids)
        memcpy(a->stop_ids, r->params.stop_ids, a->n_stop_ids * sizeof *a->stop_ids);
    return true;
}

void vl_answer_fini(vl_answer *a)
{
    for (uint32_t i = 0; i < a->n_choices; i++) {
        struct vl_answer_choice *c = &a->choices[i];
        vl_buf_fini(&c->content);
        vl_buf_fini(&c->reasoning);
        vl_buf_fini(&c->logprobs);
        vl_buf_fini(&c->top);
        vl_buf_fini(&c->offsets);
        vl_buf_fini(&c->values);
        vl_buf_fini(&c->stop);
        for (size_t k = 0; k < c->n_calls; k++) {
            vl_buf_fini(&c->calls[k].name);
            vl_buf_fini(&c->calls[k].arguments);
        }
        free(c->calls);
    }
    free(a->choices);
    free(a->stop_ids);
    vl_items_free(a->items);
    vl_buf_fini(&a->held);
    *a = (vl_answer){0};
}

/* ---- logprobs ---- */

static void put_value(vl_buf *out, float logprob)
{
    vl_json_put_f64(out, isfinite(logprob) ? (double)logprob : -9999.0);
}

/* {"token":..,"logprob":..,"bytes":[..]   without the closing brace. */
static void put_token(vl_buf *out, vl_bytes bytes, float logprob)
{
    vl_buf_puts(out, "{\"token\":");
    vl_json_put_str(out, bytes.ptr ? bytes.ptr : "", bytes.len);
    vl_buf_puts(out, ",\"logprob\":");
    put_value(out, logprob);
    vl_buf_puts(out, ",\"bytes\":[");
    for (size_t i = 0; i < bytes.len; i++)
        vl_buf_printf(out, "%s%u", i ? "," : "", (unsigned)(unsigned char)bytes.ptr[i]);
    vl_buf_putc(out, ']');
}

static void chat_logprob(const vl_answer *a, struct vl_answer_choice *c,
                         const struct vl_event_token *t)
{
    vl_buf *out = &c->logprobs;
    if (out->len)
        vl_buf_putc(out, ',');
    put_token(out, a->token(a->token_user, t->id), t->logprob);
    vl_buf_puts(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < t->n_top && (int32_t)i < a->n_top; i++) {
        if (i)
            vl_buf_putc(out, ',');
        put_token(out, a->token(a->token_user, t->top[i].id), t->top[i].logprob);
        vl_buf_putc(out, '}');
    }
    vl_buf_puts(out, "]}");
}

static uint64_t characters(vl_bytes b)
{
    uint64_t n = 0;
    for (size_t i = 0; i < b.len; i++)
        n += ((unsigned char)b.ptr[i] & 0xc0) != 0x80;
    return n;
}

static void text_logprob(const vl_answer *a, struct vl_answer_choice *c,
                         const struct vl_event_token *t)
{
    const char *comma = c->logprobs.len ? "," : "";
    vl_bytes bytes = a->token(a->token_user, t->id);
    bool none = isnan(t->logprob); /* the first token of a prompt */
    vl_buf_puts(&c->logprobs, comma);
    vl_json_put_str(&c->logprobs, bytes.ptr ? bytes.ptr : "", bytes.len);
    vl_buf_puts(&c->values, comma);
    if (none)
        vl_buf_puts(&c->values, "null");
    else
        put_value(&c->values, t->logprob);
    vl_buf_printf(&c->offsets, "%s%llu", comma, (unsigned long long)c->offset);
    c->offset += characters(bytes);
    vl_buf_printf(&c->top, "%s%s", comma, none ? "null" : "{");
    for (uint32_t i = 0; i < t->n_top && (int32_t)i < a->n_top && !none; i++) {
        vl_bytes b = a->token(a->token_user, t->top[i].id);
        vl_buf_puts(&c->top, i ? "," : "");
        vl_json_put_str(&c->top, b.ptr ? b.ptr : "", b.len);
        vl_buf_putc(&c->top, ':');
        put_value(&c->top, t->top[i].logprob);
    }
    vl_buf_puts(&c->top, none ? "" : "}");
}

static void take_logprobs(vl_answer *a, struct vl_answer_choice *c, const vl_event *ev)
{
    if (a->n_top < 0 || !a->token)
        return;
    if (a->chat && ev->text_kind != VL_TEXT_KIND_CONTENT && ev->kind == VL_EVENT_TEXT)
        return; /* thoughts and calls are left out */
    for (size_t i = 0; i < ev->n_tokens; i++) {
        if (a->chat)
            chat_logprob(a, c, &ev->tokens[i]);
        else
            text_logprob(a, c, &ev->tokens[i]);
    }
}

static void append(vl_buf *out, const vl_buf *from)
{
    vl_buf_append(out, from->ptr ? from->ptr : "", from->len);
}

/* The logprobs value of a choice or chunk, and forgets what was put. */
static void put_logprobs(const vl_answer *a, struct vl_answer_choice *c, vl_buf *out)
{
    if (a->n_top < 0 || (c->logprobs.len == 0 && a->stream)) {
        vl_buf_puts(out, "null");
    } else if (a->chat) {
        vl_buf_puts(out, "{\"content\":[");
        append(out, &c->logprobs);
        vl_buf_puts(out, "],\"refusal\":null}");
    } else {
        vl_buf_puts(out, "{\"tokens\":[");
        append(out, &c->logprobs);
        vl_buf_puts(out, "],\"token_logprobs\":[");
        append(out, &c->values);
        vl_buf_puts(out, "],\"top_logprobs\":[");
        append(out, &c->top);
        vl_buf_puts(out, "],\"text_offset\":[");
        append(out, &c->offsets);
        vl_buf_puts(out, "]}");
    }
    vl_buf_clear(&c->logprobs);
    vl_buf_clear(&c->values);
    vl_buf_clear(&c->top);
    vl_buf_clear(&c->offsets);
}

/* ---- pieces that both forms have ---- */

static void put_common(const vl_answer *a, const char *object, vl_buf *out)
{
    vl_buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", a->id,
                  object, (long long)a->created);
    vl_json_put_str(out, a->model, strlen(a->model));
    vl_buf_puts(out, ",\"system_fingerprint\":\"vallmo-" VALLMO_VERSION "\"");
}

static void put_usage(const vl_answer *a, vl_buf *out)
{
    const struct vl_usage *u = &a->usage;
    vl_buf_printf(out,
                  "{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%llu}",
                  (unsigned long long)u->prompt_tokens, (unsigned long long)u->completion_tokens,
                  (unsigned long long)(u->prompt_tokens + u->completion_tokens),
                  (unsigned long long)u->cached_tokens);
    vl_buf_printf(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%llu}}",
                  (unsigned long long)u->reasoning_tokens);
}

static double rate(double n, double ms)
{
    return ms > 0 ? n * 1000.0 / ms : 0.0;
}

/* llama.cpp's object, which user interfaces show. */
static void put_timings(const struct vl_usage *u, double prefill_ms, double decode_ms, vl_buf *out)
{
    double read =
        (double)(u->prompt_tokens - (u->cached_tokens < u->prompt_tokens ? u->cached_tokens : 0));
    vl_buf_printf(out,
                  "{\"prompt_n\":%.0f,\"prompt_ms\":%.3f,\"prompt_per_second\":%.3f,"
                  "\"predicted_n\":%llu,\"predicted_ms\":%.3f,\"predicted_per_second\":%.3f}",
                  read, prefill_ms, rate(read, prefill_ms),
                  (unsigned long long)u->completion_tokens, decode_ms,
                  rate((double)u->completion_tokens, decode_ms));
}

static const char *finish_name(int32_t finish)
{
    return finish == VL_FINISH_LENGTH       ? "length"
           : finish == VL_FINISH_TOOL_CALLS ? "tool_calls"
                                            : "stop";
}

/* stop_reason: the stop string or the stop id that the request named; the model's own end is null,
 * as in vLLM. */
static void put_finish(const vl_answer *a, const struct vl_answer_choice *c, vl_buf *out)
{
    bool own = false;
    for (size_t i = 0; i < a->n_stop_ids; i++)
        own |= a->stop_ids[i] == c->stop_id;
    vl_buf_printf(out, ",\"finish_reason\":\"%s\",\"stop_reason\":", finish_name(c->finish));
    if (c->has_stop)
        vl_json_put_str(out, c->stop.ptr ? c->stop.ptr : "", c->stop.len);
    else if (own)
        vl_buf_printf(out, "%d", (int)c->stop_id);
    else
        vl_buf_puts(out, "null");
}

static void put_member(vl_buf *out, const char *name, const char *text, size_t len)
{
    vl_buf_printf(out, "\"%s\":", name);
    vl_json_put_str(out, text ? text : "", len);
}

static void put_reasoning(const vl_answer *a, vl_buf *out, const char *text, size_t len)
{
    if (a->reasoning_field != VL_FIELD_REASONING)
        put_member(out, "reasoning_content", text, len);
    if (a->reasoning_field == VL_FIELD_REASONING_BOTH)
        vl_buf_putc(out, ',');
    if (a->reasoning_field != VL_FIELD_REASONING_CONTENT)
        put_member(out, "reasoning", text, len);
}

/* ---- streams ---- */

/* What stands before and behind the delta (chat) or text (completions) of one chunk. */
static void chunk_open(const vl_answer *a, uint32_t choice, vl_buf *out)
{
    vl_buf_puts(out, "data: ");
    put_common(a, a->chat ? "chat.completion.chunk" : "text_completion", out);
    vl_buf_printf(out, ",\"choices\":[{\"index\":%u,", choice);
}

static void chunk_close(vl_answer *a, struct vl_answer_choice *c, bool end, const vl_event *ev,
                        vl_buf *out)
{
    vl_buf_puts(out, ",\"logprobs\":");
    put_logprobs(a, c, out);
    if (end)
        put_finish(a, c, out);
    else
        vl_buf_puts(out, ",\"finish_reason\":null");
    vl_buf_puts(out, "}]");
    if (end) {
        vl_buf_puts(out, ",\"timings\":");
        put_timings(&ev->usage, ev->prefill_ms, ev->decode_ms, out);
    }
    vl_buf_puts(out, a->include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void chunk_role(vl_answer *a, uint32_t choice, vl_buf *out)
{
    struct vl_answer_choice *c = &a->choices[choice];
    if (c->begun || !a->chat)
        return;
    c->begun = true;
    chunk_open(a, choice, out);
    vl_buf_puts(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]");
    vl_buf_puts(out, a->include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void stream_call(struct answer_call *call, const vl_event *ev, vl_buf *out)
{
    vl_buf_printf(out, "\"delta\":{\"tool_calls\":[{\"index\":%u,", ev->call);
    if (ev->text_kind == VL_TEXT_KIND_CALL) {
        vl_buf_printf(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{", call->id);
        put_member(out, "name", ev->text, ev->text_len);
        vl_buf_puts(out, ",\"arguments\":\"\"}}]}");
    } else {
        vl_buf_puts(out, "\"function\":{");
        put_member(out, "arguments", ev->text, ev->text_len);
        vl_buf_puts(out, "}}]}");
    }
}

static void stream_text(vl_answer *a, uint32_t choice, const vl_event *ev, struct answer_call *call,
                        vl_buf *out)
{
    struct vl_answer_choice *c = &a->choices[choice];
    bool is_call = ev->text_kind == VL_TEXT_KIND_CALL;
    if (ev->text_len == 0 && !is_call)
        return; /* nothing new is no chunk; its logprobs wait for the next */
    chunk_role(a, choice, out);
    chunk_open(a, choice, out);
    if (!a->chat) {
        put_member(out, "text", ev->text, ev->text_len);
    } else if (ev->text_kind == VL_TEXT_KIND_REASONING) {
        vl_buf_puts(out, "\"delta\":{");
        put_reasoning(a, out, ev->text, ev->text_len);
        vl_buf_putc(out, '}');
    } else if (ev->text_kind == VL_TEXT_KIND_CONTENT) {
        vl_buf_puts(out, "\"delta\":{");
        put_member(out, "content", ev->text, ev->text_len);
        vl_buf_putc(out, '}');
    } else {
        stream_call(call, ev, out);
    }
    chunk_close(a, c, false, ev, out);
}

/* ---- events ---- */

static struct answer_call *call_at(struct vl_answer_choice *c, const vl_event *ev)
{
    if (ev->text_kind == VL_TEXT_KIND_CALL && ev->call == c->n_calls) {
        if (!vl_grow(&c->calls, &c->calls_cap, c->n_calls + 1, sizeof *c->calls))
            return NULL;
        struct answer_call *call = &c->calls[c->n_calls++];
        *call = (struct answer_call){.name = VL_BUF_INIT, .arguments = VL_BUF_INIT};
        memcpy(call->id, "call_", 5);
        vl_random_text(call->id + 5, 24);
    }
    return ev->call < c->n_calls ? &c->calls[ev->call] : NULL;
}

static void collect_text(struct vl_answer_choice *c, const vl_event *ev, struct answer_call *call)
{
    vl_buf *to = ev->text_kind == VL_TEXT_KIND_REASONING   ? &c->reasoning
                 : ev->text_kind == VL_TEXT_KIND_CONTENT   ? &c->content
                 : ev->text_kind == VL_TEXT_KIND_CALL      ? &call->name
                 : ev->text_kind == VL_TEXT_KIND_ARGUMENTS ? &call->arguments
                                                           : NULL;
    if (to && ev->text_len)
        vl_buf_append(to, ev->text, ev->text_len);
}

static void take_text(vl_answer *a, uint32_t choice, const vl_event *ev, vl_buf *out)
{
    struct vl_answer_choice *c = &a->choices[choice];
    struct answer_call *call = NULL;
    if (ev->text_kind >= VL_TEXT_KIND_CALL && !(call = call_at(c, ev)))
        return; /* out of memory */
    take_logprobs(a, c, ev);
    if (a->stream)
        stream_text(a, choice, ev, call, out);
    else
        collect_text(c, ev, call);
}

static void take_content(vl_answer *a, uint32_t choice, const char *text, size_t len, vl_buf *out)
{
    const vl_event ev = {
        .kind = VL_EVENT_TEXT, .text_kind = VL_TEXT_KIND_CONTENT, .text = text, .text_len = len};
    take_text(a, choice, &ev, out);
}

/* A thought as the model wrote it, with the opening that the prompt had: in the content. One that
 * is cut, or that the model ends with, stays open. */
static void take_inline(vl_answer *a, uint32_t choice, const vl_event *ev, vl_buf *out)
{
    static const char open[] = "<think>\n", close[] = "\n</think>\n\n";
    struct vl_answer_choice *c = &a->choices[choice];
    vl_event as_content = *ev;
    if (ev->text_kind == VL_TEXT_KIND_REASONING) {
        if (!c->thinking)
            take_content(a, choice, open, sizeof open - 1, out);
        c->thinking = true;
        as_content.text_kind = VL_TEXT_KIND_CONTENT;
    } else if (c->thinking && (ev->text_len || ev->text_kind == VL_TEXT_KIND_CALL)) {
        take_content(a, choice, close, sizeof close - 1, out);
        c->thinking = false;
    }
    take_text(a, choice, &as_content, out);
}

void vl_answer_event(vl_answer *a, uint32_t choice, const vl_event *ev, vl_buf *out)
{
    struct vl_answer_choice *c = choice < a->n_choices ? &a->choices[choice] : NULL;
    if (a->items) {
        vl_items_event(a, ev, out);
        return;
    }
    if (!c || c->ended || ev->kind == VL_EVENT_STARTED)
        return;
    if (ev->kind == VL_EVENT_TEXT) {
        if (ev->text_kind == VL_TEXT_KIND_REASONING && !a->include_reasoning)
            return;
        if (a->chat && a->reasoning_field == VL_FIELD_REASONING_INLINE)
            take_inline(a, choice, ev, out);
        else
            take_text(a, choice, ev, out);
        return;
    }
    c->ended = true;
    c->finish = ev->finish;
    c->stop_id = ev->stop_id;
    c->has_stop = ev->text != NULL;
    if (ev->text)
        vl_buf_append(&c->stop, ev->text, ev->text_len);
    take_logprobs(a, c, ev);
    if (a->stream) {
        chunk_role(a, choice, out);
        chunk_open(a, choice, out);
        vl_buf_puts(out, a->chat ? "\"delta\":{}" : "\"text\":\"\"");
        chunk_close(a, c, true, ev, out);
    }
}

void vl_answer_echo(vl_answer *a, uint32_t choice, const char *text, size_t len, vl_buf *out)
{
    if (choice >= a->n_choices || len == 0)
        return;
    take_content(a, choice, text, len, out);
    a->choices[choice].offset = characters((vl_bytes){text, len});
}

/* Puts `tail` behind what was collected since, with a comma where both have something. */
static void join(vl_buf *head, vl_buf *tail)
{
    if (head->len && tail->len)
        vl_buf_putc(head, ',');
    append(head, tail);
    head->failed |= tail->failed;
    vl_buf_fini(tail);
}

void vl_answer_prompt_logprobs(vl_answer *a, uint32_t choice, const vl_event *done)
{
    struct vl_answer_choice *c = choice < a->n_choices ? &a->choices[choice] : NULL;
    if (!c || a->n_top < 0 || a->chat || a->stream || !a->token)
        return;
    vl_buf tokens = c->logprobs, values = c->values, top = c->top, offsets = c->offsets;
    c->logprobs = c->values = c->top = c->offsets = (vl_buf)VL_BUF_INIT;
    c->offset = 0;
    for (size_t i = 0; i < done->n_tokens; i++)
        text_logprob(a, c, &done->tokens[i]);
    join(&c->logprobs, &tokens);
    join(&c->values, &values);
    join(&c->top, &top);
    join(&c->offsets, &offsets);
}

void vl_answer_usage(vl_answer *a, const vl_event *ev)
{
    if (a->items) {
        a->usage = ev->usage;
        return;
    }
    a->usage.prompt_tokens += ev->usage.prompt_tokens;
    a->usage.cached_tokens += ev->usage.cached_tokens;
    a->usage.completion_tokens += ev->usage.completion_tokens;
    a->usage.reasoning_tokens += ev->usage.reasoning_tokens;
    a->prefill_ms += ev->prefill_ms;
    a->decode_ms = ev->decode_ms > a->decode_ms ? ev->decode_ms : a->decode_ms;
}

/* ---- whole answers ---- */

static void put_message(const vl_answer *a, const struct vl_answer_choice *c, vl_buf *out)
{
    vl_buf_puts(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->n_calls && c->content.len == 0)
        vl_buf_puts(out, "null");
    else
        vl_json_put_str(out, c->content.ptr ? c->content.ptr : "", c->content.len);
    if (c->reasoning.len) {
        vl_buf_putc(out, ',');
        put_reasoning(a, out, c->reasoning.ptr, c->reasoning.len);
    }
    vl_buf_puts(out, ",\"refusal\":null");
    for (size_t i = 0; i < c->n_calls; i++) {
        const struct answer_call *call = &c->calls[i];
        vl_buf_puts(out, i ? "," : ",\"tool_calls\":[");
        vl_buf_printf(out, "{\"id\":\"%s\",\"type\":\"function\",\"function\":{", call->id);
        put_member(out, "name", call->name.ptr, call->name.len);
        vl_buf_putc(out, ',');
        put_member(out, "arguments", call->arguments.ptr, call->arguments.len);
        vl_buf_puts(out, "}}");
    }
    vl_buf_puts(out, c->n_calls ? "]}" : "}");
}

void vl_answer_finish(vl_answer *a, vl_buf *out)
{
    if (a->items) {
        vl_items_finish(a, out);
        return;
    }
    if (a->stream) {
        if (a->include_usage) {
            vl_buf_puts(out, "data: ");
            put_common(a, a->chat ? "chat.completion.chunk" : "text_completion", out);
            vl_buf_puts(out, ",\"choices\":[],\"usage\":");
            put_usage(a, out);
            vl_buf_puts(out, "}\n\n");
        }
        vl_buf_puts(out, "data: [DONE]\n\n");
        return;
    }
    put_common(a, a->chat ? "chat.completion" : "text_completion", out);
    vl_buf_puts(out, ",\"choices\":[");
    for (uint32_t i = 0; i < a->n_choices; i++) {
        struct vl_answer_choice *c = &a->choices[i];
        vl_buf_printf(out, "%s{\"index\":%u,", i ? "," : "", i);
        if (a->chat)
            put_message(a, c, out);
        else
            put_member(out, "text", c->content.ptr, c->content.len);
        vl_buf_puts(out, ",\"logprobs\":");
        put_logprobs(a, c, out);
        put_finish(a, c, out);
        vl_buf_putc(out, '}');
    }
    vl_buf_puts(out, "],\"usage\":");
    put_usage(a, out);
    vl_buf_puts(out, ",\"timings\":");
    put_timings(&a->usage, a->prefill_ms, a->decode_ms, out);
    vl_buf_putc(out, '}');
}
