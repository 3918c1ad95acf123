/* load_pipeline.c: the stages around the merges, from tokenizer.json: normalizer, pre_tokenizer,
 * decoder. Refuses what it can't do exactly; a stage that is skipped in silence would mis-tokenize.
 */
#include <stdlib.h>

#include "base/error.h"
#include "load_json.h"

void vl_bpe_json_show(vl_json v, char out[96])
{
    vl_bytes raw = vl_json_exists(v) ? vl_json_raw(v) : (vl_bytes){"missing", 7};
    size_t n = raw.len < 90 ? raw.len : 90;
    while (n > 0 && n < raw.len && ((uint8_t)raw.ptr[n] & 0xc0) == 0x80)
        n--;
    memcpy(out, raw.ptr, n);
    memcpy(out + n, n < raw.len ? "..." : "", n < raw.len ? 4 : 1);
}

static vl_status refuse(vl_error *err, const char *what, vl_json v)
{
    char text[96];
    vl_bpe_json_show(v, text);
    return vl_error_set(err, VL_E_UNSUPPORTED, "%s: %s is not implemented", what, text);
}

/* A flag with a default. */
static vl_status get_flag(vl_json object, const char *key, const char *where, bool def, bool *out,
                          vl_error *err)
{
    vl_json v = vl_json_get(object, key);
    *out = def;
    if (vl_json_is_null(v) || vl_json_bool(v, out))
        return VL_OK;
    char text[96];
    vl_bpe_json_show(v, text);
    return vl_error_set(err, VL_E_FORMAT, "%s.%s: %s, want true or false", where, key, text);
}

/* The members of a Sequence under `key`; calls each for every one, or once for a stage that is
 * none. Sequences don't nest in files that we know; one inside another is refused by its type. */
typedef vl_status (*stage_fn)(vl_tokenizer *t, vl_json stage, bool last, vl_error *err);

static vl_status each_stage(vl_tokenizer *t, vl_json v, const char *what, const char *list,
                            stage_fn each, vl_error *err)
{
    if (!vl_json_is(v, VL_JSON_OBJECT))
        return refuse(err, what, v);
    if (!vl_json_str_eq(vl_json_get(v, "type"), "Sequence"))
        return each(t, v, true, err);
    vl_json stages = vl_json_get(v, list);
    if (!vl_json_is(stages, VL_JSON_ARRAY))
        return vl_error_set(err, VL_E_FORMAT, "%s.%s: %s, want an array", what, list,
                            vl_json_type_name(stages));
    size_t left = vl_json_count(stages);
    for (vl_json_iter it = vl_json_each(stages); vl_json_next(&it);) {
        vl_status rc = each(t, it.value, --left == 0, err);
        if (rc != VL_OK)
            return rc;
    }
    return VL_OK;
}

static vl_status load_normalizer(vl_tokenizer *t, vl_json stage, bool last, vl_error *err)
{
    vl_json type = vl_json_get(stage, "type");
    (void)last;
    if (!vl_json_str_eq(type, "NFC"))
        return refuse(err, "normalizer: type", type);
    if (t->nfc == NULL && (t->nfc = vl_nfc_create()) == NULL)
        return vl_error_set(err, VL_E_NOMEM, "normalizer: out of memory");
    return VL_OK;
}

