/* Events to answers: the same events give one text, streamed or whole; the rules on chunks that
 * clients depend on; errors. */
#include "tests/unit/vl_test.h"

#include <math.h>

#include "host/server/api.h"

static const char *const token_text[] = {"He", "llo", "\xe2\x82", "\xac"};
static vl_bytes token(const void *user, int32_t id)
{
    (void)user;
    return (vl_bytes){token_text[id], strlen(token_text[id])};
}

static void start(vl_answer *a, bool chat, bool stream, bool usage, int32_t n_top, uint32_t n)
{
    vl_api_request r = {
        .stream = stream, .include_usage = usage, .include_reasoning = true, .n_top = n_top};
    assert_true(vl_answer_init(a, chat, &r, n, "mod\"el"));
    a->token = token;
}

static void text(vl_answer *a, uint32_t choice, int32_t kind, uint32_t call, const char *s,
                 vl_buf *out)
{
    vl_event ev = {
        .kind = VL_EVENT_TEXT, .text_kind = kind, .call = call, .text = s, .text_len = strlen(s)};
    vl_answer_event(a, choice, &ev, out);
}

static void end(vl_answer *a, uint32_t choice, int32_t finish, const char *stop, vl_buf *out)
{
    vl_event ev = {.kind = VL_EVENT_CHOICE_END,
                   .finish = finish,
                   .stop_id = stop ? -1 : 9,
                   .text = stop,
                   .text_len = stop ? strlen(stop) : 0};
    vl_answer_event(a, choice, &ev, out);
    vl_event done = {.kind = VL_EVENT_DONE,
                     .usage = {.prompt_tokens = 10,
                               .cached_tokens = 4,
                               .completion_tokens = 5,
                               .reasoning_tokens = 2}};
    vl_answer_usage(a, &done);
}

static void play(vl_answer *a, vl_buf *out)
{
    text(a, 0, VL_TEXT_KIND_REASONING, 0, "hm", out);
    text(a, 0, VL_TEXT_KIND_CONTENT, 0, "He", out);
    text(a, 0, VL_TEXT_KIND_CONTENT, 0, "", out);
    text(a, 0, VL_TEXT_KIND_CONTENT, 0, "llo\n\"", out);
    text(a, 0, VL_TEXT_KIND_CALL, 0, "f", out);
    text(a, 0, VL_TEXT_KIND_ARGUMENTS, 0, "{\"a\":", out);
    text(a, 0, VL_TEXT_KIND_ARGUMENTS, 0, "1}", out);
    text(a, 0, VL_TEXT_KIND_CALL_END, 0, "", out);
    end(a, 0, VL_FINISH_TOOL_CALLS, NULL, out);
    vl_answer_finish(a, out);
}

/* The JSON must parse; returns its document over *text, which the caller keeps. */
static vl_json_doc doc_of(const char *s, size_t len)
{
    vl_json_doc doc;
    vl_error err = {0};
    if (vl_json_parse(&doc, s, len, 32, 0, &err) != VL_OK)
        fail_msg("%s in %.*s", err.text, (int)len, s);
    return doc;
}

static vl_json at(vl_json o, const char *path)
{
    char key[64];
    while (*path) {
        size_t n = strcspn(path, ".");
        memcpy(key, path, n);
        key[n] = 0;
        o = key[0] >= '0' && key[0] <= '9' ? vl_json_at(o, (size_t)(key[0] - '0'))
                                           : vl_json_get(o, key);
        path += n + (path[n] == '.');
    }
    return o;
}

static void test_chat_whole_has_every_field(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT;
    start(&a, true, false, false, -1, 1);
    play(&a, &out);
    vl_json_doc doc = doc_of(out.ptr, out.len);
    vl_json o = vl_json_root(&doc);
    assert_true(vl_json_str_eq(at(o, "object"), "chat.completion"));
    assert_true(vl_json_str_eq(at(o, "model"), "mod\"el"));
    assert_true(vl_json_str_eq(at(o, "choices.0.message.content"), "Hello\n\""));
    assert_true(vl_json_str_eq(at(o, "choices.0.message.reasoning_content"), "hm"));
    assert_true(
        vl_json_str_eq(at(o, "choices.0.message.tool_calls.0.function.arguments"), "{\"a\":1}"));
    assert_true(vl_json_str_eq(at(o, "choices.0.finish_reason"), "tool_calls"));
    assert_true(vl_json_is(at(o, "choices.0.stop_reason"), VL_JSON_NULL)); /* the model's own end */
    assert_true(vl_json_is(at(o, "choices.0.logprobs"), VL_JSON_NULL));
    int64_t n;
    assert_true(vl_json_i64(at(o, "usage.total_tokens"), &n) && n == 15);
    assert_true(vl_json_i64(at(o, "usage.prompt_tokens_details.cached_tokens"), &n) && n == 4);
    assert_true(vl_json_i64(at(o, "usage.completion_tokens_details.reasoning_tokens"), &n) &&
                n == 2);
    vl_json_doc_fini(&doc);
    vl_answer_fini(&a);
    vl_buf_fini(&out);
}

