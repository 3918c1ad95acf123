/* plugins/loaders/gguf/checkpoint.c: what kind of file it is, which of its tensors is which, and
 * what their bytes need. The order of value heads (prefer) decides which tensors stay views into
 * the mapping. */
#include "plugins/loaders/gguf/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/loaders/gguf/convert.h"

typedef unsigned long long ull;

struct vl_gguf_priv *vl_gguf_priv_create(vl_error *err)
{
    struct vl_gguf_priv *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        (void)vl_error_set(err, VL_E_NOMEM, "gguf: out of memory");
        return NULL;
    }
    vl_gguf_set_init(&p->set);
    return p;
}

void vl_gguf_priv_free(void *priv)
{
    struct vl_gguf_priv *p = priv;
    if (p == NULL)
        return;
    vl_gguf_vocab_fini(&p->vocab);
    vl_gguf_set_fini(&p->set);
    free(p);
}

/* ---- what kind of file ---- */

static bool is_text(vl_bytes s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

static int shown(vl_bytes s)
{
    return s.len > 80 ? 80 : (int)s.len;
}

static vl_status check_kind(const struct vl_gguf_file *g, vl_error *err)
{
    bool has_arch, has_type;
    vl_bytes arch = {NULL, 0}, type = {NULL, 0};
    vl_status rc = vl_gguf_string(g, "general.architecture", &arch, &has_arch, err);
    if (rc == VL_OK)
        rc = vl_gguf_string(g, "general.type", &type, &has_type, err);
    if (rc != VL_OK)
        return rc;
    if ((has_type && is_text(type, "mmproj")) || (has_arch && is_text(arch, "clip")))
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "this is the mmproj file (a vision projector, architecture \"%.*s\"); "
                            "pass the model file",
                            shown(arch), has_arch ? arch.ptr : "");
    if (has_type && !is_text(type, "model"))
        return vl_error_set(err, VL_E_UNSUPPORTED, "key general.type: \"%.*s\", want \"model\"",
                            shown(type), type.ptr);
    if (!has_arch)
        return vl_error_set(err, VL_E_FORMAT, "key general.architecture is missing");
    if (!is_text(arch, "qwen35"))
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "key general.architecture: \"%.*s\" is not supported, qwen35 is",
                            shown(arch), arch.ptr);
    for (size_t i = 0; i < g->n_kvs; i++)
        if (g->kvs[i].key.len >= 15 && memcmp(g->kvs[i].key.ptr, "prism.hadamard.", 15) == 0)
            return vl_error_set(err, VL_E_UNSUPPORTED,
                                "key %.*s: weights in a rotated basis are not supported",
                                shown(g->kvs[i].key), g->kvs[i].key.ptr);
    return VL_OK;
}

/* ---- tensors ---- */

static int32_t dtype_of(uint32_t ggml_type)
{
    switch (ggml_type) {
    case 0:
        return VL_DTYPE_F32;
    case 1:
        return VL_DTYPE_F16;
    case 30:
        return VL_DTYPE_BF16;
    case 24:
        return VL_DTYPE_I8;
    case 25:
        return VL_DTYPE_I16;
    case 26:
        return VL_DTYPE_I32;
    case 27:
        return VL_DTYPE_I64;
    case 28:
        return VL_DTYPE_F64;
    default:
        return VL_DTYPE_NONE;
    }
}

/* F32, F16 and BF16 alone; the message says how much of the file is of another type. */
static vl_status check_type(const struct vl_gguf_set *set, const struct vl_gguf_tensor *t,
                            vl_error *err)
{
    uint64_t others = 0;
    if (t->type == 0 || t->type == 1 || t->type == 30)
        return VL_OK;
    for (size_t f = 0; f < set->n_files; f++)
        for (size_t i = 0; i < set->files[f].n_tensors; i++) {
            uint32_t type = set->files[f].tensors[i].type;
            others += type != 0 && type != 1 && type != 30;
        }
    return vl_error_set(err, VL_E_UNSUPPORTED,
                        "tensor %.*s: type %s (%u) is not supported, F32, F16 and BF16 are (%llu "
                        "of %llu tensors are of other types)",
                        (int)t->name.len, t->name.ptr, vl_ggml_type_of(t->type)->name, t->type,
                        (ull)others, (ull)set->n_tensors);
}

static vl_status check_shape(const struct vl_gguf_model *m, const struct vl_gguf_tensor *t,
                             const struct vl_gguf_name *e, const char *hf, vl_error *err)
{
    uint64_t want[2];
    vl_gguf_want_dims(m, e, want);
    if (t->dims[0] == want[0] && t->dims[1] == want[1] && t->dims[2] == 1 && t->dims[3] == 1)
        return VL_OK;
    char have[100];
    size_t at = 0;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        int k =
            snprintf(have + at, sizeof(have) - at, "%s%llu", i > 0 ? ", " : "", (ull)t->dims[i]);
        at += k > 0 ? (size_t)k : 0;
    }
    if (e->dims[1] == 0)
        return vl_error_set(err, VL_E_FORMAT,
                            "tensor %.*s (%s): shape {%s}, the metadata want {%llu}",
                            (int)t->name.len, t->name.ptr, hf, have, (ull)want[0]);
    return vl_error_set(err, VL_E_FORMAT,
                        "tensor %.*s (%s): shape {%s}, the metadata want {%llu, %llu}",
                        (int)t->name.len, t->name.ptr, hf, have, (ull)want[0], (ull)want[1]);
}

