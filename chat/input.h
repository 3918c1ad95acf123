/* chat/input.h: the line editor. Fed with keys, says what happened; reads no descriptor, draws
 * nothing. */
#ifndef VL_CHAT_INPUT_H
#define VL_CHAT_INPUT_H

#include "chat/history.h"
#include "chat/keys.h"

enum vl_input_result {
    VL_INPUT_UNUSED, /* the key is not the editor's */
    VL_INPUT_DONE,   /* text, cursor or search may have changed */
    VL_INPUT_SUBMIT  /* Enter: the text is whole */
};

struct vl_input {
    vl_buf text; /* UTF-8 */
    size_t at;   /* byte of the cursor, at a cluster's border */
    vl_buf killed;
    struct vl_history *history; /* borrowed, may be NULL */
    long entry;                 /* shown entry; -1: the draft */
    vl_buf draft;               /* the text while an entry is shown */
    size_t prefix;              /* bytes of draft that entries must begin with */
    bool searching;             /* Ctrl-R */
    vl_buf query;
    int width; /* cells of a row; set by who draws it */
};

/* A row of the box: bytes [from, to) of the text. */
struct vl_input_row {
    size_t from, to;
};

void vl_input_init(struct vl_input *in, struct vl_history *history);
void vl_input_fini(struct vl_input *in);
void vl_input_set(struct vl_input *in, const char *text, size_t len);
void vl_input_clear(struct vl_input *in);
enum vl_input_result vl_input_key(struct vl_input *in, const struct vl_key_event *e);
/* Inserts at the cursor, without control bytes; CR and CRLF become '\n'. */
void vl_input_insert(struct vl_input *in, const char *text, size_t len);
/* Breaks the text into rows of in->width cells. Returns their number (at least 1) and writes the
 * first cap of them; *row, *cell: where the cursor is. */
size_t vl_input_rows(const struct vl_input *in, struct vl_input_row *rows, size_t cap, size_t *row,
                     int *cell);

#endif
