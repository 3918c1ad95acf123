/* host/lib/registry_check.h: does a plugin's table fit this host? Reads tables, calls nothing but
 * get_ext. Pure. */
#ifndef VL_LIB_REGISTRY_CHECK_H
#define VL_LIB_REGISTRY_CHECK_H

#include "host/lib/registry.h"

/* Checks the head and every table of a known interface, and fills e's tables. The error has no
 * path: the caller knows it. */
vl_status vl_registry_check(const vl_plugin *p, vl_registry_entry *e, vl_error *err);

#endif
