/* host/lib/constrain/rules.c: strings, white space, any value. Numbers are in number.c. */
#include "host/lib/constrain/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/utf8.h"
#include "host/lib/constrain/machine.h"

enum { INDENT_SPACES = 64, INDENT_TABS = 16 };

static void hex(vl_grammar *g, uint32_t from, uint32_t to)
{
    vl_grammar_byte(g, from, '0', '9', to);
    vl_grammar_byte(g, from, 'a', 'f', to);
    vl_grammar_byte(g, from, 'A', 'F', to);
}

static void both_cases(vl_grammar *g, uint32_t from, char low, char high, uint32_t to)
{
    vl_grammar_byte(g, from, (uint8_t)low, (uint8_t)high, to);
    vl_grammar_byte(g, from, (uint8_t)(low - 32), (uint8_t)(high - 32), to);
}

static void make_tails(struct vl_rules *r)
{
    vl_grammar *g = r->g;

    r->tail[0] = r->end;
    for (int n = 1; n <= 3; n++) {
        r->tail[n] = vl_grammar_state(g);
        vl_grammar_byte(g, r->tail[n], 0x80, 0xbf, r->tail[n - 1]);
    }
    r->e0 = vl_grammar_state(g);
    r->ed = vl_grammar_state(g);
    r->f0 = vl_grammar_state(g);
    r->f4 = vl_grammar_state(g);
    vl_grammar_byte(g, r->e0, 0xa0, 0xbf, r->tail[1]);
    vl_grammar_byte(g, r->ed, 0x80, 0x9f, r->tail[1]);
    vl_grammar_byte(g, r->f0, 0x90, 0xbf, r->tail[2]);
    vl_grammar_byte(g, r->f4, 0x80, 0x8f, r->tail[2]);
}

/* What follows a backslash; a high surrogate only with its low one. */
static void make_escape(struct vl_rules *r)
{
    vl_grammar *g = r->g;
    uint32_t h[4], d = 0, low[6];

    r->escape = vl_grammar_state(g);
    for (const char *c = "\"\\/bfnrt"; *c != '\0'; c++)
        vl_grammar_byte(g, r->escape, (uint8_t)*c, (uint8_t)*c, r->end);
    for (int i = 0; i < 4; i++)
        h[i] = vl_grammar_state(g);
    d = vl_grammar_state(g);
    for (int i = 0; i < 6; i++)
        low[i] = vl_grammar_state(g);
    vl_grammar_byte(g, r->escape, 'u', 'u', h[0]);
    vl_grammar_byte(g, h[0], '0', '9', h[1]);
    both_cases(g, h[0], 'a', 'c', h[1]);
    both_cases(g, h[0], 'e', 'f', h[1]);
    both_cases(g, h[0], 'd', 'd', d);
    hex(g, h[1], h[2]);
    hex(g, h[2], h[3]);
    hex(g, h[3], r->end);
    vl_grammar_byte(g, d, '0', '7', h[2]);
    vl_grammar_byte(g, d, '8', '9', low[0]);
    both_cases(g, d, 'a', 'b', low[0]);
    hex(g, low[0], low[1]);
    hex(g, low[1], low[2]);
    vl_grammar_byte(g, low[2], '\\', '\\', low[3]);
    vl_grammar_byte(g, low[3], 'u', 'u', low[4]);
    both_cases(g, low[4], 'd', 'd', low[5]);
    both_cases(g, low[5], 'c', 'f', h[2]);
}

void vl_rules_char(const struct vl_rules *r, uint32_t from, uint32_t to)
{
    vl_grammar *g = r->g;

    vl_grammar_byte(g, from, 0x20, 0x21, to);
    vl_grammar_byte(g, from, 0x23, 0x5b, to);
    vl_grammar_byte(g, from, 0x5d, 0x7f, to);
    vl_grammar_byte_call(g, from, 0xc2, 0xdf, r->tail[1], to);
    vl_grammar_byte_call(g, from, 0xe0, 0xe0, r->e0, to);
    vl_grammar_byte_call(g, from, 0xe1, 0xec, r->tail[2], to);
    vl_grammar_byte_call(g, from, 0xed, 0xed, r->ed, to);
    vl_grammar_byte_call(g, from, 0xee, 0xef, r->tail[2], to);
    vl_grammar_byte_call(g, from, 0xf0, 0xf0, r->f0, to);
    vl_grammar_byte_call(g, from, 0xf1, 0xf3, r->tail[3], to);
    vl_grammar_byte_call(g, from, 0xf4, 0xf4, r->f4, to);
    vl_grammar_byte_call(g, from, '\\', '\\', r->escape, to);
}

