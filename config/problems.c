/* config/problems.c: what is wrong with a config, collected and then told at once. */
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

void vl_problems_add(vl_problems *p, const char *where, uint32_t line, uint32_t column,
                     const char *fmt, ...)
{
    vl_buf text = VL_BUF_INIT;
    va_list args;
    va_start(args, fmt);
    vl_buf_vprintf(&text, fmt, args);
    va_end(args);
    if (!vl_grow(&p->list, &p->cap, p->n + 1, sizeof *p->list)) {
        p->failed = true;
        vl_buf_fini(&text);
        p->n += p->n == 0; /* a problem all the same */
        return;
    }
    vl_problem *e = &p->list[p->n];
    *e = (vl_problem){where ? strdup(where) : NULL, line, column, vl_buf_take(&text, NULL)};
    if ((where && !e->where) || !e->text)
        p->failed = true;
    p->n++;
}

static int by_place(const void *a, const void *b)
{
    const vl_problem *x = a, *y = b;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return x->column < y->column ? -1 : x->column > y->column;
}

void vl_problems_print(vl_problems *p, vl_buf *out)
{
    if (p->list)
        qsort(p->list, p->n, sizeof *p->list, by_place);
    for (size_t i = 0; p->list && i < p->n; i++) {
        const vl_problem *e = &p->list[i];
        if (e->where && e->line)
            vl_buf_printf(out, "%s:%u:%u: ", e->where, e->line, e->column);
        else if (e->where)
            vl_buf_printf(out, "%s: ", e->where);
        vl_buf_printf(out, "%s\n", e->text ? e->text : "(out of memory)");
    }
    if (p->failed)
        vl_buf_puts(out, "out of memory: some problems are not shown\n");
}

void vl_problems_fini(vl_problems *p)
{
    for (size_t i = 0; p->list && i < p->n; i++) {
        free(p->list[i].where);
        free(p->list[i].text);
    }
    free(p->list);
    *p = (vl_problems){NULL, 0, 0, false};
}
