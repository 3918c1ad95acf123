/* host/lib/constrain/nodes.h: a chat format's constraint (vl_constraint_node, vallmo/chat.h) into
 * states of a grammar. */
#ifndef VL_CONSTRAIN_NODES_H
#define VL_CONSTRAIN_NODES_H

#include "host/lib/constrain/rules.h"
#include "vallmo/chat.h"

/* from, a text of node 0, to. Literals that are an added token of the vocabulary become that token.
 */
vl_status vl_nodes_compile(const struct vl_rules *r, const vl_vocabulary *v,
                           const vl_constraint_node *nodes, uint64_t n, uint32_t from, uint32_t to,
                           vl_error *err);

#endif
