/* chat/keys.h: what a terminal sends, to keys, pastes and replies. Fed with bytes; reads nothing.
 */
#ifndef VL_CHAT_KEYS_H
#define VL_CHAT_KEYS_H

#include "base/buf.h"

enum vl_key {
    VL_KEY_NONE,
    VL_KEY_TEXT, /* text: one or more characters; with ALT one */
    VL_KEY_CTRL, /* code: 'a' to 'z', or one of @[\]^_ */
    VL_KEY_PASTE,
    VL_KEY_ENTER,
    VL_KEY_TAB,
    VL_KEY_BACKSPACE,
    VL_KEY_DELETE,
    VL_KEY_UP,
    VL_KEY_DOWN,
    VL_KEY_LEFT,
    VL_KEY_RIGHT,
    VL_KEY_HOME,
    VL_KEY_END,
    VL_KEY_PGUP,
    VL_KEY_PGDN,
    VL_KEY_ESC,
    VL_KEY_WHEEL_UP,
    VL_KEY_WHEEL_DOWN,
    VL_KEY_REPLY_MODE,   /* DECRQM: params mode, value */
    VL_KEY_REPLY_CURSOR, /* params row, column */
    VL_KEY_REPLY_DEVICE, /* DA1 */
    VL_KEY_REPLY_KITTY,
    VL_KEY_REPLY_COLOUR /* OSC 10 or 11: params number, 0xRRGGBB */
};
enum { VL_MOD_SHIFT = 1, VL_MOD_ALT = 2, VL_MOD_CTRL = 4 };

struct vl_key_event {
    enum vl_key key;
    int mods, code;
    const char *text; /* valid until the next call */
    size_t len;
    int params[2];
};

struct vl_keys {
    vl_buf in;
    vl_buf text; /* of the last event */
    size_t used; /* bytes of in that were read */
    bool pasting;
};

void vl_keys_init(struct vl_keys *k);
void vl_keys_fini(struct vl_keys *k);
void vl_keys_feed(struct vl_keys *k, const char *bytes, size_t len);
/* The next event; false when there is none, or its end has not come yet. flush: nothing more came
 * for a while, so a lone ESC is the key Esc. */
bool vl_keys_next(struct vl_keys *k, struct vl_key_event *e, bool flush);
/* True if the beginning of something waits for its end: call again with flush soon. */
bool vl_keys_pending(const struct vl_keys *k);

#endif
