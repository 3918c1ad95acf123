/* host/lib/runtime_open.c: opening a model: which loader, tokenizer and model plugin, in what
 * order, with what sizes. Blocking; on whatever thread it is called. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "host/lib/log.h"
#include "host/lib/runtime_private.h"

enum { CONTEXT_DEFAULT = 32768, SEQUENCES_DEFAULT = 8, STEP_DEFAULT = 2048 };

/* The option values for a plugin: the caller's, else defaults that *set owns. */
static vl_status options_of(const struct vl_runtime_params *p, const vl_plugin *plugin,
                            struct vl_option_set *set, const vl_option_values **out, vl_error *err)
{
    memset(set, 0, sizeof *set);
    *out = p->options != NULL ? p->options(p->options_user, plugin) : NULL;
    if (*out != NULL)
        return VL_OK;
    vl_status rc =
        vl_option_set_init(set, plugin->options, (size_t)plugin->n_options, NULL, 0, err);
    if (rc != VL_OK)
        return vl_error_prefix(err, "plugin %s", plugin->id), rc;
    *out = &set->values;
    return VL_OK;
}

/* The loader with the highest score. The first of equals wins. */
static vl_status pick_loader(vl_registry *reg, struct vl_opened *o, const char *path, vl_error *err)
{
    int32_t best = 0;

    if (!vl_path_exists(path))
        return vl_error_set(err, VL_E_NOT_FOUND, "%s: no such file or folder", path);
    size_t n_loaders = 0;
    for (size_t i = 0; i < vl_registry_count(reg); i++) {
        const vl_registry_entry *e = vl_registry_at(reg, i);
        vl_instance *self = NULL;
        int32_t score = 0;
        if (e->loader == NULL || vl_registry_start(reg, e, &self, NULL) != VL_OK)
            continue;
        n_loaders++;
        vl_status rc = e->loader->probe(self, path, &score, err);
        if (rc != VL_OK)
            return rc;
        if (score > best) {
            best = score;
            o->loader_entry = e;
            o->loader_self = self;
        }
    }
    if (o->loader_entry != NULL) {
        o->loader = o->loader_entry->loader;
        return VL_OK;
    }
    if (n_loaders == 0)
        return vl_error_set(err, VL_E_NOT_FOUND,
                            "%s: no loader plugin was found (see --list-plugins)", path);
    return vl_error_set(
        err, VL_E_UNSUPPORTED,
        "%s: no loader plugin knows this format; want a folder with config.json and "
        ".safetensors files, one .safetensors file, or a .gguf file",
        path);
}

static vl_status open_checkpoint(vl_registry *reg, const struct vl_runtime_params *p,
                                 struct vl_opened *o, vl_error *err)
{
    struct vl_option_set set = {0};
    const vl_option_values *values;
    vl_status rc = pick_loader(reg, o, p->path, err);

    if (rc == VL_OK)
        rc = options_of(p, o->loader_entry->plugin, &set, &values, err);
    if (rc == VL_OK)
        rc = o->loader->open(o->loader_self, p->path, values, &o->checkpoint, err);
    vl_option_set_fini(&set);
    return rc;
}

static vl_status open_tokenizer(vl_registry *reg, const struct vl_runtime_params *p,
                                struct vl_opened *o, vl_error *err)
{
    struct vl_option_set set = {0};
    const vl_option_values *values;
    int32_t best = 0;
    vl_status rc = VL_OK;

    for (size_t i = 0; i < vl_registry_count(reg); i++) {
        const vl_registry_entry *e = vl_registry_at(reg, i);
        vl_instance *self = NULL;
        int32_t score = 0;
        if (e->tokenizer == NULL || vl_registry_start(reg, e, &self, NULL) != VL_OK)
            continue;
        rc = e->tokenizer->probe(self, o->loader, o->checkpoint, &score, err);
        if (rc != VL_OK)
            return rc;
        if (score > best) {
            best = score;
            o->tokenizer_entry = e;
            o->tokenizer_self = self;
        }
    }
    if (o->tokenizer_entry == NULL)
        return vl_error_set(err, VL_E_UNSUPPORTED, "%s: no tokenizer plugin knows its vocabulary",
                            p->path);
    o->tokenizer_api = o->tokenizer_entry->tokenizer;
    rc = options_of(p, o->tokenizer_entry->plugin, &set, &values, err);
    if (rc == VL_OK)
        rc = o->tokenizer_api->create(o->tokenizer_self, o->loader, o->checkpoint, values,
                                      &o->tokenizer, err);
    if (rc != VL_OK)
        vl_error_prefix(err, "%s", p->path);
    vl_option_set_fini(&set);
    return rc;
}

