/* plugins/qwen35/chat/chat_tools.c: the tools of a request and the choice among them. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "plugins/qwen35/chat/chat_request.h"

enum { MAX_NAME_CHARS = 64 };

vl_chat_tools *vl_chat_tools_ref(vl_chat_tools *t)
{
    if (t)
        __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
    return t;
}

void vl_chat_tools_unref(vl_chat_tools *t)
{
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    vl_json_doc_fini(&t->doc);
    vl_buf_fini(&t->text);
    vl_buf_fini(&t->names);
    free(t->tools);
    free(t);
}

const vl_chat_tool *vl_chat_tools_find(const vl_chat_tools *t, const char *name, size_t len)
{
    for (size_t i = 0; t && i < t->n; i++) {
        vl_slice s = t->tools[i].name;
        if (s.len == len && memcmp(t->names.ptr + s.at, name, len) == 0)
            return &t->tools[i];
    }
    return NULL;
}

/* A name stands between "<function=" and ">" and is trimmed and unquoted there. */
static bool good_name(const char *s, size_t len)
{
    size_t chars = 0;

    for (size_t i = 0; i < len; chars++) {
        uint32_t cp;
        int n = vl_utf8_next(s + i, len - i, &cp);
        if (n == 0 || cp < 0x20 || cp == 0x7f || vl_chat_is_space(cp) ||
            (cp < 0x80 && strchr("<>\"'", (int)cp)))
            return false;
        i += (size_t)n;
    }
    return chars > 0 && chars <= MAX_NAME_CHARS;
}

/* Checks tools[i], given as a whole entry or (functions[i]) as the bare function. */
static vl_status check_entry(vl_json entry, const char *list, uint32_t i, const vl_chat_fault *f)
{
    vl_json function = entry;
    const char *inner = "";

    if (!vl_json_is(entry, VL_JSON_OBJECT))
        return vl_chat_fail(vl_chat_at(f, "%s[%u]", list, i), "%s[%u] must be an object, not %s",
                            list, i, vl_chat_kind(entry));
    if (strcmp(list, "tools") == 0) {
        vl_json type = vl_json_get(entry, "type");
        vl_bytes raw = vl_json_raw(type);
        if (!vl_json_str_eq(type, "function"))
            return vl_chat_fail(
                vl_chat_at(f, "tools[%u].type", i), "tools[%u].type is %.*s, want \"function\"", i,
                raw.ptr ? (int)(raw.len > 60 ? 60 : raw.len) : 7, raw.ptr ? raw.ptr : "missing");
        function = vl_json_get(entry, "function");
        inner = ".function";
        if (!vl_json_is(function, VL_JSON_OBJECT))
            return vl_chat_fail(vl_chat_at(f, "tools[%u].function", i),
                                "tools[%u].function must be an object, it is %s", i,
                                vl_chat_kind(function));
    }
    vl_json name = vl_json_get(function, "name");
    vl_buf text = VL_BUF_INIT;
    bool good = vl_json_str(name, &text) && good_name(text.ptr, text.len);
    bool no_memory = text.failed;
    vl_buf_fini(&text);
    if (no_memory)
        return vl_chat_no_memory(f);
    if (!good) {
        vl_bytes raw = vl_json_raw(name);
        return vl_chat_fail(vl_chat_at(f, "%s[%u]%s.name", list, i, inner),
                            "%s[%u]%s.name is %.*s, want 1 to %d characters without white space, "
                            "quotes, < and >",
                            list, i, inner, raw.ptr ? (int)(raw.len > 80 ? 80 : raw.len) : 7,
                            raw.ptr ? raw.ptr : "missing", MAX_NAME_CHARS);
    }
    vl_json parameters = vl_json_get(function, "parameters");
    if (!vl_json_is_null(parameters) && !vl_json_is(parameters, VL_JSON_OBJECT))
        return vl_chat_fail(vl_chat_at(f, "%s[%u]%s.parameters", list, i, inner),
                            "%s[%u]%s.parameters must be an object, not %s", list, i, inner,
                            vl_chat_kind(parameters));
    return VL_OK;
}

/* Makes t->doc and the table from t->text, whose entries are checked already. */
static vl_status index_tools(vl_chat_tools *t, const vl_chat_fault *f)
{
    vl_status rc = vl_json_parse(&t->doc, t->text.ptr, t->text.len, UINT16_MAX, 0, f->err);

    if (rc != VL_OK)
        return rc;
    vl_json root = vl_json_root(&t->doc);
    t->tools = calloc(vl_json_count(root) + 1, sizeof(*t->tools));
    if (!t->tools)
        return vl_chat_no_memory(f);
    for (vl_json_iter it = vl_json_each(root); vl_json_next(&it);) {
        vl_chat_tool *tool = &t->tools[t->n];
        vl_json function = vl_json_get(it.value, "function");
        tool->tool = it.value;
        tool->parameters = vl_json_get(function, "parameters");
        tool->name.at = t->names.len;
        if (!vl_json_str(vl_json_get(function, "name"), &t->names))
            return vl_chat_no_memory(f);
        tool->name.len = t->names.len - tool->name.at;
        t->n++;
    }
    return VL_OK;
}

