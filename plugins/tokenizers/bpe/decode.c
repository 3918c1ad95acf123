/* decode.c: the streaming decoder. A byte-level decode is a concatenation of bytes; what is held
 * back is only a correct beginning of a character, at most 3 bytes. */
#include <stdlib.h>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer.h"

struct vl_decoder {
    const vl_tokenizer *t; /* borrowed */
    uint8_t held[4];
    size_t n_held;
};

vl_status vl_bpe_decoder_create(const vl_tokenizer *t, vl_decoder **out, vl_error *err)
{
    vl_decoder *d = calloc(1, sizeof *d);
    if (d == NULL)
        return vl_error_set(err, VL_E_NOMEM, "decoder: out of memory");
    d->t = t;
    *out = d;
    return VL_OK;
}

void vl_bpe_decoder_destroy(vl_decoder *d)
{
    free(d);
}

/* Writes what of src[0, len) is complete to out, ill-formed parts as U+FFFD; with out NULL it only
 * counts. *rest is the number of bytes at the end that are the beginning of a character. */
static size_t put_utf8(const char *src, size_t len, char *out, size_t *rest)
{
    size_t n = 0, i = 0;
    while (i < len) {
        uint32_t cp;
        int step = vl_utf8_next(src + i, len - i, &cp);
        if (step == 0)
            break;
        size_t width = cp == UINT32_MAX ? 3 : (size_t)step;
        if (out != NULL)
            memcpy(out + n, cp == UINT32_MAX ? "\xef\xbf\xbd" : src + i, width);
        n += width;
        i += (size_t)step;
    }
    *rest = len - i;
    return n;
}

vl_status vl_bpe_decoder_push(vl_decoder *d, int32_t id, int32_t skip_special, char *out,
                              uint64_t cap, uint64_t *len, vl_error *err)
{
    vl_bytes token = vl_tokens_bytes(&d->t->bpe.tokens, id);
    char small[512];
    size_t rest;

    if (token.len == 0 || (skip_special && (vl_bpe_tokenizer_flags(d->t, id) & VL_TOKEN_SPECIAL))) {
        *len = 0;
        return VL_OK;
    }
    size_t n = d->n_held + token.len;
    char *bytes = n <= sizeof small ? small : malloc(n);
    if (bytes == NULL)
        return vl_error_set(err, VL_E_NOMEM, "decoder: out of memory");
    memcpy(bytes, d->held, d->n_held);
    memcpy(bytes + d->n_held, token.ptr, token.len);

    vl_status rc = VL_OK;
    size_t need = put_utf8(bytes, n, NULL, &rest);
    if (need > cap) {
        rc = vl_error_set(err, VL_E_RANGE, "decoder: %zu bytes, room for %llu", need,
                          (unsigned long long)cap);
    } else {
        put_utf8(bytes, n, out, &rest);
        memcpy(d->held, bytes + n - rest, rest);
        d->n_held = rest;
        *len = need;
    }
    if (bytes != small)
        free(bytes);
    return rc;
}

vl_status vl_bpe_decoder_flush(vl_decoder *d, char *out, uint64_t cap, uint64_t *len, vl_error *err)
{
    if (d->n_held == 0) {
        *len = 0;
        return VL_OK;
    }
    if (cap < 3)
        return vl_error_set(err, VL_E_RANGE, "decoder: 3 bytes, room for %llu",
                            (unsigned long long)cap);
    memcpy(out, "\xef\xbf\xbd", 3);
    d->n_held = 0;
    *len = 3;
    return VL_OK;
}
