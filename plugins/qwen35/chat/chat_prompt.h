/* plugins/qwen35/chat/chat_prompt.h: a rendered prompt. Filled by chat_render.c and
 * chat_constraint.c, read by the table and by the parser's beginning. Immutable once made. */
#ifndef VL_QWEN35_CHAT_PROMPT_H
#define VL_QWEN35_CHAT_PROMPT_H

#include "plugins/qwen35/chat/chat_request.h"

struct vl_chat_prompt {
    vl_buf text;      /* the pieces lie in it, one behind the other */
    vl_piece *pieces; /* while rendering, len alone is set */
    size_t n_pieces, pieces_cap;
    vl_chat_mark *marks;
    size_t n_marks, marks_cap;
    int32_t start_state;
    bool thinking;
    bool content_begun; /* a continuation: the answer has text already */
    bool failed;        /* out of memory on the way */
    vl_chat_tools *tools;

    vl_constraint_node *nodes; /* node 0 is the root; n_nodes 0: none */
    size_t n_nodes, nodes_cap;
    uint32_t *children; /* of all nodes; while building, nodes hold offsets */
    size_t n_children, children_cap;
    vl_buf constraint_text;
};

void vl_chat_render(const vl_chat *c, const vl_chat_request *r, vl_chat_prompt *p);
/* The index of the last message that is a real question, or SIZE_MAX. */
size_t vl_chat_last_query(const vl_chat_request *r);
/* Fills nodes for a required or named choice. False: out of memory. */
bool vl_chat_constrain(const vl_chat_request *r, vl_chat_prompt *p);

#endif
