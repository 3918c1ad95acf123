/* Chat bodies to requests: fields, ranges, refusals that name the field, and mutated bodies. */
#include "tests/unit/vl_test.h"

#include "host/server/api.h"

static const vl_api_limits limits = {16, 64};
#define M "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

static char unknown_name[64], unknown_near[64];
static void on_unknown(void *user, const char *name, const char *near)
{
    (*(int *)user)++;
    snprintf(unknown_name, sizeof unknown_name, "%s", name);
    snprintf(unknown_near, sizeof unknown_near, "%s", near ? near : "");
}

static bool parse(vl_api_request *r, const char *body, vl_api_error *e)
{
    return vl_api_chat_parse(r, body, strlen(body), &limits, NULL, NULL, e);
}

static void test_minimal_gets_neutral_values(void **state)
{
    (void)state;
    vl_api_request r;
    vl_api_error e = {0};
    const char *body = "{" M "}";
    assert_true(parse(&r, body, &e));
    assert_int_equal(r.params.sampling.set, 0);
    assert_int_equal(r.params.n, 1);
    assert_int_equal(r.params.n_logprobs, -1);
    assert_int_equal(r.params.thinking_budget, -1);
    assert_int_equal(r.params.max_tokens, 0);
    assert_int_equal(r.params.flags, VL_REQUEST_CLAMP_MAX);
    assert_false(r.stream);
    assert_true(r.include_reasoning);
    assert_ptr_equal(r.params.chat_json.ptr, body);
    vl_api_request_fini(&r);
}

static void test_every_field_reaches_the_request(void **state)
{
    (void)state;
    vl_api_request r;
    vl_api_error e = {0};
    assert_true(parse(
        &r,
        "{" M
        ",\"model\":\"x\\u0041\",\"temperature\":0.5,\"top_p\":0.25,\"top_k\":7,\"min_p\":0.125,"
        "\"repetition_penalty\":1.5,\"frequency_penalty\":-2,\"presence_penalty\":2,\"seed\":-9,"
        "\"max_tokens\":9,\"max_completion_tokens\":5,\"min_tokens\":2,\"n\":3,\"stop\":[\"a\","
        "\"\",\"b\\n\"],"
        "\"stop_token_ids\":[4,5],\"logit_bias\":{\"7\":-100,\"8\":0.5},\"logprobs\":true,\"top_"
        "logprobs\":4,"
        "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"ignore_eos\":true,"
        "\"include_stop_str_in_output\":true,\"skip_special_tokens\":false,\"parallel_tool_calls\":"
        "false,"
        "\"thinking_token_budget\":11,\"include_reasoning\":false}",
        &e));
    const struct vl_request_params *p = &r.params;
    assert_string_equal(r.model.ptr, "xA");
    assert_int_equal(p->sampling.set, 255);
    assert_true(p->sampling.temperature == 0.5 && p->sampling.top_p == 0.25 &&
                p->sampling.min_p == 0.125);
    assert_true(p->sampling.repetition_penalty == 1.5 && p->sampling.frequency_penalty == -2);
    assert_int_equal(p->sampling.top_k, 7);
    assert_int_equal(p->sampling.seed, -9);
    assert_int_equal(p->max_tokens, 5);
    assert_int_equal(p->min_tokens, 2);
    assert_int_equal(p->n, 3);
    assert_int_equal(p->n_stops, 2);
    assert_memory_equal(p->stops[0].ptr, "a", 1);
    assert_int_equal(p->stops[1].len, 2);
    assert_memory_equal(p->stops[1].ptr, "b\n", 2);
    assert_int_equal(p->n_stop_ids, 2);
    assert_int_equal(p->stop_ids[1], 5);
    assert_int_equal(p->n_bias, 2);
    assert_int_equal(p->bias[0].id, 7);
    assert_true(p->bias[1].bias == 0.5f);
    assert_int_equal(p->n_logprobs, 4);
    assert_int_equal(p->thinking_budget, 11);
    assert_int_equal(p->flags, VL_REQUEST_CLAMP_MAX | VL_REQUEST_IGNORE_EOS |
                                   VL_REQUEST_INCLUDE_STOP | VL_REQUEST_KEEP_SPECIAL |
                                   VL_REQUEST_ONE_CALL);
    assert_true(r.stream && r.include_usage && !r.include_reasoning);
    vl_api_request_fini(&r);
}

