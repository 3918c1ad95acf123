/* plugins/loaders/common/folder.h: names in a folder. [any] */
#ifndef VL_LOADERS_FOLDER_H
#define VL_LOADERS_FOLDER_H

#include "base/buf.h"
#include "vallmo/abi.h"

/* File names without their folder, sorted by their bytes. */
struct vl_names {
    char **names; /* owned, each too */
    size_t n, cap;
};

/* Names in dir that end in suffix (hidden files left out), whatever they lead to: a link to nothing
 * is listed, so that opening it says what is wrong. */
vl_status vl_names_list(const char *dir, const char *suffix, struct vl_names *out, vl_error *err);
bool vl_names_add(struct vl_names *n, const char *name, size_t len);
void vl_names_sort(struct vl_names *n);
void vl_names_fini(struct vl_names *n);

bool vl_name_ends(const char *name, const char *suffix);

/* Reads "<prefix>-%05d-of-%05d<suffix>" at the end of a path: *prefix_len is the length of what is
 * before, the numbers are 1 to 99999. False when the name has no such form. */
bool vl_name_shard(const char *path, const char *suffix, size_t *prefix_len, unsigned *number,
                   unsigned *count);

#endif
