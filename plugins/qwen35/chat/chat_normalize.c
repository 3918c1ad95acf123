/* plugins/qwen35/chat/chat_normalize.c: from the wire's messages to the plain form that is
 * rendered: roles, joined system messages, content as one text with placeholders, calls with their
 * arguments as text, results in call order. Must not know: how anything is marked up. */
#include <stdlib.h>
#include <string.h>

#include "plugins/qwen35/chat/chat_request.h"

enum { MAX_DEPTH = 65535 };

void vl_chat_request_fini(vl_chat_request *r)
{
    vl_chat_tools_unref(r->tools);
    vl_buf_fini(&r->text);
    free(r->media);
    free(r->messages);
    free(r->calls);
    free(r->args);
    *r = (vl_chat_request){.tools = NULL};
}

/* Appends a string value's text; false if it is none. */
static bool take(vl_chat_request *r, vl_json v, vl_slice *out)
{
    out->at = r->text.len;
    bool ok = vl_json_str(v, &r->text);
    out->len = r->text.len - out->at;
    return ok;
}

/* ---- roles and order ---- */

static vl_status read_role(vl_json m, uint32_t i, int *role, const vl_chat_fault *f)
{
    static const struct {
        const char *name;
        int role;
    } roles[] = {{"system", VL_ROLE_SYSTEM}, {"developer", VL_ROLE_SYSTEM},
                 {"user", VL_ROLE_USER},     {"assistant", VL_ROLE_ASSISTANT},
                 {"tool", VL_ROLE_TOOL},     {"function", VL_ROLE_TOOL}};

    if (!vl_json_is(m, VL_JSON_OBJECT))
        return vl_chat_fail(vl_chat_at(f, "messages[%u]", i),
                            "messages[%u] must be an object, not %s", i, vl_chat_kind(m));
    for (size_t k = 0; k < sizeof(roles) / sizeof(roles[0]); k++) {
        if (vl_json_str_eq(vl_json_get(m, "role"), roles[k].name)) {
            *role = roles[k].role;
            return VL_OK;
        }
    }
    return vl_chat_fail(vl_chat_at(f, "messages[%u].role", i), "Unexpected message role.");
}

/* The messages in order, without their contents. Strict: a system message that is not first is
 * refused. */
static vl_status list_messages(const vl_chat *c, vl_json root, vl_chat_request *r,
                               const vl_chat_fault *f)
{
    vl_json list = vl_json_get(root, "messages");

    if (!vl_json_is(list, VL_JSON_ARRAY))
        return vl_chat_fail(vl_chat_at(f, "messages"), "messages must be a list, it is %s",
                            vl_chat_kind(list));
    if (vl_json_count(list) == 0)
        return vl_chat_fail(vl_chat_at(f, "messages"), "No messages provided.");
    if (!vl_grow(&r->messages, &r->messages_cap, vl_json_count(list), sizeof(*r->messages)))
        return vl_chat_no_memory(f);
    for (vl_json_iter it = vl_json_each(list); vl_json_next(&it);) {
        vl_chat_message *m = &r->messages[r->n_messages];
        *m = (vl_chat_message){.source = it.value, .index = it.index};
        vl_status rc = read_role(it.value, it.index, &m->role, f);
        if (rc != VL_OK)
            return rc;
        if (m->role == VL_ROLE_SYSTEM && it.index > 0 && c->strict)
            return vl_chat_fail(vl_chat_at(f, "messages[%u]", it.index),
                                "System message must be at the beginning.");
        r->n_messages++;
    }
    return VL_OK;
}

/* Moves the system messages to the front; both orders stay. */
static vl_status hoist_system(vl_chat_request *r, const vl_chat_fault *f)
{
    size_t n = 0;
    vl_chat_message *sorted = calloc(r->n_messages, sizeof(*sorted));

    if (!sorted)
        return vl_chat_no_memory(f);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < r->n_messages; i++) {
            if ((r->messages[i].role == VL_ROLE_SYSTEM) == (pass == 0))
                sorted[n++] = r->messages[i];
        }
    }
    memcpy(r->messages, sorted, n * sizeof(*sorted));
    free(sorted);
    return VL_OK;
}

/* ---- calls ---- */

/* The text of an argument between its tags. */
static bool put_value(const vl_chat *c, vl_chat_request *r, vl_json v)
{
    static const char *const python[] = {"None", "False", "True"};

    if (vl_json_is(v, VL_JSON_STRING))
        return vl_json_str(v, &r->text);
    if (v.node->type <= VL_JSON_TRUE && c->traits->python_scalars)
        vl_buf_puts(&r->text, python[v.node->type]);
    else
        vl_json_put(&r->text, v, ", ", ": ", 0);
    return !r->text.failed;
}

