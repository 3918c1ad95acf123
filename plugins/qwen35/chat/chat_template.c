/* plugins/qwen35/chat/chat_template.c: which of the known templates a checkpoint has.
 *
 * Edited copies of the templates circulate, so a text is known by what it does, not by its hash:
 * which variables it reads and which boolean its last test of enable_thinking names. What does not
 * call tools the way this family does, or has no switch for thinking, is some other template and is
 * refused. */
#include <string.h>

#include "base/error.h"
#include "plugins/qwen35/chat/chat.h"
#include "plugins/qwen35/chat/chat_text.h"

static const vl_chat_traits all_traits[] = {
    {"qwen3.5-small", false, false, true, true, false, VL_KEEP_NEVER},
    {"qwen3.5", true, false, true, true, false, VL_KEEP_NEVER},
    {"qwen3.6", true, false, true, false, false, VL_KEEP_IF_ASKED},
    {"qwen3.8", true, false, false, false, true, VL_KEEP_UNLESS_REFUSED},
    {"qwen3.8-always-thinks", true, true, false, false, true, VL_KEEP_UNLESS_REFUSED},
};
enum { SMALL, Q35, Q36, Q38, Q38_ALWAYS, N_TRAITS };

static const char names[] =
    "auto, qwen3.5-small, qwen3.5, qwen3.6, qwen3.8 or qwen3.8-always-thinks";

static vl_status by_name(const char *name, const vl_chat_traits **out, vl_error *err)
{
    for (int i = 0; i < N_TRAITS; i++) {
        if (strcmp(name, all_traits[i].name) == 0) {
            *out = &all_traits[i];
            return VL_OK;
        }
    }
    return vl_error_set(err, VL_E_INVALID, "chat: \"%s\" is no chat format, want %s", name, names);
}

static size_t skip_blanks(vl_bytes t, size_t i)
{
    while (i < t.len && (t.ptr[i] == ' ' || t.ptr[i] == '\n' || t.ptr[i] == '\t'))
        i++;
    return i;
}

/* The boolean of the last "enable_thinking is X": 1, 0, or -1 when there is none. */
static int last_test(vl_bytes t)
{
    static const char name[] = "enable_thinking";
    size_t len = t.len;

    for (;;) {
        size_t at = vl_chat_find_last(t.ptr, len, name);
        if (at == SIZE_MAX)
            return -1;
        size_t i = skip_blanks(t, at + sizeof(name) - 1);
        if (vl_chat_starts(t.ptr + i, t.len - i, "is")) {
            i = skip_blanks(t, i + 2);
            if (vl_chat_starts(t.ptr + i, t.len - i, "true"))
                return 1;
            if (vl_chat_starts(t.ptr + i, t.len - i, "false"))
                return 0;
        }
        len = at;
    }
}

static vl_status by_text(vl_bytes t, const vl_chat_traits **out, vl_error *err)
{
    static const char *const needed[] = {"<|im_start|>",
                                         "<function=", "<parameter=", "enable_thinking"};

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (vl_chat_find(t.ptr, t.len, needed[i]) == SIZE_MAX)
            return vl_error_set(err, VL_E_UNSUPPORTED,
                                "chat: the checkpoint's chat template (%zu bytes) is none that is "
                                "known, it has no \"%s\"; set the key chat to %s",
                                t.len, needed[i], names + 6);
    }
    if (vl_chat_find(t.ptr, t.len, "reasoning_effort") != SIZE_MAX) {
        bool always = vl_chat_find(t.ptr, t.len, "Disabling thinking is not supported") != SIZE_MAX;
        *out = &all_traits[always ? Q38_ALWAYS : Q38];
        return VL_OK;
    }
    if (vl_chat_find(t.ptr, t.len, "preserve_thinking") != SIZE_MAX) {
        *out = &all_traits[Q36];
        return VL_OK;
    }
    int test = last_test(t);
    if (test < 0)
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "chat: the checkpoint's chat template (%zu bytes) never tests whether "
                            "enable_thinking is true or false; set the key chat to %s",
                            t.len, names + 6);
    *out = &all_traits[test ? SMALL : Q35];
    return VL_OK;
}

/* Without a template: the small models (hidden size up to 2048, dense) do not think unless asked.
 */
static vl_status by_size(vl_bytes config, const vl_chat_traits **out, vl_error *err)
{
    vl_json_doc doc;
    int64_t hidden, experts = 0;
    vl_status rc = vl_json_parse(&doc, config.ptr ? config.ptr : "", config.len, 128, 0, err);

    if (rc != VL_OK) {
        vl_error_prefix(err, "chat: the checkpoint's config");
        return rc;
    }
    vl_json root = vl_json_root(&doc), text = vl_json_get(root, "text_config");
    if (!vl_json_is(text, VL_JSON_OBJECT))
        text = root;
    if (!vl_json_i64(vl_json_get(text, "hidden_size"), &hidden)) {
        rc =
            vl_error_set(err, VL_E_UNSUPPORTED,
                         "chat: the checkpoint has no chat template and its config no hidden_size; "
                         "set the key chat to %s",
                         names + 6);
    } else {
        vl_json_i64(vl_json_get(text, "num_experts"), &experts);
        *out = &all_traits[hidden <= 2048 && experts == 0 ? SMALL : Q35];
    }
    vl_json_doc_fini(&doc);
    return rc;
}

vl_status vl_chat_traits_choose(const vl_chat_params *params, const vl_chat_traits **out,
                                vl_error *err)
{
    if (params->format && params->format[0] && strcmp(params->format, "auto") != 0)
        return by_name(params->format, out, err);
    if (params->template_text.len > 0)
        return by_text(params->template_text, out, err);
    return by_size(params->config_json, out, err);
}
