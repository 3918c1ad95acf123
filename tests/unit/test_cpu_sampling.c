/* test_cpu_sampling.c: sampling against a plain twin that sorts everything, and against
 * probabilities. */
#include <math.h>

#include "plugins/common/cpu/sampling.h"
#include "tests/unit/cpu_util.h"

#define N 6007 /* more than 20 blocks of 256: top_k 20 is cut by blocks first */

static const vl_sampling neutral = {.struct_size = sizeof(vl_sampling),
                                    .temperature = 1,
                                    .top_p = 1,
                                    .repetition_penalty = 1,
                                    .n_logprobs = -1};

typedef struct entry {
    float z;
    int32_t id;
} entry;

static int by_rank(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->z != y->z)
        return x->z > y->z ? -1 : 1;
    return x->id - y->id;
}

static float gumbel(uint64_t seed, uint64_t position, int32_t choice, int32_t id)
{
    uint32_t counter[4] = {(uint32_t)id / 4, (uint32_t)position, (uint32_t)(position >> 32),
                           (uint32_t)choice};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, x[4];
    vl_philox4x32_10(counter, key, x);
    float u = ((float)(x[id % 4] >> 9) + 0.5f) / 8388608.0f;
    return -logf(-logf(u));
}

/* The whole order of sampling.h, by sorting. */
static int32_t twin(const vl_sample_input *in, size_t n_tokens)
{
    const vl_sampling *p = in->params;
    entry *e = malloc(n_tokens * sizeof(*e));
    size_t n = n_tokens, n_counts = 0;
    const vl_count *counts = in->counts ? vl_counts_entries(in->counts, &n_counts) : NULL;

    for (size_t i = 0; i < n; i++) {
        bool allowed = !in->mask || (in->mask[i / 32] >> (i % 32) & 1);
        e[i] = (entry){allowed ? in->logits[i] : -INFINITY, (int32_t)i};
    }
    for (size_t i = 0; i < in->n_banned; i++)
        e[in->banned[i]].z = -INFINITY;
    for (size_t i = 0; i < p->n_bias; i++)
        e[p->bias[i].id].z += p->bias[i].bias;
    for (size_t i = 0; i < n_counts; i++) {
        float *z = &e[counts[i].id].z;
        *z = *z > 0 ? *z / p->repetition_penalty : *z * p->repetition_penalty;
        *z -= p->frequency_penalty * (float)counts[i].n_output;
        *z -= counts[i].n_output ? p->presence_penalty : 0;
    }
    qsort(e, n, sizeof(*e), by_rank);
    int32_t best_id = e[0].id;
    if (p->temperature >= 1e-5f) {
        for (size_t i = 0; i < n; i++)
            e[i].z /= p->temperature;
        qsort(e, n, sizeof(*e), by_rank);
        size_t keep = n;
        while (p->min_p > 0 && e[keep - 1].z < e[0].z + logf(p->min_p))
            keep--;
        if (p->top_k > 0 && (size_t)p->top_k < keep)
            keep = (size_t)p->top_k;
        double total = 0, sum = 0;
        for (size_t i = 0; i < keep; i++)
            total += exp((double)(e[i].z - e[0].z));
        size_t kept = 0;
        while (p->top_p < 1 && kept < keep) {
            sum += exp((double)(e[kept++].z - e[0].z));
            if (sum >= (double)p->top_p * total)
                break;
        }
        keep = p->top_p < 1 ? kept : keep;
        float best = -INFINITY;
        for (size_t i = 0; i < keep; i++) {
            float s = e[i].z + gumbel(p->seed, in->position, p->choice, e[i].id);
            if (s > best || (s == best && e[i].id < best_id)) {
                best = s;
                best_id = e[i].id;
            }
        }
    }
    free(e);
    return best_id;
}

