/* chat/chat.c: the loop of a chat: bytes to keys, the client, frames in their time. What keys,
 * commands and answers mean is in chat_keys.c, commands.c and chat_turn.c. */
#include "chat/chat.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat/chat_state.h"
#include "chat/clock.h"
#include "chat/editor.h"
#include "chat/signals.h"
#include "chat/term.h"
#include "chat/width.h"

static const double FRAME_S = 1.0 / 30;  /* no two frames are nearer than this */
static const double FLOWER_S = 1.0 / 20; /* of the flower while it is busy */
static const double FLOWER_REST_S = 1.0 / 8;
static const double BYTES_PER_S = 250e3; /* of the flower: what a slow line bears */
static const double BYTES_REST_PER_S = 60e3;
static const double OPEN_S = 2.0, CLOSE_S = 1.2; /* time to open and to close */
static const double PROBE_S = 0.150;
static const double HINT_S = 8.0;
enum { ESC_MS = 30 };

/* ---- what others say to the user ---- */

void vl_chat_hint(struct vl_chat *c, const char *fmt, ...)
{
    vl_buf text = VL_BUF_INIT;
    va_list args;
    int cols, rows;

    va_start(args, fmt);
    vl_buf_vprintf(&text, fmt, args);
    va_end(args);
    vl_term_size(&cols, &rows);
    vl_buf_clear(&c->hint);
    if (c->kind != VL_VIEW_PLAIN && text.len && vl_text_cells(text.ptr, text.len) > cols - 2)
        vl_session_add(&c->session, VL_ITEM_NOTE, text.ptr, text.len); /* it would be cut */
    else
        vl_clean_text(&c->hint, text.len ? text.ptr : "", text.len, true);
    vl_buf_fini(&text);
    c->hint_until = vl_now_s() + HINT_S;
    c->dirty = true;
    if (c->kind == VL_VIEW_PLAIN) {
        vl_term_write("\n", 1);
        vl_term_write(c->hint.ptr ? c->hint.ptr : "", c->hint.len);
        vl_term_write("\n", 1);
        c->plain_prompt = false;
    }
}

void vl_chat_note(struct vl_chat *c, enum vl_item_kind kind, const char *fmt, ...)
{
    vl_buf text = VL_BUF_INIT;
    va_list args;

    va_start(args, fmt);
    vl_buf_vprintf(&text, fmt, args);
    va_end(args);
    vl_session_add(&c->session, kind, text.len ? text.ptr : "", text.len);
    vl_buf_fini(&text);
    c->dirty = true;
}

void vl_chat_save_settings(struct vl_chat *c)
{
    vl_error err = {0};

    if (vl_settings_save(c->settings, &err) != VL_OK)
        vl_chat_note(c, VL_ITEM_ERROR, "the settings could not be saved: %s", err.text);
}

void vl_chat_leave(struct vl_chat *c, int status)
{
    c->quit = true;
    c->status = status;
}

/* ---- the terminal ---- */

static unsigned wanted_modes(const struct vl_chat *c)
{
    return VL_TERM_PASTE | (c->kind == VL_VIEW_FULL ? VL_TERM_ALT : 0) |
           (c->settings->mouse ? VL_TERM_MOUSE : 0);
}

void vl_chat_redraw(struct vl_chat *c)
{
    c->screen.unknown = true;
    if (c->inline_view)
        vl_inline_forget(c->inline_view);
    c->dirty = true;
    c->next_frame = 0;
}

/* What was learnt about the terminal at the start. */
struct probe {
    bool done, sync, clusters, kitty, set_clusters;
    int cursors;
    int columns[2]; /* behind a family, behind a heart with U+FE0F */
};

static void probe_reply(struct vl_chat *c, struct probe *p, const struct vl_key_event *e)
{
    switch (e->key) {
    case VL_KEY_REPLY_MODE: /* 1 set, 2 reset, 3 always set, 4 never */
        if (e->params[0] == 2026)
            p->sync = e->params[1] >= 1 && e->params[1] <= 3;
        if (e->params[0] == 2027) {
            p->clusters = e->params[1] >= 1 && e->params[1] <= 3;
            p->set_clusters = e->params[1] == 2;
        }
        break;
    case VL_KEY_REPLY_CURSOR:
        if (p->cursors < 2)
            p->columns[p->cursors++] = e->params[1];
        break;
    case VL_KEY_REPLY_KITTY:
        p->kitty = true;
        break;
    case VL_KEY_REPLY_COLOUR:
        if (e->params[0] == 11) {
            int rgb = e->params[1];

            c->dark = (rgb >> 16) * 3 + (rgb >> 8 & 255) * 6 + (rgb & 255) < 1280;
        }
        break;
    case VL_KEY_REPLY_DEVICE:
        p->done = true;
        break;
    default:
        break;
    }
}

