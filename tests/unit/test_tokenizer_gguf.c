/* test_tokenizer_gguf.c: the plugin through its table, from a fake loader: a GGUF vocabulary with
 * the smollm splitter against the reference, a qwen35 one against the same vocabulary as
 * tokenizer.json, and what is refused. */
#include "tokenizer_util.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- a loader that shows what the test put together ---- */

struct vl_checkpoint {
    vl_bytes texts[5];
    vl_vocab vocab;
    bool has_vocab;
    int64_t n_rows; /* of model.embed_tokens.weight; 0: there is none */
    vl_tensor tensor;
};

static vl_bytes fake_text(const vl_checkpoint *c, int32_t which)
{
    return c->texts[which];
}
static const vl_vocab *fake_vocab(const vl_checkpoint *c)
{
    return c->has_vocab ? &c->vocab : NULL;
}
static int64_t fake_find(const vl_checkpoint *c, const char *name)
{
    return c->n_rows > 0 && strcmp(name, "model.embed_tokens.weight") == 0 ? 0 : -1;
}
static const vl_tensor *fake_tensor(const vl_checkpoint *c, uint64_t index)
{
    return index == 0 ? &c->tensor : NULL;
}
static const vl_loader_api loader = {.struct_size = sizeof loader,
                                     .abi_version = VL_ABI_VERSION,
                                     .text = fake_text,
                                     .vocab = fake_vocab,
                                     .find = fake_find,
                                     .tensor = fake_tensor};

static char logged[600];
static void fake_log(void *ctx, int32_t level, const char *component, const char *text)
{
    (void)ctx;
    snprintf(logged, sizeof logged, "%d %s %s", level, component, text);
}
static const vl_host host = {
    .struct_size = sizeof host, .abi_version = VL_ABI_VERSION, .log = fake_log};

static const vl_option_values *option_values; /* for create; NULL: none */
static const vl_tokenizer_api *api;
static vl_instance *instance;

static vl_status create(vl_checkpoint *c, vl_tokenizer **t, vl_error *err)
{
    c->tensor =
        (vl_tensor){.struct_size = sizeof c->tensor, .shape = {c->n_rows, 64, 1, 1}, .n_dims = 2};
    return api->create(instance, &loader, c, option_values, t, err);
}

/* ---- vocabularies ---- */

struct arrays {
    vl_bytes *tokens, *merges;
    int32_t *types, *stops;
    vl_buf text; /* all strings */
    size_t n_tokens, n_merges, n_stops;
};

static void arrays_fini(struct arrays *a)
{
    free(a->tokens);
    free(a->merges);
    free(a->types);
    free(a->stops);
    vl_buf_fini(&a->text);
}

static void fill_strings(struct arrays *a, vl_json list, vl_bytes **out, size_t *n)
{
    *n = vl_json_count(list);
    *out = calloc(*n + 1, sizeof **out);
    assert_non_null(*out);
    size_t i = 0;
    for (vl_json_iter it = vl_json_each(list); vl_json_next(&it); i++) {
        size_t from = a->text.len;
        assert_true(vl_json_str(it.value, &a->text));
        (*out)[i] =
            (vl_bytes){(const char *)from, a->text.len - from}; /* an offset: the buffer may move */
    }
}

static void settle(struct arrays *a)
{
    for (size_t i = 0; i < a->n_tokens; i++)
        a->tokens[i].ptr = a->text.ptr + (size_t)a->tokens[i].ptr;
    for (size_t i = 0; i < a->n_merges; i++)
        a->merges[i].ptr = a->text.ptr + (size_t)a->merges[i].ptr;
}

static void use(vl_checkpoint *c, const struct arrays *a, const char *pre)
{
    c->has_vocab = true;
    c->vocab = (vl_vocab){.struct_size = sizeof c->vocab,
                          .model = "gpt2",
                          .pre = pre,
                          .tokens = a->tokens,
                          .types = a->types,
                          .n_tokens = a->n_tokens,
                          .merges = a->merges,
                          .n_merges = a->n_merges,
                          .stop_ids = a->stops,
                          .n_stop_ids = a->n_stops,
                          .file = "model.gguf"};
}

