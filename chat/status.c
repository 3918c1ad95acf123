/* chat/status.c: numbers to words. Knows no screen. */
#include "chat/status.h"

#include <string.h>

#include "chat/clean.h"
#include "chat/width.h"

void vl_status_activity(const struct vl_face *f, vl_buf *out)
{
    const struct vl_turn *t = f->turn;
    double s = f->now - t->stats.began;

    if (t->state == VL_TURN_WAITING) {
        double left = t->wait_until - f->now;

        vl_buf_printf(out, "asking again in %.0f s (Esc leaves)", left > 0 ? left + 0.5 : 0.0);
    } else if (!vl_turn_busy(t)) {
        return;
    } else if (t->state == VL_TURN_MODELS) {
        vl_buf_puts(out, "asking for the models");
    } else if (!t->stats.first_at) {
        vl_buf_printf(out, "reading the prompt %.0f s", s);
    } else if (t->answer && !t->answer->text.len && t->answer->thinking.len) {
        vl_buf_printf(out, "thinking %.0f s", f->now - t->stats.first_at);
    } else {
        vl_buf_printf(out, "writing %.0f s", s);
    }
}

static void part(struct vl_span *out, int width, const char *text, size_t len, vl_style style)
{
    static const char dot[] = " \xC2\xB7 ";
    int used = out->text.len ? vl_text_cells(out->text.ptr, out->text.len) : 0;
    int need = vl_text_cells(text, len);

    if (len == 0)
        return;
    if (used && used + 3 + need <= width)
        vl_span_put(out, dot, 4, VL_ROLE_DIM);
    else if (used)
        return; /* what does not fit whole is left out */
    vl_span_put(out, text, vl_text_fit(text, len, width - (used ? used + 3 : 0), NULL), style);
}

static void numbers(const struct vl_face *f, int width, struct vl_span *out)
{
    const struct vl_turn_stats *s = &f->turn->stats;
    int64_t used = s->prompt_tokens >= 0
                       ? s->prompt_tokens + (s->answer_tokens > 0 ? s->answer_tokens : 0)
                       : -1;
    vl_buf b = VL_BUF_INIT;

    if (s->tokens_per_s > 0) {
        vl_buf_printf(&b, "%.1f tok/s", s->tokens_per_s);
        part(out, width, b.ptr, b.len, VL_ROLE_DIM);
        vl_buf_clear(&b);
    }
    if (used >= 0) {
        vl_buf_printf(&b, "context %lld", (long long)used);
        if (f->turn->context_tokens > 0)
            vl_buf_printf(&b, "/%lld", (long long)f->turn->context_tokens);
        part(out, width, b.ptr, b.len, VL_ROLE_DIM);
        vl_buf_clear(&b);
    }
    if (s->cached_tokens >= 0) {
        vl_buf_printf(&b, "cached %lld", (long long)s->cached_tokens);
        part(out, width, b.ptr, b.len, VL_ROLE_DIM);
        vl_buf_clear(&b);
    }
    if (s->finish[0] && !vl_turn_busy(f->turn)) {
        vl_clean_text(&b, s->finish, strlen(s->finish), true);
        part(out, width, b.ptr ? b.ptr : "", b.len, VL_ROLE_DIM);
    }
    vl_buf_fini(&b);
}

void vl_status_line(const struct vl_face *f, int width, struct vl_span *out)
{
    vl_buf text = VL_BUF_INIT;

    if (f->input && f->input->searching) {
        vl_buf_puts(&text, "search: ");
        vl_clean_text(&text, f->input->query.len ? f->input->query.ptr : "", f->input->query.len,
                      true);
        part(out, width, text.ptr, text.len, VL_ROLE_ACCENT);
        vl_buf_fini(&text);
        return;
    }
    if (f->hint) {
        part(out, width, f->hint, strlen(f->hint), VL_ROLE_ACCENT);
        return;
    }
    vl_status_activity(f, &text);
    if (text.len)
        part(out, width, text.ptr, text.len, VL_ROLE_ACCENT);
    vl_buf_clear(&text);
    if (f->turn->model.len)
        vl_clean_text(&text, f->turn->model.ptr, f->turn->model.len, true);
    else
        vl_buf_puts(&text, "no model yet");
    part(out, width, text.ptr ? text.ptr : "", text.len, VL_ROLE_NOTE);
    numbers(f, width, out);
    if (!f->turn->stats.began && f->input)
        part(out, width, "/help", 5, VL_ROLE_DIM);
    vl_buf_fini(&text);
}
