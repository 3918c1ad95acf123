/* host/server/app.h: the server as one object: config, models, connections, and the calls that are
 * under way. Private to host/server; everything is [loop]. */
#ifndef VL_SERVER_APP_H
#define VL_SERVER_APP_H

#include "config/config.h"
#include "host/lib/registry.h"
#include "host/lib/runtime.h"
#include "host/server/api_forms.h"
#include "host/server/http.h"

struct app;

/* A model of the config, as the API shows it. */
struct served {
    struct app *app;
    size_t index; /* in the config */
    const char *name;
    vl_runtime *runtime;
    int64_t created;
    int state; /* VL_RUNTIME_..., as last seen */
};

enum {
    ENDPOINT_CHAT,
    ENDPOINT_COMPLETIONS,
    ENDPOINT_MESSAGES,
    ENDPOINT_RESPONSES,
    ENDPOINT_MODELS,
    ENDPOINT_TOKENIZE,
    ENDPOINT_DETOKENIZE,
    ENDPOINT_TEMPLATE,
    ENDPOINT_HEALTH,
    ENDPOINT_METRICS,
    ENDPOINT_OTHER,
    ENDPOINT_COUNT
};
enum { STATUS_CLASSES = 24 };

/* Numbers of the HTTP side; the engines have theirs. */
struct http_stats {
    struct {
        int status; /* 0: unused */
        uint64_t n;
    } answered[ENDPOINT_COUNT][STATUS_CLASSES];
    uint64_t gone; /* clients that went away in the middle */
    uint64_t too_slow;
    uint64_t connections_total;
};

struct access {
    vl_buf keys; /* one NUL behind each */
    size_t n_keys;
    bool metrics_open;
    bool cors_any, cors_loopback;
    const vl_option_value *origins;
    bool bound_to_loopback;
};

struct app {
    struct event_base *base;
    vl_http *http;
    const vl_config *config;       /* the newest: reload.h */
    const vl_config *first_config; /* what models and sockets were made of */
    vl_registry *registry;
    vl_event_queue *queue;
    struct event *queue_event;
    struct served *models; /* [n_models] */
    size_t n_models;
    struct access access;
    vl_api_limits limits;
    struct http_stats stats;
    struct call *calls; /* under way */
    bool draining;
    vl_error failure; /* a model that would not load: the process ends with it */
    bool failed;
    char *unknown[64]; /* request fields that were logged as unknown */
    size_t n_unknown;
    double ping_s;
    int32_t reasoning_field;
    int64_t started; /* Unix time */
};

/* ---- access.c: keys, origins, hosts ---- */
vl_status access_init(struct access *a, const vl_config *c, vl_error *err);
void access_fini(struct access *a);
bool access_key_ok(const struct access *a, const vl_http_request *r);
/* The origin to allow for this request, or NULL. */
const char *access_origin(const struct access *a, const vl_http_request *r);
bool access_host_ok(const struct access *a, const vl_http_request *r);

/* ---- routes.c ---- */
vl_http_app routes_app(struct app *app);
int routes_endpoint(const vl_http_request *r);
/* The model a request means: its `model` or the only one. NULL: *e says why. */
struct served *routes_model(struct app *app, const char *name, bool has_name, vl_api_error *e);
bool routes_ready(struct served *m, vl_api_error *e);
void routes_error(vl_http_request *r, const vl_api_error *e);
void routes_unknown_field(void *app, const char *name, const char *near);

/* ---- call.c: generations ---- */
void call_chat(struct app *app, vl_http_request *r);
void call_completion(struct app *app, vl_http_request *r);
void call_messages(struct app *app, vl_http_request *r);
void call_responses(struct app *app, vl_http_request *r);
void call_cancel_all(struct app *app); /* each ends with an error event */
/* Whether a generation of this model goes on that no slow reader holds up. */
bool call_any_unpaused(const struct app *app, const struct served *m);

/* ---- api_misc.c: everything else ---- */
void misc_health(struct app *app, vl_http_request *r);
void misc_models(struct app *app, vl_http_request *r, const char *id); /* id NULL: the list */
void misc_version(struct app *app, vl_http_request *r);
void misc_props(struct app *app, vl_http_request *r);
void misc_tokenize(struct app *app, vl_http_request *r);
void misc_detokenize(struct app *app, vl_http_request *r);
void misc_template(struct app *app, vl_http_request *r);
void misc_count_tokens(struct app *app, vl_http_request *r); /* of /v1/messages */

/* ---- metrics.c ---- */
void metrics_count(struct app *app, int endpoint, int status);
void metrics_reply(struct app *app, vl_http_request *r);

/* What r->user points to begins with this. */
struct pending {
    void (*gone)(struct pending *p);    /* the client went away; p may live on for its last event */
    void (*drained)(struct pending *p); /* may be NULL */
    void (*quiet)(struct pending *p, double silent); /* may be NULL */
};
/* Events of the queue, by kind. */
void call_event(vl_event *ev); /* of generations */
void misc_work(vl_event *ev);  /* VL_EVENT_WORK */

/* ---- server.c: the process's life ---- */
struct reload_source;
/* Listens, loads, answers until a signal; the exit status. source: where SIGHUP reads the config
 * again. */
int server_run(const vl_config *config, vl_registry *registry, const struct reload_source *source);
/* A model's parameters from the config; borrowed from it. */
void server_runtime_params(const vl_config *config, size_t model, struct vl_runtime_params *out);

#endif
