/* plugins/qwen35/chat/chat_text.c: searching and trimming. Pure. */
#include "plugins/qwen35/chat/chat_text.h"

#include <string.h>

#include "base/utf8.h"

bool vl_chat_is_space(uint32_t cp)
{
    return (cp >= 0x09 && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x20) || cp == 0x85 || cp == 0xa0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

size_t vl_chat_space_before(const char *s, size_t len)
{
    size_t i = 0;
    while (i < len) {
        uint32_t cp;
        int n = vl_utf8_next(s + i, len - i, &cp);
        if (n == 0 || !vl_chat_is_space(cp))
            break;
        i += (size_t)n;
    }
    return i;
}

size_t vl_chat_space_behind(const char *s, size_t len)
{
    size_t end = len;
    while (end > 0) {
        size_t i = end - 1;
        while (i > 0 && end - i < 4 && ((unsigned char)s[i] & 0xc0) == 0x80)
            i--;
        uint32_t cp;
        if (vl_utf8_next(s + i, end - i, &cp) != (int)(end - i) || !vl_chat_is_space(cp))
            break;
        end = i;
    }
    return len - end;
}

vl_slice vl_chat_trim(const char *base, vl_slice s)
{
    if (s.len == 0)
        return s;
    size_t lead = vl_chat_space_before(base + s.at, s.len);
    s.at += lead;
    s.len -= lead;
    if (s.len > 0)
        s.len -= vl_chat_space_behind(base + s.at, s.len);
    return s;
}

size_t vl_chat_find(const char *s, size_t len, const char *needle)
{
    const char *hit = len ? memmem(s, len, needle, strlen(needle)) : NULL;
    return hit ? (size_t)(hit - s) : SIZE_MAX;
}

size_t vl_chat_find_last(const char *s, size_t len, const char *needle)
{
    size_t n = strlen(needle);
    for (size_t i = len < n ? 0 : len - n + 1; i-- > 0;) {
        if (memcmp(s + i, needle, n) == 0)
            return i;
    }
    return SIZE_MAX;
}

bool vl_chat_starts(const char *s, size_t len, const char *prefix)
{
    size_t n = strlen(prefix);
    return len >= n && memcmp(s, prefix, n) == 0;
}

bool vl_chat_ends(const char *s, size_t len, const char *suffix)
{
    size_t n = strlen(suffix);
    return len >= n && memcmp(s + len - n, suffix, n) == 0;
}

bool vl_chat_same_word(const char *s, size_t len, const char *word)
{
    if (len != strlen(word))
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] + 32) : s[i];
        if (c != word[i])
            return false;
    }
    return true;
}
