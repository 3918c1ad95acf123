/* chat/editor.c: a temporary file, a child process, the file again. */
#include "chat/editor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

static const char *editor_name(void)
{
    const char *e = getenv("VISUAL");

    if (!e || !*e)
        e = getenv("EDITOR");
    return e && *e ? e : "vi";
}

static vl_status write_temp(const vl_buf *text, vl_buf *path, vl_error *err)
{
    const char *dir = getenv("TMPDIR");
    int fd;
    bool ok;

    vl_buf_printf(path, "%s/poppy-XXXXXX.md", dir && *dir == '/' ? dir : "/tmp");
    if (path->failed)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    fd = mkstemps(path->ptr, 3);
    if (fd < 0)
        return vl_error_set(err, VL_E_IO, "%s: %s", path->ptr, strerror(errno));
    ok = !text->len || write(fd, text->ptr, text->len) == (ssize_t)text->len;
    if (close(fd) != 0 || !ok)
        return vl_error_set(err, VL_E_IO, "%s: it could not be written", path->ptr);
    return VL_OK;
}

vl_status vl_editor_run(vl_buf *text, vl_error *err)
{
    vl_buf path = VL_BUF_INIT, command = VL_BUF_INIT, got = VL_BUF_INIT;
    vl_status rc = write_temp(text, &path, err);
    int status = 0;
    pid_t pid;

    if (rc != VL_OK)
        goto out;
    /* The value may hold arguments, as in EDITOR="code -w": the shell takes it apart. */
    vl_buf_printf(&command, "%s \"$1\"", editor_name());
    pid = command.failed ? -1 : fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command.ptr, "sh", path.ptr, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0)
        rc = vl_error_set(err, VL_E_IO, "no process for the editor: %s", strerror(errno));
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        rc = vl_error_set(err, VL_E_IO, "%s ended with %s %d; the text is as it was", editor_name(),
                          WIFEXITED(status) ? "status" : "signal",
                          WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    else
        rc = vl_file_read(path.ptr, (size_t)16 << 20, &got, err);
    if (rc == VL_OK) {
        if (got.len && got.ptr[got.len - 1] == '\n')
            got.ptr[--got.len] = 0;
        vl_buf_fini(text);
        *text = got;
        memset(&got, 0, sizeof(got));
    }
    unlink(path.ptr);
out:
    vl_buf_fini(&path);
    vl_buf_fini(&command);
    vl_buf_fini(&got);
    return rc;
}
