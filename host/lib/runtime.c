/* host/lib/runtime.c: the life of an opened model: loading on a thread, ready, closing; and the
 * texts-to-ids helpers. */
#include "host/lib/runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "host/lib/log.h"
#include "host/lib/runtime_private.h"

struct vl_runtime {
    vl_registry *registry; /* borrowed */
    struct vl_runtime_params p;
    char *path, *device, *chat_format, *chat_kwargs; /* owned copies for p */
    vl_event_queue *queue;                           /* may be NULL */
    void *user;
    pthread_t thread;
    bool has_thread;
    _Atomic bool cancel;
    _Atomic int32_t ready; /* 1 once all below may be read */

    pthread_mutex_t lock; /* of status */
    struct vl_runtime_status status;

    struct vl_opened opened;
    vl_workers *workers;
    vl_engine *engine; /* NULL with tokenizer_only */
};

static void set_status(vl_runtime *rt, int32_t state, double fraction, const char *what,
                       const vl_error *why)
{
    pthread_mutex_lock(&rt->lock);
    rt->status.state = state;
    rt->status.fraction = fraction;
    snprintf(rt->status.what, sizeof rt->status.what, "%s", what);
    if (why != NULL)
        rt->status.error = *why;
    pthread_mutex_unlock(&rt->lock);
    vl_event *ev = rt->queue != NULL ? vl_event_make(VL_EVENT_LOAD, rt->user, NULL, 0, 0, 0) : NULL;
    if (ev != NULL)
        vl_event_queue_post(rt->queue, ev);
}

static int32_t on_progress(void *user, double fraction, const char *what)
{
    vl_runtime *rt = user;

    set_status(rt, VL_RUNTIME_LOADING, fraction, what, NULL);
    if (rt->p.progress != NULL && rt->p.progress(rt->p.progress_user, fraction, what) != 0)
        return 1;
    return atomic_load(&rt->cancel);
}

static vl_status start_engine(vl_runtime *rt, vl_error *err)
{
    const struct vl_opened *o = &rt->opened;
    struct vl_engine_params ep = {
        .model_api = o->model_api,
        .model = o->model,
        .tokenizer_api = o->tokenizer_api,
        .tokenizer = o->tokenizer,
        .chat_api = o->chat_api,
        .chat = o->chat,
        .workers = rt->workers,
        .checkpoint = o->generation,
        .server = rt->p.server,
        .server_thinking = rt->p.server_thinking,
        .queue_cap = rt->p.queue_cap,
        .prefill_tokens = rt->p.prefill_tokens,
        .max_new_tokens = rt->p.max_new_tokens,
        .prefix_cache_bytes = rt->p.prefix_cache_bytes,
        .prefix_host_bytes = rt->p.prefix_host_bytes,
        .prefix_every_tokens = rt->p.prefix_every_tokens,
        .run_ahead = rt->p.run_ahead,
    };
    vl_status rc = vl_engine_create(&ep, &rt->engine, err);

    if (rc != VL_OK)
        return rc;
    if (on_progress(rt, 0.95, "warm-up") != 0)
        return vl_error_set(err, VL_E_CANCELLED, "%s: opening was cancelled", rt->p.path);
    rc = vl_engine_warm_up(rt->engine, err);
    if (rc != VL_OK)
        return vl_error_prefix(err, "%s: warm-up", rt->p.path), rc;
    const vl_model_info *info = vl_engine_model_info(rt->engine);
    vl_log(VL_LOG_INFO, "runtime",
           "ready model=%s device=\"%s\" sequences=%u context_tokens=%llu kv_tokens=%llu chat=%s",
           rt->p.path, info->device, info->max_sequences, (unsigned long long)info->context_tokens,
           (unsigned long long)info->kv_tokens,
           o->chat != NULL ? o->chat_api->format(o->chat) : "none");
    return VL_OK;
}

/* What is open goes in reverse; the engine first, since its thread uses the rest. */
static void close_all(vl_runtime *rt)
{
    vl_engine_destroy(rt->engine);
    rt->engine = NULL;
    vl_workers_destroy(rt->workers);
    rt->workers = NULL;
    vl_opened_close(&rt->opened);
}