/* 1 if `allowed` (a list of {"name"} or {"function": {"name"}}) has this name, 0 if not, -1 out of
 * memory. NULL node: all are. */
static int is_allowed(vl_json allowed, vl_json name_of_tool)
{
    vl_buf name = VL_BUF_INIT;
    int found = !vl_json_exists(allowed);

    if (!found && vl_json_str(name_of_tool, &name)) {
        vl_buf_putc(&name, '\0');
        for (vl_json_iter it = vl_json_each(allowed);
             !name.failed && !found && vl_json_next(&it);) {
            vl_json n = vl_json_get(vl_json_get(it.value, "function"), "name");
            if (!vl_json_exists(n))
                n = vl_json_get(it.value, "name");
            found = vl_json_str_eq(n, name.ptr);
        }
    }
    if (name.failed)
        found = -1;
    vl_buf_fini(&name);
    return found;
}

/* The tool that a JSON string names, or NULL. False: out of memory. */
static bool find_tool(const vl_chat_tools *t, vl_json name, const vl_chat_tool **out)
{
    vl_buf text = VL_BUF_INIT;

    *out = vl_json_str(name, &text) ? vl_chat_tools_find(t, text.ptr, text.len) : NULL;
    bool ok = !text.failed;
    vl_buf_fini(&text);
    return ok;
}

static vl_status make_tools(vl_json list, const char *list_name, vl_json allowed,
                            vl_chat_tools **out, const vl_chat_fault *f)
{
    bool bare = strcmp(list_name, "functions") == 0;
    vl_status rc = VL_OK;
    vl_chat_tools *t = calloc(1, sizeof(*t));

    if (!t)
        return vl_chat_no_memory(f);
    t->refs = 1;
    vl_buf_putc(&t->text, '[');
    for (vl_json_iter it = vl_json_each(list); rc == VL_OK && vl_json_next(&it);) {
        rc = check_entry(it.value, list_name, it.index, f);
        vl_json function = bare ? it.value : vl_json_get(it.value, "function");
        int wanted = rc == VL_OK ? is_allowed(allowed, vl_json_get(function, "name")) : 0;
        if (wanted < 0)
            rc = vl_chat_no_memory(f);
        if (wanted <= 0)
            continue;
        vl_bytes raw = vl_json_raw(it.value);
        if (t->text.len > 1)
            vl_buf_putc(&t->text, ',');
        if (bare)
            vl_buf_puts(&t->text, "{\"type\":\"function\",\"function\":");
        vl_buf_append(&t->text, raw.ptr, raw.len);
        if (bare)
            vl_buf_putc(&t->text, '}');
    }
    vl_buf_putc(&t->text, ']');
    if (rc == VL_OK)
        rc = t->text.failed ? vl_chat_no_memory(f) : index_tools(t, f);
    if (rc == VL_OK)
        *out = t;
    else
        vl_chat_tools_unref(t);
    return rc;
}

/* ---- tool_choice ---- */

struct choice {
    const char *field; /* "tool_choice" or "function_call" */
    enum { ABSENT, AUTO, NONE, REQUIRED, NAMED } kind;
    vl_json name;    /* of NAMED */
    vl_json allowed; /* list of allowed tools, or missing */
};

static vl_status read_mode(vl_json v, struct choice *c, const char *path, const vl_chat_fault *f)
{
    if (vl_json_str_eq(v, "auto")) {
        c->kind = AUTO;
    } else if (vl_json_str_eq(v, "required")) {
        c->kind = REQUIRED;
    } else if (vl_json_str_eq(v, "none")) {
        c->kind = NONE;
    } else {
        vl_bytes raw = vl_json_raw(v);
        return vl_chat_fail(
            vl_chat_at(f, "%s", path), "%s is %.*s, want auto, none, required or a tool", path,
            raw.ptr ? (int)(raw.len > 80 ? 80 : raw.len) : 7, raw.ptr ? raw.ptr : "missing");
    }
    return VL_OK;
}

