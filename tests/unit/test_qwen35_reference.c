/* tests/unit/test_qwen35_reference.c: poppyseed against the published implementation's outputs
 * (tests/vectors/qwen35, made by transformers in float32): each layer, the logits, final states,
 * and 40 greedy texts, in every form of the CPU. */
#include "qwen35_util.h"

#include <math.h>

/* f32 activations: 1e-4 relative RMS a layer, 1e-3 in a logit; forms that round them: 1e-2. */
#define F32_RELATIVE 1e-4
#define BF16_RELATIVE 1e-2

struct seen {
    vl_checkpoint *ref;
    double limit, logit_limit, worst;
    size_t row0, n_rows; /* rows of the reference that this pass covers */
    const char *logits;  /* reference of the logits, or NULL */
    size_t n_seen;
};

static void compare(struct seen *t, const char *name, const float *data, size_t ld, size_t n_rows,
                    size_t n)
{
    size_t total;
    const float *want = q35_floats(t->ref, name, &total);
    float *have = malloc(n_rows * n * sizeof(float));
    assert_non_null(have);
    for (size_t r = 0; r < n_rows; r++)
        memcpy(have + r * n, data + r * ld, n * sizeof(float));
    assert_true((t->row0 + n_rows) * n <= total);
    const double d = q35_relative(have, want + t->row0 * n, n_rows * n);
    t->n_seen++;
    if (!(d <= t->worst))
        t->worst = d;
    if (!(d <= t->limit))
        fail_msg("%s: relative difference %g, limit %g", name, d, t->limit);
    free(have);
}

static void tap(void *user, const char *what, int64_t layer, const float *data, size_t ld,
                size_t n_rows, size_t n)
{
    struct seen *t = user;
    char name[64];
    if (strcmp(what, "embed") == 0)
        compare(t, "hidden.embed", data, ld, n_rows, n);
    if (strcmp(what, "norm") == 0)
        compare(t, "hidden.norm", data, ld, n_rows, n);
    if (strcmp(what, "layer") == 0) {
        (void)snprintf(name, sizeof(name), "hidden.layer%lld", (long long)layer);
        compare(t, name, data, ld, n_rows, n);
    }
    if (strcmp(what, "qkv") == 0 && layer == 0)
        compare(t, "layer0.in_proj_qkv", data, ld, n_rows, n);
    if (strcmp(what, "gated_norm") == 0 && layer == 0)
        compare(t, "layer0.gated_norm", data, ld, n_rows, n);
    if (strcmp(what, "mixer") == 0 && layer == 0)
        compare(t, "layer0.out_proj", data, ld, n_rows, n);
    if (strcmp(what, "attention") == 0 && layer == 3)
        compare(t, "layer3.attention", data, ld, n_rows, n);
    if (strcmp(what, "mixer") == 0 && layer == 3)
        compare(t, "layer3.o_proj", data, ld, n_rows, n);
    if (strcmp(what, "logits") == 0 && t->logits != NULL) {
        const double d = q35_max_abs(data, q35_floats(t->ref, t->logits, NULL), n);
        t->n_seen++;
        if (!(d <= t->logit_limit))
            fail_msg("%s: largest difference %g, limit %g", t->logits, d, t->logit_limit);
    }
}

static void compare_states(struct seen *t, const vl_sequence *s, const vl_q35_cpu *m)
{
    static const int layers[] = {0, 1, 2, 4, 5, 6};
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "state.layer%d.recurrent", layers[i]);
        size_t n;
        const float *want = q35_floats(t->ref, name, &n);
        const double d = q35_relative(s->state + m->layers[layers[i]].state_at, want, n);
        if (!(d <= t->limit))
            fail_msg("%s: relative difference %g, limit %g", name, d, t->limit);
        t->n_seen++;
    }
}