static bool is_reply(const struct vl_key_event *e)
{
    return e->key >= VL_KEY_REPLY_MODE;
}

static bool read_bytes(struct vl_chat *c)
{
    char bytes[16384];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0)
        return false;
    vl_keys_feed(&c->keys, bytes, (size_t)n);
    c->bytes_at = vl_now_s();
    return true;
}

/* Asks the terminal what it can do; what it does not answer in time, it can't. Keys that come
 * meanwhile are keys. */
static void probe(struct vl_chat *c)
{
    static const char ask[] =
        "\x1b[?2026$p\x1b[?2027$p\x1b[?u\x1b]11;?\x1b\\"
        "\r\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7\x1b[6n"
        "\r\x1b[K\xE2\x9D\xA4\xEF\xB8\x8F\x1b[6n\r\x1b[K\x1b[c";
    struct probe p = {0};
    double end = vl_now_s() + PROBE_S, left;

    if (!vl_term_write(ask, sizeof(ask) - 1))
        return;
    while (!p.done && (left = end - vl_now_s()) > 0) {
        struct pollfd fd = {STDIN_FILENO, POLLIN, 0};
        struct vl_key_event e;

        if (poll(&fd, 1, (int)(left * 1000) + 1) <= 0)
            continue;
        if (!read_bytes(c))
            break;
        while (vl_keys_next(&c->keys, &e, false)) {
            if (is_reply(&e))
                probe_reply(c, &p, &e);
            else
                vl_chat_key(c, &e);
        }
    }
    c->sync = p.sync;
    if (p.kitty)
        vl_term_mode(VL_TERM_KITTY, true);
    if (p.set_clusters)
        vl_term_mode(VL_TERM_CLUSTER, true);
    vl_width_set((struct vl_width_rules){
        .clusters = p.clusters || p.cursors < 1 || p.columns[0] <= 3,
        .emoji_vs = p.cursors < 2 || p.columns[1] >= 3,
    });
}

static void enter(struct vl_chat *c)
{
    unsigned keep = vl_term_modes();

    vl_term_enter(wanted_modes(c) | keep);
}

/* Leaves the terminal, runs `act`, comes back. */
static void outside(struct vl_chat *c, void (*act)(struct vl_chat *c))
{
    unsigned modes = vl_term_modes();
    vl_buf out = VL_BUF_INIT;

    if (c->kind == VL_VIEW_INLINE) /* the live rows go, the cursor stands where they began */
        vl_inline_end(c->inline_view, &c->face, &out);
    vl_term_write(out.ptr ? out.ptr : "", out.len);
    vl_buf_fini(&out);
    vl_term_leave();
    act(c);
    enter(c);
    vl_term_mode(modes, true);
    vl_chat_redraw(c);
}

static void stop_process(struct vl_chat *c)
{
    struct sigaction sa, old;

    c->stopped = true;
    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = SIG_DFL;
    sigaction(SIGTSTP, &sa, &old);
    kill(0, SIGTSTP); /* the whole job, as the terminal would */
    sigaction(SIGTSTP, &old, NULL);
}

static void nothing(struct vl_chat *c)
{
    (void)c;
}

/* Back from a stop. One that nobody asked us for (SIGSTOP) has left the terminal to others: its
 * modes must be set again. */
static void resume(struct vl_chat *c)
{
    if (!c->stopped && c->kind != VL_VIEW_PLAIN)
        outside(c, nothing);
    c->stopped = false;
}

void vl_chat_suspend(struct vl_chat *c)
{
    if (c->kind == VL_VIEW_PLAIN)
        stop_process(c);
    else
        outside(c, stop_process);
}

static void run_editor(struct vl_chat *c)
{
    vl_error err = {0};
    vl_buf text = VL_BUF_INIT;

    vl_buf_append(&text, c->input.text.ptr, c->input.text.len);
    if (vl_editor_run(&text, &err) != VL_OK) {
        vl_chat_hint(c, "%s", err.text);
    } else {
        vl_input_clear(&c->input);
        vl_input_insert(&c->input, text.len ? text.ptr : "", text.len);
    }
    vl_buf_fini(&text);
}

