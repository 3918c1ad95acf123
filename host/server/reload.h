/* host/server/reload.h: SIGHUP: the config is read and checked again, and what can change in a
 * running server changes. [loop] */
#ifndef VL_SERVER_RELOAD_H
#define VL_SERVER_RELOAD_H

#include "host/server/app.h"

/* Reads the config as at the start: file, environment, command line, plugin options. */
typedef struct reload_source {
    vl_status (*read)(void *user, vl_config *out, vl_problems *p, vl_error *err);
    void *user;
} reload_source;

struct reload {
    const reload_source *source; /* NULL: a server without */
    vl_config config;            /* the last one taken over; app->config is it then */
    bool taken;
};

/* Takes the new config over; on a problem logs all of them and keeps the old. Logs the names of
 * what needs a restart. False when the old was kept. */
bool reload_run(struct reload *r, struct app *app);
void reload_fini(struct reload *r); /* when nothing uses app->config any more */

/* What reload_run and the start have in common. */
void reload_apply(struct app *app, const vl_config *c);
/* Names of what differs and needs a restart, with spaces between; "" for nothing. */
void reload_differences(const vl_config *running, const vl_config *wanted, vl_buf *out);

#endif
