/* test_gguf.c: a GGUF file shows the same model as the safetensors that it was made from. */
#include "loader_util.h"

#include <math.h>

#include "base/json.h"
#include "plugins/loaders/common/sniff.h"
#include "plugins/loaders/gguf/convert.h"

static const vl_loader_api *const st = &vl_safetensors_api, *const gg = &vl_gguf_api;

static bool ends(const char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);
    return n >= t && strcmp(name + n - t, tail) == 0;
}

/* Every tensor of the safetensors model must be in the GGUF under its name, with its shape and its
 * values: bits for matrices, 6e-8 for norms (1 + w loses what lies below), one rounding of exp and
 * log for A_log. */
static void compare(const vl_checkpoint *hf, vl_checkpoint *b, double matrix_tolerance, bool mtp)
{
    uint64_t seen = 0;
    for (uint64_t i = 0; i < st->n_tensors(hf); i++) {
        const vl_tensor *t = st->tensor(hf, i);
        uint64_t j;
        if (!mtp && strncmp(t->name, "mtp.", 4) == 0)
            continue;
        const vl_tensor *u = must_find(gg, b, t->name, &j);
        vl_error err = {0, ""};
        const void *x = st->data((vl_checkpoint *)(uintptr_t)hf, i, NULL),
                   *y = gg->data(b, j, &err);
        if (y == NULL)
            fail_msg("%s", err.text);
        assert_int_equal(t->n_dims, u->n_dims);
        assert_memory_equal(t->shape, u->shape, sizeof(t->shape));
        uint64_t n = (uint64_t)(t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]);
        double tolerance =
            t->n_dims > 1 && !ends(t->name, "conv1d.weight") ? matrix_tolerance : 6e-8;
        for (uint64_t k = 0; k < n; k++) {
            double a = (double)value_at(x, t->dtype, k),
                   d = fabs(a - (double)value_at(y, u->dtype, k));
            if (d > (ends(t->name, "A_log") ? 3e-7 * fmax(1, fabs(a)) : tolerance))
                fail_msg("%s[%llu]: %.9g, want %.9g", t->name, (unsigned long long)k,
                         (double)value_at(y, u->dtype, k), a);
        }
        seen++;
    }
    assert_true(seen >= 56);
}

static void test_tiled_file_gives_the_hf_values(void **state)
{
    static const struct {
        const char *name;
        double tolerance;
        bool mtp;
    } files[] = {
        {"tiled-bf16.gguf", 0, true},
        {"tiled-f32.gguf", 0, true},
        {"tiled-f16.gguf", 1e-6, true},
        {"grouped.gguf", 0, true},
        {"split", 0, true},
        {"ollama.gguf", 0, false},
        {"declared.gguf", 0, false},
        {"nomtp.gguf", 0, false},
        {"split/six-00001-of-00003.gguf", 0, true},
        {"split/six-00003-of-00003.gguf", 0, true},
    };
    (void)state;
    vl_checkpoint *hf = must_open(st, "hf");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        vl_checkpoint *c = must_open(gg, files[i].name);
        assert_int_equal(gg->heads(c), VL_ORDER_GROUPED);
        compare(hf, c, files[i].tolerance, files[i].mtp);
        st->close(c);
    }
    st->close(hf);
}

#define LINEAR "model.language_model.layers.1.linear_attn."

