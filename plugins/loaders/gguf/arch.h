/* plugins/loaders/gguf/arch.h: what metadata of architecture "qwen35" says about the model, and how
 * its tensors are called in the file and in Hugging Face's checkpoints. Does no I/O and reads no
 * tensor bytes. */
#ifndef VL_GGUF_ARCH_H
#define VL_GGUF_ARCH_H

#include "base/buf.h"
#include "plugins/loaders/gguf/set.h"
#include "vallmo/loader.h"

enum { VL_GGUF_MAX_LAYERS = 1024 };

struct vl_gguf_model {
    const char *file;                       /* of the metadata, for messages; borrowed */
    uint64_t block_count;                   /* with the MTP block */
    uint64_t n_layers;                      /* trunk */
    uint64_t n_mtp;                         /* 1: the file has the MTP block */
    bool mtp_declared;                      /* metadata speak of one */
    uint64_t hidden, inner, vocab, context; /* context 0: not said */
    uint64_t nq, nkv, head_dim, rotary;
    uint64_t nk, nv, dk, dv, taps; /* linear attention; value heads in all: nv */
    uint64_t sections[4];
    bool has_sections;
    double eps, theta;
    vl_bytes rope_scaling; /* type, empty when none */
    bool tied;             /* no output.weight */
    bool tiled;            /* value heads lie tiled: slot p uses key head p % nk */
    bool full[VL_GGUF_MAX_LAYERS];
};

/* Reads and checks the metadata; the tensors decide only what has no key (vocabulary, tied, MTP
 * block, kind of each layer). */
vl_status vl_gguf_model_read(const struct vl_gguf_set *set, struct vl_gguf_model *out,
                             vl_error *err);
/* The config.json that says the same, appended. */
vl_status vl_gguf_config_json(const struct vl_gguf_model *m, vl_buf *out, vl_error *err);
/* generation_config.json from general.sampling.*; nothing is appended when the file has none. */
vl_status vl_gguf_generation_json(const struct vl_gguf_set *set, vl_buf *out, vl_error *err);

/* What a tensor's values need to become Hugging Face's. */
enum {
    VL_GGUF_AS_IS,
    VL_GGUF_NORM,  /* stored as 1 + w */
    VL_GGUF_A,     /* [nv] stored as -exp(A_log), heads in the file's order */
    VL_GGUF_HEADS, /* [nv, ...] rows of one head each */
    VL_GGUF_VROWS, /* [nv * dv, ...] */
    VL_GGUF_QKV,   /* [2 kd + nv * dv, ...]: rows behind the first 2 kd */
    VL_GGUF_VCOLS, /* [..., nv * dv]: columns */
};

struct vl_gguf_name {
    const char *gguf; /* behind "blk.N." in a block */
    const char *hf;   /* behind "model.language_model.layers.N." in a block; "mtp.layers.0." in the
                         MTP block */
    uint8_t kind;     /* VL_GGUF_AS_IS, ... */
    uint8_t dims[2];  /* symbols of ne0, ne1; names.c */
    bool conv;        /* {K, cd} is [cd, 1, K] */
    bool optional;
    const char *alias; /* another spelling of gguf, or NULL */
};

/* File to HF: fills hf with the name of the tensor that the file calls `gguf`, and *entry. *entry
 * NULL with VL_OK: a tensor that is none of the text model's and may be passed over (vision).
 * VL_E_FORMAT for one that no layout has, or that contradicts the layer's kind. */
vl_status vl_gguf_to_hf(const struct vl_gguf_model *m, vl_bytes gguf, char *hf, size_t cap,
                        const struct vl_gguf_name **entry, vl_error *err);
/* The shape that the metadata give a tensor, fastest axis first; ne[1] is 1 for a vector. */
void vl_gguf_want_dims(const struct vl_gguf_model *m, const struct vl_gguf_name *entry,
                       uint64_t ne[2]);
/* HF to file: checks that every tensor the model needs is there; the first that is missing is named
 * by both names. */
vl_status vl_gguf_check_complete(const struct vl_gguf_model *m, const struct vl_gguf_set *set,
                                 vl_error *err);

#endif
