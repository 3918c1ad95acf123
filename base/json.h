/* base/json.h: a strict JSON reader (RFC 8259) over bytes in memory, into a flat array of nodes.
 *
 * Why our own: tool schemas and arguments must pass through with the digits and the spelling they
 * came with, a vocabulary of 10 MB must be read in some tens of milliseconds, and the place of an
 * error must be known; no library of the distributions does all three. Numbers keep their text.
 * Strings stay in the source and are unescaped when asked for. Nothing here recurses, so nesting
 * can't overflow the stack. A document is read-only once parsed: [any] thread may read it. */
#ifndef VL_BASE_JSON_H
#define VL_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "vallmo/abi.h"

enum {
    VL_JSON_NULL,
    VL_JSON_FALSE,
    VL_JSON_TRUE,
    VL_JSON_NUMBER,
    VL_JSON_STRING,
    VL_JSON_ARRAY,
    VL_JSON_OBJECT
};

/* One value. Nodes lie in document order: an object's members are (key string, value) pairs. */
typedef struct vl_json_node {
    uint8_t type;
    uint8_t escaped; /* strings: has a backslash, so its text differs from the source */
    uint16_t depth;  /* 0 at the root */
    uint32_t count;  /* arrays: elements; objects: members */
    uint64_t start;  /* byte offset of the value's text in the source; strings: behind the quote */
    uint64_t len;    /* of its text; strings without quotes, containers with brackets */
    uint64_t next;   /* index of the node behind this whole value */
} vl_json_node;

typedef struct vl_json_doc {
    const char *text; /* borrowed: must outlive the document */
    size_t len;
    vl_json_node *nodes; /* owned */
    size_t n_nodes;
} vl_json_doc;

/* A reference to a value; node NULL means "there is none", and every getter takes it calmly. */
typedef struct vl_json {
    const vl_json_doc *doc;
    const vl_json_node *node;
} vl_json;

enum {
    VL_JSON_UNIQUE_KEYS =
        1, /* an object that names a key twice is an error (checked with a hash: linear time) */
};

/* Parses text[0..len). max_depth bounds nesting (at most 65535). Invalid UTF-8 in strings, lone
 * surrogate escapes, trailing bytes and control characters in strings are errors: VL_E_FORMAT with
 * "line L, column C: ...". A leading UTF-8 byte order mark is skipped. */
vl_status vl_json_parse(vl_json_doc *doc, const char *text, size_t len, uint32_t max_depth,
                        uint32_t flags, vl_error *err);
void vl_json_doc_fini(vl_json_doc *doc);
vl_json vl_json_root(const vl_json_doc *doc);

/* Type tests; false for a missing value. */
bool vl_json_exists(vl_json v);
bool vl_json_is(vl_json v, int type);
bool vl_json_is_null(vl_json v);          /* missing or null */
const char *vl_json_type_name(vl_json v); /* "string", "missing", ... */

/* Members and elements. The last of equal keys wins, as in most readers. Linear in the number of
 * members. */
vl_json vl_json_get(vl_json object, const char *key);
vl_json vl_json_get_n(vl_json object, const char *key, size_t key_len);
vl_json vl_json_at(vl_json array, size_t index);
size_t vl_json_count(vl_json container);

/* for (vl_json_iter it = vl_json_each(v); vl_json_next(&it);) uses it.key (objects; .node NULL in
 * arrays) and it.value. */
typedef struct vl_json_iter {
    vl_json key;
    vl_json value;
    vl_json container;
    uint64_t at;    /* node index of the next element */
    uint32_t index; /* of the current element */
    uint32_t left;
} vl_json_iter;
vl_json_iter vl_json_each(vl_json container);
bool vl_json_next(vl_json_iter *it);

/* The source text of any value: numbers and containers as they were written, strings with quotes.
 */
vl_bytes vl_json_raw(vl_json v);
/* A string's bytes, still escaped (without quotes). */
vl_bytes vl_json_str_raw(vl_json v);
/* A string's text, unescaped, appended to out; may contain NUL. False if v is no string or out of
 * memory. */
bool vl_json_str(vl_json v, vl_buf *out);
/* True if v is a string with exactly this text (ASCII or UTF-8, unescaped). */
bool vl_json_str_eq(vl_json v, const char *text);
/* The unescaped text of a string into a caller's buffer with NUL; false if it is none, does not fit
 * or contains NUL. */
bool vl_json_str_copy(vl_json v, char *buf, size_t cap);

/* Numbers. False if v is none or does not fit. int: the text must be an integer ("3", also "3.0"
 * and "3e2" when exact). */
bool vl_json_i64(vl_json v, int64_t *out);
bool vl_json_u64(vl_json v, uint64_t *out);
bool vl_json_f64(vl_json v, double *out); /* finite only; locale-independent, correctly rounded */
bool vl_json_bool(vl_json v, bool *out);

/* ---- writing (json_write.c) ---- */

/* Appends text[0..len) as a JSON string with quotes. Invalid UTF-8 becomes U+FFFD; `"`, `\` and
 * controls below U+0020 are escaped
 * (\n \r \t \b \f, else \u00xx), all else stays as it is. */
void vl_json_put_str(vl_buf *out, const char *text, size_t len);
/* The same without the surrounding quotes. */
void vl_json_put_escaped(vl_buf *out, const char *text, size_t len);
/* A double in its shortest form that reads back the same ("1.0" for one, as Python's repr); not
 * finite: "null". */
void vl_json_put_f64(vl_buf *out, double x);
void vl_json_put_i64(vl_buf *out, int64_t x);

/* Re-serialises v with these separators, key order kept. Numbers: raw text kept
 * (VL_JSON_PUT_RAW_NUMBERS) or in Python's form (floats as repr, integers verbatim). json.dumps(x,
 * ensure_ascii=False) is (", ", ": ", 0); compact is (",", ":", ...). */
enum { VL_JSON_PUT_RAW_NUMBERS = 1 };
void vl_json_put(vl_buf *out, vl_json v, const char *item_sep, const char *key_sep, uint32_t flags);

#endif
