/* plugins/qwen35/chat/chat_parser.h: the output parser's state, shared by chat_parse.c (thought and
 * answer) and chat_parse_tool.c (calls). Belongs to one sequence and one thread at a time.
 *
 * All positions are absolute: bytes since the beginning of the output. What was fed and is not yet
 * decided lies in `in`; `at` is where reading goes on. Structural tokens stand in `in` as their
 * text, with a mark at their first byte, so that a tag that turns out to be talk is simply read as
 * text. */
#ifndef VL_QWEN35_CHAT_PARSER_H
#define VL_QWEN35_CHAT_PARSER_H

#include "plugins/qwen35/chat/chat_prompt.h"

typedef struct vl_tag_mark {
    uint64_t at;
    int tag; /* VL_TAG_... */
} vl_tag_mark;

/* Where reading stands within a call. */
enum { VL_TOOL_NAME, VL_TOOL_BETWEEN, VL_TOOL_VALUE, VL_TOOL_BEHIND };

struct vl_chat_parser {
    vl_chat_tools *tools; /* a reference; NULL: tags of calls are text */
    int32_t tag_ids[VL_N_TAGS];
    int state; /* VL_CHAT_REASONING, _CONTENT, _TOOL */
    bool finished;
    bool final;     /* finish was called: nothing will follow */
    int how;        /* VL_CHAT_END_... */
    bool undecided; /* in a thought or answer, on what may become a call */

    vl_buf in;
    uint64_t in_base; /* position of in.ptr[0] */
    uint64_t at;
    vl_tag_mark *marks; /* ascending; those before `at` are dropped now and then */
    size_t first_mark, n_marks, marks_cap;
    uint64_t *
        ends; /* where the text of each fed token ends; [first_end] belongs to token `next_token` */
    size_t first_end, n_ends, ends_cap;
    uint64_t token_start; /* where the text of next_token begins */
    uint64_t next_token;  /* the first token that no event has told of */
    uint64_t n_fed;
    uint64_t n_reasoning;     /* tokens of thoughts that are over */
    uint64_t reasoning_entry; /* the first token of the thought that goes on */

    /* thought and answer */
    bool begun;             /* the white space at the beginning is over */
    bool said_anything;     /* content or a call was given out */
    bool call_since;        /* a call ended behind the last content */
    bool line_start;        /* `at` is the beginning of a line */
    uint64_t text_until;    /* a tag before this is text */
    uint64_t no_call_until; /* no bare call begins before this */
    uint64_t space_until;   /* [at, space_until) is known white space */

    /* call */
    int tool_state;
    bool wrapped; /* it began with <tool_call> */
    uint32_t n_calls;
    const vl_chat_tool *tool; /* NULL: unknown name */
    size_t n_params;
    vl_slice *seen; /* keys of this call, in keys */
    size_t n_seen, seen_cap;
    vl_buf keys;
    int types;           /* of the value being read */
    bool skip_newline;   /* the value's first byte has not come yet */
    bool behind_newline; /* the byte before `at` was the value's leading newline */
    uint64_t scan;       /* the value is searched up to here */
    vl_buf junk;         /* text between parameters, which belongs nowhere: told behind the call */

    vl_chat_event_fn fn; /* of the feed or finish that runs */
    void *user;
    vl_error *err;
    vl_status rc;
};

/* What a look at the text ahead says. */
enum { VL_LOOK_NO, VL_LOOK_YES, VL_LOOK_WAIT };

static inline uint64_t vl_parser_end(const vl_chat_parser *p)
{
    return p->in_base + p->in.len;
}
static inline const char *vl_parser_text(const vl_chat_parser *p, uint64_t pos)
{
    return p->in.ptr + (pos - p->in_base);
}

/* Gives out an event whose text lies before `upto`; stops the parser when the callback says so. */
void vl_parser_emit(vl_chat_parser *p, int kind, const char *text, size_t len, uint64_t upto);
/* Reading goes on at `pos`; what was skipped is told to no one. */
void vl_parser_skip(vl_chat_parser *p, uint64_t pos);
/* The first mark at or behind pos, or NULL. */
const vl_tag_mark *vl_parser_mark(const vl_chat_parser *p, uint64_t pos);
/* Does the text at pos begin with word? WAIT: it may, when more comes. A tag's own bytes match too.
 */
int vl_parser_look(const vl_chat_parser *p, uint64_t pos, const char *word);
/* The first byte at or behind pos that is no blank, tab or line end. */
uint64_t vl_parser_skip_space(const vl_chat_parser *p, uint64_t pos);
bool vl_parser_failed(vl_chat_parser *p);

/* chat_parse_tool.c: one step in a call. False: more input is needed. */
bool vl_parser_tool_step(vl_chat_parser *p);
/* Begins a call whose tag (<tool_call>, or <function= when not wrapped) stands at `at`. */
void vl_parser_tool_begin(vl_chat_parser *p, bool wrapped);
/* Is "<function=NAME>" with the name of a tool at pos? */
int vl_parser_bare_call(const vl_chat_parser *p, uint64_t pos);
/* Does "<function=" follow at pos, behind white space? */
int vl_parser_call_ahead(const vl_chat_parser *p, uint64_t pos);

vl_status vl_chat_parser_create(const vl_chat *c, const vl_chat_prompt *prompt,
                                vl_chat_parser **out, vl_error *err);
void vl_chat_parser_destroy(vl_chat_parser *p);
vl_status vl_chat_parser_feed(vl_chat_parser *p, int32_t id, vl_bytes text, vl_chat_event_fn fn,
                              void *user, vl_error *err);
vl_status vl_chat_parser_finish(vl_chat_parser *p, int32_t how, vl_chat_event_fn fn, void *user,
                                vl_error *err);
int32_t vl_chat_parser_state(const vl_chat_parser *p);
uint64_t vl_chat_parser_reasoning_tokens(const vl_chat_parser *p);

#endif
