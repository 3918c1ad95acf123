/* plugins/qwen35/chat/chat_request.h: a chat request after the rules that no template knows: roles,
 * content, reasoning, calls and tools in one plain form. Made by chat_normalize.c, chat_kwargs.c
 * and chat_tools.c. */
#ifndef VL_QWEN35_CHAT_REQUEST_H
#define VL_QWEN35_CHAT_REQUEST_H

#include "plugins/qwen35/chat/chat.h"
#include "plugins/qwen35/chat/chat_text.h"

/* ---- tools ---- */

typedef struct vl_chat_tool {
    vl_slice name;      /* in vl_chat_tools.names */
    vl_json tool;       /* the whole entry, as it is rendered */
    vl_json parameters; /* its JSON schema; may be missing */
} vl_chat_tool;

/* The tools of one request. Shared by the prompt and its parsers, which live on other threads. */
typedef struct vl_chat_tools {
    int refs;        /* atomic */
    vl_buf text;     /* the entries as one JSON array */
    vl_json_doc doc; /* over text */
    vl_buf names;    /* the unescaped names */
    vl_chat_tool *tools;
    size_t n;
} vl_chat_tools;

vl_chat_tools *vl_chat_tools_ref(vl_chat_tools *t); /* NULL stays NULL */
void vl_chat_tools_unref(vl_chat_tools *t);
const vl_chat_tool *vl_chat_tools_find(const vl_chat_tools *t, const char *name, size_t len);

enum { VL_CHOICE_AUTO, VL_CHOICE_REQUIRED, VL_CHOICE_NAMED };

/* ---- the request ---- */

enum { VL_ROLE_SYSTEM, VL_ROLE_USER, VL_ROLE_ASSISTANT, VL_ROLE_TOOL };

typedef struct vl_chat_arg {
    vl_slice key;
    vl_slice value; /* as it stands between the tags */
} vl_chat_arg;

typedef struct vl_chat_call {
    vl_slice name;
    vl_slice id;
    bool has_id;
    size_t first_arg, n_args;
} vl_chat_call;

typedef struct vl_chat_message {
    vl_json source;
    int role;
    uint32_t index; /* in the request's messages */
    vl_slice content;
    vl_slice reasoning;
    bool has_reasoning;
    vl_slice id; /* of the call that a tool message answers */
    bool has_id;
    size_t first_call, n_calls;
} vl_chat_message;

typedef struct vl_chat_request {
    vl_buf text;     /* what all slices point into */
    vl_slice *media; /* image and video placeholders in text, ascending */
    size_t n_media, media_cap;
    vl_chat_message *messages;
    size_t n_messages, messages_cap;
    vl_chat_call *calls;
    size_t n_calls, calls_cap;
    vl_chat_arg *args;
    size_t n_args, args_cap;
    uint32_t n_images, n_videos;

    int enable_thinking;   /* -1 unset, 0, 1 */
    int preserve_thinking; /* the same */
    bool add_vision_id;
    char effort[24]; /* of 3.8; "" unset */
    bool add_generation_prompt;
    bool continue_final;

    vl_chat_tools *tools; /* NULL: none in the prompt */
    int choice;           /* VL_CHOICE_... */
    size_t named;         /* index in tools, for VL_CHOICE_NAMED */
    bool parallel;
} vl_chat_request;

/* Reads and normalises. On failure *r still wants fini. */
vl_status vl_chat_request_read(const vl_chat *c, vl_json root, vl_chat_request *r,
                               const vl_chat_fault *f);
void vl_chat_request_fini(vl_chat_request *r);

/* The parts of it. */
vl_status vl_chat_kwargs_read(const vl_chat *c, vl_json root, vl_chat_request *r,
                              const vl_chat_fault *f);
vl_status vl_chat_tools_read(vl_json root, vl_chat_request *r, const vl_chat_fault *f);
/* An optional boolean: *out stays when it is missing or null. */
vl_status vl_chat_bool_read(vl_json v, const char *path, int *out, const vl_chat_fault *f);

#endif
