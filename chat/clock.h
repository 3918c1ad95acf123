/* chat/clock.h: seconds that only go forward. */
#ifndef VL_CHAT_CLOCK_H
#define VL_CHAT_CLOCK_H

#include <time.h>

static inline double vl_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
