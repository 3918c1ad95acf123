/* chat/markdown_block.c: one block of Markdown, parsed by md4c, to styled lines. Knows nothing of
 * growing texts (markdown.c) and colours. */
#include <md4c.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "chat/clean.h"
#include "chat/markdown.h"
#include "chat/table.h"
#include "chat/width.h"

enum { DEPTH_MAX = 32 };

struct box { /* a quote or a list item that lines stand in */
    bool quote;
    bool used; /* the bullet was drawn */
    char bullet[24];
    int cells;
};

struct list {
    bool ordered, tight;
    unsigned next, n_items;
};

struct render {
    struct vl_doc *doc;
    const char *src; /* the block */
    size_t src_len;
    int width;
    size_t first_line; /* of this block in doc */
    struct box boxes[DEPTH_MAX];
    struct list lists[DEPTH_MAX];
    int n_boxes, n_lists;
    int deeper_boxes, deeper_lists; /* than DEPTH_MAX */
    struct vl_span para;            /* the text that is being collected */
    bool has_para;
    int heading;
    int bold, italic, strike, code, link;
    vl_buf href;
    size_t link_at; /* where the text of the link begins in para */
    struct vl_highlight highlight;
    bool in_code;
    struct vl_table table;
    bool in_table, in_head;
};

/* ---- lines with what stands before them ---- */

/* Quotes and items as deep as leaves no room for words are not drawn: the words must stay legible.
 */
static void put_boxes(struct render *r, struct vl_span *out, bool first)
{
    int room = r->width > 24 ? r->width - 12 : r->width / 2;

    for (int i = 0; i < r->n_boxes; i++) {
        struct box *b = &r->boxes[i];
        int cells = b->quote ? 2 : b->cells;

        room -= cells;
        if (room < 0) {
            b->used = b->used || first;
        } else if (b->quote) {
            vl_span_put(out, "\xE2\x96\x8E ", 4, VL_ROLE_QUOTE); /* U+258E */
        } else if (first && !b->used) {
            vl_span_put(out, b->bullet, strlen(b->bullet), VL_ROLE_BULLET);
            b->used = true;
        } else {
            for (int k = 0; k < b->cells; k++)
                vl_span_put(out, " ", 1, VL_ROLE_TEXT);
        }
    }
}

/* A blank line between blocks, but not inside a tight list and not at the top. */
static void separate(struct render *r)
{
    struct vl_span blank = {0};

    if (r->doc->n_lines == r->first_line)
        return;
    if (r->n_lists && r->lists[r->n_lists - 1].tight)
        return;
    for (int i = 0; i < r->n_boxes && r->boxes[i].quote; i++)
        vl_span_put(&blank, "\xE2\x96\x8E ", 4, VL_ROLE_QUOTE);
    if (blank.text.len)
        vl_doc_put_span(r->doc, &blank, 0, blank.text.len);
    vl_doc_end_line(r->doc);
    vl_span_fini(&blank);
}

static void flush_para(struct render *r)
{
    struct vl_span first = {0}, next = {0};

    if (!r->has_para)
        return;
    put_boxes(r, &first, true);
    put_boxes(r, &next, false);
    vl_doc_wrap(r->doc, &r->para, r->width, &first, &next);
    vl_span_fini(&first);
    vl_span_fini(&next);
    vl_span_cut(&r->para, 0);
    r->has_para = false;
}

static void flush_code(struct render *r)
{
    struct vl_span first = {0}, next = {0}, line = {0};
    const char *s = r->para.text.ptr ? r->para.text.ptr : "";
    size_t len = r->para.text.len;

    while (len && s[len - 1] == '\n')
        len--;
    put_boxes(r, &first, true);
    put_boxes(r, &next, false);
    vl_span_put(&first, "  ", 2, VL_ROLE_CODE);
    vl_span_put(&next, "  ", 2, VL_ROLE_CODE);
    for (size_t at = 0; at <= len;) {
        const char *nl = memchr(s + at, '\n', len - at);
        size_t n = nl ? (size_t)(nl - (s + at)) : len - at;

        vl_highlight_line(&r->highlight, s + at, n, &line);
        vl_doc_wrap_code(r->doc, &line, r->width, at ? &next : &first);
        vl_span_cut(&line, 0);
        at += n + 1;
    }
    vl_span_fini(&first);
    vl_span_fini(&next);
    vl_span_fini(&line);
    vl_span_cut(&r->para, 0);
}

static void rule(struct render *r)
{
    struct vl_span line = {0}, first = {0};
    int cells;

    put_boxes(r, &first, true);
    cells = r->width - (first.text.len ? vl_text_cells(first.text.ptr, first.text.len) : 0);
    for (int i = 0; i < cells && i < 72; i++)
        vl_span_put(&line, "\xE2\x94\x80", 3, VL_ROLE_DIM);
    vl_doc_wrap(r->doc, &line, r->width, &first, &first);
    vl_span_fini(&line);
    vl_span_fini(&first);
}