/* The same bytes, slowest axis first. */
static void hf_shape(const struct vl_gguf_tensor *t, const struct vl_gguf_name *e, vl_tensor *out)
{
    for (int i = 0; i < 4; i++)
        out->shape[i] = 1;
    if (e == NULL) { /* a tensor that is only listed */
        out->n_dims = (int32_t)t->n_dims;
        for (uint32_t i = 0; i < t->n_dims; i++)
            out->shape[i] = (int64_t)t->dims[t->n_dims - 1 - i];
    } else if (e->conv) {
        out->n_dims = 3;
        out->shape[0] = (int64_t)t->dims[1];
        out->shape[2] = (int64_t)t->dims[0];
    } else if (e->dims[1] == 0) {
        out->n_dims = 1;
        out->shape[0] = (int64_t)t->dims[0];
    } else {
        out->n_dims = 2;
        out->shape[0] = (int64_t)t->dims[1];
        out->shape[1] = (int64_t)t->dims[0];
    }
}

static bool follows_heads(uint32_t kind)
{
    return kind == VL_GGUF_HEADS || kind == VL_GGUF_VROWS || kind == VL_GGUF_QKV ||
           kind == VL_GGUF_VCOLS;
}

/* Values that were changed are always converted; those that only lie in another order, when that is
 * wanted. */
static void set_flags(const vl_checkpoint *c, struct vl_ck_tensor *t)
{
    const struct vl_gguf_priv *p = c->priv;
    bool untile = p->model.tiled && c->heads == VL_ORDER_GROUPED;
    bool converted =
        t->kind == VL_GGUF_NORM || t->kind == VL_GGUF_A || (untile && follows_heads(t->kind));
    t->pub.flags = converted ? 0 : VL_TENSOR_IN_PLACE;
}

static vl_status add_tensor(vl_checkpoint *c, size_t file, const struct vl_gguf_tensor *t,
                            vl_error *err)
{
    struct vl_gguf_priv *p = c->priv;
    const struct vl_gguf_name *e = NULL;
    struct vl_ck_tensor *out = NULL;
    char hf[160];
    vl_tensor shape;
    memset(&shape, 0, sizeof(shape));
    vl_status rc = vl_gguf_to_hf(&p->model, t->name, hf, sizeof(hf), &e, err);
    if (rc == VL_OK && e != NULL)
        rc = check_type(&p->set, t, err);
    if (rc == VL_OK && e != NULL)
        rc = check_shape(&p->model, t, e, hf, err);
    if (rc != VL_OK) {
        (void)vl_error_prefix(err, "%s", vl_ck_shown(c->files[file].path));
        return rc;
    }
    hf_shape(t, e, &shape);
    shape.dtype = dtype_of(t->type);
    shape.offset = t->offset;
    shape.n_bytes = t->n_bytes;
    if (e != NULL && (e->kind == VL_GGUF_NORM || e->kind == VL_GGUF_A)) {
        shape.dtype = VL_DTYPE_F32;
        shape.n_bytes = t->dims[0] * sizeof(float);
    }
    if (e != NULL)
        rc = vl_ck_add(c, file, hf, strlen(hf), t->name.ptr, t->name.len, &shape, &out, err);
    else
        rc = vl_ck_add(c, file, t->name.ptr, t->name.len, NULL, 0, &shape, &out, err);
    if (rc != VL_OK)
        return rc;
    out->kind = e != NULL ? e->kind : VL_GGUF_AS_IS;
    set_flags(c, out);
    return VL_OK;
}

/* ---- bytes ---- */

static uint64_t element_bytes(int32_t dtype)
{
    return dtype == VL_DTYPE_F32 ? 4 : 2;
}

