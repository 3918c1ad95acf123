/* plugins/qwen35/chat/chat_python.c: Python literals to JSON, for arguments that a model wrote as
 * repr() would. Pure; no recursion: open brackets lie on a stack of bounded height. */
#include <string.h>

#include "base/utf8.h"
#include "plugins/qwen35/chat/chat_args.h"
#include "plugins/qwen35/chat/chat_text.h"

enum { MAX_DEPTH = 512 };

/* What may come next. */
enum { WANT_ITEM, WANT_ITEM_OR_END, WANT_COLON, WANT_VALUE, WANT_COMMA_OR_END };

struct reader {
    const char *s;
    size_t len, at;
    vl_buf *out;
    char open[MAX_DEPTH]; /* the closer of each open bracket */
    int depth;
    int want;
};

static void skip_space(struct reader *r)
{
    while (r->at < r->len && strchr(" \t\r\n", r->s[r->at]) && r->s[r->at])
        r->at++;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \xhh, \uhhhh, \Uhhhhhhhh: n digits at r->at. A pair of surrogates is one character. */
static bool read_hex(struct reader *r, int n, uint32_t *cp)
{
    uint32_t value = 0;

    if (r->len - r->at < (size_t)n)
        return false;
    for (int i = 0; i < n; i++) {
        int d = hex_digit(r->s[r->at + (size_t)i]);
        if (d < 0)
            return false;
        value = value << 4 | (uint32_t)d;
    }
    r->at += (size_t)n;
    if (value >= 0xd800 && value <= 0xdbff && n == 4 && r->len - r->at >= 6 &&
        r->s[r->at] == '\\' && r->s[r->at + 1] == 'u') {
        uint32_t low;
        r->at += 2;
        if (!read_hex(r, 4, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff && n != 4))
        return false;
    *cp = value;
    return true;
}

/* The escape at r->at (behind the backslash) to text. */
static bool read_escape(struct reader *r, vl_buf *text)
{
    static const char from[] = "\\'\"nrtbfav0", to[] = "\\'\"\n\r\t\b\f\a\v";
    char c = r->s[r->at];
    uint32_t cp;
    char utf8[4];

    if (c == 'x' || c == 'u' || c == 'U') {
        r->at++;
        if (!read_hex(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, &cp) || (cp >= 0xd800 && cp <= 0xdfff))
            return false;
        vl_buf_append(text, utf8, (size_t)vl_utf8_put(cp, utf8));
        return true;
    }
    const char *hit = c ? strchr(from, c) : NULL;
    if (hit)
        vl_buf_putc(text, to[hit - from]);
    else if (c != '\n') /* a backslash before anything else stays; before a line end both go */
        vl_buf_putc(text, '\\');
    if (hit || c == '\n')
        r->at++;
    return true;
}

static bool read_string(struct reader *r)
{
    char quote = r->s[r->at++];
    vl_buf text = VL_BUF_INIT;
    bool ok = false;

    while (r->at < r->len) {
        char c = r->s[r->at];
        if (c == quote) {
            r->at++;
            ok = !text.failed;
            break;
        }
        if (c == '\\' && r->at + 1 < r->len) {
            r->at++;
            if (!read_escape(r, &text))
                break;
            continue;
        }
        vl_buf_putc(&text, c);
        r->at++;
    }
    if (ok)
        vl_json_put_str(r->out, text.ptr ? text.ptr : "", text.len);
    vl_buf_fini(&text);
    return ok;
}

/* A word or a number; as a key it becomes a string, as json.dumps would have it. */
static bool read_plain(struct reader *r, bool key)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    size_t first = r->at;
    const char *json = NULL;
    vl_json_doc doc;

    while (r->at < r->len && !strchr(" \t\r\n,:]})", r->s[r->at]))
        r->at++;
    size_t len = r->at - first;
    const char *t = r->s + first;
    for (size_t i = 0; i < 6 && !json; i++) {
        if (len == strlen(words[i][0]) && memcmp(t, words[i][0], len) == 0)
            json = words[i][1];
    }
    if (!json) {
        if (vl_json_parse(&doc, t, len, 1, 0, NULL) != VL_OK)
            return false;
        bool number = vl_json_is(vl_json_root(&doc), VL_JSON_NUMBER);
        vl_json_doc_fini(&doc);
        if (!number)
            return false;
    }
    if (key)
        vl_buf_putc(r->out, '"');
    if (json)
        vl_buf_puts(r->out, json);
    else
        vl_buf_append(r->out, t, len);
    if (key)
        vl_buf_putc(r->out, '"');
    return true;
}

static bool open_bracket(struct reader *r, char c)
{
    if (r->depth == MAX_DEPTH)
        return false;
    r->open[r->depth++] = c == '{' ? '}' : c == '[' ? ']' : ')';
    vl_buf_putc(r->out, c == '{' ? '{' : '[');
    r->at++;
    r->want = WANT_ITEM_OR_END;
    return true;
}

static void close_bracket(struct reader *r)
{
    vl_buf_putc(r->out, r->open[--r->depth] == '}' ? '}' : ']');
    r->at++;
    r->want = WANT_COMMA_OR_END;
}

/* One token. False: no literal of this kind. */
static bool step(struct reader *r)
{
    bool dict = r->depth > 0 && r->open[r->depth - 1] == '}';
    char c = r->s[r->at];

    if (r->want == WANT_COLON) {
        if (c != ':')
            return false;
        vl_buf_putc(r->out, ':');
        r->at++;
        r->want = WANT_VALUE;
        return true;
    }
    if (r->want == WANT_COMMA_OR_END) {
        if (c == r->open[r->depth - 1]) {
            close_bracket(r);
            return true;
        }
        if (c != ',')
            return false;
        r->at++;
        skip_space(r);
        if (r->at < r->len && r->s[r->at] == r->open[r->depth - 1]) { /* a trailing comma */
            close_bracket(r);
            return true;
        }
        vl_buf_putc(r->out, ',');
        r->want = WANT_ITEM;
        return true;
    }
    if (r->want == WANT_ITEM_OR_END && r->depth > 0 && c == r->open[r->depth - 1]) {
        close_bracket(r);
        return true;
    }
    bool key = dict && r->want != WANT_VALUE;
    if (c == '{' || c == '[' || c == '(')
        return !key && open_bracket(r, c);
    if (c == '"' || c == '\'' ? !read_string(r) : !read_plain(r, key))
        return false;
    r->want = key ? WANT_COLON : WANT_COMMA_OR_END;
    return true;
}

bool vl_args_put_python(vl_buf *out, int types, const char *text, size_t len)
{
    size_t before = out->len;
    struct reader r = {.s = text, .len = len, .out = out, .want = WANT_ITEM};
    bool ok = len > 0 && ((text[0] == '{' && types & VL_TYPE_OBJECT) ||
                          ((text[0] == '[' || text[0] == '(') && types & VL_TYPE_ARRAY));

    while (ok) {
        skip_space(&r);
        if (r.at >= r.len) {
            ok = false;
            break;
        }
        ok = step(&r);
        if (ok && r.depth == 0)
            break;
    }
    skip_space(&r);
    if (ok && r.at == r.len)
        return true;
    if (out->ptr && !out->failed) {
        out->len = before;
        out->ptr[before] = '\0';
    }
    return false;
}
