/* plugins/common/pages.h: which pages of a fixed pool are in use, and by how many owners.
 *
 * Owns page numbers and their reference counts, not the memory behind them (the caller's, on any
 * device: page i is at base + i * page_bytes). Knows no sequence or snapshot. Nothing is allocated
 * after create. [engine] */
#ifndef VL_COMMON_PAGES_H
#define VL_COMMON_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "vallmo/abi.h"

typedef struct vl_pages vl_pages;

/* n_pages 1 .. 2^32 - 2. VL_E_NOMEM, VL_E_INVALID (n_pages * page_bytes must fit a size_t). */
vl_status vl_pages_create(size_t n_pages, size_t page_bytes, vl_pages **out, vl_error *err);
void vl_pages_destroy(vl_pages *pages); /* NULL is a no-op */

/* Takes n free pages, each with one reference, or none at all: VL_E_NOMEM (the text has both
 * numbers). The page freed last is taken first (its memory is warm); a fresh pool gives 0, 1, 2,
 * ... */
vl_status vl_pages_alloc(vl_pages *pages, size_t n, uint32_t *ids, vl_error *err);
void vl_pages_ref(vl_pages *pages, const uint32_t *ids, size_t n); /* one more owner of each */
/* One owner less of each; returns the bytes of the pages that this really freed. */
uint64_t vl_pages_unref(vl_pages *pages, const uint32_t *ids, size_t n);
uint32_t vl_pages_refs(const vl_pages *pages, uint32_t id); /* owners; 0: free */

size_t vl_pages_total(const vl_pages *pages);
size_t vl_pages_free(const vl_pages *pages); /* pages that are free now */
size_t vl_pages_used(const vl_pages *pages);
size_t vl_pages_bytes(const vl_pages *pages); /* of one page */

#endif
