/* chat/editor.h: a text through the user's editor. */
#ifndef VL_CHAT_EDITOR_H
#define VL_CHAT_EDITOR_H

#include "base/buf.h"

/* Replaces text by what $VISUAL, $EDITOR or vi made of it, less one line end. The terminal must be
 * in its ordinary mode. */
vl_status vl_editor_run(vl_buf *text, vl_error *err);

#endif