static void make_string(struct vl_rules *r)
{
    r->string = vl_grammar_state(r->g);
    r->inside = vl_grammar_state(r->g);
    vl_grammar_byte(r->g, r->string, '"', '"', r->inside);
    vl_rules_char(r, r->inside, r->inside);
    vl_grammar_byte(r->g, r->inside, '"', '"', r->end);
    vl_grammar_mark_chars(r->g, r->inside, 0, UINT32_MAX);
}

static void make_space(struct vl_rules *r)
{
    vl_grammar *g = r->g;
    uint32_t line = vl_grammar_end(g), at = line;

    r->space = vl_grammar_end(g);
    vl_grammar_byte(g, r->space, ' ', ' ', r->end);
    vl_grammar_byte(g, r->space, '\n', '\n', line);
    for (int i = 0; i < INDENT_SPACES; i++) {
        uint32_t next = vl_grammar_end(g);
        vl_grammar_byte(g, at, ' ', ' ', next);
        at = next;
    }
    at = line;
    for (int i = 0; i < INDENT_TABS; i++) {
        uint32_t next = vl_grammar_end(g);
        vl_grammar_byte(g, at, '\t', '\t', next);
        at = next;
    }
}

/* `any` is known; arrays and objects of any values. */
static void make_containers(struct vl_rules *r)
{
    vl_grammar *g = r->g;
    uint32_t s[10];

    for (int i = 0; i < 10; i++)
        s[i] = vl_grammar_state(g);
    r->object = s[0];
    vl_grammar_byte(g, s[0], '{', '{', s[1]);
    vl_grammar_call(g, s[1], r->space, s[2]);
    vl_grammar_byte(g, s[2], '}', '}', r->end);
    vl_grammar_call(g, s[2], r->string, s[3]);
    vl_grammar_byte(g, s[3], ':', ':', s[4]);
    vl_grammar_call(g, s[4], r->space, s[5]);
    vl_grammar_call(g, s[5], r->any, s[6]);
    vl_grammar_byte(g, s[6], ',', ',', s[7]);
    vl_grammar_call(g, s[7], r->space, s[8]);
    vl_grammar_call(g, s[8], r->string, s[3]);
    vl_grammar_call(g, s[6], r->space, s[9]);
    vl_grammar_byte(g, s[9], '}', '}', r->end);

    for (int i = 0; i < 7; i++)
        s[i] = vl_grammar_state(g);
    r->array = s[0];
    vl_grammar_byte(g, s[0], '[', '[', s[1]);
    vl_grammar_call(g, s[1], r->space, s[2]);
    vl_grammar_byte(g, s[2], ']', ']', r->end);
    vl_grammar_call(g, s[2], r->any, s[3]);
    vl_grammar_byte(g, s[3], ',', ',', s[4]);
    vl_grammar_call(g, s[4], r->space, s[5]);
    vl_grammar_call(g, s[5], r->any, s[3]);
    vl_grammar_call(g, s[3], r->space, s[6]);
    vl_grammar_byte(g, s[6], ']', ']', r->end);
}

void vl_rules_warm(const struct vl_rules *r, uint32_t state)
{
    if (r->warm->n < VL_WARM_MAX)
        r->warm->states[r->warm->n++] = state;
}

