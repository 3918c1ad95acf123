/* plugins/qwen35/plugin.c: the entry of the qwen35 plugin: options, which device half runs a model,
 * and the vtables. Glue only: config.c and weights.c know the checkpoint, cpu/ and cuda/ run it,
 * chat/ knows the markup. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "plugins/qwen35/backend.h"
#ifdef VL_QWEN35_CHAT
#include "plugins/qwen35/chat/chat.h"
#endif

struct vl_instance {
    const vl_host *host;
};

/* What plugin.c keeps for an open model; the backend borrows from it. */
struct vl_q35_owned {
    vl_q35_config config;
    vl_q35_weights weights;
};

/* In the order of the VL_Q35_OPT_ indices. */
static const vl_option options[VL_Q35_N_OPTIONS] = {
    {"cpu_form", VL_OPT_ENUM, 0, "auto", 0, 0, "auto|scalar|avx2|avx512|avx512-bf16|amx-bf16",
     "instruction form of the CPU kernels; the bf16 forms round activations to bf16, auto is the "
     "fastest there is"},
    {"threads", VL_OPT_INT, 0, "0", 0, 1024, NULL,
     "threads on a CPU; 0: as many as there are processors"},
    {"snapshot_bytes", VL_OPT_BYTES, 0, "1GiB", 0, 1e15, NULL,
     "most memory that the states of snapshots take on the model's device"},
};

/* ---- which device ---- */

struct device {
    const vl_q35_backend *backend;
    int32_t index;
};

static vl_status parse_device(const char *text, bool *cuda, bool *any, int32_t *index,
                              vl_error *err)
{
    *cuda = *any = false;
    *index = 0;
    if (text == NULL || strcmp(text, "auto") == 0) {
        *any = true;
        return VL_OK;
    }
    if (strcmp(text, "cpu") == 0)
        return VL_OK;
    *cuda = true;
    if (strcmp(text, "cuda") == 0)
        return VL_OK;
    if (strncmp(text, "cuda:", 5) == 0 && text[5] != '\0') {
        char *end;
        const long n = strtol(text + 5, &end, 10);
        if (*end == '\0' && text[5] >= '0' && text[5] <= '9' && n >= 0 && n < 1024) {
            *index = (int32_t)n;
            return VL_OK;
        }
    }
    return vl_error_set(err, VL_E_INVALID, "device %s: want auto, cpu, cuda or cuda:N", text);
}

/* `quiet`: no log line (estimates). auto takes CUDA when it is built and usable, else the CPU, and
 * says why. */
static vl_status choose(const vl_host *host, const vl_q35_config *c, const char *text, bool quiet,
                        struct device *out, vl_error *err)
{
    bool cuda, any;
    int32_t index;
    vl_status rc = parse_device(text, &cuda, &any, &index, err);
    if (rc != VL_OK)
        return rc;
    *out = (struct device){&vl_q35_cpu_backend, 0};
    if (!cuda && !any)
        return VL_OK;
    vl_error why = {0};
#ifdef VL_QWEN35_CUDA
    rc = vl_q35_cuda_backend.usable(host, index, c, &why);
    if (rc == VL_OK) {
        *out = (struct device){&vl_q35_cuda_backend, index};
        return VL_OK;
    }
#else
    (void)c;
    rc = vl_error_set(&why, VL_E_UNSUPPORTED, "this plugin was built without CUDA");
#endif
    if (!any)
        return vl_error_set(err, rc, "device %s: %s", text, why.text);
    if (!quiet)
        vl_q35_log(host, VL_LOG_INFO, "device", "device auto takes the CPU: %s", why.text);
    return VL_OK;
}

/* ---- what open and estimate share ---- */

