/* plugins/loaders/gguf/open.c: finds the file, and the other parts of a split one, and maps them.
 * Paths come from what the user gave, never from metadata. */
#include "plugins/loaders/gguf/open.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "plugins/loaders/common/folder.h"
#include "plugins/loaders/gguf/checkpoint.h"

enum { PATH_CAP = 4096 };

const vl_option vl_gguf_options[VL_GGUF_N_OPTIONS] = {
    [VL_GGUF_OPT_PRE] =
        {"pre", VL_OPT_STRING, 0, NULL, 0, 0, NULL,
         "pre-tokenizer to use instead of the file's tokenizer.ggml.pre (qwen35, qwen2, ...)"},
};

/* ---- probe ---- */

/* Model files of a folder: no vision projectors, and of a split model its first part alone. */
static vl_status list_models(const char *dir, struct vl_names *out, vl_error *err)
{
    struct vl_names all = {NULL, 0, 0};
    vl_status rc = vl_names_list(dir, ".gguf", &all, err);
    for (size_t i = 0; i < all.n && rc == VL_OK; i++) {
        size_t prefix;
        unsigned number, count;
        if (strncmp(all.names[i], "mmproj", 6) == 0)
            continue;
        if (vl_name_shard(all.names[i], ".gguf", &prefix, &number, &count) && number != 1)
            continue;
        if (!vl_names_add(out, all.names[i], strlen(all.names[i])))
            rc = vl_error_set(err, VL_E_NOMEM, "%s: out of memory", vl_ck_shown(dir));
    }
    vl_names_fini(&all);
    return rc;
}

static int32_t probe_file(const char *path)
{
    char magic[4];
    bool named = vl_name_ends(path, ".gguf");
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return named ? 50 : 0;
    ssize_t n = read(fd, magic, sizeof(magic));
    close(fd);
    if (n == (ssize_t)sizeof(magic) && memcmp(magic, "GGUF", 4) == 0)
        return 100;
    return named ? 50 : 0;
}

static vl_status gguf_probe(vl_instance *self, const char *path, int32_t *score, vl_error *err)
{
    struct stat st;
    (void)self;
    (void)err;
    *score = 0;
    if (stat(path, &st) != 0)
        return VL_OK;
    if (S_ISDIR(st.st_mode)) {
        struct vl_names names = {NULL, 0, 0};
        if (list_models(path, &names, NULL) == VL_OK && names.n > 0)
            *score = 80; /* below safetensors in the same folder */
        vl_names_fini(&names);
    } else if (S_ISREG(st.st_mode)) {
        *score = probe_file(path);
    } else {
        *score = vl_name_ends(path, ".gguf") ? 50 : 0;
    }
    return VL_OK;
}

/* ---- parts ---- */

static vl_status add_part(vl_checkpoint *c, const char *path, vl_error *err)
{
    struct vl_gguf_priv *p = c->priv;
    size_t file = 0;
    vl_status rc = vl_ck_map(c, path, "gguf", &file, err);
    if (rc != VL_OK)
        return rc;
    const struct vl_ck_file *f = &c->files[file];
    return vl_gguf_set_add(&p->set, f->path, f->map.ptr, f->map.len, err);
}

static vl_status part_path(char *out, const char *path, size_t prefix, unsigned number,
                           unsigned count, vl_error *err)
{
    int n = snprintf(out, PATH_CAP, "%.*s-%05u-of-%05u.gguf", (int)prefix, path, number, count);
    return n > 0 && n < PATH_CAP
               ? VL_OK
               : vl_error_set(err, VL_E_RANGE, "%s: path too long", vl_ck_shown(path));
}

static vl_status check_part(const struct vl_gguf_set *set, size_t i,
                            const struct vl_gguf_split *first, vl_error *err)
{
    struct vl_gguf_split s;
    vl_status rc = vl_gguf_split_read(&set->files[i], &s, err);
    if (rc == VL_OK && s.number != i)
        rc = vl_error_set(err, VL_E_FORMAT, "key split.no: %llu, want %zu",
                          (unsigned long long)s.number, i);
    if (rc == VL_OK && s.count != first->count)
        rc = vl_error_set(err, VL_E_FORMAT, "key split.count: %llu, the first part says %llu",
                          (unsigned long long)s.count, (unsigned long long)first->count);
    if (rc != VL_OK)
        (void)vl_error_prefix(err, "%s", vl_ck_shown(set->paths[i]));
    return rc;
}

/* The file given is part 1 of a split model and the set's only file; its name must say what its
 * metadata say. */
