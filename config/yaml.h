/* config/yaml.h: a YAML document as a tree whose nodes know their line and column. A subset on
 * purpose: one document, maps with text keys, lists, scalars; no anchors, aliases or tags (a few
 * bytes of them can stand for gigabytes). */
#ifndef VL_CONFIG_YAML_H
#define VL_CONFIG_YAML_H

#include <stdbool.h>
#include <stdint.h>

#include "vallmo/abi.h"

enum { VL_YAML_NULL, VL_YAML_SCALAR, VL_YAML_LIST, VL_YAML_MAP };

typedef struct vl_yaml_node {
    int32_t kind;
    uint32_t line, column; /* from 1 */
    vl_bytes text;         /* scalars: UTF-8, NUL-terminated, owned by the tree */
    int32_t key;           /* members of a map: node of the key; else -1 */
    int32_t first;         /* first child, -1: none */
    int32_t next;          /* next child of the same parent, -1: none */
    int32_t n;             /* children */
} vl_yaml_node;

typedef struct vl_yaml {
    vl_yaml_node *nodes; /* owned; nodes[0] is the root (VL_YAML_NULL for an empty document) */
    size_t n, cap;
} vl_yaml;

enum { VL_YAML_MAX_BYTES = 1 << 20, VL_YAML_MAX_DEPTH = 16, VL_YAML_MAX_NODES = 16384 };

/* Parses text[0..len). On failure the place is in *line and *column (from 1; 0 when there is none).
 */
vl_status vl_yaml_parse(vl_yaml *y, const char *text, size_t len, uint32_t *line, uint32_t *column,
                        vl_error *err);
void vl_yaml_fini(vl_yaml *y); /* a zeroed tree is fine */

#endif
