/* base/json.c: the JSON reader. One pass, an explicit stack of open containers, no recursion. */
#include "base/json.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/utf8.h"

/* ---- parsing ---- */

struct parser {
    vl_json_doc *doc;
    const char *text;
    size_t len;
    size_t pos;
    size_t cap;      /* of doc->nodes */
    uint64_t *stack; /* node indices of the open containers */
    size_t depth;
    size_t stack_cap;
    uint32_t max_depth;
    uint32_t flags;
    vl_error *err;
};

/* "line L, column C: " and the formatted text; the column counts bytes. */
static VL_PRINTF(3, 4) vl_status fail_at(struct parser *p, size_t pos, const char *fmt, ...)
{
    size_t line = 1, start = 0;
    va_list args;

    for (size_t i = 0; i < pos && i < p->len; i++) {
        if (p->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    vl_buf what = VL_BUF_INIT;
    va_start(args, fmt);
    vl_buf_vprintf(&what, fmt, args);
    va_end(args);
    vl_error_set(p->err, VL_E_FORMAT, "line %zu, column %zu: %s", line, pos - start + 1,
                 what.ptr ? what.ptr : "not valid JSON");
    vl_buf_fini(&what);
    return VL_E_FORMAT;
}

static vl_status no_memory(struct parser *p)
{
    return vl_error_set(p->err, VL_E_NOMEM, "no memory for JSON of %zu bytes", p->len);
}

static void skip_space(struct parser *p)
{
    while (p->pos < p->len) {
        char c = p->text[p->pos];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
            break;
        p->pos++;
    }
}

static vl_json_node *add_node(struct parser *p, int type)
{
    if (p->doc->n_nodes == p->cap &&
        !vl_grow(&p->doc->nodes, &p->cap, p->cap + 1, sizeof(vl_json_node)))
        return NULL;
    vl_json_node *n = &p->doc->nodes[p->doc->n_nodes++];
    *n = (vl_json_node){.type = (uint8_t)type,
                        .depth = (uint16_t)p->depth,
                        .start = p->pos,
                        .next = p->doc->n_nodes};
    return n;
}

static int hex4(const char *s)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)s[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* Checks the escape at text[pos] (a backslash); *pos moves behind it. */
static const char *check_escape(struct parser *p, size_t *pos)
{
    size_t i = *pos + 1;

    if (i >= p->len)
        return "the text ends inside a string";
    char c = p->text[i];
    if (c != 'u') {
        if (!memchr("\"\\/bfnrt", c, 8))
            return "unknown escape in a string";
        *pos = i + 1;
        return NULL;
    }
    int v = p->len - i > 4 ? hex4(p->text + i + 1) : -1;
    if (v < 0)
        return "\\u wants four hexadecimal digits";
    i += 5;
    if (v >= 0xdc00 && v <= 0xdfff)
        return "a low surrogate without a high one";
    if (v >= 0xd800 && v <= 0xdbff) {
        int w = p->len - i >= 6 && p->text[i] == '\\' && p->text[i + 1] == 'u'
                    ? hex4(p->text + i + 2)
                    : -1;
        if (w < 0xdc00 || w > 0xdfff)
            return "a high surrogate without a low one";
        i += 6;
    }
    *pos = i;
    return NULL;
}

/* Length of the run of plain ASCII string bytes at s: no quote, backslash, control or high byte. */
static size_t plain_run(const char *s, size_t len)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    size_t i = 0;

    for (; i + 8 <= len; i += 8) {
        uint64_t w;
        memcpy(&w, s + i, 8);
        uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');
        uint64_t hit =
            ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | (w - ones * 0x20) | w;
        if (hit & high)
            break;
    }
    while (i < len) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            break;
        i++;
    }
    return i;
}

static vl_status parse_string(struct parser *p)
{
    size_t open = p->pos++;
    vl_json_node *n = add_node(p, VL_JSON_STRING);
    size_t pos = p->pos;

    if (!n)
        return no_memory(p);
    for (;;) {
        pos += plain_run(p->text + pos, p->len - pos);
        if (pos >= p->len)
            return fail_at(p, open, "this string has no end");
        unsigned char c = (unsigned char)p->text[pos];
        if (c == '"')
            break;
        if (c == '\\') {
            const char *what = check_escape(p, &pos);
            if (what)
                return fail_at(p, pos, "%s", what);
            n->escaped = 1;
        } else if (c >= 0x80) {
            uint32_t cp;
            int k = vl_utf8_next(p->text + pos, p->len - pos, &cp);
            if (k == 0 || cp == UINT32_MAX)
                return fail_at(p, pos, "invalid UTF-8 in a string");
            pos += (size_t)k;
        } else {
            return fail_at(p, pos, "a control character in a string");
        }
    }
    n->len = pos - p->pos;
    p->pos = pos + 1;
    return VL_OK;
}

