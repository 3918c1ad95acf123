/* Events to answers made of items, in both forms that have such: the order of events that their
 * clients build a message from, and that a stream adds up to the whole answer. */
#include "tests/unit/vl_test.h"

#include "host/server/api_forms.h"

static void start(vl_answer *a, const struct vl_answer_form *form, bool stream)
{
    vl_api_request r = {.stream = stream, .include_reasoning = true, .n_top = -1};
    assert_true(vl_answer_init(a, true, &r, 1, "mod\"el"));
    assert_true(vl_items_init(a, form, NULL));
    a->request_id = "req-1";
}

static void text(vl_answer *a, int32_t kind, uint32_t call, const char *s, vl_buf *out)
{
    vl_event ev = {
        .kind = VL_EVENT_TEXT, .text_kind = kind, .call = call, .text = s, .text_len = strlen(s)};
    vl_answer_event(a, 0, &ev, out);
}

static void end(vl_answer *a, int32_t finish, const char *stop, vl_buf *out)
{
    const struct vl_usage usage = {
        .prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 5, .reasoning_tokens = 2};
    vl_event ev = {.kind = VL_EVENT_CHOICE_END,
                   .finish = finish,
                   .text = stop,
                   .text_len = stop ? strlen(stop) : 0};
    vl_event done = {.kind = VL_EVENT_DONE, .usage = usage};
    vl_answer_event(a, 0, &ev, out);
    vl_answer_usage(a, &done);
    vl_answer_finish(a, out);
}

static void play(vl_answer *a, vl_buf *out)
{
    vl_event started = {.kind = VL_EVENT_STARTED,
                        .usage = {.prompt_tokens = 10, .cached_tokens = 4}};
    vl_answer_event(a, 0, &started, out);
    text(a, VL_TEXT_KIND_REASONING, 0, "h", out);
    text(a, VL_TEXT_KIND_REASONING, 0, "m", out);
    text(a, VL_TEXT_KIND_CONTENT, 0, "", out);
    text(a, VL_TEXT_KIND_CONTENT, 0, "Loo", out);
    text(a, VL_TEXT_KIND_CONTENT, 0, "k\"", out);
    text(a, VL_TEXT_KIND_CALL, 0, "f", out);
    text(a, VL_TEXT_KIND_ARGUMENTS, 0, "{\"a\":", out);
    text(a, VL_TEXT_KIND_ARGUMENTS, 0, "1}", out);
    text(a, VL_TEXT_KIND_CALL_END, 0, "", out);
    text(a, VL_TEXT_KIND_CALL, 1, "g", out);
    text(a, VL_TEXT_KIND_ARGUMENTS, 1, "{}", out);
    text(a, VL_TEXT_KIND_CALL_END, 1, "", out);
    end(a, VL_FINISH_TOOL_CALLS, NULL, out);
}

/* The names of a stream's events; each data line must be JSON whose type is that name. */
static void names_of(const vl_buf *out, char *names, size_t cap)
{
    size_t used = 0;
    names[0] = 0;
    for (const char *at = out->ptr; at && *at;) {
        const char *data = strstr(at, "\ndata: "), *stop = strstr(at, "\n\n");
        assert_memory_equal(at, "event: ", 7);
        assert_true(data && stop && data < stop);
        int n = (int)(data - at) - 7;
        vl_json_doc doc = {0};
        vl_error err = {0};
        if (vl_json_parse(&doc, data + 7, (size_t)(stop - data - 7), 32, 0, &err) != VL_OK)
            fail_msg("%s in %.*s", err.text, (int)(stop - data), data);
        char type[64] = "";
        assert_true(vl_json_str_copy(vl_json_get(vl_json_root(&doc), "type"), type, sizeof type));
        assert_int_equal(strlen(type), n);
        assert_memory_equal(type, at + 7, n);
        vl_json_doc_fini(&doc);
        used += (size_t)snprintf(names + used, cap - used, "%.*s ", n, at + 7);
        assert_true(used < cap);
        at = stop + 2;
    }
}

static void has(const vl_buf *out, const char *part)
{
    if (!out->ptr || !strstr(out->ptr, part))
        fail_msg("no %s in %s", part, out->ptr ? out->ptr : "nothing");
}

static void test_messages_whole_has_blocks_in_order(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT;
    start(&a, &vl_form_messages, false);
    play(&a, &out);
    has(&out, "\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"vallmo\"},"
              "{\"type\":\"text\",\"text\":\"Look\\\"\"},{\"type\":\"tool_use\",\"id\":\"toolu_");
    has(&out, "\"name\":\"f\",\"input\":{\"a\":1}}");
    has(&out, "\"stop_reason\":\"tool_use\",\"stop_sequence\":null");
    has(&out, "\"usage\":{\"input_tokens\":6,\"cache_creation_input_tokens\":0,"
              "\"cache_read_input_tokens\":4,\"output_tokens\":5}");
    vl_buf_fini(&out);
    vl_answer_fini(&a);
}

