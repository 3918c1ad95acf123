/* plugins/qwen35/weights.c: finds the model's tensors in a checkpoint and checks their shapes and
 * types. Knows names and shapes; no device, and no bytes but of what vl_q35_weight_to_f32 is given.
 */
#include "plugins/qwen35/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/common/cpu/bf16.h"

enum { NAME_CAP = 160 };

struct finder {
    const vl_q35_config *c;
    const vl_loader_api *loader;
    const vl_checkpoint *cp;
    const char *root; /* "model.language_model." or "model." */
    const char *file; /* of the first tensor, for messages */
    vl_q35_weights *w;
    vl_error *err;
};

static const char *dtype_name(int32_t dtype)
{
    static const char *const names[] = {"none", "F32",  "F16",     "BF16",   "F64", "I8",
                                        "U8",   "I16",  "U16",     "I32",    "U32", "I64",
                                        "U64",  "BOOL", "F8_E4M3", "F8_E5M2"};
    return dtype >= 0 && (size_t)dtype < sizeof(names) / sizeof(names[0]) ? names[dtype]
                                                                          : "unknown";
}

static size_t dtype_bytes(int32_t dtype)
{
    return dtype == VL_DTYPE_F32 ? 4 : 2;
}

static void shape_text(char *out, size_t cap, const int64_t *shape, int n)
{
    size_t at = 0;
    for (int i = 0; i < n && at < cap; i++) {
        int k = snprintf(out + at, cap - at, "%s%lld", i > 0 ? "," : "[", (long long)shape[i]);
        at += k > 0 ? (size_t)k : 0;
    }
    if (at < cap)
        (void)snprintf(out + at, cap - at, "]");
}

static vl_status wrong_shape(const struct finder *f, const vl_tensor *t, const int64_t *want,
                             int n_want)
{
    char have_text[96], want_text[96];
    shape_text(have_text, sizeof(have_text), t->shape, t->n_dims);
    shape_text(want_text, sizeof(want_text), want, n_want);
    return vl_error_set(f->err, VL_E_FORMAT, "%s: %s: shape %s, want %s (from config.json)",
                        t->file, t->name, have_text, want_text);
}

/* Finds name and checks it against shape want[n_want]. */
static vl_status find_named(struct finder *f, const char *name, const int64_t *want, int n_want,
                            vl_q35_weight *out)
{
    int64_t index = f->loader->find(f->cp, name);
    if (index < 0)
        return vl_error_set(f->err, VL_E_NOT_FOUND, "%s: tensor %s is missing", f->file, name);
    const vl_tensor *t = f->loader->tensor(f->cp, (uint64_t)index);
    if (t->dtype != VL_DTYPE_BF16 && t->dtype != VL_DTYPE_F32 && t->dtype != VL_DTYPE_F16)
        return vl_error_set(f->err, VL_E_UNSUPPORTED, "%s: %s: type %s, want BF16, F16 or F32",
                            t->file, name, dtype_name(t->dtype));
    bool same = t->n_dims == n_want;
    uint64_t n = 1;
    for (int i = 0; i < n_want && same; i++) {
        same = t->shape[i] == want[i];
        n *= (uint64_t)want[i];
    }
    if (!same)
        return wrong_shape(f, t, want, n_want);
    if (t->n_bytes != n * dtype_bytes(t->dtype))
        return vl_error_set(f->err, VL_E_FORMAT, "%s: %s: %llu bytes, want %llu", t->file, name,
                            (unsigned long long)t->n_bytes,
                            (unsigned long long)(n * dtype_bytes(t->dtype)));
    *out = (vl_q35_weight){.tensor = t,
                           .rows = want[0],
                           .cols = n_want == 1 ? 1 : want[n_want - 1],
                           .index = (uint64_t)index,
                           .dtype = t->dtype};
    f->w->n_tensors++;
    f->w->n_bytes += t->n_bytes;
    if (t->flags & VL_TENSOR_IN_PLACE)
        f->w->in_place_bytes += t->n_bytes;
    return VL_OK;
}

static vl_status find_matrix(struct finder *f, const char *name, int64_t rows, int64_t cols,
                             vl_q35_weight *out)
{
    int64_t want[2] = {rows, cols};
    return find_named(f, name, want, 2, out);
}

/* One tensor of a layer, by the part of its name behind "layers.N.". */
struct part {
    const char *name;
    vl_q35_weight *out;
    int64_t rows, cols; /* cols 0: a vector */
};

static vl_status find_parts(struct finder *f, int64_t layer, const struct part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[NAME_CAP];
        (void)snprintf(name, sizeof(name), "%slayers.%lld.%s", f->root, (long long)layer,
                       parts[i].name);
        int64_t want[2] = {parts[i].rows, parts[i].cols};
        vl_status rc = find_named(f, name, want, parts[i].cols == 0 ? 1 : 2, parts[i].out);
        if (rc != VL_OK)
            return rc;
    }
    return VL_OK;
}

