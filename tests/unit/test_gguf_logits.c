/* test_gguf_logits.c: the demo model from safetensors and from the GGUF files that a converter
 * makes of it (whole, in parts, in F32), through both loaders and the qwen35 model: the same logits
 * and the same greedy answers. */
#include "vl_test.h"

#include <math.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "plugins/common/cpu/cpu.h"
#include "plugins/loaders/gguf/open.h"
#include "plugins/loaders/safetensors/open.h"
#include "plugins/qwen35/backend.h"
#include "plugins/qwen35/cpu/model.h"

/* relative: sqrt(sum (a - b)^2 / sum b^2) of all logits of a step */
#define RELATIVE 1e-4
/* Forms that round activations to bf16: A_log comes back within one unit of its last place, which
 * tips some roundings; the limit is that of such a form against the reference. */
#define RELATIVE_BF16 1e-2
enum { N_PROMPTS = 3, N_NEW = 16, MAX_PROMPT = 512 };

struct open_model {
    const vl_loader_api *loader;
    vl_checkpoint *cp;
    const vl_plugin *plugin;
    vl_instance *self;
    const vl_model_api *api;
    vl_model *m;
    float *logits; /* of the last step, by the tap */
    size_t n_logits;
};

static void quiet(void *ctx, int32_t level, const char *component, const char *text)
{
    (void)ctx;
    if (level == VL_LOG_ERROR)
        print_message("%s: %s\n", component, text);
}

static const vl_host host = {
    .struct_size = sizeof(host), .abi_version = VL_ABI_VERSION, .log = quiet};

static void tap(void *user, const char *what, int64_t layer, const float *data, size_t ld,
                size_t n_rows, size_t n)
{
    struct open_model *o = user;
    (void)layer;
    if (strcmp(what, "logits") != 0)
        return;
    if (o->logits == NULL)
        o->logits = malloc(n * sizeof(float));
    assert_non_null(o->logits);
    memcpy(o->logits, data + (n_rows - 1) * ld, n * sizeof(float));
    o->n_logits = n;
}

static void model_open(struct open_model *o, const vl_loader_api *loader, const char *path,
                       const char *form)
{
    vl_error err = {0, ""};
    vl_option_value values[VL_Q35_N_OPTIONS];
    memset(values, 0, sizeof(values));
    values[VL_Q35_OPT_CPU_FORM].text = form;
    values[VL_Q35_OPT_THREADS].number =
        1; /* a small model: threads would only wait for each other */
    values[VL_Q35_OPT_SNAPSHOT_BYTES].number = 1 << 20;
    const vl_option_values options = {sizeof(options), VL_Q35_N_OPTIONS, values};
    const vl_model_params params = {.struct_size = sizeof(params),
                                    .max_sequences = 1,
                                    .context_tokens = 1024,
                                    .step_tokens = MAX_PROMPT,
                                    .device = "cpu",
                                    .options = &options};
    memset(o, 0, sizeof(*o));
    o->loader = loader;
    o->plugin = vl_plugin_entry();
    o->api = o->plugin->get_ext(VL_MODEL_ID);
    if (loader->open(NULL, path, NULL, &o->cp, &err) != VL_OK ||
        o->plugin->init(&host, &o->self, &err) != VL_OK ||
        o->api->open(o->self, loader, o->cp, &params, &o->m, &err) != VL_OK)
        fail_msg("%s: %s", path, err.text);
    vl_q35_cpu *cpu = cpu_of((vl_q35_model *)(void *)o->m);
    cpu->tap = tap;
    cpu->tap_user = o;
}

static void model_close(struct open_model *o)
{
    o->api->close(o->m);
    o->plugin->fini(o->self);
    o->loader->close(o->cp);
    free(o->logits);
}

static int32_t step(struct open_model *o, vl_row row)
{
    vl_error err = {0, ""};
    vl_row_result r;
    uint64_t ticket;
    memset(&r, 0, sizeof(r));
    if (o->api->submit(o->m, &row, 1, &ticket, &err) != VL_OK ||
        o->api->collect(o->m, ticket, -1, &r, 1, &err) != VL_OK)
        fail_msg("%s", err.text);
    assert_int_equal(r.n_ids, 1);
    return r.ids[0];
}

static vl_sequence *begin(struct open_model *o, const int32_t *prompt, size_t n)
{
    const vl_sampling sampling = {
        .struct_size = sizeof(sampling), .top_p = 1, .repetition_penalty = 1, .n_logprobs = -1};
    const vl_sequence_params params = {.struct_size = sizeof(params),
                                       .sampling = &sampling,
                                       .prompt = prompt,
                                       .n_prompt = n,
                                       .max_tokens = N_NEW};
    vl_sequence *s = NULL;
    vl_error err = {0, ""};
    if (o->api->sequence_begin(o->m, &params, &s, &err) != VL_OK)
        fail_msg("%s", err.text);
    return s;
}

