/* plugins/loaders/gguf/vocab.c: the token arrays in one pass each, as views into the mapping;
 * lengths and ids checked against each other. */
#include "plugins/loaders/gguf/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define T "tokenizer.ggml."

typedef unsigned long long ull;

static vl_status copy_string(const struct vl_gguf_file *g, const char *key, char **out,
                             vl_error *err)
{
    vl_bytes text = {NULL, 0};
    bool found;
    vl_status rc = vl_gguf_string(g, key, &text, &found, err);
    if (rc != VL_OK)
        return rc;
    if (text.len > 0 && memchr(text.ptr, '\0', text.len) != NULL)
        return vl_error_set(err, VL_E_FORMAT, "key %s: holds a NUL", key);
    *out = strndup(text.len > 0 ? text.ptr : "", text.len);
    return *out != NULL ? VL_OK : vl_error_set(err, VL_E_NOMEM, "key %s: out of memory", key);
}

static vl_status read_strings(const struct vl_gguf_kv *kv, const char *key, vl_bytes **out,
                              vl_error *err)
{
    uint64_t at = 0;
    if (kv == NULL || kv->count == 0)
        return VL_OK;
    *out = malloc(kv->count * sizeof(**out)); /* the parser bounds the count */
    if (*out == NULL)
        return vl_error_set(err, VL_E_NOMEM, "key %s: no memory for %llu strings", key,
                            (ull)kv->count);
    for (uint64_t i = 0; i < kv->count; i++)
        (*out)[i] = vl_gguf_next_string(kv, &at);
    return VL_OK;
}

static vl_status same_length(const char *key, uint64_t have, uint64_t tokens, vl_error *err)
{
    if (have == tokens)
        return VL_OK;
    return vl_error_set(err, VL_E_FORMAT, "key %s: array of %llu, but " T "tokens has %llu", key,
                        (ull)have, (ull)tokens);
}

static vl_status read_types(const struct vl_gguf_file *g, struct vl_gguf_vocab *v, vl_error *err)
{
    const struct vl_gguf_kv *kv, *scores;
    vl_status rc = vl_gguf_array(g, T "token_type", VL_GGUF_ARRAY, &kv, err);
    if (rc == VL_OK)
        rc = vl_gguf_array(g, T "scores", VL_GGUF_F32, &scores, err);
    if (rc == VL_OK && scores != NULL)
        rc = same_length(T "scores", scores->count, v->pub.n_tokens, err);
    if (rc == VL_OK && kv != NULL)
        rc = same_length(T "token_type", kv->count, v->pub.n_tokens, err);
    if (rc != VL_OK || kv == NULL)
        return rc;
    v->types = malloc(kv->count * sizeof(*v->types));
    if (v->types == NULL)
        return vl_error_set(err, VL_E_NOMEM, "key " T "token_type: out of memory");
    for (uint64_t i = 0; i < kv->count; i++) {
        int64_t x;
        if (!vl_gguf_int_at(kv, i, &x) || x < 1 || x > 6)
            return vl_error_set(err, VL_E_FORMAT,
                                "key " T "token_type: value %llu is out of range, want 1 to 6",
                                (ull)i);
        v->types[i] = (int32_t)x;
    }
    return VL_OK;
}

/* Every id that the metadata name must be a token, also those that nobody asks for: a message may
 * print them. */
static vl_status read_ids(const struct vl_gguf_file *g, struct vl_gguf_vocab *v, vl_error *err)
{
    static const struct {
        const char *key;
        bool stops;
    } ids[] = {
        {T "eos_token_id", true},        {T "eot_token_id", true},
        {T "eom_token_id", true},        {T "bos_token_id", false},
        {T "padding_token_id", false},   {T "unknown_token_id", false},
        {T "seperator_token_id", false}, {T "cls_token_id", false},
        {T "mask_token_id", false},      {T "fim_pre_token_id", false},
        {T "fim_suf_token_id", false},   {T "fim_mid_token_id", false},
        {T "fim_pad_token_id", false},   {T "fim_rep_token_id", false},
        {T "fim_sep_token_id", false},
    };
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        uint64_t id;
        bool found;
        vl_status rc = vl_gguf_u64(g, ids[i].key, 0, UINT32_MAX, &id, &found, err);
        if (rc != VL_OK)
            return rc;
        if (!found)
            continue;
        if (id >= v->pub.n_tokens)
            return vl_error_set(err, VL_E_FORMAT, "key %s: %llu, but there are %llu tokens",
                                ids[i].key, (ull)id, (ull)v->pub.n_tokens);
        if (ids[i].stops)
            v->stops[v->pub.n_stop_ids++] = (int32_t)id;
    }
    return VL_OK;
}

static vl_status read_all(const struct vl_gguf_file *g, uint64_t rows, struct vl_gguf_vocab *v,
                          vl_error *err)
{
    const struct vl_gguf_kv *tokens, *merges;
    vl_status rc = vl_gguf_array(g, T "tokens", VL_GGUF_STRING, &tokens, err);
    if (rc == VL_OK)
        rc = vl_gguf_array(g, T "merges", VL_GGUF_STRING, &merges, err);
    if (rc != VL_OK)
        return rc;
    if (tokens == NULL || tokens->count == 0)
        return vl_error_set(err, VL_E_FORMAT, "key " T "tokens is %s: the file has no vocabulary",
                            tokens == NULL ? "missing" : "empty");
    if (tokens->count > rows)
        return vl_error_set(err, VL_E_FORMAT,
                            "key " T "tokens: %llu tokens, but the embedding has %llu rows",
                            (ull)tokens->count, (ull)rows);
    v->pub.n_tokens = tokens->count;
    v->pub.n_merges = merges != NULL ? merges->count : 0;
    rc = read_strings(tokens, T "tokens", &v->tokens, err);
    if (rc == VL_OK)
        rc = read_strings(merges, T "merges", &v->merges, err);
    if (rc == VL_OK)
        rc = read_types(g, v, err);
    if (rc == VL_OK)
        rc = read_ids(g, v, err);
    return rc;
}

vl_status vl_gguf_vocab_read(const struct vl_gguf_file *g, const char *file, uint64_t rows,
                             const char *pre, struct vl_gguf_vocab *out, vl_error *err)
{
    memset(out, 0, sizeof(*out));
    vl_status rc = copy_string(g, T "model", &out->model, err);
    if (rc == VL_OK)
        rc = copy_string(g, T "pre", &out->pre, err);
    if (rc == VL_OK && pre != NULL) {
        free(out->pre);
        out->pre = strdup(pre);
        if (out->pre == NULL)
            rc = vl_error_set(err, VL_E_NOMEM, "option pre: out of memory");
    }
    if (rc == VL_OK)
        rc = read_all(g, rows, out, err);
    if (rc != VL_OK) {
        vl_gguf_vocab_fini(out);
        return rc;
    }
    out->pub.struct_size = sizeof(vl_vocab);
    out->pub.model = out->model;
    out->pub.pre = out->pre;
    out->pub.tokens = out->tokens;
    out->pub.types = out->types;
    out->pub.merges = out->merges;
    out->pub.stop_ids = out->stops;
    out->pub.file = file;
    return VL_OK;
}

void vl_gguf_vocab_fini(struct vl_gguf_vocab *v)
{
    free(v->model);
    free(v->pre);
    free(v->tokens);
    free(v->merges);
    free(v->types);
    memset(v, 0, sizeof(*v));
}
