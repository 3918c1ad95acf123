/* chat/bloom.c: `poppy --bloom`: the life of the flower, played once. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat/chat.h"
#include "chat/clock.h"
#include "chat/flower.h"
#include "chat/screen.h"
#include "chat/signals.h"
#include "chat/term.h"

static const double LIFE_S = 14.0, FRAME_S = 1.0 / 20;

/* How far it is open at second t: a bud, opening, in flower, closing. */
static float bloom_at(double t)
{
    double x = t < 2 ? 0 : t < 5 ? (t - 2) / 3 : t < 11 ? 1 : t < 13 ? 1 - (t - 11) / 2 : 0;

    return (float)(x * x * (3 - 2 * x));
}

static bool draw(struct vl_screen *s, const struct vl_options *o, double t)
{
    struct vl_flower_cell *cells;
    vl_buf out = VL_BUF_INIT;
    int cols, rows, w;
    bool ok;

    vl_term_size(&cols, &rows);
    vl_screen_resize(s, cols, rows);
    w = s->rows * 2 < s->cols ? s->rows * 2 : s->cols;
    cells = calloc((size_t)w * (size_t)s->rows, sizeof(*cells));
    if (!cells)
        return false;
    vl_flower_draw(cells, w, s->rows, bloom_at(t), (float)t);
    vl_screen_begin(s);
    for (int y = 0; y < s->rows; y++)
        for (int x = 0; x < w; x++) {
            const struct vl_flower_cell *f = &cells[y * w + x];
            struct vl_cell *c = vl_screen_at(s, y, (s->cols - w) / 2 + x);
            int r = (int)(f->rgb >> 16), g = (int)(f->rgb >> 8 & 255);

            if (!f->dots || !c)
                continue;
            c->ch = 0x2800u + f->dots;
            c->fg = o->colour == VL_COLOUR_NONE ? 0
                    : o->colour == VL_COLOUR_16 ? VL_ANSI(r > g + 20 ? 1
                                                          : g > r    ? 2
                                                                     : 8)
                                                : VL_RGB(f->rgb);
        }
    vl_screen_flush(s, &out);
    ok = !out.len || vl_term_write(out.ptr, out.len);
    vl_buf_fini(&out);
    free(cells);
    return ok;
}

int vl_chat_bloom(const struct vl_options *o, const struct vl_settings *settings)
{
    struct vl_screen screen;
    double began = vl_now_s(), t = 0;
    int sig = 0;
    char key[64];

    (void)settings;
    if (o->dumb || !isatty(STDIN_FILENO)) {
        fputs("poppy: --bloom needs a terminal that can move its cursor\n", stderr);
        return 2;
    }
    vl_signals_init(false);
    vl_screen_init(&screen, o->colour);
    if (!vl_term_enter(VL_TERM_ALT))
        return 1;
    while (t < LIFE_S && !sig && draw(&screen, o, t)) {
        struct pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {vl_signals_fd(), POLLIN, 0}};

        if (poll(fds, 2, (int)(FRAME_S * 1000)) > 0 && fds[0].revents) {
            ssize_t n = read(STDIN_FILENO, key, sizeof(key));

            if (n > 0 && key[0] == 3)
                sig = 2;
            break; /* any key ends it */
        }
        sig = vl_signals_take();
        t = vl_now_s() - began;
    }
    vl_term_leave();
    vl_screen_fini(&screen);
    return sig ? 128 + sig : 0;
}