static size_t digits(const struct parser *p, size_t pos)
{
    size_t i = pos;
    while (i < p->len && p->text[i] >= '0' && p->text[i] <= '9')
        i++;
    return i - pos;
}

static vl_status parse_number(struct parser *p)
{
    size_t pos = p->pos;
    vl_json_node *n = add_node(p, VL_JSON_NUMBER);

    if (!n)
        return no_memory(p);
    if (p->text[pos] == '-')
        pos++;
    size_t whole = digits(p, pos);
    if (whole == 0 || (whole > 1 && p->text[pos] == '0'))
        return fail_at(p, p->pos, "not a number");
    pos += whole;
    if (pos < p->len && p->text[pos] == '.') {
        size_t k = digits(p, pos + 1);
        if (k == 0)
            return fail_at(p, p->pos, "not a number");
        pos += 1 + k;
    }
    if (pos < p->len && (p->text[pos] == 'e' || p->text[pos] == 'E')) {
        pos++;
        if (pos < p->len && (p->text[pos] == '+' || p->text[pos] == '-'))
            pos++;
        size_t k = digits(p, pos);
        if (k == 0)
            return fail_at(p, p->pos, "not a number");
        pos += k;
    }
    n->len = pos - p->pos;
    p->pos = pos;
    return VL_OK;
}

static vl_status parse_word(struct parser *p)
{
    static const struct {
        const char *text;
        size_t len;
        int type;
    } words[] = {{"null", 4, VL_JSON_NULL}, {"false", 5, VL_JSON_FALSE}, {"true", 4, VL_JSON_TRUE}};

    for (size_t i = 0; i < 3; i++) {
        size_t k = words[i].len;
        if (p->len - p->pos >= k && memcmp(p->text + p->pos, words[i].text, k) == 0) {
            vl_json_node *n = add_node(p, words[i].type);
            if (!n)
                return no_memory(p);
            n->len = k;
            p->pos += k;
            return VL_OK;
        }
    }
    return fail_at(p, p->pos, "%s",
                   p->pos < p->len ? "a value was expected" : "the text ends too early");
}

static vl_status open_container(struct parser *p, int type)
{
    if (p->depth >= p->max_depth)
        return fail_at(p, p->pos, "nested deeper than %u levels", p->max_depth);
    if (!vl_grow(&p->stack, &p->stack_cap, p->depth + 1, sizeof(*p->stack)) || !add_node(p, type))
        return no_memory(p);
    p->stack[p->depth++] = p->doc->n_nodes - 1;
    p->pos++;
    return VL_OK;
}

/* Refuses an object that names a key twice; with a hash, so that a large object costs linear time.
 */
static vl_status check_keys(struct parser *p, const vl_json_node *object)
{
    vl_json o = {p->doc, object};
    vl_strmap seen;
    vl_buf names = VL_BUF_INIT;
    vl_status rc = VL_OK;

    if (object->count < 2)
        return VL_OK;
    /* All keys in one buffer first, so that the map's borrowed keys do not move. */
    uint64_t total = 0;
    for (vl_json_iter it = vl_json_each(o); vl_json_next(&it);)
        total += it.key.node->len;
    vl_strmap_init(&seen);
    if (!vl_buf_reserve(&names, total)) {
        rc = no_memory(p);
        goto out;
    }
    for (vl_json_iter it = vl_json_each(o); vl_json_next(&it);) {
        size_t at = names.len;
        if (!vl_json_str(it.key, &names)) {
            rc = no_memory(p);
            goto out;
        }
        int added = vl_strmap_add(&seen, names.ptr + at, names.len - at, 0, NULL);
        if (added < 0) {
            rc = no_memory(p);
            goto out;
        }
        if (added == 0) {
            rc = fail_at(p, it.key.node->start, "the key \"%.*s\" stands twice in one object",
                         (int)(names.len - at > 200 ? 200 : names.len - at), names.ptr + at);
            goto out;
        }
    }
out:
    vl_strmap_fini(&seen);
    vl_buf_fini(&names);
    return rc;
}

