/* plugins/qwen35/chat/chat_parse_tool.c: a tool call, from its tag to its end: name, keys, values,
 * and the repairs for what models leave out. Values that can only be strings stream; the others are
 * held until they are whole. */
#include <string.h>

#include "plugins/qwen35/chat/chat_args.h"
#include "plugins/qwen35/chat/chat_parser.h"

enum { MAX_NAME_BYTES = 1024 };

/* ---- tags with a value: <function=NAME>, <parameter=KEY> ---- */

/* A quoted or bare name: trimmed, matching quotes gone. */
static vl_slice clean_name(const vl_chat_parser *p, uint64_t from, uint64_t to)
{
    const char *base = p->in.ptr;
    vl_slice s = vl_chat_trim(base, (vl_slice){from - p->in_base, to - from});

    if (s.len >= 2 && (base[s.at] == '"' || base[s.at] == '\'') &&
        base[s.at + s.len - 1] == base[s.at])
        s = (vl_slice){s.at + 1, s.len - 2};
    return s;
}

/* Reads TAG=VALUE> or TAG name=VALUE> at pos; tag: "<function". On YES *name (offsets in p->in) and
 * *behind are set. A line end or a '<' ends a value whose '>' is missing. */
static int read_tag(const vl_chat_parser *p, uint64_t pos, const char *tag, vl_slice *name,
                    uint64_t *behind)
{
    uint64_t end = vl_parser_end(p), from = pos + strlen(tag), i;
    int look = vl_parser_look(p, pos, tag);

    if (look != VL_LOOK_YES)
        return look;
    look = vl_parser_look(p, from, "=");
    if (look == VL_LOOK_YES) {
        from += 1;
    } else {
        int named = look == VL_LOOK_NO ? vl_parser_look(p, from, " name=") : VL_LOOK_WAIT;
        if (named != VL_LOOK_YES)
            return named;
        from += strlen(" name=");
    }
    for (i = from; i < end && i - from < MAX_NAME_BYTES; i++) {
        char c = *vl_parser_text(p, i);
        if (c == '>' || c == '\n' || c == '<') {
            *name = clean_name(p, from, i);
            *behind = c == '>' ? i + 1 : i;
            return VL_LOOK_YES;
        }
    }
    return i < end || p->final ? VL_LOOK_NO : VL_LOOK_WAIT;
}

int vl_parser_call_ahead(const vl_chat_parser *p, uint64_t pos)
{
    uint64_t from = vl_parser_skip_space(p, pos);
    int a = vl_parser_look(p, from, "<function="), b = vl_parser_look(p, from, "<function name=");

    return a != VL_LOOK_NO ? a : b;
}

int vl_parser_bare_call(const vl_chat_parser *p, uint64_t pos)
{
    static const char tag[] = "<function=";
    uint64_t end = vl_parser_end(p), from = pos + sizeof(tag) - 1;
    int look = vl_parser_look(p, pos, tag);

    if (look != VL_LOOK_YES)
        return look;
    size_t have = end - from;
    const char *text = vl_parser_text(p, from);
    for (size_t i = 0; i < p->tools->n; i++) {
        vl_slice s = p->tools->tools[i].name;
        size_t n = have < s.len ? have : s.len;
        if (memcmp(text, p->tools->names.ptr + s.at, n) != 0)
            continue;
        if (have > s.len && text[s.len] == '>')
            return VL_LOOK_YES;
        if (have <= s.len && !p->final)
            look = VL_LOOK_WAIT;
        else
            continue;
        return look;
    }
    return VL_LOOK_NO;
}

/* ---- events ---- */

static void emit_arguments(vl_chat_parser *p, const vl_buf *json, uint64_t upto)
{
    if (json->failed)
        p->junk.failed = true; /* out of memory, told by vl_parser_failed */
    else if (json->len > 0)
        vl_parser_emit(p, VL_CHAT_EV_ARGUMENTS, json->ptr, json->len, upto);
}

