/* host/server/answer_items.c: engine events to a list of items (thought, text, call) in the order
 * they came, for forms of answer that are made of such. Owns the items. Must not know any form. */
#include <stdlib.h>
#include <string.h>

#include "host/server/api_forms.h"

void vl_sse_open(vl_buf *out, const char *name)
{
    vl_buf_printf(out, "event: %s\ndata: ", name);
}

void vl_sse_close(vl_buf *out)
{
    vl_buf_puts(out, "\n\n");
}

bool vl_items_init(vl_answer *a, const struct vl_answer_form *form, vl_buf *echo)
{
    size_t n = strlen(form->prefix);
    a->items = calloc(1, sizeof *a->items);
    if (!a->items)
        return false;
    a->items->form = form;
    memcpy(a->id, form->prefix, n);
    vl_random_text(a->id + n, 24);
    if (echo) {
        a->items->echo = *echo;
        *echo = (vl_buf)VL_BUF_INIT;
    }
    return true;
}

void vl_items_free(vl_items *items)
{
    if (!items)
        return;
    for (size_t i = 0; i < items->n; i++) {
        vl_buf_fini(&items->list[i].name);
        vl_buf_fini(&items->list[i].text);
    }
    free(items->list);
    vl_buf_fini(&items->stop);
    vl_buf_fini(&items->echo);
    free(items);
}

static void random_id(char *out, const char *prefix)
{
    size_t n = strlen(prefix);
    memcpy(out, prefix, n);
    vl_random_text(out + n, 24);
}

static vl_item *item_add(vl_items *items, int32_t kind)
{
    static const char *const prefix[] = {"rs_", "msg_", "fc_"};
    if (!vl_grow(&items->list, &items->cap, items->n + 1, sizeof *items->list))
        return NULL;
    vl_item *item = &items->list[items->n++];
    *item = (vl_item){.kind = kind};
    random_id(item->id, prefix[kind]);
    if (kind == VL_ITEM_CALL)
        random_id(item->call_id, items->form == &vl_form_messages ? "toolu_" : "call_");
    return item;
}

static void close_last(vl_answer *a, bool complete, vl_buf *out)
{
    vl_items *items = a->items;
    if (!items->open)
        return;
    items->open = false;
    items->list[items->n - 1].complete = complete;
    if (a->stream)
        items->form->item_close(a, items->n - 1, out);
}

static void start(vl_answer *a, vl_buf *out)
{
    if (a->items->started)
        return;
    a->items->started = true;
    if (a->stream)
        a->items->form->start(a, out);
}

static void take_text(vl_answer *a, const vl_event *ev, vl_buf *out)
{
    vl_items *items = a->items;
    int32_t kind = ev->text_kind == VL_TEXT_KIND_REASONING ? VL_ITEM_REASONING
                   : ev->text_kind == VL_TEXT_KIND_CONTENT ? VL_ITEM_TEXT
                                                           : VL_ITEM_CALL;
    bool call = ev->text_kind == VL_TEXT_KIND_CALL;
    if (kind == VL_ITEM_REASONING && !a->include_reasoning)
        return;
    if (ev->text_kind == VL_TEXT_KIND_CALL_END) {
        close_last(a, true, out);
        return;
    }
    if (ev->text_len == 0 && !call)
        return;
    if (!items->open || call || items->list[items->n - 1].kind != kind) {
        close_last(a, true, out);
        vl_item *item = item_add(items, kind);
        if (!item) {
            items->failed = true;
            return;
        }
        items->open = true;
        if (call)
            vl_buf_append(&item->name, ev->text, ev->text_len);
        if (a->stream)
            items->form->item_open(a, items->n - 1, out);
        if (call)
            return;
    }
    vl_item *last = &items->list[items->n - 1];
    vl_buf_append(&last->text, ev->text, ev->text_len);
    items->failed |= last->text.failed;
    if (a->stream)
        items->form->item_text(a, items->n - 1, ev->text, ev->text_len, out);
}

void vl_items_event(vl_answer *a, const vl_event *ev, vl_buf *out)
{
    vl_items *items = a->items;
    switch (ev->kind) {
    case VL_EVENT_STARTED:
        a->usage.prompt_tokens = ev->usage.prompt_tokens;
        a->usage.cached_tokens = ev->usage.cached_tokens;
        start(a, out);
        break;
    case VL_EVENT_TEXT:
        start(a, out);
        take_text(a, ev, out);
        break;
    case VL_EVENT_CHOICE_END:
        start(a, out);
        close_last(a, ev->finish != VL_FINISH_LENGTH, out);
        items->finish = ev->finish;
        items->has_stop = ev->text != NULL;
        if (ev->text)
            vl_buf_append(&items->stop, ev->text, ev->text_len);
        break;
    default:
        break;
    }
    if (items->failed)
        out->failed = true;
}

void vl_items_finish(vl_answer *a, vl_buf *out)
{
    if (a->stream)
        a->items->form->end(a, out);
    else
        a->items->form->whole(a, out);
    out->failed |= a->items->failed;
}
