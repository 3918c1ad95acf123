/* chat/transcript.c: what a question, an answer, a note and an error look like, in lines. Knows no
 * screen and no scrolling. */
#include "chat/transcript.h"

#include <stdlib.h>
#include <string.h>

static void lines_free(void *view)
{
    struct vl_lines *l = view;

    if (!l)
        return;
    vl_doc_fini(&l->head);
    vl_doc_fini(&l->foot);
    vl_markdown_fini(&l->body);
    free(l);
}

static void restart(struct vl_doc *d)
{
    vl_doc_rewind(d, (struct vl_mark){0, 0});
}

/* Text with a mark before its first line and blanks before the others. */
static void marked(struct vl_doc *d, const char *mark, vl_style mark_style, const vl_buf *text,
                   vl_style style, int width)
{
    struct vl_span s = {0}, first = {0}, next = {0};

    vl_span_put(&first, mark, strlen(mark), mark_style);
    vl_span_put(&next, "  ", 2, style);
    vl_span_put(&s, text->ptr, text->len, style);
    for (size_t i = 0; i < s.text.len; i++)
        if (s.text.ptr[i] == '\t')
            s.text.ptr[i] = ' ';
    vl_doc_wrap(d, &s, width, &first, &next);
    vl_span_fini(&s);
    vl_span_fini(&first);
    vl_span_fini(&next);
}

/* "* thought for 3.2 s", and below it the thought, when it is to be seen. */
static void thought(struct vl_lines *l, const struct vl_item *item, double now, double first_at)
{
    static const char *const flowers[] = {"\xE2\x9C\xBF ", "\xE2\x9D\x80 "}; /* U+273F, U+2740 */
    bool runs = item->open && !item->text.len;
    double s = runs ? now - first_at : item->thinking_s;
    vl_buf text = VL_BUF_INIT;

    if (!item->thinking.len || l->thoughts == VL_THOUGHTS_NONE)
        return;
    if (runs)
        vl_buf_printf(&text, "thinking\xE2\x80\xA6 %.0f s", s);
    else
        vl_buf_printf(&text, "thought for %.1f s", s);
    marked(&l->head, flowers[runs && (unsigned)(now * 3) % 2], VL_ROLE_ACCENT, &text,
           VL_STYLE(VL_ROLE_DIM, VL_ATTR_ITALIC), l->width);
    if (l->thoughts == VL_THOUGHTS_SHOWN) {
        vl_buf shown = item->shown_thinking; /* borrowed: blank ends are not shown */

        while (shown.len && strchr("\n ", shown.ptr[shown.len - 1]))
            shown.len--;
        marked(&l->head, "  ", VL_ROLE_DIM, &shown, VL_STYLE(VL_ROLE_DIM, 0), l->width);
    }
    if (item->text.len || item->n_tools)
        vl_doc_end_line(&l->head);
    vl_buf_fini(&text);
}

static void tool_calls(struct vl_lines *l, const struct vl_item *item)
{
    for (size_t i = 0; i < item->n_tools; i++) {
        const struct vl_tool_call *t = &item->tools[i];
        vl_buf text = VL_BUF_INIT;

        if (i == 0 && l->body.doc.n_lines)
            vl_doc_end_line(&l->foot);
        vl_clean_text(&text, t->name.len ? t->name.ptr : "", t->name.len, true);
        vl_buf_putc(&text, '(');
        vl_clean_text(&text, t->args.len ? t->args.ptr : "", t->args.len, true);
        vl_buf_putc(&text, ')');
        marked(&l->foot, "\xE2\x86\x92 ", VL_ROLE_ACCENT, &text, VL_ROLE_CODE, l->width);
        vl_buf_fini(&text);
    }
}

static void foot(struct vl_lines *l, const struct vl_item *item)
{
    const char *why = NULL;
    vl_buf text = VL_BUF_INIT;

    restart(&l->foot);
    tool_calls(l, item);
    if (item->stopped)
        why = "stopped";
    else if (strcmp(item->finish, "length") == 0)
        why = "cut at the token limit (length)";
    else if (strcmp(item->finish, "content_filter") == 0)
        why = "stopped by the server's content filter";
    if (why && !item->open) {
        vl_buf_puts(&text, why);
        marked(&l->foot, "\xE2\x80\x94 ", VL_ROLE_DIM, &text, VL_ROLE_DIM, l->width);
    }
    vl_doc_end_line(&l->foot); /* the blank line before the next item */
    vl_buf_fini(&text);
}

static void answer(struct vl_lines *l, const struct vl_item *item, bool changed, double now,
                   double first_at)
{
    bool thinks = item->open && item->thinking.len && !item->text.len;

    if (changed || thinks) {
        restart(&l->head);
        thought(l, item, now, first_at);
    }
    if (!changed)
        return;
    vl_markdown_update(&l->body, item->shown.ptr ? item->shown.ptr : "", item->shown.len,
                       !item->open);
    foot(l, item);
}

struct vl_lines *vl_transcript_lines(struct vl_item *item, int width, enum vl_thoughts thoughts,
                                     double now, double first_at)
{
    struct vl_lines *l = item->view;
    bool changed;

    width = width > 1 ? width : 1;
    if (!l || l->width != width) {
        lines_free(l);
        l = calloc(1, sizeof(*l));
        item->view = l;
        item->view_free = lines_free;
        if (!l)
            return NULL;
        l->width = width;
        vl_markdown_init(&l->body, width);
    }
    changed = !l->any || l->version != item->version || l->thoughts != thoughts;
    l->any = true;
    l->version = item->version;
    l->thoughts = thoughts;
    if (item->kind == VL_ITEM_ASSISTANT) {
        answer(l, item, changed, now, first_at);
    } else if (changed) {
        static const struct {
            const char *mark;
            int role, attr;
        } looks[] = {[VL_ITEM_USER] = {"\xE2\x80\xBA ", VL_ROLE_USER, VL_ATTR_BOLD},
                     [VL_ITEM_NOTE] = {"\xC2\xB7 ", VL_ROLE_NOTE, 0},
                     [VL_ITEM_ERROR] = {"! ", VL_ROLE_ERROR, 0}};
        int role = looks[item->kind].role, attr = looks[item->kind].attr;

        restart(&l->head);
        marked(&l->head, looks[item->kind].mark, VL_STYLE(role, VL_ATTR_BOLD), &item->shown,
               VL_STYLE(role, attr), width);
        vl_doc_end_line(&l->head);
    }
    l->n = l->head.n_lines + l->body.doc.n_lines + l->foot.n_lines;
    return l;
}

const struct vl_line *vl_transcript_line(const struct vl_lines *l, size_t i,
                                         const struct vl_doc **doc)
{
    *doc = &l->head;
    if (i >= l->head.n_lines) {
        i -= l->head.n_lines;
        *doc = &l->body.doc;
        if (i >= l->body.doc.n_lines) {
            i -= l->body.doc.n_lines;
            *doc = &l->foot;
        }
    }
    return &(*doc)->lines[i];
}

size_t vl_transcript_stable(const struct vl_lines *l, const struct vl_item *item)
{
    if (!item->open)
        return l->n;
    if (item->thinking.len && !item->text.len)
        return 0;
    return l->head.n_lines + l->body.tail.lines;
}
