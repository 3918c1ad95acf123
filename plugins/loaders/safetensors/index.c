/* plugins/loaders/safetensors/index.c: the index of a sharded checkpoint, and what it has to agree
 * with. */
#include "plugins/loaders/safetensors/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

enum { NAME_CAP = 256 };

static vl_status shard_name(vl_json value, const char *tensor, size_t tensor_len, char *out,
                            vl_error *err)
{
    int shown = tensor_len > 128 ? 128 : (int)tensor_len;
    vl_bytes raw = vl_json_raw(value);
    if (!vl_json_str_copy(value, out, NAME_CAP))
        return vl_error_set(err, VL_E_FORMAT, "weight_map: %.*s is in %.*s, want a file name",
                            shown, tensor, raw.len > 80 ? 80 : (int)raw.len, raw.ptr);
    if (strchr(out, '/') != NULL || out[0] == '.' || out[0] == '\0')
        return vl_error_set(
            err, VL_E_FORMAT,
            "weight_map: %.*s is in \"%s\": only a file of this folder may be named", shown, tensor,
            out);
    if (!vl_name_ends(out, ".safetensors"))
        return vl_error_set(err, VL_E_FORMAT,
                            "weight_map: %.*s is in \"%s\", want a name that ends in .safetensors",
                            shown, tensor, out);
    return VL_OK;
}

static vl_status collect(struct vl_st_index *x, vl_error *err)
{
    vl_strmap seen;
    vl_status rc = VL_OK;
    vl_strmap_init(&seen);
    for (vl_json_iter it = vl_json_each(x->map); rc == VL_OK && vl_json_next(&it);) {
        vl_bytes tensor = vl_json_str_raw(it.key);
        char name[NAME_CAP];
        uint64_t value;
        rc = shard_name(it.value, tensor.ptr, tensor.len, name, err);
        if (rc != VL_OK || vl_strmap_get(&seen, name, strlen(name), &value))
            continue;
        if (!vl_names_add(&x->files, name, strlen(name)) ||
            vl_strmap_add(&seen, x->files.names[x->files.n - 1], strlen(name), 0, NULL) < 0)
            rc = vl_error_set(err, VL_E_NOMEM, "no memory for the list of shards");
    }
    vl_strmap_fini(&seen);
    vl_names_sort(&x->files);
    return rc;
}

vl_status vl_st_index_parse(vl_bytes text, struct vl_st_index *out, vl_error *err)
{
    struct vl_st_index x;
    memset(&x, 0, sizeof(x));
    vl_status rc = vl_json_parse(&x.doc, text.ptr, text.len, 16, VL_JSON_UNIQUE_KEYS, err);
    if (rc != VL_OK)
        goto out;
    x.map = vl_json_get(vl_json_root(&x.doc), "weight_map");
    if (!vl_json_is(x.map, VL_JSON_OBJECT) || vl_json_count(x.map) == 0) {
        rc =
            vl_error_set(err, VL_E_FORMAT, "weight_map is %s, want an object from tensors to files",
                         vl_json_is(x.map, VL_JSON_OBJECT) ? "empty" : vl_json_type_name(x.map));
        goto out;
    }
    rc = collect(&x, err);
out:
    if (rc != VL_OK) {
        vl_st_index_fini(&x);
        return rc;
    }
    *out = x;
    out->map.doc = &out->doc; /* the document moved with the struct */
    return VL_OK;
}

void vl_st_index_fini(struct vl_st_index *x)
{
    vl_json_doc_fini(&x->doc);
    vl_names_fini(&x->files);
    x->map = (vl_json){NULL, NULL};
}

/* The index's entries against the headers. A name is unescaped first: the index may spell it
 * otherwise. */
static vl_status check_entries(const struct vl_st_index *x, const vl_loader_api *api,
                               const vl_checkpoint *c, vl_buf *name, vl_error *err)
{
    for (vl_json_iter it = vl_json_each(x->map); vl_json_next(&it);) {
        char file[NAME_CAP];
        vl_buf_clear(name);
        if (!vl_json_str(it.key, name) || !vl_buf_reserve(name, 0))
            return vl_error_set(err, VL_E_NOMEM, "no memory for the names of tensors");
        name->ptr[name->len] = '\0';
        vl_status rc = shard_name(it.value, name->ptr, name->len, file, err);
        if (rc != VL_OK)
            return rc;
        int64_t at = api->find(c, name->ptr);
        const vl_tensor *t = at < 0 ? NULL : api->tensor(c, (uint64_t)at);
        if (t == NULL)
            return vl_error_set(
                err, VL_E_FORMAT,
                "the index places tensor %.128s in %.100s, whose header has not got it", name->ptr,
                file);
        if (strcmp(vl_path_base(t->file), file) != 0)
            return vl_error_set(err, VL_E_FORMAT,
                                "the index places tensor %.128s in %.100s, but it stands in %.100s",
                                name->ptr, file, vl_path_base(t->file));
    }
    return VL_OK;
}

vl_status vl_st_index_check(const struct vl_st_index *x, const vl_loader_api *api,
                            const vl_checkpoint *c, vl_error *err)
{
    vl_buf name = VL_BUF_INIT;
    vl_status rc = check_entries(x, api, c, &name, err);
    vl_buf_fini(&name);
    /* Every entry was found, and keys are unique: more tensors than entries means some that the
     * index lacks. */
    uint64_t n = api->n_tensors(c), listed = vl_json_count(x->map);
    if (rc != VL_OK || n == listed)
        return rc;
    vl_strmap known;
    vl_strmap_init(&known);
    for (vl_json_iter it = vl_json_each(x->map); vl_json_next(&it);) {
        vl_bytes key = vl_json_str_raw(it.key);
        (void)vl_strmap_add(&known, key.ptr, key.len, 0, NULL);
    }
    const vl_tensor *extra = NULL;
    for (uint64_t i = 0; i < n && extra == NULL; i++) {
        const vl_tensor *t = api->tensor(c, i);
        uint64_t value;
        if (!vl_strmap_get(&known, t->name, strlen(t->name), &value))
            extra = t;
    }
    vl_strmap_fini(&known);
    return vl_error_set(err, VL_E_FORMAT,
                        "the index lists %llu tensors, the shards have %llu: %.100s has %.128s too",
                        (unsigned long long)listed, (unsigned long long)n,
                        extra != NULL ? vl_path_base(extra->file) : "one",
                        extra != NULL ? extra->name : "others");
}
