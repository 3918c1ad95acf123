/* pattern.h: a split pattern that no scanner of ours knows, run by PCRE2 with the reference's
 * meaning of white space. The pattern comes from a file and is not trusted: matching has limits. */
#ifndef VL_BPE_PATTERN_H
#define VL_BPE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vallmo/abi.h"

typedef struct vl_pattern vl_pattern;         /* [any] once made */
typedef struct vl_pattern_run vl_pattern_run; /* one call's match state */

/* literal: the text itself, no expression. keeps_gaps: what lies between matches is a piece too
 * (Isolated); otherwise it is dropped (Removed, inverted). */
vl_status vl_pattern_create(const char *regex, size_t len, bool literal, bool keeps_gaps,
                            vl_pattern **out, vl_error *err);
void vl_pattern_destroy(vl_pattern *p); /* NULL is a no-op */
bool vl_pattern_keeps_gaps(const vl_pattern *p);

vl_status vl_pattern_run_create(const vl_pattern *p, vl_pattern_run **out, vl_error *err);
void vl_pattern_run_destroy(vl_pattern_run *r); /* NULL is a no-op */

/* The first match in text[from, end) at or behind `search`; *a = SIZE_MAX if there is none. Offsets
 * are those of text. VL_E_UNSUPPORTED when the pattern takes too many steps or too much time. */
vl_status vl_pattern_next(vl_pattern_run *r, const uint8_t *text, size_t from, size_t end,
                          size_t search, size_t *a, size_t *b, vl_error *err);

#endif
