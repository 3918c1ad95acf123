/* test_gguf_parse.c: the container on the smallest file, every field of it patched, every length of
 * it cut. */
#include "vl_test.h"

#include "base/error.h"
#include "plugins/loaders/gguf/parse.h"

/* general.architecture "llama", x.a = i32 [7, -1], and one F32 tensor t of ne {4, 2} with 0..7;
 * data at 160. */
static const uint8_t sample[192] = {
    0x47, 0x47, 0x55, 0x46, 0x03, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x67, 0x65, 0x6e, 0x65, 0x72, 0x61, 0x6c, 0x2e, 0x61, 0x72, 0x63, 0x68, 0x69, 0x74, 0x65, 0x63,
    0x74, 0x75, 0x72, 0x65, 0x08, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x6c, 0x6c, 0x61, 0x6d, 0x61, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x78, 0x2e, 0x61,
    0x09, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x07, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x74, 0x02, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x40, 0x40,
    0x00, 0x00, 0x80, 0x40, 0x00, 0x00, 0xa0, 0x40, 0x00, 0x00, 0xc0, 0x40, 0x00, 0x00, 0xe0, 0x40,
};

static void test_sample_is_read_whole(void **state)
{
    struct vl_gguf_file g;
    const struct vl_gguf_kv *kv;
    vl_bytes arch;
    bool found;
    int64_t x;
    (void)state;
    assert_int_equal(vl_gguf_parse(sample, sizeof(sample), &g, NULL), VL_OK);
    assert_int_equal(g.version, 3);
    assert_int_equal(g.data_offset, 160);
    assert_int_equal(vl_gguf_string(&g, "general.architecture", &arch, &found, NULL), VL_OK);
    assert_true(found && arch.len == 5 && memcmp(arch.ptr, "llama", 5) == 0);
    assert_int_equal(vl_gguf_array(&g, "x.a", VL_GGUF_I32, &kv, NULL), VL_OK);
    assert_true(vl_gguf_int_at(kv, 0, &x) && x == 7);
    assert_true(vl_gguf_int_at(kv, 1, &x) && x == -1);
    assert_false(vl_gguf_int_at(kv, 2, &x));
    const struct vl_gguf_tensor *t = vl_gguf_tensor(&g, "t");
    assert_non_null(t);
    assert_int_equal(t->offset, 160);
    assert_int_equal(t->n_bytes, 32);
    assert_int_equal(t->dims[0], 4);
    assert_int_equal(t->dims[1], 2);
    vl_gguf_fini(&g);
}

/* Each length in memory of its own size: a read past it is a sanitizer's finding. */
static void test_every_cut_is_refused(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof(sample); len++) {
        uint8_t *file = malloc(len + (len == 0));
        struct vl_gguf_file g;
        vl_error err = {0, ""};
        assert_non_null(file);
        memcpy(file, sample, len);
        assert_int_equal(vl_gguf_parse(file, len, &g, &err), VL_E_FORMAT);
        assert_true(strlen(err.text) > 10);
        free(file);
    }
}

struct patch {
    size_t at, n;
    uint64_t value;
    const char *word; /* NULL: the file stays sound */
};