static void read_json(const char *path, vl_buf *text, vl_json_doc *doc)
{
    vl_error err = {0};
    if (vl_file_read(path, 1 << 26, text, &err) != VL_OK ||
        vl_json_parse(doc, text->ptr, text->len, 64, 0, &err) != VL_OK)
        fail_msg("%s", err.text);
}

static void read_ints(vl_json list, int32_t **out, size_t *n)
{
    *n = 0;
    *out = calloc(vl_json_count(list) + 1, sizeof **out);
    assert_non_null(*out);
    for (vl_json_iter it = vl_json_each(list); vl_json_next(&it);) {
        int64_t x;
        assert_true(vl_json_i64(it.value, &x));
        (*out)[(*n)++] = (int32_t)x;
    }
}

static void load_smollm(struct arrays *a)
{
    vl_buf text = VL_BUF_INIT;
    vl_json_doc doc;
    size_t n_types;
    memset(a, 0, sizeof *a);
    read_json(VL_BUILD_DIR "/tests/tokenizers/smollm2/vocab.json", &text, &doc);
    vl_json root = vl_json_root(&doc);
    fill_strings(a, vl_json_get(root, "tokens"), &a->tokens, &a->n_tokens);
    fill_strings(a, vl_json_get(root, "merges"), &a->merges, &a->n_merges);
    read_ints(vl_json_get(root, "types"), &a->types, &n_types);
    read_ints(vl_json_get(root, "stop_ids"), &a->stops, &a->n_stops);
    assert_int_equal(n_types, a->n_tokens);
    settle(a);
    vl_json_doc_fini(&doc);
    vl_buf_fini(&text);
}

static void test_gguf_smollm_equals_reference(void **state)
{
    struct arrays a;
    vl_checkpoint c = {.n_rows = 49152};
    vl_tokenizer *t = NULL;
    vl_error err = {0};
    vl_buf text = VL_BUF_INIT, s = VL_BUF_INIT;
    vl_json_doc doc;
    uint64_t n_stops, n = 0;
    (void)state;

    load_smollm(&a);
    use(&c, &a, "smollm");
    int32_t score = 0;
    assert_int_equal(api->probe(instance, &loader, &c, &score, &err), VL_OK);
    assert_true(score > 50);
    if (create(&c, &t, &err) != VL_OK)
        fail_msg("%s", err.text);
    arrays_fini(&a); /* the tokenizer keeps nothing of the checkpoint */
    assert_int_equal(api->n_tokens(t), 49152);
    const int32_t *stops = api->stop_ids(t, &n_stops);
    assert_int_equal(n_stops, 2); /* the file's <|im_end|>, and <|endoftext|> by content */
    assert_int_equal(stops[0], 0);
    assert_int_equal(stops[1], 2);
    read_json(VL_TEST_VECTORS "/tokenizer/smollm2_cases.json", &text, &doc);
    for (vl_json_iter it = vl_json_each(vl_json_get(vl_json_root(&doc), "cases"));
         vl_json_next(&it); n++) {
        int32_t *want;
        size_t n_want;
        vl_buf_clear(&s);
        assert_true(vl_json_str(vl_json_get(it.value, "text"), &s));
        read_ints(vl_json_get(it.value, "ids"), &want, &n_want);
        tok_expect(t, s.ptr != NULL ? s.ptr : "", s.len, VL_PIECE_TEMPLATE, want, n_want);
        free(want);
    }
    assert_int_equal(n, 300);
    vl_json_doc_fini(&doc);
    vl_buf_fini(&text);
    vl_buf_fini(&s);
    api->destroy(t);
}

