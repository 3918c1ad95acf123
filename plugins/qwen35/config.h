/* plugins/qwen35/config.h: a Qwen3.5 config.json, read and checked. Knows no tensor and no device.
 * [any] */
#ifndef VL_QWEN35_CONFIG_H
#define VL_QWEN35_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vallmo/abi.h"

#define VL_Q35_MAX_LAYERS 1024
#define VL_Q35_CONV_TAPS 4

/* All sizes are within the caps of config.c, so that no product below overflows. */
typedef struct vl_q35_config {
    int64_t hidden; /* H */
    int64_t inner;  /* I, of the MLP */
    int64_t n_layers;
    int64_t n_full;      /* full-attention layers */
    int64_t n_linear;    /* linear-attention layers */
    int64_t nq, nkv;     /* query and key/value heads of full attention; nq a multiple of nkv */
    int64_t head_size;   /* D, a multiple of 16, at most 256 */
    int64_t rotary;      /* R, even, at most D: channels that rope turns */
    int64_t hk, hv;      /* key and value heads of linear attention; hv a multiple of hk */
    int64_t dk, dv;      /* their sizes, multiples of 16, at most 256 */
    int64_t vocab;       /* rows of embedding and head */
    int64_t max_context; /* max_position_embeddings */
    int64_t n_mtp;       /* draft layers that the checkpoint says it has */
    double rope_theta;
    float eps;
    bool tied;      /* the head is the embedding */
    bool z_sigmoid; /* output_gate_type sigmoid: the gate of the linear layers' norm */
    uint8_t full[VL_Q35_MAX_LAYERS]; /* 1: layer i is full attention */
} vl_q35_config;

/* Derived sizes, in elements. */
static inline int64_t vl_q35_key_dim(const vl_q35_config *c)
{
    return c->hk * c->dk;
} /* KD */
static inline int64_t vl_q35_value_dim(const vl_q35_config *c)
{
    return c->hv * c->dv;
} /* VD */
static inline int64_t vl_q35_conv_dim(const vl_q35_config *c)
{
    return 2 * c->hk * c->dk + c->hv * c->dv;
} /* CD */
/* Parameters of the text model, without the draft layers. */
uint64_t vl_q35_n_parameters(const vl_q35_config *c);

/* VL_E_UNSUPPORTED: not a config of this family (or a member that is not built); VL_E_FORMAT: of
 * this family and wrong. Texts begin with "config.json: " and name the key and the values. */
vl_status vl_q35_config_parse(vl_bytes json, vl_q35_config *out, vl_error *err);

#endif
