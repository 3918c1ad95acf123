/* base/file.c: regular files alone; every error names the path. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISFIFO(mode))
        return "a FIFO";
    if (S_ISSOCK(mode))
        return "a socket";
    if (S_ISCHR(mode) || S_ISBLK(mode))
        return "a device";
    return "no regular file";
}

/* Opens a regular file; *size is its length. Never blocks on a FIFO. */
static vl_status open_regular(const char *path, int *fd, uint64_t *size, vl_error *err)
{
    struct stat st;
    int f = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

    if (f < 0) {
        int e = errno;
        return vl_error_set(err, e == ENOENT || e == ENOTDIR ? VL_E_NOT_FOUND : VL_E_IO, "%s: %s",
                            path, strerror(e));
    }
    if (fstat(f, &st) != 0) {
        int e = errno;
        close(f);
        return vl_error_set(err, VL_E_IO, "%s: %s", path, strerror(e));
    }
    if (!S_ISREG(st.st_mode)) {
        close(f);
        return vl_error_set(err, VL_E_FORMAT, "%s: is %s, want a regular file", path,
                            kind_of(st.st_mode));
    }
    *fd = f;
    *size = (uint64_t)st.st_size;
    return VL_OK;
}

vl_status vl_map_open(const char *path, vl_map *map, vl_error *err)
{
    int fd = -1;
    uint64_t size = 0;
    vl_status rc = open_regular(path, &fd, &size, err);

    if (rc != VL_OK)
        return rc;
    if (size == 0) {
        close(fd);
        *map = (vl_map){NULL, 0};
        return VL_OK;
    }
    void *ptr = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    int e = errno;
    close(fd);
    if (ptr == MAP_FAILED)
        return vl_error_set(err, VL_E_IO, "%s: mapping %llu bytes: %s", path,
                            (unsigned long long)size, strerror(e));
    *map = (vl_map){ptr, size};
    return VL_OK;
}

void vl_map_close(vl_map *map)
{
    if (map->ptr)
        munmap((void *)(uintptr_t)map->ptr, map->len);
    *map = (vl_map){NULL, 0};
}

vl_status vl_file_read(const char *path, size_t max_bytes, vl_buf *out, vl_error *err)
{
    int fd = -1;
    uint64_t size = 0;
    vl_status rc = open_regular(path, &fd, &size, err);

    if (rc != VL_OK)
        return rc;
    if (size > max_bytes) {
        rc = vl_error_set(err, VL_E_RANGE, "%s: has %llu bytes, at most %zu are taken", path,
                          (unsigned long long)size, max_bytes);
        goto out;
    }
    if (!vl_buf_reserve(out, size)) {
        rc = vl_error_set(err, VL_E_NOMEM, "%s: no memory for %llu bytes", path,
                          (unsigned long long)size);
        goto out;
    }
    for (uint64_t done = 0; done < size;) {
        ssize_t n = read(fd, out->ptr + out->len, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = vl_error_set(err, VL_E_IO, "%s: %s", path, strerror(errno));
            goto out;
        }
        if (n == 0) /* it became shorter meanwhile: what there is, is the file */
            break;
        out->len += (size_t)n;
        done += (uint64_t)n;
    }
    out->ptr[out->len] = '\0';
out:
    close(fd);
    return rc;
}

bool vl_path_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool vl_path_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool vl_path_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

vl_status vl_path_join(char *out, size_t cap, const char *dir, const char *name, vl_error *err)
{
    size_t d = strlen(dir), n = strlen(name);

    while (d > 1 && dir[d - 1] == '/')
        d--;
    size_t slash = d > 0 && dir[d - 1] != '/' ? 1 : 0;
    if (d + slash + n + 1 > cap)
        return vl_error_set(err, VL_E_RANGE, "%s/%s: path of %zu bytes, at most %zu fit", dir, name,
                            d + slash + n, cap - 1);
    memcpy(out, dir, d);
    if (slash)
        out[d] = '/';
    memcpy(out + d + slash, name, n + 1);
    return VL_OK;
}

const char *vl_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