void vl_chat_edit(struct vl_chat *c)
{
    if (vl_turn_busy(&c->turn))
        vl_chat_hint(c, "the editor waits for the end of the answer; Esc stops it");
    else if (c->kind == VL_VIEW_PLAIN)
        vl_chat_hint(c, "no editor on this terminal");
    else
        outside(c, run_editor);
}

/* ---- frames ---- */

static bool flower_target(const struct vl_chat *c)
{
    return !(c->fresh || (vl_turn_busy(&c->turn) && !c->turn.stats.first_at));
}

/* Moves the flower on; true if it is in motion. */
static void tick(struct vl_chat *c, double now)
{
    double dt = now - c->last_tick;
    bool busy = vl_turn_busy(&c->turn);

    dt = dt > 0.5 ? 0.5 : dt;
    c->last_tick = now;
    c->phase += (float)(dt * (busy ? 1.0 : 0.25));
    if (flower_target(c))
        c->bloom += (float)(dt / OPEN_S);
    else
        c->bloom -= (float)(dt / CLOSE_S);
    c->bloom = c->bloom < 0 ? 0 : c->bloom > 1 ? 1 : c->bloom;
}

static bool flower_moves(const struct vl_chat *c)
{
    return c->kind == VL_VIEW_FULL && vl_view_has_flower(&c->face, c->screen.cols, c->screen.rows);
}

static bool flower_is_busy(const struct vl_chat *c)
{
    return vl_turn_busy(&c->turn) || (c->bloom > 0 && c->bloom < 1);
}

static void fill_face(struct vl_chat *c, double now)
{
    struct vl_face *f = &c->face;

    vl_term_size(&f->cols, &f->rows);
    f->session = &c->session;
    f->turn = &c->turn;
    f->input = &c->input;
    f->menu = c->choice != VL_CHOICE_NONE ? &c->menu : NULL;
    f->theme = vl_command_theme(c);
    f->fade = vl_command_fade(c);
    f->depth = c->options->colour;
    f->hint = c->hint.len && now < c->hint_until ? c->hint.ptr : NULL;
    f->thoughts = c->settings->show_thinking ? VL_THOUGHTS_SHOWN : VL_THOUGHTS_FOLDED;
    f->now = now;
    f->bloom = c->bloom * c->bloom * (3 - 2 * c->bloom);
    f->phase = c->phase;
}

/* Plain chat: text behind what was printed, no sequences. */
static void plain_frame(struct vl_chat *c)
{
    for (size_t i = 0; i < c->session.n_items; i++) {
        struct vl_item *item = c->session.items[i];

        if (item->printed)
            continue;
        if (item->kind != VL_ITEM_USER && item->shown.len > item->printed_lines) {
            vl_term_write(item->shown.ptr + item->printed_lines,
                          item->shown.len - item->printed_lines);
            item->printed_lines = item->shown.len;
        }
        if (item->open)
            return;
        for (size_t k = 0; k < item->n_tools; k++) {
            vl_clean_text(&c->out, item->tools[k].name.ptr, item->tools[k].name.len, true);
            vl_buf_putc(&c->out, ' ');
            vl_clean_text(&c->out, item->tools[k].args.ptr, item->tools[k].args.len, true);
            vl_term_write(c->out.ptr ? c->out.ptr : "", c->out.len);
            vl_buf_clear(&c->out);
        }
        if (item->kind != VL_ITEM_USER)
            vl_term_write("\n", 1);
        item->printed = true;
    }
    if (!c->plain_prompt && !vl_turn_busy(&c->turn)) {
        vl_term_write("> ", 2);
        c->plain_prompt = true;
    }
}

static void draw(struct vl_chat *c, double now)
{
    int cols, rows;
    double took;

    tick(c, now);
    fill_face(c, now);
    vl_buf_clear(&c->out);
    if (c->kind == VL_VIEW_FULL) {
        vl_term_size(&cols, &rows);
        vl_screen_resize(&c->screen, cols, rows);
        c->screen.sync = c->sync;
        vl_view_draw(&c->view, &c->face, &c->screen);
        vl_screen_flush(&c->screen, &c->out);
    } else if (c->kind == VL_VIEW_INLINE) {
        vl_inline_frame(c->inline_view, &c->face, &c->out);
    } else {
        plain_frame(c);
    }
    if (c->out.len && !vl_term_write(c->out.ptr, c->out.len))
        vl_chat_leave(c, 128 + SIGHUP);
    took = vl_now_s() - now;
    /* A long answer whose last block is long takes long to draw: then it is drawn less often. */
    c->next_frame = now + (took * 4 > FRAME_S ? took * 4 : FRAME_S);
    if (flower_moves(c)) {
        bool busy = flower_is_busy(c);
        double wait = busy ? FLOWER_S : FLOWER_REST_S;
        double line = (double)c->out.len / (busy ? BYTES_PER_S : BYTES_REST_PER_S);

        c->next_flower = now + (line > wait ? line : wait);
    }
    c->dirty = false;
}

