/* plugins/loaders/gguf/plugin.c: the plugin's head. Glue only. */
#include <string.h>

#include "plugins/loaders/common/checkpoint.h"
#include "plugins/loaders/gguf/open.h"

static const void *gguf_get_ext(const char *id)
{
    return strcmp(id, VL_LOADER_ID) == 0 ? &vl_gguf_api : NULL;
}

static const char *const interfaces[] = {VL_LOADER_ID, NULL};

static const vl_plugin plugin = {
    .struct_size = sizeof(vl_plugin),
    .abi_version = VL_ABI_VERSION,
    .id = "gguf",
    .version = VALLMO_VERSION,
    .description = "GGUF files of architecture qwen35 in BF16, F16 or F32, split or whole",
    .interfaces = interfaces,
    .options = vl_gguf_options,
    .n_options = VL_GGUF_N_OPTIONS,
    .init = vl_ck_init,
    .fini = vl_ck_fini,
    .get_ext = gguf_get_ext,
};

VL_EXPORT const vl_plugin *vl_plugin_entry(void)
{
    return &plugin;
}