void vl_rules_init(struct vl_rules *r, vl_grammar *g, struct vl_warm *warm)
{
    static const struct vl_bounds free_bounds = {0};

    *r = (struct vl_rules){.g = g, .warm = warm};
    r->end = vl_grammar_end(g);
    make_tails(r);
    make_escape(r);
    make_string(r);
    make_space(r);
    r->any = vl_grammar_state(g);
    r->integer = vl_grammar_state(g);
    r->number = vl_grammar_state(g);
    r->boolean = vl_grammar_state(g);
    r->null = vl_grammar_state(g);
    make_containers(r);
    vl_rules_integer(r, r->integer, &free_bounds, r->end);
    vl_rules_number(r, r->number, &free_bounds, r->end);
    vl_grammar_text(g, r->boolean, "true", 4, r->end);
    vl_grammar_text(g, r->boolean, "false", 5, r->end);
    vl_grammar_text(g, r->null, "null", 4, r->end);
    /* A value is one of these: no frame of its own. */
    const uint32_t kinds[] = {r->object, r->array, r->string, r->number, r->boolean, r->null};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        vl_grammar_empty(g, r->any, kinds[i]);
}

/* ---- characters by code point ---- */

/* low..high have encodings of one length that differ in their last `rest` bytes in every way
 * between. */
static void put_sequence(const struct vl_rules *r, uint32_t from, const char *low, const char *high,
                         int len, uint32_t to)
{
    for (int i = 0; i < len; i++) {
        bool full = true;
        for (int k = i + 1; k < len; k++)
            full = full && (uint8_t)low[k] == 0x80 && (uint8_t)high[k] == 0xbf;
        int left = len - 1 - i;
        if (left > 0 && full) {
            vl_grammar_byte_call(r->g, from, (uint8_t)low[i], (uint8_t)high[i], r->tail[left], to);
            return;
        }
        uint32_t next = left > 0 ? vl_grammar_state(r->g) : to;
        vl_grammar_byte(r->g, from, (uint8_t)low[i], (uint8_t)high[i], next);
        from = next;
    }
}

/* Cuts low..high (no surrogates within) into ranges whose encodings are products of byte ranges. */
static void put_utf8(const struct vl_rules *r, uint32_t from, uint32_t low, uint32_t high,
                     uint32_t to)
{
    static const uint32_t ends[] = {0x7f, 0x7ff, 0xffff, 0x10ffff};

    while (low <= high) {
        uint32_t end = high;
        char a[4], b[4];
        for (int i = 0; i < 4; i++) {
            if (low <= ends[i] && end > ends[i])
                end = ends[i];
        }
        for (int bits = 6; bits <= 18;
             bits += 6) { /* of the last 1, 2, 3 bytes: all or one prefix */
            uint32_t mask = (1u << bits) - 1;
            if (end <= 0x7f || (low & ~mask) == (end & ~mask))
                break;
            if ((low & mask) != 0) {
                end = low | mask;
                break;
            }
            if ((end & mask) != mask && (end & ~mask) > low)
                end = (end & ~mask) - 1;
        }
        int len = vl_utf8_put(low, a);
        vl_utf8_put(end, b);
        put_sequence(r, from, a, b, len, to);
        if (end == UINT32_MAX || end >= high)
            return;
        low = end + 1;
    }
}

/* A character that a JSON string must escape. */
static void put_escaped(const struct vl_rules *r, uint32_t from, uint32_t c, uint32_t to)
{
    static const char digits[] = "0123456789abcdef";
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs */
    char text[6] = {'\\', 'u', '0', '0', digits[c >> 4 & 15], digits[c & 15]};

    for (size_t i = 0; i + 1 < sizeof shorts; i += 2) {
        if ((uint8_t)shorts[i] == c) {
            text[1] = shorts[i + 1];
            vl_grammar_text(r->g, from, text, 2, to);
            return;
        }
    }
    vl_grammar_text(r->g, from, text, 6, to);
}

void vl_rules_points(const struct vl_rules *r, uint32_t from, uint32_t low, uint32_t high,
                     uint32_t to, bool json)
{
    /* Pieces that are written as themselves. */
    static const uint32_t plain[][2] = {
        {0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0xd7ff}, {0xe000, 0x10ffff}};
    static const uint32_t raw[][2] = {{0, 0xd7ff}, {0xe000, 0x10ffff}};
    size_t n = json ? 4 : 2;

    for (size_t i = 0; i < n; i++) {
        const uint32_t *p = json ? plain[i] : raw[i];
        uint32_t a = low > p[0] ? low : p[0], b = high < p[1] ? high : p[1];
        if (a <= b)
            put_utf8(r, from, a, b, to);
    }
    if (!json)
        return;
    for (uint32_t c = low; c <= high && c <= '\\'; c++) {
        if (c < 0x20 || c == '"' || c == '\\')
            put_escaped(r, from, c, to);
    }
}

