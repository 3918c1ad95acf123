/* plugins/loaders/common/sniff.c: what broken downloads and mixed-up files begin with. */
#include "plugins/loaders/common/sniff.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static bool begins(const uint8_t *bytes, size_t len, const char *magic)
{
    size_t n = strlen(magic);
    return len >= n && memcmp(bytes, magic, n) == 0;
}

/* HTML and XML pages, after blanks and a byte order mark. */
static bool is_page(const uint8_t *bytes, size_t len)
{
    static const char *const starts[] = {"<!doctype html", "<html", "<head", "<?xml", "<body"};
    size_t at = begins(bytes, len, "\xef\xbb\xbf") ? 3 : 0;
    while (at < len && at < 64 && strchr(" \t\r\n", bytes[at]) != NULL)
        at++;
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        size_t n = strlen(starts[i]);
        if (len - at >= n && strncasecmp((const char *)bytes + at, starts[i], n) == 0)
            return true;
    }
    return false;
}

const char *vl_sniff(const uint8_t *bytes, size_t len, const char *want)
{
    static const char *const old_ggml[] = {"ggjt", "tjgg", "ggmf", "fmgg", "ggml", "lmgg"};
    bool want_gguf = strcmp(want, "gguf") == 0;
    if (len == 0)
        return "is empty (0 bytes): the download did not finish";
    if (begins(bytes, len, "version https://git-lfs"))
        return "is a Git LFS pointer, not the file itself: fetch it with git lfs pull";
    if (is_page(bytes, len))
        return "is an HTML page, not a model: the download went wrong";
    if (begins(bytes, len, "PK\x03\x04"))
        return "is a zip archive, as PyTorch writes them (pickle); want safetensors or GGUF";
    if (begins(bytes, len, "\x80\x02") || begins(bytes, len, "\x80\x04"))
        return "is a Python pickle, as PyTorch writes them; want safetensors or GGUF";
    if (!want_gguf && begins(bytes, len, "GGUF"))
        return "is a GGUF file, named .safetensors: pass it by a name that ends in .gguf";
    for (size_t i = 0; i < sizeof(old_ggml) / sizeof(old_ggml[0]); i++)
        if (begins(bytes, len, old_ggml[i]))
            return "is a GGML file of the time before GGUF, not supported: convert the model again";
    /* A GGUF file of 123 tensors has a '{' in the same place: its magic comes first. */
    if (want_gguf && !begins(bytes, len, "GGUF") && len > 8 && bytes[8] == '{' && bytes[7] == 0 &&
        bytes[6] == 0 && bytes[5] == 0)
        return "is a safetensors file, named .gguf";
    return NULL;
}
