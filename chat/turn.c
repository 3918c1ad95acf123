/* chat/turn.c: the life of one question. Knows the dialogue and the client; draws nothing. */
#include "chat/turn.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "chat/clock.h"

vl_status vl_turn_init(struct vl_turn *t, vl_error *err)
{
    memset(t, 0, sizeof(*t));
    t->stats.prompt_tokens = t->stats.answer_tokens = t->stats.cached_tokens = -1;
    t->client = vl_client_create();
    return t->client ? VL_OK : vl_error_set(err, VL_E_NOMEM, "out of memory");
}

static void forget_models(struct vl_turn *t)
{
    vl_names_free(t->models, t->n_models);
    t->models = NULL;
    t->n_models = 0;
    t->context_tokens = 0;
}

void vl_turn_fini(struct vl_turn *t)
{
    vl_client_destroy(t->client);
    forget_models(t);
    vl_buf_fini(&t->base);
    vl_buf_fini(&t->model);
    vl_buf_fini(&t->message);
    vl_buf_fini(&t->body);
    vl_buf_fini(&t->question);
}

vl_status vl_turn_server(struct vl_turn *t, const char *url, vl_error *err)
{
    vl_buf base = VL_BUF_INIT;
    vl_status rc = vl_url_normalise(&base, url, err);

    if (rc != VL_OK) {
        vl_buf_fini(&base);
        return rc;
    }
    vl_turn_stop(t);
    vl_buf_fini(&t->base);
    t->base = base;
    vl_buf_clear(&t->model);
    forget_models(t);
    return VL_OK;
}

static void on_delta(void *user, enum vl_delta_kind kind, int index, const char *text, size_t len)
{
    struct vl_turn *t = user;
    struct vl_item *item = t->answer;
    struct vl_tool_call *call;
    double now = vl_now_s();

    if (!t->stats.first_at)
        t->stats.first_at = now;
    t->stats.last_at = now;
    t->stats.n_deltas++;
    switch (kind) {
    case VL_DELTA_THINKING:
        vl_item_put_thinking(item, text, len);
        item->thinking_s = now - t->stats.first_at;
        break;
    case VL_DELTA_TEXT:
        if (!item->text.len && item->thinking.len) /* the thought ends where the answer begins */
            item->thinking_s = now - t->stats.first_at;
        vl_item_put_text(item, text, len);
        break;
    default:
        call = vl_item_tool(item, (size_t)index);
        if (call)
            vl_buf_append(kind == VL_DELTA_TOOL_NAME ? &call->name : &call->args, text, len);
        break;
    }
}

static enum vl_turn_result fail(struct vl_turn *t, const char *text)
{
    vl_buf_clear(&t->message);
    vl_buf_puts(&t->message, text);
    t->state = VL_TURN_IDLE;
    return VL_TURN_FAILED;
}

