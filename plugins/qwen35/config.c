/* plugins/qwen35/config.c: reads a Qwen3.5 config.json (nested or flat) and refuses what this model
 * can't be. Owns nothing; knows no tensor and no device. */
#include "plugins/qwen35/config.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"

#define WHERE "config.json: "

/* Sizes past these are no model of this family, and keep every product below far from 2^63. */
enum { MAX_HIDDEN = 65536, MAX_INNER = 1 << 20, MAX_HEADS = 1024, MAX_VOCAB = 1 << 24 };

struct int_key {
    const char *name;
    int64_t min, max;
    int64_t def;  /* used when the key is absent; -1: required */
    int64_t step; /* the value is a multiple of it */
    size_t at;    /* offset of the int64_t in vl_q35_config */
};

static const struct int_key int_keys[] = {
    {"hidden_size", 1, MAX_HIDDEN, -1, 1, offsetof(vl_q35_config, hidden)},
    {"intermediate_size", 1, MAX_INNER, -1, 1, offsetof(vl_q35_config, inner)},
    {"num_hidden_layers", 1, VL_Q35_MAX_LAYERS, -1, 1, offsetof(vl_q35_config, n_layers)},
    {"num_attention_heads", 1, MAX_HEADS, -1, 1, offsetof(vl_q35_config, nq)},
    {"num_key_value_heads", 1, MAX_HEADS, -1, 1, offsetof(vl_q35_config, nkv)},
    {"head_dim", 16, 256, 256, 16, offsetof(vl_q35_config, head_size)},
    {"linear_num_key_heads", 1, MAX_HEADS, 16, 1, offsetof(vl_q35_config, hk)},
    {"linear_num_value_heads", 1, MAX_HEADS, -1, 1, offsetof(vl_q35_config, hv)},
    {"linear_key_head_dim", 16, 256, 128, 16, offsetof(vl_q35_config, dk)},
    {"linear_value_head_dim", 16, 256, 128, 16, offsetof(vl_q35_config, dv)},
    {"vocab_size", 1, MAX_VOCAB, -1, 1, offsetof(vl_q35_config, vocab)},
    {"max_position_embeddings", 1, 1 << 24, 32768, 1, offsetof(vl_q35_config, max_context)},
    {"mtp_num_hidden_layers", 0, 64, 0, 1, offsetof(vl_q35_config, n_mtp)},
};

/* The value as it stands in the file, cut, for messages. */
struct shown {
    char text[80];
};

static struct shown show(vl_json v)
{
    struct shown s = {{0}};
    vl_bytes raw = vl_json_raw(v);
    size_t n = raw.len < sizeof(s.text) - 1 ? raw.len : sizeof(s.text) - 1;
    if (n > 0)
        memcpy(s.text, raw.ptr, n);
    return s;
}

static vl_status read_int(vl_json text, const struct int_key *k, int64_t *out, vl_error *err)
{
    vl_json v = vl_json_get(text, k->name);
    if (vl_json_is_null(v)) {
        if (k->def < 0)
            return vl_error_set(err, VL_E_FORMAT, WHERE "%s is missing", k->name);
        *out = k->def;
        return VL_OK;
    }
    int64_t x;
    if (!vl_json_i64(v, &x))
        return vl_error_set(err, VL_E_FORMAT,
                            WHERE "%s is %s, want a whole number from %lld to %lld", k->name,
                            show(v).text, (long long)k->min, (long long)k->max);
    if (x < k->min || x > k->max)
        return vl_error_set(err, VL_E_FORMAT, WHERE "%s %lld, want %lld to %lld", k->name,
                            (long long)x, (long long)k->min, (long long)k->max);
    if (x % k->step != 0)
        return vl_error_set(err, VL_E_UNSUPPORTED, WHERE "%s %lld, want a multiple of %lld",
                            k->name, (long long)x, (long long)k->step);
    *out = x;
    return VL_OK;
}

static vl_status read_float(vl_json v, const char *name, double min, double max, double def,
                            double *out, vl_error *err)
{
    if (vl_json_is_null(v)) {
        if (!(def >= min))
            return vl_error_set(err, VL_E_FORMAT, WHERE "%s is missing", name);
        *out = def;
        return VL_OK;
    }
    double x;
    if (!vl_json_f64(v, &x))
        return vl_error_set(err, VL_E_FORMAT, WHERE "%s is %s, want a number", name, show(v).text);
    if (!(x >= min && x <= max))
        return vl_error_set(err, VL_E_FORMAT, WHERE "%s %g, want %g to %g", name, x, min, max);
    *out = x;
    return VL_OK;
}