/* Values first (norms, A_log), then the order of heads. */
static vl_status fill(const vl_checkpoint *c, const struct vl_ck_tensor *t, void *dst,
                      vl_error *err)
{
    const struct vl_gguf_priv *p = c->priv;
    const struct vl_gguf_model *m = &p->model;
    uint64_t esize = element_bytes(t->pub.dtype), kd2 = 2 * m->dk * m->nk;
    uint64_t n = (uint64_t)t->pub.shape[0], row = t->pub.n_bytes / n;
    bool untile = m->tiled && c->heads == VL_ORDER_GROUPED;
    vl_status rc = VL_OK;

    switch (t->kind) {
    case VL_GGUF_NORM:
    case VL_GGUF_A: {
        const struct vl_gguf_tensor *src = vl_gguf_set_find(&p->set, t->pub.source_name);
        int32_t dtype = dtype_of(src->type);
        uint64_t from = element_bytes(dtype);
        for (uint64_t h = 0; h < n; h++) {
            uint64_t slot =
                t->kind == VL_GGUF_A && untile ? vl_gguf_slot_of_head(h, m->nk, m->nv) : h;
            vl_gguf_widen((float *)dst + h, t->src + slot * from, dtype, 1);
        }
        if (t->kind == VL_GGUF_NORM)
            vl_gguf_norm(dst, n);
        else
            rc = vl_gguf_a_log(dst, n, err);
        if (rc != VL_OK)
            (void)vl_error_prefix(err, "%s: tensor %s", vl_ck_shown(t->pub.file),
                                  t->pub.source_name);
        break;
    }
    case VL_GGUF_HEADS:
        vl_gguf_untile(dst, t->src, 0, row, m->nk, m->nv);
        break;
    case VL_GGUF_VROWS:
        vl_gguf_untile(dst, t->src, 0, m->dv * row, m->nk, m->nv);
        break;
    case VL_GGUF_QKV:
        vl_gguf_untile(dst, t->src, kd2 * row, m->dv * row, m->nk, m->nv);
        break;
    case VL_GGUF_VCOLS:
        for (uint64_t i = 0; i < n; i++)
            vl_gguf_untile((uint8_t *)dst + i * row, t->src + i * row, 0, m->dv * esize, m->nk,
                           m->nv);
        break;
    default:
        memcpy(dst, t->src, t->pub.n_bytes);
    }
    return rc;
}

static vl_status order(vl_checkpoint *c, int32_t heads, vl_error *err)
{
    const struct vl_gguf_priv *p = c->priv;
    (void)err;
    c->heads = heads == VL_HEADS_FILE && p->model.tiled ? VL_ORDER_TILED : VL_ORDER_GROUPED;
    for (size_t i = 0; i < c->n_tensors; i++)
        set_flags(c, &c->tensors[i]);
    return VL_OK;
}

/* ---- texts ---- */

static vl_status copy_text(const struct vl_gguf_file *g, const char *key, vl_buf *out,
                           vl_error *err)
{
    vl_bytes text = {NULL, 0};
    bool found;
    vl_status rc = vl_gguf_string(g, key, &text, &found, err);
    if (rc != VL_OK || !found || text.len == 0)
        return rc;
    vl_buf_append(out, text.ptr, text.len);
    return out->failed ? vl_error_set(err, VL_E_NOMEM, "key %s: out of memory", key) : VL_OK;
}

static vl_status make_texts(vl_checkpoint *c, struct vl_gguf_priv *p, vl_error *err)
{
    const struct vl_gguf_file *g = &p->set.files[0];
    vl_status rc = vl_gguf_config_json(&p->model, &c->texts[VL_TEXT_CONFIG], err);
    if (rc == VL_OK)
        rc = vl_gguf_generation_json(&p->set, &c->texts[VL_TEXT_GENERATION_CONFIG], err);
    if (rc == VL_OK)
        rc = copy_text(g, "tokenizer.huggingface.json", &c->texts[VL_TEXT_TOKENIZER], err);
    if (rc == VL_OK)
        rc = copy_text(g, "tokenizer.chat_template", &c->texts[VL_TEXT_CHAT_TEMPLATE], err);
    return rc;
}

vl_status vl_gguf_build(vl_checkpoint *c, const char *pre, char *note, size_t cap, vl_error *err)
{
    struct vl_gguf_priv *p = c->priv;
    const struct vl_gguf_file *g = &p->set.files[0];
    c->fill = fill;
    c->order = order;
    note[0] = '\0';
    vl_status rc = check_kind(g, err);
    if (rc == VL_OK)
        rc = vl_gguf_model_read(&p->set, &p->model, err);
    if (rc == VL_OK)
        rc = make_texts(c, p, err);
    if (rc == VL_OK && (c->texts[VL_TEXT_TOKENIZER].ptr == NULL ||
                        vl_gguf_find(g, "tokenizer.ggml.tokens") != NULL)) {
        rc = vl_gguf_vocab_read(g, p->set.paths[0], p->model.vocab, pre, &p->vocab, err);
        if (rc == VL_OK)
            c->vocab = &p->vocab.pub;
    }
    if (rc != VL_OK) {
        (void)vl_error_prefix(err, "%s", vl_ck_shown(p->set.paths[0]));
        return rc;
    }
    for (size_t f = 0; f < p->set.n_files && rc == VL_OK; f++)
        for (size_t i = 0; i < p->set.files[f].n_tensors && rc == VL_OK; i++)
            rc = add_tensor(c, f, &p->set.files[f].tensors[i], err);
    if (rc == VL_OK)
        rc = vl_gguf_check_complete(&p->model, &p->set, err);
    if (rc == VL_OK && p->model.mtp_declared && p->model.n_mtp == 0)
        (void)snprintf(
            note, cap,
            "mtp=declared tensors=none block=%llu: the file has no draft head, and none is used",
            (ull)p->model.n_layers);
    return rc;
}
