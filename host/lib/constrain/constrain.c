/* host/lib/constrain/constrain.c: from a request's fields to a compiled constraint, kept for the
 * next request that says the same; and the state of each choice.
 *
 * A compiled constraint is shared by all requests that use it; its lock is held for the length of
 * one mask or step. The engine thread is nearly always alone there. */
#include "host/lib/constrain/constrain.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "host/lib/constrain/masker.h"
#include "host/lib/constrain/nodes.h"
#include "host/lib/constrain/schema.h"

enum {
    JSON_DEPTH = 200,
    KEPT_MAX = 16, /* compiled constraints that nobody uses at the moment */
    LINES_MAX = 2  /* line ends between a thought and the answer */
};

struct compiled {
    struct compiled *next; /* most recently used first */
    uint32_t refs;         /* under the cache's lock */
    uint64_t hash;
    char *key; /* owned: the spec it was made from */
    size_t key_len;
    pthread_mutex_t lock; /* of the masker */
    vl_masker masker;
};

struct vl_grammar_cache {
    pthread_mutex_t lock;
    struct compiled *list;
};

struct vl_constrain {
    vl_vocabulary *v;
    struct compiled *k;
};

/* One choice. */
struct choice {
    struct compiled *k;
    uint32_t set;
    bool started, thought;
};

/* ---- the vocabulary ---- */

vl_status vl_vocabulary_create(const vl_tokenizer_api *api, const vl_tokenizer *t,
                               vl_vocabulary **out, vl_error *err)
{
    vl_vocabulary *v = calloc(1, sizeof *v);
    vl_status rc;

    if (v == NULL)
        return vl_error_set(err, VL_E_NOMEM, "vocabulary: out of memory");
    rc = vl_vocabulary_build(v, api, t, err);
    if (rc == VL_OK)
        rc = vl_strings_init(v, err);
    if (rc == VL_OK) {
        v->cache = calloc(1, sizeof *v->cache);
        if (v->cache == NULL)
            rc = vl_error_set(err, VL_E_NOMEM, "vocabulary: out of memory");
        else
            pthread_mutex_init(&v->cache->lock, NULL);
    }
    if (rc != VL_OK) {
        vl_vocabulary_destroy(v);
        return rc;
    }
    *out = v;
    return VL_OK;
}

static void compiled_free(struct compiled *k)
{
    if (k == NULL)
        return;
    vl_masker_fini(&k->masker);
    pthread_mutex_destroy(&k->lock);
    free(k->key);
    free(k);
}

void vl_vocabulary_destroy(vl_vocabulary *v)
{
    if (v == NULL)
        return;
    if (v->cache != NULL) {
        while (v->cache->list != NULL) {
            struct compiled *k = v->cache->list;
            v->cache->list = k->next;
            compiled_free(k);
        }
        pthread_mutex_destroy(&v->cache->lock);
        free(v->cache);
    }
    vl_vocabulary_free_trie(v);
    free(v);
}

/* ---- compiling ---- */

/* The schema that a response_format asks for. *text: none is asked for; schema.node NULL: any
 * object. */
static vl_status find_schema(vl_json f, vl_json *schema, const char **path, bool *text,
                             vl_error *err)
{
    vl_json type = vl_json_get(f, "type"), inner = vl_json_get(f, "json_schema");

    *text = vl_json_str_eq(type, "text");
    *schema = (vl_json){f.doc, NULL};
    if (*text)
        return VL_OK;
    if (!vl_json_is(f, VL_JSON_OBJECT) ||
        (!vl_json_str_eq(type, "json_object") && !vl_json_str_eq(type, "json_schema")))
        return vl_error_set(err, VL_E_INVALID,
                            "response_format.type: want text, json_object or json_schema");
    if (vl_json_str_eq(type, "json_schema") && !vl_json_is_null(inner)) {
        if (!vl_json_is(inner, VL_JSON_OBJECT))
            return vl_error_set(err, VL_E_INVALID,
                                "response_format.json_schema: want an object, not %s",
                                vl_json_type_name(inner));
        *schema = vl_json_get(inner, "schema");
        *path = "response_format.json_schema.schema";
    }
    if (vl_json_is_null(*schema)) {
        *schema = vl_json_get(f, "schema");
        *path = "response_format.schema";
    }
    if (vl_json_is_null(*schema)) {
        schema->node = NULL;
        if (vl_json_str_eq(type, "json_schema"))
            return vl_error_set(err, VL_E_INVALID,
                                "response_format.json_schema.schema: it is missing");
    }
    return VL_OK;
}