/* The host's parameters, checked, with defaults resolved. */
static vl_status resolve(const vl_q35_config *c, const vl_q35_backend *b, const vl_model_params *in,
                         vl_model_params *out, vl_error *err)
{
    *out = *in;
    if (out->max_sequences < 1 || out->max_sequences > 4096)
        return vl_error_set(err, VL_E_INVALID, "max_sequences %u, want 1 to 4096",
                            out->max_sequences);
    if (out->context_tokens < 2)
        return vl_error_set(err, VL_E_INVALID, "context_tokens %llu, want at least 2",
                            (unsigned long long)out->context_tokens);
    if (out->context_tokens > (uint64_t)c->max_context)
        return vl_error_set(err, VL_E_INVALID,
                            "context_tokens %llu, the model's max_position_embeddings is %lld",
                            (unsigned long long)out->context_tokens, (long long)c->max_context);
    if (out->step_tokens < 1)
        return vl_error_set(err, VL_E_INVALID, "step_tokens 0, want at least 1");
    if (out->step_tokens > out->context_tokens * out->max_sequences)
        out->step_tokens = out->context_tokens * out->max_sequences;
    if (out->n_tokens == 0)
        out->n_tokens = (uint64_t)c->vocab;
    if (out->n_tokens > (uint64_t)c->vocab)
        return vl_error_set(err, VL_E_INVALID,
                            "config.json: vocab_size %lld, but the tokenizer has %llu ids",
                            (long long)c->vocab, (unsigned long long)out->n_tokens);
    if (out->kv_tokens == 0)
        out->kv_tokens = b->default_kv_tokens(c, out);
    if (out->kv_tokens < out->context_tokens)
        return vl_error_set(err, VL_E_INVALID, "kv_tokens %llu is below context_tokens %llu",
                            (unsigned long long)out->kv_tokens,
                            (unsigned long long)out->context_tokens);
    if (out->kv_tokens > (uint64_t)1 << 36)
        return vl_error_set(err, VL_E_INVALID, "kv_tokens %llu, want at most 2^36",
                            (unsigned long long)out->kv_tokens);
    return VL_OK;
}

/* Everything up to a backend: config, device, order of heads, tensors, parameters. */
static vl_status prepare(vl_instance *self, const vl_loader_api *loader, vl_checkpoint *cp,
                         const vl_model_params *params, bool quiet, struct vl_q35_owned *owned,
                         struct device *device, vl_model_params *resolved, vl_error *err)
{
    vl_status rc = vl_q35_config_parse(loader->text(cp, VL_TEXT_CONFIG), &owned->config, err);
    if (rc == VL_OK)
        rc = choose(self->host, &owned->config, params->device, quiet, device, err);
    if (rc == VL_OK)
        rc = resolve(&owned->config, device->backend, params, resolved, err);
    if (rc == VL_OK)
        rc = loader->prefer(cp, device->backend->takes_tiled ? VL_HEADS_FILE : VL_HEADS_GROUPED,
                            err);
    if (rc == VL_OK)
        rc = vl_q35_weights_find(&owned->config, loader, cp, &owned->weights, err);
    if (rc == VL_OK)
        owned->weights.tiled = loader->heads(cp) == VL_ORDER_TILED;
    return rc;
}

/* ---- vl.model/1 ---- */

static vl_q35_model *impl(vl_model *m)
{
    return (vl_q35_model *)(void *)m;
}
static const vl_q35_model *impl_const(const vl_model *m)
{
    return (const vl_q35_model *)(const void *)m;
}

static vl_status model_accepts(vl_instance *self, vl_bytes config_json, vl_error *err)
{
    (void)self;
    vl_q35_config c;
    return vl_q35_config_parse(config_json, &c, err);
}

static vl_status finish_estimate(const struct vl_q35_owned *o, const vl_model_params *p,
                                 vl_model_estimate *out, vl_error *err)
{
    out->n_parameters = vl_q35_n_parameters(&o->config);
    out->kv_tokens = p->kv_tokens;
    out->max_context_tokens = (uint64_t)o->config.max_context;
    uint64_t states, pool;
    if (!vl_mul(p->max_sequences, out->state_bytes, &states) ||
        !vl_mul(p->kv_tokens, out->kv_token_bytes, &pool) ||
        !vl_add(states, pool, &out->total_bytes) ||
        !vl_add(out->total_bytes, out->weight_bytes, &out->total_bytes) ||
        !vl_add(out->total_bytes, out->workspace_bytes, &out->total_bytes))
        return vl_error_set(
            err, VL_E_RANGE,
            "%u sequences and %llu tokens in the pool need more memory than can be addressed",
            p->max_sequences, (unsigned long long)p->kv_tokens);
    return VL_OK;
}