static vl_status add_other_parts(vl_checkpoint *c, const char *path,
                                 const struct vl_gguf_split *first, vl_error *err)
{
    struct vl_gguf_priv *p = c->priv;
    size_t prefix;
    unsigned number, count;
    if (!vl_name_shard(path, ".gguf", &prefix, &number, &count) || count != first->count)
        return vl_error_set(err, VL_E_FORMAT,
                            "%s: key split.count: %llu, but the file's name does not end in "
                            "-00001-of-%05llu.gguf: was it renamed?",
                            vl_ck_shown(path), (unsigned long long)first->count,
                            (unsigned long long)first->count);
    vl_status rc = check_part(&p->set, 0, first, err);
    for (unsigned i = 2; i <= count && rc == VL_OK; i++) {
        char other[PATH_CAP];
        rc = part_path(other, path, prefix, i, count, err);
        if (rc == VL_OK && !vl_path_exists(other))
            rc = vl_error_set(err, VL_E_NOT_FOUND, "%s: part %u of %u is not there: %s",
                              vl_ck_shown(vl_path_base(path)), i, count, vl_ck_shown(other));
        if (rc == VL_OK)
            rc = add_part(c, other, err);
        if (rc == VL_OK)
            rc = check_part(&p->set, i - 1, first, err);
    }
    if (rc == VL_OK && first->tensors != UINT64_MAX && first->tensors != p->set.n_tensors)
        rc = vl_error_set(err, VL_E_FORMAT,
                          "%s: key split.tensors.count: %llu, but the parts have %llu tensors",
                          vl_ck_shown(path), (unsigned long long)first->tensors,
                          (unsigned long long)p->set.n_tensors);
    return rc;
}

static vl_status make_priv(vl_checkpoint *c, vl_error *err)
{
    vl_gguf_priv_free(c->priv);
    vl_ck_unmap(c); /* what the old one looked into */
    c->priv = vl_gguf_priv_create(err);
    c->priv_free = vl_gguf_priv_free;
    return c->priv != NULL ? VL_OK : VL_E_NOMEM;
}

/* From any part of a split model to the path of its first; *path is changed to out, which is
 * filled. */
static vl_status first_part(const char **path, char *out, vl_error *err)
{
    size_t prefix;
    unsigned number, count;
    if (!vl_name_shard(*path, ".gguf", &prefix, &number, &count) || number == 1)
        return VL_OK;
    vl_status rc = part_path(out, *path, prefix, 1, count, err);
    if (rc == VL_OK && !vl_path_exists(out))
        rc = vl_error_set(err, VL_E_NOT_FOUND,
                          "%s: is part %u of %u, and the first is not beside it: %s",
                          vl_ck_shown(*path), number, count, vl_path_base(out));
    if (rc == VL_OK)
        *path = out;
    return rc;
}

static vl_status map_model(vl_checkpoint *c, const char *path, vl_error *err)
{
    struct vl_gguf_priv *p = c->priv;
    struct vl_gguf_split split;
    char first[PATH_CAP];
    vl_status rc = add_part(c, path, err);
    if (rc == VL_OK) {
        rc = vl_gguf_split_read(&p->set.files[0], &split, err);
        if (rc != VL_OK)
            (void)vl_error_prefix(err, "%s", vl_ck_shown(path));
    }
    if (rc != VL_OK || split.count <= 1) /* also a file that is only named like a part */
        return rc;
    const char *start = path;
    rc = first_part(&start, first, err);
    if (rc != VL_OK)
        return rc;
    if (start != path) { /* begin again at the first part */
        rc = make_priv(c, err);
        if (rc == VL_OK)
            rc = add_part(c, start, err);
        if (rc != VL_OK)
            return rc;
        p = c->priv;
        rc = vl_gguf_split_read(&p->set.files[0], &split, err);
        if (rc != VL_OK)
            (void)vl_error_prefix(err, "%s", vl_ck_shown(start));
    }
    return rc == VL_OK ? add_other_parts(c, start, &split, err) : rc;
}

static vl_status pick(const char *dir, char *out, vl_error *err)
{
    struct vl_names names = {NULL, 0, 0};
    vl_status rc = list_models(dir, &names, err);
    if (rc == VL_OK && names.n == 0)
        rc = vl_error_set(err, VL_E_NOT_FOUND, "%s: no .gguf file with a model in it",
                          vl_ck_shown(dir));
    if (rc == VL_OK && names.n > 1)
        rc = vl_error_set(err, VL_E_INVALID, "%s: has %zu models (%.100s, %.100s%s); name the file",
                          vl_ck_shown(dir), names.n, names.names[0], names.names[1],
                          names.n > 2 ? ", ..." : "");
    if (rc == VL_OK)
        rc = vl_path_join(out, PATH_CAP, dir, names.names[0], err);
    vl_names_fini(&names);
    return rc;
}

static vl_status gguf_open(vl_instance *self, const char *path, const vl_option_values *options,
                           vl_checkpoint **out, vl_error *err)
{
    char file[PATH_CAP], note[200] = "";
    const char *pre = NULL;
    if (options != NULL && options->n_values > VL_GGUF_OPT_PRE)
        pre = options->values[VL_GGUF_OPT_PRE].text;
    if (pre != NULL && pre[0] == '\0')
        pre = NULL;
    vl_checkpoint *c = vl_ck_create("gguf", err);
    if (c == NULL)
        return VL_E_NOMEM;
    vl_status rc = make_priv(c, err);
    if (rc == VL_OK && vl_path_is_dir(path)) {
        rc = pick(path, file, err);
        path = file;
    }
    if (rc == VL_OK)
        rc = map_model(c, path, err);
    if (rc == VL_OK)
        rc = vl_gguf_build(c, pre, note, sizeof(note), err);
    if (rc != VL_OK) {
        vl_ck_close(c);
        return rc;
    }
    if (note[0] != '\0' && self != NULL && self->host != NULL)
        self->host->log(self->host->ctx, VL_LOG_INFO, "gguf", note);
    *out = c;
    return VL_OK;
}

const vl_loader_api vl_gguf_api = {VL_CK_API, .probe = gguf_probe, .open = gguf_open};
