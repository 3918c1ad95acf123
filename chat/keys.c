/* chat/keys.c: the decoder of terminal input: legacy, xterm and kitty codings of keys, bracketed
 * paste, mouse wheel, replies to queries. Pure; knows no editor. */
#include "chat/keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { SEQUENCE_MAX = 4096 };

void vl_keys_init(struct vl_keys *k)
{
    memset(k, 0, sizeof(*k));
}

void vl_keys_fini(struct vl_keys *k)
{
    vl_buf_fini(&k->in);
    vl_buf_fini(&k->text);
}

void vl_keys_feed(struct vl_keys *k, const char *bytes, size_t len)
{
    vl_buf_consume(&k->in, k->used);
    k->used = 0;
    vl_buf_append(&k->in, bytes, len);
}

bool vl_keys_pending(const struct vl_keys *k)
{
    return k->in.len > k->used && !k->pasting;
}

static void set_text(struct vl_keys *k, struct vl_key_event *e, const char *s, size_t n)
{
    vl_buf_clear(&k->text);
    vl_buf_append(&k->text, s, n);
    e->text = k->text.ptr ? k->text.ptr : "";
    e->len = k->text.len;
}

static void by_code(struct vl_keys *k, struct vl_key_event *e, unsigned cp)
{
    char utf8[4];

    switch (cp) {
    case 13:
        e->key = VL_KEY_ENTER;
        return;
    case 9:
        e->key = VL_KEY_TAB;
        return;
    case 27:
        e->key = VL_KEY_ESC;
        return;
    case 8:
    case 127:
        e->key = VL_KEY_BACKSPACE;
        return;
    default:
        break;
    }
    if (cp < 32 || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000) || (cp >= 57344 && cp < 63744))
        return; /* function keys of the kitty protocol that nothing here uses */
    if (e->mods & VL_MOD_CTRL && cp < 128) {
        e->key = VL_KEY_CTRL;
        e->code = (int)(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp);
        return;
    }
    e->key = VL_KEY_TEXT;
    set_text(k, e, utf8, (size_t)vl_utf8_put(cp, utf8));
}

static void csi_tilde(struct vl_keys *k, struct vl_key_event *e, const unsigned *p, int n)
{
    switch (p[0]) {
    case 1:
    case 7:
        e->key = VL_KEY_HOME;
        break;
    case 3:
        e->key = VL_KEY_DELETE;
        break;
    case 4:
    case 8:
        e->key = VL_KEY_END;
        break;
    case 5:
        e->key = VL_KEY_PGUP;
        break;
    case 6:
        e->key = VL_KEY_PGDN;
        break;
    case 27: /* xterm's modifyOtherKeys */
        if (n >= 3)
            by_code(k, e, p[2]);
        break;
    case 200:
        k->pasting = true;
        vl_buf_clear(&k->text);
        break;
    default:
        break;
    }
}

static void csi_key(struct vl_keys *k, struct vl_key_event *e, char fin, char pre,
                    const unsigned *p, int n)
{
    static const char letters[] = "ABCDHF";
    static const enum vl_key keys[] = {VL_KEY_UP,   VL_KEY_DOWN, VL_KEY_RIGHT,
                                       VL_KEY_LEFT, VL_KEY_HOME, VL_KEY_END};
    const char *at = strchr(letters, fin);

    if (!pre && fin != 'R' && n >= 2 && p[1] > 1 && p[1] < 64)
        e->mods = (int)(p[1] - 1) & (VL_MOD_SHIFT | VL_MOD_ALT | VL_MOD_CTRL);
    if (pre == '<') { /* the mouse; only the wheel means something here */
        if (fin == 'M' && (p[0] & ~28u) == 64)
            e->key = VL_KEY_WHEEL_UP;
        else if (fin == 'M' && (p[0] & ~28u) == 65)
            e->key = VL_KEY_WHEEL_DOWN;
        e->mods = 0;
    } else if (pre == '?' && fin == 'c') {
        e->key = VL_KEY_REPLY_DEVICE;
    } else if (pre == '?' && fin == 'u') {
        e->key = VL_KEY_REPLY_KITTY;
    } else if (pre == '?' && fin == 'y' && n >= 2) {
        e->key = VL_KEY_REPLY_MODE;
    } else if (!pre && fin == 'R' && n >= 2) {
        e->key = VL_KEY_REPLY_CURSOR;
    } else if (!pre && fin == '~') {
        csi_tilde(k, e, p, n);
    } else if (!pre && fin == 'u') {
        by_code(k, e, p[0]);
    } else if (!pre && at) {
        e->key = keys[at - letters];
    } else if (!pre && fin == 'Z') {
        e->key = VL_KEY_TAB;
        e->mods = VL_MOD_SHIFT;
    }
    e->params[0] = (int)p[0];
    e->params[1] = (int)p[1];
}

