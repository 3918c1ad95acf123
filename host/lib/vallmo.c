/* host/lib/vallmo.c: the embedding API over registry and runtime. Owns nothing of theirs; checks
 * what a caller passes in. */
#include "vallmo/vallmo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "host/lib/log.h"
#include "host/lib/options.h"
#include "host/lib/runtime.h"

enum { DIRS_MAX = 4, PLUGINS_USED_MAX = 16 };

struct vl_library {
    vl_registry *registry;
};

/* The option values of a plugin that took part, kept while the model opens. */
struct used {
    const vl_plugin *plugin;
    struct vl_option_set set;
};

struct vl_lm {
    vl_runtime *rt;
    /* while opening */
    const vl_lm_params *params;
    struct used used[PLUGINS_USED_MAX];
    size_t n_used;
    bool *known; /* [n_settings] taken by some plugin */
    vl_error options_error;
};

VL_EXPORT const char *vl_version(void)
{
    return VALLMO_VERSION;
}

/* ---- plugins ---- */

static vl_status scan(vl_library *lib, const vl_library_params *p, vl_error *err)
{
    const char *dirs[DIRS_MAX];
    const char *const *list = dirs;
    size_t n;
    vl_status rc = VL_OK;

    if (p != NULL && p->plugin_dirs != NULL) {
        list = p->plugin_dirs;
        n = (size_t)p->n_plugin_dirs;
    } else {
        n = vl_registry_default_dirs(dirs, DIRS_MAX);
    }
    if (n == 0)
        return vl_error_set(err, VL_E_NOT_FOUND, "no folder with plugins was found");
    for (size_t i = 0; i < n && rc == VL_OK; i++)
        rc = vl_registry_scan(lib->registry, list[i], err);
    return rc;
}

VL_EXPORT vl_status vl_library_open(const vl_library_params *params, vl_library **out,
                                    vl_error *err)
{
    vl_status rc = VL_OK;

    if (params != NULL && params->struct_size < sizeof *params)
        return vl_error_set(err, VL_E_ABI, "vl_library_params: %u bytes, want at least %zu",
                            params->struct_size, sizeof *params);
    vl_log_set_level(params != NULL && params->log_level >= 0 ? params->log_level : VL_LOG_WARN);
    if (params == NULL || params->log_level < 0)
        rc = vl_log_init(err);
    if (rc == VL_OK && params != NULL && params->cache_dir != NULL)
        rc = vl_host_set_cache_dir(params->cache_dir, err);
    if (rc != VL_OK)
        return rc;
    vl_library *lib = calloc(1, sizeof *lib);
    if (lib == NULL)
        return vl_error_set(err, VL_E_NOMEM, "library: out of memory");
    rc = vl_registry_create(&lib->registry, err);
    if (rc == VL_OK)
        rc = scan(lib, params, err);
    if (rc != VL_OK) {
        vl_library_close(lib);
        return rc;
    }
    *out = lib;
    return VL_OK;
}

VL_EXPORT void vl_library_close(vl_library *lib)
{
    if (lib == NULL)
        return;
    vl_registry_destroy(lib->registry);
    free(lib);
}

VL_EXPORT vl_status vl_library_plugin_get(const vl_library *lib, uint64_t index,
                                          vl_library_plugin *out)
{
    const vl_registry_entry *e = vl_registry_at(lib->registry, (size_t)index);
    vl_library_plugin info = {.struct_size = sizeof info};

    if (e == NULL)
        return VL_E_RANGE;
    if (out->struct_size < sizeof info)
        return VL_E_ABI;
    info.kind = e->kind;
    info.id = e->plugin != NULL ? e->plugin->id : "";
    info.version = e->plugin != NULL ? e->plugin->version : "";
    info.abi_version = e->plugin != NULL ? e->plugin->abi_version : 0;
    info.path = e->path;
    info.refusal = e->refusal;
    *out = info;
    return VL_OK;
}

/* ---- opening ---- */

static bool has_option(const vl_plugin *plugin, const char *setting)
{
    const char *eq = strchr(setting, '=');

    for (uint64_t i = 0; eq != NULL && i < plugin->n_options; i++) {
        const char *name = plugin->options[i].name;
        if (strlen(name) == (size_t)(eq - setting) &&
            strncmp(name, setting, (size_t)(eq - setting)) == 0)
            return true;
    }
    return false;
}

/* The settings that name options of this plugin, over its defaults. On failure defaults;
 * options_error says why and opening fails. */