static void test_philox_known_answers(void **state)
{
    static const uint32_t counters[3][4] = {{0, 0, 0, 0},
                                            {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                                            {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
    static const uint32_t keys[3][2] = {{0, 0}, {0xffffffff, 0xffffffff}, {0xa4093822, 0x299f31d0}};
    static const uint32_t want[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    uint32_t out[4];

    (void)state;
    for (int i = 0; i < 3; i++) {
        vl_philox4x32_10(counters[i], keys[i], out);
        assert_memory_equal(out, want[i], sizeof(out));
    }
}

static void test_sampler_random_settings_match_twin(void **state)
{
    float *logits = malloc(N * sizeof(float));
    uint32_t mask[(N + 31) / 32];
    uint64_t s = 11;

    (void)state;
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 1, 1, 0, 0);
        if (!cpu)
            continue;
        vl_sampler *sampler;
        vl_counts *counts;
        vl_error err;
        assert_int_equal(vl_sampler_create(cpu, N, &sampler, &err), VL_OK);
        assert_int_equal(vl_counts_create(N, &counts, &err), VL_OK);
        for (int round = 0; round < 300; round++) {
            /* Peaked and flat rows; every third one on a coarse grid, full of ties. */
            float scale = round % 4 == 0 ? 0.5f : round % 4 == 1 ? 30.0f : 8.0f;
            test_fill(logits, N, scale, (uint64_t)round);
            for (int i = 0; round % 3 == 0 && i < N; i++)
                logits[i] = floorf(logits[i] * 2) / 2;
            vl_counts_clear(counts);
            for (int i = 0; i < 60; i++) {
                int32_t id = (int32_t)((test_uniform(&s) + 1) / 2 * N);
                for (int j = 0; j < i % 4; j++)
                    vl_counts_add(counts, id, j > 0);
            }
            vl_logit_bias bias[2] = {{17, 9.5f}, {(round * 31) % N, -100}};
            int32_t banned[2] = {5, (round * 7) % N};
            for (size_t i = 0; i < (N + 31) / 32; i++)
                mask[i] = round % 5 == 0 && i % 3 ? 0 : 0x5fffffffu;
            vl_sampling p = neutral;
            p.temperature = (float[]){1, 0.7f, 0, 2, 0.05f}[round % 5];
            p.top_k = (int32_t[]){0, 20, 1, -1, 400, N}[round % 6];
            p.top_p = (float[]){1, 0.95f, 0.5f, 0.01f}[round / 2 % 4];
            p.min_p = (float[]){0, 0, 0.05f}[round / 3 % 3];
            p.seed = (uint64_t)round * 0x123456789abcdefu;
            p.choice = round % 3;
            vl_sample_input in = {
                .logits = logits, .params = &p, .position = (uint64_t)round << 30};
            if (round % 2) {
                p.repetition_penalty = 1.1f;
                p.frequency_penalty = 0.3f;
                p.presence_penalty = 1.5f;
                in.counts = counts;
                p.bias = bias;
                p.n_bias = 2;
            }
            in.mask = round % 7 < 3 ? mask : NULL;
            in.banned = banned;
            in.n_banned = round % 11 < 4 ? 2 : 0;
            int32_t id = -1;
            if (vl_sampler_run(sampler, &in, &id, NULL, &err) != VL_OK)
                fail_msg("%s", err.text);
            int32_t want = twin(&in, N);
            if (id != want)
                fail_msg("%s round %d: id %d, want %d", vl_cpu_form_name(form), round, (int)id,
                         (int)want);
        }
        vl_counts_destroy(counts);
        vl_sampler_destroy(sampler);
        vl_cpu_destroy(cpu);
    }
    free(logits);
}

/* Draws follow the probabilities: chi-square over 8 ids with 40,000 draws. */
static void test_sampler_draws_follow_softmax(void **state)
{
    static const float logits[8] = {1, 0, -1, 2, 0.5f, 0.5f, -INFINITY, -3};
    enum { DRAWS = 40000 };
    int seen[8] = {0};
    double sum = 0, chi = 0;
    vl_cpu *cpu = test_open(vl_cpu_form_best(), 1, 1, 0, 0);
    vl_sampler *s;
    vl_error err;

    (void)state;
    assert_int_equal(vl_sampler_create(cpu, 8, &s, &err), VL_OK);
    for (int i = 0; i < DRAWS; i++) {
        vl_sampling p = neutral;
        vl_sample_input in = {.logits = logits, .params = &p, .position = (uint64_t)i};
        int32_t id;
        p.seed = 42;
        assert_int_equal(vl_sampler_run(s, &in, &id, NULL, &err), VL_OK);
        seen[id]++;
    }
    for (int i = 0; i < 8; i++)
        sum += exp((double)logits[i]);
    assert_int_equal(seen[6], 0);
    for (int i = 0; i < 8; i++) {
        double want = DRAWS * exp((double)logits[i]) / sum;
        if (want > 0)
            chi += (seen[i] - want) * (seen[i] - want) / want;
    }
    print_message("chi-square with 6 degrees of freedom: %.2f\n", chi);
    assert_true(chi < 22.5); /* one in a thousand */
    vl_sampler_destroy(s);
    vl_cpu_destroy(cpu);
}

static void check_logprobs(vl_sampler *s, const float *logits, size_t n, int32_t k)
{
    vl_logprob got[21];
    entry *e = malloc(n * sizeof(*e));
    double sum = 0;
    vl_error err;

    for (size_t i = 0; i < n; i++) {
        e[i] = (entry){logits[i], (int32_t)i};
        sum += exp((double)logits[i]);
    }
    qsort(e, n, sizeof(*e), by_rank);
    assert_int_equal(vl_sampler_logprobs(s, logits, (int32_t)n / 2, k, got, &err), VL_OK);
    assert_int_equal(got[0].id, n / 2);
    assert_true(fabs((double)got[0].logprob - ((double)logits[n / 2] - log(sum))) < 2e-5);
    for (int32_t i = 0; i < k; i++) {
        if ((size_t)i >= n) {
            assert_int_equal(got[1 + i].id, -1);
            assert_true(got[1 + i].logprob == -INFINITY);
            continue;
        }
        assert_int_equal(got[1 + i].id, e[i].id);
        assert_true(fabs((double)got[1 + i].logprob - ((double)e[i].z - log(sum))) < 2e-5);
    }
    free(e);
}

static void test_logprobs_lists_match_sorted_softmax(void **state)
{
    static const size_t sizes[] = {1, 7, 20, 1023, 1024, 1025, 30000};
    float *logits = malloc(30000 * sizeof(float));

    (void)state;
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 1, 1, 0, 0);
        if (!cpu)
            continue;
        for (size_t i = 0; i < 7; i++) {
            vl_sampler *s;
            vl_error err;
            assert_int_equal(vl_sampler_create(cpu, sizes[i], &s, &err), VL_OK);
            for (int ties = 0; ties < 2; ties++) {
                test_fill(logits, sizes[i], 10, i);
                for (size_t j = 0; ties && j < sizes[i]; j++)
                    logits[j] = floorf(logits[j] / 4);
                check_logprobs(s, logits, sizes[i], 20);
                check_logprobs(s, logits, sizes[i], 1);
                check_logprobs(s, logits, sizes[i], 0);
            }
            vl_sampler_destroy(s);
        }
        vl_cpu_destroy(cpu);
    }
    free(logits);
}

