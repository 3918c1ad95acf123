/* host/server/api_completions.c: the body of /v1/completions to a request: raw prompts, no chat
 * format. */
#include <stdlib.h>
#include <string.h>

#include "host/server/api.h"

enum { MAX_PROMPTS = 128, DEFAULT_MAX_TOKENS = 16 };

static const char *const known_fields[] = {"prompt",
                                           "suffix",
                                           "model",
                                           "stream",
                                           "stream_options",
                                           "max_completion_tokens",
                                           "max_tokens",
                                           "temperature",
                                           "top_p",
                                           "frequency_penalty",
                                           "presence_penalty",
                                           "top_k",
                                           "min_p",
                                           "repetition_penalty",
                                           "repeat_penalty",
                                           "stop",
                                           "stop_token_ids",
                                           "include_stop_str_in_output",
                                           "skip_special_tokens",
                                           "min_tokens",
                                           "ignore_eos",
                                           "seed",
                                           "n",
                                           "best_of",
                                           "logprobs",
                                           "echo",
                                           "logit_bias",
                                           "user",
                                           "cache_prompt",
                                           "id_slot",
                                           "add_special_tokens",
                                           NULL};

static struct vl_api_prompt *new_prompt(vl_api_request *r, vl_api_error *e)
{
    if (r->n_prompts >= MAX_PROMPTS) {
        vl_api_fail(e, 400, "prompt", "prompt: more than %d prompts", MAX_PROMPTS);
        return NULL;
    }
    if (!vl_grow(&r->prompts, &r->prompts_cap, r->n_prompts + 1, sizeof *r->prompts)) {
        vl_api_fail(e, 503, NULL, "out of memory");
        return NULL;
    }
    struct vl_api_prompt *p = &r->prompts[r->n_prompts++];
    *p = (struct vl_api_prompt){VL_BUF_INIT, NULL, 0};
    return p;
}

static bool add_text(vl_api_request *r, vl_json v, vl_api_error *e)
{
    struct vl_api_prompt *p = new_prompt(r, e);
    if (!p)
        return false;
    if (!vl_json_str(v, &p->text))
        return vl_api_fail(e, 503, NULL, "out of memory");
    if (p->text.len == 0 && !r->has_suffix)
        return vl_api_fail(e, 400, "prompt", "prompt: the text is empty");
    return true;
}

static bool add_ids(vl_api_request *r, vl_json list, vl_api_error *e)
{
    size_t n = vl_json_count(list);
    struct vl_api_prompt *p = new_prompt(r, e);
    int64_t x;
    if (!p)
        return false;
    if (n == 0)
        return vl_api_fail(e, 400, "prompt", "prompt: a list of ids is empty");
    p->ids = calloc(n, sizeof *p->ids);
    if (!p->ids)
        return vl_api_fail(e, 503, NULL, "out of memory");
    for (vl_json_iter it = vl_json_each(list); vl_json_next(&it);) {
        if (!vl_json_i64(it.value, &x) || x < 0 || x > INT32_MAX)
            return vl_api_fail(e, 400, "prompt", "prompt: element %u is no token id",
                               (unsigned)it.index);
        p->ids[p->n_ids++] = (int32_t)x;
    }
    return true;
}

static bool parse_prompts(vl_json o, vl_api_request *r, vl_api_error *e)
{
    vl_json v = vl_json_get(o, "prompt");
    if (vl_json_is(v, VL_JSON_STRING))
        return add_text(r, v, e);
    if (!vl_json_is(v, VL_JSON_ARRAY) || vl_json_count(v) == 0)
        return vl_api_fail(
            e, 400, "prompt",
            "prompt: want a string, a list of strings, a list of ids or a list of those");
    if (vl_json_is(vl_json_at(v, 0), VL_JSON_NUMBER))
        return add_ids(r, v, e);
    for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);) {
        if (vl_json_is(it.value, VL_JSON_STRING)) {
            if (!add_text(r, it.value, e))
                return false;
        } else if (vl_json_is(it.value, VL_JSON_ARRAY)) {
            if (!add_ids(r, it.value, e))
                return false;
        } else {
            return vl_api_fail(e, 400, "prompt",
                               "prompt[%u]: want a string or a list of ids, got %s",
                               (unsigned)it.index, vl_json_type_name(it.value));
        }
    }
    return true;
}

bool vl_api_completion_parse(vl_api_request *r, const char *body, size_t len,
                             const vl_api_limits *limits, vl_api_unknown_fn unknown, void *user,
                             vl_api_error *e)
{
    int64_t top = -1, best_of = 0;
    bool has_max;
    memset(r, 0, sizeof *r);
    if (!vl_api_common_parse(r, body, len, limits, e))
        return false;
    vl_json o = vl_json_root(&r->doc);
    if (!vl_field_text(o, "suffix", &r->suffix, &r->has_suffix, e) || !parse_prompts(o, r, e) ||
        !vl_field_bool(o, "echo", &r->echo, NULL, e))
        return false;
    if (vl_json_is(vl_json_get(o, "logprobs"), VL_JSON_FALSE))
        top = -1;
    else if (!vl_field_int(o, "logprobs", 0, 20, &top, NULL, e))
        return false;
    if (!vl_field_int(o, "best_of", 1, limits->choices_max, &best_of, NULL, e))
        return false;
    if (best_of && best_of != (int64_t)r->params.n)
        return vl_api_fail(e, 400, "best_of",
                           "best_of: only the value of n (%u) is taken, got %lld", r->params.n,
                           (long long)best_of);
    r->n_top = (int32_t)top;
    r->params.n_logprobs = r->n_top;
    if (r->echo && r->n_top >= 0 && r->stream)
        return vl_api_fail(e, 400, "echo",
                           "echo: together with logprobs it is not offered in a stream");
    if (r->echo && r->n_top >= 0)
        r->params.flags |= VL_REQUEST_PROMPT_LOGPROBS;
    has_max = !vl_json_is_null(vl_json_get(o, "max_tokens")) ||
              !vl_json_is_null(vl_json_get(o, "max_completion_tokens"));
    if (!has_max) {
        r->params.max_tokens = DEFAULT_MAX_TOKENS;
        if (r->params.min_tokens > r->params.max_tokens)
            return vl_api_fail(e, 400, "min_tokens",
                               "min_tokens: %llu is above max_tokens, %d by default",
                               (unsigned long long)r->params.min_tokens, DEFAULT_MAX_TOKENS);
    }
    vl_api_report_unknown(o, known_fields, unknown, user);
    return true;
}
