/* plugins/loaders/gguf/vocab.h: tokenizer.ggml.* as a vl_vocab. Does no I/O; what the tokens mean
 * is the tokenizer's. */
#ifndef VL_GGUF_VOCAB_H
#define VL_GGUF_VOCAB_H

#include "plugins/loaders/gguf/parse.h"
#include "vallmo/loader.h"

enum { VL_GGUF_MAX_STOPS = 3 };

struct vl_gguf_vocab {
    vl_vocab pub;
    char *model, *pre; /* owned */
    vl_bytes *tokens;  /* owned; the bytes lie in the mapping */
    vl_bytes *merges;
    int32_t *types;
    int32_t stops[VL_GGUF_MAX_STOPS];
};

/* rows: of the embedding; more tokens than that are refused. pre: replaces tokenizer.ggml.pre when
 * it is not NULL. file is borrowed. *out must not move afterwards; on failure it needs no fini. */
vl_status vl_gguf_vocab_read(const struct vl_gguf_file *g, const char *file, uint64_t rows,
                             const char *pre, struct vl_gguf_vocab *out, vl_error *err);
void vl_gguf_vocab_fini(struct vl_gguf_vocab *v);

#endif