static void test_layers_every_form_match(void **state)
{
    (void)state;
    vl_checkpoint *ref = q35_checkpoint_open(VL_TEST_VECTORS "/qwen35/layers.safetensors");
    size_t n, n_next;
    const int32_t *ids = q35_ints(ref, "ids", &n), *next = q35_ints(ref, "next.id", &n_next);
    for (const char *const *form = q35_forms(); *form != NULL; form++) {
        struct q35_model q = q35_open(q35_dir("poppyseed"), (struct q35_opts){.form = *form});
        const bool rounds = q35_form_rounds(*form);
        struct seen t = {.ref = ref,
                         .limit = rounds ? BF16_RELATIVE : F32_RELATIVE,
                         .logit_limit = rounds ? 0.25 : 1e-3,
                         .logits = "logits.last"};
        struct q35_request r;
        q35_request_init(&r, ids, n, 4);
        vl_sequence *s = q35_begin(&q, &r);
        q.cpu->tap = tap;
        q.cpu->tap_user = &t;
        vl_row_result res = q35_prefill(&q, s, 0, n, NULL);
        compare_states(&t, s, q.cpu);
        /* The reference's next step reads an id of its own; it is forced here, then read by the
         * next row. */
        t.logits = NULL;
        q.cpu->tap = NULL;
        s->pending = next[0];
        assert_int_equal(res.n_ids, 1);
        struct seen t2 = {
            .ref = ref, .limit = t.limit, .logit_limit = t.logit_limit, .logits = "next.logits"};
        float *logits = q.cpu->logits;
        res = q35_step(&q, (vl_row){.sequence = s, .kind = VL_ROW_DECODE});
        const double d = q35_max_abs(logits, q35_floats(ref, "next.logits", NULL), 8192);
        if (!(d <= t2.logit_limit))
            fail_msg("next.logits: largest difference %g, limit %g", d, t2.logit_limit);
        const double ds =
            q35_relative(s->state + q.cpu->layers[0].state_at,
                         q35_floats(ref, "next.state.layer0.recurrent", NULL), 4 * 128 * 128);
        if (!(ds <= t.limit))
            fail_msg("next.state.layer0: relative difference %g", ds);
        print_message("%s: worst relative difference of %zu tensors %.2e, next logits %.2e\n",
                      *form, t.n_seen, t.worst, d);
        assert_true(t.n_seen >= 20);
        q.api->sequence_end(q.m, s);
        q35_close(&q);
    }
    q35_checkpoint_close(ref);
}

/* Every position's logits: prompts are read token by token and at once. */
struct all_logits {
    const float *want;
    size_t row, n;
    double worst;
};
static void tap_decode(void *user, const char *what, int64_t layer, const float *data, size_t ld,
                       size_t n_rows, size_t n)
{
    (void)layer;
    (void)ld;
    struct all_logits *t = user;
    if (strcmp(what, "logits") != 0)
        return;
    for (size_t i = 0; i < n_rows && t->row < t->n; i++, t->row++) {
        const double d = q35_max_abs(data + i * n, t->want + t->row * n, n);
        if (!(d <= t->worst))
            t->worst = d;
    }
}

static void test_logits_every_position_match(void **state)
{
    (void)state;
    vl_checkpoint *ref = q35_checkpoint_open(VL_TEST_VECTORS "/qwen35/logits.safetensors");
    for (const char *const *form = q35_forms(); *form != NULL; form++) {
        struct q35_model q = q35_open(q35_dir("poppyseed"), (struct q35_opts){.form = *form});
        const double limit = q35_form_rounds(*form) ? 0.4 : 1e-3;
        for (int prompt = 0; prompt < 4; prompt++) {
            char name[32];
            size_t n;
            (void)snprintf(name, sizeof(name), "prompt%d.ids", prompt);
            const int32_t *ids = q35_ints(ref, name, &n);
            (void)snprintf(name, sizeof(name), "prompt%d.logits", prompt);
            struct all_logits t = {.want = q35_floats(ref, name, NULL), .n = n};
            struct q35_request r;
            q35_request_init(&r, ids, n, 4);
            /* Prompt log probabilities ask for the logits of every row but the last, sampling for
             * the last. */
            vl_sequence *s = q35_begin(&q, &r);
            q.cpu->tap = tap_decode;
            q.cpu->tap_user = &t;
            (void)q35_step(&q, (vl_row){.sequence = s,
                                        .kind = VL_ROW_PREFILL,
                                        .flags = VL_ROW_LAST | VL_ROW_PROMPT_LOGPROBS,
                                        .n_ids = n});
            assert_int_equal(t.row, n);
            q.api->sequence_end(q.m, s);
            /* And one by one through decode. */
            t.row = 0;
            q35_request_init(&r, ids, 1, n + 1);
            s = q35_begin(&q, &r);
            (void)q35_prefill(&q, s, 0, 1, NULL);
            for (size_t i = 1; i < n; i++) {
                s->pending = ids[i];
                (void)q35_step(&q, (vl_row){.sequence = s, .kind = VL_ROW_DECODE});
            }
            assert_int_equal(t.row, n);
            q.cpu->tap = NULL;
            q.api->sequence_end(q.m, s);
            if (!(t.worst <= limit))
                fail_msg("%s: %s: largest difference %g, limit %g", *form, name, t.worst, limit);
            print_message("%s: %s: largest difference %.2e\n", *form, name, t.worst);
        }
        q35_close(&q);
    }
    q35_checkpoint_close(ref);
}

