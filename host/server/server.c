/* host/server/server.c: the server's life: it listens at once, loads the models on threads of their
 * own, turns the engines' events into answers, and ends on signals: the first lets what runs
 * finish, the second does not. Must not know bodies. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "host/lib/log.h"
#include "host/server/app.h"
#include "host/server/notify.h"
#include "host/server/reload.h"

struct server {
    struct app app;
    struct event *term, *interrupt, *hangup, *drain_tick, *watchdog;
    struct reload reload;
    struct progress progress;
    double drain_end; /* when waiting ends; 0: not draining */
    bool cancelled;   /* what still ran was told to end */
    int status;
};

/* ---- models ---- */

/* [open], on the loading thread: the config does not change any more. */
static const vl_option_values *plugin_options(void *user, const vl_plugin *plugin)
{
    const vl_config_model *m = user;
    for (size_t i = 0; i < m->n_plugins; i++)
        if (strcmp(m->plugins[i].id, plugin->id) == 0)
            return &m->plugins[i].view;
    return NULL;
}

static uint64_t number(const vl_config_model *m, int option)
{
    return (uint64_t)vl_model_value(m, option)->number;
}

static void sampling_defaults(const vl_config_model *m, struct vl_sampling_options *s)
{
    static const struct {
        int option;
        uint32_t bit;
    } table[] = {{VL_M_TEMPERATURE, VL_SET_TEMPERATURE},
                 {VL_M_TOP_P, VL_SET_TOP_P},
                 {VL_M_TOP_K, VL_SET_TOP_K},
                 {VL_M_MIN_P, VL_SET_MIN_P},
                 {VL_M_PRESENCE, VL_SET_PRESENCE},
                 {VL_M_FREQUENCY, VL_SET_FREQUENCY},
                 {VL_M_REPETITION, VL_SET_REPETITION}};
    *s = (struct vl_sampling_options){0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (vl_model_value(m, table[i].option)->is_set)
            s->set |= table[i].bit;
    s->temperature = vl_model_value(m, VL_M_TEMPERATURE)->real;
    s->top_p = vl_model_value(m, VL_M_TOP_P)->real;
    s->top_k = vl_model_value(m, VL_M_TOP_K)->number;
    s->min_p = vl_model_value(m, VL_M_MIN_P)->real;
    s->presence_penalty = vl_model_value(m, VL_M_PRESENCE)->real;
    s->frequency_penalty = vl_model_value(m, VL_M_FREQUENCY)->real;
    s->repetition_penalty = vl_model_value(m, VL_M_REPETITION)->real;
}

void server_runtime_params(const vl_config *config, size_t model, struct vl_runtime_params *out)
{
    vl_config_model *m = &config->models[model];
    const char *kwargs = vl_model_value(m, VL_M_CHAT_KWARGS)->text;
    *out = (struct vl_runtime_params){
        .path = vl_model_value(m, VL_M_MODEL)->text,
        .device = vl_model_value(m, VL_M_DEVICE)->text,
        .max_sequences = (uint32_t)number(m, VL_M_MAX_SEQUENCES),
        /* The default bends to the model; a number that somebody wrote is meant. */
        .context_tokens =
            vl_model_value(m, VL_M_CONTEXT_TOKENS)->is_set ? number(m, VL_M_CONTEXT_TOKENS) : 0,
        .kv_tokens = number(m, VL_M_KV_TOKENS),
        .step_tokens = number(m, VL_M_STEP_TOKENS),
        .chat_format = vl_model_value(m, VL_M_CHAT)->text,
        .chat_kwargs = {kwargs, kwargs ? strlen(kwargs) : 0},
        .chat_strict = vl_model_value(m, VL_M_CHAT_STRICT)->number != 0,
        .tokenizer_threads = (uint32_t)vl_server_value(config, VL_S_TOKENIZER_THREADS)->number,
        .queue_cap = number(m, VL_M_QUEUE_MAX),
        .prefill_tokens = number(m, VL_M_PREFILL_TOKENS),
        .max_new_tokens = number(m, VL_M_MAX_NEW_TOKENS),
        .prefix_cache_bytes = number(m, VL_M_PREFIX_CACHE),
        .prefix_host_bytes = number(m, VL_M_PREFIX_CACHE_HOST),
        .prefix_every_tokens = number(m, VL_M_PREFIX_STEP),
        .options = plugin_options,
        .options_user = m,
    };
    sampling_defaults(m, &out->server);
    out->server_thinking = out->server;
}

static void begin_drain(struct server *s, double seconds);

/* To the service manager: how far the loading is, and when everything is there. */
static void tell_loading(const struct server *s, const struct served *m,
                         const struct vl_runtime_status *st)
{
    size_t n_ready = 0;
    for (size_t i = 0; i < s->app.n_models; i++)
        n_ready += s->app.models[i].state == VL_RUNTIME_READY;
    if (s->app.draining)
        return;
    if (n_ready == s->app.n_models)
        notify_printf("READY=1\nSTATUS=%zu model%s on port %d", n_ready, n_ready == 1 ? "" : "s",
                      vl_http_port(s->app.http));
    else if (st->state == VL_RUNTIME_LOADING)
        notify_printf("STATUS=loading %s: %s %.0f %%", m->name, st->what, st->fraction * 100);
    else if (st->state == VL_RUNTIME_FAILED)
        notify_printf("STATUS=%s: %s", m->name, st->error.text);
}

static void on_load(struct server *s, struct served *m)
{
    struct vl_runtime_status st;
    if (!m->runtime)
        return; /* the loading was quicker than vl_runtime_start's return; its state is read there
                 */
    vl_runtime_status_get(m->runtime, &st);
    bool same = st.state == m->state;
    m->state = st.state;
    if (!same || st.state == VL_RUNTIME_LOADING)
        tell_loading(s, m, &st);
    if (same)
        return;
    if (st.state == VL_RUNTIME_READY) {
        const vl_model_info *info = vl_runtime_model_info(m->runtime);
        vl_log(VL_LOG_INFO, "server",
               "ready model=%s device=\"%s\" context_tokens=%llu max_sequences=%u port=%d", m->name,
               info->device, (unsigned long long)info->context_tokens, info->max_sequences,
               vl_http_port(s->app.http));
    } else if (st.state == VL_RUNTIME_FAILED && !s->app.draining) {
        vl_log(VL_LOG_ERROR, "server", "model %s: %s", m->name, st.error.text);
        s->status = 1;
        begin_drain(s, 0);
    }
}

static vl_status start_models(struct server *s, vl_error *err)
{
    struct app *app = &s->app;
    vl_status rc = VL_OK;
    for (size_t i = 0; i < app->n_models && rc == VL_OK; i++) {
        struct vl_runtime_params params;
        struct served *m = &app->models[i];
        server_runtime_params(app->config, i, &params);
        rc = vl_runtime_start(app->registry, &params, app->queue, m, &m->runtime, err);
        if (rc == VL_OK)
            on_load(s, m);
        else
            vl_error_prefix(err, "model %s", m->name);
    }
    return rc;
}

/* ---- events ---- */

static void dispatch(struct server *s, vl_event *ev)
{
    switch (ev->kind) {
    case VL_EVENT_WORK:
        misc_work(ev);
        break;
    case VL_EVENT_LOAD:
        if (s)
            on_load(s, ev->user);
        break;
    default:
        call_event(ev);
        break;
    }
}

static void take_events(struct server *s, vl_event_queue *queue)
{
    for (vl_event *ev = vl_event_queue_take(queue), *next; ev; ev = next) {
        next = ev->next;
        dispatch(s, ev);
        vl_event_free(ev);
    }
}

static void on_queue(evutil_socket_t fd, short what, void *user)
{
    struct server *s = user;
    (void)fd;
    (void)what;
    take_events(s, s->app.queue);
}

/* ---- the end ---- */

static void on_drain_tick(evutil_socket_t fd, short what, void *user)
{
    struct server *s = user;
    (void)fd;
    (void)what;
    double now = vl_http_now();
    if (vl_http_n_active(s->app.http) == 0 && !s->app.calls) {
        event_base_loopexit(s->app.base, NULL);
    } else if (now > s->drain_end && !s->cancelled) {
        s->cancelled = true;
        s->drain_end = now + 2; /* for the error events to be sent */
        call_cancel_all(&s->app);
    } else if (now > s->drain_end) {
        event_base_loopexit(s->app.base, NULL);
    }
}

static void begin_drain(struct server *s, double seconds)
{
    struct timeval every = {0, 20000};
    s->app.draining = true;
    notify_send("STOPPING=1\nSTATUS=ending");
    s->drain_end = vl_http_now() + seconds;
    vl_http_drain(s->app.http);
    for (size_t i = 0; i < s->app.n_models; i++)
        if (s->app.models[i].state == VL_RUNTIME_READY)
            vl_engine_drain(vl_runtime_engine(s->app.models[i].runtime));
    event_add(s->drain_tick, &every);
}

static void on_signal(evutil_socket_t signal_number, short what, void *user)
{
    struct server *s = user;
    (void)what;
    if (s->drain_end > 0) {
        vl_log(VL_LOG_INFO, "server", "second signal: ending now");
        event_base_loopexit(s->app.base, NULL);
        return;
    }
    double seconds = (double)vl_server_value(s->app.config, VL_S_DRAIN_TIMEOUT)->number / 1e3;
    vl_log(VL_LOG_INFO, "server", "%s: ending; running requests have %.0f s",
           signal_number == SIGTERM ? "SIGTERM" : "SIGINT", seconds);
    begin_drain(s, seconds);
}

static void on_hangup(evutil_socket_t signal_number, short what, void *user)
{
    struct server *s = user;
    (void)signal_number;
    (void)what;
    if (s->drain_end > 0)
        return;
    vl_log(VL_LOG_INFO, "server", "SIGHUP: reading the config again");
    reload_run(&s->reload, &s->app);
}

/* No sign of life is sent while an engine hangs: the service manager then starts us again. */
static void on_watchdog(evutil_socket_t fd, short what, void *user)
{
    struct server *s = user;
    (void)fd;
    (void)what;
    if (progress_look(&s->progress, &s->app))
        notify_send("WATCHDOG=1");
    else
        vl_log(VL_LOG_ERROR, "server", "an engine makes no progress; no sign of life is sent");
}

static vl_status add_watchdog(struct server *s, vl_error *err)
{
    uint64_t us = notify_watchdog_us() / 2;
    if (us == 0)
        return VL_OK;
    struct timeval every = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};
    s->watchdog = event_new(s->app.base, -1, EV_PERSIST, on_watchdog, s);
    if (!s->watchdog || event_add(s->watchdog, &every))
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    return VL_OK;
}

