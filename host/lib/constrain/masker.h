/* host/lib/constrain/masker.h: which tokens may come: a grammar's machine walked beside the trie of
 * tokens, with everything that was found remembered. Knows no schema and no chat. One thread at a
 * time.
 *
 * What a token does is decided by the rule that runs when it begins, and only if it reaches that
 * rule's end by what called it. So the walk is made once for each set of states (with an empty
 * stack), keeping the trie nodes where the rule ends; a set of pairs is put together from these and
 * short walks on. For strings the first part is the vocabulary's, whatever the grammar. */
#ifndef VL_CONSTRAIN_MASKER_H
#define VL_CONSTRAIN_MASKER_H

#include "host/lib/constrain/machine.h"
#include "host/lib/constrain/vocabulary.h"

/* Ids: a list where they are few, else bits. */
struct vl_id_set {
    uint32_t *bits; /* owned; NULL: the list */
    int32_t *ids;   /* owned */
    uint32_t n;
};

/* What may begin in a set of states with nothing around it. */
struct vl_local_mask {
    struct vl_id_set own;
    const uint32_t *borrowed; /* more bits, the vocabulary's, or NULL */
    uint32_t *exits;          /* owned: trie nodes where the rule ends */
    uint32_t n_exits;
};

/* The mask of a set. */
struct vl_full_mask {
    struct vl_id_set own;
    const uint32_t **parts; /* owned list of borrowed bits */
    uint32_t n_parts;
};

struct vl_collect { /* ids being found */
    uint32_t *bits; /* [n_words], zero between uses */
    int32_t *ids;   /* the first LIST_MAX */
    uint32_t n;
};

typedef struct vl_masker {
    const vl_vocabulary *v;
    vl_grammar grammar; /* owned */
    vl_machine machine;
    uint32_t max_height;
    struct vl_local_mask **locals; /* [n_by_set] by set number, NULL: not made */
    struct vl_full_mask **fulls;
    size_t n_by_set, locals_cap, fulls_cap;
    size_t mask_bytes; /* of both, about */
    uint32_t *path;    /* [longest + 2] sets at each depth of a walk */
    struct vl_collect collect;
    uint32_t *exits; /* being found */
    size_t n_exits, exits_cap;
    bool failed;        /* out of memory, or the machine's status */
    uint32_t **walkers; /* sets that others hold and that stay valid when things are forgotten */
    size_t n_walkers, walkers_cap;
} vl_masker;

/* Takes the grammar over, also on failure. It must be finished. */
vl_status vl_masker_init(vl_masker *m, const vl_vocabulary *v, vl_grammar *g, vl_error *err);
void vl_masker_fini(vl_masker *m);
bool vl_masker_hold(vl_masker *m, uint32_t *set); /* *set is kept right from now on */
void vl_masker_drop(vl_masker *m, uint32_t *set);

/* Sets the bits of the ids that may follow a set. VL_E_UNSUPPORTED: it became too complex;
 * VL_E_NOMEM. */
vl_status vl_masker_mask(vl_masker *m, uint32_t set, uint32_t *mask, size_t n_words, vl_error *err);
/* Makes what masks need when a rule stands in this state. */
void vl_masker_warm(vl_masker *m, uint32_t state);
/* The set behind a token; 0: it may not come. */
uint32_t vl_masker_step(vl_masker *m, uint32_t set, int32_t id);

#endif
