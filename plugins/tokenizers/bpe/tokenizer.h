/* tokenizer.h: the whole tokenizer, as the loaders fill it and the plugin shows it: added tokens,
 * normaliser, splitter, merges. Knows no plugin tables and no files. Read-only once sealed: [any].
 */
#ifndef VL_BPE_TOKENIZER_H
#define VL_BPE_TOKENIZER_H

#include "added.h"
#include "bpe.h"
#include "nfc.h"
#include "split.h"
#include "unicode.h"
#include "vallmo/tokenizer.h"

struct vl_tokenizer {
    struct vl_bpe bpe;
    uint8_t *classes; /* owned */
    vl_nfc *nfc;      /* owned; NULL: no normaliser */
    struct vl_splitter splitter;
    struct vl_added raw;        /* added tokens that are matched before the normaliser */
    struct vl_added normalized; /* and behind it */
    uint8_t *flags;             /* owned, [flags_cap]: VL_TOKEN_... */
    size_t flags_cap;
    int32_t *stop_ids; /* owned, ascending, each once */
    size_t n_stop_ids;
};

/* Begins an empty tokenizer: NULL with *err when out of memory. */
vl_tokenizer *vl_bpe_tokenizer_create(vl_error *err);
void vl_bpe_tokenizer_destroy(vl_tokenizer *t);

/* One added token. Its id may be in the vocabulary already, with the same content. flags:
 * VL_ADDED_... VL_E_FORMAT if the id has another content. */
vl_status vl_bpe_tokenizer_add(vl_tokenizer *t, int64_t id, uint32_t flags, const char *content,
                               size_t len, vl_error *err);
/* Notes id as one that ends an answer; VL_E_RANGE if it is no token. */
vl_status vl_bpe_tokenizer_stop(vl_tokenizer *t, int64_t id, vl_error *err);
/* The last step: known stop contents, merge tables. */
vl_status vl_bpe_tokenizer_seal(vl_tokenizer *t, vl_error *err);

/* As vl_tokenizer_api's members of these names. */
vl_status vl_bpe_tokenizer_encode(const vl_tokenizer *t, const vl_piece *pieces, uint64_t n_pieces,
                                  const uint64_t *marks, uint64_t *n_before, uint64_t n_marks,
                                  int32_t *ids, uint64_t cap, uint64_t *n_ids, vl_error *err);
int32_t vl_bpe_tokenizer_find(const vl_tokenizer *t, const char *bytes, uint64_t len);
uint32_t vl_bpe_tokenizer_flags(const vl_tokenizer *t, int32_t id);

/* decode.c */
vl_status vl_bpe_decoder_create(const vl_tokenizer *t, vl_decoder **out, vl_error *err);
void vl_bpe_decoder_destroy(vl_decoder *d);
vl_status vl_bpe_decoder_push(vl_decoder *d, int32_t id, int32_t skip_special, char *out,
                              uint64_t cap, uint64_t *len, vl_error *err);
vl_status vl_bpe_decoder_flush(vl_decoder *d, char *out, uint64_t cap, uint64_t *len,
                               vl_error *err);

/* Texts of a checkpoint; ptr NULL where there is none. Borrowed for the call. */
struct vl_bpe_files {
    vl_bytes tokenizer;         /* tokenizer.json */
    vl_bytes tokenizer_config;  /* tokenizer_config.json */
    vl_bytes generation_config; /* generation_config.json */
    vl_bytes config;            /* config.json */
    uint64_t n_rows;            /* of the embedding; 0: not known */
};

/* load_json.c, load_parts.c */
vl_status vl_bpe_load_json(const struct vl_bpe_files *files, vl_tokenizer **out, vl_error *err);
/* Stop ids of generation_config, tokenizer_config and config into t. */
vl_status vl_bpe_load_stops(vl_tokenizer *t, const struct vl_bpe_files *files, vl_error *err);

/* load_gguf.c. pre: the splitter to use whatever the file says, or NULL. note: a line for the log,
 * or empty; [note_cap]. */
vl_status vl_bpe_load_gguf(const vl_vocab *vocab, const struct vl_bpe_files *files, const char *pre,
                           vl_tokenizer **out, char *note, size_t note_cap, vl_error *err);

#endif
