/* unit.chat_torture: every allocation of a chat's life fails once; each time there is an error and
 * nothing leaks or breaks. */
#include "tests/unit/vl_cmocka.h"

#include <stdlib.h>
#include <string.h>

#include "plugins/qwen35/chat/chat.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

static long until_failure = -1; /* -1: none fails */

static int fails(void)
{
    return until_failure >= 0 && until_failure-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return fails() ? NULL : __real_realloc(ptr, size);
}

static int32_t find(const vl_tokenizer *t, const char *bytes, uint64_t len)
{
    (void)t;
    for (int i = 0; i < VL_N_TAGS; i++) {
        if (strlen(vl_chat_tags[i]) == len && memcmp(vl_chat_tags[i], bytes, len) == 0)
            return i;
    }
    return -1;
}

static const vl_tokenizer_api tokenizer = {.struct_size = sizeof(tokenizer), .find = find};

static const char request[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\\nb\"}, "
    "{\"type\": \"image\"}]}, "
    "{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"system\", \"content\": \"t\"}, "
    "{\"role\": \"assistant\", "
    "\"reasoning\": \"r\", \"tool_calls\": [{\"id\": \"x\", \"function\": {\"name\": \"f\", "
    "\"arguments\": \"{\\\"k\\\": [1.5]}\"}}, "
    "{\"id\": \"y\", \"function\": {\"name\": \"f\", \"arguments\": \"oops\"}}]}, {\"role\": "
    "\"tool\", \"tool_call_id\": \"y\", "
    "\"content\": \"1\"}, {\"role\": \"tool\", \"tool_call_id\": \"x\", \"content\": \"2\"}], "
    "\"tool_choice\": \"required\", "
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
    "{\"properties\": {\"k\": {\"$ref\": "
    "\"#/$defs/K\"}, \"s\": {\"type\": \"string\"}, \"e\": {\"enum\": [\"a\", \"b\"]}}, "
    "\"required\": [\"k\"], \"$defs\": {\"K\": "
    "{\"type\": \"array\"}}}}}], \"chat_template_kwargs\": {\"add_vision_id\": true}}";

static const struct {
    int32_t id;
    const char *text;
} output[] = {
    {9, "thought"},
    {VL_TAG_THINK_END, "</think>"},
    {9, "\n\nanswer\n"},
    {VL_TAG_TOOL, "<tool_call>"},
    {9, "\n<function=f>\n<parameter=k>\n['a', \"\\x41\"]\n</parameter>\n<parameter=s>\nx"},
    {9, "\ny\n</parameter>\n junk </function>\n"},
    {VL_TAG_TOOL_END, "</tool_call>"},
    {9, "\nrest"}};

static int32_t ignore(void *user, const vl_chat_event *e)
{
    (void)user;
    (void)e;
    return 0;
}

/* One whole life. Any status but OK and NOMEM would be a lie about what happened. */
static vl_status live(void)
{
    const vl_chat_api *api = &vl_qwen35_chat_api;
    vl_chat_params params = {.struct_size = sizeof(params),
                             .flags = VL_CHAT_MEDIA,
                             .format = "qwen3.5",
                             .default_kwargs = {"{\"enable_thinking\": true}", 25},
                             .tokenizer_api = &tokenizer};
    vl_chat *c = NULL;
    vl_chat_prompt *p = NULL;
    vl_chat_parser *parser = NULL;
    vl_chat_field field;
    vl_error err = {0};
    vl_status rc = api->create(NULL, &params, &c, &err);

    if (rc == VL_OK)
        rc = api->render(c, (vl_bytes){request, sizeof(request) - 1}, &p, &field, &err);
    if (rc == VL_OK)
        rc = api->parser_create(c, p, &parser, &err);
    for (size_t i = 0; rc == VL_OK && i < sizeof(output) / sizeof(output[0]); i++)
        rc = api->feed(parser, output[i].id, (vl_bytes){output[i].text, strlen(output[i].text)},
                       ignore, NULL, &err);
    if (rc == VL_OK)
        rc = api->finish(parser, VL_CHAT_END_STOP, ignore, NULL, &err);
    api->parser_destroy(parser);
    api->prompt_free(p);
    api->destroy(c);
    return rc;
}

static void test_chat_every_allocation_fails_once(void **state)
{
    long n_failures = 0;
    (void)state;
    assert_int_equal(live(), VL_OK);
    for (long n = 0; n < 10000; n++) {
        until_failure = n;
        vl_status rc = live();
        bool reached = until_failure < 0;
        until_failure = -1;
        if (!reached) {
            assert_int_equal(rc, VL_OK);
            break;
        }
        n_failures++;
        /* A few failures are survived: a value's type that could not be looked up makes it a
         * string. */
        if (rc != VL_OK && rc != VL_E_NOMEM)
            fail_msg("allocation %ld: status %d", n, rc);
    }
    assert_in_range(n_failures, 50, 9999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chat_every_allocation_fails_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