/* A switch that must stand at `want` when it is there. */
static vl_status want_bool(vl_json text, const char *name, bool want, vl_error *err)
{
    vl_json v = vl_json_get(text, name);
    if (vl_json_is_null(v))
        return VL_OK;
    bool x;
    if (!vl_json_bool(v, &x))
        return vl_error_set(err, VL_E_FORMAT, WHERE "%s is %s, want true or false", name,
                            show(v).text);
    if (x != want)
        return vl_error_set(err, VL_E_UNSUPPORTED, WHERE "%s %s is not supported, want %s", name,
                            x ? "true" : "false", want ? "true" : "false");
    return VL_OK;
}

static bool starts_with(vl_json v, const char *prefix)
{
    vl_bytes s = vl_json_str_raw(v);
    size_t n = strlen(prefix);
    return s.len >= n && memcmp(s.ptr, prefix, n) == 0;
}

/* Which family: the dense one of 3.5, nested or flat; all else is somebody else's. */
static vl_status check_family(vl_json root, vl_json *text, vl_error *err)
{
    vl_json nested = vl_json_get(root, "text_config");
    vl_json outer = vl_json_get(root, "model_type");
    if (!vl_json_is_null(nested) && !vl_json_is(nested, VL_JSON_OBJECT))
        return vl_error_set(err, VL_E_FORMAT, WHERE "text_config is %s, want an object",
                            vl_json_type_name(nested));
    *text = vl_json_is(nested, VL_JSON_OBJECT) ? nested : root;
    vl_json inner = vl_json_get(*text, "model_type");
    vl_json kind = vl_json_is_null(inner) ? outer : inner;
    if (vl_json_is_null(kind))
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            WHERE "model_type is missing, want qwen3_5 or qwen3_5_text");
    if (starts_with(kind, "qwen3_5_moe") || starts_with(outer, "qwen3_5_moe"))
        return vl_error_set(
            err, VL_E_UNSUPPORTED,
            WHERE
            "model_type %s: mixtures of experts are not supported, want qwen3_5 or qwen3_5_text",
            show(kind).text);
    bool inner_ok = vl_json_str_eq(kind, "qwen3_5_text") || vl_json_str_eq(kind, "qwen3_5");
    bool outer_ok = vl_json_is_null(outer) || vl_json_str_eq(outer, "qwen3_5") ||
                    vl_json_str_eq(outer, "qwen3_5_text");
    if (!inner_ok || !outer_ok)
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            WHERE "model_type %s, want qwen3_5 or qwen3_5_text",
                            show(inner_ok ? outer : kind).text);
    return VL_OK;
}

static vl_status read_layers(vl_json text, vl_q35_config *c, vl_error *err)
{
    vl_json types = vl_json_get(text, "layer_types");
    if (vl_json_is_null(types)) {
        static const struct int_key every = {
            "full_attention_interval", 1, VL_Q35_MAX_LAYERS, 4, 1, 0};
        int64_t interval;
        vl_status rc = read_int(text, &every, &interval, err);
        if (rc != VL_OK)
            return rc;
        for (int64_t i = 0; i < c->n_layers; i++)
            c->full[i] = (i + 1) % interval == 0;
    } else {
        if (!vl_json_is(types, VL_JSON_ARRAY))
            return vl_error_set(err, VL_E_FORMAT, WHERE "layer_types is %s, want an array",
                                vl_json_type_name(types));
        if (vl_json_count(types) != (size_t)c->n_layers)
            return vl_error_set(err, VL_E_FORMAT,
                                WHERE "layer_types has %zu entries, num_hidden_layers is %lld",
                                vl_json_count(types), (long long)c->n_layers);
        for (vl_json_iter it = vl_json_each(types); vl_json_next(&it);) {
            bool full = vl_json_str_eq(it.value, "full_attention");
            if (!full && !vl_json_str_eq(it.value, "linear_attention"))
                return vl_error_set(
                    err, VL_E_FORMAT,
                    WHERE "layer_types[%u] is %s, want \"linear_attention\" or \"full_attention\"",
                    it.index, show(it.value).text);
            c->full[it.index] = full;
        }
    }
    for (int64_t i = 0; i < c->n_layers; i++)
        c->n_full += c->full[i];
    c->n_linear = c->n_layers - c->n_full;
    return VL_OK;
}

