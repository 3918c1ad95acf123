/* plugins/loaders/gguf/checkpoint.h: from a parsed set to the checkpoint's tensors and texts. Does
 * no I/O. */
#ifndef VL_GGUF_CHECKPOINT_H
#define VL_GGUF_CHECKPOINT_H

#include "plugins/loaders/common/checkpoint.h"
#include "plugins/loaders/gguf/arch.h"
#include "plugins/loaders/gguf/vocab.h"

/* vl_checkpoint.priv of this loader. */
struct vl_gguf_priv {
    struct vl_gguf_set set;
    struct vl_gguf_model model;
    struct vl_gguf_vocab vocab;
};

struct vl_gguf_priv *vl_gguf_priv_create(vl_error *err);
void vl_gguf_priv_free(void *priv);

/* c's files are mapped and parsed into priv->set: reads metadata, lists tensors under their HF
 * names, makes the texts. pre: NULL or what replaces tokenizer.ggml.pre. note (cap bytes, may end
 * up empty): something to log. */
vl_status vl_gguf_build(vl_checkpoint *c, const char *pre, char *note, size_t cap, vl_error *err);

#endif
