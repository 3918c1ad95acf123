/* base/hash.c: hashing of bytes, and the string map. */
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    __uint128_t p = (__uint128_t)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

uint64_t vl_hash_bytes(const void *bytes, size_t len, uint64_t seed)
{
    const uint64_t k0 = 0xa0761d6478bd642fu, k1 = 0xe7037ed1a0b428dbu;
    const unsigned char *p = bytes;
    uint64_t h = seed ^ mix(len ^ k0, k1);
    uint64_t w;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&w, p, 8);
        h = mix(h ^ w, k0);
    }
    if (len) {
        w = 0;
        memcpy(&w, p, len);
        h = mix(h ^ w, k1);
    }
    return mix(h, k1 ^ k0);
}

struct vl_strmap_slot {
    const char *key; /* NULL: empty */
    size_t len;
    uint64_t hash;
    uint64_t value;
};

void vl_strmap_init(vl_strmap *m)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    *m = (vl_strmap){NULL, 0, 0, mix((uint64_t)now.tv_nsec ^ (uintptr_t)m, 0x9e3779b97f4a7c15u)};
}

void vl_strmap_fini(vl_strmap *m)
{
    free(m->slots);
    m->slots = NULL;
    m->cap = m->n = 0;
}

static struct vl_strmap_slot *slot_of(const vl_strmap *m, const char *key, size_t len,
                                      uint64_t hash)
{
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct vl_strmap_slot *s = &m->slots[i];
        if (!s->key || (s->hash == hash && s->len == len && memcmp(s->key, key, len) == 0))
            return s;
    }
}

static bool grow(vl_strmap *m)
{
    size_t cap = m->cap ? m->cap * 2 : 16;
    struct vl_strmap_slot *old = m->slots;
    size_t old_cap = m->cap;

    struct vl_strmap_slot *slots = calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    m->slots = slots;
    m->cap = cap;
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i].key)
            *slot_of(m, old[i].key, old[i].len, old[i].hash) = old[i];
    }
    free(old);
    return true;
}

int vl_strmap_add(vl_strmap *m, const char *key, size_t len, uint64_t value, uint64_t *old)
{
    if (m->n >= m->cap / 2 && !grow(m))
        return -1;
    uint64_t hash = vl_hash_bytes(key, len, m->seed);
    struct vl_strmap_slot *s = slot_of(m, key, len, hash);
    if (s->key) {
        if (old)
            *old = s->value;
        return 0;
    }
    *s = (struct vl_strmap_slot){key, len, hash, value};
    m->n++;
    return 1;
}

bool vl_strmap_get(const vl_strmap *m, const char *key, size_t len, uint64_t *value)
{
    if (m->n == 0)
        return false;
    const struct vl_strmap_slot *s = slot_of(m, key, len, vl_hash_bytes(key, len, m->seed));
    if (!s->key)
        return false;
    *value = s->value;
    return true;
}