static vl_status find_linear(struct finder *f, int64_t i, vl_q35_layer *l)
{
    const vl_q35_config *c = f->c;
    const int64_t vd = vl_q35_value_dim(c), cd = vl_q35_conv_dim(c);
    const struct part parts[] = {
        {"linear_attn.in_proj_qkv.weight", &l->qkv, cd, c->hidden},
        {"linear_attn.in_proj_z.weight", &l->z, vd, c->hidden},
        {"linear_attn.in_proj_b.weight", &l->b, c->hv, c->hidden},
        {"linear_attn.in_proj_a.weight", &l->a, c->hv, c->hidden},
        {"linear_attn.A_log", &l->a_log, c->hv, 0},
        {"linear_attn.dt_bias", &l->dt_bias, c->hv, 0},
        {"linear_attn.norm.weight", &l->gated_norm, c->dv, 0},
        {"linear_attn.out_proj.weight", &l->out, c->hidden, vd},
    };
    vl_status rc = find_parts(f, i, parts, sizeof(parts) / sizeof(parts[0]));
    if (rc != VL_OK)
        return rc;
    char name[NAME_CAP];
    (void)snprintf(name, sizeof(name), "%slayers.%lld.linear_attn.conv1d.weight", f->root,
                   (long long)i);
    const int64_t conv[3] = {cd, 1, VL_Q35_CONV_TAPS};
    return find_named(f, name, conv, 3, &l->conv);
}

static vl_status find_full(struct finder *f, int64_t i, vl_q35_layer *l)
{
    const vl_q35_config *c = f->c;
    const int64_t d = c->head_size;
    const struct part parts[] = {
        {"self_attn.q_proj.weight", &l->q, 2 * c->nq * d, c->hidden},
        {"self_attn.k_proj.weight", &l->k, c->nkv * d, c->hidden},
        {"self_attn.v_proj.weight", &l->v, c->nkv * d, c->hidden},
        {"self_attn.q_norm.weight", &l->q_norm, d, 0},
        {"self_attn.k_norm.weight", &l->k_norm, d, 0},
        {"self_attn.o_proj.weight", &l->out, c->hidden, c->nq * d},
    };
    return find_parts(f, i, parts, sizeof(parts) / sizeof(parts[0]));
}

static vl_status find_layer(struct finder *f, int64_t i)
{
    const vl_q35_config *c = f->c;
    vl_q35_layer *l = &f->w->layers[i];
    const struct part parts[] = {
        {"input_layernorm.weight", &l->input_norm, c->hidden, 0},
        {"post_attention_layernorm.weight", &l->post_norm, c->hidden, 0},
        {"mlp.gate_proj.weight", &l->gate, c->inner, c->hidden},
        {"mlp.up_proj.weight", &l->up, c->inner, c->hidden},
        {"mlp.down_proj.weight", &l->down, c->hidden, c->inner},
    };
    vl_status rc = c->full[i] ? find_full(f, i, l) : find_linear(f, i, l);
    if (rc == VL_E_NOT_FOUND &&
        f->err != NULL) { /* the other kind's tensors are there: the config lies */
        char name[NAME_CAP];
        (void)snprintf(name, sizeof(name), "%slayers.%lld.%s", f->root, (long long)i,
                       c->full[i] ? "linear_attn.in_proj_qkv.weight" : "self_attn.q_proj.weight");
        if (f->loader->find(f->cp, name) >= 0)
            return vl_error_set(
                f->err, VL_E_FORMAT,
                "%s: layers.%lld is %s by config.json's layer_types, but the file has %s", f->file,
                (long long)i, c->full[i] ? "full_attention" : "linear_attention", name);
    }
    return rc == VL_OK ? find_parts(f, i, parts, sizeof(parts) / sizeof(parts[0])) : rc;
}

/* The prefix of the text tensors. Other conversions changed values as well as names, so they are
 * refused. */
static vl_status find_root(struct finder *f)
{
    static const char *const roots[] = {"model.language_model.", "model."};
    const vl_tensor *first = f->loader->tensor(f->cp, 0);
    if (first == NULL)
        return vl_error_set(
            f->err, VL_E_FORMAT,
            "the checkpoint has no tensors; want model.language_model.embed_tokens.weight");
    f->file = first->file;
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
        char name[NAME_CAP];
        (void)snprintf(name, sizeof(name), "%sembed_tokens.weight", roots[i]);
        if (f->loader->find(f->cp, name) >= 0) {
            f->root = roots[i];
            return VL_OK;
        }
    }
    if (f->loader->find(f->cp, "language_model.model.embed_tokens.weight") >= 0)
        return vl_error_set(
            f->err, VL_E_UNSUPPORTED,
            "%s: tensors are named language_model.model.…: an MLX conversion, whose values differ; "
            "use the original checkpoint",
            f->file);
    return vl_error_set(f->err, VL_E_NOT_FOUND,
                        "%s: tensor model.language_model.embed_tokens.weight is missing", f->file);
}

