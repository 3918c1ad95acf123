/* tests/unit/chat_kit.c: see chat_kit.h. */
#include "tests/unit/chat_kit.h"

#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "plugins/qwen35/chat/chat.h"

const vl_chat_api *const kit_api = &vl_qwen35_chat_api;

enum { FIRST_TAG_ID = 5000 };

static int32_t find(const vl_tokenizer *t, const char *bytes, uint64_t len)
{
    (void)t;
    for (int i = 0; i < VL_N_TAGS; i++) {
        if (strlen(vl_chat_tags[i]) == len && memcmp(vl_chat_tags[i], bytes, len) == 0)
            return FIRST_TAG_ID + i;
    }
    return -1;
}

static const vl_tokenizer_api tokenizer = {
    .struct_size = sizeof(tokenizer), .abi_version = VL_ABI_VERSION, .find = find};

static vl_bytes bytes_of(const char *text)
{
    return (vl_bytes){text, text ? strlen(text) : 0};
}

vl_status kit_create(const char *format, const char *template_text, const char *config,
                     const char *kwargs, uint32_t flags, vl_chat **out, vl_error *err)
{
    vl_chat_params p = {.struct_size = sizeof(p),
                        .flags = flags,
                        .config_json = bytes_of(config),
                        .template_text = bytes_of(template_text),
                        .format = format,
                        .default_kwargs = bytes_of(kwargs),
                        .tokenizer_api = &tokenizer};
    return kit_api->create(NULL, &p, out, err);
}

vl_chat *kit_chat(const char *format, uint32_t flags)
{
    vl_chat *c = NULL;
    vl_error err = {0};
    if (kit_create(format, NULL, NULL, NULL, flags, &c, &err) != VL_OK)
        fail_msg("%s: %s", format, err.text);
    return c;
}

void kit_render(const vl_chat *c, const char *request, bool show, vl_buf *out)
{
    vl_chat_prompt *p = NULL;
    vl_chat_field field;
    vl_error err = {0};
    vl_chat_view v = {.struct_size = sizeof(v)};
    uint64_t total = 0, last = 0;

    if (kit_api->render(c, bytes_of(request), &p, &field, &err) != VL_OK)
        fail_msg("%s: %s\n%s", field.path, err.text, request);
    kit_api->view(p, &v);
    for (uint64_t i = 0; i < v.n_pieces; i++) {
        bool text = v.pieces[i].kind == VL_PIECE_TEXT;
        vl_buf_puts(out, show && text ? "[[" : "");
        vl_buf_append(out, v.pieces[i].ptr, v.pieces[i].len);
        vl_buf_puts(out, show && text ? "]]" : "");
        total += v.pieces[i].len;
    }
    for (uint64_t i = 0; i < v.n_marks; i++) {
        assert_true(v.marks[i].byte >= last && v.marks[i].byte <= total);
        last = v.marks[i].byte;
    }
    kit_api->prompt_free(p);
}

void kit_refuse(const vl_chat *c, const char *request, const char *field, const char *text)
{
    vl_chat_prompt *p = NULL;
    vl_chat_field f = {"?"};
    vl_error err = {0};
    vl_status rc = kit_api->render(c, bytes_of(request), &p, &f, &err);

    if (rc != VL_E_INVALID || strcmp(f.path, field) != 0 || strcmp(err.text, text) != 0)
        fail_msg("%s\n got %d, %s: %s\nwant %s: %s", request, rc, f.path, err.text, field, text);
    assert_null(p);
    /* Neither of the two is needed. */
    assert_int_equal(kit_api->render(c, bytes_of(request), &p, NULL, NULL), VL_E_INVALID);
}

/* ---- parsing ---- */

struct log {
    vl_buf *out;
    int kind; /* of the open bracket, -1 none */
    uint64_t next_token, n_fed;
};

