/* Keys, origins, hosts. */
#include "tests/unit/vl_test.h"

#include <unistd.h>

#include "host/server/app.h"

static void make(struct access *a, vl_config *c, const char *yaml)
{
    vl_problems p = {NULL, 0, 0, false};
    vl_error err = {0};
    assert_int_equal(
        vl_config_load_text(c, "/x/v.yaml", yaml, strlen(yaml), NULL, 0, NULL, &p, &err), VL_OK);
    assert_int_equal(p.n, 0);
    assert_int_equal(access_init(a, c, &err), VL_OK);
}

/* A request with these header lines. */
static vl_http_request *request(vl_http_request *r, const char *headers)
{
    vl_buf b = VL_BUF_INIT;
    const char *message;
    memset(r, 0, sizeof *r);
    vl_buf_printf(&b, "GET / HTTP/1.1\r\n%s\r\n", headers);
    assert_int_equal(vl_http_head_parse(&r->head, b.ptr, b.len, &message), 0);
    vl_buf_fini(&b);
    return r;
}

static void test_keys_any_of_them_opens(void **state)
{
    (void)state;
    struct access a;
    vl_config c;
    static vl_http_request r;
    static const struct {
        const char *headers;
        bool ok;
    } cases[] = {{"Host: h\r\n", false},
                 {"Host: h\r\nAuthorization: Bearer two\r\n", true},
                 {"Host: h\r\nauthorization: bearer  one\r\n", true},
                 {"Host: h\r\nx-api-key: one\r\n", true},
                 {"Host: h\r\nAuthorization: Bearer on\r\n", false},
                 {"Host: h\r\nAuthorization: Bearer oneone\r\n", false},
                 {"Host: h\r\nAuthorization: Bearer \r\n", false},
                 {"Host: h\r\nAuthorization: Basic one\r\n", false}};
    make(&a, &c, "api_keys: [one, two]\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (access_key_ok(&a, request(&r, cases[i].headers)) != cases[i].ok)
            fail_msg("%s", cases[i].headers);
        vl_http_head_fini(&r.head);
    }
    access_fini(&a);
    vl_config_fini(&c);
    make(&a, &c, "");
    assert_true(access_key_ok(&a, request(&r, "Host: h\r\nAuthorization: Bearer \r\n")));
    vl_http_head_fini(&r.head);
    access_fini(&a);
    vl_config_fini(&c);
}

static void test_keys_file_read_empty_one_refused(void **state)
{
    (void)state;
    struct access a;
    vl_config c;
    static vl_http_request r;
    char path[] = "/tmp/vallmo-keys-XXXXXX", yaml[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    const char *text = "# keys\n\n  secret \r\nother";
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    snprintf(yaml, sizeof yaml, "api_keys_file: %s\n", path);
    make(&a, &c, yaml);
    assert_int_equal(a.n_keys, 2);
    assert_true(access_key_ok(&a, request(&r, "Host: h\r\nx-api-key: secret\r\n")));
    vl_http_head_fini(&r.head);
    access_fini(&a);
    assert_int_equal(ftruncate(fd, 7), 0);
    vl_error err = {0};
    assert_int_equal(access_init(&a, &c, &err), VL_E_INVALID);
    access_fini(&a);
    vl_config_fini(&c);
    close(fd);
    unlink(path);
}

static void test_origins_and_hosts_by_name(void **state)
{
    (void)state;
    struct access a;
    vl_config c;
    static vl_http_request r;
    static const struct {
        const char *origin;
        bool ok;
    } origins[] = {{"http://localhost:3000", true},
                   {"https://127.0.0.1", true},
                   {"http://[::1]:5173", true},
                   {"https://app.example", true},
                   {"https://evil.example", false},
                   {"null", false},
                   {"http://localhost.evil.example", false},
                   {"http://127.0.0.1.evil.example", false}};
    static const struct {
        const char *host;
        bool ok;
    } hosts[] = {{"localhost:8080", true},
                 {"127.0.0.1", true},
                 {"[::1]:80", true},
                 {"evil.example:8080", false},
                 {"127.0.0.1.evil.example", false}};
    char line[128];
    make(&a, &c, "cors_origins: [loopback, 'https://app.example']\n");
    for (size_t i = 0; i < sizeof origins / sizeof origins[0]; i++) {
        snprintf(line, sizeof line, "Host: h\r\nOrigin: %s\r\n", origins[i].origin);
        if ((access_origin(&a, request(&r, line)) != NULL) != origins[i].ok)
            fail_msg("%s", origins[i].origin);
        vl_http_head_fini(&r.head);
    }
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        snprintf(line, sizeof line, "Host: %s\r\n", hosts[i].host);
        if (access_host_ok(&a, request(&r, line)) != hosts[i].ok)
            fail_msg("%s", hosts[i].host);
        vl_http_head_fini(&r.head);
    }
    access_fini(&a);
    vl_config_fini(&c);
    make(&a, &c, "cors_origins: ['*']\nhost: 0.0.0.0\n");
    assert_string_equal(access_origin(&a, request(&r, "Host: any.name\r\nOrigin: https://x.y\r\n")),
                        "*");
    assert_true(access_host_ok(&a, &r)); /* bound to all: any name may be ours */
    vl_http_head_fini(&r.head);
    access_fini(&a);
    vl_config_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_any_of_them_opens),
        cmocka_unit_test(test_keys_file_read_empty_one_refused),
        cmocka_unit_test(test_origins_and_hosts_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
