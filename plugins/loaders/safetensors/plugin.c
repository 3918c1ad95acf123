/* plugins/loaders/safetensors/plugin.c: the plugin's head. Glue only. */
#include <string.h>

#include "plugins/loaders/common/checkpoint.h"
#include "plugins/loaders/safetensors/open.h"

static const void *st_get_ext(const char *id)
{
    return strcmp(id, VL_LOADER_ID) == 0 ? &vl_safetensors_api : NULL;
}

static const char *const interfaces[] = {VL_LOADER_ID, NULL};

static const vl_plugin plugin = {
    .struct_size = sizeof(vl_plugin),
    .abi_version = VL_ABI_VERSION,
    .id = "safetensors",
    .version = VALLMO_VERSION,
    .description = "Checkpoints in safetensors: a folder of shards, or one file",
    .interfaces = interfaces,
    .options = NULL,
    .n_options = 0,
    .init = vl_ck_init,
    .fini = vl_ck_fini,
    .get_ext = st_get_ext,
};

VL_EXPORT const vl_plugin *vl_plugin_entry(void)
{
    return &plugin;
}
