/* plugins/loaders/gguf/parse.c: one cursor, one primitive that takes n bytes or fails by
 * subtraction. Counts are bounded by what the rest of the file can pay for before anything is
 * allocated; nothing recurses. */
#include "plugins/loaders/gguf/parse.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

enum {
    MIN_KV = 14,   /* key of one byte, its length, type, value of one byte */
    MIN_INFO = 25, /* name of one byte, its length, no dims, type, offset */
    MAX_KVS = 65536,
    MAX_TENSORS = 1 << 20,
    MAX_KEY = 65535,
    MAX_NAME = 127,
    MAX_STRING = 64 << 20,
    MAX_ELEMENTS = 16 << 20,
    MAX_ALIGN = 65536,
};
static const uint64_t max_elements = (uint64_t)1 << 56; /* of a tensor: no product below can wrap */

typedef unsigned long long ull;

struct cursor {
    const uint8_t *base;
    uint64_t size, pos;
};

static const uint8_t *take(struct cursor *c, uint64_t n)
{
    if (n > c->size - c->pos)
        return NULL;
    const uint8_t *p = c->base + c->pos;
    c->pos += n;
    return p;
}

static uint64_t little(const uint8_t *p, int n)
{
    uint64_t x = 0;
    for (int i = n - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

static bool take_int(struct cursor *c, int n, uint64_t *out)
{
    const uint8_t *p = take(c, (uint64_t)n);
    if (p == NULL)
        return false;
    *out = little(p, n);
    return true;
}

static const uint8_t widths[VL_GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static vl_status cut(const struct cursor *c, const char *where, vl_error *err)
{
    return vl_error_set(err, VL_E_FORMAT, "truncated: the file ends at byte %llu, inside %s",
                        (ull)c->size, where);
}

/* The text of a key or name as far as it can be shown. */
static vl_status bad_text(vl_bytes t, uint64_t i, const char *what, uint64_t max, vl_error *err)
{
    if (t.len == 0)
        return vl_error_set(err, VL_E_FORMAT, "%s %llu has an empty name", what, (ull)i);
    if (t.len > max)
        return vl_error_set(err, VL_E_FORMAT,
                            "%s %llu has a name of %llu bytes, at most %llu are taken", what,
                            (ull)i, (ull)t.len, (ull)max);
    for (size_t k = 0; k < t.len; k++) {
        unsigned char b = (unsigned char)t.ptr[k];
        if (b < 0x20 || b == 0x7f)
            return vl_error_set(err, VL_E_FORMAT,
                                "%s %llu: its name \"%.*s...\" has a control byte (%u)", what,
                                (ull)i, k > 100 ? 100 : (int)k, t.ptr, b);
    }
    return VL_OK;
}

/* A length and that many bytes. */
static bool take_string(struct cursor *c, vl_bytes *out, uint64_t *length)
{
    *length = 0;
    if (!take_int(c, 8, length))
        return false;
    const uint8_t *p = *length <= MAX_STRING ? take(c, *length) : NULL;
    if (p == NULL)
        return false;
    *out = (vl_bytes){(const char *)p, *length};
    return true;
}

#define KEY_FMT "key %.*s: "
#define KEY_ARG(kv) ((kv)->key.len > 160 ? 160 : (int)(kv)->key.len), (kv)->key.ptr

static vl_status string_error(const struct cursor *c, const struct vl_gguf_kv *kv, uint64_t length,
                              vl_error *err)
{
    return vl_error_set(
        err, VL_E_FORMAT,
        KEY_FMT "string of %llu bytes, the rest of the file has %llu (at most %d are taken)",
        KEY_ARG(kv), (ull)length, (ull)(c->size - c->pos), MAX_STRING);
}

static vl_status read_array(struct cursor *c, struct vl_gguf_kv *kv, vl_error *err)
{
    uint64_t elem, count;
    if (!take_int(c, 4, &elem) || !take_int(c, 8, &count))
        return vl_error_set(err, VL_E_FORMAT, KEY_FMT "truncated: the file ends at byte %llu",
                            KEY_ARG(kv), (ull)c->size);
    if (elem == VL_GGUF_ARRAY || elem >= VL_GGUF_N_TYPES)
        return vl_error_set(err, VL_E_FORMAT, KEY_FMT "an array of %s (type %llu) is not supported",
                            KEY_ARG(kv), elem == VL_GGUF_ARRAY ? "arrays" : "unknown elements",
                            (ull)elem);
    uint64_t least = elem == VL_GGUF_STRING ? 8 : widths[elem];
    if (count > MAX_ELEMENTS || count > (c->size - c->pos) / least)
        return vl_error_set(err, VL_E_FORMAT,
                            KEY_FMT "array of %llu elements, the rest of the file has %llu bytes",
                            KEY_ARG(kv), (ull)count, (ull)(c->size - c->pos));
    kv->elem = (uint32_t)elem;
    kv->count = count;
    kv->value = c->base + c->pos;
    uint64_t start = c->pos;
    for (uint64_t i = 0; elem == VL_GGUF_STRING && i < count; i++) {
        vl_bytes s;
        uint64_t length;
        if (!take_string(c, &s, &length))
            return vl_error_set(
                err, VL_E_FORMAT,
                KEY_FMT
                "array of %llu strings: element %llu has %llu bytes, the rest of the file %llu",
                KEY_ARG(kv), (ull)count, (ull)i, (ull)length, (ull)(c->size - c->pos));
    }
    if (elem != VL_GGUF_STRING)
        c->pos += count * widths[elem]; /* inside the file: count was compared with the rest */
    kv->n_bytes = c->pos - start;
    for (uint64_t i = 0; elem == VL_GGUF_BOOL && i < count; i++)
        if (kv->value[i] > 1)
            return vl_error_set(err, VL_E_FORMAT,
                                KEY_FMT "element %llu is a bool of value %u, want 0 or 1",
                                KEY_ARG(kv), (ull)i, kv->value[i]);
    return VL_OK;
}

static vl_status read_value(struct cursor *c, struct vl_gguf_kv *kv, vl_error *err)
{
    if (kv->type >= VL_GGUF_N_TYPES)
        return vl_error_set(err, VL_E_FORMAT,
                            KEY_FMT "value of type %u, which does not exist (0 to 12 do)",
                            KEY_ARG(kv), kv->type);
    if (kv->type == VL_GGUF_ARRAY)
        return read_array(c, kv, err);
    kv->count = 1;
    if (kv->type == VL_GGUF_STRING) {
        vl_bytes s;
        uint64_t length;
        if (!take_string(c, &s, &length))
            return string_error(c, kv, length, err);
        kv->value = (const uint8_t *)s.ptr;
        kv->n_bytes = s.len;
        return VL_OK;
    }
    kv->n_bytes = widths[kv->type];
    kv->value = take(c, kv->n_bytes);
    if (kv->value == NULL)
        return vl_error_set(err, VL_E_FORMAT, KEY_FMT "truncated: the file ends at byte %llu",
                            KEY_ARG(kv), (ull)c->size);
    if (kv->type == VL_GGUF_BOOL && kv->value[0] > 1)
        return vl_error_set(err, VL_E_FORMAT, KEY_FMT "bool of value %u, want 0 or 1", KEY_ARG(kv),
                            kv->value[0]);
    return VL_OK;
}

static vl_status read_kvs(struct cursor *c, uint64_t n, struct vl_gguf_file *g, vl_error *err)
{
    for (uint64_t i = 0; i < n; i++) {
        struct vl_gguf_kv kv;
        uint64_t length, type;
        memset(&kv, 0, sizeof(kv));
        if (!take_string(c, &kv.key, &length)) {
            if (length > 0)
                return vl_error_set(
                    err, VL_E_FORMAT,
                    "key %llu has a length of %llu bytes, the rest of the file has %llu", (ull)i,
                    (ull)length, (ull)(c->size - c->pos));
            return cut(c, "the metadata", err);
        }
        vl_status rc = bad_text(kv.key, i, "key", MAX_KEY, err);
        if (rc != VL_OK)
            return rc;
        if (!take_int(c, 4, &type))
            return cut(c, "the metadata", err);
        kv.type = type > UINT32_MAX ? UINT32_MAX : (uint32_t)type;
        rc = read_value(c, &kv, err);
        if (rc != VL_OK)
            return rc;
        if (!vl_grow(&g->kvs, &g->kvs_cap, g->n_kvs + 1, sizeof(*g->kvs)))
            return vl_error_set(err, VL_E_NOMEM, "no memory for %llu keys", (ull)n);
        int added = vl_strmap_add(&g->keys, kv.key.ptr, kv.key.len, g->n_kvs, NULL);
        if (added < 0)
            return vl_error_set(err, VL_E_NOMEM, "no memory for %llu keys", (ull)n);
        if (added == 0)
            return vl_error_set(err, VL_E_FORMAT, KEY_FMT "stands twice", KEY_ARG(&kv));
        g->kvs[g->n_kvs++] = kv;
    }
    return VL_OK;
}

#define NAME_FMT "tensor %.*s: "
#define NAME_ARG(t) (int)(t)->name.len, (t)->name.ptr /* at most MAX_NAME */

static vl_status read_dims(struct cursor *c, struct vl_gguf_tensor *t, uint64_t *elements,
                           vl_error *err)
{
    uint64_t n;
    if (!take_int(c, 4, &n))
        return cut(c, "the tensor infos", err);
    if (n < 1 || n > 4)
        return vl_error_set(err, VL_E_FORMAT, NAME_FMT "n_dims %llu, want 1 to 4", NAME_ARG(t),
                            (ull)n);
    t->n_dims = (uint32_t)n;
    *elements = 1;
    for (uint64_t i = 0; i < 4; i++) {
        t->dims[i] = 1;
        if (i >= n)
            continue;
        if (!take_int(c, 8, &t->dims[i]))
            return cut(c, "the tensor infos", err);
        if (t->dims[i] == 0 || !vl_mul(*elements, t->dims[i], elements) || *elements > max_elements)
            return vl_error_set(err, VL_E_FORMAT, NAME_FMT "dimension %llu is %llu, %s",
                                NAME_ARG(t), (ull)i, (ull)t->dims[i],
                                t->dims[i] == 0 ? "want at least 1"
                                                : "more than 2^56 elements in all");
    }
    return VL_OK;
}

static vl_status read_type(struct cursor *c, struct vl_gguf_tensor *t, uint64_t elements,
                           vl_error *err)
{
    uint64_t type;
    if (!take_int(c, 4, &type))
        return cut(c, "the tensor infos", err);
    t->type = (uint32_t)type;
    const struct vl_ggml_type *known = vl_ggml_type_of(t->type);
    if (known == NULL)
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            NAME_FMT
                            "type %u is not known (0 to 42 are; forks use numbers of their own)",
                            NAME_ARG(t), t->type);
    if (known->block == 0)
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            NAME_FMT "type %u was removed from the format (%s)", NAME_ARG(t),
                            t->type, known->name);
    if (t->dims[0] % known->block != 0)
        return vl_error_set(err, VL_E_FORMAT,
                            NAME_FMT "rows of %llu elements, type %s needs a multiple of %u",
                            NAME_ARG(t), (ull)t->dims[0], known->name, known->block);
    /* At most 2^56 elements of at most 8 bytes. */
    t->n_bytes = elements / known->block * known->block_bytes;
    return VL_OK;
}

static vl_status read_infos(struct cursor *c, uint64_t n, struct vl_gguf_file *g, vl_error *err)
{
    for (uint64_t i = 0; i < n; i++) {
        struct vl_gguf_tensor t;
        uint64_t length, elements = 0;
        memset(&t, 0, sizeof(t));
        if (!take_string(c, &t.name, &length)) {
            if (length > 0)
                return vl_error_set(err, VL_E_FORMAT,
                                    "truncated or damaged: the name of tensor %llu of %llu has a "
                                    "length of %llu bytes, the rest of "
                                    "the file has %llu",
                                    (ull)i, (ull)n, (ull)length, (ull)(c->size - c->pos));
            return cut(c, "the tensor infos", err);
        }
        vl_status rc = bad_text(t.name, i, "tensor", MAX_NAME, err);
        if (rc == VL_OK)
            rc = read_dims(c, &t, &elements, err);
        if (rc == VL_OK)
            rc = read_type(c, &t, elements, err);
        if (rc != VL_OK)
            return rc;
        if (!take_int(c, 8, &t.offset))
            return cut(c, "the tensor infos", err);
        if (!vl_grow(&g->tensors, &g->tensors_cap, g->n_tensors + 1, sizeof(*g->tensors)))
            return vl_error_set(err, VL_E_NOMEM, "no memory for %llu tensor infos", (ull)n);
        int added = vl_strmap_add(&g->names, t.name.ptr, t.name.len, g->n_tensors, NULL);
        if (added < 0)
            return vl_error_set(err, VL_E_NOMEM, "no memory for %llu tensor infos", (ull)n);
        if (added == 0)
            return vl_error_set(err, VL_E_FORMAT, NAME_FMT "stands twice in this file",
                                NAME_ARG(&t));
        g->tensors[g->n_tensors++] = t;
    }
    return VL_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct vl_gguf_tensor *x = *(const struct vl_gguf_tensor *const *)a,
                                *y = *(const struct vl_gguf_tensor *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static vl_status check_overlap(const struct vl_gguf_file *g, vl_error *err)
{
    vl_status rc = VL_OK;
    const struct vl_gguf_tensor **sorted = malloc(g->n_tensors * sizeof(*sorted));
    if (sorted == NULL)
        return vl_error_set(err, VL_E_NOMEM, "no memory for %zu tensor infos", g->n_tensors);
    for (size_t i = 0; i < g->n_tensors; i++)
        sorted[i] = &g->tensors[i];
    qsort(sorted, g->n_tensors, sizeof(*sorted), by_offset);
    for (size_t i = 1; i < g->n_tensors && rc == VL_OK; i++) {
        const struct vl_gguf_tensor *a = sorted[i - 1], *b = sorted[i];
        if (b->offset - a->offset < a->n_bytes)
            rc = vl_error_set(err, VL_E_FORMAT,
                              "tensors %.*s and %.*s overlap: %llu bytes at %llu, and one at %llu",
                              NAME_ARG(a), NAME_ARG(b), (ull)a->n_bytes, (ull)a->offset,
                              (ull)b->offset);
    }
    free(sorted);
    return rc;
}

/* Offsets relative to the data become offsets in the file, once they are known to lie in it. */
static vl_status place(struct vl_gguf_file *g, uint64_t infos_end, vl_error *err)
{
    uint64_t start;
    const struct vl_gguf_tensor *last = NULL;
    uint64_t need = 0;
    if (!vl_add(infos_end, g->align - 1, &start))
        return vl_error_set(err, VL_E_FORMAT, "the tensor infos end at %llu", (ull)infos_end);
    g->data_offset = start / g->align * g->align;
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct vl_gguf_tensor *t = &g->tensors[i];
        uint64_t end;
        if (t->offset % g->align != 0)
            return vl_error_set(err, VL_E_FORMAT,
                                NAME_FMT "offset %llu is no multiple of the alignment %llu",
                                NAME_ARG(t), (ull)t->offset, (ull)g->align);
        if (!vl_add(g->data_offset, t->offset, &t->offset) || !vl_add(t->offset, t->n_bytes, &end))
            return vl_error_set(err, VL_E_FORMAT, NAME_FMT "its offset leads past 2^64",
                                NAME_ARG(t));
        if (end > need) {
            need = end;
            last = t;
        }
    }
    if (need > g->size)
        return vl_error_set(err, VL_E_FORMAT,
                            "truncated: %llu bytes on disk, %llu needed (tensor %.*s ends there); "
                            "resume the download",
                            (ull)g->size, (ull)need, NAME_ARG(last));
    return g->n_tensors > 1 ? check_overlap(g, err) : VL_OK;
}

static vl_status read_header(struct cursor *c, uint64_t *n_tensors, uint64_t *n_kvs,
                             uint32_t *version, vl_error *err)
{
    uint64_t v;
    if (c->size < 24)
        return vl_error_set(err, VL_E_FORMAT, "has %llu bytes, a GGUF header has 24", (ull)c->size);
    if (memcmp(take(c, 4), "GGUF", 4) != 0)
        return vl_error_set(
            err, VL_E_FORMAT,
            "is no GGUF file: begins with %02x %02x %02x %02x, want 47 47 55 46 (\"GGUF\")",
            c->base[0], c->base[1], c->base[2], c->base[3]);
    (void)take_int(c, 4, &v);
    if (v != 0 && (v & 0xffff) == 0)
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "is a big-endian GGUF file, which is not supported");
    if (v != 2 && v != 3)
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "GGUF version %llu is not supported, 2 and 3 are%s", (ull)v,
                            v == 1 ? ": convert the model again" : "");
    *version = (uint32_t)v;
    (void)take_int(c, 8, n_tensors);
    (void)take_int(c, 8, n_kvs);
    uint64_t rest = c->size - c->pos;
    if (*n_kvs > MAX_KVS || *n_kvs > rest / MIN_KV)
        return vl_error_set(err, VL_E_FORMAT,
                            "truncated or damaged: metadata_kv_count %llu, but only %llu bytes "
                            "follow (at most %d keys are taken)",
                            (ull)*n_kvs, (ull)rest, MAX_KVS);
    if (*n_tensors > MAX_TENSORS || *n_tensors > rest / MIN_INFO)
        return vl_error_set(err, VL_E_FORMAT,
                            "truncated or damaged: tensor_count %llu, but only %llu bytes follow "
                            "(at most %d tensors are taken)",
                            (ull)*n_tensors, (ull)rest, MAX_TENSORS);
    return VL_OK;
}