/* rope_parameters (or its older name rope_scaling) first, then the same keys in the text config
 * itself. */
static vl_json rope_key(vl_json text, const char *name)
{
    vl_json v = vl_json_get(vl_json_get(text, "rope_parameters"), name);
    if (vl_json_is_null(v))
        v = vl_json_get(vl_json_get(text, "rope_scaling"), name);
    return vl_json_is_null(v) ? vl_json_get(text, name) : v;
}

static vl_status read_rope(vl_json text, vl_q35_config *c, vl_error *err)
{
    vl_json type = rope_key(text, "rope_type");
    if (vl_json_is_null(type))
        type = rope_key(text, "type");
    if (!vl_json_is_null(type) && !vl_json_str_eq(type, "default") &&
        !vl_json_str_eq(type, "mrope"))
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            WHERE
                            "rope_parameters: rope_type %s is not supported, want \"default\"",
                            show(type).text);
    vl_status rc = read_float(rope_key(text, "rope_theta"), "rope_parameters: rope_theta", 1.0,
                              1e15, 0.0, &c->rope_theta, err);
    if (rc != VL_OK)
        return rc;
    double part;
    rc = read_float(rope_key(text, "partial_rotary_factor"),
                    "rope_parameters: partial_rotary_factor", 0.0, 1.0, 0.25, &part, err);
    if (rc != VL_OK)
        return rc;
    c->rotary = (int64_t)((double)c->head_size * part);
    if (c->rotary < 2 || c->rotary % 2 != 0)
        return vl_error_set(
            err, VL_E_UNSUPPORTED,
            WHERE
            "partial_rotary_factor %g of head_dim %lld rotates %lld channels, want an even number",
            part, (long long)c->head_size, (long long)c->rotary);
    vl_json section = rope_key(text, "mrope_section");
    if (vl_json_is_null(section))
        return VL_OK;
    int64_t sum = 0;
    for (vl_json_iter it = vl_json_each(section); vl_json_next(&it);) {
        int64_t x;
        if (!vl_json_i64(it.value, &x) || x < 0 || x > c->rotary)
            return vl_error_set(err, VL_E_FORMAT, WHERE "rope_parameters: mrope_section[%u] is %s",
                                it.index, show(it.value).text);
        sum += x;
    }
    if (sum != c->rotary / 2) /* text has equal positions on all axes, so only the sum can matter */
        return vl_error_set(err, VL_E_FORMAT,
                            WHERE "rope_parameters: mrope_section adds up to %lld, want %lld",
                            (long long)sum, (long long)(c->rotary / 2));
    return VL_OK;
}

static vl_status read_tie(vl_json root, vl_json text, vl_q35_config *c, vl_error *err)
{
    static const char name[] = "tie_word_embeddings";
    vl_json at_root = vl_json_get(root, name), inside = vl_json_get(text, name);
    bool a = false, b = false;
    if (!vl_json_is_null(at_root) && !vl_json_bool(at_root, &a))
        return vl_error_set(err, VL_E_FORMAT, WHERE "%s is %s, want true or false", name,
                            show(at_root).text);
    if (!vl_json_is_null(inside) && !vl_json_bool(inside, &b))
        return vl_error_set(err, VL_E_FORMAT, WHERE "%s is %s, want true or false", name,
                            show(inside).text);
    if (!vl_json_is_null(at_root) && !vl_json_is_null(inside) && a != b)
        return vl_error_set(err, VL_E_FORMAT, WHERE "%s is %s at the root and %s in text_config",
                            name, a ? "true" : "false", b ? "true" : "false");
    c->tied = vl_json_is_null(inside) ? a : b;
    return VL_OK;
}

