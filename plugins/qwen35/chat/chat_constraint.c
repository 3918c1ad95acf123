/* plugins/qwen35/chat/chat_constraint.c: what a required or named call must look like, as nodes
 * that any host can compile.
 *
 * call = "<tool_call>" "\n<function=" NAME ">\n" PARAMETER* "</function>\n" "</tool_call>"; the
 * tags that are single tokens are literals of their own. Keys are limited to the schema's
 * properties, in any order, at least as many as are required. */
#include <stdlib.h>
#include <string.h>

#include "plugins/qwen35/chat/chat_prompt.h"
#include "plugins/qwen35/chat/chat_schema.h"

enum { MAX_CALLS = 128 };

/* While building, text.ptr and children hold offsets: both arrays move. */
static uint32_t add_node(vl_chat_prompt *p, int32_t kind, const char *text, size_t len)
{
    if (!vl_grow(&p->nodes, &p->nodes_cap, p->n_nodes + 1, sizeof(*p->nodes))) {
        p->failed = true;
        return 0;
    }
    p->nodes[p->n_nodes] = (vl_constraint_node){
        .kind = kind, .text = {(const char *)(uintptr_t)p->constraint_text.len, len}};
    vl_buf_append(&p->constraint_text, text, len);
    return (uint32_t)p->n_nodes++;
}

static uint32_t add_text(vl_chat_prompt *p, int32_t kind, const char *text)
{
    return add_node(p, kind, text, strlen(text));
}

static void set_children(vl_chat_prompt *p, uint32_t node, const uint32_t *children, size_t n)
{
    if (p->failed ||
        !vl_grow(&p->children, &p->children_cap, p->n_children + n, sizeof(uint32_t))) {
        p->failed = true;
        return;
    }
    p->nodes[node].children = (const uint32_t *)(uintptr_t)p->n_children;
    p->nodes[node].n_children = (uint32_t)n;
    memcpy(p->children + p->n_children, children, n * sizeof(uint32_t));
    p->n_children += n;
}

static uint32_t add_parent(vl_chat_prompt *p, int32_t kind, const uint32_t *children, size_t n)
{
    uint32_t node = add_node(p, kind, "", 0);
    set_children(p, node, children, n);
    return node;
}

static uint32_t add_repeat(vl_chat_prompt *p, uint32_t child, size_t min, size_t max)
{
    uint32_t node = add_parent(p, VL_CONSTRAINT_REPEAT, &child, 1);
    if (!p->failed) {
        p->nodes[node].min_count = (uint32_t)min;
        p->nodes[node].max_count = (uint32_t)max;
    }
    return node;
}

/* before + text + behind as one literal. */
static uint32_t add_wrapped(vl_chat_prompt *p, const char *before, vl_json text, const char *behind)
{
    vl_buf b = VL_BUF_INIT;

    vl_buf_puts(&b, before);
    if (!vl_json_str(text, &b))
        p->failed = true;
    vl_buf_puts(&b, behind);
    p->failed = p->failed || b.failed;
    uint32_t node = b.failed ? 0 : add_node(p, VL_CONSTRAINT_LITERAL, b.ptr, b.len);
    vl_buf_fini(&b);
    return node;
}

/* The values of an enum of strings, or NULL node. */
static vl_json string_enum(vl_json schema)
{
    vl_json list = vl_json_get(schema, "enum");

    for (vl_json_iter it = vl_json_each(list); vl_json_next(&it);) {
        if (!vl_json_is(it.value, VL_JSON_STRING))
            list.node = NULL;
    }
    return vl_json_count(list) > 0 && vl_json_count(list) <= 256 ? list : (vl_json){list.doc, NULL};
}

/* A value and its closer. Scalars must be JSON of their type, a string of an enum one of it; all
 * else is free text, since the parser coerces it and no schema is too odd for it. */
static uint32_t add_value(vl_chat_prompt *p, vl_json root, vl_json schema)
{
    static const char closer[] = "\n</parameter>\n";
    static const struct {
        int types;
        const char *schema;
    } scalars[] = {{VL_TYPE_INTEGER, "{\"type\":\"integer\"}"},
                   {VL_TYPE_NUMBER, "{\"type\":\"number\"}"},
                   {VL_TYPE_INTEGER | VL_TYPE_NUMBER, "{\"type\":\"number\"}"},
                   {VL_TYPE_BOOLEAN, "{\"type\":\"boolean\"}"}};
    int types = vl_schema_types(root, schema);
    vl_json list = string_enum(schema);

    if (types == VL_TYPE_STRING && list.node) {
        uint32_t choices[256];
        size_t n = 0;
        for (vl_json_iter it = vl_json_each(list); vl_json_next(&it);)
            choices[n++] = add_wrapped(p, "", it.value, closer);
        return add_parent(p, VL_CONSTRAINT_CHOICE, choices, n);
    }
    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++) {
        if (types == scalars[i].types) {
            uint32_t parts[2];
            parts[0] = add_text(p, VL_CONSTRAINT_JSON, scalars[i].schema);
            parts[1] = add_text(p, VL_CONSTRAINT_LITERAL, closer);
            return add_parent(p, VL_CONSTRAINT_SEQUENCE, parts, 2);
        }
    }
    return add_text(p, VL_CONSTRAINT_TEXT, closer);
}

