/* load_json.c: tokenizer.json (and the added tokens of tokenizer_config.json) into a tokenizer.
 * Does no I/O: the loader plugin hands the bytes over. Checks everything; a message names file, key
 * and value. */
#include "load_json.h"

#include <stdlib.h>

#include "base/error.h"

#define FILE_TOKENIZER "tokenizer.json"
#define FILE_CONFIG "tokenizer_config.json"

enum { DEPTH_MAX = 64 };

struct load {
    const struct vl_bpe_files *files;
    vl_tokenizer *t;
    vl_buf text;  /* of one string, unescaped */
    vl_buf bytes; /* and out of the byte alphabet */
    /* Vocabulary entries outside of the byte alphabet: right only if they are added tokens too. */
    struct odd_entry {
        int64_t id;
        vl_json key;
    } * odd;
    size_t n_odd, odd_cap;
    bool ignore_merges;
};

/* The text of a string node, without a copy where nothing is escaped. */
static bool string_text(vl_json v, vl_buf *buf, vl_bytes *out)
{
    if (!vl_json_is(v, VL_JSON_STRING))
        return false;
    if (!v.node->escaped) {
        *out = vl_json_str_raw(v);
        return true;
    }
    vl_buf_clear(buf);
    if (!vl_json_str(v, buf))
        return false;
    *out = (vl_bytes){buf->ptr, buf->len};
    return true;
}

/* A non-negative number of a few digits, which all but all ids are, without the general reader. */
static bool fast_id(vl_json v, int64_t *out)
{
    if (!vl_json_is(v, VL_JSON_NUMBER))
        return false;
    const char *s = v.doc->text + v.node->start;
    size_t n = v.node->len;
    int64_t id = 0;
    for (size_t i = 0; i < n && n <= 9; i++) {
        if (s[i] < '0' || s[i] > '9')
            return vl_json_i64(v, out);
        id = id * 10 + (s[i] - '0');
    }
    if (n > 9)
        return vl_json_i64(v, out);
    *out = id;
    return true;
}

static vl_status check_rows(const struct load *l, int64_t id, vl_bytes text, vl_error *err)
{
    if (l->files->n_rows == 0 || id < 0 || (uint64_t)id < l->files->n_rows)
        return VL_OK;
    return vl_error_set(err, VL_E_FORMAT,
                        "the token \"%.*s\" has the id %lld, the embedding has %llu rows",
                        text.len > 64 ? 64 : (int)text.len, text.ptr, (long long)id,
                        (unsigned long long)l->files->n_rows);
}

/* ---- model ---- */

static vl_status check_model(struct load *l, vl_json model, vl_error *err)
{
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    vl_json type = vl_json_get(model, "type");
    char shown[96];
    double dropout;

    if (!vl_json_is_null(type) && !vl_json_str_eq(type, "BPE")) {
        vl_bpe_json_show(type, shown);
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "model.type: %s is not implemented, want \"BPE\"", shown);
    }
    vl_json v = vl_json_get(model, "dropout");
    if (!vl_json_is_null(v) && (!vl_json_f64(v, &dropout) || dropout != 0)) {
        vl_bpe_json_show(v, shown);
        return vl_error_set(err, VL_E_UNSUPPORTED, "model.dropout: %s, want null or 0", shown);
    }
    for (size_t i = 0; i < 2; i++) {
        v = vl_json_get(model, empty[i]);
        if (!vl_json_is_null(v) && !vl_json_str_eq(v, "")) {
            vl_bpe_json_show(v, shown);
            return vl_error_set(err, VL_E_UNSUPPORTED,
                                "model.%s: %s is not implemented, want null or \"\"", empty[i],
                                shown);
        }
    }
    v = vl_json_get(model, "byte_fallback");
    if (!vl_json_is_null(v) && !vl_json_is(v, VL_JSON_FALSE)) {
        vl_bpe_json_show(v, shown);
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "model.byte_fallback: %s is not implemented, want false", shown);
    }
    v = vl_json_get(model, "ignore_merges");
    if (!vl_json_is_null(v) && !vl_json_bool(v, &l->ignore_merges)) {
        vl_bpe_json_show(v, shown);
        return vl_error_set(err, VL_E_FORMAT, "model.ignore_merges: %s, want true or false", shown);
    }
    return VL_OK;
}

