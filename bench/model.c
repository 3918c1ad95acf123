/* bench/model.c: a checkpoint's speed through the qwen35 plugin's tables, on the CPU, beside the
 * machine's floors.
 *
 *   bench_model CHECKPOINT [--form NAME] [--threads N] [--prompt N] [--decode N] [--batch N]
 * [--runs N] [--loader FILE.so]
 *
 * Decode reads every weight once a token, so it stands beside the stream-read bandwidth; a prompt
 * multiplies, so it stands beside the peak multiply rate of the form in use, and beside the time of
 * that with the time of reading the weights once. Floors and figures are
 * the best of the runs, measured in one process. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/cpu_floors.h"
#include "plugins/common/cpu/cpu.h"
#include "plugins/qwen35/backend.h"

#define FLOOR_BYTES ((size_t)1 << 30) /* more than any cache */

struct bench {
    const char *path, *loader_path, *form;
    int threads, n_prompt, n_decode, n_batch, n_runs;
    const vl_loader_api *loader;
    vl_instance *loader_self, *self;
    vl_checkpoint *checkpoint;
    const vl_model_api *api;
    vl_model *model;
    vl_q35_config config;
};

static void say(void *ctx, int32_t level, const char *component, const char *text)
{
    (void)ctx;
    (void)level;
    printf("%s: %s\n", component, text);
}

static const vl_host host = {
    .struct_size = sizeof(host), .abi_version = VL_ABI_VERSION, .log = say};

static int failed(const char *what, const vl_error *err)
{
    (void)fprintf(stderr, "%s: %s\n", what, err->text);
    return 1;
}

/* The safetensors plugin beside this program's build, unless told otherwise. */
static int open_checkpoint(struct bench *b)
{
    char path[PATH_MAX + 64], self[PATH_MAX];
    vl_error err = {0};
    if (b->loader_path == NULL) {
        const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        self[n > 0 ? n : 0] = '\0';
        for (int up = 0; up < 3; up++) { /* plugins/qwen35/bench_model */
            char *slash = strrchr(self, '/');
            if (slash != NULL)
                *slash = '\0';
        }
        (void)snprintf(path, sizeof(path), "%s/plugins/safetensors.so", self);
        b->loader_path = path;
    }
    void *lib = dlopen(b->loader_path, RTLD_NOW | RTLD_LOCAL);
    vl_plugin_entry_fn entry = NULL;
    if (lib != NULL) {
        void *symbol = dlsym(lib, VL_PLUGIN_ENTRY);
        memcpy(&entry, &symbol, sizeof(entry));
    }
    if (entry == NULL) {
        (void)fprintf(stderr, "%s: %s\n", b->loader_path, dlerror());
        return 1;
    }
    const vl_plugin *p = entry();
    if (p->init(&host, &b->loader_self, &err) != VL_OK)
        return failed(b->loader_path, &err);
    b->loader = p->get_ext(VL_LOADER_ID);
    if (b->loader->open(b->loader_self, b->path, NULL, &b->checkpoint, &err) != VL_OK)
        return failed(b->path, &err);
    return vl_q35_config_parse(b->loader->text(b->checkpoint, VL_TEXT_CONFIG), &b->config, &err) ==
                   VL_OK
               ? 0
               : failed(b->path, &err);
}

static int open_model(struct bench *b)
{
    const vl_plugin *p = vl_plugin_entry();
    vl_error err = {0};
    if (p->init(&host, &b->self, &err) != VL_OK)
        return failed("qwen35", &err);
    b->api = p->get_ext(VL_MODEL_ID);
    vl_option_value values[VL_Q35_N_OPTIONS] = {{0}};
    values[VL_Q35_OPT_CPU_FORM].text = b->form;
    values[VL_Q35_OPT_THREADS].number = b->threads;
    const vl_option_values options = {
        .struct_size = sizeof(options), .n_values = VL_Q35_N_OPTIONS, .values = values};
    const vl_model_params params = {.struct_size = sizeof(params),
                                    .max_sequences = (uint32_t)b->n_batch,
                                    .context_tokens = (uint64_t)(b->n_prompt + b->n_decode + 8),
                                    .kv_tokens = (uint64_t)(b->n_prompt + b->n_decode + 72) *
                                                 (uint64_t)b->n_batch,
                                    .step_tokens = (uint64_t)b->n_prompt,
                                    .device = "cpu",
                                    .options = &options};
    return b->api->open(b->self, b->loader, b->checkpoint, &params, &b->model, &err) == VL_OK
               ? 0
               : failed(b->path, &err);
}