static vl_status close_container(struct parser *p)
{
    vl_json_node *n = &p->doc->nodes[p->stack[--p->depth]];

    p->pos++;
    n->len = p->pos - n->start;
    n->next = p->doc->n_nodes;
    if (n->type == VL_JSON_OBJECT && (p->flags & VL_JSON_UNIQUE_KEYS))
        return check_keys(p, n);
    return VL_OK;
}

static vl_status parse_key(struct parser *p)
{
    skip_space(p);
    if (p->pos >= p->len || p->text[p->pos] != '"')
        return fail_at(p, p->pos, "a key in quotes was expected");
    vl_status rc = parse_string(p);
    if (rc != VL_OK)
        return rc;
    skip_space(p);
    if (p->pos >= p->len || p->text[p->pos] != ':')
        return fail_at(p, p->pos, "':' was expected");
    p->pos++;
    return VL_OK;
}

/* Begins one value; a scalar is complete behind it, a container is open. */
static vl_status parse_value(struct parser *p)
{
    skip_space(p);
    char c = p->pos < p->len ? p->text[p->pos] : '\0';
    if (c == '{')
        return open_container(p, VL_JSON_OBJECT);
    if (c == '[')
        return open_container(p, VL_JSON_ARRAY);
    if (c == '"')
        return parse_string(p);
    if (c == '-' || (c >= '0' && c <= '9'))
        return parse_number(p);
    return parse_word(p);
}

/* The next element of the innermost open container, or its end. */
static vl_status parse_in_container(struct parser *p)
{
    vl_json_node *n = &p->doc->nodes[p->stack[p->depth - 1]];
    bool object = n->type == VL_JSON_OBJECT;
    char close = object ? '}' : ']';

    skip_space(p);
    if (p->pos >= p->len)
        return fail_at(p, p->pos, "the text ends inside an %s", object ? "object" : "array");
    if (p->text[p->pos] == close)
        return close_container(p);
    if (n->count > 0) {
        if (p->text[p->pos] != ',')
            return fail_at(p, p->pos, "',' or '%c' was expected", close);
        p->pos++;
    }
    if (n->count == UINT32_MAX)
        return fail_at(p, p->pos, "too many elements");
    n->count++;
    if (object) {
        vl_status rc = parse_key(p);
        if (rc != VL_OK)
            return rc;
    }
    return parse_value(p);
}

vl_status vl_json_parse(vl_json_doc *doc, const char *text, size_t len, uint32_t max_depth,
                        uint32_t flags, vl_error *err)
{
    struct parser p = {
        .doc = doc, .text = text, .len = len, .max_depth = max_depth, .flags = flags, .err = err};

    *doc = (vl_json_doc){text, len, NULL, 0};
    if (p.max_depth > UINT16_MAX)
        p.max_depth = UINT16_MAX;
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        p.pos = 3;
    vl_status rc = parse_value(&p);
    while (rc == VL_OK && p.depth > 0)
        rc = parse_in_container(&p);
    if (rc == VL_OK) {
        skip_space(&p);
        if (p.pos < len)
            rc = fail_at(&p, p.pos, "something stands behind the value");
    }
    free(p.stack);
    if (rc != VL_OK)
        vl_json_doc_fini(doc);
    return rc;
}

void vl_json_doc_fini(vl_json_doc *doc)
{
    free(doc->nodes);
    *doc = (vl_json_doc){NULL, 0, NULL, 0};
}

/* ---- looking ---- */

vl_json vl_json_root(const vl_json_doc *doc)
{
    return (vl_json){doc, doc->n_nodes ? doc->nodes : NULL};
}

bool vl_json_exists(vl_json v)
{
    return v.node != NULL;
}

bool vl_json_is(vl_json v, int type)
{
    return v.node && v.node->type == type;
}

bool vl_json_is_null(vl_json v)
{
    return !v.node || v.node->type == VL_JSON_NULL;
}

const char *vl_json_type_name(vl_json v)
{
    static const char *const names[] = {"null",   "boolean", "boolean", "number",
                                        "string", "array",   "object"};
    return v.node ? names[v.node->type] : "missing";
}

