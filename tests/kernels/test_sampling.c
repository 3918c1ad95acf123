/* kernel.sampling: sampling on the device against its twin on the CPU, id for id, over many rows
 * and settings. 77 without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include <cmocka.h>

#include "plugins/common/cpu/sampling.h"
#include "plugins/common/cuda/ring.h"
#include "plugins/qwen35/cuda/kernels/slot.cuh"
#include "tests/kernels/twin.h"

enum { ROWS = 16, VOCAB = 4096, TOKENS = 4000, WORDS = VOCAB / 32, N_BIAS = 5, N_SEEN = 40 };
static const vl_q35_shape SHAPE = {256, 640,   3,      1,    4,  2,     2,
                                   6,   VOCAB, TOKENS, ROWS, 64, 1e-6f, false};
static twin T;
static vl_sampler *sampler;

/* One setting; the rest is drawn from a seed. */
struct setting {
    const char *name;
    float temperature, top_p, min_p, repetition, frequency, presence;
    int top_k, n_logprobs;
    bool bias, mask, minimum;
};
static const struct setting SETTINGS[] = {
    {"greedy", 0, 1, 0, 1, 0, 0, 0, -1, false, false, false},
    {"greedy, logprobs", 0, 1, 0, 1, 0, 0, 0, 20, false, false, false},
    {"greedy, everything edited", 0, 1, 0, 1.3f, 0.4f, 0.7f, 0, 5, true, true, true},
    {"temperature", 1, 1, 0, 1, 0, 0, 0, 0, false, false, false},
    {"low temperature", 0.2f, 1, 0, 1, 0, 0, 0, -1, false, false, false},
    {"top_k 20", 0.8f, 1, 0, 1, 0, 0, 20, 3, false, false, false},
    {"top_k 1", 1.5f, 1, 0, 1, 0, 0, 1, -1, false, false, false},
    {"top_p 0.9", 1, 0.9f, 0, 1, 0, 0, 0, -1, false, false, false},
    {"top_p 0.05", 1, 0.05f, 0, 1, 0, 0, 0, -1, false, false, false},
    {"min_p 0.1", 1.2f, 1, 0.1f, 1, 0, 0, 0, -1, false, false, false},
    {"all cuts", 0.7f, 0.8f, 0.02f, 1, 0, 0, 50, 20, false, false, false},
    {"all cuts, everything edited", 0.9f, 0.95f, 0.01f, 1.1f, 0.2f, 0.3f, 100, 2, true, true, true},
    {"mask of few, top_p", 1, 0.7f, 0, 1, 0, 0, 0, -1, false, true, false},
};

struct one {
    vl_slot slot;
    vl_sampling params;
    vl_logit_bias bias[N_BIAS];
    vl_counts *counts;
    int32_t stops[2];
    uint32_t mask[WORDS];
};

static float unit(uint64_t *seed)
{
    return (float)(twin_random(seed) >> 40) * 0x1p-24f;
}

