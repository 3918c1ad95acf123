/* host/server/flags.h: the command line of vallmo-host. */
#ifndef VL_SERVER_FLAGS_H
#define VL_SERVER_FLAGS_H

#include "config/config.h"

enum flags_action {
    RUN,
    CHECK_CONFIG,
    LIST_PLUGINS,
    SHOW_VERSION,
    SHOW_HELP,
    SHOW_OPTIONS,
    SHOW_MARKDOWN
};

struct flags {
    enum flags_action action;
    const char *file;     /* -c */
    vl_setting *settings; /* owned; keys point into keys */
    size_t n_settings, settings_cap;
    char **keys; /* owned copies of the KEY of --set KEY=VALUE */
    size_t n_keys, keys_cap;
};

/* VL_E_INVALID with what is wrong. */
vl_status flags_parse(struct flags *f, int argc, char **argv, vl_error *err);
void flags_fini(struct flags *f);
extern const char flags_help[];

#endif