static const vl_option_values *options_of(void *user, const vl_plugin *plugin)
{
    vl_lm *lm = user;
    const vl_lm_params *p = lm->params;

    for (size_t i = 0; i < lm->n_used; i++) {
        if (lm->used[i].plugin == plugin)
            return &lm->used[i].set.values;
    }
    if (lm->n_used == PLUGINS_USED_MAX)
        return NULL;
    const char **mine = calloc((size_t)p->n_settings + 1, sizeof *mine);
    if (mine == NULL)
        return NULL;
    size_t n = 0;
    for (uint64_t i = 0; i < p->n_settings; i++) {
        if (has_option(plugin, p->settings[i])) {
            mine[n++] = p->settings[i];
            lm->known[i] = true;
        }
    }
    struct used *u = &lm->used[lm->n_used];
    u->plugin = plugin;
    vl_status rc = vl_option_set_init(&u->set, plugin->options, (size_t)plugin->n_options, mine, n,
                                      &lm->options_error);
    free(mine);
    if (rc != VL_OK)
        return NULL;
    lm->n_used++;
    return &u->set.values;
}

/* Bridges the progress callback: a wrong setting cancels the opening before the weights are
 * touched. */
static int32_t on_progress(void *user, double fraction, const char *what)
{
    vl_lm *lm = user;

    if (lm->options_error.status != VL_OK)
        return 1;
    return lm->params->progress != NULL ? lm->params->progress(lm->params->user, fraction, what)
                                        : 0;
}

static vl_status check_settings(vl_lm *lm, vl_error *err)
{
    if (lm->options_error.status != VL_OK) {
        if (err != NULL)
            *err = lm->options_error;
        return lm->options_error.status;
    }
    for (uint64_t i = 0; i < lm->params->n_settings; i++) {
        if (!lm->known[i])
            return vl_error_set(err, VL_E_INVALID,
                                "setting \"%s\": no plugin in use has such an option",
                                lm->params->settings[i]);
    }
    return VL_OK;
}

static void opening_over(vl_lm *lm)
{
    for (size_t i = 0; i < lm->n_used; i++)
        vl_option_set_fini(&lm->used[i].set);
    lm->n_used = 0;
    free(lm->known);
    lm->known = NULL;
    lm->params = NULL;
}

VL_EXPORT vl_status vl_lm_open(vl_library *lib, const vl_lm_params *params, vl_lm **out,
                               vl_error *err)
{
    if (params->struct_size < sizeof *params)
        return vl_error_set(err, VL_E_ABI, "vl_lm_params: %u bytes, want at least %zu",
                            params->struct_size, sizeof *params);
    if (params->max_sequences > UINT32_MAX)
        return vl_error_set(err, VL_E_RANGE, "max_sequences: %llu is out of range",
                            (unsigned long long)params->max_sequences);
    vl_lm *lm = calloc(1, sizeof *lm);
    if (lm == NULL ||
        (lm->known = calloc((size_t)params->n_settings + 1, sizeof *lm->known)) == NULL) {
        free(lm);
        return vl_error_set(err, VL_E_NOMEM, "model: out of memory");
    }
    lm->params = params;
    struct vl_runtime_params rp = {
        .path = params->path,
        .device = params->device,
        .max_sequences = (uint32_t)params->max_sequences,
        .context_tokens = params->context_tokens,
        .kv_tokens = params->kv_tokens,
        .prefix_cache_bytes = params->prefix_cache_bytes,
        .no_chat = (params->flags & VL_LM_NO_CHAT) != 0,
        .tokenizer_only = (params->flags & VL_LM_TOKENIZER_ONLY) != 0,
        .options = options_of,
        .options_user = lm,
        .progress = on_progress,
        .progress_user = lm,
    };
    vl_error why = {0};
    vl_status rc = vl_runtime_open(lib->registry, &rp, &lm->rt, &why);
    vl_error settings = {0};
    vl_status settings_rc = check_settings(lm, &settings);
    if (settings_rc != VL_OK && (rc == VL_OK || lm->options_error.status != VL_OK)) {
        rc = settings_rc; /* what the caller can mend comes first */
        why = settings;
    }
    opening_over(lm);
    if (rc != VL_OK) {
        if (err != NULL)
            *err = why;
        vl_lm_close(lm);
        return rc;
    }
    *out = lm;
    return VL_OK;
}

VL_EXPORT void vl_lm_close(vl_lm *lm)
{
    if (lm == NULL)
        return;
    vl_runtime_close(lm->rt);
    free(lm);
}

