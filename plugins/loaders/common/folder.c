/* plugins/loaders/common/folder.c: listing a folder, and the names of shards. */
#include "plugins/loaders/common/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

bool vl_name_ends(const char *name, const char *suffix)
{
    size_t n = strlen(name), s = strlen(suffix);
    return n >= s && memcmp(name + n - s, suffix, s) == 0;
}

bool vl_names_add(struct vl_names *n, const char *name, size_t len)
{
    char *copy = strndup(name, len);
    if (copy == NULL || !vl_grow(&n->names, &n->cap, n->n + 1, sizeof(*n->names))) {
        free(copy);
        return false;
    }
    n->names[n->n++] = copy;
    return true;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void vl_names_sort(struct vl_names *n)
{
    if (n->n > 1)
        qsort(n->names, n->n, sizeof(*n->names), by_bytes);
}

void vl_names_fini(struct vl_names *n)
{
    for (size_t i = 0; i < n->n; i++)
        free(n->names[i]);
    free(n->names);
    *n = (struct vl_names){NULL, 0, 0};
}

vl_status vl_names_list(const char *dir, const char *suffix, struct vl_names *out, vl_error *err)
{
    vl_status rc = VL_OK;
    DIR *d = opendir(dir);
    if (d == NULL)
        return vl_error_set(err, VL_E_IO, "%s: %s", dir, strerror(errno));
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.' || !vl_name_ends(e->d_name, suffix))
            continue;
        if (!vl_names_add(out, e->d_name, strlen(e->d_name))) {
            rc = vl_error_set(err, VL_E_NOMEM, "%s: no memory for the list of its files", dir);
            break;
        }
    }
    closedir(d);
    vl_names_sort(out);
    return rc;
}

/* Five digits, no more and no less; 0 when there is something else. */
static unsigned five_digits(const char *s)
{
    unsigned x = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9')
            return 0;
        x = x * 10 + (unsigned)(s[i] - '0');
    }
    return x;
}

bool vl_name_shard(const char *path, const char *suffix, size_t *prefix_len, unsigned *number,
                   unsigned *count)
{
    static const size_t form = sizeof("-00001-of-00003") - 1;
    size_t len = strlen(path), tail = strlen(suffix);
    if (len < form + tail || !vl_name_ends(path, suffix))
        return false;
    const char *s = path + len - tail - form;
    if (s[0] != '-' || memcmp(s + 6, "-of-", 4) != 0)
        return false;
    *number = five_digits(s + 1);
    *count = five_digits(s + 10);
    *prefix_len = len - tail - form;
    return *number > 0 && *count > 0;
}