static vl_chat_arg *add_arg(vl_chat_request *r)
{
    if (!vl_grow(&r->args, &r->args_cap, r->n_args + 1, sizeof(*r->args)))
        return NULL;
    return &r->args[r->n_args++];
}

static bool add_object_args(const vl_chat *c, vl_chat_request *r, vl_json object)
{
    for (vl_json_iter it = vl_json_each(object); vl_json_next(&it);) {
        vl_chat_arg *a = add_arg(r);
        if (!a || !take(r, it.key, &a->key))
            return false;
        a->value.at = r->text.len;
        if (!put_value(c, r, it.value))
            return false;
        a->value.len = r->text.len - a->value.at;
    }
    return true;
}

/* What is no JSON object (usually an earlier call that was cut, echoed back) becomes one parameter
 * named "arguments": refusing it would leave the conversation stuck. */
static bool add_raw_arg(vl_chat_request *r, const char *text, size_t len)
{
    vl_chat_arg *a = add_arg(r);
    if (!a)
        return false;
    a->key.at = r->text.len;
    vl_buf_puts(&r->text, "arguments");
    a->key.len = r->text.len - a->key.at;
    a->value.at = r->text.len;
    vl_buf_append(&r->text, text, len);
    a->value.len = len;
    return !r->text.failed;
}

static bool read_arguments(const vl_chat *c, vl_chat_request *r, vl_json v)
{
    vl_buf text = VL_BUF_INIT;
    vl_json_doc doc;
    bool ok = true;

    if (vl_json_is_null(v))
        return true;
    if (vl_json_is(v, VL_JSON_OBJECT))
        return add_object_args(c, r, v);
    if (!vl_json_is(v, VL_JSON_STRING)) {
        vl_bytes raw = vl_json_raw(v);
        return add_raw_arg(r, raw.ptr, raw.len);
    }
    if (!vl_json_str(v, &text)) {
        vl_buf_fini(&text);
        return false;
    }
    if (vl_chat_space_before(text.ptr, text.len) < text.len) {
        vl_status rc = vl_json_parse(&doc, text.ptr, text.len, MAX_DEPTH, 0, NULL);
        vl_json root = rc == VL_OK ? vl_json_root(&doc) : (vl_json){NULL, NULL};
        if (rc == VL_E_NOMEM)
            ok = false;
        else if (vl_json_is(root, VL_JSON_OBJECT))
            ok = add_object_args(c, r, root);
        else if (!vl_json_is(root, VL_JSON_NULL))
            ok = add_raw_arg(r, text.ptr, text.len);
        if (rc == VL_OK)
            vl_json_doc_fini(&doc);
    }
    vl_buf_fini(&text);
    return ok;
}

/* One call: {"id", "function": {"name", "arguments"}}, or the bare function. path: "tool_calls[2]".
 */
static vl_status add_call(const vl_chat *c, vl_chat_request *r, vl_chat_message *m, vl_json entry,
                          const char *path, const vl_chat_fault *f)
{
    vl_json function = vl_json_get(entry, "function");
    const char *inner = ".function";

    if (!vl_json_exists(function) && vl_json_exists(vl_json_get(entry, "name"))) {
        function = entry;
        inner = "";
    }
    if (!vl_json_is(function, VL_JSON_OBJECT))
        return vl_chat_fail(vl_chat_at(f, "messages[%u].%s%s", m->index, path, inner),
                            "messages[%u].%s%s must be an object, it is %s", m->index, path, inner,
                            vl_chat_kind(function));
    vl_json name = vl_json_get(function, "name");
    if (!vl_json_is(name, VL_JSON_STRING))
        return vl_chat_fail(vl_chat_at(f, "messages[%u].%s%s.name", m->index, path, inner),
                            "messages[%u].%s%s.name must be a string, it is %s", m->index, path,
                            inner, vl_chat_kind(name));
    if (!vl_grow(&r->calls, &r->calls_cap, r->n_calls + 1, sizeof(*r->calls)))
        return vl_chat_no_memory(f);
    vl_chat_call call = {.first_arg = r->n_args};
    if (!take(r, name, &call.name))
        return vl_chat_no_memory(f);
    call.has_id = take(r, vl_json_get(entry, "id"), &call.id);
    if (!read_arguments(c, r, vl_json_get(function, "arguments")))
        return vl_chat_no_memory(f);
    call.n_args = r->n_args - call.first_arg;
    r->calls[r->n_calls++] = call;
    m->n_calls++;
    return VL_OK;
}