/* NAME ">\n" and the parameters of one tool. */
static uint32_t add_tool(vl_chat_prompt *p, const vl_chat_tool *tool)
{
    vl_json root = tool->parameters, properties = vl_json_get(root, "properties");
    size_t n = vl_json_count(properties), n_required = 0, at = 0;
    uint32_t parts[2];

    parts[0] = add_wrapped(p, "", vl_json_get(vl_json_get(tool->tool, "function"), "name"), ">\n");
    if (n == 0)
        return parts[0];
    for (vl_json_iter it = vl_json_each(vl_json_get(root, "required")); vl_json_next(&it);) {
        vl_buf key = VL_BUF_INIT;
        if (vl_json_str(it.value, &key) &&
            vl_json_exists(vl_json_get_n(properties, key.ptr ? key.ptr : "", key.len)))
            n_required++;
        p->failed = p->failed || key.failed;
        vl_buf_fini(&key);
    }
    uint32_t *choices = NULL;
    size_t cap = 0;
    if (!vl_grow(&choices, &cap, n, sizeof(*choices))) {
        p->failed = true;
        return 0;
    }
    for (vl_json_iter it = vl_json_each(properties); vl_json_next(&it);) {
        uint32_t pair[2];
        pair[0] = add_wrapped(p, "<parameter=", it.key, ">\n");
        pair[1] = add_value(p, root, it.value);
        choices[at++] = add_parent(p, VL_CONSTRAINT_SEQUENCE, pair, 2);
    }
    uint32_t choice = add_parent(p, VL_CONSTRAINT_CHOICE, choices, n);
    free(choices);
    parts[1] = add_repeat(p, choice, n_required < n ? n_required : n, n);
    return add_parent(p, VL_CONSTRAINT_SEQUENCE, parts, 2);
}

/* Offsets become pointers, now that nothing moves any more. */
static void settle(vl_chat_prompt *p)
{
    for (size_t i = 0; i < p->n_nodes; i++) {
        vl_constraint_node *n = &p->nodes[i];
        n->text.ptr = n->text.len ? p->constraint_text.ptr + (uintptr_t)n->text.ptr : NULL;
        n->children = n->n_children ? p->children + (uintptr_t)n->children : NULL;
    }
}

bool vl_chat_constrain(const vl_chat_request *r, vl_chat_prompt *p)
{
    uint32_t *names = NULL, parts[5], calls[2], again[2];
    size_t cap = 0, n = 0;

    if (!r->tools || r->choice == VL_CHOICE_AUTO)
        return true;
    if (!vl_grow(&names, &cap, r->tools->n, sizeof(*names)))
        return false;
    add_text(p, VL_CONSTRAINT_SEQUENCE, ""); /* the root has index 0 */
    for (size_t i = 0; i < r->tools->n; i++) {
        if (r->choice != VL_CHOICE_NAMED || i == r->named)
            names[n++] = add_tool(p, &r->tools->tools[i]);
    }
    parts[0] = add_text(p, VL_CONSTRAINT_LITERAL, vl_chat_tags[VL_TAG_TOOL]);
    parts[1] = add_text(p, VL_CONSTRAINT_LITERAL, "\n<function=");
    parts[2] = add_parent(p, VL_CONSTRAINT_CHOICE, names, n);
    parts[3] = add_text(p, VL_CONSTRAINT_LITERAL, "</function>\n");
    parts[4] = add_text(p, VL_CONSTRAINT_LITERAL, vl_chat_tags[VL_TAG_TOOL_END]);
    free(names);
    calls[0] = add_parent(p, VL_CONSTRAINT_SEQUENCE, parts, 5);
    again[0] = add_text(p, VL_CONSTRAINT_LITERAL, "\n");
    again[1] = calls[0];
    uint32_t more = add_parent(p, VL_CONSTRAINT_SEQUENCE, again, 2);
    calls[1] = add_repeat(p, more, 0, r->parallel ? MAX_CALLS - 1 : 0);
    if (!p->failed)
        set_children(p, 0, calls, r->parallel ? 2 : 1);
    if (p->failed || p->constraint_text.failed)
        return false;
    settle(p);
    return true;
}
