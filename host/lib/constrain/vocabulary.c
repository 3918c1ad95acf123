/* host/lib/constrain/vocabulary.c: the trie of tokens. */
#include "host/lib/constrain/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

enum { MAX_TOKEN_BYTES = 4096 }; /* longer ones can't come in constrained output */

/* A token on its way to its place: the first 8 bytes as a number decide most comparisons. */
struct entry {
    uint64_t key; /* big endian, padded with 0 */
    const unsigned char *bytes;
    uint32_t len;
    int32_t id;
};

static uint64_t key_of(const unsigned char *bytes, size_t len)
{
    uint64_t key = 0;

    for (size_t i = 0; i < 8; i++)
        key = key << 8 | (i < len ? bytes[i] : 0);
    return key;
}

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    uint32_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->bytes, y->bytes, n);
    if (c != 0)
        return c;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Tokens that may be spelled, unsorted. */
static struct entry *collect(vl_vocabulary *v, size_t *n)
{
    struct entry *list = malloc(((size_t)v->n_tokens + 1) * sizeof *list);

    *n = 0;
    if (list == NULL)
        return NULL;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        vl_bytes b = v->api->token(v->tokenizer, (int32_t)i);
        if (b.len == 0 || b.len > MAX_TOKEN_BYTES ||
            (v->api->flags(v->tokenizer, (int32_t)i) & (VL_TOKEN_ADDED | VL_TOKEN_SPECIAL)) != 0)
            continue;
        const unsigned char *bytes = (const unsigned char *)b.ptr;
        list[(*n)++] = (struct entry){key_of(bytes, b.len), bytes, (uint32_t)b.len, (int32_t)i};
        v->longest = b.len > v->longest ? (uint32_t)b.len : v->longest;
    }
    return list;
}

/* Sorts by the key, a byte a pass, then the runs of equal keys. */
static bool sort(struct entry *list, size_t n)
{
    struct entry *other = malloc((n + 1) * sizeof *other), *from = list, *to = other;

    if (other == NULL)
        return false;
    for (int shift = 0; shift < 64; shift += 8) { /* 8 passes: the result is in list again */
        size_t at[257] = {0};
        for (size_t i = 0; i < n; i++)
            at[(from[i].key >> shift & 255) + 1]++;
        for (int b = 1; b < 256; b++)
            at[b] += at[b - 1];
        for (size_t i = 0; i < n; i++)
            to[at[from[i].key >> shift & 255]++] = from[i];
        struct entry *swap = from;
        from = to;
        to = swap;
    }
    free(other);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && list[end].key == list[i].key; end++)
            ;
        if (end - i > 1)
            qsort(list + i, end - i, sizeof *list, compare);
    }
    return true;
}

static uint32_t shared(const struct entry *a, const struct entry *b)
{
    uint32_t n = a->len < b->len ? a->len : b->len, i = 0;

    while (i < n && a->bytes[i] == b->bytes[i])
        i++;
    return i;
}

static size_t count_nodes(const struct entry *list, size_t n)
{
    size_t nodes = 0;

    for (size_t i = 0; i < n; i++)
        nodes += list[i].len - (i > 0 ? shared(&list[i - 1], &list[i]) : 0);
    return nodes;
}

/* Lays the nodes out. path[d]: the open node of depth d. */
static void lay(vl_vocabulary *v, const struct entry *list, size_t n, uint32_t *path)
{
    uint32_t at = 0, open = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t have = i > 0 ? shared(&list[i - 1], &list[i]) : 0;
        while (open > have)
            v->skip[path[--open]] = at;
        for (; open < list[i].len; open++) {
            path[open] = at;
            v->byte[at] = list[i].bytes[open];
            v->depth[at] = (uint16_t)open;
            v->token[at] = -1;
            at++;
        }
        int32_t *last = &v->token[path[open - 1]];
        while (*last >= 0)
            last = &v->same[*last];
        *last = list[i].id;
    }
    while (open > 0)
        v->skip[path[--open]] = at;
}

static bool copy_stops(vl_vocabulary *v)
{
    uint64_t n = 0;
    const int32_t *ids = v->api->stop_ids(v->tokenizer, &n);

    v->stops = malloc((size_t)(n + 1) * sizeof *v->stops);
    if (v->stops == NULL)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && (uint32_t)ids[i] < v->n_tokens)
            v->stops[v->n_stops++] = ids[i];
    }
    return true;
}

vl_status vl_vocabulary_build(vl_vocabulary *v, const vl_tokenizer_api *api, const vl_tokenizer *t,
                              vl_error *err)
{
    struct entry *list = NULL;
    uint32_t *path = NULL;
    size_t n = 0, nodes;
    vl_status rc = VL_E_NOMEM;

    v->api = api;
    v->tokenizer = t;
    v->n_tokens = (uint32_t)api->n_tokens(t);
    v->n_words = ((size_t)v->n_tokens + 31) / 32;
    list = collect(v, &n);
    path = malloc(((size_t)v->longest + 1) * sizeof *path);
    if (list == NULL || path == NULL || !sort(list, n))
        goto out;
    nodes = count_nodes(list, n);
    v->n_nodes = (uint32_t)nodes;
    v->byte = malloc(nodes + 1);
    v->depth = malloc((nodes + 1) * sizeof *v->depth);
    v->skip = malloc((nodes + 1) * sizeof *v->skip);
    v->token = malloc((nodes + 1) * sizeof *v->token);
    v->same = malloc(((size_t)v->n_tokens + 1) * sizeof *v->same);
    if (v->byte == NULL || v->depth == NULL || v->skip == NULL || v->token == NULL ||
        v->same == NULL || !copy_stops(v))
        goto out;
    memset(v->same, 0xff, ((size_t)v->n_tokens + 1) * sizeof *v->same);
    lay(v, list, n, path);
    rc = VL_OK;
out:
    free(list);
    free(path);
    return rc == VL_OK
               ? VL_OK
               : vl_error_set(err, rc, "vocabulary of %u tokens: out of memory", v->n_tokens);
}

void vl_vocabulary_free_trie(vl_vocabulary *v)
{
    free(v->byte);
    free(v->depth);
    free(v->skip);
    free(v->token);
    free(v->same);
    free(v->stops);
    free(v->levels);
    free(v->exits);
}

int32_t vl_vocabulary_added(const vl_vocabulary *v, vl_bytes text)
{
    int32_t id = v->api->find(v->tokenizer, text.ptr, text.len);

    return id >= 0 && (uint32_t)id < v->n_tokens &&
                   (v->api->flags(v->tokenizer, id) & VL_TOKEN_ADDED) != 0
               ? id
               : -1;
}
