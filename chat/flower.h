/* chat/flower.h: the poppy. Pure: how far it is open, where it is in its turn, how large it may be;
 * cells come out. */
#ifndef VL_CHAT_FLOWER_H
#define VL_CHAT_FLOWER_H

#include <stdint.h>

/* One cell of braille dots; dots 0: nothing is there. */
struct vl_flower_cell {
    uint8_t dots; /* as in U+2800 + dots */
    uint32_t rgb;
};

/* Draws into cells[rows * cols]. bloom: 0 closed bud, 1 open. phase: seconds of its own time; it
 * turns once in about 21 of them. */
void vl_flower_draw(struct vl_flower_cell *cells, int cols, int rows, float bloom, float phase);

#endif