static vl_status read_alignment(struct vl_gguf_file *g, vl_error *err)
{
    bool found;
    g->align = 32;
    vl_status rc = vl_gguf_u64(g, "general.alignment", 0, UINT64_MAX, &g->align, &found, err);
    if (rc == VL_OK && (g->align < 8 || g->align > MAX_ALIGN || (g->align & (g->align - 1)) != 0))
        rc = vl_error_set(err, VL_E_FORMAT,
                          "key general.alignment: %llu, want a power of two from 8 to %d",
                          (ull)g->align, MAX_ALIGN);
    return rc;
}

vl_status vl_gguf_parse(const uint8_t *bytes, uint64_t len, struct vl_gguf_file *out, vl_error *err)
{
    struct cursor c = {bytes, len, 0};
    struct vl_gguf_file g;
    uint64_t n_tensors = 0, n_kvs = 0;
    memset(&g, 0, sizeof(g));
    g.base = bytes;
    g.size = len;
    vl_strmap_init(&g.keys);
    vl_strmap_init(&g.names);
    vl_status rc = read_header(&c, &n_tensors, &n_kvs, &g.version, err);
    if (rc == VL_OK)
        rc = read_kvs(&c, n_kvs, &g, err);
    if (rc == VL_OK)
        rc = read_alignment(&g, err);
    if (rc == VL_OK)
        rc = read_infos(&c, n_tensors, &g, err);
    if (rc == VL_OK)
        rc = place(&g, c.pos, err);
    if (rc != VL_OK) {
        vl_gguf_fini(&g);
        return rc;
    }
    *out = g;
    return VL_OK;
}

void vl_gguf_fini(struct vl_gguf_file *g)
{
    free(g->kvs);
    free(g->tensors);
    vl_strmap_fini(&g->keys);
    vl_strmap_fini(&g->names);
    memset(g, 0, sizeof(*g));
}
