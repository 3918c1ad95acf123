/* tests/unit/test_qwen35_config.c: config.json of every size, and of every way in which it can be
 * wrong. */
#include "qwen35_util.h"

#include "base/buf.h"

struct size {
    const char *name;
    int hidden, inner, layers, nq, nkv, hk, hv;
    bool tied;
    uint64_t n_parameters; /* of the text model, as published */
};

static const struct size sizes[] = {
    {"0.8B", 1024, 3584, 24, 8, 2, 16, 16, true, 752393024},
    {"2B", 2048, 6144, 24, 8, 2, 16, 16, true, 1881825088},
    {"4B", 2560, 9216, 32, 16, 4, 16, 32, true, 4205751296},
    {"9B", 4096, 12288, 32, 16, 4, 16, 32, false, 8953803264},
    {"27B", 5120, 17408, 64, 24, 4, 16, 48, false, 26895998464},
};

static void write_text(vl_buf *b, const struct size *s, const char *more)
{
    vl_buf_printf(
        b,
        "\"hidden_size\":%d,\"intermediate_size\":%d,\"num_hidden_layers\":%d,\"num_attention_"
        "heads\":%d,"
        "\"num_key_value_heads\":%d,\"head_dim\":256,\"linear_num_key_heads\":%d,\"linear_num_"
        "value_heads\":%d,"
        "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,\"linear_conv_kernel_dim\":4,"
        "\"vocab_size\":248320,\"rms_norm_eps\":1e-6,\"hidden_act\":\"silu\",\"max_position_"
        "embeddings\":262144,"
        "\"mlp_only_layers\":[],\"tie_word_embeddings\":%s,"
        "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000000,\"partial_rotary_"
        "factor\":0.25,"
        "\"mrope_section\":[11,11,10],\"mrope_interleaved\":true}%s",
        s->hidden, s->inner, s->layers, s->nq, s->nkv, s->hk, s->hv, s->tied ? "true" : "false",
        more);
}

static void test_config_all_sizes_have_published_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int flat = 0; flat < 2; flat++) {
            vl_buf b = VL_BUF_INIT;
            if (flat) {
                vl_buf_puts(&b, "{\"model_type\":\"qwen3_5_text\",");
                write_text(&b, &sizes[i], "");
                vl_buf_puts(&b, "}");
            } else {
                vl_buf_printf(&b,
                              "{\"model_type\":\"qwen3_5\",\"tie_word_embeddings\":%s,\"text_"
                              "config\":{\"model_type\":"
                              "\"qwen3_5_text\",",
                              sizes[i].tied ? "true" : "false");
                /* what 3.6 and 3.8 add */
                write_text(
                    &b, &sizes[i],
                    ",\"output_gate_type\":\"swish\",\"partial_rotary_factor\":0.25,"
                    "\"bos_token_id\":248044,\"pad_token_id\":null,\"mtp_num_hidden_layers\":1");
                vl_buf_puts(&b,
                            "},\"language_model_only\":false,\"vision_config\":{\"depth\":12}}");
            }
            vl_q35_config c;
            vl_error err = {0};
            if (vl_q35_config_parse((vl_bytes){b.ptr, b.len}, &c, &err) != VL_OK)
                fail_msg("%s: %s", sizes[i].name, err.text);
            assert_int_equal(vl_q35_n_parameters(&c), sizes[i].n_parameters);
            assert_int_equal(c.n_full * 4, c.n_layers);
            assert_true(c.full[3] && !c.full[0] && c.full[c.n_layers - 1]);
            assert_int_equal(c.rotary, 64);
            assert_int_equal(c.n_mtp, flat ? 0 : 1);
            assert_int_equal(c.tied, sizes[i].tied);
            vl_buf_fini(&b);
        }
    }
}

/* ---- one change to a small config, and the words its refusal must have ---- */

