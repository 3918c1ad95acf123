/* tests/unit/qwen35_util.c: see qwen35_util.h. */
#include "qwen35_util.h"

#include <dirent.h>
#include <math.h>

#include "plugins/common/cpu/cpu.h"

static const char *const dtype_names[] = {"",   "F32", "F16", "BF16", "F64",
                                          "I8", "U8",  "I16", "U16",  "I32"};

static int32_t dtype_of(vl_json v)
{
    for (size_t i = 1; i < sizeof(dtype_names) / sizeof(dtype_names[0]); i++) {
        if (vl_json_str_eq(v, dtype_names[i]))
            return (int32_t)i;
    }
    fail_msg("unknown dtype");
    return 0;
}

static void add_file(vl_checkpoint *c, const char *path)
{
    vl_error err = {0};
    vl_map *map = &c->maps[c->n_maps];
    if (vl_map_open(path, map, &err) != VL_OK)
        fail_msg("%s", err.text);
    c->paths[c->n_maps++] = strdup(path);
    uint64_t n;
    memcpy(&n, map->ptr, sizeof(n));
    vl_json_doc doc = {0};
    if (vl_json_parse(&doc, (const char *)map->ptr + 8, (size_t)n, 16, 0, &err) != VL_OK)
        fail_msg("%s: %s", path, err.text);
    for (vl_json_iter it = vl_json_each(vl_json_root(&doc)); vl_json_next(&it);) {
        char name[256];
        assert_true(vl_json_str_copy(it.key, name, sizeof(name)));
        if (strcmp(name, "__metadata__") == 0)
            continue;
        assert_true(vl_grow(&c->tensors, &c->cap_tensors, c->n_tensors + 1, sizeof(*c->tensors)));
        vl_tensor *t = &c->tensors[c->n_tensors++];
        *t = (vl_tensor){.struct_size = sizeof(*t),
                         .dtype = dtype_of(vl_json_get(it.value, "dtype")),
                         .name = strdup(name),
                         .file = c->paths[c->n_maps - 1],
                         .flags = VL_TENSOR_IN_PLACE,
                         .shape = {1, 1, 1, 1}};
        t->source_name = t->name;
        vl_json shape = vl_json_get(it.value, "shape");
        t->n_dims = (int32_t)vl_json_count(shape);
        for (int i = 0; i < t->n_dims; i++)
            assert_true(vl_json_i64(vl_json_at(shape, (size_t)i), &t->shape[i]));
        uint64_t begin = 0, end = 0;
        assert_true(vl_json_u64(vl_json_at(vl_json_get(it.value, "data_offsets"), 0), &begin));
        assert_true(vl_json_u64(vl_json_at(vl_json_get(it.value, "data_offsets"), 1), &end));
        t->offset = 8 + n + begin;
        t->n_bytes = end - begin;
    }
    vl_json_doc_fini(&doc);
}

static int wanted(const struct dirent *d)
{
    const size_t n = strlen(d->d_name);
    return n > 12 && strcmp(d->d_name + n - 12, ".safetensors") == 0;
}

vl_checkpoint *q35_checkpoint_open(const char *path)
{
    vl_checkpoint *c = calloc(1, sizeof(*c));
    assert_non_null(c);
    if (!vl_path_is_dir(path)) {
        add_file(c, path);
        return c;
    }
    char file[1024];
    vl_error err = {0};
    vl_buf text = VL_BUF_INIT;
    assert_int_equal(vl_path_join(file, sizeof(file), path, "config.json", &err), VL_OK);
    if (vl_file_read(file, 1 << 20, &text, &err) != VL_OK)
        fail_msg("%s", err.text);
    c->config = vl_buf_take(&text, &c->config_len);
    struct dirent **names = NULL;
    const int n = scandir(path, &names, wanted, alphasort);
    assert_true(n > 0 && n <= 8);
    for (int i = 0; i < n; i++) {
        assert_int_equal(vl_path_join(file, sizeof(file), path, names[i]->d_name, &err), VL_OK);
        add_file(c, file);
        free(names[i]);
    }
    free(names);
    return c;
}

void q35_checkpoint_close(vl_checkpoint *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->n_tensors; i++)
        free((char *)(uintptr_t)c->tensors[i].name);
    for (size_t i = 0; i < c->n_maps; i++) {
        vl_map_close(&c->maps[i]);
        free(c->paths[i]);
    }
    free(c->tensors);
    free(c->config);
    free(c);
}