static void test_preferring_the_files_order_copies_no_matrix(void **state)
{
    static const char *const names[] = {LINEAR "in_proj_qkv.weight", LINEAR "in_proj_z.weight",
                                        LINEAR "in_proj_a.weight",   LINEAR "in_proj_b.weight",
                                        LINEAR "conv1d.weight",      LINEAR "dt_bias",
                                        LINEAR "out_proj.weight"};
    (void)state;
    vl_checkpoint *grouped = must_open(gg, "tiled-bf16.gguf"),
                  *tiled = must_open(gg, "tiled-bf16.gguf");
    uint64_t i, mapped, owned;
    assert_int_equal(gg->prefer(tiled, VL_HEADS_FILE, NULL), VL_OK);
    assert_int_equal(gg->heads(tiled), VL_ORDER_TILED);
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        const vl_tensor *t = must_find(gg, tiled, names[k], &i);
        assert_true(t->flags & VL_TENSOR_IN_PLACE);
        assert_false(must_find(gg, grouped, names[k], &i)->flags & VL_TENSOR_IN_PLACE);
        const uint8_t *a = gg->data(tiled, i, NULL), *b = gg->data(grouped, i, NULL);
        assert_memory_not_equal(a, b, t->n_bytes);
        if (!ends(t->name, "in_proj_z.weight"))
            continue;
        uint64_t head =
            t->n_bytes / 6; /* 2 key heads, 6 value heads: slots hold heads 0 3 1 4 2 5 */
        for (uint64_t h = 0; h < 6; h++)
            assert_memory_equal(b + h * head, a + vl_gguf_slot_of_head(h, 2, 6) * head, head);
    }
    gg->memory(tiled, &mapped, &owned);
    assert_int_equal(owned, 0);
    /* A_log follows: head h of the one is slot p of the other. */
    must_find(gg, tiled, LINEAR "A_log", &i);
    const float *a = gg->data(tiled, i, NULL), *b = gg->data(grouped, i, NULL);
    for (uint64_t h = 0; h < 6; h++)
        assert_true(b[h] == a[vl_gguf_slot_of_head(h, 2, 6)]);
    vl_error err = {0, ""};
    assert_int_equal(gg->prefer(tiled, VL_HEADS_GROUPED, &err), VL_E_STATE); /* tensors were read */
    gg->close(grouped);
    gg->close(tiled);
    tiled = must_open(gg, "equal.gguf"); /* one value head a key head: there is but one order */
    assert_int_equal(gg->prefer(tiled, VL_HEADS_FILE, NULL), VL_OK);
    assert_int_equal(gg->heads(tiled), VL_ORDER_GROUPED);
    gg->close(tiled);
}

static void test_head_maps_are_those_of_the_converters(void **state)
{
    static const uint8_t six[] = {0, 2, 4, 1, 3, 5};
    (void)state;
    for (uint64_t h = 0; h < 6; h++)
        assert_int_equal(vl_gguf_slot_of_head(h, 2, 6), six[h]);
    for (uint64_t h = 0; h < 32; h++) /* 9B: even heads first */
        assert_int_equal(vl_gguf_slot_of_head(h, 16, 32), h % 2 * 16 + h / 2);
    for (uint64_t h = 0; h < 48; h++)
        assert_int_equal(vl_gguf_slot_of_head(h, 16, 48), h % 3 * 16 + h / 3);
}

static void test_values_are_undone_exactly(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x8000; bits++) { /* every positive bf16 */
        float w = bf16_to_f32((uint16_t)bits), x;
        if (w >= 0.001f && w <= 10.0f) {
            x = -expf(w);
            assert_int_equal(vl_gguf_a_log(&x, 1, NULL), VL_OK);
            assert_int_equal(bf16_of_f32(x), bits);
        }
        if (w >= 1.52587890625e-05f && w < 8.0f) { /* 2^-16 */
            x = 1.0f + w;
            vl_gguf_norm(&x, 1);
            assert_int_equal(bf16_of_f32(x), bits);
        }
    }
}

static int64_t number(vl_json object, const char *key)
{
    int64_t x = -1;
    assert_true(vl_json_i64(vl_json_get(object, key), &x));
    return x;
}

