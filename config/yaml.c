/* config/yaml.c: libyaml's events to the tree of yaml.h. Knows no option. Fuzzed. */
#include "config/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/buf.h"
#include "base/error.h"

struct frame {
    int32_t node; /* the open list or map */
    int32_t last; /* its last child, -1: none yet */
    int32_t key;  /* maps: the key that waits for its value, -1: a key comes next */
};

struct reader {
    vl_yaml *y;
    struct frame stack[VL_YAML_MAX_DEPTH];
    int depth;
    uint32_t line, column; /* of the event at hand */
};

static vl_status refuse(const struct reader *r, vl_error *err, vl_status status, const char *what)
{
    (void)r;
    return vl_error_set(err, status, "%s", what);
}

static int32_t new_node(struct reader *r, int32_t kind, vl_error *err)
{
    vl_yaml *y = r->y;
    if (y->n >= VL_YAML_MAX_NODES) {
        vl_error_set(err, VL_E_RANGE, "more than %d values", VL_YAML_MAX_NODES);
        return -1;
    }
    if (!vl_grow(&y->nodes, &y->cap, y->n + 1, sizeof *y->nodes)) {
        vl_error_set(err, VL_E_NOMEM, "out of memory");
        return -1;
    }
    y->nodes[y->n] = (vl_yaml_node){
        .kind = kind, .line = r->line, .column = r->column, .key = -1, .first = -1, .next = -1};
    return (int32_t)y->n++;
}

static bool key_is_there(const struct reader *r, const struct frame *f, vl_bytes key)
{
    const vl_yaml_node *nodes = r->y->nodes;
    for (int32_t c = nodes[f->node].first; c >= 0; c = nodes[c].next) {
        vl_bytes k = nodes[nodes[c].key].text;
        if (k.len == key.len && memcmp(k.ptr, key.ptr, k.len) == 0)
            return true;
    }
    return false;
}

/* Hangs a finished or opened node into the frame on top. */
static vl_status attach(struct reader *r, int32_t node, vl_error *err)
{
    vl_yaml_node *nodes = r->y->nodes;
    if (r->depth == 0)
        return VL_OK; /* the root */
    struct frame *f = &r->stack[r->depth - 1];
    if (nodes[f->node].kind == VL_YAML_MAP && f->key < 0) {
        if (nodes[node].kind != VL_YAML_SCALAR)
            return refuse(r, err, VL_E_FORMAT, "a key must be text");
        if (key_is_there(r, f, nodes[node].text))
            return vl_error_set(err, VL_E_FORMAT, "the key '%s' is there twice",
                                nodes[node].text.ptr);
        f->key = node;
        return VL_OK;
    }
    nodes[node].key = f->key;
    f->key = -1;
    if (f->last < 0)
        nodes[f->node].first = node;
    else
        nodes[f->last].next = node;
    f->last = node;
    nodes[f->node].n++;
    return VL_OK;
}

static vl_status on_scalar(struct reader *r, const yaml_event_t *e, vl_error *err)
{
    const char *text = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;
    bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    bool is_key = r->depth && r->y->nodes[r->stack[r->depth - 1].node].kind == VL_YAML_MAP &&
                  r->stack[r->depth - 1].key < 0;
    bool null =
        plain && !is_key && (len == 0 || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0);
    if (e->data.scalar.anchor ||
        (e->data.scalar.tag && !e->data.scalar.quoted_implicit && !e->data.scalar.plain_implicit))
        return refuse(r, err, VL_E_UNSUPPORTED, "anchors, aliases and tags are not taken");
    int32_t node = new_node(r, null ? VL_YAML_NULL : VL_YAML_SCALAR, err);
    if (node < 0)
        return err ? err->status : VL_E_NOMEM;
    char *copy = malloc(len + 1);
    if (!copy)
        return refuse(r, err, VL_E_NOMEM, "out of memory");
    memcpy(copy, text, len);
    copy[len] = 0;
    r->y->nodes[node].text = (vl_bytes){copy, len};
    if (memchr(copy, 0, len))
        return refuse(r, err, VL_E_FORMAT, "a NUL byte in a text");
    return attach(r, node, err);
}