static void on_fatal(int error)
{
    vl_log(VL_LOG_ERROR, "server", "event loop failed: %d", error);
    exit(1);
}

/* ---- setting up ---- */

static double seconds_of(const vl_config *c, int option)
{
    return (double)vl_server_value(c, option)->number / 1e3;
}

static vl_status open_http(struct app *app, vl_error *err)
{
    const vl_config *c = app->config;
    vl_http_limits limits = {
        .body_max_bytes = (uint64_t)vl_server_value(c, VL_S_BODY_MAX)->number,
        .head_max_bytes = (size_t)vl_server_value(c, VL_S_HEAD_MAX)->number,
        .connections_max = (size_t)vl_server_value(c, VL_S_CONNECTIONS_MAX)->number,
        .output_buffer_bytes = (size_t)vl_server_value(c, VL_S_OUTPUT_BUFFER)->number,
        .idle_s = seconds_of(c, VL_S_IDLE_TIMEOUT),
        .read_s = seconds_of(c, VL_S_READ_TIMEOUT),
        .slow_s = seconds_of(c, VL_S_SLOW_TIMEOUT),
    };
    vl_http_app http = routes_app(app);
    return vl_http_create(app->base, vl_server_value(c, VL_S_HOST)->text,
                          (int)vl_server_value(c, VL_S_PORT)->number, &limits, &http, &app->http,
                          err);
}

