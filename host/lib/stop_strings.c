/* host/lib/stop_strings.c: Knuth, Morris and Pratt's automaton, one a string; there are at most 16.
 */
#include "host/lib/stop_strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

vl_status vl_stop_set_init(vl_stop_set *s, const vl_bytes *stops, size_t n, vl_error *err)
{
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < n; i++) {
        size_t len = stops[i].len;
        if (len == 0)
            continue;
        if (s->n == VL_STOPS_MAX || len > VL_STOP_BYTES_MAX) {
            vl_stop_set_fini(s);
            return len > VL_STOP_BYTES_MAX
                       ? vl_error_set(err, VL_E_INVALID,
                                      "stop: string %zu has %zu bytes, at most %d", i, len,
                                      VL_STOP_BYTES_MAX)
                       : vl_error_set(err, VL_E_INVALID, "stop: %zu strings, at most %d", n,
                                      VL_STOPS_MAX);
        }
        char *text = malloc(len);
        uint32_t *fail = calloc(len, sizeof *fail);
        if (text == NULL || fail == NULL) {
            free(text);
            free(fail);
            vl_stop_set_fini(s);
            return vl_error_set(err, VL_E_NOMEM, "stop: out of memory");
        }
        memcpy(text, stops[i].ptr, len);
        for (size_t at = 1, border = 0; at < len; at++) {
            while (border > 0 && text[at] != text[border])
                border = fail[border - 1];
            border += text[at] == text[border];
            fail[at] = (uint32_t)border;
        }
        s->text[s->n] = text;
        s->fail[s->n] = fail;
        s->len[s->n++] = len;
    }
    return VL_OK;
}

void vl_stop_set_fini(vl_stop_set *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->text[i]);
        free(s->fail[i]);
    }
    memset(s, 0, sizeof *s);
}

int vl_stop_scan(const vl_stop_set *s, vl_stop_state *state, const char *text, size_t len,
                 size_t *used)
{
    for (size_t at = 0; at < len; at++) {
        int found = -1;
        for (size_t i = 0; i < s->n; i++) {
            uint32_t m = state->matched[i];
            while (m > 0 && (m == s->len[i] || s->text[i][m] != text[at]))
                m = s->fail[i][m - 1];
            m += s->text[i][m] == text[at];
            state->matched[i] = m;
            if (m == s->len[i] && (found < 0 || s->len[i] > s->len[found]))
                found = (int)i;
        }
        if (found >= 0) {
            *used = at + 1;
            return found;
        }
    }
    *used = len;
    return -1;
}

size_t vl_stop_held(const vl_stop_set *s, const vl_stop_state *state)
{
    size_t held = 0;

    for (size_t i = 0; i < s->n; i++) {
        if (state->matched[i] < s->len[i] && state->matched[i] > held)
            held = state->matched[i];
    }
    return held;
}
