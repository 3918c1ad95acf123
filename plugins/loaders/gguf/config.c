/* plugins/loaders/gguf/config.c: metadata of architecture qwen35, checked, and as the config.json
 * that says the same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "plugins/loaders/gguf/arch.h"

#define A "qwen35."

typedef unsigned long long ull;

enum { REQUIRED = 1 };

static const struct key {
    const char *name;
    size_t at; /* of the uint64_t in vl_gguf_model */
    uint64_t min, max;
    int flags;
} keys[] = {
    {A "block_count", offsetof(struct vl_gguf_model, block_count), 1, VL_GGUF_MAX_LAYERS, REQUIRED},
    {A "embedding_length", offsetof(struct vl_gguf_model, hidden), 1, 65536, REQUIRED},
    {A "feed_forward_length", offsetof(struct vl_gguf_model, inner), 1, 1 << 20, REQUIRED},
    {A "context_length", offsetof(struct vl_gguf_model, context), 1, 1 << 24, 0},
    {A "attention.key_length", offsetof(struct vl_gguf_model, head_dim), 1, 4096, REQUIRED},
    {A "rope.dimension_count", offsetof(struct vl_gguf_model, rotary), 2, 4096, REQUIRED},
    {A "ssm.conv_kernel", offsetof(struct vl_gguf_model, taps), 1, 64, REQUIRED},
    {A "ssm.state_size", offsetof(struct vl_gguf_model, dk), 1, 4096, REQUIRED},
    {A "ssm.group_count", offsetof(struct vl_gguf_model, nk), 1, 1024, REQUIRED},
    {A "ssm.time_step_rank", offsetof(struct vl_gguf_model, nv), 1, 1024, REQUIRED},
};

static vl_status absent(const char *key, vl_error *err)
{
    return vl_error_set(err, VL_E_FORMAT, "key %s is missing", key);
}

/* A scalar, or (Ollama) an array with one value a block, 0 for the linear ones; all others must
 * agree. */
static vl_status read_heads(const struct vl_gguf_file *g, const char *key, uint64_t blocks,
                            uint64_t *out, vl_error *err)
{
    const struct vl_gguf_kv *kv = vl_gguf_find(g, key);
    bool found;
    if (kv == NULL)
        return absent(key, err);
    if (kv->type != VL_GGUF_ARRAY)
        return vl_gguf_u64(g, key, 1, 1024, out, &found, err);
    vl_status rc = vl_gguf_array(g, key, VL_GGUF_ARRAY, &kv, err);
    if (rc != VL_OK)
        return rc;
    if (kv->count != blocks)
        return vl_error_set(err, VL_E_FORMAT, "key %s: array of %llu values, block_count is %llu",
                            key, (ull)kv->count, (ull)blocks);
    *out = 0;
    for (uint64_t i = 0; i < kv->count; i++) {
        int64_t x;
        if (!vl_gguf_int_at(kv, i, &x) || x < 0 || x > 1024)
            return vl_error_set(err, VL_E_FORMAT,
                                "key %s: value %llu is out of range, want 0 to 1024", key, (ull)i);
        if (x != 0 && *out != 0 && (uint64_t)x != *out)
            return vl_error_set(err, VL_E_UNSUPPORTED,
                                "key %s: %llu and %lld heads in one model are not supported", key,
                                (ull)*out, (long long)x);
        if (x != 0)
            *out = (uint64_t)x;
    }
    return *out != 0 ? VL_OK : vl_error_set(err, VL_E_FORMAT, "key %s: all values are 0", key);
}

