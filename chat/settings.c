/* chat/settings.c: the settings file, JSON with one member for each thing that was changed. Knows
 * no terminal. */
#include "chat/settings.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "chat/paths.h"

const char *const vl_param_names[] = {"temperature",
                                      "top_p",
                                      "top_k",
                                      "min_p",
                                      "seed",
                                      "presence_penalty",
                                      "stop",
                                      "frequency_penalty",
                                      "reasoning_effort",
                                      "repetition_penalty",
                                      "min_tokens",
                                      "thinking_token_budget",
                                      NULL};

void vl_settings_init(struct vl_settings *s)
{
    memset(s, 0, sizeof(*s));
    s->fade = VL_FADE_DEFAULT;
    s->thinking = -1;
}

void vl_settings_fini(struct vl_settings *s)
{
    vl_buf_fini(&s->url);
    vl_buf_fini(&s->model);
    vl_buf_fini(&s->theme);
    for (size_t i = 0; i < s->n_params; i++)
        vl_buf_fini(&s->params[i].value);
    vl_settings_init(s);
}

static const char *known_param(const char *name)
{
    for (size_t i = 0; vl_param_names[i]; i++)
        if (strcmp(vl_param_names[i], name) == 0)
            return vl_param_names[i];
    return NULL;
}

vl_status vl_settings_param(struct vl_settings *s, const char *name, const char *value,
                            vl_error *err)
{
    const char *known = known_param(name);
    vl_json_doc doc = {0};
    vl_buf json = VL_BUF_INIT;
    bool is_json, is_number;
    size_t at;

    if (!known)
        return vl_error_set(err, VL_E_NOT_FOUND, "no parameter %s", name);
    for (at = 0; at < s->n_params && s->params[at].name != known; at++)
        ;
    if (!*value) {
        if (at < s->n_params) {
            vl_buf_fini(&s->params[at].value);
            s->params[at] = s->params[--s->n_params];
        }
        return VL_OK;
    }
    /* What is no JSON is a string, where one may stand: /set reasoning_effort low */
    is_json = vl_json_parse(&doc, value, strlen(value), 8, 0, NULL) == VL_OK;
    is_number = is_json && vl_json_is(vl_json_root(&doc), VL_JSON_NUMBER);
    vl_json_doc_fini(&doc);
    if (!is_number && strcmp(known, "stop") != 0 && strcmp(known, "reasoning_effort") != 0)
        return vl_error_set(err, VL_E_INVALID, "%s: '%s', want a number", known, value);
    if (is_json)
        vl_buf_puts(&json, value);
    else
        vl_json_put_str(&json, value, strlen(value));
    if (json.failed)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    if (at == s->n_params) {
        memset(&s->params[at], 0, sizeof(s->params[at]));
        s->n_params++; /* there are fewer names than places */
    }
    vl_buf_fini(&s->params[at].value);
    s->params[at].name = known;
    s->params[at].value = json;
    return VL_OK;
}

static void read_all(struct vl_settings *s, vl_json root)
{
    int64_t n;
    bool b;
    vl_json params = vl_json_get(root, "set");

    vl_json_str(vl_json_get(root, "url"), &s->url);
    vl_json_str(vl_json_get(root, "model"), &s->model);
    vl_json_str(vl_json_get(root, "theme"), &s->theme);
    if (vl_json_i64(vl_json_get(root, "fade"), &n) && n >= 0 && n <= 100)
        s->fade = (int)n;
    vl_json_bool(vl_json_get(root, "show_thinking"), &s->show_thinking);
    vl_json_bool(vl_json_get(root, "mouse"), &s->mouse);
    if (vl_json_bool(vl_json_get(root, "thinking"), &b))
        s->thinking = b;
    if (vl_json_i64(vl_json_get(root, "max_tokens"), &n) && n > 0)
        s->max_tokens = n;
    for (vl_json_iter it = vl_json_each(params);
         vl_json_is(params, VL_JSON_OBJECT) && vl_json_next(&it);) {
        char name[64];
        vl_buf value = VL_BUF_INIT;
        vl_bytes raw = vl_json_raw(it.value);

        vl_buf_append(&value, raw.ptr, raw.len);
        if (vl_json_str_copy(it.key, name, sizeof(name)) && !value.failed)
            vl_settings_param(s, name, value.ptr, NULL);
        vl_buf_fini(&value);
    }
}

vl_status vl_settings_load(struct vl_settings *s, vl_error *err)
{
    vl_buf path = VL_BUF_INIT, file = VL_BUF_INIT;
    vl_json_doc doc = {0};
    vl_status rc = vl_xdg_path(VL_XDG_CONFIG, NULL, "settings.json", &path, err);

    if (rc != VL_OK || !vl_path_exists(path.ptr))
        goto out;
    rc = vl_file_read(path.ptr, (size_t)1 << 20, &file, err);
    if (rc != VL_OK)
        goto out;
    rc = vl_json_parse(&doc, file.ptr ? file.ptr : "", file.len, 16, 0, err);
    if (rc == VL_OK)
        read_all(s, vl_json_root(&doc));
    else
        vl_error_prefix(err, "%s", path.ptr);
out:
    vl_json_doc_fini(&doc);
    vl_buf_fini(&file);
    vl_buf_fini(&path);
    return rc;
}

static void key(vl_buf *out, const char *name)
{
    vl_buf_printf(out, "%s  \"%s\": ", out->len > 1 ? ",\n" : "\n", name);
}

static void put_text(vl_buf *out, const char *name, const vl_buf *text)
{
    if (!text->len)
        return;
    key(out, name);
    vl_json_put_str(out, text->ptr, text->len);
}

vl_status vl_settings_save(const struct vl_settings *s, vl_error *err)
{
    vl_buf path = VL_BUF_INIT, out = VL_BUF_INIT;
    vl_status rc = vl_xdg_path(VL_XDG_CONFIG, NULL, "settings.json", &path, err);

    if (rc != VL_OK)
        goto out;
    vl_buf_putc(&out, '{');
    put_text(&out, "url", &s->url);
    put_text(&out, "model", &s->model);
    put_text(&out, "theme", &s->theme);
    if (s->fade != VL_FADE_DEFAULT) {
        key(&out, "fade");
        vl_json_put_i64(&out, s->fade);
    }
    if (s->show_thinking) {
        key(&out, "show_thinking");
        vl_buf_puts(&out, "true");
    }
    if (s->thinking >= 0) {
        key(&out, "thinking");
        vl_buf_puts(&out, s->thinking ? "true" : "false");
    }
    if (s->max_tokens > 0) {
        key(&out, "max_tokens");
        vl_json_put_i64(&out, s->max_tokens);
    }
    if (s->mouse) {
        key(&out, "mouse");
        vl_buf_puts(&out, "true");
    }
    for (size_t i = 0; i < s->n_params; i++) {
        if (i == 0) {
            key(&out, "set");
            vl_buf_putc(&out, '{');
        }
        vl_buf_printf(&out, "%s\"%s\": %s", i ? ", " : "", s->params[i].name,
                      s->params[i].value.ptr);
    }
    vl_buf_puts(&out, s->n_params ? "}\n}\n" : "\n}\n");
    rc = out.failed ? vl_error_set(err, VL_E_NOMEM, "out of memory")
                    : vl_file_replace(path.ptr, out.ptr, out.len, err);
out:
    vl_buf_fini(&out);
    vl_buf_fini(&path);
    return rc;
}
