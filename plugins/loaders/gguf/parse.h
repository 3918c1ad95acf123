/* plugins/loaders/gguf/parse.h: the container of one GGUF file (versions 2 and 3): keys and tensor
 * infos, checked. Does no I/O, reads no tensor bytes and knows no architecture. Values stay in the
 * file's bytes. */
#ifndef VL_GGUF_PARSE_H
#define VL_GGUF_PARSE_H

#include <stdbool.h>

#include "base/hash.h"
#include "vallmo/abi.h"

enum {
    VL_GGUF_U8,
    VL_GGUF_I8,
    VL_GGUF_U16,
    VL_GGUF_I16,
    VL_GGUF_U32,
    VL_GGUF_I32,
    VL_GGUF_F32,
    VL_GGUF_BOOL,
    VL_GGUF_STRING,
    VL_GGUF_ARRAY,
    VL_GGUF_U64,
    VL_GGUF_I64,
    VL_GGUF_F64,
    VL_GGUF_N_TYPES
};

struct vl_gguf_kv {
    vl_bytes key;   /* printable ASCII */
    uint32_t type;  /* VL_GGUF_... */
    uint32_t elem;  /* arrays: type of the elements, never ARRAY */
    uint64_t count; /* arrays: elements; else 1 */
    const uint8_t
        *value; /* the scalar, the elements one after another, or a string's bytes; not aligned */
    uint64_t n_bytes; /* of value */
};

struct vl_gguf_tensor {
    vl_bytes name; /* no control bytes */
    uint32_t type; /* ggml's number, one that is known */
    uint32_t n_dims;
    uint64_t dims[4]; /* fastest axis first; unused ones are 1 */
    uint64_t offset;  /* in the file */
    uint64_t n_bytes;
};

struct vl_gguf_file {
    const uint8_t *base; /* borrowed */
    uint64_t size;
    uint32_t version;
    uint64_t align, data_offset;
    struct vl_gguf_kv *kvs; /* owned */
    size_t n_kvs, kvs_cap;
    struct vl_gguf_tensor *tensors; /* owned */
    size_t n_tensors, tensors_cap;
    vl_strmap keys, names; /* index into kvs, tensors */
};

/* bytes[0..len) is the whole file; it must outlive *out. After VL_OK every value and every tensor
 * lies inside the file and no two tensors share a byte. Errors name key or tensor, not the file. On
 * failure *out needs no fini. */
vl_status vl_gguf_parse(const uint8_t *bytes, uint64_t len, struct vl_gguf_file *out,
                        vl_error *err);
void vl_gguf_fini(struct vl_gguf_file *g);

const struct vl_gguf_kv *vl_gguf_find(const struct vl_gguf_file *g, const char *key);
const struct vl_gguf_tensor *vl_gguf_tensor(const struct vl_gguf_file *g, const char *name);

/* Typed reading. A missing key gives VL_OK with *found false and *out untouched; a value of another
 * type or out of range is VL_E_FORMAT with the key and the value. Integers are taken from every
 * integer type, floats from f32, f64. */
vl_status vl_gguf_u64(const struct vl_gguf_file *g, const char *key, uint64_t min, uint64_t max,
                      uint64_t *out, bool *found, vl_error *err);
vl_status vl_gguf_f64(const struct vl_gguf_file *g, const char *key, double *out, bool *found,
                      vl_error *err);
vl_status vl_gguf_bool(const struct vl_gguf_file *g, const char *key, bool *out, bool *found,
                       vl_error *err);
vl_status vl_gguf_string(const struct vl_gguf_file *g, const char *key, vl_bytes *out, bool *found,
                         vl_error *err);
/* An array whose elements have this type (VL_GGUF_...), or any integer type when elem is
 * VL_GGUF_ARRAY; *out NULL when the key is missing. */
vl_status vl_gguf_array(const struct vl_gguf_file *g, const char *key, uint32_t elem,
                        const struct vl_gguf_kv **out, vl_error *err);
/* Element i of an array of an integer type (or bool). False when it does not fit. */
bool vl_gguf_int_at(const struct vl_gguf_kv *kv, uint64_t i, int64_t *out);
/* Walks an array of strings: *at is 0 at first. */
vl_bytes vl_gguf_next_string(const struct vl_gguf_kv *kv, uint64_t *at);

/* ggml's tensor types. */
struct vl_ggml_type {
    const char *name;
    uint32_t block, block_bytes; /* elements and bytes of one block; 0: the number was removed */
};
const struct vl_ggml_type *vl_ggml_type_of(uint32_t type); /* NULL: not known */
const char *vl_gguf_type_name(uint32_t type);

#endif
