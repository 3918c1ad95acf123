/* constrain_kit.c: see constrain_kit.h. */
#include "tests/unit/constrain_kit.h"

#include <stdio.h>
#include <stdlib.h>

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

const vl_tokenizer_api kit_tokenizer_api = {
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

static struct kit kits[4];
static char kit_names[4][32];
static size_t n_kits;

struct kit *kit_open(const char *name)
{
    vl_error err = {0};

    for (size_t i = 0; i < n_kits; i++) {
        if (strcmp(kit_names[i], name) == 0)
            return &kits[i];
    }
    assert_true(n_kits < 4);
    struct kit *k = &kits[n_kits];
    snprintf(kit_names[n_kits], sizeof kit_names[0], "%s", name);
    k->t = tok_load(name);
    k->n_words = (k->t->bpe.tokens.n_ids + 31) / 32;
    if (vl_vocabulary_create(&kit_tokenizer_api, k->t, &k->v, &err) != VL_OK)
        fail_msg("%s", err.text);
    n_kits++;
    return k;
}

void kit_close_all(void)
{
    while (n_kits > 0) {
        struct kit *k = &kits[--n_kits];
        vl_vocabulary_destroy(k->v);
        vl_bpe_tokenizer_destroy(k->t);
    }
}

void kit_start_nodes(struct kit_run *r, struct kit *k, const char *format,
                     const vl_constraint_node *nodes, size_t n, bool required)
{
    vl_error err = {0};
    char field[248] = "";
    struct vl_constrain_params p = {
        .response_format = {format, format != NULL ? strlen(format) : 0},
        .nodes = nodes,
        .n_nodes = n,
        .calls_required = required};

    *r = (struct kit_run){.k = k, .parser = VL_CHAT_CONTENT, .random = 7};
    if (vl_constrain_create(k->v, &p, &r->c, field, &err) != VL_OK)
        fail_msg("%s: %s", field, err.text);
    assert_non_null(r->c);
    r->state = vl_constrain_api.create(r->c, 0);
    r->mask = calloc(k->n_words, sizeof *r->mask);
    assert_non_null(r->state);
    assert_non_null(r->mask);
}

void kit_start(struct kit_run *r, struct kit *k, const char *format)
{
    kit_start_nodes(r, k, format, NULL, 0, false);
}

static void wrap(vl_buf *out, const char *schema)
{
    vl_buf_puts(out, "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":");
    vl_buf_puts(out, schema);
    vl_buf_puts(out, "}}");
}

void kit_start_schema(struct kit_run *r, struct kit *k, const char *schema)
{
    vl_buf format = VL_BUF_INIT;

    wrap(&format, schema);
    kit_start(r, k, format.ptr);
    vl_buf_fini(&format);
}

void kit_end(struct kit_run *r)
{
    vl_constrain_api.destroy(r->state);
    vl_constrain_api.factory_free(r->c);
    free(r->mask);
    vl_buf_fini(&r->text);
}

void kit_refused(struct kit *k, const char *schema, vl_error *err, char *field)
{
    vl_buf format = VL_BUF_INIT;
    vl_constrain *c = NULL;

    wrap(&format, schema);
    struct vl_constrain_params p = {.response_format = {format.ptr, format.len}};
    *err = (vl_error){0};
    vl_status rc = vl_constrain_create(k->v, &p, &c, field, err);
    if (rc != VL_E_INVALID)
        fail_msg("status %d (%s) for %.200s", rc, err->text, schema);
    assert_null(c);
    vl_buf_fini(&format);
}

int kit_mask(struct kit_run *r)
{
    vl_error err = {0};
    bool free_run = true;

    memset(r->mask, 0, r->k->n_words * sizeof *r->mask);
    int use = vl_constrain_api.mask(r->state, r->parser, r->mask, r->k->n_words, &free_run, &err);
    if (use < 0)
        fail_msg("%s, behind %s", err.text, r->text.ptr != NULL ? r->text.ptr : "nothing");
    return use;
}

bool kit_allows(const struct kit_run *r, int32_t id)
{
    return (r->mask[id / 32] >> (id % 32) & 1) != 0;
}

bool kit_stop_allowed(const struct kit_run *r)
{
    return r->k->t->n_stop_ids > 0 && kit_allows(r, r->k->t->stop_ids[0]);
}

void kit_take(struct kit_run *r, int32_t id)
{
    vl_bytes b = token(r->k->t, id);

    assert_true(kit_allows(r, id));
    assert_false(r->complete);
    vl_buf_append(&r->text, b.ptr, b.len);
    r->complete = vl_constrain_api.accept(r->state, r->parser, id) != 0;
}

bool kit_feed(struct kit_run *r, const char *text)
{
    int32_t *ids = NULL;
    size_t n = tok_encode(r->k->t, text, strlen(text), VL_PIECE_TEXT, &ids);
    bool ok = true;

    for (size_t i = 0; i < n && ok; i++) {
        ok = !r->complete && kit_mask(r) == 1 && kit_allows(r, ids[i]);
        if (ok)
            kit_take(r, ids[i]);
    }
    free(ids);
    return ok;
}

bool kit_matches(struct kit *k, const char *schema, const char *text)
{
    struct kit_run r;

    kit_start_schema(&r, k, schema);
    bool ok = kit_feed(&r, text);
    if (ok && !r.complete)
        ok = kit_mask(&r) == 1 && kit_stop_allowed(&r);
    kit_end(&r);
    return ok;
}

/* Any allowed token but a stop, or -1. */
static int32_t pick(struct kit_run *r)
{
    static const char *const likely[] = {"\"", "}", "]", ",", "\"}", "\",",
                                         "1",  "e", "{", "-", ":",   "a"};
    size_t n = 0;

    for (int i = 0; i < 4 && tok_random(&r->random) % 2 == 0; i++) {
        const char *text = likely[tok_random(&r->random) % (sizeof likely / sizeof likely[0])];
        int32_t id = vl_bpe_tokenizer_find(r->k->t, text, strlen(text));
        if (id >= 0 && kit_allows(r, id))
            return id;
    }
    for (size_t i = 0; i < r->k->t->n_stop_ids; i++)
        r->mask[r->k->t->stop_ids[i] / 32] &= ~(1u << (r->k->t->stop_ids[i] % 32));
    for (size_t i = 0; i < r->k->n_words; i++)
        n += (size_t)__builtin_popcount(r->mask[i]);
    if (n == 0)
        return -1;
    size_t want = tok_random(&r->random) % n;
    for (size_t i = 0;; i++) {
        size_t here = (size_t)__builtin_popcount(r->mask[i]);
        if (want >= here) {
            want -= here;
            continue;
        }
        uint32_t bits = r->mask[i];
        for (; want > 0; want--)
            bits &= bits - 1;
        return (int32_t)(i * 32 + (size_t)__builtin_ctz(bits));
    }
}

bool kit_walk(struct kit_run *r, size_t n)
{
    for (size_t i = 0; i < n && !r->complete; i++) {
        assert_int_equal(kit_mask(r), 1);
        if (kit_stop_allowed(r) && tok_random(&r->random) % 2 == 0)
            return true;
        int32_t id = pick(r);
        if (id < 0)
            return kit_stop_allowed(r);
        kit_take(r, id);
    }
    return r->complete;
}
