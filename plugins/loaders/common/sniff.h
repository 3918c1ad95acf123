/* plugins/loaders/common/sniff.h: tells by its first bytes what a file is, when it is not what its
 * name says. Does no I/O. */
#ifndef VL_LOADERS_SNIFF_H
#define VL_LOADERS_SNIFF_H

#include <stddef.h>
#include <stdint.h>

/* A sentence for the user ("is a Git LFS pointer, ...") when the bytes are known to be something
 * else than `want`
 * ("safetensors" or "gguf"); NULL when nothing speaks against it. */
const char *vl_sniff(const uint8_t *bytes, size_t len, const char *want);

#endif