void vl_parser_tool_begin(vl_chat_parser *p, bool wrapped)
{
    p->state = VL_CHAT_TOOL;
    p->tool_state = VL_TOOL_NAME;
    p->wrapped = wrapped;
}

static void close_arguments(vl_chat_parser *p)
{
    vl_parser_emit(p, VL_CHAT_EV_ARGUMENTS, "}", 1, p->at);
    vl_parser_emit(p, VL_CHAT_EV_CALL_END, "", 0, p->at);
}

/* Back to the answer. What stood between the parameters is told now, so that nothing is lost. */
static void leave_call(vl_chat_parser *p)
{
    p->state = VL_CHAT_CONTENT;
    p->line_start = true;
    p->call_since = true;
    vl_slice s = vl_chat_trim(p->junk.ptr, (vl_slice){0, p->junk.len});
    if (s.len > 0 && !p->junk.failed) {
        vl_parser_emit(p, VL_CHAT_EV_CONTENT, p->junk.ptr + s.at, s.len, p->at);
        p->begun = true;
    }
    vl_buf_clear(&p->junk);
}

/* ---- name ---- */

/* No call after all: its text is content. tag: where "<function" stands or should. */
static void release(vl_chat_parser *p, uint64_t tag)
{
    p->state = VL_CHAT_CONTENT;
    if (p->wrapped)
        p->text_until = p->at + strlen(vl_chat_tags[VL_TAG_TOOL]);
    p->no_call_until = tag + 1;
}

static bool name_step(vl_chat_parser *p)
{
    uint64_t from = p->at, behind = 0;
    vl_slice name = {0, 0};

    if (p->wrapped)
        from = vl_parser_skip_space(p, from + strlen(vl_chat_tags[VL_TAG_TOOL]));
    int look = read_tag(p, from, "<function", &name, &behind);
    if (look == VL_LOOK_WAIT)
        return false;
    if (look == VL_LOOK_NO && p->final && p->how == VL_CHAT_END_STOP) {
        /* A name without its '>' at the very end still calls, if it is a tool's. */
        uint64_t begin = from + strlen("<function=");
        behind = vl_parser_end(p);
        if (begin < behind && vl_parser_look(p, from, "<function=") == VL_LOOK_YES) {
            name = clean_name(p, begin, behind);
            look = vl_chat_tools_find(p->tools, p->in.ptr + name.at, name.len) ? VL_LOOK_YES : look;
        }
    }
    if (look == VL_LOOK_NO || name.len == 0) {
        release(p, from);
        return true;
    }
    const char *text = p->in.ptr + name.at;
    p->tool = vl_chat_tools_find(p->tools, text, name.len);
    p->n_calls++;
    p->n_params = p->n_seen = 0;
    vl_buf_clear(&p->keys);
    p->said_anything = true;
    vl_parser_emit(p, VL_CHAT_EV_CALL, text, name.len, behind);
    vl_parser_skip(p, behind);
    vl_parser_emit(p, VL_CHAT_EV_ARGUMENTS, "{", 1, behind);
    p->tool_state = VL_TOOL_BETWEEN;
    return true;
}

/* ---- between parameters ---- */

static bool is_seen(const vl_chat_parser *p, const char *key, size_t len)
{
    for (size_t i = 0; i < p->n_seen; i++) {
        if (p->seen[i].len == len && memcmp(p->keys.ptr + p->seen[i].at, key, len) == 0)
            return true;
    }
    return false;
}

static vl_json schema_of(const vl_chat_parser *p, const char *key, size_t len)
{
    if (!p->tool)
        return (vl_json){NULL, NULL};
    return vl_schema_property(p->tool->parameters, p->tool->parameters, key, len);
}

