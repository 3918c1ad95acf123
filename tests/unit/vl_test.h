/* tests/unit/vl_test.h: what every cmocka program of ours includes. */
#ifndef VL_UNIT_TEST_H
#define VL_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
