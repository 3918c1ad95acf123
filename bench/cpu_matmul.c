/* bench/cpu_matmul.c: the CPU products on the shapes of a 0.8B model, beside the machine's floors.
 *
 *   bench_cpu_matmul [--threads N] [--runs N] [--rows a,b,c] [--form NAME] [--file PATH] [--clock
 * cpu]
 *
 * --clock cpu (one thread) counts processor time, for a machine that others use at the same time.
 *
 * For each form that the processor has: the thin form's GB/s of weights on one token's matrices,
 * and the blocked form's GFLOP/s, each as the best of the runs and beside the floor measured in
 * this run. The weights are random bf16, one after the other in memory as in a checkpoint: in
 * anonymous memory, or with --file in a mapping of that file (made if missing), as the engine has
 * them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/cpu_floors.h"
#include "plugins/common/cpu/cpu.h"

#define N_LAYERS 24
#define HIDDEN 1024
#define VOCAB 248320
#define MAX_ROWS 2048

typedef struct matrix {
    size_t out, in;
    int n; /* how many of them share x in one call: the next n - 1 follow */
} matrix;

/* A layer's matrices, calls in order. */
static const matrix linear_layer[] = {{6144, 1024, 4}, {2048, 1024, 0}, {16, 1024, 0},
                                      {16, 1024, 0},   {1024, 2048, 1}, {3584, 1024, 2},
                                      {3584, 1024, 0}, {1024, 3584, 1}};
static const matrix full_layer[] = {{4096, 1024, 3}, {512, 1024, 0},  {512, 1024, 0},
                                    {1024, 2048, 1}, {3584, 1024, 2}, {3584, 1024, 0},
                                    {1024, 3584, 1}};
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

typedef struct bench {
    uint16_t *weights; /* all layers, then the head */
    size_t n_weights;
    float *x, *y;
    int n_threads, n_runs;
    double read_rate;
} bench;

static size_t layer_weights(const matrix *m, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += m[i].out * m[i].in;
    return sum;
}

static int is_full(int layer)
{
    return layer % 4 == 3;
}

/* All matrices of one forward pass over n_rows rows; the head on head_rows of them. */
static void forward(vl_cpu *cpu, const bench *b, size_t n_rows, size_t head_rows)
{
    const uint16_t *w = b->weights;

    for (int layer = 0; layer < N_LAYERS; layer++) {
        const matrix *m = is_full(layer) ? full_layer : linear_layer;
        size_t n = is_full(layer) ? COUNT(full_layer) : COUNT(linear_layer);
        for (size_t i = 0; i < n; i += (size_t)m[i].n) {
            vl_cpu_matrix call[VL_CPU_MAX_MATRICES];
            float *y = b->y;
            for (int j = 0; j < m[i].n; j++) {
                const matrix *p = &m[i + (size_t)j];
                call[j] = (vl_cpu_matrix){.w = w,
                                          .w_ld = p->in,
                                          .rows = p->out,
                                          .y = y,
                                          .y_ld = p->out,
                                          .dtype = VL_DTYPE_BF16};
                w += p->out * p->in;
                y += p->out * n_rows;
            }
            vl_cpu_matmul(cpu, b->x, m[i].in, n_rows, m[i].in, call, (size_t)m[i].n);
        }
    }
    vl_cpu_matrix head = {
        .w = w, .w_ld = HIDDEN, .rows = VOCAB, .y = b->y, .y_ld = VOCAB, .dtype = VL_DTYPE_BF16};
    vl_cpu_matmul(cpu, b->x, HIDDEN, head_rows, HIDDEN, &head, 1);
}

static double time_forward(vl_cpu *cpu, const bench *b, size_t n_rows, size_t head_rows)
{
    double best = 1e9;

    for (int run = 0; run <= b->n_runs; run++) {
        double start = bench_now();
        forward(cpu, b, n_rows, head_rows);
        double t = bench_now() - start;
        if (run > 0 && t < best)
            best = t;
    }
    return best;
}

static int run_form(const bench *b, int32_t form, size_t *rows, size_t n_sizes)
{
    vl_cpu_params params = {.form = form, .n_threads = b->n_threads, .max_in = 3584};
    vl_cpu *cpu;
    vl_error err;

    if (!vl_cpu_form_supported(form)) {
        printf("%-12s not on this processor\n", vl_cpu_form_name(form));
        return 0;
    }
    if (vl_cpu_create(&params, &cpu, &err) != VL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    double peak = bench_multiply_peak(form, b->n_threads, 5);
    size_t body = b->n_weights - (size_t)VOCAB * HIDDEN;
    printf("%-12s floor %.1f GFLOP/s\n", vl_cpu_form_name(form), peak / 1e9);
    for (size_t i = 0; i < n_sizes; i++) {
        size_t n = rows[i], head_rows = n <= 8 ? n : 1;
        double t = time_forward(cpu, b, n, head_rows);
        double bytes = 2.0 * (double)b->n_weights, flop = 2.0 * (double)body * (double)n;
        flop += 2.0 * (double)VOCAB * HIDDEN * (double)head_rows;
        printf("  %4zu rows  %8.2f ms  %8.1f tok/s  %6.1f GB/s", n, t * 1e3, (double)n / t,
               bytes / t / 1e9);
        printf(" (%3.0f %% of read)  %7.1f GFLOP/s", 100 * bytes / t / b->read_rate,
               flop / t / 1e9);
        if (peak > 0)
            printf(" (%3.0f %% of peak)", 100 * flop / t / peak);
        printf("\n");
        fflush(stdout);
    }
    vl_cpu_destroy(cpu);
    return 0;
}

static void fill(uint16_t *w, size_t n)
{
    uint64_t s = 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        /* sign, exponents around 2^-6, mantissa */
        w[i] = (uint16_t)((s >> 33 & 0x8000) | ((0x78 + (s >> 50 & 3)) << 7) | (s >> 55 & 0x7f));
    }
}

