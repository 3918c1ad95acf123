/* load_gguf.c: a tokenizer from GGUF metadata. The file has neither normaliser nor pattern: the
 * name in tokenizer.ggml.pre stands for both, and an unknown name is refused. Does no I/O. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "tokenizer.h"

#define KEY "tokenizer.ggml."

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

static const struct pre {
    const char *name;
    bool nfc;
    bool ignore_merges;
    vl_scan_fn scans[2];
} pres[] = {
    {"qwen35", true, false, {vl_scan_qwen35, NULL}},
    {"qwen2", true, false, {vl_scan_qwen2, NULL}},
    {"llama-bpe", false, true, {vl_scan_llama3, NULL}},
    {"smollm", false, false, {vl_scan_digit, vl_scan_gpt2}},
    {"gpt-2", false, false, {vl_scan_gpt2, NULL}},
};

static vl_status load_pre(vl_tokenizer *t, const char *name, bool *ignore_merges, vl_error *err)
{
    const struct pre *pre = NULL;
    vl_status rc = VL_OK;

    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++)
        if (strcmp(pres[i].name, name) == 0)
            pre = &pres[i];
    if (pre == NULL)
        return vl_error_set(
            err, VL_E_UNSUPPORTED,
            KEY "pre: \"%.64s\" is not implemented (qwen35, qwen2, llama-bpe, smollm, gpt-2 are)",
            name);
    *ignore_merges = pre->ignore_merges;
    if (pre->nfc && (t->nfc = vl_nfc_create()) == NULL)
        return vl_error_set(err, VL_E_NOMEM, "tokenizer: out of memory");
    for (size_t i = 0; i < 2 && pre->scans[i] != NULL && rc == VL_OK; i++)
        rc = vl_splitter_add_scan(&t->splitter, pre->scans[i], err);
    return rc;
}

/* Type 3 says less than HF's `special`: the converter sets it for everything of the form <|...|>,
 * also for these, which a decode that skips special tokens must show. */
static bool is_special(int32_t type, vl_bytes content)
{
    static const char *const visible[] = {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
                                          "<|fim_pad|>",    "<|repo_name|>",  "<|file_sep|>"};
    if (type == TYPE_USER_DEFINED)
        return false;
    for (size_t i = 0; i < sizeof visible / sizeof visible[0]; i++)
        if (content.len == strlen(visible[i]) && memcmp(content.ptr, visible[i], content.len) == 0)
            return false;
    return true;
}

static vl_status load_tokens(vl_tokenizer *t, const vl_vocab *v, vl_error *err)
{
    vl_buf bytes = VL_BUF_INIT;
    vl_status rc = VL_OK;

    for (uint64_t i = 0; i < v->n_tokens && rc == VL_OK; i++) {
        int32_t type = v->types != NULL ? v->types[i] : TYPE_NORMAL;
        vl_bytes text = v->tokens[i];
        switch (type) {
        case TYPE_NORMAL:
            vl_buf_clear(&bytes);
            if (vl_tokens_from_alphabet(text.ptr, text.len, &bytes))
                rc = vl_tokens_add(&t->bpe.tokens, (int64_t)i, bytes.ptr, bytes.len, true, err);
            else
                rc = vl_error_set(err, bytes.failed ? VL_E_NOMEM : VL_E_FORMAT,
                                  "\"%.*s\" is not in the byte alphabet",
                                  text.len > 64 ? 64 : (int)text.len, text.ptr);
            break;
        case TYPE_UNKNOWN:
        case TYPE_CONTROL:
        case TYPE_USER_DEFINED:
            rc = vl_bpe_tokenizer_add(t, (int64_t)i, is_special(type, text) ? VL_ADDED_SPECIAL : 0,
                                      text.ptr, text.len, err);
            break;
        case TYPE_UNUSED: /* a padding row of the embedding: no token */
            break;
        default:
            rc = vl_error_set(err, VL_E_UNSUPPORTED,
                              KEY "token_type: %d is not implemented for byte-level BPE", type);
        }
        if (rc != VL_OK)
            vl_error_prefix(err, KEY "tokens[%llu]", (unsigned long long)i);
    }
    vl_buf_fini(&bytes);
    return rc;
}

