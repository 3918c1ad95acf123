/* Tests of what an answer is made of: stop strings, log probabilities, thoughts, calls, several
 * answers, masks, bans. */
#include "engine_util.h"

#include <math.h>

#include "base/error.h"

static void run_params(struct eng *g, struct run *x, const struct vl_request_params *p)
{
    run_start(g, x, p);
    run_wait(g, x);
    if (x->failed)
        fail_msg("request failed: %s", x->err.text);
}

static struct vl_request_params chat_params(const char *json)
{
    struct vl_request_params p;

    vl_request_params_init(&p);
    p.chat_json = (vl_bytes){json, strlen(json)};
    p.sampling.set = VL_SET_TEMPERATURE;
    return p;
}

static void test_stop_string_cuts_exactly_and_counts_its_tokens(void **state)
{
    static const struct {
        const char *stop, *text;
        uint32_t flags;
        uint64_t tokens;
    } cases[] = {
        {"wor", "Hello, ", 0, 10},
        {"wor", "Hello, wor", VL_REQUEST_INCLUDE_STOP, 10},
        {"He", "", 0, 2},
        {"zzz", "Hello, world", 0, 13},
        {"ldx", "Hello, world", 0, 13}, /* held back at the end, and given out */
    };
    (void)state;

    for (int ids = 0; ids < 2; ids++) {
        struct eng g = {0};
        g.settings[0] = ids == 0 ? "step_ids=1" : "step_ids=3";
        eng_open(&g);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct run x;
            vl_piece piece;
            struct vl_request_params p = text_params("say:Hello, world;", &piece);
            vl_bytes stop = {cases[i].stop, strlen(cases[i].stop)};
            p.stops = &stop;
            p.n_stops = 1;
            p.flags = cases[i].flags;
            p.n_logprobs = 1;
            run_params(&g, &x, &p);
            assert_string_equal(run_content(&x, 0), cases[i].text);
            assert_int_equal(x.a[0].finish, VL_FINISH_STOP);
            assert_int_equal(x.usage.completion_tokens, cases[i].tokens);
            assert_string_equal(x.a[0].stop_text, cases[i].tokens == 13 ? "" : cases[i].stop);
            assert_int_equal(x.a[0].n_tokens, strlen(cases[i].text)); /* one entry a token shown */
            for (size_t k = 0; k < x.a[0].n_tokens; k++)
                assert_int_equal(x.a[0].tokens[k].id, cases[i].text[k]);
            run_free(&x);
        }
        eng_close(&g);
    }
}

static void test_stop_string_is_for_content_unless_raw(void **state)
{
    struct eng g = {0};
    struct run x;
    vl_bytes stop = {"b", 1};
    (void)state;

    eng_open(&g);
    struct vl_request_params p = chat_params("{\"messages\":[{\"role\":\"user\",\"content\":\"say:<"
                                             "think>abc</think>xa<call>f abc</call>yabc;\"}]}");
    p.stops = &stop;
    p.n_stops = 1;
    run_params(&g, &x, &p);
    assert_string_equal(x.a[0].reasoning.ptr, "abc");
    assert_string_equal(x.a[0].calls.ptr, "f(abc)");
    assert_string_equal(run_content(&x, 0), "xaya");
    assert_int_equal(x.a[0].finish, VL_FINISH_TOOL_CALLS);
    run_free(&x);
    p.flags = VL_REQUEST_STOP_RAW;
    run_params(&g, &x, &p);
    assert_string_equal(x.a[0].reasoning.ptr, "a");
    assert_string_equal(run_content(&x, 0), "");
    run_free(&x);
    eng_close(&g);
}