static vl_status on_open(struct reader *r, int32_t kind, bool marked, vl_error *err)
{
    if (marked)
        return refuse(r, err, VL_E_UNSUPPORTED, "anchors, aliases and tags are not taken");
    if (r->depth >= VL_YAML_MAX_DEPTH)
        return vl_error_set(err, VL_E_RANGE, "nested deeper than %d levels", VL_YAML_MAX_DEPTH);
    int32_t node = new_node(r, kind, err);
    if (node < 0)
        return err ? err->status : VL_E_NOMEM;
    vl_status rc = attach(r, node, err);
    if (rc == VL_OK)
        r->stack[r->depth++] = (struct frame){node, -1, -1};
    return rc;
}

static vl_status on_event(struct reader *r, const yaml_event_t *e, int *n_documents, vl_error *err)
{
    r->line = (uint32_t)e->start_mark.line + 1;
    r->column = (uint32_t)e->start_mark.column + 1;
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++*n_documents > 1)
            return refuse(r, err, VL_E_FORMAT, "a second document; one is wanted");
        return VL_OK;
    case YAML_ALIAS_EVENT:
        return refuse(r, err, VL_E_UNSUPPORTED, "anchors, aliases and tags are not taken");
    case YAML_SCALAR_EVENT:
        return on_scalar(r, e, err);
    case YAML_SEQUENCE_START_EVENT:
        return on_open(r, VL_YAML_LIST, e->data.sequence_start.anchor || e->data.sequence_start.tag,
                       err);
    case YAML_MAPPING_START_EVENT:
        return on_open(r, VL_YAML_MAP, e->data.mapping_start.anchor || e->data.mapping_start.tag,
                       err);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        return VL_OK;
    default:
        return VL_OK;
    }
}

static vl_status parser_error(const yaml_parser_t *p, struct reader *r, vl_error *err)
{
    if (p->error == YAML_MEMORY_ERROR)
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    r->line = (uint32_t)p->problem_mark.line + 1;
    r->column = (uint32_t)p->problem_mark.column + 1;
    return vl_error_set(err, VL_E_FORMAT, "not YAML: %s",
                        p->problem ? p->problem : "unknown problem");
}

vl_status vl_yaml_parse(vl_yaml *y, const char *text, size_t len, uint32_t *line, uint32_t *column,
                        vl_error *err)
{
    yaml_parser_t parser;
    struct reader r = {.y = y};
    vl_status rc = VL_OK;
    vl_error local;
    bool end = false;
    int n_documents = 0;
    *y = (vl_yaml){NULL, 0, 0};
    *line = *column = 0;
    if (!err)
        err = &local; /* new_node reports through it */
    if (len > VL_YAML_MAX_BYTES)
        return vl_error_set(err, VL_E_RANGE, "%zu bytes, at most %d are read", len,
                            VL_YAML_MAX_BYTES);
    if (!yaml_parser_initialize(&parser))
        return vl_error_set(err, VL_E_NOMEM, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    while (rc == VL_OK && !end) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            rc = parser_error(&parser, &r, err);
            break;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        rc = on_event(&r, &event, &n_documents, err);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (rc == VL_OK && y->n == 0) {
        r.line = r.column = 1;
        if (new_node(&r, VL_YAML_NULL, err) < 0)
            rc = err->status;
    }
    if (rc != VL_OK) {
        *line = r.line;
        *column = r.column;
        vl_yaml_fini(y);
    }
    return rc;
}

void vl_yaml_fini(vl_yaml *y)
{
    for (size_t i = 0; i < y->n; i++)
        free((char *)(uintptr_t)y->nodes[i].text.ptr);
    free(y->nodes);
    *y = (vl_yaml){NULL, 0, 0};
}
