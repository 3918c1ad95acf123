/* plugins/loaders/safetensors/parse.h: the header of one safetensors file, checked. Does no I/O and
 * reads no tensor bytes. */
#ifndef VL_SAFETENSORS_PARSE_H
#define VL_SAFETENSORS_PARSE_H

#include "base/json.h"
#include "vallmo/loader.h"

/* One tensor as the header has it. */
struct vl_st_entry {
    char *name; /* owned; NUL-terminated, holds no other NUL */
    size_t name_len;
    uint64_t begin, end; /* of its bytes, in the data behind the header */
    vl_tensor shape;     /* dtype, shape, n_dims, n_bytes, offset in the file */
    uint64_t align;      /* of one element, in bytes */
};

struct vl_st_header {
    struct vl_st_entry *entries; /* owned; in the header's order */
    size_t n, cap;
    uint64_t data_offset; /* of the data in the file */
};

/* bytes[0..len) is the whole file (mapped); only its header is touched. After VL_OK every tensor's
 * bytes lie inside the file, no two share any, and no byte of the data belongs to none. Errors name
 * the tensor, not the file. On failure *out needs no fini. */
vl_status vl_st_parse(const uint8_t *bytes, uint64_t len, struct vl_st_header *out, vl_error *err);
void vl_st_header_fini(struct vl_st_header *h);

#endif
