/* attention.c: how attention is cut into tasks, and the online softmax around the form's kernels.
 *
 * A piece of a prompt: a task is one kv head and a block of query rows; the heads that share the kv
 * head and the rows make up to 64 columns that meet one page of keys at a time, everything turned
 * so that a column is a vector lane. A decode row: a task is one kv head and a range of pages; the
 * ranges' results are merged. Pages are met on the grid of absolute positions, so the order of
 * every sum is a matter of the position alone. */
#include "plugins/common/cpu/attention.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels.h"

#define PAGE VL_CPU_PAGE_TOKENS
#define COLUMNS 64 /* queries that one prefill task holds */
#define MAX_HEAD 256
#define MIN_SPLIT 16 /* pages that a decode task takes at least */

typedef struct job {
    vl_cpu *cpu;
    const vl_cpu_attention *a;
    const vl_cpu_attention_rows *groups;
    size_t n_groups;
    size_t heads_each;  /* query heads of one kv head */
    size_t head_blocks; /* blocks of at most COLUMNS of them */
    size_t block_heads; /* heads in a block */
    size_t block_rows;  /* rows in a prefill task */
} job;

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- a piece of a prompt ---- */

/* Lies in the thread's scratch; columns are (row, head) with the head running fastest. */
typedef struct block {
    float q[MAX_HEAD * COLUMNS]; /* [head_size, n_q], scaled */
    float o[MAX_HEAD * COLUMNS]; /* [head_size, n_q] */
    float s[PAGE * COLUMNS];     /* [keys, n_q] */
    float m[COLUMNS], l[COLUMNS], c[COLUMNS];
    int32_t limit[COLUMNS]; /* keys of this page that the column sees */
    float turned[MAX_HEAD * COLUMNS];
} block;

_Static_assert(sizeof(block) <= VL_CPU_THREAD_SCRATCH, "a prefill task fits the scratch");

/* A product of a prompt's block, in f32 or rounded. */
static void block_product(const job *j, size_t m, size_t n, size_t k_len, const float *a,
                          size_t a_row, size_t a_col, const float *b, float *c, bool accumulate)
{
    if (j->a->round)
        vl_cpu_gemm_rounded(j->cpu, m, n, k_len, a, a_row, a_col, b, n, c, n, accumulate);
    else
        vl_cpu_gemm(j->cpu, m, n, k_len, a, a_row, a_col, b, n, c, n, accumulate);
}

static void prefill_block(const job *j, const vl_cpu_attention_rows *g, size_t kv, size_t head,
                          size_t n_heads, size_t row, size_t n_rows, block *b)
{
    const vl_cpu_attention *a = j->a;
    const vl_cpu_kernels *k = j->cpu->k;
    const size_t d = a->head_size, used = n_rows * n_heads, n_q = (used + 15) / 16 * 16;
    const size_t n_keys = g->position + row + n_rows; /* the last row sees so many */

    memset(b->turned, 0, n_q * d * sizeof(float));
    for (size_t i = 0; i < used; i++) {
        const float *q = g->q + (row + i / n_heads) * a->q_ld + (head + i % n_heads) * a->q_head_ld;
        for (size_t e = 0; e < d; e++)
            b->turned[i * d + e] = q[e] * a->scale;
    }
    k->transpose((const uint32_t *)(const void *)b->turned, d, (uint32_t *)(void *)b->q, n_q, n_q,
                 d);
    memset(b->o, 0, n_q * d * sizeof(float));
    for (size_t i = 0; i < n_q; i++) {
        b->m[i] = -INFINITY;
        b->l[i] = 0;
    }
    for (size_t t = 0; t < n_keys; t += PAGE) {
        const float *page = g->pages[t / PAGE];
        const size_t n = min_size(n_keys - t, PAGE);
        for (size_t i = 0; i < n_q; i++) {
            size_t sees = g->position + row + min_size(i, used - 1) / n_heads + 1;
            b->limit[i] = (int32_t)(sees > t ? min_size(sees - t, PAGE) : 0);
        }
        block_product(j, n, n_q, d, page + a->k_offset + kv * PAGE * d, d, 1, b->q, b->s, false);
        k->softmax_columns(b->s, n, n_q, b->limit, b->m, b->l, b->c);
        if (t > 0)
            k->scale_columns(b->o, d, n_q, b->c);
        block_product(j, d, n_q, n, page + a->v_offset + kv * PAGE * d, 1, d, b->s, b->o, true);
    }
    k->transpose((const uint32_t *)(const void *)b->o, n_q, (uint32_t *)(void *)b->turned, d, d,
                 n_q);
    for (size_t i = 0; i < used; i++) {
        float *out = g->out + (row + i / n_heads) * a->out_ld + (head + i % n_heads) * d;
        float scale = 1.0f / b->l[i];
        for (size_t e = 0; e < d; e++)
            out[e] = b->turned[i * d + e] * scale;
    }
}

