/* chat/session_file.c: dialogues as JSON files below XDG_DATA_HOME/poppy/chats:
 *   {"version":1,"system":"...","messages":[{"role":"user","content":"...","failed":true}, ...]}
 * A message may have "thinking", "tool_calls" and "failed". Knows no terminal. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "chat/paths.h"
#include "chat/session.h"

static const size_t FILE_MAX = (size_t)256 << 20;

static vl_status file_of(const char *name, vl_buf *path, vl_error *err)
{
    vl_buf file = VL_BUF_INIT;
    vl_status rc;

    if (!*name || *name == '.' || strlen(name) > 200 || strchr(name, '/'))
        return vl_error_set(err, VL_E_INVALID,
                            "'%s' can't be a name: 1 to 200 bytes, no slash, no dot in front",
                            name);
    for (const char *p = name; *p; p++)
        if (iscntrl((unsigned char)*p))
            return vl_error_set(err, VL_E_INVALID, "a name can't hold control bytes");
    vl_buf_printf(&file, "%s.json", name);
    rc = file.failed ? vl_error_set(err, VL_E_NOMEM, "out of memory")
                     : vl_xdg_path(VL_XDG_DATA, "chats", file.ptr, path, err);
    vl_buf_fini(&file);
    return rc;
}

static void put_field(vl_buf *out, const char *key, const vl_buf *text)
{
    vl_buf_printf(out, "\"%s\":", key);
    vl_json_put_str(out, text->len ? text->ptr : "", text->len);
}

static void put_item(const struct vl_item *item, vl_buf *out)
{
    vl_buf_printf(out, "  {\"role\":\"%s\",", item->kind == VL_ITEM_USER ? "user" : "assistant");
    put_field(out, "content", &item->text);
    if (item->thinking.len) {
        vl_buf_putc(out, ',');
        put_field(out, "thinking", &item->thinking);
        vl_buf_puts(out, ",\"thinking_s\":");
        vl_json_put_f64(out, item->thinking_s);
    }
    if (item->n_tools)
        vl_buf_puts(out, ",\"tool_calls\":[");
    for (size_t i = 0; i < item->n_tools; i++) {
        vl_buf_puts(out, i ? ",{" : "{");
        put_field(out, "name", &item->tools[i].name);
        vl_buf_putc(out, ',');
        put_field(out, "arguments", &item->tools[i].args);
        vl_buf_putc(out, '}');
    }
    if (item->n_tools)
        vl_buf_putc(out, ']');
    if (item->failed)
        vl_buf_puts(out, ",\"failed\":true");
    vl_buf_putc(out, '}');
}

static void auto_name(struct vl_session *s)
{
    time_t now = time(NULL);
    struct tm tm;
    char text[32];

    localtime_r(&now, &tm);
    strftime(text, sizeof(text), "%Y-%m-%d-%H%M%S", &tm);
    vl_buf_clear(&s->name);
    vl_buf_printf(&s->name, "%s-%ld", text, (long)getpid());
}

vl_status vl_session_save(struct vl_session *s, vl_error *err)
{
    vl_buf out = VL_BUF_INIT, path = VL_BUF_INIT;
    vl_status rc;
    bool first = true;

    if (!vl_session_has_turn(s) && !s->named) { /* what was taken back must not come again */
        if (s->name.len && file_of(s->name.ptr, &path, NULL) == VL_OK)
            unlink(path.ptr);
        vl_buf_fini(&path);
        return VL_OK;
    }
    if (!s->name.len)
        auto_name(s);
    rc = s->name.failed ? vl_error_set(err, VL_E_NOMEM, "out of memory")
                        : file_of(s->name.ptr, &path, err);
    if (rc != VL_OK)
        goto out;
    vl_buf_puts(&out, "{\"version\":1,");
    put_field(&out, "system", &s->system);
    vl_buf_puts(&out, ",\"messages\":[\n");
    for (size_t i = 0; i < s->n_items; i++) {
        if (s->items[i]->kind > VL_ITEM_ASSISTANT)
            continue;
        if (!first)
            vl_buf_puts(&out, ",\n");
        first = false;
        put_item(s->items[i], &out);
    }
    vl_buf_puts(&out, "\n]}\n");
    rc = out.failed ? vl_error_set(err, VL_E_NOMEM, "out of memory")
                    : vl_file_replace(path.ptr, out.ptr, out.len, err);
