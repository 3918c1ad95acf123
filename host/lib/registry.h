/* host/lib/registry.h: the plugins: which libraries lie in the configured folders, which of them
 * fit.
 *
 * Owns dlopen, the ABI checks and the instances. Looks only into folders it is told, by absolute
 * path, never into the working directory or a model's folder. A scan opens and checks each library
 * (an entry does no work) and starts none; init runs on first use. After a good init a library
 * stays mapped until exit. One thread at a time, but for the getters. */
#ifndef VL_LIB_REGISTRY_H
#define VL_LIB_REGISTRY_H

#include <stdbool.h>

#include "base/buf.h"

#include "vallmo/chat.h"
#include "vallmo/loader.h"
#include "vallmo/model.h"
#include "vallmo/plugin.h"
#include "vallmo/tokenizer.h"

typedef struct vl_registry vl_registry;

/* A library that was found. Borrowed until vl_registry_destroy. */
typedef struct vl_registry_entry {
    const char *path;        /* absolute, links resolved */
    const vl_plugin *plugin; /* NULL when refused */
    const char
        *kind; /* "loader", "tokenizer", "model"; several: "loader+tokenizer"; "" when refused */
    const char *refusal; /* why it is not used: path, what differs, both values; NULL: it is fine */
    /* The checked tables; NULL: not offered. */
    const vl_loader_api *loader;
    const vl_tokenizer_api *tokenizer;
    const vl_model_api *model;
    const vl_chat_api *chat;
} vl_registry_entry;

vl_status vl_registry_create(vl_registry **out, vl_error *err);
/* Stops all instances (fini). Libraries stay mapped. NULL is a no-op. */
void vl_registry_destroy(vl_registry *r);

/* Looks at every *.so of dir (absolute), in the order of names. A library that is refused is
 * logged, listed with its refusal, and no failure; a folder that can't be read is VL_E_IO, one that
 * is missing VL_E_NOT_FOUND, one anybody may write to VL_E_INVALID. Of two plugins with one id the
 * first found is kept. A folder that was scanned is not scanned again. */
vl_status vl_registry_scan(vl_registry *r, const char *dir, vl_error *err);
/* The same for one file (tests, --plugin FILE); a refusal is the result's error. */
vl_status vl_registry_load(vl_registry *r, const char *path, vl_error *err);

size_t vl_registry_count(const vl_registry *r);
const vl_registry_entry *vl_registry_at(const vl_registry *r, size_t index);
const vl_registry_entry *vl_registry_find(const vl_registry *r,
                                          const char *id); /* not the refused; or NULL */

/* The plugin's instance; runs init the first time. When init fails, the entry is refused from then
 * on. [open] */
vl_status vl_registry_start(vl_registry *r, const vl_registry_entry *e, vl_instance **self,
                            vl_error *err);

/* Appends one line a plugin: kind, id, version, ABI, path; refused ones with their reason. */

void vl_registry_print(const vl_registry *r, vl_buf *out);

/* Folders to look into when the config names none, into dirs (at most cap; those that exist): the
 * installed one, found beside the running program or library, and the build tree's when the program
 * runs from it. Each is absolute, valid until exit. */
size_t vl_registry_default_dirs(const char **dirs, size_t cap);

#endif
