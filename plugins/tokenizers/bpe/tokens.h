/* tokens.h: the bytes of every id, and the way back from bytes to an id. Knows the byte alphabet,
 * and nothing of merges, added tokens' flags or files. Read-only once filled: [any]. */
#ifndef VL_BPE_TOKENS_H
#define VL_BPE_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "vallmo/abi.h"

enum { VL_TOKENS_IDS_MAX = 1 << 24 }; /* far above any real vocabulary */

/* One entry of the hash. Up to 8 bytes of content are the key themselves, so that most words of a
 * text are found with one load; longer contents are hashed there and compared in the pool. */
struct vl_tokens_slot {
    uint64_t key;
    uint32_t len;
    int32_t id; /* -1: free */
};

struct vl_tokens {
    vl_buf pool; /* all contents */
    struct vl_tokens_ref {
        uint64_t at; /* in the pool */
        uint32_t len;
        uint32_t known; /* 0: this id is no token; 1: it is; 2: and its content leads to it */
    } * refs;           /* [ids_cap] */
    size_t ids_cap;
    size_t n_ids; /* highest known id + 1 */
    struct vl_tokens_slot *slots;
    size_t n_slots; /* a power of two */
    size_t n_used;
    uint64_t seed;
    size_t max_len; /* bytes of the longest content */
    /* Findable tokens on their way into slots: their slots are being fetched meanwhile. */
    struct vl_tokens_slot waiting[32];
    size_t n_waiting;
};

/* Memory for a table that is read at random places: on large pages where the system gives them,
 * since most of the time of a lookup is the walk to its page. free() it; NULL when out of memory.
 */
void *vl_table_alloc(size_t bytes);

/* Room for n tokens of pool_bytes bytes in all: hints. */
vl_status vl_tokens_init(struct vl_tokens *v, size_t n, size_t pool_bytes, vl_error *err);
void vl_tokens_fini(struct vl_tokens *v);

/* Gives id its content. findable: bytes lead to the id (a byte-level token, not an added one).
 * VL_E_FORMAT if the id has a content already, or the content an id (which may come out only with a
 * later call); VL_E_RANGE past VL_TOKENS_IDS_MAX. */
vl_status vl_tokens_add(struct vl_tokens *v, int64_t id, const void *bytes, size_t len,
                        bool findable, vl_error *err);

/* After the last add and before the first find. */
vl_status vl_tokens_flush(struct vl_tokens *v, vl_error *err);

/* The content of an id; {NULL, 0} for one that has none. */
static inline vl_bytes vl_tokens_bytes(const struct vl_tokens *v, int64_t id)
{
    if (id < 0 || (uint64_t)id >= v->n_ids || !v->refs[id].known)
        return (vl_bytes){NULL, 0};
    return (vl_bytes){v->pool.ptr + v->refs[id].at, v->refs[id].len};
}

static inline bool vl_tokens_known(const struct vl_tokens *v, int64_t id)
{
    return id >= 0 && (uint64_t)id < v->n_ids && v->refs[id].known;
}

/* From the byte alphabet to bytes. False (out is as before) if text has a character outside of it.
 */
bool vl_tokens_from_alphabet(const char *text, size_t len, vl_buf *out);

/* ---- lookup, inline: the encoder does it for every piece ---- */

static inline uint64_t vl_fold(uint64_t a, uint64_t b)
{
    __uint128_t p = (__uint128_t)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline uint64_t vl_load_u64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

/* The first 0 to 8 bytes as a number, reading none past len. */
static inline uint64_t vl_load_short(const uint8_t *p, size_t len)
{
    uint32_t lo, hi;
    if (len >= 8)
        return vl_load_u64(p);
    if (len >= 4) {
        memcpy(&lo, p, 4);
        memcpy(&hi, p + len - 4, 4);
        return lo | (uint64_t)hi << (8 * (len - 4));
    }
    if (len == 0)
        return 0;
    return (uint64_t)p[0] | (uint64_t)p[len / 2] << (8 * (len / 2)) |
           (uint64_t)p[len - 1] << (8 * (len - 1));
}

static inline uint64_t vl_tokens_key(const struct vl_tokens *v, const uint8_t *p, size_t len)
{
    if (len <= 8)
        return vl_load_short(p, len);
    uint64_t h = v->seed;
    size_t i = 0;
    for (; i + 8 < len; i += 8)
        h = vl_fold(h ^ vl_load_u64(p + i), 0x9e3779b97f4a7c15u);
    return vl_fold(h ^ vl_load_u64(p + len - 8), 0xd6e8feb86659fd93u ^ len);
}

static inline size_t vl_tokens_slot_of(const struct vl_tokens *v, uint64_t key, size_t len)
{
    return vl_fold(key ^ v->seed, 0xa0761d6478bd642fu + 2 * len) & (v->n_slots - 1);
}

/* The id with this content, whose key this is, or -1. */
static inline int32_t vl_tokens_find_key(const struct vl_tokens *v, uint64_t key, const uint8_t *p,
                                         size_t len)
{
    for (size_t i = vl_tokens_slot_of(v, key, len);; i = (i + 1) & (v->n_slots - 1)) {
        const struct vl_tokens_slot *s = &v->slots[i];
        if (s->id < 0)
            return -1;
        if (s->key == key && s->len == len &&
            (len <= 8 || memcmp(v->pool.ptr + v->refs[s->id].at, p, len) == 0))
            return s->id;
    }
}

/* The id with this content, or -1. */
static inline int32_t vl_tokens_find(const struct vl_tokens *v, const uint8_t *p, size_t len)
{
    return len > v->max_len ? -1 : vl_tokens_find_key(v, vl_tokens_key(v, p, len), p, len);
}

#endif