static int32_t on_event(void *user, const vl_chat_event *e)
{
    static const char letters[] = "RCTAE";
    struct log *l = user;

    assert_true(e->first_token >= l->next_token && e->end_token >= e->first_token);
    assert_true(e->end_token <= l->n_fed);
    l->next_token = e->end_token;
    if (e->kind != VL_CHAT_EV_CALL_END)
        assert_true(e->text.len > 0);
    assert_int_equal(vl_utf8_valid(e->text.ptr, e->text.len), e->text.len);
    if (e->kind != l->kind || e->kind == VL_CHAT_EV_CALL) {
        vl_buf_puts(l->out, l->kind >= 0 ? ")" : "");
        vl_buf_putc(l->out, letters[e->kind]);
        if (e->kind == VL_CHAT_EV_CALL || e->kind == VL_CHAT_EV_CALL_END)
            vl_buf_printf(l->out, "%u", e->index);
        vl_buf_putc(l->out, '(');
        l->kind = e->kind;
    }
    vl_buf_append(l->out, e->text.ptr, e->text.len);
    return 0;
}

static void feed(vl_chat_parser *p, struct log *l, int32_t id, const char *text, size_t len)
{
    vl_error err = {0};
    char *exact = test_malloc(len ? len : 1); /* a sanitizer sees a read past its end */
    memcpy(exact, text, len);
    l->n_fed++;
    if (kit_api->feed(p, id, (vl_bytes){exact, len}, on_event, l, &err) != VL_OK)
        fail_msg("feed: %s", err.text);
    test_free(exact);
}

void kit_parse(const vl_chat *c, const char *request, const char *output, size_t len, int32_t how,
               kit_split split, vl_buf *events)
{
    vl_chat_prompt *prompt = NULL;
    vl_chat_parser *p = NULL;
    vl_error err = {0};
    struct log l = {events, -1, 0, 0};
    uint32_t seed = split.seed * 2654435761u + 1;

    if (kit_api->render(c, bytes_of(request), &prompt, NULL, &err) != VL_OK)
        fail_msg("%s\n%s", err.text, request);
    assert_int_equal(kit_api->parser_create(c, prompt, &p, &err), VL_OK);
    kit_api->prompt_free(prompt);
    vl_buf_clear(events);
    vl_buf_puts(events, "");
    for (size_t i = 0; i < len;) {
        if (output[i] >= 1 && output[i] <= VL_N_TAGS) {
            int tag = output[i] - 1;
            feed(p, &l, FIRST_TAG_ID + tag, vl_chat_tags[tag], strlen(vl_chat_tags[tag]));
            i++;
            continue;
        }
        size_t n = 0;
        seed = seed * 1664525u + 1013904223u;
        size_t want = split.how == KIT_RANDOM  ? 1 + (seed >> 16) % 12
                      : split.how == KIT_CHARS ? 1
                                               : len;
        while (i + n < len && n < want && !(output[i + n] >= 1 && output[i + n] <= VL_N_TAGS) &&
               !(split.how == KIT_CUT && n > 0 && i + n == split.cut)) {
            uint32_t cp;
            int k = vl_utf8_next(output + i + n, len - i - n, &cp);
            assert_true(k > 0);
            if (split.how == KIT_CHARS &&
                k > 1) /* the first bytes of a character give nothing yet */
                feed(p, &l, 7, "", 0);
            bool cut_inside =
                split.how == KIT_CUT && split.cut > i + n && split.cut < i + n + (size_t)k;
            if (cut_inside && n > 0) {
                split.cut = i + n;
                break;
            }
            n += (size_t)k;
        }
        feed(p, &l, 7, output + i, n);
        i += n;
    }
    if (kit_api->finish(p, how, on_event, &l, &err) != VL_OK)
        fail_msg("finish: %s", err.text);
    if (l.kind >= 0)
        vl_buf_putc(events, ')');
    assert_int_equal(kit_api->feed(p, 7, bytes_of("x"), on_event, &l, NULL), VL_E_STATE);
    kit_api->parser_destroy(p);
}

void kit_vectors(const char *name, vl_buf *text, vl_json_doc *doc)
{
    char path[1024];
    vl_error err = {0};

    assert_int_equal(vl_path_join(path, sizeof(path), VL_TEST_VECTORS "/chat", name, &err), VL_OK);
    if (vl_file_read(path, 64 << 20, text, &err) != VL_OK ||
        vl_json_parse(doc, text->ptr, text->len, 64, VL_JSON_UNIQUE_KEYS, &err) != VL_OK)
        fail_msg("%s: %s", path, err.text);
}
