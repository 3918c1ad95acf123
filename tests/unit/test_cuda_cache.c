/* unit.cuda_cache: the disk cache, kernels through it, and the measuring pass of arenas; none of it
 * needs a GPU. */
#include "vl_test.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugins/common/cuda/arena.h"
#include "plugins/common/cuda/device.h"
#include "plugins/common/cuda/diskcache.h"
#include "plugins/common/cuda/nvrtc.h"

static char dir[256];

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "%s/cuda_cache_test.XXXXXX", VL_BUILD_DIR);
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static void entry_path(const vl_cache_key *k, const char *in, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s/%016llx%016llx.bin", in, (unsigned long long)k->h[0],
                   (unsigned long long)k->h[1]);
}

static int remove_dir(void **state)
{
    (void)state;
    char command[512];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command) == 0 ? 0 : -1;
}

static void test_cache_key_parts_are_told_apart(void **state)
{
    (void)state;
    vl_cache_key a = vl_cache_key_begin("x"), b = a, c = vl_cache_key_begin("y");
    vl_cache_key_add(&a, "ab", 2);
    vl_cache_key_add(&a, "c", 1);
    vl_cache_key_add(&b, "a", 1);
    vl_cache_key_add(&b, "bc", 2);
    assert_memory_not_equal(&a, &b, sizeof(a));
    assert_memory_not_equal(&a, &c, sizeof(a));
    assert_memory_not_equal(&b, &c, sizeof(b));
}

static void test_cache_entry_comes_back_damaged_is_absent(void **state)
{
    (void)state;
    char sub[300], path[400], bytes[1000];
    vl_error err = {0};
    vl_buf out = VL_BUF_INIT;
    vl_cache_key k = vl_cache_key_begin("test"), other = vl_cache_key_begin("other");
    (void)snprintf(sub, sizeof(sub), "%s/a/b", dir); /* folders are made */
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7);
    assert_false(vl_cache_get(sub, &k, &out));
    assert_int_equal(vl_cache_put(sub, &k, bytes, sizeof(bytes), &err), VL_OK);
    assert_true(vl_cache_get(sub, &k, &out));
    assert_int_equal(out.len, sizeof(bytes));
    assert_memory_equal(out.ptr, bytes, sizeof(bytes));
    assert_false(vl_cache_get(sub, &other, &out));
    entry_path(&k, sub, path, sizeof(path));
    /* One bit of the payload, then a cut, then another's entry under this name. */
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 500, SEEK_SET), 0);
    assert_int_equal(fputc('!', f), '!');
    assert_int_equal(fclose(f), 0);
    assert_false(vl_cache_get(sub, &k, &out));
    assert_int_equal(out.len, 0);
    assert_int_equal(vl_cache_put(sub, &k, bytes, sizeof(bytes), &err), VL_OK);
    assert_int_equal(truncate(path, 700), 0);
    assert_false(vl_cache_get(sub, &k, &out));
    assert_int_equal(truncate(path, 3), 0);
    assert_false(vl_cache_get(sub, &k, &out));
    char from[400];
    assert_int_equal(vl_cache_put(sub, &other, bytes, 10, &err), VL_OK);
    entry_path(&other, sub, from, sizeof(from));
    assert_int_equal(rename(from, path), 0);
    assert_false(vl_cache_get(sub, &k, &out));
    vl_buf_fini(&out);
}

static void test_cache_no_folder_keeps_nothing(void **state)
{
    (void)state;
    vl_error err = {0};
    vl_buf out = VL_BUF_INIT;
    vl_cache_key k = vl_cache_key_begin("test");
    assert_int_equal(vl_cache_put("", &k, "x", 1, &err), VL_OK);
    assert_int_equal(vl_cache_put(NULL, &k, "x", 1, &err), VL_OK);
    assert_false(vl_cache_get(NULL, &k, &out));
    assert_int_equal(vl_cache_put("/proc/none/of/this", &k, "x", 1, &err), VL_E_IO);
    assert_non_null(strstr(err.text, "/proc/none/of/this"));
}

