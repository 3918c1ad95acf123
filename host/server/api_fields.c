/* host/server/api_fields.c: single fields of a request's JSON, and those that chat and text
 * completions share. Must not know routes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/schema.h"
#include "host/server/api.h"

static bool wrong_type(vl_json v, const char *name, const char *want, vl_api_error *e)
{
    return vl_api_fail(e, 400, name, "%s: want %s, got %s", name, want, vl_json_type_name(v));
}

bool vl_field_bool(vl_json o, const char *name, bool *out, bool *found, vl_api_error *e)
{
    vl_json v = vl_json_get(o, name);
    if (found)
        *found = !vl_json_is_null(v);
    if (vl_json_is_null(v))
        return true;
    return vl_json_bool(v, out) ? true : wrong_type(v, name, "true or false", e);
}

bool vl_field_int(vl_json o, const char *name, int64_t min, int64_t max, int64_t *out, bool *found,
                  vl_api_error *e)
{
    vl_json v = vl_json_get(o, name);
    int64_t x;
    double d;
    if (found)
        *found = !vl_json_is_null(v);
    if (vl_json_is_null(v))
        return true;
    if (!vl_json_is(v, VL_JSON_NUMBER))
        return wrong_type(v, name, "an integer", e);
    vl_bytes raw = vl_json_raw(v);
    int shown = raw.len > 40 ? 40 : (int)raw.len;
    if (!vl_json_i64(v, &x)) {
        if (vl_json_f64(v, &d) && d == floor(d))
            return vl_api_fail(e, 400, name, "%s: %.*s is out of range", name, shown, raw.ptr);
        return vl_api_fail(e, 400, name, "%s: want an integer, got %.*s", name, shown, raw.ptr);
    }
    if (x < min || x > max)
        return vl_api_fail(e, 400, name, "%s: %.*s is out of range, want %lld to %lld", name, shown,
                           raw.ptr, (long long)min, (long long)max);
    *out = x;
    return true;
}

bool vl_field_number(vl_json o, const char *name, double min, double max, bool min_open,
                     double *out, bool *found, vl_api_error *e)
{
    vl_json v = vl_json_get(o, name);
    double x;
    if (found)
        *found = !vl_json_is_null(v);
    if (vl_json_is_null(v))
        return true;
    if (!vl_json_is(v, VL_JSON_NUMBER))
        return wrong_type(v, name, "a number", e);
    vl_bytes raw = vl_json_raw(v);
    if (!vl_json_f64(v, &x) || x < min || x > max || (min_open && x <= min))
        return vl_api_fail(e, 400, name, "%s: %.*s is out of range, want %s%.15g to %.15g", name,
                           raw.len > 40 ? 40 : (int)raw.len, raw.ptr, min_open ? "above " : "", min,
                           max);
    *out = x;
    return true;
}

bool vl_field_text(vl_json o, const char *name, vl_buf *out, bool *found, vl_api_error *e)
{
    vl_json v = vl_json_get(o, name);
    if (found)
        *found = !vl_json_is_null(v);
    if (vl_json_is_null(v))
        return true;
    if (!vl_json_is(v, VL_JSON_STRING))
        return wrong_type(v, name, "a string", e);
    return vl_json_str(v, out) ? true : vl_api_fail(e, 503, name, "out of memory");
}

bool vl_field_is(vl_json o, const char *name, int type, vl_json *out, vl_api_error *e)
{
    static const char *const want[] = {"null",     "false",    "true",     "a number",
                                       "a string", "an array", "an object"};
    vl_json v = vl_json_get(o, name);
    *out = (vl_json){0};
    if (vl_json_is_null(v))
        return true;
    if (!vl_json_is(v, type))
        return wrong_type(v, name, want[type], e);
    *out = v;
    return true;
}

/* ---- unknown fields ---- */

static const char *known_name(const void *user, size_t k)
{
    return ((const char *const *)user)[k];
}

void vl_api_report_unknown(vl_json o, const char *const *known, vl_api_unknown_fn unknown,
                           void *user)
{
    char name[64];
    for (vl_json_iter it = vl_json_each(o); unknown && vl_json_next(&it);) {
        if (!vl_json_str_copy(it.key, name, sizeof name))
            continue;
        size_t k = 0;
        while (known[k] && strcmp(known[k], name) != 0)
            k++;
        if (!known[k])
            unknown(user, name, vl_name_nearest(name, strlen(name), known_name, known));
    }
}

/* ---- what chat and text completions share ---- */

