/* plugins/common/cuda/diskcache.h: small results kept on disk under a key: compiled kernels, timed
 * plans. An entry is written to a temporary file and renamed, and carries a check sum: a damaged or
 * foreign one counts as absent. Needs no device. */
#ifndef VL_CUDA_DISKCACHE_H
#define VL_CUDA_DISKCACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "vallmo/abi.h"

typedef struct vl_cache_key {
    uint64_t h[2];
} vl_cache_key;

/* Starts a key, and mixes bytes into it (length included, so that "ab"+"c" is not "a"+"bc"). [any]
 */
vl_cache_key vl_cache_key_begin(const char *kind);
void vl_cache_key_add(vl_cache_key *k, const void *bytes, size_t len);

/* Reads the entry into out (cleared first). False: none, damaged, or no folder (dir NULL or "").
 * [any] */
bool vl_cache_get(const char *dir, const vl_cache_key *k, vl_buf *out);
/* Writes it; makes the folder when it is missing. A failure is told and harms nothing. [any] */
vl_status vl_cache_put(const char *dir, const vl_cache_key *k, const void *bytes, size_t len,
                       vl_error *err);

/* The folder to use when nobody names one: $XDG_CACHE_HOME/vallmo or $HOME/.cache/vallmo. False:
 * neither is set. */
bool vl_cache_default_dir(char *out, size_t cap);

#endif
