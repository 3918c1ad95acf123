/* tests/unit/chat_kit.h: a chat over a tokenizer that knows only the structural tokens, and a way
 * to feed it outputs.
 *
 * Outputs are written with the structural tokens as single bytes, so that their spelled-out forms
 * stay text. */
#ifndef VL_TESTS_CHAT_KIT_H
#define VL_TESTS_CHAT_KIT_H

#include "tests/unit/vl_cmocka.h"

#include "base/buf.h"
#include "base/json.h"
#include "vallmo/chat.h"

#define TH "\x01"  /* <think> */
#define XTH "\x02" /* </think> */
#define TC "\x03"  /* <tool_call> */
#define XTC "\x04" /* </tool_call> */

extern const vl_chat_api *const kit_api;

/* A chat; fails the test when it can't be made. */
vl_chat *kit_chat(const char *format, uint32_t flags);
/* create() itself. */
vl_status kit_create(const char *format, const char *template_text, const char *config,
                     const char *kwargs, uint32_t flags, vl_chat **out, vl_error *err);
/* Renders; the pieces as one text, with [[...]] around text pieces when `show` is set. */
void kit_render(const vl_chat *c, const char *request, bool show, vl_buf *out);
/* Renders what must be refused. */
void kit_refuse(const vl_chat *c, const char *request, const char *field, const char *text);

enum { KIT_WHOLE, KIT_CHARS, KIT_RANDOM, KIT_CUT };
/* How an output is cut into tokens: at structural tokens only, at every character (an empty token
 * before each that has several bytes), at random, or at the character border nearest to byte `cut`.
 */
typedef struct kit_split {
    int how;
    uint32_t seed;
    size_t cut;
} kit_split;
/* Parses an output as the answer to `request`. The events, neighbours of a kind joined:
 * R(...) thought, C(...) content, T0(name) a call, A(...) arguments, E(0) its end. Checks the order
 * of the token ranges. */
void kit_parse(const vl_chat *c, const char *request, const char *output, size_t len, int32_t how,
               kit_split split, vl_buf *events);
/* Reads tests/vectors/chat/NAME. */
void kit_vectors(const char *name, vl_buf *text, vl_json_doc *doc);

#endif
