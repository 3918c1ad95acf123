/* chat/input.c: editing by grapheme clusters, the keys of readline, history, search. Pure but for
 * the history that it is lent. */
#include "chat/input.h"

#include <string.h>

#include "chat/clean.h"
#include "chat/width.h"

void vl_input_init(struct vl_input *in, struct vl_history *history)
{
    memset(in, 0, sizeof(*in));
    in->history = history;
    in->entry = -1;
    in->width = 80;
}

void vl_input_fini(struct vl_input *in)
{
    vl_buf_fini(&in->text);
    vl_buf_fini(&in->killed);
    vl_buf_fini(&in->draft);
    vl_buf_fini(&in->query);
}

static const char *bytes(const struct vl_input *in)
{
    return in->text.ptr ? in->text.ptr : "";
}

static void put_text(struct vl_input *in, const char *text, size_t len)
{
    vl_buf_clear(&in->text);
    vl_buf_append(&in->text, text, len);
    in->at = in->text.len;
}

void vl_input_set(struct vl_input *in, const char *text, size_t len)
{
    put_text(in, text, len);
    in->entry = -1;
    in->searching = false;
}

void vl_input_clear(struct vl_input *in)
{
    vl_input_set(in, "", 0);
}

static void erase(struct vl_input *in, size_t from, size_t to, bool keep)
{
    if (to <= from)
        return;
    if (keep) {
        vl_buf_clear(&in->killed);
        vl_buf_append(&in->killed, in->text.ptr + from, to - from);
    }
    memmove(in->text.ptr + from, in->text.ptr + to, in->text.len - to + 1);
    in->text.len -= to - from;
    in->at = from;
    in->entry = -1;
}

void vl_input_insert(struct vl_input *in, const char *text, size_t len)
{
    vl_buf lines = VL_BUF_INIT, clean = VL_BUF_INIT, out = VL_BUF_INIT;

    for (size_t i = 0; i < len; i++) /* line ends first: a filter that drops CR would join lines */
        if (text[i] != '\r')
            vl_buf_putc(&lines, text[i]);
        else if (i + 1 == len || text[i + 1] != '\n')
            vl_buf_putc(&lines, '\n');
    vl_clean_text(&clean, lines.len ? lines.ptr : "", lines.len, false);
    vl_buf_append(&out, in->text.ptr, in->at);
    vl_buf_append(&out, clean.ptr, clean.len);
    vl_buf_append(&out, bytes(in) + in->at, in->text.len - in->at);
    if (out.failed || clean.failed || lines.failed) {
        vl_buf_fini(&out);
    } else {
        in->at += clean.len;
        vl_buf_fini(&in->text);
        in->text = out;
        in->entry = -1;
    }
    vl_buf_fini(&lines);
    vl_buf_fini(&clean);
}

/* ---- places ---- */

static size_t next_cluster(const struct vl_input *in, size_t at)
{
    return at < in->text.len ? at + vl_cluster_next(in->text.ptr + at, in->text.len - at, NULL)
                             : at;
}

static size_t prev_cluster(const struct vl_input *in, size_t at)
{
    return at > 0 ? vl_cluster_prev(in->text.ptr, at) : 0;
}

static bool is_word(char c)
{
    unsigned char b = (unsigned char)c;

    return b >= 0x80 || (b >= '0' && b <= '9') || (b >= 'a' && b <= 'z') ||
           (b >= 'A' && b <= 'Z') || b == '_';
}

static size_t word_right(const struct vl_input *in, size_t at)
{
    while (at < in->text.len && !is_word(in->text.ptr[at]))
        at++;
    while (at < in->text.len && is_word(in->text.ptr[at]))
        at = next_cluster(in, at);
    return at;
}

static size_t word_left(const struct vl_input *in, size_t at)
{
    while (at > 0 && !is_word(in->text.ptr[at - 1]))
        at--;
    while (at > 0 && is_word(in->text.ptr[at - 1]))
        at = prev_cluster(in, at);
    return at;
}

/* Ctrl-W: up to a blank, as readline. */
static size_t blank_left(const struct vl_input *in, size_t at)
{
    while (at > 0 && strchr(" \t\n", in->text.ptr[at - 1]))
        at--;
    while (at > 0 && !strchr(" \t\n", in->text.ptr[at - 1]))
        at--;
    return at;
}

