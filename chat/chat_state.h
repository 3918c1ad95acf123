/* chat/chat_state.h: the state of a chat, shared by its loop (chat.c), its turns (chat_turn.c), its
 * keys (chat_keys.c) and its commands (commands.c). One thread. */
#ifndef VL_CHAT_CHAT_STATE_H
#define VL_CHAT_CHAT_STATE_H

#include "chat/face.h"
#include "chat/inline.h"
#include "chat/menu.h"
#include "chat/options.h"
#include "chat/screen.h"
#include "chat/view.h"

enum vl_view_kind { VL_VIEW_FULL, VL_VIEW_INLINE, VL_VIEW_PLAIN };

/* What the list above the box is for. */
enum vl_choice {
    VL_CHOICE_NONE,
    VL_CHOICE_COMPLETE,
    VL_CHOICE_MODEL,
    VL_CHOICE_THEME,
    VL_CHOICE_CHAT
};

struct vl_chat {
    const struct vl_options *options;
    struct vl_settings *settings;
    struct vl_turn turn;
    struct vl_session session;
    struct vl_item *question, *answer; /* of the running turn; owned by session */
    struct vl_item *retired;           /* the answer that a running /retry will replace; owned */
    struct vl_history history;
    struct vl_input input;
    struct vl_keys keys;
    struct vl_menu menu;
    enum vl_choice choice;
    double bytes_at; /* when the terminal sent something last */
    bool cycling;    /* Tab goes through the completions */

    enum vl_view_kind kind;
    struct vl_view view;
    struct vl_screen screen;
    struct vl_inline *inline_view;
    struct vl_face face;
    vl_buf out;        /* bytes of a frame */
    vl_buf plain_line; /* plain chat: the line that is being read */
    bool plain_prompt; /* its prompt stands there */
    bool sync, dark;

    vl_buf hint;
    double hint_until;
    double ctrl_c_at;
    bool dirty;
    double next_frame, next_flower, last_tick;
    float bloom; /* 0 to 1, linear in time; shown smoothed */
    float phase;
    bool stopped; /* by our own doing; the SIGCONT to come is known */
    bool fresh;   /* nothing was asked since the start or /clear */
    bool quit;
    int status; /* exit */
};

/* chat.c */
/* Shows a text in the status line for some seconds; as a note in the transcript if it is too long.
 */
void vl_chat_hint(struct vl_chat *c, const char *fmt, ...) VL_PRINTF(2, 3);
/* Adds a note or an error to the transcript. */
void vl_chat_note(struct vl_chat *c, enum vl_item_kind kind, const char *fmt, ...) VL_PRINTF(3, 4);
void vl_chat_save_settings(struct vl_chat *c);
/* Gives the terminal to $EDITOR with the text of the box. */
void vl_chat_edit(struct vl_chat *c);
/* Gives the terminal back and stops the process. */
void vl_chat_suspend(struct vl_chat *c);
/* The screen is not as it was left. */
void vl_chat_redraw(struct vl_chat *c);
void vl_chat_leave(struct vl_chat *c, int status);

/* chat_turn.c */
void vl_chat_ask(struct vl_chat *c, const char *text, size_t len);
void vl_chat_retry(struct vl_chat *c);
void vl_chat_undo(struct vl_chat *c);
/* Stops the answer and keeps what came. */
void vl_chat_stop(struct vl_chat *c);
/* After the client has moved. */
void vl_chat_step(struct vl_chat *c);
void vl_chat_choose_model(struct vl_chat *c);

/* chat_keys.c */
void vl_chat_key(struct vl_chat *c, const struct vl_key_event *e);
/* Ctrl-C, as a key or as a signal. */
void vl_chat_interrupt(struct vl_chat *c, int status);
/* The text in the box is sent, or done as a command. */
void vl_chat_submit(struct vl_chat *c);
/* Completions and previews follow the text in the box. */
void vl_chat_text_changed(struct vl_chat *c);

/* commands.c */
/* Does a line that begins with '/'. False: refused, and the text stays in the box. */
bool vl_command_run(struct vl_chat *c, const char *line);
/* Fills the list with what may stand at the end of the line. *at: where that begins. */
void vl_command_complete(struct vl_chat *c, const char *line, size_t *at);
/* The theme and fade that the line in the box would set, for a look at them. */
const struct vl_theme *vl_command_theme(const struct vl_chat *c);
int vl_command_fade(const struct vl_chat *c);
void vl_command_chosen(struct vl_chat *c, enum vl_choice choice, const char *what);

#endif
