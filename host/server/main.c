/* host/server/main.c: vallmo-host: from the command line to a config, the plugins it needs, and one
 * action. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "host/lib/log.h"
#include "host/server/app.h"
#include "host/server/flags.h"
#include "host/server/reload.h"

extern char **environ;

static void print(FILE *to, const vl_buf *text)
{
    if (text->len)
        fwrite(text->ptr, 1, text->len, to);
    fflush(to);
}

/* Folders to scan: the config's, relative to its file, else the installation's. */
static void scan_folders(vl_registry *reg, const vl_config *c, vl_problems *p)
{
    const vl_option_value *list = vl_server_value(c, VL_S_PLUGIN_PATH);
    const char *dirs[8];
    vl_error err = {0};
    if (!list->is_set) {
        size_t n = vl_registry_default_dirs(dirs, 8);
        for (size_t i = 0; i < n; i++)
            if (vl_registry_scan(reg, dirs[i], &err) != VL_OK)
                vl_problems_add(p, NULL, 0, 0, "%s", err.text);
        if (n == 0)
            vl_problems_add(p, NULL, 0, 0, "no plugin folder was found; name one with plugin_path");
        return;
    }
    for (const char *dir = NULL; (dir = vl_option_next(list, dir));) {
        vl_buf path = VL_BUF_INIT;
        if (dir[0] != '/' && c->base_dir)
            vl_buf_printf(&path, "%s/", c->base_dir);
        vl_buf_puts(&path, dir);
        char *real = path.ptr ? realpath(path.ptr, NULL) : NULL;
        if (!real)
            vl_problems_add(p, c->file, 0, 0, "plugin_path: there is no folder %s",
                            path.ptr ? path.ptr : dir);
        else if (vl_registry_scan(reg, real, &err) != VL_OK)
            vl_problems_add(p, c->file, 0, 0, "plugin_path: %s", err.text);
        free(real);
        vl_buf_fini(&path);
    }
}

static vl_status bind_plugins(vl_config *c, const vl_registry *reg, vl_problems *p, vl_error *err)
{
    size_t n = vl_registry_count(reg), used = 0;
    vl_plugin_table *tables = calloc(n + 1, sizeof *tables);
    if (!tables)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const vl_registry_entry *e = vl_registry_at(reg, i);
        if (e->plugin && !e->refusal)
            tables[used++] =
                (vl_plugin_table){e->plugin->id, e->plugin->options,
                                  e->plugin->options ? (size_t)e->plugin->n_options : 0};
    }
    vl_status rc = vl_config_bind_plugins(c, tables, used, p, err);
    free(tables);
    return rc;
}

/* The level of the environment's VL_LOG stands; else the config's. */
static void set_log(const vl_config *c, vl_problems *p)
{
    vl_error err = {0};
    const vl_option_value *level = vl_server_value(c, VL_S_LOG_LEVEL);
    const char *dir = vl_server_value(c, VL_S_CACHE_DIR)->text;
    if (!getenv("VL_LOG"))
        vl_log_set_level((int32_t)level->number);
    if (!dir)
        return;
    char *here = dir[0] == '/' ? NULL : getcwd(NULL, 0);
    vl_buf path = VL_BUF_INIT;
    if (here)
        vl_buf_printf(&path, "%s/", here);
    vl_buf_puts(&path, dir);
    if (path.failed || vl_host_set_cache_dir(path.ptr, &err) != VL_OK)
        vl_problems_add(p, NULL, 0, 0, "cache_dir: %s", path.failed ? "out of memory" : err.text);
    vl_buf_fini(&path);
    free(here);
}

static int check_models(const vl_config *c, vl_registry *reg)
{
    int status = 0;
    for (size_t i = 0; i < c->n_models; i++) {
        struct vl_runtime_params params;
        struct vl_runtime_plan plan = {.estimate.struct_size = sizeof plan.estimate};
        vl_error err = {0};
        const char *name = vl_model_value(&c->models[i], VL_M_NAME)->text;
        server_runtime_params(c, i, &params);
        if (vl_runtime_check(reg, &params, &plan, &err) != VL_OK) {
            fprintf(stderr, "model %s: %s\n", name, err.text);
            status = 1;
            continue;
        }
        printf(
            "model %s: loader=%s tokenizer=%s model=%s chat=%s context_tokens=%llu "
            "max_sequences=%llu "
            "parameters=%llu weight_bytes=%llu mapped_bytes=%llu state_bytes=%llu kv_tokens=%llu "
            "kv_token_bytes=%llu total_bytes=%llu\n",
            name, plan.loader->plugin->id, plan.tokenizer->plugin->id, plan.model->plugin->id,
            plan.format[0] ? plan.format : "none", (unsigned long long)plan.context_tokens,
            (unsigned long long)plan.max_sequences, (unsigned long long)plan.estimate.n_parameters,
            (unsigned long long)plan.estimate.weight_bytes,
            (unsigned long long)plan.estimate.mapped_bytes,
            (unsigned long long)plan.estimate.state_bytes,
            (unsigned long long)plan.estimate.kv_tokens,
            (unsigned long long)plan.estimate.kv_token_bytes,
            (unsigned long long)plan.estimate.total_bytes);
    }
    if (status == 0)
        puts("config ok");
    return status;
}

