/* pattern.c: PCRE2 for the patterns without a scanner. The file's expression is written for another
 * engine; what differs is translated: \s and \S are written out as the reference's 25 code points
 * (PCRE2's \s takes U+180E too). Limits: match steps a call, and CPU time a run, so that a hostile
 * pattern ends in an error. */
#include "pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/error.h"

#define WHITE                                                                                      \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
    "\\x{205f}\\x{3000}"
#define NOT_WHITE                                                                                  \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{"     \
    "1fff}"                                                                                        \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"                 \
    "\\x{3001}-\\x{10ffff}"

enum {
    PATTERN_BYTES_MAX = 64 * 1024,
    MATCH_LIMIT = 5 * 1000 * 1000, /* steps of one match; a text of 1 MB in one piece needs less */
    DEPTH_LIMIT = 100 * 1000,
    HEAP_LIMIT_KIB = 256 * 1024,
    JIT_STACK_BYTES = 1024 * 1024,
    CPU_MS_BASE = 2000, /* CPU time of one run: this much, */
    BYTES_PER_MS = 1000 /* and a millisecond more for so many bytes of text */
};

struct vl_pattern {
    pcre2_code *code;
    bool keeps_gaps;
};

struct vl_pattern_run {
    const vl_pattern *pattern;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    int64_t began_ms; /* CPU time of this thread */
    uint64_t n_bytes; /* text that matches have gone through */
    uint32_t n_calls;
};

/* Where the translation stands: outside, or at which depth of [ ]. */
static bool translate(const char *regex, size_t len, vl_buf *out)
{
    size_t depth = 0;
    for (size_t i = 0; i < len; i++) {
        char c = regex[i];
        if (c == '\\' && i + 1 < len) {
            char e = regex[++i];
            if (e == 's')
                vl_buf_puts(out, depth ? WHITE : "[" WHITE "]");
            else if (e == 'S')
                vl_buf_puts(out, depth ? NOT_WHITE : "[^" WHITE "]");
            else {
                vl_buf_putc(out, '\\');
                vl_buf_putc(out, e);
            }
            continue;
        }
        vl_buf_putc(out, c);
        if (depth == 0 && c == '[') {
            depth = 1;
            if (i + 1 < len && regex[i + 1] == '^')
                vl_buf_putc(out, regex[++i]);
            if (i + 1 < len && regex[i + 1] == ']')
                vl_buf_putc(out, regex[++i]);
        } else if (depth != 0 && c == ']') {
            depth = 0;
        }
    }
    return !out->failed;
}

/* "(?im)", "(?s:": flags that mean something else in the reference, or nothing. */
static bool changes_dot(const char *group, size_t len)
{
    bool found = false;
    if (len < 3 || group[1] != '?')
        return false;
    for (size_t i = 2; i < len; i++) {
        if (group[i] == ')' || group[i] == ':')
            return found;
        if (strchr("imsx-", group[i]) == NULL)
            return false;
        found = found || group[i] == 'm' || group[i] == 's';
    }
    return false;
}

/* What the other engine reads otherwise than PCRE2 and we don't translate. */
static const char *foreign_syntax(const char *regex, size_t len)
{
    bool in_class = false;
    for (size_t i = 0; i < len; i++) {
        if (regex[i] == '\\') {
            if (i + 1 < len && strchr("hHRXOyY", regex[i + 1]) != NULL && regex[i + 1] != '\0')
                return "an escape that the reference reads otherwise (\\h \\R \\X \\O \\y)";
            i++;
            if (i + 1 < len && strchr("pPx", regex[i]) != NULL && regex[i + 1] == '{')
                while (i < len && regex[i] != '}')
                    i++;
        } else if (!in_class && regex[i] == '}' && i + 1 < len && regex[i + 1] == '+') {
            return "a + behind { } (the reference does not read it as possessive)";
        } else if (!in_class && regex[i] == '(' && changes_dot(regex + i, len - i)) {
            return "the flag m or s";
        } else if (in_class && regex[i] == '[' && !(i + 1 < len && regex[i + 1] == ':')) {
            return "a class inside a class";
        } else if (in_class && regex[i] == '&' && i + 1 < len && regex[i + 1] == '&') {
            return "an intersection of classes (&&)";
        } else if (regex[i] == '[') {
            in_class = true;
            if (i + 1 < len && regex[i + 1] == '^')
                i++;
            if (i + 1 < len && regex[i + 1] == ']')
                i++;
        } else if (in_class && regex[i] == ']') {
            in_class = false;
        }
    }
    return NULL;
}

