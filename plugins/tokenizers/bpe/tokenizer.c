/* tokenizer.c: making a tokenizer out of its parts, and what can be asked about single tokens. */
#include "tokenizer.h"

#include <stdlib.h>

#include "base/error.h"

vl_tokenizer *vl_bpe_tokenizer_create(vl_error *err)
{
    vl_tokenizer *t = calloc(1, sizeof *t);
    if (t != NULL)
        t->classes = vl_unicode_classes_create();
    if (t == NULL || t->classes == NULL) {
        free(t);
        vl_error_set(err, VL_E_NOMEM, "tokenizer: out of memory");
        return NULL;
    }
    t->splitter.classes = t->classes;
    t->raw.classes = t->classes;
    t->normalized.classes = t->classes;
    return t;
}

void vl_bpe_tokenizer_destroy(vl_tokenizer *t)
{
    if (t == NULL)
        return;
    vl_splitter_fini(&t->splitter);
    vl_added_fini(&t->raw);
    vl_added_fini(&t->normalized);
    vl_bpe_fini(&t->bpe);
    vl_nfc_destroy(t->nfc);
    free(t->classes);
    free(t->flags);
    free(t->stop_ids);
    free(t);
}

/* True if a token's bytes are what `content` says: as they are, or spelled in the byte alphabet. */
static bool same_content(vl_bytes token, const char *content, size_t len)
{
    if (token.len == len && memcmp(token.ptr, content, len) == 0)
        return true;
    vl_buf bytes = VL_BUF_INIT;
    bool same = vl_tokens_from_alphabet(content, len, &bytes) && bytes.len == token.len &&
                memcmp(bytes.ptr, token.ptr, bytes.len) == 0;
    vl_buf_fini(&bytes);
    return same;
}

/* What a content looks like to added tokens of the kind that is matched behind the normaliser. */
static vl_status put_normalized(vl_tokenizer *t, int32_t id, uint32_t flags, const char *content,
                                size_t len, vl_error *err)
{
    vl_buf text = VL_BUF_INIT;
    struct vl_nfc_changes changes = {NULL, 0, 0};
    vl_status rc = VL_OK;

    if (t->nfc == NULL)
        vl_buf_append(&text, content, len);
    else if (!vl_nfc_apply(t->nfc, t->classes, VL_CP_NFC_MAYBE, (const uint8_t *)content, len,
                           &text, &changes))
        text.failed = true;
    if (text.failed)
        rc = vl_error_set(err, VL_E_NOMEM, "added_tokens: out of memory");
    else
        rc = vl_added_put(&t->normalized, id, flags, text.ptr, text.len, err);
    free(changes.ptr);
    vl_buf_fini(&text);
    return rc;
}

vl_status vl_bpe_tokenizer_add(vl_tokenizer *t, int64_t id, uint32_t flags, const char *content,
                               size_t len, vl_error *err)
{
    vl_status rc;

    if (vl_tokens_known(&t->bpe.tokens, id)) {
        vl_bytes had = vl_tokens_bytes(&t->bpe.tokens, id);
        if (!same_content(had, content, len))
            return vl_error_set(err, VL_E_FORMAT,
                                "the id %lld has two contents, \"%.*s\" and \"%.*s\"",
                                (long long)id, had.len > 64 ? 64 : (int)had.len, had.ptr,
                                len > 64 ? 64 : (int)len, content);
    } else {
        rc = vl_tokens_add(&t->bpe.tokens, id, content, len, false, err);
        if (rc != VL_OK)
            return rc;
    }
    if ((size_t)id >= t->flags_cap) {
        size_t from = t->flags_cap;
        if (!vl_grow(&t->flags, &t->flags_cap, (size_t)id + 1, 1))
            return vl_error_set(err, VL_E_NOMEM, "added_tokens: out of memory");
        memset(t->flags + from, 0, t->flags_cap - from);
    }
    if (t->flags[id] & VL_TOKEN_ADDED)
        return VL_OK; /* the second source of the same token */
    t->flags[id] = VL_TOKEN_ADDED | (flags & VL_ADDED_SPECIAL ? VL_TOKEN_SPECIAL : 0);
    if (flags & VL_ADDED_NORMALIZED)
        return put_normalized(t, (int32_t)id, flags, content, len, err);
    return vl_added_put(&t->raw, (int32_t)id, flags, content, len, err);
}

vl_status vl_bpe_tokenizer_stop(vl_tokenizer *t, int64_t id, vl_error *err)
{
    if (!vl_tokens_known(&t->bpe.tokens, id))
        return vl_error_set(err, VL_E_RANGE, "%lld is no token (the ids end at %zu)", (long long)id,
                            t->bpe.tokens.n_ids);
    size_t at = 0;
    while (at < t->n_stop_ids && t->stop_ids[at] < id)
        at++;
    if (at < t->n_stop_ids && t->stop_ids[at] == id)
        return VL_OK;
    size_t cap = t->n_stop_ids;
    if (!vl_grow(&t->stop_ids, &cap, t->n_stop_ids + 1, sizeof *t->stop_ids))
        return vl_error_set(err, VL_E_NOMEM, "tokenizer: out of memory");
    memmove(t->stop_ids + at + 1, t->stop_ids + at, (t->n_stop_ids - at) * sizeof *t->stop_ids);
    t->stop_ids[at] = (int32_t)id;
    t->n_stop_ids++;
    return VL_OK;
}

vl_status vl_bpe_tokenizer_seal(vl_tokenizer *t, vl_error *err)
{
    static const char *const ends[] = {"<|im_end|>", "<|endoftext|>"};

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        int32_t id = vl_bpe_tokenizer_find(t, ends[i], strlen(ends[i]));
        if (id >= 0 && (vl_bpe_tokenizer_flags(t, id) & VL_TOKEN_ADDED)) {
            vl_status rc = vl_bpe_tokenizer_stop(t, id, err);
            if (rc != VL_OK)
                return rc;
        }
    }
    vl_status rc = vl_bpe_seal(&t->bpe, err);
    if (rc != VL_OK)
        return rc;
    /* No text may spell an added token's id by being "a token as a whole". */
    for (size_t i = 0; i < t->flags_cap && i < t->bpe.tokens.n_ids; i++)
        if (t->flags[i] & VL_TOKEN_ADDED)
            vl_bpe_never_whole(&t->bpe, (int32_t)i);
    return VL_OK;
}

int32_t vl_bpe_tokenizer_find(const vl_tokenizer *t, const char *bytes, uint64_t len)
{
    int32_t id = vl_added_find(&t->raw, bytes, len);
    if (id < 0)
        id = vl_added_find(&t->normalized, bytes, len);
    if (id < 0)
        id = vl_tokens_find(&t->bpe.tokens, (const uint8_t *)bytes, len);
    return id;
}

uint32_t vl_bpe_tokenizer_flags(const vl_tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->flags_cap ? t->flags[id] : 0;
}
