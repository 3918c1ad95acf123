/* chat/history.c: one JSON string a line, so that an entry may have several lines. Several chats
 * may append at once. Knows no editor. */
#include "chat/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "chat/paths.h"

enum { KEEP = 2000 };

void vl_history_fini(struct vl_history *h)
{
    for (size_t i = 0; i < h->n; i++)
        free(h->entries[i]);
    free(h->entries);
    memset(h, 0, sizeof(*h));
}

static bool push(struct vl_history *h, char *text)
{
    if (!text || (h->n && strcmp(h->entries[h->n - 1], text) == 0) ||
        !vl_grow(&h->entries, &h->cap, h->n + 1, sizeof(*h->entries))) {
        free(text);
        return false;
    }
    h->entries[h->n++] = text;
    return true;
}

static void rewrite(const struct vl_history *h, const char *path)
{
    vl_buf out = VL_BUF_INIT;

    for (size_t i = 0; i < h->n; i++) {
        vl_json_put_str(&out, h->entries[i], strlen(h->entries[i]));
        vl_buf_putc(&out, '\n');
    }
    if (!out.failed) /* too long a file is no error that a user can mend */
        vl_file_replace(path, out.ptr, out.len, NULL);
    vl_buf_fini(&out);
}

vl_status vl_history_load(struct vl_history *h, vl_error *err)
{
    vl_buf path = VL_BUF_INIT, file = VL_BUF_INIT;
    vl_status rc = vl_xdg_path(VL_XDG_STATE, NULL, "history", &path, err);

    if (rc == VL_OK && vl_path_exists(path.ptr))
        rc = vl_file_read(path.ptr, (size_t)64 << 20, &file, err);
    for (size_t at = 0; rc == VL_OK && at < file.len;) {
        const char *nl = memchr(file.ptr + at, '\n', file.len - at);
        size_t n = nl ? (size_t)(nl - (file.ptr + at)) : file.len - at;
        vl_json_doc doc = {0};
        vl_buf text = VL_BUF_INIT;

        if (n && vl_json_parse(&doc, file.ptr + at, n, 2, 0, NULL) == VL_OK &&
            vl_json_str(vl_json_root(&doc), &text) && text.len && !memchr(text.ptr, 0, text.len))
            push(h, vl_buf_take(&text, NULL));
        vl_buf_fini(&text);
        vl_json_doc_fini(&doc);
        at += n + 1;
    }
    if (h->n > KEEP) {
        for (size_t i = 0; i < h->n - KEEP; i++)
            free(h->entries[i]);
        memmove(h->entries, h->entries + (h->n - KEEP), KEEP * sizeof(*h->entries));
        h->n = KEEP;
        rewrite(h, path.ptr);
    }
    vl_buf_fini(&file);
    vl_buf_fini(&path);
    return rc;
}

vl_status vl_history_add(struct vl_history *h, const char *text, size_t len, vl_error *err)
{
    vl_buf path = VL_BUF_INIT, line = VL_BUF_INIT;
    vl_status rc = VL_OK;
    int fd = -1;

    if (len == 0 || memchr(text, 0, len) || !push(h, strndup(text, len)))
        return VL_OK;
    rc = vl_xdg_path(VL_XDG_STATE, NULL, "history", &path, err);
    if (rc == VL_OK)
        rc = vl_path_make_parent(path.ptr, err);
    if (rc != VL_OK)
        goto out;
    vl_json_put_str(&line, text, len);
    vl_buf_putc(&line, '\n');
    fd = open(path.ptr, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || line.failed || write(fd, line.ptr, line.len) != (ssize_t)line.len)
        rc = vl_error_set(err, VL_E_IO, "%s: %s", path.ptr, strerror(errno));
out:
    if (fd >= 0)
        close(fd);
    vl_buf_fini(&line);
    vl_buf_fini(&path);
    return rc;
}

long vl_history_find(const struct vl_history *h, long before, const char *text, size_t len,
                     bool anywhere)
{
    for (long i = before - 1; i >= 0; i--) {
        const char *e = h->entries[i];

        if (len == 0 ||
            (anywhere ? memmem(e, strlen(e), text, len) != NULL : strncmp(e, text, len) == 0))
            return i;
    }
    return -1;
}
