/* Tests of the engine on the fake model: what a request gives, alone and among others. */
#include "engine_util.h"

static void test_request_said_text_is_whole_with_usage(void **state)
{
    struct eng g = {0};
    struct run x;
    (void)state;

    eng_open(&g);
    run_text(&g, &x, "say:Hello, w\xc3\xb6rld \xe2\x82\xac!;", 0);
    assert_string_equal(run_content(&x, 0), "Hello, w\xc3\xb6rld \xe2\x82\xac!");
    assert_int_equal(x.a[0].finish, VL_FINISH_STOP);
    assert_int_equal(x.a[0].stop_id, FAKE_END);
    assert_int_equal(x.usage.prompt_tokens, 23);
    assert_int_equal(x.usage.completion_tokens, 19); /* 18 bytes and the stop id */
    assert_int_equal(x.a[0].n_tokens, 18);
    run_free(&x);
    eng_close(&g);
}

static void test_request_limit_and_context_finish_length(void **state)
{
    struct eng g = {.p = {.context_tokens = 256}};
    struct run x;
    (void)state;

    g.settings[0] = "end_every=1000000";
    eng_open(&g);
    run_text(&g, &x, "abc", 7);
    assert_int_equal(x.a[0].finish, VL_FINISH_LENGTH);
    assert_int_equal(x.usage.completion_tokens, 7);
    assert_int_equal(strlen(run_content(&x, 0)), 7);
    run_free(&x);
    run_text(&g, &x, "abc", 0);
    assert_int_equal(x.a[0].finish, VL_FINISH_LENGTH);
    assert_int_equal(x.usage.completion_tokens, 253);
    run_free(&x);
    eng_close(&g);
}

/* The engine's promise: the same text alone and among eight others, with every way of going through
 * steps. */
static void check_alone_and_together(const char *step_ids, const char *in_flight, uint64_t prefix)
{
    enum { N = 9 };
    struct eng g = {.p = {.max_sequences = 8,
                          .step_tokens = 256,
                          .prefill_tokens = 64,
                          .prefix_cache_bytes = prefix}};
    char prompts[N][400];
    char *alone[N];
    struct run x[N];

    g.settings[0] = step_ids;
    g.settings[1] = in_flight;
    g.settings[2] = "end_every=60";
    eng_open(&g);
    for (int i = 0; i < N; i++) {
        size_t len = (size_t)(20 + 40 * i);
        for (size_t k = 0; k < len; k++)
            prompts[i][k] = (char)('a' + (k * (size_t)(i + 3)) % 26);
        prompts[i][len] = '\0';
        run_text(&g, &x[i], prompts[i], 100);
        alone[i] = strdup(run_content(&x[i], 0));
        run_free(&x[i]);
    }
    for (int i = 0; i < N; i++) {
        vl_piece piece;
        struct vl_request_params p = text_params(prompts[i], &piece);
        p.max_tokens = 100;
        run_start(&g, &x[i], &p);
    }
    for (int i = 0; i < N; i++) {
        run_wait(&g, &x[i]);
        assert_true(x[i].done);
        assert_string_equal(run_content(&x[i], 0), alone[i]);
        assert_int_equal(x[i].a[0].usage.completion_tokens, x[i].usage.completion_tokens);
    }
    struct fake_counts c = eng_counts(&g);
    assert_true(c.max_sequences_at_once > 1 && c.max_sequences_at_once <= 8);
    for (int i = 0; i < N; i++) {
        run_free(&x[i]);
        free(alone[i]);
    }
    eng_close(&g);
}

static void test_requests_together_greedy_text_as_alone(void **state)
{
    (void)state;
    check_alone_and_together("step_ids=1", "in_flight=1", 0);
    check_alone_and_together("step_ids=1", "in_flight=3", 0);
    check_alone_and_together("step_ids=3", "in_flight=2", 0);
    check_alone_and_together("step_ids=3", "in_flight=3", 100000);
}

