/* host/lib/stop_strings.h: finding stop strings in a growing text, holding back what could become
 * one.
 *
 * Matching is on bytes. The match that is complete first wins; of several complete at the same byte
 * the longest. Knows neither tokens nor events. One thread at a time. */
#ifndef VL_LIB_STOP_STRINGS_H
#define VL_LIB_STOP_STRINGS_H

#include <stdbool.h>

#include "vallmo/abi.h"

enum { VL_STOPS_MAX = 16, VL_STOP_BYTES_MAX = 4096 };

/* The strings, with their failure tables; immutable, shared by the answers of a request. */
typedef struct vl_stop_set {
    size_t n;
    char *text[VL_STOPS_MAX];     /* owned */
    size_t len[VL_STOPS_MAX];     /* > 0 */
    uint32_t *fail[VL_STOPS_MAX]; /* owned, [len]: longest border of the prefix that ends here */
} vl_stop_set;

/* Empty strings are dropped. VL_E_INVALID: more than 16, or one longer than 4096 bytes. */
vl_status vl_stop_set_init(vl_stop_set *s, const vl_bytes *stops, size_t n, vl_error *err);
void vl_stop_set_fini(vl_stop_set *s);

/* Where a text stands: for each string how much of it is matched by the text's end. */
typedef struct vl_stop_state {
    uint32_t matched[VL_STOPS_MAX];
} vl_stop_state;

/* Reads text[0..len). Returns the index of the string that became complete, and *used = bytes read
 * up to and with its end; or -1 when none is, *used = len. */
int vl_stop_scan(const vl_stop_set *s, vl_stop_state *state, const char *text, size_t len,
                 size_t *used);
/* Bytes at the end of what was read that are the beginning of some string: not to be shown yet. */
size_t vl_stop_held(const vl_stop_set *s, const vl_stop_state *state);

#endif
