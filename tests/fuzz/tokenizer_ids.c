/* tokenizer_ids.c: the core behind a pipe, for tests/fuzz/tokenizer_fuzz.py.
 *   tokenizer_ids TOKENIZER.json [TOKENIZER_CONFIG.json]
 * A request on stdin: u32 number of pieces, then for each u32 kind, u32 bytes, the bytes. The
 * answer: i32 status (VL_OK or an error, then nothing follows), u32 number of ids, the ids as i32,
 * u32 bytes of the streamed decode, the bytes, and the same with special tokens skipped. All
 * little-endian. Ends at the end of stdin. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "plugins/tokenizers/bpe/tokenizer.h"

static bool get_u32(uint32_t *out)
{
    return fread(out, sizeof *out, 1, stdin) == 1;
}

static void put(const void *bytes, size_t len)
{
    fwrite(bytes, 1, len, stdout);
}

static void put_decoded(const vl_tokenizer *t, const int32_t *ids, uint64_t n, int32_t skip)
{
    vl_buf text = VL_BUF_INIT;
    vl_decoder *d = NULL;
    size_t cap = 3 * t->bpe.tokens.max_len + 12;
    char *out = malloc(cap);
    uint64_t len;

    if (out == NULL || vl_bpe_decoder_create(t, &d, NULL) != VL_OK)
        exit(2);
    for (uint64_t i = 0; i < n; i++) {
        if (vl_bpe_decoder_push(d, ids[i], skip, out, cap, &len, NULL) != VL_OK)
            exit(2);
        vl_buf_append(&text, out, (size_t)len);
    }
    if (vl_bpe_decoder_flush(d, out, cap, &len, NULL) != VL_OK)
        exit(2);
    vl_buf_append(&text, out, (size_t)len);
    uint32_t total = (uint32_t)text.len;
    put(&total, sizeof total);
    put(text.ptr, text.len);
    vl_bpe_decoder_destroy(d);
    vl_buf_fini(&text);
    free(out);
}

/* False at the end of the input. */
static bool serve_one(const vl_tokenizer *t)
{
    uint32_t n_pieces;
    if (!get_u32(&n_pieces) || n_pieces > 100000)
        return false;
    vl_piece *pieces = calloc(n_pieces + 1, sizeof *pieces);
    size_t total = 0;
    for (uint32_t i = 0; pieces != NULL && i < n_pieces; i++) {
        uint32_t kind, len;
        if (!get_u32(&kind) || !get_u32(&len))
            return false;
        char *bytes = malloc(len + 1);
        if (bytes == NULL || fread(bytes, 1, len, stdin) != len)
            return false;
        pieces[i] = (vl_piece){bytes, len, (int32_t)kind, 0};
        total += len;
    }
    int32_t *ids = malloc((3 * total + 1) * sizeof *ids); /* NFC can make a text longer */
    uint64_t n_ids = 0;
    vl_error err = {0};
    if (pieces == NULL || ids == NULL)
        return false;
    int32_t rc = vl_bpe_tokenizer_encode(t, pieces, n_pieces, NULL, NULL, 0, ids, 3 * total + 1,
                                         &n_ids, &err);
    put(&rc, sizeof rc);
    if (rc == VL_OK) {
        uint32_t n = (uint32_t)n_ids;
        put(&n, sizeof n);
        put(ids, n * sizeof *ids);
        put_decoded(t, ids, n_ids, 0);
        put_decoded(t, ids, n_ids, 1);
    } else {
        fprintf(stderr, "%s\n", err.text);
    }
    fflush(stdout);
    for (uint32_t i = 0; i < n_pieces; i++)
        free((void *)(uintptr_t)pieces[i].ptr);
    free(pieces);
    free(ids);
    return true;
}

int main(int argc, char **argv)
{
    vl_map tokenizer = {0}, config = {0};
    struct vl_bpe_files files = {0};
    vl_tokenizer *t = NULL;
    vl_error err;

    if (argc < 2 || vl_map_open(argv[1], &tokenizer, &err) != VL_OK ||
        (argc > 2 && vl_map_open(argv[2], &config, &err) != VL_OK)) {
        fprintf(stderr, "usage: tokenizer_ids TOKENIZER.json [TOKENIZER_CONFIG.json]\n");
        return 2;
    }
    files.tokenizer = (vl_bytes){(const char *)tokenizer.ptr, tokenizer.len};
    files.tokenizer_config = (vl_bytes){(const char *)config.ptr, config.len};
    if (vl_bpe_load_json(&files, &t, &err) != VL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    while (serve_one(t))
        continue;
    vl_bpe_tokenizer_destroy(t);
    vl_map_close(&tokenizer);
    vl_map_close(&config);
    return 0;
}
