/* chat/chat.h: the interactive programs. */
#ifndef VL_CHAT_CHAT_H
#define VL_CHAT_CHAT_H

#include "chat/options.h"
#include "chat/settings.h"

/* A chat on the terminal. Returns the exit status. */
int vl_chat_run(const struct vl_options *o, struct vl_settings *settings, const char *url,
                const char *model);
/* Plays the life of the flower once. */
int vl_chat_bloom(const struct vl_options *o, const struct vl_settings *settings);

#endif