static vl_status model_estimate(vl_instance *self, const vl_loader_api *loader, vl_checkpoint *c,
                                const vl_model_params *params, vl_model_estimate *out,
                                vl_error *err)
{
    struct vl_q35_owned owned;
    memset(&owned, 0, sizeof(owned));
    struct device device = {0};
    vl_model_params resolved;
    vl_model_estimate e = {0};
    vl_status rc = prepare(self, loader, c, params, true, &owned, &device, &resolved, err);
    if (rc == VL_OK) {
        const vl_q35_open open = {.host = self->host,
                                  .config = &owned.config,
                                  .weights = &owned.weights,
                                  .loader = loader,
                                  .checkpoint = c,
                                  .params = &resolved,
                                  .device_index = device.index};
        rc = device.backend->estimate(&open, &e, err);
    }
    if (rc == VL_OK)
        rc = finish_estimate(&owned, &resolved, &e, err);
    if (rc == VL_OK) {
        /* No more than the caller has room for. */
        const size_t n = out->struct_size < sizeof(e) ? out->struct_size : sizeof(e);
        e.struct_size = out->struct_size;
        memcpy(out, &e, n);
    }
    vl_q35_weights_fini(&owned.weights);
    return rc;
}

static vl_status model_open(vl_instance *self, const vl_loader_api *loader, vl_checkpoint *c,
                            const vl_model_params *params, vl_model **out, vl_error *err)
{
    struct vl_q35_owned *owned = calloc(1, sizeof(*owned));
    if (owned == NULL)
        return vl_error_set(err, VL_E_NOMEM, "no memory for a model");
    struct device device = {0};
    vl_model_params resolved;
    vl_q35_model *m = NULL;
    vl_status rc = prepare(self, loader, c, params, false, owned, &device, &resolved, err);
    if (rc == VL_OK) {
        const vl_q35_open open = {.host = self->host,
                                  .config = &owned->config,
                                  .weights = &owned->weights,
                                  .loader = loader,
                                  .checkpoint = c,
                                  .params = &resolved,
                                  .device_index = device.index};
        rc = device.backend->open(&open, &m, err);
    }
    if (rc != VL_OK) {
        vl_q35_weights_fini(&owned->weights);
        free(owned);
        return rc;
    }
    m->owned = owned;
    *out = (vl_model *)(void *)m;
    return VL_OK;
}

static void model_close(vl_model *model)
{
    if (model == NULL)
        return;
    struct vl_q35_owned *owned = impl(model)->owned;
    impl(model)->backend->close(impl(model));
    vl_q35_weights_fini(&owned->weights);
    free(owned);
}

static void model_info(const vl_model *m, vl_model_info *out)
{
    vl_model_info i = {.struct_size = out->struct_size, .architecture = "qwen3_5_text"};
    impl_const(m)->backend->info(impl_const(m), &i);
    memcpy(out, &i, out->struct_size < sizeof(i) ? out->struct_size : sizeof(i));
}

static vl_status model_health(const vl_model *m, vl_error *err)
{
    return impl_const(m)->backend->health(impl_const(m), err);
}

static vl_status model_sequence_begin(vl_model *m, const vl_sequence_params *p, vl_sequence **out,
                                      vl_error *err)
{
    return impl(m)->backend->sequence_begin(impl(m), p, out, err);
}

static void model_sequence_end(vl_model *m, vl_sequence *s)
{
    if (s != NULL)
        impl(m)->backend->sequence_end(impl(m), s);
}

static vl_status model_submit(vl_model *m, const vl_row *rows, uint64_t n_rows, uint64_t *ticket,
                              vl_error *err)
{
    return impl(m)->backend->submit(impl(m), rows, n_rows, ticket, err);
}

static vl_status model_collect(vl_model *m, uint64_t ticket, int64_t timeout_ms,
                               vl_row_result *results, uint64_t cap, vl_error *err)
{
    return impl(m)->backend->collect(impl(m), ticket, timeout_ms, results, cap, err);
}

static void model_pool(const vl_model *m, uint64_t *kv_tokens, uint64_t *kv_tokens_free)
{
    impl_const(m)->backend->pool(impl_const(m), kv_tokens, kv_tokens_free);
}

/* ---- vl.snapshot/1 ---- */