/* ---- blocks ---- */

static void enter_item(struct render *r, const MD_BLOCK_LI_DETAIL *d)
{
    struct list *l = r->n_lists ? &r->lists[r->n_lists - 1] : NULL;
    struct box *b;
    vl_buf text = VL_BUF_INIT;

    flush_para(r);
    if (r->n_boxes == DEPTH_MAX) {
        r->deeper_boxes++;
        return;
    }
    if (l && !l->tight && l->n_items)
        separate(r);
    b = &r->boxes[r->n_boxes++];
    memset(b, 0, sizeof(*b));
    if (d->is_task)
        vl_buf_puts(&text, d->task_mark == ' ' ? "\xE2\x98\x90 " : "\xE2\x98\x91 ");
    else if (l && l->ordered)
        vl_buf_printf(&text, "%u. ", l->next);
    else
        vl_buf_puts(&text, r->n_lists > 1 ? "\xE2\x97\xA6 " : "\xE2\x80\xA2 ");
    if (l) {
        l->next++;
        l->n_items++;
    }
    if (text.len && text.len < sizeof(b->bullet)) {
        memcpy(b->bullet, text.ptr, text.len + 1);
        b->cells = vl_text_cells(b->bullet, text.len);
    }
    vl_buf_fini(&text);
}

static void leave_item(struct render *r)
{
    flush_para(r);
    if (r->deeper_boxes) {
        r->deeper_boxes--;
        return;
    }
    if (!r->boxes[r->n_boxes - 1].used) { /* an item without text */
        r->has_para = true;
        flush_para(r);
    }
    r->n_boxes--;
}

static void enter_list(struct render *r, bool ordered, bool tight, unsigned start)
{
    struct list l = {ordered, tight, start, 0};

    flush_para(r);
    if (!r->n_lists)
        separate(r);
    if (r->n_lists < DEPTH_MAX)
        r->lists[r->n_lists++] = l;
    else
        r->deeper_lists++;
}

static void enter_quote(struct render *r)
{
    flush_para(r);
    separate(r);
    if (r->n_boxes < DEPTH_MAX) {
        memset(&r->boxes[r->n_boxes], 0, sizeof(r->boxes[0]));
        r->boxes[r->n_boxes++].quote = true;
    } else {
        r->deeper_boxes++;
    }
}

/* The first text in a quote or behind a bullet has no blank line before it. */
static void enter_text(struct render *r)
{
    struct box *b = r->n_boxes ? &r->boxes[r->n_boxes - 1] : NULL;

    flush_para(r);
    if (!b || b->used)
        separate(r);
    if (b && b->quote)
        b->used = true;
    r->has_para = true;
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *user)
{
    struct render *r = user;

    switch (type) {
    case MD_BLOCK_QUOTE:
        enter_quote(r);
        break;
    case MD_BLOCK_UL:
        enter_list(r, false, ((MD_BLOCK_UL_DETAIL *)detail)->is_tight, 0);
        break;
    case MD_BLOCK_OL:
        enter_list(r, true, ((MD_BLOCK_OL_DETAIL *)detail)->is_tight,
                   ((MD_BLOCK_OL_DETAIL *)detail)->start);
        break;
    case MD_BLOCK_LI:
        enter_item(r, detail);
        break;
    case MD_BLOCK_HR:
        flush_para(r);
        separate(r);
        rule(r);
        break;
    case MD_BLOCK_H:
        enter_text(r);
        r->heading = (int)((MD_BLOCK_H_DETAIL *)detail)->level;
        break;
    case MD_BLOCK_CODE: {
        MD_BLOCK_CODE_DETAIL *d = detail;

        enter_text(r);
        r->has_para = false;
        r->in_code = true;
        vl_highlight_begin(&r->highlight, d->lang.text, d->lang.size);
        break;
    }
    case MD_BLOCK_P:
        enter_text(r);
        break;
    case MD_BLOCK_TABLE:
        enter_text(r);
        r->has_para = false;
        r->in_table = true;
        vl_table_begin(&r->table);
        break;
    case MD_BLOCK_THEAD:
        r->in_head = true;
        break;
    case MD_BLOCK_TBODY:
        r->in_head = false;
        break;
    case MD_BLOCK_TR:
        vl_table_row(&r->table);
        break;
    default:
        break;
    }
    return 0;
}

