/* chat/signals.h: signals as bytes in a pipe that the loop polls. */
#ifndef VL_CHAT_SIGNALS_H
#define VL_CHAT_SIGNALS_H

#include <stdbool.h>

/* Catches INT, TERM, HUP (and, for a chat, WINCH, CONT, TSTP); ignores PIPE. */
bool vl_signals_init(bool chat);
int vl_signals_fd(void);
/* The next signal that came, 0 when there is none. */
int vl_signals_take(void);

#endif
