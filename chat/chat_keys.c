/* chat/chat_keys.c: what keys mean in a chat, above what they mean in the line editor. */
#include <stdlib.h>
#include <string.h>

#include "chat/chat_state.h"
#include "chat/clock.h"
#include "chat/term.h"

static const double CTRL_C_AGAIN_S = 2.0;

static const char *box(const struct vl_chat *c)
{
    return c->input.text.len ? c->input.text.ptr : "";
}

void vl_chat_text_changed(struct vl_chat *c)
{
    size_t at;

    if (c->choice > VL_CHOICE_COMPLETE)
        return;
    vl_menu_clear(&c->menu);
    c->choice = VL_CHOICE_NONE;
    c->cycling = false;
    if (box(c)[0] != '/' || strchr(box(c), '\n'))
        return;
    vl_command_complete(c, box(c), &at);
    c->menu.selected = c->menu.n;
    if (c->menu.n)
        c->choice = VL_CHOICE_COMPLETE;
}

/* A completion ends where two blanks begin what explains it. */
static size_t word_of(const char *line)
{
    const char *end = strstr(line, "  ");

    return end ? (size_t)(end - line) : strlen(line);
}

static void tab(struct vl_chat *c, bool back)
{
    struct vl_menu *m = &c->menu;
    size_t at = 0, common;
    vl_buf text = VL_BUF_INIT;

    if (c->choice != VL_CHOICE_COMPLETE || m->n == 0)
        return;
    while (box(c)[at] && box(c)[at] != ' ')
        at++;
    at = box(c)[at] ? at + 1 : 0; /* the argument, or the command itself */
    common = word_of(m->lines[0]);
    for (size_t i = 1; i < m->n; i++) {
        size_t k = 0;

        while (k < common && m->lines[i][k] == m->lines[0][k])
            k++;
        common = k;
    }
    vl_buf_append(&text, box(c), at);
    if (!c->cycling && (m->n == 1 || common > c->input.text.len - at)) {
        vl_buf_append(&text, m->lines[0], common);
        if (m->n == 1 && at == 0)
            vl_buf_putc(&text, ' ');
        vl_input_set(&c->input, text.ptr, text.len);
        vl_chat_text_changed(c);
    } else {
        size_t n = m->n;

        c->cycling = true;
        m->selected =
            m->selected >= n ? (back ? n - 1 : 0) : (m->selected + (back ? n - 1 : 1)) % n;
        vl_buf_append(&text, m->lines[m->selected], word_of(m->lines[m->selected]));
        vl_input_set(&c->input, text.ptr, text.len);
    }
    vl_buf_fini(&text);
}

/* A key while something is chosen from the list. False: the list is left, the key counts. */
static bool choose(struct vl_chat *c, const struct vl_key_event *e)
{
    struct vl_menu *m = &c->menu;
    enum vl_choice choice = c->choice;
    char *what = NULL;

    switch (e->key) {
    case VL_KEY_UP:
        m->selected = (m->selected + m->n - 1) % m->n;
        return true;
    case VL_KEY_DOWN:
    case VL_KEY_TAB:
        m->selected = (m->selected + 1) % m->n;
        return true;
    case VL_KEY_ENTER:
        what = strndup(m->lines[m->selected], word_of(m->lines[m->selected]));
        break;
    default:
        break;
    }
    if (choice == VL_CHOICE_MODEL && what && m->selected < c->turn.n_models) {
        free(what); /* the line is cleaned, the name is as the server has it */
        what = strdup(c->turn.models[m->selected]);
    }
    c->choice = VL_CHOICE_NONE;
    vl_menu_clear(m);
    if (what)
        vl_command_chosen(c, choice, what);
    free(what);
    vl_chat_text_changed(c);
    return e->key == VL_KEY_ENTER || e->key == VL_KEY_ESC;
}

