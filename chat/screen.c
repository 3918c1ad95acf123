/* chat/screen.c: cells to bytes, only those that differ. Knows VT sequences; no view, no text
 * layout. */
#include "chat/screen.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "chat/width.h"

void vl_screen_init(struct vl_screen *s, enum vl_colour depth)
{
    memset(s, 0, sizeof(*s));
    s->depth = depth;
    s->unknown = true;
    s->shown_y = -2;
}

void vl_screen_fini(struct vl_screen *s)
{
    free(s->shown);
    free(s->next);
    for (size_t i = 0; i < s->n_pool; i++)
        free(s->pool[i]);
    free(s->pool);
    free(s->pool_hash);
    memset(s, 0, sizeof(*s));
}

static const struct vl_cell blank = {' ', 0, 0, 0, 1, 0};

bool vl_screen_resize(struct vl_screen *s, int cols, int rows)
{
    struct vl_cell *a, *b;
    size_t n = (size_t)cols * (size_t)rows;

    if (cols < 1 || rows < 1 || cols > 4096 || rows > 4096)
        return false;
    if (cols == s->cols && rows == s->rows)
        return true;
    a = calloc(n, sizeof(*a));
    b = calloc(n, sizeof(*b));
    if (!a || !b) {
        free(a);
        free(b);
        return false;
    }
    free(s->shown);
    free(s->next);
    s->shown = a;
    s->next = b;
    s->cols = cols;
    s->rows = rows;
    s->unknown = true;
    return true;
}

void vl_screen_begin(struct vl_screen *s)
{
    size_t n = (size_t)s->cols * (size_t)s->rows;

    for (size_t i = 0; i < n; i++)
        s->next[i] = blank;
    s->cursor_y = -1;
}

struct vl_cell *vl_screen_at(struct vl_screen *s, int y, int x)
{
    if (x < 0 || y < 0 || x >= s->cols || y >= s->rows)
        return NULL;
    return &s->next[(size_t)y * (size_t)s->cols + (size_t)x];
}

static bool grow_hash(struct vl_screen *s)
{
    size_t cap = s->hash_cap ? s->hash_cap * 2 : 64, *h = calloc(cap, sizeof(*h));

    if (!h)
        return false;
    for (size_t i = 0; i < s->n_pool; i++) {
        size_t at = vl_hash_bytes(s->pool[i], strlen(s->pool[i]), 0) & (cap - 1);

        while (h[at])
            at = (at + 1) & (cap - 1);
        h[at] = i + 1;
    }
    free(s->pool_hash);
    s->pool_hash = h;
    s->hash_cap = cap;
    return true;
}

/* The pool's index of a cluster; U+FFFD when out of memory. */
static uint32_t pooled(struct vl_screen *s, const char *text, size_t len)
{
    size_t at;

    if (s->n_pool * 2 >= s->hash_cap && !grow_hash(s))
        return 0xFFFD;
    for (at = vl_hash_bytes(text, len, 0) & (s->hash_cap - 1); s->pool_hash[at];
         at = (at + 1) & (s->hash_cap - 1)) {
        const char *p = s->pool[s->pool_hash[at] - 1];

        if (strncmp(p, text, len) == 0 && p[len] == 0)
            return VL_CELL_POOL | (uint32_t)(s->pool_hash[at] - 1);
    }
    if (!vl_grow(&s->pool, &s->pool_cap, s->n_pool + 1, sizeof(*s->pool)))
        return 0xFFFD;
    s->pool[s->n_pool] = strndup(text, len);
    if (!s->pool[s->n_pool])
        return 0xFFFD;
    s->pool_hash[at] = ++s->n_pool;
    return VL_CELL_POOL | (uint32_t)(s->n_pool - 1);
}

int vl_screen_put(struct vl_screen *s, int y, int x, int end, const char *text, size_t len,
                  vl_paint fg, vl_paint bg, int attr)
{
    if (y < 0 || y >= s->rows)
        return x;
    end = end > s->cols ? s->cols : end;
    for (size_t at = 0; at < len && x < end;) {
        int w;
        size_t n = vl_cluster_next(text + at, len - at, &w);
        struct vl_cell c = {' ', fg, bg, (uint8_t)attr, 1, 0};
        uint32_t cp;

        if (w == 0) { /* a control, or a mark without a letter: nothing to stand on */
            at += n;
            continue;
        }
        if (x + w > end) {
            while (x < end)
                *vl_screen_at(s, y, x++) = c;
            break;
        }
        if (x >= 0) {
            if ((size_t)vl_utf8_next(text + at, n, &cp) == n && cp != 0xFFFFFFFF)
                c.ch = cp;
            else
                c.ch = vl_utf8_valid(text + at, n) == n ? pooled(s, text + at, n) : 0xFFFD;
            c.cells = (uint8_t)(w > 2 ? 2 : w);
            *vl_screen_at(s, y, x) = c;
            for (int k = 1; k < w; k++) { /* without clusters one can be more than two wide */
                c.ch = k < 2 ? 0 : ' ';
                c.cells = k < 2 ? 0 : 1;
                *vl_screen_at(s, y, x + k) = c;
            }
        }
        x += w;
        at += n;
    }
    return x;
}

