/* Tests of the prefix cache: the tree against a plain list, and what requests get from it through
 * the engine, tiers and all. */
#include "engine_util.h"

#include "host/lib/prefix.h"

/* ---- the tree, on a snapshot table that only counts ---- */

struct vl_snapshot {
    int32_t ids[24];
    size_t n;
    int32_t tier;
};
static int64_t live[2], moves, host_refused;
enum { BYTES = 100 };

static vl_status t_take(vl_model *m, vl_sequence *s, vl_snapshot **out, uint64_t *position,
                        vl_error *err)
{
    (void)m;
    (void)s;
    (void)out;
    (void)position;
    (void)err;
    return VL_E_STATE;
}
static uint64_t t_take_bytes(const vl_model *m, const vl_sequence *s)
{
    (void)m;
    (void)s;
    return BYTES;
}
static void t_info(const vl_model *m, const vl_snapshot *s, vl_snapshot_info *out)
{
    (void)m;
    out->tier = s->tier;
    out->position = s->n;
    out->own_bytes = BYTES;
    out->shared_bytes = 0;
}
static vl_status t_move(vl_model *m, vl_snapshot *s, int32_t tier, uint64_t *ticket, vl_error *err)
{
    (void)m;
    (void)err;
    if (host_refused)
        return VL_E_UNSUPPORTED;
    live[s->tier]--;
    live[tier]++;
    s->tier = tier;
    moves++;
    *ticket = 1;
    return VL_OK;
}
static vl_status t_moved(vl_model *m, uint64_t ticket, int64_t timeout_ms, vl_error *err)
{
    (void)m;
    (void)ticket;
    (void)timeout_ms;
    (void)err;
    return VL_OK;
}
static uint64_t t_drop(vl_model *m, vl_snapshot *s)
{
    (void)m;
    live[s->tier]--;
    free(s);
    return BYTES;
}
static void t_tier(const vl_model *m, int32_t tier, vl_tier_info *out)
{
    (void)m;
    out->tier = tier;
    out->used_bytes = (uint64_t)live[tier] * BYTES;
    out->free_bytes = 1 << 30;
}
static const vl_snapshot_api api = {sizeof(vl_snapshot_api),
                                    VL_ABI_VERSION,
                                    t_take,
                                    t_take_bytes,
                                    t_info,
                                    t_move,
                                    t_moved,
                                    t_drop,
                                    t_tier};

static vl_snapshot *snap(const int32_t *ids, size_t n)
{
    vl_snapshot *s = calloc(1, sizeof *s);

    memcpy(s->ids, ids, n * sizeof *ids);
    s->n = n;
    live[VL_TIER_DEVICE]++;
    return s;
}

static vl_prefix *make(uint64_t device, uint64_t host)
{
    struct vl_prefix_params p = {.api = &api, .device_bytes = device, .host_bytes = host};
    vl_prefix *x = NULL;

    live[0] = live[1] = moves = host_refused = 0;
    assert_int_equal(vl_prefix_create(&p, &x, NULL), VL_OK);
    return x;
}