/* One prompt through both models side by side; returns the largest relative difference of a step.
 */
static double compare(struct open_model *a, struct open_model *b, const int32_t *prompt, size_t n)
{
    vl_sequence *s = begin(a, prompt, n), *t = begin(b, prompt, n);
    double worst = 0;
    for (int i = 0; i < N_NEW; i++) {
        vl_row row = {.sequence = s, .kind = i == 0 ? VL_ROW_PREFILL : VL_ROW_DECODE};
        row.flags = i == 0 ? VL_ROW_LAST : 0;
        row.n_ids = i == 0 ? n : 0;
        int32_t x = step(a, row);
        row.sequence = t;
        int32_t y = step(b, row);
        assert_int_equal(x, y);
        assert_int_equal(a->n_logits, b->n_logits);
        double d = 0, r = 0;
        for (size_t k = 0; k < a->n_logits; k++) {
            d += pow((double)a->logits[k] - (double)b->logits[k], 2);
            r += pow((double)a->logits[k], 2);
        }
        assert_true(r > 0);
        worst = fmax(worst, sqrt(d / r));
    }
    a->api->sequence_end(a->m, s);
    b->api->sequence_end(b->m, t);
    return worst;
}

/* Prompts of the reference's greedy answers. */
static size_t load_prompt(vl_json list, size_t i, int32_t *ids)
{
    vl_json v = vl_json_get(vl_json_at(list, i), "prompt_ids");
    size_t n = vl_json_count(v);
    assert_true(n > 0 && n <= MAX_PROMPT);
    for (size_t k = 0; k < n; k++) {
        int64_t x;
        assert_true(vl_json_i64(vl_json_at(v, k), &x));
        ids[k] = (int32_t)x;
    }
    return n;
}

static void check(const char *gguf, const char *form, double limit)
{
    struct open_model a, b;
    vl_buf text = VL_BUF_INIT;
    vl_json_doc doc;
    double worst = 0;
    model_open(&a, &vl_safetensors_api, VL_SOURCE_DIR "/models/poppyseed", form);
    model_open(&b, &vl_gguf_api, gguf, form);
    assert_int_equal(vl_file_read(VL_TEST_VECTORS "/qwen35/greedy.json", 1 << 24, &text, NULL),
                     VL_OK);
    assert_int_equal(vl_json_parse(&doc, text.ptr, text.len, 32, 0, NULL), VL_OK);
    vl_json prompts = vl_json_get(vl_json_root(&doc), "prompts");
    assert_true(vl_json_count(prompts) >= N_PROMPTS);
    for (size_t i = 0; i < N_PROMPTS; i++) {
        int32_t ids[MAX_PROMPT];
        size_t n = load_prompt(prompts, i * vl_json_count(prompts) / N_PROMPTS, ids);
        worst = fmax(worst, compare(&a, &b, ids, n));
    }
    print_message("%s, %s: largest relative difference of the logits %.3g\n", vl_path_base(gguf),
                  form, worst);
    assert_true(worst <= limit);
    vl_json_doc_fini(&doc);
    vl_buf_fini(&text);
    model_close(&a);
    model_close(&b);
}

#define GGUF VL_BUILD_DIR "/tests/checkpoints/"

/* The fastest form that keeps activations in f32. */
static const char *f32_form(void)
{
    return vl_cpu_form_supported(VL_CPU_AVX2) ? "avx2" : "scalar";
}

static void test_whole_file_gives_the_same_answers(void **state)
{
    (void)state;
    check(GGUF "poppyseed.gguf", f32_form(), RELATIVE);
}

static void test_default_form_gives_the_same_answers(void **state)
{
    (void)state;
    check(GGUF "poppyseed.gguf", "auto", RELATIVE_BF16);
}

static void test_parts_give_the_same_answers(void **state)
{
    (void)state;
    check(GGUF "poppyseed-00001-of-00003.gguf", f32_form(), RELATIVE);
}

static void test_f32_file_gives_the_same_answers(void **state)
{
    (void)state;
    check(GGUF "poppyseed-f32.gguf", f32_form(), RELATIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_file_gives_the_same_answers),
        cmocka_unit_test(test_default_form_gives_the_same_answers),
        cmocka_unit_test(test_parts_give_the_same_answers),
        cmocka_unit_test(test_f32_file_gives_the_same_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
