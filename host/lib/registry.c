/* host/lib/registry.c: scanning folders, dlopen, the list of plugins and their instances.
 * Entries are allocated one by one, so that borrowed pointers stay valid while more are added. */
#include "host/lib/registry.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "host/lib/log.h"
#include "host/lib/registry_check.h"

/* The public view comes first: an entry's address is its slot's. */
struct slot {
    vl_registry_entry e;
    void *library;     /* dlopen's handle; kept open once init was good, and while it has not run */
    vl_instance *self; /* after init */
    bool started;
    char *path;    /* owned; e.path */
    char *refusal; /* owned; e.refusal */
};

struct vl_registry {
    struct slot **slots;
    size_t n, cap;
    char **dirs; /* owned: folders that were scanned */
    size_t n_dirs, dirs_cap;
};

/* OpenMP's threads wait for work by spinning, by default for milliseconds: a model's steps take
 * many times longer when another process wants the processors. So that they give way after some
 * tens of microseconds, longer than a pause inside a step, unless the user chose otherwise. GNU's
 * runtime reads this when the first plugin that uses it is loaded, so here, before any, is the one
 * place; in a program that has loaded that runtime already it does nothing. */
static void bound_spinning(void)
{
    if (getenv("OMP_WAIT_POLICY") == NULL)
        (void)setenv("GOMP_SPINCOUNT", "1000", 0);
}

vl_status vl_registry_create(vl_registry **out, vl_error *err)
{
    vl_registry *r = calloc(1, sizeof *r);

    if (r == NULL)
        return vl_error_set(err, VL_E_NOMEM, "registry: out of memory");
    bound_spinning();
    *out = r;
    return VL_OK;
}

void vl_registry_destroy(vl_registry *r)
{
    if (r == NULL)
        return;
    for (size_t i = r->n; i-- > 0;) {
        struct slot *s = r->slots[i];
        /* Libraries stay mapped: threads of a started one may still be on their way out, and what a
         * library brings along (OpenMP's runtime) may hold memory that only its own data reach. */
        if (s->started)
            s->e.plugin->fini(s->self);
        free(s->path);
        free(s->refusal);
        free(s);
    }
    for (size_t i = 0; i < r->n_dirs; i++)
        free(r->dirs[i]);
    free(r->dirs);
    free(r->slots);
    free(r);
}

static void refuse(struct slot *s, const vl_error *why)
{
    memset(&s->e, 0, sizeof s->e);
    s->e.path = s->path;
    s->e.kind = "";
    free(s->refusal);
    s->refusal = strdup(why->text);
    s->e.refusal = s->refusal != NULL ? s->refusal : "refused (out of memory)";
    if (s->library != NULL)
        dlclose(s->library);
    s->library = NULL;
    vl_log(VL_LOG_WARN, "registry", "plugin refused: %s", why->text);
}

/* Whoever may write the file or its folder could run code in this process. */
static vl_status check_owner(const char *path, bool is_dir, vl_error *err)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return vl_error_set(err, errno == ENOENT ? VL_E_NOT_FOUND : VL_E_IO, "%s: %s", path,
                            strerror(errno));
    if (is_dir != S_ISDIR(st.st_mode) || (!is_dir && !S_ISREG(st.st_mode)))
        return vl_error_set(err, VL_E_INVALID, "%s: not a %s", path,
                            is_dir ? "folder" : "regular file");
    if ((st.st_mode & S_IWOTH) != 0)
        return vl_error_set(err, VL_E_INVALID,
                            "%s: anybody may write to this %s (mode %04o, want no o+w)", path,
                            is_dir ? "folder" : "file", (unsigned)(st.st_mode & 07777));
    return VL_OK;
}

static vl_status open_library(struct slot *s, vl_error *err)
{
    s->library = dlopen(s->path, RTLD_NOW | RTLD_LOCAL);
    if (s->library == NULL) {
        const char *why = dlerror();
        /* dlerror names the path first; say it once. */
        size_t n = strlen(s->path);
        if (why != NULL && strncmp(why, s->path, n) == 0 && why[n] == ':')
            why += n + 1 + (why[n + 1] == ' ');
        return vl_error_set(err, VL_E_FORMAT, "%s: not a loadable library: %s", s->path,
                            why != NULL ? why : "unknown");
    }
    vl_plugin_entry_fn entry;
    void *symbol = dlsym(s->library, VL_PLUGIN_ENTRY);
    if (symbol == NULL)
        return vl_error_set(err, VL_E_ABI, "%s: no symbol %s, want a plugin's entry", s->path,
                            VL_PLUGIN_ENTRY);
    memcpy(&entry, &symbol, sizeof entry);
    s->e.plugin = entry();
    if (s->e.plugin == NULL)
        return vl_error_set(err, VL_E_ABI, "%s: %s returned NULL, want a table", s->path,
                            VL_PLUGIN_ENTRY);
    return VL_OK;
}

