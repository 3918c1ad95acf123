/* host/lib/request.c: a request before the engine has it: copies of its parameters, checks, and on
 * a worker its prompt. Knows the chat and tokenizer interfaces; not how steps are run. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "host/lib/engine_private.h"
#include "host/lib/log.h"

void vl_request_params_init(struct vl_request_params *p)
{
    memset(p, 0, sizeof *p);
    p->n = 1;
    p->n_logprobs = -1;
    p->thinking_budget = -1;
}

void vl_request_ref(vl_request *r)
{
    atomic_fetch_add(&r->refs, 1);
}

void vl_request_release(vl_request *r)
{
    if (r == NULL || atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    for (uint32_t i = 0; i < r->n_answers; i++)
        free(r->answers[i].out);
    vl_stop_set_fini(&r->stops);
    free(r->chat_json);
    free(r->response_format);
    free(r->pieces);
    free(r->text_copy);
    free(r->bias);
    free(r->stop_ids);
    free(r->prompt);
    free(r->close_ids);
    free(r->prompt_logprobs);
    free(r);
}

void vl_request_let_go(vl_request *r)
{
    for (uint32_t i = 0; i < r->n_answers; i++) {
        vl_output_destroy(r->answers[i].output);
        r->answers[i].output = NULL;
        if (r->answers[i].mask_state != NULL && r->p.mask->destroy != NULL)
            r->p.mask->destroy(r->answers[i].mask_state);
        r->answers[i].mask_state = NULL;
    }
    if (r->p.mask != NULL && r->p.mask->factory_free != NULL)
        r->p.mask->factory_free(r->p.mask_factory);
    r->p.mask = NULL;
    vl_request_release(r);
}

/* ---- submit: checks and copies ---- */

static vl_status wrong(char *field, const char *name, vl_error *err, const char *fmt, ...)
    VL_PRINTF(4, 5);
static vl_status wrong(char *field, const char *name, vl_error *err, const char *fmt, ...)
{
    char text[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (field != NULL)
        snprintf(field, 248, "%s", name);
    return vl_error_set(err, VL_E_INVALID, "%s: %s", name, text);
}

static vl_status check(const vl_engine *e, const struct vl_request_params *p, char *field,
                       vl_error *err)
{
    uint64_t n_tokens = e->p.tokenizer_api->n_tokens(e->p.tokenizer);
    const char *name = "";
    int kinds = (p->chat_json.len > 0) + (p->n_pieces > 0) + (p->n_ids > 0);

    if (kinds > 1)
        return wrong(field, "prompt", err, "given %d ways, want one of chat, text, ids", kinds);
    if (kinds == 0)
        return wrong(field, "prompt", err, "it is empty; at least one token is needed");
    if (p->chat_json.len > 0 && e->p.chat == NULL)
        return vl_error_set(err, VL_E_UNSUPPORTED, "this model has no chat format");
    vl_status rc = vl_sampling_check(&p->sampling, &name, err);
    if (rc != VL_OK) {
        if (field != NULL)
            snprintf(field, 248, "%s", name);
        return rc;
    }
    if (p->n > VL_ANSWERS_MAX)
        return wrong(field, "n", err, "%u is out of range: 1 to %d", p->n, VL_ANSWERS_MAX);
    if (p->n_logprobs < -1 || p->n_logprobs > 20)
        return wrong(field, "top_logprobs", err, "%d is out of range: 0 to 20", p->n_logprobs);
    for (size_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].id < 0 || (uint64_t)p->bias[i].id >= n_tokens)
            return wrong(field, "logit_bias", err, "%d is no token id: 0 to %llu", p->bias[i].id,
                         (unsigned long long)n_tokens - 1);
        if (!(p->bias[i].bias >= -100.0f && p->bias[i].bias <= 100.0f))
            return wrong(field, "logit_bias", err, "%g is out of range: -100 to 100",
                         (double)p->bias[i].bias);
    }
    for (size_t i = 0; i < p->n_stop_ids; i++) {
        if (p->stop_ids[i] < 0 || (uint64_t)p->stop_ids[i] >= n_tokens)
            return wrong(field, "stop_token_ids", err, "%d is no token id: 0 to %llu",
                         p->stop_ids[i], (unsigned long long)n_tokens - 1);
    }
    for (size_t i = 0; i < p->n_ids; i++) {
        if (p->ids[i] < 0 || (uint64_t)p->ids[i] >= n_tokens)
            return wrong(field, "prompt", err, "%d at index %zu is no token id: 0 to %llu",
                         p->ids[i], i, (unsigned long long)n_tokens - 1);
    }
    if (p->mask != NULL && (p->mask->create == NULL || p->mask->mask == NULL))
        return vl_error_set(err, VL_E_INTERNAL, "mask provider without create or mask");
    return VL_OK;
}

