/* plugins/loaders/common/checkpoint.c: the table behind vl.loader/1. Knows no file format. */
#include "plugins/loaders/common/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/loaders/common/sniff.h"

enum { SHOWN_MAX = 200 };

const char *vl_ck_shown(const char *path)
{
    size_t len = strlen(path);
    if (len <= SHOWN_MAX)
        return path;
    const char *tail = path + len - SHOWN_MAX;
    while (((unsigned char)*tail & 0xc0) == 0x80) /* not inside a character */
        tail++;
    return tail;
}

vl_checkpoint *vl_ck_create(const char *format, vl_error *err)
{
    vl_checkpoint *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        (void)vl_error_set(err, VL_E_NOMEM, "%s: out of memory", format);
        return NULL;
    }
    c->format = format;
    c->heads = VL_ORDER_GROUPED;
    vl_strmap_init(&c->names);
    (void)pthread_mutex_init(&c->lock, NULL);
    return c;
}

void vl_ck_unmap(vl_checkpoint *c)
{
    for (size_t i = 0; i < c->n_files; i++) {
        free(c->files[i].path);
        vl_map_close(&c->files[i].map);
    }
    c->n_files = 0;
}

void vl_ck_close(vl_checkpoint *c)
{
    if (c == NULL)
        return;
    if (c->priv_free != NULL)
        c->priv_free(c->priv);
    for (size_t i = 0; i < c->n_tensors; i++) {
        free(c->tensors[i].name);
        free(c->tensors[i].source_name);
        free(c->tensors[i].owned);
    }
    vl_ck_unmap(c);
    for (int i = 0; i < VL_CK_TEXTS; i++)
        vl_buf_fini(&c->texts[i]);
    vl_strmap_fini(&c->names);
    (void)pthread_mutex_destroy(&c->lock);
    free(c->tensors);
    free(c->files);
    free(c);
}

vl_status vl_ck_map(vl_checkpoint *c, const char *path, const char *want_format, size_t *index,
                    vl_error *err)
{
    vl_map map = {NULL, 0};
    char *copy = NULL;
    vl_status rc = vl_map_open(path, &map, err);
    if (rc != VL_OK)
        return rc;
    const char *other = vl_sniff(map.ptr, map.len, want_format);
    if (other != NULL) {
        rc = vl_error_set(err, VL_E_FORMAT, "%s: %s", vl_ck_shown(path), other);
        goto out;
    }
    copy = strdup(path);
    if (copy == NULL || !vl_grow(&c->files, &c->files_cap, c->n_files + 1, sizeof(*c->files))) {
        rc = vl_error_set(err, VL_E_NOMEM, "%s: out of memory", vl_ck_shown(path));
        goto out;
    }
    *index = c->n_files;
    c->files[c->n_files++] = (struct vl_ck_file){copy, map};
    return VL_OK;
out:
    free(copy);
    vl_map_close(&map);
    return rc;
}