/* "left right", cut at the first space behind the first byte. */
static vl_status load_merges(vl_tokenizer *t, const vl_vocab *v, vl_error *err)
{
    struct vl_bpe_batch batch = {.bpe = &t->bpe};
    /* Published files lack bytes that their training text did not have (SmolLM2: 21 of them). */
    vl_status rc = vl_bpe_reserve_merges(&t->bpe, (size_t)v->n_merges, true, err);

    if (rc != VL_OK) {
        vl_error_prefix(err, KEY "tokens");
        return rc;
    }
    for (uint64_t i = 0; i < v->n_merges && rc == VL_OK; i++) {
        vl_bytes text = v->merges[i];
        const char *space = text.len > 1 ? memchr(text.ptr + 1, ' ', text.len - 1) : NULL;
        size_t n = space != NULL ? (size_t)(space - text.ptr) : 0;
        if (space == NULL || n + 1 == text.len)
            rc = vl_error_set(err, VL_E_FORMAT,
                              "merge %llu: \"%.*s\" has no two halves with a space between",
                              (unsigned long long)i, text.len > 64 ? 64 : (int)text.len, text.ptr);
        else
            rc = vl_bpe_batch_add(&batch, (size_t)i, (vl_bytes){text.ptr, n},
                                  (vl_bytes){space + 1, text.len - n - 1}, err);
    }
    if (rc == VL_OK)
        rc = vl_bpe_batch_flush(&batch, err);
    if (rc != VL_OK)
        vl_error_prefix(err, KEY "merges");
    vl_bpe_batch_fini(&batch);
    return rc;
}

vl_status vl_bpe_load_gguf(const vl_vocab *v, const struct vl_bpe_files *files, const char *pre,
                           vl_tokenizer **out, char *note, size_t note_cap, vl_error *err)
{
    vl_tokenizer *t = NULL;
    vl_status rc = VL_OK;
    bool ignore_merges = false;

    note[0] = '\0';
    if (pre == NULL)
        pre = v->pre != NULL ? v->pre : "";
    if (v->model == NULL || strcmp(v->model, "gpt2") != 0) {
        rc = vl_error_set(err, VL_E_UNSUPPORTED,
                          KEY "model: \"%.64s\" is not implemented, want \"gpt2\" (byte-level BPE)",
                          v->model != NULL ? v->model : "");
        goto out;
    }
    if (files->n_rows != 0 && v->n_tokens > files->n_rows) {
        rc = vl_error_set(err, VL_E_FORMAT, KEY "tokens: %llu of them, the embedding has %llu rows",
                          (unsigned long long)v->n_tokens, (unsigned long long)files->n_rows);
        goto out;
    }
    t = vl_bpe_tokenizer_create(err);
    if (t == NULL) {
        rc = VL_E_NOMEM;
        goto out;
    }
    rc = load_pre(t, pre, &ignore_merges, err);
    if (rc == VL_OK)
        rc = vl_bpe_init(&t->bpe, (size_t)v->n_tokens, (size_t)v->n_tokens * 8, err);
    if (rc != VL_OK)
        goto out;
    t->bpe.ignore_merges = ignore_merges;
    rc = load_tokens(t, v, err);
    if (rc == VL_OK)
        rc = load_merges(t, v, err);
    for (uint64_t i = 0; i < v->n_stop_ids && rc == VL_OK; i++) {
        rc = vl_bpe_tokenizer_stop(t, v->stop_ids[i], err);
        if (rc != VL_OK)
            vl_error_prefix(err, KEY "eos_token_id, eot_token_id or eom_token_id");
    }
    if (rc == VL_OK)
        rc = vl_bpe_load_stops(t, files, err);
    if (rc == VL_OK)
        rc = vl_bpe_tokenizer_seal(t, err);
    if (rc != VL_OK)
        goto out;
    if (strcmp(pre, "qwen2") == 0 && v->n_tokens == 248320)
        snprintf(note, note_cap,
                 KEY "pre=qwen2 n_tokens=%llu: a vocabulary of Qwen3.5, so pre should be qwen35; "
                     "texts with combining marks will be split otherwise than in training",
                 (unsigned long long)v->n_tokens);
    *out = t;
    t = NULL;
out:
    vl_bpe_tokenizer_destroy(t);
    if (rc != VL_OK)
        vl_error_prefix(err, "%s", v->file != NULL ? v->file : "gguf");
    return rc;
}