static void put_paint(vl_buf *out, vl_paint p, int base, enum vl_colour depth)
{
    uint32_t v = p & 0xffffff;

    if (VL_PAINT_KIND(p) == 2)
        vl_buf_printf(out, ";%u", v < 8 ? (unsigned)base + v : (unsigned)base + 52 + v);
    else if (VL_PAINT_KIND(p) == 1 && depth == VL_COLOUR_TRUE)
        vl_buf_printf(out, ";%d;2;%u;%u;%u", base + 8, v >> 16, v >> 8 & 255, v & 255);
    else if (VL_PAINT_KIND(p) == 1 && depth == VL_COLOUR_256)
        vl_buf_printf(out, ";%d;5;%d", base + 8, vl_colour_256(v));
}

void vl_screen_sgr(vl_buf *out, vl_paint fg, vl_paint bg, int attr, enum vl_colour depth)
{
    static const char codes[] = "134927"; /* by bit: bold italic underline strike dim reverse */

    vl_buf_puts(out, "\x1b[0");
    for (int i = 0; i < 6; i++)
        if (attr & 1 << i) {
            vl_buf_putc(out, ';');
            vl_buf_putc(out, codes[i]);
        }
    put_paint(out, fg, 30, depth);
    put_paint(out, bg, 40, depth);
    vl_buf_putc(out, 'm');
}

struct pen {
    int x, y; /* where the terminal's cursor is; x < 0: not known */
    bool set;
    vl_paint fg, bg;
    int attr;
};

static void move_to(vl_buf *out, struct pen *p, int y, int x)
{
    if (p->y == y && p->x == x)
        return;
    if (p->y == y && p->x >= 0 && x > p->x && x - p->x < 10)
        vl_buf_printf(out, "\x1b[%dC", x - p->x);
    else
        vl_buf_printf(out, "\x1b[%d;%dH", y + 1, x + 1);
    p->x = x;
    p->y = y;
}

static void draw(struct vl_screen *s, vl_buf *out, struct pen *p, const struct vl_cell *c)
{
    char utf8[4];

    if (!p->set || c->attr != p->attr || c->bg != p->bg || (c->fg != p->fg && c->ch != ' ')) {
        if (p->set && c->attr == p->attr && c->bg == p->bg && c->fg) {
            size_t at =
                out->len + 2; /* only the colour changes: "\x1b[" + ";38;..." less the ';' */

            vl_buf_puts(out, "\x1b[");
            put_paint(out, c->fg, 30, s->depth);
            if (!out->failed && out->len > at) {
                memmove(out->ptr + at, out->ptr + at + 1, out->len - at - 1);
                out->len--;
            }
            vl_buf_putc(out, 'm');
        } else {
            vl_screen_sgr(out, c->fg, c->bg, c->attr, s->depth);
        }
        p->fg = c->fg;
        p->bg = c->bg;
        p->attr = c->attr;
        p->set = true;
    }
    if (c->ch & VL_CELL_POOL)
        vl_buf_puts(out, s->pool[c->ch & ~VL_CELL_POOL]);
    else
        vl_buf_append(out, utf8, (size_t)vl_utf8_put(c->ch, utf8));
    p->x += c->cells;
    /* Terminals disagree about the width of clusters and young emoji: say where to go on. At the
     * right edge they disagree about where the cursor is. */
    if (c->ch & VL_CELL_POOL || c->ch >= 0x1F000 || (c->ch >= 0x2190 && c->ch < 0x2500) ||
        (c->ch >= 0x2600 && c->ch < 0x27C0) || p->x >= s->cols)
        p->x = -1;
}

void vl_screen_flush(struct vl_screen *s, vl_buf *out)
{
    struct pen p = {-1, -1, false, 0, 0, 0};
    size_t begin = out->len, head;

    if (s->sync)
        vl_buf_puts(out, "\x1b[?2026h");
    vl_buf_puts(out, "\x1b[?25l");
    head = out->len;
    if (s->unknown) {
        vl_buf_puts(out, "\x1b[0m\x1b[H\x1b[2J");
        for (int i = 0; i < s->cols * s->rows; i++)
            s->shown[i] = blank;
        s->unknown = false;
        s->shown_y = -2;
    }
    for (int y = 0; y < s->rows; y++) {
        struct vl_cell *a = s->shown + (size_t)y * (size_t)s->cols;
        struct vl_cell *b = s->next + (size_t)y * (size_t)s->cols;

        if (memcmp(a, b, (size_t)s->cols * sizeof(*a)) == 0)
            continue;
        for (int x = 0; x < s->cols; x++) {
            if (memcmp(&a[x], &b[x], sizeof(*a)) == 0 || b[x].cells == 0)
                continue;
            move_to(out, &p, y, x);
            draw(s, out, &p, &b[x]);
            if (b[x].cells == 1 && a[x].cells == 2 && x + 1 < s->cols) /* its right half is gone */
                a[x + 1].ch = 1;
        }
        memcpy(a, b, (size_t)s->cols * sizeof(*a));
    }
    if (out->len == head && s->shown_x == s->cursor_x && s->shown_y == s->cursor_y) {
        out->len = begin; /* nothing to say */
        if (out->ptr)
            out->ptr[begin] = 0;
        return;
    }
    if (p.set)
        vl_buf_puts(out, "\x1b[0m");
    if (s->cursor_y >= 0)
        vl_buf_printf(out, "\x1b[%d;%dH\x1b[?25h", s->cursor_y + 1, s->cursor_x + 1);
    s->shown_x = s->cursor_x;
    s->shown_y = s->cursor_y;
    if (s->sync)
        vl_buf_puts(out, "\x1b[?2026l");
}
