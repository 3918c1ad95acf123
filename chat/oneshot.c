/* chat/oneshot.c: `poppy "question"` and `cmd | poppy "explain"`: the answer on stdout, everything
 * else on stderr, an exit status. Knows no keys. */
#include "chat/oneshot.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "chat/clock.h"
#include "chat/inline.h"
#include "chat/signals.h"
#include "chat/term.h"
#include "chat/turn.h"

struct run {
    struct vl_turn turn;
    struct vl_session session;
    struct vl_item *answer;
    struct vl_face face;
    struct vl_inline *view; /* on a terminal; NULL: bytes as they are */
    bool raw;
    size_t n_out; /* bytes of the answer that were written */
    char last;
    int signal;
    bool broken; /* stdout can't be written any more */
};

static void say(const char *text, size_t len)
{
    vl_buf line = VL_BUF_INIT;

    vl_clean_text(&line, text, len, true);
    fprintf(stderr, "poppy: %s\n", line.len ? line.ptr : "");
    vl_buf_fini(&line);
}

static void say_text(const char *text)
{
    say(text, strlen(text));
}

/* The words, a blank line, then what stands on standard input. False: no question, or no memory. */
static bool read_question(const struct vl_options *o, vl_buf *out)
{
    vl_buf in = VL_BUF_INIT;
    char part[65536];
    ssize_t n = 0;

    if (!isatty(STDIN_FILENO))
        while ((n = read(STDIN_FILENO, part, sizeof(part))) > 0 || (n < 0 && errno == EINTR)) {
            if (n > 0)
                vl_buf_append(&in, part, (size_t)n);
            if (vl_signals_fd() >= 0) {
                struct pollfd p = {vl_signals_fd(), POLLIN, 0};

                if (poll(&p, 1, 0) > 0)
                    break;
            }
        }
    vl_buf_append(out, o->words.ptr, o->words.len);
    if (out->len && in.len)
        vl_buf_puts(out, "\n\n");
    if (in.len) /* JSON can carry nothing but UTF-8 */
        vl_utf8_lossy(out, in.ptr, in.len);
    vl_buf_fini(&in);
    return out->len > 0 && !out->failed;
}

static void write_out(struct run *r, const char *bytes, size_t len)
{
    while (len > 0 && !r->broken) {
        ssize_t n = write(STDOUT_FILENO, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            r->broken = true;
            return;
        }
        r->last = bytes[n - 1];
        bytes += n;
        len -= (size_t)n;
    }
}

static void draw(struct run *r, bool end)
{
    vl_buf out = VL_BUF_INIT;

    r->face.now = vl_now_s();
    vl_term_size(&r->face.cols, &r->face.rows);
    if (end)
        vl_inline_end(r->view, &r->face, &out);
    else
        vl_inline_frame(r->view, &r->face, &out);
    write_out(r, out.ptr, out.len);
    vl_buf_fini(&out);
}

static void show(struct run *r)
{
    const vl_buf *b = r->raw ? &r->answer->text : &r->answer->shown;

    if (r->view) {
        draw(r, false);
        return;
    }
    if (b->len > r->n_out) {
        size_t from = r->n_out;

        r->n_out = b->len;
        write_out(r, b->ptr + from, b->len - from);
    }
}

static bool reader_gone(void)
{
    struct pollfd p = {STDOUT_FILENO, 0, 0};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP | POLLNVAL));
}

static enum vl_turn_result ask(struct run *r)
{
    enum vl_turn_result result = VL_TURN_NOTHING;
    bool told = false;

    while (result == VL_TURN_NOTHING && !r->signal && !r->broken) {
        struct curl_waitfd fd = {vl_signals_fd(), CURL_WAIT_POLLIN, 0};

        vl_client_wait(r->turn.client, &fd, 1, r->view ? 50 : 250);
        r->signal = vl_signals_take();
        result = vl_turn_step(&r->turn);
        if (r->turn.state == VL_TURN_WAITING && !told) {
            vl_buf text = VL_BUF_INIT;

            told = true;
            vl_buf_append(&text, r->turn.message.ptr, r->turn.message.len);
            vl_buf_printf(&text, "; asking again in %.0f s", r->turn.wait_until - vl_now_s());
            say(text.len ? text.ptr : "", text.len);
            vl_buf_fini(&text);
        }
        show(r);
        r->broken = r->broken || reader_gone();
    }
    return result;
}

