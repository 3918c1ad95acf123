/* unit.file: mapping, reading and refusing files; joining paths. */
#include "tests/unit/vl_cmocka.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char dir[] = "/tmp/vallmo-file-XXXXXX";
static char path[256];

static int setup(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(dir);
}

static const char *make(const char *name, const char *text)
{
    vl_error err;
    assert_int_equal(vl_path_join(path, sizeof(path), dir, name, &err), VL_OK);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
    return path;
}

static void test_map_regular_file_shows_its_bytes(void **state)
{
    vl_map map = {NULL, 0};
    vl_error err;
    (void)state;
    make("a", "hello");
    assert_int_equal(vl_map_open(path, &map, &err), VL_OK);
    assert_int_equal(map.len, 5);
    assert_memory_equal(map.ptr, "hello", 5);
    vl_map_close(&map);
    vl_map_close(&map);
    make("a", "");
    assert_int_equal(vl_map_open(path, &map, &err), VL_OK);
    assert_null(map.ptr);
    assert_int_equal(map.len, 0);
    unlink(path);
}

static void test_map_missing_file_is_not_found(void **state)
{
    vl_map map = {NULL, 0};
    vl_error err;
    (void)state;
    assert_int_equal(vl_map_open("/nonexistent/vallmo", &map, &err), VL_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "/nonexistent/vallmo"));
    assert_null(map.ptr);
}

static void test_map_folder_fifo_device_are_refused(void **state)
{
    vl_map map = {NULL, 0};
    vl_buf b = VL_BUF_INIT;
    vl_error err;
    (void)state;
    assert_int_equal(vl_map_open(dir, &map, &err), VL_E_FORMAT);
    assert_non_null(strstr(err.text, "a folder"));
    assert_int_equal(vl_map_open("/dev/zero", &map, &err), VL_E_FORMAT);
    assert_non_null(strstr(err.text, "a device"));
    assert_int_equal(vl_path_join(path, sizeof(path), dir, "fifo", &err), VL_OK);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(vl_file_read(path, 100, &b, &err), VL_E_FORMAT); /* and does not wait */
    assert_non_null(strstr(err.text, "a FIFO"));
    unlink(path);
    vl_buf_fini(&b);
}

static void test_file_read_appends_and_keeps_to_the_limit(void **state)
{
    vl_buf b = VL_BUF_INIT;
    vl_error err;
    (void)state;
    make("a", "hello");
    vl_buf_puts(&b, ">");
    assert_int_equal(vl_file_read(path, 5, &b, &err), VL_OK);
    assert_string_equal(b.ptr, ">hello");
    assert_int_equal(vl_file_read(path, 4, &b, &err), VL_E_RANGE);
    assert_non_null(strstr(err.text, "5"));
    assert_non_null(strstr(err.text, "4"));
    assert_string_equal(b.ptr, ">hello");
    unlink(path);
    vl_buf_fini(&b);
}

static void test_path_join_and_base(void **state)
{
    char out[16];
    vl_error err;
    (void)state;
    assert_int_equal(vl_path_join(out, sizeof(out), "/a", "b", &err), VL_OK);
    assert_string_equal(out, "/a/b");
    assert_int_equal(vl_path_join(out, sizeof(out), "/a//", "b", &err), VL_OK);
    assert_string_equal(out, "/a/b");
    assert_int_equal(vl_path_join(out, sizeof(out), "/", "b", &err), VL_OK);
    assert_string_equal(out, "/b");
    assert_int_equal(vl_path_join(out, sizeof(out), "", "b", &err), VL_OK);
    assert_string_equal(out, "b");
    assert_int_equal(vl_path_join(out, sizeof(out), "/1234567", "1234567", &err), VL_E_RANGE);
    assert_int_equal(vl_path_join(out, sizeof(out), "/1234567", "123456", &err), VL_OK);
    assert_string_equal(vl_path_base("/a/b.c"), "b.c");
    assert_string_equal(vl_path_base("b"), "b");
}

static void test_path_kinds(void **state)
{
    (void)state;
    make("a", "x");
    assert_true(vl_path_is_file(path));
    assert_false(vl_path_is_dir(path));
    assert_true(vl_path_is_dir(dir));
    assert_false(vl_path_is_file(dir));
    assert_true(vl_path_exists(path));
    unlink(path);
    assert_false(vl_path_exists(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_regular_file_shows_its_bytes),
        cmocka_unit_test(test_map_missing_file_is_not_found),
        cmocka_unit_test(test_map_folder_fifo_device_are_refused),
        cmocka_unit_test(test_file_read_appends_and_keeps_to_the_limit),
        cmocka_unit_test(test_path_join_and_base),
        cmocka_unit_test(test_path_kinds),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