out:
    vl_buf_fini(&out);
    vl_buf_fini(&path);
    return rc;
}

vl_status vl_session_rename(struct vl_session *s, const char *name, vl_error *err)
{
    vl_buf path = VL_BUF_INIT, old = VL_BUF_INIT;
    vl_status rc = file_of(name, &path, err);

    if (rc != VL_OK)
        goto out;
    if (!vl_session_has_turn(s)) {
        rc = vl_error_set(err, VL_E_STATE, "there is nothing to save yet");
        goto out;
    }
    if (!s->name.len || strcmp(s->name.ptr, name) != 0) {
        if (vl_path_exists(path.ptr)) {
            rc = vl_error_set(err, VL_E_INVALID, "there is another chat named %s already", name);
            goto out;
        }
        if (!s->named && s->name.len)
            file_of(s->name.ptr, &old, NULL);
    }
    vl_buf_clear(&s->name);
    vl_buf_puts(&s->name, name);
    s->named = true;
    rc = vl_session_save(s, err);
    if (rc == VL_OK && old.len)
        unlink(old.ptr);
out:
    vl_buf_fini(&path);
    vl_buf_fini(&old);
    return rc;
}

static vl_status read_message(struct vl_session *s, vl_json m, vl_error *err)
{
    vl_buf text = VL_BUF_INIT;
    vl_json calls = vl_json_get(m, "tool_calls");
    bool user = vl_json_str_eq(vl_json_get(m, "role"), "user");
    struct vl_item *item = NULL;
    vl_status rc = VL_OK;

    if (!user && !vl_json_str_eq(vl_json_get(m, "role"), "assistant"))
        return vl_error_set(err, VL_E_FORMAT, "a message has neither role user nor assistant");
    if (!vl_json_str(vl_json_get(m, "content"), &text)) {
        rc = vl_error_set(err, VL_E_FORMAT, "content of a message is %s, want a string",
                          vl_json_type_name(vl_json_get(m, "content")));
        goto out;
    }
    item = vl_session_add(s, user ? VL_ITEM_USER : VL_ITEM_ASSISTANT, text.ptr, text.len);
    if (!item) {
        rc = vl_error_set(err, VL_E_NOMEM, "out of memory");
        goto out;
    }
    vl_json_bool(vl_json_get(m, "failed"), &item->failed);
    vl_json_f64(vl_json_get(m, "thinking_s"), &item->thinking_s);
    vl_buf_clear(&text);
    if (vl_json_str(vl_json_get(m, "thinking"), &text))
        vl_item_put_thinking(item, text.ptr, text.len);
    for (vl_json_iter it = vl_json_each(calls);
         vl_json_is(calls, VL_JSON_ARRAY) && vl_json_next(&it);) {
        struct vl_tool_call *t = vl_item_tool(item, it.index);

        if (t) {
            vl_json_str(vl_json_get(it.value, "name"), &t->name);
            vl_json_str(vl_json_get(it.value, "arguments"), &t->args);
        }
    }
    vl_item_close(item);
out:
    vl_buf_fini(&text);
    return rc;
}