static vl_status snapshot_take(vl_model *m, vl_sequence *s, vl_snapshot **out, uint64_t *position,
                               vl_error *err)
{
    return impl(m)->backend->take(impl(m), s, out, position, err);
}

static uint64_t snapshot_take_bytes(const vl_model *m, const vl_sequence *s)
{
    return impl_const(m)->backend->take_bytes(impl_const(m), s);
}

static void snapshot_info(const vl_model *m, const vl_snapshot *s, vl_snapshot_info *out)
{
    vl_snapshot_info i = {.struct_size = out->struct_size};
    impl_const(m)->backend->snapshot_info(impl_const(m), s, &i);
    memcpy(out, &i, out->struct_size < sizeof(i) ? out->struct_size : sizeof(i));
}

static vl_status snapshot_move(vl_model *m, vl_snapshot *s, int32_t tier, uint64_t *ticket,
                               vl_error *err)
{
    return impl(m)->backend->move(impl(m), s, tier, ticket, err);
}

static vl_status snapshot_moved(vl_model *m, uint64_t ticket, int64_t timeout_ms, vl_error *err)
{
    return impl(m)->backend->moved(impl(m), ticket, timeout_ms, err);
}

static uint64_t snapshot_drop(vl_model *m, vl_snapshot *s)
{
    return s == NULL ? 0 : impl(m)->backend->drop(impl(m), s);
}

static void snapshot_tier(const vl_model *m, int32_t tier, vl_tier_info *out)
{
    vl_tier_info i = {.struct_size = out->struct_size};
    impl_const(m)->backend->tier(impl_const(m), tier, &i);
    memcpy(out, &i, out->struct_size < sizeof(i) ? out->struct_size : sizeof(i));
}

static const vl_snapshot_api snapshot_api = {
    .struct_size = sizeof(snapshot_api),
    .abi_version = VL_ABI_VERSION,
    .take = snapshot_take,
    .take_bytes = snapshot_take_bytes,
    .info = snapshot_info,
    .move = snapshot_move,
    .moved = snapshot_moved,
    .drop = snapshot_drop,
    .tier = snapshot_tier,
};

static const void *model_get_ext(const vl_model *m, const char *id)
{
    return strcmp(id, VL_SNAPSHOT_ID) == 0 && impl_const(m)->backend->take != NULL ? &snapshot_api
                                                                                   : NULL;
}

static const vl_model_api model_api = {
    .struct_size = sizeof(model_api),
    .abi_version = VL_ABI_VERSION,
    .accepts = model_accepts,
    .estimate = model_estimate,
    .open = model_open,
    .close = model_close,
    .info = model_info,
    .health = model_health,
    .sequence_begin = model_sequence_begin,
    .sequence_end = model_sequence_end,
    .submit = model_submit,
    .collect = model_collect,
    .pool = model_pool,
    .get_ext = model_get_ext,
};

/* ---- the plugin ---- */

static vl_status plugin_init(const vl_host *host, vl_instance **self, vl_error *err)
{
    vl_instance *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return vl_error_set(err, VL_E_NOMEM, "qwen35: no memory");
    p->host = host;
    *self = p;
    return VL_OK;
}

static void plugin_fini(vl_instance *self)
{
    free(self);
}

static const void *plugin_get_ext(const char *id)
{
    if (strcmp(id, VL_MODEL_ID) == 0)
        return &model_api;
#ifdef VL_QWEN35_CHAT
    if (strcmp(id, VL_CHAT_ID) == 0)
        return &vl_qwen35_chat_api;
#endif
    return NULL;
}

static const char *const interfaces[] = {
    VL_MODEL_ID,
#ifdef VL_QWEN35_CHAT
    VL_CHAT_ID,
#endif
    NULL,
};

static const vl_plugin plugin = {
    .struct_size = sizeof(plugin),
    .abi_version = VL_ABI_VERSION,
    .id = "qwen35",
    .version = VALLMO_VERSION,
    .description = "Qwen3.5, 3.6 and 3.8 dense text models",
    .interfaces = interfaces,
    .options = options,
    .n_options = VL_Q35_N_OPTIONS,
    .init = plugin_init,
    .fini = plugin_fini,
    .get_ext = plugin_get_ext,
};

const vl_plugin *vl_plugin_entry(void)
{
    return &plugin;
}