static void begin_value(vl_chat_parser *p, vl_slice key, uint64_t behind)
{
    const char *text = p->in.ptr + key.at;
    vl_json schema = schema_of(p, text, key.len);
    vl_buf json = VL_BUF_INIT;

    if (!vl_grow(&p->seen, &p->seen_cap, p->n_seen + 1, sizeof(*p->seen))) {
        p->junk.failed = true;
        return;
    }
    p->seen[p->n_seen++] = (vl_slice){p->keys.len, key.len};
    vl_buf_append(&p->keys, text, key.len);
    p->types = schema.node ? vl_schema_types(p->tool->parameters, schema) : 0;
    if (p->n_params++ > 0)
        vl_buf_putc(&json, ',');
    vl_json_put_str(&json, text, key.len);
    vl_buf_putc(&json, ':');
    if (p->types == VL_TYPE_STRING)
        vl_buf_putc(&json, '"');
    emit_arguments(p, &json, behind);
    vl_buf_fini(&json);
    vl_parser_skip(p, behind);
    p->scan = behind;
    p->skip_newline = true;
    p->behind_newline = false;
    p->tool_state = VL_TOOL_VALUE;
}

/* The text from `at` to the next tag belongs nowhere. */
static void take_junk(vl_chat_parser *p)
{
    const vl_tag_mark *mark = vl_parser_mark(p, p->at + 1);
    uint64_t limit = mark ? mark->at : vl_parser_end(p);
    const char *text = vl_parser_text(p, p->at);
    const char *hit = limit > p->at + 1 ? memchr(text + 1, '<', limit - p->at - 1) : NULL;
    uint64_t until = hit ? p->at + (uint64_t)(hit - text) : limit;

    vl_buf_append(&p->junk, text, until - p->at);
    vl_parser_skip(p, until);
}

/* The end of generation between parameters, or on something that could have become a tag. */
static bool end_between(vl_chat_parser *p)
{
    uint64_t end = vl_parser_end(p);

    if (p->how == VL_CHAT_END_STOP) {
        vl_buf_append(&p->junk, vl_parser_text(p, p->at), end - p->at);
        vl_parser_skip(p, end);
        close_arguments(p);
        leave_call(p);
        return true; /* the answer's own end follows */
    }
    vl_parser_skip(p, end);
    p->finished = true;
    return false;
}

static bool between_step(vl_chat_parser *p)
{
    vl_slice key;
    uint64_t behind = 0;

    uint64_t pos = vl_parser_skip_space(p, p->at);
    if (p->junk.len > 0) /* white space within junk belongs to it */
        vl_buf_append(&p->junk, vl_parser_text(p, p->at), pos - p->at);
    vl_parser_skip(p, pos);
    if (pos == vl_parser_end(p))
        return p->final ? end_between(p) : false;
    int look = vl_parser_look(p, p->at, "</function>");
    if (look == VL_LOOK_YES) {
        vl_parser_skip(p, p->at + strlen("</function>"));
        close_arguments(p);
        p->tool_state = VL_TOOL_BEHIND;
        return true;
    }
    int end = vl_parser_look(p, p->at, "</tool_call>"),
        next = vl_parser_look(p, p->at, "<tool_call>");
    int bare = vl_parser_look(p, p->at, "<function"),
        stray = vl_parser_look(p, p->at, "</parameter>");
    int param = read_tag(p, p->at, "<parameter", &key, &behind);
    if (param == VL_LOOK_YES) {
        begin_value(p, key, behind);
        return true;
    }
    if (end == VL_LOOK_YES || next == VL_LOOK_YES || bare == VL_LOOK_YES) {
        close_arguments(p); /* </function> is missing */
        p->tool_state = VL_TOOL_BEHIND;
        return true;
    }
    if (stray == VL_LOOK_YES) {
        vl_parser_skip(p, p->at + strlen("</parameter>"));
        return true;
    }
    if (look == VL_LOOK_WAIT || end == VL_LOOK_WAIT || next == VL_LOOK_WAIT ||
        bare == VL_LOOK_WAIT || stray == VL_LOOK_WAIT || param == VL_LOOK_WAIT)
        return false;
    if (p->final && p->how == VL_CHAT_END_LENGTH)
        return end_between(p);
    take_junk(p);
    return true;
}