static void test_reasoning_format_chooses_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int32_t field;
    } table[] = {{"{" M "}", -1},
                 {"{" M ",\"reasoning_format\":\"auto\"}", -1},
                 {"{" M ",\"reasoning_format\":\"none\"}", VL_FIELD_REASONING_INLINE},
                 {"{" M ",\"reasoning_format\":\"deepseek\"}", VL_FIELD_REASONING_CONTENT}};
    vl_api_request r;
    vl_api_error e = {0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_true(parse(&r, table[i].body, &e));
        assert_int_equal(r.reasoning_field, table[i].field);
        vl_api_request_fini(&r);
    }
    assert_false(parse(&r, "{" M ",\"reasoning_format\":\"loud\"}", &e));
    assert_string_equal(e.param, "reasoning_format");
    vl_api_request_fini(&r);
}

static void test_null_is_absent(void **state)
{
    (void)state;
    vl_api_request r;
    vl_api_error e = {0};
    assert_true(parse(
        &r,
        "{" M
        ",\"temperature\":null,\"stop\":null,\"stream\":null,\"stream_options\":null,\"n\":null,"
        "\"max_tokens\":null,\"logit_bias\":null,\"tools\":null,\"tool_choice\":null,\"audio\":"
        "null,"
        "\"response_format\":null,\"modalities\":null,\"seed\":null,\"model\":null}",
        &e));
    assert_int_equal(r.params.sampling.set, 0);
    assert_false(r.has_model);
    vl_api_request_fini(&r);
}

static void test_wrong_fields_refused_by_name(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"\"temperature\":5.1", "temperature"},
        {"\"temperature\":-0.1", "temperature"},
        {"\"temperature\":true", "temperature"},
        {"\"top_p\":0", "top_p"},
        {"\"top_p\":1.01", "top_p"},
        {"\"top_k\":1.5", "top_k"},
        {"\"n\":0", "n"},
        {"\"n\":17", "n"},
        {"\"max_tokens\":0", "max_tokens"},
        {"\"max_tokens\":-2", "max_tokens"},
        {"\"max_tokens\":\"10\"", "max_tokens"},
        {"\"max_completion_tokens\":1.5", "max_completion_tokens"},
        {"\"seed\":9223372036854775808", "seed"},
        {"\"stop\":[5]", "stop"},
        {"\"stop\":{}", "stop"},
        {"\"logit_bias\":{\"x\":1}", "logit_bias"},
        {"\"logit_bias\":{\"-1\":1}", "logit_bias"},
        {"\"logit_bias\":{\"5\":101}", "logit_bias"},
        {"\"logit_bias\":{\"5\":\"x\"}", "logit_bias"},
        {"\"logit_bias\":[]", "logit_bias"},
        {"\"logprobs\":1", "logprobs"},
        {"\"top_logprobs\":3", "top_logprobs"},
        {"\"logprobs\":true,\"top_logprobs\":21", "top_logprobs"},
        {"\"stream\":\"yes\"", "stream"},
        {"\"stream\":true,\"stream_options\":[]", "stream_options"},
        {"\"stream\":true,\"stream_options\":{\"include_usage\":1}", "stream_options"},
        {"\"response_format\":\"json\"", "response_format"},
        {"\"response_format\":{\"type\":\"x\"}", "response_format"},
        {"\"tools\":{}", "tools"},
        {"\"tool_choice\":\"always\"", "tool_choice"},
        {"\"tool_choice\":\"required\"", "tool_choice"},
        {"\"parallel_tool_calls\":1", "parallel_tool_calls"},
        {"\"modalities\":[\"audio\"]", "modalities"},
        {"\"audio\":{}", "audio"},
        {"\"web_search_options\":{}", "web_search_options"},
        {"\"chat_template\":\"x\"", "chat_template"},
        {"\"model\":5", "model"},
        {"\"stop_token_ids\":[-1]", "stop_token_ids"},
        {"\"thinking_token_budget\":-2", "thinking_token_budget"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vl_api_request r;
        vl_api_error e = {0};
        vl_buf body = VL_BUF_INIT;
        vl_buf_printf(&body, "{" M ",%s}", bad[i][0]);
        if (parse(&r, body.ptr, &e))
            fail_msg("%s was taken", bad[i][0]);
        assert_int_equal(e.status, 400);
        if (strcmp(e.param, bad[i][1]) != 0)
            fail_msg("%s: param is '%s'", bad[i][0], e.param);
        assert_true(e.message[0] != 0);
        vl_api_request_fini(&r);
        vl_buf_fini(&body);
    }
}

