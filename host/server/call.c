/* host/server/call.c: a generation over HTTP: from the body to engine requests, from their events
 * to an answer or a stream. Owns the calls under way. A call lives until the last event of each of
 * its engine requests, longer than its client when that goes away. */
#include <stdlib.h>
#include <string.h>

#include "host/lib/log.h"
#include "host/server/app.h"

struct part {
    struct call *call;
    vl_request *request;
    uint32_t first_choice;
    bool queued, over;
};

struct call {
    struct pending base; /* first */
    struct app *app;
    struct call *next, *prev;
    struct served *model;
    vl_http_request *http; /* NULL: answered, or the client is gone */
    vl_answer answer;
    struct part *parts; /* one a prompt */
    size_t n_parts, n_over, n_queued;
    bool begun;  /* the stream's head is out */
    bool paused; /* its reader is slow */
    bool prompt_logprobs;
    uint32_t n; /* choices of a part */
};

static void call_free(struct call *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        c->app->calls = c->next;
    if (c->next)
        c->next->prev = c->prev;
    for (size_t i = 0; i < c->n_parts; i++)
        vl_request_release(c->parts[i].request);
    free(c->parts);
    vl_answer_fini(&c->answer);
    free(c);
}

static void cancel_all(struct call *c)
{
    for (size_t i = 0; i < c->n_parts; i++)
        if (c->parts[i].request && !c->parts[i].over)
            vl_request_cancel(c->parts[i].request);
}

static void pause_all(struct call *c, bool pause)
{
    c->paused = pause;
    for (size_t i = 0; i < c->n_parts; i++)
        if (c->parts[i].request && !c->parts[i].over)
            vl_request_pause(c->parts[i].request, pause);
}

static void on_gone(struct pending *p)
{
    struct call *c = (struct call *)(void *)p;
    c->http = NULL;
    cancel_all(c);
    pause_all(c, false);
}

static void on_drained(struct pending *p)
{
    pause_all((struct call *)(void *)p, false);
}

static void on_quiet(struct pending *p, double silent)
{
    struct call *c = (struct call *)(void *)p;
    const vl_items *items = c->answer.items;
    const char *ping = items && items->started ? items->form->ping : ": ping\n\n";
    if (c->http && c->begun && silent >= c->app->ping_s)
        vl_http_stream_write(c->http, ping, strlen(ping));
}

static vl_bytes token_bytes(const void *user, int32_t id)
{
    const struct served *m = user;
    const vl_tokenizer *t = NULL;
    const vl_tokenizer_api *api = vl_runtime_tokenizer(m->runtime, &t);
    return api->token(t, id);
}

void call_cancel_all(struct app *app)
{
    for (struct call *c = app->calls; c; c = c->next) {
        cancel_all(c);
        pause_all(c, false);
    }
}

bool call_any_unpaused(const struct app *app, const struct served *m)
{
    for (const struct call *c = app->calls; c; c = c->next)
        if (c->model == m && !c->paused)
            return true;
    return false;
}

/* ---- the answer ---- */

/* Anthropic's name for x-request-id, which its clients show. */
static void put_request_id(const struct call *c, vl_buf *extra)
{
    if (c->answer.items && c->answer.items->form == &vl_form_messages)
        vl_buf_printf(extra, "request-id: %s\r\n", c->http->id);
}

