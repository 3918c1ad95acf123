/* tests/unit/test_qwen35_steps.c: sequences, rows, stops, results and snapshots as vallmo/model.h
 * means them. */
#include "qwen35_util.h"

#include <math.h>

static const int32_t prompt[] = {5, 9, 100, 7, 42, 300, 11, 250};
#define N ((size_t)8)

static struct q35_model q;

static int setup(void **state)
{
    (void)state;
    q = q35_open(q35_dir("tiny"), (struct q35_opts){.form = "avx2",
                                                    .sequences = 3,
                                                    .context = 256,
                                                    .kv_tokens = 448,
                                                    .step = 200,
                                                    .threads = 1,
                                                    .n_tokens = 500});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    uint64_t all, free_tokens;
    q.api->pool(q.m, &all, &free_tokens);
    assert_int_equal(all, free_tokens); /* every test gives back its pages */
    q35_close(&q);
    return 0;
}

static vl_row prefill(vl_sequence *s, size_t n, bool last)
{
    return (vl_row){
        .sequence = s, .kind = VL_ROW_PREFILL, .flags = last ? VL_ROW_LAST : 0, .n_ids = n};
}
static vl_row decode(vl_sequence *s)
{
    return (vl_row){.sequence = s, .kind = VL_ROW_DECODE};
}

/* The greedy answer to the prompt, n tokens. */
static void answer(int32_t *out, size_t n)
{
    struct q35_request r;
    q35_request_init(&r, prompt, N, 200);
    vl_sequence *s = q35_begin(&q, &r);
    assert_int_equal(q35_run(&q, s, q35_prefill(&q, s, 0, N, NULL), out, n), n);
    q.api->sequence_end(q.m, s);
}

static void test_stop_id_freezes_sequence(void **state)
{
    (void)state;
    int32_t want[6];
    answer(want, 6);
    struct q35_request r;
    q35_request_init(&r, prompt, N, 200);
    const int32_t stops[] = {499, want[3]};
    r.params.stop_ids = stops;
    r.params.n_stop_ids = 2;
    vl_sequence *s = q35_begin(&q, &r);
    (void)q35_prefill(&q, s, 0, N, NULL);
    int32_t got[200];
    size_t n = 1;
    got[0] = s->pending;
    /* Two steps ahead all the time, as the engine does. */
    uint64_t tickets[2];
    vl_row row = decode(s);
    vl_error err = {0};
    assert_int_equal(q.api->submit(q.m, &row, 1, &tickets[0], &err), VL_OK);
    vl_row_result last = {0};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(q.api->submit(q.m, &row, 1, &tickets[(i + 1) % 2], &err), VL_OK);
        assert_int_equal(q.api->collect(q.m, tickets[i % 2], -1, &last, 1, &err), VL_OK);
        for (uint64_t k = 0; k < last.n_ids; k++)
            got[n++] = last.ids[k];
    }
    assert_int_equal(q.api->collect(q.m, tickets[0], 0, &last, 1, &err), VL_OK);
    size_t want_n = 1;
    while (want[want_n - 1] != want[3])
        want_n++;
    assert_int_equal(n, want_n);
    assert_memory_equal(got, want, want_n * sizeof(*got));
    assert_int_equal(last.n_ids, 0);
    assert_int_equal(last.stop, VL_STOP_ID);
    assert_int_equal(last.position, N + want_n - 1); /* the stop id itself was not read */
    q.api->sequence_end(q.m, s);
}

static void test_limits_tokens_and_context_stop(void **state)
{
    (void)state;
    struct q35_request r;
    q35_request_init(&r, prompt, N, 3);
    vl_sequence *s = q35_begin(&q, &r);
    int32_t ids[256];
    assert_int_equal(q35_run(&q, s, q35_prefill(&q, s, 0, N, NULL), ids, 256), 3);
    assert_int_equal(s->stop, VL_STOP_LIMIT);
    q.api->sequence_end(q.m, s);
    q35_request_init(&r, prompt, N, UINT64_MAX);
    s = q35_begin(&q, &r);
    assert_int_equal(q35_run(&q, s, q35_prefill(&q, s, 0, N, NULL), ids, 256), 256 - N);
    assert_int_equal(s->stop, VL_STOP_CONTEXT);
    q.api->sequence_end(q.m, s);
    /* A prompt that leaves room for one token. */
    int32_t many[256];
    q35_random_ids(many, 256, 500, 3);
    q35_request_init(&r, many, 255, 10);
    s = q35_begin(&q, &r);
    (void)q35_step(&q, prefill(s, 200, false));
    const vl_row_result last = q35_step(&q, prefill(s, 55, true));
    assert_int_equal(last.n_ids, 1);
    assert_int_equal(last.stop, VL_STOP_CONTEXT);
    q.api->sequence_end(q.m, s);
    vl_error err = {0};
    q35_request_init(&r, many, 256, 10);
    r.params.sampling = &r.sampling;
    assert_int_equal(q.api->sequence_begin(q.m, &r.params, &s, &err), VL_E_RANGE);
    assert_non_null(strstr(err.text, "256"));
}