static size_t prefill_tasks(const job *j, const vl_cpu_attention_rows *g)
{
    if (g->n_rows < 2)
        return 0;
    return (g->n_rows + j->block_rows - 1) / j->block_rows * j->a->n_kv_heads * j->head_blocks;
}

static void prefill_body(void *arg, size_t begin, size_t end, int thread)
{
    const job *j = arg;

    for (size_t task = begin; task < end; task++) {
        size_t i = task, g = 0;
        for (; i >= prefill_tasks(j, &j->groups[g]); g++)
            i -= prefill_tasks(j, &j->groups[g]);
        /* The last rows see the most keys: they go first. */
        i = prefill_tasks(j, &j->groups[g]) - 1 - i;
        size_t head_block = i % j->head_blocks, kv = i / j->head_blocks % j->a->n_kv_heads;
        size_t row = i / j->head_blocks / j->a->n_kv_heads * j->block_rows;
        size_t first = head_block * j->block_heads;
        prefill_block(j, &j->groups[g], kv, kv * j->heads_each + first,
                      min_size(j->heads_each - first, j->block_heads), row,
                      min_size(j->groups[g].n_rows - row, j->block_rows),
                      vl_cpu_scratch(j->cpu, thread));
    }
}

/* ---- decode rows ---- */

static size_t split_pages(const vl_cpu_attention_rows *g, size_t *n_splits)
{
    size_t pages = g->position / PAGE + 1;
    size_t each = (pages + VL_CPU_ATTN_SPLITS - 1) / VL_CPU_ATTN_SPLITS;

    if (each < MIN_SPLIT)
        each = MIN_SPLIT;
    *n_splits = (pages + each - 1) / each;
    return each;
}

/* Part: [head_size] of the unscaled sum, then the largest score and the sum of weights. */
static float *part_of(const job *j, size_t group, size_t head, size_t split)
{
    size_t i = (group * j->a->n_heads + head) * VL_CPU_ATTN_SPLITS + split;
    return j->cpu->attn_part + i * (j->a->head_size + 2);
}

static void decode_split(const job *j, size_t group, size_t kv, size_t split, float *s)
{
    const vl_cpu_attention *a = j->a;
    const vl_cpu_attention_rows *g = &j->groups[group];
    const vl_cpu_kernels *k = j->cpu->k;
    const size_t d = a->head_size, head = kv * j->heads_each;
    const size_t part_ld = VL_CPU_ATTN_SPLITS * (d + 2);
    size_t n_splits, each = split_pages(g, &n_splits);
    size_t end = min_size((split + 1) * each * PAGE, g->position + 1);
    float *part = part_of(j, group, head, split);

    for (size_t i = 0; i < j->heads_each; i++) {
        memset(part + i * part_ld, 0, d * sizeof(float));
        part[i * part_ld + d] = -INFINITY;
        part[i * part_ld + d + 1] = 0;
    }
    for (size_t t = split * each * PAGE; t < end; t += PAGE) {
        const float *page = g->pages[t / PAGE];
        const size_t n = min_size(end - t, PAGE);
        k->attn_scores(g->q + head * a->q_head_ld, a->q_head_ld, j->heads_each,
                       page + a->k_offset + kv * PAGE * d, n, d, a->scale, s, PAGE);
        for (size_t i = 0; i < j->heads_each; i++) {
            float *p = part + i * part_ld;
            float top = fmaxf(p[d], k->max(s + i * PAGE, n));
            float scale = expf(p[d] - top);
            if (scale != 1.0f)
                k->scale(scale, p, d);
            p[d + 1] = p[d + 1] * scale + k->exp_sum(s + i * PAGE, top, s + i * PAGE, n);
            p[d] = top;
        }
        k->attn_values(s, PAGE, j->heads_each, page + a->v_offset + kv * PAGE * d, n, d, part,
                       part_ld);
    }
}