static int show_options(bool markdown)
{
    vl_buf out = VL_BUF_INIT;
    if (markdown) {
        vl_buf_puts(&out, "### Server\n\n");
        vl_options_print_markdown(&out, vl_server_options, VL_S_COUNT);
        vl_buf_puts(&out, "\n### Model\n\n");
        vl_options_print_markdown(&out, vl_model_options, VL_M_COUNT);
    } else {
        vl_options_print_yaml(&out, vl_server_options, VL_S_COUNT, 0);
        vl_buf_puts(&out, "\n# Of each model in models:, or at the top level for all of them.\n");
        vl_options_print_yaml(&out, vl_model_options, VL_M_COUNT, 0);
    }
    return out.failed ? 1 : (print(stdout, &out), vl_buf_fini(&out), 0);
}

/* Options of the plugins that were found, behind the host's own. */
static void show_plugin_options(const vl_registry *reg, bool markdown)
{
    vl_buf out = VL_BUF_INIT;
    vl_buf_puts(&out, markdown ? "" : "\nplugins:\n");
    for (size_t i = 0; i < vl_registry_count(reg); i++) {
        const vl_registry_entry *e = vl_registry_at(reg, i);
        if (!e->plugin || e->refusal || !e->plugin->options)
            continue;
        if (markdown) {
            vl_buf_printf(&out, "\n### Plugin %s\n\n", e->plugin->id);
            vl_options_print_markdown(&out, e->plugin->options, (size_t)e->plugin->n_options);
        } else {
            vl_buf_printf(&out, "  # %s\n  %s:\n", e->plugin->description, e->plugin->id);
            vl_options_print_yaml(&out, e->plugin->options, (size_t)e->plugin->n_options, 4);
        }
    }
    print(stdout, &out);
    vl_buf_fini(&out);
}

struct reread {
    const struct flags *flags;
    const vl_registry *registry;
};

/* For SIGHUP: the config as at the start, with the plugins that are loaded. */
static vl_status read_again(void *user, vl_config *out, vl_problems *p, vl_error *err)
{
    const struct reread *r = user;
    vl_status rc = vl_config_load(out, r->flags->file, r->flags->settings, r->flags->n_settings,
                                  environ, p, err);
    if (rc == VL_OK && out->n_models == 0 && p->n == 0)
        vl_problems_add(p, out->file, 0, 0, "no model");
    return rc == VL_OK ? bind_plugins(out, r->registry, p, err) : rc;
}

static int act(const struct flags *f, vl_config *c, vl_registry *reg, vl_problems *p, vl_error *err)
{
    vl_buf out = VL_BUF_INIT;
    int status = 1;
    set_log(c, p);
    scan_folders(reg, c, p);
    if (f->action == LIST_PLUGINS) {
        vl_registry_print(reg, &out);
        print(stdout, &out);
        vl_buf_clear(&out);
    } else if (f->action == SHOW_OPTIONS || f->action == SHOW_MARKDOWN) {
        show_options(f->action == SHOW_MARKDOWN);
        show_plugin_options(reg, f->action == SHOW_MARKDOWN);
    } else {
        if (c->n_models == 0 && p->n == 0)
            vl_problems_add(p, c->file, 0, 0,
                            "no model: give --model PATH, or models: in the config file");
        if (bind_plugins(c, reg, p, err) != VL_OK)
            goto out;
    }
    if (p->n) {
        vl_problems_print(p, &out);
        print(stderr, &out);
        goto out;
    }
    struct reread again = {f, reg};
    const reload_source source = {read_again, &again};
    status = f->action == RUN            ? server_run(c, reg, &source)
             : f->action == CHECK_CONFIG ? check_models(c, reg)
                                         : 0;
out:
    vl_buf_fini(&out);
    return status;
}

int main(int argc, char **argv)
{
    struct flags f = {0};
    vl_config config = {0};
    vl_registry *reg = NULL;
    vl_problems problems = {NULL, 0, 0, false};
    vl_error err = {0};
    int status = 1;
    if (vl_log_init(&err) != VL_OK || flags_parse(&f, argc, argv, &err) != VL_OK) {
        fprintf(stderr, "vallmo-host: %s\n", err.text);
        flags_fini(&f);
        return 2;
    }
    if (f.action == SHOW_VERSION || f.action == SHOW_HELP) {
        fputs(f.action == SHOW_HELP ? flags_help : "vallmo-host " VALLMO_VERSION "\n", stdout);
        flags_fini(&f);
        return 0;
    }
    vl_status rc =
        vl_config_load(&config, f.file, f.settings, f.n_settings, environ, &problems, &err);
    if (rc == VL_OK)
        rc = vl_registry_create(&reg, &err);
    if (rc == VL_OK) {
        err = (vl_error){0};
        status = act(&f, &config, reg, &problems, &err);
        if (err.status != VL_OK && status != 0)
            rc = err.status;
    }
    if (rc != VL_OK)
        fprintf(stderr, "vallmo-host: %s\n", err.text);
    vl_registry_destroy(reg);
    vl_config_fini(&config);
    vl_problems_fini(&problems);
    flags_fini(&f);
    return status;
}
