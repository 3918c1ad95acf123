/* load_stops.c: the ids that end an answer, from the JSON files beside a tokenizer. One file alone
 * can't be trusted with it: config.json of Qwen3.5 names <|endoftext|> only, and chat then runs on
 * past
 * <|im_end|>. So: the union of what all say, and of the contents that end a turn in every such
 * model. */
#include "base/error.h"
#include "load_json.h"

enum { DEPTH_MAX = 64 };

/* One id or a list of them. strict: an id that is no token is an error; else it is left out. */
static vl_status add_ids(vl_tokenizer *t, vl_json v, bool strict, vl_error *err)
{
    int64_t id;
    char shown[96];

    if (vl_json_is_null(v))
        return VL_OK;
    if (vl_json_is(v, VL_JSON_ARRAY)) {
        for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);) {
            vl_status rc =
                vl_json_is(it.value, VL_JSON_ARRAY)
                    ? vl_error_set(err, VL_E_FORMAT, "eos_token_id: an array in an array")
                    : add_ids(t, it.value, strict, err);
            if (rc != VL_OK)
                return rc;
        }
        return VL_OK;
    }
    if (!vl_json_i64(v, &id)) {
        vl_bpe_json_show(v, shown);
        return vl_error_set(err, VL_E_FORMAT, "eos_token_id: %s, want an id or an array of ids",
                            shown);
    }
    if (!strict && !vl_tokens_known(&t->bpe.tokens, id))
        return VL_OK;
    vl_status rc = vl_bpe_tokenizer_stop(t, id, err);
    if (rc != VL_OK)
        vl_error_prefix(err, "eos_token_id");
    return rc;
}

/* "<|im_end|>", or {"content": "<|im_end|>", ...}. */
static vl_status add_named(vl_tokenizer *t, vl_json v, vl_error *err)
{
    vl_buf text = VL_BUF_INIT;
    vl_status rc = VL_OK;

    if (vl_json_is(v, VL_JSON_OBJECT))
        v = vl_json_get(v, "content");
    if (vl_json_is_null(v))
        return VL_OK;
    if (vl_json_is(v, VL_JSON_STRING) && !vl_json_str(v, &text)) {
        rc = vl_error_set(err, VL_E_NOMEM, "eos_token: out of memory");
    } else if (!vl_json_is(v, VL_JSON_STRING)) {
        rc = vl_error_set(err, VL_E_FORMAT, "eos_token: %s, want a string", vl_json_type_name(v));
    } else {
        int32_t id = vl_bpe_tokenizer_find(t, text.ptr != NULL ? text.ptr : "", text.len);
        if (id >= 0)
            rc = vl_bpe_tokenizer_stop(t, id, err);
        else
            rc = vl_error_set(err, VL_E_FORMAT, "eos_token: \"%.*s\" is no token",
                              text.len > 64 ? 64 : (int)text.len, text.ptr != NULL ? text.ptr : "");
    }
    vl_buf_fini(&text);
    return rc;
}

enum { GENERATION, TOKENIZER, MODEL };

static vl_status load_file(vl_tokenizer *t, vl_bytes text, const char *name, int kind,
                           vl_error *err)
{
    vl_json_doc doc = {0};
    if (text.ptr == NULL)
        return VL_OK;
    vl_status rc = vl_json_parse(&doc, text.ptr, text.len, DEPTH_MAX, 0, err);
    if (rc == VL_OK) {
        vl_json root = vl_json_root(&doc);
        if (kind == TOKENIZER) {
            rc = add_named(t, vl_json_get(root, "eos_token"), err);
        } else {
            rc = add_ids(t, vl_json_get(root, "eos_token_id"), kind == GENERATION, err);
            if (rc == VL_OK && kind == MODEL)
                rc = add_ids(t, vl_json_get(vl_json_get(root, "text_config"), "eos_token_id"),
                             false, err);
        }
    }
    if (rc != VL_OK)
        vl_error_prefix(err, "%s", name);
    vl_json_doc_fini(&doc);
    return rc;
}

vl_status vl_bpe_load_stops(vl_tokenizer *t, const struct vl_bpe_files *files, vl_error *err)
{
    vl_status rc =
        load_file(t, files->generation_config, "generation_config.json", GENERATION, err);
    if (rc == VL_OK)
        rc = load_file(t, files->tokenizer_config, "tokenizer_config.json", TOKENIZER, err);
    if (rc == VL_OK)
        rc = load_file(t, files->config, "config.json", MODEL, err);
    return rc;
}
