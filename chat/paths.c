/* chat/paths.c: XDG folders, atomic replacement of small files. Knows not what is in them. */
#include "chat/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

vl_status vl_xdg_path(enum vl_xdg kind, const char *sub, const char *name, vl_buf *out,
                      vl_error *err)
{
    static const struct {
        const char *variable, *below_home;
    } place[] = {{"XDG_DATA_HOME", ".local/share"},
                 {"XDG_CONFIG_HOME", ".config"},
                 {"XDG_STATE_HOME", ".local/state"}};
    const char *dir = getenv(place[kind].variable), *home = getenv("HOME");

    vl_buf_clear(out);
    if (dir && dir[0] == '/') /* the rules: a relative path there does not count */
        vl_buf_printf(out, "%s/poppy", dir);
    else if (home && *home)
        vl_buf_printf(out, "%s/%s/poppy", home, place[kind].below_home);
    else
        return vl_error_set(err, VL_E_NOT_FOUND, "neither %s nor HOME is set",
                            place[kind].variable);
    if (sub)
        vl_buf_printf(out, "/%s", sub);
    if (name)
        vl_buf_printf(out, "/%s", name);
    return out->failed ? vl_error_set(err, VL_E_NOMEM, "out of memory") : VL_OK;
}

vl_status vl_path_make_parent(const char *path, vl_error *err)
{
    vl_buf dir = VL_BUF_INIT;
    const char *last = strrchr(path, '/');
    vl_status rc = VL_OK;

    if (!last || last == path)
        return VL_OK;
    vl_buf_append(&dir, path, (size_t)(last - path));
    for (size_t i = 1; !dir.failed && i <= dir.len; i++) {
        if (i < dir.len && dir.ptr[i] != '/')
            continue;
        dir.ptr[i] = 0;
        if (mkdir(dir.ptr, 0700) != 0 && errno != EEXIST) {
            rc = vl_error_set(err, VL_E_IO, "%s: %s", dir.ptr, strerror(errno));
            break;
        }
        if (i < dir.len)
            dir.ptr[i] = '/';
    }
    vl_buf_fini(&dir);
    return rc;
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

vl_status vl_file_replace(const char *path, const void *bytes, size_t len, vl_error *err)
{
    vl_buf temp = VL_BUF_INIT;
    vl_status rc = vl_path_make_parent(path, err);
    int fd = -1;

    if (rc != VL_OK)
        return rc;
    vl_buf_printf(&temp, "%s.XXXXXX", path);
    if (temp.failed) {
        rc = vl_error_set(err, VL_E_NOMEM, "out of memory");
        goto out;
    }
    fd = mkostemp(temp.ptr, O_CLOEXEC);
    if (fd < 0) {
        rc = vl_error_set(err, VL_E_IO, "%s: %s", temp.ptr, strerror(errno));
        goto out;
    }
    if (!write_all(fd, bytes, len) || fsync(fd) != 0) {
        rc = vl_error_set(err, VL_E_IO, "%s: %s", temp.ptr, strerror(errno));
        close(fd);
        unlink(temp.ptr);
        goto out;
    }
    close(fd);
    if (rename(temp.ptr, path) != 0) {
        rc = vl_error_set(err, VL_E_IO, "%s: %s", path, strerror(errno));
        unlink(temp.ptr);
    }
out:
    vl_buf_fini(&temp);
    return rc;
}
