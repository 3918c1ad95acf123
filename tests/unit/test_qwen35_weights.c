/* tests/unit/test_qwen35_weights.c: a checkpoint's tensors against its config, through open and
 * estimate: what is missing or of another shape is named with both values; what is there is counted
 * to the byte. */
#include "qwen35_util.h"

#include "plugins/common/cpu/cpu.h"

static vl_checkpoint *cp;
static const vl_model_api *api;
static vl_instance *self;
static const vl_host host = {.struct_size = sizeof(host), .abi_version = VL_ABI_VERSION};

static int setup(void **state)
{
    (void)state;
    cp = q35_checkpoint_open(q35_dir("tiny"));
    api = vl_plugin_entry()->get_ext(VL_MODEL_ID);
    return vl_plugin_entry()->init(&host, &self, NULL);
}

static int teardown(void **state)
{
    (void)state;
    vl_plugin_entry()->fini(self);
    q35_checkpoint_close(cp);
    return 0;
}

static vl_model_params params(void)
{
    return (vl_model_params){.struct_size = sizeof(vl_model_params),
                             .max_sequences = 2,
                             .context_tokens = 1000,
                             .step_tokens = 256,
                             .device = "cpu"};
}

/* estimate and open must refuse alike, with all the words. */
static void refused(const vl_model_params *p, vl_status status, const char *a, const char *b,
                    const char *c)
{
    const char *words[] = {a, b, c};
    for (int i = 0; i < 2; i++) {
        vl_error err = {0};
        vl_model *m = NULL;
        vl_model_estimate e = {.struct_size = sizeof(e)};
        const vl_status rc = i == 0 ? api->estimate(self, &q35_loader, cp, p, &e, &err)
                                    : api->open(self, &q35_loader, cp, p, &m, &err);
        if (rc != status)
            fail_msg("status %d (%s), want %d", (int)rc, err.text, (int)status);
        assert_null(m);
        for (int k = 0; k < 3; k++) {
            if (words[k] != NULL && strstr(err.text, words[k]) == NULL)
                fail_msg("\"%s\" does not say \"%s\"", err.text, words[k]);
        }
    }
}

static void test_weights_missing_tensor_named(void **state)
{
    (void)state;
    const vl_model_params p = params();
    static const char *const names[] = {
        "model.language_model.layers.2.linear_attn.in_proj_z.weight",
        "model.language_model.layers.3.self_attn.k_norm.weight",
        "model.language_model.layers.0.mlp.up_proj.weight", "model.language_model.norm.weight",
        "lm_head.weight"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        vl_tensor *t = q35_tensor(cp, names[i]);
        const char *kept = t->name;
        t->name = "elsewhere";
        refused(&p, VL_E_NOT_FOUND, names[i], "model.safetensors", "missing");
        t->name = kept;
    }
}

static void test_weights_wrong_shape_or_type_named(void **state)
{
    (void)state;
    const vl_model_params p = params();
    vl_tensor *t = q35_tensor(cp, "model.language_model.layers.0.mlp.gate_proj.weight"), kept = *t;
    t->shape[1] = 63;
    refused(&p, VL_E_FORMAT, "layers.0.mlp.gate_proj", "[160,63]", "[160,64]");
    *t = kept;
    t->n_dims = 1;
    refused(&p, VL_E_FORMAT, "layers.0.mlp.gate_proj", "[160]", "[160,64]");
    *t = kept;
    t->dtype = VL_DTYPE_I32;
    refused(&p, VL_E_UNSUPPORTED, "layers.0.mlp.gate_proj", "I32", "BF16");
    *t = kept;
    t->n_bytes -= 2;
    refused(&p, VL_E_FORMAT, "layers.0.mlp.gate_proj", "20478", "20480");
    *t = kept;
    t = q35_tensor(cp, "model.language_model.embed_tokens.weight");
    kept = *t;
    t->shape[0] = 511;
    refused(&p, VL_E_FORMAT, "embed_tokens", "511", "512");
    *t = kept;
    t = q35_tensor(cp, "model.language_model.layers.1.linear_attn.conv1d.weight");
    kept = *t;
    t->shape[2] = 3;
    refused(&p, VL_E_FORMAT, "layers.1.linear_attn.conv1d", "[128,1,3]", "[128,1,4]");
    *t = kept;
}

