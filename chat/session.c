/* chat/session.c: the dialogue in memory. Knows no files (session_file.c), no terminal, no HTTP. */
#include "chat/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

void vl_session_init(struct vl_session *s)
{
    memset(s, 0, sizeof(*s));
}

void vl_item_free(struct vl_item *item)
{
    if (!item)
        return;
    if (item->view_free)
        item->view_free(item->view);
    for (size_t i = 0; i < item->n_tools; i++) {
        vl_buf_fini(&item->tools[i].name);
        vl_buf_fini(&item->tools[i].args);
    }
    free(item->tools);
    vl_clean_fini(&item->clean);
    vl_clean_fini(&item->clean_thinking);
    vl_buf_fini(&item->text);
    vl_buf_fini(&item->thinking);
    vl_buf_fini(&item->shown);
    vl_buf_fini(&item->shown_thinking);
    free(item);
}

void vl_session_truncate(struct vl_session *s, size_t n_items)
{
    while (s->n_items > n_items)
        vl_item_free(s->items[--s->n_items]);
}

void vl_session_fini(struct vl_session *s)
{
    vl_session_truncate(s, 0);
    free(s->items);
    vl_buf_fini(&s->system);
    vl_buf_fini(&s->name);
    vl_session_init(s);
}

void vl_session_insert(struct vl_session *s, size_t index, struct vl_item *item)
{
    if (!vl_grow(&s->items, &s->cap, s->n_items + 1, sizeof(*s->items))) {
        vl_item_free(item);
        return;
    }
    memmove(s->items + index + 1, s->items + index, (s->n_items - index) * sizeof(*s->items));
    s->items[index] = item;
    s->n_items++;
}

struct vl_item *vl_session_detach(struct vl_session *s, size_t index)
{
    struct vl_item *item = s->items[index];

    s->n_items--;
    memmove(s->items + index, s->items + index + 1, (s->n_items - index) * sizeof(*s->items));
    return item;
}

struct vl_item *vl_session_add(struct vl_session *s, enum vl_item_kind kind, const char *text,
                               size_t len)
{
    struct vl_item *item = calloc(1, sizeof(*item));

    if (!item || !vl_grow(&s->items, &s->cap, s->n_items + 1, sizeof(*s->items))) {
        free(item);
        return NULL;
    }
    item->kind = kind;
    vl_clean_init(&item->clean);
    vl_clean_init(&item->clean_thinking);
    vl_item_put_text(item, text, len);
    if (kind != VL_ITEM_ASSISTANT)
        vl_item_close(item);
    s->items[s->n_items++] = item;
    return item;
}

void vl_item_put_text(struct vl_item *item, const char *text, size_t len)
{
    vl_buf_append(&item->text, text, len);
    vl_clean_feed(&item->clean, text, len, &item->shown);
    item->version++;
}

void vl_item_put_thinking(struct vl_item *item, const char *text, size_t len)
{
    vl_buf_append(&item->thinking, text, len);
    vl_clean_feed(&item->clean_thinking, text, len, &item->shown_thinking);
    item->version++;
}

struct vl_tool_call *vl_item_tool(struct vl_item *item, size_t index)
{
    if (index >= item->n_tools) {
        if (!vl_grow(&item->tools, &item->tools_cap, index + 1, sizeof(*item->tools)))
            return NULL;
        memset(item->tools + item->n_tools, 0, (index + 1 - item->n_tools) * sizeof(*item->tools));
        item->n_tools = index + 1;
    }
    item->version++;
    return &item->tools[index];
}

void vl_item_close(struct vl_item *item)
{
    vl_clean_end(&item->clean, &item->shown);
    vl_clean_end(&item->clean_thinking, &item->shown_thinking);
    item->open = false;
    item->version++;
}

size_t vl_session_last_question(const struct vl_session *s)
{
    for (size_t i = s->n_items; i-- > 0;)
        if (s->items[i]->kind == VL_ITEM_USER)
            return i;
    return s->n_items;
}

struct vl_item *vl_session_last_answer(const struct vl_session *s)
{
    for (size_t i = s->n_items; i-- > 0;)
        if (s->items[i]->kind == VL_ITEM_ASSISTANT && s->items[i]->text.len)
            return s->items[i];
    return NULL;
}

bool vl_session_has_turn(const struct vl_session *s)
{
    return vl_session_last_question(s) < s->n_items;
}

static void put_message(vl_buf *out, const char *role, const char *text, size_t len)
{
    if (out->ptr[out->len - 1] != '[')
        vl_buf_putc(out, ',');
    vl_buf_printf(out, "{\"role\":\"%s\",\"content\":", role);
    vl_json_put_str(out, len ? text : "", len);
    vl_buf_putc(out, '}');
}

void vl_session_messages(const struct vl_session *s, const char *question, size_t len, vl_buf *out)
{
    vl_buf_putc(out, '[');
    if (out->failed)
        return;
    if (s->system.len)
        put_message(out, "system", s->system.ptr, s->system.len);
    for (size_t i = 0; i < s->n_items && !out->failed; i++) {
        const struct vl_item *item = s->items[i];

        if (item->failed || item->kind > VL_ITEM_ASSISTANT)
            continue;
        put_message(out, item->kind == VL_ITEM_USER ? "user" : "assistant", item->text.ptr,
                    item->text.len);
    }
    if (question && !out->failed)
        put_message(out, "user", question, len);
    vl_buf_putc(out, ']');
}