static size_t line_begin(const struct vl_input *in, size_t at)
{
    while (at > 0 && in->text.ptr[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_end(const struct vl_input *in, size_t at)
{
    while (at < in->text.len && in->text.ptr[at] != '\n')
        at++;
    return at;
}

/* ---- rows ---- */

size_t vl_input_rows(const struct vl_input *in, struct vl_input_row *rows, size_t cap, size_t *row,
                     int *cell)
{
    const char *s = bytes(in);
    size_t n = 0, from = 0, at = 0, len = in->text.len, cursor_row = 0;
    int used = 0, width = in->width > 1 ? in->width : 1, cursor_cell = 0;

    for (;;) {
        int w = 0;
        size_t step = at < len ? vl_cluster_next(s + at, len - at, &w) : 0;
        bool newline = at < len && s[at] == '\n';

        /* The cursor at a full row's end stands at the beginning of the next one. */
        if (at > from && !newline && used + (at < len ? w : 1) > width) {
            if (n < cap)
                rows[n] = (struct vl_input_row){from, at};
            n++;
            from = at;
            used = 0;
        }
        if (at == in->at) {
            cursor_row = n;
            cursor_cell = used;
        }
        if (at >= len)
            break;
        if (newline) {
            if (n < cap)
                rows[n] = (struct vl_input_row){from, at};
            n++;
            from = at + 1;
            used = 0;
        }
        used += newline ? 0 : w;
        at += step;
    }
    if (n < cap)
        rows[n] = (struct vl_input_row){from, len};
    if (row)
        *row = cursor_row;
    if (cell)
        *cell = cursor_cell;
    return n + 1;
}

/* One row up (-1) or down (1) in the box; false at its edge. */
static bool move_row(struct vl_input *in, int by)
{
    struct vl_input_row rows[512];
    size_t row, n = vl_input_rows(in, rows, 512, &row, NULL), to;
    int cell;

    vl_input_rows(in, rows, 512, &row, &cell);
    if (n > 512 || (by < 0 && row == 0) || (by > 0 && row + 1 >= n))
        return false;
    to = by < 0 ? row - 1 : row + 1;
    in->at = rows[to].from +
             vl_text_fit(bytes(in) + rows[to].from, rows[to].to - rows[to].from, cell, NULL);
    return true;
}

/* ---- history ---- */

static void show_entry(struct vl_input *in, long entry)
{
    in->entry = entry;
    if (entry < 0)
        put_text(in, in->draft.ptr, in->draft.len);
    else
        put_text(in, in->history->entries[entry], strlen(in->history->entries[entry]));
}

static void keep_draft(struct vl_input *in)
{
    vl_buf_clear(&in->draft);
    vl_buf_append(&in->draft, in->text.ptr, in->text.len);
}

static void older(struct vl_input *in)
{
    const struct vl_history *h = in->history;
    long from, found;

    if (!h)
        return;
    if (in->entry < 0) {
        keep_draft(in);
        in->prefix = in->at;
    }
    from = in->entry < 0 ? (long)h->n : in->entry;
    found = vl_history_find(h, from, in->draft.ptr, in->prefix, false);
    if (found >= 0)
        show_entry(in, found);
}

static void newer(struct vl_input *in)
{
    const struct vl_history *h = in->history;

    if (!h || in->entry < 0)
        return;
    for (long i = in->entry + 1; i < (long)h->n; i++)
        if (strncmp(h->entries[i], in->draft.ptr ? in->draft.ptr : "", in->prefix) == 0) {
            show_entry(in, i);
            return;
        }
    show_entry(in, -1);
}

static void search(struct vl_input *in, long before)
{
    long found = vl_history_find(in->history, before, in->query.ptr, in->query.len, true);

    if (found >= 0)
        show_entry(in, found);
}

/* A key during Ctrl-R. False: the search is over and the key means what it always means. */
static bool search_key(struct vl_input *in, const struct vl_key_event *e)
{
    long n = (long)in->history->n;

    if (e->key == VL_KEY_TEXT && !(e->mods & VL_MOD_ALT)) {
        vl_buf_append(&in->query, e->text, e->len);
        search(in, in->entry >= 0 ? in->entry + 1 : n);
        return true;
    }
    if (e->key == VL_KEY_BACKSPACE) {
        if (in->query.len) {
            in->query.len = vl_cluster_prev(in->query.ptr, in->query.len);
            in->query.ptr[in->query.len] = 0;
        }
        search(in, n);
        return true;
    }
    if (e->key == VL_KEY_CTRL && e->code == 'r') {
        search(in, in->entry >= 0 ? in->entry : n);
        return true;
    }
    in->searching = false;
    if (e->key == VL_KEY_ESC || (e->key == VL_KEY_CTRL && (e->code == 'g' || e->code == 'c'))) {
        show_entry(in, -1);
        return true;
    }
    return e->key == VL_KEY_ENTER; /* takes the line over */
}

/* ---- keys ---- */

static enum vl_input_result ctrl_key(struct vl_input *in, int code)
{
    switch (code) {
    case 'a':
        in->at = line_begin(in, in->at);
        break;
    case 'e':
        in->at = line_end(in, in->at);
        break;
    case 'b':
        in->at = prev_cluster(in, in->at);
        break;
    case 'f':
        in->at = next_cluster(in, in->at);
        break;
    case 'd':
        if (!in->text.len)
            return VL_INPUT_UNUSED;
        erase(in, in->at, next_cluster(in, in->at), false);
        break;
    case 'h':
        erase(in, prev_cluster(in, in->at), in->at, false);
        break;
    case 'j':
        vl_input_insert(in, "\n", 1);
        break;
    case 'k': {
        size_t end = line_end(in, in->at);

        erase(in, in->at, end == in->at ? next_cluster(in, in->at) : end, true);
        break;
    }
    case 'u': {
        size_t begin = line_begin(in, in->at);

        erase(in, begin == in->at ? prev_cluster(in, in->at) : begin, in->at, true);
        break;
    }
    case 'w':
        erase(in, blank_left(in, in->at), in->at, true);
        break;
    case 'y':
        vl_input_insert(in, in->killed.ptr, in->killed.len);
        break;
    case 'p':
        older(in);
        break;
    case 'n':
        newer(in);
        break;
    case 'r':
        if (!in->history)
            return VL_INPUT_UNUSED;
        keep_draft(in);
        in->prefix = 0;
        in->entry = -1;
        in->searching = true;
        vl_buf_clear(&in->query);
        break;
    default:
        return VL_INPUT_UNUSED;
    }
    return VL_INPUT_DONE;
}

static enum vl_input_result alt_key(struct vl_input *in, const struct vl_key_event *e)
{
    if (e->key == VL_KEY_ENTER)
        vl_input_insert(in, "\n", 1);
    else if (e->key == VL_KEY_BACKSPACE)
        erase(in, word_left(in, in->at), in->at, true);
    else if (e->key == VL_KEY_LEFT || (e->key == VL_KEY_TEXT && *e->text == 'b'))
        in->at = word_left(in, in->at);
    else if (e->key == VL_KEY_RIGHT || (e->key == VL_KEY_TEXT && *e->text == 'f'))
        in->at = word_right(in, in->at);
    else if (e->key == VL_KEY_DELETE || (e->key == VL_KEY_TEXT && *e->text == 'd'))
        erase(in, in->at, word_right(in, in->at), true);
    else if (e->key == VL_KEY_TEXT && *e->text == '<')
        in->at = 0;
    else if (e->key == VL_KEY_TEXT && *e->text == '>')
        in->at = in->text.len;
    else
        return VL_INPUT_UNUSED;
    return VL_INPUT_DONE;
}

static enum vl_input_result enter(struct vl_input *in, const struct vl_key_event *e)
{
    if (e->mods) {
        vl_input_insert(in, "\n", 1);
        return VL_INPUT_DONE;
    }
    if (in->at > 0 && in->text.ptr[in->at - 1] == '\\' && in->at == line_end(in, in->at)) {
        erase(in, in->at - 1, in->at, false);
        vl_input_insert(in, "\n", 1);
        return VL_INPUT_DONE;
    }
    return VL_INPUT_SUBMIT;
}

enum vl_input_result vl_input_key(struct vl_input *in, const struct vl_key_event *e)
{
    bool word = e->mods & VL_MOD_CTRL;

    if (in->searching && search_key(in, e))
        return VL_INPUT_DONE;
    if (e->mods & VL_MOD_ALT && e->key != VL_KEY_UP && e->key != VL_KEY_DOWN)
        return alt_key(in, e);
    switch (e->key) {
    case VL_KEY_TEXT:
    case VL_KEY_PASTE:
        vl_input_insert(in, e->text, e->len);
        break;
    case VL_KEY_CTRL:
        return ctrl_key(in, e->code);
    case VL_KEY_ENTER:
        return enter(in, e);
    case VL_KEY_BACKSPACE:
        erase(in, word ? word_left(in, in->at) : prev_cluster(in, in->at), in->at, false);
        break;
    case VL_KEY_DELETE:
        erase(in, in->at, word ? word_right(in, in->at) : next_cluster(in, in->at), false);
        break;
    case VL_KEY_LEFT:
        in->at = word ? word_left(in, in->at) : prev_cluster(in, in->at);
        break;
    case VL_KEY_RIGHT:
        in->at = word ? word_right(in, in->at) : next_cluster(in, in->at);
        break;
    case VL_KEY_HOME:
        in->at = word ? 0 : line_begin(in, in->at);
        break;
    case VL_KEY_END:
        in->at = word ? in->text.len : line_end(in, in->at);
        break;
    case VL_KEY_UP:
        if (!move_row(in, -1))
            older(in);
        break;
    case VL_KEY_DOWN:
        if (!move_row(in, 1))
            newer(in);
        break;
    default:
        return VL_INPUT_UNUSED;
    }
    return VL_INPUT_DONE;
}