static char *dup_n(const char *text, size_t len)
{
    char *copy = malloc(len + 1); /* len is bounded by the file's size */
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

vl_status vl_ck_add(vl_checkpoint *c, size_t file, const char *name, size_t name_len,
                    const char *source, size_t source_len, const vl_tensor *shape,
                    struct vl_ck_tensor **out, vl_error *err)
{
    const char *path = c->files[file].path;
    uint64_t old = 0;
    char *own = dup_n(name, name_len);
    char *own_source = source != NULL ? dup_n(source, source_len) : NULL;
    int added = -1;
    if (own != NULL && (source == NULL || own_source != NULL) &&
        vl_grow(&c->tensors, &c->tensors_cap, c->n_tensors + 1, sizeof(*c->tensors)))
        added = vl_strmap_add(&c->names, own, name_len, c->n_tensors, &old);
    if (added != 1) {
        vl_status rc;
        if (added < 0)
            rc = vl_error_set(err, VL_E_NOMEM, "%s: out of memory", vl_ck_shown(path));
        else if (c->tensors[old].pub.file == path)
            rc = vl_error_set(err, VL_E_FORMAT, "%s: tensor %.128s stands twice in this file",
                              vl_ck_shown(path), own_source != NULL ? own_source : own);
        else
            rc = vl_error_set(err, VL_E_FORMAT, "%s: tensor %.128s stands in %.100s already",
                              vl_ck_shown(path), own_source != NULL ? own_source : own,
                              vl_path_base(c->tensors[old].pub.file));
        free(own);
        free(own_source);
        return rc;
    }
    struct vl_ck_tensor *t = &c->tensors[c->n_tensors++];
    memset(t, 0, sizeof(*t));
    t->pub = *shape;
    t->pub.struct_size = sizeof(vl_tensor);
    t->name = own;
    t->source_name = own_source;
    t->pub.name = own;
    t->pub.source_name = own_source != NULL ? own_source : own;
    t->pub.file = path;
    t->src = c->files[file].map.ptr + shape->offset;
    *out = t;
    return VL_OK;
}

const char *vl_ck_format(const vl_checkpoint *c)
{
    return c->format;
}

vl_bytes vl_ck_text(const vl_checkpoint *c, int32_t which)
{
    if (which < 0 || which >= VL_CK_TEXTS || c->texts[which].ptr == NULL)
        return (vl_bytes){NULL, 0};
    return (vl_bytes){c->texts[which].ptr, c->texts[which].len};
}

const vl_vocab *vl_ck_vocab(const vl_checkpoint *c)
{
    return c->vocab;
}

uint64_t vl_ck_n_tensors(const vl_checkpoint *c)
{
    return c->n_tensors;
}

const vl_tensor *vl_ck_tensor(const vl_checkpoint *c, uint64_t index)
{
    return index < c->n_tensors ? &c->tensors[index].pub : NULL;
}

int64_t vl_ck_find(const vl_checkpoint *c, const char *name)
{
    uint64_t index;
    return vl_strmap_get(&c->names, name, strlen(name), &index) ? (int64_t)index : -1;
}

static vl_status convert(const vl_checkpoint *c, const struct vl_ck_tensor *t, void *dst,
                         vl_error *err)
{
    if ((t->pub.flags & VL_TENSOR_IN_PLACE) == 0 && c->fill != NULL)
        return c->fill(c, t, dst, err);
    memcpy(dst, t->src, t->pub.n_bytes);
    return VL_OK;
}

const void *vl_ck_data(vl_checkpoint *c, uint64_t index, vl_error *err)
{
    if (index >= c->n_tensors) {
        (void)vl_error_set(err, VL_E_RANGE, "tensor %llu of %zu", (unsigned long long)index,
                           c->n_tensors);
        return NULL;
    }
    struct vl_ck_tensor *t = &c->tensors[index];
    atomic_store(&c->touched, true);
    if (t->pub.flags & VL_TENSOR_IN_PLACE)
        return t->src;
    (void)pthread_mutex_lock(&c->lock);
    if (t->owned == NULL) {
        /* 64 bytes: the widest vector load, and never a zero size. */
        size_t room = (t->pub.n_bytes + 127) / 64 * 64;
        void *bytes = aligned_alloc(64, room);
        if (bytes == NULL) {
            (void)vl_error_set(err, VL_E_NOMEM, "%s: %s: no memory for %llu bytes",
                               vl_ck_shown(t->pub.file), t->pub.source_name,
                               (unsigned long long)t->pub.n_bytes);
        } else if (convert(c, t, bytes, err) != VL_OK) {
            free(bytes);
        } else {
            t->owned = bytes;
            c->owned_bytes += room;
        }
    }
    const void *out = t->owned;
    (void)pthread_mutex_unlock(&c->lock);
    return out;
}

vl_status vl_ck_read(vl_checkpoint *c, uint64_t index, void *dst, uint64_t cap, vl_error *err)
{
    if (index >= c->n_tensors)
        return vl_error_set(err, VL_E_RANGE, "tensor %llu of %zu", (unsigned long long)index,
                            c->n_tensors);
    const struct vl_ck_tensor *t = &c->tensors[index];
    if (cap < t->pub.n_bytes)
        return vl_error_set(err, VL_E_RANGE, "%s: room for %llu bytes, want %llu", t->pub.name,
                            (unsigned long long)cap, (unsigned long long)t->pub.n_bytes);
    atomic_store(&c->touched, true);
    return convert(c, t, dst, err);
}

vl_status vl_ck_prefer(vl_checkpoint *c, int32_t heads, vl_error *err)
{
    if (heads != VL_HEADS_GROUPED && heads != VL_HEADS_FILE)
        return vl_error_set(err, VL_E_INVALID, "prefer: %d is no order of heads", heads);
    if (c->order == NULL)
        return VL_OK;
    if (atomic_load(&c->touched))
        return vl_error_set(err, VL_E_STATE, "prefer: tensors were read already");
    return c->order(c, heads, err);
}

int32_t vl_ck_heads(const vl_checkpoint *c)
{
    return c->heads;
}

void vl_ck_memory(const vl_checkpoint *c, uint64_t *mapped_bytes, uint64_t *owned_bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->n_files; i++)
        sum += c->files[i].map.len;
    *mapped_bytes = sum;
    pthread_mutex_t *lock =
        (pthread_mutex_t *)(uintptr_t)&c->lock; /* the lock guards, it is no part of the value */
    (void)pthread_mutex_lock(lock);
    *owned_bytes = c->owned_bytes;
    (void)pthread_mutex_unlock(lock);
}

vl_status vl_ck_init(const vl_host *host, vl_instance **self, vl_error *err)
{
    vl_instance *in = calloc(1, sizeof(*in));
    if (in == NULL)
        return vl_error_set(err, VL_E_NOMEM, "loader: out of memory");
    in->host = host;
    *self = in;
    return VL_OK;
}

void vl_ck_fini(vl_instance *self)
{
    free(self);
}
