/* host/server/notify.c: readiness, status and signs of life for a service manager. Must not know
 * requests. */
#include "host/server/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool notify_send(const char *lines)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *name = getenv("NOTIFY_SOCKET");
    size_t n = name ? strlen(name) : 0;
    if (n < 2 || n > sizeof to.sun_path - 1 || (name[0] != '/' && name[0] != '@'))
        return false;
    memcpy(to.sun_path, name, n);
    if (name[0] == '@')
        to.sun_path[0] = 0; /* an abstract name: its length counts, not a NUL */
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    ssize_t sent = sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (struct sockaddr *)&to, len);
    close(fd);
    return sent == (ssize_t)strlen(lines);
}

void notify_printf(const char *fmt, ...)
{
    char text[500];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    notify_send(text);
}

static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (!text || *text < '0' || *text > '9')
        return 0;
    unsigned long long x = strtoull(text, &end, 10);
    return *end ? 0 : x;
}

uint64_t notify_watchdog_us(void)
{
    uint64_t pid = number_of("WATCHDOG_PID");
    if (getenv("WATCHDOG_PID") && pid != (uint64_t)getpid())
        return 0; /* meant for a parent of ours */
    return number_of("WATCHDOG_USEC");
}

bool progress_look(struct progress *p, const struct app *app)
{
    enum { MAX = sizeof p->steps / sizeof p->steps[0] };
    bool good = true;
    for (size_t i = 0; i < app->n_models && i < MAX; i++) {
        struct served *m = &app->models[i];
        struct vl_engine_stats s;
        vl_error err;
        if (m->state != VL_RUNTIME_READY)
            continue; /* loading: the start has a time limit of its own */
        vl_engine *engine = vl_runtime_engine(m->runtime);
        if (vl_engine_health(engine, &err) != VL_OK)
            good = false;
        vl_engine_stats_get(engine, &s);
        bool work = s.requests_running > 0 && call_any_unpaused(app, m);
        if (work && p->had_work[i] && s.steps == p->steps[i])
            good = false;
        p->steps[i] = s.steps;
        p->had_work[i] = work;
    }
    return good;
}
