/* host/lib/log.h: the host's log (one line a message, to stderr) and the vl_host table that plugins
 * get. Owns the level and the cache folder's name. Knows no plugin. */
#ifndef VL_LIB_LOG_H
#define VL_LIB_LOG_H

#include <stdbool.h>

#include "vallmo/host.h"

/* Level from VL_LOG (error, warn, info, debug); info when unset. Unknown text: VL_E_INVALID, level
 * unchanged. [open] */
vl_status vl_log_init(vl_error *err);
void vl_log_set_level(int32_t level); /* [any] */
bool vl_log_enabled(int32_t level);   /* [any] */

/* Where lines go instead of stderr; NULL: stderr again. line has no newline, valid during the call.
 * [open] */
typedef void (*vl_log_sink_fn)(void *user, int32_t level, const char *line);
void vl_log_set_sink(vl_log_sink_fn fn, void *user);

/* "2026-01-02T03:04:05.678Z info  engine text"; control bytes in the text become '?'. [any] */
void vl_log(int32_t level, const char *component, const char *fmt, ...) VL_PRINTF(3, 4);

/* The table handed to plugins; valid until exit. */
const vl_host *vl_host_table(void);
/* Folder for what can be made again; absolute, "" keeps nothing. Default: $XDG_CACHE_HOME/vallmo,
 * else $HOME/.cache/vallmo, else "". Before any plugin is started. [open] */
vl_status vl_host_set_cache_dir(const char *path, vl_error *err);

#endif
