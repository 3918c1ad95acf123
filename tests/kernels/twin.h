/* tests/kernels/twin.h: what the kernel tests share: a device with the kernels of one shape, seeded
 * inputs on both sides, and a comparison that prints what it found. */
#ifndef VL_TESTS_TWIN_H
#define VL_TESTS_TWIN_H

#include "plugins/common/cuda/arena.h"
#include "plugins/qwen35/cuda/shape.h"

typedef struct twin {
    vl_cuda c;
    vl_q35_shape s;
    vl_kernel k[VL_N_KERNELS];
} twin;

/* False: there is no GPU here (*why tells). Fails the test program on anything else. */
bool twin_open(twin *t, const vl_q35_shape *s, char *why, size_t cap);
void twin_close(twin *t);

/* A buffer on both sides. bf16 or f32 elements; the host keeps the values as float. */
typedef struct tbuf {
    void *d;
    float *h; /* [n] */
    size_t n;
    bool bf16;
} tbuf;

tbuf tbuf_make(size_t n, bool bf16, float scale,
               uint64_t seed);         /* normal, times scale; rounded to its type */
tbuf tbuf_poison(size_t n, bool bf16); /* NaN on the device */
void tbuf_put(tbuf *b);                /* host to device */
void tbuf_get(tbuf *b);                /* device to host */
void tbuf_free(tbuf *b);
int *int_put(const int *h, size_t n); /* device copy; cudaFree */

void twin_launch(twin *t, int which, uint32_t x, uint32_t y, uint32_t z, void **args);
void twin_sync(twin *t);

/* Relative RMS of got against want over n; fails above limit or on anything not finite. Prints one
 * line. */
void twin_compare(const char *what, const float *got, const double *want, size_t n, double limit);

double twin_silu(double x);
double twin_sigmoid(double x);
double twin_softplus(double x);
uint64_t twin_random(uint64_t *state);

#endif