static void test_run_ahead_is_used_and_frozen_rows_change_nothing(void **state)
{
    struct eng g = {0};
    struct run x;
    (void)state;

    g.settings[0] = "in_flight=3";
    g.settings[1] = "delay_ms=2";
    eng_open(&g);
    run_text(&g, &x, "say:abcdefghij;", 0);
    assert_string_equal(run_content(&x, 0), "abcdefghij");
    struct fake_counts c = eng_counts(&g);
    assert_int_equal(c.max_in_flight_at_once, 3);
    run_free(&x);
    g.probe->reset();
    run_text(&g, &x, "say:abcdefghij;", 10); /* the limit is known: nothing is run past it */
    c = eng_counts(&g);
    assert_int_equal(c.frozen_rows, 0);
    run_free(&x);
    eng_close(&g);
}

static void test_prefill_shares_steps_and_streams_go_on(void **state)
{
    struct eng g = {.p = {.step_tokens = 128, .prefill_tokens = 64}};
    struct run x, y;
    char longer[1001];
    vl_piece piece;
    (void)state;

    g.settings[0] = "end_every=1000000";
    g.settings[1] = "delay_ms=1";
    eng_open(&g);
    memset(longer, 'q', 1000);
    longer[1000] = '\0';
    struct vl_request_params p = text_params("short", &piece);
    p.max_tokens = 3000;
    run_start(&g, &x, &p);
    while (x.a[0].n_tokens < 5)
        run_step(&g, 10000);
    g.probe->reset();
    p = text_params(longer, &piece);
    p.max_tokens = 5;
    size_t before = x.a[0].n_tokens;
    run_start(&g, &y, &p);
    run_wait(&g, &y);
    struct fake_counts c = eng_counts(&g);
    assert_true(c.max_step_prompt_tokens <= 128);
    assert_true(c.steps >= 1000 / 128);
    /* While 1000 prompt tokens went by in pieces of 64 the stream got its tokens. */
    assert_true(x.a[0].n_tokens - before >= 10);
    assert_int_equal(x.n_last, 0);
    vl_request_cancel(x.r);
    run_wait(&g, &x);
    run_free(&x);
    run_free(&y);
    eng_close(&g);
}

static void test_queue_full_is_busy_and_nothing_accepted_is_lost(void **state)
{
    enum { N = 6 }; /* 2 slots and a queue of 4 */
    struct eng g = {.p = {.max_sequences = 2, .queue_cap = 4}};
    struct run x[N];
    vl_piece piece;
    vl_error err = {0};
    vl_request *r = NULL;
    (void)state;

    eng_open(&g);
    g.probe->gate(1);
    struct vl_request_params p = text_params("say:ok;", &piece);
    for (int i = 0; i < N; i++)
        run_start(&g, &x[i], &p);
    assert_int_equal(vl_request_submit(g.e, &p, g.q, NULL, &r, NULL, &err), VL_E_BUSY);
    assert_non_null(strstr(err.text, "6 requests, at most 6"));
    struct vl_engine_stats s;
    vl_engine_stats_get(g.e, &s);
    assert_int_equal(s.requests_refused, 1);
    g.probe->gate(0);
    for (int i = 0; i < N; i++) {
        run_wait(&g, &x[i]);
        assert_string_equal(run_content(&x[i], 0), "ok");
        run_free(&x[i]);
    }
    eng_close(&g);
}

static void test_cancel_in_queue_prefill_and_decode_ends_once(void **state)
{
    struct eng g = {.p = {.max_sequences = 1, .step_tokens = 64}};
    struct run running, queued;
    vl_piece piece;
    char longer[2001];
    (void)state;

    g.settings[0] = "end_every=1000000";
    g.settings[1] = "delay_ms=3";
    eng_open(&g);
    memset(longer, 'z', 2000);
    longer[2000] = '\0';
    struct vl_request_params p = text_params(longer, &piece);
    g.probe->gate(1);
    run_start(&g, &running, &p);
    while (!running.started)
        run_step(&g, 10000);
    p = text_params("abc", &piece);
    run_start(&g, &queued, &p);
    vl_request_cancel(queued.r);
    vl_request_cancel(
        running.r); /* amid its prompt: 32 pieces of 64, of which three are under way */
    g.probe->gate(0);
    run_wait(&g, &queued);
    assert_true(queued.failed);
    assert_int_equal(queued.err.status, VL_E_CANCELLED);
    assert_false(queued.started);
    run_wait(&g, &running);
    assert_int_equal(running.err.status, VL_E_CANCELLED);
    assert_true(eng_counts(&g).prompt_tokens <= 4 * 64);
    run_free(&running);
    run_free(&queued);
    run_start(&g, &running, &p);
    while (running.a[0].n_tokens < 3)
        run_step(&g, 10000);
    vl_request_cancel(running.r);
    run_wait(&g, &running);
    assert_int_equal(running.err.status, VL_E_CANCELLED);
    run_free(&running);
    run_text(&g, &running, "say:free again;", 0);
    assert_string_equal(run_content(&running, 0), "free again");
    run_free(&running);
    eng_close(&g);
}

