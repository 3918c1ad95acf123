/* bench/constrain.c: what constrained output costs: the vocabulary, compiling, a mask a token.
 *   bench_constrain TOKENIZER.json [ANSWERS]
 * For each schema of a sample, ANSWERS (default 20) answers of its kind are written token by token,
 * each token after its mask, as the engine does. Prints microseconds a mask: median, 99th of 100,
 * worst, over the first answer (nothing remembered) and over all; and a step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "host/lib/constrain/constrain.h"
#include "host/lib/constrain/vocabulary.h"
#include "plugins/tokenizers/bpe/tokenizer.h"

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- the tokenizer as its interface ---- */

static uint64_t n_tokens(const vl_tokenizer *t)
{
    return t->bpe.tokens.n_ids;
}

static vl_bytes token(const vl_tokenizer *t, int32_t id)
{
    return vl_tokens_bytes(&t->bpe.tokens, id);
}

static const int32_t *stop_ids(const vl_tokenizer *t, uint64_t *n)
{
    *n = t->n_stop_ids;
    return t->stop_ids;
}

static uint64_t max_token_bytes(const vl_tokenizer *t)
{
    return t->bpe.tokens.max_len;
}

static const vl_tokenizer_api api = {
    .struct_size = sizeof(vl_tokenizer_api),
    .abi_version = VL_ABI_VERSION,
    .encode = vl_bpe_tokenizer_encode,
    .n_tokens = n_tokens,
    .find = vl_bpe_tokenizer_find,
    .token = token,
    .flags = vl_bpe_tokenizer_flags,
    .stop_ids = stop_ids,
    .max_token_bytes = max_token_bytes,
};

