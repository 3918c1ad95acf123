/* plugins/qwen35/chat/chat_schema.c: properties and types of a JSON schema, through local
 * references and combinations. */
#include "plugins/qwen35/chat/chat_schema.h"

#include <string.h>

#include "plugins/qwen35/chat/chat_text.h"

/* References may form a ring, and combinations may nest: bounds on the depth and on all steps of
 * one question, so that a hostile schema costs nothing. */
enum { MAX_DEPTH = 16, MAX_STEPS = 4096 };

struct walk {
    vl_json root;
    int steps;
};

/* Follows "#/a/b" from the root; "~1" is '/', "~0" is '~'. */
static vl_json resolve(vl_json root, vl_json ref)
{
    vl_json none = {root.doc, NULL}, at = root;
    vl_buf path = VL_BUF_INIT, key = VL_BUF_INIT;

    if (!vl_json_str(ref, &path) || path.len == 0 || path.ptr[0] != '#')
        at = none;
    for (size_t i = 1; at.node && i < path.len;) {
        vl_buf_clear(&key);
        if (path.ptr[i++] != '/') {
            at = none;
            break;
        }
        for (; i < path.len && path.ptr[i] != '/'; i++) {
            bool tilde = path.ptr[i] == '~' && i + 1 < path.len;
            char c = path.ptr[i];
            if (tilde)
                c = path.ptr[++i] == '1' ? '/' : '~';
            vl_buf_putc(&key, c);
        }
        at = key.failed ? none : vl_json_get_n(at, key.ptr ? key.ptr : "", key.len);
    }
    vl_buf_fini(&path);
    vl_buf_fini(&key);
    return at;
}

static vl_json deref(struct walk *w, vl_json schema)
{
    for (int i = 0; i < MAX_DEPTH && w->steps > 0; i++) {
        vl_json ref = vl_json_get(schema, "$ref");
        if (!vl_json_is(ref, VL_JSON_STRING))
            return schema;
        w->steps--;
        schema = resolve(w->root, ref);
    }
    return (vl_json){schema.doc, NULL};
}

static vl_json property(struct walk *w, vl_json schema, const char *key, size_t len, int depth)
{
    schema = deref(w, schema);
    vl_json found = vl_json_get_n(vl_json_get(schema, "properties"), key, len);

    if (found.node || depth >= MAX_DEPTH || w->steps-- <= 0)
        return found;
    for (vl_json_iter it = vl_json_each(vl_json_get(schema, "allOf")); vl_json_next(&it);) {
        found = property(w, it.value, key, len, depth + 1);
        if (found.node)
            break;
    }
    return found;
}

vl_json vl_schema_property(vl_json root, vl_json schema, const char *key, size_t len)
{
    struct walk w = {root, MAX_STEPS};
    return property(&w, schema, key, len, 0);
}

static int type_named(vl_json name)
{
    static const char *const names[] = {"null",   "boolean", "integer", "number",
                                        "string", "object",  "array"};
    for (int i = 0; i < 7; i++) {
        if (vl_json_str_eq(name, names[i]))
            return 1 << i;
    }
    return 0;
}

static int type_of_value(vl_json v)
{
    int64_t whole;

    if (!v.node)
        return 0;
    switch (v.node->type) {
    case VL_JSON_NULL:
        return VL_TYPE_NULL;
    case VL_JSON_FALSE:
    case VL_JSON_TRUE:
        return VL_TYPE_BOOLEAN;
    case VL_JSON_NUMBER:
        return vl_json_i64(v, &whole) ? VL_TYPE_INTEGER : VL_TYPE_NUMBER;
    case VL_JSON_STRING:
        return VL_TYPE_STRING;
    case VL_JSON_ARRAY:
        return VL_TYPE_ARRAY;
    default:
        return VL_TYPE_OBJECT;
    }
}

/* Types that both sets allow; a number may be an integer. A set that says nothing does not
 * restrict. */
static int both(int a, int b)
{
    if (a == 0 || b == 0)
        return a | b;
    int common = a & b;
    if ((a & VL_TYPE_NUMBER && b & VL_TYPE_INTEGER) || (b & VL_TYPE_NUMBER && a & VL_TYPE_INTEGER))
        common |= VL_TYPE_INTEGER;
    return common;
}

static int types(struct walk *w, vl_json schema, int depth)
{
    int set = 0;

    schema = deref(w, schema);
    if (!vl_json_is(schema, VL_JSON_OBJECT) || depth >= MAX_DEPTH || w->steps-- <= 0)
        return 0;
    vl_json type = vl_json_get(schema, "type");
    if (vl_json_is(type, VL_JSON_ARRAY)) {
        for (vl_json_iter it = vl_json_each(type); vl_json_next(&it);)
            set |= type_named(it.value);
    } else {
        set = type_named(type);
    }
    if (set == 0) {
        static const char *const unions[] = {"anyOf", "oneOf"};
        for (int i = 0; i < 2; i++) {
            for (vl_json_iter it = vl_json_each(vl_json_get(schema, unions[i])); vl_json_next(&it);)
                set |= types(w, it.value, depth + 1);
        }
    }
    if (set == 0) {
        for (vl_json_iter it = vl_json_each(vl_json_get(schema, "enum")); vl_json_next(&it);)
            set |= type_of_value(it.value);
        set |= type_of_value(vl_json_get(schema, "const"));
    }
    for (vl_json_iter it = vl_json_each(vl_json_get(schema, "allOf")); vl_json_next(&it);)
        set = both(set, types(w, it.value, depth + 1));
    if (set && vl_json_is(vl_json_get(schema, "nullable"), VL_JSON_TRUE))
        set |= VL_TYPE_NULL;
    return set;
}

int vl_schema_types(vl_json root, vl_json schema)
{
    struct walk w = {root, MAX_STEPS};
    return types(&w, schema, 0);
}
