/* tests/plugins/fake_text.c: the fake loader (any file whose name ends in .fake is a checkpoint)
 * and the fake tokenizer (bytes). */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

/* ---- loader ---- */

struct vl_checkpoint {
    char *path;
};

static const char config[] =
    "{\"model_type\":\"fake\",\"max_position_embeddings\":4096,\"vocab_size\":272}";
static const char generation[] = "{\"temperature\":0.5,\"top_k\":20}";

static vl_status loader_probe(vl_instance *self, const char *path, int32_t *score, vl_error *err)
{
    size_t n = strlen(path);

    (void)self;
    (void)err;
    *score = n > 5 && strcmp(path + n - 5, ".fake") == 0 ? 100 : 0;
    return VL_OK;
}

static vl_status loader_open(vl_instance *self, const char *path, const vl_option_values *options,
                             vl_checkpoint **out, vl_error *err)
{
    vl_checkpoint *c = calloc(1, sizeof *c);

    (void)self;
    (void)options;
    if (c == NULL || (c->path = strdup(path)) == NULL) {
        free(c);
        return vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
    }
    FAKE_ADD(checkpoints, 1);
    *out = c;
    return VL_OK;
}

static void loader_close(vl_checkpoint *c)
{
    if (c == NULL)
        return;
    FAKE_ADD(checkpoints, -1);
    free(c->path);
    free(c);
}

static const char *loader_format(const vl_checkpoint *c)
{
    (void)c;
    return "fake";
}

static vl_bytes loader_text(const vl_checkpoint *c, int32_t which)
{
    (void)c;
    if (which == VL_TEXT_CONFIG)
        return (vl_bytes){config, sizeof config - 1};
    if (which == VL_TEXT_GENERATION_CONFIG)
        return (vl_bytes){generation, sizeof generation - 1};
    return (vl_bytes){NULL, 0};
}

static const vl_vocab *loader_vocab(const vl_checkpoint *c)
{
    (void)c;
    return NULL;
}

static uint64_t loader_n_tensors(const vl_checkpoint *c)
{
    (void)c;
    return 0;
}

static const vl_tensor *loader_tensor(const vl_checkpoint *c, uint64_t i)
{
    (void)c;
    (void)i;
    return NULL;
}

static int64_t loader_find(const vl_checkpoint *c, const char *name)
{
    (void)c;
    (void)name;
    return -1;
}

static const void *loader_data(vl_checkpoint *c, uint64_t i, vl_error *err)
{
    (void)c;
    (void)i;
    vl_error_set(err, VL_E_NOT_FOUND, "fake: no tensors");
    return NULL;
}

static vl_status loader_read(vl_checkpoint *c, uint64_t i, void *dst, uint64_t cap, vl_error *err)
{
    (void)c;
    (void)i;
    (void)dst;
    (void)cap;
    return vl_error_set(err, VL_E_NOT_FOUND, "fake: no tensors");
}

static vl_status loader_prefer(vl_checkpoint *c, int32_t heads, vl_error *err)
{
    (void)c;
    (void)heads;
    (void)err;
    return VL_OK;
}

static int32_t loader_heads(const vl_checkpoint *c)
{
    (void)c;
    return VL_ORDER_GROUPED;
}

static void loader_memory(const vl_checkpoint *c, uint64_t *mapped, uint64_t *owned)
{
    (void)c;
    *mapped = *owned = 0;
}

const vl_loader_api fake_loader_api = {
    .struct_size = sizeof(vl_loader_api),
    .abi_version = VL_ABI_VERSION,
    .probe = loader_probe,
    .open = loader_open,
    .close = loader_close,
    .format = loader_format,
    .text = loader_text,
    .vocab = loader_vocab,
    .n_tensors = loader_n_tensors,
    .tensor = loader_tensor,
    .find = loader_find,
    .data = loader_data,
    .read = loader_read,
    .prefer = loader_prefer,
    .heads = loader_heads,
    .memory = loader_memory,
};

/* ---- tokenizer ---- */

struct vl_tokenizer {
    char bytes[256];
};
struct vl_decoder {
    char held[4];
    size_t n;
};

static const char *const specials[] = {"<|end|>", "<think>", "</think>", "<call>", "</call>"};
static const int32_t stops[] = {FAKE_END};

static vl_status tok_probe(vl_instance *self, const vl_loader_api *loader, const vl_checkpoint *c,
                           int32_t *score, vl_error *err)
{
    (void)self;
    (void)err;
    *score = strcmp(loader->format(c), "fake") == 0 ? 100 : 0;
    return VL_OK;
}

static vl_status tok_create(vl_instance *self, const vl_loader_api *loader, const vl_checkpoint *c,
                            const vl_option_values *options, vl_tokenizer **out, vl_error *err)
{
    vl_tokenizer *t = calloc(1, sizeof *t);

    (void)self;
    (void)loader;
    (void)c;
    (void)options;
    if (t == NULL)
        return vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
    for (int i = 0; i < 256; i++)
        t->bytes[i] = (char)i;
    FAKE_ADD(tokenizers, 1);
    *out = t;
    return VL_OK;
}

static void tok_destroy(vl_tokenizer *t)
{
    if (t != NULL)
        FAKE_ADD(tokenizers, -1);
    free(t);
}

static int32_t special_at(const char *p, uint64_t len)
{
    for (int32_t i = 0; i < 5; i++) {
        size_t n = strlen(specials[i]);
        if (n <= len && memcmp(p, specials[i], n) == 0)
            return FAKE_END + i;
    }
    return -1;
}