VL_EXPORT void vl_lm_info_get(const vl_lm *lm, vl_lm_info *out)
{
    const vl_model_info *m = vl_runtime_model_info(lm->rt);
    const vl_tokenizer *t = NULL;
    const vl_chat *c = NULL;
    const vl_tokenizer_api *api = vl_runtime_tokenizer(lm->rt, &t);
    const vl_chat_api *chat = vl_runtime_chat(lm->rt, &c);
    vl_lm_info info = {
        .struct_size = sizeof info,
        .max_sequences = m != NULL ? m->max_sequences : 0,
        .architecture = m != NULL ? m->architecture : "",
        .device = m != NULL ? m->device : "",
        .chat_format = chat != NULL ? chat->format(c) : "",
        .context_tokens = m != NULL ? m->context_tokens : 0,
        .kv_tokens = m != NULL ? m->kv_tokens : 0,
        .n_tokens = api->n_tokens(t),
    };
    uint32_t size = out->struct_size < sizeof info ? out->struct_size : (uint32_t)sizeof info;

    memcpy(out, &info, size);
    if (size >= sizeof out->struct_size)
        out->struct_size = size;
}

/* ---- texts and ids ---- */

VL_EXPORT vl_status vl_lm_encode(vl_lm *lm, const char *text, uint64_t len, int32_t kind,
                                 int32_t *ids, uint64_t cap, uint64_t *n_ids, vl_error *err)
{
    const vl_tokenizer *t = NULL;
    const vl_tokenizer_api *api = vl_runtime_tokenizer(lm->rt, &t);
    vl_piece piece = {text, len, kind, 0};

    return api->encode(t, &piece, 1, NULL, NULL, 0, ids, cap, n_ids, err);
}

VL_EXPORT vl_status vl_lm_decode(vl_lm *lm, const int32_t *ids, uint64_t n_ids, char *text,
                                 uint64_t cap, uint64_t *len, vl_error *err)
{
    vl_buf b = VL_BUF_INIT;
    vl_status rc = vl_runtime_decode(lm->rt, ids, (size_t)n_ids, false, &b, err);

    if (rc == VL_OK) {
        *len = b.len;
        if (b.len + 1 > cap)
            rc = vl_error_set(err, VL_E_RANGE, "text: %zu bytes with NUL, room for %llu", b.len + 1,
                              (unsigned long long)cap);
        else if (b.len > 0)
            memcpy(text, b.ptr, b.len + 1);
        else
            text[0] = '\0';
    }
    vl_buf_fini(&b);
    return rc;
}

/* ---- generating ---- */

VL_EXPORT void vl_generate_init(vl_generate_params *params, uint32_t struct_size)
{
    vl_generate_params p = {
        .struct_size = struct_size,
        .seed = -1,
        .temperature = NAN,
        .top_p = NAN,
        .top_k = NAN,
        .min_p = NAN,
        .repetition_penalty = NAN,
        .frequency_penalty = NAN,
        .presence_penalty = NAN,
    };

    memset(params, 0, struct_size);
    memcpy(params, &p, struct_size < sizeof p ? struct_size : sizeof p);
}

static void take(struct vl_sampling_options *o, uint32_t bit, double *slot, double x)
{
    if (isnan(x))
        return;
    *slot = x;
    o->set |= bit;
}

static vl_status sampling_of(const vl_generate_params *g, struct vl_sampling_options *o,
                             vl_error *err)
{
    double k = g->top_k;

    take(o, VL_SET_TEMPERATURE, &o->temperature, g->temperature);
    take(o, VL_SET_TOP_P, &o->top_p, g->top_p);
    take(o, VL_SET_MIN_P, &o->min_p, g->min_p);
    take(o, VL_SET_REPETITION, &o->repetition_penalty, g->repetition_penalty);
    take(o, VL_SET_FREQUENCY, &o->frequency_penalty, g->frequency_penalty);
    take(o, VL_SET_PRESENCE, &o->presence_penalty, g->presence_penalty);
    if (!isnan(k)) {
        if (k != floor(k) || k < -1 || k > INT32_MAX)
            return vl_error_set(err, VL_E_INVALID, "top_k: %g is no whole number from -1", k);
        o->top_k = (int64_t)k;
        o->set |= VL_SET_TOP_K;
    }
    if (g->seed >= 0) {
        o->seed = g->seed;
        o->set |= VL_SET_SEED;
    }
    return VL_OK;
}

struct listening {
    vl_generate_fn fn;
    void *user;
    vl_request *request;
    vl_generate_result result;
    vl_status rc;
    vl_error err;
    bool stopped, over;
};

