/* plugins/common/cuda/diskcache.c: see diskcache.h. Knows bytes and keys only. */
#include "plugins/common/cuda/diskcache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

enum { PATH_CAP = 4096, MAX_ENTRY_BYTES = 256 << 20 };

/* What stands before the payload of an entry. */
struct head {
    char magic[8];
    uint64_t key[2];
    uint64_t len;
    uint64_t sum; /* of the payload */
};
static const char MAGIC[8] = {'V', 'L', 'C', 'A', 'C', 'H', 'E', '1'};

vl_cache_key vl_cache_key_begin(const char *kind)
{
    vl_cache_key k = {{0x243f6a8885a308d3u, 0x13198a2e03707344u}};
    vl_cache_key_add(&k, kind, strlen(kind));
    return k;
}

void vl_cache_key_add(vl_cache_key *k, const void *bytes, size_t len)
{
    for (int i = 0; i < 2; i++)
        k->h[i] = vl_hash_bytes(bytes, len, k->h[i] * 0x9e3779b97f4a7c15u + len);
}

static bool entry_path(char *out, const char *dir, const vl_cache_key *k)
{
    if (dir == NULL || dir[0] == '\0')
        return false;
    int n = snprintf(out, PATH_CAP, "%s/%016llx%016llx.bin", dir, (unsigned long long)k->h[0],
                     (unsigned long long)k->h[1]);
    return n > 0 && n < PATH_CAP;
}

bool vl_cache_get(const char *dir, const vl_cache_key *k, vl_buf *out)
{
    char path[PATH_CAP];
    vl_buf_clear(out);
    if (!entry_path(path, dir, k) || !vl_path_is_file(path) ||
        vl_file_read(path, MAX_ENTRY_BYTES, out, NULL) != VL_OK)
        return false;
    struct head h;
    bool good = !out->failed && out->len >= sizeof(h);
    if (good) {
        memcpy(&h, out->ptr, sizeof(h));
        vl_buf_consume(out, sizeof(h));
        good = memcmp(h.magic, MAGIC, sizeof(MAGIC)) == 0 && h.key[0] == k->h[0] &&
               h.key[1] == k->h[1] && h.len == out->len &&
               h.sum == vl_hash_bytes(out->ptr, out->len, k->h[0]);
    }
    if (!good)
        vl_buf_clear(out);
    return good;
}

static bool make_dirs(const char *dir)
{
    char path[PATH_CAP];
    int n = snprintf(path, sizeof(path), "%s", dir);
    if (n <= 0 || n >= PATH_CAP)
        return false;
    for (char *p = path + 1; *p != '\0'; p++)
        if (*p == '/') {
            *p = '\0';
            (void)mkdir(path, 0777);
            *p = '/';
        }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static bool write_all(int fd, const void *bytes, size_t len)
{
    const char *p = bytes;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

vl_status vl_cache_put(const char *dir, const vl_cache_key *k, const void *bytes, size_t len,
                       vl_error *err)
{
    static atomic_uint serial;
    char path[PATH_CAP], temp[PATH_CAP];
    if (!entry_path(path, dir, k))
        return VL_OK;
    int n = snprintf(temp, sizeof(temp), "%s/.%ld.%u.tmp", dir, (long)getpid(),
                     atomic_fetch_add(&serial, 1));
    if (n <= 0 || n >= PATH_CAP)
        return vl_error_set(err, VL_E_RANGE, "%.200s: the path is too long for a cache", dir);
    if (!make_dirs(dir))
        return vl_error_set(err, VL_E_IO, "%.200s: cannot make the cache folder: %s", dir,
                            strerror(errno));
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return vl_error_set(err, VL_E_IO, "%.200s: %s", temp, strerror(errno));
    struct head h = {.len = len, .sum = vl_hash_bytes(bytes, len, k->h[0])};
    memcpy(h.magic, MAGIC, sizeof(MAGIC));
    h.key[0] = k->h[0];
    h.key[1] = k->h[1];
    bool good = write_all(fd, &h, sizeof(h)) && write_all(fd, bytes, len);
    good = close(fd) == 0 && good && rename(temp, path) == 0;
    if (!good) {
        int e = errno;
        (void)unlink(temp);
        return vl_error_set(err, VL_E_IO, "%.200s: %s", path, strerror(e));
    }
    return VL_OK;
}

bool vl_cache_default_dir(char *out, size_t cap)
{
    const char *x = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (x != NULL && x[0] == '/')
        n = snprintf(out, cap, "%s/vallmo", x);
    else if (home != NULL && home[0] == '/')
        n = snprintf(out, cap, "%s/.cache/vallmo", home);
    return n > 0 && (size_t)n < cap;
}