static vl_status load_vocab_entry(struct load *l, vl_json key, vl_json value, vl_error *err)
{
    vl_bytes text;
    int64_t id;

    if (!string_text(key, &l->text, &text))
        return vl_error_set(err, VL_E_NOMEM, "model.vocab: out of memory");
    if (!fast_id(value, &id)) {
        char shown[96];
        vl_bpe_json_show(value, shown);
        return vl_error_set(err, VL_E_FORMAT, "model.vocab: the token \"%.*s\" has the id %s",
                            text.len > 64 ? 64 : (int)text.len, text.ptr, shown);
    }
    vl_status rc = check_rows(l, id, text, err);
    if (rc == VL_OK) {
        vl_buf_clear(&l->bytes);
        if (!vl_tokens_from_alphabet(text.ptr, text.len, &l->bytes)) {
            if (l->bytes.failed || !vl_grow(&l->odd, &l->odd_cap, l->n_odd + 1, sizeof *l->odd))
                return vl_error_set(err, VL_E_NOMEM, "model.vocab: out of memory");
            l->odd[l->n_odd++] = (struct odd_entry){id, key};
            return VL_OK;
        }
        rc = vl_tokens_add(&l->t->bpe.tokens, id, l->bytes.ptr, l->bytes.len, true, err);
    }
    if (rc != VL_OK)
        vl_error_prefix(err, "model.vocab");
    return rc;
}

static vl_status load_vocab(struct load *l, vl_json vocab, vl_error *err)
{
    if (!vl_json_is(vocab, VL_JSON_OBJECT))
        return vl_error_set(err, VL_E_FORMAT, "model.vocab: %s, want an object",
                            vl_json_type_name(vocab));
    for (vl_json_iter it = vl_json_each(vocab); vl_json_next(&it);) {
        vl_status rc = load_vocab_entry(l, it.key, it.value, err);
        if (rc != VL_OK)
            return rc;
    }
    return VL_OK;
}

/* One merge: "a b", or ["a", "b"] (then the halves may have spaces). Both halves are in the byte
 * alphabet. */
static vl_status merge_halves(struct load *l, vl_json merge, vl_bytes *left, vl_bytes *right,
                              vl_error *err)
{
    char shown[96];

    if (vl_json_is(merge, VL_JSON_STRING)) {
        vl_bytes text;
        if (!string_text(merge, &l->text, &text))
            return vl_error_set(err, VL_E_NOMEM, "out of memory");
        const char *space = text.len > 0 ? memchr(text.ptr, ' ', text.len) : NULL;
        if (space != NULL) {
            size_t n = (size_t)(space - text.ptr);
            *left = (vl_bytes){text.ptr, n};
            *right = (vl_bytes){space + 1, text.len - n - 1};
            if (right->len > 0 && memchr(right->ptr, ' ', right->len) == NULL)
                return VL_OK;
        }
        vl_bpe_json_show(merge, shown);
        return vl_error_set(err, VL_E_FORMAT, "the merge %s, want two parts with one space between",
                            shown);
    }
    if (vl_json_is(merge, VL_JSON_ARRAY) && merge.node->count == 2) {
        vl_json a = {merge.doc, merge.node + 1};
        vl_json b = {merge.doc, merge.doc->nodes + a.node->next};
        if (vl_json_is(a, VL_JSON_STRING) && vl_json_is(b, VL_JSON_STRING)) {
            if (string_text(b, &l->bytes, right) && string_text(a, &l->text, left))
                return VL_OK;
            return vl_error_set(err, VL_E_NOMEM, "out of memory");
        }
    }
    vl_bpe_json_show(merge, shown);
    return vl_error_set(err, VL_E_FORMAT, "the merge %s, want two strings", shown);
}

static vl_status load_merges(struct load *l, vl_json merges, bool may_miss, vl_error *err)
{
    if (!vl_json_is(merges, VL_JSON_ARRAY))
        return vl_error_set(err, VL_E_FORMAT, "model.merges: %s, want an array",
                            vl_json_type_name(merges));
    vl_status rc = vl_bpe_reserve_merges(&l->t->bpe, vl_json_count(merges), may_miss, err);
    if (rc != VL_OK) {
        vl_error_prefix(err, "model");
        return rc;
    }
    struct vl_bpe_batch batch = {.bpe = &l->t->bpe};
    size_t index = 0;
    for (vl_json_iter it = vl_json_each(merges); vl_json_next(&it); index++) {
        vl_bytes raw = vl_json_raw(it.value);
        if (raw.len >= 9 && memcmp(raw.ptr, "\"#version", 9) == 0)
            continue; /* the first line of merges.txt */
        vl_bytes left = {NULL, 0}, right = {NULL, 0};
        rc = merge_halves(l, it.value, &left, &right, err);
        if (rc != VL_OK) {
            vl_error_prefix(err, "model.merges[%zu]", index);
            goto out;
        }
        rc = vl_bpe_batch_add(&batch, index, left, right, err);
        if (rc != VL_OK)
            break;
    }
    if (rc == VL_OK)
        rc = vl_bpe_batch_flush(&batch, err);
    if (rc != VL_OK)
        vl_error_prefix(err, "model.merges");
out:
    vl_bpe_batch_fini(&batch);
    return rc;
}