/* s begins with ESC [. Bytes of the sequence, 0 if its end has not come. */
static size_t csi(struct vl_keys *k, struct vl_key_event *e, const char *s, size_t len)
{
    unsigned p[8] = {0};
    int n = 0;
    size_t i = 2;
    char pre = 0;
    bool digits = false, sub = false;

    if (i < len && s[i] == 'M') /* the old mouse coding: three bytes follow */
        return len >= 6 ? 6 : 0;
    if (i < len && strchr("<=>?", s[i]))
        pre = s[i++];
    for (; i < len && i < SEQUENCE_MAX; i++) {
        char c = s[i];

        if (c >= '0' && c <= '9') {
            if (!sub && n < 8 && p[n] < 10000000)
                p[n] = p[n] * 10 + (unsigned)(c - '0');
            digits = true;
        } else if (c == ';') {
            n++;
            digits = sub = false;
        } else if (c == ':') {
            sub = true; /* kitty: other forms of the key, the kind of event */
        } else if (c >= 0x40 && c < 0x7F) {
            csi_key(k, e, c, pre, p, n + (digits ? 1 : 0));
            return i + 1;
        } else if (c < 0x20) {
            return i; /* broken off */
        }
    }
    return i >= SEQUENCE_MAX ? i : 0;
}

/* "11;rgb:RRRR/GGGG/BBBB", one to four hex digits a part. */
static void osc_reply(struct vl_key_event *e, const char *s, size_t len)
{
    char text[64];
    char *at;
    int rgb = 0;

    if (len >= sizeof(text) || len < 4)
        return;
    memcpy(text, s, len);
    text[len] = 0;
    at = strstr(text, "rgb:");
    if (!at || (memcmp(text, "11;", 3) != 0 && memcmp(text, "10;", 3) != 0))
        return;
    at += 4;
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long v = strtoul(at, &end, 16), most = 15;
        long digits = end - at;

        if (digits < 1 || digits > 4 || (i < 2 && *end != '/'))
            return;
        while (--digits)
            most = most << 4 | 15;
        rgb = rgb << 8 | (int)(v * 255 / most);
        at = end + 1;
    }
    e->key = VL_KEY_REPLY_COLOUR;
    e->params[0] = text[1] == '1' ? 11 : 10;
    e->params[1] = rgb;
}

/* s begins with ESC and ] P X ^ or _. */
static size_t string_reply(struct vl_key_event *e, const char *s, size_t len)
{
    for (size_t i = 2; i < len; i++) {
        bool st = s[i] == 0x1B && i + 1 < len && s[i + 1] == '\\';

        if (s[i] == 0x07 || st) {
            if (s[1] == ']')
                osc_reply(e, s + 2, i - 2);
            return i + (st ? 2 : 1);
        }
    }
    return len > SEQUENCE_MAX ? len : 0;
}

static size_t one_char_len(const char *s, size_t len)
{
    uint32_t cp;
    int n = vl_utf8_next(s, len, &cp);

    return n > 0 ? (size_t)n : 0;
}