/* Seconds until something must be drawn; draws when it is time. */
static double draw_if_due(struct vl_chat *c)
{
    double now = vl_now_s(), next = now + 1.0;
    bool due = c->dirty;

    if (c->hint.len && now >= c->hint_until) {
        vl_buf_clear(&c->hint);
        due = c->dirty = true;
    }
    if (c->hint.len && c->hint_until < next)
        next = c->hint_until;
    if (vl_turn_busy(&c->turn) && now >= c->next_frame + 0.1) /* the seconds go on */
        due = true;
    if (vl_turn_busy(&c->turn) && next > now + 0.1)
        next = now + 0.1;
    if (flower_moves(c)) {
        if (now >= c->next_flower && (c->dirty || vl_term_ready()))
            due = true;
        else if (now >= c->next_flower)
            c->next_flower = now + 0.05;
        next = c->next_flower < next ? c->next_flower : next;
    }
    if (!due)
        return next - now;
    if (now < c->next_frame)
        return c->next_frame - now;
    draw(c, now);
    return 0.0;
}

/* ---- input and signals ---- */

static void plain_input(struct vl_chat *c)
{
    char bytes[4096];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    const char *nl;

    if (n <= 0) {
        if (!(n < 0 && errno == EINTR))
            vl_chat_leave(c, 0);
        return;
    }
    vl_buf_append(&c->plain_line, bytes, (size_t)n);
    while (c->plain_line.len && (nl = memchr(c->plain_line.ptr, '\n', c->plain_line.len))) {
        struct vl_key_event e = {.key = VL_KEY_ENTER};

        /* What stands in the box and is not to be continued was taken back or refused. */
        if (c->input.text.len && c->input.text.ptr[c->input.text.len - 1] != '\n')
            vl_input_clear(&c->input);
        vl_input_insert(&c->input, c->plain_line.ptr, (size_t)(nl - c->plain_line.ptr));
        vl_buf_consume(&c->plain_line, (size_t)(nl - c->plain_line.ptr) + 1);
        c->plain_prompt = false;
        vl_chat_key(c, &e);
    }
    c->dirty = true;
}

static void take_input(struct vl_chat *c)
{
    struct pollfd fd = {STDIN_FILENO, POLLIN, 0};
    struct vl_key_event e;

    if (poll(&fd, 1, 0) <= 0) {
        /* A sequence that comes in two parts is not the key Esc. */
        if ((vl_now_s() - c->bytes_at) * 1000 < ESC_MS)
            return;
        while (vl_keys_pending(&c->keys) && vl_keys_next(&c->keys, &e, true))
            if (!is_reply(&e))
                vl_chat_key(c, &e);
        return;
    }
    if (c->kind == VL_VIEW_PLAIN) {
        plain_input(c);
        return;
    }
    if (!read_bytes(c)) {
        vl_chat_leave(c, 128 + SIGHUP);
        return;
    }
    while (!c->quit && vl_keys_next(&c->keys, &e, false))
        if (!is_reply(&e))
            vl_chat_key(c, &e);
}

static void take_signals(struct vl_chat *c)
{
    for (int sig; (sig = vl_signals_take()) != 0;) {
        switch (sig) {
        case SIGINT:
            vl_chat_interrupt(c, 128 + SIGINT);
            break;
        case SIGTERM:
        case SIGHUP:
            if (vl_turn_busy(&c->turn))
                vl_chat_stop(c);
            vl_chat_leave(c, 128 + sig);
            break;
        case SIGTSTP:
            vl_chat_suspend(c);
            break;
        case SIGCONT:
            resume(c);
            break;
        default:
            c->dirty = true; /* a new size */
            break;
        }
    }
}

static void loop(struct vl_chat *c)
{
    while (!c->quit) {
        struct curl_waitfd fds[2] = {{STDIN_FILENO, CURL_WAIT_POLLIN, 0},
                                     {vl_signals_fd(), CURL_WAIT_POLLIN, 0}};
        double wait = draw_if_due(c);
        int ms = wait > 0 ? (int)(wait * 1000) + 1 : 0;
        int64_t came = c->turn.stats.n_deltas;
        bool pending = vl_keys_pending(&c->keys);

        if (pending && ms > ESC_MS)
            ms = ESC_MS;
        vl_client_wait(c->turn.client, fds, 2, ms);
        take_signals(c);
        if (!c->quit)
            take_input(c);
        vl_chat_step(c);
        if (c->turn.stats.n_deltas != came)
            c->dirty = true;
    }
}