/* {"type":"Split","pattern":{"Regex":R},"behavior":"Isolated","invert":false} */
static vl_status load_split(vl_tokenizer *t, vl_json stage, vl_error *err)
{
    vl_json pattern = vl_json_get(stage, "pattern");
    vl_json behavior = vl_json_get(stage, "behavior");
    vl_json regex = vl_json_get(pattern, "Regex"), literal = vl_json_get(pattern, "String");
    vl_buf text = VL_BUF_INIT;
    vl_pattern *p = NULL;
    bool invert;
    vl_status rc = get_flag(stage, "invert", "pre_tokenizer: Split", false, &invert, err);

    if (rc != VL_OK)
        return rc;
    bool isolated = vl_json_str_eq(behavior, "Isolated"); /* to which invert makes no difference */
    if (!isolated && !(vl_json_str_eq(behavior, "Removed") && invert)) {
        char shown[96];
        vl_bpe_json_show(behavior, shown);
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "pre_tokenizer: Split: behavior %s with invert %s is not implemented",
                            shown, invert ? "true" : "false");
    }
    if (!vl_json_str(vl_json_exists(regex) ? regex : literal, &text)) {
        rc = text.failed ? vl_error_set(err, VL_E_NOMEM, "pre_tokenizer: out of memory")
                         : refuse(err, "pre_tokenizer: Split: pattern", pattern);
        goto out;
    }
    const char *s = text.ptr != NULL ? text.ptr : "";
    if (text.len == 0) {
        rc = refuse(err, "pre_tokenizer: Split: an empty pattern", pattern);
        goto out;
    }
    vl_scan_fn scan = vl_json_exists(regex) ? vl_scan_for_pattern(s, text.len) : NULL;
    if (scan != NULL) {
        rc = vl_splitter_add_scan(&t->splitter, scan, err);
        goto out;
    }
    rc = vl_pattern_create(s, text.len, !vl_json_exists(regex), isolated, &p, err);
    if (rc != VL_OK)
        vl_error_prefix(err, "pre_tokenizer: Split");
    else
        rc = vl_splitter_add_pattern(&t->splitter, p, err);
out:
    vl_buf_fini(&text);
    return rc;
}

static vl_status load_byte_level(vl_tokenizer *t, vl_json stage, vl_error *err)
{
    bool prefix_space, use_regex;
    vl_status rc =
        get_flag(stage, "add_prefix_space", "pre_tokenizer: ByteLevel", true, &prefix_space, err);
    if (rc == VL_OK)
        rc = get_flag(stage, "use_regex", "pre_tokenizer: ByteLevel", true, &use_regex, err);
    if (rc != VL_OK)
        return rc;
    if (prefix_space)
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "pre_tokenizer: ByteLevel: add_prefix_space true is not implemented");
    return use_regex ? vl_splitter_add_scan(&t->splitter, vl_scan_gpt2, err) : VL_OK;
}

static vl_status load_pre_tokenizer(vl_tokenizer *t, vl_json stage, bool last, vl_error *err)
{
    vl_json type = vl_json_get(stage, "type");
    bool byte_level = vl_json_str_eq(type, "ByteLevel");
    bool split = vl_json_str_eq(type, "Split");

    if (!byte_level && !split && !vl_json_str_eq(type, "Digits"))
        return refuse(err, "pre_tokenizer: type", type);
    if (byte_level != last)
        return vl_error_set(
            err, VL_E_UNSUPPORTED,
            "pre_tokenizer: ByteLevel must be the last stage: nothing else than byte-level "
            "BPE is implemented");
    if (byte_level)
        return load_byte_level(t, stage, err);
    if (split)
        return load_split(t, stage, err);
    bool single;
    vl_status rc =
        get_flag(stage, "individual_digits", "pre_tokenizer: Digits", false, &single, err);
    if (rc != VL_OK)
        return rc;
    return vl_splitter_add_scan(&t->splitter, single ? vl_scan_digit : vl_scan_digits, err);
}

static vl_status load_decoder(vl_tokenizer *t, vl_json stage, bool last, vl_error *err)
{
    vl_json type = vl_json_get(stage, "type");
    (void)t;
    (void)last;
    return vl_json_str_eq(type, "ByteLevel") ? VL_OK : refuse(err, "decoder: type", type);
}

vl_status vl_bpe_load_pipeline(vl_tokenizer *t, vl_json root, vl_error *err)
{
    vl_json normalizer = vl_json_get(root, "normalizer");
    vl_json pre_tokenizer = vl_json_get(root, "pre_tokenizer");
    vl_json decoder = vl_json_get(root, "decoder");
    vl_status rc = VL_OK;

    if (!vl_json_is_null(normalizer))
        rc = each_stage(t, normalizer, "normalizer", "normalizers", load_normalizer, err);
    if (rc == VL_OK && vl_json_is_null(pre_tokenizer))
        rc = vl_error_set(err, VL_E_UNSUPPORTED,
                          "pre_tokenizer: there is none; only byte-level BPE is implemented");
    if (rc == VL_OK)
        rc =
            each_stage(t, pre_tokenizer, "pre_tokenizer", "pretokenizers", load_pre_tokenizer, err);
    if (rc == VL_OK && !vl_json_is_null(decoder))
        rc = each_stage(t, decoder, "decoder", "decoders", load_decoder, err);
    return rc;
}
