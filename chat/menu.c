/* chat/menu.c: a list of lines. Knows not what is chosen. */
#include "chat/menu.h"

#include <stdlib.h>
#include <string.h>

#include "chat/clean.h"

void vl_menu_clear(struct vl_menu *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->lines[i]);
    m->n = m->selected = 0;
    vl_buf_clear(&m->title);
}

void vl_menu_fini(struct vl_menu *m)
{
    vl_menu_clear(m);
    free(m->lines);
    vl_buf_fini(&m->title);
    memset(m, 0, sizeof(*m));
}

void vl_menu_add(struct vl_menu *m, const char *text)
{
    vl_buf clean = VL_BUF_INIT;
    char *line;

    vl_clean_text(&clean, text, strlen(text), true);
    line = vl_buf_take(&clean, NULL);
    if (!line)
        line = strdup("");
    if (!line || !vl_grow(&m->lines, &m->cap, m->n + 1, sizeof(*m->lines))) {
        free(line);
        return;
    }
    m->lines[m->n++] = line;
}