static void test_bodies_no_object_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "[]",
                                      "5",
                                      "null",
                                      "\"x\"",
                                      "{}",
                                      "{\"messages\":[]}",
                                      "{\"messages\":5}",
                                      "{" M "}x",
                                      "{\"messages\":NaN}",
                                      "{" M ",\"x\":\"\xff\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vl_api_request r;
        vl_api_error e = {0};
        assert_false(parse(&r, bad[i], &e));
        assert_int_equal(e.status, 400);
        vl_api_request_fini(&r);
    }
    vl_buf deep = VL_BUF_INIT;
    vl_buf_puts(&deep, "{" M ",\"metadata\":");
    for (int i = 0; i < 100000; i++)
        vl_buf_putc(&deep, '[');
    vl_api_request r;
    vl_api_error e = {0};
    assert_false(parse(&r, deep.ptr, &e));
    assert_int_equal(e.status, 400);
    vl_api_request_fini(&r);
    vl_buf_fini(&deep);
}

static void test_unknown_fields_told_with_the_near_one(void **state)
{
    (void)state;
    vl_api_request r;
    vl_api_error e = {0};
    int n = 0;
    const char *body = "{" M ",\"temperatur\":1,\"user\":\"u\"}";
    assert_true(vl_api_chat_parse(&r, body, strlen(body), &limits, on_unknown, &n, &e));
    assert_int_equal(n, 1);
    assert_string_equal(unknown_name, "temperatur");
    assert_string_equal(unknown_near, "temperature");
    vl_api_request_fini(&r);
}

/* Bytes of a good body changed, cut and doubled: taken or refused with a 4xx, never anything else.
 */
static void test_mutated_bodies_end_in_a_verdict(void **state)
{
    (void)state;
    const char *seed = "{" M ",\"temperature\":0.5,\"stop\":[\"a\",\"b\"],\"logit_bias\":{\"5\":1},"
                       "\"n\":2,\"stream\":true,"
                       "\"stream_options\":{\"include_usage\":true},\"tools\":[{}],\"tool_choice\":"
                       "\"auto\",\"seed\":1e3}";
    size_t n = strlen(seed);
    uint64_t x = 0x9e3779b97f4a7c15u;
    for (int round = 0; round < 50000; round++) {
        char text[1024];
        memcpy(text, seed, n);
        size_t len = n;
        for (int k = 0; k < 1 + round % 5; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            size_t at = (x >> 33) % len;
            static const char letters[] = "{}[]\",:0123456789-+eE.\\utrunl \xff";
            text[at] = letters[(x >> 20) % (sizeof letters - 1)];
            if (x % 97 == 0)
                len = at + 1;
        }
        char *exact = malloc(len); /* so that the sanitizer sees a read past the end */
        memcpy(exact, text, len);
        vl_api_request r;
        vl_api_error e = {0};
        if (!vl_api_chat_parse(&r, exact, len, &limits, NULL, NULL, &e)) {
            assert_int_equal(e.status, 400);
            vl_buf json = VL_BUF_INIT;
            vl_json_doc doc;
            vl_error err = {0};
            vl_api_error_json(&e, &json);
            assert_int_equal(vl_json_parse(&doc, json.ptr, json.len, 8, 0, &err), VL_OK);
            vl_json_doc_fini(&doc);
            vl_buf_fini(&json);
        }
        vl_api_request_fini(&r);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_minimal_gets_neutral_values),
        cmocka_unit_test(test_every_field_reaches_the_request),
        cmocka_unit_test(test_reasoning_format_chooses_the_field),
        cmocka_unit_test(test_null_is_absent),
        cmocka_unit_test(test_wrong_fields_refused_by_name),
        cmocka_unit_test(test_bodies_no_object_refused),
        cmocka_unit_test(test_unknown_fields_told_with_the_near_one),
        cmocka_unit_test(test_mutated_bodies_end_in_a_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
