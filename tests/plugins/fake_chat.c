/* tests/plugins/fake_chat.c: a small chat format: "[role]text\n" a message, "[assistant]" before
 * the answer, thoughts between <think> and
 * </think>, calls as <call>name arguments</call>. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

struct vl_chat {
    int unused;
};

enum { PIECES = 256 };
struct vl_chat_prompt {
    vl_buf text;
    vl_piece pieces[PIECES];
    size_t at[PIECES];
    size_t n_pieces;
    vl_chat_mark marks[PIECES];
    size_t n_marks;
    int32_t start;
};

struct vl_chat_parser {
    int32_t state;
    uint64_t fed, reasoning;
    uint32_t calls;
    uint64_t first; /* token whose text waits: none ever does here */
    int in_name;
    vl_buf name;
};

static vl_status chat_create(vl_instance *self, const vl_chat_params *params, vl_chat **out,
                             vl_error *err)
{
    (void)self;
    (void)params;
    *out = calloc(1, sizeof **out);
    return *out != NULL ? VL_OK : vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
}

static void chat_destroy(vl_chat *c)
{
    free(c);
}

static const char *chat_format(const vl_chat *c)
{
    (void)c;
    return "fake";
}

static void add(vl_chat_prompt *p, int32_t kind, const char *text, size_t len)
{
    if (p->n_pieces == PIECES)
        return;
    p->at[p->n_pieces] = p->text.len;
    p->pieces[p->n_pieces++] = (vl_piece){NULL, len, kind, 0};
    vl_buf_append(&p->text, text, len);
}

static void mark(vl_chat_prompt *p, int32_t kind, uint32_t message)
{
    if (p->n_marks < PIECES)
        p->marks[p->n_marks++] = (vl_chat_mark){p->text.len, kind, message};
}

static void prompt_free(vl_chat_prompt *p)
{
    if (p != NULL)
        vl_buf_fini(&p->text);
    free(p);
}

static vl_status render_messages(vl_chat_prompt *p, vl_json messages, vl_chat_field *field,
                                 vl_error *err)
{
    vl_status rc = VL_OK;
    vl_buf text = VL_BUF_INIT;

    for (vl_json_iter it = vl_json_each(messages); vl_json_next(&it) && rc == VL_OK;) {
        char role[32] = "", head[40];
        vl_buf_clear(&text);
        if (!vl_json_str_copy(vl_json_get(it.value, "role"), role, sizeof role) ||
            !vl_json_str(vl_json_get(it.value, "content"), &text)) {
            snprintf(field->path, sizeof field->path, "messages[%u].content", it.index);
            rc = vl_error_set(err, VL_E_INVALID, "messages[%u]: want role and content", it.index);
            break;
        }
        snprintf(head, sizeof head, "[%s]", role);
        add(p, VL_PIECE_TEMPLATE, head, strlen(head));
        add(p, VL_PIECE_TEXT, text.ptr, text.len);
        add(p, VL_PIECE_TEMPLATE, "\n", 1);
        mark(p, strcmp(role, "system") == 0 ? VL_MARK_SYSTEM_END : VL_MARK_MESSAGE_END, it.index);
    }
    vl_buf_fini(&text);
    return rc;
}

static vl_status chat_render(const vl_chat *c, vl_bytes request, vl_chat_prompt **out,
                             vl_chat_field *field, vl_error *err)
{
    vl_json_doc doc = {0};
    bool think = false;
    vl_chat_prompt *p = calloc(1, sizeof *p);
    (void)c;

    vl_status rc = p == NULL ? vl_error_set(err, VL_E_NOMEM, "fake: out of memory")
                             : vl_json_parse(&doc, request.ptr, request.len, 32, 0, err);
    if (rc == VL_OK)
        rc = render_messages(p, vl_json_get(vl_json_root(&doc), "messages"), field, err);
    if (rc == VL_OK) {
        mark(p, VL_MARK_HEADER, 0);
        (void)vl_json_bool(vl_json_get(vl_json_root(&doc), "enable_thinking"), &think);
        const char *head = think ? "[assistant]<think>" : "[assistant]";
        add(p, VL_PIECE_TEMPLATE, head, strlen(head));
        p->start = think ? VL_CHAT_REASONING : VL_CHAT_CONTENT;
        for (size_t i = 0; i < p->n_pieces; i++)
            p->pieces[i].ptr = p->text.ptr + p->at[i];
        *out = p;
        p = NULL;
    }
    prompt_free(p);
    vl_json_doc_fini(&doc);
    return rc;
}

static void chat_view(const vl_chat_prompt *p, vl_chat_view *v)
{
    v->start_state = p->start;
    v->pieces = p->pieces;
    v->n_pieces = p->n_pieces;
    v->marks = p->marks;
    v->n_marks = p->n_marks;
    v->thinking = p->start == VL_CHAT_REASONING;
    v->has_tools = 1;
}