static void draw_row(const struct setting *g, struct one *o, uint32_t *counts, uint64_t *seed)
{
    vl_error err = {0};
    memset(o, 0, sizeof(*o));
    o->params = (vl_sampling){.struct_size = sizeof(o->params),
                              .top_k = g->top_k,
                              .temperature = g->temperature,
                              .top_p = g->top_p,
                              .min_p = g->min_p,
                              .repetition_penalty = g->repetition,
                              .frequency_penalty = g->frequency,
                              .presence_penalty = g->presence,
                              .seed = twin_random(seed),
                              .choice = (int32_t)(twin_random(seed) % 3),
                              .n_logprobs = g->n_logprobs,
                              .bias = o->bias,
                              .n_bias = g->bias ? N_BIAS : 0};
    assert_int_equal(vl_counts_create(VOCAB, &o->counts, &err), VL_OK);
    const bool penal = g->repetition != 1 || g->frequency != 0 || g->presence != 0;
    for (int i = 0; penal && i < N_SEEN; i++) {
        const int32_t id = (int32_t)(twin_random(seed) % TOKENS);
        const bool output = i % 3 != 0;
        assert_true(vl_counts_add(o->counts, id, output));
        if (output)
            counts[id]++;
        else
            counts[id] |= 0x80000000u;
    }
    for (int i = 0; i < N_BIAS; i++)
        o->bias[i] = (vl_logit_bias){
            (int32_t)((twin_random(seed) % (TOKENS / N_BIAS)) * N_BIAS) + i, 12 * unit(seed) - 4};
    for (int i = 0; i < WORDS; i++)
        o->mask[i] = (uint32_t)(twin_random(seed) & twin_random(seed));
    o->stops[0] = (int32_t)(twin_random(seed) % TOKENS);
    o->stops[1] = (int32_t)(twin_random(seed) % TOKENS);
    o->slot = (vl_slot){.pos = 0,
                        .max_out = 1000,
                        .min_out = g->minimum ? 5 : 0,
                        .context = 100000,
                        .n_stop = 2,
                        .stop_ids = {o->stops[0], o->stops[1]},
                        .temperature = g->temperature,
                        .top_p = g->top_p,
                        .min_p = g->min_p,
                        .top_k = g->top_k,
                        .repetition_penalty = g->repetition,
                        .frequency_penalty = g->frequency,
                        .presence_penalty = g->presence,
                        .counts = penal,
                        .seed = {(unsigned)o->params.seed, (unsigned)(o->params.seed >> 32)},
                        .choice = o->params.choice,
                        .n_logprobs = g->n_logprobs,
                        .n_bias = g->bias ? N_BIAS : 0};
}

static void *device(const void *host, size_t bytes)
{
    void *d = NULL;
    assert_int_equal(cudaMalloc(&d, bytes), cudaSuccess);
    assert_int_equal(host != NULL ? cudaMemcpy(d, host, bytes, cudaMemcpyHostToDevice)
                                  : cudaMemset(d, 0, bytes),
                     cudaSuccess);
    assert_int_equal(cudaDeviceSynchronize(),
                     cudaSuccess); /* the kernels' stream does not wait for the default one */
    return d;
}

static void compare_row(const struct setting *g, const struct one *o, const float *logits, int pos,
                        const vl_row_out *r, int row)
{
    vl_error err = {0};
    int32_t id = -1;
    vl_logprob lp[21];
    const vl_sample_input in = {.logits = logits,
                                .params = &o->params,
                                .counts = o->counts,
                                .mask = g->mask ? o->mask : NULL,
                                .banned = g->minimum ? o->stops : NULL,
                                .n_banned = g->minimum ? 2 : 0,
                                .position = (uint64_t)pos + 1};
    if (vl_sampler_run(sampler, &in, &id, lp, &err) != VL_OK)
        fail_msg("%s: %s", g->name, err.text);
    if (r->id != id || r->fault != 0)
        fail_msg("%s, row %d: id %d (fault %d), want %d", g->name, row, r->id, r->fault, (int)id);
    assert_int_equal(r->pos, pos + 1);
    if (g->n_logprobs < 0)
        return;
    assert_true(fabsf(r->logprob - lp[0].logprob) < 1e-3f);
    for (int i = 0; i < g->n_logprobs; i++)
        if (r->top_id[i] != lp[1 + i].id || !(fabsf(r->top_logprob[i] - lp[1 + i].logprob) < 1e-3f))
            fail_msg("%s, row %d: best %d is %d at %g, want %d at %g", g->name, row, i,
                     r->top_id[i], (double)r->top_logprob[i], (int)lp[1 + i].id,
                     (double)lp[1 + i].logprob);
}