/* Poppyseed's tokenizer.json as a converter would put it into GGUF, with padding rows. */
static void convert_poppyseed(struct arrays *a, size_t n_rows)
{
    vl_buf text = VL_BUF_INIT;
    vl_json_doc doc;
    memset(a, 0, sizeof *a);
    read_json(VL_BUILD_DIR "/tests/tokenizers/poppyseed/tokenizer.json", &text, &doc);
    vl_json root = vl_json_root(&doc), model = vl_json_get(root, "model");
    a->n_tokens = n_rows;
    a->tokens = calloc(n_rows, sizeof *a->tokens);
    a->types = calloc(n_rows, sizeof *a->types);
    a->n_merges = vl_json_count(vl_json_get(model, "merges"));
    a->merges = calloc(a->n_merges, sizeof *a->merges);
    assert_true(a->tokens != NULL && a->types != NULL && a->merges != NULL);
    for (size_t i = 0; i < n_rows; i++)
        a->types[i] = 5;
    for (vl_json_iter it = vl_json_each(vl_json_get(model, "vocab")); vl_json_next(&it);) {
        int64_t id;
        size_t from = a->text.len;
        assert_true(vl_json_i64(it.value, &id) && vl_json_str(it.key, &a->text));
        a->tokens[id] = (vl_bytes){(const char *)from, a->text.len - from};
        a->types[id] = 1;
    }
    for (vl_json_iter it = vl_json_each(vl_json_get(root, "added_tokens")); vl_json_next(&it);) {
        int64_t id;
        bool special;
        size_t from = a->text.len;
        assert_true(vl_json_i64(vl_json_get(it.value, "id"), &id));
        assert_true(vl_json_str(vl_json_get(it.value, "content"), &a->text));
        assert_true(vl_json_bool(vl_json_get(it.value, "special"), &special));
        a->tokens[id] = (vl_bytes){(const char *)from, a->text.len - from};
        a->types[id] = special || a->text.ptr[from + 1] == '|' ? 3 : 4;
    }
    size_t i = 0;
    for (vl_json_iter it = vl_json_each(vl_json_get(model, "merges")); vl_json_next(&it); i++) {
        size_t from = a->text.len;
        assert_true(vl_json_str(vl_json_at(it.value, 0), &a->text));
        vl_buf_putc(&a->text, ' ');
        assert_true(vl_json_str(vl_json_at(it.value, 1), &a->text));
        a->merges[i] = (vl_bytes){(const char *)from, a->text.len - from};
    }
    settle(a);
    vl_json_doc_fini(&doc);
    vl_buf_fini(&text);
}

static void test_gguf_qwen35_equals_tokenizer_json(void **state)
{
    struct arrays a;
    vl_checkpoint c = {.n_rows = 8192};
    vl_tokenizer *t = NULL, *want = tok_load("poppyseed");
    vl_error err = {0};
    vl_buf text = VL_BUF_INIT, s = VL_BUF_INIT;
    vl_json_doc doc;
    (void)state;

    convert_poppyseed(&a, 8192);
    use(&c, &a, "qwen35");
    if (create(&c, &t, &err) != VL_OK)
        fail_msg("%s", err.text);
    arrays_fini(&a);
    assert_int_equal(api->n_tokens(t), want->bpe.tokens.n_ids); /* no padding row is a token */
    for (int32_t i = 0; i < 8192; i++) {
        vl_bytes x = api->token(t, i), y = vl_tokens_bytes(&want->bpe.tokens, i);
        assert_int_equal(x.len, y.len);
        if (x.len > 0)
            assert_memory_equal(x.ptr, y.ptr, x.len);
        assert_int_equal(api->flags(t, i), vl_bpe_tokenizer_flags(want, i));
    }
    assert_int_equal(t->n_stop_ids, want->n_stop_ids);
    assert_memory_equal(t->stop_ids, want->stop_ids, want->n_stop_ids * sizeof *want->stop_ids);
    read_json(VL_TEST_VECTORS "/tokenizer/poppyseed_cases.json", &text, &doc);
    for (vl_json_iter it = vl_json_each(vl_json_get(vl_json_root(&doc), "cases"));
         vl_json_next(&it);) {
        int32_t *ids;
        size_t n;
        vl_buf_clear(&s);
        assert_true(vl_json_str(vl_json_get(it.value, "text"), &s));
        read_ints(vl_json_get(it.value, "ids"), &ids, &n);
        tok_expect(t, s.ptr != NULL ? s.ptr : "", s.len, VL_PIECE_TEMPLATE, ids, n);
        free(ids);
    }
    vl_json_doc_fini(&doc);
    vl_buf_fini(&text);
    vl_buf_fini(&s);
    api->destroy(t);
    vl_bpe_tokenizer_destroy(want);
}

