/* chat/client.c: HTTP by libcurl, event streams by sse.c, chunks by base/json. One request at a
 * time, never blocking but in vl_client_wait. */
#include "chat/client.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/json.h"
#include "chat/sse.h"

enum { JSON_DEPTH = 128 };
static const size_t EVENT_MAX = (size_t)64 << 20; /* bytes of one event, or of a reply in JSON */
static const size_t ERROR_BODY_MAX = (size_t)64 << 10;

struct vl_client {
    CURLM *multi;
    CURL *easy; /* of the running request */
    struct curl_slist *headers;
    char *url; /* for messages */
    vl_buf body;
    struct vl_sink sink;
    struct vl_sse sse;
    vl_buf text; /* a reply that is no event stream */
    bool is_models;
    bool is_stream;
    bool looked; /* at status and type of the reply */
    bool done;   /* [DONE] came */
    bool failed; /* an error within the stream */
    char curl_error[CURL_ERROR_SIZE];
    struct vl_reply reply;
};

static void reply_reset(struct vl_reply *r)
{
    for (size_t i = 0; i < r->n_models; i++)
        free(r->models[i]);
    free(r->models);
    vl_buf_fini(&r->message);
    memset(r, 0, sizeof(*r));
    r->retry_after_s = -1;
    r->prompt_tokens = r->answer_tokens = r->cached_tokens = -1;
}

struct vl_client *vl_client_create(void)
{
    struct vl_client *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    reply_reset(&c->reply);
    c->multi = curl_multi_init();
    if (!c->multi) {
        free(c);
        return NULL;
    }
    return c;
}

static void request_end(struct vl_client *c)
{
    if (c->easy) {
        curl_multi_remove_handle(c->multi, c->easy);
        curl_easy_cleanup(c->easy);
    }
    c->easy = NULL;
    curl_slist_free_all(c->headers);
    c->headers = NULL;
    free(c->url);
    c->url = NULL;
    vl_sse_fini(&c->sse);
    vl_buf_fini(&c->text);
    vl_buf_fini(&c->body);
}

void vl_client_destroy(struct vl_client *c)
{
    if (!c)
        return;
    request_end(c);
    reply_reset(&c->reply);
    curl_multi_cleanup(c->multi);
    free(c);
}

void vl_client_cancel(struct vl_client *c)
{
    request_end(c);
    reply_reset(&c->reply);
}

bool vl_client_busy(const struct vl_client *c)
{
    return c->easy && c->reply.state == VL_REPLY_NONE;
}

const struct vl_reply *vl_client_reply(const struct vl_client *c)
{
    return &c->reply;
}

/* "v1", "v1beta", "v4": a version already stands at the end of the path. */
static bool is_version(const char *p, size_t n)
{
    return n >= 2 && p[0] == 'v' && p[1] >= '0' && p[1] <= '9' && !memchr(p, '/', n);
}

vl_status vl_url_normalise(vl_buf *out, const char *given, vl_error *err)
{
    const char *scheme = strstr(given, "://");
    const char *host = scheme ? scheme + 3 : given;
    size_t n = strlen(given), last;

    for (const char *p = given; *p; p++)
        if ((unsigned char)*p <= 0x20 || *p == 0x7F)
            return vl_error_set(err, VL_E_INVALID, "the address '%s' has a blank or control byte",
                                given);
    if (scheme && strncasecmp(given, "http://", 7) != 0 && strncasecmp(given, "https://", 8) != 0)
        return vl_error_set(err, VL_E_INVALID, "the address '%s' is neither http:// nor https://",
                            given);
    if (!*host || *host == '/')
        return vl_error_set(err, VL_E_INVALID, "the address '%s' names no host", given);
    vl_buf_clear(out);
    if (!scheme)
        vl_buf_puts(out, "http://");
    while (n > 0 && given[n - 1] == '/')
        n--;
    vl_buf_append(out, given, n);
    for (last = out->len; last > 0 && out->ptr[last - 1] != '/'; last--)
        ;
    if (!is_version(out->ptr + last, out->len - last))
        vl_buf_puts(out, "/v1");
    return out->failed ? vl_error_set(err, VL_E_NOMEM, "out of memory") : VL_OK;
}

/* ---- what the server says ---- */

static void take_int(vl_json v, int64_t *out)
{
    int64_t n;

    if (vl_json_i64(v, &n) && n >= 0)
        *out = n;
}