static vl_status chat_constraint(const vl_chat_prompt *p, const vl_constraint_node **nodes,
                                 uint64_t *n, vl_error *err)
{
    (void)p;
    (void)err;
    *nodes = NULL;
    *n = 0;
    return VL_OK;
}

static vl_bytes chat_close_thought(const vl_chat *c)
{
    (void)c;
    return (vl_bytes){"\n</think>\n", 10};
}

static vl_status parser_create(const vl_chat *c, const vl_chat_prompt *p, vl_chat_parser **out,
                               vl_error *err)
{
    (void)c;
    vl_chat_parser *x = calloc(1, sizeof *x);
    if (x == NULL)
        return vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
    x->state = p->start;
    FAKE_ADD(parsers, 1);
    *out = x;
    return VL_OK;
}

static void parser_destroy(vl_chat_parser *p)
{
    if (p == NULL)
        return;
    FAKE_ADD(parsers, -1);
    vl_buf_fini(&p->name);
    free(p);
}

static int32_t emit(vl_chat_parser *p, int32_t kind, const char *text, size_t len,
                    vl_chat_event_fn fn, void *user)
{
    vl_chat_event ev = {.struct_size = sizeof ev,
                        .kind = kind,
                        .text = {text, len},
                        .first_token = p->first,
                        .end_token = p->fed,
                        .index = p->calls};
    p->first = p->fed;
    return fn(user, &ev);
}

static int32_t in_call(vl_chat_parser *p, vl_bytes text, vl_chat_event_fn fn, void *user)
{
    const char *space = p->in_name ? memchr(text.ptr, ' ', text.len) : NULL;

    if (!p->in_name)
        return emit(p, VL_CHAT_EV_ARGUMENTS, text.ptr, text.len, fn, user);
    if (space == NULL) {
        vl_buf_append(&p->name, text.ptr, text.len);
        return 0;
    }
    vl_buf_append(&p->name, text.ptr, (size_t)(space - text.ptr));
    p->in_name = 0;
    return emit(p, VL_CHAT_EV_CALL, p->name.ptr, p->name.len, fn, user);
}

static vl_status parser_feed(vl_chat_parser *p, int32_t id, vl_bytes text, vl_chat_event_fn fn,
                             void *user, vl_error *err)
{
    int32_t stop = 0;

    p->fed++;
    if (p->state == VL_CHAT_REASONING)
        p->reasoning++;
    if (id == FAKE_THINK) {
        p->state = VL_CHAT_REASONING;
    } else if (id == FAKE_THINK_END) {
        p->state = VL_CHAT_CONTENT;
        p->first = p->fed;
    } else if (id == FAKE_CALL) {
        p->state = VL_CHAT_TOOL;
        p->in_name = 1;
        vl_buf_clear(&p->name);
    } else if (id == FAKE_CALL_END && p->state == VL_CHAT_TOOL) {
        p->state = VL_CHAT_CONTENT;
        stop = emit(p, VL_CHAT_EV_CALL_END, NULL, 0, fn, user);
        p->calls++;
    } else if (text.len > 0 && p->state == VL_CHAT_TOOL) {
        stop = in_call(p, text, fn, user);
    } else if (text.len > 0) {
        stop = emit(p, p->state == VL_CHAT_REASONING ? VL_CHAT_EV_REASONING : VL_CHAT_EV_CONTENT,
                    text.ptr, text.len, fn, user);
    }
    return stop ? vl_error_set(err, VL_E_CANCELLED, "stopped") : VL_OK;
}

static vl_status parser_finish(vl_chat_parser *p, int32_t how, vl_chat_event_fn fn, void *user,
                               vl_error *err)
{
    if (p->state == VL_CHAT_TOOL && how == VL_CHAT_END_STOP &&
        emit(p, VL_CHAT_EV_CALL_END, NULL, 0, fn, user))
        return vl_error_set(err, VL_E_CANCELLED, "stopped");
    return VL_OK;
}

static int32_t parser_state(const vl_chat_parser *p)
{
    return p->state;
}

static uint64_t parser_reasoning(const vl_chat_parser *p)
{
    return p->reasoning;
}

const vl_chat_api fake_chat_api = {
    .struct_size = sizeof(vl_chat_api),
    .abi_version = VL_ABI_VERSION,
    .create = chat_create,
    .destroy = chat_destroy,
    .format = chat_format,
    .render = chat_render,
    .prompt_free = prompt_free,
    .view = chat_view,
    .constraint = chat_constraint,
    .close_thought = chat_close_thought,
    .parser_create = parser_create,
    .parser_destroy = parser_destroy,
    .feed = parser_feed,
    .finish = parser_finish,
    .state = parser_state,
    .reasoning_tokens = parser_reasoning,
};
