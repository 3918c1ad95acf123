/* host/server/flags.c: the command line to an action and settings. Must not know what a setting
 * does. */
#include "host/server/flags.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

const char flags_help[] =
    "usage: vallmo-host [-c FILE] [options]\n"
    "\n"
    "  -c, --config FILE    read this YAML file\n"
    "  --model PATH         the checkpoint: a folder, a .safetensors or a .gguf file\n"
    "  --host ADDRESS       listen here (127.0.0.1)\n"
    "  --port N             and on this port (8080)\n"
    "  --ctx N              most tokens of one sequence (context_tokens)\n"
    "  --max-new N          longest answer of a request that names no limit (max_new_tokens)\n"
    "  --device NAME        auto, cpu, cuda, cuda:N\n"
    "  --set KEY=VALUE      any key of the config; PLUGIN.KEY for a plugin's\n"
    "\n"
    "  --check-config       check the config and the model's files, and end\n"
    "  --list-plugins       what was found: kind, id, version, ABI, path\n"
    "  --help-options       every key with its default, as YAML (--help-markdown: as tables)\n"
    "  --version, --help\n"
    "\n"
    "The command line wins over the environment (VALLMO_<KEY>, as in VALLMO_PORT=9000), that over "
    "the file.\n";

static const struct {
    const char *flag, *key;
} value_flags[] = {{"--model", "model"},
                   {"--host", "host"},
                   {"--port", "port"},
                   {"--ctx", "context_tokens"},
                   {"--device", "device"},
                   {"--max-new", "max_new_tokens"},
                   {"--set", NULL},
                   {"--config", NULL},
                   {"-c", NULL}};
static const struct {
    const char *flag;
    enum flags_action action;
} action_flags[] = {{"--check-config", CHECK_CONFIG},
                    {"--list-plugins", LIST_PLUGINS},
                    {"--version", SHOW_VERSION},
                    {"--help", SHOW_HELP},
                    {"-h", SHOW_HELP},
                    {"--help-options", SHOW_OPTIONS},
                    {"--help-markdown", SHOW_MARKDOWN}};
enum {
    N_VALUE_FLAGS = sizeof value_flags / sizeof value_flags[0],
    N_ACTION_FLAGS = sizeof action_flags / sizeof action_flags[0]
};

static const char *flag_name(const void *user, size_t k)
{
    (void)user;
    if (k < N_VALUE_FLAGS)
        return value_flags[k].flag;
    k -= N_VALUE_FLAGS;
    return k < N_ACTION_FLAGS ? action_flags[k].flag : NULL;
}

static vl_status add_setting(struct flags *f, const char *key, const char *value, const char *flag,
                             vl_error *err)
{
    if (!vl_grow(&f->settings, &f->settings_cap, f->n_settings + 1, sizeof *f->settings))
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    f->settings[f->n_settings++] = (vl_setting){key, value, flag};
    return VL_OK;
}

static vl_status add_set(struct flags *f, const char *text, vl_error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return vl_error_set(err, VL_E_INVALID, "--set wants KEY=VALUE, got '%s'", text);
    if (!vl_grow(&f->keys, &f->keys_cap, f->n_keys + 1, sizeof *f->keys))
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    char *key = strndup(text, (size_t)(equals - text));
    if (!key)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    f->keys[f->n_keys++] = key;
    return add_setting(f, key, equals + 1, "--set", err);
}

static vl_status take_value(struct flags *f, size_t which, const char *value, vl_error *err)
{
    const char *flag = value_flags[which].flag;
    if (strcmp(flag, "--set") == 0)
        return add_set(f, value, err);
    if (value_flags[which].key)
        return add_setting(f, value_flags[which].key, value, flag, err);
    if (f->file)
        return vl_error_set(err, VL_E_INVALID, "%s is given twice", flag);
    f->file = value;
    return VL_OK;
}

/* One argument (and its value, which may be the next); *used of them. */
static vl_status take(struct flags *f, char **argv, int left, int *used, vl_error *err)
{
    const char *a = argv[0];
    size_t n = strcspn(a, "=");
    *used = 1;
    for (size_t i = 0; i < N_ACTION_FLAGS; i++)
        if (strcmp(action_flags[i].flag, a) == 0) {
            f->action = action_flags[i].action;
            return VL_OK;
        }
    for (size_t i = 0; i < N_VALUE_FLAGS; i++) {
        const char *flag = value_flags[i].flag;
        if (strlen(flag) != n || strncmp(flag, a, n) != 0)
            continue;
        if (a[n] == '=')
            return take_value(f, i, a + n + 1, err);
        if (left < 2)
            return vl_error_set(err, VL_E_INVALID, "%s wants a value", flag);
        *used = 2;
        return take_value(f, i, argv[1], err);
    }
    const char *near = vl_name_nearest(a, n, flag_name, NULL);
    return vl_error_set(err, VL_E_INVALID, "unknown argument '%s'%s%s%s; --help shows all", a,
                        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

vl_status flags_parse(struct flags *f, int argc, char **argv, vl_error *err)
{
    vl_status rc = VL_OK;
    int used;
    *f = (struct flags){.action = RUN};
    for (int i = 1; i < argc && rc == VL_OK; i += used)
        rc = take(f, argv + i, argc - i, &used, err);
    return rc;
}

void flags_fini(struct flags *f)
{
    for (size_t i = 0; i < f->n_keys; i++)
        free(f->keys[i]);
    free(f->keys);
    free(f->settings);
    *f = (struct flags){0};
}