/* The starting states: at once, and behind a thought, where line ends may come first. */
static void put_starts(vl_grammar *g, uint32_t root)
{
    uint32_t at = vl_grammar_state(g);

    g->start = root;
    g->start_thought = at;
    for (int i = 0; i < LINES_MAX; i++) {
        uint32_t next = vl_grammar_state(g);
        vl_grammar_empty(g, at, root);
        vl_grammar_byte(g, at, '\n', '\n', next);
        at = next;
    }
    vl_grammar_empty(g, at, root);
}

/* Adds what the response_format allows. *nothing: it is type text. */
static vl_status put_format(const struct vl_rules *r, vl_bytes format, uint32_t from, uint32_t to,
                            bool *nothing, vl_error *err)
{
    vl_json_doc doc = {0};
    vl_json schema;
    const char *path = "response_format.schema";
    vl_status rc = vl_json_parse(&doc, format.ptr, format.len, JSON_DEPTH, 0, err);

    if (rc != VL_OK) {
        vl_error_prefix(err, "response_format");
        rc = rc == VL_E_NOMEM ? rc : VL_E_INVALID;
    } else {
        rc = find_schema(vl_json_root(&doc), &schema, &path, nothing, err);
    }
    if (rc == VL_OK && !*nothing && schema.node == NULL)
        vl_grammar_call(r->g, from, r->object, to);
    else if (rc == VL_OK && !*nothing)
        rc = vl_schema_compile(r, schema, path, from, to, err);
    vl_json_doc_fini(&doc);
    return rc;
}

static vl_status check_root(const vl_grammar *g, vl_error *err)
{
    uint32_t height = g->states[g->start].height;

    if (height == VL_GRAMMAR_NEVER)
        return vl_error_set(err, VL_E_INVALID, "response_format: no value can match the schema");
    if (height > VL_GRAMMAR_MAX_DEPTH / 2)
        return vl_error_set(err, VL_E_INVALID,
                            "response_format: the least value nests %u deep; %d is supported",
                            height, VL_GRAMMAR_MAX_DEPTH / 2);
    return VL_OK;
}

/* *out NULL: nothing constrains. */
static vl_status compile(const vl_vocabulary *v, const struct vl_constrain_params *p,
                         struct compiled **out, const char **field, vl_error *err)
{
    struct compiled *k = calloc(1, sizeof *k);
    struct vl_warm warm = {.n = 0};
    struct vl_rules r;
    vl_grammar g;
    bool nothing = p->response_format.len == 0;
    vl_status rc = VL_OK;

    *out = NULL;
    if (k == NULL || !vl_grammar_init(&g)) {
        free(k);
        return vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
    }
    pthread_mutex_init(&k->lock, NULL);
    vl_rules_init(&r, &g, &warm);
    uint32_t root = vl_grammar_state(&g);
    if (!nothing) /* read in any case: what is wrong must be told */
        rc = put_format(&r, p->response_format, root, r.end, &nothing, err);
    if (rc == VL_OK && p->n_nodes > 0 && p->calls_required)
        root = vl_grammar_state(&g); /* calls alone */
    if (rc == VL_OK && p->n_nodes > 0 && (p->calls_required || !nothing)) {
        *field = "tools";
        rc = vl_nodes_compile(&r, v, p->nodes, p->n_nodes, root, r.end, err);
        nothing = false;
    }
    put_starts(&g, root);
    if (rc == VL_OK && nothing)
        goto out;
    if (rc == VL_OK) {
        rc = vl_grammar_finish(&g, err);
        if (rc == VL_E_INVALID)
            vl_error_prefix(err, "%s", *field);
    }
    if (rc == VL_OK)
        rc = check_root(&g, err);
    if (rc == VL_OK)
        rc = vl_masker_init(&k->masker, v, &g, err);
    if (rc != VL_OK)
        goto out;
    for (size_t i = 0; i < warm.n; i++)
        vl_masker_warm(&k->masker, warm.states[i]);
    *out = k;
    k = NULL;
out:
    vl_grammar_fini(&g);
    compiled_free(k);
    return rc;
}

