/* plugins/loaders/safetensors/parse.c: u64 length, JSON header, data. Every number of the file is
 * checked before it is used; allocations are bounded by what the header's own bytes pay for. */
#include "plugins/loaders/safetensors/parse.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The largest real headers (100,000 tensors in one file) have some 15 MB. The JSON tree takes at
 * most 16 bytes for each of the header's, so this bounds memory too. */
static const uint64_t max_header = 32u << 20;

enum { MAX_DIMS = 16, JSON_DEPTH = 8 };

static const struct dtype {
    const char *name;
    int32_t dtype;
    uint32_t bits;
} dtypes[] = {
    {"BF16", VL_DTYPE_BF16, 16},
    {"F32", VL_DTYPE_F32, 32},
    {"F16", VL_DTYPE_F16, 16},
    {"F64", VL_DTYPE_F64, 64},
    {"I8", VL_DTYPE_I8, 8},
    {"U8", VL_DTYPE_U8, 8},
    {"I16", VL_DTYPE_I16, 16},
    {"U16", VL_DTYPE_U16, 16},
    {"I32", VL_DTYPE_I32, 32},
    {"U32", VL_DTYPE_U32, 32},
    {"I64", VL_DTYPE_I64, 64},
    {"U64", VL_DTYPE_U64, 64},
    {"BOOL", VL_DTYPE_BOOL, 8},
    {"F8_E4M3", VL_DTYPE_F8_E4M3, 8},
    {"F8_E5M2", VL_DTYPE_F8_E5M2, 8},
    /* Known to the format; no interface of ours has a number for them, so they are listed without
       one. */
    {"F8_E8M0", VL_DTYPE_NONE, 8},
    {"F6_E2M3", VL_DTYPE_NONE, 6},
    {"F6_E3M2", VL_DTYPE_NONE, 6},
    {"F4", VL_DTYPE_NONE, 4},
    {"C64", VL_DTYPE_NONE, 64},
};

static vl_status wrong(vl_error *err, const struct vl_st_entry *e, const char *member, vl_json v,
                       const char *want)
{
    vl_bytes raw = vl_json_raw(v);
    int n = raw.len > 60 ? 60 : (int)raw.len;
    if (!vl_json_exists(v))
        return vl_error_set(err, VL_E_FORMAT, "tensor %.160s: %s is missing", e->name, member);
    return vl_error_set(err, VL_E_FORMAT, "tensor %.160s: %s is %.*s, want %s", e->name, member, n,
                        raw.ptr, want);
}

/* Shape to *n_bits, checked step by step: a product that wraps to zero in the end is caught where
 * it wraps. */
static vl_status read_shape(vl_json shape, uint64_t *elements, struct vl_st_entry *e, vl_error *err)
{
    static const char want[] = "an array of at most 16 sizes";
    size_t n = vl_json_count(shape);
    uint64_t product = 1;
    bool empty = false;
    if (!vl_json_is(shape, VL_JSON_ARRAY) || n > MAX_DIMS)
        return wrong(err, e, "shape", shape, want);
    for (int i = 0; i < 4; i++)
        e->shape.shape[i] = 1;
    for (vl_json_iter it = vl_json_each(shape); vl_json_next(&it);) {
        uint64_t d;
        if (!vl_json_u64(it.value, &d))
            return wrong(err, e, "shape", shape, want);
        empty = empty || d == 0;
        if (d != 0 && (!vl_mul(product, d, &product) || product > (uint64_t)1 << 56))
            return vl_error_set(
                err, VL_E_FORMAT,
                "tensor %.160s: shape has more than 2^56 elements (dimension %u is %llu)", e->name,
                it.index, (unsigned long long)d);
        /* Dimensions past the fourth are folded into it: the same bytes, seen with fewer axes. */
        int64_t *slot = &e->shape.shape[it.index < 4 ? it.index : 3];
        *slot = it.index < 4 ? (int64_t)d : *slot * (int64_t)d;
    }
    e->shape.n_dims = n == 0 ? 1 : n > 4 ? 4 : (int32_t)n;
    *elements = empty ? 0 : product;
    return VL_OK;
}

static vl_status read_dtype(vl_json v, const struct dtype **out, const struct vl_st_entry *e,
                            vl_error *err)
{
    if (!vl_json_is(v, VL_JSON_STRING))
        return wrong(err, e, "dtype", v, "the name of a type");
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        if (vl_json_str_eq(v, dtypes[i].name)) {
            *out = &dtypes[i];
            return VL_OK;
        }
    }
    vl_bytes raw = vl_json_raw(v);
    return vl_error_set(
        err, VL_E_UNSUPPORTED,
        "tensor %.160s: dtype %.*s is not known (BF16, F16, F32, F64, I8 to U64, BOOL, F8_... are)",
        e->name, raw.len > 40 ? 40 : (int)raw.len, raw.ptr);
}