/* Behind </function>: </tool_call> belongs to the call, all else to the answer. */
static bool behind_step(vl_chat_parser *p)
{
    uint64_t pos = vl_parser_skip_space(p, p->at);
    int look = vl_parser_look(p, pos, "</tool_call>");

    if (look == VL_LOOK_WAIT)
        return false;
    if (look == VL_LOOK_YES)
        vl_parser_skip(p, pos + strlen("</tool_call>"));
    leave_call(p);
    return true;
}

/* ---- values ---- */

/* What a '<' in a value is. */
struct verdict {
    int look;        /* YES: the value ends here */
    uint64_t resume; /* where reading goes on then */
};

/* Behind white space at pos: the end of the call, or of the output? */
static int call_ends(const vl_chat_parser *p, uint64_t pos)
{
    pos = vl_parser_skip_space(p, pos);
    if (pos == vl_parser_end(p))
        return p->final ? VL_LOOK_YES : VL_LOOK_WAIT;
    return vl_parser_look(p, pos, "</tool_call>");
}

/* Behind </parameter>, at pos: does something follow that can only follow a value? */
static int value_ends(const vl_chat_parser *p, uint64_t pos)
{
    static const char *const openers[] = {"<parameter=", "<parameter name=", "</function>"};
    int result = call_ends(p, pos);

    pos = vl_parser_skip_space(p, pos);
    for (int i = 0; i < 3 && result != VL_LOOK_YES; i++) {
        int look = vl_parser_look(p, pos, openers[i]);
        if (look != VL_LOOK_NO)
            result = look;
    }
    return result;
}

static bool at_line_start(const vl_chat_parser *p, uint64_t pos)
{
    return pos == p->at ? p->behind_newline : *vl_parser_text(p, pos - 1) == '\n';
}

/* "\n<parameter=K>" with K a property that has not come yet ends a value that was not closed. */
static int next_parameter(const vl_chat_parser *p, uint64_t pos)
{
    vl_slice key;
    uint64_t behind;
    int look = read_tag(p, pos, "<parameter", &key, &behind);

    if (look != VL_LOOK_YES)
        return look;
    const char *text = p->in.ptr + key.at;
    bool closed = *vl_parser_text(p, behind - 1) == '>';
    return closed && !is_seen(p, text, key.len) && schema_of(p, text, key.len).node ? VL_LOOK_YES
                                                                                    : VL_LOOK_NO;
}

static struct verdict judge(const vl_chat_parser *p, uint64_t pos)
{
    struct verdict v = {VL_LOOK_NO, pos};
    const vl_tag_mark *mark = vl_parser_mark(p, pos);

    if (mark && mark->at == pos) {
        /* </tool_call> ends the call only if the output stops right there. */
        uint64_t behind = pos + strlen(vl_chat_tags[mark->tag]);
        if (mark->tag == VL_TAG_TOOL_END && vl_parser_skip_space(p, behind) == vl_parser_end(p))
            v.look = p->final ? VL_LOOK_YES : VL_LOOK_WAIT;
        return v;
    }
    v.look = vl_parser_look(p, pos, "</parameter>");
    if (v.look == VL_LOOK_YES) {
        v.resume = pos + strlen("</parameter>");
        v.look = value_ends(p, v.resume);
    }
    if (v.look != VL_LOOK_NO || !at_line_start(p, pos))
        return v;
    v.resume = pos;
    v.look = vl_parser_look(p, pos, "</function>");
    if (v.look == VL_LOOK_YES)
        return (struct verdict){call_ends(p, pos + strlen("</function>")), pos};
    if (v.look == VL_LOOK_NO)
        v.look = next_parameter(p, pos);
    return v;
}

/* Gives out the part of a string value before `until`. */
static void stream(vl_chat_parser *p, uint64_t until)
{
    vl_buf json = VL_BUF_INIT;

    if (until <= p->at)
        return;
    vl_json_put_escaped(&json, vl_parser_text(p, p->at), until - p->at);
    emit_arguments(p, &json, until);
    vl_buf_fini(&json);
    vl_parser_skip(p, until);
    p->behind_newline = false;
}

