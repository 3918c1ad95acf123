/* host/lib/constrain/machine.h: runs a grammar over bytes: sets of (state, stack) pairs, made when
 * first reached and remembered, so that a byte seen before is one look in a table. Knows no tokens
 * but as ids on edges. One thread at a time.
 *
 * A stack is a number: (state to go on in, stack below); equal stacks have equal numbers, 0 is the
 * empty one. A set is a number too; 0 is the empty set, which nothing leaves. A set is complete
 * when the text may end there. */
#ifndef VL_CONSTRAIN_MACHINE_H
#define VL_CONSTRAIN_MACHINE_H

#include "host/lib/constrain/grammar.h"

#define VL_SET_UNKNOWN UINT32_MAX

struct vl_config {
    uint32_t state, stack;
};
struct vl_set {
    uint32_t first, n; /* configs, by stack, then state: those that read */
    uint64_t hash;
    uint8_t complete;
    uint8_t reserved[7];
};
struct vl_stack {
    uint32_t ret, below, depth;
};

typedef struct vl_machine {
    const vl_grammar *g; /* finished; borrowed */
    struct vl_set *sets;
    struct vl_config *configs;
    uint32_t *next; /* [n_sets * n_classes]: set behind a byte, or VL_SET_UNKNOWN */
    size_t n_sets, sets_cap, n_configs, configs_cap, next_cap;
    uint32_t *set_slots; /* open addressing; 0 is free */
    size_t n_set_slots;
    struct vl_stack *stacks;
    size_t n_stacks, stacks_cap;
    uint32_t *stack_slots;
    size_t n_stack_slots;

    /* the set being made */
    struct vl_config *made, *work;
    size_t n_made, made_cap, n_work, work_cap;
    uint64_t *seen;      /* open addressing of pairs + 1 */
    uint32_t *seen_when; /* a slot counts if it says `now` */
    size_t n_seen, n_seen_slots;
    uint32_t now;
    bool complete;
    vl_status
        status; /* sticky: VL_E_NOMEM, or VL_E_UNSUPPORTED when there came to be too many sets */
} vl_machine;

bool vl_machine_init(vl_machine *m, const vl_grammar *g); /* false: out of memory */
void vl_machine_fini(vl_machine *m);
/* Forgets the sets, keeps the stacks; `keep` are made again and get their new numbers. Also mends
 * status. */
bool vl_machine_forget(vl_machine *m, uint32_t **keep, size_t n_keep);
bool vl_machine_is_large(const vl_machine *m); /* forgetting would be good */

/* All of these give 0 on failure (m->status tells) or when nothing can follow. */
uint32_t vl_machine_start(vl_machine *m, uint32_t state);
uint32_t vl_machine_return(vl_machine *m,
                           uint32_t stack); /* behind the end of the rule that runs on this stack */
uint32_t vl_machine_set_of(vl_machine *m, const struct vl_config *configs, size_t n,
                           uint32_t stack);
uint32_t vl_machine_token(vl_machine *m, uint32_t set, int32_t id);
uint32_t vl_machine_make(vl_machine *m, uint32_t set, uint32_t byte_class);

static inline uint32_t vl_machine_byte(vl_machine *m, uint32_t set, uint8_t byte)
{
    uint32_t c = m->g->class_of[byte];
    uint32_t to = m->next[(size_t)set * m->g->n_classes + c];

    return to != VL_SET_UNKNOWN ? to : vl_machine_make(m, set, c);
}
static inline bool vl_machine_reads(const vl_machine *m, uint32_t set)
{
    return m->sets[set].n > 0;
}
static inline bool vl_machine_complete(const vl_machine *m, uint32_t set)
{
    return m->sets[set].complete != 0;
}

#endif
