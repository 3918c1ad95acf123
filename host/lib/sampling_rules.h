/* host/lib/sampling_rules.h: what sampling parameters mean, their ranges, and which source wins.
 * Pure. [any] */
#ifndef VL_LIB_SAMPLING_RULES_H
#define VL_LIB_SAMPLING_RULES_H

#include <stdbool.h>

#include "vallmo/model.h"

enum {
    VL_SET_TEMPERATURE = 1,
    VL_SET_TOP_P = 2,
    VL_SET_TOP_K = 4,
    VL_SET_MIN_P = 8,
    VL_SET_REPETITION = 16,
    VL_SET_FREQUENCY = 32,
    VL_SET_PRESENCE = 64,
    VL_SET_SEED = 128
};

/* One source of parameters; those without their bit in `set` are not given. */
struct vl_sampling_options {
    uint32_t set;              /* VL_SET_... */
    double temperature;        /* 0..5 */
    double top_p;              /* (0, 1] */
    int64_t top_k;             /* -1 or 0: off */
    double min_p;              /* 0..1 */
    double repetition_penalty; /* (0, 10] */
    double frequency_penalty;  /* -2..2 */
    double presence_penalty;   /* -2..2 */
    int64_t seed;
};

/* Checks what is set. On VL_E_INVALID *field (may be NULL) is the field's name in a request, and
 * the text says "top_p: 1.5 is out of range: above 0, at most 1". */
vl_status vl_sampling_check(const struct vl_sampling_options *o, const char **field, vl_error *err);

/* What a generation_config.json says; unknown keys are ignored, do_sample false means temperature
 * 0. Empty: nothing set. */
vl_status vl_sampling_from_config(vl_bytes json, struct vl_sampling_options *out, vl_error *err);

/* Each parameter from the first of request, server, checkpoint that sets it, else neutral. A
 * request whose temperature is below 1e-5 is plain argmax: penalties then count only if the request
 * names them. All have been checked. seed: the request's, else random. Sets everything but choice,
 * n_logprobs, bias. */
void vl_sampling_resolve(const struct vl_sampling_options *request,
                         const struct vl_sampling_options *server,
                         const struct vl_sampling_options *checkpoint, vl_sampling *out);

#endif