static void test_chat_whole_leaves_out_what_is_not_there(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT;
    start(&a, true, false, false, -1, 1);
    end(&a, 0, VL_FINISH_LENGTH, NULL, &out);
    vl_answer_finish(&a, &out);
    vl_json_doc doc = doc_of(out.ptr, out.len);
    vl_json m = at(vl_json_root(&doc), "choices.0.message");
    assert_true(vl_json_str_eq(vl_json_get(m, "content"), ""));
    assert_false(vl_json_exists(vl_json_get(m, "tool_calls")));
    assert_false(vl_json_exists(vl_json_get(m, "reasoning_content")));
    assert_true(vl_json_is(vl_json_get(m, "refusal"), VL_JSON_NULL));
    vl_json_doc_fini(&doc);
    vl_answer_fini(&a);
    vl_buf_fini(&out);
}

/* One event at a time off the front of a stream; NULL at its end. */
static const char *next_event(const char *s, size_t *len)
{
    if (!*s)
        return NULL;
    assert_int_equal(strncmp(s, "data: ", 6), 0);
    const char *stop = strstr(s, "\n\n");
    assert_non_null(stop);
    *len = (size_t)(stop - s - 6);
    assert_null(memchr(s + 6, '\n', *len));
    return stop + 2;
}

static void test_chat_stream_keeps_the_rules(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT, content = VL_BUF_INIT, arguments = VL_BUF_INIT;
    int n = 0, n_ids = 0, n_finish = 0;
    bool done = false;
    start(&a, true, true, true, -1, 1);
    play(&a, &out);
    size_t len;
    for (const char *s = out.ptr, *next; (next = next_event(s, &len)); s = next, n++) {
        if (len == 6 && memcmp(s + 6, "[DONE]", 6) == 0) {
            assert_int_equal(*next, 0);
            done = true;
            break;
        }
        vl_json_doc doc = doc_of(s + 6, len);
        vl_json o = vl_json_root(&doc), c = at(o, "choices.0"), d = vl_json_get(c, "delta");
        assert_false(vl_json_exists(vl_json_get(o, "error")));
        assert_true(vl_json_str_eq(at(o, "object"), "chat.completion.chunk"));
        if (n == 0) {
            assert_true(vl_json_str_eq(at(d, "role"), "assistant") &&
                        vl_json_str_eq(at(d, "content"), ""));
        } else if (vl_json_exists(c)) {
            assert_true(vl_json_count(d) <= 1); /* one kind a delta */
            vl_json_str(vl_json_get(d, "content"), &content);
            vl_json call = at(d, "tool_calls.0");
            n_ids += vl_json_exists(vl_json_get(call, "id"));
            assert_true(!vl_json_exists(call) || vl_json_exists(vl_json_get(call, "index")));
            vl_json_str(at(call, "function.arguments"), &arguments);
            n_finish += vl_json_is(vl_json_get(c, "finish_reason"), VL_JSON_STRING);
            assert_true(vl_json_is(at(o, "usage"), VL_JSON_NULL));
        } else {
            assert_true(vl_json_is(at(o, "usage"), VL_JSON_OBJECT));
        }
        vl_json_doc_fini(&doc);
    }
    assert_true(done);
    assert_string_equal(content.ptr, "Hello\n\"");
    assert_string_equal(arguments.ptr, "{\"a\":1}");
    assert_int_equal(n_ids, 1);
    assert_int_equal(n_finish, 1);
    vl_answer_fini(&a);
    vl_buf_fini(&out);
    vl_buf_fini(&content);
    vl_buf_fini(&arguments);
}

static void test_stream_usage_only_when_asked(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT;
    start(&a, true, true, false, -1, 1);
    play(&a, &out);
    assert_null(strstr(out.ptr, "\"usage\""));
    assert_null(strstr(out.ptr, "\"choices\":[]"));
    vl_answer_fini(&a);
    vl_buf_fini(&out);
}