static bool parse_sampling(vl_json o, struct vl_sampling_options *s, vl_api_error *e)
{
    static const struct {
        const char *name;
        double min, max;
        bool open;
        uint32_t bit;
        size_t at;
    } numbers[] = {
        {"temperature", 0, 5, false, VL_SET_TEMPERATURE,
         offsetof(struct vl_sampling_options, temperature)},
        {"top_p", 0, 1, true, VL_SET_TOP_P, offsetof(struct vl_sampling_options, top_p)},
        {"min_p", 0, 1, false, VL_SET_MIN_P, offsetof(struct vl_sampling_options, min_p)},
        {"repeat_penalty", 0, 10, true, VL_SET_REPETITION,
         offsetof(struct vl_sampling_options, repetition_penalty)},
        {"repetition_penalty", 0, 10, true, VL_SET_REPETITION,
         offsetof(struct vl_sampling_options, repetition_penalty)},
        {"frequency_penalty", -2, 2, false, VL_SET_FREQUENCY,
         offsetof(struct vl_sampling_options, frequency_penalty)},
        {"presence_penalty", -2, 2, false, VL_SET_PRESENCE,
         offsetof(struct vl_sampling_options, presence_penalty)},
    };
    bool found;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        double *at = (double *)(void *)((char *)s + numbers[i].at);
        if (!vl_field_number(o, numbers[i].name, numbers[i].min, numbers[i].max, numbers[i].open,
                             at, &found, e))
            return false;
        if (found)
            s->set |= numbers[i].bit;
    }
    if (!vl_field_int(o, "top_k", -1, INT32_MAX, &s->top_k, &found, e))
        return false;
    if (found)
        s->set |= VL_SET_TOP_K;
    if (!vl_field_int(o, "seed", INT64_MIN, INT64_MAX, &s->seed, &found, e))
        return false;
    if (found)
        s->set |= VL_SET_SEED;
    return true;
}

static bool parse_limits(vl_json o, vl_api_request *r, vl_api_error *e)
{
    static const char *const names[] = {"max_completion_tokens", "max_tokens"};
    int64_t x = 0;
    bool found, any = false;
    for (size_t i = 0; i < 2; i++) {
        if (!vl_field_int(o, names[i], -1, INT64_MAX, &x, &found, e))
            return false;
        if (found && x == 0)
            return vl_api_fail(e, 400, names[i],
                               "%s: 0 is out of range, want at least 1, or -1 for no limit",
                               names[i]);
        if (found && x > 0 && !any)
            r->params.max_tokens = (uint64_t)x;
        any |= found && x > 0;
    }
    x = 0;
    if (!vl_field_int(o, "min_tokens", 0, INT64_MAX, &x, NULL, e))
        return false;
    r->params.min_tokens = (uint64_t)x;
    return true;
}

static bool add_stop(vl_api_request *r, vl_json v, size_t *ends, vl_api_error *e)
{
    if (!vl_json_is(v, VL_JSON_STRING))
        return vl_api_fail(e, 400, "stop", "stop: want a string or a list of strings, got %s",
                           vl_json_type_name(v));
    size_t before = r->stop_text.len;
    if (!vl_json_str(v, &r->stop_text))
        return vl_api_fail(e, 503, "stop", "out of memory");
    if (r->stop_text.len > before)
        ends[r->params.n_stops++] = r->stop_text.len;
    return true;
}

static bool parse_stop(vl_json o, vl_api_request *r, vl_api_error *e)
{
    enum { MAX = 16 };
    size_t ends[MAX];
    vl_json v = vl_json_get(o, "stop");
    if (vl_json_is_null(v))
        return true;
    if (vl_json_is(v, VL_JSON_ARRAY)) {
        if (vl_json_count(v) > MAX)
            return vl_api_fail(e, 400, "stop", "stop: %zu strings, at most %d", vl_json_count(v),
                               MAX);
        for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);)
            if (!add_stop(r, it.value, ends, e))
                return false;
    } else if (!add_stop(r, v, ends, e)) {
        return false;
    }
    r->stops = calloc(MAX, sizeof *r->stops);
    if (!r->stops)
        return vl_api_fail(e, 503, "stop", "out of memory");
    size_t from = 0;
    for (size_t i = 0; i < r->params.n_stops; i++) {
        r->stops[i] = (vl_bytes){r->stop_text.ptr + from, ends[i] - from};
        from = ends[i];
    }
    r->params.stops = r->stops;
    return true;
}

static bool parse_stop_ids(vl_json o, vl_api_request *r, vl_api_error *e)
{
    enum { MAX = 1024 };
    vl_json v;
    int64_t x;
    if (!vl_field_is(o, "stop_token_ids", VL_JSON_ARRAY, &v, e))
        return false;
    size_t n = vl_json_count(v);
    if (n == 0)
        return true;
    if (n > MAX)
        return vl_api_fail(e, 400, "stop_token_ids", "stop_token_ids: %zu ids, at most %d", n, MAX);
    r->stop_ids = calloc(n, sizeof *r->stop_ids);
    if (!r->stop_ids)
        return vl_api_fail(e, 503, NULL, "out of memory");
    for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);) {
        if (!vl_json_i64(it.value, &x) || x < 0 || x > INT32_MAX)
            return vl_api_fail(e, 400, "stop_token_ids", "stop_token_ids[%u]: want a token id",
                               (unsigned)it.index);
        r->stop_ids[r->params.n_stop_ids++] = (int32_t)x;
    }
    r->params.stop_ids = r->stop_ids;
    return true;
}

