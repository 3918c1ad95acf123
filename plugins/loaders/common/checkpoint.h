/* plugins/loaders/common/checkpoint.h: what every loader's open checkpoint is made of: mapped
 * files, a table of tensors found by name, texts, and memory for the tensors that can't be used
 * where they lie.
 *
 * Knows vl.loader/1 and no file format: a loader fills the table, and gives `fill` for what it
 * converts. */
#ifndef VL_LOADERS_CHECKPOINT_H
#define VL_LOADERS_CHECKPOINT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "vallmo/loader.h"

struct vl_instance {
    const vl_host *host; /* valid until fini */
};

enum { VL_CK_TEXTS = 5 }; /* VL_TEXT_CONFIG to VL_TEXT_CHAT_TEMPLATE */

struct vl_ck_file {
    char *path; /* owned */
    vl_map map; /* owned */
};

struct vl_ck_tensor {
    vl_tensor pub;
    char *name;         /* owned; pub.name */
    char *source_name;  /* owned, or NULL when it equals name */
    const uint8_t *src; /* in the mapping */
    void *owned;        /* the converted bytes, once asked for (under lock) */
    uint32_t kind;      /* the loader's own */
    uint32_t reserved;
};

struct vl_checkpoint {
    const char *format;
    struct vl_ck_file *files; /* owned; paths stay where they are while the table grows */
    size_t n_files, files_cap;
    struct vl_ck_tensor *tensors; /* owned; fixed once open has returned */
    size_t n_tensors, tensors_cap;
    vl_strmap names; /* HF name to index */
    vl_buf texts[VL_CK_TEXTS];
    const vl_vocab *vocab; /* owned by priv, or NULL */
    int32_t heads;         /* VL_ORDER_... that data() gives */
    int32_t reserved;
    pthread_mutex_t lock; /* guards owned pointers and owned_bytes */
    uint64_t owned_bytes;
    atomic_bool touched; /* data() or read() has run: the order of heads is fixed */

    void *priv; /* the loader's, freed by priv_free */
    void (*priv_free)(void *priv);
    /* Writes pub.n_bytes of a tensor that is not in place to dst. NULL: a plain copy from src.
     * [any] */
    vl_status (*fill)(const vl_checkpoint *c, const struct vl_ck_tensor *t, void *dst,
                      vl_error *err);
    /* Does prefer(); called only while nothing was read. NULL: only one order, nothing to do. */
    vl_status (*order)(vl_checkpoint *c, int32_t heads, vl_error *err);
};

vl_checkpoint *vl_ck_create(const char *format, vl_error *err);
void vl_ck_close(vl_checkpoint *c);

/* Maps path and appends it; *index is its place in files. Refuses an empty file and, by its first
 * bytes, what is known to be something else (sniff.h). */
vl_status vl_ck_map(vl_checkpoint *c, const char *path, const char *want_format, size_t *index,
                    vl_error *err);

/* Unmaps every file again; only before the first tensor is added. */
void vl_ck_unmap(vl_checkpoint *c);

/* Appends a tensor with these names (copied; source NULL: the same) and the shape's count of bytes
 * already checked against the file. pub.name, source_name, struct_size and file are set here.
 * VL_E_FORMAT, with both files, when the name is there already. */
vl_status vl_ck_add(vl_checkpoint *c, size_t file, const char *name, size_t name_len,
                    const char *source, size_t source_len, const vl_tensor *shape,
                    struct vl_ck_tensor **out, vl_error *err);

/* The functions of vl_loader_api that do not depend on the format. */
const char *vl_ck_format(const vl_checkpoint *c);
vl_bytes vl_ck_text(const vl_checkpoint *c, int32_t which);
const vl_vocab *vl_ck_vocab(const vl_checkpoint *c);
uint64_t vl_ck_n_tensors(const vl_checkpoint *c);
const vl_tensor *vl_ck_tensor(const vl_checkpoint *c, uint64_t index);
int64_t vl_ck_find(const vl_checkpoint *c, const char *name);
const void *vl_ck_data(vl_checkpoint *c, uint64_t index, vl_error *err);
vl_status vl_ck_read(vl_checkpoint *c, uint64_t index, void *dst, uint64_t cap, vl_error *err);
vl_status vl_ck_prefer(vl_checkpoint *c, int32_t heads, vl_error *err);
int32_t vl_ck_heads(const vl_checkpoint *c);
void vl_ck_memory(const vl_checkpoint *c, uint64_t *mapped_bytes, uint64_t *owned_bytes);

/* The table's members that are the same for all loaders. */
#define VL_CK_API                                                                                  \
    .struct_size = sizeof(vl_loader_api), .abi_version = VL_ABI_VERSION, .close = vl_ck_close,     \
    .format = vl_ck_format, .text = vl_ck_text, .vocab = vl_ck_vocab,                              \
    .n_tensors = vl_ck_n_tensors, .tensor = vl_ck_tensor, .find = vl_ck_find, .data = vl_ck_data,  \
    .read = vl_ck_read, .prefer = vl_ck_prefer, .heads = vl_ck_heads, .memory = vl_ck_memory

/* init and fini of a plugin whose instance is only the host. */
vl_status vl_ck_init(const vl_host *host, vl_instance **self, vl_error *err);
void vl_ck_fini(vl_instance *self);

/* The end of a path that fits into a message beside everything else. */
const char *vl_ck_shown(const char *path);

#endif