/* ---- added tokens ---- */

static vl_status load_added(struct load *l, int64_t id, vl_json entry, vl_error *err)
{
    static const struct {
        const char *key;
        uint32_t bit;
        bool def;
    } flags[] = {
        {"special", VL_ADDED_SPECIAL, false},         {"normalized", VL_ADDED_NORMALIZED, true},
        {"lstrip", VL_ADDED_LSTRIP, false},           {"rstrip", VL_ADDED_RSTRIP, false},
        {"single_word", VL_ADDED_SINGLE_WORD, false},
    };
    vl_json content = vl_json_get(entry, "content");
    vl_bytes text;
    uint32_t bits = 0;

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        vl_json v = vl_json_get(entry, flags[i].key);
        bool on = flags[i].def;
        if (!vl_json_is_null(v) && !vl_json_bool(v, &on))
            return vl_error_set(err, VL_E_FORMAT, "id %lld: %s is %s, want true or false",
                                (long long)id, flags[i].key, vl_json_type_name(v));
        bits |= on ? flags[i].bit : 0;
    }
    if (!vl_json_is(content, VL_JSON_STRING))
        return vl_error_set(err, VL_E_FORMAT, "id %lld: content is %s, want a string",
                            (long long)id, vl_json_type_name(content));
    if (!string_text(content, &l->text, &text))
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    vl_status rc = check_rows(l, id, text, err);
    return rc == VL_OK ? vl_bpe_tokenizer_add(l->t, id, bits, text.ptr, text.len, err) : rc;
}

static vl_status load_added_array(struct load *l, vl_json added, vl_error *err)
{
    if (vl_json_is_null(added))
        return VL_OK;
    if (!vl_json_is(added, VL_JSON_ARRAY))
        return vl_error_set(err, VL_E_FORMAT, "added_tokens: %s, want an array",
                            vl_json_type_name(added));
    for (vl_json_iter it = vl_json_each(added); vl_json_next(&it);) {
        int64_t id;
        vl_status rc;
        vl_json v = vl_json_get(it.value, "id");
        if (vl_json_i64(v, &id)) {
            rc = load_added(l, id, it.value, err);
        } else {
            char shown[96];
            vl_bpe_json_show(it.value, shown);
            rc = vl_error_set(err, VL_E_FORMAT, "no whole number as id in %s", shown);
        }
        if (rc != VL_OK) {
            vl_error_prefix(err, "added_tokens");
            return rc;
        }
    }
    return VL_OK;
}

/* A decimal id, which JSON object keys spell as text. */
static bool key_id(vl_json key, int64_t *id)
{
    vl_bytes text = vl_json_str_raw(key);
    if (text.len == 0 || text.len > 9)
        return false;
    *id = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        *id = *id * 10 + (text.ptr[i] - '0');
    }
    return true;
}

static vl_status load_added_decoder(struct load *l, vl_json added, vl_error *err)
{
    if (vl_json_is_null(added))
        return VL_OK;
    if (!vl_json_is(added, VL_JSON_OBJECT))
        return vl_error_set(err, VL_E_FORMAT, "added_tokens_decoder: %s, want an object",
                            vl_json_type_name(added));
    for (vl_json_iter it = vl_json_each(added); vl_json_next(&it);) {
        int64_t id;
        vl_status rc;
        if (key_id(it.key, &id)) {
            rc = load_added(l, id, it.value, err);
        } else {
            char shown[96];
            vl_bpe_json_show(it.key, shown);
            rc = vl_error_set(err, VL_E_FORMAT, "the key %s is no id", shown);
        }
        if (rc != VL_OK) {
            vl_error_prefix(err, "added_tokens_decoder (with " FILE_TOKENIZER ")");
            return rc;
        }
    }
    return VL_OK;
}

