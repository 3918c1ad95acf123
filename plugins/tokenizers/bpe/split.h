/* split.h: the pre-tokenizer: cuts a text into the pieces that merges never cross. Stages run one
 * inside the pieces of the one before. Knows nothing of tokens. Read-only once made: [any]; what
 * matching writes to lives in a run, one a call. */
#ifndef VL_BPE_SPLIT_H
#define VL_BPE_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pattern.h"
#include "vallmo/abi.h"

/* The end of the piece that starts at `at` < end, always > at. text is valid UTF-8. */
typedef size_t (*vl_scan_fn)(const uint8_t *classes, const uint8_t *text, size_t at, size_t end);

size_t vl_scan_qwen35(const uint8_t *classes, const uint8_t *text, size_t at, size_t end);
size_t vl_scan_qwen2(const uint8_t *classes, const uint8_t *text, size_t at, size_t end);
size_t vl_scan_llama3(const uint8_t *classes, const uint8_t *text, size_t at, size_t end);
size_t vl_scan_gpt2(const uint8_t *classes, const uint8_t *text, size_t at, size_t end);
/* Pieces of one number character each, and the stretches between them. */
size_t vl_scan_digit(const uint8_t *classes, const uint8_t *text, size_t at, size_t end);
/* Runs of number characters, and the stretches between them. */
size_t vl_scan_digits(const uint8_t *classes, const uint8_t *text, size_t at, size_t end);

/* The scanner that does exactly what this regular expression does, or NULL. */
vl_scan_fn vl_scan_for_pattern(const char *regex, size_t len);
/* The GPT-2 expression, which a ByteLevel stage means by use_regex. */
extern const char vl_pattern_gpt2[];

enum { VL_SPLIT_STAGES_MAX = 16 };

struct vl_split_stage {
    vl_scan_fn scan;     /* or NULL: */
    vl_pattern *pattern; /* owned */
};

struct vl_splitter {
    const uint8_t *classes; /* borrowed */
    struct vl_split_stage stages[VL_SPLIT_STAGES_MAX];
    size_t n_stages;
};

void vl_splitter_fini(struct vl_splitter *s);
vl_status vl_splitter_add_scan(struct vl_splitter *s, vl_scan_fn scan, vl_error *err);
/* Takes the pattern over, also when it fails. */
vl_status vl_splitter_add_pattern(struct vl_splitter *s, vl_pattern *pattern, vl_error *err);

/* Match state of the pattern stages of one encode call. Zero it first. */
struct vl_split_run {
    vl_pattern_run *patterns[VL_SPLIT_STAGES_MAX]; /* made when first needed */
};
void vl_split_run_fini(struct vl_split_run *run);

/* Called for each piece in order; anything but VL_OK stops the split and is returned. */
typedef vl_status (*vl_split_piece_fn)(void *user, size_t from, size_t to, vl_error *err);

/* Splits text[from, end). */
vl_status vl_split(const struct vl_splitter *s, struct vl_split_run *run, const uint8_t *text,
                   size_t from, size_t end, vl_split_piece_fn piece, void *user, vl_error *err);

#endif