static vl_status load(vl_runtime *rt, vl_error *err)
{
    rt->opened.progress = on_progress;
    rt->opened.progress_user = rt;
    vl_status rc = vl_opened_open(rt->registry, &rt->p, &rt->opened, false, err);

    if (rc == VL_OK)
        rc = vl_workers_create(rt->p.tokenizer_threads, &rt->workers, err);
    if (rc == VL_OK && !rt->p.tokenizer_only)
        rc = start_engine(rt, err);
    if (rc != VL_OK) {
        vl_error why = {.status = rc};
        if (err != NULL)
            why = *err;
        close_all(rt);
        set_status(rt, VL_RUNTIME_FAILED, 0, "failed", &why);
        return rc;
    }
    atomic_store(&rt->ready, 1);
    set_status(rt, VL_RUNTIME_READY, 1, "ready", NULL);
    return VL_OK;
}

static void *load_main(void *arg)
{
    vl_error err = {0};

    if (load(arg, &err) != VL_OK)
        vl_log(VL_LOG_ERROR, "runtime", "%s", err.text);
    return NULL;
}

static bool copy_text(char **to, const char *from, const char **slot)
{
    if (from == NULL)
        return true;
    *to = strdup(from);
    *slot = *to;
    return *to != NULL;
}

static vl_status make(vl_registry *reg, const struct vl_runtime_params *p, vl_runtime **out,
                      vl_error *err)
{
    vl_runtime *rt;

    if (p->path == NULL || p->path[0] == '\0')
        return vl_error_set(err, VL_E_INVALID, "model: no path is given");
    rt = calloc(1, sizeof *rt);
    if (rt == NULL)
        return vl_error_set(err, VL_E_NOMEM, "%s: out of memory", p->path);
    rt->registry = reg;
    rt->p = *p;
    pthread_mutex_init(&rt->lock, NULL);
    bool ok = copy_text(&rt->path, p->path, &rt->p.path) &&
              copy_text(&rt->device, p->device, &rt->p.device) &&
              copy_text(&rt->chat_format, p->chat_format, &rt->p.chat_format);
    if (ok && p->chat_kwargs.len > 0) {
        rt->chat_kwargs = malloc(p->chat_kwargs.len);
        ok = rt->chat_kwargs != NULL;
        if (ok)
            memcpy(rt->chat_kwargs, p->chat_kwargs.ptr, p->chat_kwargs.len);
        rt->p.chat_kwargs.ptr = rt->chat_kwargs;
    }
    if (!ok) {
        vl_runtime_close(rt);
        return vl_error_set(err, VL_E_NOMEM, "%s: out of memory", p->path);
    }
    *out = rt;
    return VL_OK;
}

vl_status vl_runtime_open(vl_registry *reg, const struct vl_runtime_params *p, vl_runtime **out,
                          vl_error *err)
{
    vl_runtime *rt = NULL;
    vl_status rc = make(reg, p, &rt, err);

    if (rc == VL_OK)
        rc = load(rt, err);
    if (rc != VL_OK) {
        vl_runtime_close(rt);
        return rc;
    }
    *out = rt;
    return VL_OK;
}

vl_status vl_runtime_start(vl_registry *reg, const struct vl_runtime_params *p,
                           vl_event_queue *queue, void *user, vl_runtime **out, vl_error *err)
{
    vl_runtime *rt = NULL;
    vl_status rc = make(reg, p, &rt, err);

    if (rc != VL_OK)
        return rc;
    rt->queue = queue;
    rt->user = user;
    snprintf(rt->status.what, sizeof rt->status.what, "starting");
    if (pthread_create(&rt->thread, NULL, load_main, rt) != 0) {
        vl_runtime_close(rt);
        return vl_error_set(err, VL_E_NOMEM, "%s: no loading thread could be started", p->path);
    }
    rt->has_thread = true;
    *out = rt;
    return VL_OK;
}

void vl_runtime_close(vl_runtime *rt)
{
    if (rt == NULL)
        return;
    atomic_store(&rt->cancel, true);
    if (rt->has_thread)
        pthread_join(rt->thread, NULL);
    close_all(rt);
    pthread_mutex_destroy(&rt->lock);
    free(rt->path);
    free(rt->device);
    free(rt->chat_format);
    free(rt->chat_kwargs);
    free(rt);
}