static vl_status load_slot(vl_registry *r, struct slot *s, vl_error *err)
{
    char dir[PATH_MAX];
    vl_status rc;

    snprintf(dir, sizeof dir, "%s", s->path);
    char *slash = strrchr(dir, '/');
    slash[slash == dir] = '\0';
    rc = check_owner(s->path, false, err);
    if (rc == VL_OK)
        rc = check_owner(dir, true, err);
    if (rc != VL_OK)
        return rc;
    rc = open_library(s, err);
    if (rc != VL_OK)
        return rc;
    rc = vl_registry_check(s->e.plugin, &s->e, err);
    if (rc != VL_OK) {
        vl_error_prefix(err, "%s", s->path);
        return rc;
    }
    const vl_registry_entry *twin = vl_registry_find(r, s->e.plugin->id);
    if (twin != NULL)
        return vl_error_set(err, VL_E_INVALID, "%s: plugin id \"%s\" is taken by %s", s->path,
                            s->e.plugin->id, twin->path);
    return VL_OK;
}

/* Adds the file at `path` (absolute). *err is set when the plugin is refused; VL_OK also then,
 * unless memory is out. */
static vl_status add_file(vl_registry *r, const char *path, bool *refused, vl_error *err)
{
    char real[PATH_MAX];
    vl_error why = {0};

    *refused = false;
    if (realpath(path, real) == NULL) /* a dangling link: show it as it stands */
        snprintf(real, sizeof real, "%s", path);
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->slots[i]->path, real) == 0)
            return VL_OK; /* looked at before, perhaps through another link */
    }
    struct slot *s = calloc(1, sizeof *s);
    if (s == NULL || (s->path = strdup(real)) == NULL ||
        !vl_grow(&r->slots, &r->cap, r->n + 1, sizeof *r->slots)) {
        if (s != NULL)
            free(s->path);
        free(s);
        return vl_error_set(err, VL_E_NOMEM, "%s: out of memory", path);
    }
    s->e.path = s->path;
    s->e.kind = "";
    if (load_slot(r, s, &why) != VL_OK) {
        refuse(s, &why);
        *refused = true;
        if (err != NULL)
            *err = why;
    } else {
        vl_log(VL_LOG_DEBUG, "registry", "found id=%s kind=%s version=%s path=%s", s->e.plugin->id,
               s->e.kind, s->e.plugin->version, s->path);
    }
    r->slots[r->n++] = s;
    return VL_OK;
}

vl_status vl_registry_load(vl_registry *r, const char *path, vl_error *err)
{
    bool refused;

    if (path[0] != '/')
        return vl_error_set(err, VL_E_INVALID, "plugin %s: the path is not absolute", path);
    vl_error why = {0};
    vl_status rc = add_file(r, path, &refused, &why);
    if ((rc != VL_OK || refused) && err != NULL)
        *err = why;
    return rc != VL_OK ? rc : refused ? why.status : VL_OK;
}

static int is_library(const struct dirent *d)
{
    size_t len = strlen(d->d_name);

    return len > 3 && d->d_name[0] != '.' && strcmp(d->d_name + len - 3, ".so") == 0;
}

static bool seen(const vl_registry *r, const char *dir)
{
    for (size_t i = 0; i < r->n_dirs; i++) {
        if (strcmp(r->dirs[i], dir) == 0)
            return true;
    }
    return false;
}

vl_status vl_registry_scan(vl_registry *r, const char *dir, vl_error *err)
{
    struct dirent **list = NULL;
    char real[PATH_MAX], path[PATH_MAX];
    vl_status rc;
    int n = 0;

    if (dir[0] != '/')
        return vl_error_set(err, VL_E_INVALID, "plugin folder %s: the path is not absolute", dir);
    if (realpath(dir, real) == NULL)
        return vl_error_set(err, errno == ENOENT ? VL_E_NOT_FOUND : VL_E_IO, "plugin folder %s: %s",
                            dir, strerror(errno));
    if (seen(r, real))
        return VL_OK;
    rc = check_owner(real, true, err);
    if (rc != VL_OK) {
        vl_error_prefix(err, "plugin folder");
        return rc;
    }
    n = scandir(real, &list, is_library, alphasort);
    if (n < 0)
        return vl_error_set(err, VL_E_IO, "plugin folder %s: %s", real, strerror(errno));
    if (!vl_grow(&r->dirs, &r->dirs_cap, r->n_dirs + 1, sizeof *r->dirs) ||
        (r->dirs[r->n_dirs] = strdup(real)) == NULL) {
        rc = vl_error_set(err, VL_E_NOMEM, "plugin folder %s: out of memory", real);
        goto out;
    }
    r->n_dirs++;
    for (int i = 0; i < n && rc == VL_OK; i++) {
        bool refused;
        rc = vl_path_join(path, sizeof path, real, list[i]->d_name, err);
        if (rc == VL_OK) {
            vl_error why = {0};
            rc = add_file(r, path, &refused, &why);
            if (rc != VL_OK && err != NULL)
                *err = why;
        }
    }
out:
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
    return rc;
}