/* Thousands of random paths over three ids: every find is the deepest one there is. */
static void test_tree_random_paths_find_the_deepest(void **state)
{
    vl_prefix *p = make(1 << 30, 0);
    struct {
        int32_t ids[24];
        size_t n;
    } put[600];
    size_t n_put = 0;
    uint32_t rng = 99;
    (void)state;

    for (int round = 0; round < 6000; round++) {
        int32_t ids[24];
        size_t n = 1 + (rng = rng * 1664525u + 1013904223u) / 65536 % 24;
        for (size_t i = 0; i < n; i++)
            ids[i] =
                (int32_t)((rng = rng * 1664525u + 1013904223u) / 65536 % 8 == 0 ? 1 + rng % 2 : 0);
        bool known = false;
        size_t best = 0, limit = n > 2 ? n - 1 : n;
        for (size_t k = 0; k < n_put; k++) {
            known |= put[k].n == n && memcmp(put[k].ids, ids, n * sizeof *ids) == 0;
            if (put[k].n <= limit && put[k].n > best &&
                memcmp(put[k].ids, ids, put[k].n * sizeof *ids) == 0)
                best = put[k].n;
        }
        uint64_t position, common;
        const vl_snapshot *s = vl_prefix_find(p, ids, n, limit, &position, &common);
        assert_int_equal(position, best);
        assert_int_equal(s != NULL, best > 0);
        if (s != NULL) {
            assert_int_equal(s->n, best);
            assert_memory_equal(s->ids, ids, best * sizeof *ids);
        }
        assert_true(common >= best && common <= n);
        assert_int_equal(vl_prefix_touch(p, ids, n), known);
        if (n_put < 600 && round % 3 == 0) {
            vl_prefix_put(p, ids, n, snap(ids, n)); /* a known one is dropped */
            if (!known) {
                memcpy(put[n_put].ids, ids, sizeof ids);
                put[n_put++].n = n;
            }
        }
        assert_int_equal(live[0], n_put);
    }
    assert_true(n_put > 100);
    vl_prefix_destroy(p);
    assert_int_equal(live[0], 0);
}

static void test_tree_evicts_least_recently_used(void **state)
{
    vl_prefix *p = make(3 * BYTES, 0);
    const int32_t a[] = {1, 2, 3}, b[] = {1, 2, 4}, c[] = {1, 5}, d[] = {6};
    struct vl_prefix_stats st;
    (void)state;

    vl_prefix_put(p, a, 3, snap(a, 3));
    vl_prefix_put(p, b, 3, snap(b, 3));
    vl_prefix_put(p, c, 2, snap(c, 2));
    assert_true(vl_prefix_touch(p, a, 3));
    assert_true(vl_prefix_room(p, BYTES)); /* b goes */
    assert_int_equal(live[0], 2);
    vl_prefix_put(p, d, 1, snap(d, 1));
    assert_true(vl_prefix_touch(p, a, 3));
    assert_false(vl_prefix_touch(p, b, 3));
    assert_true(vl_prefix_touch(p, c, 2));
    assert_true(vl_prefix_touch(p, d, 1));
    assert_false(vl_prefix_room(
        p, 3 * BYTES + 1)); /* larger than the budget: nothing is thrown out for it */
    vl_prefix_stats_get(p, &st);
    assert_int_equal(st.entries, 3);
    assert_int_equal(st.evictions, 1);
    assert_int_equal(st.too_large, 1);
    assert_int_equal(st.device_bytes, 3 * BYTES);
    vl_prefix_destroy(p);
    assert_int_equal(live[0], 0);
}

static void test_tree_moves_to_host_and_back(void **state)
{
    vl_prefix *p = make(2 * BYTES, 2 * BYTES);
    int32_t ids[6];
    uint64_t position, common;
    (void)state;

    for (int i = 0; i < 5; i++) {
        ids[i] = i;
        assert_true(vl_prefix_room(p, BYTES));
        vl_prefix_put(p, ids, (size_t)i + 1, snap(ids, (size_t)i + 1));
    }
    assert_int_equal(live[0], 2); /* depths 4 and 5 */
    assert_int_equal(live[1], 2); /* 2 and 3; 1 is gone */
    assert_int_equal(vl_prefix_find(p, ids, 5, 2, &position, &common)->n, 2);
    assert_int_equal(position, 2);
    assert_int_equal(
        live[0], 2); /* 2 and 5; for 4, which left, 3 made room before 2 was out of host memory */
    assert_int_equal(live[1], 1);
    assert_null(vl_prefix_find(p, ids, 5, 1, &position, &common));
    /* The only one in host memory comes back although room must be made: it is not what is thrown
     * out. */
    vl_prefix_destroy(p);
    p = make(BYTES, BYTES);
    vl_prefix_put(p, ids, 1, snap(ids, 1));
    assert_true(vl_prefix_room(p, BYTES));
    vl_prefix_put(p, ids, 2, snap(ids, 2));
    assert_int_equal(vl_prefix_find(p, ids, 1, 1, &position, &common)->tier, VL_TIER_DEVICE);
    assert_int_equal(live[0], 1);
    vl_prefix_destroy(p);
    p = make(BYTES, BYTES); /* a model with one tier */
    host_refused = 1;
    vl_prefix_put(p, ids, 1, snap(ids, 1));
    assert_true(vl_prefix_room(p, BYTES));
    assert_int_equal(live[0] + live[1], 0);
    vl_prefix_destroy(p);
}

