/* plugins/loaders/gguf/set.c: several parts as one. Does no I/O. */
#include "plugins/loaders/gguf/set.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "plugins/loaders/common/checkpoint.h"

enum { MAX_PARTS = 1024 };

void vl_gguf_set_init(struct vl_gguf_set *s)
{
    memset(s, 0, sizeof(*s));
    vl_strmap_init(&s->names);
}

void vl_gguf_set_fini(struct vl_gguf_set *s)
{
    for (size_t i = 0; i < s->n_files; i++)
        vl_gguf_fini(&s->files[i]);
    free(s->files);
    free(s->paths);
    vl_strmap_fini(&s->names);
    memset(s, 0, sizeof(*s));
}

vl_status vl_gguf_set_add(struct vl_gguf_set *s, const char *path, const uint8_t *bytes,
                          uint64_t len, vl_error *err)
{
    struct vl_gguf_file g;
    vl_status rc = vl_gguf_parse(bytes, len, &g, err);
    if (rc != VL_OK) {
        (void)vl_error_prefix(err, "%s", vl_ck_shown(path));
        return rc;
    }
    if (!vl_grow(&s->files, &s->cap, s->n_files + 1, sizeof(*s->files)) ||
        !vl_grow(&s->paths, &s->paths_cap, s->n_files + 1, sizeof(*s->paths))) {
        vl_gguf_fini(&g);
        return vl_error_set(err, VL_E_NOMEM, "%s: out of memory", vl_ck_shown(path));
    }
    uint64_t part = s->n_files;
    s->files[part] = g;
    s->paths[part] = path;
    s->n_files++;
    for (size_t i = 0; i < g.n_tensors; i++) {
        uint64_t old;
        vl_bytes name = g.tensors[i].name;
        int added = vl_strmap_add(&s->names, name.ptr, name.len, part << 32 | i, &old);
        if (added < 0)
            return vl_error_set(err, VL_E_NOMEM, "%s: out of memory", vl_ck_shown(path));
        if (added == 0)
            return vl_error_set(err, VL_E_FORMAT, "%s: tensor %.*s stands in %.120s already",
                                vl_ck_shown(path), (int)name.len, name.ptr,
                                vl_path_base(s->paths[old >> 32]));
    }
    s->n_tensors += g.n_tensors;
    return VL_OK;
}

const struct vl_gguf_tensor *vl_gguf_set_find(const struct vl_gguf_set *s, const char *name)
{
    uint64_t at;
    if (!vl_strmap_get(&s->names, name, strlen(name), &at))
        return NULL;
    return &s->files[at >> 32].tensors[at & UINT32_MAX];
}

vl_status vl_gguf_split_read(const struct vl_gguf_file *g, struct vl_gguf_split *out, vl_error *err)
{
    bool found;
    *out = (struct vl_gguf_split){0, 0, UINT64_MAX};
    vl_status rc = vl_gguf_u64(g, "split.count", 0, MAX_PARTS, &out->count, &found, err);
    if (rc == VL_OK)
        rc = vl_gguf_u64(g, "split.no", 0, MAX_PARTS, &out->number, &found, err);
    if (rc == VL_OK)
        rc = vl_gguf_u64(g, "split.tensors.count", 0, UINT32_MAX, &out->tensors, &found, err);
    return rc;
}
