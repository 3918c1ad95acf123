/* host/lib/constrain/schema.h: a JSON schema into states of a grammar. The keywords are those that
 * the API names; any other is refused with its name and where it stands, never passed over. Knows
 * no tokens. */
#ifndef VL_CONSTRAIN_SCHEMA_H
#define VL_CONSTRAIN_SCHEMA_H

#include "base/json.h"
#include "host/lib/constrain/rules.h"

/* from, a value that matches schema, to. path names the schema in errors:
 * "response_format.json_schema.schema". References are looked up in schema itself. The document may
 * go afterwards. VL_E_INVALID: "PATH.KEYWORD: what is wrong". */
vl_status vl_schema_compile(const struct vl_rules *r, vl_json schema, const char *path,
                            uint32_t from, uint32_t to, vl_error *err);

#endif