static vl_status read_sizes(const struct vl_gguf_file *g, struct vl_gguf_model *m, vl_error *err)
{
    bool found;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const struct key *k = &keys[i];
        vl_status rc =
            vl_gguf_u64(g, k->name, k->min, k->max, (uint64_t *)((char *)m + k->at), &found, err);
        if (rc != VL_OK)
            return rc;
        if (!found && (k->flags & REQUIRED))
            return absent(k->name, err);
    }
    vl_status rc = read_heads(g, A "attention.head_count", m->block_count, &m->nq, err);
    if (rc == VL_OK)
        rc = read_heads(g, A "attention.head_count_kv", m->block_count, &m->nkv, err);
    uint64_t value_length = m->head_dim, inner_size = 0;
    if (rc == VL_OK)
        rc = vl_gguf_u64(g, A "attention.value_length", 1, 4096, &value_length, &found, err);
    if (rc == VL_OK)
        rc = vl_gguf_u64(g, A "ssm.inner_size", 1, 1 << 22, &inner_size, &found, err);
    if (rc != VL_OK)
        return rc;
    if (!found)
        return absent(A "ssm.inner_size", err);
    if (value_length != m->head_dim)
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "key " A "attention.value_length: %llu, but key_length is %llu",
                            (ull)value_length, (ull)m->head_dim);
    if (inner_size % m->nv != 0)
        return vl_error_set(err, VL_E_FORMAT,
                            "key " A
                            "ssm.inner_size: %llu is no multiple of ssm.time_step_rank %llu",
                            (ull)inner_size, (ull)m->nv);
    m->dv = inner_size / m->nv;
    if (m->nv % m->nk != 0)
        return vl_error_set(err, VL_E_FORMAT,
                            "key " A
                            "ssm.time_step_rank: %llu is no multiple of ssm.group_count %llu",
                            (ull)m->nv, (ull)m->nk);
    if (m->nq % m->nkv != 0)
        return vl_error_set(err, VL_E_FORMAT,
                            "key " A
                            "attention.head_count: %llu is no multiple of head_count_kv %llu",
                            (ull)m->nq, (ull)m->nkv);
    if (m->rotary > m->head_dim || m->rotary % 2 != 0)
        return vl_error_set(err, VL_E_FORMAT,
                            "key " A
                            "rope.dimension_count: %llu, want an even number up to key_length %llu",
                            (ull)m->rotary, (ull)m->head_dim);
    return VL_OK;
}

static vl_status read_rope(const struct vl_gguf_file *g, struct vl_gguf_model *m, vl_error *err)
{
    bool found;
    const struct vl_gguf_kv *kv;
    vl_status rc = vl_gguf_f64(g, A "rope.freq_base", &m->theta, &found, err);
    if (rc == VL_OK && !found)
        rc = absent(A "rope.freq_base", err);
    if (rc == VL_OK)
        rc = vl_gguf_f64(g, A "attention.layer_norm_rms_epsilon", &m->eps, &found, err);
    if (rc == VL_OK && !found)
        rc = absent(A "attention.layer_norm_rms_epsilon", err);
    if (rc == VL_OK)
        rc = vl_gguf_string(g, A "rope.scaling.type", &m->rope_scaling, &found, err);
    if (rc == VL_OK)
        rc = vl_gguf_array(g, A "rope.dimension_sections", VL_GGUF_ARRAY, &kv, err);
    if (rc != VL_OK)
        return rc;
    if (m->rope_scaling.len == 4 && memcmp(m->rope_scaling.ptr, "none", 4) == 0)
        m->rope_scaling = (vl_bytes){NULL, 0};
    if (kv == NULL) { /* what all released models have */
        m->has_sections = m->rotary == 64;
        m->sections[0] = m->sections[1] = 11;
        m->sections[2] = 10;
        return VL_OK;
    }
    if (kv->count < 3 || kv->count > 4)
        return vl_error_set(err, VL_E_FORMAT,
                            "key " A "rope.dimension_sections: %llu values, want 3 or 4",
                            (ull)kv->count);
    m->has_sections = true;
    for (uint64_t i = 0; i < kv->count; i++) {
        int64_t x;
        if (!vl_gguf_int_at(kv, i, &x) || x < 0 || (uint64_t)x > m->rotary || (i == 3 && x != 0))
            return vl_error_set(err, VL_E_FORMAT,
                                "key " A "rope.dimension_sections: value %llu is out of range",
                                (ull)i);
        m->sections[i] = (uint64_t)x;
    }
    return VL_OK;
}

static bool has_block_tensor(const struct vl_gguf_set *set, uint64_t block)
{
    static const char *const any[] = {
        "attn_norm.weight",   "nextn.eh_proj.weight", "post_attention_norm.weight",
        "nextn.hnorm.weight", "ffn_gate.weight",      "ffn_up.weight",
        "ffn_down.weight",    "attn_q.weight",        "attn_qkv.weight"};
    for (size_t i = 0; i < sizeof(any) / sizeof(any[0]); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "blk.%llu.%s", (ull)block, any[i]);
        if (vl_gguf_set_find(set, name) != NULL)
            return true;
    }
    return false;
}

/* A draft head comes declared and there, declared and left out, or alone in a file that has no
 * trunk. */
static vl_status read_mtp(const struct vl_gguf_set *set, struct vl_gguf_model *m, vl_error *err)
{
    bool found;
    uint64_t n = 0;
    vl_status rc = vl_gguf_u64(&set->files[0], A "nextn_predict_layers", 0, 1, &n, &found, err);
    if (rc != VL_OK)
        return rc;
    if (n >= m->block_count)
        return vl_error_set(err, VL_E_FORMAT,
                            "key " A "nextn_predict_layers: %llu, but block_count is %llu", (ull)n,
                            (ull)m->block_count);
    m->n_layers = m->block_count - n;
    m->mtp_declared = n != 0;
    m->n_mtp = n != 0 && has_block_tensor(set, m->n_layers);
    if (m->n_mtp != 0 && !has_block_tensor(set, 0))
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "is a draft-head (MTP) file: it has block %llu alone, and needs the "
                            "base model; pass the model file",
                            (ull)m->n_layers);
    return VL_OK;
}

