/* sampling.c: from logits to a token id. The order of the steps and the generator: sampling.h. */
#include "plugins/common/cpu/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/common/cpu/kernels.h"

#define DRAW_SPAN 19.5f  /* ids further below the largest can't win a draw */
#define TOP_P_SPAN 40.0f /* ids further below add less than 2e-12 to a sum of probabilities */
#define BLOCK 256        /* ids whose largest value is taken together */
#define MAX_LOGPROBS 20
#define MAX_BAR 64 /* largest k that low_bar takes */

struct vl_sampler {
    const vl_cpu_kernels *k;
    size_t n_tokens;
    float *z;     /* [n_tokens] changed logits; later z / T of the candidates, in order of id */
    float *p;     /* [n_tokens] probabilities of the candidates, up to a factor */
    int32_t *ids; /* [n_tokens] candidates, rising */
    double *hist; /* [2048] */
};

vl_status vl_sampler_create(const vl_cpu *cpu, size_t n_tokens, vl_sampler **out, vl_error *err)
{
    if (n_tokens == 0 || n_tokens > (size_t)INT32_MAX)
        return vl_error_set(err, VL_E_INVALID, "sampler: %zu tokens, want 1 to %d", n_tokens,
                            INT32_MAX);
    vl_sampler *s = calloc(1, sizeof(*s));
    if (s) {
        s->z = malloc(n_tokens * sizeof(*s->z));
        s->p = malloc(n_tokens * sizeof(*s->p));
        s->ids = malloc(n_tokens * sizeof(*s->ids));
        s->hist = malloc(2048 * sizeof(*s->hist));
    }
    if (!s || !s->z || !s->p || !s->ids || !s->hist) {
        vl_sampler_destroy(s);
        return vl_error_set(err, VL_E_NOMEM, "sampler: no memory for %zu tokens", n_tokens);
    }
    s->k = cpu->k;
    s->n_tokens = n_tokens;
    *out = s;
    return VL_OK;
}

void vl_sampler_destroy(vl_sampler *s)
{
    if (!s)
        return;
    free(s->z);
    free(s->p);
    free(s->ids);
    free(s->hist);
    free(s);
}