static void setting_case(const struct setting *g, uint64_t seed)
{
    static struct one rows[ROWS];
    static uint32_t counts[ROWS * VOCAB], masks[ROWS * WORDS];
    static int bias_ids[ROWS * VL_SLOT_BIAS];
    static float bias[ROWS * VL_SLOT_BIAS];
    static vl_slot slots[ROWS];
    int slot[ROWS], pos[ROWS], place[ROWS], has[ROWS];
    memset(counts, 0, sizeof(counts));
    tbuf logits = tbuf_make(ROWS * VOCAB, false, 3, seed), work = tbuf_poison(ROWS * VOCAB, false);
    for (size_t i = 0; i < ROWS; i++) { /* ties, and ids past the last token that must never win */
        logits.h[i * VOCAB + 17] = logits.h[i * VOCAB + 3900] = 9.0f;
        logits.h[i * VOCAB + 4050] = 50.0f;
    }
    tbuf_put(&logits);
    for (int i = 0; i < ROWS; i++) {
        draw_row(g, &rows[i], counts + i * VOCAB, &seed);
        slots[i] = rows[i].slot;
        slot[i] = i, pos[i] = 100 + 7 * i, place[i] = ROWS - 1 - i, has[i] = g->mask;
        memcpy(masks + place[i] * WORDS, rows[i].mask, sizeof(rows[i].mask));
        for (int j = 0; j < N_BIAS; j++)
            bias_ids[i * VL_SLOT_BIAS + j] = rows[i].bias[j].id,
                                        bias[i * VL_SLOT_BIAS + j] = rows[i].bias[j].bias;
    }
    void *d[] = {device(slots, sizeof(slots)),       device(counts, sizeof(counts)),
                 device(bias_ids, sizeof(bias_ids)), device(bias, sizeof(bias)),
                 device(masks, sizeof(masks)),       device(NULL, 4),
                 device(NULL, ROWS * VL_PARTS * 32), device(NULL, ROWS * sizeof(vl_row_out)),
                 device(slot, sizeof(slot)),         device(pos, sizeof(pos)),
                 device(place, sizeof(place)),       device(has, sizeof(has))};
    uint64_t mask_bytes = sizeof(masks), result_bytes = ROWS * sizeof(vl_row_out);
    twin_launch(&T, VL_K_LOGITS_SCAN, VL_PARTS, ROWS, 1,
                (void *[]){&logits.d, &work.d, &d[8], &d[9], &d[10], &d[11], &d[0], &d[1], &d[2],
                           &d[3], &d[4], &mask_bytes, &d[5], &d[6]});
    twin_launch(&T, VL_K_SAMPLE_PICK, ROWS, 1, 1,
                (void *[]){&logits.d, &work.d, &d[8], &d[8], &d[9], &d[10], &d[0], &d[1], &d[6],
                           &d[7], &result_bytes, &d[5]});
    twin_sync(&T);
    static vl_row_out out[ROWS];
    static uint32_t after[ROWS * VOCAB];
    assert_int_equal(cudaMemcpy(out, d[7], sizeof(out), cudaMemcpyDeviceToHost), cudaSuccess);
    assert_int_equal(cudaMemcpy(after, d[1], sizeof(after), cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < ROWS; i++) {
        compare_row(g, &rows[i], logits.h + i * VOCAB, pos[i], &out[place[i]], i);
        if (rows[i].slot.counts) {
            assert_int_equal(after[i * VOCAB + out[place[i]].id],
                             counts[i * VOCAB + out[place[i]].id] + 1);
        }
        vl_counts_destroy(rows[i].counts);
    }
    for (size_t i = 0; i < sizeof(d) / sizeof(d[0]); i++)
        (void)cudaFree(d[i]);
    tbuf_free(&logits), tbuf_free(&work);
}

static void test_sampling_equals_cpu(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(SETTINGS) / sizeof(SETTINGS[0]); i++)
        for (uint64_t seed = 1; seed <= 4; seed++)
            setting_case(&SETTINGS[i], seed * 1000 + i);
}

int main(void)
{
    char why[512];
    vl_error err = {0};
    if (!twin_open(&T, &SHAPE, why, sizeof(why))) {
        print_message("skipped: %s\n", why);
        return 77;
    }
    vl_cpu *cpu = NULL;
    const vl_cpu_params one = {.form = VL_CPU_SCALAR, .n_threads = 1, .max_in = 1};
    if (vl_cpu_create(&one, &cpu, &err) != VL_OK ||
        vl_sampler_create(cpu, TOKENS, &sampler, &err) != VL_OK) {
        print_error("%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sampling_equals_cpu)};
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    vl_sampler_destroy(sampler);
    vl_cpu_destroy(cpu);
    twin_close(&T);
    return rc;
}
