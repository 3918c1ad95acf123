/* vallmo/host.h: what the host gives to a plugin. A plugin imports no symbol of the host; all
 * services come through this table, which is handed over at init and valid until fini returns. */
#ifndef VALLMO_HOST_H
#define VALLMO_HOST_H

#include "vallmo/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vl_host {
    uint32_t struct_size;
    uint32_t abi_version; /* of the host */
    void *ctx;            /* to be passed back as the first argument */

    /* One line without a newline. component: "qwen35.cuda". Text in key=value form with units
     * ("prefill_ms=41"). The host adds the time and drops what is below its level. [any] */
    void (*log)(void *ctx, int32_t level, const char *component, const char *text);

    /* Lines of this level would be written. [any] */
    int32_t (*log_enabled)(void *ctx, int32_t level);

    /* A folder where plugins may keep what can be made again (compiled kernels, timings); absolute,
     * may not exist yet. Empty text: keep nothing. Valid until fini. [any] */
    const char *(*cache_dir)(void *ctx);

    /* An optional service by its id, or NULL. The table is valid until fini. [any] */
    const void *(*get_ext)(void *ctx, const char *id);
} vl_host;

#ifdef __cplusplus
}
#endif
#endif