static vl_status read_choice(vl_json root, struct choice *c, const vl_chat_fault *f)
{
    vl_json v = vl_json_get(root, "tool_choice");

    *c = (struct choice){.field = "tool_choice", .kind = ABSENT};
    if (vl_json_is_null(v)) {
        v = vl_json_get(root, "function_call");
        c->field = "function_call";
    }
    if (vl_json_is_null(v))
        return VL_OK;
    if (!vl_json_is(v, VL_JSON_OBJECT))
        return read_mode(v, c, c->field, f);
    vl_json type = vl_json_get(v, "type");
    if (vl_json_str_eq(type, "allowed_tools")) {
        vl_json a = vl_json_get(v, "allowed_tools");
        a = vl_json_is(a, VL_JSON_OBJECT) ? a : v;
        c->allowed = vl_json_get(a, "tools");
        if (!vl_json_is(c->allowed, VL_JSON_ARRAY))
            return vl_chat_fail(vl_chat_at(f, "tool_choice.allowed_tools.tools"),
                                "tool_choice.allowed_tools.tools must be a list, it is %s",
                                vl_chat_kind(c->allowed));
        return read_mode(vl_json_get(a, "mode"), c, "tool_choice.allowed_tools.mode", f);
    }
    if (vl_json_exists(type) && !vl_json_str_eq(type, "function"))
        return vl_chat_fail(vl_chat_at(f, "%s.type", c->field),
                            "%s.type must be \"function\" or \"allowed_tools\"", c->field);
    c->name = vl_json_get(vl_json_get(v, "function"), "name");
    if (!vl_json_exists(c->name))
        c->name = vl_json_get(v, "name");
    if (!vl_json_is(c->name, VL_JSON_STRING))
        return vl_chat_fail(vl_chat_at(f, "%s.function.name", c->field),
                            "%s.function.name must be a string, it is %s", c->field,
                            vl_chat_kind(c->name));
    c->kind = NAMED;
    return VL_OK;
}

/* Every allowed tool must be one of the tools. */
static vl_status check_allowed(const struct choice *c, const vl_chat_tools *tools,
                               const vl_chat_fault *f)
{
    for (vl_json_iter it = vl_json_each(c->allowed); vl_json_next(&it);) {
        vl_json n = vl_json_get(vl_json_get(it.value, "function"), "name");
        const vl_chat_tool *known;
        if (!vl_json_exists(n))
            n = vl_json_get(it.value, "name");
        if (!find_tool(tools, n, &known))
            return vl_chat_no_memory(f);
        if (!known) {
            vl_bytes raw = vl_json_raw(it.value);
            return vl_chat_fail(
                vl_chat_at(f, "tool_choice.allowed_tools.tools[%u]", it.index),
                "tool_choice.allowed_tools.tools[%u] is %.*s, which is none of the tools", it.index,
                (int)(raw.len > 100 ? 100 : raw.len), raw.ptr);
        }
    }
    return VL_OK;
}

static vl_status apply_choice(const struct choice *c, vl_chat_request *r, const vl_chat_fault *f)
{
    bool none = !r->tools || r->tools->n == 0;

    if ((c->kind == REQUIRED || c->kind == NAMED) && none)
        return vl_chat_fail(vl_chat_at(f, "%s", c->field),
                            "%s asks for a call, but there are no tools", c->field);
    if (c->kind == NAMED) {
        const vl_chat_tool *t;
        if (!find_tool(r->tools, c->name, &t))
            return vl_chat_no_memory(f);
        if (!t) {
            vl_bytes raw = vl_json_raw(c->name);
            return vl_chat_fail(vl_chat_at(f, "%s", c->field),
                                "%s names %.*s, which is none of the tools", c->field,
                                (int)(raw.len > 100 ? 100 : raw.len), raw.ptr);
        }
        r->choice = VL_CHOICE_NAMED;
        r->named = (size_t)(t - r->tools->tools);
    } else if (c->kind == REQUIRED) {
        r->choice = VL_CHOICE_REQUIRED;
    }
    /* Without tools in the prompt nothing can leak into the answer. */
    if (c->kind == NONE || none) {
        vl_chat_tools_unref(r->tools);
        r->tools = NULL;
    }
    return VL_OK;
}

vl_status vl_chat_tools_read(vl_json root, vl_chat_request *r, const vl_chat_fault *f)
{
    struct choice choice;
    const char *list_name = "tools";
    vl_json list = vl_json_get(root, "tools");
    int parallel = 1;

    vl_status rc = vl_chat_bool_read(vl_json_get(root, "parallel_tool_calls"),
                                     "parallel_tool_calls", &parallel, f);
    r->parallel = parallel != 0;
    if (rc == VL_OK)
        rc = read_choice(root, &choice, f);
    if (rc != VL_OK)
        return rc;
    if (vl_json_is_null(list) || (vl_json_is(list, VL_JSON_ARRAY) && vl_json_count(list) == 0)) {
        vl_json functions = vl_json_get(root, "functions");
        if (!vl_json_is_null(functions)) {
            list = functions;
            list_name = "functions";
        }
    }
    if (!vl_json_is_null(list) && !vl_json_is(list, VL_JSON_ARRAY))
        return vl_chat_fail(vl_chat_at(f, "%s", list_name), "%s must be a list, not %s", list_name,
                            vl_chat_kind(list));
    if (vl_json_count(list) > 0) {
        vl_json all = {NULL, NULL};
        rc = make_tools(list, list_name, all, &r->tools, f);
        if (rc == VL_OK && vl_json_exists(choice.allowed)) {
            rc = check_allowed(&choice, r->tools, f);
            vl_chat_tools_unref(r->tools);
            r->tools = NULL;
            if (rc == VL_OK)
                rc = make_tools(list, list_name, choice.allowed, &r->tools, f);
        }
    }
    return rc == VL_OK ? apply_choice(&choice, r, f) : rc;
}