static void test_min_tokens_holds_back_stop_ids(void **state)
{
    (void)state;
    int32_t want[4], got[4];
    answer(want, 4);
    struct q35_request r;
    q35_request_init(&r, prompt, N, 4);
    r.params.stop_ids = want; /* the very first token would stop */
    r.params.n_stop_ids = 1;
    r.params.min_tokens = 2;
    vl_sequence *s = q35_begin(&q, &r);
    const size_t n = q35_run(&q, s, q35_prefill(&q, s, 0, N, NULL), got, 4);
    assert_true(n >= 2);
    assert_int_not_equal(got[0], want[0]);
    assert_int_not_equal(got[1], want[0]);
    q.api->sequence_end(q.m, s);
}

static void test_padding_rows_never_sampled(void **state)
{
    (void)state;
    struct q35_request r;
    q35_request_init(&r, prompt, N, 200);
    r.sampling.temperature = 100.0f; /* almost uniform over 500 of 512 rows */
    r.sampling.seed = 5;
    vl_sequence *s = q35_begin(&q, &r);
    int32_t ids[200];
    assert_int_equal(q35_run(&q, s, q35_prefill(&q, s, 0, N, NULL), ids, 200), 200);
    int32_t most = 0;
    for (size_t i = 0; i < 200; i++)
        most = ids[i] > most ? ids[i] : most;
    assert_true(most < 500);
    assert_true(most > 400);
    q.api->sequence_end(q.m, s);
    /* A mask holds too, and a mask of nothing that can be sampled is a fault of the row. */
    q35_request_init(&r, prompt, N, 200);
    uint32_t mask[16] = {0};
    mask[77 / 32] = 1u << (77 % 32);
    mask[505 / 32] |= 1u << (505 % 32); /* a padding row */
    s = q35_begin(&q, &r);
    vl_row row = prefill(s, N, true);
    row.mask = mask;
    vl_row_result res = q35_step(&q, row);
    assert_int_equal(res.ids[0], 77);
    mask[77 / 32] = 0;
    row = decode(s);
    row.mask = mask;
    res = q35_step(&q, row);
    assert_int_equal(res.stop, VL_STOP_FAULT);
    assert_int_equal(res.status, VL_E_STATE);
    q.api->sequence_end(q.m, s);
}

static void test_forced_row_equals_sampling_them(void **state)
{
    (void)state;
    int32_t want[10];
    answer(want, 10);
    struct q35_request r;
    q35_request_init(&r, prompt, N, 200);
    r.sampling.n_logprobs = 2;
    vl_sequence *s = q35_begin(&q, &r);
    vl_row_result res = q35_prefill(&q, s, 0, N, NULL);
    assert_int_equal(res.ids[0], want[0]);
    res = q35_step(&q, (vl_row){.sequence = s, .kind = VL_ROW_FORCED, .ids = want + 1, .n_ids = 1});
    assert_int_equal(res.n_ids, 1);
    assert_int_equal(res.ids[0], want[1]);
    assert_int_equal(res.logprobs[0].id, want[1]);
    assert_int_equal(res.logprobs[1].id, want[1]); /* greedy: it is the best as well */
    assert_int_equal(res.position, N + 1);
    res = q35_step(&q, (vl_row){.sequence = s, .kind = VL_ROW_FORCED, .ids = want + 2, .n_ids = 4});
    assert_int_equal(res.n_ids, 4);
    assert_memory_equal(res.ids, want + 2, 4 * sizeof(*want));
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(res.logprobs[3 * i + 1].id, want[2 + i]);
    assert_int_equal(res.position, N + 5);
    for (size_t i = 6; i < 10; i++) {
        res = q35_step(&q, decode(s));
        assert_int_equal(res.ids[0], want[i]);
    }
    q.api->sequence_end(q.m, s);
    /* A stop id among them stops there. */
    q35_request_init(&r, prompt, N, 200);
    r.params.stop_ids = want + 3;
    r.params.n_stop_ids = 1;
    s = q35_begin(&q, &r);
    (void)q35_prefill(&q, s, 0, N, NULL);
    const int32_t ids[] = {400, want[3], 401};
    if (s->stop == VL_STOP_NONE) {
        res = q35_step(&q, (vl_row){.sequence = s, .kind = VL_ROW_FORCED, .ids = ids, .n_ids = 3});
        assert_int_equal(res.n_ids, 2);
        assert_int_equal(res.stop, VL_STOP_ID);
    }
    q.api->sequence_end(q.m, s);
}

