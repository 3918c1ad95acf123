/* chat/copy.c: OSC 52 and code blocks. Pure. */
#include "chat/copy.h"

#include <string.h>

void vl_copy_sequence(vl_buf *out, const char *text, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    vl_buf_puts(out, "\x1b]52;c;");
    for (size_t i = 0; i < len; i += 3) {
        unsigned v = (unsigned)(unsigned char)text[i] << 16;

        v |= i + 1 < len ? (unsigned)(unsigned char)text[i + 1] << 8 : 0;
        v |= i + 2 < len ? (unsigned)(unsigned char)text[i + 2] : 0;
        vl_buf_putc(out, digits[v >> 18]);
        vl_buf_putc(out, digits[v >> 12 & 63]);
        vl_buf_putc(out, i + 1 < len ? digits[v >> 6 & 63] : '=');
        vl_buf_putc(out, i + 2 < len ? digits[v & 63] : '=');
    }
    vl_buf_puts(out, "\x1b\\");
}

size_t vl_copy_code(const char *text, size_t len, size_t n, vl_buf *out)
{
    size_t found = 0, run = 0;
    char fence = 0;

    for (size_t at = 0; at < len;) {
        const char *nl = memchr(text + at, '\n', len - at);
        size_t end = nl ? (size_t)(nl - text) : len, i = at, k;

        while (i < end && (text[i] == ' ' || text[i] == '\t'))
            i++;
        for (k = i; k < end && (text[k] == '`' || text[k] == '~') && text[k] == text[i]; k++)
            ;
        if (!fence && k - i >= 3) {
            fence = text[i];
            run = k - i;
            found++;
        } else if (fence && k - i >= run && text[i] == fence && k == end) {
            fence = 0;
        } else if (fence && found == n) {
            vl_buf_append(out, text + at, end - at);
            vl_buf_putc(out, '\n');
        }
        at = end + 1;
    }
    return found;
}
