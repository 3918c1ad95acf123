/* host/server/routes.c: which function answers which path and method, and what is refused before.
 * Must not know bodies. */
#include <stdlib.h>
#include <string.h>

#include "host/lib/log.h"
#include "host/server/app.h"

struct route {
    const char *path; /* without /v1 */
    const char *method;
    int endpoint;
    void (*handle)(struct app *app, vl_http_request *r);
};

static void list_models(struct app *app, vl_http_request *r)
{
    misc_models(app, r, NULL);
}

static const struct route routes[] = {
    {"/chat/completions", "POST", ENDPOINT_CHAT, call_chat},
    {"/completions", "POST", ENDPOINT_COMPLETIONS, call_completion},
    {"/models", "GET", ENDPOINT_MODELS, list_models},
    {"/messages", "POST", ENDPOINT_MESSAGES, call_messages},
    {"/messages/count_tokens", "POST", ENDPOINT_MESSAGES, misc_count_tokens},
    {"/responses", "POST", ENDPOINT_RESPONSES, call_responses},
    {"/tokenize", "POST", ENDPOINT_TOKENIZE, misc_tokenize},
    {"/detokenize", "POST", ENDPOINT_DETOKENIZE, misc_detokenize},
    {"/apply-template", "POST", ENDPOINT_TEMPLATE, misc_template},
    {"/health", "GET", ENDPOINT_HEALTH, misc_health},
    {"/metrics", "GET", ENDPOINT_METRICS, metrics_reply},
    {"/version", "GET", ENDPOINT_OTHER, misc_version},
    {"/props", "GET", ENDPOINT_OTHER, misc_props},
};
enum { N_ROUTES = sizeof routes / sizeof routes[0] };
static const char models_prefix[] = "/models/";

static const char *short_path(const vl_http_request *r)
{
    const char *path = r->head.path.ptr ? r->head.path.ptr : "/";
    return strncmp(path, "/v1/", 4) == 0 ? path + 3 : path;
}