static vl_status read_offsets(vl_json v, struct vl_st_entry *e, vl_error *err)
{
    static const char want[] = "[begin, end]";
    if (!vl_json_is(v, VL_JSON_ARRAY) || vl_json_count(v) != 2 ||
        !vl_json_u64(vl_json_at(v, 0), &e->begin) || !vl_json_u64(vl_json_at(v, 1), &e->end))
        return wrong(err, e, "data_offsets", v, want);
    if (e->begin > e->end)
        return vl_error_set(
            err, VL_E_FORMAT,
            "tensor %.160s: data_offsets [%llu, %llu]: the end lies before the begin", e->name,
            (unsigned long long)e->begin, (unsigned long long)e->end);
    return VL_OK;
}

static vl_status read_entry(vl_json value, struct vl_st_entry *e, vl_error *err)
{
    const struct dtype *type = NULL;
    uint64_t elements = 0;
    if (!vl_json_is(value, VL_JSON_OBJECT))
        return vl_error_set(
            err, VL_E_FORMAT,
            "tensor %.160s: is %s, want an object with dtype, shape and data_offsets", e->name,
            vl_json_type_name(value));
    vl_status rc = read_dtype(vl_json_get(value, "dtype"), &type, e, err);
    if (rc == VL_OK)
        rc = read_shape(vl_json_get(value, "shape"), &elements, e, err);
    if (rc == VL_OK)
        rc = read_offsets(vl_json_get(value, "data_offsets"), e, err);
    if (rc != VL_OK)
        return rc;
    uint64_t bits = elements * type->bits; /* below 2^62 */
    e->shape.dtype = type->dtype;
    e->shape.n_bytes = bits / 8;
    e->align = type->bits < 8                                     ? 1
               : type->bits == 64 && type->dtype == VL_DTYPE_NONE ? 4
                                                                  : type->bits / 8;
    if (bits % 8 != 0 || e->end - e->begin != e->shape.n_bytes)
        return vl_error_set(err, VL_E_FORMAT,
                            "tensor %.160s: data_offsets [%llu, %llu] hold %llu bytes, its shape "
                            "and dtype %s need %llu",
                            e->name, (unsigned long long)e->begin, (unsigned long long)e->end,
                            (unsigned long long)(e->end - e->begin), type->name,
                            (unsigned long long)((bits + 7) / 8));
    return VL_OK;
}

static vl_status read_metadata(vl_json v, vl_error *err)
{
    if (!vl_json_is(v, VL_JSON_OBJECT))
        return vl_error_set(err, VL_E_FORMAT, "header: __metadata__ is %s, want an object",
                            vl_json_type_name(v));
    for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);)
        if (!vl_json_is(it.value, VL_JSON_STRING))
            return vl_error_set(err, VL_E_FORMAT,
                                "header: __metadata__ has %s as a value, want strings",
                                vl_json_type_name(it.value));
    return VL_OK;
}

static vl_status read_entries(vl_json root, struct vl_st_header *h, vl_error *err)
{
    for (vl_json_iter it = vl_json_each(root); vl_json_next(&it);) {
        vl_buf name = VL_BUF_INIT;
        if (vl_json_str_eq(it.key, "__metadata__")) {
            vl_status rc = read_metadata(it.value, err);
            if (rc != VL_OK)
                return rc;
            continue;
        }
        if (!vl_json_str(it.key, &name) || !vl_buf_reserve(&name, 0) ||
            !vl_grow(&h->entries, &h->cap, h->n + 1, sizeof(*h->entries))) {
            vl_buf_fini(&name);
            return vl_error_set(err, VL_E_NOMEM, "header: no memory for its list of tensors");
        }
        struct vl_st_entry *e = &h->entries[h->n];
        memset(e, 0, sizeof(*e));
        e->name_len = name.len;
        e->name = vl_buf_take(&name, NULL);
        h->n++;
        if (e->name_len == 0 || strlen(e->name) != e->name_len)
            return vl_error_set(err, VL_E_FORMAT, "header: a tensor's name is %s",
                                e->name_len == 0 ? "empty" : "not printable: it holds a NUL");
        vl_status rc = read_entry(it.value, e, err);
        if (rc != VL_OK)
            return rc;
    }
    return VL_OK;
}

