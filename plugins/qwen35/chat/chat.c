/* plugins/qwen35/chat/chat.c: the "vl.chat/1" table of the Qwen3.5 family, and the life of a
 * vl_chat and its prompts. */
#include "plugins/qwen35/chat/chat.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/qwen35/chat/chat_parser.h"
#include "plugins/qwen35/chat/chat_prompt.h"

enum { MAX_DEPTH = 65535 }; /* of JSON: what is too deep the host has refused by its own limit */

const char *const vl_chat_tags[VL_N_TAGS] = {"<think>", "</think>", "<tool_call>", "</tool_call>"};

/* ---- errors ---- */

const vl_chat_fault *vl_chat_at(const vl_chat_fault *f, const char *fmt, ...)
{
    if (f->field) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(f->field->path, sizeof(f->field->path), fmt, args);
        va_end(args);
    }
    return f;
}

vl_status vl_chat_fail(const vl_chat_fault *f, const char *fmt, ...)
{
    vl_buf text = VL_BUF_INIT;
    va_list args;

    va_start(args, fmt);
    vl_buf_vprintf(&text, fmt, args);
    va_end(args);
    vl_error_set(f->err, VL_E_INVALID, "%s", text.ptr ? text.ptr : "the request is wrong");
    vl_buf_fini(&text);
    return VL_E_INVALID;
}

vl_status vl_chat_no_memory(const vl_chat_fault *f)
{
    return vl_error_set(f->err, VL_E_NOMEM, "no memory for the chat request");
}

const char *vl_chat_kind(vl_json v)
{
    static const char *const kinds[] = {"null",     "a boolean", "a boolean", "a number",
                                        "a string", "an array",  "an object"};
    return v.node ? kinds[v.node->type] : "missing";
}

/* ---- the chat ---- */

static void chat_destroy(vl_chat *c)
{
    if (!c)
        return;
    vl_json_doc_fini(&c->defaults);
    vl_buf_fini(&c->defaults_text);
    free(c);
}

static vl_status read_defaults(vl_chat *c, vl_bytes kwargs, vl_error *err)
{
    if (kwargs.len == 0)
        return VL_OK;
    vl_buf_append(&c->defaults_text, kwargs.ptr, kwargs.len);
    if (c->defaults_text.failed)
        return vl_error_set(err, VL_E_NOMEM, "no memory for the chat's default kwargs");
    vl_status rc = vl_json_parse(&c->defaults, c->defaults_text.ptr, c->defaults_text.len, 128,
                                 VL_JSON_UNIQUE_KEYS, err);
    if (rc != VL_OK) {
        vl_error_prefix(err, "default chat_template_kwargs");
        return rc;
    }
    if (!vl_json_is(vl_json_root(&c->defaults), VL_JSON_OBJECT))
        return vl_error_set(err, VL_E_INVALID,
                            "default chat_template_kwargs must be an object, not %s",
                            vl_chat_kind(vl_json_root(&c->defaults)));
    /* Wrong values are told now, not at the first request. */
    vl_chat_request r = {.tools = NULL};
    vl_chat_fault f = {NULL, err};
    vl_json_doc empty;
    rc = vl_json_parse(&empty, "{}", 2, 1, 0, err);
    if (rc == VL_OK) {
        rc = vl_chat_kwargs_read(c, vl_json_root(&empty), &r, &f);
        vl_json_doc_fini(&empty);
        if (rc != VL_OK)
            vl_error_prefix(err, "default chat_template_kwargs");
    }
    return rc;
}

static vl_status chat_create(vl_instance *self, const vl_chat_params *params, vl_chat **out,
                             vl_error *err)
{
    vl_status rc;
    vl_chat *c = calloc(1, sizeof(*c));

    (void)self;
    if (!c)
        return vl_error_set(err, VL_E_NOMEM, "no memory for the chat format");
    c->strict = params->flags & VL_CHAT_STRICT;
    c->media = params->flags & VL_CHAT_MEDIA;
    rc = vl_chat_traits_choose(params, &c->traits, err);
    if (rc != VL_OK)
        goto out;
    for (int i = 0; i < VL_N_TAGS; i++) {
        const char *tag = vl_chat_tags[i];
        c->tag_ids[i] = params->tokenizer_api->find(params->tokenizer, tag, strlen(tag));
        if (c->tag_ids[i] < 0) {
            rc = vl_error_set(err, VL_E_UNSUPPORTED,
                              "chat format %s: the tokenizer has no token \"%s\"", c->traits->name,
                              tag);
            goto out;
        }
    }
    rc = read_defaults(c, params->default_kwargs, err);
out:
    if (rc == VL_OK)
        *out = c;
    else
        chat_destroy(c);
    return rc;
}

