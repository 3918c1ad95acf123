/* test_cpu_attention.c: prefill and decode attention over pages, every form, against a double
 * softmax. */
#include <math.h>

#include "plugins/common/cpu/attention.h"
#include "tests/unit/cpu_util.h"

#define PAGE VL_CPU_PAGE_TOKENS

/* One layer's keys and values of a sequence of n_tokens, in pages that also hold another layer;
 * tokens that are not stored are NaN, so that reading one shows. */
typedef struct cache {
    float **pages;
    size_t n_pages, n_kv, d, page_floats;
} cache;

static float *token_at(const cache *c, size_t t, size_t kv, bool value)
{
    size_t offset = (value ? 2 : 1) * c->n_kv * PAGE * c->d;
    return c->pages[t / PAGE] + offset + (kv * PAGE + t % PAGE) * c->d;
}

static void cache_init(cache *c, size_t n_tokens, size_t n_kv, size_t d, uint64_t seed)
{
    *c = (cache){.n_pages = (n_tokens + PAGE - 1) / PAGE, .n_kv = n_kv, .d = d};
    c->page_floats = 3 * n_kv * PAGE * d;
    c->pages = calloc(c->n_pages, sizeof(*c->pages));
    for (size_t p = 0; p < c->n_pages; p++) {
        c->pages[p] = malloc(c->page_floats * sizeof(float));
        for (size_t i = 0; i < c->page_floats; i++)
            c->pages[p][i] = NAN;
    }
    for (size_t t = 0; t < n_tokens; t++)
        for (size_t kv = 0; kv < n_kv; kv++) {
            test_fill(token_at(c, t, kv, false), d, 1, seed + 2 * (t * n_kv + kv));
            test_fill(token_at(c, t, kv, true), d, 1, seed + 2 * (t * n_kv + kv) + 1);
        }
}

static void cache_fini(cache *c)
{
    for (size_t p = 0; p < c->n_pages; p++)
        free(c->pages[p]);
    free(c->pages);
}

/* out [d] of one query at token position pos, by the definition. */
static void reference(const cache *c, const float *q, size_t kv, size_t pos, float scale,
                      float *out)
{
    double *p = malloc((pos + 1) * sizeof(double)), top = -1e300, sum = 0, acc[256] = {0};

    for (size_t t = 0; t <= pos; t++) {
        const float *k = token_at(c, t, kv, false);
        p[t] = 0;
        for (size_t i = 0; i < c->d; i++)
            p[t] += (double)q[i] * (double)k[i];
        p[t] *= (double)scale;
        top = p[t] > top ? p[t] : top;
    }
    for (size_t t = 0; t <= pos; t++) {
        double e = exp(p[t] - top);
        sum += e;
        for (size_t i = 0; i < c->d; i++)
            acc[i] += e * (double)token_at(c, t, kv, true)[i];
    }
    for (size_t i = 0; i < c->d; i++)
        out[i] = (float)(acc[i] / sum);
    free(p);
}

typedef struct setup {
    size_t n_heads, n_kv, d;
} setup;

static vl_cpu_attention describe(const setup *s)
{
    /* Query heads with a gap between them, as a gate leaves it. */
    return (vl_cpu_attention){.n_heads = s->n_heads,
                              .n_kv_heads = s->n_kv,
                              .head_size = s->d,
                              .k_offset = s->n_kv * PAGE * s->d,
                              .v_offset = 2 * s->n_kv * PAGE * s->d,
                              .q_ld = s->n_heads * 2 * s->d,
                              .q_head_ld = 2 * s->d,
                              .out_ld = s->n_heads * s->d + 8,
                              .scale = 1 / sqrtf((float)s->d)};
}

static void check_rows(vl_cpu *cpu, const setup *s, const size_t (*groups)[2], size_t n_groups,
                       bool round)
{
    vl_cpu_attention a = describe(s);
    a.round = round;
    vl_cpu_attention_rows rows[24];
    cache caches[24];
    float *q[24], *want = malloc(s->d * sizeof(float));

    for (size_t g = 0; g < n_groups; g++) {
        size_t pos = groups[g][0], n = groups[g][1];
        cache_init(&caches[g], pos + n, s->n_kv, s->d, 1000 * g + 1);
        q[g] = malloc(n * a.q_ld * sizeof(float));
        test_fill(q[g], n * a.q_ld, 4, 77 + g);
        rows[g] = (vl_cpu_attention_rows){.pages = (const float *const *)caches[g].pages,
                                          .q = q[g],
                                          .out = malloc(n * a.out_ld * sizeof(float)),
                                          .position = pos,
                                          .n_rows = n};
        for (size_t i = 0; i < n * a.out_ld; i++)
            rows[g].out[i] = 77;
    }
    vl_cpu_attention_run(cpu, &a, rows, n_groups);
    for (size_t g = 0; g < n_groups; g++) {
        for (size_t r = 0; r < rows[g].n_rows; r++) {
            for (size_t h = 0; h < s->n_heads; h++) {
                reference(&caches[g], q[g] + r * a.q_ld + h * a.q_head_ld,
                          h / (s->n_heads / s->n_kv), rows[g].position + r, a.scale, want);
                /* Rounded weights and values: 2^-8 of values below 1. */
                bool rounds = round && rows[g].n_rows > 1 && vl_cpu_rounds(cpu);
                test_close("attention", rows[g].out + r * a.out_ld + h * s->d, want, s->d,
                           rounds ? 4e-2f : 2e-6f, rounds ? 0.0f : 1e-5f);
            }
            for (size_t i = s->n_heads * s->d; i < a.out_ld; i++)
                assert_true(rows[g].out[r * a.out_ld + i] == 77);
        }
        free(rows[g].out);
        free(q[g]);
        cache_fini(&caches[g]);
    }
    free(want);
}