static bool parse_bias(vl_json o, vl_api_request *r, vl_api_error *e)
{
    enum { MAX = 65536 };
    vl_json v;
    char name[32];
    double x;
    if (!vl_field_is(o, "logit_bias", VL_JSON_OBJECT, &v, e))
        return false;
    size_t n = vl_json_count(v);
    if (n == 0)
        return true;
    if (n > MAX)
        return vl_api_fail(e, 400, "logit_bias", "logit_bias: %zu entries, at most %d", n, MAX);
    r->bias = calloc(n, sizeof *r->bias);
    if (!r->bias)
        return vl_api_fail(e, 503, NULL, "out of memory");
    for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);) {
        char *end = NULL;
        bool good = vl_json_str_copy(it.key, name, sizeof name) && name[0] >= '0' && name[0] <= '9';
        long long id = good ? strtoll(name, &end, 10) : -1;
        if (!good || *end || id > INT32_MAX)
            return vl_api_fail(e, 400, "logit_bias",
                               "logit_bias: every key must be a token id in digits");
        if (!vl_json_f64(it.value, &x) || x < -100 || x > 100)
            return vl_api_fail(e, 400, "logit_bias",
                               "logit_bias: the value of %lld must be a number from -100 to 100",
                               id);
        r->bias[r->params.n_bias++] = (vl_logit_bias){(int32_t)id, (float)x};
    }
    r->params.bias = r->bias;
    return true;
}

static bool parse_switches(vl_json o, vl_api_request *r, vl_api_error *e)
{
    bool eos = false, include_stop = false, skip = true;
    if (!vl_field_bool(o, "ignore_eos", &eos, NULL, e) ||
        !vl_field_bool(o, "include_stop_str_in_output", &include_stop, NULL, e) ||
        !vl_field_bool(o, "skip_special_tokens", &skip, NULL, e) ||
        !vl_field_bool(o, "stream", &r->stream, NULL, e))
        return false;
    r->params.flags |= VL_REQUEST_CLAMP_MAX;
    r->params.flags |= eos ? VL_REQUEST_IGNORE_EOS : 0;
    r->params.flags |= include_stop ? VL_REQUEST_INCLUDE_STOP : 0;
    r->params.flags |= skip ? 0 : VL_REQUEST_KEEP_SPECIAL;
    vl_json options = {0};
    if (!r->stream)
        return true; /* stream_options without stream: not looked at */
    if (!vl_field_is(o, "stream_options", VL_JSON_OBJECT, &options, e))
        return false;
    if (!vl_field_bool(options, "include_usage", &r->include_usage, NULL, e)) {
        memcpy(e->param, "stream_options", sizeof "stream_options");
        return false;
    }
    return true;
}

bool vl_api_common_parse(vl_api_request *r, const char *body, size_t len,
                         const vl_api_limits *limits, vl_api_error *e)
{
    vl_error err = {0};
    int64_t n = 1;
    vl_request_params_init(&r->params);
    r->include_reasoning = true;
    r->reasoning_field = -1;
    r->n_top = -1;
    vl_status rc = vl_json_parse(&r->doc, body, len, limits->json_depth, 0, &err);
    if (rc == VL_E_NOMEM)
        return vl_api_fail(e, 503, NULL, "out of memory");
    if (rc != VL_OK)
        return vl_api_fail(e, 400, NULL, "the request's body is not JSON: %s", err.text);
    vl_json o = vl_json_root(&r->doc);
    if (!vl_json_is(o, VL_JSON_OBJECT))
        return vl_api_fail(e, 400, NULL, "the request's body must be a JSON object, got %s",
                           vl_json_type_name(o));
    if (!vl_field_text(o, "model", &r->model, &r->has_model, e) ||
        !parse_sampling(o, &r->params.sampling, e) || !parse_limits(o, r, e) ||
        !parse_stop(o, r, e) || !parse_stop_ids(o, r, e) || !parse_bias(o, r, e) ||
        !parse_switches(o, r, e) || !vl_field_int(o, "n", 1, limits->choices_max, &n, NULL, e))
        return false;
    r->params.n = (uint32_t)n;
    return true;
}

void vl_api_request_fini(vl_api_request *r)
{
    vl_json_doc_fini(&r->doc);
    vl_buf_fini(&r->model);
    vl_buf_fini(&r->stop_text);
    vl_buf_fini(&r->suffix);
    free(r->stops);
    free(r->stop_ids);
    free(r->bias);
    for (size_t i = 0; i < r->n_prompts; i++) {
        vl_buf_fini(&r->prompts[i].text);
        free(r->prompts[i].ids);
    }
    free(r->prompts);
    memset(r, 0, sizeof *r);
}