/* A copy of n elements; NULL with *bad set when memory is out. n == 0: NULL. */
static void *copy_of(const void *from, size_t n, size_t size, bool *bad)
{
    uint64_t bytes;

    if (n == 0)
        return NULL;
    void *to = vl_mul(n, size, &bytes) && bytes <= SIZE_MAX ? malloc(bytes) : NULL;
    if (to == NULL)
        *bad = true;
    else
        memcpy(to, from, bytes);
    return to;
}

static void copy_pieces(vl_request *r, const struct vl_request_params *p, bool *bad)
{
    vl_buf text = VL_BUF_INIT;
    size_t len, at = 0;

    if (p->n_pieces == 0)
        return;
    r->pieces = copy_of(p->pieces, p->n_pieces, sizeof *p->pieces, bad);
    for (size_t i = 0; i < p->n_pieces; i++)
        vl_buf_append(&text, p->pieces[i].ptr, p->pieces[i].len);
    vl_buf_putc(&text, '\0');
    r->text_copy = vl_buf_take(&text, &len);
    if (r->pieces == NULL || r->text_copy == NULL) {
        *bad = true;
        return;
    }
    r->n_pieces = p->n_pieces;
    for (size_t i = 0; i < r->n_pieces; i++) {
        r->pieces[i].ptr = r->text_copy + at;
        at += r->pieces[i].len;
    }
}

/* The ids that end an answer on the device. */
static void join_stop_ids(const vl_engine *e, vl_request *r, const struct vl_request_params *p,
                          bool *bad)
{
    uint64_t n_own = 0;
    const int32_t *own = e->p.tokenizer_api->stop_ids(e->p.tokenizer, &n_own);

    if ((p->flags & VL_REQUEST_IGNORE_EOS) != 0) {
        if (p->n_stop_ids == 0)
            r->p.min_tokens = UINT64_MAX;
        else
            n_own = 0;
    }
    r->stop_ids = calloc((size_t)n_own + p->n_stop_ids + 1, sizeof *r->stop_ids);
    if (r->stop_ids == NULL) {
        *bad = true;
        return;
    }
    if (n_own > 0)
        memcpy(r->stop_ids, own, (size_t)n_own * sizeof *own);
    if (p->n_stop_ids > 0)
        memcpy(r->stop_ids + n_own, p->stop_ids, p->n_stop_ids * sizeof *p->stop_ids);
    r->n_stop_ids = (size_t)n_own + p->n_stop_ids;
}

/* ignore_eos: the model's own stop ids must never be sampled. Without stop ids of the request's
 * own, min_tokens does that on the device; else a bias of -infinity bans those that it does not
 * name. */
