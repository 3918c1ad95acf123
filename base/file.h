/* base/file.h: reading and mapping regular files, with errors that name path and reason. [any] */
#ifndef VL_BASE_FILE_H
#define VL_BASE_FILE_H

#include <stdbool.h>

#include "base/buf.h"
#include "vallmo/abi.h"

/* A read-only private mapping of a whole regular file. Anything that is no regular file (FIFO,
 * device, folder) is refused without blocking on it. An empty file gives ptr NULL, len 0. */
typedef struct vl_map {
    const uint8_t *ptr;
    size_t len;
} vl_map;

vl_status vl_map_open(const char *path, vl_map *map, vl_error *err);
void vl_map_close(vl_map *map); /* a zeroed map is fine */

/* Appends the whole file to out. VL_E_RANGE if it is larger than max_bytes (both sizes in the
 * text). */
vl_status vl_file_read(const char *path, size_t max_bytes, vl_buf *out, vl_error *err);

bool vl_path_is_dir(const char *path);
bool vl_path_is_file(const char *path); /* regular, links followed */
bool vl_path_exists(const char *path);

/* dir + "/" + name (one slash) into out with NUL; VL_E_RANGE if it does not fit. */
vl_status vl_path_join(char *out, size_t cap, const char *dir, const char *name, vl_error *err);
/* The part behind the last slash; trailing slashes are not skipped. */
const char *vl_path_base(const char *path);

#endif