/* The words of an error object in the forms that servers use; false if there are none. */
static bool error_words(vl_json root, vl_buf *out)
{
    vl_json e = vl_json_get(root, "error");
    vl_json words[] = {vl_json_get(e, "message"), e, vl_json_get(root, "message"),
                       vl_json_get(root, "detail")};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (vl_json_is(words[i], VL_JSON_STRING))
            return vl_json_str(words[i], out);
    if (vl_json_exists(e) && !vl_json_is_null(e)) {
        vl_bytes raw = vl_json_raw(e);

        vl_buf_append(out, raw.ptr, raw.len);
        return true;
    }
    return false;
}

static void stream_failed(struct vl_client *c, const char *text)
{
    if (!c->failed) {
        vl_buf_clear(&c->reply.message);
        vl_buf_puts(&c->reply.message, text);
    }
    c->failed = true;
}

static void put_delta(struct vl_client *c, enum vl_delta_kind kind, int index, vl_json v)
{
    vl_buf text = VL_BUF_INIT;

    if (vl_json_is(v, VL_JSON_STRING) && vl_json_str(v, &text) && text.len)
        c->sink.delta(c->sink.user, kind, index, text.ptr, text.len);
    vl_buf_fini(&text);
}

static void read_usage(struct vl_reply *r, vl_json root)
{
    vl_json u = vl_json_get(root, "usage"), t = vl_json_get(root, "timings");

    take_int(vl_json_get(u, "prompt_tokens"), &r->prompt_tokens);
    take_int(vl_json_get(u, "completion_tokens"), &r->answer_tokens);
    take_int(vl_json_get(vl_json_get(u, "prompt_tokens_details"), "cached_tokens"),
             &r->cached_tokens);
    vl_json_f64(vl_json_get(t, "predicted_per_second"), &r->tokens_per_s);
    if (r->cached_tokens < 0)
        take_int(vl_json_get(t, "cache_n"), &r->cached_tokens);
}

/* One chunk ("delta") or one whole reply ("message"). */
static void read_chunk(struct vl_client *c, vl_json root)
{
    vl_json choice = vl_json_at(vl_json_get(root, "choices"), 0);
    vl_json d = vl_json_get(choice, "delta"), finish = vl_json_get(choice, "finish_reason");
    vl_json thought, calls;

    read_usage(&c->reply, root);
    if (!vl_json_exists(d))
        d = vl_json_get(choice, "message");
    thought = vl_json_get(d, "reasoning_content");
    if (!vl_json_is(thought, VL_JSON_STRING))
        thought = vl_json_get(d, "reasoning");
    put_delta(c, VL_DELTA_THINKING, 0, thought);
    put_delta(c, VL_DELTA_TEXT, 0, vl_json_get(d, "content"));
    put_delta(c, VL_DELTA_TEXT, 0, vl_json_get(d, "refusal"));
    calls = vl_json_get(d, "tool_calls");
    for (vl_json_iter it = vl_json_each(calls);
         vl_json_is(calls, VL_JSON_ARRAY) && vl_json_next(&it);) {
        int64_t index = it.index;
        vl_json fn = vl_json_get(it.value, "function");

        vl_json_i64(vl_json_get(it.value, "index"), &index);
        if (index < 0 || index > 255)
            continue;
        put_delta(c, VL_DELTA_TOOL_NAME, (int)index, vl_json_get(fn, "name"));
        put_delta(c, VL_DELTA_TOOL_ARGS, (int)index, vl_json_get(fn, "arguments"));
    }
    if (vl_json_is(finish, VL_JSON_STRING) &&
        !vl_json_str_copy(finish, c->reply.finish, sizeof(c->reply.finish)))
        memcpy(c->reply.finish, "other", 6);
}

/* One event of the stream. */
static int on_event(void *user, const char *data, size_t len)
{
    struct vl_client *c = user;
    vl_json_doc doc = {0};
    vl_error err = {0};
    vl_json root;

    if (c->done || c->failed || len == 0)
        return 0;
    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
        c->done = true;
        return 0;
    }
    if (vl_json_parse(&doc, data, len, JSON_DEPTH, 0, &err) != VL_OK) {
        vl_error_prefix(&err, "the server sent an event that is not JSON");
        stream_failed(c, err.text);
        return 0;
    }
    root = vl_json_root(&doc);
    if (vl_json_exists(vl_json_get(root, "error")) &&
        !vl_json_is_null(vl_json_get(root, "error"))) {
        vl_buf words = VL_BUF_INIT;

        error_words(root, &words);
        stream_failed(c, words.len ? words.ptr : "the server reports an error without words");
        vl_buf_fini(&words);
    } else {
        read_chunk(c, root);
    }
    vl_json_doc_fini(&doc);
    return 0;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *user)
{
    struct vl_client *c = user;
    size_t len = size * n;

    if (!c->looked) {
        const char *type = NULL;

        c->looked = true;
        curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->reply.status);
        curl_easy_getinfo(c->easy, CURLINFO_CONTENT_TYPE, &type);
        c->is_stream = !c->is_models && c->reply.status / 100 == 2 &&
                       !(type && strncasecmp(type, "application/json", 16) == 0);
    }
    if (c->is_stream) {
        if (vl_sse_feed(&c->sse, bytes, len, on_event, c) != 0) {
            stream_failed(c, "the server sent an event of more than 64 MiB");
            return 0;
        }
        return len;
    }
    if (c->reply.status / 100 != 2 && c->text.len + len > ERROR_BODY_MAX)
        return len; /* enough of it was read to tell what is wrong */
    if (c->text.len + len > EVENT_MAX) {
        stream_failed(c, "the server's reply is larger than 64 MiB");
        return 0;
    }
    vl_buf_append(&c->text, bytes, len);
    return c->text.failed ? 0 : len;
}