static void ban_stop_ids(const vl_engine *e, vl_request *r, const struct vl_request_params *p,
                         bool *bad)
{
    uint64_t n_own = 0;
    const int32_t *own = e->p.tokenizer_api->stop_ids(e->p.tokenizer, &n_own);
    size_t n = p->n_bias;

    if ((p->flags & VL_REQUEST_IGNORE_EOS) == 0 || p->n_stop_ids == 0)
        n_own = 0;
    r->bias = calloc(n + (size_t)n_own + 1, sizeof *r->bias);
    if (r->bias == NULL) {
        *bad = true;
        return;
    }
    if (n > 0)
        memcpy(r->bias, p->bias, n * sizeof *p->bias);
    for (uint64_t i = 0; i < n_own; i++) {
        bool named = false;
        for (size_t k = 0; k < p->n_stop_ids; k++)
            named |= p->stop_ids[k] == own[i];
        if (!named)
            r->bias[n++] = (vl_logit_bias){own[i], -INFINITY};
    }
    r->p.n_bias = n;
}

vl_status vl_request_make(vl_engine *e, const struct vl_request_params *p, vl_event_queue *queue,
                          void *user, vl_request **out, char *field, vl_error *err)
{
    bool bad = false;
    vl_request *r = NULL;
    vl_status rc = check(e, p, field, err);

    if (rc != VL_OK)
        return rc;
    r = calloc(1, sizeof *r);
    if (r == NULL)
        return vl_error_set(err, VL_E_NOMEM, "request: out of memory");
    r->p = *p;
    r->p.mask = NULL; /* the caller's until the request is accepted */
    r->engine = e;
    r->queue = queue;
    r->user = user;
    r->n_answers = p->n > 0 ? p->n : 1;
    atomic_init(&r->refs, 1);
    snprintf(r->name, sizeof r->name, "%s", p->name != NULL ? p->name : "-");
    r->chat_json = copy_of(p->chat_json.ptr, p->chat_json.len, 1, &bad);
    r->chat_json_len = p->chat_json.len;
    r->response_format = copy_of(p->response_format.ptr, p->response_format.len, 1, &bad);
    r->response_format_len = p->response_format.len;
    r->prompt = copy_of(p->ids, p->n_ids, sizeof *p->ids, &bad);
    r->n_prompt = p->n_ids;
    copy_pieces(r, p, &bad);
    join_stop_ids(e, r, p, &bad);
    ban_stop_ids(e, r, p, &bad);
    rc = bad ? vl_error_set(err, VL_E_NOMEM, "request: out of memory")
             : vl_stop_set_init(&r->stops, p->stops, p->n_stops, err);
    if (rc == VL_E_INVALID && field != NULL)
        snprintf(field, 248, "stop");
    for (uint32_t i = 0; i < r->n_answers; i++) {
        r->answers[i].request = r;
        r->answers[i].index = i;
    }
    if (rc != VL_OK) {
        vl_request_release(r);
        return rc;
    }
    *out = r;
    return VL_OK;
}

/* ---- on a worker: the prompt ---- */

static vl_status encode(vl_engine *e, const vl_piece *pieces, size_t n_pieces,
                        const uint64_t *marks, uint64_t *n_before, size_t n_marks, int32_t **ids,
                        size_t *n_ids, vl_error *err)
{
    uint64_t cap = 1, n = 0;

    for (size_t i = 0; i < n_pieces; i++)
        cap += pieces[i].len; /* an id covers a byte at least */
    *ids = cap < SIZE_MAX / sizeof **ids ? malloc((size_t)cap * sizeof **ids) : NULL;
    if (*ids == NULL)
        return vl_error_set(err, VL_E_NOMEM, "prompt: out of memory");
    vl_status rc = e->p.tokenizer_api->encode(e->p.tokenizer, pieces, n_pieces, marks, n_before,
                                              n_marks, *ids, cap, &n, err);
    if (rc != VL_OK) {
        free(*ids);
        *ids = NULL;
        return rc;
    }
    if (n > 0 && n < cap) { /* most of the room was for bytes */
        int32_t *less = realloc(*ids, (size_t)n * sizeof **ids);
        *ids = less != NULL ? less : *ids;
    }
    *n_ids = (size_t)n;
    return VL_OK;
}