static size_t read_ids(vl_json array, int32_t *out, size_t cap)
{
    size_t n = 0;
    for (vl_json_iter it = vl_json_each(array); vl_json_next(&it);) {
        int64_t x;
        assert_true(n < cap && vl_json_i64(it.value, &x));
        out[n++] = (int32_t)x;
    }
    return n;
}

static void greedy_prompts(struct q35_model *q, const char *form, vl_json prompts, size_t n_prompts)
{
    int32_t *prompt = malloc(4096 * sizeof(*prompt)), want[128], have[128];
    size_t n_done = 0;
    for (vl_json_iter it = vl_json_each(prompts); n_done < n_prompts && vl_json_next(&it);
         n_done++) {
        const size_t n = read_ids(vl_json_get(it.value, "prompt_ids"), prompt, 4096);
        vl_json f32 = vl_json_get(it.value, "float32");
        const size_t n_want = read_ids(vl_json_get(f32, "ids"), want, 128);
        int64_t end = (int64_t)n_want - 1;
        (void)vl_json_i64(vl_json_get(f32, "end"), &end); /* null: no end in 128 tokens */
        struct q35_request r;
        q35_request_init(&r, prompt, n, (uint64_t)end + 1);
        vl_sequence *s = q35_begin(q, &r);
        const size_t n_have = q35_run(q, s, q35_prefill(q, s, 0, n, NULL), have, (size_t)end + 1);
        assert_int_equal(n_have, (size_t)end + 1);
        for (size_t i = 0; i < n_have; i++) {
            if (have[i] != want[i])
                fail_msg("%s: prompt %zu: token %zu is %d, want %d", form, n_done, i, (int)have[i],
                         (int)want[i]);
        }
        q->api->sequence_end(q->m, s);
    }
    assert_int_equal(n_done, n_prompts);
    free(prompt);
}

/* All 40 in the SIMD forms of an optimised build; where arithmetic is slow, enough to run every
 * path. */
static size_t n_prompts_of(const char *form)
{
#ifdef __SANITIZE_ADDRESS__
    return strcmp(form, "scalar") == 0 ? 1 : 4;
#else
    return strcmp(form, "scalar") == 0 ? 4 : 40;
#endif
}

static void test_greedy_forty_prompts_equal(void **state)
{
    (void)state;
    vl_buf text = VL_BUF_INIT;
    vl_error err = {0};
    assert_int_equal(vl_file_read(VL_TEST_VECTORS "/qwen35/greedy.json", 1 << 22, &text, &err),
                     VL_OK);
    vl_json_doc doc = {0};
    assert_int_equal(vl_json_parse(&doc, text.ptr, text.len, 32, 0, &err), VL_OK);
    for (const char *const *form = q35_forms(); *form != NULL; form++) {
        struct q35_model q = q35_open(
            q35_dir("poppyseed"), (struct q35_opts){.form = *form, .context = 4096, .step = 4096});
        /* The plain loops take seconds a prompt; the other tests hold them to the reference. */
        greedy_prompts(&q, *form, vl_json_get(vl_json_root(&doc), "prompts"), n_prompts_of(*form));
        q35_close(&q);
    }
    vl_json_doc_fini(&doc);
    vl_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_every_form_match),
        cmocka_unit_test(test_logits_every_position_match),
        cmocka_unit_test(test_greedy_forty_prompts_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