static const char *chat_format(const vl_chat *c)
{
    return c->traits->name;
}

static vl_bytes chat_close_thought(const vl_chat *c)
{
    static const char text[] = "\n</think>\n\n";
    (void)c;
    return (vl_bytes){text, sizeof(text) - 1};
}

/* ---- prompts ---- */

static void prompt_free(vl_chat_prompt *p)
{
    if (!p)
        return;
    vl_chat_tools_unref(p->tools);
    vl_buf_fini(&p->text);
    vl_buf_fini(&p->constraint_text);
    free(p->pieces);
    free(p->marks);
    free(p->nodes);
    free(p->children);
    free(p);
}

static vl_status make_prompt(const vl_chat *c, vl_chat_request *r, vl_chat_prompt **out,
                             const vl_chat_fault *f)
{
    vl_chat_prompt *p = calloc(1, sizeof(*p));
    size_t at = 0;

    if (!p)
        return vl_chat_no_memory(f);
    p->tools = vl_chat_tools_ref(r->tools);
    vl_chat_render(c, r, p);
    if (p->failed || !vl_chat_constrain(r, p)) {
        prompt_free(p);
        return vl_chat_no_memory(f);
    }
    for (size_t i = 0; i < p->n_pieces; i++) {
        p->pieces[i].ptr = p->text.ptr + at;
        at += p->pieces[i].len;
    }
    *out = p;
    return VL_OK;
}

static vl_status chat_render(const vl_chat *c, vl_bytes request_json, vl_chat_prompt **out,
                             vl_chat_field *field, vl_error *err)
{
    vl_chat_fault f = {field, err};
    vl_chat_request r = {.tools = NULL};
    vl_json_doc doc;

    if (field)
        field->path[0] = '\0';
    vl_status rc = vl_json_parse(&doc, request_json.ptr ? request_json.ptr : "", request_json.len,
                                 MAX_DEPTH, 0, err);
    if (rc != VL_OK)
        return rc == VL_E_NOMEM ? rc : VL_E_INVALID;
    rc = vl_chat_request_read(c, vl_json_root(&doc), &r, &f);
    if (rc == VL_OK && vl_chat_last_query(&r) == SIZE_MAX)
        rc = vl_chat_fail(vl_chat_at(&f, "messages"), "No user query found in messages.");
    if (rc == VL_OK)
        rc = make_prompt(c, &r, out, &f);
    vl_chat_request_fini(&r);
    vl_json_doc_fini(&doc);
    return rc;
}

static void prompt_view(const vl_chat_prompt *p, vl_chat_view *out)
{
    out->start_state = p->start_state;
    out->pieces = p->pieces;
    out->n_pieces = p->n_pieces;
    out->marks = p->marks;
    out->n_marks = p->n_marks;
    out->thinking = p->thinking;
    out->has_tools = p->tools != NULL;
}

static vl_status prompt_constraint(const vl_chat_prompt *p, const vl_constraint_node **nodes,
                                   uint64_t *n, vl_error *err)
{
    (void)err;
    *nodes = p->nodes;
    *n = p->n_nodes;
    return VL_OK;
}

const vl_chat_api vl_qwen35_chat_api = {
    .struct_size = sizeof(vl_chat_api),
    .abi_version = VL_ABI_VERSION,
    .create = chat_create,
    .destroy = chat_destroy,
    .format = chat_format,
    .render = chat_render,
    .prompt_free = prompt_free,
    .view = prompt_view,
    .constraint = prompt_constraint,
    .close_thought = chat_close_thought,
    .parser_create = vl_chat_parser_create,
    .parser_destroy = vl_chat_parser_destroy,
    .feed = vl_chat_parser_feed,
    .finish = vl_chat_parser_finish,
    .state = vl_chat_parser_state,
    .reasoning_tokens = vl_chat_parser_reasoning_tokens,
};
