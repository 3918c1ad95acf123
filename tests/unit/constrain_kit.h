/* constrain_kit.h: what the tests of constrained output share: real vocabularies, masks, writing by
 * mask. */
#ifndef VL_TEST_CONSTRAIN_KIT_H
#define VL_TEST_CONSTRAIN_KIT_H

#include "tests/unit/tokenizer_util.h"

#include "host/lib/constrain/constrain.h"
#include "host/lib/constrain/vocabulary.h"

extern const vl_tokenizer_api kit_tokenizer_api;

struct kit {
    vl_tokenizer *t;
    vl_vocabulary *v;
    size_t n_words;
};

/* A vocabulary by its folder's name, once a program; closed by kit_close_all. */
struct kit *kit_open(const char *name);
void kit_close_all(void);

/* One choice under a constraint. */
struct kit_run {
    struct kit *k;
    vl_constrain *c;
    void *state;
    uint32_t *mask;
    vl_buf text;
    bool complete;
    int32_t parser; /* VL_CHAT_... */
    uint64_t random;
};

/* Fails the test if it is refused. format: JSON text of response_format. */
void kit_start(struct kit_run *r, struct kit *k, const char *format);
void kit_start_schema(struct kit_run *r, struct kit *k, const char *schema);
void kit_start_nodes(struct kit_run *r, struct kit *k, const char *format,
                     const vl_constraint_node *nodes, size_t n, bool required);
void kit_end(struct kit_run *r);
/* The error of a schema that must be refused; fails the test if it is not. */
void kit_refused(struct kit *k, const char *schema, vl_error *err, char *field);

/* Makes the next mask; fails the test on an error. Returns what the provider said. */
int kit_mask(struct kit_run *r);
bool kit_allows(const struct kit_run *r, int32_t id);
bool kit_stop_allowed(const struct kit_run *r);
/* Accepts a token that the mask allows (fails the test otherwise). */
void kit_take(struct kit_run *r, int32_t id);
/* Feeds text as the tokenizer would cut it. False: a token was not allowed, or the text was
 * complete before its end. */
bool kit_feed(struct kit_run *r, const char *text);
/* True: the whole text can come, and be an end. Starts anew from the schema. */
bool kit_matches(struct kit *k, const char *schema, const char *text);
/* Random allowed tokens until complete. False: not within n tokens. */
bool kit_walk(struct kit_run *r, size_t n);

#endif
