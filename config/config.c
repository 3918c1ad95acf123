/* config/config.c: puts a config together: defaults, file, environment, command line. Owns the
 * merging and the places of problems; must not know what an option means. */
#include "config/config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

static const char *const section_names[] = {"models", "plugins", NULL};

/* Every key the top level knows. */
static const char *top_name(const void *user, size_t k)
{
    (void)user;
    if (k < VL_S_COUNT)
        return vl_server_options[k].name;
    k -= VL_S_COUNT;
    if (k < VL_M_COUNT)
        return vl_model_options[k].name;
    return section_names[k - VL_M_COUNT];
}

static const char *model_name(const void *user, size_t k)
{
    (void)user;
    if (k < VL_M_COUNT)
        return vl_model_options[k].name;
    return k == VL_M_COUNT ? "plugins" : NULL;
}

static const char *option_name(const void *user, size_t k)
{
    const vl_plugin_table *t = user;
    return k < t->n_options ? t->options[k].name : NULL;
}

static void unknown(vl_problems *p, const char *where, uint32_t line, uint32_t column,
                    const char *what, vl_bytes name, vl_name_fn names, const void *user)
{
    const char *near = vl_name_nearest(name.ptr, name.len, names, user);
    vl_problems_add(p, where, line, column, "unknown %s '%.*s'%s%s%s", what, (int)name.len,
                    name.ptr, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool text_is(vl_bytes t, const char *s)
{
    return t.len == strlen(s) && memcmp(t.ptr, s, t.len) == 0;
}

static const char *file_name(const vl_config *c)
{
    return c->file ? c->file : "config";
}

/* A node of the file into option i of set; problems are noted. */
static void set_from_node(vl_config *c, vl_values *set, size_t i, int32_t at, vl_problems *p)
{
    const vl_yaml_node *node = &c->yaml.nodes[at];
    const vl_option *o = &set->options[i];
    vl_error err = {0};
    vl_status rc = VL_OK;
    vl_bytes *items = NULL;
    if (node->kind == VL_YAML_NULL)
        return; /* "key:" alone: as if it were not there */
    if (node->kind == VL_YAML_LIST && o->type == VL_OPT_LIST) {
        size_t n = 0;
        items = calloc((size_t)node->n + 1, sizeof *items);
        if (!items) {
            p->failed = true;
            return;
        }
        for (int32_t k = node->first; k >= 0; k = c->yaml.nodes[k].next) {
            if (c->yaml.nodes[k].kind != VL_YAML_SCALAR) {
                rc = vl_error_set(&err, VL_E_INVALID, "%s: every item must be text", o->name);
                node = &c->yaml.nodes[k];
                break;
            }
            items[n++] = c->yaml.nodes[k].text;
        }
        if (rc == VL_OK)
            rc = vl_values_set_items(set, i, items, n, &err);
    } else if (node->kind != VL_YAML_SCALAR) {
        rc = vl_error_set(&err, VL_E_INVALID, "%s: want %s, got a %s", o->name,
                          o->type == VL_OPT_LIST ? "a list" : "one value",
                          node->kind == VL_YAML_LIST ? "list" : "map");
    } else {
        rc = vl_values_set(set, i, node->text.ptr, node->text.len, c->base_dir, &err);
    }
    if (rc != VL_OK)
        vl_problems_add(p, file_name(c), node->line, node->column, "%s", err.text);
    free(items);
}

static vl_config_model *add_model(vl_config *c, const vl_values *base, int32_t node, vl_error *err)
{
    if (!vl_grow(&c->models, &c->models_cap, c->n_models + 1, sizeof *c->models)) {
        vl_error_set(err, VL_E_NOMEM, "out of memory");
        return NULL;
    }
    vl_config_model *m = &c->models[c->n_models];
    *m = (vl_config_model){.node = node};
    if (vl_values_init(&m->set, vl_model_options, VL_M_COUNT, err) != VL_OK)
        return NULL;
    c->n_models++;
    return vl_values_merge(&m->set, base, err) == VL_OK ? m : NULL;
}

static void read_model_keys(vl_config *c, vl_config_model *m, int32_t at, vl_problems *p)
{
    const vl_yaml_node *nodes = c->yaml.nodes;
    for (int32_t k = nodes[at].first; k >= 0; k = nodes[k].next) {
        const vl_yaml_node *key = &nodes[nodes[k].key];
        int i = vl_option_find(vl_model_options, VL_M_COUNT, key->text.ptr, key->text.len);
        if (i >= 0)
            set_from_node(c, &m->set, (size_t)i, k, p);
        else if (!text_is(key->text, "plugins"))
            unknown(p, file_name(c), key->line, key->column, "key of a model", key->text,
                    model_name, NULL);
    }
}

static int32_t member(const vl_config *c, int32_t map, const char *name)
{
    const vl_yaml_node *nodes = c->yaml.nodes;
    if (map < 0 || !nodes || nodes[map].kind != VL_YAML_MAP)
        return -1;
    for (int32_t k = nodes[map].first; k >= 0; k = nodes[k].next)
        if (text_is(nodes[nodes[k].key].text, name))
            return k;
    return -1;
}

static vl_status read_models(vl_config *c, const vl_values *base, vl_problems *p, vl_error *err)
{
    int32_t at = member(c, 0, "models");
    const vl_yaml_node *nodes = c->yaml.nodes;
    if (at < 0 || nodes[at].kind == VL_YAML_NULL)
        return VL_OK;
    if (nodes[at].kind != VL_YAML_LIST) {
        vl_problems_add(p, file_name(c), nodes[at].line, nodes[at].column,
                        "models: want a list, each item with at least 'model: PATH'");
        return VL_OK;
    }
    for (int32_t k = nodes[at].first; k >= 0; k = nodes[k].next) {
        if (nodes[k].kind != VL_YAML_MAP) {
            vl_problems_add(p, file_name(c), nodes[k].line, nodes[k].column,
                            "models: every item must be a map with at least 'model: PATH'");
            continue;
        }
        vl_config_model *m = add_model(c, base, k, err);
        if (!m)
            return VL_E_NOMEM;
        read_model_keys(c, m, k, p);
        if (!vl_model_value(m, VL_M_MODEL)->text)
            vl_problems_add(p, file_name(c), nodes[k].line, nodes[k].column,
                            "this model has no 'model: PATH'");
    }
    return VL_OK;
}

static void read_top(vl_config *c, vl_values *base, vl_problems *p)
{
    const vl_yaml_node *nodes = c->yaml.nodes;
    if (!nodes || nodes[0].kind == VL_YAML_NULL)
        return;
    if (nodes[0].kind != VL_YAML_MAP) {
        vl_problems_add(p, file_name(c), nodes[0].line, nodes[0].column, "want 'key: value' lines");
        return;
    }
    for (int32_t k = nodes[0].first; k >= 0; k = nodes[k].next) {
        const vl_yaml_node *key = &nodes[nodes[k].key];
        int s = vl_option_find(vl_server_options, VL_S_COUNT, key->text.ptr, key->text.len);
        int m = vl_option_find(vl_model_options, VL_M_COUNT, key->text.ptr, key->text.len);
        if (s >= 0)
            set_from_node(c, &c->server, (size_t)s, k, p);
        else if (m >= 0)
            set_from_node(c, base, (size_t)m, k, p);
        else if (!text_is(key->text, "models") && !text_is(key->text, "plugins"))
            unknown(p, file_name(c), key->line, key->column, "key", key->text, top_name, NULL);
    }
}

/* ---- environment and command line: name and text, for the server or for every model ---- */

/* VALLMO_<KEY>: the value, or NULL. prefix: "" or "QWEN35_". */
static const char *from_environment(char *const *environment, const char *prefix, const char *key)
{
    size_t n_prefix = strlen(prefix), n = strlen(key);
    for (; environment && *environment; environment++) {
        const char *e = *environment;
        if (strncmp(e, "VALLMO_", 7) != 0 || strncmp(e + 7, prefix, n_prefix) != 0)
            continue;
        e += 7 + n_prefix;
        size_t i = 0;
        while (i < n && e[i] == (char)toupper((unsigned char)key[i]))
            i++;
        if (i == n && e[n] == '=')
            return e + n + 1;
    }
    return NULL;
}

/* p NULL: the problem was told before. */
static void set_text(vl_values *set, size_t i, const char *text, const char *where, vl_problems *p)
{
    vl_error err = {0};
    if (vl_values_set(set, i, text, strlen(text), NULL, &err) != VL_OK && p)
        vl_problems_add(p, where, 0, 0, "%s", err.text);
}

/* A path from outside the file is the only model then; the command line's wins. First of all, so
 * that every other value finds it. */
static vl_status replace_models(vl_config *c, const vl_values *base, vl_problems *p, vl_error *err)
{
    const char *where = "environment";
    const char *path = from_environment(c->environment, "", vl_model_options[VL_M_MODEL].name);
    for (size_t k = 0; k < c->n_settings; k++) {
        if (strcmp(c->settings[k].key, vl_model_options[VL_M_MODEL].name) == 0) {
            path = c->settings[k].value;
            where = c->settings[k].flag;
        }
    }
    if (!path)
        return VL_OK;
    while (c->n_models > 0)
        vl_values_fini(&c->models[--c->n_models].set);
    if (!add_model(c, base, -1, err))
        return VL_E_NOMEM;
    set_text(&c->models[0].set, VL_M_MODEL, path, where, p);
    return VL_OK;
}

/* One value for option i of every model. */
static void set_models(vl_config *c, size_t i, const char *text, const char *where, vl_problems *p)
{
    if (i == VL_M_MODEL)
        return; /* replace_models */
    if (i == VL_M_NAME && c->n_models > 1) {
        vl_problems_add(p, where, 0, 0, "name: there are %zu models; name them in the file",
                        c->n_models);
        return;
    }
    for (size_t k = 0; k < c->n_models; k++)
        set_text(&c->models[k].set, i, text, where, k ? NULL : p);
}

static void apply_environment(vl_config *c, vl_problems *p)
{
    for (size_t i = 0; i < VL_S_COUNT; i++) {
        const char *text = from_environment(c->environment, "", vl_server_options[i].name);
        if (text)
            set_text(&c->server, i, text, "environment", p);
    }
    for (size_t i = 0; i < VL_M_COUNT; i++) {
        const char *text = from_environment(c->environment, "", vl_model_options[i].name);
        if (text)
            set_models(c, i, text, "environment", p);
    }
}

static void apply_settings(vl_config *c, vl_problems *p)
{
    for (size_t k = 0; k < c->n_settings; k++) {
        const vl_setting *s = &c->settings[k];
        if (strchr(s->key, '.'))
            continue; /* a plugin's */
        int i = vl_option_find(vl_server_options, VL_S_COUNT, s->key, strlen(s->key));
        int m = vl_option_find(vl_model_options, VL_M_COUNT, s->key, strlen(s->key));
        if (i >= 0)
            set_text(&c->server, (size_t)i, s->value, s->flag, p);
        else if (m >= 0)
            set_models(c, (size_t)m, s->value, s->flag, p);
        else
            unknown(p, s->flag, 0, 0, "key", (vl_bytes){s->key, strlen(s->key)}, top_name, NULL);
    }
}

/* Default names, and no two alike. */
static void name_models(vl_config *c, vl_problems *p)
{
    for (size_t k = 0; k < c->n_models; k++) {
        vl_values *set = &c->models[k].set;
        const char *path = set->values[VL_M_MODEL].text;
        const char *name = set->values[VL_M_NAME].text;
        if (!path)
            continue;
        if (!name || !*name) {
            size_t n = strlen(path);
            while (n > 1 && path[n - 1] == '/')
                n--;
            size_t a = n;
            while (a > 0 && path[a - 1] != '/')
                a--;
            vl_error err = {0};
            if (vl_values_set(set, VL_M_NAME, path + a, n - a, NULL, &err) != VL_OK)
                vl_problems_add(p, NULL, 0, 0, "%s", err.text);
            name = set->values[VL_M_NAME].text;
        }
        for (size_t j = 0; j < k; j++)
            if (name && c->models[j].set.values[VL_M_NAME].text &&
                strcmp(name, c->models[j].set.values[VL_M_NAME].text) == 0)
                vl_problems_add(p, c->file, 0, 0, "two models are named '%s'; give them a name",
                                name);
    }
}

static vl_status build(vl_config *c, vl_problems *p, vl_error *err)
{
    vl_values base = {NULL, 0, NULL};
    vl_status rc = vl_values_init(&c->server, vl_server_options, VL_S_COUNT, err);
    if (rc == VL_OK)
        rc = vl_values_init(&base, vl_model_options, VL_M_COUNT, err);
    if (rc != VL_OK)
        goto out;
    read_top(c, &base, p);
    if (c->yaml.nodes)
        rc = read_models(c, &base, p, err);
    if (rc == VL_OK && c->n_models == 0 && base.values[VL_M_MODEL].text &&
        !add_model(c, &base, 0, err))
        rc = VL_E_NOMEM;
    if (rc == VL_OK)
        rc = replace_models(c, &base, p, err);
    if (rc != VL_OK)
        goto out;
    apply_environment(c, p);
    apply_settings(c, p);
    name_models(c, p);
out:
    vl_values_fini(&base);
    return rc;
}

vl_status vl_config_load_text(vl_config *c, const char *name, const char *text, size_t len,
                              const vl_setting *settings, size_t n_settings,
                              char *const *environment, vl_problems *p, vl_error *err)
{
    *c = (vl_config){.settings = settings, .n_settings = n_settings, .environment = environment};
    if (name) {
        const char *slash = strrchr(name, '/');
        vl_error local = {0};
        uint32_t line, column;
        c->file = strdup(name);
        c->base_dir = slash ? strndup(name, slash == name ? 1 : (size_t)(slash - name)) : NULL;
        if (!c->file || (slash && !c->base_dir))
            return vl_error_set(err, VL_E_NOMEM, "out of memory");
        if (vl_yaml_parse(&c->yaml, text, len, &line, &column, &local) != VL_OK)
            vl_problems_add(p, name, line, column, "%s", local.text);
    }
    return build(c, p, err);
}

vl_status vl_config_load(vl_config *c, const char *file, const vl_setting *settings,
                         size_t n_settings, char *const *environment, vl_problems *p, vl_error *err)
{
    vl_buf text = VL_BUF_INIT;
    vl_error local = {0};
    if (file && vl_file_read(file, VL_YAML_MAX_BYTES, &text, &local) != VL_OK) {
        vl_problems_add(p, NULL, 0, 0, "%s", local.text); /* names the file */
        vl_buf_clear(&text);
    }
    vl_status rc = vl_config_load_text(c, file, text.ptr ? text.ptr : "", text.len, settings,
                                       n_settings, environment, p, err);
    vl_buf_fini(&text);
    return rc;
}

/* ---- plugins ---- */

static const vl_plugin_table *find_table(const vl_plugin_table *tables, size_t n, vl_bytes id)
{
    for (size_t i = 0; i < n; i++)
        if (text_is(id, tables[i].id))
            return &tables[i];
    return NULL;
}

struct table_list {
    const vl_plugin_table *tables;
    size_t n;
};
static const char *table_name(const void *user, size_t k)
{
    const struct table_list *t = user;
    return k < t->n ? t->tables[k].id : NULL;
}

/* Problems of a `plugins:` section that do not hang on a model: unknown plugins, sections that are
 * no maps, unknown keys. */
static void check_section(vl_config *c, int32_t at, const vl_plugin_table *tables, size_t n,
                          vl_problems *p)
{
    const vl_yaml_node *nodes = c->yaml.nodes;
    struct table_list list = {tables, n};
    if (at < 0 || nodes[at].kind == VL_YAML_NULL)
        return;
    if (nodes[at].kind != VL_YAML_MAP) {
        vl_problems_add(p, file_name(c), nodes[at].line, nodes[at].column,
                        "plugins: want a map of plugin ids, each with its options");
        return;
    }
    for (int32_t k = nodes[at].first; k >= 0; k = nodes[k].next) {
        const vl_yaml_node *key = &nodes[nodes[k].key];
        const vl_plugin_table *t = find_table(tables, n, key->text);
        if (!t) {
            unknown(p, file_name(c), key->line, key->column, "plugin", key->text, table_name,
                    &list);
            continue;
        }
        if (nodes[k].kind != VL_YAML_MAP && nodes[k].kind != VL_YAML_NULL) {
            vl_problems_add(p, file_name(c), nodes[k].line, nodes[k].column,
                            "%s: want a map of options", t->id);
            continue;
        }
        for (int32_t o = nodes[k].first; o >= 0; o = nodes[o].next) {
            const vl_yaml_node *name = &nodes[nodes[o].key];
            if (vl_option_find(t->options, t->n_options, name->text.ptr, name->text.len) < 0)
                unknown(p, file_name(c), name->line, name->column,
                        "option of this plugin:", name->text, option_name, t);
        }
    }
}

/* The values a section of the file gives to plugin t; unknown keys were noted before. */
static void read_section(vl_config *c, int32_t section, const vl_plugin_table *t, vl_values *set,
                         vl_problems *p)
{
    int32_t at = member(c, section, t->id);
    if (at < 0 || c->yaml.nodes[at].kind != VL_YAML_MAP)
        return;
    for (int32_t o = c->yaml.nodes[at].first; o >= 0; o = c->yaml.nodes[o].next) {
        const vl_yaml_node *name = &c->yaml.nodes[c->yaml.nodes[o].key];
        int i = vl_option_find(t->options, t->n_options, name->text.ptr, name->text.len);
        if (i >= 0)
            set_from_node(c, set, (size_t)i, o, p);
    }
}

/* Environment and command line for plugin t. */
static void read_outside(vl_config *c, const vl_plugin_table *t, vl_values *set, vl_problems *p)
{
    char prefix[72];
    size_t n = strlen(t->id);
    if (n > sizeof prefix - 2)
        n = sizeof prefix - 2;
    for (size_t i = 0; i < n; i++)
        prefix[i] = t->id[i] == '-' ? '_' : (char)toupper((unsigned char)t->id[i]);
    prefix[n] = '_';
    prefix[n + 1] = 0;
    for (size_t i = 0; i < t->n_options; i++) {
        const char *text = from_environment(c->environment, prefix, t->options[i].name);
        if (text)
            set_text(set, i, text, "environment", p);
    }
    for (size_t k = 0; k < c->n_settings; k++) {
        const char *key = c->settings[k].key;
        const char *dot = strchr(key, '.');
        if (!dot || !text_is((vl_bytes){key, (size_t)(dot - key)}, t->id))
            continue;
        int i = vl_option_find(t->options, t->n_options, dot + 1, strlen(dot + 1));
        if (i >= 0)
            set_text(set, (size_t)i, c->settings[k].value, c->settings[k].flag, p);
    }
}

static void check_settings(const vl_config *c, const vl_plugin_table *tables, size_t n,
                           vl_problems *p)
{
    struct table_list list = {tables, n};
    for (size_t k = 0; k < c->n_settings; k++) {
        const vl_setting *s = &c->settings[k];
        const char *dot = strchr(s->key, '.');
        if (!dot)
            continue;
        vl_bytes id = {s->key, (size_t)(dot - s->key)}, name = {dot + 1, strlen(dot + 1)};
        const vl_plugin_table *t = find_table(tables, n, id);
        if (!t)
            unknown(p, s->flag, 0, 0, "plugin", id, table_name, &list);
        else if (vl_option_find(t->options, t->n_options, name.ptr, name.len) < 0)
            unknown(p, s->flag, 0, 0, "option of this plugin:", name, option_name, t);
    }
}

static vl_status bind_model(vl_config *c, vl_config_model *m, const vl_plugin_table *t,
                            vl_problems *p, vl_error *err)
{
    if (!vl_grow(&m->plugins, &m->plugins_cap, m->n_plugins + 1, sizeof *m->plugins))
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    vl_plugin_options *o = &m->plugins[m->n_plugins];
    o->id = t->id;
    vl_status rc = vl_values_init(&o->set, t->options, t->n_options, err);
    if (rc != VL_OK)
        return vl_error_prefix(err, "plugin %s", t->id);
    m->n_plugins++;
    int32_t top = member(c, 0, "plugins");
    int32_t own = m->node > 0 ? member(c, m->node, "plugins") : -1;
    /* What stands at the top is checked once, for the first model, though it counts for all. */
    vl_problems again = {NULL, 0, 0, false};
    vl_problems *first = m == c->models ? p : &again;
    read_section(c, top, t, &o->set, first);
    read_section(c, own, t, &o->set, p);
    read_outside(c, t, &o->set, first);
    o->view = vl_values_view(&o->set);
    vl_problems_fini(&again);
    return VL_OK;
}

vl_status vl_config_bind_plugins(vl_config *c, const vl_plugin_table *tables, size_t n_tables,
                                 vl_problems *p, vl_error *err)
{
    vl_status rc = VL_OK;
    check_section(c, member(c, 0, "plugins"), tables, n_tables, p);
    for (size_t k = 0; k < c->n_models; k++)
        if (c->models[k].node > 0)
            check_section(c, member(c, c->models[k].node, "plugins"), tables, n_tables, p);
    check_settings(c, tables, n_tables, p);
    for (size_t k = 0; k < c->n_models && rc == VL_OK; k++)
        for (size_t i = 0; i < n_tables && rc == VL_OK; i++)
            rc = bind_model(c, &c->models[k], &tables[i], p, err);
    return rc;
}

const vl_option_values *vl_config_plugin(const vl_config *c, size_t model, const char *id)
{
    const vl_config_model *m = &c->models[model];
    for (size_t i = 0; i < m->n_plugins; i++)
        if (strcmp(m->plugins[i].id, id) == 0)
            return &m->plugins[i].view;
    return NULL;
}

void vl_config_fini(vl_config *c)
{
    for (size_t k = 0; k < c->n_models; k++) {
        for (size_t i = 0; i < c->models[k].n_plugins; i++)
            vl_values_fini(&c->models[k].plugins[i].set);
        free(c->models[k].plugins);
        vl_values_fini(&c->models[k].set);
    }
    free(c->models);
    vl_values_fini(&c->server);
    vl_yaml_fini(&c->yaml);
    free(c->file);
    free(c->base_dir);
    *c = (vl_config){0};
}
