/* chat/width.h: grapheme clusters and the terminal cells they take. The rules are set once at start
 * (what the terminal said about itself) and only read after that. [any] */
#ifndef VL_CHAT_WIDTH_H
#define VL_CHAT_WIDTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the terminal counts. clusters: a ZWJ sequence, flag or emoji with skin tone is two cells;
 * otherwise the cells of its code points add up. emoji_vs: U+FE0F makes a narrow symbol wide. */
struct vl_width_rules {
    bool clusters;
    bool emoji_vs;
};
void vl_width_set(struct vl_width_rules rules);

/* Bytes of the first cluster of s[0..len), len > 0; *cells (may be NULL) gets its width, 0 for
 * controls and lone marks. Ill-formed UTF-8 goes byte by byte with width 1. */
size_t vl_cluster_next(const char *s, size_t len, int *cells);
/* Where the cluster that ends at `at` (> 0) begins; looks back to the last line end. */
size_t vl_cluster_prev(const char *s, size_t at);
/* Cells of a whole text. */
int vl_text_cells(const char *s, size_t len);
/* The most bytes of s that fit into `cells` cells, whole clusters; *used (may be NULL) = cells. */
size_t vl_text_fit(const char *s, size_t len, int cells, int *used);
/* True for a cluster that begins with a wide East Asian character: a line may break beside it. */
bool vl_cluster_is_cjk(const char *s, size_t len);

#endif
