/* tokens.c: filling the vocabulary. */
#include "tokens.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/error.h"

/* Seeded, so that a file can't aim at collisions. Any odd-looking value does; it has no effect on
 * ids. */
static uint64_t make_seed(const void *address)
{
    struct timespec t = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return vl_fold((uint64_t)t.tv_nsec ^ 0x2545f4914f6cdd1du, (uintptr_t)address | 1) | 1;
}

void *vl_table_alloc(size_t bytes)
{
    const size_t large = 2 * 1024 * 1024;
    if (bytes < 2 * large)
        return malloc(bytes);
    if (bytes > SIZE_MAX - large)
        return NULL;
    void *p = aligned_alloc(large, (bytes + large - 1) / large * large);
    if (p != NULL)
        madvise(p, bytes, MADV_HUGEPAGE); /* advice: nothing depends on it */
    return p;
}

static bool make_slots(struct vl_tokens *v, size_t n_slots)
{
    struct vl_tokens_slot *slots = vl_table_alloc(n_slots * sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < n_slots; i++)
        slots[i] = (struct vl_tokens_slot){0, 0, -1};
    free(v->slots);
    v->slots = slots;
    v->n_slots = n_slots;
    return true;
}

vl_status vl_tokens_init(struct vl_tokens *v, size_t n, size_t pool_bytes, vl_error *err)
{
    memset(v, 0, sizeof *v);
    v->seed = make_seed(v);
    if (n > VL_TOKENS_IDS_MAX)
        return vl_error_set(err, VL_E_RANGE, "vocab: %zu tokens, at most %d are taken", n,
                            VL_TOKENS_IDS_MAX);
    size_t n_slots = 1024;
    while (n_slots < 2 * n)
        n_slots *= 2;
    if (!make_slots(v, n_slots) || !vl_buf_reserve(&v->pool, pool_bytes) ||
        !vl_grow(&v->refs, &v->ids_cap, n + 64, sizeof *v->refs)) {
        vl_tokens_fini(v);
        return vl_error_set(err, VL_E_NOMEM, "vocab: out of memory for %zu tokens", n);
    }
    memset(v->refs, 0, v->ids_cap * sizeof *v->refs);
    return VL_OK;
}

void vl_tokens_fini(struct vl_tokens *v)
{
    vl_buf_fini(&v->pool);
    free(v->refs);
    free(v->slots);
    memset(v, 0, sizeof *v);
}

static void slot_put(struct vl_tokens *v, uint64_t key, uint32_t len, int32_t id)
{
    size_t i = vl_tokens_slot_of(v, key, len);
    while (v->slots[i].id >= 0)
        i = (i + 1) & (v->n_slots - 1);
    v->slots[i] = (struct vl_tokens_slot){key, len, id};
    v->n_used++;
}

/* Doubles the table; the keys do not depend on its size. */
static bool grow_slots(struct vl_tokens *v)
{
    struct vl_tokens_slot *old = v->slots;
    size_t n_old = v->n_slots;

    v->slots = NULL;
    if (!make_slots(v, n_old * 2)) {
        v->slots = old;
        v->n_slots = n_old;
        return false;
    }
    v->n_used = 0;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].id >= 0)
            slot_put(v, old[i].key, old[i].len, old[i].id);
    free(old);
    return true;
}

vl_status vl_tokens_flush(struct vl_tokens *v, vl_error *err)
{
    if (2 * (v->n_used + v->n_waiting) > v->n_slots && !grow_slots(v))
        return vl_error_set(err, VL_E_NOMEM, "vocab: out of memory");
    for (size_t w = 0; w < v->n_waiting; w++) {
        const struct vl_tokens_slot new = v->waiting[w];
        const char *bytes = v->pool.ptr + v->refs[new.id].at;
        size_t i = vl_tokens_slot_of(v, new.key, new.len);
        for (; v->slots[i].id >= 0; i = (i + 1) & (v->n_slots - 1)) {
            const struct vl_tokens_slot *s = &v->slots[i];
            if (s->key == new.key && s->len == new.len &&
                (new.len <= 8 || memcmp(v->pool.ptr + v->refs[s->id].at, bytes, new.len) == 0))
                return vl_error_set(err, VL_E_FORMAT,
                                    "the ids %d and %d have the same content \"%.*s\"", s->id,
                                    new.id, new.len > 64 ? 64 : (int)new.len, bytes);
        }
        v->slots[i] = new;
        v->n_used++;
    }
    v->n_waiting = 0;
    return VL_OK;
}