static vl_status read_layers(const struct vl_gguf_file *g, struct vl_gguf_model *m, vl_error *err)
{
    bool found;
    uint64_t interval = 4;
    const struct vl_gguf_kv *kv;
    vl_status rc =
        vl_gguf_u64(g, A "full_attention_interval", 1, VL_GGUF_MAX_LAYERS, &interval, &found, err);
    if (rc == VL_OK)
        rc = vl_gguf_array(g, A "attention.recurrent_layers", VL_GGUF_ARRAY, &kv, err);
    if (rc != VL_OK)
        return rc;
    if (kv != NULL && kv->count != m->block_count)
        return vl_error_set(err, VL_E_FORMAT,
                            "key " A
                            "attention.recurrent_layers: array of %llu values, block_count is %llu",
                            (ull)kv->count, (ull)m->block_count);
    for (uint64_t i = 0; i < m->n_layers; i++) {
        int64_t x = 0;
        if (kv != NULL && (!vl_gguf_int_at(kv, i, &x) || x < 0 || x > 1))
            return vl_error_set(
                err, VL_E_FORMAT,
                "key " A "attention.recurrent_layers: value %llu is neither 0 nor 1", (ull)i);
        m->full[i] = kv != NULL ? x == 0 : (i + 1) % interval == 0;
    }
    return VL_OK;
}

static vl_status read_vocab_size(const struct vl_gguf_set *set, struct vl_gguf_model *m,
                                 vl_error *err)
{
    bool found;
    uint64_t said = 0;
    const struct vl_gguf_tensor *embed = vl_gguf_set_find(set, "token_embd.weight");
    if (embed == NULL)
        return vl_error_set(
            err, VL_E_NOT_FOUND,
            "tensor token_embd.weight is missing (model.language_model.embed_tokens.weight)");
    m->vocab = embed->dims[1];
    m->tied = vl_gguf_set_find(set, "output.weight") == NULL;
    if (m->vocab > 1 << 24)
        return vl_error_set(err, VL_E_FORMAT,
                            "tensor token_embd.weight: %llu rows, at most %d are taken",
                            (ull)m->vocab, 1 << 24);
    vl_status rc = vl_gguf_u64(&set->files[0], A "vocab_size", 1, 1 << 24, &said, &found, err);
    if (rc == VL_OK && found && said != m->vocab)
        rc = vl_error_set(err, VL_E_FORMAT,
                          "key " A "vocab_size: %llu, but token_embd.weight has %llu rows",
                          (ull)said, (ull)m->vocab);
    return rc;
}

vl_status vl_gguf_model_read(const struct vl_gguf_set *set, struct vl_gguf_model *out,
                             vl_error *err)
{
    const struct vl_gguf_file *g = &set->files[0];
    bool found, tiled = true;
    memset(out, 0, sizeof(*out));
    out->file = set->paths[0];
    vl_status rc = read_sizes(g, out, err);
    if (rc == VL_OK)
        rc = read_rope(g, out, err);
    if (rc == VL_OK)
        rc = read_mtp(set, out, err);
    if (rc == VL_OK)
        rc = read_layers(g, out, err);
    if (rc == VL_OK)
        rc = read_vocab_size(set, out, err);
    if (rc == VL_OK)
        rc = vl_gguf_bool(g, A "ssm.v_head_reordered", &tiled, &found, err);
    out->tiled =
        tiled && out->nk != out->nv; /* with one value head a key head both orders are the same */
    return rc;
}

/* ---- as JSON ---- */

static void put_u64(vl_buf *b, const char *name, uint64_t x)
{
    vl_buf_printf(b, "\"%s\": %llu, ", name, (ull)x);
}

/* A value that was an f32 in the file is written as the short decimal that it came from: 1e-06, not
 * the double next to it. */
static void put_float(vl_buf *b, const char *name, double x)
{
    double best = x, scale = 1;
    for (int k = 0; k <= 12 && x == (double)(float)x; k++, scale *= 10) {
        double candidate = nearbyint(x * scale) / scale;
        if ((float)candidate == (float)x) {
            best = candidate;
            break;
        }
    }
    vl_buf_printf(b, "\"%s\": ", name);
    vl_json_put_f64(b, best);
}