/* The plugin that accepts the config; when none does, what the last one said. */
static vl_status pick_model(vl_registry *reg, const struct vl_runtime_params *p,
                            struct vl_opened *o, vl_error *err)
{
    vl_bytes config = o->loader->text(o->checkpoint, VL_TEXT_CONFIG);
    vl_error why = {0};
    size_t n = 0;

    for (size_t i = 0; i < vl_registry_count(reg); i++) {
        const vl_registry_entry *e = vl_registry_at(reg, i);
        vl_instance *self = NULL;
        if (e->model == NULL || vl_registry_start(reg, e, &self, NULL) != VL_OK)
            continue;
        n++;
        vl_status rc = e->model->accepts(self, config, &why);
        if (rc == VL_OK) {
            o->model_entry = e;
            o->model_self = self;
            o->model_api = e->model;
            return VL_OK;
        }
        if (rc != VL_E_UNSUPPORTED) { /* its own, and wrong */
            vl_error_prefix(&why, "%s", p->path);
            if (err != NULL)
                *err = why;
            return rc;
        }
    }
    if (n == 0)
        return vl_error_set(err, VL_E_NOT_FOUND,
                            "%s: no model plugin was found (see --list-plugins)", p->path);
    return vl_error_set(err, VL_E_UNSUPPORTED, "%s: no model plugin runs this model: %s", p->path,
                        why.text);
}

static vl_status open_chat(const struct vl_runtime_params *p, struct vl_opened *o, vl_error *err)
{
    vl_chat_params cp = {
        .struct_size = sizeof cp,
        .flags = p->chat_strict ? VL_CHAT_STRICT : 0,
        .config_json = o->loader->text(o->checkpoint, VL_TEXT_CONFIG),
        .template_text = o->loader->text(o->checkpoint, VL_TEXT_CHAT_TEMPLATE),
        .format = p->chat_format != NULL ? p->chat_format : "auto",
        .default_kwargs = p->chat_kwargs,
        .tokenizer_api = o->tokenizer_api,
        .tokenizer = o->tokenizer,
    };

    if (p->no_chat || o->model_entry->chat == NULL)
        return VL_OK;
    vl_status rc = o->model_entry->chat->create(o->model_self, &cp, &o->chat, err);
    if (rc != VL_OK)
        return vl_error_prefix(err, "%s", p->path), rc;
    o->chat_api = o->model_entry->chat;
    return VL_OK;
}

/* "max_position_embeddings", nested or not; 0: the config does not say. */
static uint64_t trained_context(vl_bytes config)
{
    vl_json_doc doc = {0};
    uint64_t n = 0;

    if (vl_json_parse(&doc, config.ptr, config.len, 64, 0, NULL) == VL_OK) {
        vl_json root = vl_json_root(&doc);
        if (!vl_json_u64(vl_json_get(vl_json_get(root, "text_config"), "max_position_embeddings"),
                         &n) &&
            !vl_json_u64(vl_json_get(root, "max_position_embeddings"), &n))
            n = 0;
    }
    vl_json_doc_fini(&doc);
    return n;
}

static int32_t on_progress(void *user, double fraction, const char *what)
{
    struct vl_opened *o = user;

    return o->progress != NULL ? o->progress(o->progress_user, 0.1 + 0.8 * fraction, what) : 0;
}

static bool tell(struct vl_opened *o, double fraction, const char *what)
{
    return o->progress == NULL || o->progress(o->progress_user, fraction, what) == 0;
}

static void set_sizes(const struct vl_runtime_params *p, struct vl_opened *o, vl_model_params *mp)
{
    uint64_t context = p->context_tokens;

    if (context == 0) {
        context = trained_context(o->loader->text(o->checkpoint, VL_TEXT_CONFIG));
        if (context == 0 || context > CONTEXT_DEFAULT)
            context = CONTEXT_DEFAULT;
    }
    *mp = (vl_model_params){
        .struct_size = sizeof *mp,
        .max_sequences = p->max_sequences > 0 ? p->max_sequences : SEQUENCES_DEFAULT,
        .context_tokens = context,
        .kv_tokens = p->kv_tokens,
        .step_tokens = p->step_tokens > 0 ? p->step_tokens : STEP_DEFAULT,
        .n_tokens = o->tokenizer_api->n_tokens(o->tokenizer),
        .device = p->device != NULL ? p->device : "auto",
        .progress = on_progress,
        .user = o,
    };
}

