/* host/lib/constrain/constrain.h: constrained output: a response_format or a chat format's
 * constraint on calls, as the masks that the engine asks for (vl_mask_api, host/lib/engine.h). The
 * door to this folder; knows no HTTP and no model's markup. */
#ifndef VL_CONSTRAIN_CONSTRAIN_H
#define VL_CONSTRAIN_CONSTRAIN_H

#include "host/lib/engine.h"

typedef struct vl_vocabulary vl_vocabulary;
typedef struct vl_constrain vl_constrain; /* the mask_factory */

/* The tokens of a model, once (tens of milliseconds). The tokenizer must outlive it. [any] */
vl_status vl_vocabulary_create(const vl_tokenizer_api *api, const vl_tokenizer *t,
                               vl_vocabulary **out, vl_error *err);
/* NULL is a no-op; all factories are gone by then. */
void vl_vocabulary_destroy(vl_vocabulary *v);

struct vl_constrain_params {
    vl_bytes response_format; /* JSON text of the field; empty: none */
    /* What calls must look like: vl_chat_api.constraint; 0: no calls. With a response_format too
     * the answer is one or the other, unless calls_required. Copied. */
    const vl_constraint_node *nodes;
    uint64_t n_nodes;
    bool calls_required;
};

/* Compiles, or finds what was compiled before. *out NULL with VL_OK: nothing constrains
 * ({"type":"text"}). VL_E_INVALID: the request is wrong; the text names keyword and path, field
 * (248 bytes, may be NULL) the request's field. Takes milliseconds for a schema that is new: for a
 * worker. [any] */
vl_status vl_constrain_create(vl_vocabulary *v, const struct vl_constrain_params *p,
                              vl_constrain **out, char *field, vl_error *err);
void vl_constrain_destroy(vl_constrain *c); /* what factory_free does */

/* For struct vl_request_params: .mask = &vl_constrain_api, .mask_factory = the vl_constrain. In a
 * thought everything may come; the constraint begins with the answer (behind the line ends that
 * follow the thought) or with a token that only the constraint's beginning names (a call inside a
 * thought). accept says complete when nothing but the end may follow. */
extern const struct vl_mask_api vl_constrain_api;

#endif
