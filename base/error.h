/* base/error.h: filling a vl_error. [any] */
#ifndef VL_BASE_ERROR_H
#define VL_BASE_ERROR_H

#include "vallmo/abi.h"

/* Sets *err (which may be NULL) to status and the formatted text, cut at a UTF-8 boundary when it
 * is too long; control bytes become '?'. Returns status, so that `return vl_error_set(...)` reads
 * well. */
vl_status vl_error_set(vl_error *err, vl_status status, const char *fmt, ...) VL_PRINTF(3, 4);

/* Puts the formatted text and ": " in front of the text that *err already has. Returns its status.
 */
vl_status vl_error_prefix(vl_error *err, const char *fmt, ...) VL_PRINTF(2, 3);

/* A short name of a status: "invalid", "format", ... Never NULL. */
const char *vl_status_name(vl_status status);

#endif