vl_json_iter vl_json_each(vl_json container)
{
    vl_json_iter it = {.container = container};
    if (container.node && container.node->type >= VL_JSON_ARRAY) {
        it.left = container.node->count;
        it.at = (uint64_t)(container.node - container.doc->nodes) + 1;
    }
    it.index = UINT32_MAX;
    return it;
}

bool vl_json_next(vl_json_iter *it)
{
    if (it->left == 0)
        return false;
    const vl_json_node *nodes = it->container.doc->nodes;
    it->left--;
    it->index++;
    it->key = (vl_json){it->container.doc, NULL};
    if (it->container.node->type == VL_JSON_OBJECT)
        it->key.node = &nodes[it->at++];
    it->value = (vl_json){it->container.doc, &nodes[it->at]};
    it->at = nodes[it->at].next;
    return true;
}

static bool key_is(vl_json key, const char *text, size_t len)
{
    if (!key.node->escaped)
        return key.node->len == len && memcmp(key.doc->text + key.node->start, text, len) == 0;
    vl_buf b = VL_BUF_INIT;
    bool same = vl_json_str(key, &b) && b.len == len && memcmp(b.ptr, text, len) == 0;
    vl_buf_fini(&b);
    return same;
}

vl_json vl_json_get_n(vl_json object, const char *key, size_t key_len)
{
    vl_json found = {object.doc, NULL};

    if (!vl_json_is(object, VL_JSON_OBJECT))
        return found;
    for (vl_json_iter it = vl_json_each(object); vl_json_next(&it);) {
        if (key_is(it.key, key, key_len))
            found = it.value;
    }
    return found;
}

vl_json vl_json_get(vl_json object, const char *key)
{
    return vl_json_get_n(object, key, strlen(key));
}

vl_json vl_json_at(vl_json array, size_t index)
{
    if (vl_json_is(array, VL_JSON_ARRAY)) {
        for (vl_json_iter it = vl_json_each(array); vl_json_next(&it);) {
            if (it.index == index)
                return it.value;
        }
    }
    return (vl_json){array.doc, NULL};
}

size_t vl_json_count(vl_json container)
{
    return container.node && container.node->type >= VL_JSON_ARRAY ? container.node->count : 0;
}

/* ---- texts and numbers ---- */

vl_bytes vl_json_raw(vl_json v)
{
    if (!v.node)
        return (vl_bytes){NULL, 0};
    if (v.node->type == VL_JSON_STRING)
        return (vl_bytes){v.doc->text + v.node->start - 1, v.node->len + 2};
    return (vl_bytes){v.doc->text + v.node->start, v.node->len};
}

vl_bytes vl_json_str_raw(vl_json v)
{
    if (!vl_json_is(v, VL_JSON_STRING))
        return (vl_bytes){NULL, 0};
    return (vl_bytes){v.doc->text + v.node->start, v.node->len};
}

/* Appends the escape at s (checked by the parser); returns the bytes it takes. */
static size_t put_escape(vl_buf *out, const char *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char utf8[4];

    if (s[1] != 'u') {
        vl_buf_putc(out, to[strchr(from, s[1]) - from]);
        return 2;
    }
    uint32_t cp = (uint32_t)hex4(s + 2);
    size_t used = 6;
    if (cp >= 0xd800 && cp <= 0xdbff) {
        cp = 0x10000 + ((cp - 0xd800) << 10) + ((uint32_t)hex4(s + 8) - 0xdc00);
        used = 12;
    }
    vl_buf_append(out, utf8, (size_t)vl_utf8_put(cp, utf8));
    return used;
}

bool vl_json_str(vl_json v, vl_buf *out)
{
    vl_bytes raw = vl_json_str_raw(v);

    if (!vl_json_is(v, VL_JSON_STRING) || !vl_buf_reserve(out, raw.len))
        return false;
    if (!v.node->escaped) {
        vl_buf_append(out, raw.ptr, raw.len);
        return !out->failed;
    }
    for (size_t i = 0; i < raw.len;) {
        const char *slash = memchr(raw.ptr + i, '\\', raw.len - i);
        size_t plain = slash ? (size_t)(slash - raw.ptr) - i : raw.len - i;
        vl_buf_append(out, raw.ptr + i, plain);
        i += plain;
        if (i < raw.len)
            i += put_escape(out, raw.ptr + i);
    }
    return !out->failed;
}

bool vl_json_str_eq(vl_json v, const char *text)
{
    return vl_json_is(v, VL_JSON_STRING) && key_is(v, text, strlen(text));
}