void vl_runtime_status_get(vl_runtime *rt, struct vl_runtime_status *out)
{
    pthread_mutex_lock(&rt->lock);
    *out = rt->status;
    pthread_mutex_unlock(&rt->lock);
}

static bool is_ready(const vl_runtime *rt)
{
    return atomic_load(&rt->ready) != 0;
}

vl_engine *vl_runtime_engine(vl_runtime *rt)
{
    return is_ready(rt) ? rt->engine : NULL;
}

vl_workers *vl_runtime_workers(vl_runtime *rt)
{
    return is_ready(rt) ? rt->workers : NULL;
}

const vl_tokenizer_api *vl_runtime_tokenizer(vl_runtime *rt, const vl_tokenizer **t)
{
    if (!is_ready(rt))
        return NULL;
    *t = rt->opened.tokenizer;
    return rt->opened.tokenizer_api;
}

const vl_chat_api *vl_runtime_chat(vl_runtime *rt, const vl_chat **c)
{
    if (!is_ready(rt) || rt->opened.chat == NULL)
        return NULL;
    *c = rt->opened.chat;
    return rt->opened.chat_api;
}

const vl_model_info *vl_runtime_model_info(vl_runtime *rt)
{
    return is_ready(rt) && rt->engine != NULL ? vl_engine_model_info(rt->engine) : NULL;
}

const vl_model_estimate *vl_runtime_estimate(vl_runtime *rt)
{
    return is_ready(rt) && rt->engine != NULL ? &rt->opened.estimate : NULL;
}

/* ---- texts and ids ---- */

vl_status vl_runtime_encode(vl_runtime *rt, const vl_piece *pieces, size_t n_pieces, int32_t **ids,
                            size_t *n_ids, vl_error *err)
{
    const vl_tokenizer *t;
    const vl_tokenizer_api *api = vl_runtime_tokenizer(rt, &t);
    uint64_t cap = 1, n = 0;

    if (api == NULL)
        return vl_error_set(err, VL_E_STATE, "the model is not ready");
    for (size_t i = 0; i < n_pieces; i++) {
        if (!vl_add(cap, pieces[i].len, &cap))
            return vl_error_set(err, VL_E_RANGE, "text: too long");
    }
    *ids = cap < SIZE_MAX / sizeof **ids ? malloc((size_t)cap * sizeof **ids) : NULL;
    if (*ids == NULL)
        return vl_error_set(err, VL_E_NOMEM, "text of %llu bytes: out of memory",
                            (unsigned long long)cap - 1);
    vl_status rc = api->encode(t, pieces, n_pieces, NULL, NULL, 0, *ids, cap, &n, err);
    if (rc != VL_OK) {
        free(*ids);
        *ids = NULL;
        return rc;
    }
    *n_ids = (size_t)n;
    return VL_OK;
}

vl_status vl_runtime_decode(vl_runtime *rt, const int32_t *ids, size_t n, bool skip_special,
                            vl_buf *out, vl_error *err)
{
    const vl_tokenizer *t;
    const vl_tokenizer_api *api = vl_runtime_tokenizer(rt, &t);
    vl_decoder *d = NULL;
    vl_status rc;

    if (api == NULL)
        return vl_error_set(err, VL_E_STATE, "the model is not ready");
    uint64_t n_tokens = api->n_tokens(t);
    size_t cap = 3 * (size_t)api->max_token_bytes(t) + 12;
    rc = api->decoder_create(t, &d, err);
    for (size_t i = 0; i <= n && rc == VL_OK; i++) {
        uint64_t len = 0;
        if (i < n && (ids[i] < 0 || (uint64_t)ids[i] >= n_tokens))
            rc = vl_error_set(err, VL_E_RANGE, "%d at index %zu is no token id: 0 to %llu", ids[i],
                              i, (unsigned long long)n_tokens - 1);
        else if (!vl_buf_reserve(out, cap))
            rc = vl_error_set(err, VL_E_NOMEM, "text: out of memory");
        else if (i < n)
            rc = api->decoder_push(d, ids[i], skip_special, out->ptr + out->len, cap, &len, err);
        else
            rc = api->decoder_flush(d, out->ptr + out->len, cap, &len, err);
        if (rc == VL_OK) {
            out->len += (size_t)len;
            out->ptr[out->len] = '\0';
        }
    }
    if (d != NULL)
        api->decoder_destroy(d);
    return rc;
}