static void test_chat_reasoning_calls_and_one_call(void **state)
{
    struct eng g = {0};
    struct run x;
    (void)state;

    eng_open(&g);
    struct vl_request_params p =
        chat_params("{\"enable_thinking\":true,\"messages\":[{\"role\":\"user\",\"content\":"
                    "\"say:hm</think>ok<call>f {1}</call><call>g {2}</call>;\"}]}");
    run_params(&g, &x, &p);
    assert_string_equal(x.a[0].reasoning.ptr, "hm");
    assert_string_equal(run_content(&x, 0), "ok");
    assert_string_equal(x.a[0].calls.ptr, "f({1})g({2})");
    assert_int_equal(x.a[0].finish, VL_FINISH_TOOL_CALLS);
    assert_int_equal(x.usage.reasoning_tokens, 3);
    run_free(&x);
    p.flags = VL_REQUEST_ONE_CALL;
    run_params(&g, &x, &p);
    assert_string_equal(x.a[0].calls.ptr, "f({1})");
    assert_int_equal(x.a[0].finish, VL_FINISH_TOOL_CALLS);
    run_free(&x);
    p.flags = 0;
    p.max_tokens = 9; /* cut inside the first call */
    run_params(&g, &x, &p);
    assert_string_equal(x.a[0].calls.ptr, "f({");
    assert_int_equal(x.a[0].finish, VL_FINISH_LENGTH);
    run_free(&x);
    eng_close(&g);
}

static void test_chat_error_comes_with_its_field(void **state)
{
    struct eng g = {0};
    struct run x;
    (void)state;

    eng_open(&g);
    struct vl_request_params p = chat_params("{\"messages\":[{\"role\":\"user\"}]}");
    run_start(&g, &x, &p);
    run_wait(&g, &x);
    assert_true(x.failed);
    assert_int_equal(x.err.status, VL_E_INVALID);
    assert_string_equal(x.field, "messages[0].content");
    run_free(&x);
    eng_close(&g);
}

/* The thought is closed after exactly so many tokens, also with several ids a step in between. */
static void test_thinking_budget_closes_the_thought(void **state)
{
    static const int64_t budgets[] = {0, 1, 5, 12};
    (void)state;

    for (size_t k = 0; k < 8; k++) {
        size_t i = k / 2;
        struct eng g = {0};
        struct run x;
        char want[64];
        g.settings[0] = "in_flight=3";
        g.settings[1] = k % 2 == 0 ? "step_ids=1" : "step_ids=4";
        eng_open(&g);
        struct vl_request_params p =
            chat_params("{\"enable_thinking\":true,\"messages\":[{\"role\":\"user\","
                        "\"content\":\"say:0123456789abcdefghijklmn;\"}]}");
        p.thinking_budget = budgets[i];
        run_params(&g, &x, &p);
        snprintf(want, sizeof want, "%.*s\n", (int)budgets[i], "0123456789abcdefghijklmn");
        assert_string_equal(x.a[0].reasoning.ptr, want);
        assert_int_equal(x.usage.reasoning_tokens, budgets[i] + 2); /* and what closes it */
        /* "\n</think>\n" are three forced tokens that count. */
        assert_int_equal(run_content(&x, 0)[0], '\n');
        assert_string_equal(run_content(&x, 0) + 1, "0123456789abcdefghijklmn" + budgets[i] + 3);
        assert_int_equal(x.usage.completion_tokens, 25);
        assert_int_equal(eng_counts(&g).forced_ids, budgets[i] == 0 ? 2 : 3);
        run_free(&x);
        eng_close(&g);
    }
}

static void test_logprobs_are_those_of_the_tokens(void **state)
{
    struct eng g = {0};
    struct run x;
    vl_piece piece;
    (void)state;

    g.settings[0] = "step_ids=3";
    eng_open(&g);
    struct vl_request_params p = text_params("say:a\xe2\x82\xac!;", &piece);
    p.n_logprobs = 2;
    run_params(&g, &x, &p);
    assert_int_equal(x.a[0].n_tokens, 5);
    assert_int_equal(x.a[0].n_text_events, 3); /* the three bytes of one sign come together */
    for (size_t i = 0; i < 5; i++) {
        int32_t id = x.a[0].tokens[i].id;
        assert_int_equal(id, (unsigned char)"a\xe2\x82\xac!"[i]);
        assert_true(x.a[0].tokens[i].logprob == -0.25f - (float)(id % 7));
        assert_int_equal(x.a[0].tokens[i].n_top, 2);
        assert_int_equal(x.a[0].best[i].id, (id + 1) % FAKE_TOKENS);
        assert_true(x.a[0].best[i].logprob == -0.25f);
    }
    run_free(&x);
    eng_close(&g);
}

