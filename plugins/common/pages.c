/* pages.c: the page pool: a stack of free pages and a reference count for each. See pages.h. */
#include "plugins/common/pages.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"

struct vl_pages {
    size_t n_pages;
    size_t page_bytes;
    size_t n_free;
    uint32_t *refs;  /* [n_pages] owners; 0: free */
    uint32_t *stack; /* [n_pages] free pages, the next one to take last; n_free are valid */
};

vl_status vl_pages_create(size_t n_pages, size_t page_bytes, vl_pages **out, vl_error *err)
{
    size_t all_bytes;

    if (n_pages == 0 || n_pages > UINT32_MAX - 1)
        return vl_error_set(err, VL_E_INVALID, "page pool: %zu pages, want 1 to %u", n_pages,
                            UINT32_MAX - 1);
    if (__builtin_mul_overflow(n_pages, page_bytes, &all_bytes))
        return vl_error_set(err, VL_E_INVALID, "page pool: %zu pages of %zu bytes are too many",
                            n_pages, page_bytes);
    vl_pages *p = calloc(1, sizeof(*p));
    if (p) {
        p->refs = calloc(n_pages, sizeof(*p->refs));
        p->stack = malloc(n_pages * sizeof(*p->stack));
    }
    if (!p || !p->refs || !p->stack) {
        vl_pages_destroy(p);
        return vl_error_set(err, VL_E_NOMEM, "page pool: no memory to count %zu pages", n_pages);
    }
    p->n_pages = p->n_free = n_pages;
    p->page_bytes = page_bytes;
    for (size_t i = 0; i < n_pages; i++)
        p->stack[i] = (uint32_t)(n_pages - 1 - i);
    *out = p;
    return VL_OK;
}

void vl_pages_destroy(vl_pages *pages)
{
    if (!pages)
        return;
    free(pages->refs);
    free(pages->stack);
    free(pages);
}

vl_status vl_pages_alloc(vl_pages *pages, size_t n, uint32_t *ids, vl_error *err)
{
    if (n > pages->n_free)
        return vl_error_set(err, VL_E_NOMEM, "page pool: %zu pages wanted, %zu of %zu free", n,
                            pages->n_free, pages->n_pages);
    for (size_t i = 0; i < n; i++) {
        ids[i] = pages->stack[--pages->n_free];
        pages->refs[ids[i]] = 1;
    }
    return VL_OK;
}

void vl_pages_ref(vl_pages *pages, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert(ids[i] < pages->n_pages && pages->refs[ids[i]] > 0);
        pages->refs[ids[i]]++;
    }
}

uint64_t vl_pages_unref(vl_pages *pages, const uint32_t *ids, size_t n)
{
    uint64_t n_freed = 0;

    for (size_t i = 0; i < n; i++) {
        assert(ids[i] < pages->n_pages && pages->refs[ids[i]] > 0);
        if (--pages->refs[ids[i]] == 0) {
            pages->stack[pages->n_free++] = ids[i];
            n_freed++;
        }
    }
    return n_freed * pages->page_bytes;
}

uint32_t vl_pages_refs(const vl_pages *pages, uint32_t id)
{
    return id < pages->n_pages ? pages->refs[id] : 0;
}

size_t vl_pages_total(const vl_pages *pages)
{
    return pages->n_pages;
}

size_t vl_pages_free(const vl_pages *pages)
{
    return pages->n_free;
}

size_t vl_pages_used(const vl_pages *pages)
{
    return pages->n_pages - pages->n_free;
}

size_t vl_pages_bytes(const vl_pages *pages)
{
    return pages->page_bytes;
}
