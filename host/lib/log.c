/* host/lib/log.c: log lines and the services plugins get. Lines are built whole and written by one
 * write, so that threads don't mix theirs. */
#include "host/lib/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/utf8.h"

static _Atomic int32_t level_now = VL_LOG_INFO;
static vl_log_sink_fn sink;
static void *sink_user;
static char cache_path[4096];
static bool cache_set;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

vl_status vl_log_init(vl_error *err)
{
    const char *text = getenv("VL_LOG");

    if (text == NULL || *text == '\0')
        return VL_OK;
    for (int32_t i = 0; i <= VL_LOG_DEBUG; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            atomic_store(&level_now, i);
            return VL_OK;
        }
    }
    return vl_error_set(err, VL_E_INVALID, "VL_LOG: \"%s\" is no level: error, warn, info, debug",
                        text);
}

void vl_log_set_level(int32_t level)
{
    atomic_store(&level_now, level);
}

bool vl_log_enabled(int32_t level)
{
    return level <= atomic_load_explicit(&level_now, memory_order_relaxed);
}

void vl_log_set_sink(vl_log_sink_fn fn, void *user)
{
    sink = fn;
    sink_user = user;
}

static size_t put_time(char *out, size_t cap)
{
    struct timespec now;
    struct tm tm;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t len = strftime(out, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    int n = snprintf(out + len, cap - len, ".%03dZ", (int)(now.tv_nsec / 1000000));
    return len + (n > 0 ? (size_t)n : 0);
}

static void write_all(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, text, len);
        if (n <= 0)
            return; /* nobody reads the log: that must not stop the work */
        text += n;
        len -= (size_t)n;
    }
}

static void put_line(int32_t level, const char *component, const char *text)
{
    char line[1400];

    if (level < VL_LOG_ERROR || level > VL_LOG_DEBUG)
        level = VL_LOG_INFO;
    size_t at = put_time(line, 64);
    int n = snprintf(line + at, sizeof line - at - 1, " %-5s %s %s", level_names[level], component,
                     text);
    if (n < 0)
        return;
    size_t len = at + (size_t)n;
    if (len > sizeof line - 2)
        len = sizeof line - 2;
    len = vl_utf8_complete(line, len);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    }
    line[len] = '\0';
    if (sink != NULL) {
        sink(sink_user, level, line);
        return;
    }
    line[len] = '\n';
    write_all(line, len + 1);
}

void vl_log(int32_t level, const char *component, const char *fmt, ...)
{
    char text[1200];
    va_list args;

    if (!vl_log_enabled(level))
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    put_line(level, component, text);
}

/* ---- vl_host ---- */

static void host_log(void *ctx, int32_t level, const char *component, const char *text)
{
    (void)ctx;
    if (vl_log_enabled(level))
        put_line(level, component, text);
}

static int32_t host_log_enabled(void *ctx, int32_t level)
{
    (void)ctx;
    return vl_log_enabled(level);
}

static void default_cache(void)
{
    const char *base = getenv("XDG_CACHE_HOME");
    const char *sub = "vallmo";

    if (base == NULL || base[0] != '/') {
        base = getenv("HOME");
        sub = ".cache/vallmo";
    }
    if (base != NULL && base[0] == '/') {
        int n = snprintf(cache_path, sizeof cache_path, "%s/%s", base, sub);
        if (n < 0 || (size_t)n >= sizeof cache_path)
            cache_path[0] = '\0';
    }
    cache_set = true;
}

static const char *host_cache_dir(void *ctx)
{
    (void)ctx;
    return cache_path;
}

static const void *host_get_ext(void *ctx, const char *id)
{
    (void)ctx;
    (void)id;
    return NULL;
}

static const vl_host table = {
    .struct_size = sizeof(vl_host),
    .abi_version = VL_ABI_VERSION,
    .ctx = NULL,
    .log = host_log,
    .log_enabled = host_log_enabled,
    .cache_dir = host_cache_dir,
    .get_ext = host_get_ext,
};

const vl_host *vl_host_table(void)
{
    if (!cache_set)
        default_cache();
    return &table;
}

vl_status vl_host_set_cache_dir(const char *path, vl_error *err)
{
    if (path[0] != '\0' && path[0] != '/')
        return vl_error_set(err, VL_E_INVALID, "cache folder %s: the path is not absolute", path);
    int n = snprintf(cache_path, sizeof cache_path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof cache_path) {
        cache_path[0] = '\0';
        return vl_error_set(err, VL_E_RANGE, "cache folder: the path has %d bytes, at most %zu", n,
                            sizeof cache_path - 1);
    }
    cache_set = true;
    return VL_OK;
}
