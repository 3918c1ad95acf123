/* test_tokenizer_merge.c: the merge core against a plain one that follows the definition, for all
 * lengths and for merges in any order; long pieces in linear time; marks; pieces and what may match
 * in them. */
#include "tokenizer_util.h"

#include <stdlib.h>
#include <time.h>

/* By the definition: the lowest rank, the leftmost of equals, until none is left. n^2. */
static size_t merge_plainly(const struct vl_bpe *b, const uint8_t *piece, size_t n, int32_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = b->byte_id[piece[i]];
    for (;;) {
        size_t at = 0, best = SIZE_MAX;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t r = b->n_merges; r-- > 0;)
                if (b->merges[r].left == ids[i] && b->merges[r].right == ids[i + 1]) {
                    if (r < best) {
                        best = r;
                        at = i;
                    }
                    break; /* of equal pairs the later rank counts */
                }
        if (best == SIZE_MAX)
            return n;
        ids[at] = b->merges[best].merged;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

static void expect_plain(const struct vl_bpe *b, const uint8_t *piece, size_t n)
{
    struct vl_ids got = {NULL, 0, 0};
    struct vl_bpe_scratch scratch = {0};
    int32_t *want = malloc(n * sizeof *want);

    assert_non_null(want);
    for (int twice = 0; twice < 2;
         twice++) { /* the second time the memory of whole tokens is in use */
        got.n = 0;
        assert_int_equal(vl_bpe_encode(b, &scratch, piece, n, &got, NULL), VL_OK);
        size_t n_want = merge_plainly(b, piece, n, want);
        assert_int_equal(got.n, n_want);
        assert_memory_equal(got.ptr, want, n_want * sizeof *want);
    }
    free(want);
    free(got.ptr);
    vl_bpe_scratch_fini(&scratch);
}

/* Random merges over a and b and c. ordered: a token is made before it is used. */
static void random_merges(struct vl_bpe *b, uint64_t *seed, bool ordered)
{
    struct {
        char text[32];
        size_t len;
    } tokens[64];
    struct {
        size_t l, r;
    } merges[40];
    size_t n_tokens = 3, n_merges = 0;

    assert_int_equal(vl_bpe_init(b, 300, 1000, NULL), VL_OK);
    for (int i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        assert_int_equal(vl_tokens_add(&b->tokens, i, &byte, 1, true, NULL), VL_OK);
    }
    for (size_t i = 0; i < 3; i++) {
        tokens[i].text[0] = (char)('a' + i);
        tokens[i].len = 1;
    }
    while (n_merges < 30) {
        size_t l = tok_random(seed) % n_tokens, r = tok_random(seed) % n_tokens;
        size_t len = tokens[l].len + tokens[r].len;
        char both[64];
        bool known = false;
        if (len > 30)
            continue;
        memcpy(both, tokens[l].text, tokens[l].len);
        memcpy(both + tokens[l].len, tokens[r].text, tokens[r].len);
        for (size_t i = 0; i < n_tokens; i++)
            known = known || (tokens[i].len == len && memcmp(tokens[i].text, both, len) == 0);
        if (!known && n_tokens < 64) {
            memcpy(tokens[n_tokens].text, both, len);
            tokens[n_tokens].len = len;
            assert_int_equal(
                vl_tokens_add(&b->tokens, 256 + (int64_t)n_tokens, both, len, true, NULL), VL_OK);
            n_tokens++;
        }
        merges[n_merges].l = l;
        merges[n_merges].r = r;
        n_merges++;
    }
    for (size_t i = n_merges; !ordered && i-- > 1;) { /* shuffled: ranks that no training gives */
        size_t j = tok_random(seed) % (i + 1);
        size_t l = merges[i].l, r = merges[i].r;
        merges[i] = merges[j];
        merges[j].l = l;
        merges[j].r = r;
    }
    struct vl_bpe_batch batch = {.bpe = b};
    assert_int_equal(vl_bpe_reserve_merges(b, n_merges, false, NULL), VL_OK);
    for (size_t i = 0; i < n_merges; i++)
        assert_int_equal(
            vl_bpe_batch_add(&batch, i,
                             (vl_bytes){tokens[merges[i].l].text, tokens[merges[i].l].len},
                             (vl_bytes){tokens[merges[i].r].text, tokens[merges[i].r].len}, NULL),
            VL_OK);
    assert_int_equal(vl_bpe_batch_flush(&batch, NULL), VL_OK);
    vl_bpe_batch_fini(&batch);
    assert_int_equal(vl_bpe_seal(b, NULL), VL_OK);
}

static void run_random(bool ordered)
{
    static const size_t lengths[] = {1, 2, 3, 7, 20, 47, 48, 49, 90, 300};
    uint64_t seed = ordered ? 11 : 12;
    size_t n_ordered = 0;
    uint8_t *piece = malloc(4200);

    assert_non_null(piece);
    for (int round = 0; round < 40; round++) {
        struct vl_bpe b;
        random_merges(&b, &seed, ordered);
        n_ordered += b.ordered;
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            uint32_t letters = 1 + tok_random(&seed) % 3;
            for (size_t j = 0; j < lengths[i]; j++)
                piece[j] = (uint8_t)('a' + tok_random(&seed) % letters);
            expect_plain(&b, piece, lengths[i]);
        }
        if (round < 4) { /* past the border to the lists by rank */
            for (size_t j = 0; j < 4200; j++)
                piece[j] = (uint8_t)('a' + tok_random(&seed) % (1 + (uint32_t)round % 3));
            expect_plain(&b, piece, 4200);
        }
        vl_bpe_fini(&b);
    }
    if (!ordered)
        assert_true(n_ordered < 10);
    free(piece);
}