static vl_tokenizer *load(const char *path)
{
    vl_map map = {0};
    vl_error err;
    vl_tokenizer *t = NULL;
    struct vl_bpe_files files = {0};

    if (vl_map_open(path, &map, &err) != VL_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    files.tokenizer = (vl_bytes){(const char *)map.ptr, map.len};
    if (vl_bpe_load_json(&files, &t, &err) != VL_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    vl_map_close(&map);
    return t;
}

/* ---- the sample ---- */

static const struct {
    const char *name, *schema, *text;
} samples[] = {
    {"json_object", "{\"type\":\"object\"}",
     "{\"name\": \"Anna Berg\", \"address\": {\"street\": \"Storgatan 5, second floor\", \"city\": "
     "\"Umeå\"}, \"tags\": [\"red\", \"blue\", "
     "\"a somewhat longer text, with commas and \\\"quotes\\\" in it\"], \"age\": 31, \"score\": "
     "-12.75, \"member\": true}"},
    {"person",
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
     "\"integer\"},\"member\":{\"type\":\"boolean\"}},"
     "\"required\":[\"name\",\"age\",\"member\"],\"additionalProperties\":false}",
     "{\"name\": \"Anna Maria Berg\", \"age\": 31, \"member\": true}"},
    {"essay",
     "{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\"},\"text\":{\"type\":"
     "\"string\"}},\"required\":[\"title\",\"text\"],\"additionalProperties\":false}",
     "{\"title\": \"On poppies\", \"text\": \"The corn poppy grows in fields and at the side of "
     "roads. Its petals are thin as paper; they "
     "open in the morning and fall within a day or two.\\n\\nIn Swedish it is called vallmo, and "
     "people have painted it for as long as "
     "there have been fields to stand in. 日本語では「ヒナゲシ」と言います。\"}"},
    {"invoice",
     "{\"type\":\"object\",\"$defs\":{\"item\":{\"type\":\"object\",\"properties\":{\"sku\":{"
     "\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-[0-9]{4}$\"},"
     "\"name\":{\"type\":\"string\",\"maxLength\":60},\"count\":{\"type\":\"integer\",\"minimum\":"
     "1,\"maximum\":999},\"price\":{\"type\":\"number\",\"minimum\":0}},"
     "\"required\":[\"sku\",\"name\",\"count\",\"price\"],\"additionalProperties\":false}},"
     "\"properties\":{\"date\":{\"type\":\"string\",\"format\":\"date\"},"
     "\"currency\":{\"enum\":[\"EUR\",\"SEK\",\"USD\"]},\"note\":{\"anyOf\":[{\"type\":\"string\","
     "\"maxLength\":200},{\"type\":\"null\"}]},"
     "\"items\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
     "item\"},\"minItems\":1,\"maxItems\":50}},\"required\":[\"date\",\"currency\",\"items\"],"
     "\"additionalProperties\":false}",
     "{\n  \"date\": \"2026-03-14\",\n  \"currency\": \"SEK\",\n  \"note\": \"Thank you for your "
     "order\",\n  \"items\": [\n    {\n      \"sku\": \"AB-1234\",\n      "
     "\"name\": \"Seeds of the common poppy\",\n      \"count\": 12,\n      \"price\": 24.50\n    "
     "},\n    {\n      \"sku\": \"XY-0001\",\n      \"name\": \"Watering can\",\n      "
     "\"count\": 1,\n      \"price\": 199\n    }\n  ]\n}"},
    {"tree",
     "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"label\":{\"type\":\"string\"},"
     "\"children\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/node\"}}},"
     "\"required\":[\"label\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/node\"}",
     "{\"label\": \"root\", \"children\": [{\"label\": \"left side\", \"children\": [{\"label\": "
     "\"a leaf\"}, {\"label\": \"another leaf\"}]}, {\"label\": \"right side\"}]}"},
    {"open_map",
     "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\"}},\"required\":[\"id\"],"
     "\"additionalProperties\":{\"type\":\"string\"}}",
     "{\"id\": 7, \"colour\": \"red\", \"colour of the stem\": \"green\"}"},
};
enum { N_SAMPLES = sizeof samples / sizeof samples[0], MASKS_MAX = 1000000 };

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void report(const char *name, const char *which, double *us, size_t n)
{
    double sum = 0;

    if (n == 0)
        return;
    qsort(us, n, sizeof *us, compare);
    for (size_t i = 0; i < n; i++)
        sum += us[i];
    printf("%-12s %-6s masks=%zu median_us=%.1f p99_us=%.1f max_us=%.1f masks_per_s=%.0f\n", name,
           which, n, us[n / 2], us[(n * 99) / 100], us[n - 1], (double)n / sum * 1e6);
}

struct timing {
    double *masks, *first; /* [MASKS_MAX] */
    size_t n_masks, n_first;
    double step_us;
    size_t n_steps;
};

/* One answer. */
static void answer(struct timing *t, vl_constrain *c, const int32_t *ids, size_t n, uint32_t *mask,
                   size_t n_words, bool is_first)
{
    void *state = vl_constrain_api.create(c, 0);
    vl_error err;
    bool free_run;

    for (size_t i = 0; i < n && t->n_masks < MASKS_MAX; i++) {
        memset(mask, 0, n_words * sizeof *mask);
        double t0 = now_us();
        int use = vl_constrain_api.mask(state, VL_CHAT_CONTENT, mask, n_words, &free_run, &err);
        double t1 = now_us();
        if (use != 1 || (mask[ids[i] / 32] >> (ids[i] % 32) & 1) == 0) {
            fprintf(stderr, "token %zu (id %d) is not allowed\n", i, ids[i]);
            exit(1);
        }
        t->masks[t->n_masks++] = t1 - t0;
        if (is_first)
            t->first[t->n_first++] = t1 - t0;
        double t2 = now_us();
        vl_constrain_api.accept(state, VL_CHAT_CONTENT, ids[i]);
        t->step_us += now_us() - t2;
        t->n_steps++;
    }
    vl_constrain_api.destroy(state);
}

static void measure(struct timing *all, const vl_tokenizer *t, vl_vocabulary *v, size_t s,
                    int answers)
{
    static struct timing own;
    size_t n_words = (n_tokens(t) + 31) / 32, len = strlen(samples[s].text);
    int32_t *ids = malloc((len + 1) * sizeof *ids);
    uint32_t *mask = malloc(n_words * sizeof *mask);
    vl_piece piece = {samples[s].text, len, VL_PIECE_TEXT, 0};
    char format[4096];
    uint64_t n = 0;
    vl_error err = {0};
    vl_constrain *c = NULL;

    snprintf(format, sizeof format, "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":%s}}",
             samples[s].schema);
    if (!own.masks) {
        own.masks = malloc(MASKS_MAX * sizeof *own.masks);
        own.first = malloc(MASKS_MAX * sizeof *own.first);
    }
    own.n_masks = own.n_first = 0;
    struct vl_constrain_params p = {.response_format = {format, strlen(format)}};
    double t0 = now_us();
    if (!ids || !mask || !own.masks || !own.first ||
        vl_bpe_tokenizer_encode(t, &piece, 1, NULL, NULL, 0, ids, len + 1, &n, &err) != VL_OK ||
        vl_constrain_create(v, &p, &c, NULL, &err) != VL_OK) {
        fprintf(stderr, "%s: %s\n", samples[s].name, err.text);
        exit(1);
    }
    printf("%-12s compile_us=%.0f tokens=%llu\n", samples[s].name, now_us() - t0,
           (unsigned long long)n);
    for (int i = 0; i < answers; i++)
        answer(&own, c, ids, (size_t)n, mask, n_words, i == 0);
    memcpy(all->masks + all->n_masks, own.masks, own.n_masks * sizeof *own.masks);
    memcpy(all->first + all->n_first, own.first, own.n_first * sizeof *own.first);
    all->n_masks += own.n_masks;
    all->n_first += own.n_first;
    all->step_us += own.step_us;
    all->n_steps += own.n_steps;
    own.step_us = 0;
    own.n_steps = 0;
    report(samples[s].name, "first", own.first, own.n_first);
    report(samples[s].name, "all", own.masks, own.n_masks);
    vl_constrain_destroy(c);
    free(ids);
    free(mask);
}