static int by_begin(const void *a, const void *b)
{
    const struct vl_st_entry *x = *(const struct vl_st_entry *const *)a,
                             *y = *(const struct vl_st_entry *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The ranges must follow each other without a gap, from the data's first byte to its last. */
static vl_status check_order(struct vl_st_entry *const *sorted, size_t n, uint64_t data_bytes,
                             vl_error *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct vl_st_entry *e = sorted[i];
        if (e->begin < at)
            return vl_error_set(
                err, VL_E_FORMAT,
                "tensors %.120s and %.120s overlap: one ends at %llu, the other begins at %llu",
                sorted[i - 1]->name, e->name, (unsigned long long)at, (unsigned long long)e->begin);
        if (e->begin > at)
            return vl_error_set(err, VL_E_FORMAT,
                                "tensor %.160s: begins at %llu, but the tensors before it end at "
                                "%llu: %llu bytes belong to none",
                                e->name, (unsigned long long)e->begin, (unsigned long long)at,
                                (unsigned long long)(e->begin - at));
        at = e->end;
    }
    if (at != data_bytes)
        return vl_error_set(err, VL_E_FORMAT,
                            "the tensors end at %llu, but the file has %llu bytes of data",
                            (unsigned long long)at, (unsigned long long)data_bytes);
    return VL_OK;
}

static vl_status check_ranges(const struct vl_st_header *h, uint64_t len, vl_error *err)
{
    uint64_t data_bytes = len - h->data_offset;
    const struct vl_st_entry *last = NULL;
    for (size_t i = 0; i < h->n; i++)
        if (last == NULL || h->entries[i].end > last->end)
            last = &h->entries[i];
    if (last != NULL && last->end > data_bytes) {
        uint64_t need;
        if (!vl_add(h->data_offset, last->end, &need))
            need = UINT64_MAX;
        return vl_error_set(err, VL_E_FORMAT,
                            "truncated: %llu bytes on disk, %llu needed (tensor %.120s has "
                            "data_offsets [%llu, %llu]); "
                            "resume the download",
                            (unsigned long long)len, (unsigned long long)need, last->name,
                            (unsigned long long)last->begin, (unsigned long long)last->end);
    }
    if (h->n == 0)
        return data_bytes == 0 ? VL_OK : check_order(NULL, 0, data_bytes, err);
    struct vl_st_entry **sorted = malloc(h->n * sizeof(*sorted)); /* n is below max_header */
    if (sorted == NULL)
        return vl_error_set(err, VL_E_NOMEM, "header: no memory for its list of tensors");
    for (size_t i = 0; i < h->n; i++)
        sorted[i] = &h->entries[i];
    qsort(sorted, h->n, sizeof(*sorted), by_begin);
    vl_status rc = check_order(sorted, h->n, data_bytes, err);
    free(sorted);
    return rc;
}

static vl_status header_length(const uint8_t *bytes, uint64_t len, uint64_t *out, vl_error *err)
{
    uint64_t n = 0;
    if (len < 10)
        return vl_error_set(err, VL_E_FORMAT, "has %llu bytes, too few for a safetensors header",
                            (unsigned long long)len);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | bytes[i];
    if (n > len - 8)
        return vl_error_set(err, VL_E_FORMAT,
                            "the header claims %llu bytes, but the file has only %llu; truncated, "
                            "or no safetensors file",
                            (unsigned long long)n, (unsigned long long)len);
    if (n > max_header)
        return vl_error_set(err, VL_E_FORMAT,
                            "the header claims %llu bytes, at most %llu are taken",
                            (unsigned long long)n, (unsigned long long)max_header);
    if (n < 2 || bytes[8] != '{')
        return vl_error_set(err, VL_E_FORMAT, "the header (%llu bytes) is no JSON object",
                            (unsigned long long)n);
    *out = n;
    return VL_OK;
}

vl_status vl_st_parse(const uint8_t *bytes, uint64_t len, struct vl_st_header *out, vl_error *err)
{
    struct vl_st_header h = {NULL, 0, 0, 0};
    vl_json_doc doc = {0};
    uint64_t n = 0;
    vl_status rc = header_length(bytes, len, &n, err);
    if (rc != VL_OK)
        return rc;
    h.data_offset = 8 + n;
    rc = vl_json_parse(&doc, (const char *)bytes + 8, n, JSON_DEPTH, VL_JSON_UNIQUE_KEYS, err);
    if (rc != VL_OK) {
        (void)vl_error_prefix(err, "the JSON header");
        goto out;
    }
    rc = read_entries(vl_json_root(&doc), &h, err);
    if (rc == VL_OK)
        rc = check_ranges(&h, len, err);
    if (rc != VL_OK)
        goto out;
    for (size_t i = 0; i < h.n; i++)
        h.entries[i].shape.offset = h.data_offset + h.entries[i].begin;
    *out = h;
    h = (struct vl_st_header){NULL, 0, 0, 0};
out:
    vl_json_doc_fini(&doc);
    vl_st_header_fini(&h);
    return rc;
}

void vl_st_header_fini(struct vl_st_header *h)
{
    for (size_t i = 0; i < h->n; i++)
        free(h->entries[i].name);
    free(h->entries);
    *h = (struct vl_st_header){NULL, 0, 0, 0};
}
