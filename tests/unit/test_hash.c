/* unit.hash: the hash and the string map. */
#include "tests/unit/vl_cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { N_KEYS = 20000 };

static void test_strmap_many_keys_are_found_again(void **state)
{
    char(*keys)[16] = malloc(N_KEYS * sizeof(*keys));
    vl_strmap m;
    uint64_t value;
    (void)state;
    vl_strmap_init(&m);
    assert_false(vl_strmap_get(&m, "x", 1, &value));
    for (int i = 0; i < N_KEYS; i++) {
        snprintf(keys[i], sizeof(keys[i]), "key-%d", i);
        assert_int_equal(vl_strmap_add(&m, keys[i], strlen(keys[i]), (uint64_t)i * 3, NULL), 1);
    }
    assert_int_equal(m.n, N_KEYS);
    for (int i = 0; i < N_KEYS; i++) {
        assert_true(vl_strmap_get(&m, keys[i], strlen(keys[i]), &value));
        assert_int_equal(value, (uint64_t)i * 3);
    }
    assert_false(vl_strmap_get(&m, "key--1", 6, &value));
    vl_strmap_fini(&m);
    vl_strmap_fini(&m);
    free(keys);
}

static void test_strmap_second_add_changes_nothing(void **state)
{
    vl_strmap m;
    uint64_t value = 0, old = 0;
    (void)state;
    vl_strmap_init(&m);
    assert_int_equal(vl_strmap_add(&m, "a\0b", 3, 7, NULL), 1);
    assert_int_equal(vl_strmap_add(&m, "a\0b", 3, 8, &old), 0);
    assert_int_equal(old, 7);
    assert_int_equal(vl_strmap_add(&m, "a\0c", 3, 9, NULL), 1);
    assert_int_equal(vl_strmap_add(&m, "", 0, 5, NULL), 1);
    assert_true(vl_strmap_get(&m, "a\0b", 3, &value));
    assert_int_equal(value, 7);
    assert_true(vl_strmap_get(&m, "", 0, &value));
    assert_int_equal(value, 5);
    vl_strmap_fini(&m);
}

static void test_hash_bytes_depends_on_all(void **state)
{
    unsigned char bytes[32] = {0};
    (void)state;
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        uint64_t h = vl_hash_bytes(bytes, len, 1);
        assert_true(h == vl_hash_bytes(bytes, len, 1));
        assert_true(h != vl_hash_bytes(bytes, len, 2));
        if (len > 0)
            assert_true(h != vl_hash_bytes(bytes, len - 1, 1));
        for (size_t i = 0; i < len; i++) {
            bytes[i] ^= 0x10;
            assert_true(h != vl_hash_bytes(bytes, len, 1));
            bytes[i] ^= 0x10;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strmap_many_keys_are_found_again),
        cmocka_unit_test(test_strmap_second_add_changes_nothing),
        cmocka_unit_test(test_hash_bytes_depends_on_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
