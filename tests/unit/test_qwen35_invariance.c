/* tests/unit/test_qwen35_invariance.c: what must not change a result: chunked or recurrent form,
 * where a prompt is cut, neighbours in a batch, snapshots, what a slot or a page held before,
 * threads. No reference is needed.
 *
 * Each holds on poppyseed and on random checkpoints of every shape of heads. Bit for bit where the
 * chunks are the same, else within f32 (or, in the forms that round activations, bf16) rounding. */
#include "qwen35_util.h"

#include <math.h>

#ifdef __SANITIZE_ADDRESS__ /* some ten times slower: a model of each kind of heads */
static const char *const models[] = {"tiny_tied", "mini3"};
#else
static const char *const models[] = {"poppyseed", "tiny", "tiny_tied", "mini", "mini3"};
#endif
#define N_MODELS (sizeof(models) / sizeof(models[0]))
#define N_PROMPT 200

/* The last row of logits that the model computed. */
struct probe {
    float *row;
    size_t n;
};

static void tap(void *user, const char *what, int64_t layer, const float *data, size_t ld,
                size_t n_rows, size_t n)
{
    (void)layer;
    struct probe *p = user;
    if (strcmp(what, "logits") != 0)
        return;
    p->row = realloc(p->row, n_rows * n * sizeof(float));
    assert_non_null(p->row);
    for (size_t r = 0; r < n_rows; r++)
        memcpy(p->row + r * n, data + r * ld, n * sizeof(float));
    p->n = n;
}

struct fixture {
    struct q35_model q;
    struct probe probe;
    int32_t prompt[N_PROMPT];
    size_t vocab;
    double tolerance; /* relative, of logits */
};

static void open_fixture(struct fixture *f, const char *model, const char *form, int threads)
{
    memset(f, 0, sizeof(*f));
    f->q = q35_open(q35_dir(model), (struct q35_opts){.form = form,
                                                      .sequences = 9,
                                                      .context = 512,
                                                      .threads = threads,
                                                      .kv_tokens = 9 * 512});
    f->q.cpu->tap = tap;
    f->q.cpu->tap_user = &f->probe;
    f->vocab = (size_t)f->q.cpu->c->vocab;
    f->tolerance = q35_form_rounds(vl_cpu_form_name(vl_cpu_form(f->q.cpu->cpu))) ? 3e-2 : 1e-4;
    q35_random_ids(f->prompt, N_PROMPT, (int32_t)f->vocab, 7);
}

static void close_fixture(struct fixture *f)
{
    free(f->probe.row);
    q35_close(&f->q);
}

static vl_sequence *begin(struct fixture *f, size_t n, const vl_snapshot *from)
{
    struct q35_request r;
    q35_request_init(&r, f->prompt, n, 200);
    r.params.snapshot = from;
    return q35_begin(&f->q, &r);
}

static void end(struct fixture *f, vl_sequence *s)
{
    f->q.api->sequence_end(f->q.m, s);
}

/* Logits behind the first n prompt tokens, cut at the given places. Caller frees. */
static float *logits_of(struct fixture *f, size_t n, const size_t *cuts)
{
    vl_sequence *s = begin(f, n, NULL);
    (void)q35_prefill(&f->q, s, 0, n, cuts);
    end(f, s);
    float *out = f->probe.row;
    f->probe.row = NULL;
    return out;
}

static void assert_near(const struct fixture *f, const char *model, const char *what, size_t at,
                        const float *a, const float *b)
{
    const double d = q35_relative(a, b, f->vocab);
    if (!(d <= f->tolerance))
        fail_msg("%s: %s %zu: relative difference %g, limit %g", model, what, at, d, f->tolerance);
}

static void assert_same(const struct fixture *f, const char *model, const char *what, size_t at,
                        const float *a, const float *b)
{
    if (memcmp(a, b, f->vocab * sizeof(float)) != 0)
        fail_msg("%s: %s %zu: not the same bits (relative difference %g)", model, what, at,
                 q35_relative(a, b, f->vocab));
}

