/* plugins/qwen35/chat/chat_schema.h: what a tool's JSON schema says about one parameter. Pure. */
#ifndef VL_QWEN35_CHAT_SCHEMA_H
#define VL_QWEN35_CHAT_SCHEMA_H

#include "base/json.h"

/* Sets of JSON types; 0: nothing is known. */
enum {
    VL_TYPE_NULL = 1,
    VL_TYPE_BOOLEAN = 2,
    VL_TYPE_INTEGER = 4,
    VL_TYPE_NUMBER = 8,
    VL_TYPE_STRING = 16,
    VL_TYPE_OBJECT = 32,
    VL_TYPE_ARRAY = 64
};

/* The schema of one property of an object schema; missing when there is none. $ref and allOf are
 * followed. root: where
 * "#/..." references begin. */
vl_json vl_schema_property(vl_json root, vl_json schema, const char *key, size_t len);
/* The types that a value may have. */
int vl_schema_types(vl_json root, vl_json schema);

#endif