/* The config's text with one piece replaced by another of the same length. */
static void swap_text(const char *from, const char *to)
{
    char *at = strstr(cp->config, from);
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
}

static void test_weights_config_that_lies_refused(void **state)
{
    (void)state;
    const vl_model_params p = params();
    swap_text("\"linear_attention\",\n      \"linear_attention\"",
              "\"full_attention\"  ,\n      \"linear_attention\"");
    refused(&p, VL_E_FORMAT, "layers.0", "full_attention", "layer_types");
    swap_text("\"full_attention\"  ,\n      \"linear_attention\"",
              "\"linear_attention\",\n      \"linear_attention\"");
    swap_text("\"vocab_size\": 512", "\"vocab_size\": 999");
    refused(&p, VL_E_FORMAT, "embed_tokens", "[512,64]", "[999,64]");
    swap_text("\"vocab_size\": 999", "\"vocab_size\": 512");
    char *at = strstr(cp->config, "\"tie_word_embeddings\": false");
    while (at != NULL) { /* tied by the config, but the head is there */
        memcpy(at, "\"tie_word_embeddings\": true ", 28);
        at = strstr(cp->config, "\"tie_word_embeddings\": false");
    }
    refused(&p, VL_E_FORMAT, "lm_head.weight", "tie_word_embeddings", NULL);
    at = strstr(cp->config, "\"tie_word_embeddings\": true ");
    while (at != NULL) {
        memcpy(at, "\"tie_word_embeddings\": false", 28);
        at = strstr(cp->config, "\"tie_word_embeddings\": true ");
    }
}

static void test_weights_mlx_names_and_no_tensors_refused(void **state)
{
    (void)state;
    const vl_model_params p = params();
    vl_tensor *t = q35_tensor(cp, "model.language_model.embed_tokens.weight");
    const char *kept = t->name;
    t->name = "language_model.model.embed_tokens.weight";
    refused(&p, VL_E_UNSUPPORTED, "MLX", "language_model.model", "model.safetensors");
    t->name = kept;
    const size_t n = cp->n_tensors;
    cp->n_tensors = 0;
    refused(&p, VL_E_FORMAT, "no tensors", "embed_tokens", NULL);
    cp->n_tensors = n;
}

static void test_params_wrong_ones_refused(void **state)
{
    (void)state;
    vl_model_params p = params();
    p.context_tokens = 262145;
    refused(&p, VL_E_INVALID, "262145", "262144", "context_tokens");
    p = params();
    p.n_tokens = 513;
    refused(&p, VL_E_INVALID, "vocab_size 512", "513", "config.json");
    p = params();
    p.kv_tokens = 999;
    refused(&p, VL_E_INVALID, "kv_tokens 999", "1000", NULL);
    p = params();
    p.device = "cuda:x";
    refused(&p, VL_E_INVALID, "cuda:x", "want auto", NULL);
    p = params();
    p.max_sequences = 0;
    refused(&p, VL_E_INVALID, "max_sequences 0", NULL, NULL);
}