static void test_pause_stops_steps_and_goes_on(void **state)
{
    struct eng g = {0};
    struct run x;
    vl_piece piece;
    (void)state;

    g.settings[0] = "end_every=1000000";
    g.settings[1] = "delay_ms=1";
    eng_open(&g);
    struct vl_request_params p = text_params("abc", &piece);
    p.max_tokens = 1000;
    run_start(&g, &x, &p);
    while (x.a[0].n_tokens < 3)
        run_step(&g, 10000);
    vl_request_pause(x.r, true);
    while (run_step(&g, 100)) {
    }
    size_t n = x.a[0].n_tokens;
    assert_true(n < 1000);
    assert_false(run_step(&g, 100));
    vl_request_pause(x.r, false);
    run_wait(&g, &x);
    assert_true(x.done);
    assert_int_equal(x.a[0].n_tokens, 1000);
    run_free(&x);
    eng_close(&g);
}

/* Eight answers of 90 tokens in a pool of 320: most are preempted, none is lost or changed. */
static void check_small_pool(const char *step_ids, uint64_t prefix, int64_t temperature)
{
    enum { N = 8 };
    struct eng g = {.p = {.max_sequences = 8, .context_tokens = 256, .prefix_cache_bytes = prefix}};
    struct run x[N];
    char *alone[N], prompt[80];
    vl_piece piece;

    g.settings[0] = "pool_tokens=320";
    g.settings[1] = step_ids;
    g.settings[2] = "end_every=1000000";
    eng_open(&g);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            snprintf(prompt, sizeof prompt,
                     "%d: a prompt of about seventy tokens so that a few pages are taken", i);
            struct vl_request_params p = text_params(prompt, &piece);
            p.max_tokens = 90;
            p.sampling.set |= VL_SET_SEED;
            p.sampling.temperature = (double)temperature;
            p.sampling.seed = 5 + i;
            run_start(&g, &x[i], &p);
            if (round == 0)
                run_wait(&g, &x[i]);
        }
        for (int i = 0; i < N; i++) {
            run_wait(&g, &x[i]);
            if (x[i].failed)
                fail_msg("%s", x[i].err.text);
            assert_int_equal(x[i].usage.completion_tokens, 90);
            if (round == 0)
                alone[i] = strdup(run_content(&x[i], 0));
            else
                assert_string_equal(run_content(&x[i], 0), alone[i]);
            run_free(&x[i]);
        }
    }
    struct vl_engine_stats s;
    vl_engine_stats_get(g.e, &s);
    assert_true(s.preemptions > 0);
    for (int i = 0; i < N; i++)
        free(alone[i]);
    eng_close(&g);
}

static void test_pool_exhausted_requests_are_preempted_not_lost(void **state)
{
    (void)state;
    check_small_pool("step_ids=1", 0, 0);
    check_small_pool("step_ids=3", 0, 1);
    check_small_pool("step_ids=1", 50000, 0);
}

static void test_pool_too_small_for_one_is_an_error(void **state)
{
    struct eng g = {.p = {.context_tokens = 1024}};
    struct run x;
    vl_piece piece;
    char longer[401];
    (void)state;

    g.settings[0] = "pool_tokens=160";
    g.settings[1] = "end_every=1000000";
    eng_open(&g);
    memset(longer, 'x', 400);
    longer[400] = '\0';
    struct vl_request_params p = text_params(longer, &piece);
    run_start(&g, &x, &p);
    run_wait(&g, &x);
    assert_int_equal(x.err.status, VL_E_RANGE);
    assert_non_null(strstr(x.err.text, "160"));
    assert_non_null(strstr(x.err.text, "400"));
    run_free(&x);
    p = text_params("abc", &piece);
    run_start(&g, &x, &p);
    run_wait(&g, &x);
    assert_true(x.failed);
    assert_int_equal(x.err.status, VL_E_NOMEM);
    run_free(&x);
    run_text(&g, &x, "say:alive;", 0);
    run_free(&x);
    eng_close(&g);
}