static void build_body(struct vl_turn *t)
{
    vl_buf *b = &t->body;
    const struct vl_settings *s = t->settings;

    vl_buf_clear(b);
    vl_buf_puts(b, "{\"model\":");
    vl_json_put_str(b, t->model.ptr, t->model.len);
    vl_buf_puts(b, ",\"messages\":");
    vl_session_messages(t->session, t->question.len ? t->question.ptr : "", t->question.len, b);
    vl_buf_puts(b, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    if (s->max_tokens > 0)
        vl_buf_printf(b, ",\"max_tokens\":%lld", (long long)s->max_tokens);
    for (size_t i = 0; i < s->n_params; i++)
        vl_buf_printf(b, ",\"%s\":%s", s->params[i].name, s->params[i].value.ptr);
    if (s->thinking >= 0)
        vl_buf_printf(b, ",\"chat_template_kwargs\":{\"enable_thinking\":%s}",
                      s->thinking ? "true" : "false");
    vl_buf_putc(b, '}');
}

static enum vl_turn_result send_body(struct vl_turn *t)
{
    struct vl_sink sink = {t, on_delta};
    vl_error err = {0};

    if (vl_client_chat(t->client, t->base.ptr, t->key, &t->body, sink, &err) != VL_OK)
        return fail(t, err.text);
    t->state = VL_TURN_ASKING;
    return VL_TURN_NOTHING;
}

void vl_turn_look(struct vl_turn *t)
{
    if (vl_client_models(t->client, t->base.ptr, t->key, NULL) == VL_OK)
        t->state = VL_TURN_MODELS;
    t->will_ask = false;
}

void vl_turn_ask(struct vl_turn *t, const struct vl_session *session,
                 const struct vl_settings *settings, const char *question, size_t len,
                 struct vl_item *answer)
{
    t->session = session;
    t->settings = settings;
    t->answer = answer;
    t->retried = false;
    t->will_ask = true;
    vl_buf_clear(&t->question);
    vl_buf_append(&t->question, question, len);
    vl_buf_clear(&t->message);
    memset(&t->stats, 0, sizeof(t->stats));
    t->stats.prompt_tokens = t->stats.answer_tokens = t->stats.cached_tokens = -1;
    t->stats.began = vl_now_s();
    if (t->model.len) {
        vl_client_cancel(t->client);
        build_body(t);
        send_body(t);
        return;
    }
    if (t->state != VL_TURN_MODELS) { /* else the list is under way already */
        vl_turn_look(t);
        t->will_ask = true;
    }
}

/* The list of models is there, or there is none. */
static enum vl_turn_result models_done(struct vl_turn *t, const struct vl_reply *r)
{
    if (r->state == VL_REPLY_UNREACHABLE)
        return fail(t, r->message.len ? r->message.ptr : "no answer");
    forget_models(t);
    for (size_t i = 0; r->state == VL_REPLY_OK && i < r->n_models; i++) {
        if (!t->models)
            t->models = calloc(r->n_models + 1, sizeof(char *));
        if (t->models && (t->models[t->n_models] = strdup(r->models[i])))
            t->n_models++;
    }
    t->context_tokens = r->context_tokens;
    t->state = VL_TURN_IDLE;
    if (!t->model.len && t->n_models > 1)
        return t->will_ask ? VL_TURN_CHOOSE : VL_TURN_LISTED;
    if (!t->model.len && (t->n_models == 1 || t->will_ask))
        vl_buf_puts(&t->model, t->n_models == 1 ? t->models[0] : "default");
    if (!t->will_ask)
        return VL_TURN_LISTED;
    build_body(t);
    return send_body(t);
}

static void take_stats(struct vl_turn *t, const struct vl_reply *r)
{
    struct vl_turn_stats *s = &t->stats;
    double took = s->last_at - s->first_at;
    int64_t n = r->answer_tokens >= 0 ? r->answer_tokens : s->n_deltas;

    s->prompt_tokens = r->prompt_tokens;
    s->answer_tokens = r->answer_tokens;
    s->cached_tokens = r->cached_tokens;
    memcpy(s->finish, r->finish, sizeof(s->finish));
    if (r->tokens_per_s > 0)
        s->tokens_per_s = r->tokens_per_s;
    else if (n > 1 && took > 0) /* the first token came at first_at: n - 1 took this long */
        s->tokens_per_s = (double)(n - 1) / took;
}

static enum vl_turn_result answer_done(struct vl_turn *t, const struct vl_reply *r)
{
    if (r->state == VL_REPLY_OK) {
        take_stats(t, r);
        memcpy(t->answer->finish, r->finish, sizeof(r->finish));
        t->state = VL_TURN_IDLE;
        return VL_TURN_OK;
    }
    vl_buf_clear(&t->message);
    vl_buf_append(&t->message, r->message.ptr, r->message.len);
    if (r->retry_after_s >= 0 && !t->retried && !t->stats.first_at) {
        t->retried = true;
        t->wait_until = vl_now_s() + r->retry_after_s;
        t->state = VL_TURN_WAITING;
        return VL_TURN_NOTHING;
    }
    t->state = VL_TURN_IDLE;
    return VL_TURN_FAILED;
}

enum vl_turn_result vl_turn_step(struct vl_turn *t)
{
    const struct vl_reply *r = vl_client_reply(t->client);

    switch (t->state) {
    case VL_TURN_MODELS:
        return r->state == VL_REPLY_NONE ? VL_TURN_NOTHING : models_done(t, r);
    case VL_TURN_ASKING:
        if (t->stats.first_at && t->stats.last_at - t->stats.first_at > 0.5)
            t->stats.tokens_per_s =
                (double)(t->stats.n_deltas - 1) / (t->stats.last_at - t->stats.first_at);
        return r->state == VL_REPLY_NONE ? VL_TURN_NOTHING : answer_done(t, r);
    case VL_TURN_WAITING:
        return vl_now_s() < t->wait_until ? VL_TURN_NOTHING : send_body(t);
    default:
        return VL_TURN_NOTHING;
    }
}

void vl_turn_stop(struct vl_turn *t)
{
    vl_client_cancel(t->client);
    t->state = VL_TURN_IDLE;
    t->will_ask = false;
}
