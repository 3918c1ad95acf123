/* plugins/common/cuda/upload.h: host memory (a file's mapping) to the device through pinned double
 * buffers: several threads read (and so fault in) the source while the copy engine moves what they
 * filled. Knows bytes only. */
#ifndef VL_CUDA_UPLOAD_H
#define VL_CUDA_UPLOAD_H

#include "plugins/common/cuda/device.h"

/* One piece. Rows of the source may be placed apart: row i of row_bytes goes to dst + i *
 * dst_stride, but in groups: every `group` rows are contiguous, and groups lie dst_stride apart. A
 * plain copy has n_rows 1. */
typedef struct vl_upload_piece {
    void *dst;            /* device */
    const void *src;      /* host */
    uint64_t n_bytes;     /* of the source, contiguous there */
    uint64_t group_bytes; /* contiguous in dst; n_bytes: all (a plain copy) */
    uint64_t dst_stride;  /* bytes between the beginnings of groups in dst */
} vl_upload_piece;

/* Copies all pieces and waits. progress as in vl_model_params (fraction of the bytes); nonzero
 * return cancels. [open] */
vl_status vl_upload(const vl_cuda *c, const vl_upload_piece *pieces, uint32_t n,
                    int32_t (*progress)(void *user, double fraction), void *user, vl_error *err);

#endif