void vl_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int i = 0; i < 10; i++) {
        uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* ---- steps 1 to 5 ---- */

static bool changes_logits(const vl_sample_input *in)
{
    const vl_sampling *p = in->params;
    size_t n = 0;

    if (in->counts)
        vl_counts_entries(in->counts, &n);
    return in->mask || in->n_banned || p->n_bias ||
           (n &&
            (p->repetition_penalty != 1 || p->frequency_penalty != 0 || p->presence_penalty != 0));
}

static void apply_mask(float *z, size_t n, const uint32_t *mask)
{
    for (size_t i = 0; i < n; i += 32) {
        uint32_t refused = ~mask[i / 32];
        for (; refused; refused &= refused - 1) {
            size_t id = i + (size_t)__builtin_ctz(refused);
            if (id < n)
                z[id] = -INFINITY;
        }
    }
}

static void change_logits(const vl_sample_input *in, float *z, size_t n)
{
    const vl_sampling *p = in->params;
    size_t n_counts = 0;
    const vl_count *counts = in->counts ? vl_counts_entries(in->counts, &n_counts) : NULL;

    memcpy(z, in->logits, n * sizeof(*z));
    if (in->mask)
        apply_mask(z, n, in->mask);
    for (size_t i = 0; i < in->n_banned; i++)
        if (in->banned[i] >= 0 && (size_t)in->banned[i] < n)
            z[in->banned[i]] = -INFINITY;
    for (size_t i = 0; i < p->n_bias; i++)
        if (p->bias[i].id >= 0 && (size_t)p->bias[i].id < n)
            z[p->bias[i].id] += p->bias[i].bias;
    for (size_t i = 0; i < n_counts; i++) {
        if ((size_t)counts[i].id >= n)
            continue;
        float *x = &z[counts[i].id];
        if (p->repetition_penalty != 1)
            *x = *x > 0 ? *x / p->repetition_penalty : *x * p->repetition_penalty;
        *x -= p->frequency_penalty * (float)counts[i].n_output;
        if (counts[i].n_output)
            *x -= p->presence_penalty;
    }
}

/* ---- steps 8 and 9 ---- */

/* A value that none of the k largest of z lies below, k <= MAX_BAR, and few others reach: the k-th
 * largest of the blocks' largest values; -infinity with fewer blocks. */
static float low_bar(vl_sampler *s, const float *z, size_t k)
{
    float heads[MAX_BAR];
    size_t n_heads = 0;

    for (size_t i = 0; i < s->n_tokens; i += BLOCK) {
        float top = s->k->max(z + i, s->n_tokens - i < BLOCK ? s->n_tokens - i : BLOCK);
        size_t j = n_heads;
        if (n_heads < k)
            n_heads++;
        else if (top > heads[k - 1])
            j = k - 1;
        else
            continue;
        for (; j > 0 && heads[j - 1] < top; j--)
            heads[j] = heads[j - 1];
        heads[j] = top;
    }
    return n_heads == k ? heads[k - 1] : -INFINITY;
}

/* Floats as integers in the same order; -0 counts as 0. */
static uint32_t sort_key(float z)
{
    uint32_t u;

    z += 0.0f;
    memcpy(&u, &z, sizeof(u));
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* Keeps the shortest head of the order (z falling, id rising) whose weights reach `target`; weight
 * is s->p or 1 each. Three rounds of a histogram find the z of the last one kept; no sort.
 * Returns how many of the n candidates are left, their order kept. */
static size_t cut_candidates(vl_sampler *s, size_t n, bool by_p, double target)
{
    static const int shifts[3] = {21, 10, 0}, bits[3] = {11, 11, 10};
    uint32_t prefix = 0, fixed = 0;
    double before = 0; /* weight of all that lies above the prefix */

    for (int round = 0; round < 3; round++) {
        uint32_t n_buckets = 1u << bits[round], b, last = 0;
        bool any = false;
        memset(s->hist, 0, n_buckets * sizeof(*s->hist));
        for (size_t i = 0; i < n; i++) {
            uint32_t key = sort_key(s->z[i]);
            if ((key & fixed) == prefix)
                s->hist[(key >> shifts[round]) & (n_buckets - 1)] += by_p ? (double)s->p[i] : 1.0;
        }
        for (b = n_buckets; b-- > 0;) {
            if (s->hist[b] <= 0)
                continue;
            any = true;
            last = b;
            if (before + s->hist[b] >= target)
                break;
            before += s->hist[b];
        }
        if (!any || b == UINT32_MAX) {
            /* Rounding kept the sum below its target: everything stays. */
            if (!any || round == 0)
                return n;
            before -= s->hist[last];
        }
        prefix |= last << shifts[round];
        fixed |= (n_buckets - 1) << shifts[round];
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t key = sort_key(s->z[i]);
        bool tie = key == prefix;
        if (key < prefix || (tie && kept && before >= target))
            continue;
        if (tie)
            before += by_p ? (double)s->p[i] : 1.0;
        s->z[kept] = s->z[i];
        s->p[kept] = s->p[i];
        s->ids[kept++] = s->ids[i];
    }
    return kept;
}

/* ---- step 10 ---- */

/* The candidate with the largest z + g(id). Most are ruled out by their integer alone: none has a
 * larger z than `top`, so a u below what would lift top over the best so far can't win. */
static int32_t draw(const vl_sampler *s, size_t n, float top, const vl_sample_input *in)
{
    const uint32_t key[2] = {(uint32_t)in->params->seed, (uint32_t)(in->params->seed >> 32)};
    uint32_t counter[4] = {UINT32_MAX, (uint32_t)in->position, (uint32_t)(in->position >> 32),
                           (uint32_t)in->params->choice};
    uint32_t x[4] = {0}, bar = 0;
    float best = -INFINITY;
    int32_t best_id = s->ids[0];

    for (size_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)s->ids[i];
        if (s->z[i] < top - DRAW_SPAN)
            continue;
        if (counter[0] != id / 4) {
            counter[0] = id / 4;
            vl_philox4x32_10(counter, key, x);
        }
        uint32_t r = x[id % 4] >> 9;
        if (r < bar)
            continue;
        float u = ((float)r + 0.5f) * 1.1920928955078125e-7f;
        float score = s->z[i] - logf(-logf(u));
        if (score > best) {
            best = score;
            best_id = s->ids[i];
            /* With some room for the rounding of score. */
            double need = (double)best - (double)top - 1e-3 - 1e-6 * fabs((double)best);
            double lowest = exp(-exp(-need)) * 8388608.0 - 2.0;
            bar = lowest > 0 ? (uint32_t)lowest : 0;
        }
    }
    return best_id;
}

/* Steps 6 to 10 on z with its largest value z[top_id]. z may be s->z. */
static int32_t choose(vl_sampler *s, const vl_sample_input *in, const float *z, size_t top_id)
{
    const vl_sampling *p = in->params;
    const float t = p->temperature, z_top = z[top_id];
    const bool top_p = p->top_p < 1;
    float span = top_p ? TOP_P_SPAN : DRAW_SPAN;

    if (t < 1e-5f)
        return (int32_t)top_id;
    float top = z_top / t;
    float bar = top - span;
    if (p->min_p > 0)
        bar = fmaxf(bar, top + logf(p->min_p));
    if (p->top_k > 0 && p->top_k <= MAX_BAR)
        bar = fmaxf(bar, low_bar(s, z, (size_t)p->top_k) / t);
    /* A little below the bar first, since z / T is rounded; then exactly. */
    size_t n =
        s->k->select(z, s->n_tokens, bar * t - 1e-5f * (fabsf(bar * t) + 1), s->ids, s->n_tokens);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        float x = z[s->ids[i]] / t;
        if (x < bar)
            continue;
        s->z[kept] = x; /* kept <= ids[i]: nothing unread is overwritten */
        s->ids[kept++] = s->ids[i];
    }
    n = kept;
    if (p->top_k > 0 && (size_t)p->top_k < n)
        n = cut_candidates(s, n, false, (double)p->top_k);
    if (top_p) {
        double total = 0;
        s->k->exp_sum(s->z, top, s->p, n);
        for (size_t i = 0; i < n; i++)
            total += (double)s->p[i];
        n = cut_candidates(s, n, true, (double)p->top_p * total);
    }
    return draw(s, n, top, in);
}

