/* unit.cuda_estimate: what the CUDA half says of a model without a device: memory, sizes that its
 * kernels do not take, no GPU. */
#include "vl_test.h"

#include "plugins/qwen35/backend.h"

static void config_4b(vl_q35_config *c)
{
    static const char text[] =
        "{\"model_type\":\"qwen3_5_text\",\"hidden_size\":2560,\"intermediate_size\":9216,\"num_"
        "hidden_layers\":32,"
        "\"num_attention_heads\":16,\"num_key_value_heads\":4,\"head_dim\":256,\"linear_num_key_"
        "heads\":16,"
        "\"linear_num_value_heads\":32,\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,"
        "\"linear_conv_kernel_dim\":4,\"full_attention_interval\":4,\"vocab_size\":248320,\"rms_"
        "norm_eps\":1e-6,"
        "\"hidden_act\":\"silu\",\"max_position_embeddings\":262144,\"tie_word_embeddings\":true,"
        "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000000,\"partial_rotary_"
        "factor\":0.25,"
        "\"mrope_section\":[11,11,10],\"mrope_interleaved\":true}}";
    vl_error err = {0};
    if (vl_q35_config_parse((vl_bytes){text, sizeof(text) - 1}, c, &err) != VL_OK)
        fail_msg("%s", err.text);
}

static void test_estimate_4b_equals_the_specification(void **state)
{
    (void)state;
    static vl_q35_config c;
    vl_error err = {0};
    config_4b(&c);
    vl_model_params p = {.struct_size = sizeof(p),
                         .max_sequences = 8,
                         .context_tokens = 8192,
                         .step_tokens = 2048,
                         .n_tokens = 248077};
    p.kv_tokens = vl_q35_cuda_backend.default_kv_tokens(&c, &p);
    assert_int_equal(p.kv_tokens, 65536);
    const vl_q35_open o = {.config = &c, .params = &p};
    vl_model_estimate e = {.struct_size = sizeof(e)};
    assert_int_equal(vl_q35_cuda_backend.estimate(&o, &e, &err), VL_OK);
    assert_int_equal(e.kv_token_bytes, 32768);
    /* Three conv rows of the specification, a fourth so that nobody overwrites what another reads.
     */
    assert_int_equal(e.state_bytes, 50331648 + 1179648 / 3 * 4);
    /* Parameters in bf16, vectors in f32, and the rope table. */
    const uint64_t least = 4205751296u * 2ull, rope = 8192 * 256;
    assert_true(e.weight_bytes >= least + rope && e.weight_bytes < least + rope + (8 << 20));
    assert_true(e.workspace_bytes > (64 << 20) && e.workspace_bytes < (3ull << 30));
    p.max_sequences = 1000;
    assert_int_equal(vl_q35_cuda_backend.estimate(&o, &e, &err), VL_E_INVALID);
    assert_non_null(strstr(err.text, "max_sequences"));
}

static void test_estimate_other_head_size_is_refused(void **state)
{
    (void)state;
    static vl_q35_config c;
    vl_error err = {0};
    config_4b(&c);
    c.head_size = 128;
    const vl_model_params p = {.struct_size = sizeof(p),
                               .max_sequences = 1,
                               .context_tokens = 1024,
                               .kv_tokens = 1024,
                               .step_tokens = 512,
                               .n_tokens = 1000};
    const vl_q35_open o = {.config = &c, .params = &p};
    vl_model_estimate e = {.struct_size = sizeof(e)};
    assert_int_equal(vl_q35_cuda_backend.estimate(&o, &e, &err), VL_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "head_dim 256"));
    assert_non_null(strstr(err.text, "128"));
    assert_int_equal(vl_q35_cuda_backend.usable(NULL, 0, &c, &err), VL_E_UNSUPPORTED);
}

static void test_usable_says_why_not(void **state)
{
    (void)state;
    static vl_q35_config c;
    vl_error err = {0};
    config_4b(&c);
    const vl_status rc = vl_q35_cuda_backend.usable(NULL, 0, &c, &err);
    if (rc != VL_OK) { /* on a machine with a GPU there is nothing to say */
        assert_true(rc == VL_E_NOT_FOUND || rc == VL_E_UNSUPPORTED);
        assert_non_null(strstr(err.text, "CUDA: "));
    }
    assert_int_equal(vl_q35_cuda_backend.usable(NULL, 999, &c, &err) == VL_OK, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimate_4b_equals_the_specification),
        cmocka_unit_test(test_estimate_other_head_size_is_refused),
        cmocka_unit_test(test_usable_says_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