/* A newline just before `until` belongs to the tag that follows, if one does. */
static uint64_t before_newline(const vl_chat_parser *p, uint64_t until)
{
    return until > p->at && *vl_parser_text(p, until - 1) == '\n' ? until - 1 : until;
}

static void end_value(vl_chat_parser *p, uint64_t until, uint64_t resume)
{
    vl_buf json = VL_BUF_INIT;

    until = before_newline(p, until);
    if (p->types == VL_TYPE_STRING) {
        stream(p, until);
        vl_buf_putc(&json, '"');
    } else {
        vl_args_put(&json, p->types, vl_parser_text(p, p->at), until - p->at);
    }
    emit_arguments(p, &json, resume);
    vl_buf_fini(&json);
    vl_parser_skip(p, resume);
    p->tool_state = VL_TOOL_BETWEEN;
}

/* Cut by the limit: what is certain of the value goes out, and nothing is closed, so that a client
 * sees broken JSON rather than half a command. */
static bool cut_value(vl_chat_parser *p, uint64_t until)
{
    until = before_newline(p, until);
    if (p->types == VL_TYPE_STRING) {
        stream(p, until);
    } else if (until > p->at) {
        const char *text = vl_parser_text(p, p->at);
        bool raw = text[0] == '{' || text[0] == '[' || (p->types && !(p->types & VL_TYPE_STRING));
        vl_buf json = VL_BUF_INIT;
        if (raw) {
            vl_buf_append(&json, text, until - p->at);
        } else {
            vl_buf_putc(&json, '"');
            vl_json_put_escaped(&json, text, until - p->at);
        }
        emit_arguments(p, &json, until);
        vl_buf_fini(&json);
    }
    vl_parser_skip(p, vl_parser_end(p));
    p->finished = true;
    return false;
}

/* Searches the value for its end. True: it ended and was given out; else p->scan is where certainty
 * stops. */
static bool find_value_end(vl_chat_parser *p)
{
    uint64_t end = vl_parser_end(p);

    while (p->scan < end) {
        const char *text = vl_parser_text(p, p->scan);
        const char *hit = memchr(text, '<', end - p->scan);
        p->scan = hit ? p->scan + (uint64_t)(hit - text) : end;
        if (!hit)
            break;
        struct verdict v = judge(p, p->scan);
        if (v.look == VL_LOOK_YES) {
            end_value(p, p->scan, v.resume);
            return true;
        }
        if (v.look == VL_LOOK_WAIT)
            break;
        p->scan++;
    }
    return false;
}

static bool value_step(vl_chat_parser *p)
{
    uint64_t end = vl_parser_end(p);
    bool final = p->final, cut = final && p->how == VL_CHAT_END_LENGTH;

    if (p->skip_newline && p->at < end) {
        p->behind_newline = *vl_parser_text(p, p->at) == '\n';
        vl_parser_skip(p, p->at + p->behind_newline);
        p->scan = p->at;
        p->skip_newline = false;
    }
    /* A limit that cuts decides nothing: what the text could have become stays open. */
    p->final = final && !cut;
    bool ended = find_value_end(p);
    p->final = final;
    if (ended)
        return true;
    if (cut)
        return cut_value(p, p->scan);
    if (final) {
        end_value(p, p->scan, end);
        return true;
    }
    if (p->types == VL_TYPE_STRING)
        stream(p, before_newline(p, p->scan));
    return false;
}

bool vl_parser_tool_step(vl_chat_parser *p)
{
    switch (p->tool_state) {
    case VL_TOOL_NAME:
        return name_step(p);
    case VL_TOOL_BETWEEN:
        return between_step(p);
    case VL_TOOL_VALUE:
        return value_step(p);
    default:
        return behind_step(p);
    }
}