/* ---- compiled before ---- */

/* Everything that the result depends on, as bytes. */
static bool make_key(const struct vl_constrain_params *p, vl_buf *key)
{
    bool calls = p->n_nodes > 0;

    vl_buf_printf(key, "%d %zu ", p->calls_required, p->response_format.len);
    vl_buf_append(key, p->response_format.ptr, p->response_format.len);
    for (uint64_t i = 0; calls && i < p->n_nodes; i++) {
        const vl_constraint_node *n = &p->nodes[i];
        vl_buf_printf(key, "\n%d %u %u %zu ", n->kind, n->min_count, n->max_count, n->text.len);
        vl_buf_append(key, n->text.ptr, n->text.len);
        for (uint32_t c = 0; c < n->n_children; c++)
            vl_buf_printf(key, " %u", n->children[c]);
    }
    return !key->failed;
}

/* Takes a reference; NULL: there is none. Under the lock. */
static struct compiled *look_up(struct vl_grammar_cache *cache, const vl_buf *key, uint64_t hash)
{
    for (struct compiled **at = &cache->list; *at != NULL; at = &(*at)->next) {
        struct compiled *k = *at;
        if (k->hash != hash || k->key_len != key->len || memcmp(k->key, key->ptr, key->len) != 0)
            continue;
        *at = k->next;
        k->next = cache->list;
        cache->list = k;
        k->refs++;
        return k;
    }
    return NULL;
}

/* Drops the oldest of those that nobody uses, past KEPT_MAX. Under the lock. */
static void trim(struct vl_grammar_cache *cache)
{
    size_t idle = 0;

    for (struct compiled **at = &cache->list; *at != NULL;) {
        struct compiled *k = *at;
        if (k->refs == 0 && ++idle > KEPT_MAX) {
            *at = k->next;
            compiled_free(k);
        } else {
            at = &k->next;
        }
    }
}

static void release(vl_vocabulary *v, struct compiled *k)
{
    pthread_mutex_lock(&v->cache->lock);
    k->refs--;
    trim(v->cache);
    pthread_mutex_unlock(&v->cache->lock);
}

vl_status vl_constrain_create(vl_vocabulary *v, const struct vl_constrain_params *p,
                              vl_constrain **out, char *field, vl_error *err)
{
    vl_buf key = VL_BUF_INIT;
    struct compiled *k = NULL;
    vl_constrain *c = calloc(1, sizeof *c);
    const char *where = p->calls_required ? "tools" : "response_format";
    vl_status rc = VL_OK;

    *out = NULL;
    if (c == NULL || !make_key(p, &key)) {
        rc = vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
        goto out;
    }
    uint64_t hash = vl_hash_bytes(key.ptr, key.len, 1);
    pthread_mutex_lock(&v->cache->lock);
    k = look_up(v->cache, &key, hash);
    pthread_mutex_unlock(&v->cache->lock);
    if (k == NULL) {
        where = p->response_format.len > 0 ? "response_format" : "tools";
        rc = compile(v, p, &k, &where, err);
        if (rc != VL_OK || k == NULL)
            goto out;
        k->hash = hash;
        k->key = vl_buf_take(&key, &k->key_len);
        k->refs = 1;
        pthread_mutex_lock(&v->cache->lock);
        k->next = v->cache->list;
        v->cache->list = k;
        trim(v->cache);
        pthread_mutex_unlock(&v->cache->lock);
    }
    c->v = v;
    c->k = k;
    *out = c;
    c = NULL;
out:
    if (rc != VL_OK && field != NULL) {
        size_t n = strlen(where);
        memcpy(field, where, n + 1);
    }
    vl_buf_fini(&key);
    free(c);
    return rc;
}

void vl_constrain_destroy(vl_constrain *c)
{
    if (c == NULL)
        return;
    release(c->v, c->k);
    free(c);
}

