/* host/server/api_misc.c: the small endpoints: health, models, tokenize, detokenize,
 * apply-template. What takes as long as its text is done on a worker. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "host/lib/log.h"
#include "host/server/app.h"

static void reply_json(vl_http_request *r, const vl_buf *b)
{
    vl_api_error e;
    if (!b->failed) {
        vl_http_reply(r, 200, "application/json", NULL, b->ptr, b->len);
        return;
    }
    vl_api_fail(&e, 503, NULL, "out of memory");
    routes_error(r, &e);
}

void misc_health(struct app *app, vl_http_request *r)
{
    static const char ok[] = "{\"status\":\"ok\"}";
    vl_api_error e;
    for (size_t i = 0; i < app->n_models; i++)
        if (!routes_ready(&app->models[i], &e)) {
            routes_error(r, &e);
            return;
        }
    vl_http_reply(r, 200, "application/json", NULL, ok, sizeof ok - 1);
}

void misc_version(struct app *app, vl_http_request *r)
{
    static const char text[] = "{\"version\":\"" VALLMO_VERSION "\"}";
    (void)app;
    vl_http_reply(r, 200, "application/json", NULL, text, sizeof text - 1);
}

static void put_model(const struct served *m, vl_buf *out)
{
    const vl_model_info *info = vl_runtime_model_info(m->runtime);
    const vl_model_estimate *estimate = vl_runtime_estimate(m->runtime);
    vl_buf_puts(out, "{\"id\":");
    vl_json_put_str(out, m->name, strlen(m->name));
    vl_buf_printf(
        out,
        ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"vallmo\",\"max_model_len\":%llu,"
        "\"meta\":{\"n_ctx\":%llu,\"n_vocab\":%llu,\"n_ctx_train\":%llu,\"n_params\":%llu}}",
        (long long)m->created, (unsigned long long)info->context_tokens,
        (unsigned long long)info->context_tokens, (unsigned long long)info->n_tokens,
        (unsigned long long)estimate->max_context_tokens,
        (unsigned long long)estimate->n_parameters);
}

void misc_models(struct app *app, vl_http_request *r, const char *id)
{
    vl_api_error e;
    vl_buf out = VL_BUF_INIT;
    bool found = id == NULL;
    vl_buf_puts(&out, id ? "" : "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < app->n_models; i++) {
        const struct served *m = &app->models[i];
        if (!routes_ready(&app->models[i], &e)) {
            vl_buf_fini(&out);
            routes_error(r, &e);
            return;
        }
        if (id && strcmp(id, m->name) != 0)
            continue;
        found = true;
        vl_buf_puts(&out, !id && i ? "," : "");
        put_model(m, &out);
    }
    vl_buf_puts(&out, id ? "" : "]}");
    if (found) {
        reply_json(r, &out);
    } else {
        vl_api_fail(&e, 404, "model", "the model '%.300s' does not exist", id);
        e.code = "model_not_found";
        routes_error(r, &e);
    }
    vl_buf_fini(&out);
}

void misc_props(struct app *app, vl_http_request *r)
{
    struct served *m = &app->models[0];
    vl_api_error e;
    vl_buf out = VL_BUF_INIT;
    if (!routes_ready(m, &e)) {
        routes_error(r, &e);
        return;
    }
    const vl_model_info *info = vl_runtime_model_info(m->runtime);
    vl_buf_printf(
        &out,
        "{\"default_generation_settings\":{\"n_ctx\":%llu},\"total_slots\":%u,\"model_alias\":",
        (unsigned long long)info->context_tokens, info->max_sequences);
    vl_json_put_str(&out, m->name, strlen(m->name));
    vl_buf_puts(&out, "}");
    reply_json(r, &out);
    vl_buf_fini(&out);
}

/* ---- jobs for the workers ---- */

enum job_kind { JOB_TOKENIZE, JOB_DETOKENIZE, JOB_TEMPLATE, JOB_COUNT };

struct job {
    struct pending base; /* first */
    enum job_kind kind;
    struct served *model;
    vl_http_request *http; /* NULL: the client is gone. [loop] */
    vl_buf body;           /* taken over from the request */
    vl_json_doc doc;
    vl_buf out;
    bool failed;
    vl_api_error error;
};

static void job_free(struct job *j)
{
    vl_json_doc_fini(&j->doc);
    vl_buf_fini(&j->body);
    vl_buf_fini(&j->out);
    free(j);
}

static void job_gone(struct pending *p)
{
    ((struct job *)(void *)p)->http = NULL;
}

static bool job_error(struct job *j, vl_status status, vl_error *err, const char *field)
{
    err->status = status;
    vl_api_error_from(&j->error, err, field, 0, 0);
    return false;
}

/* A piece of a token list: text where it is UTF-8, else its bytes, as llama.cpp does. */
static void put_piece(vl_buf *out, vl_bytes b)
{
    if (vl_utf8_valid(b.ptr ? b.ptr : "", b.len) == b.len) {
        vl_json_put_str(out, b.ptr ? b.ptr : "", b.len);
        return;
    }
    for (size_t i = 0; i < b.len; i++)
        vl_buf_printf(out, "%s%u", i ? "," : "[", (unsigned)(unsigned char)b.ptr[i]);
    vl_buf_putc(out, ']');
}