static void begin_stream(struct call *c)
{
    if (c->begun || !c->http || !c->answer.stream)
        return;
    c->begun = true;
    vl_buf extra = VL_BUF_INIT;
    vl_buf_puts(&extra, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    put_request_id(c, &extra);
    vl_http_stream_begin(c->http, 200, "text/event-stream; charset=utf-8", extra.ptr);
    vl_buf_fini(&extra);
    if (c->answer.held.len)
        vl_http_stream_write(c->http, c->answer.held.ptr, c->answer.held.len);
    vl_buf_fini(&c->answer.held);
}

static void write_stream(struct call *c, const vl_buf *text)
{
    if (!c->http || text->len == 0)
        return;
    begin_stream(c);
    vl_http_stream_write(c->http, text->ptr, text->len);
    if (c->http->paused)
        pause_all(c, true);
}

/* The error is the call's whole answer, or its last event; what still runs is cancelled. */
static void fail(struct call *c, const vl_api_error *e)
{
    vl_http_request *r = c->http;
    cancel_all(c);
    pause_all(c, false);
    if (!r)
        return;
    c->http = NULL;
    r->user = NULL;
    if (!c->begun) {
        routes_error(r, e);
        return;
    }
    vl_buf json = VL_BUF_INIT, event = VL_BUF_INIT;
    if (c->answer.items) {
        c->answer.items->form->error(&c->answer, e, &event);
    } else {
        vl_api_error_json(e, &json);
        vl_sse_data(&event, json.ptr ? json.ptr : "", json.len);
    }
    vl_http_stream_write(r, event.ptr ? event.ptr : "", event.len);
    vl_buf_fini(&json);
    vl_buf_fini(&event);
    vl_http_stream_end(r, true); /* no [DONE]: the end must not look normal */
}

static void fail_memory(struct call *c)
{
    vl_api_error e;
    vl_api_fail(&e, 503, NULL, "out of memory");
    fail(c, &e);
}

static void finish(struct call *c)
{
    vl_http_request *r = c->http;
    vl_buf out = VL_BUF_INIT;
    if (!r)
        return;
    vl_answer_finish(&c->answer, &out);
    if (out.failed) {
        fail_memory(c);
    } else if (c->answer.stream) {
        write_stream(c, &out);
        c->http = NULL;
        r->user = NULL;
        vl_http_stream_end(r, false);
    } else {
        vl_buf extra = VL_BUF_INIT;
        put_request_id(c, &extra);
        c->http = NULL;
        r->user = NULL;
        vl_http_reply(r, 200, "application/json", extra.ptr, out.ptr, out.len);
        vl_buf_fini(&extra);
    }
    vl_buf_fini(&out);
}

static void on_failed(struct part *p, const vl_event *ev)
{
    struct call *c = p->call;
    vl_api_error e;
    const vl_model_info *info = vl_runtime_model_info(c->model->runtime);
    if (ev->error.status == VL_E_INTERNAL)
        vl_log(VL_LOG_ERROR, "server", "call=%s failed: %s", c->answer.id, ev->error.text);
    vl_api_error_from(&e, &ev->error, ev->field, ev->usage.prompt_tokens, info->context_tokens);
    fail(c, &e);
}

/* Echo with logprobs: those of the prompt come with the end. */
static void take_prompt(struct part *p, const vl_event *ev)
{
    struct call *c = p->call;
    vl_api_error e;
    if (ev->n_tokens != ev->usage.prompt_tokens) {
        vl_api_fail(&e, 400, "echo", "echo: on its device this model gives no logprobs of prompts");
        fail(c, &e);
        return;
    }
    for (uint32_t k = 0; k < c->n; k++)
        vl_answer_prompt_logprobs(&c->answer, p->first_choice + k, ev);
}

/* One event of one part. */
static void take(struct part *p, const vl_event *ev)
{
    struct call *c = p->call;
    vl_buf out = VL_BUF_INIT;
    switch (ev->kind) {
    case VL_EVENT_QUEUED:
    case VL_EVENT_STARTED:
        c->n_queued += !p->queued;
        p->queued = true;
        if (c->n_queued == c->n_parts)
            begin_stream(c);
        if (ev->kind == VL_EVENT_QUEUED)
            break;
        /* fall through */
    case VL_EVENT_TEXT:
    case VL_EVENT_CHOICE_END:
        vl_answer_event(&c->answer, p->first_choice + ev->choice, ev, &out);
        if (out.failed)
            fail_memory(c);
        else
            write_stream(c, &out);
        break;
    case VL_EVENT_DONE:
        vl_answer_usage(&c->answer, ev);
        if (c->prompt_logprobs)
            take_prompt(p, ev);
        break;
    case VL_EVENT_FAILED:
        on_failed(p, ev);
        break;
    default:
        break;
    }
    vl_buf_fini(&out);
}

void call_event(vl_event *ev)
{
    struct part *p = ev->user;
    struct call *c = p->call;
    take(p, ev);
    if (ev->kind != VL_EVENT_DONE && ev->kind != VL_EVENT_FAILED)
        return;
    p->over = true;
    c->n_over++;
    if (c->n_over < c->n_parts)
        return;
    finish(c);
    call_free(c);
}

/* ---- the request ---- */

static struct call *call_new(struct app *app, vl_http_request *r, struct served *model,
                             const vl_api_request *q, bool chat, size_t n_parts)
{
    struct call *c = calloc(1, sizeof *c);
    struct part *parts = calloc(n_parts, sizeof *parts);
    if (!c || !parts ||
        !vl_answer_init(&c->answer, chat, q, (uint32_t)(n_parts * q->params.n), model->name)) {
        free(c);
        free(parts);
        return NULL;
    }
    c->base = (struct pending){on_gone, on_drained, on_quiet};
    c->app = app;
    c->model = model;
    c->http = r;
    c->parts = parts;
    c->n_parts = n_parts;
    for (size_t i = 0; i < n_parts; i++) {
        parts[i].call = c;
        parts[i].first_choice = (uint32_t)(i * q->params.n);
    }
    c->answer.reasoning_field = q->reasoning_field < 0 ? app->reasoning_field : q->reasoning_field;
    c->prompt_logprobs = (q->params.flags & VL_REQUEST_PROMPT_LOGPROBS) != 0;
    c->n = q->params.n;
    c->answer.token = token_bytes;
    c->answer.token_user = model;
    c->next = app->calls;
    if (app->calls)
        app->calls->prev = c;
    app->calls = c;
    r->user = &c->base;
    return c;
}

/* Hands part i to the engine. Where that fails the part is over, and the call has failed. */
static bool submit(struct call *c, size_t i, const struct vl_request_params *params)
{
    char field[248] = "";
    vl_error err = {0};
    vl_api_error e;
    struct part *p = &c->parts[i];
    vl_status rc = vl_request_submit(vl_runtime_engine(c->model->runtime), params, c->app->queue, p,
                                     &p->request, field, &err);
    if (rc == VL_OK)
        return true;
    err.status = rc;
    if (rc == VL_E_INTERNAL)
        vl_log(VL_LOG_ERROR, "server", "submit failed: %s", err.text);
    vl_api_error_from(&e, &err, field, 0, 0);
    fail(c, &e);
    for (; i < c->n_parts; i++) {
        c->parts[i].over = true;
        c->n_over++;
    }
    if (c->n_over == c->n_parts)
        call_free(c);
    return false;
}

/* A chat request in any form; body: the chat body. echo: see vl_items_init. */
static void start_chat(struct app *app, vl_http_request *r, const char *body, size_t len,
                       const struct vl_answer_form *form, vl_buf *echo)
{
    vl_api_request q;
    vl_api_error e;
    const vl_chat *chat = NULL;
    struct served *m;
    vl_api_limits limits = app->limits;
    limits.json_depth += form ? VL_FORM_DEPTH : 0;
    if (!vl_api_chat_parse(&q, body, len, &limits, form ? NULL : routes_unknown_field, app, &e) ||
        !(m = routes_model(app, q.model.ptr, q.has_model, &e)) || !routes_ready(m, &e)) {
        routes_error(r, &e);
    } else if (!vl_runtime_chat(m->runtime, &chat)) {
        vl_api_fail(&e, 400, "model", "the model '%s' has no chat format; use /v1/completions",
                    m->name);
        routes_error(r, &e);
    } else {
        struct call *c = call_new(app, r, m, &q, true, 1);
        q.params.name = r->id;
        if (c && (!form || vl_items_init(&c->answer, form, echo))) {
            c->answer.request_id = r->id;
            submit(c, 0, &q.params);
        } else {
            r->user = NULL;
            if (c)
                call_free(c);
            vl_api_fail(&e, 503, NULL, "out of memory");
            routes_error(r, &e);
        }
    }
    vl_api_request_fini(&q);
}

static const char *body_of(const vl_http_request *r)
{
    return r->body.ptr ? r->body.ptr : "";
}

void call_chat(struct app *app, vl_http_request *r)
{
    start_chat(app, r, body_of(r), r->body.len, NULL, NULL);
}

void call_messages(struct app *app, vl_http_request *r)
{
    vl_buf chat = VL_BUF_INIT;
    vl_api_error e;
    if (vl_api_messages_to_chat(body_of(r), r->body.len, false, &app->limits, routes_unknown_field,
                                app, &chat, &e))
        start_chat(app, r, chat.ptr, chat.len, &vl_form_messages, NULL);
    else
        routes_error(r, &e);
    vl_buf_fini(&chat);
}

void call_responses(struct app *app, vl_http_request *r)
{
    vl_buf chat = VL_BUF_INIT, echo = VL_BUF_INIT;
    vl_api_error e;
    if (vl_api_responses_to_chat(body_of(r), r->body.len, &app->limits, routes_unknown_field, app,
                                 &chat, &echo, &e))
        start_chat(app, r, chat.ptr, chat.len, &vl_form_responses, &echo);
    else
        routes_error(r, &e);
    vl_buf_fini(&chat);
    vl_buf_fini(&echo);
}

/* ---- text completions ---- */

enum { N_FIM = 6 };
static const char *const fim_names[N_FIM] = {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
                                             "<|fim_pad|>",    "<|repo_name|>",  "<|file_sep|>"};

/* Fill-in-the-middle needs the model's own markers; an answer also ends at any of them. */
static bool fim_stops(const struct served *m, vl_api_request *q, vl_api_error *e)
{
    const vl_tokenizer *t = NULL;
    const vl_tokenizer_api *api = vl_runtime_tokenizer(m->runtime, &t);
    size_t n = q->params.n_stop_ids;
    int32_t *ids = realloc(q->stop_ids, (n + N_FIM) * sizeof *ids);
    if (!ids)
        return vl_api_fail(e, 503, NULL, "out of memory");
    q->stop_ids = ids;
    q->params.stop_ids = ids;
    for (size_t i = 0; i < N_FIM; i++) {
        int32_t id = api->find(t, fim_names[i], strlen(fim_names[i]));
        if (id < 0 && i < 3)
            return vl_api_fail(e, 400, "suffix", "suffix: this model has no token %s",
                               fim_names[i]);
        if (id >= 0)
            ids[q->params.n_stop_ids++] = id;
    }
    return true;
}

static vl_piece piece(const char *text, size_t len, int32_t kind)
{
    return (vl_piece){text ? text : "", len, kind, 0};
}

static void prompt_of(vl_api_request *q, size_t i, vl_piece *pieces, struct vl_request_params *out)
{
    const struct vl_api_prompt *p = &q->prompts[i];
    *out = q->params;
    if (p->ids) {
        out->ids = p->ids;
        out->n_ids = p->n_ids;
        return;
    }
    out->pieces = pieces;
    if (!q->has_suffix) {
        pieces[0] = piece(p->text.ptr, p->text.len, VL_PIECE_TEMPLATE);
        out->n_pieces = 1;
        return;
    }
    pieces[0] = piece(fim_names[0], strlen(fim_names[0]), VL_PIECE_TEMPLATE);
    pieces[1] = piece(p->text.ptr, p->text.len, VL_PIECE_TEXT);
    pieces[2] = piece(fim_names[2], strlen(fim_names[2]), VL_PIECE_TEMPLATE);
    pieces[3] = piece(q->suffix.ptr, q->suffix.len, VL_PIECE_TEXT);
    pieces[4] = piece(fim_names[1], strlen(fim_names[1]), VL_PIECE_TEMPLATE);
    out->n_pieces = 5;
}

/* The prompts in front of their answers. */
static bool echo(struct call *c, vl_api_request *q, vl_api_error *e)
{
    for (size_t i = 0; i < q->n_prompts; i++) {
        vl_buf text = VL_BUF_INIT;
        vl_error err = {0};
        const struct vl_api_prompt *p = &q->prompts[i];
        if (!p->ids)
            vl_buf_append(&text, p->text.ptr ? p->text.ptr : "", p->text.len);
        else if (vl_runtime_decode(c->model->runtime, p->ids, p->n_ids, false, &text, &err) !=
                 VL_OK) {
            vl_buf_fini(&text);
            return vl_api_fail(e, 400, "prompt", "prompt: %s", err.text);
        }
        for (uint32_t k = 0; k < q->params.n; k++)
            vl_answer_echo(&c->answer, (uint32_t)i * q->params.n + k, text.ptr, text.len,
                           &c->answer.held);
        vl_buf_fini(&text);
    }
    return true;
}

static void start_completion(struct app *app, vl_http_request *r, struct served *m,
                             vl_api_request *q)
{
    vl_api_error e;
    struct vl_request_params params;
    vl_piece pieces[5];
    struct call *c = call_new(app, r, m, q, false, q->n_prompts);
    if (!c) {
        vl_api_fail(&e, 503, NULL, "out of memory");
        routes_error(r, &e);
        return;
    }
    if (q->echo && !echo(c, q, &e)) {
        fail(c, &e);
        call_free(c);
        return;
    }
    q->params.name = r->id;
    for (size_t i = 0; i < q->n_prompts; i++) {
        prompt_of(q, i, pieces, &params);
        if (!submit(c, i, &params))
            return;
    }
}

void call_completion(struct app *app, vl_http_request *r)
{
    vl_api_request q;
    vl_api_error e;
    struct served *m;
    if (!vl_api_completion_parse(&q, r->body.ptr ? r->body.ptr : "", r->body.len, &app->limits,
                                 routes_unknown_field, app, &e) ||
        !(m = routes_model(app, q.model.ptr, q.has_model, &e)) || !routes_ready(m, &e) ||
        (q.has_suffix && !fim_stops(m, &q, &e)))
        routes_error(r, &e);
    else
        start_completion(app, r, m, &q);
    vl_api_request_fini(&q);
}
