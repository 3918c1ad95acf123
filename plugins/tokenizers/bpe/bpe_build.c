/* bpe_build.c: filling the merge tables. A merge needs three tokens found and one slot of the pair
 * table, all at random places of large tables; most of the time of a load would be waiting for
 * memory, so merges go through in batches. */
#include <stdlib.h>

#include "base/error.h"
#include "bpe.h"

vl_status vl_bpe_init(struct vl_bpe *b, size_t n_tokens, size_t pool_bytes, vl_error *err)
{
    memset(b, 0, sizeof *b);
    return vl_tokens_init(&b->tokens, n_tokens, pool_bytes, err);
}

void vl_bpe_fini(struct vl_bpe *b)
{
    vl_tokens_fini(&b->tokens);
    free(b->merges);
    free(b->pairs);
    free(b->byte_pairs);
    free(b->whole);
    memset(b, 0, sizeof *b);
}

vl_status vl_bpe_reserve_merges(struct vl_bpe *b, size_t n, bool may_miss, vl_error *err)
{
    vl_status rc = vl_tokens_flush(&b->tokens, err);
    if (rc != VL_OK)
        return rc;
    for (int i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        b->byte_id[i] = vl_tokens_find(&b->tokens, &byte, 1);
        if (b->byte_id[i] >= 0)
            continue;
        b->n_missing++;
        if (!may_miss)
            return vl_error_set(err, VL_E_FORMAT, "vocab: no token for the single byte 0x%02X", i);
    }
    b->n_pairs = 1024;
    if (n > VL_TOKENS_IDS_MAX * (size_t)4)
        return vl_error_set(err, VL_E_RANGE, "merges: %zu of them, at most %d are taken", n,
                            VL_TOKENS_IDS_MAX * 4);
    while (b->n_pairs < 2 * n)
        b->n_pairs *= 2;
    b->pairs = vl_table_alloc(b->n_pairs * sizeof *b->pairs);
    b->byte_pairs = malloc(256 * 256 * sizeof *b->byte_pairs);
    if (b->pairs == NULL || b->byte_pairs == NULL ||
        !vl_grow(&b->merges, &b->merges_cap, n + 1, sizeof *b->merges))
        return vl_error_set(err, VL_E_NOMEM, "merges: out of memory for %zu", n);
    memset(b->pairs, 0xff, b->n_pairs * sizeof *b->pairs);
    memset(b->byte_pairs, 0xff, 256 * 256 * sizeof *b->byte_pairs);
    return VL_OK;
}

/* The id of a merge's result. Merges mostly stand in the order of the ids that they make, so the
 * token behind the last merge's is tried before the hash. */
static int32_t find_merged(const struct vl_bpe *b, const uint8_t *both, size_t len)
{
    int64_t guess = b->n_merges > 0 ? (int64_t)b->merges[b->n_merges - 1].merged + 1 : 256;
    vl_bytes g = vl_tokens_bytes(&b->tokens, guess);
    if (g.len == len && memcmp(g.ptr, both, len) == 0 && b->tokens.refs[guess].known == 2)
        return (int32_t)guess;
    return vl_tokens_find(&b->tokens, both, len);
}

static int shown(size_t len)
{
    return len > 48 ? 48 : (int)len;
}

void vl_bpe_batch_fini(struct vl_bpe_batch *m)
{
    vl_buf_fini(&m->bytes);
    m->n = 0;
}

vl_status vl_bpe_batch_add(struct vl_bpe_batch *m, size_t index, vl_bytes left, vl_bytes right,
                           vl_error *err)
{
    if (m->n == sizeof m->items / sizeof m->items[0]) {
        vl_status rc = vl_bpe_batch_flush(m, err);
        if (rc != VL_OK)
            return rc;
    }
    struct vl_bpe_batch_item *it = &m->items[m->n];
    *it = (struct vl_bpe_batch_item){.at = m->bytes.len, .index = index};
    bool ok = vl_tokens_from_alphabet(left.ptr, left.len, &m->bytes);
    it->left_len = (uint32_t)(m->bytes.len - it->at);
    ok = ok && vl_tokens_from_alphabet(right.ptr, right.len, &m->bytes);
    it->right_len = (uint32_t)(m->bytes.len - it->at - it->left_len);
    if (m->bytes.failed)
        return vl_error_set(err, VL_E_NOMEM, "merges: out of memory");
    if (!ok || it->left_len == 0 || it->right_len == 0)
        return vl_error_set(err, VL_E_FORMAT,
                            "merge %zu: \"%.*s %.*s\" is not in the byte alphabet", index,
                            shown(left.len), left.ptr, shown(right.len), right.ptr);
    m->n++;
    return VL_OK;
}