static void read_models(struct vl_client *c, vl_json root)
{
    struct vl_reply *r = &c->reply;
    vl_json data = vl_json_get(root, "data"), first = vl_json_at(data, 0);
    size_t cap = 0;

    for (vl_json_iter it = vl_json_each(data);
         vl_json_is(data, VL_JSON_ARRAY) && vl_json_next(&it);) {
        vl_buf id = VL_BUF_INIT;
        char *text;

        if (!vl_json_str(vl_json_get(it.value, "id"), &id) || id.len == 0 ||
            memchr(id.ptr, 0, id.len) ||
            !vl_grow(&r->models, &cap, r->n_models + 1, sizeof(char *))) {
            vl_buf_fini(&id);
            continue;
        }
        text = vl_buf_take(&id, NULL);
        if (text)
            r->models[r->n_models++] = text;
    }
    take_int(vl_json_get(first, "max_model_len"), &r->context_tokens);
    if (!r->context_tokens)
        take_int(vl_json_get(vl_json_get(first, "meta"), "n_ctx"), &r->context_tokens);
    if (!r->context_tokens)
        take_int(vl_json_get(first, "context_length"), &r->context_tokens);
}

/* A body in JSON: an error, the list of models, or an answer of a server that does not stream. */
static void read_text(struct vl_client *c)
{
    struct vl_reply *r = &c->reply;
    vl_json_doc doc = {0};
    vl_error err = {0};
    bool json = vl_json_parse(&doc, c->text.ptr ? c->text.ptr : "", c->text.len, JSON_DEPTH, 0,
                              &err) == VL_OK;
    vl_json root = json ? vl_json_root(&doc) : (vl_json){0};

    if (r->status / 100 != 2) {
        vl_buf words = VL_BUF_INIT;

        if (!error_words(root, &words))
            vl_buf_append(&words, c->text.ptr, c->text.len < 600 ? c->text.len : 600);
        if (c->text.len > 600 && words.len == 600)
            vl_buf_printf(&words, "... (%zu bytes)", c->text.len);
        vl_buf_printf(&r->message, "HTTP %ld", r->status);
        if (words.len)
            vl_buf_puts(&r->message, ": ");
        vl_buf_append(&r->message, words.ptr, words.len);
        vl_buf_fini(&words);
        c->failed = true;
    } else if (!json) {
        vl_error_prefix(&err, "the reply of %s is not JSON", c->url);
        stream_failed(c, err.text);
    } else if (c->is_models) {
        read_models(c, root);
    } else if (error_words(root, &r->message)) {
        c->failed = true;
    } else {
        read_chunk(c, root);
        c->done = true;
    }
    vl_json_doc_fini(&doc);
}

/* The transfer is over: what came of it. */
static void settle(struct vl_client *c, CURLcode code)
{
    struct vl_reply *r = &c->reply;
    curl_off_t wait = 0;

    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &r->status);
    if (r->status == 429 || r->status == 503) {
        struct curl_header *h;

        if (curl_easy_header(c->easy, "Retry-After", 0, CURLH_HEADER, -1, &h) == CURLHE_OK &&
            curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK && wait >= 0)
            r->retry_after_s = wait > 60 ? 60 : (int)wait;
    }
    if (r->status == 0 && code != CURLE_OK) {
        const char *why = c->curl_error[0] ? c->curl_error : curl_easy_strerror(code);

        vl_buf_printf(&r->message, "cannot reach %s: %s", c->url, why);
        r->state = VL_REPLY_UNREACHABLE;
        return;
    }
    if (!c->is_stream && !c->failed && (code == CURLE_OK || r->status / 100 != 2))
        read_text(c);
    if (!c->failed && !c->is_models && !c->done && !r->finish[0]) {
        if (code != CURLE_OK)
            vl_buf_printf(&r->message, "the connection broke in the middle of the answer: %s",
                          c->curl_error[0] ? c->curl_error : curl_easy_strerror(code));
        else
            vl_buf_puts(&r->message,
                        "the stream was cut: it ended without finish_reason and without [DONE]");
        c->failed = true;
    } else if (c->is_models && code != CURLE_OK) {
        vl_buf_printf(&r->message, "%s: %s", c->url, curl_easy_strerror(code));
        c->failed = true;
    }
    r->state = c->failed ? VL_REPLY_FAILED : VL_REPLY_OK;
}