static vl_status make_models(struct app *app, vl_error *err)
{
    app->models = calloc(app->config->n_models, sizeof *app->models);
    if (!app->models)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    app->n_models = app->config->n_models;
    for (size_t i = 0; i < app->n_models; i++)
        app->models[i] =
            (struct served){.app = app,
                            .index = i,
                            .name = vl_model_value(&app->config->models[i], VL_M_NAME)->text,
                            .created = app->started,
                            .state = VL_RUNTIME_LOADING};
    return VL_OK;
}

static vl_status set_up(struct server *s, vl_error *err)
{
    struct app *app = &s->app;
    app->started = (int64_t)time(NULL);
    reload_apply(app, app->config);
    vl_status rc = access_init(&app->access, app->config, err);
    if (rc == VL_OK)
        rc = make_models(app, err);
    if (rc == VL_OK)
        rc = vl_event_queue_create(&app->queue, err);
    if (rc != VL_OK)
        return rc;
    event_set_fatal_callback(on_fatal);
    app->base = event_base_new();
    if (!app->base)
        return vl_error_set(err, VL_E_IO, "no event loop: %s", strerror(errno));
    rc = open_http(app, err);
    if (rc != VL_OK)
        return rc;
    app->queue_event =
        event_new(app->base, vl_event_queue_fd(app->queue), EV_READ | EV_PERSIST, on_queue, s);
    s->term = evsignal_new(app->base, SIGTERM, on_signal, s);
    s->interrupt = evsignal_new(app->base, SIGINT, on_signal, s);
    s->hangup = evsignal_new(app->base, SIGHUP, on_hangup, s);
    s->drain_tick = event_new(app->base, -1, EV_PERSIST, on_drain_tick, s);
    if (!app->queue_event || !s->term || !s->interrupt || !s->hangup || !s->drain_tick ||
        event_add(app->queue_event, NULL) || event_add(s->term, NULL) ||
        event_add(s->interrupt, NULL) || event_add(s->hangup, NULL))
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    vl_log(VL_LOG_INFO, "server", "listening host=%s port=%d models=%zu",
           vl_server_value(app->config, VL_S_HOST)->text, vl_http_port(app->http), app->n_models);
    return add_watchdog(s, err);
}

