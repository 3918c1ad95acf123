/* chat/clean.c: the filter between foreign text and the terminal. Pure; knows no screen.
 * A string sequence (OSC, DCS ...) is dropped with its text when it ends on its line; one that does
 * not end is no sequence that a terminal would have acted on soon, and its text is kept. */
#include "chat/clean.h"

#include <string.h>

#include "base/utf8.h"

enum { TEXT, ESC, ESC_MORE, CSI, STRING, STRING_ESC };
enum { HELD_MAX = 4096, CSI_MAX = 256 };

void vl_clean_init(struct vl_clean *c)
{
    memset(c, 0, sizeof(*c));
}

void vl_clean_fini(struct vl_clean *c)
{
    vl_buf_fini(&c->held);
}

static void release(struct vl_clean *c, vl_buf *out)
{
    vl_buf_append(out, c->held.ptr, c->held.len);
    vl_buf_clear(&c->held);
    c->state = TEXT;
}

/* C1 controls (U+0080 to U+009F) come as C2 80 .. C2 9F. Bidi controls: U+061C, U+200E, U+200F,
 * U+202A to U+202E, U+2066 to U+2069. */
static bool is_bidi(const unsigned char *p, int n)
{
    if (n == 2)
        return p[0] == 0xD8 && p[1] == 0x9C;
    if (n != 3 || p[0] != 0xE2)
        return false;
    if (p[1] == 0x80)
        return p[2] == 0x8E || p[2] == 0x8F || (p[2] >= 0xAA && p[2] <= 0xAE);
    return p[1] == 0x81 && p[2] >= 0xA6 && p[2] <= 0xA9;
}

static void one_char(struct vl_clean *c, const unsigned char *p, int n, vl_buf *out);

static void in_text(struct vl_clean *c, const unsigned char *p, int n, vl_buf *out)
{
    unsigned char b = p[0];

    if (n == 1 && b == 0x1B) {
        c->state = ESC;
    } else if (n == 1 && (b < 0x20 || b == 0x7F)) {
        if (b == '\n' || b == '\t')
            vl_buf_putc(out, (char)b);
    } else if (n == 2 && b == 0xC2 && p[1] < 0xA0) {
        if (p[1] == 0x9B) {
            c->state = CSI;
            c->n_csi = 0;
        } else if (p[1] == 0x9D || p[1] == 0x90 || p[1] == 0x98 || p[1] >= 0x9E) {
            c->state = STRING;
        }
    } else if (!is_bidi(p, n)) {
        vl_buf_append(out, p, (size_t)n);
    }
}

static void in_escape(struct vl_clean *c, const unsigned char *p, int n, vl_buf *out)
{
    unsigned char b = p[0];

    if (n == 1 && c->state == ESC && b == '[') {
        c->state = CSI;
        c->n_csi = 0;
    } else if (n == 1 && c->state == ESC && strchr("]PX^_", b) && b) {
        c->state = STRING;
    } else if (n == 1 && b >= 0x20 && b < 0x30) {
        c->state = ESC_MORE;
    } else {
        c->state = TEXT;
        if (n > 1 || b < 0x20 || b == 0x7F)
            one_char(c, p, n, out);
    }
}

static void in_csi(struct vl_clean *c, const unsigned char *p, int n, vl_buf *out)
{
    unsigned char b = p[0];

    if (n == 1 && b >= 0x20 && b < 0x40 && ++c->n_csi < CSI_MAX)
        return;
    c->state = TEXT;
    if (n > 1 || b < 0x40 || b == 0x7F)
        one_char(c, p, n, out);
}

static void in_string(struct vl_clean *c, const unsigned char *p, int n, vl_buf *out)
{
    unsigned char b = p[0];

    if (c->state == STRING_ESC && n == 1 && b == '\\') {
        vl_buf_clear(&c->held);
        c->state = TEXT;
    } else if (c->state == STRING_ESC) {
        release(c, out);
        c->state = ESC;
        one_char(c, p, n, out);
    } else if (n == 1 && b == 0x1B) {
        c->state = STRING_ESC;
    } else if ((n == 1 && b == 0x07) || (n == 2 && b == 0xC2 && p[1] == 0x9C)) {
        vl_buf_clear(&c->held);
        c->state = TEXT;
    } else if ((n == 1 && b == '\n') || c->held.len > HELD_MAX) {
        release(c, out);
        one_char(c, p, n, out);
    } else if (n > 1 ? !is_bidi(p, n) && !(n == 2 && b == 0xC2 && p[1] < 0xA0)
                     : b == '\t' || (b >= 0x20 && b != 0x7F)) {
        vl_buf_append(&c->held, p, (size_t)n);
    }
}

static void one_char(struct vl_clean *c, const unsigned char *p, int n, vl_buf *out)
{
    switch (c->state) {
    case TEXT:
        in_text(c, p, n, out);
        break;
    case ESC:
    case ESC_MORE:
        in_escape(c, p, n, out);
        break;
    case CSI:
        in_csi(c, p, n, out);
        break;
    default:
        in_string(c, p, n, out);
        break;
    }
}

static int utf8_bytes(unsigned char b)
{
    if (b < 0xC2 || b > 0xF4)
        return 1;
    return b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

void vl_clean_feed(struct vl_clean *c, const char *text, size_t len, vl_buf *out)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char b = (unsigned char)text[i];

        if (c->n_part == 0 && c->state == TEXT && b >= 0x20 && b < 0x7F) {
            size_t k = i; /* the long way is only for what may be special */

            while (k < len && (unsigned char)text[k] >= 0x20 && (unsigned char)text[k] < 0x7F)
                k++;
            vl_buf_append(out, text + i, k - i);
            i = k - 1;
            continue;
        }
        if (c->n_part > 0 && (b & 0xC0) != 0x80) { /* a cut character: shown as such */
            c->n_part = 0;
            one_char(c, (const unsigned char *)"\xEF\xBF\xBD", 3, out);
        }
        if (c->n_part == 0 && b >= 0x80 && utf8_bytes(b) == 1) {
            one_char(c, (const unsigned char *)"\xEF\xBF\xBD", 3, out);
            continue;
        }
        c->part[c->n_part++] = b;
        if (c->n_part == utf8_bytes(c->part[0])) {
            unsigned char whole[4];
            int n = c->n_part;

            memcpy(whole, c->part, sizeof(whole));
            c->n_part = 0;
            if (vl_utf8_valid((const char *)whole, (size_t)n) == (size_t)n)
                one_char(c, whole, n, out);
            else /* overlong, a surrogate, past the end */
                one_char(c, (const unsigned char *)"\xEF\xBF\xBD", 3, out);
        }
    }
}

void vl_clean_end(struct vl_clean *c, vl_buf *out)
{
    if (c->n_part > 0)
        one_char(c, (const unsigned char *)"\xEF\xBF\xBD", 3, out);
    c->n_part = 0;
    release(c, out);
}

void vl_clean_text(vl_buf *out, const char *text, size_t len, bool one_line)
{
    struct vl_clean c;
    size_t from = out->len;

    vl_clean_init(&c);
    vl_clean_feed(&c, text, len, out);
    vl_clean_end(&c, out);
    vl_clean_fini(&c);
    for (size_t i = from; one_line && i < out->len; i++)
        if (out->ptr[i] == '\n' || out->ptr[i] == '\t')
            out->ptr[i] = ' ';
}