int main(int argc, char **argv)
{
    int answers = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 20;
    vl_vocabulary *v = NULL;
    vl_error err = {0};
    struct timing all = {.masks = malloc(N_SAMPLES * MASKS_MAX * sizeof(double)),
                         .first = malloc(N_SAMPLES * MASKS_MAX * sizeof(double))};

    if (argc < 2 || answers < 1 || !all.masks || !all.first) {
        fprintf(stderr, "bench_constrain TOKENIZER.json [ANSWERS]\n");
        return 2;
    }
    vl_tokenizer *t = load(argv[1]);
    double best = 1e99;
    for (int i = 0; i < 3; i++) {
        vl_vocabulary_destroy(v);
        double t0 = now_us();
        if (vl_vocabulary_create(&api, t, &v, &err) != VL_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        best = now_us() - t0 < best ? now_us() - t0 : best;
    }
    printf("vocabulary tokens=%u nodes=%u ms=%.1f trie_mib=%.1f strings_mib=%.1f\n", v->n_tokens,
           v->n_nodes, best / 1e3, ((double)v->n_nodes * 11 + (double)v->n_tokens * 4) / 1048576,
           ((double)v->n_levels * (double)v->n_words * 4 + (double)v->n_exits * 8) / 1048576);
    for (size_t s = 0; s < N_SAMPLES; s++)
        measure(&all, t, v, s, answers);
    printf("step_us=%.2f\n", all.step_us / (double)all.n_steps);
    report("total", "first", all.first, all.n_first);
    report("total", "all", all.masks, all.n_masks);
    vl_vocabulary_destroy(v);
    vl_bpe_tokenizer_destroy(t);
    free(all.masks);
    free(all.first);
    return 0;
}
