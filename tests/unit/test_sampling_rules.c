/* Tests of the sampling rules: ranges, sources, greedy requests; and of the stop strings. */
#include "vl_test.h"

#include <math.h>

#include "host/lib/sampling_rules.h"
#include "host/lib/stop_strings.h"

static void test_check_out_of_range_names_the_field(void **state)
{
    static const struct {
        struct vl_sampling_options o;
        const char *field;
    } bad[] = {
        {{.set = VL_SET_TEMPERATURE, .temperature = -0.1}, "temperature"},
        {{.set = VL_SET_TEMPERATURE, .temperature = 5.1}, "temperature"},
        {{.set = VL_SET_TEMPERATURE, .temperature = NAN}, "temperature"},
        {{.set = VL_SET_TOP_P, .top_p = 0}, "top_p"},
        {{.set = VL_SET_TOP_P, .top_p = 1.01}, "top_p"},
        {{.set = VL_SET_MIN_P, .min_p = -1}, "min_p"},
        {{.set = VL_SET_TOP_K, .top_k = -2}, "top_k"},
        {{.set = VL_SET_REPETITION, .repetition_penalty = 0}, "repetition_penalty"},
        {{.set = VL_SET_FREQUENCY, .frequency_penalty = 2.1}, "frequency_penalty"},
        {{.set = VL_SET_PRESENCE, .presence_penalty = -2.1}, "presence_penalty"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *field = NULL;
        vl_error err = {0};
        assert_int_equal(vl_sampling_check(&bad[i].o, &field, &err), VL_E_INVALID);
        assert_string_equal(field, bad[i].field);
        assert_int_equal(strncmp(err.text, field, strlen(field)), 0);
        assert_non_null(strstr(err.text, "at most"));
    }
    struct vl_sampling_options edge = {.set = 0xff,
                                       .temperature = 5,
                                       .top_p = 1,
                                       .top_k = -1,
                                       .min_p = 1,
                                       .repetition_penalty = 10,
                                       .frequency_penalty = -2,
                                       .presence_penalty = 2};
    assert_int_equal(vl_sampling_check(&edge, NULL, NULL), VL_OK);
}

static void test_config_is_read_and_checked(void **state)
{
    static const char text[] =
        "{\"temperature\":0.6,\"top_k\":20,\"top_p\":0.95,\"do_sample\":true,"
        "\"eos_token_id\":[1,2],\"presence_penalty\":1.5}";
    static const char greedy[] = "{\"temperature\":0.6,\"do_sample\":false}";
    static const char bad[] = "{\"top_p\":7}";
    struct vl_sampling_options o;
    vl_error err = {0};
    (void)state;

    assert_int_equal(vl_sampling_from_config((vl_bytes){text, sizeof text - 1}, &o, &err), VL_OK);
    assert_int_equal(o.set, VL_SET_TEMPERATURE | VL_SET_TOP_K | VL_SET_TOP_P);
    assert_true(o.temperature == 0.6 && o.top_k == 20 && o.top_p == 0.95);
    assert_int_equal(vl_sampling_from_config((vl_bytes){greedy, sizeof greedy - 1}, &o, &err),
                     VL_OK);
    assert_true(o.temperature == 0);
    assert_int_equal(vl_sampling_from_config((vl_bytes){NULL, 0}, &o, &err), VL_OK);
    assert_int_equal(o.set, 0);
    assert_int_equal(vl_sampling_from_config((vl_bytes){bad, sizeof bad - 1}, &o, &err),
                     VL_E_INVALID);
    assert_non_null(strstr(err.text, "top_p"));
}

static void test_resolve_takes_request_then_server_then_checkpoint(void **state)
{
    struct vl_sampling_options request = {
        .set = VL_SET_TOP_P | VL_SET_SEED, .top_p = 0.5, .seed = 42};
    struct vl_sampling_options server = {
        .set = VL_SET_TOP_P | VL_SET_PRESENCE, .top_p = 0.7, .presence_penalty = 1.5};
    struct vl_sampling_options file = {.set = VL_SET_TOP_P | VL_SET_TOP_K | VL_SET_TEMPERATURE,
                                       .top_p = 0.9,
                                       .top_k = 20,
                                       .temperature = 0.6};
    vl_sampling s = {0};
    (void)state;

    vl_sampling_resolve(&request, &server, &file, &s);
    assert_true(s.top_p == 0.5f && s.top_k == 20 && s.temperature == 0.6f &&
                s.presence_penalty == 1.5f);
    assert_true(s.min_p == 0 && s.repetition_penalty == 1 && s.frequency_penalty == 0);
    assert_int_equal(s.seed, 42);
    request = (struct vl_sampling_options){0};
    file.set |= VL_SET_TOP_K;
    file.top_k = -1;
    vl_sampling_resolve(&request, &server, NULL, &s);
    assert_true(s.temperature == 1 && s.top_k == 0);
    uint64_t seed = s.seed;
    vl_sampling_resolve(&request, &server, NULL, &s);
    assert_true(seed != s.seed);
}

static void test_resolve_greedy_request_ignores_penalties_it_does_not_name(void **state)
{
    struct vl_sampling_options request = {.set = VL_SET_TEMPERATURE, .temperature = 0};
    struct vl_sampling_options server = {.set = VL_SET_PRESENCE, .presence_penalty = 1.5};
    struct vl_sampling_options file = {.set = VL_SET_REPETITION, .repetition_penalty = 1.1};
    vl_sampling s = {0};
    (void)state;

    vl_sampling_resolve(&request, &server, &file, &s);
    assert_true(s.temperature == 0 && s.presence_penalty == 0 && s.repetition_penalty == 1);
    request.set |= VL_SET_PRESENCE;
    request.presence_penalty = 0.5;
    vl_sampling_resolve(&request, &server, &file, &s);
    assert_true(s.presence_penalty == 0.5f && s.repetition_penalty == 1);
    request.temperature = 0.7;
    vl_sampling_resolve(&request, &server, &file, &s);
    assert_true(s.repetition_penalty == 1.1f);
}

/* ---- stop strings ---- */

static vl_stop_set stops_of(const char *const *list)
{
    vl_bytes b[VL_STOPS_MAX];
    size_t n = 0;
    vl_stop_set s;

    for (; list[n] != NULL; n++)
        b[n] = (vl_bytes){list[n], strlen(list[n])};
    assert_int_equal(vl_stop_set_init(&s, b, n, NULL), VL_OK);
    return s;
}

/* The first match by definition: smallest end, then the longest string. */
static int first_match(const vl_stop_set *s, const char *text, size_t len, size_t *end)
{
    for (size_t e = 1; e <= len; e++) {
        int found = -1;
        for (size_t i = 0; i < s->n; i++) {
            if (s->len[i] <= e && memcmp(text + e - s->len[i], s->text[i], s->len[i]) == 0 &&
                (found < 0 || s->len[i] > s->len[found]))
                found = (int)i;
        }
        if (found >= 0) {
            *end = e;
            return found;
        }
    }
    return -1;
}

/* The longest end of the text that is a true beginning of some string. */
static size_t held_by_definition(const vl_stop_set *s, const char *text, size_t len)
{
    for (size_t h = len; h > 0; h--) {
        for (size_t i = 0; i < s->n; i++) {
            if (h < s->len[i] && memcmp(text + len - h, s->text[i], h) == 0)
                return h;
        }
    }
    return 0;
}

static void test_stop_scan_random_texts_equal_definition(void **state)
{
    uint32_t rng = 12345;
    (void)state;

    for (int round = 0; round < 4000; round++) {
        char words[6][8];
        const char *list[7] = {0};
        char text[64];
        for (int i = 0; i < 6; i++) {
            size_t len = 1 + (rng = rng * 1664525u + 1013904223u) / 65536 % 6;
            for (size_t k = 0; k < len; k++)
                words[i][k] = (char)('a' + (rng = rng * 1664525u + 1013904223u) / 65536 % 3);
            words[i][len] = '\0';
            list[i] = i < 1 + round % 6 ? words[i] : NULL;
        }
        size_t len = (rng = rng * 1664525u + 1013904223u) / 65536 % 60;
        for (size_t k = 0; k < len; k++)
            text[k] = (char)('a' + (rng = rng * 1664525u + 1013904223u) / 65536 % 4);
        vl_stop_set s = stops_of(list);
        vl_stop_state st = {0};
        size_t want_end = 0, at = 0;
        int want = first_match(&s, text, len, &want_end), got = -1;
        while (at < len && got < 0) { /* in pieces of any length */
            size_t piece = 1 + (rng = rng * 1664525u + 1013904223u) / 65536 % 5, used;
            if (piece > len - at)
                piece = len - at;
            got = vl_stop_scan(&s, &st, text + at, piece, &used);
            at += used;
            if (got < 0)
                assert_int_equal(vl_stop_held(&s, &st), held_by_definition(&s, text, at));
        }
        assert_int_equal(got < 0, want < 0);
        if (want >= 0) {
            assert_int_equal(at, want_end);
            assert_int_equal(s.len[got], s.len[want]);
        }
        vl_stop_set_fini(&s);
    }
}

static void test_stop_set_limits_are_errors(void **state)
{
    static char longer[VL_STOP_BYTES_MAX + 1];
    vl_bytes many[18];
    vl_stop_set s;
    vl_error err = {0};
    (void)state;

    memset(longer, 'x', sizeof longer);
    for (int i = 0; i < 18; i++)
        many[i] = (vl_bytes){"ab", 2};
    many[0].len = 0; /* empty ones don't count */
    assert_int_equal(vl_stop_set_init(&s, many, 17, &err), VL_OK);
    assert_int_equal(s.n, 16);
    vl_stop_set_fini(&s);
    assert_int_equal(vl_stop_set_init(&s, many, 18, &err), VL_E_INVALID);
    assert_non_null(strstr(err.text, "at most 16"));
    many[0] = (vl_bytes){longer, sizeof longer};
    assert_int_equal(vl_stop_set_init(&s, many, 1, &err), VL_E_INVALID);
    assert_non_null(strstr(err.text, "4097"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_out_of_range_names_the_field),
        cmocka_unit_test(test_config_is_read_and_checked),
        cmocka_unit_test(test_resolve_takes_request_then_server_then_checkpoint),
        cmocka_unit_test(test_resolve_greedy_request_ignores_penalties_it_does_not_name),
        cmocka_unit_test(test_stop_scan_random_texts_equal_definition),
        cmocka_unit_test(test_stop_set_limits_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
