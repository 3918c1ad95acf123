/* plugins/common/cpu/sampling.h: from logits to a token id: masks, penalties, cuts, the draw, log
 * probabilities.
 *
 * The CPU form, and the twin of a GPU kernel. Knows a row of logits and the numbers of one request;
 * no model.
 *
 * Order (z: the logits, f32; ids >= n_tokens are never sampled):
 *   1. mask and banned ids: z = -inf
 *   2. z[id] += bias
 *   3. repetition r, ids of prompt or output: z > 0 ? z / r : z * r
 *   4. z -= frequency * count_output
 *   5. z -= presence if count_output > 0
 *   6. temperature T < 1e-5: the largest z, lowest id on ties, end; else z /= T
 *   7. min_p: drop z < zmax + log(min_p)
 *   8. top_k: the k largest, lowest ids at a tie on the border
 *   9. top_p: in the order (z falling, id rising), up to and with the id at which the sum of
 *      probabilities, taken over what 7 and 8 left, reaches top_p
 *  10. draw.
 *
 * The draw is the Gumbel trick: of the ids left, the one with the largest z + g(id), lowest id on
 * ties.
 *   (x0, x1, x2, x3) = philox4x32_10(counter, key)
 *   counter = (id / 4, position lo, position hi, choice), key = (seed lo, seed hi)
 *   u = ((x[id % 4] >> 9) + 0.5) * 2^-23     (exact in f32)
 *   g(id) = -log(-log(u))                    (f32)
 * so a draw depends on (seed, position, choice) and on z, not on the batch. g lies in
 * (-2.82, 16.64): an id more than 19.5 below the largest z can't win and is not looked at.
 * Philox: Salmon et al. 2011, multipliers 0xD2511F53, 0xCD9E8D57, key steps 0x9E3779B9, 0xBB67AE85,
 * ten rounds. */
#ifndef VL_CPU_SAMPLING_H
#define VL_CPU_SAMPLING_H

#include "vallmo/model.h"

#include "plugins/common/cpu/cpu.h"

/* ---- which ids a sequence has read and written: a sparse map with a fixed capacity ---- */

typedef struct vl_counts vl_counts;
typedef struct vl_count {
    int32_t id;
    uint32_t n_output; /* times in the output; 0: in the prompt alone */
} vl_count;

/* Room for n_distinct different ids (the smaller of context and vocabulary is always enough);
 * nothing is allocated later. */
vl_status vl_counts_create(size_t n_distinct, vl_counts **out, vl_error *err);
void vl_counts_destroy(vl_counts *c);
void vl_counts_clear(vl_counts *c);
/* False: no room for another id (nothing changed). id >= 0. */
bool vl_counts_add(vl_counts *c, int32_t id, bool output);
/* The entries, in the order of first sight; borrowed until the next add, clear or destroy. */
const vl_count *vl_counts_entries(const vl_counts *c, size_t *n);

/* ---- sampling ---- */

typedef struct vl_sampler vl_sampler; /* scratch for one call at a time */

/* n_tokens: ids that can be sampled; logits rows are at least that long. */
vl_status vl_sampler_create(const vl_cpu *cpu, size_t n_tokens, vl_sampler **out, vl_error *err);
void vl_sampler_destroy(vl_sampler *s);

typedef struct vl_sample_input {
    const float *logits;       /* [>= n_tokens] f32, left as they are */
    const vl_sampling *params; /* validated; n_bias ids must be < n_tokens */
    const vl_counts *counts;   /* NULL: none (penalties then do nothing) */
    const uint32_t *mask;      /* bit i % 32 of word i / 32 set: id i is allowed; NULL: all */
    const int32_t *banned;     /* ids that are not allowed besides (stop ids before min_tokens) */
    size_t n_banned;
    uint64_t position; /* position of the token being sampled: the counter of the draw */
} vl_sample_input;

/* Samples *id. With params->n_logprobs = k >= 0 also fills logprobs[0] (the sampled id) and
 * logprobs[1 .. k] (the k best of the raw logits over ids < n_tokens, best first, lowest id first
 * on ties; id -1 and -infinity where fewer ids exist); logprobs may be NULL with n_logprobs < 0.
 * Failures leave outputs alone: VL_E_INVALID: a logit is NaN or +infinity (the text has its id);
 * VL_E_STATE: mask and bans leave nothing to sample. Not [task], one thread. */
vl_status vl_sampler_run(vl_sampler *s, const vl_sample_input *in, int32_t *id,
                         vl_logprob *logprobs, vl_error *err);

/* The log probabilities alone, of a given token (prompt log probabilities): 1 + k entries as
 * above. */
vl_status vl_sampler_logprobs(vl_sampler *s, const float *logits, int32_t id, int32_t k,
                              vl_logprob *logprobs, vl_error *err);

/* The generator, for tests and twins. */
void vl_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
