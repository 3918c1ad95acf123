/* vallmo/ext/snapshot.h: "vl.snapshot/1", offered by vl_model_api.get_ext: states that can be gone
 * back to.
 *
 * A snapshot of a hybrid model is the recurrent and convolution state at one position, with the KV
 * pages before it, which are shared and counted, never copied on the device. A recurrent state
 * can't be cut back, so one can be resumed only at exactly its position. */
#ifndef VALLMO_EXT_SNAPSHOT_H
#define VALLMO_EXT_SNAPSHOT_H

#include "vallmo/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VL_SNAPSHOT_ID "vl.snapshot/1"

enum { VL_TIER_DEVICE = 0, VL_TIER_HOST = 1 };

typedef struct vl_snapshot_info {
    uint32_t struct_size;
    int32_t tier;          /* VL_TIER_..., where it is or is moving to */
    uint64_t position;     /* tokens it has read */
    uint64_t own_bytes;    /* freed by dropping it */
    uint64_t shared_bytes; /* pages that others hold too */
} vl_snapshot_info;

typedef struct vl_tier_info {
    uint32_t struct_size;
    int32_t tier;
    uint64_t used_bytes; /* by snapshots: states, and pages that only snapshots hold */
    uint64_t free_bytes; /* that snapshots could still take */
} vl_tier_info;

typedef struct vl_snapshot_api {
    uint32_t struct_size;
    uint32_t abi_version;

    /* Takes the sequence's state as it is after all steps submitted so far; *position = where that
     * is (the true one, also with steps in flight that may have stopped earlier). VL_E_NOMEM: no
     * room; VL_E_STATE: the sequence has faulted, or its position is 0. [engine] */
    vl_status (*take)(vl_model *m, vl_sequence *s, vl_snapshot **out, uint64_t *position,
                      vl_error *err);
    /* Bytes of its own that take would need now on this tier (states; pages are shared). [engine]
     */
    uint64_t (*take_bytes)(const vl_model *m, const vl_sequence *s);
    void (*info)(const vl_model *m, const vl_snapshot *s, vl_snapshot_info *out); /* [engine] */

    /* Moves it to a tier; *ticket for moved(). A snapshot that is on the way can't be restored yet
     * (VL_E_BUSY from sequence_begin). VL_E_UNSUPPORTED: this model has one tier. [engine] */
    vl_status (*move)(vl_model *m, vl_snapshot *s, int32_t tier, uint64_t *ticket, vl_error *err);
    /* VL_OK when that move is done, VL_E_TIMEOUT when not yet. timeout_ms as in collect. [engine]
     */
    vl_status (*moved)(vl_model *m, uint64_t ticket, int64_t timeout_ms, vl_error *err);

    /* Gives it up; sequences that began from it go on. Returns the bytes really freed. NULL: 0.
     * [engine] */
    uint64_t (*drop)(vl_model *m, vl_snapshot *s);
    void (*tier)(const vl_model *m, int32_t tier, vl_tier_info *out); /* [engine] */
} vl_snapshot_api;

#ifdef __cplusplus
}
#endif
#endif