static vl_status render(vl_engine *e, vl_request *r, vl_error *err)
{
    const vl_chat_api *chat = e->p.chat_api;
    vl_chat_view view = {.struct_size = sizeof view};
    vl_chat_field field = {""};
    uint64_t *bytes = NULL, *n_before = NULL;

    vl_status rc = chat->render(e->p.chat, (vl_bytes){r->chat_json, r->chat_json_len},
                                &r->chat_prompt, &field, err);
    if (rc != VL_OK) {
        snprintf(r->field, sizeof r->field, "%s", field.path);
        return rc;
    }
    chat->view(r->chat_prompt, &view);
    r->start_state = view.start_state;
    r->thinking = view.thinking != 0;
    bytes = calloc((size_t)view.n_marks + 1, sizeof *bytes);
    n_before = calloc((size_t)view.n_marks + 1, sizeof *n_before);
    if (bytes == NULL || n_before == NULL) {
        rc = vl_error_set(err, VL_E_NOMEM, "prompt: out of memory");
        goto out;
    }
    for (uint64_t i = 0; i < view.n_marks; i++)
        bytes[i] = view.marks[i].byte;
    rc = encode(e, view.pieces, (size_t)view.n_pieces, bytes, n_before, (size_t)view.n_marks,
                &r->prompt, &r->n_prompt, err);
    if (rc == VL_OK)
        vl_cache_places(e, r, view.marks, n_before, (size_t)view.n_marks);
out:
    free(bytes);
    free(n_before);
    return rc;
}

static vl_status check_length(vl_engine *e, vl_request *r, vl_error *err)
{
    uint64_t limit = e->info.context_tokens;
    uint64_t n = r->n_prompt;

    if (n == 0)
        return vl_error_set(err, VL_E_INVALID, "prompt: it has no token; at least one is needed");
    if (n >= limit)
        return vl_error_set(
            err, VL_E_RANGE,
            "This model's maximum context length is %llu tokens. However, your messages "
            "resulted in %llu tokens. Please reduce the length of the messages.",
            (unsigned long long)limit, (unsigned long long)n);
    if (n >= e->info.kv_tokens)
        return vl_error_set(
            err, VL_E_RANGE,
            "This server's maximum context length is %llu tokens now (its whole pool). "
            "However, your messages resulted in %llu tokens.",
            (unsigned long long)e->info.kv_tokens, (unsigned long long)n);
    uint64_t rest = limit - n;
    r->max_tokens = r->p.max_tokens;
    if (r->max_tokens == 0)
        r->max_tokens = e->p.max_new_tokens > 0 ? e->p.max_new_tokens : rest;
    if (r->max_tokens > rest) {
        if (r->p.max_tokens > 0 && (r->p.flags & VL_REQUEST_CLAMP_MAX) == 0)
            return vl_error_set(
                err, VL_E_RANGE,
                "This model's maximum context length is %llu tokens. However, you requested "
                "%llu tokens (%llu in the prompt, %llu in the completion).",
                (unsigned long long)limit, (unsigned long long)(n + r->max_tokens),
                (unsigned long long)n, (unsigned long long)r->max_tokens);
        r->max_tokens = rest;
    }
    return VL_OK;
}

static vl_status close_thought(vl_engine *e, vl_request *r, vl_error *err)
{
    vl_bytes text = e->p.chat_api->close_thought(e->p.chat);
    vl_piece piece = {text.ptr, text.len, VL_PIECE_TEMPLATE, 0};

    if (text.len == 0)
        return VL_OK;
    return encode(e, &piece, 1, NULL, NULL, 0, &r->close_ids, &r->n_close_ids, err);
}

