/* unit.poppy_flower: golden frames, and what must hold of every frame. A golden frame is compared
 * with some tolerance: the last bit of sinf is not the same in every C library. */
#include "tests/unit/poppy_kit.h"

#include "base/file.h"
#include "base/utf8.h"
#include "chat/flower.h"

enum { COLS = 44, ROWS = 22 };

struct counts {
    int cells, red, green;
};

static struct counts count(const struct vl_flower_cell *cells, int n)
{
    struct counts c = {0, 0, 0};

    for (int i = 0; i < n; i++) {
        int r = (int)(cells[i].rgb >> 16), g = (int)(cells[i].rgb >> 8 & 255),
            b = (int)(cells[i].rgb & 255);

        if (!cells[i].dots)
            continue;
        c.cells++;
        c.red += r - (g > b ? g : b) >= 25;
        c.green += g - (r > b ? r : b) >= 8;
    }
    return c;
}

static void put_frame(const struct vl_flower_cell *cells, vl_buf *out)
{
    for (int y = 0; y < ROWS; y++) {
        for (int x = 0; x < COLS; x++) {
            char utf8[4];

            vl_buf_append(out, utf8, (size_t)vl_utf8_put(0x2800u + cells[y * COLS + x].dots, utf8));
        }
        vl_buf_putc(out, '\n');
    }
}

/* Dots that differ between two frames as text. */
static int differing_dots(const char *a, const char *b, size_t len)
{
    int n = 0;

    for (size_t i = 0; i + 2 < len;) {
        uint32_t x, y;

        if (a[i] == '\n') {
            i++;
            continue;
        }
        i += (size_t)vl_utf8_next(a + i, len - i, &x);
        vl_utf8_next(b + i - 3, 3, &y);
        n += __builtin_popcount((x ^ y) & 255);
    }
    return n;
}

static void test_flower_frames_are_golden(void **state)
{
    static const struct {
        const char *name;
        float bloom, phase;
        int red, green, dark_green; /* cells at least; green at most in an open flower */
    } frames[] = {{"flower-bud.txt", 0.0f, 0.5f, 0, 60, 999},
                  {"flower-opening.txt", 0.45f, 2.0f, 40, 20, 999},
                  {"flower-open.txt", 1.0f, 7.0f, 150, 10, 120}};
    static struct vl_flower_cell cells[COLS * ROWS];

    (void)state;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        vl_buf got = VL_BUF_INIT, want = VL_BUF_INIT;
        struct counts c;
        char path[1024];
        vl_error err = {0};

        vl_flower_draw(cells, COLS, ROWS, frames[i].bloom, frames[i].phase);
        c = count(cells, COLS * ROWS);
        assert_in_range(c.red, frames[i].red, COLS * ROWS);
        assert_in_range(c.green, frames[i].green, frames[i].dark_green);
        put_frame(cells, &got);
        if (getenv("VL_UPDATE_GOLDEN")) {
            kit_golden(frames[i].name, &got);
            vl_buf_fini(&got);
            continue;
        }
        snprintf(path, sizeof(path), "%s/poppy/%s", VL_TEST_VECTORS, frames[i].name);
        if (vl_file_read(path, 1 << 20, &want, &err) != VL_OK)
            fail_msg("%s", err.text);
        assert_int_equal(want.len, got.len);
        if (differing_dots(got.ptr, want.ptr, got.len) > COLS * ROWS * 8 / 100)
            fail_msg("%s: %d dots differ; got:\n%s", frames[i].name,
                     differing_dots(got.ptr, want.ptr, got.len), got.ptr);
        vl_buf_fini(&got);
        vl_buf_fini(&want);
    }
}

static void test_flower_opens_from_green_to_red(void **state)
{
    static struct vl_flower_cell cells[COLS * ROWS];
    int red = -1;

    (void)state;
    for (int k = 0; k <= 10; k++) {
        struct counts c;

        vl_flower_draw(cells, COLS, ROWS, (float)k / 10, 1.0f);
        c = count(cells, COLS * ROWS);
        if (k % 2 == 0) { /* in large steps it only ever grows redder */
            assert_true(c.red > red);
            red = c.red;
        }
    }
}

static void test_flower_is_a_pure_function(void **state)
{
    static struct vl_flower_cell a[COLS * ROWS], b[COLS * ROWS];

    (void)state;
    vl_flower_draw(a, COLS, ROWS, 0.8f, 3.0f);
    vl_flower_draw(b, COLS, ROWS, 0.1f, 9.0f);
    vl_flower_draw(b, COLS, ROWS, 0.8f, 3.0f);
    assert_memory_equal(a, b, sizeof(a));
    vl_flower_draw(b, COLS, ROWS, 0.8f, 3.6f);
    assert_memory_not_equal(a, b, sizeof(a)); /* it turns */
}

static void test_flower_any_size_stays_in_its_cells(void **state)
{
    (void)state;
    for (int rows = 0; rows < 12; rows++)
        for (int cols = 0; cols < 12; cols++) { /* the sanitizer build sees a step over the edge */
            struct vl_flower_cell *c = calloc((size_t)rows * (size_t)cols + 1, sizeof(*c));

            vl_flower_draw(c, cols, rows, 1.0f, 100.0f);
            free(c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flower_frames_are_golden),
        cmocka_unit_test(test_flower_opens_from_green_to_red),
        cmocka_unit_test(test_flower_is_a_pure_function),
        cmocka_unit_test(test_flower_any_size_stays_in_its_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
