/* tokenizer_util.h: what the tokenizer's tests share: vocabularies, a small one made by hand,
 * encoding. */
#ifndef VL_TEST_TOKENIZER_UTIL_H
#define VL_TEST_TOKENIZER_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "plugins/tokenizers/bpe/tokenizer.h"

/* The file NAME/tokenizer.json of the unpacked vocabularies. Fails the test if it does not load. */
vl_tokenizer *tok_load(const char *name);

/* A tokenizer.json with the 256 bytes (ids 0-255 in byte order), `merges` (old form, separated by
 * '\n'; each makes the next id), added tokens and pre_tokenizer as JSON text; NULL: <|im_end|>-like
 * defaults. */
void tok_write_small(vl_buf *out, const char *merges, const char *added, const char *pre_tokenizer,
                     const char *normalizer);
/* Loads it. *err says why it failed when NULL comes back. */
vl_tokenizer *tok_small(const char *merges, const char *added, const char *pre_tokenizer,
                        const char *normalizer, vl_error *err);

/* Encodes one text; the caller frees *ids. */
size_t tok_encode(const vl_tokenizer *t, const char *text, size_t len, int32_t kind, int32_t **ids);
/* Fails unless text encodes to want[0..n). */
void tok_expect(const vl_tokenizer *t, const char *text, size_t len, int32_t kind,
                const int32_t *want, size_t n);
/* The streamed decode of ids, as text. */
void tok_decode(const vl_tokenizer *t, const int32_t *ids, size_t n, int32_t skip_special,
                vl_buf *out);

/* Seeded random numbers, the same everywhere. */
static inline uint32_t tok_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

#endif
