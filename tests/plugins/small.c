/* tests/plugins/small.c: plugins for the registry's tests: one source, one library for each
 * SMALL_... case. */
#include <string.h>

#include "vallmo/loader.h"
#include "vallmo/plugin.h"

static vl_status small_init(const vl_host *host, vl_instance **self, vl_error *err)
{
    (void)host;
#ifdef SMALL_INIT_FAILS
    if (err != NULL) {
        err->status = VL_E_UNSUPPORTED;
        static const char why[] = "this machine has no abacus";
        memcpy(err->text, why, sizeof why);
    }
    (void)self;
    return VL_E_UNSUPPORTED;
#else
    (void)err;
    *self = NULL;
    return VL_OK;
#endif
}

static void small_fini(vl_instance *self)
{
    (void)self;
}

static vl_status probe(vl_instance *self, const char *path, int32_t *score, vl_error *err)
{
    (void)self;
    (void)path;
    (void)err;
    *score = 0;
    return VL_OK;
}

static vl_status open_none(vl_instance *self, const char *path, const vl_option_values *options,
                           vl_checkpoint **out, vl_error *err)
{
    (void)self;
    (void)path;
    (void)options;
    (void)out;
    (void)err;
    return VL_E_UNSUPPORTED;
}

/* Never called: nothing can be opened. */
static void close_none(vl_checkpoint *c)
{
    (void)c;
}
static const char *format(const vl_checkpoint *c)
{
    (void)c;
    return "small";
}
static vl_bytes text(const vl_checkpoint *c, int32_t which)
{
    (void)c;
    (void)which;
    return (vl_bytes){NULL, 0};
}
static const vl_vocab *vocab(const vl_checkpoint *c)
{
    (void)c;
    return NULL;
}
static uint64_t n_tensors(const vl_checkpoint *c)
{
    (void)c;
    return 0;
}
static const vl_tensor *tensor(const vl_checkpoint *c, uint64_t i)
{
    (void)c;
    (void)i;
    return NULL;
}
static int64_t find(const vl_checkpoint *c, const char *name)
{
    (void)c;
    (void)name;
    return -1;
}
#ifndef SMALL_NULL_MEMBER
static const void *data(vl_checkpoint *c, uint64_t i, vl_error *err)
{
    (void)c;
    (void)i;
    (void)err;
    return NULL;
}
#endif
static vl_status read_none(vl_checkpoint *c, uint64_t i, void *dst, uint64_t cap, vl_error *err)
{
    (void)c;
    (void)i;
    (void)dst;
    (void)cap;
    (void)err;
    return VL_E_NOT_FOUND;
}
static vl_status prefer(vl_checkpoint *c, int32_t heads, vl_error *err)
{
    (void)c;
    (void)heads;
    (void)err;
    return VL_OK;
}
static int32_t heads(const vl_checkpoint *c)
{
    (void)c;
    return 0;
}
static void memory(const vl_checkpoint *c, uint64_t *mapped, uint64_t *owned)
{
    (void)c;
    *mapped = *owned = 0;
}

#ifndef SMALL_ABI
#define SMALL_ABI VL_ABI_VERSION
#endif
#ifndef SMALL_TABLE_SIZE
#define SMALL_TABLE_SIZE sizeof(vl_loader_api)
#endif

/* newer_minor: a table with a tail that this host does not know. */
static const struct {
    vl_loader_api api;
    void (*newer)(void);
} table = {
    .api =
        {
            .struct_size = SMALL_TABLE_SIZE,
            .abi_version = SMALL_ABI,
            .probe = probe,
            .open = open_none,
            .close = close_none,
            .format = format,
            .text = text,
            .vocab = vocab,
            .n_tensors = n_tensors,
            .tensor = tensor,
            .find = find,
#ifndef SMALL_NULL_MEMBER
            .data = data,
#endif
            .read = read_none,
            .prefer = prefer,
            .heads = heads,
            .memory = memory,
        },
};

static const void *get_ext(const char *id)
{
#ifdef SMALL_NO_KIND
    (void)id;
    (void)table;
    return NULL;
#else
    return strcmp(id, VL_LOADER_ID) == 0 ? &table.api : NULL;
#endif
}

static const char *const interfaces[] = {VL_LOADER_ID, NULL};

static const vl_plugin plugin = {
#ifdef SMALL_SHORT_HEAD
    .struct_size = 24,
#else
    .struct_size = sizeof(vl_plugin),
#endif
    .abi_version = SMALL_ABI,
    .id = SMALL_ID,
    .version = "7.5",
    .description = "For the registry's tests",
    .interfaces = interfaces,
    .init = small_init,
    .fini = small_fini,
    .get_ext = get_ext,
};

#ifdef SMALL_NO_ENTRY
VL_EXPORT const vl_plugin *some_other_entry(void);
VL_EXPORT const vl_plugin *some_other_entry(void)
{
    return &plugin;
}
#else
VL_EXPORT const vl_plugin *vl_plugin_entry(void)
{
    return &plugin;
}
#endif