bool vl_json_str_copy(vl_json v, char *buf, size_t cap)
{
    vl_buf b = VL_BUF_INIT;
    bool ok = vl_json_str(v, &b) && b.len < cap && (b.len == 0 || !memchr(b.ptr, '\0', b.len));

    if (ok) {
        if (b.len)
            memcpy(buf, b.ptr, b.len);
        buf[b.len] = '\0';
    }
    vl_buf_fini(&b);
    return ok;
}

/* strtod in the C locale, whatever setlocale was told. */
static double to_double(const char *text)
{
    static locale_t
        c_locale; /* made once; a race makes a second one that stays, which is harmless */
    locale_t l = __atomic_load_n(&c_locale, __ATOMIC_ACQUIRE);

    if (!l) {
        l = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        __atomic_store_n(&c_locale, l, __ATOMIC_RELEASE);
    }
    return l ? strtod_l(text, NULL, l) : strtod(text, NULL);
}

bool vl_json_f64(vl_json v, double *out)
{
    char text[400];

    if (!vl_json_is(v, VL_JSON_NUMBER))
        return false;
    vl_bytes raw = vl_json_raw(v);
    vl_buf b = VL_BUF_INIT;
    const char *s = text;
    if (raw.len < sizeof(text)) {
        memcpy(text, raw.ptr, raw.len);
        text[raw.len] = '\0';
    } else {
        vl_buf_append(&b, raw.ptr, raw.len);
        s = b.ptr;
    }
    double x = s ? to_double(s) : NAN;
    vl_buf_fini(&b);
    if (!isfinite(x))
        return false;
    *out = x;
    return true;
}

/* The magnitude of a number that is an integer, exactly: digits, then what point and exponent do to
 * them. */
static bool magnitude(vl_bytes raw, bool *negative, uint64_t *out)
{
    size_t i = 0;
    uint64_t value = 0;
    int64_t exponent = 0, fraction = 0;
    bool in_fraction = false;

    *negative = raw.len > 0 && raw.ptr[0] == '-';
    i = *negative ? 1 : 0;
    /* Zeros at the end of the digits are kept as a power of ten, so that "3.000" and "3e2" are
     * exact. */
    int64_t zeros = 0;
    for (; i < raw.len && raw.ptr[i] != 'e' && raw.ptr[i] != 'E'; i++) {
        if (raw.ptr[i] == '.') {
            in_fraction = true;
            continue;
        }
        if (in_fraction)
            fraction++;
        if (raw.ptr[i] == '0') {
            zeros++;
            continue;
        }
        for (zeros = value ? zeros : 0; zeros > 0; zeros--) {
            if (!vl_mul(value, 10, &value))
                return false;
        }
        if (!vl_mul(value, 10, &value) || !vl_add(value, (uint64_t)(raw.ptr[i] - '0'), &value))
            return false;
    }
    if (i < raw.len) {
        bool minus = raw.ptr[++i] == '-';
        if (raw.ptr[i] == '-' || raw.ptr[i] == '+')
            i++;
        for (; i < raw.len; i++) {
            if (exponent < 100000)
                exponent = exponent * 10 + (raw.ptr[i] - '0');
        }
        exponent = minus ? -exponent : exponent;
    }
    *out = 0;
    if (value == 0)
        return true;
    exponent += zeros - fraction;
    if (exponent < 0)
        return false;
    for (; exponent > 0; exponent--) {
        if (!vl_mul(value, 10, &value))
            return false;
    }
    *out = value;
    return true;
}

bool vl_json_u64(vl_json v, uint64_t *out)
{
    bool negative;
    uint64_t value;

    if (!vl_json_is(v, VL_JSON_NUMBER) || !magnitude(vl_json_raw(v), &negative, &value) ||
        (negative && value))
        return false;
    *out = value;
    return true;
}

bool vl_json_i64(vl_json v, int64_t *out)
{
    bool negative;
    uint64_t value;

    if (!vl_json_is(v, VL_JSON_NUMBER) || !magnitude(vl_json_raw(v), &negative, &value))
        return false;
    if (value > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool vl_json_bool(vl_json v, bool *out)
{
    if (!vl_json_is(v, VL_JSON_TRUE) && !vl_json_is(v, VL_JSON_FALSE))
        return false;
    *out = v.node->type == VL_JSON_TRUE;
    return true;
}
