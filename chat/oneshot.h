/* chat/oneshot.h: one question, one answer, no chat. */
#ifndef VL_CHAT_ONESHOT_H
#define VL_CHAT_ONESHOT_H

#include "chat/options.h"
#include "chat/settings.h"

/* Returns the exit status. url: where to ask. */
int vl_oneshot_run(const struct vl_options *o, const struct vl_settings *settings, const char *url,
                   const char *model);

#endif
