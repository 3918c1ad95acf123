/* vallmo/chat.h: "vl.chat/1", offered by a model plugin's get_ext: the model's chat markup.
 *
 * Renders an OpenAI-style chat request to pieces (template or text; someone's text can spell
 * <|im_end|> and stays text) and reads the model's output stream back into reasoning, content and
 * tool calls. Structural ids are looked up by content. A vl_chat is immutable once made: [any]. A
 * parser belongs to one sequence and one thread at a time. */
#ifndef VALLMO_CHAT_H
#define VALLMO_CHAT_H

#include "vallmo/abi.h"
#include "vallmo/plugin.h"
#include "vallmo/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VL_CHAT_ID "vl.chat/1"

typedef struct vl_chat vl_chat;
typedef struct vl_chat_prompt vl_chat_prompt;
typedef struct vl_chat_parser vl_chat_parser;

typedef struct vl_chat_params {
    uint32_t struct_size;
    uint32_t flags;          /* VL_CHAT_STRICT, VL_CHAT_MEDIA */
    vl_bytes config_json;    /* the checkpoint's config */
    vl_bytes template_text;  /* the checkpoint's template; may be empty */
    const char *format;      /* "auto" or a name the plugin knows ("qwen3.5-small") */
    vl_bytes default_kwargs; /* JSON object: defaults of chat_template_kwargs; may be empty */
    const vl_tokenizer_api *tokenizer_api;
    const vl_tokenizer *tokenizer; /* must outlive the vl_chat */
} vl_chat_params;
enum {
    VL_CHAT_STRICT = 1, /* refuse what is otherwise mended (several system messages, ...) */
    VL_CHAT_MEDIA = 2   /* render placeholders of images and videos; else they are refused */
};

/* Where in the prompt a boundary lies; byte positions in the concatenation of the pieces,
 * ascending. */
enum {
    VL_MARK_SYSTEM_END = 0,  /* behind the system and tools block */
    VL_MARK_MESSAGE_END = 1, /* behind a message */
    VL_MARK_HEADER = 2       /* before the generation header (and its think block) */
};
typedef struct vl_chat_mark {
    uint64_t byte;
    int32_t kind;
    uint32_t message; /* index in the request's messages of the message it ends; 0 for others */
} vl_chat_mark;

enum { VL_CHAT_REASONING = 0, VL_CHAT_CONTENT = 1, VL_CHAT_TOOL = 2 };

/* A rendered prompt; everything is borrowed until prompt_free. */
typedef struct vl_chat_view {
    uint32_t struct_size;
    int32_t start_state; /* the parser's: VL_CHAT_REASONING or VL_CHAT_CONTENT */
    const vl_piece *pieces;
    uint64_t n_pieces;
    const vl_chat_mark *marks;
    uint64_t n_marks;
    int32_t thinking;  /* 1: the answer begins in a thought */
    int32_t has_tools; /* 1: tools were rendered, calls are parsed */
} vl_chat_view;

/* The request field that an error is about, "messages[2].content"; "" when none is. */
typedef struct vl_chat_field {
    char path[248];
} vl_chat_field;

enum {
    VL_CHAT_EV_REASONING = 0, /* text of the thought */
    VL_CHAT_EV_CONTENT = 1,   /* text of the answer */
    VL_CHAT_EV_CALL = 2,      /* a tool call begins: text is its name, index counts from 0 */
    VL_CHAT_EV_ARGUMENTS = 3, /* more of its arguments; together they are one JSON object */
    VL_CHAT_EV_CALL_END = 4   /* the call is complete */
};
typedef struct vl_chat_event {
    uint32_t struct_size;
    int32_t kind;
    vl_bytes text;        /* valid during the callback */
    uint64_t first_token; /* fed tokens (counted from 0) whose text this event completes: */
    uint64_t end_token;   /* first_token .. end_token - 1; equal when none is */
    uint32_t index;       /* of the call */
    uint32_t reserved;
} vl_chat_event;
/* Nonzero return: stop; the feed or finish that called returns VL_E_CANCELLED. */
typedef int32_t (*vl_chat_event_fn)(void *user, const vl_chat_event *event);

