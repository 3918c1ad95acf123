/* host/server/reload.c: what a running server takes over from a config that was read anew. Owns the
 * newest config. Must not know how a config is read. */
#include "host/server/reload.h"

#include <stdlib.h>
#include <string.h>

#include "host/lib/log.h"

/* Server options that the running server looks at through app; all others need a restart. */
static bool is_live(int option)
{
    static const int live[] = {VL_S_LOG_LEVEL,      VL_S_API_KEYS,      VL_S_API_KEYS_FILE,
                               VL_S_CORS_ORIGINS,   VL_S_METRICS_OPEN,  VL_S_JSON_DEPTH,
                               VL_S_PING_INTERVAL,  VL_S_DRAIN_TIMEOUT, VL_S_CHOICES_MAX,
                               VL_S_REASONING_FIELD};
    for (size_t i = 0; i < sizeof live / sizeof live[0]; i++)
        if (live[i] == option)
            return true;
    return false;
}

static bool same_value(const vl_option_value *a, const vl_option_value *b)
{
    return (a->text == NULL) == (b->text == NULL) && a->text_len == b->text_len &&
           (!a->text || memcmp(a->text, b->text, a->text_len) == 0) && a->number == b->number &&
           a->is_set == b->is_set;
}

static void add_name(vl_buf *out, const char *name)
{
    vl_buf_printf(out, "%s%s", out->len ? " " : "", name);
}

static bool same_plugins(const vl_config_model *a, const vl_config_model *b)
{
    if (a->n_plugins != b->n_plugins)
        return false;
    for (size_t i = 0; i < a->n_plugins; i++) {
        const vl_values *x = &a->plugins[i].set, *y = &b->plugins[i].set;
        if (strcmp(a->plugins[i].id, b->plugins[i].id) != 0 || x->n != y->n)
            return false;
        for (size_t k = 0; k < x->n; k++)
            if (!same_value(&x->values[k], &y->values[k]))
                return false;
    }
    return true;
}

static void model_differences(const vl_config *a, const vl_config *b, vl_buf *out)
{
    bool differs[VL_M_COUNT] = {false}, plugins = false;
    if (a->n_models != b->n_models) {
        add_name(out, "models");
        return;
    }
    for (size_t i = 0; i < a->n_models; i++) {
        const vl_config_model *x = &a->models[i], *y = &b->models[i];
        for (int k = 0; k < VL_M_COUNT; k++)
            differs[k] |= !same_value(vl_model_value(x, k), vl_model_value(y, k));
        plugins |= !same_plugins(x, y);
    }
    for (int k = 0; k < VL_M_COUNT; k++)
        if (differs[k])
            add_name(out, vl_model_options[k].name);
    if (plugins)
        add_name(out, "plugins");
}

void reload_differences(const vl_config *running, const vl_config *wanted, vl_buf *out)
{
    for (int k = 0; k < VL_S_COUNT; k++)
        if (!is_live(k) && !same_value(vl_server_value(running, k), vl_server_value(wanted, k)))
            add_name(out, vl_server_options[k].name);
    model_differences(running, wanted, out);
}

void reload_apply(struct app *app, const vl_config *c)
{
    app->limits.choices_max = (uint32_t)vl_server_value(c, VL_S_CHOICES_MAX)->number;
    app->limits.json_depth = (uint32_t)vl_server_value(c, VL_S_JSON_DEPTH)->number;
    app->ping_s = (double)vl_server_value(c, VL_S_PING_INTERVAL)->number / 1e3;
    app->reasoning_field = (int32_t)vl_server_value(c, VL_S_REASONING_FIELD)->number;
}

static void log_problems(vl_problems *p)
{
    vl_buf text = VL_BUF_INIT;
    vl_problems_print(p, &text);
    for (size_t at = 0; at < text.len;) {
        const char *line = text.ptr + at, *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        vl_log(VL_LOG_ERROR, "server", "reload: %.*s", (int)n, line);
        at += n + 1;
    }
    vl_buf_fini(&text);
}

/* The checked config replaces the one before. */
static void take(struct reload *r, struct app *app, vl_config *fresh, struct access *access)
{
    vl_buf restart = VL_BUF_INIT;
    /* Compared with the first config, which models and sockets were made of. */
    reload_differences(app->first_config, fresh, &restart);
    access->bound_to_loopback = app->access.bound_to_loopback; /* host needs a restart */
    access_fini(&app->access);
    app->access = *access;
    if (r->taken)
        vl_config_fini(&r->config);
    r->config = *fresh;
    r->taken = true;
    app->config = &r->config;
    reload_apply(app, app->config);
    if (!getenv("VL_LOG"))
        vl_log_set_level((int32_t)vl_server_value(app->config, VL_S_LOG_LEVEL)->number);
    vl_log(VL_LOG_INFO, "server", "reload: the config is taken over keys=%zu", app->access.n_keys);
    if (restart.len)
        vl_log(VL_LOG_WARN, "server", "reload: these need a restart: %s", restart.ptr);
    vl_buf_fini(&restart);
}

bool reload_run(struct reload *r, struct app *app)
{
    vl_config fresh = {0};
    vl_problems problems = {NULL, 0, 0, false};
    vl_error err = {0};
    struct access access = {.keys = VL_BUF_INIT};
    if (!r->source)
        return false;
    vl_status rc = r->source->read(r->source->user, &fresh, &problems, &err);
    bool good = rc == VL_OK && problems.n == 0;
    if (good) {
        rc = access_init(&access, &fresh, &err);
        good = rc == VL_OK;
    }
    if (good) {
        take(r, app, &fresh, &access);
    } else {
        log_problems(&problems);
        if (rc != VL_OK)
            vl_log(VL_LOG_ERROR, "server", "reload: %s", err.text);
        vl_log(VL_LOG_ERROR, "server", "reload: the old config stays");
        access_fini(&access);
        vl_config_fini(&fresh);
    }
    vl_problems_fini(&problems);
    return good;
}

void reload_fini(struct reload *r)
{
    if (r->taken)
        vl_config_fini(&r->config);
    r->taken = false;
}