static vl_status read_calls(const vl_chat *c, vl_chat_request *r, vl_chat_message *m,
                            const vl_chat_fault *f)
{
    vl_json list = vl_json_get(m->source, "tool_calls");
    vl_json legacy = vl_json_get(m->source, "function_call");
    vl_status rc = VL_OK;

    m->first_call = r->n_calls;
    if (!vl_json_is_null(list) && !vl_json_is(list, VL_JSON_ARRAY))
        return vl_chat_fail(vl_chat_at(f, "messages[%u].tool_calls", m->index),
                            "messages[%u].tool_calls must be a list, not %s", m->index,
                            vl_chat_kind(list));
    for (vl_json_iter it = vl_json_each(list); rc == VL_OK && vl_json_next(&it);) {
        vl_buf path = VL_BUF_INIT;
        vl_buf_printf(&path, "tool_calls[%u]", it.index);
        rc = path.failed ? vl_chat_no_memory(f) : add_call(c, r, m, it.value, path.ptr, f);
        vl_buf_fini(&path);
    }
    if (rc == VL_OK && vl_json_count(list) == 0 && !vl_json_is_null(legacy)) {
        if (!vl_json_is(legacy, VL_JSON_OBJECT))
            return vl_chat_fail(vl_chat_at(f, "messages[%u].function_call", m->index),
                                "messages[%u].function_call must be an object, not %s", m->index,
                                vl_chat_kind(legacy));
        rc = add_call(c, r, m, legacy, "function_call", f);
    }
    return rc;
}

static void read_reasoning(vl_chat_request *r, vl_chat_message *m)
{
    static const char *const names[] = {"reasoning_content", "reasoning"};

    /* An empty string counts as none: the inline <think> of old content is then still taken apart.
     */
    for (size_t i = 0; i < 2 && !m->has_reasoning; i++) {
        vl_slice s;
        m->has_reasoning = take(r, vl_json_get(m->source, names[i]), &s) && s.len > 0;
        m->reasoning = s;
    }
}

/* ---- tool results ---- */

static bool same_slice(const vl_chat_request *r, vl_slice a, vl_slice b)
{
    return a.len == b.len && memcmp(r->text.ptr + a.at, r->text.ptr + b.at, a.len) == 0;
}

/* Where the call with this id stands among the calls of m, or SIZE_MAX. */
static size_t call_of(const vl_chat_request *r, const vl_chat_message *m,
                      const vl_chat_message *result)
{
    for (size_t k = 0; k < m->n_calls && result->has_id; k++) {
        const vl_chat_call *call = &r->calls[m->first_call + k];
        if (call->has_id && same_slice(r, call->id, result->id))
            return k;
    }
    return SIZE_MAX;
}

static vl_status bad_result(const vl_chat_request *r, const vl_chat_message *m, const char *what,
                            const vl_chat_fault *f)
{
    int len = m->has_id ? (int)(m->id.len > 100 ? 100 : m->id.len) : 7;
    return vl_chat_fail(vl_chat_at(f, "messages[%u].tool_call_id", m->index),
                        "messages[%u].tool_call_id is %.*s, which %s", m->index, len,
                        m->has_id ? r->text.ptr + m->id.at : "missing", what);
}

/* Results carry no ids in the prompt: the model matches them to the calls by position. A block of
 * results whose ids are exactly those of the calls before it is put into their order; else the
 * order stays (strict: refused). */