/* Creates with `c` as it is; must fail with both words. */
static void expect_refused(vl_checkpoint *c, const char *word1, const char *word2)
{
    vl_tokenizer *t = NULL;
    vl_error err = {0};
    assert_int_not_equal(create(c, &t, &err), VL_OK);
    assert_null(t);
    if (strstr(err.text, word1) == NULL || strstr(err.text, word2) == NULL)
        fail_msg("no \"%s\" or \"%s\" in: %s", word1, word2, err.text);
}

static void test_gguf_wrong_values_refused_by_name(void **state)
{
    struct arrays a;
    vl_checkpoint c = {.n_rows = 49152};
    (void)state;

    load_smollm(&a);
    use(&c, &a, "qwen77");
    expect_refused(&c, "tokenizer.ggml.pre", "qwen77");
    use(&c, &a, "");
    expect_refused(&c, "tokenizer.ggml.pre", "qwen35");
    use(&c, &a, "smollm");
    c.vocab.model = "llama";
    expect_refused(&c, "tokenizer.ggml.model", "llama");
    use(&c, &a, "smollm");
    c.n_rows = 49151;
    expect_refused(&c, "49152", "49151");
    c.n_rows = 49152;

    vl_bytes had = a.merges[7];
    static const struct {
        const char *merge, *word1, *word2;
    } merges[] = {{"abc", "merge 7", "abc"}, {"zq\xc4\xa0\xc4\xa0z qz", "merge 7", "vocabulary"},
                  {"a ", "merge 7", "a "},   {" a", "merge 7", "halves"},
                  {"a b c", "merge 7", "a"}, {"", "merge 7", "halves"}};
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        a.merges[7] = (vl_bytes){merges[i].merge, strlen(merges[i].merge)};
        expect_refused(&c, merges[i].word1, merges[i].word2);
    }
    a.merges[7] = had;
    a.types[100] = 6;
    expect_refused(&c, "token_type", "tokens[100]");
    a.types[100] = 1;
    int32_t stop = a.stops[0];
    a.stops[0] = 100000;
    expect_refused(&c, "100000", "eos_token_id");
    a.stops[0] = stop;
    had = a.tokens[200];
    a.tokens[200] = (vl_bytes){"\xe6\x97\xa5", 3};
    expect_refused(&c, "tokens[200]", "byte alphabet");
    a.tokens[200] = had;
    c.has_vocab = false;
    expect_refused(&c, "tokenizer.json", "tokenizer.ggml.tokens");
    arrays_fini(&a);
}

/* Qwen3.5's number of rows under the old splitter's name: taken, and said. */
static void test_gguf_qwen35_rows_with_qwen2_warns(void **state)
{
    struct arrays a;
    vl_checkpoint c = {.n_rows = 248320};
    vl_tokenizer *t = NULL;
    vl_error err = {0};
    (void)state;
    convert_poppyseed(&a, 248320);
    use(&c, &a, "qwen2");
    logged[0] = '\0';
    if (create(&c, &t, &err) != VL_OK)
        fail_msg("%s", err.text);
    assert_non_null(strstr(logged, "pre=qwen2"));
    api->destroy(t);

    /* The user knows better than the file. */
    const vl_option_value value = {.text = "qwen35", .text_len = 6, .number = 1, .is_set = 1};
    const vl_option_values values = {sizeof values, 1, &value};
    option_values = &values;
    logged[0] = '\0';
    if (create(&c, &t, &err) != VL_OK)
        fail_msg("%s", err.text);
    option_values = NULL;
    assert_string_equal(logged, "");
    assert_ptr_equal(t->splitter.stages[0].scan, vl_scan_qwen35);
    api->destroy(t);
    arrays_fini(&a);
}

