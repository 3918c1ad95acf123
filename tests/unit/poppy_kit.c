/* tests/unit/poppy_kit.c: golden files, documents and screens as text. */
#include "tests/unit/poppy_kit.h"

#include "base/file.h"
#include "base/utf8.h"

void kit_golden(const char *name, const vl_buf *text)
{
    char path[1024];
    vl_buf want = VL_BUF_INIT;
    vl_error err = {0};

    snprintf(path, sizeof(path), "%s/poppy/%s", VL_TEST_VECTORS, name);
    assert_false(text->failed);
    if (getenv("VL_UPDATE_GOLDEN")) {
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        fwrite(text->ptr, 1, text->len, f);
        fclose(f);
        return;
    }
    if (vl_file_read(path, 1 << 20, &want, &err) != VL_OK)
        fail_msg("%s", err.text);
    if (want.len != text->len || memcmp(want.ptr, text->ptr, want.len) != 0)
        fail_msg("%s differs; got:\n%s\nwant:\n%s", name, text->ptr, want.ptr);
    vl_buf_fini(&want);
}

void kit_doc_text(const struct vl_doc *d, vl_buf *out)
{
    for (size_t i = 0; i < d->n_lines; i++) {
        if (d->lines[i].len)
            vl_buf_append(out, d->span.text.ptr + d->lines[i].at, d->lines[i].len);
        vl_buf_putc(out, '\n');
    }
}

void kit_screen_text(struct vl_screen *s, vl_buf *out)
{
    for (int y = 0; y < s->rows; y++) {
        size_t end = out->len;

        for (int x = 0; x < s->cols; x++) {
            const struct vl_cell *c = vl_screen_at(s, y, x);
            char utf8[4];

            if (c->cells == 0)
                continue;
            if (c->ch & VL_CELL_POOL)
                vl_buf_puts(out, s->pool[c->ch & ~VL_CELL_POOL]);
            else
                vl_buf_append(out, utf8, (size_t)vl_utf8_put(c->ch, utf8));
            if (c->ch != ' ')
                end = out->len;
        }
        out->len = end;
        vl_buf_putc(out, '\n');
    }
}
