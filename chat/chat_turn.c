/* chat/chat_turn.c: questions and answers of a chat: what becomes of the dialogue when an answer
 * ends, fails, is stopped or asked for again. Knows no keys and no screen. */
#include <string.h>

#include "chat/chat_state.h"
#include "chat/clock.h"

static void save(struct vl_chat *c)
{
    vl_error err = {0};

    if (vl_session_save(&c->session, &err) != VL_OK)
        vl_chat_note(c, VL_ITEM_ERROR, "the chat could not be saved: %s", err.text);
}

static size_t index_of(const struct vl_chat *c, const struct vl_item *item)
{
    size_t i = 0;

    while (i < c->session.n_items && c->session.items[i] != item)
        i++;
    return i;
}

static void begin(struct vl_chat *c, struct vl_item *question)
{
    question->failed = true; /* until there is an answer */
    c->question = question;
    c->answer = vl_session_add(&c->session, VL_ITEM_ASSISTANT, "", 0);
    if (!c->answer)
        return;
    c->answer->open = true;
    c->answer->failed = true;
    c->face.scroll = 0;
    c->fresh = false;
    c->dirty = true;
    vl_turn_ask(&c->turn, &c->session, c->settings, question->text.len ? question->text.ptr : "",
                question->text.len, c->answer);
}

void vl_chat_ask(struct vl_chat *c, const char *text, size_t len)
{
    struct vl_item *question = vl_session_add(&c->session, VL_ITEM_USER, text, len);

    if (question)
        begin(c, question);
}

void vl_chat_retry(struct vl_chat *c)
{
    size_t at = vl_session_last_question(&c->session);

    if (at == c->session.n_items) {
        vl_chat_hint(c, "there is no question to ask again");
        return;
    }
    vl_item_free(c->retired);
    c->retired = NULL;
    for (size_t i = at + 1; i < c->session.n_items && !c->retired; i++)
        if (c->session.items[i]->kind == VL_ITEM_ASSISTANT && !c->session.items[i]->failed)
            c->retired = vl_session_detach(&c->session, i);
    vl_session_truncate(&c->session, at + 1);
    begin(c, c->session.items[at]);
}

void vl_chat_undo(struct vl_chat *c)
{
    size_t at = vl_session_last_question(&c->session);

    if (at == c->session.n_items) {
        vl_chat_hint(c, "there is nothing to take back");
        return;
    }
    vl_input_set(&c->input, c->session.items[at]->text.ptr, c->session.items[at]->text.len);
    vl_session_truncate(&c->session, at);
    c->face.scroll = 0;
    save(c);
}

/* The turn is over. good: question and answer are part of the dialogue. */
static void settle(struct vl_chat *c, bool good)
{
    size_t at = index_of(c, c->question);
    bool empty = !c->answer->text.len && !c->answer->n_tools;

    vl_item_close(c->answer);
    c->question->failed = !good;
    c->answer->failed = !good;
    if (!good && empty && !c->answer->thinking.len)
        vl_item_free(vl_session_detach(&c->session, index_of(c, c->answer)));
    if (good || !c->retired) {
        vl_item_free(c->retired);
    } else { /* the old answer keeps its place */
        vl_session_insert(&c->session, at + 1, c->retired);
        c->question->failed = false;
    }
    c->retired = NULL;
    c->question = c->answer = NULL;
    c->dirty = true;
}

void vl_chat_stop(struct vl_chat *c)
{
    bool some;

    if (!vl_turn_busy(&c->turn))
        return;
    vl_turn_stop(&c->turn);
    some = c->answer->text.len > 0;
    c->answer->stopped = some;
    settle(c, some);
    if (!some)
        vl_chat_note(c, VL_ITEM_NOTE, "stopped before an answer came; /retry asks again");
    save(c);
}

void vl_chat_choose_model(struct vl_chat *c)
{
    vl_menu_clear(&c->menu);
    vl_buf_puts(&c->menu.title, "Which model? Up, Down, Enter; Esc leaves");
    for (size_t i = 0; i < c->turn.n_models; i++)
        vl_menu_add(&c->menu, c->turn.models[i]);
    c->choice = c->menu.n ? VL_CHOICE_MODEL : VL_CHOICE_NONE;
    if (c->kind == VL_VIEW_PLAIN)
        for (size_t i = 0; i < c->menu.n; i++)
            vl_chat_note(c, VL_ITEM_NOTE, "%s/model %s",
                         i ? "" : "several models, name one: ", c->turn.models[i]);
    c->dirty = true;
}

/* Several models and none was named: the question goes back into the box until one is. */
static void take_back(struct vl_chat *c)
{
    size_t at = index_of(c, c->question);

    if (!c->input.text.len)
        vl_input_set(&c->input, c->question->text.ptr, c->question->text.len);
    vl_session_truncate(&c->session, at);
    vl_item_free(c->retired);
    c->retired = NULL;
    c->question = c->answer = NULL;
    c->turn.will_ask = false;
    vl_chat_choose_model(c);
}

/* What the server said stands before the answer that will come all the same. */
static void say_waiting(struct vl_chat *c)
{
    size_t n = c->session.n_items;

    vl_chat_note(c, VL_ITEM_ERROR, "%s", c->turn.message.len ? c->turn.message.ptr : "busy");
    if (c->session.n_items > n)
        vl_session_insert(&c->session, index_of(c, c->answer), vl_session_detach(&c->session, n));
}

void vl_chat_step(struct vl_chat *c)
{
    enum vl_turn_state before = c->turn.state;
    enum vl_turn_result r = vl_turn_step(&c->turn);
    bool good;

    if (before == VL_TURN_ASKING && c->turn.state == VL_TURN_WAITING)
        say_waiting(c);
    switch (r) {
    case VL_TURN_NOTHING:
        return;
    case VL_TURN_LISTED:
        if (c->turn.n_models > 1 && !c->turn.model.len && c->choice == VL_CHOICE_NONE &&
            !c->input.text.len)
            vl_chat_choose_model(c);
        break;
    case VL_TURN_CHOOSE:
        take_back(c);
        break;
    case VL_TURN_OK:
        c->turn.will_ask = false;
        good = c->answer->text.len || c->answer->n_tools;
        settle(c, good);
        if (!good)
            vl_chat_note(c, VL_ITEM_ERROR, "the answer was empty (%s)",
                         c->turn.stats.finish[0] ? c->turn.stats.finish : "no reason given");
        save(c);
        break;
    case VL_TURN_FAILED:
        if (!c->turn.will_ask) /* only the list of models; the first question will tell */
            break;
        c->turn.will_ask = false;
        settle(c, false);
        vl_chat_note(c, VL_ITEM_ERROR, "%s (/retry asks again)",
                     c->turn.message.len ? c->turn.message.ptr : "the request failed");
        save(c);
        break;
    }
    c->dirty = true;
}
