/* tokenizer_util.c: see tokenizer_util.h. */
#include "tokenizer_util.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"

vl_tokenizer *tok_load(const char *name)
{
    char path[1024];
    vl_map map = {0};
    vl_error err = {0};
    vl_tokenizer *t = NULL;
    struct vl_bpe_files files = {0};

    snprintf(path, sizeof path, "%s/tests/tokenizers/%s/tokenizer.json", VL_BUILD_DIR, name);
    if (vl_map_open(path, &map, &err) != VL_OK)
        fail_msg("%s", err.text);
    files.tokenizer = (vl_bytes){(const char *)map.ptr, map.len};
    if (vl_bpe_load_json(&files, &t, &err) != VL_OK)
        fail_msg("%s", err.text);
    vl_map_close(&map);
    return t;
}

/* The character of the byte alphabet that stands for a byte. */
static void put_alphabet(vl_buf *out, int byte)
{
    bool itself = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    uint32_t cp = (uint32_t)byte;
    char text[4];

    if (!itself)
        cp = byte <= 0x20   ? 0x100u + (uint32_t)byte
             : byte == 0xad ? 0x143u
                            : 0x121u + (uint32_t)byte - 0x7f;
    vl_json_put_escaped(out, text, (size_t)vl_utf8_put(cp, text));
}

void tok_write_small(vl_buf *out, const char *merges, const char *added, const char *pre_tokenizer,
                     const char *normalizer)
{
    int id = 256;

    vl_buf_printf(
        out, "{\"version\":\"1.0\",\"added_tokens\":%s,\"normalizer\":%s,\"pre_tokenizer\":%s,",
        added != NULL ? added : "[]", normalizer != NULL ? normalizer : "null",
        pre_tokenizer != NULL
            ? pre_tokenizer
            : "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}");
    vl_buf_puts(out,
                "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int i = 0; i < 256; i++) {
        vl_buf_puts(out, i > 0 ? ",\"" : "\"");
        put_alphabet(out, i);
        vl_buf_printf(out, "\":%d", i);
    }
    for (const char *p = merges; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        vl_buf_puts(out, ",\"");
        for (size_t i = 0; i < n; i++)
            if (p[i] != ' ')
                vl_buf_putc(out, p[i]);
        vl_buf_printf(out, "\":%d", id++);
        p += n + (p[n] == '\n');
    }
    vl_buf_puts(out, "},\"merges\":[");
    for (const char *p = merges; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        vl_buf_puts(out, p == merges ? "\"" : ",\"");
        vl_buf_append(out, p, n);
        vl_buf_puts(out, "\"");
        p += n + (p[n] == '\n');
    }
    vl_buf_puts(out, "]}}");
}

vl_tokenizer *tok_small(const char *merges, const char *added, const char *pre_tokenizer,
                        const char *normalizer, vl_error *err)
{
    vl_buf text = VL_BUF_INIT;
    vl_tokenizer *t = NULL;
    struct vl_bpe_files files = {0};

    tok_write_small(&text, merges, added, pre_tokenizer, normalizer);
    files.tokenizer = (vl_bytes){text.ptr, text.len};
    if (vl_bpe_load_json(&files, &t, err) != VL_OK)
        t = NULL;
    vl_buf_fini(&text);
    return t;
}

size_t tok_encode(const vl_tokenizer *t, const char *text, size_t len, int32_t kind, int32_t **ids)
{
    vl_piece piece = {text, len, kind, 0};
    vl_error err = {0};
    uint64_t n = 0;

    *ids = malloc((len + 1) * sizeof **ids);
    assert_non_null(*ids);
    if (vl_bpe_tokenizer_encode(t, &piece, 1, NULL, NULL, 0, *ids, len + 1, &n, &err) != VL_OK)
        fail_msg("%s", err.text);
    return (size_t)n;
}

static void put_ids(vl_buf *out, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n && i < 60; i++)
        vl_buf_printf(out, " %d", ids[i]);
}

void tok_expect(const vl_tokenizer *t, const char *text, size_t len, int32_t kind,
                const int32_t *want, size_t n)
{
    int32_t *ids = NULL;
    size_t got = tok_encode(t, text, len, kind, &ids);

    if (got != n || memcmp(ids, want, n * sizeof *ids) != 0) {
        vl_buf says = VL_BUF_INIT;
        vl_json_put_str(&says, text, len < 400 ? len : 400);
        vl_buf_puts(&says, " gives");
        put_ids(&says, ids, got);
        vl_buf_puts(&says, ", want");
        put_ids(&says, want, n);
        print_error("%s\n", says.ptr);
        vl_buf_fini(&says);
        fail();
    }
    free(ids);
}

void tok_decode(const vl_tokenizer *t, const int32_t *ids, size_t n, int32_t skip_special,
                vl_buf *out)
{
    size_t cap = 3 * t->bpe.tokens.max_len + 12;
    char *text = malloc(cap);
    vl_decoder *d = NULL;
    uint64_t len = 0;

    assert_non_null(text);
    assert_int_equal(vl_bpe_decoder_create(t, &d, NULL), VL_OK);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(vl_bpe_decoder_push(d, ids[i], skip_special, text, cap, &len, NULL),
                         VL_OK);
        assert_true(vl_utf8_valid(text, len) == len);
        vl_buf_append(out, text, len);
    }
    assert_int_equal(vl_bpe_decoder_flush(d, text, cap, &len, NULL), VL_OK);
    vl_buf_append(out, text, len);
    vl_bpe_decoder_destroy(d);
    free(text);
}