static vl_status find_ends(struct finder *f)
{
    const vl_q35_config *c = f->c;
    char name[NAME_CAP];
    (void)snprintf(name, sizeof(name), "%sembed_tokens.weight", f->root);
    vl_status rc = find_matrix(f, name, c->vocab, c->hidden, &f->w->embed);
    if (rc != VL_OK)
        return rc;
    (void)snprintf(name, sizeof(name), "%snorm.weight", f->root);
    rc = find_named(f, name, &c->hidden, 1, &f->w->norm);
    if (rc != VL_OK)
        return rc;
    int64_t head = f->loader->find(f->cp, "lm_head.weight");
    if (c->tied) {
        f->w->head = f->w->embed;
        return head < 0 ? VL_OK
                        : vl_error_set(f->err, VL_E_FORMAT,
                                       "%s: lm_head.weight is there, but config.json says "
                                       "tie_word_embeddings true",
                                       f->loader->tensor(f->cp, (uint64_t)head)->file);
    }
    if (head < 0)
        return vl_error_set(
            f->err, VL_E_NOT_FOUND,
            "%s: tensor lm_head.weight is missing, and config.json says tie_word_embeddings false",
            f->file);
    return find_matrix(f, "lm_head.weight", c->vocab, c->hidden, &f->w->head);
}

vl_status vl_q35_weights_find(const vl_q35_config *c, const vl_loader_api *loader,
                              const vl_checkpoint *cp, vl_q35_weights *out, vl_error *err)
{
    vl_q35_weights w;
    memset(&w, 0, sizeof(w));
    struct finder f = {.c = c, .loader = loader, .cp = cp, .w = &w, .err = err};
    vl_status rc = find_root(&f);
    if (rc != VL_OK)
        return rc;
    w.layers = calloc((size_t)c->n_layers, sizeof(*w.layers));
    if (w.layers == NULL)
        return vl_error_set(err, VL_E_NOMEM, "no memory for the list of %lld layers",
                            (long long)c->n_layers);
    rc = find_ends(&f);
    for (int64_t i = 0; rc == VL_OK && i < c->n_layers; i++)
        rc = find_layer(&f, i);
    if (rc != VL_OK) {
        vl_q35_weights_fini(&w);
        return rc;
    }
    *out = w;
    return VL_OK;
}

static vl_status map_one(const vl_loader_api *loader, vl_checkpoint *cp, vl_q35_weight *w,
                         vl_error *err)
{
    if (w->tensor == NULL)
        return VL_OK;
    w->data = loader->data(cp, w->index, err);
    if (w->data != NULL)
        return VL_OK;
    return err != NULL && err->status != VL_OK ? err->status : VL_E_IO;
}

vl_status vl_q35_weights_map(const vl_q35_config *c, const vl_loader_api *loader, vl_checkpoint *cp,
                             vl_q35_weights *w, vl_error *err)
{
    vl_q35_weight *ends[] = {&w->embed, &w->norm, &w->head};
    vl_error local = {0};
    if (err == NULL)
        err = &local;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        vl_status rc = map_one(loader, cp, ends[i], err);
        if (rc != VL_OK)
            return rc;
    }
    for (int64_t i = 0; i < c->n_layers; i++) {
        vl_q35_weight *all = (vl_q35_weight *)&w->layers[i];
        for (size_t k = 0; k < sizeof(vl_q35_layer) / sizeof(vl_q35_weight); k++) {
            vl_status rc = map_one(loader, cp, &all[k], err);
            if (rc != VL_OK)
                return rc;
        }
    }
    return VL_OK;
}

void vl_q35_weights_fini(vl_q35_weights *w)
{
    free(w->layers);
    memset(w, 0, sizeof(*w));
}

void vl_q35_weight_to_f32(const vl_q35_weight *w, float *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (w->dtype == VL_DTYPE_F32) {
            memcpy(&out[i], (const char *)w->data + 4 * i, sizeof(float));
            continue;
        }
        uint16_t h;
        memcpy(&h, (const char *)w->data + 2 * i, sizeof(h));
        out[i] = w->dtype == VL_DTYPE_BF16 ? bf16_to_f32(h) : f16_to_f32(h);
    }
}