static void test_json_rows_checked_through_plugin(void **state)
{
    vl_checkpoint c = {.n_rows = 257};
    vl_tokenizer *t = NULL;
    vl_error err = {0};
    vl_buf text = VL_BUF_INIT;
    (void)state;
    tok_write_small(&text, "a b\nb c", NULL, NULL, NULL);
    c.texts[VL_TEXT_TOKENIZER] = (vl_bytes){text.ptr, text.len};
    expect_refused(&c, "257", "tokenizer.json");
    c.n_rows = 0; /* no tensor of a known name: config.json says it */
    c.texts[VL_TEXT_CONFIG] = (vl_bytes){"{\"text_config\":{\"vocab_size\":257}}", 34};
    expect_refused(&c, "257", "vocab");
    c.texts[VL_TEXT_CONFIG] = (vl_bytes){"{\"vocab_size\":258}", 18};
    assert_int_equal(create(&c, &t, &err), VL_OK);
    assert_int_equal(api->n_tokens(t), 258);
    assert_int_equal(api->max_token_bytes(t), 2);
    assert_int_equal(api->find(t, "bc", 2), 257);
    api->destroy(t);
    vl_buf_fini(&text);
}

/* ---- many threads on one tokenizer ---- */

static void *encode_often(void *user)
{
    const vl_tokenizer *t = user;
    static const char text[] =
        "The quick brown fox, 123 jumps; over\n\n the lazy dogs' tails! <|im_end|> wo\xcc\x88rter";
    vl_piece piece = {text, sizeof text - 1, VL_PIECE_TEMPLATE, 0};
    int32_t first[128], ids[128];
    uint64_t n_first = 0, n = 0;
    if (api->encode(t, &piece, 1, NULL, NULL, 0, first, 128, &n_first, NULL) != VL_OK)
        return "encode failed";
    for (int i = 0; i < 2000; i++) {
        if (api->encode(t, &piece, 1, NULL, NULL, 0, ids, 128, &n, NULL) != VL_OK || n != n_first ||
            memcmp(ids, first, n * sizeof *ids) != 0)
            return "encode differs";
    }
    return NULL;
}

static void test_encode_many_threads_agree(void **state)
{
    vl_tokenizer *t = tok_load("poppyseed");
    pthread_t threads[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, t), 0);
    for (int i = 0; i < 4; i++) {
        void *says = NULL;
        pthread_join(threads[i], &says);
        assert_null(says);
    }
    vl_bpe_tokenizer_destroy(t);
}

static int begin(void **state)
{
    (void)state;
    const vl_plugin *plugin = vl_plugin_entry();
    api = plugin->get_ext(VL_TOKENIZER_ID);
    return api == NULL || plugin->get_ext("vl.model/1") != NULL ||
           plugin->init(&host, &instance, NULL) != VL_OK;
}

static int end(void **state)
{
    (void)state;
    vl_plugin_entry()->fini(instance);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_smollm_equals_reference),
        cmocka_unit_test(test_gguf_qwen35_equals_tokenizer_json),
        cmocka_unit_test(test_gguf_wrong_values_refused_by_name),
        cmocka_unit_test(test_gguf_qwen35_rows_with_qwen2_warns),
        cmocka_unit_test(test_json_rows_checked_through_plugin),
        cmocka_unit_test(test_encode_many_threads_agree),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
