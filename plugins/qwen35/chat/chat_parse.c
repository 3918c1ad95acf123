/* plugins/qwen35/chat/chat_parse.c: the output stream as thought and answer: feeding, token
 * accounting, and the two states outside of calls. Must not know: how a call is written. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/qwen35/chat/chat_parser.h"

/* ---- helpers that both halves use ---- */

/* Counts the tokens that begin before `upto` as told. A token of no bytes belongs to the text
 * behind it. */
static void account(vl_chat_parser *p, uint64_t upto)
{
    while (p->first_end < p->n_ends && p->token_start < upto) {
        p->token_start = p->ends[p->first_end++];
        p->next_token++;
    }
}

void vl_parser_emit(vl_chat_parser *p, int kind, const char *text, size_t len, uint64_t upto)
{
    vl_chat_event e = {.struct_size = sizeof(e), .kind = kind, .text = {text, len}};

    if (p->rc != VL_OK)
        return;
    e.first_token = p->next_token;
    account(p, upto);
    e.end_token = p->next_token;
    if (kind >= VL_CHAT_EV_CALL)
        e.index = p->n_calls - 1;
    if (p->fn && p->fn(p->user, &e) != 0)
        p->rc = vl_error_set(p->err, VL_E_CANCELLED, "stopped by the receiver of the events");
}

void vl_parser_skip(vl_chat_parser *p, uint64_t pos)
{
    account(p, pos);
    p->at = pos;
    while (p->first_mark < p->n_marks && p->marks[p->first_mark].at < pos)
        p->first_mark++;
}

const vl_tag_mark *vl_parser_mark(const vl_chat_parser *p, uint64_t pos)
{
    size_t low = p->first_mark, high = p->n_marks;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->marks[mid].at >= pos)
            high = mid;
        else
            low = mid + 1;
    }
    return low < p->n_marks ? &p->marks[low] : NULL;
}

int vl_parser_look(const vl_chat_parser *p, uint64_t pos, const char *word)
{
    size_t len = strlen(word), have = vl_parser_end(p) - pos;
    size_t n = have < len ? have : len;

    if (n > 0 && memcmp(vl_parser_text(p, pos), word, n) != 0)
        return VL_LOOK_NO;
    if (n == len)
        return VL_LOOK_YES;
    return p->final ? VL_LOOK_NO : VL_LOOK_WAIT;
}

uint64_t vl_parser_skip_space(const vl_chat_parser *p, uint64_t pos)
{
    uint64_t end = vl_parser_end(p);
    for (; pos < end; pos++) {
        char c = *vl_parser_text(p, pos);
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
            break;
    }
    return pos;
}

bool vl_parser_failed(vl_chat_parser *p)
{
    if (p->rc == VL_OK && (p->in.failed || p->junk.failed || p->keys.failed))
        p->rc = vl_error_set(p->err, VL_E_NOMEM, "no memory for the output of the model");
    return p->rc != VL_OK;
}

/* ---- thought and answer ---- */

/* Takes a tag out of the middle of what is held, so that the white space around it stays one run.
 * Its token has no text then. */
static void remove_tag(vl_chat_parser *p, const vl_tag_mark *mark)
{
    size_t len = strlen(vl_chat_tags[mark->tag]);
    size_t k = (size_t)(mark - p->marks);
    uint64_t from = mark->at + len;
    char *text = p->in.ptr + (mark->at - p->in_base);

    memmove(text, text + len, vl_parser_end(p) - from + 1); /* the NUL too */
    p->in.len -= len;
    for (size_t i = p->first_end; i < p->n_ends; i++) {
        if (p->ends[i] >= from)
            p->ends[i] -= len;
    }
    if (p->token_start >= from)
        p->token_start -= len;
    memmove(&p->marks[k], &p->marks[k + 1], (p->n_marks - k - 1) * sizeof(*p->marks));
    p->n_marks--;
    for (size_t i = k; i < p->n_marks; i++)
        p->marks[i].at -= len;
}

/* White space that is dropped at the beginning: all of a thought's, the line ends of an answer. */
static uint64_t skip_leading(const vl_chat_parser *p, uint64_t limit)
{
    const char *text = vl_parser_text(p, p->at);
    size_t len = limit - p->at, n = 0;

    if (p->state == VL_CHAT_REASONING)
        return p->at + vl_chat_space_before(text, len);
    while (n < len && (text[n] == '\n' || text[n] == '\r'))
        n++;
    return p->at + n;
}

/* Gives out the text before limit, except the white space at its end, which stays held at `at`. */
static void flow(vl_chat_parser *p, uint64_t limit)
{
    bool thought = p->state == VL_CHAT_REASONING;

    if (!p->begun && limit > p->at) {
        vl_parser_skip(p, skip_leading(p, limit));
        p->begun = p->at < limit;
    }
    uint64_t known = p->space_until > p->at ? p->space_until : p->at;
    if (limit <= known)
        return;
    size_t space = vl_chat_space_behind(vl_parser_text(p, known), limit - known);
    uint64_t until = limit - space;
    p->space_until = limit;
    if (until == known)
        return;
    if (!thought) {
        p->said_anything = true;
        p->call_since = false;
    }
    vl_parser_emit(p, thought ? VL_CHAT_EV_REASONING : VL_CHAT_EV_CONTENT, vl_parser_text(p, p->at),
                   until - p->at, until);
    vl_parser_skip(p, until);
    p->line_start = false;
}