/* Vocabulary entries that no bytes spell must be added tokens with the same id and content. */
static vl_status check_odd(struct load *l, vl_error *err)
{
    for (size_t i = 0; i < l->n_odd; i++) {
        vl_bytes text, had = vl_tokens_bytes(&l->t->bpe.tokens, l->odd[i].id);
        if (!string_text(l->odd[i].key, &l->text, &text))
            return vl_error_set(err, VL_E_NOMEM, "model.vocab: out of memory");
        if (text.len != had.len || text.len == 0 || memcmp(text.ptr, had.ptr, text.len) != 0)
            return vl_error_set(
                err, VL_E_FORMAT,
                "model.vocab: the token \"%.*s\" (id %lld) is not in the byte alphabet",
                text.len > 64 ? 64 : (int)text.len, text.ptr, (long long)l->odd[i].id);
    }
    return VL_OK;
}

/* ---- the files ---- */

static vl_status load_tokenizer(struct load *l, vl_json root, vl_error *err)
{
    vl_json model = vl_json_get(root, "model");
    vl_json vocab = vl_json_get(model, "vocab");

    if (!vl_json_is(root, VL_JSON_OBJECT))
        return vl_error_set(err, VL_E_FORMAT, "%s, want an object", vl_json_type_name(root));
    if (!vl_json_is(model, VL_JSON_OBJECT))
        return vl_error_set(err, VL_E_FORMAT, "model: %s, want an object",
                            vl_json_type_name(model));
    vl_status rc = check_model(l, model, err);
    if (rc == VL_OK)
        rc = vl_bpe_load_pipeline(l->t, root, err);
    if (rc == VL_OK) /* of an entry's text, quotes, colon, id and comma are about two thirds */
        rc = vl_bpe_init(&l->t->bpe, vl_json_count(vocab),
                         vl_json_exists(vocab) ? (size_t)vocab.node->len / 3 : 0, err);
    l->t->bpe.ignore_merges = l->ignore_merges;
    if (rc == VL_OK)
        rc = load_vocab(l, vocab, err);
    if (rc == VL_OK)
        rc = load_merges(l, vl_json_get(model, "merges"),
                         !vl_json_is_null(vl_json_get(model, "unk_token")), err);
    if (rc == VL_OK)
        rc = load_added_array(l, vl_json_get(root, "added_tokens"), err);
    return rc;
}

static vl_status load_config(struct load *l, vl_error *err)
{
    vl_json_doc doc = {0};
    vl_status rc = VL_OK;

    if (l->files->tokenizer_config.ptr == NULL)
        return VL_OK;
    rc = vl_json_parse(&doc, l->files->tokenizer_config.ptr, l->files->tokenizer_config.len,
                       DEPTH_MAX, 0, err);
    if (rc == VL_OK)
        rc = load_added_decoder(l, vl_json_get(vl_json_root(&doc), "added_tokens_decoder"), err);
    if (rc != VL_OK)
        vl_error_prefix(err, FILE_CONFIG);
    vl_json_doc_fini(&doc);
    return rc;
}

vl_status vl_bpe_load_json(const struct vl_bpe_files *files, vl_tokenizer **out, vl_error *err)
{
    struct load l = {.files = files};
    vl_json_doc doc = {0};
    vl_status rc = VL_E_NOMEM;

    l.t = vl_bpe_tokenizer_create(err);
    if (l.t == NULL)
        goto out;
    rc = vl_json_parse(&doc, files->tokenizer.ptr, files->tokenizer.len, DEPTH_MAX, 0, err);
    if (rc == VL_OK)
        rc = load_tokenizer(&l, vl_json_root(&doc), err);
    if (rc != VL_OK) {
        vl_error_prefix(err, FILE_TOKENIZER);
        goto out;
    }
    rc = load_config(&l, err);
    if (rc != VL_OK)
        goto out;
    rc = check_odd(&l, err);
    if (rc != VL_OK) {
        vl_error_prefix(err, FILE_TOKENIZER);
        goto out;
    }
    rc = vl_bpe_load_stops(l.t, files, err);
    if (rc == VL_OK)
        rc = vl_bpe_tokenizer_seal(l.t, err);
    if (rc != VL_OK)
        goto out;
    *out = l.t;
    l.t = NULL;
out:
    vl_bpe_tokenizer_destroy(l.t);
    vl_json_doc_fini(&doc);
    vl_buf_fini(&l.text);
    vl_buf_fini(&l.bytes);
    free(l.odd);
    return rc;
}
