/* tests/plugins/fake.h: the fake plugin's parts, and what tests may ask it. It is a loader, a
 * tokenizer, a model and a chat format in one, so that the whole of libvallmo runs without weights.
 *
 * Vocabulary: ids 0..255 are bytes; then <|end|> (stop), <think>, </think>, <call>, </call>. The
 * head has 272 rows. What the model says is a function of every token it has read, so a wrong state
 * gives a wrong text:
 *  - a prompt with "say:X;" answers X and then stops;
 *  - else letters from a hash of all tokens read, and <|end|> now and then. */
#ifndef VL_TESTS_FAKE_H
#define VL_TESTS_FAKE_H

#include "vallmo/chat.h"
#include "vallmo/ext/snapshot.h"
#include "vallmo/loader.h"
#include "vallmo/model.h"
#include "vallmo/tokenizer.h"

enum {
    FAKE_END = 256,
    FAKE_THINK = 257,
    FAKE_THINK_END = 258,
    FAKE_CALL = 259,
    FAKE_CALL_END = 260,
    FAKE_TOKENS = 261,
    FAKE_ROWS = 272,
    FAKE_PAGE = 16,          /* tokens */
    FAKE_STATE_BYTES = 1000, /* of one snapshot */
    FAKE_TOKEN_BYTES = 10    /* of one token in the pool */
};

/* vl_plugin.get_ext(FAKE_PROBE_ID): the table below. */
#define FAKE_PROBE_ID "test.fake/1"
struct fake_counts {
    int64_t models, sequences, snapshots, decoders, parsers, checkpoints, tokenizers;
    int64_t max_sequences_at_once, max_in_flight_at_once;
    int64_t steps, rows, prompt_tokens, masked_rows, forced_ids, moves;
    int64_t max_step_prompt_tokens;
    int64_t frozen_rows; /* rows for sequences that had stopped */
    int64_t bad_calls;   /* uses that break the interface */
};
typedef struct fake_probe {
    uint32_t struct_size, abi_version;
    void (*counts)(struct fake_counts *out);
    void (*reset)(void); /* the maxima and sums; not the handles */
    /* From now on step number `n` (counted from the next as 1) fails with this status at submit or
     * collect; 0: none. */
    void (*fail_at)(int64_t at_submit, int64_t at_collect, int32_t status);
    /* Steps wait until gate(0); gate(1) closes it again. */
    void (*gate)(int32_t closed);
    const char *(*last_bad)(void);
} fake_probe;

extern const vl_loader_api fake_loader_api;
extern const vl_tokenizer_api fake_tokenizer_api;
extern const vl_model_api fake_model_api;
extern const vl_chat_api fake_chat_api;
extern const fake_probe fake_probe_api;

/* Options, by their index in fake_options. */
enum {
    FAKE_OPT_DELAY_MS,
    FAKE_OPT_STEP_IDS,
    FAKE_OPT_IN_FLIGHT,
    FAKE_OPT_POOL,
    FAKE_OPT_SNAPSHOTS,
    FAKE_OPT_GRID,
    FAKE_OPT_FAIL_OPEN,
    FAKE_OPT_END_EVERY,
    FAKE_OPT_COUNT
};
extern const vl_option fake_options[FAKE_OPT_COUNT];

/* Counting, from any thread. */
extern struct fake_counts fake_n;
#define FAKE_ADD(member, by) ((void)__atomic_add_fetch(&fake_n.member, (by), __ATOMIC_RELAXED))
void fake_max(int64_t *where, int64_t value);
void fake_bad(const char *what); /* the host broke the interface */

#endif
