/* plugins/loaders/safetensors/open.c: finds the files that make up a checkpoint, maps them and
 * lists their tensors. Knows folders, indices and companions; what is inside a file is parse.c's.
 */
#include "plugins/loaders/safetensors/open.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "plugins/loaders/common/checkpoint.h"
#include "plugins/loaders/common/folder.h"
#include "plugins/loaders/safetensors/index.h"
#include "plugins/loaders/safetensors/parse.h"

#define ST ".safetensors"
#define ST_INDEX ".safetensors.index.json"

enum { PATH_CAP = 4096 };

static const size_t max_index = 32u << 20, max_text = 256u << 20;

/* ---- probe ---- */

static int32_t probe_folder(const char *path)
{
    struct vl_names names = {NULL, 0, 0};
    int32_t score = 1; /* any folder: if nobody else takes it, open says what is missing */
    char config[PATH_CAP];
    if (vl_names_list(path, ST, &names, NULL) == VL_OK && names.n > 0)
        score = 90;
    else if (vl_path_join(config, sizeof(config), path, "model" ST_INDEX, NULL) == VL_OK &&
             vl_path_exists(config))
        score = 90;
    else if (vl_path_join(config, sizeof(config), path, "config.json", NULL) == VL_OK &&
             vl_path_exists(config))
        score = 40;
    vl_names_fini(&names);
    return score;
}

static int32_t probe_file(const char *path)
{
    unsigned char head[9];
    bool named = vl_name_ends(path, ST) || vl_name_ends(path, ST_INDEX);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return named ? 50 : 0;
    ssize_t n = read(fd, head, sizeof(head));
    close(fd);
    /* A header of less than 4 GiB that begins as a JSON object. */
    if (n == (ssize_t)sizeof(head) && head[8] == '{' && head[4] == 0 && head[5] == 0 &&
        head[6] == 0 && head[7] == 0)
        return named ? 95 : 70;
    return named ? 50 : 0;
}

static vl_status st_probe(vl_instance *self, const char *path, int32_t *score, vl_error *err)
{
    struct stat st;
    (void)self;
    (void)err;
    if (stat(path, &st) != 0)
        *score = 0;
    else if (S_ISDIR(st.st_mode))
        *score = probe_folder(path);
    else if (S_ISREG(st.st_mode))
        *score = probe_file(path);
    else
        *score = vl_name_ends(path, ST) ? 50 : 0;
    return VL_OK;
}

/* ---- one file ---- */

static vl_status add_file(vl_checkpoint *c, const char *path, vl_error *err)
{
    size_t file = 0;
    struct vl_st_header h = {NULL, 0, 0, 0};
    vl_status rc = vl_ck_map(c, path, "safetensors", &file, err);
    if (rc != VL_OK)
        return rc;
    const vl_map *map = &c->files[file].map;
    rc = vl_st_parse(map->ptr, map->len, &h, err);
    if (rc != VL_OK) {
        (void)vl_error_prefix(err, "%s", vl_ck_shown(path));
        return rc;
    }
    for (size_t i = 0; i < h.n && rc == VL_OK; i++) {
        struct vl_st_entry *e = &h.entries[i];
        struct vl_ck_tensor *t = NULL;
        /* Old writers do not pad the header: then elements lie at odd addresses, and a copy is
         * handed out. */
        e->shape.flags = e->shape.offset % e->align == 0 ? VL_TENSOR_IN_PLACE : 0;
        rc = vl_ck_add(c, file, e->name, e->name_len, NULL, 0, &e->shape, &t, err);
    }
    vl_st_header_fini(&h);
    return rc;
}

static vl_status add_files(vl_checkpoint *c, const char *dir, const struct vl_names *files,
                           vl_error *err)
{
    vl_status rc = VL_OK;
    for (size_t i = 0; i < files->n && rc == VL_OK; i++) {
        char path[PATH_CAP];
        rc = vl_path_join(path, sizeof(path), dir, files->names[i], err);
        if (rc == VL_OK)
            rc = add_file(c, path, err);
    }
    return rc;
}

/* ---- a folder ---- */