static int step(struct bench *b, const vl_row *rows, size_t n_rows, vl_row_result *results)
{
    vl_error err = {0};
    uint64_t ticket;
    if (b->api->submit(b->model, rows, n_rows, &ticket, &err) != VL_OK ||
        b->api->collect(b->model, ticket, -1, results, n_rows, &err) != VL_OK)
        return failed("step", &err);
    return 0;
}

/* One prompt a sequence, then decode steps of all together. Keeps the best times, and adds all
 * decode steps up: their mean shows what neighbours on the machine cost. */
static int run(struct bench *b, double *prefill_s, double *decode_s, double *decode_sum_s)
{
    int32_t *prompt = malloc((size_t)b->n_prompt * sizeof(*prompt));
    vl_sequence **s = calloc((size_t)b->n_batch, sizeof(*s));
    vl_row *rows = calloc((size_t)b->n_batch, sizeof(*rows));
    vl_row_result *results = calloc((size_t)b->n_batch, sizeof(*results));
    int rc = prompt == NULL || s == NULL || rows == NULL || results == NULL;
    const vl_sampling sampling = {.struct_size = sizeof(sampling),
                                  .top_p = 1.0f,
                                  .repetition_penalty = 1.0f,
                                  .n_logprobs = -1};
    for (int i = 0; !rc && i < b->n_prompt; i++)
        prompt[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)b->config.vocab);
    const vl_sequence_params params = {.struct_size = sizeof(params),
                                       .sampling = &sampling,
                                       .prompt = prompt,
                                       .n_prompt = (uint64_t)b->n_prompt,
                                       .max_tokens = (uint64_t)b->n_decode + 1};
    for (int i = 0; !rc && i < b->n_batch; i++) {
        vl_error err = {0};
        if (b->api->sequence_begin(b->model, &params, &s[i], &err) != VL_OK) {
            rc = failed("sequence", &err);
            break;
        }
        rows[i] = (vl_row){.sequence = s[i],
                           .kind = VL_ROW_PREFILL,
                           .flags = VL_ROW_LAST,
                           .n_ids = (uint64_t)b->n_prompt};
        const double start = bench_now();
        rc = step(b, &rows[i], 1, results);
        const double t = bench_now() - start;
        *prefill_s = t < *prefill_s ? t : *prefill_s;
        rows[i] = (vl_row){.sequence = s[i], .kind = VL_ROW_DECODE};
    }
    for (int i = 0; !rc && i < b->n_decode; i++) {
        const double start = bench_now();
        rc = step(b, rows, (size_t)b->n_batch, results);
        const double t = bench_now() - start;
        *decode_s = t < *decode_s ? t : *decode_s;
        *decode_sum_s += t;
    }
    for (int i = 0; s != NULL && i < b->n_batch; i++)
        b->api->sequence_end(b->model, s[i]);
    free(results);
    free(rows);
    free(s);
    free(prompt);
    return rc;
}

