/* base/utf8.c: reading and mending UTF-8. The table of well-formed sequences is Unicode's 3-7. */
#include "base/utf8.h"

#include <string.h>

int vl_utf8_next(const char *s, size_t len, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned char b = p[0];
    unsigned char low = 0x80, high = 0xbf; /* range of the second byte */
    int want;
    uint32_t value;

    if (b < 0x80) {
        *cp = b;
        return 1;
    }
    if (b >= 0xc2 && b <= 0xdf) {
        want = 2;
        value = b & 0x1f;
    } else if (b >= 0xe0 && b <= 0xef) {
        want = 3;
        value = b & 0x0f;
        low = b == 0xe0 ? 0xa0 : 0x80;
        high = b == 0xed ? 0x9f : 0xbf;
    } else if (b >= 0xf0 && b <= 0xf4) {
        want = 4;
        value = b & 0x07;
        low = b == 0xf0 ? 0x90 : 0x80;
        high = b == 0xf4 ? 0x8f : 0xbf;
    } else {
        *cp = UINT32_MAX;
        return 1;
    }
    for (int i = 1; i < want; i++) {
        if ((size_t)i >= len)
            return 0;
        if (p[i] < low || p[i] > high) {
            *cp = UINT32_MAX;
            return i;
        }
        value = value << 6 | (p[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *cp = value;
    return want;
}

int vl_utf8_put(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

size_t vl_utf8_valid(const char *s, size_t len)
{
    size_t i = 0;
    uint32_t cp;

    while (i < len) {
        uint64_t word;
        while (i + 8 <= len && (memcpy(&word, s + i, 8), (word & 0x8080808080808080u) == 0))
            i += 8;
        if (i >= len)
            break;
        int n = vl_utf8_next(s + i, len - i, &cp);
        if (n == 0 || cp == UINT32_MAX)
            return i;
        i += (size_t)n;
    }
    return len;
}

void vl_utf8_lossy(vl_buf *out, const char *s, size_t len)
{
    size_t i = 0;

    while (i < len) {
        size_t good = vl_utf8_valid(s + i, len - i);
        vl_buf_append(out, s + i, good);
        i += good;
        if (i >= len)
            break;
        uint32_t cp;
        int n = vl_utf8_next(s + i, len - i, &cp);
        vl_buf_append(out, "\xef\xbf\xbd", 3);
        i = n == 0 ? len : i + (size_t)n;
    }
}

size_t vl_utf8_complete(const char *s, size_t len)
{
    /* The tail can be incomplete only if a lead byte stands among the last three. */
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char b = (unsigned char)s[len - back];
        if ((b & 0xc0) == 0x80)
            continue;
        uint32_t cp;
        return b >= 0xc0 && vl_utf8_next(s + len - back, back, &cp) == 0 ? len - back : len;
    }
    return len;
}