/* s begins with ESC. */
static size_t escape(struct vl_keys *k, struct vl_key_event *e, const char *s, size_t len,
                     bool flush)
{
    size_t n = 0;

    if (len == 1 || s[1] == 0x1B) {
        if (len == 1 && !flush)
            return 0;
        e->key = VL_KEY_ESC;
        return 1;
    }
    if (s[1] == '[')
        n = csi(k, e, s, len);
    else if (s[1] == 'O')
        n = len < 3 ? 0 : 3;
    else if (s[1] == ']' || s[1] == 'P' || s[1] == 'X' || s[1] == '^' || s[1] == '_')
        n = string_reply(e, s, len);
    else if ((unsigned char)s[1] < 0x20 || s[1] == 0x7F) {
        e->mods = VL_MOD_ALT;
        if (s[1] == '\r' || s[1] == '\n')
            e->key = VL_KEY_ENTER;
        else if (s[1] == 0x7F || s[1] == 0x08)
            e->key = VL_KEY_BACKSPACE;
        return 2;
    } else if ((n = one_char_len(s + 1, len - 1)) > 0) {
        e->key = VL_KEY_TEXT;
        e->mods = VL_MOD_ALT;
        set_text(k, e, s + 1, n);
        return n + 1;
    }
    if (s[1] == 'O' && n == 3) {
        unsigned p[8] = {0};

        csi_key(k, e, s[2] == 'M' ? 0 : s[2], 0, p, 0);
        if (s[2] == 'M')
            e->key = VL_KEY_ENTER;
    }
    if (n == 0 && flush) { /* no sequence came: the key Esc, and what follows is text */
        e->key = VL_KEY_ESC;
        e->mods = 0;
        return 1;
    }
    return n;
}

static size_t plain(struct vl_keys *k, struct vl_key_event *e, const char *s, size_t len,
                    bool flush)
{
    unsigned char b = (unsigned char)s[0];
    size_t n = 0;

    if (b == '\r' || b == '\t' || b == 0x7F || b == 0x08) {
        e->key = b == '\r' ? VL_KEY_ENTER : b == '\t' ? VL_KEY_TAB : VL_KEY_BACKSPACE;
        return 1;
    }
    if (b < 0x20) {
        e->key = VL_KEY_CTRL;
        e->code = b + (b >= 1 && b <= 26 ? 0x60 : 0x40);
        return 1;
    }
    while (n < len && (unsigned char)s[n] >= 0x20 && s[n] != 0x7F) {
        uint32_t cp;
        int one = vl_utf8_next(s + n, len - n, &cp);

        if (one == 0 || cp == 0xFFFFFFFF)
            break;
        n += (size_t)one;
    }
    if (n) {
        e->key = VL_KEY_TEXT;
        set_text(k, e, s, n);
        return n;
    }
    /* An incomplete character waits; what is no UTF-8 goes. */
    return one_char_len(s, len) || flush ? 1 : 0;
}

/* Inside of a bracketed paste: collects up to its end. */
static bool paste(struct vl_keys *k, struct vl_key_event *e)
{
    static const char end[] = "\x1b[201~";
    const char *s = k->in.ptr + k->used;
    size_t len = k->in.len - k->used, n = sizeof(end) - 1;
    const char *at = memmem(s, len, end, n);
    size_t take = at ? (size_t)(at - s) : len > n ? len - n : 0;

    vl_buf_append(&k->text, s, take);
    k->used += take;
    if (!at)
        return false;
    k->used += n;
    k->pasting = false;
    e->key = VL_KEY_PASTE;
    e->text = k->text.ptr ? k->text.ptr : "";
    e->len = k->text.len;
    return true;
}

bool vl_keys_next(struct vl_keys *k, struct vl_key_event *e, bool flush)
{
    while (k->in.len > k->used) {
        const char *s = k->in.ptr + k->used;
        size_t len = k->in.len - k->used, n;

        memset(e, 0, sizeof(*e));
        if (k->pasting) {
            if (paste(k, e))
                return true;
            return false;
        }
        n = *s == 0x1B ? escape(k, e, s, len, flush) : plain(k, e, s, len, flush);
        if (n == 0)
            return false;
        k->used += n;
        if (e->key != VL_KEY_NONE)
            return true;
    }
    return false;
}