static void free_event(struct event *e)
{
    if (e)
        event_free(e);
}

/* Clients first (their requests are cancelled), then the engines, then what they still had to say.
 */
static void tear_down(struct server *s)
{
    struct app *app = &s->app;
    app->draining = true;
    vl_http_destroy(app->http);
    for (size_t i = 0; i < app->n_models; i++) {
        if (app->models[i].runtime)
            call_cancel_all(app);
    }
    while (app->calls && app->queue) { /* every call ends with its engine's last event */
        vl_event *ev = vl_event_queue_wait(app->queue, 5000);
        if (!ev)
            break; /* an engine that hangs must not keep the process */
        for (vl_event *next; ev; ev = next) {
            next = ev->next;
            dispatch(NULL, ev);
            vl_event_free(ev);
        }
    }
    for (size_t i = 0; i < app->n_models; i++)
        vl_runtime_close(app->models[i].runtime);
    if (app->queue)
        take_events(NULL, app->queue);
    vl_event_queue_destroy(app->queue);
    free_event(app->queue_event);
    free_event(s->term);
    free_event(s->interrupt);
    free_event(s->hangup);
    free_event(s->watchdog);
    free_event(s->drain_tick);
    if (app->base)
        event_base_free(app->base);
    for (size_t i = 0; i < app->n_unknown; i++)
        free(app->unknown[i]);
    free(app->models);
    access_fini(&app->access);
    reload_fini(&s->reload);
}

int server_run(const vl_config *config, vl_registry *registry, const reload_source *source)
{
    struct server s = {.app = {.config = config, .first_config = config, .registry = registry},
                       .reload = {.source = source}};
    vl_error err = {0};
    signal(SIGPIPE, SIG_IGN);
    vl_status rc = set_up(&s, &err);
    if (rc == VL_OK)
        rc = start_models(&s, &err);
    if (rc == VL_OK) {
        event_base_dispatch(s.app.base);
    } else {
        vl_log(VL_LOG_ERROR, "server", "%s", err.text);
        s.status = 1;
    }
    tear_down(&s);
    libevent_global_shutdown();
    return s.status;
}