static int measure(struct bench *b)
{
    vl_model_info info = {.struct_size = sizeof(info)};
    b->api->info(b->model, &info);
    int32_t form = VL_CPU_AUTO;
    if (vl_cpu_form_parse(b->form, &form, NULL) != VL_OK || form == VL_CPU_AUTO)
        form = vl_cpu_form_best();
    const int threads = b->threads > 0 ? b->threads : (int)vl_cpu_default_threads();
    double prefill = 1e9, decode = 1e9, decode_sum = 0, read_rate = 0, peak = 0;
    void *memory = aligned_alloc(1 << 21, FLOOR_BYTES);
    if (memory == NULL)
        return 1;
    memset(memory, 1, FLOOR_BYTES);
    for (int i = 0; i < b->n_runs;
         i++) { /* floors between the runs: neighbours on the machine come and go */
        const double r = bench_stream_read(memory, FLOOR_BYTES, threads, 3),
                     p = bench_multiply_peak(form, threads, 3);
        read_rate = r > read_rate ? r : read_rate;
        peak = p > peak ? p : peak;
        if (run(b, &prefill, &decode, &decode_sum) != 0) {
            free(memory);
            return 1;
        }
    }
    free(memory);
    const double params = (double)vl_q35_n_parameters(&b->config);
    const double embed = (double)b->config.vocab * (double)b->config.hidden;
    const double read =
        2.0 *
        (params - (b->config.tied ? 0.0 : embed)); /* bf16; a row of the embedding is nothing */
    const double body = params - embed * (b->config.tied ? 1.0 : 2.0);
    const double flop = 2.0 * (body * b->n_prompt + embed); /* the head for the last row alone */
    printf("%s, %s\n", b->path, info.device);
    printf("floors    read %.1f GB/s, multiply %.1f GFLOP/s (best of %d)\n", read_rate / 1e9,
           peak / 1e9, b->n_runs);
    printf("decode    batch %d: %.2f ms a step (mean %.2f), %.1f tok/s, %.1f GB/s of weights, %.0f "
           "%% of "
           "read\n",
           b->n_batch, decode * 1e3, decode_sum / b->n_decode / b->n_runs * 1e3,
           b->n_batch / decode, read / decode / 1e9, 100 * read / decode / read_rate);
    printf(
        "prompt    %d tokens: %.1f ms, %.1f tok/s, %.1f GFLOP/s in matmuls, %.0f %% of multiply\n",
        b->n_prompt, prefill * 1e3, b->n_prompt / prefill, flop / prefill / 1e9,
        peak > 0 ? 100 * flop / prefill / peak : 0.0);
    if (peak > 0) {
        /* Registers can't be fed for nothing: every weight comes from memory once. The two overlap
         * at best (max) and follow each other at worst (sum). */
        const double multiply_s = flop / peak, read_s = read / read_rate;
        const double most = multiply_s > read_s ? multiply_s : read_s;
        printf(
            "          floor %.1f ms of multiplying, %.1f ms of reading weights: %.0f %% of their "
            "max, %.0f %% of their sum\n",
            multiply_s * 1e3, read_s * 1e3, 100 * most / prefill,
            100 * (multiply_s + read_s) / prefill);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct bench b = {.form = "auto", .n_prompt = 512, .n_decode = 16, .n_batch = 1, .n_runs = 3};
    const struct {
        const char *name;
        int *number;
        const char **text;
    } flags[] = {{"--form", NULL, &b.form},         {"--threads", &b.threads, NULL},
                 {"--prompt", &b.n_prompt, NULL},   {"--decode", &b.n_decode, NULL},
                 {"--batch", &b.n_batch, NULL},     {"--runs", &b.n_runs, NULL},
                 {"--loader", NULL, &b.loader_path}};
    for (int i = 1; i < argc; i++) {
        size_t f = 0;
        while (f < sizeof(flags) / sizeof(flags[0]) && strcmp(argv[i], flags[f].name) != 0)
            f++;
        if (f == sizeof(flags) / sizeof(flags[0]) && argv[i][0] != '-' && b.path == NULL) {
            b.path = argv[i];
        } else if (f < sizeof(flags) / sizeof(flags[0]) && i + 1 < argc) {
            i++;
            if (flags[f].number != NULL)
                *flags[f].number = (int)strtol(argv[i], NULL, 10);
            else
                *flags[f].text = argv[i];
        } else {
            b.path = NULL;
            break;
        }
    }
    if (b.path == NULL || b.n_prompt < 1 || b.n_decode < 1 || b.n_batch < 1 || b.n_runs < 1 ||
        b.threads < 0) {
        (void)fprintf(stderr, "use: bench_model CHECKPOINT [--form NAME] [--threads N] [--prompt "
                              "N] [--decode N] [--batch N] "
                              "[--runs N] [--loader FILE.so]\n");
        return 2;
    }
    int rc = open_checkpoint(&b);
    if (rc == 0)
        rc = open_model(&b);
    if (rc == 0)
        rc = measure(&b);
    if (b.api != NULL)
        b.api->close(b.model);
    if (b.checkpoint != NULL)
        b.loader->close(b.checkpoint);
    return rc;
}
