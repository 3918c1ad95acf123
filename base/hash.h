/* base/hash.h: a 64-bit hash of bytes, and an open-addressing map from byte strings to uint64_t. */
#ifndef VL_BASE_HASH_H
#define VL_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t vl_hash_bytes(const void *bytes, size_t len, uint64_t seed);

/* Keys are borrowed: they must outlive the map. Not thread-safe while it is written. */
typedef struct vl_strmap {
    struct vl_strmap_slot *slots; /* owned */
    size_t cap;                   /* a power of two, or 0 */
    size_t n;
    uint64_t seed; /* from the clock and addresses, so that a file can't aim at collisions */
} vl_strmap;

void vl_strmap_init(vl_strmap *m);
void vl_strmap_fini(vl_strmap *m);
/* 1 added, 0 the key was there (nothing changed; *old gets its value when old is not NULL), -1 out
 * of memory. */
int vl_strmap_add(vl_strmap *m, const char *key, size_t len, uint64_t value, uint64_t *old);
bool vl_strmap_get(const vl_strmap *m, const char *key, size_t len, uint64_t *value);

#endif