static void leave_table(struct render *r)
{
    struct vl_span first = {0}, next = {0};

    put_boxes(r, &first, true);
    put_boxes(r, &next, false);
    vl_table_render(&r->table, r->doc, r->width, &first, &next);
    vl_table_fini(&r->table);
    r->in_table = false;
    vl_span_fini(&first);
    vl_span_fini(&next);
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *user)
{
    struct render *r = user;

    switch (type) {
    case MD_BLOCK_QUOTE:
        flush_para(r);
        if (r->deeper_boxes)
            r->deeper_boxes--;
        else
            r->n_boxes--;
        break;
    case MD_BLOCK_UL:
    case MD_BLOCK_OL:
        flush_para(r);
        if (r->deeper_lists)
            r->deeper_lists--;
        else
            r->n_lists--;
        break;
    case MD_BLOCK_LI:
        leave_item(r);
        break;
    case MD_BLOCK_H:
        flush_para(r);
        r->heading = 0;
        break;
    case MD_BLOCK_CODE:
        flush_code(r);
        r->in_code = false;
        break;
    case MD_BLOCK_P:
        flush_para(r);
        break;
    case MD_BLOCK_TABLE:
        leave_table(r);
        break;
    case MD_BLOCK_TH:
    case MD_BLOCK_TD:
        vl_table_cell(&r->table, &r->para, ((MD_BLOCK_TD_DETAIL *)detail)->align == MD_ALIGN_RIGHT);
        vl_span_cut(&r->para, 0);
        break;
    default:
        break;
    }
    return 0;
}

/* ---- spans ---- */

static int enter_span(MD_SPANTYPE type, void *detail, void *user)
{
    struct render *r = user;

    switch (type) {
    case MD_SPAN_EM:
        r->italic++;
        break;
    case MD_SPAN_STRONG:
        r->bold++;
        break;
    case MD_SPAN_DEL:
        r->strike++;
        break;
    case MD_SPAN_CODE:
        r->code++;
        break;
    case MD_SPAN_A:
    case MD_SPAN_IMG: {
        const MD_ATTRIBUTE *a = type == MD_SPAN_A ? &((MD_SPAN_A_DETAIL *)detail)->href
                                                  : &((MD_SPAN_IMG_DETAIL *)detail)->src;
        if (r->link++ == 0) {
            vl_buf_clear(&r->href);
            vl_buf_append(&r->href, a->text, a->size);
            r->link_at = r->para.text.len;
        }
        break;
    }
    default:
        break;
    }
    return 0;
}

/* Behind a link stands where it goes, unless its text says so. */
static void end_link(struct render *r)
{
    const char *text = r->para.text.ptr ? r->para.text.ptr + r->link_at : "";
    size_t n = r->para.text.len - r->link_at, skip = 0;

    if (!r->href.len)
        return;
    if (r->href.len > 7 && memcmp(r->href.ptr, "mailto:", 7) == 0)
        skip = 7;
    if (r->href.len - skip == n && memcmp(text, r->href.ptr + skip, n) == 0)
        return;
    if (r->href.len >= n && n && memcmp(r->href.ptr + r->href.len - n, text, n) == 0 &&
        r->href.len - n <= 8) /* www.example.org -> http://www.example.org */
        return;
    vl_span_put(&r->para, " (", 2, VL_ROLE_DIM);
    vl_span_put(&r->para, r->href.ptr, r->href.len, VL_ROLE_DIM);
    vl_span_put(&r->para, ")", 1, VL_ROLE_DIM);
}

static int leave_span(MD_SPANTYPE type, void *detail, void *user)
{
    struct render *r = user;

    (void)detail;
    switch (type) {
    case MD_SPAN_EM:
        r->italic--;
        break;
    case MD_SPAN_STRONG:
        r->bold--;
        break;
    case MD_SPAN_DEL:
        r->strike--;
        break;
    case MD_SPAN_CODE:
        r->code--;
        break;
    case MD_SPAN_A:
    case MD_SPAN_IMG:
        if (--r->link == 0)
            end_link(r);
        break;
    default:
        break;
    }
    return 0;
}

static vl_style text_style(const struct render *r)
{
    int role = VL_ROLE_TEXT, attr = 0;

    if (r->n_boxes && r->boxes[r->n_boxes - 1].quote)
        role = VL_ROLE_QUOTE;
    if (r->heading)
        role = VL_ROLE_HEADING;
    if (r->heading || r->bold || (r->in_table && r->in_head))
        attr |= VL_ATTR_BOLD;
    if (r->heading == 1)
        attr |= VL_ATTR_UNDERLINE;
    if (r->italic || r->heading > 3)
        attr |= VL_ATTR_ITALIC;
    if (r->strike)
        attr |= VL_ATTR_STRIKE;
    if (r->link) {
        role = VL_ROLE_LINK;
        attr |= VL_ATTR_UNDERLINE;
    }
    if (r->code)
        role = VL_ROLE_CODE;
    return VL_STYLE(role, attr);
}

