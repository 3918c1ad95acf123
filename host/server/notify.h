/* host/server/notify.h: words to the service manager over the socket that NOTIFY_SOCKET names
 * (systemd's protocol, which is a datagram of lines). Without that variable nothing is sent. */
#ifndef VL_SERVER_NOTIFY_H
#define VL_SERVER_NOTIFY_H

#include "host/server/app.h"

/* "READY=1\nSTATUS=..." ; false: there was nobody, or it was not taken. [any] */
bool notify_send(const char *lines);
/* As printf, cut at 500 bytes. [any] */
void notify_printf(const char *fmt, ...) VL_PRINTF(1, 2);
/* Microseconds between the signs of life that are asked of this process; 0: none. [any] */
uint64_t notify_watchdog_us(void);

/* Whether the engines still go on: asked at intervals. [loop] */
struct progress {
    uint64_t steps[64]; /* of each model at the last look */
    bool had_work[64];
};
/* False when an engine failed, or when one had work at the last look and now, and made no step
 * between. Work that only waits for slow readers is none. */
bool progress_look(struct progress *p, const struct app *app);

#endif