static const char base[] = "{\"model_type\":\"qwen3_5\",\"text_config\":{\"model_type\":\"qwen3_5_"
                           "text\",\"hidden_size\":64,\"intermediate_size\":160,"
                           "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_"
                           "heads\":2,\"head_dim\":32,\"linear_num_key_heads\":2,"
                           "\"linear_num_value_heads\":4,\"linear_key_head_dim\":16,\"linear_value_"
                           "head_dim\":16,\"vocab_size\":512,"
                           "\"layer_types\":[\"linear_attention\",\"linear_attention\",\"linear_"
                           "attention\",\"full_attention\"],"
                           "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000000,"
                           "\"partial_rotary_factor\":0.25}}}";

struct change {
    const char *from, *to;
    vl_status status;
    const char *words[3];
};

static const struct change changes[] = {
    {"qwen3_5\",\"text", "t5\",\"text", VL_E_UNSUPPORTED, {"model_type", "t5"}},
    {"\"qwen3_5_text\"", "\"qwen3_next\"", VL_E_UNSUPPORTED, {"model_type", "qwen3_next"}},
    {"\"qwen3_5_text\"", "\"qwen3_5_moe_text\"", VL_E_UNSUPPORTED, {"model_type", "qwen3_5_moe"}},
    {"\"qwen3_5_text\"", "\"qwen4_exp\"", VL_E_UNSUPPORTED, {"model_type", "qwen4_exp"}},
    {"hidden_size\":64", "hidden_size\":0", VL_E_FORMAT, {"hidden_size", "0"}},
    {"hidden_size\":64", "hidden_size\":-64", VL_E_FORMAT, {"hidden_size", "-64"}},
    {"hidden_size\":64", "hidden_size\":2147483648", VL_E_FORMAT, {"hidden_size", "2147483648"}},
    {"hidden_size\":64", "hidden_size\":1e300", VL_E_FORMAT, {"hidden_size", "1e300"}},
    {"hidden_size\":64",
     "hidden_size\":\"sixty-four\"",
     VL_E_FORMAT,
     {"hidden_size", "sixty-four"}},
    {"\"hidden_size\":64,", "", VL_E_FORMAT, {"hidden_size", "missing"}},
    {"hidden_layers\":4",
     "hidden_layers\":1000000000",
     VL_E_FORMAT,
     {"num_hidden_layers", "1000000000"}},
    {"hidden_layers\":4", "hidden_layers\":5", VL_E_FORMAT, {"layer_types", "4", "5"}},
    {"[\"linear_attention\"",
     "[\"sliding_attention\"",
     VL_E_FORMAT,
     {"layer_types[0]", "sliding_attention"}},
    {"value_heads\":2", "value_heads\":3", VL_E_FORMAT, {"num_key_value_heads", "3", "4"}},
    {"value_heads\":2", "value_heads\":0", VL_E_FORMAT, {"num_key_value_heads", "0"}},
    {"value_heads\":4", "value_heads\":3", VL_E_FORMAT, {"linear_num_value_heads", "3", "2"}},
    {"head_dim\":32", "head_dim\":33", VL_E_UNSUPPORTED, {"head_dim", "33"}},
    {"0.25}", "0.03}", VL_E_UNSUPPORTED, {"partial_rotary_factor", "0.03"}},
    {"\"rope_theta\":10000000,", "", VL_E_FORMAT, {"rope_theta"}},
    {"\"default\"", "\"yarn\"", VL_E_UNSUPPORTED, {"rope_type", "yarn"}},
    {"0.25}", "0.25,\"mrope_section\":[2,1,2]}", VL_E_FORMAT, {"mrope_section", "5", "4"}},
    {"\"text_config\"", "\"tie_word_embeddings\":true,\"text_config\"", VL_OK, {NULL}},
    {"\"hidden_size\"",
     "\"output_gate_type\":\"relu\",\"hidden_size\"",
     VL_E_UNSUPPORTED,
     {"output_gate_type", "relu"}},
    {"\"hidden_size\"", "\"output_gate_type\":\"sigmoid\",\"hidden_size\"", VL_OK, {NULL}},
    {"\"hidden_size\"",
     "\"hidden_act\":\"gelu\",\"hidden_size\"",
     VL_E_UNSUPPORTED,
     {"hidden_act", "gelu"}},
    {"\"hidden_size\"",
     "\"layer_scale\":true,\"hidden_size\"",
     VL_E_UNSUPPORTED,
     {"layer_scale", "true"}},
    {"\"hidden_size\"",
     "\"attention_bias\":true,\"hidden_size\"",
     VL_E_UNSUPPORTED,
     {"attention_bias"}},
    {"\"hidden_size\"",
     "\"linear_conv_kernel_dim\":3,\"hidden_size\"",
     VL_E_UNSUPPORTED,
     {"linear_conv_kernel_dim", "3"}},
    {"\"text_config\"",
     "\"quantization_config\":{\"quant_method\":\"hqq9\"},\"text_config\"",
     VL_E_UNSUPPORTED,
     {"quantization_config", "hqq9"}},
    {"}}}", "}}", VL_E_FORMAT, {"config.json", "line 1"}},
};