/* ---- log probabilities ---- */

static int by_rank(const vl_logprob *a, const vl_logprob *b)
{
    if (a->logprob != b->logprob)
        return a->logprob > b->logprob ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* The k best of logits, best first. Leaves raw logits in .logprob. */
static void best_logits(vl_sampler *s, const float *logits, size_t k, vl_logprob *best)
{
    size_t n_best = 0;
    size_t n = s->k->select(logits, s->n_tokens, low_bar(s, logits, k), s->ids, s->n_tokens);

    for (size_t i = 0; i < n; i++) {
        vl_logprob e = {s->ids[i], logits[s->ids[i]]};
        size_t j = n_best < k ? n_best++ : k;
        if (j == k && by_rank(&best[k - 1], &e) <= 0)
            continue;
        for (j = j == k ? k - 1 : j; j > 0 && by_rank(&best[j - 1], &e) > 0; j--)
            best[j] = best[j - 1];
        best[j] = e;
    }
    for (; n_best < k; n_best++)
        best[n_best] = (vl_logprob){-1, -INFINITY};
}

/* logits are checked: finite or -infinity, the largest at top_id. */
static void fill_logprobs(vl_sampler *s, const float *logits, size_t top_id, int32_t id, int32_t k,
                          vl_logprob *out)
{
    float tmp[BLOCK];
    double sum = 0;

    for (size_t i = 0; i < s->n_tokens; i += BLOCK) {
        size_t left = s->n_tokens - i;
        sum += (double)s->k->exp_sum(logits + i, logits[top_id], tmp, left < BLOCK ? left : BLOCK);
    }
    double lse = (double)logits[top_id] + log(sum);
    out[0] = (vl_logprob){id, (float)((double)logits[id] - lse)};
    if (k > 0)
        best_logits(s, logits, (size_t)k, out + 1);
    for (int32_t i = 1; i <= k; i++)
        if (out[i].id >= 0)
            out[i].logprob = (float)((double)out[i].logprob - lse);
}

static vl_status check_logits(const vl_sampler *s, const float *logits, size_t *top_id,
                              vl_error *err)
{
    bool bad;
    size_t top = s->k->argmax(logits, s->n_tokens, &bad);

    if (bad) {
        size_t i = 0;
        while (logits[i] <= 3.4028234e38f)
            i++;
        return vl_error_set(err, VL_E_INVALID, "logits: id %zu has %f", i, (double)logits[i]);
    }
    if (logits[top] == -INFINITY)
        return vl_error_set(err, VL_E_INVALID, "logits: all %zu are -infinity", s->n_tokens);
    *top_id = top;
    return VL_OK;
}

vl_status vl_sampler_run(vl_sampler *s, const vl_sample_input *in, int32_t *id,
                         vl_logprob *logprobs, vl_error *err)
{
    const float *z = in->logits;
    size_t raw_top = 0, top;
    int32_t k = in->params->n_logprobs;
    bool bad;
    vl_status rc = check_logits(s, in->logits, &raw_top, err);

    if (rc != VL_OK)
        return rc;
    top = raw_top;
    if (changes_logits(in)) {
        change_logits(in, s->z, s->n_tokens);
        z = s->z;
        top = s->k->argmax(z, s->n_tokens, &bad);
        if (bad)
            return vl_error_set(err, VL_E_INVALID, "logits: bias or penalties left the range");
        if (z[top] == -INFINITY)
            return vl_error_set(err, VL_E_STATE, "sampling: mask and bans leave none of %zu ids",
                                s->n_tokens);
    }
    int32_t chosen = choose(s, in, z, top);
    if (k >= 0)
        fill_logprobs(s, in->logits, raw_top, chosen, k < MAX_LOGPROBS ? k : MAX_LOGPROBS,
                      logprobs);
    *id = chosen;
    return VL_OK;
}

vl_status vl_sampler_logprobs(vl_sampler *s, const float *logits, int32_t id, int32_t k,
                              vl_logprob *logprobs, vl_error *err)
{
    size_t top = 0;
    vl_status rc = check_logits(s, logits, &top, err);

    if (rc != VL_OK)
        return rc;
    if (id < 0 || (size_t)id >= s->n_tokens)
        return vl_error_set(err, VL_E_INVALID, "log probability of id %d: want 0 to %zu", (int)id,
                            s->n_tokens - 1);
    fill_logprobs(s, logits, top, id, k < MAX_LOGPROBS ? k : MAX_LOGPROBS, logprobs);
    return VL_OK;
}