static void check_config(const char *file, int64_t mtp, bool tied)
{
    vl_checkpoint *c = must_open(gg, file);
    vl_bytes text = gg->text(c, VL_TEXT_CONFIG);
    vl_json_doc doc;
    double eps = 0, part = 0;
    bool b = !tied;
    assert_int_equal(vl_json_parse(&doc, text.ptr, text.len, 16, VL_JSON_UNIQUE_KEYS, NULL), VL_OK);
    vl_json root = vl_json_root(&doc), t = vl_json_get(root, "text_config"),
            rope = vl_json_get(t, "rope_parameters");
    assert_true(vl_json_str_eq(vl_json_get(root, "model_type"), "qwen3_5"));
    assert_true(vl_json_str_eq(vl_json_get(t, "model_type"), "qwen3_5_text"));
    assert_int_equal(number(t, "num_hidden_layers"), 4);
    assert_int_equal(number(t, "mtp_num_hidden_layers"), mtp);
    assert_int_equal(number(t, "hidden_size"), 64);
    assert_int_equal(number(t, "vocab_size"), 512);
    assert_int_equal(number(t, "num_key_value_heads"), 2);
    assert_int_equal(number(t, "linear_num_key_heads"), 2);
    assert_int_equal(number(t, "linear_value_head_dim"), 16);
    assert_int_equal(number(t, "max_position_embeddings"), 32768);
    assert_int_equal(number(rope, "rope_theta"), 10000000);
    assert_true(vl_json_f64(vl_json_get(rope, "partial_rotary_factor"), &part) && part == 0.25);
    assert_true(vl_json_f64(vl_json_get(t, "rms_norm_eps"), &eps) && eps == 1e-6);
    assert_int_equal(vl_json_count(vl_json_get(rope, "mrope_section")), 3);
    assert_true(vl_json_bool(vl_json_get(root, "tie_word_embeddings"), &b) && b == tied);
    vl_json types = vl_json_get(t, "layer_types");
    assert_int_equal(vl_json_count(types), 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(
            vl_json_str_eq(vl_json_at(types, i), i == 3 ? "full_attention" : "linear_attention"));
    vl_json_doc_fini(&doc);
    gg->close(c);
}

static void test_config_says_what_the_metadata_say(void **state)
{
    (void)state;
    check_config("tiled-bf16.gguf", 1, false);
    check_config("split", 1, false);
    check_config("declared.gguf", 0, false); /* declared, and no tensor of it there */
    check_config("nomtp.gguf", 0, false);
    check_config("ollama.gguf", 0, false);
    check_config("tied.gguf", 1, true);
}

static void test_texts_come_from_the_metadata(void **state)
{
    (void)state;
    vl_checkpoint *c = must_open(gg, "sampling.gguf");
    vl_bytes text = gg->text(c, VL_TEXT_GENERATION_CONFIG);
    assert_true(text_has(text, "\"temperature\": 0.6,"));
    assert_true(text_has(text, "\"top_k\": 20"));
    assert_true(text_has(gg->text(c, VL_TEXT_CHAT_TEMPLATE), "{{ messages }}"));
    assert_null(gg->text(c, VL_TEXT_TOKENIZER).ptr);
    gg->close(c);
    c = must_open(gg, "nomtp.gguf");
    assert_null(gg->text(c, VL_TEXT_GENERATION_CONFIG).ptr);
    assert_null(gg->text(c, VL_TEXT_CHAT_TEMPLATE).ptr);
    gg->close(c);
}

static void test_vocabulary_is_a_view_of_the_file(void **state)
{
    (void)state;
    vl_checkpoint *c = must_open(gg, "tiled-bf16.gguf");
    const vl_vocab *v = gg->vocab(c);
    assert_non_null(v);
    assert_string_equal(v->model, "gpt2");
    assert_string_equal(v->pre, "qwen35");
    assert_int_equal(v->n_tokens, 512);
    assert_int_equal(v->n_merges, 34);
    assert_int_equal(v->n_stop_ids, 1);
    assert_int_equal(v->stop_ids[0], 292);
    assert_int_equal(v->tokens[292].len, strlen("<|im_end|>"));
    assert_memory_equal(v->tokens[292].ptr, "<|im_end|>", v->tokens[292].len);
    assert_int_equal(v->types[292], 3);
    assert_memory_equal(v->merges[1].ptr, "h e", 3);
    gg->close(c);
}

static void test_option_replaces_the_pre_tokenizer(void **state)
{
    (void)state;
    const vl_option_value value = {.text = "qwen2", .text_len = 5, .is_set = 1};
    const vl_option_values values = {sizeof(values), VL_GGUF_N_OPTIONS, &value};
    vl_checkpoint *c = NULL;
    assert_int_equal(gg->open(NULL, FILES "nomtp.gguf", &values, &c, NULL), VL_OK);
    assert_string_equal(gg->vocab(c)->pre, "qwen2");
    gg->close(c);
}

static void test_vision_tensors_are_listed_only(void **state)
{
    (void)state;
    vl_checkpoint *c = must_open(gg, "ollama.gguf");
    uint64_t i;
    const vl_tensor *t = must_find(gg, c, "v.blk.0.attn_qkv.weight", &i);
    assert_true(t->flags & VL_TENSOR_IN_PLACE);
    assert_int_equal(t->shape[0], 96);
    assert_int_equal(t->shape[1], 32);
    t = must_find(gg, c, "model.language_model.layers.0.linear_attn.dt_bias", &i);
    assert_string_equal(t->source_name, "blk.0.ssm_dt"); /* the spelling of this file */
    gg->close(c);
}

static void test_tensor_count_is_no_brace(void **state)
{
    /* 123 tensors: the byte where safetensors has its header's brace is a brace here too */
    static const uint8_t head[24] = {'G', 'G', 'U', 'F', 3, 0, 0, 0, '{'};
    static const uint8_t safetensors[24] = {16, 0, 0, 0, 0, 0, 0, 0, '{'};
    (void)state;
    assert_null(vl_sniff(head, sizeof(head), "gguf"));
    assert_non_null(vl_sniff(safetensors, sizeof(safetensors), "gguf"));
    assert_null(vl_sniff(safetensors, sizeof(safetensors), "safetensors"));
}

static void test_wrong_files_are_refused_by_name(void **state)
{
    (void)state;
    must_refuse(gg, "q8_0.gguf", VL_E_UNSUPPORTED, "q8_0.gguf", "blk.0.ffn_gate.weight", "Q8_0",
                "1 of 71", NULL);
    must_refuse(gg, "two", VL_E_INVALID, "2 models", "a.gguf", "b.gguf", NULL);
    must_refuse(gg, "alone/six-00002-of-00003.gguf", VL_E_NOT_FOUND, "six-00001-of-00003.gguf",
                NULL);
    must_refuse(gg, "alone", VL_E_NOT_FOUND, "alone", NULL);
    must_refuse(gg, "hf/model.safetensors", VL_E_FORMAT, "is a safetensors file", NULL);
    vl_checkpoint *c =
        must_open(gg, "a-positive.gguf"); /* values are looked at when they are asked for */
    vl_error err = {0, ""};
    uint64_t i;
    must_find(gg, c, "model.language_model.layers.1.linear_attn.A_log", &i);
    assert_null(gg->data(c, i, &err));
    assert_non_null(strstr(err.text, "blk.1.ssm_a"));
    assert_non_null(strstr(err.text, "value"));
    gg->close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiled_file_gives_the_hf_values),
        cmocka_unit_test(test_preferring_the_files_order_copies_no_matrix),
        cmocka_unit_test(test_head_maps_are_those_of_the_converters),
        cmocka_unit_test(test_values_are_undone_exactly),
        cmocka_unit_test(test_config_says_what_the_metadata_say),
        cmocka_unit_test(test_texts_come_from_the_metadata),
        cmocka_unit_test(test_vocabulary_is_a_view_of_the_file),
        cmocka_unit_test(test_option_replaces_the_pre_tokenizer),
        cmocka_unit_test(test_vision_tensors_are_listed_only),
        cmocka_unit_test(test_tensor_count_is_no_brace),
        cmocka_unit_test(test_wrong_files_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