static void test_patched_fields_are_refused(void **state)
{
    static const struct patch patches[] = {
        {0x04, 4, 2, NULL},
        {0x04, 4, 1, "version 1"},
        {0x04, 4, 4, "version 4"},
        {0x04, 4, 0x03000000, "big-endian"},
        {0x08, 8, 2, "tensor"},
        {0x08, 8, UINT64_MAX, "18446744073709551615"},
        {0x10, 8, 3, "truncated"},
        {0x10, 8, (uint64_t)1 << 63, "9223372036854775808"},
        {0x18, 8, 0, "empty"},
        {0x18, 8, UINT64_MAX, "18446744073709551615"},
        {0x20, 1, 0, "control byte"},
        {0x34, 4, 13, "type 13"},
        {0x34, 4, 7, "general.architecture"},
        {0x38, 8, UINT64_MAX - 3, "18446744073709551612"},
        {0x54, 4, 9, "arrays"},
        {0x54, 4, 7, "bool"},
        {0x54, 4, 99, "x.a"},
        {0x58, 8, (uint64_t)1 << 62, "4611686018427387904"},
        {0x58, 8, 1, "tensor"},
        {0x68, 8, 0, "empty"},
        {0x70, 1, 0x0a, "control byte"},
        {0x71, 4, 0, "n_dims 0"},
        {0x71, 4, 5, "n_dims 5"},
        {0x75, 8, 0, "dimension 0 is 0"},
        {0x75, 8, (uint64_t)1 << 63, "9223372036854775808"},
        {0x7d, 8, (uint64_t)1 << 62, "dimension 1"},
        {0x7d, 8, 3, "truncated"},
        {0x7d, 8, 1, NULL},
        {0x85, 4, 1, NULL},
        {0x85, 4, 5, "removed"},
        {0x85, 4, 43, "type 43"},
        {0x85, 4, 8, "Q8_0"},
        {0x89, 8, 16, "offset 16"},
        {0x89, 8, 32, "truncated"},
        {0x89, 8, UINT64_MAX - 31, "offset"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(patches) / sizeof(patches[0]); i++) {
        const struct patch *p = &patches[i];
        uint8_t file[sizeof(sample)];
        struct vl_gguf_file g;
        vl_error err = {0, ""};
        memcpy(file, sample, sizeof(file));
        for (size_t k = 0; k < p->n; k++)
            file[p->at + k] = (uint8_t)(p->value >> (8 * k));
        vl_status rc = vl_gguf_parse(file, sizeof(file), &g, &err);
        if (p->word == NULL ? rc != VL_OK : rc == VL_OK || strstr(err.text, p->word) == NULL)
            fail_msg("patch %zu at 0x%zx: status %d, \"%s\", want \"%s\"", i, p->at, rc, err.text,
                     p->word ? p->word : "sound");
        if (rc == VL_OK)
            vl_gguf_fini(&g);
    }
}

/* ---- a writer for values ---- */

struct writer {
    uint8_t bytes[1024];
    size_t len;
};

static void put(struct writer *w, uint64_t x, int n)
{
    for (int i = 0; i < n; i++)
        w->bytes[w->len++] = (uint8_t)(x >> (8 * i));
}

/* A file of one key. */
static void one_key(struct writer *w, const char *key, uint32_t type, uint64_t value, int n)
{
    w->len = 0;
    put(w, 0x46554747, 4);
    put(w, 3, 4);
    put(w, 0, 8);
    put(w, 1, 8);
    put(w, strlen(key), 8);
    memcpy(w->bytes + w->len, key, strlen(key));
    w->len += strlen(key);
    put(w, type, 4);
    put(w, value, n);
}

static void test_integers_come_from_every_integer_type(void **state)
{
    static const struct {
        uint32_t type;
        int n;
        uint64_t value;
        bool ok;
    } cases[] = {
        {VL_GGUF_U8, 1, 200, true},          {VL_GGUF_I8, 1, 100, true},
        {VL_GGUF_U16, 2, 200, true},         {VL_GGUF_I16, 2, 200, true},
        {VL_GGUF_U32, 4, 200, true},         {VL_GGUF_I32, 4, 200, true},
        {VL_GGUF_U64, 8, 200, true},         {VL_GGUF_I64, 8, 200, true},
        {VL_GGUF_I8, 1, 0xff, false},        {VL_GGUF_I32, 4, 0xfffffffc, false},
        {VL_GGUF_I64, 8, UINT64_MAX, false}, {VL_GGUF_U64, 8, 1001, false},
        {VL_GGUF_F32, 4, 0x3f800000, false}, {VL_GGUF_BOOL, 1, 1, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct writer w;
        struct vl_gguf_file g;
        vl_error err = {0, ""};
        uint64_t x = 0;
        bool found;
        one_key(&w, "a.b", cases[i].type, cases[i].value, cases[i].n);
        assert_int_equal(vl_gguf_parse(w.bytes, w.len, &g, &err), VL_OK);
        vl_status rc = vl_gguf_u64(&g, "a.b", 0, 1000, &x, &found, &err);
        assert_true(found);
        assert_int_equal(rc, cases[i].ok ? VL_OK : VL_E_FORMAT);
        assert_int_equal(x, cases[i].ok ? cases[i].value : 0);
        if (!cases[i].ok)
            assert_non_null(strstr(err.text, "a.b"));
        assert_int_equal(vl_gguf_u64(&g, "a.c", 0, 1000, &x, &found, &err), VL_OK);
        assert_false(found);
        vl_gguf_fini(&g);
    }
}

static void test_floats_come_from_both_float_types(void **state)
{
    struct writer w;
    struct vl_gguf_file g;
    double x = 0;
    bool found;
    (void)state;
    one_key(&w, "e", VL_GGUF_F32, 0x358637bd, 4); /* 1e-6f */
    assert_int_equal(vl_gguf_parse(w.bytes, w.len, &g, NULL), VL_OK);
    assert_int_equal(vl_gguf_f64(&g, "e", &x, &found, NULL), VL_OK);
    assert_true(x == (double)1e-6f);
    vl_gguf_fini(&g);
    one_key(&w, "e", VL_GGUF_F64, 0x3eb0c6f7a0b5ed8d, 8);
    assert_int_equal(vl_gguf_parse(w.bytes, w.len, &g, NULL), VL_OK);
    assert_int_equal(vl_gguf_f64(&g, "e", &x, &found, NULL), VL_OK);
    assert_true(x == 1e-6);
    vl_gguf_fini(&g);
    one_key(&w, "e", VL_GGUF_F32, 0x7f800000, 4); /* infinity */
    assert_int_equal(vl_gguf_parse(w.bytes, w.len, &g, NULL), VL_OK);
    assert_int_equal(vl_gguf_f64(&g, "e", &x, &found, NULL), VL_E_FORMAT);
    vl_gguf_fini(&g);
}

static void test_alignment_is_checked(void **state)
{
    static const struct {
        uint64_t value;
        bool ok;
    } cases[] = {{0, false},  {1, false}, {4, false},    {8, true},
                 {24, false}, {64, true}, {65536, true}, {131072, false}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct writer w;
        struct vl_gguf_file g;
        vl_error err = {0, ""};
        one_key(&w, "general.alignment", VL_GGUF_U64, cases[i].value, 8);
        vl_status rc = vl_gguf_parse(w.bytes, w.len, &g, &err);
        assert_int_equal(rc, cases[i].ok ? VL_OK : VL_E_FORMAT);
        if (rc == VL_OK) {
            assert_int_equal(g.align, cases[i].value);
            vl_gguf_fini(&g);
        } else {
            assert_non_null(strstr(err.text, "general.alignment"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample_is_read_whole),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_patched_fields_are_refused),
        cmocka_unit_test(test_integers_come_from_every_integer_type),
        cmocka_unit_test(test_floats_come_from_both_float_types),
        cmocka_unit_test(test_alignment_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
