/* split.c: hand-written scanners for the known patterns, each equal to its regular expression under
 * the reference engine, and the chain of stages. A scanner looks at most one code point past its
 * piece (white space: past the run), so a split is linear. Owns no state. */
#include "split.h"

#include <string.h>

#include "base/error.h"
#include "unicode.h"

const char vl_pattern_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define SPACE_RULES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *regex;
    vl_scan_fn scan;
} known[] = {
    {CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
                  "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACE_RULES,
     vl_scan_qwen35},
    {CONTRACTIONS
     "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACE_RULES,
     vl_scan_qwen2},
    {CONTRACTIONS
     "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACE_RULES,
     vl_scan_llama3},
    {vl_pattern_gpt2, vl_scan_gpt2},
};

vl_scan_fn vl_scan_for_pattern(const char *regex, size_t len)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].regex) == len && memcmp(known[i].regex, regex, len) == 0)
            return known[i].scan;
    return NULL;
}

/* ---- scanning ---- */

static inline uint8_t class_at(const uint8_t *classes, const uint8_t *text, size_t at,
                               uint32_t *len)
{
    if (text[at] < 0x80) {
        *len = 1;
        return classes[text[at]];
    }
    return classes[vl_unicode_read(text + at, len)];
}

/* End of the run of code points that have one of the bits. */
static inline size_t run_of(const uint8_t *classes, const uint8_t *text, size_t at, size_t end,
                            uint8_t bits)
{
    while (at < end) {
        uint32_t len;
        if (!(class_at(classes, text, at, &len) & bits))
            break;
        at += len;
    }
    return at;
}

/* End of the run of code points that have none of the bits. */
static inline size_t run_without(const uint8_t *classes, const uint8_t *text, size_t at, size_t end,
                                 uint8_t bits)
{
    while (at < end) {
        uint32_t len;
        if (class_at(classes, text, at, &len) & bits)
            break;
        at += len;
    }
    return at;
}

/* Bytes of a contraction at the apostrophe text[at], or 0. fold: any case, and U+017F (C5 BF) is an
 * s. */
static inline size_t contraction(const uint8_t *text, size_t at, size_t end, bool fold)
{
    size_t left = end - at;
    if (left < 2)
        return 0;
    uint8_t a = fold ? text[at + 1] | 0x20 : text[at + 1];
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if (left < 3)
        return 0;
    if (fold && text[at + 1] == 0xc5 && text[at + 2] == 0xbf)
        return 3;
    uint8_t b = fold ? text[at + 2] | 0x20 : text[at + 2];
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
        return 3;
    return 0;
}

/* The white space at `at`. newlines: a run that has CR or LF ends behind its last one. */
static inline size_t white_space(const uint8_t *classes, const uint8_t *text, size_t at, size_t end,
                                 bool newlines)
{
    size_t p = at, last_start = at, behind_newline = 0;
    while (p < end) {
        uint32_t len;
        uint8_t c = class_at(classes, text, p, &len);
        if (!(c & VL_CP_SPACE))
            break;
        last_start = p;
        p += len;
        if (c & VL_CP_NEWLINE)
            behind_newline = p;
    }
    if (newlines && behind_newline != 0)
        return behind_newline;
    if (p == end || last_start == at)
        return p;
    return last_start;
}

/* Qwen2, Qwen3.5 and Llama 3 differ in what a word is made of and in how many digits go together.
 */
static inline __attribute__((always_inline)) size_t scan_words(const uint8_t *classes,
                                                               const uint8_t *text, size_t at,
                                                               size_t end, uint8_t word,
                                                               int max_digits)
{
    uint32_t len;
    uint8_t c = class_at(classes, text, at, &len);
    size_t next = at + len;

    if (c & word)
        return run_of(classes, text, next, end, word);
    if (text[at] == '\'') {
        size_t n = contraction(text, at, end, true);
        if (n != 0)
            return at + n;
    }
    if (!(c & (VL_CP_NEWLINE | VL_CP_NUMBER)) && next < end) {
        uint32_t len2;
        if (class_at(classes, text, next, &len2) & word)
            return run_of(classes, text, next + len2, end, word);
    }
    if (c & VL_CP_NUMBER) {
        for (int i = 1; i < max_digits && next < end; i++) {
            if (!(class_at(classes, text, next, &len) & VL_CP_NUMBER))
                break;
            next += len;
        }
        return next;
    }
    const uint8_t not_other = word | VL_CP_NUMBER | VL_CP_SPACE;
    size_t k = text[at] == ' ' ? next : at;
    if (k < end && !(class_at(classes, text, k, &len) & not_other)) {
        k = run_without(classes, text, k + len, end, not_other);
        while (k < end && (text[k] == '\r' || text[k] == '\n'))
            k++;
        return k;
    }
    if (c & VL_CP_SPACE)
        return white_space(classes, text, at, end, true);
    return next;
}

size_t vl_scan_qwen35(const uint8_t *classes, const uint8_t *text, size_t at, size_t end)
{
    return scan_words(classes, text, at, end, VL_CP_LETTER | VL_CP_MARK, 1);
}

size_t vl_scan_qwen2(const uint8_t *classes, const uint8_t *text, size_t at, size_t end)
{
    return scan_words(classes, text, at, end, VL_CP_LETTER, 1);
}

size_t vl_scan_llama3(const uint8_t *classes, const uint8_t *text, size_t at, size_t end)
{
    return scan_words(classes, text, at, end, VL_CP_LETTER, 3);
}

