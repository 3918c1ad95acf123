/* plugins/loaders/gguf/set.h: the parsed parts of one model (one file, or all of a split one) as
 * one set of tensors. */
#ifndef VL_GGUF_SET_H
#define VL_GGUF_SET_H

#include "plugins/loaders/gguf/parse.h"

struct vl_gguf_set {
    struct vl_gguf_file *files; /* owned */
    const char **paths;         /* [n_files]; the array is owned, the strings are borrowed */
    size_t n_files, cap, paths_cap;
    uint64_t n_tensors;
    vl_strmap names; /* name to (file << 32 | index) */
};

void vl_gguf_set_init(struct vl_gguf_set *s);
void vl_gguf_set_fini(struct vl_gguf_set *s);
/* Parses the mapped bytes and appends them; errors name path. A tensor that an earlier part has is
 * an error. */
vl_status vl_gguf_set_add(struct vl_gguf_set *s, const char *path, const uint8_t *bytes,
                          uint64_t len, vl_error *err);
const struct vl_gguf_tensor *vl_gguf_set_find(const struct vl_gguf_set *s, const char *name);

/* split.no, split.count and split.tensors.count of a part; 0 or 1 parts: an ordinary file. */
struct vl_gguf_split {
    uint64_t number, count, tensors; /* tensors UINT64_MAX: not said */
};
vl_status vl_gguf_split_read(const struct vl_gguf_file *g, struct vl_gguf_split *out,
                             vl_error *err);

#endif
