/* plugins/qwen35/chat/chat_kwargs.c: the switches of a request: thinking, effort, generation
 * prompt. */
#include <stdio.h>
#include <string.h>

#include "plugins/qwen35/chat/chat_request.h"

vl_status vl_chat_bool_read(vl_json v, const char *path, int *out, const vl_chat_fault *f)
{
    bool b;

    if (vl_json_is_null(v))
        return VL_OK;
    if (!vl_json_bool(v, &b))
        return vl_chat_fail(vl_chat_at(f, "%s", path), "%s must be true or false, not %s", path,
                            vl_chat_kind(v));
    *out = b;
    return VL_OK;
}

/* An optional object. */
static vl_status object_of(vl_json root, const char *name, vl_json *out, const vl_chat_fault *f)
{
    vl_json v = vl_json_get(root, name);

    if (!vl_json_is_null(v) && !vl_json_is(v, VL_JSON_OBJECT))
        return vl_chat_fail(vl_chat_at(f, "%s", name), "%s must be an object, not %s", name,
                            vl_chat_kind(v));
    *out = v;
    return VL_OK;
}

/* The template's own variables out of one kwargs object; what it does not know is left alone. */
static vl_status read_kwargs(const vl_chat *c, vl_json kwargs, vl_chat_request *r,
                             const vl_chat_fault *f)
{
    int vision_id = r->add_vision_id;
    vl_status rc =
        vl_chat_bool_read(vl_json_get(kwargs, "enable_thinking"),
                          "chat_template_kwargs.enable_thinking", &r->enable_thinking, f);
    if (rc == VL_OK)
        rc = vl_chat_bool_read(vl_json_get(kwargs, "preserve_thinking"),
                               "chat_template_kwargs.preserve_thinking", &r->preserve_thinking, f);
    if (rc == VL_OK)
        rc = vl_chat_bool_read(vl_json_get(kwargs, "add_vision_id"),
                               "chat_template_kwargs.add_vision_id", &vision_id, f);
    r->add_vision_id = vision_id != 0;
    if (rc != VL_OK)
        return rc;
    vl_json effort = vl_json_get(kwargs, "reasoning_effort");
    if (vl_json_is_null(effort) || !c->traits->has_effort)
        return VL_OK;
    const char *path = "chat_template_kwargs.reasoning_effort";
    if (!vl_json_is(effort, VL_JSON_STRING))
        return vl_chat_fail(vl_chat_at(f, "%s", path), "%s must be a string, not %s", path,
                            vl_chat_kind(effort));
    if (!vl_json_str_copy(effort, r->effort, sizeof(r->effort)))
        snprintf(r->effort, sizeof(r->effort), "%s", "(too long)");
    return VL_OK;
}

/* The top-level reasoning_effort: "none" switches thinking off, the others on and, on 3.8, map to
 * its words. */
static vl_status read_effort(vl_json root, vl_chat_request *r, const vl_chat_fault *f)
{
    static const struct {
        const char *word, *effort;
    } words[] = {{"none", NULL},    {"minimal", "low"}, {"low", "low"},  {"medium", "medium"},
                 {"high", "xhigh"}, {"xhigh", "xhigh"}, {"max", "xhigh"}};
    vl_json v = vl_json_get(root, "reasoning_effort");

    if (vl_json_is_null(v))
        return VL_OK;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!vl_json_str_eq(v, words[i].word))
            continue;
        r->enable_thinking = words[i].effort != NULL;
        if (words[i].effort)
            snprintf(r->effort, sizeof(r->effort), "%s", words[i].effort);
        return VL_OK;
    }
    vl_bytes raw = vl_json_raw(v);
    return vl_chat_fail(
        vl_chat_at(f, "reasoning_effort"),
        "reasoning_effort is %.*s, want none, minimal, low, medium, high, xhigh or max",
        (int)(raw.len > 60 ? 60 : raw.len), raw.ptr);
}

static vl_status read_prompt_flags(vl_json root, vl_chat_request *r, const vl_chat_fault *f)
{
    int add = -1, cont = 0;
    vl_status rc = vl_chat_bool_read(vl_json_get(root, "add_generation_prompt"),
                                     "add_generation_prompt", &add, f);
    if (rc == VL_OK)
        rc = vl_chat_bool_read(vl_json_get(root, "continue_final_message"),
                               "continue_final_message", &cont, f);
    if (rc != VL_OK)
        return rc;
    if (cont && add == 1)
        return vl_chat_fail(vl_chat_at(f, "continue_final_message"),
                            "continue_final_message and add_generation_prompt can't both be true");
    r->continue_final = cont != 0;
    r->add_generation_prompt = add < 0 ? !cont : add != 0;
    return VL_OK;
}

vl_status vl_chat_kwargs_read(const vl_chat *c, vl_json root, vl_chat_request *r,
                              const vl_chat_fault *f)
{
    vl_json kwargs;

    r->enable_thinking = r->preserve_thinking = -1;
    vl_status rc = object_of(root, "chat_template_kwargs", &kwargs, f);
    /* From the weakest to the strongest: the server's defaults, the OpenAI field, the request's
     * switches. */
    if (rc == VL_OK && c->defaults.n_nodes)
        rc = read_kwargs(c, vl_json_root(&c->defaults), r, f);
    if (rc == VL_OK)
        rc = read_effort(root, r, f);
    if (rc == VL_OK)
        rc = vl_chat_bool_read(vl_json_get(root, "enable_thinking"), "enable_thinking",
                               &r->enable_thinking, f);
    if (rc == VL_OK)
        rc = read_kwargs(c, kwargs, r, f);
    if (rc == VL_OK)
        rc = read_prompt_flags(root, r, f);
    if (rc != VL_OK)
        return rc;
    if (c->traits->always_thinks && r->enable_thinking == 0)
        return vl_chat_fail(vl_chat_at(f, "chat_template_kwargs.enable_thinking"),
                            "Disabling thinking is not supported.");
    if (c->traits->has_effort && r->enable_thinking != 0 && r->effort[0] &&
        strcmp(r->effort, "xhigh") != 0 && strcmp(r->effort, "medium") != 0 &&
        strcmp(r->effort, "low") != 0)
        return vl_chat_fail(vl_chat_at(f, "chat_template_kwargs.reasoning_effort"),
                            "Unexpected reasoning effort %s. Supported types are xhigh (default), "
                            "medium, and low.",
                            r->effort);
    return VL_OK;
}
