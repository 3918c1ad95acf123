/* chat/paths.h: the folders of the XDG base directory rules, and files that are replaced whole. */
#ifndef VL_CHAT_PATHS_H
#define VL_CHAT_PATHS_H

#include "base/buf.h"
#include "vallmo/abi.h"

enum vl_xdg { VL_XDG_DATA, VL_XDG_CONFIG, VL_XDG_STATE };

/* $XDG_..._HOME/poppy[/sub]/name (sub and name may be NULL) into out, NUL-terminated. Makes no
 * folder. VL_E_NOT_FOUND when neither the variable nor HOME is set. */
vl_status vl_xdg_path(enum vl_xdg kind, const char *sub, const char *name, vl_buf *out,
                      vl_error *err);
/* Makes the folder that path lies in, and those above it, for this user alone. */
vl_status vl_path_make_parent(const char *path, vl_error *err);
/* Writes bytes to path so that a reader sees the old file or the new one, never a part; mode 0600.
 */
vl_status vl_file_replace(const char *path, const void *bytes, size_t len, vl_error *err);

#endif
