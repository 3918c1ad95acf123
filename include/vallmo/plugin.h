/* vallmo/plugin.h: the head that every plugin has.
 *
 * A plugin is a shared library with one exported symbol, vl_plugin_entry, which returns a static
 * const table and does no work, so that listing is instant and safe. Everything else is found by id
 * through get_ext. The host opens plugins from its configured folders alone, by absolute path,
 * checks struct_size, the ABI's major version and the members it needs before the first call, and
 * never unmaps a library after a good init. */
#ifndef VALLMO_PLUGIN_H
#define VALLMO_PLUGIN_H

#include "vallmo/abi.h"
#include "vallmo/host.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- options: a plugin lists what it understands; the host parses, checks, documents ---- */

enum {
    VL_OPT_BOOL = 0,  /* true, false */
    VL_OPT_INT = 1,   /* whole number within min..max */
    VL_OPT_FLOAT = 2, /* number within min..max */
    VL_OPT_STRING = 3,
    VL_OPT_ENUM = 4,     /* one of choices, "auto|cpu|cuda" */
    VL_OPT_BYTES = 5,    /* 1048576, 64MiB, 8GiB; within min..max bytes */
    VL_OPT_DURATION = 6, /* 250ms, 30s, 5m; the value is in milliseconds */
    VL_OPT_PATH = 7,     /* relative paths are relative to the file that names them */
    VL_OPT_LIST = 8      /* of strings; the value's text holds them with one NUL behind each */
};
enum { VL_OPT_REQUIRED = 1 };

typedef struct vl_option {
    const char *name; /* lower_case_with_units: "context_tokens" */
    int32_t type;     /* VL_OPT_... */
    int32_t flags;    /* VL_OPT_REQUIRED */
    const char *def;  /* default, as it would stand in the file; NULL: no default ("not set") */
    double min;       /* for INT, FLOAT, BYTES, DURATION; min == max: no limits */
    double max;
    const char *choices; /* ENUM: separated by '|'; else NULL */
    const char *help;    /* one line */
} vl_option;

typedef struct vl_option_value {
    const char *text;  /* as written, or the default; NULL when not set and without default */
    int64_t number;    /* BOOL 0/1, INT, BYTES, DURATION in ms; ENUM: index into choices */
    double real;       /* FLOAT and INT */
    uint64_t text_len; /* bytes of text; needed for LIST */
    int32_t is_set;    /* 1: written by the user, 0: default */
    uint32_t reserved; /* 0 */
} vl_option_value;

/* The values of one option table: values[i] belongs to options[i]. Borrowed for the call. */
typedef struct vl_option_values {
    uint32_t struct_size;
    uint32_t n_values;
    const vl_option_value *values;
} vl_option_values;

/* ---- the head ---- */

/* What init makes; the plugin's own. Passed to every call that opens something. */
typedef struct vl_instance vl_instance;

typedef struct vl_plugin {
    uint32_t struct_size;
    uint32_t abi_version;    /* VL_ABI_VERSION it was built with */
    const char *id;          /* "qwen35"; [a-z0-9_-], unique among the loaded */
    const char *version;     /* "0.1.0" */
    const char *description; /* one line */
    const char *const
        *interfaces; /* ids that get_ext knows, kinds first ("vl.model/1"), NULL at the end */
    const vl_option *options; /* may be NULL */
    uint64_t n_options;

    /* Called once, before anything but get_ext. May fail; then the library is closed again. [open]
     */
    vl_status (*init)(const vl_host *host, vl_instance **self, vl_error *err);
    /* After everything that was opened through this instance is closed. NULL is a no-op. [open] */
    void (*fini)(vl_instance *self);
    /* The table of an interface, static; NULL: not offered. Does no work; also before init. [any]
     */
    const void *(*get_ext)(const char *id);
} vl_plugin;

/* The one exported symbol. */
#define VL_PLUGIN_ENTRY "vl_plugin_entry"
typedef const vl_plugin *(*vl_plugin_entry_fn)(void);
VL_EXPORT const vl_plugin *vl_plugin_entry(void);

#ifdef __cplusplus
}
#endif
#endif