/* The tokens of the halves of all items, and their pairs' slots on the way into the cache. */
static vl_status find_halves(struct vl_bpe_batch *m, vl_error *err)
{
    const struct vl_bpe *b = m->bpe;
    const struct vl_tokens *v = &b->tokens;
    const uint8_t *bytes = (const uint8_t *)m->bytes.ptr;

    for (size_t i = 0; i < m->n; i++) {
        struct vl_bpe_batch_item *it = &m->items[i];
        it->left_key = vl_tokens_key(v, bytes + it->at, it->left_len);
        it->right_key = vl_tokens_key(v, bytes + it->at + it->left_len, it->right_len);
        __builtin_prefetch(&v->slots[vl_tokens_slot_of(v, it->left_key, it->left_len)]);
        __builtin_prefetch(&v->slots[vl_tokens_slot_of(v, it->right_key, it->right_len)]);
    }
    for (size_t i = 0; i < m->n; i++) {
        struct vl_bpe_batch_item *it = &m->items[i];
        const uint8_t *left = bytes + it->at, *right = left + it->left_len;
        it->left = vl_tokens_find_key(v, it->left_key, left, it->left_len);
        it->right = vl_tokens_find_key(v, it->right_key, right, it->right_len);
        if (it->left < 0 || it->right < 0)
            return vl_error_set(err, VL_E_FORMAT, "merge %zu: \"%.*s\" is not in the vocabulary",
                                it->index, shown(it->left < 0 ? it->left_len : it->right_len),
                                (const char *)(it->left < 0 ? left : right));
        __builtin_prefetch(&b->pairs[vl_bpe_pair_slot(b, it->left, it->right)], 1);
    }
    return VL_OK;
}

vl_status vl_bpe_batch_flush(struct vl_bpe_batch *m, vl_error *err)
{
    struct vl_bpe *b = m->bpe;
    vl_status rc = find_halves(m, err);

    if (rc != VL_OK)
        return rc;
    if (!vl_grow(&b->merges, &b->merges_cap, b->n_merges + m->n, sizeof *b->merges))
        return vl_error_set(err, VL_E_NOMEM, "merges: out of memory");
    for (size_t i = 0; i < m->n; i++) {
        const struct vl_bpe_batch_item *it = &m->items[i];
        const uint8_t *both = (const uint8_t *)m->bytes.ptr + it->at;
        int32_t merged = find_merged(b, both, it->left_len + it->right_len);
        if (merged < 0)
            return vl_error_set(err, VL_E_FORMAT,
                                "merge %zu: its result \"%.*s\" is not in the vocabulary",
                                it->index, shown(it->left_len + it->right_len), (const char *)both);
        uint32_t rank = (uint32_t)b->n_merges;
        size_t at = vl_bpe_pair_slot(b, it->left, it->right);
        while (b->pairs[at].left >= 0 &&
               (b->pairs[at].left != it->left || b->pairs[at].right != it->right))
            at = (at + 1) & (b->n_pairs - 1);
        /* Of equal pairs the later rank stays. */
        b->pairs[at] = (struct vl_bpe_pair){it->left, it->right, rank, merged};
        b->merges[b->n_merges++] = (struct vl_bpe_merge){it->left, it->right, merged};
        if (it->left_len == 1 && it->right_len == 1)
            b->byte_pairs[both[0] << 8 | both[1]] = (struct vl_bpe_rank){rank, merged};
    }
    m->n = 0;
    vl_buf_clear(&m->bytes);
    return VL_OK;
}

vl_status vl_bpe_seal(struct vl_bpe *b, vl_error *err)
{
    size_t n = b->tokens.n_ids;
    uint32_t *made = malloc((n + 1) * sizeof *made); /* highest rank that makes the id, plus 1 */

    b->whole = calloc(n + 1, 1);
    if (made == NULL || b->whole == NULL) {
        free(made);
        return vl_error_set(err, VL_E_NOMEM, "vocab: out of memory");
    }
    memset(made, 0, (n + 1) * sizeof *made);
    for (size_t i = 0; i < b->n_merges; i++)
        made[b->merges[i].merged] = (uint32_t)i + 1;
    b->ordered = true;
    for (size_t i = 0; i < b->n_merges; i++)
        if (made[b->merges[i].left] > i || made[b->merges[i].right] > i)
            b->ordered = false;
    for (int i = 0; i < 256; i++)
        if (b->byte_id[i] >= 0)
            b->whole[b->byte_id[i]] = VL_WHOLE_YES;
    if (b->ignore_merges)
        memset(b->whole, VL_WHOLE_YES, n);
    free(made);
    return VL_OK;
}

void vl_bpe_never_whole(struct vl_bpe *b, int32_t id)
{
    b->whole[id] = VL_WHOLE_NO;
}