static void token_text_event(vl_answer *a, const char *s, int32_t id, float logprob, vl_buf *out)
{
    vl_logprob top[2] = {{0, -0.5f}, {1, -INFINITY}};
    struct vl_event_token t = {.id = id, .logprob = logprob, .top = top, .n_top = 2};
    vl_event ev = {.kind = VL_EVENT_TEXT,
                   .text_kind = VL_TEXT_KIND_CONTENT,
                   .text = s,
                   .text_len = strlen(s),
                   .tokens = &t,
                   .n_tokens = 1};
    vl_answer_event(a, 0, &ev, out);
}

static void test_logprobs_entries_wait_for_their_text(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        vl_answer a;
        vl_buf out = VL_BUF_INIT;
        start(&a, true, stream, false, 2, 1);
        token_text_event(&a, "He", 0, -0.25f, &out);
        token_text_event(&a, "", 2, -INFINITY, &out); /* half a character: no chunk yet */
        size_t chunks_before = out.len;
        token_text_event(&a, "\xe2\x82\xac", 3, -1, &out);
        assert_true(!stream || out.len > chunks_before);
        end(&a, 0, VL_FINISH_STOP, "x", &out);
        vl_answer_finish(&a, &out);
        const char *euro = strstr(out.ptr, "[226,130],\"top_logprobs\"");
        assert_non_null(euro);
        assert_non_null(strstr(out.ptr, "\"logprob\":-9999.0"));
        assert_non_null(strstr(out.ptr, "\"stop_reason\":\"x\""));
        assert_non_null(strstr(out.ptr, "{\"token\":\"He\",\"logprob\":-0.25,\"bytes\":[72,101],"
                                        "\"top_logprobs\":[{\"token\":\"He\","
                                        "\"logprob\":-0.5,\"bytes\":[72,101]},"));
        vl_answer_fini(&a);
        vl_buf_fini(&out);
    }
}

static void test_completion_whole_and_stream(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        vl_answer a;
        vl_buf out = VL_BUF_INIT;
        start(&a, false, stream, false, 1, 2);
        token_text_event(&a, "He", 0, -0.25f, &out);
        token_text_event(&a, "llo", 1, -0.5f, &out);
        text(&a, 1, VL_TEXT_KIND_CONTENT, 0, "other", &out);
        end(&a, 1, VL_FINISH_LENGTH, NULL, &out);
        end(&a, 0, VL_FINISH_STOP, NULL, &out);
        vl_answer_finish(&a, &out);
        assert_null(strstr(out.ptr, "chat"));
        assert_null(strstr(out.ptr, "delta"));
        assert_non_null(strstr(out.ptr, "\"object\":\"text_completion\""));
        if (stream) {
            assert_non_null(strstr(out.ptr, "{\"index\":1,\"text\":\"other\","));
            assert_non_null(strstr(out.ptr, "\"text_offset\":[2]"));
        } else {
            vl_json_doc doc = doc_of(out.ptr, out.len);
            vl_json o = vl_json_root(&doc);
            assert_true(vl_json_str_eq(at(o, "choices.0.text"), "Hello"));
            assert_true(vl_json_str_eq(at(o, "choices.0.logprobs.tokens.1"), "llo"));
            assert_true(vl_json_str_eq(at(o, "choices.1.text"), "other"));
            assert_true(vl_json_str_eq(at(o, "choices.1.finish_reason"), "length"));
            vl_json_doc_fini(&doc);
        }
        vl_answer_fini(&a);
        vl_buf_fini(&out);
    }
}