static vl_status open_indexed(vl_checkpoint *c, const char *dir, const char *name, vl_error *err)
{
    char path[PATH_CAP];
    vl_buf text = VL_BUF_INIT;
    struct vl_st_index index;
    memset(&index, 0, sizeof(index));
    vl_status rc = vl_path_join(path, sizeof(path), dir, name, err);
    if (rc == VL_OK)
        rc = vl_file_read(path, max_index, &text, err);
    if (rc != VL_OK)
        goto out;
    rc = vl_st_index_parse((vl_bytes){text.ptr, text.len}, &index, err);
    if (rc != VL_OK) {
        (void)vl_error_prefix(err, "%s", vl_ck_shown(path));
        goto out;
    }
    rc = add_files(c, dir, &index.files, err);
    if (rc != VL_OK)
        goto out;
    rc = vl_st_index_check(&index, &vl_safetensors_api, c, err);
    if (rc != VL_OK)
        (void)vl_error_prefix(err, "%s", vl_ck_shown(path));
out:
    vl_st_index_fini(&index);
    vl_buf_fini(&text);
    return rc;
}

/* Names of the form PREFIX-00001-of-00003 tell when one of them is missing. */
static vl_status check_shards(const char *dir, const struct vl_names *files, vl_error *err)
{
    for (size_t i = 0; i < files->n; i++) {
        size_t prefix;
        unsigned number, count, want = 1;
        if (!vl_name_shard(files->names[i], ST, &prefix, &number, &count))
            continue;
        for (size_t k = 0; k < files->n; k++) {
            size_t prefix2;
            unsigned number2, count2;
            if (vl_name_shard(files->names[k], ST, &prefix2, &number2, &count2) &&
                prefix2 == prefix && count2 == count &&
                memcmp(files->names[i], files->names[k], prefix) == 0 && number2 == want)
                want++;
        }
        if (want <= count)
            return vl_error_set(err, VL_E_NOT_FOUND,
                                "%s: shard %u of %u is missing: %.*s-%05u-of-%05u" ST,
                                vl_ck_shown(dir), want, count, (int)(prefix > 100 ? 100 : prefix),
                                files->names[i], want, count);
        return VL_OK;
    }
    return VL_OK;
}

static vl_status nothing_here(const char *dir, vl_error *err)
{
    struct vl_names pickles = {NULL, 0, 0};
    vl_status rc = VL_E_NOT_FOUND;
    if (vl_names_list(dir, ".bin", &pickles, NULL) == VL_OK && pickles.n > 0)
        rc = vl_error_set(err, VL_E_UNSUPPORTED,
                          "%s: no .safetensors file, only PyTorch's %.100s, which is not "
                          "supported: convert it to safetensors",
                          vl_ck_shown(dir), pickles.names[0]);
    else
        rc = vl_error_set(err, rc,
                          "%s: no model here: the folder has neither a .safetensors nor a .gguf "
                          "file with weights",
                          vl_ck_shown(dir));
    vl_names_fini(&pickles);
    return rc;
}

static vl_status open_folder(vl_checkpoint *c, const char *dir, vl_error *err)
{
    struct vl_names files = {NULL, 0, 0}, indices = {NULL, 0, 0};
    vl_status rc = vl_names_list(dir, ST_INDEX, &indices, err);
    if (rc == VL_OK)
        rc = vl_names_list(dir, ST, &files, err);
    if (rc != VL_OK)
        goto out;
    const char *index = NULL, *whole = NULL;
    for (size_t i = 0; i < indices.n; i++)
        if (indices.n == 1 || strcmp(indices.names[i], "model" ST_INDEX) == 0)
            index = indices.names[i];
    for (size_t i = 0; i < files.n; i++)
        if (strcmp(files.names[i], "model" ST) == 0)
            whole = files.names[i];
    if (index != NULL) {
        rc = open_indexed(c, dir, index, err);
    } else if (indices.n > 1) {
        rc = vl_error_set(err, VL_E_INVALID,
                          "%s: several indices (%.80s, %.80s, ...), none of them is model" ST_INDEX,
                          vl_ck_shown(dir), indices.names[0], indices.names[1]);
    } else if (whole != NULL) { /* what lies beside it (adapters, a second copy) is not the model */
        struct vl_names one = {(char **)&whole, 1, 1};
        rc = add_files(c, dir, &one, err);
    } else if (files.n == 0) {
        rc = nothing_here(dir, err);
    } else {
        rc = check_shards(dir, &files, err);
        if (rc == VL_OK)
            rc = add_files(c, dir, &files, err);
    }
out:
    vl_names_fini(&files);
    vl_names_fini(&indices);
    return rc;
}

/* ---- companions ---- */

static vl_status read_text(const char *dir, const char *name, bool required, vl_buf *out,
                           vl_error *err)
{
    char path[PATH_CAP];
    vl_status rc = vl_path_join(path, sizeof(path), dir, name, err);
    if (rc != VL_OK)
        return rc;
    struct stat st;
    if (!required && lstat(path, &st) != 0)
        return VL_OK;
    return vl_file_read(path, max_text, out, err);
}

