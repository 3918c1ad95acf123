/* bench/cpu_ops.c: what is not a product with weights: sampling over a full vocabulary, attention,
 * the delta rule's step.   bench_cpu_ops [--threads N] [--form NAME]
 * Each line is the best of several runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cpu_floors.h"
#include "plugins/common/cpu/attention.h"
#include "plugins/common/cpu/ops.h"
#include "plugins/common/cpu/sampling.h"

#define VOCAB 248320
#define RUNS 20

#define BEST(seconds, code)                                                                        \
    do {                                                                                           \
        (seconds) = 1e9;                                                                           \
        for (int run = 0; run < RUNS; run++) {                                                     \
            double start = bench_now();                                                            \
            code;                                                                                  \
            double took = bench_now() - start;                                                     \
            (seconds) = took < (seconds) ? took : (seconds);                                       \
        }                                                                                          \
    } while (0)

static float next_uniform(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (float)(*s >> 40) * (2.0f / (1 << 24)) - 1;
}

static void bench_sampling(vl_cpu *cpu)
{
    static const struct {
        const char *name;
        float temperature, top_p;
        int32_t top_k, n_logprobs;
    } cases[] = {{"greedy", 0, 1, 0, -1},
                 {"greedy, 20 logprobs", 0, 1, 0, 20},
                 {"temperature 1", 1, 1, 0, -1},
                 {"top_k 20, top_p 0.95", 0.7f, 0.95f, 20, -1},
                 {"top_p 0.95", 1, 0.95f, 0, -1}};
    static const char *const rows[] = {"peaked", "flat"};
    float *logits = malloc(VOCAB * sizeof(float));
    vl_logprob lp[21];
    vl_sampler *s;
    uint64_t seed = 1;

    if (!logits || vl_sampler_create(cpu, VOCAB, &s, NULL) != VL_OK)
        exit(1);
    for (int flat = 0; flat < 2; flat++) {
        for (int i = 0; i < VOCAB; i++)
            logits[i] = next_uniform(&seed) * (flat ? 0.5f : 3) - (flat ? 0 : 3);
        for (int i = 0; !flat && i < 200; i++)
            logits[i * 1237] = 12 + 6 * next_uniform(&seed);
        for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
            vl_sampling p = {.struct_size = sizeof(p),
                             .temperature = cases[c].temperature,
                             .top_p = cases[c].top_p,
                             .top_k = cases[c].top_k,
                             .repetition_penalty = 1,
                             .n_logprobs = cases[c].n_logprobs};
            vl_sample_input in = {.logits = logits, .params = &p};
            int32_t id;
            double t;
            BEST(t, (in.position++, vl_sampler_run(s, &in, &id, lp, NULL)));
            printf("  sampling, %s row, %-22s %8.1f us\n", rows[flat], cases[c].name, t * 1e6);
        }
    }
    vl_sampler_destroy(s);
    free(logits);
}

static void bench_attention(vl_cpu *cpu)
{
    enum { HEADS = 8, KV = 2, D = 256, CTX = 4096, PAGE = VL_CPU_PAGE_TOKENS };
    vl_cpu_attention a = {.n_heads = HEADS,
                          .n_kv_heads = KV,
                          .head_size = D,
                          .v_offset = KV * PAGE * D,
                          .q_ld = HEADS * D,
                          .q_head_ld = D,
                          .out_ld = HEADS * D,
                          .scale = 1.0f / 16};
    const float *pages[CTX / PAGE];
    float *q = malloc((size_t)512 * HEADS * D * sizeof(float));
    float *out = malloc((size_t)512 * HEADS * D * sizeof(float));
    uint64_t seed = 2;
    double t;

    for (size_t p = 0; p < CTX / PAGE; p++) {
        float *page = malloc((size_t)2 * KV * PAGE * D * sizeof(float));
        for (size_t i = 0; page && i < (size_t)2 * KV * PAGE * D; i++)
            page[i] = next_uniform(&seed);
        pages[p] = page;
    }
    for (size_t i = 0; i < (size_t)512 * HEADS * D; i++)
        q[i] = next_uniform(&seed);
    vl_cpu_attention_rows rows = {pages, q, out, 0, 512};
    BEST(t, vl_cpu_attention_run(cpu, &a, &rows, 1));
    double flop = 4.0 * HEADS * D * 512 * 513 / 2;
    printf("  attention, 512 rows at 0       %8.2f ms  %6.1f GFLOP/s (causal half)\n", t * 1e3,
           flop / t / 1e9);
    rows.position = CTX - 512;
    BEST(t, vl_cpu_attention_run(cpu, &a, &rows, 1));
    flop = 4.0 * HEADS * D * 512 * (CTX - 256);
    printf("  attention, 512 rows at %d    %8.2f ms  %6.1f GFLOP/s\n", CTX - 512, t * 1e3,
           flop / t / 1e9);
    rows.position = CTX - 1;
    rows.n_rows = 1;
    BEST(t, vl_cpu_attention_run(cpu, &a, &rows, 1));
    printf("  attention, decode row at %d  %8.3f ms  %6.1f GB/s of KV\n", CTX - 1, t * 1e3,
           8.0 * KV * D * CTX / t / 1e9);
    for (size_t p = 0; p < CTX / PAGE; p++)
        free((void *)(uintptr_t)pages[p]);
    free(q);
    free(out);
}

static void delta_body(void *arg, size_t begin, size_t end, int thread)
{
    float *s = ((void **)arg)[0], *x = ((void **)arg)[1];
    const vl_cpu *cpu = ((void **)arg)[2];
    (void)thread;
    for (size_t h = begin; h < end; h++)
        vl_cpu_delta_step(cpu, s + h * 128 * 128, 128, 128, 0.9f, 0.5f, x, x + 128, x + 256,
                          x + 384 + 128 * h);
}

static void bench_delta(vl_cpu *cpu)
{
    enum { HEADS = 16 * 18 }; /* all linear layers of a 0.8B model */
    float *s = calloc((size_t)HEADS * 128 * 128, sizeof(float));
    float *x = calloc(384 + (size_t)HEADS * 128, sizeof(float));
    void *arg[3] = {s, x, cpu};
    double t;

    if (!s || !x)
        exit(1);
    memset(s, 0, (size_t)HEADS * 128 * 128 * sizeof(float));
    BEST(t, vl_cpu_for(cpu, HEADS, 4, delta_body, arg));
    printf("  delta step, %d heads          %8.3f ms  %6.1f GB/s of state read\n", HEADS, t * 1e3,
           HEADS * 65536.0 / t / 1e9);
    free(s);
    free(x);
}

int main(int argc, char **argv)
{
    vl_cpu_params params = {.max_in = 16, .n_heads = 8, .head_size = 256};
    vl_error err;
    vl_cpu *cpu;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0)
            params.n_threads = (int32_t)strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--form") != 0 ||
                 vl_cpu_form_parse(argv[i + 1], &params.form, NULL) != VL_OK)
            argc = 0;
    }
    if (argc % 2 == 0) {
        fprintf(stderr, "usage: bench_cpu_ops [--threads N] [--form NAME]\n");
        return 2;
    }
    if (vl_cpu_create(&params, &cpu, &err) != VL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%s, %d threads\n", vl_cpu_form_name(vl_cpu_form(cpu)), (int)vl_cpu_threads(cpu));
    bench_sampling(cpu);
    bench_attention(cpu);
    bench_delta(cpu);
    vl_cpu_destroy(cpu);
    return 0;
}
