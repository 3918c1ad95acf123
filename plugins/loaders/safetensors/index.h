/* plugins/loaders/safetensors/index.h: model.safetensors.index.json: which tensor lies in which
 * shard. Does no I/O. */
#ifndef VL_SAFETENSORS_INDEX_H
#define VL_SAFETENSORS_INDEX_H

#include "base/json.h"
#include "plugins/loaders/common/folder.h"
#include "vallmo/loader.h"

struct vl_st_index {
    vl_json_doc doc;       /* owned */
    vl_json map;           /* weight_map; in doc */
    struct vl_names files; /* each shard once, sorted; owned */
};

/* text must outlive the index. Names of shards must be plain file names: one that leads elsewhere
 * is refused. */
vl_status vl_st_index_parse(vl_bytes text, struct vl_st_index *out, vl_error *err);
void vl_st_index_fini(struct vl_st_index *x);

/* Index and headers must say the same: every tensor of the one in the other, in the file that it
 * names. */
vl_status vl_st_index_check(const struct vl_st_index *x, const vl_loader_api *api,
                            const vl_checkpoint *c, vl_error *err);

#endif
