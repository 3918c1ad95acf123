/* tests/plugins/fake_plugin.c: the fake plugin's head, options and counters. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct vl_instance {
    const vl_host *host;
};

struct fake_counts fake_n;
static char bad_text[256];

void fake_max(int64_t *where, int64_t value)
{
    int64_t seen = __atomic_load_n(where, __ATOMIC_RELAXED);

    while (value > seen && !__atomic_compare_exchange_n(where, &seen, value, 0, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED)) {
    }
}

void fake_bad(const char *what)
{
    FAKE_ADD(bad_calls, 1);
    snprintf(bad_text, sizeof bad_text, "%s", what);
}

static void counts(struct fake_counts *out)
{
    /* Member by member: all are int64_t. */
    for (size_t i = 0; i < sizeof fake_n / sizeof(int64_t); i++)
        ((int64_t *)out)[i] = __atomic_load_n((int64_t *)&fake_n + i, __ATOMIC_RELAXED);
}

static void zero(int64_t *member)
{
    __atomic_store_n(member, 0, __ATOMIC_RELAXED);
}

static void reset(void)
{
    int64_t *const members[] = {
        &fake_n.max_sequences_at_once,
        &fake_n.max_in_flight_at_once,
        &fake_n.steps,
        &fake_n.rows,
        &fake_n.prompt_tokens,
        &fake_n.masked_rows,
        &fake_n.forced_ids,
        &fake_n.moves,
        &fake_n.max_step_prompt_tokens,
        &fake_n.frozen_rows,
        &fake_n.bad_calls,
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        zero(members[i]);
    bad_text[0] = '\0';
}

static const char *last_bad(void)
{
    return bad_text;
}

void fake_fail(int64_t at_submit, int64_t at_collect, int32_t status);
void fake_gate(int32_t closed);

const fake_probe fake_probe_api = {
    .struct_size = sizeof(fake_probe),
    .abi_version = VL_ABI_VERSION,
    .counts = counts,
    .reset = reset,
    .fail_at = fake_fail,
    .gate = fake_gate,
    .last_bad = last_bad,
};

const vl_option fake_options[FAKE_OPT_COUNT] = {
    {"delay_ms", VL_OPT_INT, 0, "0", 0, 10000, NULL, "a step takes so long"},
    {"step_ids", VL_OPT_INT, 0, "1", 1, 8, NULL, "most ids a row gives in a step"},
    {"in_flight", VL_OPT_INT, 0, "3", 1, 8, NULL, "steps that may be under way"},
    {"pool_tokens", VL_OPT_INT, 0, "0", 0, 1e9, NULL, "the pool; 0: kv_tokens, else 65536"},
    {"snapshots", VL_OPT_BOOL, 0, "true", 0, 0, NULL, "offer vl.snapshot/1"},
    {"grid", VL_OPT_INT, 0, "64", 1, 4096, NULL, "snapshot_grid"},
    {"fail_open", VL_OPT_BOOL, 0, "false", 0, 0, NULL, "open fails"},
    {"end_every", VL_OPT_INT, 0, "40", 1, 1e6, NULL, "an answer of n tokens on average"},
};

static vl_status fake_init(const vl_host *host, vl_instance **self, vl_error *err)
{
    vl_instance *in = calloc(1, sizeof *in);

    if (in == NULL)
        return vl_error_set(err, VL_E_NOMEM, "fake: out of memory");
    in->host = host;
    *self = in;
    return VL_OK;
}

static void fake_fini(vl_instance *self)
{
    free(self);
}

static const void *fake_get_ext(const char *id)
{
    static const struct {
        const char *id;
        const void *table;
    } all[] = {
        {VL_LOADER_ID, &fake_loader_api}, {VL_TOKENIZER_ID, &fake_tokenizer_api},
        {VL_MODEL_ID, &fake_model_api},   {VL_CHAT_ID, &fake_chat_api},
        {FAKE_PROBE_ID, &fake_probe_api},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].id, id) == 0)
            return all[i].table;
    }
    return NULL;
}

static const char *const interfaces[] = {VL_LOADER_ID, VL_TOKENIZER_ID, VL_MODEL_ID, VL_CHAT_ID,
                                         NULL};

static const vl_plugin plugin = {
    .struct_size = sizeof(vl_plugin),
    .abi_version = VL_ABI_VERSION,
    .id = "fake",
    .version = "1.0",
    .description = "A model without weights, for tests",
    .interfaces = interfaces,
    .options = fake_options,
    .n_options = FAKE_OPT_COUNT,
    .init = fake_init,
    .fini = fake_fini,
    .get_ext = fake_get_ext,
};

VL_EXPORT const vl_plugin *vl_plugin_entry(void)
{
    return &plugin;
}