/* ---- the loader's table ---- */

static vl_bytes text_of(const vl_checkpoint *c, int32_t which)
{
    return which == VL_TEXT_CONFIG ? (vl_bytes){c->config, c->config_len} : (vl_bytes){NULL, 0};
}
static uint64_t n_tensors(const vl_checkpoint *c)
{
    return c->n_tensors;
}
static const vl_tensor *tensor(const vl_checkpoint *c, uint64_t index)
{
    return index < c->n_tensors ? &c->tensors[index] : NULL;
}
static int64_t find(const vl_checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->n_tensors; i++) {
        if (strcmp(c->tensors[i].name, name) == 0)
            return (int64_t)i;
    }
    return -1;
}
static const void *data(vl_checkpoint *c, uint64_t index, vl_error *err)
{
    (void)err;
    const vl_tensor *t = &c->tensors[index];
    for (size_t i = 0; i < c->n_maps; i++) {
        if (t->file == c->paths[i])
            return c->maps[i].ptr + t->offset;
    }
    return NULL;
}
static vl_status prefer(vl_checkpoint *c, int32_t heads, vl_error *err)
{
    (void)c;
    (void)heads;
    (void)err;
    return VL_OK;
}
static int32_t heads(const vl_checkpoint *c)
{
    return c->heads;
}

const vl_loader_api q35_loader = {.struct_size = sizeof(q35_loader),
                                  .abi_version = VL_ABI_VERSION,
                                  .text = text_of,
                                  .n_tensors = n_tensors,
                                  .tensor = tensor,
                                  .find = find,
                                  .data = data,
                                  .prefer = prefer,
                                  .heads = heads};

vl_tensor *q35_tensor(vl_checkpoint *c, const char *name)
{
    const int64_t i = find(c, name);
    if (i < 0)
        fail_msg("no tensor %s", name);
    return &c->tensors[i];
}

const float *q35_floats(vl_checkpoint *c, const char *name, size_t *n)
{
    vl_tensor *t = q35_tensor(c, name);
    assert_int_equal(t->dtype, VL_DTYPE_F32);
    if (n != NULL)
        *n = (size_t)(t->n_bytes / 4);
    return data(c, (uint64_t)(t - c->tensors), NULL);
}

const int32_t *q35_ints(vl_checkpoint *c, const char *name, size_t *n)
{
    vl_tensor *t = q35_tensor(c, name);
    assert_int_equal(t->dtype, VL_DTYPE_I32);
    *n = (size_t)(t->n_bytes / 4);
    return data(c, (uint64_t)(t - c->tensors), NULL);
}

/* ---- models ---- */

static void quiet_log(void *ctx, int32_t level, const char *component, const char *text)
{
    (void)ctx;
    if (level == VL_LOG_ERROR)
        print_message("%s: %s\n", component, text);
}

static const vl_host host = {
    .struct_size = sizeof(host), .abi_version = VL_ABI_VERSION, .log = quiet_log};

struct q35_model q35_open(const char *dir, struct q35_opts o)
{
    struct q35_model q = {.cp = q35_checkpoint_open(dir), .plugin = vl_plugin_entry()};
    vl_error err = {0};
    assert_int_equal(q.plugin->init(&host, &q.self, &err), VL_OK);
    q.api = q.plugin->get_ext(VL_MODEL_ID);
    vl_option_value values[VL_Q35_N_OPTIONS] = {{0}};
    values[VL_Q35_OPT_CPU_FORM].text = o.form != NULL ? o.form : "auto";
    values[VL_Q35_OPT_THREADS].number = o.threads;
    values[VL_Q35_OPT_SNAPSHOT_BYTES].number = 64 << 20;
    const vl_option_values options = {
        .struct_size = sizeof(options), .n_values = VL_Q35_N_OPTIONS, .values = values};
    const vl_model_params p = {.struct_size = sizeof(p),
                               .max_sequences = o.sequences ? o.sequences : 4,
                               .context_tokens = o.context ? o.context : 1024,
                               .kv_tokens = o.kv_tokens,
                               .step_tokens = o.step ? o.step : 512,
                               .n_tokens = o.n_tokens,
                               .device = "cpu",
                               .options = &options};
    if (q.api->open(q.self, &q35_loader, q.cp, &p, &q.m, &err) != VL_OK)
        fail_msg("%s: %s", dir, err.text);
    q.snapshots = q.api->get_ext(q.m, VL_SNAPSHOT_ID);
    assert_non_null(q.snapshots);
    q.cpu = cpu_of((vl_q35_model *)(void *)q.m);
    return q;
}

