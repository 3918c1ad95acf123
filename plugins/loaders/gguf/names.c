/* plugins/loaders/gguf/names.c: the tensors of architecture qwen35, by their names in llama.cpp's
 * files and in Hugging Face's checkpoints, with shape and meaning. One table serves both
 * directions. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plugins/loaders/common/checkpoint.h"
#include "plugins/loaders/gguf/arch.h"

#define ROOT "model.language_model."

/* Symbols of dimensions. ONE: a vector. */
enum { ONE, D, D2, F, V, HD, Q2, Q1, KV, CD, VD, NV, DV, TAPS };

typedef struct vl_gguf_name name_t;

#define T(gguf, hf, kind, ne0, ne1)                                                                \
    {                                                                                              \
        gguf, hf, kind, {ne0, ne1}, false, false, NULL                                             \
    }

static const name_t globals[] = {
    T("token_embd.weight", ROOT "embed_tokens.weight", VL_GGUF_AS_IS, D, V),
    T("output_norm.weight", ROOT "norm.weight", VL_GGUF_NORM, D, ONE),
    {"output.weight", "lm_head.weight", VL_GGUF_AS_IS, {D, V}, false, true, NULL},
};
static const name_t every[] = {
    T("attn_norm.weight", "input_layernorm.weight", VL_GGUF_NORM, D, ONE),
    T("post_attention_norm.weight", "post_attention_layernorm.weight", VL_GGUF_NORM, D, ONE),
    T("ffn_gate.weight", "mlp.gate_proj.weight", VL_GGUF_AS_IS, D, F),
    T("ffn_up.weight", "mlp.up_proj.weight", VL_GGUF_AS_IS, D, F),
    T("ffn_down.weight", "mlp.down_proj.weight", VL_GGUF_AS_IS, F, D),
};
/* attn_q: per head hd rows of query, then hd rows of its gate, in both worlds. */
static const name_t full[] = {
    T("attn_q.weight", "self_attn.q_proj.weight", VL_GGUF_AS_IS, D, Q2),
    T("attn_k.weight", "self_attn.k_proj.weight", VL_GGUF_AS_IS, D, KV),
    T("attn_v.weight", "self_attn.v_proj.weight", VL_GGUF_AS_IS, D, KV),
    T("attn_output.weight", "self_attn.o_proj.weight", VL_GGUF_AS_IS, Q1, D),
    T("attn_q_norm.weight", "self_attn.q_norm.weight", VL_GGUF_NORM, HD, ONE),
    T("attn_k_norm.weight", "self_attn.k_norm.weight", VL_GGUF_NORM, HD, ONE),
};
static const name_t linear[] = {
    T("attn_qkv.weight", "linear_attn.in_proj_qkv.weight", VL_GGUF_QKV, D, CD),
    T("attn_gate.weight", "linear_attn.in_proj_z.weight", VL_GGUF_VROWS, D, VD),
    T("ssm_alpha.weight", "linear_attn.in_proj_a.weight", VL_GGUF_HEADS, D, NV),
    T("ssm_beta.weight", "linear_attn.in_proj_b.weight", VL_GGUF_HEADS, D, NV),
    {"ssm_conv1d.weight", "linear_attn.conv1d.weight", VL_GGUF_QKV, {TAPS, CD}, true, false, NULL},
    T("ssm_a", "linear_attn.A_log", VL_GGUF_A, NV, ONE),
    {"ssm_dt.bias", "linear_attn.dt_bias", VL_GGUF_HEADS, {NV, ONE}, false, false, "ssm_dt"},
    /* The gated norm multiplies by its weight alone: nothing was added to it. */
    T("ssm_norm.weight", "linear_attn.norm.weight", VL_GGUF_AS_IS, DV, ONE),
    T("ssm_out.weight", "linear_attn.out_proj.weight", VL_GGUF_VCOLS, VD, D),
};
static const name_t nextn[] = {
    T("nextn.eh_proj.weight", "mtp.fc.weight", VL_GGUF_AS_IS, D2, D),
    T("nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight", VL_GGUF_NORM, D, ONE),
    T("nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight", VL_GGUF_NORM, D, ONE),
    T("nextn.shared_head_norm.weight", "mtp.norm.weight", VL_GGUF_NORM, D, ONE),
    {"nextn.embed_tokens.weight",
     "mtp.embed_tokens.weight",
     VL_GGUF_AS_IS,
     {D, V},
     false,
     true,
     NULL},
    {"nextn.shared_head_head.weight",
     "mtp.lm_head.weight",
     VL_GGUF_AS_IS,
     {D, V},
     false,
     true,
     NULL},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static bool same(vl_bytes have, const char *name)
{
    return name != NULL && have.len == strlen(name) && memcmp(have.ptr, name, have.len) == 0;
}

static const name_t *look(const name_t *table, size_t n, vl_bytes name)
{
    for (size_t i = 0; i < n; i++)
        if (same(name, table[i].gguf) || same(name, table[i].alias))
            return &table[i];
    return NULL;
}

static uint64_t dimension(const struct vl_gguf_model *m, int symbol)
{
    switch (symbol) {
    case D:
        return m->hidden;
    case D2:
        return 2 * m->hidden;
    case F:
        return m->inner;
    case V:
        return m->vocab;
    case HD:
        return m->head_dim;
    case Q2:
        return 2 * m->head_dim * m->nq;
    case Q1:
        return m->head_dim * m->nq;
    case KV:
        return m->head_dim * m->nkv;
    case CD:
        return 2 * m->dk * m->nk + m->dv * m->nv;
    case VD:
        return m->dv * m->nv;
    case NV:
        return m->nv;
    case DV:
        return m->dv;
    case TAPS:
        return m->taps;
    default:
        return 1;
    }
}

void vl_gguf_want_dims(const struct vl_gguf_model *m, const struct vl_gguf_name *entry,
                       uint64_t ne[2])
{
    ne[0] = dimension(m, entry->dims[0]);
    ne[1] = dimension(m, entry->dims[1]);
}

/* "blk.N." in front of *rest. A number of at most five digits: more layers than any file may have.
 */
static bool block_of(vl_bytes name, uint64_t *n, vl_bytes *rest)
{
    size_t at = 4;
    if (name.len < 7 || memcmp(name.ptr, "blk.", 4) != 0)
        return false;
    *n = 0;
    while (at < name.len && at < 9 && name.ptr[at] >= '0' && name.ptr[at] <= '9')
        *n = *n * 10 + (uint64_t)(name.ptr[at++] - '0');
    if (at == 4 || at >= name.len || name.ptr[at] != '.')
        return false;
    *rest = (vl_bytes){name.ptr + at + 1, name.len - at - 1};
    return true;
}

static bool begins(vl_bytes name, const char *prefix)
{
    size_t n = strlen(prefix);
    return name.len >= n && memcmp(name.ptr, prefix, n) == 0;
}

static vl_status unknown(vl_bytes name, const char *why, vl_error *err)
{
    return vl_error_set(err, VL_E_UNSUPPORTED, "tensor %.*s: %s", (int)name.len, name.ptr, why);
}

static vl_status in_block(const struct vl_gguf_model *m, vl_bytes name, uint64_t n, vl_bytes rest,
                          char *hf, size_t cap, const name_t **entry, vl_error *err)
{
    bool mtp = m->n_mtp != 0 && n == m->n_layers;
    if (n >= m->n_layers + m->n_mtp)
        return vl_error_set(err, VL_E_FORMAT, "tensor %.*s: block %llu, but block_count says %llu",
                            (int)name.len, name.ptr, (unsigned long long)n,
                            (unsigned long long)m->block_count);
    bool is_full = mtp || m->full[n];
    const name_t *e = look(every, COUNT(every), rest);
    if (e == NULL)
        e = is_full ? look(full, COUNT(full), rest) : look(linear, COUNT(linear), rest);
    if (e != NULL) {
        if (mtp)
            (void)snprintf(hf, cap, "mtp.layers.0.%s", e->hf);
        else
            (void)snprintf(hf, cap, ROOT "layers.%llu.%s", (unsigned long long)n, e->hf);
    } else if (mtp && (e = look(nextn, COUNT(nextn), rest)) != NULL) {
        (void)snprintf(hf, cap, "%s", e->hf);
    }
    *entry = e;
    if (e != NULL)
        return VL_OK;
    if (look(full, COUNT(full), rest) != NULL || look(linear, COUNT(linear), rest) != NULL)
        return vl_error_set(
            err, VL_E_FORMAT,
            "tensor %.*s is not one of a %s layer, which block %llu is by the metadata "
            "(full_attention_interval, attention.recurrent_layers)",
            (int)name.len, name.ptr, is_full ? "full-attention" : "linear-attention",
            (unsigned long long)n);
    return unknown(name,
                   "no layout of architecture qwen35 has it; a file of a fork, or of another kind "
                   "of quantisation",
                   err);
}

vl_status vl_gguf_to_hf(const struct vl_gguf_model *m, vl_bytes gguf, char *hf, size_t cap,
                        const struct vl_gguf_name **entry, vl_error *err)
{
    uint64_t n;
    vl_bytes rest;
    *entry = look(globals, COUNT(globals), gguf);
    if (*entry != NULL) {
        (void)snprintf(hf, cap, "%s", (*entry)->hf);
        return VL_OK;
    }
    if (block_of(gguf, &n, &rest))
        return in_block(m, gguf, n, rest, hf, cap, entry, err);
    if (begins(gguf, "v.") || begins(gguf, "mm."))
        return VL_OK; /* the vision half of an Ollama file */
    return unknown(gguf, "no layout of architecture qwen35 has it", err);
}

static vl_status missing(const struct vl_gguf_model *m, const char *gguf, const char *hf,
                         vl_error *err)
{
    return vl_error_set(err, VL_E_NOT_FOUND, "%s: tensor %s is missing (%s)", vl_ck_shown(m->file),
                        gguf, hf);
}

static vl_status check_table(const struct vl_gguf_model *m, const struct vl_gguf_set *set,
                             int64_t block, const char *prefix, const name_t *table, size_t n,
                             vl_error *err)
{
    for (size_t i = 0; i < n; i++) {
        char name[80], hf[160];
        const char *spelling[2] = {table[i].gguf, table[i].alias};
        bool there = table[i].optional;
        for (int k = 1; k >= 0 && !there; k--) {
            if (spelling[k] == NULL)
                continue;
            if (block >= 0)
                (void)snprintf(name, sizeof(name), "blk.%lld.%s", (long long)block, spelling[k]);
            else
                (void)snprintf(name, sizeof(name), "%s", spelling[k]);
            there = vl_gguf_set_find(set, name) != NULL;
        }
        if (there)
            continue;
        (void)snprintf(hf, sizeof(hf), "%s%s", prefix, table[i].hf);
        return missing(m, name, hf, err);
    }
    return VL_OK;
}

vl_status vl_gguf_check_complete(const struct vl_gguf_model *m, const struct vl_gguf_set *set,
                                 vl_error *err)
{
    vl_status rc = check_table(m, set, -1, "", globals, COUNT(globals), err);
    for (uint64_t i = 0; i < m->n_layers + m->n_mtp && rc == VL_OK; i++) {
        char prefix[64];
        bool mtp = i == m->n_layers;
        if (mtp)
            (void)snprintf(prefix, sizeof(prefix), "mtp.layers.0.");
        else
            (void)snprintf(prefix, sizeof(prefix), ROOT "layers.%llu.", (unsigned long long)i);
        rc = check_table(m, set, (int64_t)i, prefix, every, COUNT(every), err);
        if (rc == VL_OK && (mtp || m->full[i]))
            rc = check_table(m, set, (int64_t)i, prefix, full, COUNT(full), err);
        else if (rc == VL_OK)
            rc = check_table(m, set, (int64_t)i, prefix, linear, COUNT(linear), err);
        if (rc == VL_OK && mtp)
            rc = check_table(m, set, (int64_t)i, "", nextn, COUNT(nextn), err);
    }
    return rc;
}