/* tokenizer_config.json's chat_template: a text, or a list of {name, template} of which "default"
 * counts. A file that is no JSON is left to the tokenizer, which reads it whole and says where it
 * is wrong. */
static vl_status template_of(const vl_buf *config, vl_buf *out, vl_error *err)
{
    vl_json_doc doc = {0};
    bool ok = true;
    if (config->ptr == NULL || vl_json_parse(&doc, config->ptr, config->len, 64, 0, NULL) != VL_OK)
        return VL_OK;
    vl_json v = vl_json_get(vl_json_root(&doc), "chat_template");
    if (vl_json_is(v, VL_JSON_ARRAY)) {
        vl_json found = {NULL, NULL};
        for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);)
            if (vl_json_str_eq(vl_json_get(it.value, "name"), "default"))
                found = vl_json_get(it.value, "template");
        v = found;
    }
    if (vl_json_is(v, VL_JSON_STRING))
        ok = vl_json_str(v, out);
    vl_json_doc_fini(&doc);
    return ok ? VL_OK : vl_error_set(err, VL_E_NOMEM, "chat_template: out of memory");
}

static vl_status read_texts(vl_checkpoint *c, const char *dir, vl_error *err)
{
    static const struct {
        const char *name;
        int which;
    } files[] = {
        {"generation_config.json", VL_TEXT_GENERATION_CONFIG},
        {"tokenizer.json", VL_TEXT_TOKENIZER},
        {"tokenizer_config.json", VL_TEXT_TOKENIZER_CONFIG},
        {"chat_template.jinja", VL_TEXT_CHAT_TEMPLATE},
    };
    vl_status rc = read_text(dir, "config.json", true, &c->texts[VL_TEXT_CONFIG], err);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && rc == VL_OK; i++)
        rc = read_text(dir, files[i].name, false, &c->texts[files[i].which], err);
    if (rc == VL_OK && c->texts[VL_TEXT_CHAT_TEMPLATE].ptr == NULL)
        rc =
            template_of(&c->texts[VL_TEXT_TOKENIZER_CONFIG], &c->texts[VL_TEXT_CHAT_TEMPLATE], err);
    return rc;
}

/* The folder that a file lies in, as far as its path says: "./" for a bare name. */
static vl_status folder_of(const char *path, char *out, vl_error *err)
{
    size_t n = (size_t)(vl_path_base(path) - path);
    if (n + 1 > PATH_CAP)
        return vl_error_set(err, VL_E_RANGE, "%s: a path of %zu bytes, at most %d fit",
                            vl_ck_shown(path), strlen(path), PATH_CAP - 1);
    memcpy(out, n > 0 ? path : "./", n > 0 ? n : 2);
    out[n > 0 ? n : 2] = '\0';
    return VL_OK;
}

static vl_status open_file(vl_checkpoint *c, const char *path, char *dir, vl_error *err)
{
    size_t prefix;
    unsigned number, count;
    vl_status rc = folder_of(path, dir, err);
    if (rc != VL_OK)
        return rc;
    if (vl_name_ends(path, ST_INDEX))
        return open_indexed(c, dir, vl_path_base(path), err);
    if (vl_name_shard(path, ST, &prefix, &number, &count) && count > 1)
        return vl_error_set(err, VL_E_INVALID, "%s: is shard %u of %u: pass its folder",
                            vl_ck_shown(path), number, count);
    return add_file(c, path, err);
}

static vl_status st_open(vl_instance *self, const char *path, const vl_option_values *options,
                         vl_checkpoint **out, vl_error *err)
{
    char dir[PATH_CAP];
    vl_status rc;
    (void)self;
    (void)options;
    vl_checkpoint *c = vl_ck_create("safetensors", err);
    if (c == NULL)
        return VL_E_NOMEM;
    if (vl_path_is_dir(path)) {
        rc = vl_path_join(dir, sizeof(dir), path, ".", err);
        if (rc == VL_OK) {
            dir[strlen(dir) - 1] = '\0'; /* one slash at its end, however many it had */
            rc = open_folder(c, dir, err);
        }
    } else {
        rc = open_file(c, path, dir, err);
    }
    if (rc == VL_OK && c->n_tensors == 0)
        rc = vl_error_set(err, VL_E_FORMAT, "%s: no tensor in it",
                          vl_ck_shown(c->n_files > 0 ? c->files[0].path : path));
    if (rc == VL_OK)
        rc = read_texts(c, dir, err);
    if (rc != VL_OK) {
        vl_ck_close(c);
        return rc;
    }
    *out = c;
    return VL_OK;
}

const vl_loader_api vl_safetensors_api = {VL_CK_API, .probe = st_probe, .open = st_open};