static void test_context_length_exceeded_has_both_counts(void **state)
{
    struct eng g = {.p = {.context_tokens = 64}};
    struct run x;
    vl_piece piece;
    char text[65];
    (void)state;

    eng_open(&g);
    memset(text, 'x', 64);
    text[64] = '\0';
    struct vl_request_params p = text_params(text, &piece);
    run_start(&g, &x, &p);
    run_wait(&g, &x);
    assert_int_equal(x.err.status, VL_E_RANGE);
    assert_string_equal(x.err.text,
                        "This model's maximum context length is 64 tokens. However, your messages "
                        "resulted in 64 tokens. Please reduce the length of the messages.");
    assert_int_equal(x.usage.prompt_tokens, 64);
    run_free(&x);
    text[63] = '\0'; /* leaves room for one */
    run_text(&g, &x, text, 0);
    assert_int_equal(x.usage.completion_tokens, 1);
    run_free(&x);
    eng_close(&g);
}

static void test_device_fault_ends_all_and_model_is_unhealthy(void **state)
{
    for (int at_submit = 0; at_submit < 2; at_submit++) {
        struct eng g = {.p = {.max_sequences = 2}};
        struct run x[4];
        vl_piece piece;
        vl_error err = {0};
        vl_request *r;
        (void)state;

        g.settings[0] = "end_every=1000000";
        eng_open(&g);
        struct vl_request_params p = text_params("abc", &piece);
        for (int i = 0; i < 4; i++)
            run_start(&g, &x[i], &p);
        g.probe->fail_at(at_submit ? 20 : 0, at_submit ? 0 : 20, VL_E_DEVICE);
        for (int i = 0; i < 4; i++) {
            run_wait(&g, &x[i]);
            assert_true(x[i].failed);
            assert_int_equal(x[i].err.status, VL_E_DEVICE);
            run_free(&x[i]);
        }
        assert_int_equal(vl_engine_health(g.e, &err), VL_E_DEVICE);
        assert_non_null(strstr(err.text, "told to fail"));
        assert_int_equal(vl_request_submit(g.e, &p, g.q, NULL, &r, NULL, &err), VL_E_DEVICE);
        eng_close(&g);
    }
}

static void test_row_fault_ends_that_request_alone(void **state)
{
    struct eng g = {0};
    struct run bad, good;
    vl_piece a, b;
    (void)state;

    eng_open(&g);
    struct vl_request_params p = text_params("nan! and more", &a);
    struct vl_request_params q = text_params("say:a text that goes on for a while;", &b);
    p.max_tokens = 50;
    p.min_tokens = 50;
    run_start(&g, &bad, &p);
    run_start(&g, &good, &q);
    run_wait(&g, &bad);
    run_wait(&g, &good);
    assert_true(bad.failed);
    assert_int_equal(bad.err.status, VL_E_INTERNAL);
    assert_string_equal(run_content(&good, 0), "a text that goes on for a while");
    assert_int_equal(vl_engine_health(g.e, NULL), VL_OK);
    run_free(&bad);
    run_free(&good);
    eng_close(&g);
}

static void test_close_with_requests_under_way_cancels_them(void **state)
{
    struct eng g = {.p = {.max_sequences = 2}};
    struct run x[4];
    vl_piece piece;
    (void)state;

    g.settings[0] = "end_every=1000000";
    g.settings[1] = "delay_ms=2";
    eng_open(&g);
    struct vl_request_params p = text_params("abc", &piece);
    for (int i = 0; i < 4; i++)
        run_start(&g, &x[i], &p);
    while (x[0].a[0].n_tokens < 3)
        run_step(&g, 10000);
    vl_runtime_close(g.rt);
    for (int i = 0; i < 4; i++) {
        run_wait(&g, &x[i]);
        assert_int_equal(x[i].err.status, VL_E_CANCELLED);
        vl_request_cancel(x[i].r); /* harmless after the last event, also with the engine gone */
        run_free(&x[i]);
    }
    g.rt = NULL;
    eng_close(&g);
}