void q35_close(struct q35_model *q)
{
    q->api->close(q->m);
    q->plugin->fini(q->self);
    q35_checkpoint_close(q->cp);
    memset(q, 0, sizeof(*q));
}

const char *q35_dir(const char *name)
{
    static char path[1024];
    if (strcmp(name, "poppyseed") == 0)
        return VL_SOURCE_DIR "/models/poppyseed";
    (void)snprintf(path, sizeof(path), "%s/tests/checkpoints/%s", VL_BUILD_DIR, name);
    return path;
}

void q35_request_init(struct q35_request *r, const int32_t *prompt, size_t n_prompt,
                      uint64_t max_tokens)
{
    memset(r, 0, sizeof(*r));
    r->sampling = (vl_sampling){.struct_size = sizeof(r->sampling),
                                .top_p = 1.0f,
                                .repetition_penalty = 1.0f,
                                .n_logprobs = -1};
    r->params = (vl_sequence_params){.struct_size = sizeof(r->params),
                                     .prompt = prompt,
                                     .n_prompt = n_prompt,
                                     .max_tokens = max_tokens};
}

vl_sequence *q35_begin(struct q35_model *q, struct q35_request *r)
{
    r->params.sampling = &r->sampling;
    vl_sequence *s = NULL;
    vl_error err = {0};
    if (q->api->sequence_begin(q->m, &r->params, &s, &err) != VL_OK)
        fail_msg("%s", err.text);
    return s;
}

vl_row_result q35_step(struct q35_model *q, vl_row row)
{
    vl_error err = {0};
    uint64_t ticket;
    vl_row_result result = {0};
    if (q->api->submit(q->m, &row, 1, &ticket, &err) != VL_OK)
        fail_msg("submit: %s", err.text);
    if (q->api->collect(q->m, ticket, -1, &result, 1, &err) != VL_OK)
        fail_msg("collect: %s", err.text);
    return result;
}

vl_row_result q35_prefill(struct q35_model *q, vl_sequence *s, size_t from, size_t n_prompt,
                          const size_t *cuts)
{
    vl_row_result r = {0};
    while (from < n_prompt) {
        size_t end = n_prompt;
        while (cuts != NULL && *cuts != 0 && *cuts <= from)
            cuts++;
        if (cuts != NULL && *cuts != 0 && *cuts < n_prompt)
            end = *cuts;
        r = q35_step(q, (vl_row){.sequence = s,
                                 .kind = VL_ROW_PREFILL,
                                 .flags = end == n_prompt ? VL_ROW_LAST : 0,
                                 .n_ids = end - from});
        assert_int_equal(r.status, VL_OK);
        assert_int_equal(r.position, end);
        from = end;
    }
    return r;
}

size_t q35_run(struct q35_model *q, vl_sequence *s, vl_row_result r, int32_t *out, size_t n)
{
    size_t have = 0;
    for (;;) {
        assert_int_equal(r.status, VL_OK);
        assert_int_equal(r.n_ids, 1);
        out[have++] = r.ids[0];
        if (have == n || r.stop != VL_STOP_NONE)
            return have;
        r = q35_step(q, (vl_row){.sequence = s, .kind = VL_ROW_DECODE});
    }
}

/* ---- numbers ---- */

double q35_relative(const float *a, const float *b, size_t n)
{
    double d = 0, r = 0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        r += (double)b[i] * b[i];
    }
    return sqrt(d / (r > 0 ? r : 1));
}

double q35_max_abs(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - b[i]);
        if (!(d <= most)) /* a NaN stays */
            most = d;
    }
    return most;
}

void q35_random_ids(int32_t *ids, size_t n, int32_t vocab, uint32_t seed)
{
    uint32_t x = seed * 2654435761u + 12345u;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        ids[i] = (int32_t)((x >> 8) % (uint32_t)vocab);
    }
}

const char *const *q35_forms(void)
{
    static const char *names[VL_CPU_N_FORMS + 1];
    size_t n = 0;
    for (int32_t f = VL_CPU_SCALAR; f < VL_CPU_N_FORMS; f++) {
        if (vl_cpu_form_supported(f))
            names[n++] = vl_cpu_form_name(f);
    }
    names[n] = NULL;
    return names;
}

bool q35_form_rounds(const char *form)
{
    return strstr(form, "bf16") != NULL;
}
