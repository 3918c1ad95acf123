/* bench/tokenizer.c: speed of the bpe tokenizer on one thread.
 *   bench_tokenizer [-r RUNS] [-o IDS] TOKENIZER.json FILE...
 * Prints a line for the load and one a file and call size: bytes, ids, best of RUNS in ms, MB/s
 * (10^6). With -o the ids of the last file go to IDS as little-endian i32, for comparison.
 * bench/tokenizer.py drives it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "plugins/tokenizers/bpe/tokenizer.h"

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static vl_tokenizer *load(const char *path, int runs)
{
    vl_tokenizer *t = NULL;
    double best = 1e99;
    vl_error err;

    for (int i = 0; i < runs; i++) {
        vl_map map = {0};
        struct vl_bpe_files files = {0};
        vl_bpe_tokenizer_destroy(t);
        t = NULL;
        double t0 = now_ms();
        if (vl_map_open(path, &map, &err) != VL_OK) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        files.tokenizer = (vl_bytes){(const char *)map.ptr, map.len};
        if (vl_bpe_load_json(&files, &t, &err) != VL_OK) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        double ms = now_ms() - t0;
        best = ms < best ? ms : best;
        vl_map_close(&map);
    }
    printf("load ms=%.1f tokens=%zu\n", best, t->bpe.tokens.n_ids);
    return t;
}

/* Encodes text in calls of about `step` bytes, cut before a character. Returns the number of ids.
 */
static uint64_t encode(const vl_tokenizer *t, const vl_map *text, size_t step, int32_t *ids)
{
    uint64_t total = 0;
    for (size_t at = 0; at < text->len;) {
        size_t end = text->len - at > step ? at + step : text->len;
        while (end < text->len && (text->ptr[end] & 0xc0) == 0x80)
            end++;
        vl_piece piece = {(const char *)text->ptr + at, end - at, VL_PIECE_TEMPLATE, 0};
        uint64_t n = 0;
        vl_error err;
        if (vl_bpe_tokenizer_encode(t, &piece, 1, NULL, NULL, 0, ids + total, text->len - total, &n,
                                    &err)) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        total += n;
        at = end;
    }
    return total;
}

int main(int argc, char **argv)
{
    int runs = 5, c;
    const char *out = NULL;

    while ((c = getopt(argc, argv, "r:o:")) != -1) {
        if (c == 'r')
            runs = (int)strtol(optarg, NULL, 10);
        else if (c == 'o')
            out = optarg;
    }
    if (argc - optind < 1 || runs < 1) {
        fprintf(stderr, "usage: bench_tokenizer [-r RUNS] [-o IDS] TOKENIZER.json FILE...\n");
        return 2;
    }
    vl_tokenizer *t = load(argv[optind], runs);
    for (int i = optind + 1; i < argc; i++) {
        static const size_t steps[] = {4096, SIZE_MAX};
        vl_map text;
        vl_error err;
        if (vl_map_open(argv[i], &text, &err) != VL_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        int32_t *ids = malloc((text.len + 1) * sizeof *ids);
        uint64_t n = 0;
        for (size_t s = 0; s < 2; s++) {
            double best = 1e99;
            for (int r = 0; r < runs; r++) {
                double t0 = now_ms();
                n = encode(t, &text, steps[s], ids);
                double ms = now_ms() - t0;
                best = ms < best ? ms : best;
            }
            printf("encode file=%s call_bytes=%zu bytes=%zu ids=%llu ms=%.3f mb_s=%.1f\n",
                   vl_path_base(argv[i]), steps[s] < text.len ? steps[s] : text.len, text.len,
                   (unsigned long long)n, best, (double)text.len / best / 1e3);
        }
        FILE *f = out != NULL && i == argc - 1 ? fopen(out, "wb") : NULL;
        if (f != NULL && (fwrite(ids, sizeof *ids, n, f) != n || fclose(f) != 0))
            return 1;
        free(ids);
        vl_map_close(&text);
    }
    vl_bpe_tokenizer_destroy(t);
    return 0;
}