/* Runs body for every model in the fastest form and in an f32 one. */
static void each(void (*body)(struct fixture *, const char *))
{
    static const char *const forms[] = {"auto", "avx2"};
    for (size_t i = 0; i < N_MODELS; i++) {
        for (size_t k = 0; k < sizeof(forms) / sizeof(forms[0]); k++) {
            int32_t form = VL_CPU_AUTO;
            assert_int_equal(vl_cpu_form_parse(forms[k], &form, NULL), VL_OK);
            if (form != VL_CPU_AUTO && !vl_cpu_form_supported(form))
                continue;
            struct fixture f;
            open_fixture(&f, models[i], forms[k], 1);
            body(&f, models[i]);
            close_fixture(&f);
        }
    }
}

/* ---- chunked = recurrent; decode after prefill = longer prefill ---- */

static void recurrent(struct fixture *f, const char *model)
{
    static const size_t starts[] = {1, 2, 3, 63, 64, 65, 128};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        vl_sequence *s = begin(f, starts[i], NULL);
        (void)q35_prefill(&f->q, s, 0, starts[i], NULL);
        for (size_t at = starts[i]; at < 150; at++) {
            s->pending = f->prompt[at]; /* what decode reads next, instead of what was sampled */
            (void)q35_step(&f->q, (vl_row){.sequence = s, .kind = VL_ROW_DECODE});
        }
        end(f, s);
        float *have = f->probe.row;
        f->probe.row = NULL;
        float *want = logits_of(f, 150, NULL);
        assert_near(f, model, "prefill, then decode from", starts[i], have, want);
        free(want);
        free(have);
    }
}

static void test_decode_after_prefill_equals_longer_prefill(void **state)
{
    (void)state;
    each(recurrent);
}

/* ---- a prompt cut anywhere ---- */

static void splits(struct fixture *f, const char *model)
{
    const size_t n = 131;
    const bool big =
        f->vocab > 512; /* every place on the small models, the places near the grid on all */
    float *whole = logits_of(f, n, NULL);
    for (size_t at = 1; at <= 130; at += big && at > 4 && at % 64 > 2 && at % 64 < 54 ? 8 : 1) {
        const size_t cuts[] = {at, 0};
        float *cut = logits_of(f, n, cuts);
        if (at % 64 == 0)
            assert_same(f, model, "cut at", at, cut, whole);
        else
            assert_near(f, model, "cut at", at, cut, whole);
        free(cut);
    }
    const size_t many[] = {1, 2, 5, 6, 40, 64, 65, 66, 100, 127, 0};
    float *cut = logits_of(f, n, many);
    assert_near(f, model, "cut in pieces", 10, cut, whole);
    free(cut);
    free(whole);
}

static void test_prompt_split_anywhere_equal(void **state)
{
    (void)state;
    each(splits);
}

/* A prompt longer than a pass is cut inside the model, on the grid. */
static void test_prompt_longer_than_a_pass_same_bits(void **state)
{
    (void)state;
    struct q35_model q =
        q35_open(q35_dir("mini"), (struct q35_opts){.context = 2048, .step = 2048});
    struct probe p = {0};
    q.cpu->tap = tap;
    q.cpu->tap_user = &p;
    const size_t n = 1500, vocab = (size_t)q.cpu->c->vocab;
    int32_t *ids = malloc(n * sizeof(*ids));
    q35_random_ids(ids, n, (int32_t)vocab, 3);
    struct q35_request r;
    q35_request_init(&r, ids, n, 8);
    vl_sequence *s = q35_begin(&q, &r);
    (void)q35_prefill(&q, s, 0, n, NULL);
    q.api->sequence_end(q.m, s);
    float *whole = p.row;
    p.row = NULL;
    s = q35_begin(&q, &r);
    const size_t cuts[] = {64, 192, 832, 1472, 0};
    (void)q35_prefill(&q, s, 0, n, cuts);
    q.api->sequence_end(q.m, s);
    assert_memory_equal(p.row, whole, vocab * sizeof(float));
    free(p.row);
    free(whole);
    free(ids);
    q35_close(&q);
}

/* ---- neighbours ---- */

