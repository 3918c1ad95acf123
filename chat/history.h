/* chat/history.h: what was sent before, kept below XDG_STATE_HOME/poppy. */
#ifndef VL_CHAT_HISTORY_H
#define VL_CHAT_HISTORY_H

#include "base/buf.h"
#include "vallmo/abi.h"

struct vl_history {
    char **entries; /* owned; the newest last */
    size_t n, cap;
};

void vl_history_fini(struct vl_history *h);
/* A file that is not there is no error. */
vl_status vl_history_load(struct vl_history *h, vl_error *err);
/* Adds a text, unless it is the newest already, and writes it to the file. */
vl_status vl_history_add(struct vl_history *h, const char *text, size_t len, vl_error *err);
/* The newest entry before index `before` that begins with (or contains) text; -1 if none. */
long vl_history_find(const struct vl_history *h, long before, const char *text, size_t len,
                     bool anywhere);

#endif
