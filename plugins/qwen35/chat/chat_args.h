/* plugins/qwen35/chat/chat_args.h: from the text of an argument to JSON. Pure. */
#ifndef VL_QWEN35_CHAT_ARGS_H
#define VL_QWEN35_CHAT_ARGS_H

#include "base/buf.h"
#include "plugins/qwen35/chat/chat_schema.h"

/* Appends the value that `text` stands for, given the types its schema allows (0: no schema). Never
 * loses data: what fits no type becomes a string. out->failed: out of memory. */
void vl_args_put(vl_buf *out, int types, const char *text, size_t len);

/* Appends the JSON of a Python literal (list, tuple, dict: single quotes, True, None, trailing
 * commas). False if it is none or not of a wanted type (VL_TYPE_OBJECT, VL_TYPE_ARRAY); then out is
 * as it was. */
bool vl_args_put_python(vl_buf *out, int types, const char *text, size_t len);

#endif
