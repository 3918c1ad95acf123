/* chat/settings.h: what a user has changed for good, and its file (XDG_CONFIG_HOME/poppy). */
#ifndef VL_CHAT_SETTINGS_H
#define VL_CHAT_SETTINGS_H

#include "base/buf.h"
#include "vallmo/abi.h"

enum { VL_FADE_DEFAULT = 60, VL_PARAMS_MAX = 32 };

/* A sampling parameter that goes into every request. */
struct vl_param {
    const char *name; /* of vl_param_names */
    vl_buf value;     /* JSON */
};

struct vl_settings {
    vl_buf url;   /* "" = the default */
    vl_buf model; /* chosen at url; "" = none */
    vl_buf theme; /* "" = by the terminal's background */
    int fade;     /* strength of the flower, 0 (none) to 100 */
    bool show_thinking;
    int thinking;       /* -1: as the model has it, 0 off, 1 on */
    int64_t max_tokens; /* 0 = not sent */
    bool mouse;
    struct vl_param params[VL_PARAMS_MAX];
    size_t n_params;
};

extern const char *const vl_param_names[]; /* NULL-terminated */

void vl_settings_init(struct vl_settings *s);
void vl_settings_fini(struct vl_settings *s);
/* Sets a parameter to a JSON value; an empty value takes it out. */
vl_status vl_settings_param(struct vl_settings *s, const char *name, const char *value,
                            vl_error *err);
/* A file that is not there is no error. */
vl_status vl_settings_load(struct vl_settings *s, vl_error *err);
/* Writes only what differs from the defaults. */
vl_status vl_settings_save(const struct vl_settings *s, vl_error *err);

#endif