/* ---- requests ---- */

static bool add_header(struct vl_client *c, const char *text)
{
    struct curl_slist *l = curl_slist_append(c->headers, text);

    if (l)
        c->headers = l;
    return l != NULL;
}

static vl_status start(struct vl_client *c, const char *base, const char *path, const char *key,
                       vl_error *err)
{
    vl_buf url = VL_BUF_INIT, auth = VL_BUF_INIT;
    const char *bundle = getenv("CURL_CA_BUNDLE");
    bool ok = true;

    reply_reset(&c->reply);
    vl_sse_init(&c->sse, EVENT_MAX);
    c->is_stream = c->looked = c->done = c->failed = false;
    c->curl_error[0] = 0;
    vl_buf_printf(&url, "%s%s", base, path);
    c->url = vl_buf_take(&url, NULL);
    c->easy = curl_easy_init();
    if (key && *key) {
        vl_buf_printf(&auth, "Authorization: Bearer %s", key);
        ok = !auth.failed && add_header(c, auth.ptr);
        explicit_bzero(auth.ptr, auth.len);
    }
    if (!c->is_models)
        ok = ok && add_header(c, "Content-Type: application/json") &&
             add_header(c, "Accept: text/event-stream") && add_header(c, "Expect:");
    vl_buf_fini(&auth);
    if (!ok || !c->easy || !c->url) {
        request_end(c);
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    }
    curl_easy_setopt(c->easy, CURLOPT_URL, c->url);
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(c->easy, CURLOPT_USERAGENT, "poppy/" VALLMO_VERSION);
    curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT, 15L);
    curl_easy_setopt(c->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->curl_error);
    curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    if (bundle && *bundle)
        curl_easy_setopt(c->easy, CURLOPT_CAINFO, bundle);
    if (c->is_models) {
        curl_easy_setopt(c->easy, CURLOPT_TIMEOUT, 15L);
    } else {
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->body.ptr);
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body.len);
    }
    curl_multi_add_handle(c->multi, c->easy);
    return VL_OK;
}

vl_status vl_client_chat(struct vl_client *c, const char *base, const char *key, const vl_buf *body,
                         struct vl_sink sink, vl_error *err)
{
    request_end(c);
    vl_buf_append(&c->body, body->ptr, body->len);
    if (c->body.failed || body->failed)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    c->sink = sink;
    c->is_models = false;
    return start(c, base, "/chat/completions", key, err);
}

vl_status vl_client_models(struct vl_client *c, const char *base, const char *key, vl_error *err)
{
    request_end(c);
    c->is_models = true;
    return start(c, base, "/models", key, err);
}

static void move(struct vl_client *c)
{
    int running, left;
    CURLMsg *m;

    curl_multi_perform(c->multi, &running);
    while ((m = curl_multi_info_read(c->multi, &left))) {
        if (m->msg != CURLMSG_DONE || m->easy_handle != c->easy)
            continue;
        if (c->reply.state == VL_REPLY_NONE)
            settle(c, m->data.result);
        request_end(c);
        break;
    }
    /* The answer is whole at [DONE], and an error in the stream is the end of it: whether the
     * server closes the body soon is its own affair. */
    if (c->easy && c->reply.state == VL_REPLY_NONE && (c->done || c->failed)) {
        c->reply.state = c->failed ? VL_REPLY_FAILED : VL_REPLY_OK;
        if (c->failed)
            request_end(c);
    }
}

void vl_client_wait(struct vl_client *c, struct curl_waitfd *fds, unsigned n_fds, int timeout_ms)
{
    bool busy = vl_client_busy(c);

    move(c);
    if (busy && !vl_client_busy(c)) /* news: tell it at once */
        timeout_ms = 0;
    curl_multi_poll(c->multi, fds, n_fds, timeout_ms, NULL);
    move(c);
}