/* ---- beginning and end ---- */

static bool start(struct vl_chat *c, const char *url, const char *model)
{
    const struct vl_options *o = c->options;
    vl_error err = {0};

    vl_session_init(&c->session);
    vl_keys_init(&c->keys);
    vl_view_init(&c->view);
    vl_screen_init(&c->screen, o->colour);
    vl_input_init(&c->input, &c->history);
    c->kind = o->dumb ? VL_VIEW_PLAIN : o->inline_view ? VL_VIEW_INLINE : VL_VIEW_FULL;
    c->dark = true;
    c->fresh = true;
    c->dirty = true;
    c->last_tick = vl_now_s();
    if (vl_turn_init(&c->turn, &err) != VL_OK || vl_turn_server(&c->turn, url, &err) != VL_OK) {
        fprintf(stderr, "poppy: %s\n", err.text);
        return false;
    }
    if (o->go_on && vl_session_continue(&c->session, &err) == VL_OK)
        c->fresh = false;
    else if (o->go_on)
        vl_chat_note(c, VL_ITEM_NOTE, "a new chat: %s", err.text);
    c->turn.key = o->key;
    if (model)
        vl_buf_puts(&c->turn.model, model);
    if (o->persona.len) {
        vl_buf_clear(&c->session.system);
        vl_buf_append(&c->session.system, o->persona.ptr, o->persona.len);
    }
    if (vl_history_load(&c->history, &err) != VL_OK)
        vl_chat_note(c, VL_ITEM_ERROR, "the history is not used: %s", err.text);
    if (!vl_signals_init(true)) {
        fprintf(stderr, "poppy: no pipe for signals: %s\n", strerror(errno));
        return false;
    }
    if (c->kind == VL_VIEW_INLINE && !(c->inline_view = vl_inline_create(false)))
        return false;
    return true;
}

static void stop(struct vl_chat *c)
{
    vl_buf out = VL_BUF_INIT;
    int cols, rows;

    if (vl_turn_busy(&c->turn))
        vl_chat_stop(c);
    fill_face(c, vl_now_s());
    c->face.menu = NULL;
    vl_term_size(&cols, &rows);
    if (c->kind == VL_VIEW_INLINE)
        vl_inline_end(c->inline_view, &c->face, &out);
    else if (c->kind == VL_VIEW_FULL)
        vl_view_print(&c->face, cols, &out);
    if (c->kind == VL_VIEW_FULL)
        vl_term_leave(); /* the transcript goes to the normal screen */
    vl_term_write(out.ptr ? out.ptr : "", out.len);
    vl_term_leave();
    vl_buf_fini(&out);
}

static void fini(struct vl_chat *c)
{
    vl_turn_fini(&c->turn);
    vl_item_free(c->retired);
    vl_session_fini(&c->session);
    vl_history_fini(&c->history);
    vl_input_fini(&c->input);
    vl_keys_fini(&c->keys);
    vl_menu_fini(&c->menu);
    vl_view_fini(&c->view);
    vl_screen_fini(&c->screen);
    vl_inline_destroy(c->inline_view);
    vl_buf_fini(&c->out);
    vl_buf_fini(&c->plain_line);
    vl_buf_fini(&c->hint);
}

int vl_chat_run(const struct vl_options *o, struct vl_settings *settings, const char *url,
                const char *model)
{
    struct vl_chat c;
    int rc = 2;

    memset(&c, 0, sizeof(c));
    c.options = o;
    c.settings = settings;
    if (!start(&c, url, model))
        goto out;
    rc = 1;
    if (c.kind != VL_VIEW_PLAIN) {
        if (!vl_term_enter(wanted_modes(&c) & ~(unsigned)VL_TERM_PASTE)) {
            fprintf(stderr, "poppy: the terminal can't be set up: %s\n", strerror(errno));
            goto out;
        }
        probe(&c);
        vl_term_mode(VL_TERM_PASTE, true);
        if (c.inline_view) {
            vl_inline_destroy(c.inline_view);
            c.inline_view = vl_inline_create(c.sync);
            if (!c.inline_view)
                goto out;
        }
    }
    vl_turn_look(&c.turn);
    loop(&c);
    stop(&c);
    rc = c.status;
out:
    vl_term_leave();
    fini(&c);
    return rc;
}