static vl_status open_model(const struct vl_runtime_params *p, struct vl_opened *o, bool dry,
                            vl_error *err)
{
    struct vl_option_set set = {0};
    vl_model_params mp;
    const vl_option_values *values;
    vl_status rc = options_of(p, o->model_entry->plugin, &set, &values, err);

    if (rc != VL_OK)
        return rc;
    set_sizes(p, o, &mp);
    mp.options = values;
    o->context_tokens = mp.context_tokens;
    o->max_sequences = mp.max_sequences;
    o->estimate = (vl_model_estimate){.struct_size = sizeof o->estimate};
    rc = o->model_api->estimate(o->model_self, o->loader, o->checkpoint, &mp, &o->estimate, err);
    if (rc == VL_OK && p->context_tokens > o->estimate.max_context_tokens &&
        o->estimate.max_context_tokens > 0)
        vl_log(VL_LOG_WARN, "runtime",
               "context_tokens=%llu is past what the model was trained for: %llu",
               (unsigned long long)p->context_tokens,
               (unsigned long long)o->estimate.max_context_tokens);
    if (rc == VL_OK && !dry) {
        vl_log(VL_LOG_INFO, "runtime",
               "opening model=%s plugin=%s parameters=%llu weight_bytes=%llu mapped_bytes=%llu "
               "total_bytes=%llu context_tokens=%llu kv_tokens=%llu",
               p->path, o->model_entry->plugin->id, (unsigned long long)o->estimate.n_parameters,
               (unsigned long long)o->estimate.weight_bytes,
               (unsigned long long)o->estimate.mapped_bytes,
               (unsigned long long)o->estimate.total_bytes, (unsigned long long)mp.context_tokens,
               (unsigned long long)o->estimate.kv_tokens);
        rc = o->model_api->open(o->model_self, o->loader, o->checkpoint, &mp, &o->model, err);
    }
    vl_option_set_fini(&set);
    return rc;
}

vl_status vl_opened_open(vl_registry *reg, const struct vl_runtime_params *p, struct vl_opened *o,
                         bool dry, vl_error *err)
{
    vl_status rc = tell(o, 0, "checkpoint") ? open_checkpoint(reg, p, o, err) : VL_E_CANCELLED;

    if (rc == VL_OK)
        rc = tell(o, 0.02, "tokenizer") ? open_tokenizer(reg, p, o, err) : VL_E_CANCELLED;
    if (rc == VL_OK) {
        rc = vl_sampling_from_config(o->loader->text(o->checkpoint, VL_TEXT_GENERATION_CONFIG),
                                     &o->generation, err);
        if (rc != VL_OK)
            vl_error_prefix(err, "%s", p->path);
    }
    if (rc == VL_OK && p->tokenizer_only)
        return VL_OK;
    if (rc == VL_OK)
        rc = pick_model(reg, p, o, err);
    if (rc == VL_OK)
        rc = open_chat(p, o, err);
    if (rc == VL_OK)
        rc = tell(o, 0.1, "weights") ? open_model(p, o, dry, err) : VL_E_CANCELLED;
    if (rc == VL_E_CANCELLED)
        vl_error_set(err, rc, "%s: opening was cancelled", p->path);
    return rc;
}

void vl_opened_close(struct vl_opened *o)
{
    if (o->chat != NULL)
        o->chat_api->destroy(o->chat);
    if (o->model != NULL)
        o->model_api->close(o->model);
    if (o->tokenizer != NULL)
        o->tokenizer_api->destroy(o->tokenizer);
    if (o->checkpoint != NULL)
        o->loader->close(o->checkpoint);
    memset(o, 0, sizeof *o);
}

vl_status vl_runtime_check(vl_registry *reg, const struct vl_runtime_params *p,
                           struct vl_runtime_plan *plan, vl_error *err)
{
    struct vl_opened o = {0};
    vl_status rc = vl_opened_open(reg, p, &o, true, err);

    if (rc == VL_OK) {
        *plan = (struct vl_runtime_plan){
            .loader = o.loader_entry,
            .tokenizer = o.tokenizer_entry,
            .model = o.model_entry,
            .context_tokens = o.context_tokens,
            .max_sequences = o.max_sequences,
            .estimate = o.estimate,
        };
        snprintf(plan->format, sizeof plan->format, "%s",
                 o.chat != NULL ? o.chat_api->format(o.chat) : "");
    }
    vl_opened_close(&o);
    return rc;
}
