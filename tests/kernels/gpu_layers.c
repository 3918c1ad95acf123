/* tests/kernels/gpu_layers.c: writes what a model on the GPU computes for a prompt, for a
 * comparison with another implementation (tests/tools/truth.py): the residual behind each layer,
 * and the logits of every position.
 *
 *   gpu_layers CHECKPOINT N_IDS OUT     ids: (i * 7919 + 13) % 20000
 *
 * OUT: i32 n, layers, hidden, vocabulary; then f32 [layers][n][hidden]; then f32 [n][vocabulary].
 */
#include "tests/unit/qwen35_util.h"

#include "plugins/qwen35/cuda/model.h"

static void quiet(void *ctx, int32_t level, const char *component, const char *text)
{
    (void)ctx;
    (void)level;
    (void)fprintf(stderr, "%s %s\n", component, text);
}
static const char *no_cache(void *ctx)
{
    (void)ctx;
    return "";
}
static const vl_host host = {.struct_size = sizeof(host),
                             .abi_version = VL_ABI_VERSION,
                             .log = quiet,
                             .cache_dir = no_cache};

static void put(FILE *f, const void *device, size_t bytes)
{
    void *x = malloc(bytes);
    if (x == NULL || cudaMemcpy(x, device, bytes, cudaMemcpyDeviceToHost) != cudaSuccess ||
        fwrite(x, 1, bytes, f) != bytes)
        exit(1);
    free(x);
}

static void dump(vl_q35_cuda *m, vl_model *model, const vl_model_api *api, const int32_t *ids,
                 int n, FILE *f)
{
    vl_error err = {0};
    const int64_t layers = m->n_layers;
    const int32_t head[4] = {n, (int32_t)layers, (int32_t)m->s.hidden, (int32_t)m->s.vocab};
    if (fwrite(head, 1, sizeof(head), f) != sizeof(head))
        exit(1);
    for (int64_t k = 1; k <= layers; k++) { /* the model cut behind its k-th layer */
        struct q35_request q;
        vl_sequence *s = NULL;
        vl_row_result res;
        uint64_t ticket;
        m->n_layers = k;
        q35_request_init(&q, ids, (size_t)n, 1);
        q.params.sampling = &q.sampling;
        const vl_status begun = api->sequence_begin(model, &q.params, &s, &err);
        const vl_row row = {
            .sequence = s, .kind = VL_ROW_PREFILL, .flags = VL_ROW_LAST, .n_ids = (uint64_t)n};
        if (begun != VL_OK || api->submit(model, &row, 1, &ticket, &err) != VL_OK ||
            api->collect(model, ticket, -1, &res, 1, &err) != VL_OK) {
            (void)fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        put(f, m->w.x, (size_t)n * (size_t)m->s.hidden * 4);
        api->sequence_end(model, s);
    }
    vl_q35_run r = {m, VL_OK, &err};
    for (int i = 0; i < n; i += VL_Q35_LOGPROB_ROWS) {
        const int rows = n - i < VL_Q35_LOGPROB_ROWS ? n - i : VL_Q35_LOGPROB_ROWS;
        vl_q35_forward_logprobs(&r, m->w.x + (int64_t)i * m->s.hidden, rows, m->ids_in, 0,
                                m->prompt_lp);
        if (r.rc != VL_OK || cudaStreamSynchronize(m->c.stream) != cudaSuccess)
            exit(1);
        put(f, m->w.logits, (size_t)rows * (size_t)m->s.vocab * 4);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const int n = (int)strtol(argv[2], NULL, 10);
    int32_t *ids = calloc((size_t)n, sizeof(*ids));
    FILE *f = fopen(argv[3], "wb");
    if (ids == NULL || f == NULL)
        return 1;
    vl_error err = {0};
    vl_checkpoint *cp = q35_checkpoint_open(argv[1]);
    const vl_plugin *plugin = vl_plugin_entry();
    vl_instance *self = NULL;
    vl_model *model = NULL;
    const vl_model_api *api = plugin->get_ext(VL_MODEL_ID);
    vl_option_value values[VL_Q35_N_OPTIONS] = {{0}};
    const vl_option_values options = {
        .struct_size = sizeof(options), .n_values = VL_Q35_N_OPTIONS, .values = values};
    const vl_model_params p = {.struct_size = sizeof(p),
                               .max_sequences = 2,
                               .context_tokens = 1024,
                               .step_tokens = 1024,
                               .device = "cuda",
                               .options = &options};
    if (plugin->init(&host, &self, &err) != VL_OK ||
        api->open(self, &q35_loader, cp, &p, &model, &err) != VL_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    vl_q35_cuda *m = (vl_q35_cuda *)(void *)model;
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(((int64_t)i * 7919 + 13) % (m->s.vocab < 20000 ? m->s.vocab : 20000));
    dump(m, model, api, ids, n, f);
    return fclose(f) == 0 ? 0 : 1;
}
