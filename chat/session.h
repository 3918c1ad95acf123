/* chat/session.h: a dialogue as it is shown and as it is sent, and its JSON file. */
#ifndef VL_CHAT_SESSION_H
#define VL_CHAT_SESSION_H

#include "base/buf.h"
#include "chat/clean.h"
#include "vallmo/abi.h"

enum vl_item_kind { VL_ITEM_USER, VL_ITEM_ASSISTANT, VL_ITEM_NOTE, VL_ITEM_ERROR };

struct vl_tool_call {
    vl_buf name, args; /* as the server sent them */
};

/* One thing in the transcript. */
struct vl_item {
    enum vl_item_kind kind;
    bool failed; /* a question without an answer, or what came before an error: shown, not sent */
    bool open;   /* the answer still grows */
    bool stopped;
    vl_buf text; /* as it was typed, or as the server sent it */
    vl_buf thinking;
    vl_buf shown; /* text without what could act on a terminal */
    vl_buf shown_thinking;
    struct vl_clean clean, clean_thinking;
    struct vl_tool_call *tools; /* owned, n_tools */
    size_t n_tools, tools_cap;
    double thinking_s; /* how long the thought took */
    char finish[32];
    /* Of the inline view: what is in the scrollback, in lines of printed_width cells; and as a
     * count of characters that any width has, for when the width changes in between. */
    size_t printed_lines, printed_ink, printed_skip; /* skip: bytes of the first line that is not */
    int printed_width;
    bool printed;     /* all of it, and there will be no more */
    uint64_t version; /* changes with anything that is shown */
    void *view;       /* of whoever shows it; freed by view_free */
    void (*view_free)(void *view);
};

struct vl_session {
    struct vl_item **items; /* owned, n_items */
    size_t n_items, cap;
    vl_buf system; /* system text, "" for none */
    vl_buf name;   /* of the file, without .json; "" until the first save */
    bool named;    /* by the user, so that it keeps its file */
};

void vl_session_init(struct vl_session *s);
void vl_session_fini(struct vl_session *s);

/* Appends an item with this text; NULL when out of memory. */
struct vl_item *vl_session_add(struct vl_session *s, enum vl_item_kind kind, const char *text,
                               size_t len);
void vl_session_truncate(struct vl_session *s, size_t n_items);
/* Takes the item at index out without freeing it. */
struct vl_item *vl_session_detach(struct vl_session *s, size_t index);
void vl_session_insert(struct vl_session *s, size_t index, struct vl_item *item);
void vl_item_free(struct vl_item *item);
/* Index of the last question, or n_items when there is none. */
size_t vl_session_last_question(const struct vl_session *s);
/* The last answer (or part of one) with text; NULL without. */
struct vl_item *vl_session_last_answer(const struct vl_session *s);
bool vl_session_has_turn(const struct vl_session *s);

/* Growing an answer. */
void vl_item_put_text(struct vl_item *item, const char *text, size_t len);
void vl_item_put_thinking(struct vl_item *item, const char *text, size_t len);
struct vl_tool_call *vl_item_tool(struct vl_item *item, size_t index);
void vl_item_close(struct vl_item *item);

/* The messages of a request as a JSON array: system text, the dialogue, then question (may be
 * NULL). */
void vl_session_messages(const struct vl_session *s, const char *question, size_t len, vl_buf *out);

/* Saves below XDG_DATA_HOME/poppy/chats; makes a name from the time when there is none. A session
 * without a turn is not saved. */
vl_status vl_session_save(struct vl_session *s, vl_error *err);
/* Gives it a name of the user's, which no other chat may have; the file of an automatic name goes.
 */
vl_status vl_session_rename(struct vl_session *s, const char *name, vl_error *err);
/* Replaces *s by the file's content; *s is untouched on failure. */
vl_status vl_session_load(struct vl_session *s, const char *name, vl_error *err);
/* Names of what is saved, the newest first; NULL-terminated, free with vl_names_free. */
vl_status vl_session_names(char ***names, size_t *n, vl_error *err);
void vl_names_free(char **names, size_t n);
/* Loads the newest that has a turn in it; VL_E_NOT_FOUND if there is none. */
vl_status vl_session_continue(struct vl_session *s, vl_error *err);

#endif