static void test_estimate_counts_every_byte(void **state)
{
    (void)state;
    const vl_model_params p = params();
    vl_model_estimate e = {.struct_size = sizeof(e)};
    vl_error err = {0};
    assert_int_equal(api->estimate(self, &q35_loader, cp, &p, &e, &err), VL_OK);
    uint64_t text = 0, n = 0;
    for (size_t i = 0; i < cp->n_tensors; i++) {
        if (strncmp(cp->tensors[i].name, "mtp.", 4) != 0) {
            text += cp->tensors[i].n_bytes;
            n++;
        }
    }
    assert_int_equal(n, 3 * 14 + 11 + 3);
    assert_int_equal(e.mapped_bytes, text);
    assert_int_equal(e.weight_bytes, 0);
    /* 3 linear layers: 4 heads of 16 x 16 and 3 rows of 128, in f32; one full layer: 2 heads of 32,
     * keys and values. */
    assert_int_equal(e.state_bytes, 3 * (4 * 16 * 16 + 3 * 128) * 4);
    assert_int_equal(e.kv_token_bytes, 2 * 2 * 32 * 4);
    assert_int_equal(e.kv_tokens, 2 * 1024);
    assert_int_equal(e.max_context_tokens, 262144);
    assert_int_equal(e.total_bytes, e.weight_bytes + e.workspace_bytes + 2 * e.state_bytes +
                                        e.kv_tokens * e.kv_token_bytes);
    /* Parameters: bytes of the file, less what is stored in 4 bytes (A_log and the gated norm),
     * in 2. */
    assert_int_equal(e.n_parameters, (text - 3 * 2 * (4 + 16)) / 2);
}

static int32_t stop_at_once(void *user, double fraction, const char *what)
{
    (void)fraction;
    assert_non_null(what);
    ++*(int *)user;
    return 1;
}

static void test_open_cancelled_by_progress(void **state)
{
    (void)state;
    int n = 0;
    vl_model_params p = params();
    p.progress = stop_at_once;
    p.user = &n;
    vl_model *m = NULL;
    vl_error err = {0};
    assert_int_equal(api->open(self, &q35_loader, cp, &p, &m, &err), VL_E_CANCELLED);
    assert_null(m);
    assert_int_equal(n, 1);
}

/* F16 and F32 matrices run as well as BF16 ones: the same values, the same answer. */
static void test_weights_f32_copy_gives_the_same_logits(void **state)
{
    (void)state;
    const vl_model_params p = params();
    float logits[2][512];
    const int32_t prompt[] = {1, 2, 3, 4, 5};
    vl_tensor *t = q35_tensor(cp, "model.language_model.layers.0.linear_attn.norm.weight");
    assert_int_equal(t->dtype, VL_DTYPE_F32);
    vl_model *m = NULL;
    vl_error err = {0};
    if (api->open(self, &q35_loader, cp, &p, &m, &err) != VL_OK)
        fail_msg("%s", err.text);
    vl_q35_cpu *cpu = cpu_of((vl_q35_model *)(void *)m);
    vl_q35_weight *down = &((vl_q35_weights *)(uintptr_t)cpu->w)->layers[0].down, kept = *down;
    float *copy = malloc((size_t)(down->rows * down->cols) * sizeof(*copy));
    assert_non_null(copy);
    for (int i = 0; i < 2; i++) {
        if (i == 1) {
            vl_q35_weight_to_f32(down, copy, (uint64_t)(down->rows * down->cols));
            down->data = copy;
            down->dtype = VL_DTYPE_F32;
        }
        struct q35_model q = {.m = m, .api = api, .cpu = cpu};
        struct q35_request r;
        q35_request_init(&r, prompt, 5, 4);
        vl_sequence *s = q35_begin(&q, &r);
        (void)q35_prefill(&q, s, 0, 5, NULL);
        memcpy(logits[i], cpu->logits, sizeof(logits[i]));
        api->sequence_end(m, s);
    }
    *down = kept;
    free(copy);
    api->close(m);
    assert_true(q35_relative(logits[1], logits[0], 512) < 1e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_missing_tensor_named),
        cmocka_unit_test(test_weights_wrong_shape_or_type_named),
        cmocka_unit_test(test_weights_config_that_lies_refused),
        cmocka_unit_test(test_weights_mlx_names_and_no_tensors_refused),
        cmocka_unit_test(test_params_wrong_ones_refused),
        cmocka_unit_test(test_estimate_counts_every_byte),
        cmocka_unit_test(test_open_cancelled_by_progress),
        cmocka_unit_test(test_weights_f32_copy_gives_the_same_logits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
