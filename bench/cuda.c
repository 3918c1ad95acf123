/* bench/cuda.c: what a model does on a CUDA device, through the plugins' tables as the host uses
 * them: start, decode at several batches, time to the first token, a restored prefix. Random
 * prompts: the speed does not depend on what the ids mean.
 *
 *   bench_cuda PLUGIN_DIR CHECKPOINT [CACHE_DIR [N]]     (N: only the first N cases of decode; 0:
 * stop when it is ready) */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vallmo/ext/snapshot.h"
#include "vallmo/loader.h"
#include "vallmo/model.h"

enum { CONTEXT = 36864, ROWS = 64, STEPS = 96, MAX_OPTIONS = 64 };

static const char *cache;
static vl_error err;

static void die(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, err.text);
    exit(1);
}

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void log_line(void *ctx, int32_t level, const char *component, const char *text)
{
    (void)ctx;
    (void)level;
    (void)fprintf(stderr, "%s %s\n", component, text);
}
static const char *cache_dir(void *ctx)
{
    (void)ctx;
    return cache;
}
static const vl_host host = {.struct_size = sizeof(host),
                             .abi_version = VL_ABI_VERSION,
                             .log = log_line,
                             .cache_dir = cache_dir};

/* A plugin with its defaults as option values. */
struct plugin {
    const vl_plugin *head;
    vl_instance *self;
    vl_option_value values[MAX_OPTIONS];
    vl_option_values options;
};

static void load(struct plugin *p, const char *dir, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s.so", dir, name);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    const vl_plugin *(*entry)(void);
    void *symbol = dlsym(lib, "vl_plugin_entry");
    memcpy(&entry, &symbol, sizeof(entry));
    p->head = entry();
    if (p->head->init(&host, &p->self, &err) != VL_OK)
        die(path);
    for (uint64_t i = 0; i < p->head->n_options && i < MAX_OPTIONS; i++) {
        const vl_option *o = &p->head->options[i];
        p->values[i].text = o->def;
        p->values[i].number = o->def != NULL ? strtoll(o->def, NULL, 10) : 0;
        if (o->def != NULL && strstr(o->def, "GiB") != NULL)
            p->values[i].number <<= 30;
    }
    p->options = (vl_option_values){sizeof(p->options), (uint32_t)p->head->n_options, p->values};
}

struct bench {
    const vl_model_api *api;
    vl_model *m;
    const vl_snapshot_api *snap;
    uint64_t step_tokens;
    int32_t *ids; /* [CONTEXT] */
};

static vl_sequence *begin(struct bench *b, uint64_t n_prompt, uint64_t max_tokens,
                          const vl_snapshot *from)
{
    const vl_sampling s = {
        .struct_size = sizeof(s), .top_p = 1.0f, .repetition_penalty = 1.0f, .n_logprobs = -1};
    const vl_sequence_params p = {.struct_size = sizeof(p),
                                  .sampling = &s,
                                  .prompt = b->ids,
                                  .n_prompt = n_prompt,
                                  .max_tokens = max_tokens,
                                  .snapshot = from};
    vl_sequence *out;
    if (b->api->sequence_begin(b->m, &p, &out, &err) != VL_OK)
        die("sequence_begin");
    return out;
}

static void step(struct bench *b, const vl_row *rows, uint64_t n)
{
    static vl_row_result results[ROWS];
    uint64_t ticket;
    if (b->api->submit(b->m, rows, n, &ticket, &err) != VL_OK)
        die("submit");
    if (b->api->collect(b->m, ticket, -1, results, ROWS, &err) != VL_OK)
        die("collect");
}

/* Reads the prompt from `from` on; the time to its first token. */
static double prefill(struct bench *b, vl_sequence *s, uint64_t from, uint64_t n)
{
    const double t0 = now_ms();
    while (from < n) {
        const uint64_t now = n - from < b->step_tokens ? n - from : b->step_tokens;
        const vl_row row = {.sequence = s,
                            .kind = VL_ROW_PREFILL,
                            .flags = from + now == n ? VL_ROW_LAST : 0,
                            .n_ids = now};
        step(b, &row, 1);
        from += now;
    }
    return now_ms() - t0;
}

/* Milliseconds a step of `rows` sequences that have each read n tokens; steps run ahead as the
 * engine does it. */
static double decode(struct bench *b, uint64_t rows, uint64_t n)
{
    vl_row row[ROWS];
    vl_row_result results[ROWS];
    uint64_t tickets[STEPS], tail = 0;
    double best = 1e9;
    for (uint64_t i = 0; i < rows; i++) {
        row[i] = (vl_row){.sequence = begin(b, n, 2000, NULL), .kind = VL_ROW_DECODE};
        (void)prefill(b, row[i].sequence, 0, n);
    }
    for (int again = 0; again < 3; again++) {
        const double t0 = now_ms();
        tail = 0;
        for (uint64_t i = 0; i < STEPS; i++) {
            if (b->api->submit(b->m, row, rows, &tickets[i], &err) != VL_OK)
                die("submit");
            while (i - tail >= 1 || i + 1 == STEPS) {
                if (b->api->collect(b->m, tickets[tail], -1, results, ROWS, &err) != VL_OK)
                    die("collect");
                if (++tail > i)
                    break;
            }
        }
        const double ms = (now_ms() - t0) / STEPS;
        best = ms < best ? ms : best;
    }
    for (uint64_t i = 0; i < rows; i++)
        b->api->sequence_end(b->m, row[i].sequence);
    return best;
}

