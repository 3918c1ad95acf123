/* chat/options.h: what the command line and the environment say. */
#ifndef VL_CHAT_OPTIONS_H
#define VL_CHAT_OPTIONS_H

#include <stdbool.h>

#include "base/buf.h"
#include "chat/settings.h"
#include "vallmo/abi.h"

enum vl_colour { VL_COLOUR_NONE, VL_COLOUR_16, VL_COLOUR_256, VL_COLOUR_TRUE };

struct vl_options {
    vl_buf words;    /* the question of a one-shot run */
    vl_buf persona;  /* system text, "" for none */
    const char *url; /* --url, else OPENAI_BASE_URL, else NULL */
    const char *model;
    const char *key; /* OPENAI_API_KEY, may be NULL */
    enum vl_colour colour;
    bool raw, inline_view, go_on, bloom;
    bool dumb; /* TERM=dumb: no escape sequences at all */
};

/* 0; or 1 + the exit status when there is nothing more to do (help, version, wrong usage). */
int vl_options_parse(struct vl_options *o, int argc, char **argv);
void vl_options_fini(struct vl_options *o);

#endif
