/* plugins/qwen35/chat/chat_render.c: a normalised request to pieces and marks. What the template
 * says is a template piece; what anyone else wrote (contents, thoughts, names, keys, values, tools)
 * is a text piece. Pure. */
#include <string.h>

#include "plugins/qwen35/chat/chat_prompt.h"

static const char tools_before[] =
    "# Tools\n\nYou have access to the following functions:\n\n<tools>";
static const char tools_behind[] =
    "\n</tools>\n\n"
    "If you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
    "<tool_call>\n<function=example_function_name>\n"
    "<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\n"
    "that can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n"
    "<IMPORTANT>\nReminder:\n"
    "- Function calls MUST follow the specified format: an inner <function=...></function> block "
    "must be nested within <tool_call></tool_call> XML tags\n"
    "- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE the "
    "function call, but NOT after\n"
    "- If there is no function call available, answer the question like normal with your current "
    "knowledge and do not tell the user about function calls\n"
    "</IMPORTANT>";
static const char effort_xhigh[] =
    "Reasoning effort is set to xhigh. Please think carefully through the task, validate key "
    "assumptions, consider plausible alternatives, and prioritize correctness, consistency, and "
    "clarity in the final answer.";
static const char effort_low[] =
    "Reasoning effort is set to low. Keep your thinking brief and focused, moving directly to the "
    "conclusion without unnecessary elaboration.";

/* ---- pieces ---- */

/* Neighbours of one kind are one piece. */
static void put(vl_chat_prompt *p, int32_t kind, const char *bytes, size_t len)
{
    if (len == 0 || p->failed)
        return;
    if (p->n_pieces == 0 || p->pieces[p->n_pieces - 1].kind != kind) {
        if (!vl_grow(&p->pieces, &p->pieces_cap, p->n_pieces + 1, sizeof(*p->pieces))) {
            p->failed = true;
            return;
        }
        p->pieces[p->n_pieces++] = (vl_piece){.kind = kind};
    }
    vl_buf_append(&p->text, bytes, len);
    p->pieces[p->n_pieces - 1].len += len;
}

static void markup(vl_chat_prompt *p, const char *text)
{
    put(p, VL_PIECE_TEMPLATE, text, strlen(text));
}

/* A slice of the request's text; placeholders of pictures in it are ours. */
static void quote(vl_chat_prompt *p, const vl_chat_request *r, vl_slice s)
{
    const char *base = r->text.ptr;
    size_t low = 0, high = r->n_media; /* the first placeholder that ends behind s.at */

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->media[mid].at + r->media[mid].len > s.at)
            high = mid;
        else
            low = mid + 1;
    }
    while (s.len > 0) {
        bool more = low < r->n_media && r->media[low].at < s.at + s.len;
        size_t plain = more ? r->media[low].at - s.at : s.len;
        put(p, VL_PIECE_TEXT, base + s.at, plain);
        s.at += plain;
        s.len -= plain;
        if (more) {
            put(p, VL_PIECE_TEMPLATE, base + s.at, r->media[low].len);
            s.at += r->media[low].len;
            s.len -= r->media[low].len;
            low++;
        }
    }
}

static void mark(vl_chat_prompt *p, int32_t kind, uint32_t message)
{
    if (!vl_grow(&p->marks, &p->marks_cap, p->n_marks + 1, sizeof(*p->marks))) {
        p->failed = true;
        return;
    }
    p->marks[p->n_marks++] = (vl_chat_mark){p->text.len, kind, message};
}

/* ---- blocks ---- */

static void render_system(const vl_chat *c, const vl_chat_request *r, vl_chat_prompt *p)
{
    bool has_system = r->messages[0].role == VL_ROLE_SYSTEM;
    bool has_tools = r->tools != NULL;
    const char *effort = "";
    vl_slice s = {0, 0};

    if (has_system)
        s = vl_chat_trim(r->text.ptr, r->messages[0].content);
    if (c->traits->has_effort && r->enable_thinking != 0) {
        if (r->effort[0] == '\0' || strcmp(r->effort, "xhigh") == 0)
            effort = effort_xhigh;
        else if (strcmp(r->effort, "low") == 0)
            effort = effort_low;
    }
    bool any = c->traits->has_effort ? effort[0] || s.len > 0 : has_system;
    if (!has_tools && !any)
        return;
    markup(p, "<|im_start|>system\n");
    markup(p, effort);
    if (effort[0] && (has_tools || s.len > 0))
        markup(p, "\n\n");
    if (has_tools) {
        markup(p, tools_before);
        for (size_t i = 0; i < r->tools->n; i++) {
            vl_buf json = VL_BUF_INIT;
            vl_json_put(&json, r->tools->tools[i].tool, ", ", ": ", 0);
            markup(p, "\n");
            put(p, VL_PIECE_TEXT, json.ptr, json.len);
            p->failed = p->failed || json.failed;
            vl_buf_fini(&json);
        }
        markup(p, tools_behind);
        if (s.len > 0)
            markup(p, "\n\n");
    }
    quote(p, r, s);
    markup(p, "<|im_end|>\n");
    mark(p, VL_MARK_SYSTEM_END, 0);
}

static void render_calls(const vl_chat_request *r, const vl_chat_message *m, bool has_content,
                         vl_chat_prompt *p)
{
    for (size_t k = 0; k < m->n_calls; k++) {
        const vl_chat_call *call = &r->calls[m->first_call + k];
        if (k > 0)
            markup(p, "\n");
        else if (has_content)
            markup(p, "\n\n");
        markup(p, "<tool_call>\n<function=");
        quote(p, r, call->name);
        markup(p, ">\n");
        for (size_t a = 0; a < call->n_args; a++) {
            const vl_chat_arg *arg = &r->args[call->first_arg + a];
            markup(p, "<parameter=");
            quote(p, r, arg->key);
            markup(p, ">\n");
            quote(p, r, arg->value);
            markup(p, "\n</parameter>\n");
        }
        markup(p, "</function>\n</tool_call>");
    }
}

