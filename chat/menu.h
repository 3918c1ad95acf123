/* chat/menu.h: the list above the box, and what completes a command. */
#ifndef VL_CHAT_MENU_H
#define VL_CHAT_MENU_H

#include "chat/face.h"

void vl_menu_clear(struct vl_menu *m);
void vl_menu_fini(struct vl_menu *m);
/* Adds a line (cleaned, one line). */
void vl_menu_add(struct vl_menu *m, const char *text);

#endif
