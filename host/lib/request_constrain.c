/* host/lib/request_constrain.c: what constrains a request's answer, made on a worker once its
 * prompt is rendered: its response_format, the chat format's constraint on calls, or either of
 * both. Knows no markup: what a call looks like comes from the chat format. */
#include "host/lib/constrain/constrain.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "host/lib/engine_private.h"

enum { BODY_DEPTH = 1000 };

/* The model's tokens as the constraints need them: made with the first request that does. */
static vl_status vocabulary(vl_engine *e, vl_vocabulary **out, vl_error *err)
{
    vl_status rc = VL_OK;

    pthread_mutex_lock(&e->vocabulary_lock);
    if (e->vocabulary == NULL)
        rc = vl_vocabulary_create(e->p.tokenizer_api, e->p.tokenizer, &e->vocabulary, err);
    *out = e->vocabulary;
    pthread_mutex_unlock(&e->vocabulary_lock);
    return rc;
}

static void put_member(vl_buf *out, vl_json body, const char *name)
{
    vl_json v = vl_json_get(body, name);
    vl_bytes raw = vl_json_raw(v);

    if (vl_json_is_null(v))
        return;
    vl_buf_printf(out, ",\"%s\":", name);
    vl_buf_append(out, raw.ptr, raw.len);
}

/* With tools and a free choice the answer may be calls instead of content. Their form is what the
 * chat format says of calls that must come: of a short prompt with the same tools. */
static vl_status render_calls(const vl_engine *e, const vl_request *r, vl_chat_prompt **out,
                              vl_error *err)
{
    vl_json_doc doc = {0};
    vl_buf text = VL_BUF_INIT;
    vl_chat_field field = {""};
    vl_status rc = vl_json_parse(&doc, r->chat_json, r->chat_json_len, BODY_DEPTH, 0, err);

    if (rc == VL_OK) {
        vl_json body = vl_json_root(&doc);
        vl_buf_puts(&text, "{\"messages\":[{\"role\":\"user\",\"content\":\"-\"}]");
        put_member(&text, body, "tools");
        put_member(&text, body, "functions");
        put_member(&text, body, "parallel_tool_calls");
        vl_buf_puts(&text, ",\"tool_choice\":\"required\"}");
        rc = text.failed ? vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory")
                         : e->p.chat_api->render(e->p.chat, (vl_bytes){text.ptr, text.len}, out,
                                                 &field, err);
    }
    vl_json_doc_fini(&doc);
    vl_buf_fini(&text);
    return rc;
}

vl_status vl_request_constrain(vl_engine *e, vl_request *r, vl_error *err)
{
    const vl_chat_api *chat = e->p.chat_api;
    struct vl_constrain_params p = {
        .response_format = {r->response_format, r->response_format_len}};
    vl_chat_view view = {.struct_size = sizeof view};
    vl_chat_prompt *calls = NULL;
    vl_vocabulary *v = NULL;
    vl_constrain *c = NULL;
    vl_status rc = VL_OK;

    if (r->chat_prompt != NULL && chat->constraint != NULL)
        rc = chat->constraint(r->chat_prompt, &p.nodes, &p.n_nodes, err);
    p.calls_required = p.n_nodes > 0;
    if (rc != VL_OK || (p.n_nodes == 0 && p.response_format.len == 0))
        return rc;
    if (p.n_nodes == 0 && r->chat_prompt != NULL && chat->constraint != NULL) {
        chat->view(r->chat_prompt, &view);
        if (view.has_tools)
            rc = render_calls(e, r, &calls, err);
        if (rc == VL_OK && calls != NULL)
            rc = chat->constraint(calls, &p.nodes, &p.n_nodes, err);
    }
    if (rc == VL_OK)
        rc = vocabulary(e, &v, err);
    if (rc == VL_OK)
        rc = vl_constrain_create(v, &p, &c, r->field, err);
    if (calls != NULL)
        chat->prompt_free(calls);
    if (rc == VL_OK && c != NULL) {
        r->p.mask = &vl_constrain_api;
        r->p.mask_factory = c;
    }
    return rc;
}