static vl_slice skip_newlines(const char *base, vl_slice s)
{
    while (s.len > 0 && base[s.at] == '\n') {
        s.at++;
        s.len--;
    }
    return s;
}

/* Takes an inline thought out of content that a client echoed raw: what lies before the first
 * </think>, behind the last <think> before it; the content is what follows the last </think>. */
static vl_slice split_inline(const char *base, vl_slice *content)
{
    static const char open[] = "<think>", close[] = "</think>";
    vl_slice c = *content, none = {c.at, 0};
    size_t first = vl_chat_find(base + c.at, c.len, close);

    if (first == SIZE_MAX)
        return none;
    vl_slice thought = {c.at, first};
    while (thought.len > 0 && base[thought.at + thought.len - 1] == '\n')
        thought.len--;
    size_t begin = vl_chat_find_last(base + thought.at, thought.len, open);
    if (begin != SIZE_MAX) {
        thought.at += begin + sizeof(open) - 1;
        thought.len -= begin + sizeof(open) - 1;
    }
    size_t skip = vl_chat_find_last(base + c.at, c.len, close) + sizeof(close) - 1;
    *content = skip_newlines(base, (vl_slice){c.at + skip, c.len - skip});
    return skip_newlines(base, thought);
}

static bool keeps_thought(const vl_chat *c, const vl_chat_request *r, bool after_query)
{
    switch (c->traits->keep) {
    case VL_KEEP_IF_ASKED:
        return after_query || r->preserve_thinking == 1;
    case VL_KEEP_UNLESS_REFUSED:
        return after_query || r->preserve_thinking != 0;
    default:
        return after_query;
    }
}

static void render_assistant(const vl_chat *c, const vl_chat_request *r, size_t i, size_t query,
                             vl_chat_prompt *p)
{
    const vl_chat_message *m = &r->messages[i];
    const char *base = r->text.ptr;
    vl_slice content = vl_chat_trim(base, m->content);
    vl_slice thought = m->reasoning;

    if (!m->has_reasoning)
        thought = c->traits->splits_inline ? split_inline(base, &content) : (vl_slice){0, 0};
    markup(p, "<|im_start|>assistant\n");
    if (keeps_thought(c, r, i > query)) {
        markup(p, "<think>\n");
        quote(p, r, vl_chat_trim(base, thought));
        markup(p, "\n</think>\n\n");
    }
    quote(p, r, content);
    render_calls(r, m, vl_chat_trim(base, content).len > 0, p);
    p->content_begun = content.len > 0 || m->n_calls > 0;
}

static void render_tool(const vl_chat_request *r, size_t i, vl_chat_prompt *p)
{
    if (i > 0 && r->messages[i - 1].role != VL_ROLE_TOOL)
        markup(p, "<|im_start|>user");
    markup(p, "\n<tool_response>\n");
    quote(p, r, vl_chat_trim(r->text.ptr, r->messages[i].content));
    markup(p, "\n</tool_response>");
    if (i + 1 == r->n_messages || r->messages[i + 1].role != VL_ROLE_TOOL)
        markup(p, "<|im_end|>\n");
}

size_t vl_chat_last_query(const vl_chat_request *r)
{
    for (size_t i = r->n_messages; i-- > 0;) {
        const vl_chat_message *m = &r->messages[i];
        vl_slice s = vl_chat_trim(r->text.ptr, m->content);
        const char *text = r->text.ptr + s.at;
        if (m->role == VL_ROLE_USER && !(vl_chat_starts(text, s.len, "<tool_response>") &&
                                         vl_chat_ends(text, s.len, "</tool_response>")))
            return i;
    }
    return SIZE_MAX;
}

static void render_header(const vl_chat *c, const vl_chat_request *r, vl_chat_prompt *p)
{
    bool thinks = r->enable_thinking < 0 ? c->traits->thinks_unset : r->enable_thinking != 0;

    mark(p, VL_MARK_HEADER, 0);
    markup(p, "<|im_start|>assistant\n");
    markup(p, thinks ? "<think>\n" : "<think>\n\n</think>\n\n");
    p->thinking = thinks;
    p->start_state = thinks ? VL_CHAT_REASONING : VL_CHAT_CONTENT;
    p->content_begun = false;
}

void vl_chat_render(const vl_chat *c, const vl_chat_request *r, vl_chat_prompt *p)
{
    size_t query = vl_chat_last_query(r);

    p->start_state = VL_CHAT_CONTENT;
    render_system(c, r, p);
    for (size_t i = 0; i < r->n_messages; i++) {
        const vl_chat_message *m = &r->messages[i];
        bool open = r->continue_final && i + 1 == r->n_messages;
        p->content_begun = false;
        if (m->role == VL_ROLE_SYSTEM)
            continue;
        if (m->role == VL_ROLE_USER) {
            markup(p, "<|im_start|>user\n");
            quote(p, r, vl_chat_trim(r->text.ptr, m->content));
            markup(p, "<|im_end|>\n");
        } else if (m->role == VL_ROLE_ASSISTANT) {
            render_assistant(c, r, i, query, p);
            if (!open)
                markup(p, "<|im_end|>\n");
        } else {
            render_tool(r, i, p);
        }
        if (!open)
            mark(p, VL_MARK_MESSAGE_END, m->index);
    }
    if (r->add_generation_prompt)
        render_header(c, r, p);
    else if (!r->continue_final)
        p->content_begun = false;
    p->failed = p->failed || p->text.failed;
}
