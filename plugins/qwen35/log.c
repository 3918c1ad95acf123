/* plugins/qwen35/log.c: lines to the host's log. */
#include <stdarg.h>
#include <stdio.h>

#include "plugins/qwen35/backend.h"

void vl_q35_log(const vl_host *host, int32_t level, const char *name, const char *fmt, ...)
{
    if (host == NULL || host->log == NULL)
        return;
    if (host->log_enabled != NULL && !host->log_enabled(host->ctx, level))
        return;
    char component[32], text[512];
    (void)snprintf(component, sizeof(component), "qwen35.%s", name);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    host->log(host->ctx, level, component, text);
}
