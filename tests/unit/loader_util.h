/* tests/unit/loader_util.h: opening the checkpoints of tests/tools/loader_files.py, for the
 * loaders' tests. */
#ifndef VL_UNIT_LOADER_UTIL_H
#define VL_UNIT_LOADER_UTIL_H

#include <stdbool.h>

#include "vl_test.h"

#include "base/error.h"
#include "base/file.h"
#include "plugins/common/cpu/bf16.h"
#include "plugins/loaders/gguf/open.h"
#include "plugins/loaders/safetensors/open.h"

#define FILES VL_BUILD_DIR "/tests/loaders/"

static inline vl_checkpoint *must_open(const vl_loader_api *api, const char *name)
{
    char path[512];
    vl_error err = {0, ""};
    vl_checkpoint *c = NULL;
    (void)snprintf(path, sizeof(path), FILES "%s", name);
    if (api->open(NULL, path, NULL, &c, &err) != VL_OK)
        fail_msg("%s: %s", path, err.text);
    return c;
}

/* Opening must fail, and the message must hold every word (NULL ends them). */
static inline void must_refuse(const vl_loader_api *api, const char *name, vl_status status, ...)
{
    char path[512];
    vl_error err = {0, ""};
    vl_checkpoint *c = NULL;
    va_list words;
    (void)snprintf(path, sizeof(path), FILES "%s", name);
    assert_int_equal(api->open(NULL, path, NULL, &c, &err), status);
    assert_null(c);
    va_start(words, status);
    for (const char *w; (w = va_arg(words, const char *)) != NULL;)
        if (strstr(err.text, w) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", err.text, w);
    va_end(words);
}

static inline const vl_tensor *must_find(const vl_loader_api *api, const vl_checkpoint *c,
                                         const char *name, uint64_t *index)
{
    int64_t i = api->find(c, name);
    if (i < 0)
        fail_msg("no tensor %s", name);
    *index = (uint64_t)i;
    return api->tensor(c, (uint64_t)i);
}

static inline float value_at(const void *data, int32_t dtype, uint64_t i)
{
    uint16_t h;
    float f;
    if (dtype == VL_DTYPE_F32) {
        memcpy(&f, (const char *)data + 4 * i, sizeof(f));
        return f;
    }
    memcpy(&h, (const char *)data + 2 * i, sizeof(h));
    return dtype == VL_DTYPE_BF16 ? bf16_to_f32(h) : f16_to_f32(h);
}

static inline bool text_has(vl_bytes text, const char *part)
{
    return text.ptr != NULL && memmem(text.ptr, text.len, part, strlen(part)) != NULL;
}

#endif