static void test_nan_logits_fault_without_snapshot(void **state)
{
    (void)state;
    struct q35_request r;
    q35_request_init(&r, prompt, N, 200);
    vl_sequence *s = q35_begin(&q, &r), *other;
    (void)q35_prefill(&q, s, 0, N, NULL);
    s->state[q.cpu->layers[0].state_at] = nanf("");
    vl_row_result res = q35_step(&q, decode(s));
    assert_int_equal(res.stop, VL_STOP_FAULT);
    assert_int_not_equal(res.status, VL_OK);
    assert_int_equal(res.n_ids, 0);
    res = q35_step(&q, decode(s));
    assert_int_equal(res.stop, VL_STOP_FAULT);
    vl_snapshot *snap = NULL;
    uint64_t position;
    vl_error err = {0};
    assert_int_equal(q.snapshots->take(q.m, s, &snap, &position, &err), VL_E_STATE);
    assert_null(snap);
    q.api->sequence_end(q.m, s);
    /* The next one in its slot and pages knows nothing of it. */
    int32_t want[4], got[4];
    q35_request_init(&r, prompt, N, 4);
    other = q35_begin(&q, &r);
    (void)q35_run(&q, other, q35_prefill(&q, other, 0, N, NULL), got, 4);
    q.api->sequence_end(q.m, other);
    answer(want, 4);
    assert_memory_equal(got, want, sizeof(want));
    assert_int_equal(q.api->health(q.m, &err), VL_OK);
}

static void test_sequence_end_with_steps_in_flight_cancels(void **state)
{
    (void)state;
    struct q35_request r;
    q35_request_init(&r, prompt, N, 200);
    vl_sequence *a = q35_begin(&q, &r), *b = q35_begin(&q, &r);
    (void)q35_prefill(&q, a, 0, N, NULL);
    (void)q35_prefill(&q, b, 0, N, NULL);
    vl_row rows[2] = {decode(a), decode(b)};
    uint64_t t0, t1, t2;
    vl_error err = {0};
    assert_int_equal(q.api->submit(q.m, rows, 2, &t0, &err), VL_OK);
    assert_int_equal(q.api->submit(q.m, rows, 2, &t1, &err), VL_OK);
    assert_int_equal(q.api->submit(q.m, rows, 2, &t2, &err), VL_E_BUSY);
    q.api->sequence_end(q.m, a);
    vl_sequence *c = q35_begin(&q, &r); /* takes a's slot */
    vl_row_result res[2];
    assert_int_equal(q.api->collect(q.m, t1, -1, res, 2, &err), VL_E_INVALID); /* not the oldest */
    assert_int_equal(q.api->collect(q.m, t0, -1, res, 1, &err), VL_E_RANGE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(q.api->collect(q.m, i == 0 ? t0 : t1, -1, res, 2, &err), VL_OK);
        assert_int_equal(res[0].status, VL_E_CANCELLED);
        assert_null(res[0].sequence);
        assert_int_equal(res[1].status, VL_OK);
        assert_int_equal(res[1].n_ids, 1);
    }
    q.api->sequence_end(q.m, b);
    q.api->sequence_end(q.m, c);
}