static double first_token(struct bench *b, uint64_t n)
{
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        vl_sequence *s = begin(b, n, 10, NULL);
        const double ms = prefill(b, s, 0, n);
        best = ms < best ? ms : best;
        b->api->sequence_end(b->m, s);
    }
    return best;
}

static double move(struct bench *b, vl_snapshot *shot, int32_t tier)
{
    const double t0 = now_ms();
    uint64_t ticket;
    if (b->snap->move(b->m, shot, tier, &ticket, &err) != VL_OK ||
        b->snap->moved(b->m, ticket, -1, &err) != VL_OK)
        die("move");
    return now_ms() - t0;
}

/* 32k tokens restored from a snapshot and 50 new ones; then the snapshot's way to host memory (the
 * first time with locking it) and back. */
static double restored(struct bench *b)
{
    enum { OLD = 32768 };
    vl_snapshot *shot = NULL;
    uint64_t position;
    double best = 1e9;
    vl_sequence *s = begin(b, OLD + 50, 10, NULL);
    for (uint64_t at = 0; at < OLD; at += b->step_tokens) {
        const vl_row row = {.sequence = s, .kind = VL_ROW_PREFILL, .n_ids = b->step_tokens};
        step(b, &row, 1);
    }
    if (b->snap->take(b->m, s, &shot, &position, &err) != VL_OK)
        die("take");
    b->api->sequence_end(b->m, s);
    for (int i = 0; i < 4; i++) {
        const double t0 = now_ms();
        s = begin(b, OLD + 50, 10, shot);
        (void)prefill(b, s, position, OLD + 50);
        const double ms = now_ms() - t0;
        best = ms < best ? ms : best;
        b->api->sequence_end(b->m, s);
    }
    vl_snapshot_info info = {.struct_size = sizeof(info)};
    b->snap->info(b->m, shot, &info);
    double out[2], back[2];
    for (int i = 0; i < 2; i++) {
        out[i] = move(b, shot, VL_TIER_HOST);
        back[i] = move(b, shot, VL_TIER_DEVICE);
    }
    (void)printf("snapshot of %.0f MB       out %.1f ms (first %.1f), back %.1f ms\n",
                 (double)(info.own_bytes + info.shared_bytes) * 1e-6, out[1], out[0], back[1]);
    (void)b->snap->drop(b->m, shot);
    return best;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        (void)fprintf(stderr, "usage: %s PLUGIN_DIR CHECKPOINT [CACHE_DIR [N]]\n", argv[0]);
        return 2;
    }
    cache = argc > 3 ? argv[3] : "";
    static struct plugin loader, model;
    load(&loader, argv[1], "safetensors");
    load(&model, argv[1], "qwen35");
    const vl_loader_api *files = loader.head->get_ext(VL_LOADER_ID);
    struct bench b = {.api = model.head->get_ext(VL_MODEL_ID), .step_tokens = 4096};
    vl_checkpoint *cp;
    double t0 = now_ms();
    if (files->open(loader.self, argv[2], &loader.options, &cp, &err) != VL_OK)
        die(argv[2]);
    const vl_model_params p = {.struct_size = sizeof(p),
                               .max_sequences = ROWS,
                               .context_tokens = CONTEXT,
                               .kv_tokens = 262144,
                               .step_tokens = b.step_tokens,
                               .device = "cuda",
                               .options = &model.options};
    if (b.api->open(model.self, files, cp, &p, &b.m, &err) != VL_OK)
        die("open");
    (void)printf("start to ready          %9.1f ms\n", now_ms() - t0);
    const size_t n_only = argc > 4 ? (size_t)strtoul(argv[4], NULL, 10) : SIZE_MAX;
    b.snap = b.api->get_ext(b.m, VL_SNAPSHOT_ID);
    b.ids = calloc(CONTEXT, sizeof(*b.ids));
    vl_model_info info = {.struct_size = sizeof(info)};
    b.api->info(b.m, &info);
    for (uint64_t i = 0, x = 1; b.ids != NULL && i < CONTEXT; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        b.ids[i] = (int32_t)((x >> 33) % info.n_tokens);
    }
    static const uint64_t cases[][2] = {{1, 600}, {1, 32768}, {2, 600},   {4, 600},
                                        {8, 600}, {16, 2048}, {32, 2048}, {64, 2048}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && i < n_only; i++) {
        const double ms = decode(&b, cases[i][0], cases[i][1]);
        (void)printf("decode batch %2llu at %5llu %9.3f ms a step, %8.1f tok/s\n",
                     (unsigned long long)cases[i][0], (unsigned long long)cases[i][1], ms,
                     (double)cases[i][0] * 1e3 / ms);
    }
    if (n_only != SIZE_MAX)
        goto out;
    (void)printf("first token, 100        %9.1f ms\n", first_token(&b, 100));
    (void)printf("first token, 1024       %9.1f ms\n", first_token(&b, 1024));
    (void)printf("first token, 8192       %9.1f ms\n", first_token(&b, 8192));
    (void)printf("first token, 32768      %9.1f ms\n", first_token(&b, 32768));
    (void)printf("restored 32768 + 50     %9.1f ms\n", restored(&b));
out:
    b.api->close(b.m);
    files->close(cp);
    free(b.ids);
    return 0;
}