/* ---- through the engine ---- */

/* A chat of some turns: messages so far as JSON. */
static void add_message(vl_buf *b, const char *role, const char *text)
{
    vl_buf_printf(b, "%s{\"role\":\"%s\",\"content\":\"%s\"}", b->len > 0 ? "," : "", role, text);
}

static void ask(struct eng *g, struct run *x, const vl_buf *messages)
{
    vl_buf json = VL_BUF_INIT;
    struct vl_request_params p;

    vl_buf_printf(&json, "{\"messages\":[%s]}", messages->ptr);
    vl_request_params_init(&p);
    p.chat_json = (vl_bytes){json.ptr, json.len};
    p.sampling.set = VL_SET_TEMPERATURE;
    p.max_tokens = 60;
    run_start(g, x, &p);
    run_wait(g, x);
    if (x->failed)
        fail_msg("%s", x->err.text);
    vl_buf_fini(&json);
}

enum { TURNS = 5 };

/* Talks TURNS turns; texts[i] and cached[i] of each. */
static void talk(struct eng *g, const char *first, char **texts, uint64_t *cached)
{
    vl_buf m = VL_BUF_INIT;
    struct run x;

    add_message(&m, "system",
                "You are a careful gardener who knows everything about poppies, their seeds and "
                "their colours.");
    for (int i = 0; i < TURNS; i++) {
        add_message(
            &m, "user",
            i == 0
                ? first
                : "And what would you say about the one after that, if it rained all week long?");
        ask(g, &x, &m);
        texts[i] = strdup(run_content(&x, 0));
        cached[i] = x.usage.cached_tokens;
        add_message(&m, "assistant", texts[i]);
        run_free(&x);
    }
    vl_buf_fini(&m);
}

static void test_chat_turns_are_reused_and_texts_as_cold(void **state)
{
    static const struct {
        uint64_t device, host;
        const char *step_ids;
    } ways[] = {{1 << 20, 0, "step_ids=1"},
                {1 << 20, 0, "step_ids=3"},
                {9000, 0, "step_ids=1"},
                {6000, 40000, "step_ids=2"},
                {900, 0, "step_ids=1"}};
    char *cold[TURNS], *warm[TURNS];
    uint64_t cached[TURNS];
    struct eng off = {0};
    (void)state;

    eng_open(&off);
    talk(&off, "Tell me about the first poppy.", cold, cached);
    for (int i = 0; i < TURNS; i++)
        assert_int_equal(cached[i], 0);
    eng_close(&off);
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        struct eng g = {
            .p = {.prefix_cache_bytes = ways[w].device, .prefix_host_bytes = ways[w].host}};
        struct vl_engine_stats s;
        g.settings[0] = ways[w].step_ids;
        eng_open(&g);
        for (int round = 0; round < 2; round++) {
            talk(&g, "Tell me about the first poppy.", warm, cached);
            for (int i = 0; i < TURNS; i++) {
                assert_string_equal(warm[i], cold[i]);
                free(warm[i]);
            }
            if (w == 0 && round == 0) {
                /* From turn to turn at least the grid place before the last header is found again.
                 */
                for (int i = 1; i < TURNS; i++)
                    assert_true(cached[i] >= 64 && cached[i] > cached[i - 1]);
            }
            if (w == 0 && round == 1)
                assert_true(cached[0] >= 64);
        }
        vl_engine_stats_get(g.e, &s);
        assert_true(s.prefix_device_bytes <= ways[w].device);
        assert_true(s.prefix_host_bytes <= ways[w].host);
        if (w == 3)
            assert_true(eng_counts(&g).moves > 0);
        if (w == 4) { /* a state is larger than the budget: nothing is stored */
            assert_int_equal(s.prefix_entries, 0);
            assert_true(s.prefix_too_large > 0);
        } else {
            assert_true(s.cached_prompt_tokens > 0);
            assert_int_equal(s.prefix_hits + s.prefix_misses, 2 * TURNS);
        }
        eng_close(&g);
    }
    for (int i = 0; i < TURNS; i++)
        free(cold[i]);
}