static const size_t lengths[] = {1, 2, 15, 63, 64, 65, 130, 7, 100};
#define N_RAGGED (sizeof(lengths) / sizeof(lengths[0]))

static void submit_all(struct fixture *f, vl_row *rows, vl_row_result *results)
{
    vl_error err = {0};
    uint64_t ticket;
    if (f->q.api->submit(f->q.m, rows, N_RAGGED, &ticket, &err) != VL_OK)
        fail_msg("%s", err.text);
    assert_int_equal(f->q.api->collect(f->q.m, ticket, -1, results, N_RAGGED, &err), VL_OK);
}

static void ragged(struct fixture *f, const char *model)
{
    float *alone[N_RAGGED];
    int32_t first[N_RAGGED][6], batch[N_RAGGED][6];
    for (size_t i = 0; i < N_RAGGED; i++) {
        vl_sequence *s = begin(f, lengths[i], NULL);
        const vl_row_result r = q35_prefill(&f->q, s, 0, lengths[i], NULL);
        assert_int_equal(q35_run(&f->q, s, r, first[i], 6), 6);
        end(f, s);
        alone[i] = f->probe.row; /* logits of the sixth token */
        f->probe.row = NULL;
    }
    vl_sequence *s[N_RAGGED];
    vl_row rows[N_RAGGED];
    vl_row_result results[N_RAGGED];
    for (size_t i = 0; i < N_RAGGED; i++) {
        s[i] = begin(f, lengths[i], NULL);
        rows[i] = (vl_row){
            .sequence = s[i], .kind = VL_ROW_PREFILL, .flags = VL_ROW_LAST, .n_ids = lengths[i]};
    }
    for (size_t k = 0; k < 6; k++) {
        submit_all(f, rows, results);
        for (size_t i = 0; i < N_RAGGED; i++) {
            assert_int_equal(results[i].n_ids, 1);
            batch[i][k] = results[i].ids[0];
            rows[i] = (vl_row){.sequence = s[i], .kind = VL_ROW_DECODE};
        }
    }
    /* Logits come in groups of 8 rows here; the tap holds the last group, which is the last
     * sequence. */
    for (size_t i = 0; i < N_RAGGED; i++) {
        assert_memory_equal(first[i], batch[i], sizeof(first[i]));
        end(f, s[i]);
    }
    assert_same(f, model, "last of a ragged batch, sequence", N_RAGGED - 1, f->probe.row,
                alone[N_RAGGED - 1]);
    for (size_t i = 0; i < N_RAGGED; i++)
        free(alone[i]);
}

static void test_ragged_batch_equals_alone(void **state)
{
    (void)state;
    each(ragged);
}

/* ---- snapshots, reuse ---- */

static void snapshots(struct fixture *f, const char *model)
{
    static const size_t places[] = {1, 3, 63, 64, 65, 100, 128, 140};
    const size_t n = 150;
    float *cold = logits_of(f, n, NULL);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const size_t at = places[i], cuts[] = {at, 0};
        vl_sequence *s = begin(f, n, NULL);
        (void)q35_step(&f->q, (vl_row){.sequence = s, .kind = VL_ROW_PREFILL, .n_ids = at});
        vl_snapshot *snap = NULL;
        uint64_t position = 0;
        vl_error err = {0};
        assert_int_equal(f->q.snapshots->take(f->q.m, s, &snap, &position, &err), VL_OK);
        assert_int_equal(position, at);
        /* The sequence goes on, past the snapshot and into its last page, and is given up. */
        (void)q35_prefill(&f->q, s, at, n, NULL);
        float *went_on = f->probe.row;
        f->probe.row = NULL;
        end(f, s);
        for (int again = 0; again < 2; again++) {
            vl_sequence *b = begin(f, n, snap);
            (void)q35_prefill(&f->q, b, at, n, NULL);
            assert_same(f, model, "from the snapshot at", at, f->probe.row, went_on);
            end(f, b);
        }
        if (at % 64 == 0)
            assert_same(f, model, "cold and from the snapshot at", at, went_on, cold);
        else
            assert_near(f, model, "cold and from the snapshot at", at, went_on, cold);
        free(went_on);
        assert_true(f->q.snapshots->drop(f->q.m, snap) > 0);
        float *split = logits_of(f, n, cuts);
        assert_near(f, model, "split at", at, split, cold);
        free(split);
    }
    uint64_t all, free_tokens;
    f->q.api->pool(f->q.m, &all, &free_tokens);
    assert_int_equal(all, free_tokens);
    free(cold);
}

