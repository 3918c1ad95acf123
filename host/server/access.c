/* host/server/access.c: who may ask: API keys, web origins, the Host header. Must not know routes.
 */
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "host/server/app.h"

static bool is_loopback_name(const char *s, size_t n)
{
    static const char local[] = ".localhost";
    if (n == 9 && strncasecmp(s, "localhost", 9) == 0)
        return true;
    if (n > 10 && strncasecmp(s + n - 10, local, 10) == 0)
        return true;
    if ((n == 3 && memcmp(s, "::1", 3) == 0) || (n == 5 && memcmp(s, "[::1]", 5) == 0))
        return true;
    if (n < 7 || memcmp(s, "127.", 4) != 0)
        return false;
    for (size_t i = 4; i < n; i++)
        if (!(s[i] >= '0' && s[i] <= '9') && s[i] != '.')
            return false; /* 127.0.0.1.example.org is someone else's */
    return true;
}

/* The name in "name", "name:port", "[::1]:port". */
static size_t host_length(const char *s)
{
    if (*s == '[') {
        const char *end = strchr(s, ']');
        return end ? (size_t)(end + 1 - s) : strlen(s);
    }
    return strcspn(s, ":/");
}

static void add_key(struct access *a, const char *key, size_t n)
{
    while (n && (key[n - 1] == ' ' || key[n - 1] == '\t' || key[n - 1] == '\r'))
        n--;
    while (n && (*key == ' ' || *key == '\t')) {
        key++;
        n--;
    }
    if (n == 0 || *key == '#')
        return;
    vl_buf_append(&a->keys, key, n);
    vl_buf_putc(&a->keys, 0);
    a->n_keys++;
}

static vl_status read_keys_file(struct access *a, const char *path, vl_error *err)
{
    vl_buf text = VL_BUF_INIT;
    size_t before = a->n_keys;
    vl_status rc = vl_file_read(path, 1 << 20, &text, err);
    if (rc != VL_OK)
        return vl_error_prefix(err, "api_keys_file");
    for (size_t at = 0; at < text.len;) {
        const char *line = text.ptr + at;
        const char *end = memchr(line, '\n', text.len - at);
        size_t n = end ? (size_t)(end - line) : text.len - at;
        if (memchr(line, 0, n))
            rc = vl_error_set(err, VL_E_INVALID, "api_keys_file: %s contains a NUL byte", path);
        else
            add_key(a, line, n);
        at += n + 1;
    }
    if (rc == VL_OK && a->n_keys == before)
        rc = vl_error_set(err, VL_E_INVALID, "api_keys_file: %s holds no key", path);
    vl_buf_fini(&text);
    return rc;
}

vl_status access_init(struct access *a, const vl_config *c, vl_error *err)
{
    vl_status rc = VL_OK;
    *a = (struct access){.keys = VL_BUF_INIT};
    const vl_option_value *keys = vl_server_value(c, VL_S_API_KEYS);
    for (const char *k = NULL; (k = vl_option_next(keys, k));)
        add_key(a, k, strlen(k));
    const char *file = vl_server_value(c, VL_S_API_KEYS_FILE)->text;
    if (file && *file)
        rc = read_keys_file(a, file, err);
    if (rc == VL_OK && a->keys.failed)
        rc = vl_error_set(err, VL_E_NOMEM, "out of memory");
    a->metrics_open = vl_server_value(c, VL_S_METRICS_OPEN)->number != 0;
    a->origins = vl_server_value(c, VL_S_CORS_ORIGINS);
    for (const char *o = NULL; (o = vl_option_next(a->origins, o));) {
        a->cors_any |= strcmp(o, "*") == 0;
        a->cors_loopback |= strcmp(o, "loopback") == 0;
    }
    const char *host = vl_server_value(c, VL_S_HOST)->text;
    a->bound_to_loopback = is_loopback_name(host, strlen(host));
    return rc;
}

void access_fini(struct access *a)
{
    vl_buf_fini(&a->keys);
}

/* Time depends on the lengths alone, not on where two keys differ. */
static bool same_key(const char *a, size_t n, const char *b, size_t m)
{
    volatile unsigned char differ = n != m;
    for (size_t i = 0; i < n; i++)
        differ |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
    return differ == 0;
}

bool access_key_ok(const struct access *a, const vl_http_request *r)
{
    bool ok = false;
    if (a->n_keys == 0)
        return true;
    const char *given = vl_http_header_get(&r->head, "authorization");
    if (given && strncasecmp(given, "bearer ", 7) == 0) {
        given += 7;
        while (*given == ' ')
            given++;
    } else {
        given = vl_http_header_get(&r->head, "x-api-key");
    }
    if (!given)
        return false;
    size_t n = strlen(given);
    for (size_t at = 0; at < a->keys.len; at += strlen(a->keys.ptr + at) + 1)
        ok |= same_key(given, n, a->keys.ptr + at, strlen(a->keys.ptr + at));
    return ok;
}

const char *access_origin(const struct access *a, const vl_http_request *r)
{
    const char *origin = r->head_is_bad ? NULL : vl_http_header_get(&r->head, "origin");
    if (!origin || !*origin)
        return NULL;
    if (a->cors_any)
        return "*";
    if (a->cors_loopback) {
        const char *host = strncmp(origin, "http://", 7) == 0    ? origin + 7
                           : strncmp(origin, "https://", 8) == 0 ? origin + 8
                                                                 : NULL;
        if (host && is_loopback_name(host, host_length(host)))
            return origin;
    }
    for (const char *o = NULL; (o = vl_option_next(a->origins, o));)
        if (strcmp(o, origin) == 0)
            return origin;
    return NULL;
}

bool access_host_ok(const struct access *a, const vl_http_request *r)
{
    const char *host = vl_http_header_get(&r->head, "host");
    if (!a->bound_to_loopback || !host)
        return true;
    /* A page whose name was made to point to 127.0.0.1 sends its own name here. */
    return is_loopback_name(host, host_length(host));
}