/* What the request changed does not show in the log probabilities. */
static void test_logprobs_are_of_raw_logits(void **state)
{
    static const float logits[4] = {3, 2, 1, 0};
    vl_logit_bias bias = {3, 50};
    vl_sampling p = neutral;
    vl_sample_input in = {.logits = logits, .params = &p};
    vl_cpu *cpu = test_open(vl_cpu_form_best(), 1, 1, 0, 0);
    vl_logprob lp[3];
    vl_sampler *s;
    vl_error err;
    int32_t id;

    (void)state;
    p.bias = &bias;
    p.n_bias = 1;
    p.temperature = 0;
    p.n_logprobs = 2;
    assert_int_equal(vl_sampler_create(cpu, 4, &s, &err), VL_OK);
    assert_int_equal(vl_sampler_run(s, &in, &id, lp, &err), VL_OK);
    double lse = log(exp(3) + exp(2) + exp(1) + 1);
    assert_int_equal(id, 3);
    assert_int_equal(lp[0].id, 3);
    assert_true(fabs((double)lp[0].logprob + lse) < 1e-6);
    assert_int_equal(lp[1].id, 0);
    assert_int_equal(lp[2].id, 1);
    vl_sampler_destroy(s);
    vl_cpu_destroy(cpu);
}

static void test_sampler_bad_rows_refused(void **state)
{
    float logits[100] = {0};
    static const uint32_t none[4] = {0};
    vl_error err;

    (void)state;
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 1, 1, 0, 0);
        if (!cpu)
            continue;
        vl_sampler *s;
        vl_sampling p = neutral;
        vl_sample_input in = {.logits = logits, .params = &p};
        int32_t id = 55;
        assert_int_equal(vl_sampler_create(cpu, 100, &s, &err), VL_OK);
        for (size_t i = 0; i < 100; i += 11) {
            logits[i] = i % 2 ? NAN : INFINITY;
            assert_int_equal(vl_sampler_run(s, &in, &id, NULL, &err), VL_E_INVALID);
            char want[32];
            snprintf(want, sizeof(want), "logits: id %zu has", i);
            assert_non_null(strstr(err.text, want));
            logits[i] = 0;
        }
        in.mask = none;
        assert_int_equal(vl_sampler_run(s, &in, &id, NULL, &err), VL_E_STATE);
        in.mask = NULL;
        for (size_t i = 0; i < 100; i++)
            logits[i] = -INFINITY;
        assert_int_equal(vl_sampler_run(s, &in, &id, NULL, &err), VL_E_INVALID);
        assert_int_equal(id, 55);
        logits[99] = -5; /* one id alone */
        assert_int_equal(vl_sampler_run(s, &in, &id, NULL, &err), VL_OK);
        assert_int_equal(id, 99);
        memset(logits, 0, sizeof(logits));
        vl_sampler_destroy(s);
        vl_cpu_destroy(cpu);
    }
}