static void test_pool_without_pages_submits_nothing(void **state)
{
    (void)state;
    /* 448 tokens in the pool: three sequences of 160 don't fit. */
    int32_t many[200];
    q35_random_ids(many, 200, 500, 3);
    struct q35_request r;
    q35_request_init(&r, many, 190, 200);
    vl_sequence *s[3];
    for (int i = 0; i < 3; i++)
        s[i] = q35_begin(&q, &r);
    vl_sequence *none = NULL;
    vl_error err = {0};
    assert_int_equal(q.api->sequence_begin(q.m, &r.params, &none, &err), VL_E_NOMEM);
    assert_null(none);
    (void)q35_step(&q, prefill(s[0], 190, true));
    (void)q35_step(&q, prefill(s[1], 190, true));
    uint64_t all, left, ticket;
    q.api->pool(q.m, &all, &left);
    assert_int_equal(all, 448);
    assert_int_equal(left, 64);
    vl_row row = prefill(s[2], 190, true);
    assert_int_equal(q.api->submit(q.m, &row, 1, &ticket, &err), VL_E_NOMEM);
    assert_non_null(strstr(err.text, "3 pages"));
    row = prefill(s[2], 64, false);
    assert_int_equal(q35_step(&q, row).status, VL_OK);
    q.api->sequence_end(q.m, s[0]);
    assert_int_equal(q35_step(&q, prefill(s[2], 126, true)).n_ids, 1);
    q.api->sequence_end(q.m, s[1]);
    q.api->sequence_end(q.m, s[2]);
}