static void test_drain_refuses_new_and_finishes_old(void **state)
{
    struct eng g = {0};
    struct run x;
    vl_piece piece;
    vl_error err = {0};
    vl_request *r;
    (void)state;

    g.settings[0] = "delay_ms=2";
    eng_open(&g);
    struct vl_request_params p = text_params("say:to the end;", &piece);
    run_start(&g, &x, &p);
    vl_engine_drain(g.e);
    assert_int_equal(vl_request_submit(g.e, &p, g.q, NULL, &r, NULL, &err), VL_E_STATE);
    run_wait(&g, &x);
    assert_string_equal(run_content(&x, 0), "to the end");
    run_free(&x);
    eng_close(&g);
}

static void test_runtime_start_loads_on_a_thread_and_tells(void **state)
{
    struct eng g = {0};
    vl_runtime *rt = NULL;
    vl_error err = {0};
    struct vl_runtime_status st;
    struct vl_runtime_plan plan;
    char path[512];
    (void)state;

    eng_open(&g);
    snprintf(path, sizeof path, "%s/tests/started.fake", VL_BUILD_DIR);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    g.p.path = path;
    assert_int_equal(vl_runtime_check(g.reg, &g.p, &plan, &err), VL_OK);
    assert_int_equal(plan.context_tokens, 4096);
    assert_int_equal(plan.estimate.kv_tokens, 65536);
    assert_string_equal(plan.format, "fake");
    for (int bad = 0; bad < 2; bad++) {
        g.settings[0] = bad ? "fail_open=true" : NULL;
        assert_int_equal(vl_runtime_start(g.reg, &g.p, g.q, &g, &rt, &err), VL_OK);
        do {
            for (vl_event *ev = vl_event_queue_wait(g.q, 8000), *next; ev != NULL; ev = next) {
                next = ev->next;
                assert_int_equal(ev->kind, VL_EVENT_LOAD);
                assert_ptr_equal(ev->user, &g);
                vl_event_free(ev);
            }
            vl_runtime_status_get(rt, &st);
        } while (st.state == VL_RUNTIME_LOADING);
        assert_int_equal(st.state, bad ? VL_RUNTIME_FAILED : VL_RUNTIME_READY);
        assert_int_equal(vl_runtime_engine(rt) != NULL, !bad);
        if (bad)
            assert_non_null(strstr(st.error.text, "open was told to fail"));
        vl_runtime_close(rt);
    }
    remove(path);
    assert_int_equal(vl_runtime_check(g.reg, &g.p, &plan, &err), VL_E_NOT_FOUND);
    assert_non_null(strstr(err.text, path));
    eng_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_said_text_is_whole_with_usage),
        cmocka_unit_test(test_request_limit_and_context_finish_length),
        cmocka_unit_test(test_requests_together_greedy_text_as_alone),
        cmocka_unit_test(test_run_ahead_is_used_and_frozen_rows_change_nothing),
        cmocka_unit_test(test_prefill_shares_steps_and_streams_go_on),
        cmocka_unit_test(test_queue_full_is_busy_and_nothing_accepted_is_lost),
        cmocka_unit_test(test_cancel_in_queue_prefill_and_decode_ends_once),
        cmocka_unit_test(test_pause_stops_steps_and_goes_on),
        cmocka_unit_test(test_pool_exhausted_requests_are_preempted_not_lost),
        cmocka_unit_test(test_pool_too_small_for_one_is_an_error),
        cmocka_unit_test(test_context_length_exceeded_has_both_counts),
        cmocka_unit_test(test_device_fault_ends_all_and_model_is_unhealthy),
        cmocka_unit_test(test_row_fault_ends_that_request_alone),
        cmocka_unit_test(test_close_with_requests_under_way_cancels_them),
        cmocka_unit_test(test_runtime_start_loads_on_a_thread_and_tells),
        cmocka_unit_test(test_drain_refuses_new_and_finishes_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
