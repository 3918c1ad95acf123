/* plugins/qwen35/weights.h: the tensors of a checkpoint that the model needs, found by name and
 * checked for shape and type. Owns nothing but the list of layers; the bytes are the checkpoint's.
 * Knows no device. */
#ifndef VL_QWEN35_WEIGHTS_H
#define VL_QWEN35_WEIGHTS_H

#include "plugins/qwen35/config.h"
#include "vallmo/loader.h"

/* One tensor. Matrices are [rows, cols] row-major, BF16, F16 or F32; vectors have rows = their
 * length, cols 1, and conv1d is [CD, taps]. */
typedef struct vl_q35_weight {
    const vl_tensor *tensor; /* name, file; NULL: the model has none (lm_head of a tied one) */
    const void *data;        /* after vl_q35_weights_map; NULL before */
    int64_t rows, cols;
    uint64_t index; /* in the checkpoint */
    int32_t dtype;  /* VL_DTYPE_... */
    int32_t reserved;
} vl_q35_weight;

typedef struct vl_q35_layer {
    vl_q35_weight input_norm; /* [H] zero-centred: 1 + w */
    vl_q35_weight post_norm;  /* [H] zero-centred */
    vl_q35_weight gate, up;   /* [I, H] */
    vl_q35_weight down;       /* [H, I] */
    /* linear attention */
    vl_q35_weight qkv;        /* [CD, H], rows q | k | v */
    vl_q35_weight z;          /* [VD, H] */
    vl_q35_weight b, a;       /* [hv, H] */
    vl_q35_weight conv;       /* [CD, taps]; tap taps-1 is the current token */
    vl_q35_weight a_log;      /* [hv] */
    vl_q35_weight dt_bias;    /* [hv] */
    vl_q35_weight gated_norm; /* [dv] plain */
    /* full attention */
    vl_q35_weight q;              /* [2 nq D, H]; per head D rows of query, then D rows of gate */
    vl_q35_weight k, v;           /* [nkv D, H] */
    vl_q35_weight q_norm, k_norm; /* [D] zero-centred */
    /* both */
    vl_q35_weight out; /* out_proj [H, VD] or o_proj [H, nq D] */
} vl_q35_layer;

typedef struct vl_q35_weights {
    vl_q35_weight embed;  /* [V, H] */
    vl_q35_weight norm;   /* [H] zero-centred */
    vl_q35_weight head;   /* [V, H]; of a tied model the same tensor as embed */
    vl_q35_layer *layers; /* [n_layers], owned */
    uint64_t n_tensors;
    uint64_t n_bytes;        /* of all of them (a tied head counts once) */
    uint64_t in_place_bytes; /* of n_bytes: those that data() points to in the mapping */
    bool tiled;              /* value head j uses key head j % hk, instead of j / (hv / hk) */
} vl_q35_weights;

/* Finds and checks every tensor; reads no bytes of them. A missing tensor is named with the file it
 * was looked for in, a wrong shape with both shapes. On failure *out needs no fini. */
vl_status vl_q35_weights_find(const vl_q35_config *c, const vl_loader_api *loader,
                              const vl_checkpoint *cp, vl_q35_weights *out, vl_error *err);
/* Fills every data pointer (converting where the file has another form). Call after prefer(). */
vl_status vl_q35_weights_map(const vl_q35_config *c, const vl_loader_api *loader, vl_checkpoint *cp,
                             vl_q35_weights *w, vl_error *err);
void vl_q35_weights_fini(vl_q35_weights *w);

/* n elements of a BF16, F16 or F32 tensor as f32. */
void vl_q35_weight_to_f32(const vl_q35_weight *w, float *out, uint64_t n);

#endif