/* ---- the states of choices: struct vl_mask_api ---- */

static void *choice_create(void *factory, uint32_t choice)
{
    const vl_constrain *c = factory;
    struct choice *s = calloc(1, sizeof *s);

    (void)choice;
    if (s != NULL)
        s->k = c->k;
    return s;
}

static void choice_destroy(void *state)
{
    struct choice *s = state;

    if (s == NULL)
        return;
    pthread_mutex_lock(&s->k->lock);
    vl_masker_drop(&s->k->masker, &s->set);
    pthread_mutex_unlock(&s->k->lock);
    free(s);
}

/* The set at the beginning. */
static uint32_t first_set(struct choice *s)
{
    vl_masker *m = &s->k->masker;

    return vl_machine_start(&m->machine, s->thought ? m->grammar.start_thought : m->grammar.start);
}

static bool start(struct choice *s, uint32_t set)
{
    s->set = set;
    s->started = true;
    return vl_masker_hold(&s->k->masker, &s->set);
}

static void allow_stops(const struct choice *s, uint32_t *mask, size_t n_words)
{
    const vl_vocabulary *v = s->k->masker.v;

    for (size_t i = 0; i < v->n_stops; i++) {
        uint32_t id = (uint32_t)v->stops[i];
        if (id / 32 < n_words)
            mask[id / 32] |= 1u << (id % 32);
    }
}

static bool is_empty(const uint32_t *mask, size_t n_words)
{
    uint32_t any = 0;

    for (size_t i = 0; i < n_words; i++)
        any |= mask[i];
    return any == 0;
}

static int make_mask(struct choice *s, uint32_t *mask, size_t n_words, vl_error *err)
{
    vl_masker *m = &s->k->masker;

    if (!s->started && !start(s, first_set(s))) {
        vl_error_set(err, VL_E_NOMEM, "constrained output: out of memory");
        return -1;
    }
    if (s->set == 0) {
        vl_error_set(err, VL_E_STATE, "constrained output: the text is not what the schema allows");
        return -1;
    }
    if (vl_masker_mask(m, s->set, mask, n_words, err) != VL_OK)
        return -1;
    if (vl_machine_complete(&m->machine, s->set))
        allow_stops(s, mask, n_words);
    if (is_empty(mask, n_words)) {
        vl_error_set(err, VL_E_UNSUPPORTED,
                     "constrained output: no token of the vocabulary can come next");
        return -1;
    }
    return 1;
}

static int choice_mask(void *state, int32_t parser_state, uint32_t *mask, size_t n_words,
                       bool *free_run, vl_error *err)
{
    struct choice *s = state;

    *free_run = false;
    if (!s->started && parser_state == VL_CHAT_REASONING) {
        s->thought = true; /* its end must be seen: no running ahead */
        return 0;
    }
    pthread_mutex_lock(&s->k->lock);
    int use = make_mask(s, mask, n_words, err);
    pthread_mutex_unlock(&s->k->lock);
    return use;
}

static int choice_accept(void *state, int32_t parser_state, int32_t id)
{
    struct choice *s = state;
    vl_masker *m = &s->k->masker;
    int complete = 0;

    pthread_mutex_lock(&s->k->lock);
    if (!s->started && parser_state == VL_CHAT_REASONING) {
        /* Only a token that the constraint names begins it in a thought: a call. */
        s->thought = true;
        uint32_t set = vl_machine_token(&m->machine, first_set(s), id);
        if (set != 0)
            start(s, set);
    } else if (s->started || start(s, first_set(s))) {
        s->set = vl_masker_step(m, s->set, id);
    }
    if (s->started && s->set != 0)
        complete =
            vl_machine_complete(&m->machine, s->set) && !vl_machine_reads(&m->machine, s->set);
    pthread_mutex_unlock(&s->k->lock);
    return complete;
}

static void factory_free(void *factory)
{
    vl_constrain_destroy(factory);
}

const struct vl_mask_api vl_constrain_api = {
    .create = choice_create,
    .destroy = choice_destroy,
    .mask = choice_mask,
    .accept = choice_accept,
    .factory_free = factory_free,
};