static bool encode(struct job *j, const vl_piece *pieces, size_t n_pieces, bool with_pieces)
{
    int32_t *ids = NULL;
    size_t n = 0;
    vl_error err = {0};
    const vl_tokenizer *t = NULL;
    const vl_tokenizer_api *api = vl_runtime_tokenizer(j->model->runtime, &t);
    vl_status rc = vl_runtime_encode(j->model->runtime, pieces, n_pieces, &ids, &n, &err);
    if (rc != VL_OK)
        return job_error(j, rc, &err, NULL);
    vl_buf_puts(&j->out, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        vl_buf_puts(&j->out, i ? "," : "");
        if (with_pieces) {
            vl_buf_printf(&j->out, "{\"id\":%d,\"piece\":", (int)ids[i]);
            put_piece(&j->out, api->token(t, ids[i]));
            vl_buf_putc(&j->out, '}');
        } else {
            vl_json_put_i64(&j->out, ids[i]);
        }
    }
    free(ids);
    vl_buf_printf(&j->out, "],\"count\":%zu,\"max_model_len\":%llu}", n,
                  (unsigned long long)vl_runtime_model_info(j->model->runtime)->context_tokens);
    return true;
}

/* Renders the body's messages and hands the pieces on. */
static bool render(struct job *j, bool (*use)(struct job *, const vl_chat_view *))
{
    const vl_chat *chat = NULL;
    const vl_chat_api *api = vl_runtime_chat(j->model->runtime, &chat);
    vl_chat_prompt *prompt = NULL;
    vl_chat_field field = {""};
    vl_error err = {0};
    if (!api)
        return vl_api_fail(&j->error, 400, "model", "the model '%s' has no chat format",
                           j->model->name);
    vl_status rc = api->render(chat, (vl_bytes){j->body.ptr, j->body.len}, &prompt, &field, &err);
    if (rc != VL_OK)
        return job_error(j, rc, &err, field.path[0] ? field.path : "messages");
    vl_chat_view view = {.struct_size = sizeof view};
    api->view(prompt, &view);
    bool ok = use(j, &view);
    api->prompt_free(prompt);
    return ok;
}

static bool encode_view(struct job *j, const vl_chat_view *view)
{
    bool with_pieces = false;
    return vl_field_bool(vl_json_root(&j->doc), "with_pieces", &with_pieces, NULL, &j->error) &&
           encode(j, view->pieces, (size_t)view->n_pieces, with_pieces);
}

/* The length alone, in Anthropic's form. */
static bool count_view(struct job *j, const vl_chat_view *view)
{
    int32_t *ids = NULL;
    size_t n = 0;
    vl_error err = {0};
    vl_status rc =
        vl_runtime_encode(j->model->runtime, view->pieces, (size_t)view->n_pieces, &ids, &n, &err);
    if (rc != VL_OK)
        return job_error(j, rc, &err, NULL);
    free(ids);
    vl_buf_printf(&j->out, "{\"input_tokens\":%zu}", n);
    return true;
}

static bool print_view(struct job *j, const vl_chat_view *view)
{
    vl_buf_puts(&j->out, "{\"prompt\":\"");
    for (uint64_t i = 0; i < view->n_pieces; i++)
        vl_json_put_escaped(&j->out, view->pieces[i].ptr, (size_t)view->pieces[i].len);
    vl_buf_puts(&j->out, "\"}");
    return true;
}

static bool run_tokenize(struct job *j)
{
    vl_json o = vl_json_root(&j->doc), messages;
    vl_buf text = VL_BUF_INIT;
    bool parse_special = true, with_pieces = false, found = false;
    if (!vl_field_is(o, "messages", VL_JSON_ARRAY, &messages, &j->error))
        return false;
    if (vl_json_exists(messages))
        return render(j, encode_view);
    bool ok = vl_field_text(o, "content", &text, &found, &j->error) &&
              (found || vl_field_text(o, "prompt", &text, &found, &j->error)) &&
              vl_field_bool(o, "parse_special", &parse_special, NULL, &j->error) &&
              vl_field_bool(o, "with_pieces", &with_pieces, NULL, &j->error);
    if (ok && !found)
        ok = vl_api_fail(&j->error, 400, "content",
                         "content: the field is missing; want content, prompt or messages");
    if (ok) {
        vl_piece piece = {text.ptr ? text.ptr : "", text.len,
                          parse_special ? VL_PIECE_TEMPLATE : VL_PIECE_TEXT, 0};
        ok = encode(j, &piece, 1, with_pieces);
    }
    vl_buf_fini(&text);
    return ok;
}