static void test_errors_map_to_status_and_form(void **state)
{
    (void)state;
    static const struct {
        vl_status status;
        int http;
        const char *word;
    } cases[] = {
        {VL_E_INVALID, 400, "invalid_request_error"}, {VL_E_BUSY, 429, "rate_limit_exceeded"},
        {VL_E_STATE, 503, "unavailable_error"},       {VL_E_NOMEM, 503, "unavailable_error"},
        {VL_E_INTERNAL, 500, "server_error"},         {VL_E_DEVICE, 503, "unavailable_error"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vl_error err = {cases[i].status, "a \"quoted\" text"};
        vl_api_error e = {0};
        vl_buf out = VL_BUF_INIT;
        vl_api_error_from(&e, &err, "messages[1]", 0, 0);
        assert_int_equal(e.status, cases[i].http);
        vl_api_error_json(&e, &out);
        vl_json_doc doc = doc_of(out.ptr, out.len);
        assert_true(vl_json_is(at(vl_json_root(&doc), "error.message"), VL_JSON_STRING));
        assert_non_null(strstr(out.ptr, cases[i].word));
        vl_json_doc_fini(&doc);
        vl_buf_fini(&out);
    }
    vl_error err = {VL_E_RANGE, "x"};
    vl_api_error e = {0};
    vl_buf out = VL_BUF_INIT;
    vl_api_error_from(&e, &err, "", 500, 256);
    vl_api_error_json(&e, &out);
    assert_non_null(strstr(
        out.ptr,
        "maximum context length is 256 tokens. However, your messages resulted in 500 tokens."));
    assert_non_null(strstr(
        out.ptr, "\"code\":\"context_length_exceeded\",\"n_prompt_tokens\":500,\"n_ctx\":256"));
    vl_buf_fini(&out);
}

/* What the model wrote, with the opening that stood in the prompt. */
static void test_inline_thought_stands_in_content(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT;
    start(&a, true, false, false, -1, 1);
    a.reasoning_field = VL_FIELD_REASONING_INLINE;
    play(&a, &out);
    vl_json_doc doc = doc_of(out.ptr, out.len);
    vl_json o = vl_json_root(&doc);
    assert_true(
        vl_json_str_eq(at(o, "choices.0.message.content"), "<think>\nhm\n</think>\n\nHello\n\""));
    assert_false(vl_json_exists(at(o, "choices.0.message.reasoning_content")));
    vl_json_doc_fini(&doc);
    vl_answer_fini(&a);
    vl_buf_clear(&out);

    start(&a, true, true, false, -1, 1); /* a thought that a call ends, streamed */
    a.reasoning_field = VL_FIELD_REASONING_INLINE;
    text(&a, 0, VL_TEXT_KIND_REASONING, 0, "hm", &out);
    text(&a, 0, VL_TEXT_KIND_CALL, 0, "f", &out);
    end(&a, 0, VL_FINISH_TOOL_CALLS, NULL, &out);
    assert_null(strstr(out.ptr, "reasoning"));
    const char *opened = strstr(out.ptr, "{\"content\":\"<think>\\n\"}");
    const char *thought = strstr(out.ptr, "{\"content\":\"hm\"}");
    const char *closed = strstr(out.ptr, "{\"content\":\"\\n</think>\\n\\n\"}");
    const char *call = strstr(out.ptr, "tool_calls\":[");
    assert_true(opened && thought && closed && call);
    assert_true(opened < thought && thought < closed && closed < call);
    vl_answer_fini(&a);
    vl_buf_fini(&out);
}

/* The prompt's entries come last and stand first, and the offsets go on behind it. */
static void test_echo_logprobs_of_prompt_stand_first(void **state)
{
    (void)state;
    vl_answer a;
    vl_buf out = VL_BUF_INIT;
    start(&a, false, false, false, 0, 1);
    vl_answer_echo(&a, 0, "He\xe2\x82\xac", 5, &out);
    struct vl_event_token said = {.id = 1, .logprob = -0.5f};
    vl_event ev = {.kind = VL_EVENT_TEXT,
                   .text_kind = VL_TEXT_KIND_CONTENT,
                   .text = "llo",
                   .text_len = 3,
                   .tokens = &said,
                   .n_tokens = 1};
    vl_answer_event(&a, 0, &ev, &out);
    struct vl_event_token prompt[] = {
        {.id = 0, .logprob = NAN}, {.id = 2, .logprob = -1}, {.id = 3, .logprob = -2}};
    vl_event done = {.kind = VL_EVENT_DONE, .tokens = prompt, .n_tokens = 3};
    vl_answer_prompt_logprobs(&a, 0, &done);
    end(&a, 0, VL_FINISH_LENGTH, NULL, &out);
    vl_answer_finish(&a, &out);
    assert_non_null(strstr(out.ptr, "\"text\":\"He\xe2\x82\xacllo\""));
    assert_non_null(strstr(out.ptr, "\"token_logprobs\":[null,-1.0,-2.0,-0.5]"));
    assert_non_null(strstr(out.ptr, "\"top_logprobs\":[null,{},{},{}]"));
    assert_non_null(strstr(out.ptr, "\"text_offset\":[0,2,3,3]"));
    vl_answer_fini(&a);
    vl_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_whole_has_every_field),
        cmocka_unit_test(test_chat_whole_leaves_out_what_is_not_there),
        cmocka_unit_test(test_chat_stream_keeps_the_rules),
        cmocka_unit_test(test_stream_usage_only_when_asked),
        cmocka_unit_test(test_logprobs_entries_wait_for_their_text),
        cmocka_unit_test(test_completion_whole_and_stream),
        cmocka_unit_test(test_errors_map_to_status_and_form),
        cmocka_unit_test(test_inline_thought_stands_in_content),
        cmocka_unit_test(test_echo_logprobs_of_prompt_stand_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