vl_status vl_tokens_add(struct vl_tokens *v, int64_t id, const void *bytes, size_t len,
                        bool findable, vl_error *err)
{
    if (id < 0)
        return vl_error_set(err, VL_E_FORMAT, "the token \"%.*s\" has the id %lld",
                            len > 64 ? 64 : (int)len, (const char *)bytes, (long long)id);
    if (id >= VL_TOKENS_IDS_MAX || len > UINT32_MAX / 2)
        return vl_error_set(err, VL_E_RANGE, "token id %lld of %zu bytes: at most %d ids are taken",
                            (long long)id, len, VL_TOKENS_IDS_MAX);
    if ((size_t)id >= v->ids_cap) {
        size_t had = v->ids_cap;
        if (!vl_grow(&v->refs, &v->ids_cap, (size_t)id + 1, sizeof *v->refs))
            return vl_error_set(err, VL_E_NOMEM, "out of memory for token id %lld", (long long)id);
        memset(v->refs + had, 0, (v->ids_cap - had) * sizeof *v->refs);
    }
    if (v->refs[id].known)
        return vl_error_set(err, VL_E_FORMAT, "two tokens have the id %lld", (long long)id);
    if (findable && v->n_waiting == sizeof v->waiting / sizeof v->waiting[0]) {
        vl_status rc = vl_tokens_flush(v, err);
        if (rc != VL_OK)
            return rc;
    }

    uint64_t at = v->pool.len;
    vl_buf_append(&v->pool, bytes, len);
    if (v->pool.failed)
        return vl_error_set(err, VL_E_NOMEM, "vocab: out of memory");
    if (findable) {
        uint64_t key = vl_tokens_key(v, (const uint8_t *)v->pool.ptr + at, len);
        __builtin_prefetch(&v->slots[vl_tokens_slot_of(v, key, len)], 1);
        v->waiting[v->n_waiting++] = (struct vl_tokens_slot){key, (uint32_t)len, (int32_t)id};
    }
    v->refs[id] = (struct vl_tokens_ref){at, (uint32_t)len, findable ? 2 : 1};
    if ((size_t)id >= v->n_ids)
        v->n_ids = (size_t)id + 1;
    if (len > v->max_len)
        v->max_len = len;
    return VL_OK;
}

/* The byte that a code point of the alphabet stands for, or -1: 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF
 * stand for themselves, U+0100 upward for the 68 others in order. */
static int alphabet_byte(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7e) || (cp >= 0xa1 && cp <= 0xac) || (cp >= 0xae && cp <= 0xff))
        return (int)cp;
    if (cp >= 0x100 && cp <= 0x120)
        return (int)(cp - 0x100);
    if (cp >= 0x121 && cp <= 0x142)
        return (int)(cp - 0x121 + 0x7f);
    if (cp == 0x143)
        return 0xad;
    return -1;
}

bool vl_tokens_from_alphabet(const char *text, size_t len, vl_buf *out)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t had = out->len;

    if (!vl_buf_reserve(out, len))
        return false;
    char *to = out->ptr + had;
    for (size_t i = 0; i < len;) {
        if (s[i] >= 0x21 && s[i] <= 0x7e) {
            *to++ = (char)s[i++];
            continue;
        }
        /* All others of the alphabet take two bytes: U+00A1 (C2 A1) to U+0143 (C5 83). */
        if (s[i] < 0xc2 || s[i] > 0xc5 || i + 1 >= len || (s[i + 1] & 0xc0) != 0x80)
            return false;
        int byte = alphabet_byte((uint32_t)(s[i] & 0x1f) << 6 | (s[i + 1] & 0x3f));
        if (byte < 0)
            return false;
        *to++ = (char)byte;
        i += 2;
    }
    out->len = (size_t)(to - out->ptr);
    return true;
}
