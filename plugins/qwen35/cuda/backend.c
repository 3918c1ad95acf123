/* plugins/qwen35/cuda/backend.c: the table through which plugin.c runs a model on CUDA; glue only.
 */
#include "plugins/qwen35/cuda/model.h"

static void info(const vl_q35_model *model, vl_model_info *out)
{
    const vl_q35_cuda *m = vl_q35_of_const(model);
    out->max_sequences = (uint32_t)m->s.n_rows;
    out->architecture = "qwen3_5_text";
    out->device = m->device_text;
    out->context_tokens = m->context;
    out->kv_tokens = m->kv_tokens;
    out->step_tokens = m->step_tokens;
    out->vocab_rows = (uint64_t)m->s.vocab;
    out->n_tokens = (uint64_t)m->s.n_tokens;
    out->max_step_ids = 1;
    out->max_in_flight = VL_Q35_IN_FLIGHT;
    out->snapshot_grid = 64;
    out->n_layers = (uint64_t)m->n_layers;
}

static void pool(const vl_q35_model *model, uint64_t *kv_tokens, uint64_t *kv_tokens_free)
{
    const vl_q35_cuda *m = vl_q35_of_const(model);
    *kv_tokens = m->kv_tokens;
    *kv_tokens_free = vl_pages_free(m->pages) * VL_Q35_PAGE;
}

const vl_q35_backend vl_q35_cuda_backend = {
    .name = "cuda",
    .takes_tiled = 0,
    .usable = vl_q35_cuda_usable,
    .estimate = vl_q35_cuda_estimate,
    .default_kv_tokens = vl_q35_cuda_default_kv,
    .open = vl_q35_cuda_open,
    .close = vl_q35_cuda_close,
    .info = info,
    .health = vl_q35_cuda_health,
    .sequence_begin = vl_q35_cuda_sequence_begin,
    .sequence_end = vl_q35_cuda_sequence_end,
    .submit = vl_q35_cuda_submit,
    .collect = vl_q35_cuda_collect,
    .pool = pool,
    .take = vl_q35_cuda_take,
    .take_bytes = vl_q35_cuda_take_bytes,
    .snapshot_info = vl_q35_cuda_snapshot_info,
    .move = vl_q35_cuda_move,
    .moved = vl_q35_cuda_moved,
    .drop = vl_q35_cuda_drop,
    .tier = vl_q35_cuda_tier,
};