static void test_counts_fill_up_and_clear(void **state)
{
    vl_counts *c;
    vl_error err;
    size_t n;

    (void)state;
    assert_int_equal(vl_counts_create(0, &c, &err), VL_E_INVALID);
    assert_int_equal(vl_counts_create(3, &c, &err), VL_OK);
    assert_true(vl_counts_add(c, 248319, false));
    assert_true(vl_counts_add(c, 0, true));
    assert_true(vl_counts_add(c, 248319, true));
    assert_true(vl_counts_add(c, 248319, true));
    assert_true(vl_counts_add(c, 1 << 30, false));
    assert_false(vl_counts_add(c, 7, true)); /* full */
    assert_true(vl_counts_add(c, 0, true));
    const vl_count *e = vl_counts_entries(c, &n);
    assert_int_equal(n, 3);
    assert_int_equal(e[0].id, 248319);
    assert_int_equal(e[0].n_output, 2);
    assert_int_equal(e[1].n_output, 2);
    assert_int_equal(e[2].n_output, 0);
    vl_counts_clear(c);
    vl_counts_entries(c, &n);
    assert_int_equal(n, 0);
    assert_true(vl_counts_add(c, 7, false));
    vl_counts_destroy(c);
    vl_counts_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_sampler_random_settings_match_twin),
        cmocka_unit_test(test_sampler_draws_follow_softmax),
        cmocka_unit_test(test_logprobs_lists_match_sorted_softmax),
        cmocka_unit_test(test_logprobs_are_of_raw_logits),
        cmocka_unit_test(test_sampler_bad_rows_refused),
        cmocka_unit_test(test_counts_fill_up_and_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