static bool run_detokenize(struct job *j)
{
    vl_json list;
    vl_error err = {0};
    vl_buf text = VL_BUF_INIT;
    size_t n = 0;
    int64_t x;
    bool ok = vl_field_is(vl_json_root(&j->doc), "tokens", VL_JSON_ARRAY, &list, &j->error);
    if (ok && !vl_json_exists(list))
        ok = vl_api_fail(&j->error, 400, "tokens", "tokens: the field is missing");
    if (!ok)
        return false;
    int32_t *ids = calloc(vl_json_count(list) + 1, sizeof *ids);
    if (!ids)
        return vl_api_fail(&j->error, 503, NULL, "out of memory");
    for (vl_json_iter it = vl_json_each(list); ok && vl_json_next(&it);) {
        if (!vl_json_is(it.value, VL_JSON_NUMBER) || !vl_json_i64(it.value, &x) || x < 0 ||
            x > INT32_MAX)
            ok = vl_api_fail(&j->error, 400, "tokens", "tokens[%u]: want a token id",
                             (unsigned)it.index);
        else
            ids[n++] = (int32_t)x;
    }
    if (ok) {
        vl_status rc = vl_runtime_decode(j->model->runtime, ids, n, false, &text, &err);
        ok = rc == VL_OK || job_error(j, rc == VL_E_RANGE ? VL_E_INVALID : rc, &err, "tokens");
    }
    if (ok) {
        vl_buf_puts(&j->out, "{\"content\":");
        vl_json_put_str(&j->out, text.ptr ? text.ptr : "", text.len);
        vl_buf_puts(&j->out, ",\"prompt\":");
        vl_json_put_str(&j->out, text.ptr ? text.ptr : "", text.len);
        vl_buf_putc(&j->out, '}');
    }
    free(ids);
    vl_buf_fini(&text);
    return ok;
}

/* [worker] */
static void job_run(void *user)
{
    struct job *j = user;
    switch (j->kind) {
    case JOB_TOKENIZE:
        j->failed = !run_tokenize(j);
        break;
    case JOB_DETOKENIZE:
        j->failed = !run_detokenize(j);
        break;
    case JOB_TEMPLATE:
        j->failed = !render(j, print_view);
        break;
    case JOB_COUNT:
        j->failed = !render(j, count_view);
        break;
    }
}

void misc_work(vl_event *ev)
{
    struct job *j = ev->user;
    vl_http_request *r = j->http;
    if (r) {
        r->user = NULL;
        if (j->failed)
            routes_error(r, &j->error);
        else
            reply_json(r, &j->out);
    }
    job_free(j);
}

/* The job's body: the request's, or the chat body that it stands for. */
static bool take_body(struct app *app, vl_http_request *r, struct job *j, vl_api_error *e)
{
    if (j->kind == JOB_COUNT)
        return vl_api_messages_to_chat(r->body.ptr ? r->body.ptr : "", r->body.len, true,
                                       &app->limits, routes_unknown_field, app, &j->body, e);
    j->body = r->body;
    r->body = (vl_buf)VL_BUF_INIT;
    return true;
}

/* Parses the body here, since it names the model; all else is the worker's. */
static void job_start(struct app *app, vl_http_request *r, enum job_kind kind)
{
    vl_api_error e;
    vl_error err = {0};
    vl_buf name = VL_BUF_INIT;
    bool has_name = false;
    struct job *j = calloc(1, sizeof *j);
    if (!j) {
        vl_api_fail(&e, 503, NULL, "out of memory");
        routes_error(r, &e);
        return;
    }
    j->base = (struct pending){job_gone, NULL, NULL};
    j->kind = kind;
    vl_api_limits limits = app->limits;
    limits.json_depth += kind == JOB_COUNT ? VL_FORM_DEPTH : 0;
    bool ok = take_body(app, r, j, &e) &&
              vl_chat_open(&j->doc, j->body.ptr ? j->body.ptr : "", j->body.len, &limits, &e);
    vl_json o = vl_json_root(&j->doc);
    ok = ok && vl_field_text(o, "model", &name, &has_name, &e) &&
         (j->model = routes_model(app, name.ptr, has_name, &e)) && routes_ready(j->model, &e);
    vl_buf_fini(&name);
    if (ok) {
        j->http = r;
        vl_status rc =
            vl_workers_submit(vl_runtime_workers(j->model->runtime), job_run, j, app->queue, &err);
        if (rc == VL_OK) {
            r->user = &j->base;
            return;
        }
        err.status = rc;
        vl_api_error_from(&e, &err, NULL, 0, 0);
    }
    job_free(j);
    routes_error(r, &e);
}

void misc_tokenize(struct app *app, vl_http_request *r)
{
    job_start(app, r, JOB_TOKENIZE);
}

void misc_detokenize(struct app *app, vl_http_request *r)
{
    job_start(app, r, JOB_DETOKENIZE);
}

void misc_template(struct app *app, vl_http_request *r)
{
    job_start(app, r, JOB_TEMPLATE);
}

void misc_count_tokens(struct app *app, vl_http_request *r)
{
    job_start(app, r, JOB_COUNT);
}