static const struct route *find_path(const char *path)
{
    for (size_t i = 0; i < N_ROUTES; i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    if (strncmp(path, models_prefix, sizeof models_prefix - 1) == 0)
        return &routes[2];
    return NULL;
}

static bool method_fits(const struct route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

int routes_endpoint(const vl_http_request *r)
{
    const struct route *route = r->head_is_bad ? NULL : find_path(short_path(r));
    return route ? route->endpoint : ENDPOINT_OTHER;
}

void routes_error(vl_http_request *r, const vl_api_error *e)
{
    vl_buf body = VL_BUF_INIT, extra = VL_BUF_INIT;
    if (routes_endpoint(r) == ENDPOINT_MESSAGES) {
        vl_api_error_messages_json(e, r->id, &body);
        vl_buf_printf(&extra, "request-id: %s\r\n", r->id);
    } else {
        vl_api_error_json(e, &body);
    }
    if (e->retry_after_s > 0)
        vl_buf_printf(&extra, "Retry-After: %d\r\n", e->retry_after_s);
    if (e->status == 401)
        vl_buf_puts(&extra, "WWW-Authenticate: Bearer\r\n");
    vl_http_reply(r, e->status, "application/json", extra.ptr, body.ptr ? body.ptr : "", body.len);
    vl_buf_fini(&body);
    vl_buf_fini(&extra);
}

void routes_unknown_field(void *user, const char *name, const char *near)
{
    struct app *app = user;
    enum { MAX = sizeof app->unknown / sizeof app->unknown[0] };
    for (size_t i = 0; i < app->n_unknown; i++)
        if (strcmp(app->unknown[i], name) == 0)
            return;
    if (app->n_unknown == MAX || !(app->unknown[app->n_unknown] = strdup(name)))
        return; /* enough was said */
    app->n_unknown++;
    vl_log(VL_LOG_INFO, "server", "unknown request field '%s' is ignored%s%s%s", name,
           near ? "; did the client mean '" : "", near ? near : "", near ? "'?" : "");
}

struct served *routes_model(struct app *app, const char *name, bool has_name, vl_api_error *e)
{
    if (app->n_models == 1 || !has_name)
        return &app->models[0];
    for (size_t i = 0; i < app->n_models; i++)
        if (strcmp(app->models[i].name, name ? name : "") == 0)
            return &app->models[i];
    vl_api_fail(e, 404, "model", "the model '%s' does not exist", name ? name : "");
    e->code = "model_not_found";
    return NULL;
}

bool routes_ready(struct served *m, vl_api_error *e)
{
    vl_error err = {0};
    if (m->app->draining) {
        vl_api_fail(e, 503, NULL, "the server is shutting down");
        e->retry_after_s = 5;
        return false;
    }
    if (m->state != VL_RUNTIME_READY) {
        vl_api_fail(e, 503, NULL, "Loading model");
        e->code = "loading";
        e->retry_after_s = 2;
        return false;
    }
    if (vl_engine_health(vl_runtime_engine(m->runtime), &err) != VL_OK) {
        vl_api_error_from(e, &err, NULL, 0, 0);
        return false;
    }
    return true;
}

/* What is wrong with a request by its head alone. */
static bool check_head(struct app *app, const vl_http_request *r, const struct route **route,
                       vl_api_error *e)
{
    const char *path = short_path(r);
    *route = find_path(path);
    if (!access_host_ok(&app->access, r))
        return vl_api_fail(e, 403, NULL, "the Host header names another machine than this one");
    bool open = *route && ((*route)->endpoint == ENDPOINT_HEALTH ||
                           ((*route)->endpoint == ENDPOINT_METRICS && app->access.metrics_open));
    if (!open && !access_key_ok(&app->access, r)) {
        vl_api_fail(e, 401, NULL, "a valid API key is needed: Authorization: Bearer KEY");
        e->code = "invalid_api_key";
        return false;
    }
    if (!*route)
        return vl_api_fail(e, 404, NULL, "there is nothing at %.200s %.200s", r->head.method,
                           r->head.path.ptr);
    if (!method_fits(*route, r->head.method))
        return vl_api_fail(e, 405, NULL, "%.200s takes %s, not %s", r->head.path.ptr,
                           (*route)->method, r->head.method);
    return true;
}

static bool want_body(void *user, vl_http_request *r)
{
    const struct route *route;
    vl_api_error e;
    return strcmp(r->head.method, "OPTIONS") != 0 && check_head(user, r, &route, &e);
}

static void preflight(struct app *app, vl_http_request *r)
{
    vl_buf extra = VL_BUF_INIT;
    const char *asked = vl_http_header_get(&r->head, "access-control-request-headers");
    if (access_origin(&app->access, r)) {
        vl_buf_puts(&extra, "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n"
                            "Access-Control-Max-Age: 86400\r\n");
        if (asked && *asked)
            vl_buf_printf(&extra, "Access-Control-Allow-Headers: %s\r\n", asked);
    }
    vl_http_reply(r, 204, NULL, extra.ptr, NULL, 0);
    vl_buf_fini(&extra);
}

static void handle(void *user, vl_http_request *r)
{
    struct app *app = user;
    const struct route *route;
    vl_api_error e;
    if (strcmp(r->head.method, "OPTIONS") == 0) {
        preflight(app, r);
    } else if (!check_head(app, r, &route, &e)) {
        routes_error(r, &e);
    } else {
        const char *path = short_path(r);
        if (route->endpoint == ENDPOINT_MODELS && strcmp(path, route->path) != 0)
            misc_models(app, r, path + sizeof models_prefix - 1);
        else
            route->handle(app, r);
    }
}

static void refuse(void *user, vl_http_request *r, int status, const char *message)
{
    vl_api_error e;
    (void)user;
    vl_api_fail(&e, status, NULL, "%s", message);
    routes_error(r, &e);
}

static void gone(void *user, vl_http_request *r, bool too_slow)
{
    struct app *app = user;
    struct pending *p = r->user;
    app->stats.gone++;
    app->stats.too_slow += too_slow;
    vl_log(VL_LOG_DEBUG, "server", "request=%s client %s", r->id,
           too_slow ? "reads nothing, dropped" : "went away");
    metrics_count(app, routes_endpoint(r), r->status ? r->status : 499);
    if (p)
        p->gone(p);
}

static void drained(void *user, vl_http_request *r)
{
    struct pending *p = r->user;
    (void)user;
    if (p && p->drained)
        p->drained(p);
}

static void quiet(void *user, vl_http_request *r, double silent)
{
    struct pending *p = r->user;
    (void)user;
    if (p && p->quiet)
        p->quiet(p, silent);
}

static void add_headers(void *user, const vl_http_request *r, vl_buf *out)
{
    struct app *app = user;
    const char *origin = access_origin(&app->access, r);
    if (origin)
        vl_buf_printf(
            out,
            "Access-Control-Allow-Origin: %s\r\nAccess-Control-Expose-Headers: x-request-id\r\n",
            origin);
    if (!app->access.cors_any)
        vl_buf_puts(out, "Vary: Origin\r\n");
}

static void answered(void *user, const vl_http_request *r)
{
    struct app *app = user;
    metrics_count(app, routes_endpoint(r), r->status);
    vl_log(VL_LOG_DEBUG, "server",
           "request=%s method=%s path=%.100s status=%d bytes=%llu total_ms=%.1f", r->id,
           r->head_is_bad ? "-" : r->head.method, r->head_is_bad ? "-" : r->head.path.ptr,
           r->status, (unsigned long long)r->sent_bytes, (vl_http_now() - r->started) * 1e3);
}

vl_http_app routes_app(struct app *app)
{
    return (vl_http_app){app,     want_body,   handle, refuse,  gone,
                         drained, add_headers, quiet,  answered};
}