static void test_prompt_logprobs_cover_the_prompt(void **state)
{
    struct eng g = {.p = {.step_tokens = 64, .prefix_cache_bytes = 1 << 20}};
    struct run x;
    vl_piece piece;
    char text[201];
    (void)state;

    for (int i = 0; i < 200; i++)
        text[i] = (char)('a' + i % 26);
    text[200] = '\0';
    eng_open(&g);
    struct vl_request_params p = text_params(text, &piece);
    p.n_logprobs = 1;
    p.max_tokens = 1;
    p.flags = VL_REQUEST_PROMPT_LOGPROBS;
    for (int round = 0; round < 2;
         round++) { /* the second time the prompt is in the cache, and read all the same */
        run_params(&g, &x, &p);
        assert_int_equal(x.n_prompt_tokens, 200);
        assert_true(isnan(x.prompt_tokens[0].logprob));
        for (int i = 1; i < 200; i++) {
            assert_int_equal(x.prompt_tokens[i].id, text[i]);
            assert_true(x.prompt_tokens[i].logprob == -0.25f - (float)(text[i] % 7));
        }
        assert_int_equal(x.cached, 0);
        run_free(&x);
    }
    eng_close(&g);
}

static void test_n_answers_read_the_prompt_once(void **state)
{
    struct eng g = {.p = {.max_sequences = 4}};
    struct run x;
    vl_piece piece;
    char text[201];
    (void)state;

    memset(text, 'n', 200);
    text[200] = '\0';
    g.settings[0] = "end_every=1000000";
    eng_open(&g);
    struct vl_request_params p = text_params(text, &piece);
    p.n = 6; /* more than there are slots */
    p.max_tokens = 12;
    p.sampling.temperature = 1;
    p.sampling.set |= VL_SET_SEED;
    p.sampling.seed = 7;
    p.flags = VL_REQUEST_IGNORE_EOS;
    run_params(&g, &x, &p);
    /* 192 of 200 are on the grid: the others read 8 again. */
    assert_int_equal(eng_counts(&g).prompt_tokens, 200 + 5 * 8);
    assert_int_equal(x.usage.prompt_tokens, 200);
    assert_int_equal(x.usage.completion_tokens, 72);
    char first[6][16];
    for (uint32_t i = 0; i < 6; i++) {
        snprintf(first[i], sizeof first[i], "%s", run_content(&x, i));
        assert_int_equal(strlen(first[i]), 12);
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(first[i], first[k]);
    }
    run_free(&x);
    run_params(&g, &x, &p); /* the same seed gives the same answers */
    for (uint32_t i = 0; i < 6; i++)
        assert_string_equal(run_content(&x, i), first[i]);
    run_free(&x);
    eng_close(&g);
}

static void test_bias_bans_and_min_tokens(void **state)
{
    struct eng g = {0};
    struct run x;
    vl_piece piece;
    vl_logit_bias bias = {'Q', 100};
    int32_t stop = 'c';
    (void)state;

    eng_open(&g);
    struct vl_request_params p = text_params("say:abc;", &piece);
    p.bias = &bias;
    p.n_bias = 1;
    p.max_tokens = 4;
    run_params(&g, &x, &p);
    assert_string_equal(run_content(&x, 0), "QQQQ");
    run_free(&x);

    p = text_params("say:abc;", &piece);
    p.stop_ids = &stop;
    p.n_stop_ids = 1;
    run_params(&g, &x, &p);
    assert_string_equal(run_content(&x, 0), "ab");
    assert_int_equal(x.a[0].stop_id, 'c');
    assert_int_equal(x.usage.completion_tokens, 3);
    run_free(&x);

    p = text_params("say:ab;", &piece);
    p.min_tokens = 5;
    run_params(&g, &x, &p);
    assert_int_equal(x.usage.completion_tokens, 6);
    assert_int_equal(x.a[0].finish, VL_FINISH_STOP);
    run_free(&x);

    p = text_params("say:ab;", &piece);
    p.flags = VL_REQUEST_IGNORE_EOS;
    p.max_tokens = 20;
    run_params(&g, &x, &p);
    assert_int_equal(x.usage.completion_tokens, 20);
    assert_int_equal(x.a[0].finish, VL_FINISH_LENGTH);
    run_free(&x);

    p.stop_ids = &stop; /* the request's own stop ids still count */
    p.n_stop_ids = 1;
    p.bias = &bias;
    p.n_bias = 1;
    bias = (vl_logit_bias){'c', 100};
    run_params(&g, &x, &p);
    assert_int_equal(x.usage.completion_tokens, 1);
    assert_int_equal(x.a[0].stop_id, 'c');
    run_free(&x);
    eng_close(&g);
}