vl_status vl_session_load(struct vl_session *s, const char *name, vl_error *err)
{
    vl_buf path = VL_BUF_INIT, file = VL_BUF_INIT;
    struct vl_session fresh;
    vl_json_doc doc = {0};
    vl_json root, messages;
    vl_status rc;

    vl_session_init(&fresh);
    rc = file_of(name, &path, err);
    if (rc == VL_OK)
        rc = vl_file_read(path.ptr, FILE_MAX, &file, err);
    if (rc != VL_OK)
        goto out;
    rc = vl_json_parse(&doc, file.ptr ? file.ptr : "", file.len, 64, 0, err);
    root = vl_json_root(&doc);
    messages = vl_json_get(root, "messages");
    if (rc == VL_OK && !vl_json_is(messages, VL_JSON_ARRAY))
        rc = vl_error_set(err, VL_E_FORMAT, "messages is %s, want an array",
                          vl_json_type_name(messages));
    for (vl_json_iter it = vl_json_each(messages); rc == VL_OK && vl_json_next(&it);)
        rc = read_message(&fresh, it.value, err);
    if (rc != VL_OK) {
        vl_error_prefix(err, "%s", path.ptr);
        goto out;
    }
    vl_json_str(vl_json_get(root, "system"), &fresh.system);
    vl_buf_puts(&fresh.name, name);
    fresh.named = true;
    vl_session_fini(s);
    *s = fresh;
    vl_session_init(&fresh);
out:
    vl_session_fini(&fresh);
    vl_json_doc_fini(&doc);
    vl_buf_fini(&file);
    vl_buf_fini(&path);
    return rc;
}

struct entry {
    char *name;
    struct timespec at;
};

static int newest_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->at.tv_sec != y->at.tv_sec)
        return x->at.tv_sec < y->at.tv_sec ? 1 : -1;
    return (x->at.tv_nsec < y->at.tv_nsec) - (x->at.tv_nsec > y->at.tv_nsec);
}

void vl_names_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

vl_status vl_session_names(char ***names, size_t *n, vl_error *err)
{
    vl_buf dir = VL_BUF_INIT;
    struct entry *list = NULL;
    size_t cap = 0, count = 0;
    vl_status rc = vl_xdg_path(VL_XDG_DATA, "chats", NULL, &dir, err);
    DIR *d = rc == VL_OK ? opendir(dir.ptr) : NULL;

    *names = NULL;
    *n = 0;
    if (rc == VL_OK && !d && errno != ENOENT)
        rc = vl_error_set(err, VL_E_IO, "%s: %s", dir.ptr, strerror(errno));
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        struct stat st;

        if (e->d_name[0] == '.' || len < 6 || strcmp(e->d_name + len - 5, ".json") != 0 ||
            fstatat(dirfd(d), e->d_name, &st, 0) != 0 || !S_ISREG(st.st_mode) ||
            !vl_grow(&list, &cap, count + 1, sizeof(*list)))
            continue;
        list[count].name = strndup(e->d_name, len - 5);
        list[count].at = st.st_mtim;
        count += list[count].name != NULL;
    }
    if (count)
        qsort(list, count, sizeof(*list), newest_first);
    *names = calloc(count + 1, sizeof(**names));
    for (size_t i = 0; i < count; i++) {
        if (*names)
            (*names)[i] = list[i].name;
        else
            free(list[i].name);
    }
    if (rc == VL_OK && !*names)
        rc = vl_error_set(err, VL_E_NOMEM, "out of memory");
    *n = *names ? count : 0;
    free(list);
    if (d)
        closedir(d);
    vl_buf_fini(&dir);
    return rc;
}

vl_status vl_session_continue(struct vl_session *s, vl_error *err)
{
    char **names;
    size_t n;
    vl_status rc = vl_session_names(&names, &n, err);
    struct vl_session got;

    if (rc != VL_OK)
        return rc;
    vl_session_init(&got);
    rc = vl_error_set(err, VL_E_NOT_FOUND, "there is no saved chat to go on with");
    for (size_t i = 0; i < n; i++) {
        if (vl_session_load(&got, names[i], NULL) != VL_OK || !vl_session_has_turn(&got))
            continue;
        vl_session_fini(s);
        *s = got;
        vl_session_init(&got);
        rc = VL_OK;
        break;
    }
    vl_session_fini(&got);
    vl_names_free(names, n);
    return rc;
}
