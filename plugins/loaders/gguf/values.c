/* plugins/loaders/gguf/values.c: typed reading of metadata. Values are not aligned in the file, so
 * they are put together from bytes; the type is checked before the bytes are looked at. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plugins/loaders/gguf/parse.h"

const struct vl_gguf_kv *vl_gguf_find(const struct vl_gguf_file *g, const char *key)
{
    uint64_t i;
    return vl_strmap_get(&g->keys, key, strlen(key), &i) ? &g->kvs[i] : NULL;
}

const struct vl_gguf_tensor *vl_gguf_tensor(const struct vl_gguf_file *g, const char *name)
{
    uint64_t i;
    return vl_strmap_get(&g->names, name, strlen(name), &i) ? &g->tensors[i] : NULL;
}

static vl_status wrong_type(const struct vl_gguf_kv *kv, const char *key, const char *want,
                            vl_error *err)
{
    if (kv->type == VL_GGUF_ARRAY)
        return vl_error_set(err, VL_E_FORMAT, "key %s: is an array of %llu %s, want %s", key,
                            (unsigned long long)kv->count, vl_gguf_type_name(kv->elem), want);
    return vl_error_set(err, VL_E_FORMAT, "key %s: is a %s, want %s", key,
                        vl_gguf_type_name(kv->type), want);
}

/* An integer as magnitude and sign: u64 and i64 both fit. False when type is none. */
static bool int_of(uint32_t type, const uint8_t *p, uint64_t *magnitude, bool *negative)
{
    static const uint8_t width[VL_GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 0, 0, 0, 0, 8, 8, 0};
    bool is_signed =
        type == VL_GGUF_I8 || type == VL_GGUF_I16 || type == VL_GGUF_I32 || type == VL_GGUF_I64;
    int n = type < VL_GGUF_N_TYPES ? width[type] : 0;
    uint64_t x = 0;
    if (n == 0)
        return false;
    for (int i = n - 1; i >= 0; i--)
        x = x << 8 | p[i];
    *negative = is_signed && (x >> (8 * n - 1)) != 0;
    if (*negative && n < 8)
        x |= ~(uint64_t)0 << (8 * n);
    *magnitude = *negative ? 0 - x : x;
    return true;
}

vl_status vl_gguf_u64(const struct vl_gguf_file *g, const char *key, uint64_t min, uint64_t max,
                      uint64_t *out, bool *found, vl_error *err)
{
    const struct vl_gguf_kv *kv = vl_gguf_find(g, key);
    uint64_t x;
    bool negative;
    *found = kv != NULL;
    if (kv == NULL)
        return VL_OK;
    if (!int_of(kv->type, kv->value, &x, &negative))
        return wrong_type(kv, key, "a whole number", err);
    if (negative || x < min || x > max)
        return vl_error_set(err, VL_E_FORMAT, "key %s: %s%llu, want %llu to %llu", key,
                            negative ? "-" : "", (unsigned long long)x, (unsigned long long)min,
                            (unsigned long long)max);
    *out = x;
    return VL_OK;
}

vl_status vl_gguf_f64(const struct vl_gguf_file *g, const char *key, double *out, bool *found,
                      vl_error *err)
{
    const struct vl_gguf_kv *kv = vl_gguf_find(g, key);
    *found = kv != NULL;
    if (kv == NULL)
        return VL_OK;
    double x;
    if (kv->type == VL_GGUF_F32) {
        float f;
        memcpy(&f, kv->value, sizeof(f));
        x = (double)f;
    } else if (kv->type == VL_GGUF_F64) {
        memcpy(&x, kv->value, sizeof(x));
    } else {
        return wrong_type(kv, key, "a float", err);
    }
    if (!isfinite(x))
        return vl_error_set(err, VL_E_FORMAT, "key %s: %g, want a finite number", key, x);
    *out = x;
    return VL_OK;
}

vl_status vl_gguf_bool(const struct vl_gguf_file *g, const char *key, bool *out, bool *found,
                       vl_error *err)
{
    const struct vl_gguf_kv *kv = vl_gguf_find(g, key);
    *found = kv != NULL;
    if (kv == NULL)
        return VL_OK;
    if (kv->type != VL_GGUF_BOOL)
        return wrong_type(kv, key, "a bool", err);
    *out = kv->value[0] != 0;
    return VL_OK;
}

vl_status vl_gguf_string(const struct vl_gguf_file *g, const char *key, vl_bytes *out, bool *found,
                         vl_error *err)
{
    const struct vl_gguf_kv *kv = vl_gguf_find(g, key);
    *found = kv != NULL;
    if (kv == NULL)
        return VL_OK;
    if (kv->type != VL_GGUF_STRING)
        return wrong_type(kv, key, "a string", err);
    *out = (vl_bytes){(const char *)kv->value, kv->n_bytes};
    return VL_OK;
}

vl_status vl_gguf_array(const struct vl_gguf_file *g, const char *key, uint32_t elem,
                        const struct vl_gguf_kv **out, vl_error *err)
{
    const struct vl_gguf_kv *kv = vl_gguf_find(g, key);
    uint64_t x;
    bool negative;
    static const uint8_t zero[8];
    if (kv == NULL) {
        *out = NULL;
        return VL_OK;
    }
    bool fits =
        kv->type == VL_GGUF_ARRAY &&
        (elem == VL_GGUF_ARRAY ? kv->elem == VL_GGUF_BOOL || int_of(kv->elem, zero, &x, &negative)
                               : kv->elem == elem);
    if (!fits)
        return wrong_type(kv, key,
                          elem == VL_GGUF_STRING ? "an array of strings"
                          : elem == VL_GGUF_F32  ? "an array of f32"
                                                 : "an array of whole numbers",
                          err);
    *out = kv;
    return VL_OK;
}

bool vl_gguf_int_at(const struct vl_gguf_kv *kv, uint64_t i, int64_t *out)
{
    static const uint8_t width[VL_GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 0, 1, 0, 0, 8, 8, 0};
    uint64_t x;
    bool negative;
    if (kv->type != VL_GGUF_ARRAY || i >= kv->count)
        return false;
    const uint8_t *p = kv->value + i * width[kv->elem];
    if (kv->elem == VL_GGUF_BOOL) {
        *out = p[0];
        return true;
    }
    if (!int_of(kv->elem, p, &x, &negative) || x > (uint64_t)INT64_MAX)
        return false;
    *out = negative ? -(int64_t)x : (int64_t)x;
    return true;
}

vl_bytes vl_gguf_next_string(const struct vl_gguf_kv *kv, uint64_t *at)
{
    uint64_t n = 0;
    const uint8_t *p =
        kv->value + *at; /* the parser has walked this array: the length is inside it */
    for (int i = 7; i >= 0; i--)
        n = n << 8 | p[i];
    *at += 8 + n;
    return (vl_bytes){(const char *)p + 8, n};
}