static void test_merge_random_equals_definition(void **state)
{
    (void)state;
    run_random(true);
}

static void test_merge_unordered_ranks_equal_definition(void **state)
{
    (void)state;
    run_random(false);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Best of three: CPU time of one encode. */
static double time_of(const vl_tokenizer *t, const char *text, size_t len)
{
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        int32_t *ids;
        double t0 = seconds();
        tok_encode(t, text, len, VL_PIECE_TEXT, &ids);
        double s = seconds() - t0;
        best = s < best ? s : best;
        free(ids);
    }
    return best;
}

/* Eight times the text in about eight times the time (n log n would pass too, n^2 would need 64).
 */
static void test_merge_long_pieces_take_linear_time(void **state)
{
    static const char *const units[] = {"a", "ab", " ", "=", "\xe4\xbd\xa0"};
    vl_tokenizer *t = tok_load("qwen35");
    const size_t big = 1 << 20;
    char *text = malloc(big);
    (void)state;

    assert_non_null(text);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t n = strlen(units[i]), len = big / n * n, part = len / 8 / n * n;
        for (size_t j = 0; j < len; j++)
            text[j] = units[i][j % n];
        double small = time_of(t, text, part), large = time_of(t, text, len);
        if (large > 24 * small)
            fail_msg("%s: %zu bytes take %.1f ms, %zu bytes %.1f ms", units[i], part, small * 1e3,
                     len, large * 1e3);
    }
    int32_t *ids;
    memset(text, 'a', big);
    assert_int_equal(tok_encode(t, text, big, VL_PIECE_TEXT, &ids), big / 8); /* tokens of eight */
    free(ids);
    free(text);
    vl_bpe_tokenizer_destroy(t);
}

/* ---- pieces and marks ---- */

static void test_marks_count_ids_before(void **state)
{
    vl_tokenizer *t = tok_load("qwen35");
    (void)state;
    /* <|im_start|> user \n e+acute(2 code points) x <|im_end|> \n : ids 248045 846 198 ... */
    vl_piece pieces[] = {
        {"<|im_start|>user\n", 17, VL_PIECE_TEMPLATE, 0},
        {"xe\xcc\x81 <|im_end|>", 15, VL_PIECE_TEXT, 0},
        {"<|im_end|>\n", 11, VL_PIECE_TEMPLATE, 0},
    };
    uint64_t n = 0;
    int32_t ids[64];
    uint64_t marks[44], before[44];
    for (uint64_t i = 0; i < 44; i++)
        marks[i] = i;
    assert_int_equal(vl_bpe_tokenizer_encode(t, pieces, 3, marks, before, 44, ids, 64, &n, NULL),
                     VL_OK);
    /* Every mark must be what the bytes of the ids before it say. Bytes of the source: 3 of e +
     * U+0301 become 2, so places behind them are one further in the source. */
    for (uint64_t m = 0; m < 44; m++) {
        size_t place = 0, count = 0;
        for (uint64_t i = 0; i < n; i++) {
            place += vl_tokens_bytes(&t->bpe.tokens, ids[i]).len;
            size_t source = place >= 20 ? place + 1 : place;
            if (source <= m)
                count = (size_t)i + 1;
        }
        assert_int_equal(before[m], count);
    }
    assert_int_equal(before[0], 0);
    assert_int_equal(before[17], 3);
    assert_int_equal(before[43], n);
    assert_int_equal(ids[0], 248045);
    assert_int_equal(ids[n - 2], 248046);
    size_t ends = 0;
    for (uint64_t i = 0; i < n; i++)
        ends += ids[i] == 248046;
    assert_int_equal(ends, 1); /* the one in the text piece stays text */
    vl_bpe_tokenizer_destroy(t);
}