/* How the output ended, for finish(). */
enum {
    VL_CHAT_END_STOP = 0,  /* a stop token: open calls are closed and delivered */
    VL_CHAT_END_LENGTH = 1 /* cut: an open call stays open, its arguments broken JSON */
};

/* What sampled text must look like, for required and named tool calls: a flat list of nodes, root
 * at 0. libvallmo compiles it to masks; it knows no model's markup. */
enum {
    VL_CONSTRAINT_LITERAL = 0, /* exactly this text */
    VL_CONSTRAINT_JSON = 1, /* a JSON value that matches the schema in text (empty: any object) */
    VL_CONSTRAINT_TEXT = 2, /* any text that does not contain `text`, which ends it */
    VL_CONSTRAINT_SEQUENCE = 3, /* children in order */
    VL_CONSTRAINT_CHOICE = 4,   /* one child */
    VL_CONSTRAINT_REPEAT = 5    /* the child min_count to max_count times */
};
typedef struct vl_constraint_node {
    int32_t kind;
    uint32_t n_children;
    const uint32_t *children; /* indices of nodes */
    vl_bytes text;
    uint32_t min_count;
    uint32_t max_count;
} vl_constraint_node;

typedef struct vl_chat_api {
    uint32_t struct_size;
    uint32_t abi_version;

    /* VL_E_UNSUPPORTED if the template is none that is known (the text says which key to set).
     * [open] */
    vl_status (*create)(vl_instance *self, const vl_chat_params *params, vl_chat **out,
                        vl_error *err);
    void (*destroy)(vl_chat *c);
    /* Name of the format that create chose: "qwen3.5-small". */
    const char *(*format)(const vl_chat *c);

    /* Renders a chat request: a JSON object with "messages" and, where they matter, "tools",
     * "tool_choice", "functions", "chat_template_kwargs", "enable_thinking", "reasoning_effort",
     * "add_generation_prompt", "continue_final_message", "parallel_tool_calls"; other keys are not
     * looked at. Every failure is the caller's fault unless it is VL_E_NOMEM. */
    vl_status (*render)(const vl_chat *c, vl_bytes request_json, vl_chat_prompt **out,
                        vl_chat_field *field, vl_error *err);
    void (*prompt_free)(vl_chat_prompt *p);
    void (*view)(const vl_chat_prompt *p, vl_chat_view *out); /* caller sets struct_size */
    /* The tool-call constraint of tool_choice required or named; *n = 0 when there is none.
     * Borrowed from the prompt. */
    vl_status (*constraint)(const vl_chat_prompt *p, const vl_constraint_node **nodes, uint64_t *n,
                            vl_error *err);

    /* The text that ends a thought ("\n</think>\n\n"), a template piece. */
    vl_bytes (*close_thought)(const vl_chat *c);

    /* A parser for the answer to p; the prompt may be freed afterwards. */
    vl_status (*parser_create)(const vl_chat *c, const vl_chat_prompt *p, vl_chat_parser **out,
                               vl_error *err);
    void (*parser_destroy)(vl_chat_parser *p);
    /* One token and its bytes as the decoder gave them (may be empty; stop ids are not fed). */
    vl_status (*feed)(vl_chat_parser *p, int32_t id, vl_bytes text, vl_chat_event_fn fn, void *user,
                      vl_error *err);
    vl_status (*finish)(vl_chat_parser *p, int32_t how, vl_chat_event_fn fn, void *user,
                        vl_error *err);
    int32_t (*state)(const vl_chat_parser *p); /* VL_CHAT_REASONING, _CONTENT, _TOOL */
    /* Tokens that were fed while in a thought, up to and with the one that closes it. */
    uint64_t (*reasoning_tokens)(const vl_chat_parser *p);
} vl_chat_api;

#ifdef __cplusplus
}
#endif
#endif