static const setup setups[] = {{8, 2, 64}, {4, 2, 32}, {6, 1, 256}, {3, 3, 16}};

static void test_attention_prefill_and_decode_match_definition(void **state)
{
    static const size_t groups[][2] = {{0, 1},   {0, 2},   {0, 65},  {63, 1},  {64, 1},
                                       {64, 30}, {37, 91}, {200, 1}, {191, 17}};

    (void)state;
    FOR_EACH_FORM(form)
    {
        for (size_t i = 0; i < sizeof(setups) / sizeof(*setups); i++) {
            vl_cpu *cpu = test_open(form, 2, 16, setups[i].n_heads, setups[i].d);
            if (!cpu)
                continue;
            check_rows(cpu, &setups[i], groups, sizeof(groups) / sizeof(*groups), false);
            check_rows(cpu, &setups[i], groups, sizeof(groups) / sizeof(*groups), true);
            vl_cpu_destroy(cpu);
        }
    }
}

static void test_attention_long_decode_is_split_and_merged(void **state)
{
    static const setup s = {2, 1, 16};
    static const size_t groups[][2] = {{1023, 1}, {1024, 1}, {5000, 1}, {20000, 1}};

    (void)state;
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 3, 16, s.n_heads, s.d);
        if (!cpu)
            continue;
        check_rows(cpu, &s, groups, 4, false);
        vl_cpu_destroy(cpu);
    }
}

static void test_attention_many_decode_rows_done_in_passes(void **state)
{
    static const setup s = {4, 2, 32};
    size_t groups[24][2];

    (void)state;
    for (size_t i = 0; i < 24; i++) {
        groups[i][0] = 13 * i;
        groups[i][1] = i % 5 == 4 ? 3 : 1;
    }
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 2, 16, s.n_heads, s.d);
        if (!cpu)
            continue;
        check_rows(cpu, &s, (const size_t(*)[2])groups, 24, false);
        vl_cpu_destroy(cpu);
    }
}

static void test_attention_more_than_64_heads_on_one_kv_head(void **state)
{
    static const setup s = {70, 1, 16};
    static const size_t groups[][2] = {{5, 4}, {70, 1}};

    (void)state;
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 2, 16, s.n_heads, s.d);
        if (!cpu)
            continue;
        check_rows(cpu, &s, groups, 2, false);
        vl_cpu_destroy(cpu);
    }
}

/* A prompt read whole and one read in two pieces give the same bits; so do one and three
 * threads. */
static void test_attention_resumed_prefill_same_bits(void **state)
{
    static const setup s = {8, 2, 64};
    enum { N = 150 };
    vl_cpu_attention a = describe(&s);
    cache c;
    float *q = malloc(N * a.q_ld * sizeof(float));
    size_t out_bytes = N * a.out_ld * sizeof(float);
    float *whole = calloc(1, out_bytes), *pieces = calloc(1, out_bytes);

    (void)state;
    cache_init(&c, N, s.n_kv, s.d, 5);
    test_fill(q, N * a.q_ld, 3, 6);
    FOR_EACH_FORM(form)
    {
        vl_cpu *one = test_open(form, 1, 16, s.n_heads, s.d);
        if (!one)
            continue;
        vl_cpu *three = test_open(form, 3, 16, s.n_heads, s.d);
        vl_cpu_attention_rows all = {(const float *const *)c.pages, q, whole, 0, N};
        vl_cpu_attention_run(one, &a, &all, 1);
        size_t cut = 43;
        vl_cpu_attention_rows two[2] = {{(const float *const *)c.pages, q, pieces, 0, cut},
                                        {(const float *const *)c.pages, q + cut * a.q_ld,
                                         pieces + cut * a.out_ld, cut, N - cut}};
        vl_cpu_attention_run(three, &a, two, 2);
        assert_memory_equal(whole, pieces, out_bytes);
        vl_cpu_destroy(one);
        vl_cpu_destroy(three);
    }
    cache_fini(&c);
    free(q);
    free(whole);
    free(pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_prefill_and_decode_match_definition),
        cmocka_unit_test(test_attention_long_decode_is_split_and_merged),
        cmocka_unit_test(test_attention_many_decode_rows_done_in_passes),
        cmocka_unit_test(test_attention_more_than_64_heads_on_one_kv_head),
        cmocka_unit_test(test_attention_resumed_prefill_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