static void test_snapshot_restore_same_bits(void **state)
{
    (void)state;
    each(snapshots);
}

/* What slots, pages and workspace held before must not show: here, not even NaN. */
static void reuse(struct fixture *f, const char *model)
{
    float *first[3], *second;
    static const size_t n[] = {1, 70, 129};
    for (size_t i = 0; i < 3; i++)
        first[i] = logits_of(f, n[i], NULL);
    vl_q35_cpu *m = f->q.cpu;
    const float nan_value = nanf("");
    for (size_t i = 0; i < vl_pages_total(m->page_pool) * m->page_floats; i++)
        m->kv[i] = nan_value;
    for (size_t i = 0; i < m->max_sequences; i++) {
        for (size_t k = 0; k < m->state_floats; k++)
            m->sequences[i].state[k] = nan_value;
    }
    const size_t rows = m->pass_rows + CPU_SPARE_ROWS;
    for (size_t i = 0; i < rows * m->in_cols; i++)
        m->in[i] = nan_value;
    for (size_t i = 0; i < rows * m->mid_cols; i++)
        m->mid[i] = nan_value;
    for (size_t i = 0; i < 3; i++) {
        second = logits_of(f, n[i], NULL);
        assert_same(f, model, "slot and pages used before, prompt of", n[i], second, first[i]);
        free(second);
        free(first[i]);
    }
}

static void test_slot_reuse_after_nan_same_bits(void **state)
{
    (void)state;
    each(reuse);
}

static void test_threads_one_or_three_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        float *want = NULL;
        for (int threads = 1; threads <= 3; threads += 2) {
            struct fixture f;
            open_fixture(&f, models[i], "auto", threads);
            vl_sequence *s = begin(&f, 130, NULL);
            int32_t ids[3];
            assert_int_equal(q35_run(&f.q, s, q35_prefill(&f.q, s, 0, 130, NULL), ids, 3), 3);
            end(&f, s);
            if (want != NULL)
                assert_same(&f, models[i], "threads", (size_t)threads, f.probe.row, want);
            free(want);
            want = f.probe.row;
            f.probe.row = NULL;
            close_fixture(&f);
        }
        free(want);
    }
}

/* Value heads in a file's tiled order give what the grouped ones give: the same weights, told as
 * the other order, differ. */
static void test_tiled_heads_change_the_pairing(void **state)
{
    (void)state;
    struct q35_model q = q35_open(q35_dir("mini3"), (struct q35_opts){.form = "auto"});
    vl_q35_weights *w = (vl_q35_weights *)(uintptr_t)q.cpu->w;
    const size_t r = (size_t)(q.cpu->c->hv / q.cpu->c->hk);
    w->tiled = false;
    assert_int_equal(cpu_value_head(q.cpu, 1, 0), r);
    w->tiled = true;
    assert_int_equal(cpu_value_head(q.cpu, 1, 0), 1);
    assert_int_equal(cpu_value_head(q.cpu, 1, 2), 1 + 2 * (size_t)q.cpu->c->hk);
    q35_close(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_after_prefill_equals_longer_prefill),
        cmocka_unit_test(test_prompt_split_anywhere_equal),
        cmocka_unit_test(test_prompt_longer_than_a_pass_same_bits),
        cmocka_unit_test(test_ragged_batch_equals_alone),
        cmocka_unit_test(test_snapshot_restore_same_bits),
        cmocka_unit_test(test_slot_reuse_after_nan_same_bits),
        cmocka_unit_test(test_threads_one_or_three_same_bits),
        cmocka_unit_test(test_tiled_heads_change_the_pairing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