static void on_event(struct listening *l, const vl_event *ev)
{
    static const int32_t kinds[] = {VL_GENERATE_REASONING, VL_GENERATE_CONTENT, VL_GENERATE_CALL,
                                    VL_GENERATE_ARGUMENTS, VL_GENERATE_CALL_END};

    switch (ev->kind) {
    case VL_EVENT_TEXT:
        if (l->fn == NULL || l->stopped ||
            (ev->text_len == 0 && ev->text_kind != VL_TEXT_KIND_CALL_END))
            break;
        if (l->fn(l->user, kinds[ev->text_kind], ev->text, ev->text_len) != 0) {
            l->stopped = true;
            vl_request_cancel(l->request);
        }
        break;
    case VL_EVENT_CHOICE_END:
        l->result.finish = ev->finish;
        l->result.prefill_ms = ev->prefill_ms;
        l->result.decode_ms = ev->decode_ms;
        break;
    case VL_EVENT_FAILED:
        l->rc = ev->error.status;
        l->err = ev->error;
        l->over = true;
        break;
    case VL_EVENT_DONE:
        l->over = true;
        break;
    default:
        break;
    }
    if (l->over) {
        l->result.prompt_tokens = ev->usage.prompt_tokens;
        l->result.cached_tokens = ev->usage.cached_tokens;
        l->result.completion_tokens = ev->usage.completion_tokens;
        l->result.reasoning_tokens = ev->usage.reasoning_tokens;
    }
}

/* chat: owned by the caller, holds the JSON made of a message. */
static vl_status fill_request(const vl_generate_params *g, struct vl_request_params *p,
                              vl_piece *piece, vl_bytes *stops, vl_buf *chat, vl_error *err)
{
    vl_request_params_init(p);
    if (g->message != NULL && g->chat_json != NULL)
        return vl_error_set(err, VL_E_INVALID,
                            "prompt: both message and chat_json are given, want one");
    if (g->message != NULL) {
        vl_buf_puts(chat, "{\"messages\":[{\"role\":\"user\",\"content\":");
        vl_json_put_str(chat, g->message, strlen(g->message));
        vl_buf_puts(chat, "}]}");
        if (chat->failed)
            return vl_error_set(err, VL_E_NOMEM, "generate: out of memory");
        p->chat_json = (vl_bytes){chat->ptr, chat->len};
    }
    if (g->chat_json != NULL)
        p->chat_json = (vl_bytes){g->chat_json, strlen(g->chat_json)};
    if (g->text != NULL) {
        *piece = (vl_piece){g->text, strlen(g->text), VL_PIECE_TEXT, 0};
        p->pieces = piece;
        p->n_pieces = 1;
    }
    p->ids = g->ids;
    p->n_ids = (size_t)g->n_ids;
    p->max_tokens = g->max_tokens;
    p->flags = VL_REQUEST_CLAMP_MAX;
    for (uint64_t i = 0; i < g->n_stops; i++)
        stops[i] = (vl_bytes){g->stops[i], strlen(g->stops[i])};
    p->stops = stops;
    p->n_stops = (size_t)g->n_stops;
    p->name = "generate";
    return sampling_of(g, &p->sampling, err);
}

VL_EXPORT vl_status vl_lm_generate(vl_lm *lm, const vl_generate_params *params, vl_generate_fn fn,
                                   void *user, vl_generate_result *result, vl_error *err)
{
    vl_engine *engine = vl_runtime_engine(lm->rt);
    struct listening l = {.fn = fn, .user = user};
    struct vl_request_params p;
    vl_event_queue *q = NULL;
    vl_bytes *stops = NULL;
    vl_buf chat = VL_BUF_INIT;
    vl_piece piece;

    if (params->struct_size < sizeof *params)
        return vl_error_set(err, VL_E_ABI, "vl_generate_params: %u bytes, want at least %zu",
                            params->struct_size, sizeof *params);
    if (engine == NULL)
        return vl_error_set(err, VL_E_STATE, "the model was opened for its tokenizer alone");
    stops = calloc((size_t)params->n_stops + 1, sizeof *stops);
    vl_status rc = stops == NULL ? vl_error_set(err, VL_E_NOMEM, "generate: out of memory")
                                 : fill_request(params, &p, &piece, stops, &chat, err);
    if (rc == VL_OK)
        rc = vl_event_queue_create(&q, err);
    if (rc == VL_OK)
        rc = vl_request_submit(engine, &p, q, NULL, &l.request, NULL, err);
    while (rc == VL_OK && !l.over) {
        for (vl_event *ev = vl_event_queue_wait(q, -1), *next; ev != NULL; ev = next) {
            next = ev->next;
            on_event(&l, ev);
            vl_event_free(ev);
        }
    }
    if (rc == VL_OK && (l.rc != VL_OK || l.stopped)) {
        rc = l.rc != VL_OK ? l.rc : VL_E_CANCELLED;
        if (l.stopped)
            vl_error_set(&l.err, rc, "the caller stopped it");
        if (err != NULL)
            *err = l.err;
    }
    if (l.over && result != NULL) {
        uint32_t size =
            result->struct_size < sizeof l.result ? result->struct_size : (uint32_t)sizeof l.result;
        l.result.struct_size = size;
        memcpy(result, &l.result, size);
    }
    vl_request_release(l.request);
    vl_event_queue_destroy(q);
    vl_buf_fini(&chat);
    free(stops);
    return rc;
}
