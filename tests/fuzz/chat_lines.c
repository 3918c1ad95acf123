/* tests/fuzz/chat_lines.c: renders chat requests for chat_fuzz.py. One line in: FORMAT, a tab, the
 * request. One line out: a JSON list ["ok", prompt, template parts joined by "@"] or ["error",
 * field, text]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/qwen35/chat/chat.h"

static int32_t find(const vl_tokenizer *t, const char *bytes, uint64_t len)
{
    (void)t;
    for (int i = 0; i < VL_N_TAGS; i++) {
        if (strlen(vl_chat_tags[i]) == len && memcmp(vl_chat_tags[i], bytes, len) == 0)
            return i;
    }
    return -1;
}

static const vl_tokenizer_api tokenizer = {.struct_size = sizeof(tokenizer), .find = find};

static void answer(vl_buf *out, const char *format, const char *request, size_t len)
{
    const vl_chat_api *api = &vl_qwen35_chat_api;
    vl_chat_params params = {.struct_size = sizeof(params),
                             .flags = VL_CHAT_MEDIA,
                             .format = format,
                             .tokenizer_api = &tokenizer};
    vl_chat_view view = {.struct_size = sizeof(view)};
    vl_buf prompt = VL_BUF_INIT, ours = VL_BUF_INIT;
    vl_chat_prompt *p = NULL;
    vl_chat *c = NULL;
    vl_chat_field field = {""};
    vl_error err = {0};

    vl_status rc = api->create(NULL, &params, &c, &err);
    if (rc == VL_OK)
        rc = api->render(c, (vl_bytes){request, len}, &p, &field, &err);
    if (rc == VL_OK) {
        api->view(p, &view);
        for (uint64_t i = 0; i < view.n_pieces; i++) {
            const vl_piece *piece = &view.pieces[i];
            vl_buf_append(&prompt, piece->ptr, piece->len);
            if (piece->kind == VL_PIECE_TEMPLATE)
                vl_buf_append(&ours, piece->ptr, piece->len);
            else
                vl_buf_putc(&ours, '@');
        }
    } else {
        vl_buf_puts(&prompt, field.path);
        vl_buf_puts(&ours, err.text);
    }
    vl_buf_puts(out, rc == VL_OK ? "[\"ok\"," : "[\"error\",");
    vl_json_put_str(out, prompt.ptr, prompt.len);
    vl_buf_putc(out, ',');
    vl_json_put_str(out, ours.ptr, ours.len);
    vl_buf_puts(out, "]\n");
    api->prompt_free(p);
    api->destroy(c);
    vl_buf_fini(&prompt);
    vl_buf_fini(&ours);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;

    while ((n = getline(&line, &cap, stdin)) > 0) {
        vl_buf out = VL_BUF_INIT;
        char *tab = memchr(line, '\t', (size_t)n);
        if (!tab)
            return 2;
        *tab = '\0';
        answer(&out, line, tab + 1, (size_t)(line + n - tab - 1));
        fwrite(out.ptr, 1, out.len, stdout);
        fflush(stdout);
        vl_buf_fini(&out);
    }
    free(line);
    return 0;
}
