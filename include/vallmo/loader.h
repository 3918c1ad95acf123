/* vallmo/loader.h: "vl.loader/1": a checkpoint on disk, shown in Hugging Face's names and meaning.
 *
 * A loader checks a file as if it were hostile, before it hands anything out: after a good open
 * every tensor's bytes lie inside the mapping. What the file has in another form (llama.cpp's GGUF:
 * norms with 1 added, A_log as -exp, value heads tiled) is turned back when the tensor is asked
 * for. */
#ifndef VALLMO_LOADER_H
#define VALLMO_LOADER_H

#include "vallmo/abi.h"
#include "vallmo/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VL_LOADER_ID "vl.loader/1"

typedef struct vl_checkpoint vl_checkpoint;

enum {
    /* data() points into the file's mapping; otherwise the tensor is converted on the first data().
     */
    VL_TENSOR_IN_PLACE = 1
};

/* One tensor. Valid until close. Shapes are row-major, slowest axis first: a matrix is [out, in].
 */
typedef struct vl_tensor {
    uint32_t struct_size;
    int32_t dtype;           /* VL_DTYPE_..., of what data() gives */
    const char *name;        /* HF name: "model.language_model.layers.0.mlp.up_proj.weight" */
    const char *source_name; /* as it stands in the file; equal to name in safetensors */
    const char *file;        /* path of the file it lies in */
    uint64_t offset;         /* of its first byte in that file */
    uint64_t n_bytes;        /* of what data() gives */
    int64_t shape[4];        /* unused ones are 1 */
    int32_t n_dims;          /* 1 to 4; a scalar has 1 */
    uint32_t flags;          /* VL_TENSOR_... */
} vl_tensor;

/* Texts that may come with a checkpoint. */
enum {
    VL_TEXT_CONFIG = 0,            /* config.json, or one made from GGUF metadata; always there */
    VL_TEXT_GENERATION_CONFIG = 1, /* generation_config.json, or one made from general.sampling.* */
    VL_TEXT_TOKENIZER = 2,         /* tokenizer.json */
    VL_TEXT_TOKENIZER_CONFIG = 3,  /* tokenizer_config.json */
    VL_TEXT_CHAT_TEMPLATE = 4 /* chat_template.jinja, tokenizer_config's or the GGUF's template */
};

/* A vocabulary as GGUF metadata holds it. Strings are as in the file (byte alphabet). */
typedef struct vl_vocab {
    uint32_t struct_size;
    int32_t flags;          /* 0 */
    const char *model;      /* tokenizer.ggml.model: "gpt2" */
    const char *pre;        /* tokenizer.ggml.pre: "qwen35"; "" when absent */
    const vl_bytes *tokens; /* [n_tokens] */
    const int32_t *types;   /* [n_tokens], 1 to 6; NULL when absent */
    uint64_t n_tokens;
    const vl_bytes *merges; /* [n_merges], "left right" */
    uint64_t n_merges;
    const int32_t *stop_ids; /* eos, eot and eom ids of the file, checked against n_tokens */
    uint64_t n_stop_ids;
    const char *file; /* for messages */
} vl_vocab;

/* Order of the value heads of linear-attention layers, for prefer(). */
enum {
    VL_HEADS_GROUPED = 0, /* HF's: value head j uses key head j / r */
    VL_HEADS_FILE = 1     /* leave them as the file has them; heads() tells which */
};
enum { VL_ORDER_GROUPED = 0, VL_ORDER_TILED = 1 /* value head j uses key head j % n_key_heads */ };

typedef struct vl_loader_api {
    uint32_t struct_size;
    uint32_t abi_version;

    /* Looks at path by content. *score: 0 not mine, 1..99 could be, 100 certainly. Cheap: reads a
     * few kilobytes. A path that can't be read scores 0 with VL_OK. [any] */
    vl_status (*probe)(vl_instance *self, const char *path, int32_t *score, vl_error *err);

    /* Opens and checks everything. [open] */
    vl_status (*open)(vl_instance *self, const char *path, const vl_option_values *options,
                      vl_checkpoint **out, vl_error *err);
    void (*close)(vl_checkpoint *c); /* NULL is a no-op [open] */

    /* "safetensors", "gguf". [any] */
    const char *(*format)(const vl_checkpoint *c);
    /* VL_TEXT_...; {NULL,0} when the checkpoint has none. Valid until close. [any] */
    vl_bytes (*text)(const vl_checkpoint *c, int32_t which);
    /* The GGUF vocabulary, or NULL. Valid until close. [any] */
    const vl_vocab *(*vocab)(const vl_checkpoint *c);

    uint64_t (*n_tensors)(const vl_checkpoint *c); /* [any] */
    const vl_tensor *(*tensor)(const vl_checkpoint *c,
                               uint64_t index); /* NULL past the end [any] */
    /* Index of the tensor with this HF name, or -1. [any] */
    int64_t (*find)(const vl_checkpoint *c, const char *name);

    /* The tensor's bytes: in the mapping (IN_PLACE), or converted once into memory that the
     * checkpoint owns. NULL with *err when the conversion fails. Valid until close. [any] */
    const void *(*data)(vl_checkpoint *c, uint64_t index, vl_error *err);
    /* The same bytes into dst; VL_E_RANGE if cap < n_bytes. Keeps nothing. [any] */
    vl_status (*read)(vl_checkpoint *c, uint64_t index, void *dst, uint64_t cap, vl_error *err);

    /* What order of value heads is wanted (VL_HEADS_...): before the first data() or read(). [open]
     */
    vl_status (*prefer)(vl_checkpoint *c, int32_t heads, vl_error *err);
    /* The order that data() and read() give now: VL_ORDER_... [any] */
    int32_t (*heads)(const vl_checkpoint *c);

    /* Bytes of files mapped, and of memory that conversions hold. [any] */
    void (*memory)(const vl_checkpoint *c, uint64_t *mapped_bytes, uint64_t *owned_bytes);
} vl_loader_api;

#ifdef __cplusplus
}
#endif
#endif
