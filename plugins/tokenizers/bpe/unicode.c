/* unicode.c: makes the class table. Owns no state. */
#include "unicode.h"

#include <stdlib.h>

#include "nfc.h"

const struct vl_range vl_unicode_spaces[] = {
    {0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
};
const size_t vl_unicode_n_spaces = sizeof(vl_unicode_spaces) / sizeof(vl_unicode_spaces[0]);

static void set_ranges(uint8_t *classes, const struct vl_range *ranges, size_t n, uint8_t bit)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = ranges[i].first; c <= ranges[i].last; c++)
            classes[c] |= bit;
}

uint8_t *vl_unicode_classes_create(void)
{
    uint8_t *classes = calloc(VL_UNICODE_COUNT, 1);
    if (classes == NULL)
        return NULL;
    set_ranges(classes, vl_unicode_letters, vl_unicode_n_letters, VL_CP_LETTER);
    set_ranges(classes, vl_unicode_marks, vl_unicode_n_marks, VL_CP_MARK);
    set_ranges(classes, vl_unicode_numbers, vl_unicode_n_numbers, VL_CP_NUMBER);
    set_ranges(classes, vl_unicode_spaces, vl_unicode_n_spaces, VL_CP_SPACE);
    classes['\r'] |= VL_CP_NEWLINE;
    classes['\n'] |= VL_CP_NEWLINE;
    vl_nfc_mark_maybe(classes, VL_CP_NFC_MAYBE);
    return classes;
}
