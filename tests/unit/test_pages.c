/* test_pages.c: the page pool's counts through allocation, sharing and release. */
#include "plugins/common/pages.h"
#include "tests/unit/vl_test.h"

static void test_pages_alloc_all_then_none_left(void **state)
{
    vl_pages *p;
    vl_error err;
    uint32_t ids[8];

    (void)state;
    assert_int_equal(vl_pages_create(8, 4096, &p, &err), VL_OK);
    assert_int_equal(vl_pages_alloc(p, 5, ids, &err), VL_OK);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(ids[i], i);
    assert_int_equal(vl_pages_free(p), 3);
    uint32_t more[4] = {99, 99, 99, 99};
    assert_int_equal(vl_pages_alloc(p, 4, more, &err), VL_E_NOMEM);
    assert_string_equal(err.text, "page pool: 4 pages wanted, 3 of 8 free");
    assert_int_equal(more[0], 99);
    assert_int_equal(vl_pages_alloc(p, 3, more, &err), VL_OK);
    assert_int_equal(vl_pages_used(p), 8);
    assert_int_equal(vl_pages_alloc(p, 0, NULL, &err), VL_OK);
    vl_pages_destroy(p);
}

static void test_pages_shared_freed_with_last_owner(void **state)
{
    vl_pages *p;
    vl_error err;
    uint32_t ids[3];

    (void)state;
    assert_int_equal(vl_pages_create(4, 1000, &p, &err), VL_OK);
    assert_int_equal(vl_pages_alloc(p, 3, ids, &err), VL_OK);
    vl_pages_ref(p, ids, 2);
    assert_int_equal(vl_pages_refs(p, ids[0]), 2);
    assert_int_equal(vl_pages_unref(p, ids, 3), 1000); /* only the third had one owner */
    assert_int_equal(vl_pages_used(p), 2);
    assert_int_equal(vl_pages_refs(p, ids[2]), 0);
    assert_int_equal(vl_pages_unref(p, ids, 2), 2000);
    assert_int_equal(vl_pages_used(p), 0);
    uint32_t again;
    assert_int_equal(vl_pages_alloc(p, 1, &again, &err), VL_OK);
    assert_int_equal(again, ids[1]); /* freed last, taken first */
    vl_pages_destroy(p);
}

static void test_pages_random_use_matches_model(void **state)
{
    enum { N = 50 };
    uint32_t owners[N] = {0};
    vl_pages *p;
    vl_error err;
    uint64_t s = 3;

    (void)state;
    assert_int_equal(vl_pages_create(N, 64, &p, &err), VL_OK);
    for (int step = 0; step < 20000; step++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        uint32_t id = (uint32_t)(s >> 33) % N, got;
        size_t used = 0;
        if (s >> 62 == 0) {
            if (vl_pages_alloc(p, 1, &got, &err) == VL_OK) {
                assert_int_equal(owners[got], 0);
                owners[got] = 1;
            }
        } else if (owners[id] && s >> 62 == 1) {
            vl_pages_ref(p, &id, 1);
            owners[id]++;
        } else if (owners[id]) {
            owners[id]--;
            assert_int_equal(vl_pages_unref(p, &id, 1), owners[id] ? 0 : 64);
        }
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(vl_pages_refs(p, i), owners[i]);
            used += owners[i] > 0;
        }
        assert_int_equal(vl_pages_used(p), used);
        assert_int_equal(vl_pages_free(p), N - used);
    }
    vl_pages_destroy(p);
}

static void test_pages_create_bad_sizes_refused(void **state)
{
    vl_pages *p = NULL;
    vl_error err;

    (void)state;
    assert_int_equal(vl_pages_create(0, 1, &p, &err), VL_E_INVALID);
    assert_int_equal(vl_pages_create((size_t)UINT32_MAX, 1, &p, &err), VL_E_INVALID);
    assert_int_equal(vl_pages_create(1u << 20, SIZE_MAX / 2, &p, &err), VL_E_INVALID);
    assert_null(p);
    vl_pages_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_alloc_all_then_none_left),
        cmocka_unit_test(test_pages_shared_freed_with_last_owner),
        cmocka_unit_test(test_pages_random_use_matches_model),
        cmocka_unit_test(test_pages_create_bad_sizes_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
