/* host/server/api_forms.h: the other spellings of a chat request, Anthropic's messages and OpenAI's
 * responses: their bodies become a chat body, their answers are made of items in order. No sockets,
 * no threads, no model. What comes in is hostile until checked. */
#ifndef VL_SERVER_API_FORMS_H
#define VL_SERVER_API_FORMS_H

#include "host/server/api.h"

/* ---- requests (api_translate.c, api_messages.c, api_responses.c) ---- */

/* A chat body in the making. What an assistant said in several items or blocks is gathered into one
 * message; text in the buffers is escaped JSON without quotes. */
typedef struct vl_chat_writer {
    vl_buf *out; /* borrowed; the list of messages is open */
    size_t n_messages;
    bool open; /* an assistant message is being gathered */
    vl_buf reasoning, content, calls;
} vl_chat_writer;

void vl_chat_writer_fini(vl_chat_writer *w);
/* Writes the assistant message that is being gathered, if there is one. */
void vl_chat_writer_flush(vl_chat_writer *w);
/* A whole message. tool_call_id may be missing. */
void vl_chat_writer_message(vl_chat_writer *w, const char *role, vl_json tool_call_id,
                            const vl_buf *content);
/* A call of the assistant's. arguments: JSON text. */
void vl_chat_writer_call(vl_chat_writer *w, vl_json id, vl_json name, vl_bytes arguments);

/* The text of content: a string, or a list of text parts that are put together with `between`.
 * Appends to out, escaped. Missing is empty. Other parts are refused by name and place. */
bool vl_chat_text(vl_json content, const char *path, const char *between, vl_buf *out,
                  vl_api_error *e);
/* The member as a string that is not empty, or an error at path.name. */
bool vl_chat_need_text(vl_json o, const char *path, const char *name, vl_json *out,
                       vl_api_error *e);
/* Copies these members as they are; NULL ends the list. */
void vl_chat_copy(vl_json o, const char *const *names, vl_buf *out);
/* Parses a body that must be an object. */
bool vl_chat_open(vl_json_doc *doc, const char *body, size_t len, const vl_api_limits *limits,
                  vl_api_error *e);
/* One tool as a chat tool: name, description and the schema under its name there. */
bool vl_chat_tool(vl_json tool, const char *path, const char *schema, vl_buf *out, vl_api_error *e);

enum { VL_FORM_DEPTH = 8 }; /* levels of nesting that a translation may add */
/* Bodies to chat bodies. count: of /count_tokens, which needs no max_tokens. */
bool vl_api_messages_to_chat(const char *body, size_t len, bool count, const vl_api_limits *limits,
                             vl_api_unknown_fn unknown, void *user, vl_buf *chat, vl_api_error *e);
/* echo: members that the response repeats, each with a comma in front. */
bool vl_api_responses_to_chat(const char *body, size_t len, const vl_api_limits *limits,
                              vl_api_unknown_fn unknown, void *user, vl_buf *chat, vl_buf *echo,
                              vl_api_error *e);

/* ---- answers (answer_items.c, answer_messages.c, answer_responses.c) ---- */

enum { VL_ITEM_REASONING, VL_ITEM_TEXT, VL_ITEM_CALL };

typedef struct vl_item {
    int32_t kind;
    char id[40];      /* of the item */
    char call_id[40]; /* calls */
    vl_buf name;      /* calls */
    vl_buf text;      /* or a call's arguments */
    bool complete;    /* nothing cut it short */
} vl_item;

typedef struct vl_items {
    const struct vl_answer_form *form;
    vl_item *list;
    size_t n, cap;
    bool started; /* stream: the first event is out */
    bool open;    /* the last item may grow */
    uint64_t sequence;
    int32_t finish;
    vl_buf stop; /* the stop string that matched */
    bool has_stop;
    bool failed; /* out of memory */
    vl_buf echo; /* responses: see vl_api_responses_to_chat; owned */
} vl_items;

struct vl_answer_form {
    const char *prefix; /* of the answer's id */
    const char *ping;   /* an event for silence, once started */
    /* Streams: events. */
    void (*start)(vl_answer *a, vl_buf *out);
    void (*item_open)(vl_answer *a, size_t index, vl_buf *out);
    void (*item_text)(vl_answer *a, size_t index, const char *text, size_t len, vl_buf *out);
    void (*item_close)(vl_answer *a, size_t index, vl_buf *out);
    void (*end)(vl_answer *a, vl_buf *out);
    void (*error)(vl_answer *a, const vl_api_error *e, vl_buf *out);
    /* The whole body. */
    void (*whole)(vl_answer *a, vl_buf *out);
};
extern const struct vl_answer_form vl_form_messages, vl_form_responses;

/* For a new answer: it takes this form. Takes echo over (may be NULL). */
bool vl_items_init(vl_answer *a, const struct vl_answer_form *form, vl_buf *echo);
void vl_items_free(vl_items *items);
void vl_items_event(vl_answer *a, const vl_event *ev, vl_buf *out);
void vl_items_finish(vl_answer *a, vl_buf *out);
/* {"type":"error","error":{...},"request_id":...} */
void vl_api_error_messages_json(const vl_api_error *e, const char *request_id, vl_buf *out);
/* "event: NAME\ndata: " JSON "\n\n" in two halves. */
void vl_sse_open(vl_buf *out, const char *name);
void vl_sse_close(vl_buf *out);

#endif