/* Tasks in one numbering: group, kv head, split. */
static void decode_body(void *arg, size_t begin, size_t end, int thread)
{
    const job *j = arg;

    for (size_t task = begin; task < end; task++) {
        size_t i = task, g = 0, n_splits, split, kv;
        for (;; g++) {
            if (j->groups[g].n_rows != 1)
                continue;
            split_pages(&j->groups[g], &n_splits);
            if (i < n_splits * j->a->n_kv_heads)
                break;
            i -= n_splits * j->a->n_kv_heads;
        }
        split = i % n_splits;
        kv = i / n_splits;
        decode_split(j, g, kv, split, vl_cpu_scratch(j->cpu, thread));
    }
}

static void merge_row(const job *j, size_t group)
{
    const vl_cpu_attention_rows *g = &j->groups[group];
    const size_t d = j->a->head_size;
    size_t n_splits;

    split_pages(g, &n_splits);
    for (size_t h = 0; h < j->a->n_heads; h++) {
        float *out = g->out + h * d;
        float top = -INFINITY, sum = 0;
        for (size_t i = 0; i < n_splits; i++)
            top = fmaxf(top, part_of(j, group, h, i)[d]);
        for (size_t i = 0; i < n_splits; i++)
            sum += part_of(j, group, h, i)[d + 1] * expf(part_of(j, group, h, i)[d] - top);
        memset(out, 0, d * sizeof(float));
        for (size_t i = 0; i < n_splits; i++) {
            const float *p = part_of(j, group, h, i);
            j->cpu->k->axpy(expf(p[d] - top) / sum, p, out, d);
        }
    }
}

void vl_cpu_attention_run(vl_cpu *cpu, const vl_cpu_attention *a,
                          const vl_cpu_attention_rows *groups, size_t n_groups)
{
    job j = {.cpu = cpu, .a = a, .heads_each = a->n_heads / a->n_kv_heads};
    size_t tasks = 0;

    assert(a->n_heads % a->n_kv_heads == 0 && a->n_heads <= cpu->n_heads);
    assert(a->head_size <= cpu->head_size && a->head_size % 16 == 0);
    j.block_heads = min_size(j.heads_each, COLUMNS);
    j.head_blocks = (j.heads_each + j.block_heads - 1) / j.block_heads;
    j.block_rows = COLUMNS / j.block_heads;
    j.groups = groups;
    j.n_groups = n_groups;
    for (size_t g = 0; g < n_groups; g++)
        tasks += prefill_tasks(&j, &groups[g]);
    vl_cpu_for(cpu, tasks, 1, prefill_body, &j);

    /* Decode rows in passes of as many groups as the partial results have room for. */
    for (size_t first = 0; first < n_groups; first += j.n_groups) {
        j.groups = groups + first;
        j.n_groups = min_size(n_groups - first, VL_CPU_ATTN_ROWS);
        tasks = 0;
        for (size_t g = 0; g < j.n_groups; g++) {
            size_t n_splits;
            split_pages(&j.groups[g], &n_splits);
            tasks += j.groups[g].n_rows == 1 ? n_splits * a->n_kv_heads : 0;
        }
        vl_cpu_for(cpu, tasks, 1, decode_body, &j);
        for (size_t g = 0; g < j.n_groups; g++)
            if (j.groups[g].n_rows == 1)
                merge_row(&j, g);
    }
}