vl_status vl_pattern_create(const char *regex, size_t len, bool literal, bool keeps_gaps,
                            vl_pattern **out, vl_error *err)
{
    vl_status rc = VL_OK;
    vl_buf text = VL_BUF_INIT;
    vl_pattern *p = NULL;
    int code = 0;
    PCRE2_SIZE at = 0;
    /* The reference's ^ and $ stand at every line. */
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;

    if (len > PATTERN_BYTES_MAX)
        return vl_error_set(err, VL_E_UNSUPPORTED, "pattern of %zu bytes, at most %d are taken",
                            len, PATTERN_BYTES_MAX);
    const char *foreign = literal ? NULL : foreign_syntax(regex, len);
    if (foreign != NULL)
        return vl_error_set(err, VL_E_UNSUPPORTED, "pattern has %s: not implemented", foreign);
    if (literal) {
        /* UCP means nothing to a literal, and PCRE2 refuses the pair. */
        options = PCRE2_UTF | PCRE2_LITERAL;
        vl_buf_append(&text, regex, len);
    } else {
        translate(regex, len, &text);
    }
    if (text.failed || (p = calloc(1, sizeof *p)) == NULL) {
        rc = vl_error_set(err, VL_E_NOMEM, "pattern: out of memory");
        goto out;
    }
    p->keeps_gaps = keeps_gaps;
    p->code = pcre2_compile((PCRE2_SPTR)(text.ptr != NULL ? text.ptr : ""), text.len, options,
                            &code, &at, NULL);
    if (p->code == NULL) {
        PCRE2_UCHAR message[128] = {0};
        pcre2_get_error_message(code, message, sizeof message);
        rc = vl_error_set(err, VL_E_FORMAT, "pattern \"%.*s\" is no regular expression: %s",
                          len > 120 ? 120 : (int)len, regex, (const char *)message);
        goto out;
    }
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* without it the interpreter does the same */
    *out = p;
    p = NULL;
out:
    vl_pattern_destroy(p);
    vl_buf_fini(&text);
    return rc;
}

void vl_pattern_destroy(vl_pattern *p)
{
    if (p == NULL)
        return;
    pcre2_code_free(p->code);
    free(p);
}

bool vl_pattern_keeps_gaps(const vl_pattern *p)
{
    return p->keeps_gaps;
}

static int64_t cpu_ms(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        return 0;
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

vl_status vl_pattern_run_create(const vl_pattern *p, vl_pattern_run **out, vl_error *err)
{
    vl_pattern_run *r = calloc(1, sizeof *r);
    if (r == NULL)
        return vl_error_set(err, VL_E_NOMEM, "pattern: out of memory");
    r->pattern = p;
    r->data = pcre2_match_data_create_from_pattern(p->code, NULL);
    r->context = pcre2_match_context_create(NULL);
    r->stack = pcre2_jit_stack_create(32 * 1024, JIT_STACK_BYTES, NULL);
    if (r->data == NULL || r->context == NULL || r->stack == NULL) {
        vl_pattern_run_destroy(r);
        return vl_error_set(err, VL_E_NOMEM, "pattern: out of memory");
    }
    pcre2_set_match_limit(r->context, MATCH_LIMIT);
    pcre2_set_depth_limit(r->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(r->context, HEAP_LIMIT_KIB);
    pcre2_jit_stack_assign(r->context, NULL, r->stack);
    r->began_ms = cpu_ms();
    *out = r;
    return VL_OK;
}

void vl_pattern_run_destroy(vl_pattern_run *r)
{
    if (r == NULL)
        return;
    pcre2_match_data_free(r->data);
    pcre2_match_context_free(r->context);
    pcre2_jit_stack_free(r->stack);
    free(r);
}

vl_status vl_pattern_next(vl_pattern_run *r, const uint8_t *text, size_t from, size_t end,
                          size_t search, size_t *a, size_t *b, vl_error *err)
{
    if ((++r->n_calls & 63) == 0) {
        int64_t limit = CPU_MS_BASE + (int64_t)(r->n_bytes / BYTES_PER_MS);
        if (cpu_ms() - r->began_ms > limit)
            return vl_error_set(
                err, VL_E_UNSUPPORTED,
                "the split pattern of this tokenizer takes too long: over %lld ms for "
                "%llu bytes of text",
                (long long)limit, (unsigned long long)r->n_bytes);
    }
    int n = pcre2_match(r->pattern->code, text + from, end - from, search - from,
                        PCRE2_NO_UTF_CHECK, r->data, r->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(r->pattern->code, text + from, end - from, search - from,
                        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, r->data, r->context);
    if (n == PCRE2_ERROR_NOMATCH) {
        *a = SIZE_MAX;
        return VL_OK;
    }
    if (n < 0) {
        PCRE2_UCHAR message[128] = {0};
        pcre2_get_error_message(n, message, sizeof message);
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "the split pattern of this tokenizer fails at byte %zu: %s", search,
                            (const char *)message);
    }
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(r->data);
    /* \K could put the start before the place we searched from, or behind the end. */
    if (at[0] > at[1] || at[0] < search - from)
        return vl_error_set(err, VL_E_UNSUPPORTED, "the split pattern of this tokenizer uses \\K");
    *a = from + at[0];
    *b = from + at[1];
    r->n_bytes += *b - search;
    return VL_OK;
}
