/* plugins/qwen35/chat/chat.h: what the files of the chat format share: the formats and their
 * traits, the vl_chat itself, and how errors name a field. Must not know: the model's weights, any
 * file, any socket. */
#ifndef VL_QWEN35_CHAT_CHAT_H
#define VL_QWEN35_CHAT_CHAT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"
#include "vallmo/chat.h"

/* The table for get_ext("vl.chat/1"). */
extern const vl_chat_api vl_qwen35_chat_api;

/* When an earlier assistant turn keeps its thought. */
enum { VL_KEEP_NEVER, VL_KEEP_IF_ASKED, VL_KEEP_UNLESS_REFUSED };

/* How the releases differ. */
typedef struct vl_chat_traits {
    const char *name;
    bool thinks_unset;   /* thinking when enable_thinking is not set */
    bool always_thinks;  /* thinking can't be switched off */
    bool splits_inline;  /* <think> inside old content is taken apart */
    bool python_scalars; /* True, False, None in rendered arguments */
    bool has_effort;     /* reasoning_effort puts a text into the system block */
    int keep;            /* VL_KEEP_... */
} vl_chat_traits;

/* Structural tokens, by content. */
enum { VL_TAG_THINK, VL_TAG_THINK_END, VL_TAG_TOOL, VL_TAG_TOOL_END, VL_N_TAGS };
extern const char *const vl_chat_tags[VL_N_TAGS];

struct vl_chat {
    const vl_chat_traits *traits;
    bool strict;
    bool media;
    vl_buf defaults_text; /* JSON object of default kwargs; owned */
    vl_json_doc defaults; /* over defaults_text */
    int32_t tag_ids[VL_N_TAGS];
};

/* Chooses the format from params (its name, the template's text, the hidden size). */
vl_status vl_chat_traits_choose(const vl_chat_params *params, const vl_chat_traits **out,
                                vl_error *err);

/* Where an error is told: the caller's field and error, either may be NULL. */
typedef struct vl_chat_fault {
    vl_chat_field *field;
    vl_error *err;
} vl_chat_fault;

/* Names the field; returns f, so that vl_chat_fail(vl_chat_at(f, "messages[%u]", i), ...) reads
 * well. */
const vl_chat_fault *vl_chat_at(const vl_chat_fault *f, const char *fmt, ...) VL_PRINTF(2, 3);
/* Sets the error; returns VL_E_INVALID. */
vl_status vl_chat_fail(const vl_chat_fault *f, const char *fmt, ...) VL_PRINTF(2, 3);
/* What a value is, for a message: "a string", "an array", "missing". */
const char *vl_chat_kind(vl_json v);
vl_status vl_chat_no_memory(const vl_chat_fault *f);

#endif