static void test_submit_wrong_parameters_name_the_field(void **state)
{
    struct eng g = {0};
    vl_piece piece;
    vl_error err = {0};
    vl_request *r = NULL;
    char field[248];
    vl_logit_bias bias = {FAKE_TOKENS, 1};
    int32_t id = -1;
    (void)state;

    eng_open(&g);
    struct vl_request_params p = text_params("abc", &piece), q = p;
    q.bias = &bias;
    q.n_bias = 1;
    assert_int_equal(vl_request_submit(g.e, &q, g.q, NULL, &r, field, &err), VL_E_INVALID);
    assert_string_equal(field, "logit_bias");
    assert_non_null(strstr(err.text, "261 is no token id: 0 to 260"));
    q = p;
    q.n = 17;
    assert_int_equal(vl_request_submit(g.e, &q, g.q, NULL, &r, field, &err), VL_E_INVALID);
    assert_string_equal(field, "n");
    q = p;
    q.n_pieces = 0;
    assert_int_equal(vl_request_submit(g.e, &q, g.q, NULL, &r, field, &err), VL_E_INVALID);
    assert_string_equal(field, "prompt");
    q.ids = &id;
    q.n_ids = 1;
    assert_int_equal(vl_request_submit(g.e, &q, g.q, NULL, &r, field, &err), VL_E_INVALID);
    assert_string_equal(field, "prompt");
    q = p;
    q.sampling.set |= VL_SET_TOP_P;
    q.sampling.top_p = 0;
    assert_int_equal(vl_request_submit(g.e, &q, g.q, NULL, &r, field, &err), VL_E_INVALID);
    assert_string_equal(field, "top_p");
    q = p;
    q.stop_ids = &id;
    q.n_stop_ids = 1;
    assert_int_equal(vl_request_submit(g.e, &q, g.q, NULL, &r, field, &err), VL_E_INVALID);
    assert_string_equal(field, "stop_token_ids");
    eng_close(&g);
}

/* ---- masks ---- */

struct digits {
    int left;
};
static _Atomic int factories_freed, states_now;
static bool broken;

static void *digits_create(void *factory, uint32_t choice)
{
    struct digits *d = calloc(1, sizeof *d);
    d->left = *(int *)factory + (int)choice;
    states_now++;
    return d;
}
static void digits_destroy(void *state)
{
    states_now--;
    free(state);
}
static int digits_mask(void *state, int32_t parser_state, uint32_t *mask, size_t n_words,
                       bool *free_run, vl_error *err)
{
    struct digits *d = state;
    (void)free_run;
    if (parser_state == VL_CHAT_REASONING)
        return 0;
    if (d->left < -100)
        return vl_error_set(err, VL_E_UNSUPPORTED, "no digits today"), -1;
    broken |= n_words * 32 < FAKE_ROWS;
    for (int32_t id = '0'; id <= '9'; id++)
        mask[id / 32] |= 1u << (id % 32);
    return 1;
}
static int digits_accept(void *state, int32_t parser_state, int32_t id)
{
    struct digits *d = state;
    if (parser_state == VL_CHAT_REASONING)
        return 0;
    broken |= id < '0' || id > '9'; /* on the engine's thread: told later */
    return --d->left == 0;
}
static void digits_free(void *factory)
{
    (void)factory;
    factories_freed++;
}
static const struct vl_mask_api digits_api = {digits_create, digits_destroy, digits_mask,
                                              digits_accept, digits_free};