static void test_pieces_merge_across_borders(void **state)
{
    vl_tokenizer *t = tok_load("qwen35");
    (void)state;
    vl_piece pieces[] = {{"();", 3, VL_PIECE_TEXT, 0},
                         {"\n</parameter>\n", 14, VL_PIECE_TEMPLATE, 0}};
    int32_t ids[32], *want;
    uint64_t n = 0;
    assert_int_equal(vl_bpe_tokenizer_encode(t, pieces, 2, NULL, NULL, 0, ids, 32, &n, NULL),
                     VL_OK);
    size_t n_want = tok_encode(t, "();\n</parameter>\n", 17, VL_PIECE_TEXT, &want);
    assert_int_equal(n, n_want);
    assert_memory_equal(ids, want, n_want * sizeof *want);
    free(want);
    /* A special token that lies in two template pieces is none. */
    vl_piece halves[] = {{"<|im_", 5, VL_PIECE_TEMPLATE, 0}, {"end|>", 5, VL_PIECE_TEMPLATE, 0}};
    assert_int_equal(vl_bpe_tokenizer_encode(t, halves, 2, NULL, NULL, 0, ids, 32, &n, NULL),
                     VL_OK);
    for (uint64_t i = 0; i < n; i++)
        assert_int_not_equal(ids[i], 248046);
    /* Text before the template can't swallow the beginning of a token. */
    vl_piece after[] = {{"<", 1, VL_PIECE_TEXT, 0}, {"<|im_end|>", 10, VL_PIECE_TEMPLATE, 0}};
    assert_int_equal(vl_bpe_tokenizer_encode(t, after, 2, NULL, NULL, 0, ids, 32, &n, NULL), VL_OK);
    assert_int_equal(ids[n - 1], 248046);
    vl_bpe_tokenizer_destroy(t);
}

static void test_encode_bad_input_refused(void **state)
{
    vl_tokenizer *t = tok_load("poppyseed");
    vl_error err = {0};
    int32_t ids[4];
    uint64_t n = 99, before[2] = {7, 7}, marks[2] = {3, 2};
    (void)state;

    vl_piece bad = {"ab\xff", 3, VL_PIECE_TEXT, 0};
    assert_int_equal(vl_bpe_tokenizer_encode(t, &bad, 1, NULL, NULL, 0, ids, 4, &n, &err),
                     VL_E_INVALID);
    assert_non_null(strstr(err.text, "byte 2"));
    assert_int_equal(n, 99);
    vl_piece good = {"abcdef", 6, VL_PIECE_TEXT, 0};
    assert_int_equal(vl_bpe_tokenizer_encode(t, &good, 1, marks, before, 2, ids, 4, &n, &err),
                     VL_E_INVALID);
    marks[0] = 0;
    marks[1] = 7;
    assert_int_equal(vl_bpe_tokenizer_encode(t, &good, 1, marks, before, 2, ids, 4, &n, &err),
                     VL_E_INVALID);
    assert_int_equal(before[0], 7);
    good.kind = 5;
    assert_int_equal(vl_bpe_tokenizer_encode(t, &good, 1, NULL, NULL, 0, ids, 4, &n, &err),
                     VL_E_INVALID);
    vl_piece many = {"1 2 3 4 5", 9, VL_PIECE_TEXT, 0};
    marks[1] = 9;
    assert_int_equal(vl_bpe_tokenizer_encode(t, &many, 1, marks, before, 2, ids, 4, &n, &err),
                     VL_E_RANGE);
    assert_int_equal(n, 9);
    assert_int_equal(before[1], 9);
    assert_int_equal(vl_bpe_tokenizer_encode(t, NULL, 0, NULL, NULL, 0, NULL, 0, &n, &err), VL_OK);
    assert_int_equal(n, 0);
    /* A NUL is a byte like others. */
    int32_t *some;
    assert_int_equal(tok_encode(t, "a\0b", 3, VL_PIECE_TEXT, &some), 3);
    free(some);
    vl_bpe_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge_random_equals_definition),
        cmocka_unit_test(test_merge_unordered_ranks_equal_definition),
        cmocka_unit_test(test_merge_long_pieces_take_linear_time),
        cmocka_unit_test(test_marks_count_ids_before),
        cmocka_unit_test(test_pieces_merge_across_borders),
        cmocka_unit_test(test_encode_bad_input_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
