/* plugins/qwen35/chat/chat_text.h: searching and trimming of UTF-8 the way the templates do. */
#ifndef VL_QWEN35_CHAT_TEXT_H
#define VL_QWEN35_CHAT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range of bytes in a buffer that may move. */
typedef struct vl_slice {
    size_t at;
    size_t len;
} vl_slice;

/* White space of Python's str.strip(). */
bool vl_chat_is_space(uint32_t cp);
/* Bytes of white space at the beginning, and at the end, of s. */
size_t vl_chat_space_before(const char *s, size_t len);
size_t vl_chat_space_behind(const char *s, size_t len);
/* The slice without white space at both ends. base: the buffer. */
vl_slice vl_chat_trim(const char *base, vl_slice s);

/* Offset of the first (last) occurrence of needle, or SIZE_MAX. */
size_t vl_chat_find(const char *s, size_t len, const char *needle);
size_t vl_chat_find_last(const char *s, size_t len, const char *needle);
bool vl_chat_starts(const char *s, size_t len, const char *prefix);
bool vl_chat_ends(const char *s, size_t len, const char *suffix);
/* ASCII letters ignoring case. */
bool vl_chat_same_word(const char *s, size_t len, const char *word);

#endif
