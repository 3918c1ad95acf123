/* config/config.h: what vallmo-host runs with: the server's options, a list of models with theirs,
 * and the options of plugins, put together from defaults, file, environment and command line (the
 * later wins). Two steps, since plugins are found by what the first step says: vl_config_load,
 * then, with the plugins' tables at hand, vl_config_bind_plugins. Problems are collected, so that
 * all are told at once. Knows no plugin. One thread. */
#ifndef VL_CONFIG_CONFIG_H
#define VL_CONFIG_CONFIG_H

#include "config/schema.h"
#include "config/yaml.h"

/* Indices into vl_server_options, in its order. */
enum {
    VL_S_HOST,
    VL_S_PORT,
    VL_S_PLUGIN_PATH,
    VL_S_CACHE_DIR,
    VL_S_LOG_LEVEL,
    VL_S_API_KEYS,
    VL_S_API_KEYS_FILE,
    VL_S_CORS_ORIGINS,
    VL_S_METRICS_OPEN,
    VL_S_BODY_MAX,
    VL_S_HEAD_MAX,
    VL_S_JSON_DEPTH,
    VL_S_CONNECTIONS_MAX,
    VL_S_IDLE_TIMEOUT,
    VL_S_READ_TIMEOUT,
    VL_S_PING_INTERVAL,
    VL_S_OUTPUT_BUFFER,
    VL_S_SLOW_TIMEOUT,
    VL_S_DRAIN_TIMEOUT,
    VL_S_CHOICES_MAX,
    VL_S_REASONING_FIELD,
    VL_S_TOKENIZER_THREADS,
    VL_S_COUNT
};
extern const vl_option vl_server_options[VL_S_COUNT];

/* Indices into vl_model_options. */
enum {
    VL_M_MODEL,
    VL_M_NAME,
    VL_M_DEVICE,
    VL_M_CONTEXT_TOKENS,
    VL_M_MAX_SEQUENCES,
    VL_M_KV_TOKENS,
    VL_M_STEP_TOKENS,
    VL_M_PREFILL_TOKENS,
    VL_M_QUEUE_MAX,
    VL_M_MAX_NEW_TOKENS,
    VL_M_CHAT,
    VL_M_CHAT_STRICT,
    VL_M_CHAT_KWARGS,
    VL_M_PREFIX_CACHE,
    VL_M_PREFIX_CACHE_HOST,
    VL_M_PREFIX_STEP,
    VL_M_TEMPERATURE,
    VL_M_TOP_P,
    VL_M_TOP_K,
    VL_M_MIN_P,
    VL_M_PRESENCE,
    VL_M_FREQUENCY,
    VL_M_REPETITION,
    VL_M_COUNT
};
extern const vl_option vl_model_options[VL_M_COUNT];

/* A problem with a place: "file:line:col: text" (no place: "text"). */
typedef struct vl_problem {
    char *where; /* file, "environment", "command line"; owned */
    uint32_t line, column;
    char *text; /* owned */
} vl_problem;
typedef struct vl_problems {
    vl_problem *list;
    size_t n, cap;
    bool failed; /* out of memory: some are missing */
} vl_problems;
void vl_problems_add(vl_problems *p, const char *where, uint32_t line, uint32_t column,
                     const char *fmt, ...) VL_PRINTF(5, 6);
/* One line each, in the order of their places in the file. */
void vl_problems_print(vl_problems *p, vl_buf *out);
void vl_problems_fini(vl_problems *p);

/* "key=value" of the command line: --set, and the flags that are short for it. */
typedef struct vl_setting {
    const char *key; /* "port", "context_tokens", "qwen35.threads"; borrowed */
    const char *value;
    const char *flag; /* as the user wrote it, for messages: "--port" */
} vl_setting;

/* Options of one plugin for one model. */
typedef struct vl_plugin_options {
    const char *id; /* of the plugin; borrowed from its table */
    vl_values set;
    vl_option_values view; /* of set */
} vl_plugin_options;

typedef struct vl_config_model {
    vl_values set;
    int32_t node; /* in the file, -1: none */
    vl_plugin_options *plugins;
    size_t n_plugins, plugins_cap;
} vl_config_model;

typedef struct vl_config {
    char *file;     /* path, NULL: no file */
    char *base_dir; /* its folder */
    vl_yaml yaml;
    vl_values server;
    vl_config_model *models;
    size_t n_models, models_cap;
    const vl_setting *settings; /* borrowed */
    size_t n_settings;
    char *const *environment; /* borrowed, "NAME=value", NULL at the end */
} vl_config;

/* Reads everything but plugin options. file may be NULL. VL_OK also when problems were found: look
 * at p->n. A returned error is about memory. */
vl_status vl_config_load(vl_config *c, const char *file, const vl_setting *settings,
                         size_t n_settings, char *const *environment, vl_problems *p,
                         vl_error *err);
/* The same from text in memory, as if it were the file `name`. */
vl_status vl_config_load_text(vl_config *c, const char *name, const char *text, size_t len,
                              const vl_setting *settings, size_t n_settings,
                              char *const *environment, vl_problems *p, vl_error *err);
void vl_config_fini(vl_config *c);

/* A plugin's table: id, options. */
typedef struct vl_plugin_table {
    const char *id;
    const vl_option *options;
    size_t n_options;
} vl_plugin_table;
/* Values for every plugin and model; unknown plugin sections and keys are problems. */
vl_status vl_config_bind_plugins(vl_config *c, const vl_plugin_table *tables, size_t n_tables,
                                 vl_problems *p, vl_error *err);
/* Values of a plugin for a model, or NULL; valid until fini. */
const vl_option_values *vl_config_plugin(const vl_config *c, size_t model, const char *id);

/* Short forms. */
static inline const vl_option_value *vl_server_value(const vl_config *c, int option)
{
    return &c->server.values[option];
}
static inline const vl_option_value *vl_model_value(const vl_config_model *m, int option)
{
    return &m->set.values[option];
}

#endif