static vl_status check_variants(vl_json root, vl_json text, vl_q35_config *c, vl_error *err)
{
    vl_json v = vl_json_get(text, "output_gate_type");
    c->z_sigmoid = vl_json_str_eq(v, "sigmoid");
    if (!vl_json_is_null(v) && !c->z_sigmoid && !vl_json_str_eq(v, "silu") &&
        !vl_json_str_eq(v, "swish"))
        return vl_error_set(
            err, VL_E_UNSUPPORTED,
            WHERE "output_gate_type %s is not supported, want \"silu\", \"swish\" or \"sigmoid\"",
            show(v).text);
    v = vl_json_get(text, "hidden_act");
    if (!vl_json_is_null(v) && !vl_json_str_eq(v, "silu"))
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            WHERE "hidden_act %s is not supported, want \"silu\"", show(v).text);
    vl_json parts[2] = {root, text};
    for (int i = 0; i < 2; i++) {
        v = vl_json_get(parts[i], "quantization_config");
        if (!vl_json_is_null(v)) {
            vl_json method = vl_json_get(v, "quant_method");
            return vl_error_set(
                err, VL_E_UNSUPPORTED,
                WHERE "quantization_config: quant_method %s is not supported; use BF16 weights",
                vl_json_is_null(method) ? "(missing)" : show(method).text);
        }
    }
    vl_status rc = want_bool(text, "attention_bias", false, err);
    if (rc == VL_OK)
        rc = want_bool(text, "attn_output_gate", true, err);
    if (rc == VL_OK)
        rc = want_bool(text, "layer_scale", false, err);
    return rc;
}

static vl_status check_heads(vl_json text, const vl_q35_config *c, vl_error *err)
{
    if (c->nq % c->nkv != 0)
        return vl_error_set(err, VL_E_FORMAT,
                            WHERE
                            "num_attention_heads %lld is no multiple of num_key_value_heads %lld",
                            (long long)c->nq, (long long)c->nkv);
    if (c->hv % c->hk != 0)
        return vl_error_set(
            err, VL_E_FORMAT,
            WHERE "linear_num_value_heads %lld is no multiple of linear_num_key_heads %lld",
            (long long)c->hv, (long long)c->hk);
    int64_t taps;
    static const struct int_key conv = {"linear_conv_kernel_dim", 1, 64, VL_Q35_CONV_TAPS, 1, 0};
    vl_status rc = read_int(text, &conv, &taps, err);
    if (rc == VL_OK && taps != VL_Q35_CONV_TAPS)
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            WHERE "linear_conv_kernel_dim %lld is not supported, want %d",
                            (long long)taps, VL_Q35_CONV_TAPS);
    return rc;
}

vl_status vl_q35_config_parse(vl_bytes json, vl_q35_config *out, vl_error *err)
{
    vl_json_doc doc = {0};
    vl_q35_config c;
    memset(&c, 0, sizeof(c));
    vl_status rc = vl_json_parse(&doc, json.ptr, json.len, 64, 0, err);
    if (rc != VL_OK) {
        (void)vl_error_prefix(err, "config.json");
        goto out;
    }
    vl_json root = vl_json_root(&doc), text;
    if (!vl_json_is(root, VL_JSON_OBJECT)) {
        rc = vl_error_set(err, VL_E_FORMAT, WHERE "is %s, want an object", vl_json_type_name(root));
        goto out;
    }
    rc = check_family(root, &text, err);
    for (size_t i = 0; rc == VL_OK && i < sizeof(int_keys) / sizeof(int_keys[0]); i++)
        rc = read_int(text, &int_keys[i], (int64_t *)((char *)&c + int_keys[i].at), err);
    if (rc == VL_OK)
        rc = check_heads(text, &c, err);
    double eps = 0;
    if (rc == VL_OK)
        rc = read_float(vl_json_get(text, "rms_norm_eps"), "rms_norm_eps", 1e-12, 1e-1, 1e-6, &eps,
                        err);
    c.eps = (float)eps;
    if (rc == VL_OK)
        rc = read_layers(text, &c, err);
    if (rc == VL_OK)
        rc = read_rope(text, &c, err);
    if (rc == VL_OK)
        rc = read_tie(root, text, &c, err);
    if (rc == VL_OK)
        rc = check_variants(root, text, &c, err);
    if (rc == VL_OK)
        *out = c;
out:
    vl_json_doc_fini(&doc);
    return rc;
}

uint64_t vl_q35_n_parameters(const vl_q35_config *c)
{
    int64_t vd = vl_q35_value_dim(c), cd = vl_q35_conv_dim(c);
    int64_t linear = c->hidden * (cd + vd + 2 * c->hv) + vd * c->hidden + VL_Q35_CONV_TAPS * cd +
                     2 * c->hv + c->dv;
    int64_t full = c->hidden * c->head_size * (2 * c->nq + 2 * c->nkv) +
                   c->nq * c->head_size * c->hidden + 2 * c->head_size;
    int64_t each = 3 * c->hidden * c->inner + 2 * c->hidden;
    return (uint64_t)(c->n_linear * (linear + each) + c->n_full * (full + each) + c->hidden +
                      c->vocab * c->hidden * (c->tied ? 1 : 2));
}