static void test_config_wrong_values_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        const struct change *c = &changes[i];
        const char *at = strstr(base, c->from);
        assert_non_null(at);
        vl_buf b = VL_BUF_INIT;
        vl_buf_append(&b, base, (size_t)(at - base));
        vl_buf_puts(&b, c->to);
        vl_buf_puts(&b, at + strlen(c->from));
        vl_q35_config out;
        memset(&out, 0x5a, sizeof(out));
        vl_error err = {0};
        const vl_status rc = vl_q35_config_parse((vl_bytes){b.ptr, b.len}, &out, &err);
        if (rc != c->status)
            fail_msg("%s -> %s: status %d (%s), want %d", c->from, c->to, (int)rc, err.text,
                     (int)c->status);
        for (size_t k = 0; k < 3 && c->words[k] != NULL; k++) {
            if (strstr(err.text, c->words[k]) == NULL || strstr(err.text, "config.json") == NULL)
                fail_msg("%s -> %s: \"%s\" does not say %s", c->from, c->to, err.text, c->words[k]);
        }
        if (rc != VL_OK)
            assert_int_equal(((unsigned char *)&out)[0], 0x5a);
        vl_buf_fini(&b);
    }
}

static void test_config_tie_conflict_refused(void **state)
{
    (void)state;
    vl_buf b = VL_BUF_INIT;
    vl_buf_puts(&b, "{\"model_type\":\"qwen3_5\",\"tie_word_embeddings\":true,\"text_config\":{");
    write_text(&b, &sizes[3], "}}");
    vl_q35_config c;
    vl_error err = {0};
    assert_int_equal(vl_q35_config_parse((vl_bytes){b.ptr, b.len}, &c, &err), VL_E_FORMAT);
    assert_non_null(strstr(err.text, "tie_word_embeddings"));
    vl_buf_fini(&b);
}

static void test_config_random_bytes_never_crash(void **state)
{
    (void)state;
    char text[sizeof(base)];
    uint32_t x = 1;
    for (int i = 0; i < 20000; i++) {
        memcpy(text, base, sizeof(base));
        for (int k = 0; k < 3; k++) {
            x = x * 1664525u + 1013904223u;
            text[(x >> 8) % (sizeof(base) - 1)] = "0123456789-.eE\"{}[],:tfn\\ "[(x >> 24) % 26];
        }
        vl_q35_config c;
        vl_error err = {0};
        if (vl_q35_config_parse((vl_bytes){text, sizeof(base) - 1}, &c, &err) == VL_OK)
            assert_true(vl_q35_n_parameters(&c) > 0);
        else
            assert_true(err.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_all_sizes_have_published_counts),
        cmocka_unit_test(test_config_wrong_values_refused),
        cmocka_unit_test(test_config_tie_conflict_refused),
        cmocka_unit_test(test_config_random_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