size_t vl_registry_count(const vl_registry *r)
{
    return r->n;
}

const vl_registry_entry *vl_registry_at(const vl_registry *r, size_t index)
{
    return index < r->n ? &r->slots[index]->e : NULL;
}

const vl_registry_entry *vl_registry_find(const vl_registry *r, const char *id)
{
    for (size_t i = 0; i < r->n; i++) {
        const vl_registry_entry *e = &r->slots[i]->e;
        if (e->plugin != NULL && strcmp(e->plugin->id, id) == 0)
            return e;
    }
    return NULL;
}

vl_status vl_registry_start(vl_registry *r, const vl_registry_entry *e, vl_instance **self,
                            vl_error *err)
{
    struct slot *s = NULL;
    vl_error why = {0};

    for (size_t i = 0; i < r->n && s == NULL; i++) {
        if (&r->slots[i]->e == e)
            s = r->slots[i];
    }
    if (s == NULL)
        return vl_error_set(err, VL_E_INVALID, "plugin entry of another registry");
    if (s->e.refusal != NULL)
        return vl_error_set(err, VL_E_STATE, "%s", s->e.refusal);
    if (!s->started) {
        vl_status rc = s->e.plugin->init(vl_host_table(), &s->self, &why);
        if (rc != VL_OK) {
            char text[sizeof why.text];
            snprintf(text, sizeof text, "%s", why.text);
            vl_error_set(&why, rc, "%s: init failed: %s", s->path,
                         text[0] != '\0' ? text : vl_status_name(rc));
            refuse(s, &why);
            if (err != NULL)
                *err = why;
            return rc;
        }
        s->started = true;
    }
    *self = s->self;
    return VL_OK;
}

void vl_registry_print(const vl_registry *r, vl_buf *out)
{
    vl_buf_printf(out, "%-10s %-14s %-10s %-6s %s\n", "KIND", "ID", "VERSION", "ABI", "PATH");
    for (size_t i = 0; i < r->n; i++) {
        const vl_registry_entry *e = &r->slots[i]->e;
        char abi[24];
        if (e->plugin == NULL)
            continue;
        snprintf(abi, sizeof abi, "%u.%u", VL_ABI_MAJOR_OF(e->plugin->abi_version),
                 VL_ABI_MINOR_OF(e->plugin->abi_version));
        vl_buf_printf(out, "%-10s %-14s %-10s %-6s %s\n", e->kind, e->plugin->id,
                      e->plugin->version, abi, e->path);
    }
    for (size_t i = 0; i < r->n; i++) {
        if (r->slots[i]->e.refusal != NULL)
            vl_buf_printf(out, "refused    %s\n", r->slots[i]->e.refusal);
    }
}

/* ---- where plugins are when nobody says ---- */

/* Folder of the library or program that this code is part of. */
static bool own_folder(char *out, size_t cap, bool *in_program)
{
    char path[PATH_MAX], real[PATH_MAX];
    Dl_info info;
    static const char here;

    *in_program = true;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (dladdr(&here, &info) != 0 && info.dli_fname != NULL &&
        strstr(info.dli_fname, ".so") != NULL && realpath(info.dli_fname, real) != NULL) {
        snprintf(path, sizeof path, "%s", real);
        *in_program = false;
    }
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    slash[slash == path] = '\0';
    int len = snprintf(out, cap, "%s", path);
    return len >= 0 && (size_t)len < cap;
}

size_t vl_registry_default_dirs(const char **dirs, size_t cap)
{
    static char beside[PATH_MAX + 64];
    char own[PATH_MAX];
    bool in_program;
    size_t n = 0;

    if (own_folder(own, sizeof own, &in_program)) {
        /* From the build tree its plugins alone: installed ones may be of another version. */
        bool built = strcmp(own, VL_BINARY_DIR) == 0 ||
                     strncmp(own, VL_BINARY_DIR "/host/", sizeof VL_BINARY_DIR "/host/" - 1) == 0;
        if (built && vl_path_is_dir(VL_PLUGIN_BUILD_DIR)) {
            if (n < cap)
                dirs[n++] = VL_PLUGIN_BUILD_DIR;
            return n;
        }
        if (in_program)
            snprintf(beside, sizeof beside, "%s/../%s/vallmo/plugins", own, VL_LIBDIR);
        else
            snprintf(beside, sizeof beside, "%s/vallmo/plugins", own);
        if (n < cap && vl_path_is_dir(beside))
            dirs[n++] = beside;
    }
    if (n < cap && vl_path_is_dir(VL_PLUGIN_DIR))
        dirs[n++] = VL_PLUGIN_DIR;
    return n;
}