void vl_rules_counted_string(const struct vl_rules *r, uint32_t from, uint32_t min, uint32_t max,
                             uint32_t to)
{
    vl_grammar *g = r->g;
    bool endless = max == UINT32_MAX;
    uint32_t n = endless ? min : max;
    uint32_t at = vl_grammar_state(g);

    vl_grammar_byte(g, from, '"', '"', at);
    for (uint32_t k = 0; !g->failed && !g->too_large; k++) {
        bool last = k == n;
        uint32_t need = k < min ? min - k : 0;
        vl_grammar_mark_chars(g, at, need, endless ? UINT32_MAX : max - k);
        if (need == 0)
            vl_grammar_byte(g, at, '"', '"', to);
        if (last && endless)
            vl_rules_char(r, at, at);
        if (last)
            return;
        uint32_t next = vl_grammar_state(g);
        vl_rules_char(r, at, next);
        at = next;
    }
}

/* ---- strings and the vocabulary ---- */

/* One walk inside a string of any length: for each token the characters it makes, or 0; and the
 * exits. */
static bool walk_strings(vl_vocabulary *v, vl_machine *m, uint32_t inside, uint32_t *chars)
{
    size_t depth_cap = (size_t)v->longest + 2, exits_cap = 0;
    uint32_t *sets = malloc(depth_cap * sizeof *sets), *counts = calloc(depth_cap, sizeof *counts);
    uint32_t start = vl_machine_start(m, inside);
    bool ok = sets != NULL && counts != NULL && start != 0;

    if (ok)
        sets[0] = start;
    for (uint32_t i = 0; ok && i < v->n_nodes;) {
        uint32_t d = v->depth[i], to = vl_machine_byte(m, sets[d], v->byte[i]);
        if (to == 0) {
            i = v->skip[i];
            continue;
        }
        if (vl_machine_complete(m, to)) { /* the quote; nothing reads behind it */
            ok = vl_grow(&v->exits, &exits_cap, v->n_exits + 1, sizeof *v->exits);
            if (ok)
                v->exits[v->n_exits++] = (struct vl_string_exit){i, counts[d]};
            i = v->skip[i];
            continue;
        }
        counts[d + 1] = counts[d] + (to == start);
        sets[d + 1] = to;
        for (int32_t id = v->token[i]; id >= 0; id = v->same[id])
            chars[id] = counts[d + 1] + (to != start);
        i++;
    }
    free(sets);
    free(counts);
    return ok && m->status == VL_OK;
}

static bool make_levels(vl_vocabulary *v, const uint32_t *chars)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < v->n_tokens; i++)
        most = chars[i] > most ? chars[i] : most;
    v->levels = calloc((size_t)most * v->n_words + 1, sizeof *v->levels);
    if (v->levels == NULL)
        return false;
    v->n_levels = most;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if (chars[i] > 0)
            v->levels[(size_t)(chars[i] - 1) * v->n_words + i / 32] |= 1u << (i % 32);
    }
    for (size_t i = v->n_words; i < (size_t)most * v->n_words; i++)
        v->levels[i] |= v->levels[i - v->n_words];
    return true;
}

vl_status vl_strings_init(vl_vocabulary *v, vl_error *err)
{
    vl_grammar g;
    vl_machine m = {0};
    struct vl_rules r;
    struct vl_warm warm = {.n = 0};
    uint32_t *chars = calloc((size_t)v->n_tokens + 1, sizeof *chars);
    bool ok = vl_grammar_init(&g) && chars != NULL;

    if (ok) {
        vl_rules_init(&r, &g, &warm);
        ok = vl_grammar_finish(&g, err) == VL_OK && vl_machine_init(&m, &g) &&
             walk_strings(v, &m, r.inside, chars) && make_levels(v, chars);
    }
    vl_machine_fini(&m);
    vl_grammar_fini(&g);
    free(chars);
    return ok ? VL_OK : vl_error_set(err, VL_E_NOMEM, "vocabulary: out of memory");
}
