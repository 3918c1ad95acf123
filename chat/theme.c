/* chat/theme.c: the tables of colours. Pure. */
#include "chat/theme.h"

#include <string.h>

/* Order of roles: text dim heading code quote link bullet user error note accent keyword string
 * comment number type. */
const struct vl_theme vl_themes[] = {
    {"poppy",
     "red on dark, the default",
     true,
     0x16161a,
     {0, 0x8a8a94, 0xff6b5e, 0xe8c08a, 0xa9a9b8, 0x7fb4ff, 0xf2545b, 0x9ad17b, 0xff5c57, 0x9fa8b8,
      0xf2545b, 0xf07f8c, 0x9ad17b, 0x7a7a86, 0xe0a060, 0x7cc7d6}},
    {"meadow",
     "green on dark",
     true,
     0x121812,
     {0, 0x7f8f7f, 0x9be37a, 0xd9d08a, 0xa0b8a0, 0x7ad7c0, 0x6fcf6f, 0xf0a070, 0xff6b5e, 0x98ab98,
      0x6fcf6f, 0x8fd86f, 0xe5c07b, 0x6f806f, 0xd7a65f, 0x7ac7d7}},
    {"midnight",
     "blue on dark",
     true,
     0x0f1220,
     {0, 0x7c86a8, 0x9cb4ff, 0xc5cdf5, 0x9aa5ce, 0x7dcfff, 0x7aa2f7, 0xbb9af7, 0xf7768e, 0x8f99bd,
      0x7aa2f7, 0xbb9af7, 0x9ece6a, 0x5f6a90, 0xff9e64, 0x2ac3de}},
    {"dusk",
     "violet and gold on dark",
     true,
     0x1d1826,
     {0, 0x8f86a3, 0xf2c572, 0xe6cfa8, 0xb3a8c9, 0x8fb8f0, 0xc792ea, 0xf2c572, 0xff6e7a, 0xa59ab8,
      0xc792ea, 0xc792ea, 0xc3e88d, 0x7a708c, 0xf78c6c, 0x82aaff}},
    {"fjord",
     "cool greys on dark",
     true,
     0x2e3440,
     {0, 0x8b95a7, 0x88c0d0, 0xd8dee9, 0xa3b0c4, 0x8fbcbb, 0x81a1c1, 0xa3be8c, 0xd0707a, 0x9aa5b8,
      0x88c0d0, 0x81a1c1, 0xa3be8c, 0x7b88a1, 0xc59dbd, 0x8fbcbb}},
    {"amber",
     "warm, like an old screen",
     true,
     0x1a1408,
     {0xffb84d, 0xa87f3d, 0xffd38a, 0xffc766, 0xd9a050, 0xffdb99, 0xffa020, 0xffe0a8, 0xff7043,
      0xb88d4d, 0xffa020, 0xffd38a, 0xe0b060, 0x8f6d38, 0xffcc80, 0xf0c070}},
    {"contrast",
     "plain and strong on dark",
     true,
     0x000000,
     {0xffffff, 0xc0c0c0, 0xffff00, 0xffffff, 0xe0e0e0, 0x80d0ff, 0xffffff, 0x80ff80, 0xff6060,
      0xd0d0d0, 0xffff00, 0xffa0ff, 0x80ff80, 0xb0b0b0, 0xffc060, 0x80ffff}},
    {"paper",
     "red on light, the default on light",
     false,
     0xfdfcf8,
     {0, 0x77736b, 0xb3201f, 0x7a4a10, 0x66625a, 0x1a5fb4, 0xc4201f, 0x2f6f1f, 0xc01c28, 0x6b675f,
      0xc4201f, 0xa51d4d, 0x2f6f1f, 0x8a867c, 0x9a5a00, 0x11706f}},
    {"morning",
     "blue on light",
     false,
     0xf7f9fc,
     {0, 0x6f7a8c, 0x1f4fa3, 0x6a3d9a, 0x5b6678, 0x0b6bcb, 0x2563c9, 0x8a4b00, 0xc62828, 0x667082,
      0x2563c9, 0x7b3fb5, 0x2e7d32, 0x8a94a4, 0xb25500, 0x00777f}},
    {"linen",
     "earth on light",
     false,
     0xfaf4ed,
     {0, 0x85786b, 0x8c4a1f, 0x7a5c1e, 0x7a6d60, 0x286983, 0xb4637a, 0x56733f, 0xb4404a, 0x7f7265,
      0xb4637a, 0x8f4f76, 0x56733f, 0x9a8d80, 0xa8641a, 0x286983}},
};
const size_t vl_n_themes = sizeof(vl_themes) / sizeof(vl_themes[0]);

const struct vl_theme *vl_theme_find(const char *name)
{
    for (size_t i = 0; i < vl_n_themes; i++)
        if (strcmp(vl_themes[i].name, name) == 0)
            return &vl_themes[i];
    return NULL;
}

const struct vl_theme *vl_theme_default(bool dark)
{
    return vl_theme_find(dark ? "poppy" : "paper");
}

vl_paint vl_theme_paint(const struct vl_theme *t, enum vl_role role, enum vl_colour depth)
{
    /* The sixteen colours look as the user has set them: roles pick by meaning, not by nearness.
     * 16 = the terminal's own. */
    static const uint8_t ansi[VL_ROLE_N] = {16, 8, 9, 3, 16, 4, 1, 2, 9, 8, 1, 5, 2, 8, 3, 6};

    if (depth == VL_COLOUR_NONE)
        return 0;
    if (depth == VL_COLOUR_16)
        return ansi[role] > 15 ? 0 : VL_ANSI(ansi[role]);
    return t->roles[role] ? VL_RGB(t->roles[role]) : 0;
}

uint32_t vl_colour_mix(uint32_t a, uint32_t b, int part)
{
    uint32_t out = 0;

    for (int shift = 0; shift <= 16; shift += 8) {
        int x = (int)(a >> shift & 255), y = (int)(b >> shift & 255);

        out |= (uint32_t)(x + (y - x) * part / 256) << shift;
    }
    return out;
}

static int level(int v)
{
    return v < 48 ? 0 : v < 115 ? 1 : (v - 35) / 40;
}

int vl_colour_256(uint32_t rgb)
{
    static const int steps[6] = {0, 95, 135, 175, 215, 255};
    int r = (int)(rgb >> 16 & 255), g = (int)(rgb >> 8 & 255), b = (int)(rgb & 255);
    int lr = level(r), lg = level(g), lb = level(b), grey = (r + g + b) / 3;
    int step = grey > 238 ? 23 : grey < 3 ? 0 : (grey - 3) / 10, v = 8 + 10 * step;
    int cube = (r - steps[lr]) * (r - steps[lr]) + (g - steps[lg]) * (g - steps[lg]) +
               (b - steps[lb]) * (b - steps[lb]);
    int line = (r - v) * (r - v) + (g - v) * (g - v) + (b - v) * (b - v);

    return line < cube ? 232 + step : 16 + 36 * lr + 6 * lg + lb;
}
