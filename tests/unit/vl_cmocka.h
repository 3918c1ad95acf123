/* tests/unit/vl_cmocka.h: cmocka and what it wants included before it. */
#ifndef VL_TESTS_VL_CMOCKA_H
#define VL_TESTS_VL_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