static void test_rows_wrong_ones_refused(void **state)
{
    (void)state;
    struct q35_request r;
    q35_request_init(&r, prompt, N, 200);
    vl_sequence *s = q35_begin(&q, &r), *none;
    vl_error err = {0};
    uint64_t ticket;
    const struct {
        vl_row row;
        vl_status status;
    } cases[] = {
        {{.sequence = NULL, .kind = VL_ROW_DECODE}, VL_E_INVALID},
        {decode(s), VL_E_STATE},
        {{.sequence = s, .kind = VL_ROW_FORCED, .ids = prompt, .n_ids = 1}, VL_E_STATE},
        {{.sequence = s, .kind = 9}, VL_E_INVALID},
        {prefill(s, 0, false), VL_E_INVALID},
        {prefill(s, N + 1, true), VL_E_INVALID},
        {prefill(s, N, false), VL_E_INVALID},
        {prefill(s, N - 1, true), VL_E_INVALID},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(q.api->submit(q.m, &cases[i].row, 1, &ticket, &err), cases[i].status);
    const vl_row twice[2] = {prefill(s, 4, false), prefill(s, 4, false)};
    assert_int_equal(q.api->submit(q.m, twice, 2, &ticket, &err), VL_E_INVALID);
    assert_int_equal(q.api->submit(q.m, twice, 0, &ticket, &err), VL_E_INVALID);
    assert_int_equal(s->position, 0);
    (void)q35_prefill(&q, s, 0, N, NULL);
    const int32_t bad[] = {512};
    const vl_row forced = {.sequence = s, .kind = VL_ROW_FORCED, .ids = bad, .n_ids = 1};
    assert_int_equal(q.api->submit(q.m, &forced, 1, &ticket, &err), VL_E_INVALID);
    q.api->sequence_end(q.m, s);
    q.api->sequence_end(q.m, s); /* ended twice: a no-op */
    const int32_t outside[] = {5, -1};
    q35_request_init(&r, outside, 2, 10);
    r.params.sampling = &r.sampling;
    assert_int_equal(q.api->sequence_begin(q.m, &r.params, &none, &err), VL_E_INVALID);
    assert_non_null(strstr(err.text, "prompt[1] is -1"));
}

static void test_penalties_cover_prompt_also_from_a_snapshot(void **state)
{
    (void)state;
    int32_t many[130], cold[20], warm[20];
    q35_random_ids(many, 130, 500, 11);
    struct q35_request r;
    vl_snapshot *snap = NULL;
    for (int from_snapshot = 0; from_snapshot < 2; from_snapshot++) {
        q35_request_init(&r, many, 130, 20);
        r.sampling.repetition_penalty = 1.9f;
        r.sampling.frequency_penalty = 0.7f;
        r.params.snapshot = snap;
        vl_sequence *s = q35_begin(&q, &r);
        const size_t n = q35_run(&q, s, q35_prefill(&q, s, from_snapshot ? 64 : 0, 130, NULL),
                                 from_snapshot ? warm : cold, 20);
        assert_int_equal(n, 20);
        q.api->sequence_end(q.m, s);
        if (from_snapshot)
            break;
        r.params.snapshot = NULL;
        s = q35_begin(&q, &r);
        (void)q35_step(&q, prefill(s, 64, false));
        uint64_t position;
        assert_int_equal(q.snapshots->take(q.m, s, &snap, &position, NULL), VL_OK);
        q.api->sequence_end(q.m, s);
    }
    assert_memory_equal(cold, warm, sizeof(cold));
    (void)q.snapshots->drop(q.m, snap);
    /* and they do something */
    q35_request_init(&r, many, 130, 20);
    vl_sequence *s = q35_begin(&q, &r);
    (void)q35_run(&q, s, q35_prefill(&q, s, 0, 130, NULL), warm, 20);
    q.api->sequence_end(q.m, s);
    assert_memory_not_equal(cold, warm, sizeof(cold));
}

static void test_snapshots_counts_and_limits(void **state)
{
    (void)state;
    int32_t many[130];
    q35_random_ids(many, 130, 500, 11);
    struct q35_request r;
    q35_request_init(&r, many, 130, 20);
    vl_sequence *s = q35_begin(&q, &r), *none = NULL;
    vl_snapshot *snaps[2] = {NULL, NULL}, *extra = NULL;
    vl_error err = {0};
    uint64_t position, ticket;
    assert_int_equal(q.snapshots->take(q.m, s, &extra, &position, &err), VL_E_STATE);
    (void)q35_step(&q, prefill(s, 100, false));
    for (int i = 0; i < 2; i++)
        assert_int_equal(q.snapshots->take(q.m, s, &snaps[i], &position, &err), VL_OK);
    const uint64_t state_bytes = q.snapshots->take_bytes(q.m, s);
    vl_snapshot_info info = {.struct_size = sizeof(info)};
    q.snapshots->info(q.m, snaps[0], &info);
    assert_int_equal(info.position, 100);
    assert_int_equal(info.tier, VL_TIER_DEVICE);
    assert_int_equal(info.own_bytes, state_bytes);
    const uint64_t page_bytes = vl_pages_bytes(q.cpu->page_pool);
    assert_int_equal(info.shared_bytes, 2 * page_bytes);
    vl_tier_info tier = {.struct_size = sizeof(tier)};
    q.snapshots->tier(q.m, VL_TIER_DEVICE, &tier);
    assert_int_equal(tier.used_bytes, 2 * state_bytes); /* the pages are the sequence's as well */
    /* The sequence writes on into the shared page, by copying it. */
    (void)q35_step(&q, prefill(s, 30, true));
    q.snapshots->tier(q.m, VL_TIER_DEVICE, &tier);
    assert_int_equal(tier.used_bytes, 2 * state_bytes + page_bytes);
    q.api->sequence_end(q.m, s);
    q.snapshots->tier(q.m, VL_TIER_DEVICE, &tier);
    assert_int_equal(tier.used_bytes, 2 * state_bytes + 2 * page_bytes);
    assert_int_equal(q.snapshots->move(q.m, snaps[0], VL_TIER_HOST, &ticket, &err),
                     VL_E_UNSUPPORTED);
    q35_request_init(&r, many, 100, 20);
    r.params.sampling = &r.sampling;
    r.params.snapshot = snaps[0];
    assert_int_equal(q.api->sequence_begin(q.m, &r.params, &none, &err),
                     VL_E_INVALID); /* nothing is left to read */
    assert_int_equal(q.snapshots->drop(q.m, snaps[0]), state_bytes);
    assert_int_equal(q.snapshots->drop(q.m, snaps[1]), state_bytes + 2 * page_bytes);
    assert_int_equal(q.snapshots->drop(q.m, NULL), 0);
    /* The cap of snapshot_bytes. */
    q.cpu->snapshot_cap = state_bytes - 1;
    s = q35_begin(&q, &(struct q35_request){.sampling = r.sampling,
                                            .params = {.struct_size = sizeof(r.params),
                                                       .prompt = many,
                                                       .n_prompt = 10,
                                                       .max_tokens = 1}});
    (void)q35_prefill(&q, s, 0, 10, NULL);
    assert_int_equal(q.snapshots->take(q.m, s, &extra, &position, &err), VL_E_NOMEM);
    q.cpu->snapshot_cap = 64 << 20;
    q.api->sequence_end(q.m, s);
}

/* Prompt log probabilities are the same however the prompt is cut, and are what decode says of the
 * same tokens. */
static void test_logprobs_prompt_and_output_agree(void **state)
{
    (void)state;
    int32_t many[100];
    q35_random_ids(many, 100, 500, 13);
    struct q35_request r;
    q35_request_init(&r, many, 100, 4);
    r.sampling.n_logprobs = 3;
    vl_logprob whole[99 * 4];
    vl_sequence *s = q35_begin(&q, &r);
    vl_row row = prefill(s, 100, true);
    row.flags |= VL_ROW_PROMPT_LOGPROBS;
    vl_row_result res = q35_step(&q, row);
    assert_int_equal(res.n_prompt_logprobs, 99);
    assert_int_equal(res.n_ids, 1);
    assert_int_equal(res.logprobs[0].id, res.ids[0]);
    assert_int_equal(res.logprobs[1].id, res.ids[0]);
    assert_true(res.logprobs[1].logprob >= res.logprobs[2].logprob);
    memcpy(whole, res.prompt_logprobs, sizeof(whole));
    q.api->sequence_end(q.m, s);
    s = q35_begin(&q, &r);
    size_t at = 0;
    for (size_t i = 0; i < 100; i += 25) {
        row = prefill(s, 25, i == 75);
        row.flags |= VL_ROW_PROMPT_LOGPROBS;
        res = q35_step(&q, row);
        assert_int_equal(res.n_prompt_logprobs, i == 0 ? 24 : 25);
        for (uint64_t k = 0; k < res.n_prompt_logprobs; k++, at++) {
            assert_int_equal(res.prompt_logprobs[4 * k].id, many[at + 1]);
            assert_int_equal(whole[4 * at].id, many[at + 1]);
            assert_true(fabsf(res.prompt_logprobs[4 * k].logprob - whole[4 * at].logprob) < 1e-3f);
        }
    }
    assert_int_equal(at, 99);
    q.api->sequence_end(q.m, s);
}

static void test_bias_and_seed_rule(void **state)
{
    (void)state;
    struct q35_request r;
    q35_request_init(&r, prompt, N, 3);
    const vl_logit_bias bias[] = {{123, 1000.0f}};
    r.sampling.bias = bias;
    r.sampling.n_bias = 1;
    vl_sequence *s = q35_begin(&q, &r);
    int32_t ids[3], again[20], first[20];
    assert_int_equal(q35_run(&q, s, q35_prefill(&q, s, 0, N, NULL), ids, 3), 3);
    assert_int_equal(ids[2], 123);
    q.api->sequence_end(q.m, s);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        q35_request_init(&r, prompt, N, 20);
        r.sampling.temperature = 1.0f;
        r.sampling.seed = seed == 3 ? 2 : 1;
        s = q35_begin(&q, &r);
        (void)q35_run(&q, s, q35_prefill(&q, s, 0, N, NULL), seed == 1 ? first : again, 20);
        q.api->sequence_end(q.m, s);
        if (seed == 2)
            assert_memory_equal(first, again, sizeof(first));
        if (seed == 3)
            assert_memory_not_equal(first, again, sizeof(first));
    }
}

