/* host/lib/sampling_rules.c: ranges, sources and neutral values of the sampling parameters. */
#include "host/lib/sampling_rules.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/error.h"
#include "base/json.h"

/* A range for messages and checks: low..high, the low end excluded where `above` is set. */
struct rule {
    uint32_t bit;
    const char *field;
    size_t offset; /* of a double in vl_sampling_options */
    double low, high;
    bool above;
};

static const struct rule rules[] = {
    {VL_SET_TEMPERATURE, "temperature", offsetof(struct vl_sampling_options, temperature), 0, 5,
     false},
    {VL_SET_TOP_P, "top_p", offsetof(struct vl_sampling_options, top_p), 0, 1, true},
    {VL_SET_MIN_P, "min_p", offsetof(struct vl_sampling_options, min_p), 0, 1, false},
    {VL_SET_REPETITION, "repetition_penalty",
     offsetof(struct vl_sampling_options, repetition_penalty), 0, 10, true},
    {VL_SET_FREQUENCY, "frequency_penalty", offsetof(struct vl_sampling_options, frequency_penalty),
     -2, 2, false},
    {VL_SET_PRESENCE, "presence_penalty", offsetof(struct vl_sampling_options, presence_penalty),
     -2, 2, false},
};

static double value_of(const struct vl_sampling_options *o, const struct rule *r)
{
    double x;
    memcpy(&x, (const char *)o + r->offset, sizeof x);
    return x;
}

vl_status vl_sampling_check(const struct vl_sampling_options *o, const char **field, vl_error *err)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct rule *r = &rules[i];
        double x = value_of(o, r);
        if ((o->set & r->bit) == 0)
            continue;
        /* Written so that a NaN fails. */
        if ((r->above ? x > r->low : x >= r->low) && x <= r->high)
            continue;
        if (field != NULL)
            *field = r->field;
        return vl_error_set(err, VL_E_INVALID, "%s: %g is out of range: %s %g, at most %g",
                            r->field, x, r->above ? "above" : "at least", r->low, r->high);
    }
    if ((o->set & VL_SET_TOP_K) != 0 && (o->top_k < -1 || o->top_k > INT32_MAX)) {
        if (field != NULL)
            *field = "top_k";
        return vl_error_set(err, VL_E_INVALID,
                            "top_k: %lld is out of range: at least -1, at most %d",
                            (long long)o->top_k, INT32_MAX);
    }
    return VL_OK;
}

vl_status vl_sampling_from_config(vl_bytes json, struct vl_sampling_options *out, vl_error *err)
{
    vl_json_doc doc = {0};
    struct vl_sampling_options o = {0};
    bool do_sample;

    if (json.len == 0) {
        *out = o;
        return VL_OK;
    }
    vl_status rc = vl_json_parse(&doc, json.ptr, json.len, 64, 0, err);
    if (rc != VL_OK)
        return vl_error_prefix(err, "generation config");
    vl_json root = vl_json_root(&doc);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        double x;
        if (rules[i].bit == VL_SET_FREQUENCY || rules[i].bit == VL_SET_PRESENCE ||
            !vl_json_f64(vl_json_get(root, rules[i].field), &x))
            continue;
        memcpy((char *)&o + rules[i].offset, &x, sizeof x);
        o.set |= rules[i].bit;
    }
    if (vl_json_i64(vl_json_get(root, "top_k"), &o.top_k))
        o.set |= VL_SET_TOP_K;
    if (vl_json_bool(vl_json_get(root, "do_sample"), &do_sample) && !do_sample) {
        o.temperature = 0;
        o.set |= VL_SET_TEMPERATURE;
    }
    vl_json_doc_fini(&doc);
    rc = vl_sampling_check(&o, NULL, err);
    if (rc != VL_OK)
        return vl_error_prefix(err, "generation config");
    *out = o;
    return VL_OK;
}

static uint64_t random_seed(void)
{
    uint64_t seed = 0;
    struct timespec now;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return seed;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)now.tv_sec;
}

/* The sources in their order; those that a greedy request shuts out are left out by the caller. */
static bool pick(const struct vl_sampling_options *const *sources, size_t n, uint32_t bit,
                 const struct vl_sampling_options **found)
{
    for (size_t i = 0; i < n; i++) {
        if (sources[i] != NULL && (sources[i]->set & bit) != 0) {
            *found = sources[i];
            return true;
        }
    }
    return false;
}

void vl_sampling_resolve(const struct vl_sampling_options *request,
                         const struct vl_sampling_options *server,
                         const struct vl_sampling_options *checkpoint, vl_sampling *out)
{
    const struct vl_sampling_options *sources[] = {request, server, checkpoint};
    const struct vl_sampling_options *s;
    bool greedy_request = (request->set & VL_SET_TEMPERATURE) != 0 && request->temperature < 1e-5;
    size_t n_penalty = greedy_request ? 1 : 3;

    out->struct_size = sizeof *out;
    out->temperature = pick(sources, 3, VL_SET_TEMPERATURE, &s) ? (float)s->temperature : 1.0f;
    out->top_p = pick(sources, 3, VL_SET_TOP_P, &s) ? (float)s->top_p : 1.0f;
    out->min_p = pick(sources, 3, VL_SET_MIN_P, &s) ? (float)s->min_p : 0.0f;
    out->top_k = pick(sources, 3, VL_SET_TOP_K, &s) && s->top_k > 0 ? (int32_t)s->top_k : 0;
    out->repetition_penalty =
        pick(sources, n_penalty, VL_SET_REPETITION, &s) ? (float)s->repetition_penalty : 1.0f;
    out->frequency_penalty =
        pick(sources, n_penalty, VL_SET_FREQUENCY, &s) ? (float)s->frequency_penalty : 0.0f;
    out->presence_penalty =
        pick(sources, n_penalty, VL_SET_PRESENCE, &s) ? (float)s->presence_penalty : 0.0f;
    out->seed = (request->set & VL_SET_SEED) != 0 ? (uint64_t)request->seed : random_seed();
}
