/* tests/kernels/twin.c: see twin.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include <cmocka.h>

#include "tests/kernels/twin.h"

static void must(vl_status s, const vl_error *e)
{
    if (s != VL_OK)
        fail_msg("%s", e->text);
}
static void must_cuda(cudaError_t e)
{
    if (e != cudaSuccess)
        fail_msg("CUDA: %s", cudaGetErrorString(e));
}

bool twin_open(twin *t, const vl_q35_shape *s, char *why, size_t cap)
{
    vl_error err = {0};
    memset(t, 0, sizeof(*t));
    vl_status rc = vl_cuda_init(&t->c, 0, &err);
    if (rc == VL_E_NOT_FOUND || rc == VL_E_UNSUPPORTED) {
        (void)snprintf(why, cap, "%s", err.text);
        return false;
    }
    must(rc, &err);
    t->s = *s;
    vl_q35_kernels(s, t->c.cc, t->c.shared_block_bytes, t->k);
    must(vl_kernels_build(&t->c, t->k, VL_N_KERNELS, vl_q35_sources, NULL, NULL, NULL, &err), &err);
    return true;
}

void twin_close(twin *t)
{
    vl_kernels_fini(&t->c, t->k, VL_N_KERNELS);
    vl_cuda_fini(&t->c);
}

uint64_t twin_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static float normal(uint64_t *state)
{
    double u = ((double)(twin_random(state) >> 11) + 0.5) * 0x1p-53,
           v = (double)(twin_random(state) >> 11) * 0x1p-53;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

static uint16_t to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}
static float from_bf16(uint16_t b)
{
    uint32_t u = (uint32_t)b << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static tbuf make(size_t n, bool bf16)
{
    tbuf b = {.n = n, .bf16 = bf16, .h = calloc(n, sizeof(float))};
    assert_non_null(b.h);
    must_cuda(cudaMalloc(&b.d, n * (bf16 ? 2 : 4)));
    return b;
}

void tbuf_put(tbuf *b)
{
    if (!b->bf16) {
        must_cuda(cudaMemcpy(b->d, b->h, b->n * 4, cudaMemcpyHostToDevice));
        must_cuda(cudaDeviceSynchronize());
        return;
    }
    uint16_t *t = malloc(b->n * 2);
    assert_non_null(t);
    for (size_t i = 0; i < b->n; i++) {
        t[i] = to_bf16(b->h[i]);
        b->h[i] = from_bf16(t[i]);
    }
    must_cuda(cudaMemcpy(b->d, t, b->n * 2, cudaMemcpyHostToDevice));
    must_cuda(cudaDeviceSynchronize());
    free(t);
}

void tbuf_get(tbuf *b)
{
    if (!b->bf16) {
        must_cuda(cudaMemcpy(b->h, b->d, b->n * 4, cudaMemcpyDeviceToHost));
        return;
    }
    uint16_t *t = malloc(b->n * 2);
    assert_non_null(t);
    must_cuda(cudaMemcpy(t, b->d, b->n * 2, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < b->n; i++)
        b->h[i] = from_bf16(t[i]);
    free(t);
}

tbuf tbuf_make(size_t n, bool bf16, float scale, uint64_t seed)
{
    tbuf b = make(n, bf16);
    for (size_t i = 0; i < n; i++)
        b.h[i] = normal(&seed) * scale;
    tbuf_put(&b);
    return b;
}

tbuf tbuf_poison(size_t n, bool bf16)
{
    tbuf b = make(n, bf16);
    /* Kernels run on a stream of their own, which waits for nothing that the default stream still
     * does. */
    must_cuda(cudaMemset(b.d, 0xff, n * (bf16 ? 2 : 4)));
    must_cuda(cudaDeviceSynchronize());
    return b;
}

void tbuf_free(tbuf *b)
{
    (void)cudaFree(b->d);
    free(b->h);
    memset(b, 0, sizeof(*b));
}

int *int_put(const int *h, size_t n)
{
    void *d = NULL;
    must_cuda(cudaMalloc(&d, n * sizeof(int)));
    must_cuda(cudaMemcpy(d, h, n * sizeof(int), cudaMemcpyHostToDevice));
    must_cuda(cudaDeviceSynchronize());
    return d;
}

void twin_launch(twin *t, int which, uint32_t x, uint32_t y, uint32_t z, void **args)
{
    vl_error err = {0};
    must(vl_kernel_launch(&t->c, &t->k[which], x, y, z, args, &err), &err);
}

void twin_sync(twin *t)
{
    must_cuda(cudaStreamSynchronize(t->c.stream));
}

void twin_compare(const char *what, const float *got, const double *want, size_t n, double limit)
{
    double d2 = 0, w2 = 0, most = 0;
    size_t bad = n, worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        if (!isfinite(d) && bad == n)
            bad = i;
        d2 += d * d;
        w2 += want[i] * want[i];
        if (fabs(d) > most) {
            most = fabs(d);
            worst = i;
        }
    }
    double rel = sqrt(d2 / (w2 > 0 ? w2 : 1));
    print_message("%-44s relative RMS %.2e (limit %.0e), max abs %.2e at %zu (want %g)\n", what,
                  rel, limit, most, worst, want[worst]);
    if (bad < n)
        fail_msg("%s: not finite at %zu of %zu", what, bad, n);
    if (!(rel <= limit))
        fail_msg("%s: relative RMS %g above %g", what, rel, limit);
}

double twin_silu(double x)
{
    return x / (1 + exp(-x));
}
double twin_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
double twin_softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}