static vl_status order_results(const vl_chat *c, vl_chat_request *r, size_t first, size_t n,
                               const vl_chat_fault *f)
{
    const vl_chat_message none = {.role = VL_ROLE_USER};
    const vl_chat_message *caller = first > 0 ? &r->messages[first - 1] : &none;
    vl_chat_message *block = &r->messages[first];
    size_t n_calls = caller->role == VL_ROLE_ASSISTANT ? caller->n_calls : 0;
    vl_status rc = VL_OK;
    bool exact = n == n_calls;
    vl_chat_message *sorted = calloc(n_calls + 1, sizeof(*sorted));
    bool *taken = calloc(n_calls + 1, sizeof(*taken));

    if (!sorted || !taken) {
        rc = vl_chat_no_memory(f);
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        size_t k = n_calls ? call_of(r, caller, &block[i]) : SIZE_MAX;
        if (k == SIZE_MAX || taken[k]) {
            exact = false;
            if (c->strict) {
                rc = bad_result(r, &block[i],
                                k == SIZE_MAX ? "belongs to none of the calls before it"
                                              : "has a result already",
                                f);
                goto out;
            }
            continue;
        }
        taken[k] = true;
        sorted[k] = block[i];
    }
    for (size_t k = 0; k < n_calls && c->strict; k++) {
        const vl_chat_call *call = &r->calls[caller->first_call + k];
        if (!taken[k]) {
            rc = vl_chat_fail(vl_chat_at(f, "messages[%u].tool_calls[%zu]", caller->index, k),
                              "messages[%u].tool_calls[%zu] (id %.*s) has no result", caller->index,
                              k, call->has_id ? (int)(call->id.len > 100 ? 100 : call->id.len) : 7,
                              call->has_id ? r->text.ptr + call->id.at : "missing");
            goto out;
        }
    }
    if (exact)
        memcpy(block, sorted, n * sizeof(*block));
out:
    free(sorted);
    free(taken);
    return rc;
}

static vl_status order_all_results(const vl_chat *c, vl_chat_request *r, const vl_chat_fault *f)
{
    for (size_t i = 0; i < r->n_messages;) {
        size_t n = 0;
        while (i + n < r->n_messages && r->messages[i + n].role == VL_ROLE_TOOL)
            n++;
        vl_status rc = n ? order_results(c, r, i, n, f) : VL_OK;
        if (rc != VL_OK)
            return rc;
        i += n ? n : 1;
    }
    return VL_OK;
}

/* ---- content ---- */

static bool has(vl_json part, const char *key)
{
    return vl_json_exists(vl_json_get(part, key));
}

static vl_status put_media(const vl_chat *c, vl_chat_request *r, const vl_chat_message *m,
                           bool image, uint32_t k, const vl_chat_fault *f)
{
    const vl_chat_fault *at = vl_chat_at(f, "messages[%u].content[%u]", m->index, k);
    uint32_t *count = image ? &r->n_images : &r->n_videos;

    if (m->role == VL_ROLE_SYSTEM)
        return vl_chat_fail(at, "System message cannot contain %s.", image ? "images" : "videos");
    if (!c->media)
        return vl_chat_fail(at, "messages[%u].content[%u]: this server takes no %s input", m->index,
                            k, image ? "image" : "video");
    ++*count;
    if (r->add_vision_id)
        vl_buf_printf(&r->text, "%s %u: ", image ? "Picture" : "Video", *count);
    if (!vl_grow(&r->media, &r->media_cap, r->n_media + 1, sizeof(*r->media)))
        return vl_chat_no_memory(f);
    vl_slice *s = &r->media[r->n_media++];
    s->at = r->text.len;
    vl_buf_printf(&r->text, "<|vision_start|><|%s_pad|><|vision_end|>", image ? "image" : "video");
    s->len = r->text.len - s->at;
    return VL_OK;
}

static vl_status put_part(const vl_chat *c, vl_chat_request *r, const vl_chat_message *m,
                          vl_json part, uint32_t k, const vl_chat_fault *f)
{
    vl_json type = vl_json_get(part, "type");

    if (has(part, "image") || has(part, "image_url") || vl_json_str_eq(type, "image") ||
        vl_json_str_eq(type, "input_image"))
        return put_media(c, r, m, true, k, f);
    if (has(part, "video") || has(part, "video_url") || vl_json_str_eq(type, "video"))
        return put_media(c, r, m, false, k, f);
    vl_chat_at(f, "messages[%u].content[%u]", m->index, k);
    if (vl_json_str_eq(type, "input_audio") || has(part, "input_audio"))
        return vl_chat_fail(f, "messages[%u].content[%u]: this server takes no audio input",
                            m->index, k);
    if (vl_json_str_eq(type, "file") || vl_json_str_eq(type, "input_file") || has(part, "file"))
        return vl_chat_fail(f, "messages[%u].content[%u]: this server takes no file input",
                            m->index, k);
    vl_json text = vl_json_get(part, vl_json_str_eq(type, "refusal") ? "refusal" : "text");
    if (!vl_json_exists(text))
        return vl_chat_fail(f, "Unexpected item type in content.");
    if (!vl_json_is(text, VL_JSON_STRING))
        return vl_chat_fail(vl_chat_at(f, "messages[%u].content[%u].text", m->index, k),
                            "messages[%u].content[%u].text must be a string, not %s", m->index, k,
                            vl_chat_kind(text));
    return vl_json_str(text, &r->text) ? VL_OK : vl_chat_no_memory(f);
}

