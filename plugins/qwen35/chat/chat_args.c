/* plugins/qwen35/chat/chat_args.c: typed arguments. The text between the tags says nothing of its
 * type, the tool's schema does; models write True, None and ['a'] now and then, and all of these
 * mean something. */
#include "plugins/qwen35/chat/chat_args.h"

#include <string.h>

#include "plugins/qwen35/chat/chat_text.h"

enum { MAX_DEPTH = 512 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "+007", "-5", "3.0" as an integer's digits; false if t is none. */
static bool put_integer(vl_buf *out, const char *t, size_t len)
{
    size_t i = 0;
    bool negative = len > 0 && t[0] == '-';

    if (len > 0 && (t[0] == '-' || t[0] == '+'))
        i++;
    size_t first = i;
    while (i < len && is_digit(t[i]))
        i++;
    size_t end = i;
    if (end == first)
        return false;
    if (i < len && t[i] == '.') {
        for (i++; i < len && t[i] == '0'; i++)
            ;
        if (t[i - 1] == '.')
            return false;
    }
    if (i < len)
        return false;
    while (first + 1 < end && t[first] == '0')
        first++;
    if (negative)
        vl_buf_putc(out, '-');
    vl_buf_append(out, t + first, end - first);
    return true;
}

static bool put_boolean(vl_buf *out, int types, const char *t, size_t len)
{
    bool digits = !(types & VL_TYPE_INTEGER);

    if (vl_chat_same_word(t, len, "true") || (digits && len == 1 && t[0] == '1'))
        vl_buf_puts(out, "true");
    else if (vl_chat_same_word(t, len, "false") || (digits && len == 1 && t[0] == '0'))
        vl_buf_puts(out, "false");
    else
        return false;
    return true;
}

static bool is_wanted(vl_json v, int types)
{
    return (vl_json_is(v, VL_JSON_OBJECT) && types & VL_TYPE_OBJECT) ||
           (vl_json_is(v, VL_JSON_ARRAY) && types & VL_TYPE_ARRAY);
}

/* Strict JSON of a wanted kind, put compactly with its numbers as they are. A JSON string that
 * holds such JSON (encoded twice) counts as what it holds, when `unwrap` says so. */
static bool put_container(vl_buf *out, int types, const char *t, size_t len, bool unwrap)
{
    vl_json_doc doc;
    bool done = false;

    if (vl_json_parse(&doc, t, len, MAX_DEPTH, 0, NULL) != VL_OK)
        return false;
    vl_json root = vl_json_root(&doc);
    if (is_wanted(root, types)) {
        vl_json_put(out, root, ",", ":", VL_JSON_PUT_RAW_NUMBERS);
        done = true;
    } else if (unwrap && vl_json_is(root, VL_JSON_STRING)) {
        vl_buf inner = VL_BUF_INIT;
        done = vl_json_str(root, &inner) && put_container(out, types, inner.ptr, inner.len, false);
        vl_buf_fini(&inner);
    }
    vl_json_doc_fini(&doc);
    return done;
}

static bool put_number(vl_buf *out, const char *t, size_t len)
{
    vl_json_doc doc;

    if (vl_json_parse(&doc, t, len, 1, 0, NULL) != VL_OK)
        return false;
    bool number = vl_json_is(vl_json_root(&doc), VL_JSON_NUMBER);
    if (number)
        vl_buf_append(out, t, len);
    vl_json_doc_fini(&doc);
    return number;
}

void vl_args_put(vl_buf *out, int types, const char *text, size_t len)
{
    vl_slice s = vl_chat_trim(text, (vl_slice){0, len});
    const char *t = text + s.at;
    const int containers = VL_TYPE_OBJECT | VL_TYPE_ARRAY;
    bool done = false;

    if (s.len > 0 && types == 0) {
        done = put_container(out, containers, t, s.len, false);
    } else if (s.len > 0) {
        if (types & VL_TYPE_NULL &&
            (vl_chat_same_word(t, s.len, "null") || vl_chat_same_word(t, s.len, "none"))) {
            vl_buf_puts(out, "null");
            done = true;
        }
        if (!done && types & VL_TYPE_BOOLEAN)
            done = put_boolean(out, types, t, s.len);
        if (!done && types & VL_TYPE_INTEGER)
            done = put_integer(out, t, s.len);
        if (!done && types & VL_TYPE_NUMBER)
            done = put_number(out, t, s.len);
        if (!done && types & containers)
            done = put_container(out, types, t, s.len, true) ||
                   vl_args_put_python(out, types, t, s.len);
    }
    if (!done)
        vl_json_put_str(out, text, len);
}
