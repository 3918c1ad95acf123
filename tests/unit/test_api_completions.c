/* Bodies of text completions to requests. */
#include "tests/unit/vl_test.h"

#include "host/server/api.h"

static const vl_api_limits limits = {16, 64};

static bool parse(vl_api_request *r, const char *body, vl_api_error *e)
{
    return vl_api_completion_parse(r, body, strlen(body), &limits, NULL, NULL, e);
}

static void test_prompts_all_four_forms(void **state)
{
    (void)state;
    vl_api_request r;
    vl_api_error e = {0};
    assert_true(parse(&r, "{\"prompt\":\"a\\nb\"}", &e));
    assert_int_equal(r.n_prompts, 1);
    assert_string_equal(r.prompts[0].text.ptr, "a\nb");
    assert_int_equal(r.params.max_tokens, 16);
    vl_api_request_fini(&r);
    assert_true(parse(&r, "{\"prompt\":[\"a\",\"b\"],\"max_tokens\":3}", &e));
    assert_int_equal(r.n_prompts, 2);
    assert_string_equal(r.prompts[1].text.ptr, "b");
    assert_int_equal(r.params.max_tokens, 3);
    vl_api_request_fini(&r);
    assert_true(parse(&r, "{\"prompt\":[5,6,7]}", &e));
    assert_int_equal(r.n_prompts, 1);
    assert_int_equal(r.prompts[0].n_ids, 3);
    assert_int_equal(r.prompts[0].ids[2], 7);
    vl_api_request_fini(&r);
    assert_true(parse(&r, "{\"prompt\":[[5],[6,7]],\"echo\":true,\"best_of\":1}", &e));
    assert_int_equal(r.n_prompts, 2);
    assert_int_equal(r.prompts[1].n_ids, 2);
    assert_true(r.echo);
    vl_api_request_fini(&r);
}

static void test_wrong_fields_refused_by_name(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"{}", "prompt"},
                                         {"{\"prompt\":\"\"}", "prompt"},
                                         {"{\"prompt\":[]}", "prompt"},
                                         {"{\"prompt\":[[]]}", "prompt"},
                                         {"{\"prompt\":[1,\"a\"]}", "prompt"},
                                         {"{\"prompt\":[1.5]}", "prompt"},
                                         {"{\"prompt\":[-1]}", "prompt"},
                                         {"{\"prompt\":[null]}", "prompt"},
                                         {"{\"prompt\":5}", "prompt"},
                                         {"{\"prompt\":\"a\",\"best_of\":2}", "best_of"},
                                         {"{\"prompt\":\"a\",\"logprobs\":true}", "logprobs"},
                                         {"{\"prompt\":\"a\",\"logprobs\":21}", "logprobs"},
                                         {"{\"prompt\":\"a\",\"echo\":1}", "echo"},
                                         {"{\"prompt\":\"a\",\"echo\":true,\"logprobs\":1,"
                                          "\"stream\":true}",
                                          "echo"},
                                         {"{\"prompt\":\"a\",\"suffix\":1}", "suffix"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vl_api_request r;
        vl_api_error e = {0};
        if (parse(&r, bad[i][0], &e))
            fail_msg("%s was taken", bad[i][0]);
        assert_int_equal(e.status, 400);
        assert_string_equal(e.param, bad[i][1]);
        vl_api_request_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts_all_four_forms),
        cmocka_unit_test(test_wrong_fields_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
