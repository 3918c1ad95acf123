/* chat/flower.c: a poppy as a cloud of points with a depth for each dot. Two green sepals, four
 * wide and three inner petals, stamens, a pod, a bowed stem; light from above. Pure arithmetic: the
 * same arguments give the same cells. Units: the flower stands in a box 2 high, y up, z to the
 * viewer. */
#include "chat/flower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NU = 14, NV = 18 }; /* the mesh of a petal: along, across */

struct vec {
    float x, y, z;
};

struct canvas {
    int w, h; /* dots */
    float scale, cx, cy;
    float *depth;  /* w * h; -1e9: empty */
    uint32_t *rgb; /* w * h */
};

/* The head of the flower: where it is and how its axis lies. */
struct head {
    struct vec at, axis, side, up; /* side, up: across the axis */
    float bloom, spin, phase;
};

static struct vec vec(float x, float y, float z)
{
    struct vec v = {x, y, z};

    return v;
}

static struct vec add(struct vec a, struct vec b, float k)
{
    return vec(a.x + b.x * k, a.y + b.y * k, a.z + b.z * k);
}

static struct vec cross(struct vec a, struct vec b)
{
    return vec(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

static struct vec unit(struct vec a)
{
    float n = sqrtf(a.x * a.x + a.y * a.y + a.z * a.z);

    return n > 1e-6f ? vec(a.x / n, a.y / n, a.z / n) : vec(0, 1, 0);
}

static float smooth(float lo, float hi, float x)
{
    float t = (x - lo) / (hi - lo);

    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return t * t * (3 - 2 * t);
}

static uint32_t shade(uint32_t rgb, float light)
{
    uint32_t out = 0;

    for (int s = 0; s <= 16; s += 8) {
        float v = (float)(rgb >> s & 255) * light;

        out |= (uint32_t)(v > 255 ? 255 : v < 0 ? 0 : v) << s;
    }
    return out;
}

static uint32_t mix(uint32_t a, uint32_t b, float t)
{
    uint32_t out = 0;

    for (int s = 0; s <= 16; s += 8) {
        float x = (float)(a >> s & 255), y = (float)(b >> s & 255);

        out |= (uint32_t)(x + (y - x) * t) << s;
    }
    return out;
}

static void dot(struct canvas *c, struct vec p, uint32_t rgb)
{
    int x = (int)floorf(c->cx + p.x * c->scale), y = (int)floorf(c->cy - p.y * c->scale);

    if (x < 0 || y < 0 || x >= c->w || y >= c->h || c->depth[y * c->w + x] > p.z)
        return;
    c->depth[y * c->w + x] = p.z;
    c->rgb[y * c->w + x] = rgb;
}

/* Light from above and a little from the front; both sides of a petal take it. */
static float light_on(struct vec n)
{
    float d = n.x * -0.25f + n.y * 0.80f + n.z * 0.55f;

    return 0.42f + 0.58f * (d < 0 ? -0.55f * d : d);
}

/* ---- petals ---- */

struct petal {
    float angle, length, width;
    int k;
};

/* The point at u along (0 base, 1 tip), v across (-1 to 1). */
static struct vec petal_at(const struct head *h, const struct petal *p, float u, float v)
{
    float open = 0.10f + 1.22f * h->bloom;                 /* angle from the axis at the middle */
    float tilt = open * (1.20f - 0.40f * u);               /* cupped: the tip turns up again */
    float fan = powf(u, 0.65f) * sqrtf(1.0f - powf(u, 7)); /* wide, with a round end */
    float across = v * fan * p->width * (0.30f + 0.70f * h->bloom);
    float flutter = 0.030f * sinf(h->phase * 2.1f + (float)p->k * 1.7f + u * 2.0f);
    float ruffle = 0.055f * u * sinf(5.0f * v + (float)p->k * 2.3f + h->phase * 0.9f);
    float theta = p->angle + h->spin + across;
    float out = p->length * u * sinf(tilt + flutter);
    float along = p->length * u * cosf(tilt + flutter) + ruffle * (0.35f + 0.65f * h->bloom);
    struct vec at = add(h->at, h->axis, along);

    if (h->bloom < 0.999f) /* in the bud they are wrapped about the axis */
        out += (1 - h->bloom) * 0.13f * sinf(3.14159f * u);
    at = add(at, h->side, out * cosf(theta));
    return add(at, h->up, out * sinf(theta));
}

static uint32_t petal_colour(float u, int k)
{
    uint32_t red = k < 4 ? 0xf21a1e : 0xe0151c;
    float heart = 1.0f - smooth(0.10f, 0.42f, u);

    return mix(mix(red, 0xff5a48, 0.35f * smooth(0.70f, 1.0f, u)), 0x1a0508, heart);
}

static void draw_petal(struct canvas *c, const struct head *h, const struct petal *p)
{
    struct vec grid[NU + 1][NV + 1];

    for (int i = 0; i <= NU; i++)
        for (int j = 0; j <= NV; j++)
            grid[i][j] = petal_at(h, p, (float)i / NU, 2.0f * (float)j / NV - 1.0f);
    for (int i = 0; i < NU; i++)
        for (int j = 0; j < NV; j++) {
            struct vec a = grid[i][j], b = grid[i + 1][j], d = grid[i][j + 1],
                       e = grid[i + 1][j + 1];
            struct vec n = unit(cross(add(e, a, -1), add(d, b, -1)));
            float vein = 1.0f - 0.06f * (float)((j + i) & 1);
            uint32_t rgb = shade(petal_colour(((float)i + 0.5f) / NU, p->k), light_on(n) * vein);
            float across = fabsf(b.x - d.x) + fabsf(b.y - d.y),
                  down = fabsf(a.x - e.x) + fabsf(a.y - e.y);
            int steps = 1 + (int)((across > down ? across : down) * c->scale * 0.9f);

            steps = steps > 12 ? 12 : steps;
            for (int y = 0; y < steps; y++)
                for (int x = 0; x < steps; x++) {
                    float s = ((float)y + 0.5f) / (float)steps,
                          t = ((float)x + 0.5f) / (float)steps;
                    struct vec lo = add(a, add(d, a, -1), t), hi = add(b, add(e, b, -1), t);

                    dot(c, add(lo, add(hi, lo, -1), s), rgb);
                }
        }
}

/* ---- green parts ---- */

/* A piece of an ellipsoid about the axis: from angle `from` over `sweep`, opened by `open`. */
static void draw_sepal(struct canvas *c, const struct head *h, float from, float open, float fall)
{
    enum { A = 26, B = 30 };
    float fade = 1 - fall;

    if (fade <= 0.02f)
        return;
    for (int i = 0; i <= A; i++)
        for (int j = 0; j <= B; j++) {
            float u = (float)i / A, v = (float)j / B;
            float th = from + h->spin * 0.5f + v * 3.14159f;
            float r = 0.190f * sinf(3.0f * (0.06f + 0.94f * u)) * fade;
            float lean = open * u;
            float along = 0.44f * u * cosf(lean * 0.9f);
            float mid = from + h->spin * 0.5f + 1.5708f;
            struct vec at = add(h->at, h->axis, along - 0.02f), n;

            at = add(at, h->side, r * cosf(th) + 0.40f * sinf(lean) * u * cosf(mid));
            at = add(at, h->up, r * sinf(th) + 0.40f * sinf(lean) * u * sinf(mid));
            at.y -= fall * 0.9f;
            n = unit(add(add(vec(0, 0, 0), h->side, cosf(th)), h->up, sinf(th)));
            dot(c, at, shade(mix(0x4f8f3a, 0x86b85a, u), light_on(n) * (j % 5 ? 1.0f : 0.86f)));
        }
}

static void draw_pod(struct canvas *c, const struct head *h)
{
    enum { A = 14, B = 26 };
    float size = 0.6f + 0.4f * h->bloom;

    for (int i = 0; i <= A; i++)
        for (int j = 0; j < B; j++) {
            float u = (float)i / A, th = 6.28318f * (float)j / B + h->spin;
            float r = 0.105f * size * (i == A ? 0.6f : sinf(0.5f + 2.1f * u));
            struct vec at = add(h->at, h->axis, 0.05f + 0.15f * size * u), n;

            at = add(add(at, h->side, r * cosf(th)), h->up, r * sinf(th));
            n = unit(add(add(h->axis, h->side, cosf(th)), h->up, sinf(th)));
            dot(c, at, shade(i >= A - 1 && j % 3 == 0 ? 0x3a4a20 : 0x8fae5a, light_on(n)));
        }
    for (int j = 0; j < 46; j++) { /* stamens: dark threads with heavy ends */
        float th = 6.28318f * (float)j / 46 * 3.0f + h->spin, far = 0.13f + 0.012f * (float)(j % 7);

        for (int k = 2; k <= 6; k++) {
            float u = (float)k / 6;
            struct vec at = add(h->at, h->axis, 0.06f + (0.15f - 0.05f * h->bloom) * u);

            at = add(add(at, h->side, far * u * h->bloom * cosf(th)), h->up,
                     far * u * h->bloom * sinf(th));
            dot(c, at, k == 6 ? 0x2a1830 : 0x14090f);
        }
    }
}

static void draw_stem(struct canvas *c, const struct head *h)
{
    struct vec foot = vec(-0.10f, -1.02f, -0.1f), knee = vec(0.16f, -0.35f, -0.05f);
    struct vec neck = add(h->at, h->axis, -0.30f);
    int steps = (int)(c->scale * 3) + 8;

    for (int i = 0; i <= steps; i++) { /* a cubic curve that comes into the head along its axis */
        float t = (float)i / (float)steps, s = 1 - t;
        struct vec p = vec(0, 0, 0);
        float thick = 0.020f + 0.012f * s;

        p = add(p, foot, s * s * s);
        p = add(p, knee, 3 * s * s * t);
        p = add(p, neck, 3 * s * t * t);
        p = add(p, h->at, t * t * t);
        for (int k = -2; k <= 2; k++) {
            float side = (float)k / 2;
            struct vec q = add(p, vec(1, 0, -0.3f), side * thick);

            q.z -= 0.12f + 0.45f * t * h->bloom; /* behind the petals */
            dot(c, q, shade(0x5f9a48, 0.85f - 0.22f * side));
        }
    }
}

/* ---- dots to cells ---- */

static void to_cells(const struct canvas *c, struct vl_flower_cell *cells, int cols, int rows)
{
    static const uint8_t bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

    for (int y = 0; y < rows; y++)
        for (int x = 0; x < cols; x++) {
            struct vl_flower_cell *cell = &cells[y * cols + x];
            uint32_t sum[3] = {0, 0, 0}, n = 0;

            cell->dots = 0;
            for (int dy = 0; dy < 4; dy++)
                for (int dx = 0; dx < 2; dx++) {
                    int at = (y * 4 + dy) * c->w + x * 2 + dx;

                    if (c->depth[at] < -1e8f)
                        continue;
                    cell->dots |= bit[dy][dx];
                    for (int k = 0; k < 3; k++)
                        sum[k] += c->rgb[at] >> (16 - 8 * k) & 255;
                    n++;
                }
            cell->rgb = 0;
            /* Few steps of colour: what has hardly changed need not be sent again. */
            for (int k = 0; n && k < 3; k++) {
                uint32_t v = (sum[k] / n + 8) & ~15u;

                cell->rgb |= (v > 255 ? 255 : v) << (16 - 8 * k);
            }
        }
}

static struct head pose(float bloom, float phase)
{
    struct head h;
    float sway = 0.05f * sinf(phase * 0.7f), nod = 1.0f - bloom;

    h.bloom = bloom;
    h.phase = phase;
    h.spin = phase * 0.30f;
    /* A bud hangs its head; opening it rises and looks at the viewer. */
    h.at = vec(0.06f + sway + 0.10f * nod, 0.30f + 0.02f * sinf(phase * 0.9f) - 0.02f * nod, 0);
    h.axis = unit(vec(0.10f + sway + 0.55f * nod, 0.72f - 0.35f * nod, 0.78f - 0.50f * nod));
    h.side = unit(cross(vec(0, 1, 0.2f), h.axis));
    h.up = cross(h.axis, h.side);
    return h;
}

void vl_flower_draw(struct vl_flower_cell *cells, int cols, int rows, float bloom, float phase)
{
    struct canvas c = {.w = cols * 2, .h = rows * 4};
    size_t n;
    struct head h = pose(bloom, phase);

    if (cols < 1 || rows < 1)
        return;
    memset(cells, 0, (size_t)cols * (size_t)rows * sizeof(*cells));
    n = (size_t)c.w * (size_t)c.h;
    c.depth = malloc(n * sizeof(*c.depth));
    c.rgb = malloc(n * sizeof(*c.rgb));
    if (!c.depth || !c.rgb)
        goto out;
    for (size_t i = 0; i < n; i++)
        c.depth[i] = -1e9f;
    c.scale = (float)(c.h < c.w ? c.h : c.w) * 0.485f;
    c.cx = (float)c.w * 0.5f;
    c.cy = (float)c.h * 0.5f;
    draw_stem(&c, &h);
    draw_pod(&c, &h);
    for (int k = 0; k < 7; k++) {
        struct petal p = {.k = k};

        p.angle = k < 4 ? 1.5708f * (float)k : 2.0944f * (float)(k - 4) + 0.5f;
        p.length = (k < 4 ? 0.70f : 0.52f) * (0.52f + 0.48f * bloom);
        p.width = k < 4 ? 0.98f : 0.80f;
        draw_petal(&c, &h, &p);
    }
    draw_sepal(&c, &h, 0.0f, 1.3f * smooth(0.02f, 0.35f, bloom), smooth(0.22f, 0.62f, bloom));
    draw_sepal(&c, &h, 3.14159f, 1.3f * smooth(0.02f, 0.35f, bloom), smooth(0.26f, 0.70f, bloom));
    to_cells(&c, cells, cols, rows);
out:
    free(c.depth);
    free(c.rgb);
}
