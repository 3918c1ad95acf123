/* plugin.c: the bpe plugin's tables. Glue only: it fetches a checkpoint's texts and hands them on.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer.h"

struct vl_instance {
    const vl_host *host;
};

enum { OPTION_PRE, N_OPTIONS };
static const vl_option options[N_OPTIONS] = {
    [OPTION_PRE] = {.name = "pre",
                    .type = VL_OPT_ENUM,
                    .def = "auto",
                    .choices = "auto|qwen35|qwen2|llama-bpe|smollm|gpt-2",
                    .help = "splitter of a GGUF vocabulary; auto: what the file's "
                            "tokenizer.ggml.pre says"},
};

static vl_status bpe_init(const vl_host *host, vl_instance **self, vl_error *err)
{
    vl_instance *in = calloc(1, sizeof *in);
    if (in == NULL)
        return vl_error_set(err, VL_E_NOMEM, "bpe: out of memory");
    in->host = host;
    *self = in;
    return VL_OK;
}

static void bpe_fini(vl_instance *self)
{
    free(self);
}

/* A checkpoint without any vocabulary scores 1: create then says what is missing. */
static vl_status bpe_probe(vl_instance *self, const vl_loader_api *loader, const vl_checkpoint *c,
                           int32_t *score, vl_error *err)
{
    const vl_vocab *vocab = loader->vocab(c);
    (void)self;
    (void)err;
    if (loader->text(c, VL_TEXT_TOKENIZER).ptr != NULL)
        *score = 90;
    else if (vocab != NULL)
        *score = vocab->model != NULL && strcmp(vocab->model, "gpt2") == 0 ? 90 : 1;
    else
        *score = 1;
    return VL_OK;
}

/* Rows of the embedding, which no id may reach: by its tensor, else by config.json; 0: not known.
 */
static uint64_t embedding_rows(const vl_loader_api *loader, const vl_checkpoint *c, vl_bytes config)
{
    static const char *const names[] = {"model.language_model.embed_tokens.weight",
                                        "model.embed_tokens.weight",
                                        "language_model.model.embed_tokens.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int64_t at = loader->find(c, names[i]);
        const vl_tensor *t = at >= 0 ? loader->tensor(c, (uint64_t)at) : NULL;
        if (t != NULL && t->n_dims == 2 && t->shape[0] > 0)
            return (uint64_t)t->shape[0];
    }
    vl_json_doc doc = {0};
    uint64_t rows = 0;
    if (config.ptr != NULL && vl_json_parse(&doc, config.ptr, config.len, 64, 0, NULL) == VL_OK) {
        vl_json root = vl_json_root(&doc);
        if (!vl_json_u64(vl_json_get(vl_json_get(root, "text_config"), "vocab_size"), &rows) &&
            !vl_json_u64(vl_json_get(root, "vocab_size"), &rows))
            rows = 0;
    }
    vl_json_doc_fini(&doc);
    return rows;
}

static vl_status bpe_create(vl_instance *self, const vl_loader_api *loader, const vl_checkpoint *c,
                            const vl_option_values *values, vl_tokenizer **out, vl_error *err)
{
    struct vl_bpe_files files = {
        .tokenizer = loader->text(c, VL_TEXT_TOKENIZER),
        .tokenizer_config = loader->text(c, VL_TEXT_TOKENIZER_CONFIG),
        .generation_config = loader->text(c, VL_TEXT_GENERATION_CONFIG),
        .config = loader->text(c, VL_TEXT_CONFIG),
    };
    const vl_vocab *vocab = loader->vocab(c);
    char note[320] = "";

    const char *pre = NULL;
    if (values != NULL && values->n_values > OPTION_PRE)
        pre = values->values[OPTION_PRE].text;
    if (pre != NULL && strcmp(pre, "auto") == 0)
        pre = NULL;
    files.n_rows = embedding_rows(loader, c, files.config);
    if (files.tokenizer.ptr != NULL)
        return vl_bpe_load_json(&files, out, err);
    if (vocab == NULL)
        return vl_error_set(
            err, VL_E_NOT_FOUND,
            "no tokenizer: the checkpoint has neither a tokenizer.json nor the GGUF key "
            "tokenizer.ggml.tokens");
    vl_status rc = vl_bpe_load_gguf(vocab, &files, pre, out, note, sizeof note, err);
    if (rc == VL_OK && note[0] != '\0')
        self->host->log(self->host->ctx, VL_LOG_WARN, "bpe", note);
    return rc;
}

static uint64_t bpe_n_tokens(const vl_tokenizer *t)
{
    return t->bpe.tokens.n_ids;
}

static vl_bytes bpe_token(const vl_tokenizer *t, int32_t id)
{
    return vl_tokens_bytes(&t->bpe.tokens, id);
}

static const int32_t *bpe_stop_ids(const vl_tokenizer *t, uint64_t *n)
{
    *n = t->n_stop_ids;
    return t->stop_ids;
}

static uint64_t bpe_max_token_bytes(const vl_tokenizer *t)
{
    return t->bpe.tokens.max_len;
}

static const vl_tokenizer_api api = {
    .struct_size = sizeof(vl_tokenizer_api),
    .abi_version = VL_ABI_VERSION,
    .probe = bpe_probe,
    .create = bpe_create,
    .destroy = vl_bpe_tokenizer_destroy,
    .encode = vl_bpe_tokenizer_encode,
    .n_tokens = bpe_n_tokens,
    .find = vl_bpe_tokenizer_find,
    .token = bpe_token,
    .flags = vl_bpe_tokenizer_flags,
    .stop_ids = bpe_stop_ids,
    .max_token_bytes = bpe_max_token_bytes,
    .decoder_create = vl_bpe_decoder_create,
    .decoder_destroy = vl_bpe_decoder_destroy,
    .decoder_push = vl_bpe_decoder_push,
    .decoder_flush = vl_bpe_decoder_flush,
};

static const void *bpe_get_ext(const char *id)
{
    return strcmp(id, VL_TOKENIZER_ID) == 0 ? &api : NULL;
}

static const char *const interfaces[] = {VL_TOKENIZER_ID, NULL};

static const vl_plugin plugin = {
    .struct_size = sizeof(vl_plugin),
    .abi_version = VL_ABI_VERSION,
    .id = "bpe",
    .version = VALLMO_VERSION,
    .description = "Byte-level BPE from tokenizer.json or GGUF metadata",
    .interfaces = interfaces,
    .options = options,
    .n_options = N_OPTIONS,
    .init = bpe_init,
    .fini = bpe_fini,
    .get_ext = bpe_get_ext,
};

VL_EXPORT const vl_plugin *vl_plugin_entry(void)
{
    return &plugin;
}