static vl_status read_content(const vl_chat *c, vl_chat_request *r, vl_chat_message *m,
                              const vl_chat_fault *f)
{
    vl_json v = vl_json_get(m->source, "content");
    vl_status rc = VL_OK;

    m->content.at = r->text.len;
    if (vl_json_is(v, VL_JSON_STRING)) {
        if (!vl_json_str(v, &r->text))
            rc = vl_chat_no_memory(f);
    } else if (vl_json_is(v, VL_JSON_ARRAY)) {
        for (vl_json_iter it = vl_json_each(v); rc == VL_OK && vl_json_next(&it);)
            rc = put_part(c, r, m, it.value, it.index, f);
    } else if (!vl_json_is_null(v)) {
        rc = vl_chat_fail(vl_chat_at(f, "messages[%u].content", m->index),
                          "Unexpected content type.");
    }
    m->content.len = r->text.len - m->content.at;
    return rc;
}

/* Joins the system messages (which stand at the front by now) to one, with a blank line between
 * those that say something. */
static vl_status join_system(vl_chat_request *r, const vl_chat_fault *f)
{
    vl_slice all;
    size_t n = 0;

    while (n < r->n_messages && r->messages[n].role == VL_ROLE_SYSTEM)
        n++;
    if (n < 2)
        return VL_OK;
    all.at = r->text.len;
    for (size_t i = 0; i < n; i++) {
        vl_slice s = r->messages[i].content;
        if (vl_chat_trim(r->text.ptr, s).len == 0)
            continue;
        if (r->text.len > all.at)
            vl_buf_puts(&r->text, "\n\n");
        if (!vl_buf_reserve(&r->text, s.len)) /* s lies in the buffer that grows */
            return vl_chat_no_memory(f);
        vl_buf_append(&r->text, r->text.ptr + s.at, s.len);
    }
    all.len = r->text.len - all.at;
    r->messages[0].content = all;
    r->n_messages -= n - 1;
    memmove(&r->messages[1], &r->messages[n], (r->n_messages - 1) * sizeof(*r->messages));
    return VL_OK;
}

/* ---- the whole ---- */

static vl_status check_continuation(const vl_chat_request *r, const vl_chat_fault *f)
{
    const vl_chat_message *last = &r->messages[r->n_messages - 1];

    if (!r->continue_final || last->role == VL_ROLE_ASSISTANT)
        return VL_OK;
    return vl_chat_fail(vl_chat_at(f, "continue_final_message"),
                        "continue_final_message: the last message is not the assistant's");
}

vl_status vl_chat_request_read(const vl_chat *c, vl_json root, vl_chat_request *r,
                               const vl_chat_fault *f)
{
    if (!vl_json_is(root, VL_JSON_OBJECT))
        return vl_chat_fail(vl_chat_at(f, "%s", ""), "the request must be an object, not %s",
                            vl_chat_kind(root));
    vl_buf_reserve(&r->text, 256); /* so that its pointer is never NULL */
    vl_status rc = vl_chat_kwargs_read(c, root, r, f);
    if (rc == VL_OK)
        rc = vl_chat_tools_read(root, r, f);
    if (rc == VL_OK)
        rc = list_messages(c, root, r, f);
    if (rc == VL_OK)
        rc = hoist_system(r, f);
    for (size_t i = 0; rc == VL_OK && i < r->n_messages; i++) {
        vl_chat_message *m = &r->messages[i];
        if (m->role == VL_ROLE_ASSISTANT) {
            read_reasoning(r, m);
            rc = read_calls(c, r, m, f);
        } else if (m->role == VL_ROLE_TOOL) {
            m->has_id = take(r, vl_json_get(m->source, "tool_call_id"), &m->id);
        }
    }
    if (rc == VL_OK)
        rc = order_all_results(c, r, f);
    /* Contents come in their final order, so that pictures are numbered as the prompt shows them.
     */
    for (size_t i = 0; rc == VL_OK && i < r->n_messages; i++)
        rc = read_content(c, r, &r->messages[i], f);
    if (rc == VL_OK)
        rc = join_system(r, f);
    if (rc == VL_OK)
        rc = check_continuation(r, f);
    if (rc == VL_OK && r->text.failed)
        rc = vl_chat_no_memory(f);
    return rc;
}