static void leave_thought(vl_chat_parser *p, uint64_t pos)
{
    vl_parser_skip(p, pos);
    p->n_reasoning += p->next_token - p->reasoning_entry;
    p->state = VL_CHAT_CONTENT;
    p->begun = p->said_anything;
    p->line_start = true;
}

/* A <tool_call> stands at the mark: a call, talk, or not yet known. */
static int look_at_call(vl_chat_parser *p, const vl_tag_mark *mark)
{
    uint64_t behind = mark->at + strlen(vl_chat_tags[VL_TAG_TOOL]);
    int look = p->tools ? vl_parser_call_ahead(p, behind) : VL_LOOK_NO;

    if (look == VL_LOOK_NO)
        p->text_until = behind;
    p->undecided = look == VL_LOOK_WAIT;
    return look;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool reasoning_step(vl_chat_parser *p)
{
    const vl_tag_mark *mark = vl_parser_mark(p, later(p->at, p->text_until));

    flow(p, mark ? mark->at : vl_parser_end(p));
    if (p->rc != VL_OK)
        return false;
    if (!mark) {
        if (p->final)
            p->finished = true;
        return false;
    }
    switch (mark->tag) {
    case VL_TAG_THINK:
        remove_tag(p, mark);
        return true;
    case VL_TAG_THINK_END:
        leave_thought(p, mark->at + strlen(vl_chat_tags[VL_TAG_THINK_END]));
        return true;
    case VL_TAG_TOOL: {
        uint64_t tag = mark->at;
        int look = look_at_call(p, mark);
        if (look == VL_LOOK_YES) {
            leave_thought(p, tag);
            vl_parser_tool_begin(p, true);
        }
        return look != VL_LOOK_WAIT;
    }
    default:
        p->text_until = mark->at + strlen(vl_chat_tags[mark->tag]);
        return true;
    }
}

/* A bare "<function=KNOWN>" at the beginning of a line before limit. *where: its place. */
static int find_bare_call(const vl_chat_parser *p, uint64_t limit, uint64_t *where)
{
    uint64_t pos = later(p->at, p->no_call_until);

    while (p->tools && pos < limit) {
        const char *text = vl_parser_text(p, pos);
        const char *hit = memchr(text, '<', limit - pos);
        if (!hit)
            break;
        pos += (uint64_t)(hit - text);
        bool starts = pos == p->at ? p->line_start : hit[-1] == '\n';
        int look = starts ? vl_parser_bare_call(p, pos) : VL_LOOK_NO;
        if (look != VL_LOOK_NO) {
            *where = pos;
            return look;
        }
        pos++;
    }
    return VL_LOOK_NO;
}

/* The message is over: white space at its end belongs to it, unless only a call stands before. */
static void end_content(vl_chat_parser *p)
{
    uint64_t end = vl_parser_end(p);

    if (p->at < end && p->begun && !p->call_since)
        vl_parser_emit(p, VL_CHAT_EV_CONTENT, vl_parser_text(p, p->at), end - p->at, end);
    vl_parser_skip(p, end);
    p->finished = true;
}

static bool content_step(vl_chat_parser *p)
{
    const vl_tag_mark *mark = vl_parser_mark(p, later(p->at, p->text_until));
    uint64_t limit = mark ? mark->at : vl_parser_end(p), where = 0;
    int bare = find_bare_call(p, limit, &where);

    p->undecided = bare == VL_LOOK_WAIT;
    flow(p, bare != VL_LOOK_NO ? where : limit);
    if (p->rc != VL_OK || bare == VL_LOOK_WAIT)
        return false;
    if (bare == VL_LOOK_YES) {
        vl_parser_skip(p, where);
        vl_parser_tool_begin(p, false);
        return true;
    }
    if (!mark) {
        if (p->final)
            end_content(p);
        return false;
    }
    switch (mark->tag) {
    case VL_TAG_THINK_END: /* models repeat it */
        remove_tag(p, mark);
        return true;
    case VL_TAG_THINK:
        if (p->said_anything) {
            p->text_until = mark->at + strlen(vl_chat_tags[VL_TAG_THINK]);
        } else {
            vl_parser_skip(p, mark->at + strlen(vl_chat_tags[VL_TAG_THINK]));
            p->state = VL_CHAT_REASONING;
            p->reasoning_entry = p->next_token;
            p->begun = false;
        }
        return true;
    case VL_TAG_TOOL: {
        uint64_t tag = mark->at;
        int look = look_at_call(p, mark);
        if (look == VL_LOOK_YES) {
            vl_parser_skip(p, tag);
            vl_parser_tool_begin(p, true);
        }
        return look != VL_LOOK_WAIT;
    }
    default:
        p->text_until = mark->at + strlen(vl_chat_tags[mark->tag]);
        return true;
    }
}

/* ---- the table's calls ---- */

vl_status vl_chat_parser_create(const vl_chat *c, const vl_chat_prompt *prompt,
                                vl_chat_parser **out, vl_error *err)
{
    vl_chat_parser *p = calloc(1, sizeof(*p));

    if (!p)
        return vl_error_set(err, VL_E_NOMEM, "no memory for the output parser");
    p->tools = vl_chat_tools_ref(prompt->tools);
    memcpy(p->tag_ids, c->tag_ids, sizeof(p->tag_ids));
    p->state = prompt->start_state;
    p->begun = p->said_anything = prompt->content_begun;
    p->line_start = !prompt->content_begun;
    *out = p;
    return VL_OK;
}

void vl_chat_parser_destroy(vl_chat_parser *p)
{
    if (!p)
        return;
    vl_chat_tools_unref(p->tools);
    vl_buf_fini(&p->in);
    vl_buf_fini(&p->keys);
    vl_buf_fini(&p->junk);
    free(p->marks);
    free(p->ends);
    free(p->seen);
    free(p);
}

/* Drops what is behind us. */
static void compact(vl_chat_parser *p)
{
    vl_buf_consume(&p->in, p->at - p->in_base);
    p->in_base = p->at;
    if (p->first_mark > 0) {
        p->n_marks -= p->first_mark;
        memmove(p->marks, p->marks + p->first_mark, p->n_marks * sizeof(*p->marks));
        p->first_mark = 0;
    }
    if (p->first_end > 64 && p->first_end * 2 >= p->n_ends) {
        p->n_ends -= p->first_end;
        memmove(p->ends, p->ends + p->first_end, p->n_ends * sizeof(*p->ends));
        p->first_end = 0;
    }
}

static vl_status run(vl_chat_parser *p, vl_chat_event_fn fn, void *user, vl_error *err)
{
    bool more = true;

    p->fn = fn;
    p->user = user;
    p->err = err;
    p->rc = VL_OK;
    while (more && !p->finished && !vl_parser_failed(p)) {
        p->undecided = false;
        if (p->state == VL_CHAT_REASONING)
            more = reasoning_step(p);
        else if (p->state == VL_CHAT_CONTENT)
            more = content_step(p);
        else
            more = vl_parser_tool_step(p);
    }
    compact(p);
    p->fn = NULL;
    p->user = NULL;
    p->err = NULL;
    return p->rc;
}

vl_status vl_chat_parser_feed(vl_chat_parser *p, int32_t id, vl_bytes text, vl_chat_event_fn fn,
                              void *user, vl_error *err)
{
    int tag = 0;

    if (p->final)
        return vl_error_set(err, VL_E_STATE, "the output was finished already");
    while (tag < VL_N_TAGS && p->tag_ids[tag] != id)
        tag++;
    if (!vl_grow(&p->marks, &p->marks_cap, p->n_marks + 1, sizeof(*p->marks)) ||
        !vl_grow(&p->ends, &p->ends_cap, p->n_ends + 1, sizeof(*p->ends)))
        return vl_error_set(err, VL_E_NOMEM, "no memory for the output of the model");
    if (tag < VL_N_TAGS) {
        /* The decoder may have put the mended rest of an earlier character before it, or have left
         * it out. */
        const char *name = vl_chat_tags[tag];
        size_t len = strlen(name);
        if (vl_chat_ends(text.ptr ? text.ptr : "", text.len, name))
            text.len -= len;
        vl_buf_append(&p->in, text.ptr, text.len);
        p->marks[p->n_marks++] = (vl_tag_mark){vl_parser_end(p), tag};
        vl_buf_append(&p->in, name, len);
    } else {
        vl_buf_append(&p->in, text.ptr, text.len);
    }
    p->ends[p->n_ends++] = vl_parser_end(p);
    p->n_fed++;
    return run(p, fn, user, err);
}

vl_status vl_chat_parser_finish(vl_chat_parser *p, int32_t how, vl_chat_event_fn fn, void *user,
                                vl_error *err)
{
    if (p->final)
        return vl_error_set(err, VL_E_STATE, "the output was finished already");
    vl_buf_reserve(&p->in, 0); /* nothing may have been fed: the text's pointer must hold */
    p->final = true;
    p->how = how;
    return run(p, fn, user, err);
}

int32_t vl_chat_parser_state(const vl_chat_parser *p)
{
    return p->undecided ? VL_CHAT_TOOL : p->state;
}

uint64_t vl_chat_parser_reasoning_tokens(const vl_chat_parser *p)
{
    uint64_t open = p->state == VL_CHAT_REASONING ? p->n_fed - p->reasoning_entry : 0;
    return p->n_reasoning + open;
}