static void test_messages_stream_has_the_fixed_order(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT;
    char names[1024];
    start(&a, &vl_form_messages, true);
    play(&a, &out);
    names_of(&out, names, sizeof names);
    assert_string_equal(
        names, "message_start content_block_start content_block_delta content_block_delta "
               "content_block_delta content_block_stop content_block_start content_block_delta "
               "content_block_delta content_block_stop content_block_start content_block_delta "
               "content_block_delta content_block_stop content_block_start content_block_delta "
               "content_block_stop message_delta message_stop ");
    has(&out, "\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":"
              "\"}");
    has(&out, "\"input_tokens\":6");
    vl_buf_fini(&out);
    vl_answer_fini(&a);
}

static void test_messages_cut_and_stopped_are_told_apart(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT;
    start(&a, &vl_form_messages, false);
    text(&a, VL_TEXT_KIND_CONTENT, 0, "x", &out);
    end(&a, VL_FINISH_STOP, "END", &out);
    has(&out, "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"END\"");
    vl_answer_fini(&a);
    vl_buf_clear(&out);
    start(&a, &vl_form_messages, false);
    text(&a, VL_TEXT_KIND_CALL, 0, "f", &out);
    text(&a, VL_TEXT_KIND_ARGUMENTS, 0, "{\"a\":\"b", &out);
    end(&a, VL_FINISH_LENGTH, NULL, &out);
    has(&out, "\"input\":{\"arguments\":\"{\\\"a\\\":\\\"b\"}");
    has(&out, "\"stop_reason\":\"max_tokens\"");
    vl_answer_fini(&a);
    vl_buf_fini(&out);
}

static void test_messages_errors_have_their_types(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *type;
    } table[] = {{400, "invalid_request_error"}, {401, "authentication_error"},
                 {404, "not_found_error"},       {413, "request_too_large"},
                 {429, "rate_limit_error"},      {500, "api_error"},
                 {503, "overloaded_error"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        vl_api_error e;
        vl_buf out = VL_BUF_INIT;
        char want[200];
        vl_api_fail(&e, table[i].status, NULL, "te\"xt");
        vl_api_error_messages_json(&e, "req-1", &out);
        snprintf(want, sizeof want,
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"te\\\"xt\"},"
                 "\"request_id\":\"req-1\"}",
                 table[i].type);
        assert_string_equal(out.ptr, want);
        vl_buf_fini(&out);
    }
}

static void test_responses_whole_has_items_in_order(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT;
    start(&a, &vl_form_responses, false);
    play(&a, &out);
    has(&out, "\"status\":\"completed\"");
    has(&out, "\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]}");
    has(&out, "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"Look\\\"\","
              "\"annotations\":[],\"logprobs\":[]}]}");
    has(&out, "\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}");
    has(&out, "\"input_tokens\":10,\"input_tokens_details\":{\"cached_tokens\":4}");
    has(&out, "\"total_tokens\":15");
    vl_buf_fini(&out);
    vl_answer_fini(&a);
}

static void test_responses_stream_has_typed_events(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT;
    char names[4096];
    start(&a, &vl_form_responses, true);
    text(&a, VL_TEXT_KIND_CONTENT, 0, "x", &out);
    text(&a, VL_TEXT_KIND_CALL, 0, "f", &out);
    text(&a, VL_TEXT_KIND_ARGUMENTS, 0, "{}", &out);
    text(&a, VL_TEXT_KIND_CALL_END, 0, "", &out);
    end(&a, VL_FINISH_LENGTH, NULL, &out);
    names_of(&out, names, sizeof names);
    assert_string_equal(
        names, "response.created response.in_progress response.output_item.added "
               "response.content_part.added response.output_text.delta response.output_text.done "
               "response.content_part.done response.output_item.done response.output_item.added "
               "response.function_call_arguments.delta response.function_call_arguments.done "
               "response.output_item.done response.incomplete ");
    has(&out, "\"sequence_number\":12,");
    has(&out, "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}");
    vl_buf_fini(&out);
    vl_answer_fini(&a);
}

static void test_streams_that_break_end_with_an_error(void **state)
{
    (void)state;
    static const struct vl_answer_form *const forms[] = {&vl_form_messages, &vl_form_responses};
    for (size_t i = 0; i < 2; i++) {
        vl_answer a;
        vl_buf out = VL_BUF_INIT;
        vl_api_error e;
        char names[512];
        start(&a, forms[i], true);
        text(&a, VL_TEXT_KIND_CONTENT, 0, "x", &out);
        vl_buf_clear(&out);
        vl_api_fail(&e, 500, NULL, "br\"oke");
        forms[i]->error(&a, &e, &out);
        names_of(&out, names, sizeof names);
        assert_string_equal(names, i ? "response.failed error " : "error ");
        has(&out, "\"error\":{");
        has(&out, "br\\\"oke");
        vl_buf_fini(&out);
        vl_answer_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_whole_has_blocks_in_order),
        cmocka_unit_test(test_messages_stream_has_the_fixed_order),
        cmocka_unit_test(test_messages_cut_and_stopped_are_told_apart),
        cmocka_unit_test(test_messages_errors_have_their_types),
        cmocka_unit_test(test_responses_whole_has_items_in_order),
        cmocka_unit_test(test_responses_stream_has_typed_events),
        cmocka_unit_test(test_streams_that_break_end_with_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
