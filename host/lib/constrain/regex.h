/* host/lib/constrain/regex.h: regular expressions of JSON Schema's `pattern` (the regular part of
 * ECMA-262's, by code point) into rules for JSON strings. Lookaround, back references, \b and \p
 * are refused by name. */
#ifndef VL_CONSTRAIN_REGEX_H
#define VL_CONSTRAIN_REGEX_H

#include "host/lib/constrain/rules.h"

/* from, a JSON string with its quotes whose text has a match of pattern (anywhere, unless it says ^
 * or $) and min..max characters (max UINT32_MAX: no limit), to. VL_E_INVALID: the error says what
 * and at which byte. */
vl_status vl_regex_string(const struct vl_rules *r, uint32_t from, vl_bytes pattern, uint32_t min,
                          uint32_t max, uint32_t to, vl_error *err);
/* The pattern of a `format`, or NULL. */
const char *vl_regex_format(const char *name);

#endif