static vl_status tok_encode(const vl_tokenizer *t, const vl_piece *pieces, uint64_t n_pieces,
                            const uint64_t *marks, uint64_t *n_before, uint64_t n_marks,
                            int32_t *ids, uint64_t cap, uint64_t *n_ids, vl_error *err)
{
    uint64_t n = 0, byte = 0, mark = 0;

    (void)t;
    for (uint64_t i = 0; i < n_pieces; i++) {
        for (uint64_t at = 0; at < pieces[i].len;) {
            int32_t id = pieces[i].kind == VL_PIECE_TEMPLATE
                             ? special_at(pieces[i].ptr + at, pieces[i].len - at)
                             : -1;
            size_t len = id >= 0 ? strlen(specials[id - FAKE_END]) : 1;
            if (id < 0)
                id = (unsigned char)pieces[i].ptr[at];
            while (mark < n_marks && marks[mark] < byte + len)
                n_before[mark++] = n;
            if (n < cap)
                ids[n] = id;
            n++;
            at += len;
            byte += len;
        }
    }
    while (mark < n_marks)
        n_before[mark++] = n;
    *n_ids = n;
    return n > cap ? vl_error_set(err, VL_E_RANGE, "fake: %llu ids, room for %llu",
                                  (unsigned long long)n, (unsigned long long)cap)
                   : VL_OK;
}

static uint64_t tok_n_tokens(const vl_tokenizer *t)
{
    (void)t;
    return FAKE_TOKENS;
}

static int32_t tok_find(const vl_tokenizer *t, const char *bytes, uint64_t len)
{
    (void)t;
    int32_t id = special_at(bytes, len);
    if (id >= 0 && strlen(specials[id - FAKE_END]) == len)
        return id;
    return len == 1 ? (unsigned char)bytes[0] : -1;
}

static vl_bytes tok_token(const vl_tokenizer *t, int32_t id)
{
    if (id >= 0 && id < 256)
        return (vl_bytes){&t->bytes[id], 1};
    if (id >= FAKE_END && id < FAKE_TOKENS)
        return (vl_bytes){specials[id - FAKE_END], strlen(specials[id - FAKE_END])};
    return (vl_bytes){NULL, 0};
}

static uint32_t tok_flags(const vl_tokenizer *t, int32_t id)
{
    (void)t;
    return id == FAKE_END ? VL_TOKEN_ADDED | VL_TOKEN_SPECIAL : id > FAKE_END ? VL_TOKEN_ADDED : 0;
}

static const int32_t *tok_stop_ids(const vl_tokenizer *t, uint64_t *n)
{
    (void)t;
    *n = 1;
    return stops;
}

static uint64_t tok_max_token_bytes(const vl_tokenizer *t)
{
    (void)t;
    return 8;
}

static vl_status tok_decoder_create(const vl_tokenizer *t, vl_decoder **out, vl_error *err)
{
    (void)t;
    vl_decoder *d = calloc(1, sizeof *d);
    if (d == NULL)
        return vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
    FAKE_ADD(decoders, 1);
    *out = d;
    return VL_OK;
}

static void tok_decoder_destroy(vl_decoder *d)
{
    if (d != NULL)
        FAKE_ADD(decoders, -1);
    free(d);
}

static void put_bad(char *out, uint64_t *len)
{
    memcpy(out + *len, "\xef\xbf\xbd", 3);
    *len += 3;
}

/* Gives out what is complete of the held bytes; ill-formed parts as U+FFFD. */
static void give_complete(vl_decoder *d, char *out, uint64_t *len)
{
    while (d->n > 0) {
        uint32_t cp;
        int n = vl_utf8_next(d->held, d->n, &cp);
        if (n == 0)
            return;
        if (cp == 0xFFFFFFFFu) {
            put_bad(out, len);
        } else {
            memcpy(out + *len, d->held, (size_t)n);
            *len += (uint64_t)n;
        }
        memmove(d->held, d->held + n, d->n - (size_t)n);
        d->n -= (size_t)n;
    }
}

static vl_status tok_push(vl_decoder *d, int32_t id, int32_t skip_special, char *out, uint64_t cap,
                          uint64_t *len, vl_error *err)
{
    if (cap < 36)
        return vl_error_set(err, VL_E_RANGE, "fake: room for %llu bytes, want 36",
                            (unsigned long long)cap);
    *len = 0;
    if (id == FAKE_END && skip_special)
        return VL_OK;
    if (id >= FAKE_END) {
        if (d->n > 0)
            put_bad(out, len);
        d->n = 0;
        const char *s = specials[id - FAKE_END];
        memcpy(out + *len, s, strlen(s));
        *len += strlen(s);
        return VL_OK;
    }
    d->held[d->n++] = (char)id;
    give_complete(d, out, len);
    return VL_OK;
}

static vl_status tok_flush(vl_decoder *d, char *out, uint64_t cap, uint64_t *len, vl_error *err)
{
    (void)cap;
    (void)err;
    *len = 0;
    if (d->n > 0)
        put_bad(out, len);
    d->n = 0;
    return VL_OK;
}

const vl_tokenizer_api fake_tokenizer_api = {
    .struct_size = sizeof(vl_tokenizer_api),
    .abi_version = VL_ABI_VERSION,
    .probe = tok_probe,
    .create = tok_create,
    .destroy = tok_destroy,
    .encode = tok_encode,
    .n_tokens = tok_n_tokens,
    .find = tok_find,
    .token = tok_token,
    .flags = tok_flags,
    .stop_ids = tok_stop_ids,
    .max_token_bytes = tok_max_token_bytes,
    .decoder_create = tok_decoder_create,
    .decoder_destroy = tok_decoder_destroy,
    .decoder_push = tok_push,
    .decoder_flush = tok_flush,
};