void vl_chat_submit(struct vl_chat *c)
{
    vl_buf text = VL_BUF_INIT;
    size_t skip = 0;

    vl_buf_append(&text, box(c), c->input.text.len);
    while (skip < text.len && strchr(" \t\n", text.ptr[skip]))
        skip++;
    if (skip == text.len)
        goto out;
    if (text.ptr[0] == '/') {
        if (vl_command_run(c, text.ptr)) {
            vl_history_add(&c->history, text.ptr, text.len, NULL);
            if (c->input.text.len == text.len && memcmp(box(c), text.ptr, text.len) == 0)
                vl_input_clear(&c->input);
        }
    } else if (vl_turn_busy(&c->turn)) {
        vl_chat_hint(c, "an answer is running: Esc stops it, then Enter sends");
    } else {
        if (text.ptr[skip] != '/')
            skip = 0;
        vl_history_add(&c->history, text.ptr, text.len, NULL);
        vl_input_clear(&c->input);
        vl_chat_ask(c, text.ptr + skip, text.len - skip);
    }
    vl_chat_text_changed(c);
out:
    vl_buf_fini(&text);
}

void vl_chat_interrupt(struct vl_chat *c, int status)
{
    double now = vl_now_s();

    if (vl_turn_busy(&c->turn)) {
        vl_chat_stop(c);
    } else if (c->input.text.len || c->input.searching) {
        vl_input_clear(&c->input);
        vl_chat_text_changed(c);
    } else if (c->ctrl_c_at > 0 && now - c->ctrl_c_at <= CTRL_C_AGAIN_S) {
        vl_chat_leave(c, status);
    } else {
        c->ctrl_c_at = now;
        vl_chat_hint(c, "Ctrl-C again leaves the chat");
        c->hint_until = now + CTRL_C_AGAIN_S;
    }
}

static void scroll(struct vl_chat *c, long by)
{
    if (by < 0 && c->face.scroll < (size_t)-by)
        c->face.scroll = 0;
    else
        c->face.scroll += (size_t)by; /* the view keeps it within the transcript */
}

static void escape(struct vl_chat *c)
{
    if (vl_turn_busy(&c->turn))
        vl_chat_stop(c);
    else if (c->choice != VL_CHOICE_NONE) {
        c->choice = VL_CHOICE_NONE;
        vl_menu_clear(&c->menu);
    } else if (c->face.scroll) {
        c->face.scroll = 0;
    }
}

static bool control(struct vl_chat *c, int code)
{
    switch (code) {
    case 'c':
        vl_chat_interrupt(c, 0);
        return true;
    case 'd':
        if (c->input.text.len)
            return false;
        if (vl_turn_busy(&c->turn))
            vl_chat_stop(c);
        vl_chat_leave(c, 0);
        return true;
    case 'l':
        vl_chat_redraw(c);
        return true;
    case 'o':
        vl_chat_edit(c);
        return true;
    case 'z':
        vl_chat_suspend(c);
        return true;
    default:
        return false;
    }
}

void vl_chat_key(struct vl_chat *c, const struct vl_key_event *e)
{
    long page = c->view.page > 2 ? (long)c->view.page - 2 : 1;
    enum vl_input_result r;

    c->dirty = true;
    if (e->key != VL_KEY_CTRL || e->code != 'c') {
        c->ctrl_c_at = 0;
        vl_buf_clear(&c->hint);
    }
    if (c->choice > VL_CHOICE_COMPLETE && choose(c, e))
        return;
    if (!c->input.searching) {
        switch (e->key) {
        case VL_KEY_PGUP:
            scroll(c, page);
            return;
        case VL_KEY_PGDN:
            scroll(c, -page);
            return;
        case VL_KEY_WHEEL_UP:
            scroll(c, 3);
            return;
        case VL_KEY_WHEEL_DOWN:
            scroll(c, -3);
            return;
        case VL_KEY_TAB:
            tab(c, e->mods & VL_MOD_SHIFT);
            return;
        case VL_KEY_ESC:
            escape(c);
            return;
        case VL_KEY_CTRL:
            if (control(c, e->code))
                return;
            break;
        default:
            break;
        }
    }
    r = vl_input_key(&c->input, e);
    if (r == VL_INPUT_SUBMIT)
        vl_chat_submit(c);
    else if (r == VL_INPUT_DONE)
        vl_chat_text_changed(c);
}