static void test_branches_share_the_system_block(void **state)
{
    struct eng g = {.p = {.prefix_cache_bytes = 1 << 20}};
    char *texts[TURNS];
    uint64_t cached[TURNS];
    (void)state;

    eng_open(&g);
    talk(&g, "Tell me about the first poppy.", texts, cached);
    for (int i = 0; i < TURNS; i++)
        free(texts[i]);
    talk(&g, "Something else altogether, please.", texts, cached);
    assert_int_equal(cached[0], 64); /* the system block has 101 tokens: one place on the grid */
    for (int i = 0; i < TURNS; i++)
        free(texts[i]);
    eng_close(&g);
}

static void test_long_prompt_is_cut_at_every_so_many(void **state)
{
    struct eng g = {.p = {.prefix_cache_bytes = 1 << 20, .prefix_every_tokens = 256}};
    struct run x;
    struct vl_engine_stats s;
    char text[1101];
    (void)state;

    for (int i = 0; i < 1100; i++)
        text[i] = (char)('a' + i * 7 % 26);
    text[1100] = '\0';
    eng_open(&g);
    run_text(&g, &x, text, 1);
    vl_engine_stats_get(g.e, &s);
    /* 256, 512, 768, 1024, the prompt's end on the grid (1088); of the answer nothing was read. */
    assert_int_equal(s.prefix_stored, 5);
    run_free(&x);
    text[600] = '!';
    run_text(&g, &x, text, 1);
    assert_int_equal(x.usage.cached_tokens, 512);
    run_free(&x);
    text[600] = '?';
    text[1099] = '!';
    run_text(&g, &x, text, 1);
    assert_int_equal(x.usage.cached_tokens, 512);
    run_free(&x);
    eng_close(&g);
}

static void test_answer_end_is_a_place_but_not_past_a_stop_string(void **state)
{
    struct eng g = {.p = {.prefix_cache_bytes = 1 << 20}};
    struct run x;
    (void)state;

    eng_open(&g);
    run_text(&g, &x, "say:hello;", 0);
    run_free(&x);
    run_text(&g, &x, "say:hello;hello again", 1); /* prompt and answer are its beginning */
    assert_int_equal(x.usage.cached_tokens, 15);
    run_free(&x);
    vl_piece piece;
    struct vl_request_params p = text_params("say:abcdef;", &piece);
    vl_bytes stop = {"cd", 2};
    p.stops = &stop;
    p.n_stops = 1;
    run_start(&g, &x, &p);
    run_wait(&g, &x);
    assert_string_equal(run_content(&x, 0), "ab");
    run_free(&x);
    run_text(&g, &x, "say:abcdef;abcdef", 1);
    assert_int_equal(x.usage.cached_tokens, 0);
    run_free(&x);
    eng_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_random_paths_find_the_deepest),
        cmocka_unit_test(test_tree_evicts_least_recently_used),
        cmocka_unit_test(test_tree_moves_to_host_and_back),
        cmocka_unit_test(test_chat_turns_are_reused_and_texts_as_cold),
        cmocka_unit_test(test_branches_share_the_system_block),
        cmocka_unit_test(test_long_prompt_is_cut_at_every_so_many),
        cmocka_unit_test(test_answer_end_is_a_place_but_not_past_a_stop_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