size_t vl_scan_gpt2(const uint8_t *classes, const uint8_t *text, size_t at, size_t end)
{
    const uint8_t not_other = VL_CP_LETTER | VL_CP_NUMBER | VL_CP_SPACE;

    if (text[at] == '\'') {
        size_t n = contraction(text, at, end, false);
        if (n != 0)
            return at + n;
    }
    size_t k = text[at] == ' ' ? at + 1 : at;
    if (k < end) {
        uint32_t len;
        uint8_t c = class_at(classes, text, k, &len);
        if (c & VL_CP_LETTER)
            return run_of(classes, text, k + len, end, VL_CP_LETTER);
        if (c & VL_CP_NUMBER)
            return run_of(classes, text, k + len, end, VL_CP_NUMBER);
        if (!(c & VL_CP_SPACE))
            return run_without(classes, text, k + len, end, not_other);
    }
    return white_space(classes, text, at, end, false);
}

size_t vl_scan_digit(const uint8_t *classes, const uint8_t *text, size_t at, size_t end)
{
    uint32_t len;
    if (class_at(classes, text, at, &len) & VL_CP_NUMBER)
        return at + len;
    return run_without(classes, text, at + len, end, VL_CP_NUMBER);
}

size_t vl_scan_digits(const uint8_t *classes, const uint8_t *text, size_t at, size_t end)
{
    uint32_t len;
    if (class_at(classes, text, at, &len) & VL_CP_NUMBER)
        return run_of(classes, text, at + len, end, VL_CP_NUMBER);
    return run_without(classes, text, at + len, end, VL_CP_NUMBER);
}

/* ---- stages ---- */

void vl_splitter_fini(struct vl_splitter *s)
{
    for (size_t i = 0; i < s->n_stages; i++)
        vl_pattern_destroy(s->stages[i].pattern);
    s->n_stages = 0;
}

static vl_status add_stage(struct vl_splitter *s, vl_scan_fn scan, vl_pattern *pattern,
                           vl_error *err)
{
    if (s->n_stages == VL_SPLIT_STAGES_MAX) {
        vl_pattern_destroy(pattern);
        return vl_error_set(err, VL_E_UNSUPPORTED, "pre_tokenizer: more than %d split stages",
                            VL_SPLIT_STAGES_MAX);
    }
    s->stages[s->n_stages++] = (struct vl_split_stage){scan, pattern};
    return VL_OK;
}

vl_status vl_splitter_add_scan(struct vl_splitter *s, vl_scan_fn scan, vl_error *err)
{
    return add_stage(s, scan, NULL, err);
}

vl_status vl_splitter_add_pattern(struct vl_splitter *s, vl_pattern *pattern, vl_error *err)
{
    return add_stage(s, NULL, pattern, err);
}

void vl_split_run_fini(struct vl_split_run *run)
{
    for (size_t i = 0; i < VL_SPLIT_STAGES_MAX; i++)
        vl_pattern_run_destroy(run->patterns[i]);
    memset(run, 0, sizeof *run);
}

struct job {
    const struct vl_splitter *splitter;
    struct vl_split_run *run;
    const uint8_t *text;
    vl_split_piece_fn piece;
    void *user;
};

/* Gives text[from, end) to stage i, and its pieces to the next one. Depth: at most
 * VL_SPLIT_STAGES_MAX. */
static vl_status run_stage(const struct job *j, size_t i, size_t from, size_t end, vl_error *err)
{
    vl_status rc = VL_OK;
    if (from == end)
        return VL_OK;
    if (i == j->splitter->n_stages)
        return j->piece(j->user, from, end, err);

    const struct vl_split_stage *stage = &j->splitter->stages[i];
    if (stage->scan != NULL) {
        while (from < end && rc == VL_OK) {
            size_t to = stage->scan(j->splitter->classes, j->text, from, end);
            rc = run_stage(j, i + 1, from, to, err);
            from = to;
        }
        return rc;
    }

    if (j->run->patterns[i] == NULL) {
        rc = vl_pattern_run_create(stage->pattern, &j->run->patterns[i], err);
        if (rc != VL_OK)
            return rc;
    }
    bool keeps_gaps = vl_pattern_keeps_gaps(stage->pattern);
    size_t at = from; /* end of the last match */
    size_t search = from;
    while (search < end) {
        size_t a, b;
        rc = vl_pattern_next(j->run->patterns[i], j->text, from, end, search, &a, &b, err);
        if (rc != VL_OK)
            return rc;
        if (a == SIZE_MAX)
            break;
        if (keeps_gaps)
            rc = run_stage(j, i + 1, at, a, err);
        if (rc == VL_OK)
            rc = run_stage(j, i + 1, a, b, err);
        if (rc != VL_OK)
            return rc;
        at = search = b;
        if (a == b) { /* an empty match: a border; go on behind the next character */
            uint32_t len;
            if (search == end)
                break;
            vl_unicode_read(j->text + search, &len);
            search += len;
        }
    }
    return keeps_gaps ? run_stage(j, i + 1, at, end, err) : VL_OK;
}

vl_status vl_split(const struct vl_splitter *s, struct vl_split_run *run, const uint8_t *text,
                   size_t from, size_t end, vl_split_piece_fn piece, void *user, vl_error *err)
{
    struct job j = {s, run, text, piece, user};
    return run_stage(&j, 0, from, end, err);
}
