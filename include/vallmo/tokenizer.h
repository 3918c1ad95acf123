/* vallmo/tokenizer.h: "vl.tokenizer/1": text to ids and back. A tokenizer is immutable once made:
 * every call but create and destroy is [any], also at once from many threads. Ids are int32_t >= 0.
 */
#ifndef VALLMO_TOKENIZER_H
#define VALLMO_TOKENIZER_H

#include "vallmo/abi.h"
#include "vallmo/loader.h"
#include "vallmo/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VL_TOKENIZER_ID "vl.tokenizer/1"

typedef struct vl_tokenizer vl_tokenizer;
typedef struct vl_decoder vl_decoder;

enum {
    VL_PIECE_TEXT = 0,    /* someone's text: never matches a special token */
    VL_PIECE_TEMPLATE = 1 /* ours: may match special tokens, each wholly inside one piece */
};

typedef struct vl_piece {
    const char *ptr; /* UTF-8, may contain NUL; invalid UTF-8 is refused */
    uint64_t len;
    int32_t kind; /* VL_PIECE_... */
    uint32_t reserved;
} vl_piece;

enum {
    VL_TOKEN_ADDED = 1,  /* an entry of added_tokens: matched in template pieces */
    VL_TOKEN_SPECIAL = 2 /* dropped when special tokens are skipped (<|im_end|>, not <think>) */
};

typedef struct vl_tokenizer_api {
    uint32_t struct_size;
    uint32_t abi_version;

    /* *score as in vl_loader_api.probe, from what the checkpoint holds. [any] */
    vl_status (*probe)(vl_instance *self, const vl_loader_api *loader, const vl_checkpoint *c,
                       int32_t *score, vl_error *err);
    /* Copies what it needs: the checkpoint may be closed afterwards. [open] */
    vl_status (*create)(vl_instance *self, const vl_loader_api *loader, const vl_checkpoint *c,
                        const vl_option_values *options, vl_tokenizer **out, vl_error *err);
    void (*destroy)(vl_tokenizer *t); /* NULL is a no-op; decoders are gone by then [open] */

    /* Encodes the pieces as one text: merges cross piece borders, only special tokens don't.
     * marks[i], ascending, are byte positions in the concatenation; n_before[i] becomes the number
     * of ids that lie wholly before it. marks may be NULL with n_marks 0. Writes at most cap ids;
     * *n_ids = ids needed. VL_E_RANGE if cap is short (ids holds the first cap of them, n_before is
     * set). Adds no BOS. */
    vl_status (*encode)(const vl_tokenizer *t, const vl_piece *pieces, uint64_t n_pieces,
                        const uint64_t *marks, uint64_t *n_before, uint64_t n_marks, int32_t *ids,
                        uint64_t cap, uint64_t *n_ids, vl_error *err);

    /* Ids 0..n-1 are real tokens; the model's head may have more rows, which must never be sampled.
     */
    uint64_t (*n_tokens)(const vl_tokenizer *t);
    /* The id whose content is exactly these bytes (added tokens first), or -1. */
    int32_t (*find)(const vl_tokenizer *t, const char *bytes, uint64_t len);
    /* A token's bytes, valid until destroy; empty for an id that has none. */
    vl_bytes (*token)(const vl_tokenizer *t, int32_t id);
    uint32_t (*flags)(const vl_tokenizer *t, int32_t id); /* VL_TOKEN_... */
    /* Ids that end an answer: the union of what the files say and of the known contents. */
    const int32_t *(*stop_ids)(const vl_tokenizer *t, uint64_t *n);
    /* Bytes of the longest token. */
    uint64_t (*max_token_bytes)(const vl_tokenizer *t);

    /* Streaming decode. One decoder belongs to one sequence and one thread at a time. */
    vl_status (*decoder_create)(const vl_tokenizer *t, vl_decoder **out, vl_error *err);
    void (*decoder_destroy)(vl_decoder *d);
    /* Appends id's bytes and gives out what is complete UTF-8: at most cap bytes, *len of them. Up
     * to 3 bytes are held back; ill-formed parts come out as U+FFFD at once. cap >= 3 *
     * max_token_bytes + 12 always suffices, else VL_E_RANGE and nothing is consumed. skip_special:
     * special tokens give nothing. */
    vl_status (*decoder_push)(vl_decoder *d, int32_t id, int32_t skip_special, char *out,
                              uint64_t cap, uint64_t *len, vl_error *err);
    /* What is held back, as U+FFFD (0 or 3 bytes); the decoder is new again. */
    vl_status (*decoder_flush)(vl_decoder *d, char *out, uint64_t cap, uint64_t *len,
                               vl_error *err);
} vl_tokenizer_api;

#ifdef __cplusplus
}
#endif
#endif