static void test_info_tells_what_was_opened(void **state)
{
    (void)state;
    vl_model_info info = {.struct_size = sizeof(info)};
    q.api->info(q.m, &info);
    assert_string_equal(info.architecture, "qwen3_5_text");
    assert_string_equal(info.device, "cpu avx2, 1 threads");
    assert_int_equal(info.vocab_rows, 512);
    assert_int_equal(info.n_tokens, 500);
    assert_int_equal(info.max_sequences, 3);
    assert_int_equal(info.snapshot_grid, 64);
    assert_int_equal(info.max_in_flight, 2);
    assert_null(q.api->get_ext(q.m, "vl.nothing/1"));
}

int main(void)
{
    if (!vl_cpu_form_supported(VL_CPU_AVX2))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_id_freezes_sequence),
        cmocka_unit_test(test_limits_tokens_and_context_stop),
        cmocka_unit_test(test_min_tokens_holds_back_stop_ids),
        cmocka_unit_test(test_padding_rows_never_sampled),
        cmocka_unit_test(test_forced_row_equals_sampling_them),
        cmocka_unit_test(test_nan_logits_fault_without_snapshot),
        cmocka_unit_test(test_sequence_end_with_steps_in_flight_cancels),
        cmocka_unit_test(test_pool_without_pages_submits_nothing),
        cmocka_unit_test(test_rows_wrong_ones_refused),
        cmocka_unit_test(test_penalties_cover_prompt_also_from_a_snapshot),
        cmocka_unit_test(test_snapshots_counts_and_limits),
        cmocka_unit_test(test_logprobs_prompt_and_output_agree),
        cmocka_unit_test(test_bias_and_seed_rule),
        cmocka_unit_test(test_info_tells_what_was_opened),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