static void test_mask_rules_every_token_and_ends_the_answer(void **state)
{
    struct eng g = {.p = {.max_sequences = 4}};
    struct run x, other;
    vl_piece a, b;
    int n = 6;
    (void)state;

    factories_freed = states_now = 0;
    g.settings[0] = "step_ids=3";
    eng_open(&g);
    struct vl_request_params p = text_params("say:a text with 1 digit;", &a);
    struct vl_request_params q = text_params("say:free text beside it;", &b);
    p.mask = &digits_api;
    p.mask_factory = &n;
    p.n = 2;
    run_start(&g, &x, &p);
    run_start(&g, &other, &q);
    run_wait(&g, &x);
    run_wait(&g, &other);
    assert_true(x.done);
    assert_int_equal(strlen(run_content(&x, 0)), 6);
    assert_int_equal(strlen(run_content(&x, 1)), 7);
    assert_int_equal(strspn(run_content(&x, 0), "0123456789"), 6);
    assert_int_equal(x.a[0].finish, VL_FINISH_STOP);
    assert_string_equal(run_content(&other, 0), "free text beside it");
    assert_int_equal(eng_counts(&g).masked_rows, 13);
    run_free(&x);
    run_free(&other);
    /* With a thought before it, which is free. */
    p = chat_params("{\"enable_thinking\":true,\"messages\":[{\"role\":\"user\",\"content\":\"say:"
                    "free</think>xyz;\"}]}");
    p.mask = &digits_api;
    p.mask_factory = &n;
    run_params(&g, &x, &p);
    assert_string_equal(x.a[0].reasoning.ptr, "free");
    assert_int_equal(strlen(run_content(&x, 0)), 6);
    run_free(&x);
    n = -200; /* a provider that fails */
    run_start(&g, &x, &p);
    run_wait(&g, &x);
    assert_int_equal(x.err.status, VL_E_UNSUPPORTED);
    run_free(&x);
    eng_close(&g);
    assert_int_equal(factories_freed, 3);
    assert_int_equal(states_now, 0);
    assert_false(broken);
}

static void test_special_tokens_shown_when_asked(void **state)
{
    struct eng g = {0};
    struct run x;
    vl_piece piece;
    (void)state;

    eng_open(&g);
    struct vl_request_params p = text_params("say:a<think>b<|end|>c;", &piece);
    p.flags = VL_REQUEST_IGNORE_EOS;
    p.max_tokens = 3;
    run_params(&g, &x, &p);
    assert_string_equal(run_content(&x, 0), "a<think>b");
    run_free(&x);
    eng_close(&g);
}

static void test_output_ends_within_a_character_as_replacement(void **state)
{
    struct eng g = {0};
    struct run x;
    vl_piece piece;
    (void)state;

    eng_open(&g);
    struct vl_request_params p = text_params("say:ab\xe2\x82\xac;", &piece);
    p.max_tokens = 4;
    p.n_logprobs = 0;
    run_params(&g, &x, &p);
    assert_string_equal(run_content(&x, 0), "ab\xef\xbf\xbd");
    assert_int_equal(x.a[0].n_tokens, 4);
    run_free(&x);
    eng_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_string_cuts_exactly_and_counts_its_tokens),
        cmocka_unit_test(test_stop_string_is_for_content_unless_raw),
        cmocka_unit_test(test_chat_reasoning_calls_and_one_call),
        cmocka_unit_test(test_chat_error_comes_with_its_field),
        cmocka_unit_test(test_thinking_budget_closes_the_thought),
        cmocka_unit_test(test_logprobs_are_those_of_the_tokens),
        cmocka_unit_test(test_prompt_logprobs_cover_the_prompt),
        cmocka_unit_test(test_n_answers_read_the_prompt_once),
        cmocka_unit_test(test_bias_bans_and_min_tokens),
        cmocka_unit_test(test_submit_wrong_parameters_name_the_field),
        cmocka_unit_test(test_mask_rules_every_token_and_ends_the_answer),
        cmocka_unit_test(test_special_tokens_shown_when_asked),
        cmocka_unit_test(test_output_ends_within_a_character_as_replacement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