static void say_models(const struct vl_turn *t)
{
    vl_buf text = VL_BUF_INIT;

    vl_buf_puts(&text, "the server has several models, name one with -m:");
    for (size_t i = 0; i < t->n_models; i++)
        vl_buf_printf(&text, "%s %s", i ? "," : "", t->models[i]);
    say(text.ptr, text.len);
    vl_buf_fini(&text);
}

/* What stderr is told at the end, and the exit status. */
static int finish(struct run *r, enum vl_turn_result result)
{
    int rc = result == VL_TURN_OK ? 0 : 1;

    vl_item_close(r->answer);
    show(r);
    if (r->view)
        draw(r, true);
    else if (!r->raw && r->n_out && r->last != '\n')
        write_out(r, "\n", 1);
    if (r->signal)
        return 128 + r->signal;
    if (r->broken) {
        say_text("standard output was closed");
        return 1;
    }
    if (result == VL_TURN_CHOOSE)
        say_models(&r->turn);
    else if (result == VL_TURN_FAILED)
        say(r->turn.message.len ? r->turn.message.ptr : "", r->turn.message.len);
    for (size_t i = 0; rc == 0 && !r->view && i < r->answer->n_tools; i++) {
        const struct vl_tool_call *t = &r->answer->tools[i];
        vl_buf text = VL_BUF_INIT;

        vl_buf_puts(&text, "the model calls ");
        vl_buf_append(&text, t->name.ptr, t->name.len);
        vl_buf_putc(&text, ' ');
        vl_buf_append(&text, t->args.ptr, t->args.len);
        say(text.len ? text.ptr : "", text.len);
        vl_buf_fini(&text);
    }
    if (rc == 0 && !r->view && strcmp(r->answer->finish, "length") == 0)
        say_text("the answer was cut at the token limit");
    return rc;
}

int vl_oneshot_run(const struct vl_options *o, const struct vl_settings *settings, const char *url,
                   const char *model)
{
    bool terminal = isatty(STDOUT_FILENO);
    /* On a terminal nothing may act: there -r is the Markdown as written, cleaned. */
    struct run r = {.raw = o->raw && !terminal};
    vl_buf question = VL_BUF_INIT;
    vl_error err = {0};
    int rc = 1;

    vl_signals_init(false);
    vl_session_init(&r.session);
    if (vl_turn_init(&r.turn, &err) != VL_OK || vl_turn_server(&r.turn, url, &err) != VL_OK) {
        say_text(err.text);
        rc = 2;
        goto out;
    }
    if (!read_question(o, &question)) {
        say_text("nothing to ask: give a question, or text on standard input");
        rc = 2;
        goto out;
    }
    r.signal = vl_signals_take();
    if (r.signal) {
        rc = 128 + r.signal;
        goto out;
    }
    r.turn.key = o->key;
    if (model)
        vl_buf_puts(&r.turn.model, model);
    vl_buf_append(&r.session.system, o->persona.ptr, o->persona.len);
    r.answer = vl_session_add(&r.session, VL_ITEM_ASSISTANT, "", 0);
    if (!r.answer)
        goto out;
    r.answer->open = true;
    r.answer->failed = true; /* it is not part of what is asked */
    if (!o->raw && !o->dumb && terminal)
        r.view = vl_inline_create(false);
    r.face = (struct vl_face){.session = &r.session, .turn = &r.turn, .depth = o->colour};
    r.face.theme = settings->theme.len ? vl_theme_find(settings->theme.ptr) : NULL;
    if (!r.face.theme)
        r.face.theme = vl_theme_default(true);
    vl_turn_ask(&r.turn, &r.session, settings, question.ptr, question.len, r.answer);
    rc = finish(&r, ask(&r));
out:
    vl_inline_destroy(r.view);
    vl_turn_fini(&r.turn);
    vl_session_fini(&r.session);
    vl_buf_fini(&question);
    return rc;
}