static void *map_weights(const char *path, size_t bytes)
{
    if (!path) {
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p != MAP_FAILED)
            fill(p, bytes / 2);
        return p;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return MAP_FAILED;
    int fresh = (size_t)st.st_size < bytes;
    if (fresh && ftruncate(fd, (off_t)bytes) != 0)
        return MAP_FAILED;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED && fresh)
        fill(p, bytes / 2);
    close(fd);
    return p;
}

static size_t parse_rows(const char *text, size_t *rows, size_t cap)
{
    size_t n = 0;
    char *end;

    while (n < cap && *text) {
        unsigned long v = strtoul(text, &end, 10);
        if (end == text || v == 0 || v > MAX_ROWS)
            return 0;
        rows[n++] = v;
        text = *end == ',' ? end + 1 : end;
    }
    return n;
}

int main(int argc, char **argv)
{
    bench b = {.n_threads = vl_cpu_default_threads(), .n_runs = 5};
    size_t rows[16] = {1, 2, 4, 8, 16, 64, 128, 512}, n_sizes = 8;
    int32_t form = VL_CPU_AUTO;
    const char *path = NULL;
    int cpu_clock = 0;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0)
            b.n_threads = (int)strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--runs") == 0)
            b.n_runs = (int)strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--rows") == 0)
            n_sizes = parse_rows(argv[i + 1], rows, COUNT(rows));
        else if (strcmp(argv[i], "--file") == 0)
            path = argv[i + 1];
        else if (strcmp(argv[i], "--clock") == 0 && strcmp(argv[i + 1], "cpu") == 0)
            cpu_clock = 1;
        else if (strcmp(argv[i], "--form") != 0 ||
                 vl_cpu_form_parse(argv[i + 1], &form, NULL) != VL_OK)
            n_sizes = 0;
    }
    if (argc % 2 == 0 || n_sizes == 0 || b.n_threads < 1 || (cpu_clock && b.n_threads > 1)) {
        fprintf(stderr,
                "usage: bench_cpu_matmul [--threads N] [--runs N] [--rows a,b] [--form NAME] "
                "[--file PATH] [--clock cpu]\n");
        return 2;
    }
    if (cpu_clock)
        bench_use_cpu_clock();
    for (int layer = 0; layer < N_LAYERS; layer++)
        b.n_weights += is_full(layer) ? layer_weights(full_layer, COUNT(full_layer))
                                      : layer_weights(linear_layer, COUNT(linear_layer));
    b.n_weights += (size_t)VOCAB * HIDDEN;
    size_t bytes = b.n_weights * 2 / 4096 * 4096;
    b.weights = map_weights(path, b.n_weights * 2);
    b.x = aligned_alloc(64, (size_t)MAX_ROWS * 3584 * sizeof(float));
    b.y = aligned_alloc(64, (size_t)MAX_ROWS * 10240 * sizeof(float));
    if (b.weights == MAP_FAILED || !b.x || !b.y) {
        perror("bench_cpu_matmul: memory");
        return 1;
    }
    memset(b.y, 0, (size_t)MAX_ROWS * 10240 * sizeof(float));
    for (size_t i = 0; i < (size_t)MAX_ROWS * 3584; i++)
        b.x[i] = (float)((int)(i * 2654435761u >> 20 & 0xfff) - 2048) / 2048.0f;
    b.read_rate = bench_stream_read(b.weights, bytes, b.n_threads, b.n_runs);
    printf("%.1f MB of bf16 weights, %d threads; stream read %.1f GB/s\n",
           (double)b.n_weights * 2e-6, b.n_threads, b.read_rate / 1e9);
    for (int32_t f = VL_CPU_N_FORMS - 1; f >= VL_CPU_SCALAR; f--)
        if ((form == VL_CPU_AUTO ? f != VL_CPU_SCALAR : f == form) &&
            run_form(&b, f, rows, n_sizes))
            return 1;
    free(b.x);
    free(b.y);
    munmap(b.weights, b.n_weights * 2);
    return 0;
}