static const vl_kernel_source sources[] = {
    {"fill.cu", "#include \"two.cuh\"\nextern \"C\" __global__ void fill(int *x) { x[threadIdx.x] "
                "= VALUE + two(); }\n"},
    {"wrong.cu", "extern \"C\" __global__ void wrong(int *x) { x[0] = nothing_of_this_name; }\n"},
    {"two.cuh", "__device__ int two() { return 2; }\n"},
    {NULL, NULL},
};

static void test_nvrtc_second_time_from_the_cache(void **state)
{
    (void)state;
    char sub[300], path[700];
    const char *one[] = {"VALUE=1"}, *other[] = {"VALUE=3"};
    vl_error err = {0};
    vl_buf a = VL_BUF_INIT, b = VL_BUF_INIT;
    bool cached = true;
    (void)snprintf(sub, sizeof(sub), "%s/kernels", dir);
    vl_nvrtc_job job = {sources, "fill", one, 1, "sm_80", sub};
    assert_int_equal(vl_nvrtc_compile(&job, &a, NULL, &cached, &err), VL_OK);
    assert_false(cached);
    assert_int_equal(vl_nvrtc_compile(&job, &b, NULL, &cached, &err), VL_OK);
    assert_true(cached);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.ptr, b.ptr, a.len);
    job.defines = other;
    assert_int_equal(vl_nvrtc_compile(&job, &b, NULL, &cached, &err), VL_OK);
    assert_false(cached);
    job.arch = "sm_90";
    assert_int_equal(vl_nvrtc_compile(&job, &b, NULL, &cached, &err), VL_OK);
    assert_false(cached);
    /* Every entry damaged: compiled again, and right. */
    job = (vl_nvrtc_job){sources, "fill", one, 1, "sm_80", sub};
    (void)snprintf(path, sizeof(path), "for f in '%s'/*.bin; do printf x >>\"$f\"; done", sub);
    assert_int_equal(system(path), 0);
    assert_int_equal(vl_nvrtc_compile(&job, &b, NULL, &cached, &err), VL_OK);
    assert_false(cached);
    assert_int_equal(a.len, b.len);
    vl_buf_fini(&a);
    vl_buf_fini(&b);
}

static void test_nvrtc_wrong_source_names_kernel_and_error(void **state)
{
    (void)state;
    vl_error err = {0};
    vl_buf a = VL_BUF_INIT;
    vl_nvrtc_job job = {sources, "wrong", NULL, 0, "sm_80", NULL};
    assert_int_equal(vl_nvrtc_compile(&job, &a, NULL, NULL, &err), VL_E_INTERNAL);
    assert_non_null(strstr(err.text, "kernel wrong for sm_80"));
    assert_non_null(strstr(err.text, "nothing_of_this_name"));
    job.kernel = "absent";
    assert_int_equal(vl_nvrtc_compile(&job, &a, NULL, NULL, &err), VL_E_INTERNAL);
    assert_non_null(strstr(err.text, "absent"));
    vl_buf_fini(&a);
}

static void test_arena_measuring_counts_and_overflow_is_told(void **state)
{
    (void)state;
    vl_arena a = {0};
    assert_null(vl_arena_take(&a, 3, 100));
    assert_int_equal(a.used, 512);
    assert_null(vl_arena_take(&a, 0, 8));
    assert_int_equal(a.used, 512);
    assert_null(vl_arena_take(&a, 1, 1));
    assert_int_equal(a.used, 768);
    assert_false(a.failed);
    assert_null(vl_arena_take(&a, UINT64_MAX / 2, 4));
    assert_true(a.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache_key_parts_are_told_apart),
        cmocka_unit_test(test_cache_entry_comes_back_damaged_is_absent),
        cmocka_unit_test(test_cache_no_folder_keeps_nothing),
        cmocka_unit_test(test_nvrtc_second_time_from_the_cache),
        cmocka_unit_test(test_nvrtc_wrong_source_names_kernel_and_error),
        cmocka_unit_test(test_arena_measuring_counts_and_overflow_is_told),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