static void put_entity(struct render *r, const char *s, size_t n)
{
    static const struct {
        const char *name, *text;
    } known[] = {{"&amp;", "&"},    {"&lt;", "<"},   {"&gt;", ">"},    {"&quot;", "\""},
                 {"&apos;", "'"},   {"&nbsp;", " "}, {"&mdash;", "—"}, {"&ndash;", "–"},
                 {"&hellip;", "…"}, {"&copy;", "©"}, {"&times;", "×"}, {"&rarr;", "→"},
                 {"&larr;", "←"},   {"&deg;", "°"},  {"&euro;", "€"},  {"&middot;", "·"}};
    char utf8[4];
    unsigned long cp = 0;
    vl_buf clean = VL_BUF_INIT;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i].name) == n && memcmp(known[i].name, s, n) == 0) {
            vl_span_put(&r->para, known[i].text, strlen(known[i].text), text_style(r));
            return;
        }
    if (n > 3 && n < 12 && s[1] == '#')
        cp = s[2] == 'x' || s[2] == 'X' ? strtoul(s + 3, NULL, 16) : strtoul(s + 2, NULL, 10);
    if (cp > 0 && cp < 0x110000 && (cp < 0xD800 || cp > 0xDFFF))
        /* An entity can spell what was cleaned away. */
        vl_clean_text(&clean, utf8, (size_t)vl_utf8_put((uint32_t)cp, utf8), true);
    else
        vl_buf_append(&clean, s, n);
    vl_span_put(&r->para, clean.len ? clean.ptr : "", clean.len, text_style(r));
    vl_buf_fini(&clean);
}

static int on_text(MD_TEXTTYPE type, const MD_CHAR *s, MD_SIZE n, void *user)
{
    struct render *r = user;

    if (s >= r->src && s <= r->src + r->src_len + 1 && (size_t)(s - r->src) + n > r->src_len)
        return 1;
    if (!r->in_table && !r->in_code)
        r->has_para = true;
    switch (type) {
    case MD_TEXT_BR:
        vl_span_put(&r->para, r->in_table ? " " : "\n", 1, VL_ROLE_TEXT);
        break;
    case MD_TEXT_SOFTBR:
        vl_span_put(&r->para, " ", 1, text_style(r));
        break;
    case MD_TEXT_NULLCHAR:
        vl_span_put(&r->para, "\xEF\xBF\xBD", 3, text_style(r));
        break;
    case MD_TEXT_ENTITY:
        put_entity(r, s, n);
        break;
    case MD_TEXT_CODE:
        if (r->in_code)
            vl_span_put(&r->para, s, n, VL_ROLE_CODE);
        else
            vl_span_put(&r->para, s, n, text_style(r));
        break;
    default:
        for (MD_SIZE i = 0; i < n;) { /* a tab in text is a blank */
            MD_SIZE k = i;

            while (k < n && s[k] != '\t')
                k++;
            vl_span_put(&r->para, s + i, k - i, text_style(r));
            if (k < n)
                vl_span_put(&r->para, " ", 1, text_style(r));
            i = k + 1;
        }
        break;
    }
    return 0;
}

void vl_markdown_block(struct vl_doc *doc, const char *src, size_t len, int width)
{
    static const MD_PARSER parser = {0,           MD_DIALECT_GITHUB | MD_FLAG_NOHTML,
                                     enter_block, leave_block,
                                     enter_span,  leave_span,
                                     on_text,     NULL,
                                     NULL};
    struct render r = {.doc = doc, .width = width, .first_line = doc->n_lines};
    struct vl_mark begin = vl_doc_mark(doc);
    vl_buf copy = VL_BUF_INIT;
    struct vl_span plain = {0};

    /* md4c 0.4.8 looks at the byte behind the text when a URL ends there, and can then report text
     * past the end: that byte must be no part of a URL, and what it reports is checked (on_text).
     */
    vl_buf_append(&copy, src, len);
    vl_buf_putc(&copy, '\n');
    r.src = copy.ptr;
    r.src_len = len;
    if (copy.failed || len > UINT32_MAX || md_parse(copy.ptr, (MD_SIZE)len, &parser, &r) != 0) {
        /* Out of memory, or the parser went astray: the words themselves must not be lost. */
        vl_doc_rewind(doc, begin);
        vl_span_put(&plain, src, len, VL_ROLE_TEXT);
        vl_doc_wrap(doc, &plain, width, NULL, NULL);
    }
    vl_span_fini(&plain);
    vl_span_fini(&r.para);
    vl_table_fini(&r.table);
    vl_buf_fini(&r.href);
    vl_buf_fini(&copy);
}