/* The way out of each answer: decoder, parser, mask state. */
static vl_status make_outputs(const vl_engine *e, vl_request *r, vl_error *err)
{
    vl_status rc = VL_OK;

    for (uint32_t i = 0; i < r->n_answers && rc == VL_OK; i++) {
        struct vl_answer *a = &r->answers[i];
        struct vl_output_params o = {
            .tokenizer_api = e->p.tokenizer_api,
            .tokenizer = e->p.tokenizer,
            .chat_api = r->chat_prompt != NULL ? e->p.chat_api : NULL,
            .stops = &r->stops,
            .queue = r->queue,
            .user = r->user,
            .choice = i,
            .n_logprobs = r->p.n_logprobs,
            .keep_special = (r->p.flags & VL_REQUEST_KEEP_SPECIAL) != 0,
            .include_stop = (r->p.flags & VL_REQUEST_INCLUDE_STOP) != 0,
            .stop_raw = (r->p.flags & VL_REQUEST_STOP_RAW) != 0,
            .one_call = (r->p.flags & VL_REQUEST_ONE_CALL) != 0,
        };
        if (r->chat_prompt != NULL)
            rc = e->p.chat_api->parser_create(e->p.chat, r->chat_prompt, &o.parser, err);
        if (rc == VL_OK)
            rc = vl_output_create(&o, &a->output, err);
        if (rc == VL_OK && r->p.mask != NULL) {
            a->mask_state = r->p.mask->create(r->p.mask_factory, i);
            if (a->mask_state == NULL)
                rc = vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
        }
    }
    return rc;
}

/* A stream's head can go out now: nothing about the request can be wrong any more. Missing for lack
 * of memory, STARTED will do. */
static void tell_queued(vl_request *r)
{
    vl_event *ev = r->queue != NULL ? vl_event_make(VL_EVENT_QUEUED, r->user, NULL, 0, 0, 0) : NULL;

    if (ev == NULL)
        return;
    ev->usage.prompt_tokens = r->n_prompt;
    vl_event_queue_post(r->queue, ev);
}

static vl_status prepare(vl_engine *e, vl_request *r, vl_error *err)
{
    vl_status rc = VL_OK;

    r->start_state = VL_CHAT_CONTENT;
    if (r->chat_json != NULL)
        rc = render(e, r, err);
    else if (r->n_pieces > 0)
        rc = encode(e, r->pieces, r->n_pieces, NULL, NULL, 0, &r->prompt, &r->n_prompt, err);
    if (rc == VL_OK && r->chat_json == NULL)
        vl_cache_places(e, r, NULL, NULL, 0);
    if (rc == VL_OK)
        rc = check_length(e, r, err);
    if (rc == VL_OK && r->chat_json != NULL && r->p.thinking_budget >= 0)
        rc = close_thought(e, r, err);
    if (rc == VL_OK && r->p.mask == NULL)
        rc = vl_request_constrain(e, r, err);
    if (rc != VL_OK)
        return rc;
    vl_sampling_resolve(&r->p.sampling, r->thinking ? &e->p.server_thinking : &e->p.server,
                        &e->p.checkpoint, &r->sampling);
    r->sampling.n_logprobs = r->p.n_logprobs;
    r->sampling.bias = r->bias;
    r->sampling.n_bias = r->p.n_bias;
    return make_outputs(e, r, err);
}

void vl_request_prepare(void *request)
{
    vl_request *r = request;

    if (atomic_load(&r->cancelled)) {
        r->failed = true;
        vl_error_set(&r->err, VL_E_CANCELLED, "the request was cancelled");
    } else {
        vl_status rc = prepare(r->engine, r, &r->err);
        if (r->chat_prompt != NULL)
            r->engine->p.chat_api->prompt_free(r->chat_prompt);
        r->chat_prompt = NULL;
        r->failed = rc != VL_OK;
        if (r->failed)
            r->err.status = rc;
        else
            tell_queued(r);
    }
    vl_engine_deliver(r->engine, r);
}