static void put_rope(vl_buf *b, const struct vl_gguf_model *m)
{
    vl_buf_puts(b, "\"rope_parameters\": {\"rope_type\": ");
    if (m->rope_scaling.len > 0)
        vl_json_put_str(b, m->rope_scaling.ptr, m->rope_scaling.len);
    else
        vl_buf_puts(b, "\"default\"");
    vl_buf_puts(b, ", ");
    put_float(b, "rope_theta", m->theta);
    /* Readers truncate head_dim * factor: take the factor whose product does not fall below. */
    double part = (double)m->rotary / (double)m->head_dim;
    while ((uint64_t)(part * (double)m->head_dim) < m->rotary)
        part = nextafter(part, 2.0);
    vl_buf_puts(b, ", \"partial_rotary_factor\": ");
    vl_json_put_f64(b, part);
    vl_buf_puts(b, ", \"mrope_interleaved\": true");
    if (m->has_sections)
        vl_buf_printf(b, ", \"mrope_section\": [%llu, %llu, %llu]", (ull)m->sections[0],
                      (ull)m->sections[1], (ull)m->sections[2]);
    vl_buf_puts(b, "}, ");
}

vl_status vl_gguf_config_json(const struct vl_gguf_model *m, vl_buf *b, vl_error *err)
{
    const char *tied = m->tied ? "true" : "false";
    vl_buf_puts(b, "{\"architectures\": [\"Qwen3_5ForConditionalGeneration\"], \"model_type\": "
                   "\"qwen3_5\", \"text_config\": {"
                   "\"model_type\": \"qwen3_5_text\", ");
    put_u64(b, "hidden_size", m->hidden);
    put_u64(b, "intermediate_size", m->inner);
    put_u64(b, "num_hidden_layers", m->n_layers);
    put_u64(b, "num_attention_heads", m->nq);
    put_u64(b, "num_key_value_heads", m->nkv);
    put_u64(b, "head_dim", m->head_dim);
    put_u64(b, "linear_num_key_heads", m->nk);
    put_u64(b, "linear_num_value_heads", m->nv);
    put_u64(b, "linear_key_head_dim", m->dk);
    put_u64(b, "linear_value_head_dim", m->dv);
    put_u64(b, "linear_conv_kernel_dim", m->taps);
    put_u64(b, "vocab_size", m->vocab);
    put_u64(b, "mtp_num_hidden_layers", m->n_mtp);
    if (m->context != 0)
        put_u64(b, "max_position_embeddings", m->context);
    put_float(b, "rms_norm_eps", m->eps);
    vl_buf_puts(b, ", \"hidden_act\": \"silu\", \"attention_bias\": false, \"attn_output_gate\": "
                   "true, \"layer_types\": [");
    for (uint64_t i = 0; i < m->n_layers; i++)
        vl_buf_printf(b, "%s\"%s_attention\"", i > 0 ? ", " : "", m->full[i] ? "full" : "linear");
    vl_buf_puts(b, "], ");
    put_rope(b, m);
    vl_buf_printf(b, "\"tie_word_embeddings\": %s}, \"tie_word_embeddings\": %s}", tied, tied);
    return b->failed ? vl_error_set(err, VL_E_NOMEM, "config: out of memory") : VL_OK;
}

vl_status vl_gguf_generation_json(const struct vl_gguf_set *set, vl_buf *out, vl_error *err)
{
    static const struct {
        const char *key, *name;
    } floats[] = {
        {"general.sampling.temp", "temperature"},
        {"general.sampling.top_p", "top_p"},
        {"general.sampling.min_p", "min_p"},
    };
    const struct vl_gguf_file *g = &set->files[0];
    uint64_t top_k;
    bool found, any = false;
    vl_buf_puts(out, "{\"do_sample\": true");
    vl_status rc = VL_OK;
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]) && rc == VL_OK; i++) {
        double x;
        rc = vl_gguf_f64(g, floats[i].key, &x, &found, err);
        if (rc != VL_OK || !found)
            continue;
        any = true;
        vl_buf_puts(out, ", ");
        put_float(out, floats[i].name, x);
    }
    if (rc == VL_OK)
        rc = vl_gguf_u64(g, "general.sampling.top_k", 0, INT32_MAX, &top_k, &found, err);
    if (rc != VL_OK)
        return rc;
    if (found)
        vl_buf_printf(out, ", \"top_k\": %llu", (ull)top_k);
    vl_buf_puts(out, "}");
    if (!any && !found)
        vl_buf_fini(out);
    return out->failed ? vl_error_set(err, VL_E_NOMEM, "generation config: out of memory") : VL_OK;
}
