/* chat/width.c: grapheme clusters by utf8proc, their cells by the terminal's rules. Knows no
 * screen. */
#include "chat/width.h"

#include <utf8proc.h>

#include "base/utf8.h"

static struct vl_width_rules rules = {true, true};

void vl_width_set(struct vl_width_rules r)
{
    rules = r;
}

static bool is_flag(uint32_t cp)
{
    return cp >= 0x1F1E6 && cp <= 0x1F1FF;
}

static int point_cells(uint32_t cp)
{
    if (cp < 0x20 || (cp >= 0x7F && cp < 0xA0))
        return 0;
    if (is_flag(cp))
        return 2;
    /* Emoji younger than the library's tables are unassigned there; terminals draw them wide. */
    if (cp >= 0x1F300 && cp <= 0x1FAFF &&
        utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_CN)
        return 2;
    return utf8proc_charwidth((utf8proc_int32_t)cp);
}

/* One code point; ill-formed or cut bytes read as U+FFFD of one byte. */
static size_t point_at(const char *s, size_t len, uint32_t *cp)
{
    int n = vl_utf8_next(s, len, cp);

    if (n <= 0 || *cp == 0xFFFFFFFF) {
        *cp = 0xFFFD;
        return 1;
    }
    return (size_t)n;
}

size_t vl_cluster_next(const char *s, size_t len, int *cells)
{
    uint32_t cp, next;
    utf8proc_int32_t state = 0;
    size_t at;
    int w, sum;

    if ((unsigned char)s[0] < 0x80 && (len == 1 || (unsigned char)s[1] < 0x80)) {
        if (cells)
            *cells = (unsigned char)s[0] >= 0x20 && s[0] != 0x7F;
        return 1;
    }
    at = point_at(s, len, &cp);
    w = sum = point_cells(cp);
    while (at < len) {
        size_t n = point_at(s + at, len - at, &next);

        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp, (utf8proc_int32_t)next, &state))
            break;
        if (next == 0xFE0F && rules.emoji_vs && w == 1)
            w = sum = 2;
        else if (!is_flag(cp)) /* a flag's second letter adds nothing in either way of counting */
            sum += point_cells(next);
        cp = next;
        at += n;
    }
    if (cells)
        *cells = rules.clusters ? w : sum;
    return at;
}

size_t vl_cluster_prev(const char *s, size_t at)
{
    size_t start = at - 1, prev;

    if (s[start] == '\n')
        return start;
    while (start > 0 && s[start - 1] != '\n')
        start--;
    for (prev = start; start < at;) {
        prev = start;
        start += vl_cluster_next(s + start, at - start, NULL);
    }
    return prev;
}

int vl_text_cells(const char *s, size_t len)
{
    int sum = 0, w;

    for (size_t at = 0; at < len;) {
        at += vl_cluster_next(s + at, len - at, &w);
        sum += w;
    }
    return sum;
}

size_t vl_text_fit(const char *s, size_t len, int cells, int *used)
{
    size_t at = 0;
    int sum = 0;

    while (at < len) {
        int w;
        size_t n = vl_cluster_next(s + at, len - at, &w);

        if (sum + w > cells)
            break;
        sum += w;
        at += n;
    }
    if (used)
        *used = sum;
    return at;
}

bool vl_cluster_is_cjk(const char *s, size_t len)
{
    uint32_t cp;

    point_at(s, len, &cp);
    return (cp >= 0x2E80 && cp <= 0xA4CF) || (cp >= 0xAC00 && cp <= 0xD7A3) ||
           (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0xFE30 && cp <= 0xFE4F) ||
           (cp >= 0xFF00 && cp <= 0xFF60) || (cp >= 0x20000 && cp <= 0x3FFFF);
}
