/* kernel.twins: the kernels against plain loops in double precision, written from the model's
 * definition. 77 without a GPU. Argument "few": few sizes, for tools that make kernels slow. */
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

static const vl_q35_shape SHAPE = {256, 640, 3, 1, 8, 2, 2, 6, 4096, 4000, 16, 64, 1e-6f, false};
static const int SIZES[] = {1, 65, 15, 2, 63, 64, 130, 300};
enum { ALL_SIZES = sizeof(SIZES) / sizeof(SIZES[0]), FEW_SIZES = 2 };
static int n_sizes = ALL_SIZES;
static twin T;
static char what[96];

static double *doubles(size_t n)
{
    double *d = calloc(n, sizeof(*d));
    assert_non_null(d);
    return d;
}

/* y = x w^T for b rows; gate/up pairs or a residual by mode (see thin_matmul.cu). */
static void matmul_case(int mm, int rows, int b)
{
    int64_t n, k;
    vl_q35_mm_size(&T.s, mm, &n, &k);
    const bool swiglu = mm == VL_MM_GATE_UP,
               add = mm == VL_MM_OUT_LINEAR || mm == VL_MM_OUT_FULL || mm == VL_MM_DOWN;
    const bool norm =
        mm == VL_MM_IN_LINEAR || mm == VL_MM_IN_FULL || mm == VL_MM_GATE_UP || mm == VL_MM_HEAD;
    const size_t n_out = (size_t)(swiglu ? n / 2 : n);
    tbuf w = tbuf_make((size_t)(n * k), true, 1.0f / sqrtf((float)k), 1),
         x = tbuf_make((size_t)(b * k), true, 1, 2);
    /* x stands for residual times weights; the squares are those of a residual that the test makes
     * up. */
    tbuf ss = tbuf_make((size_t)(b * k / 8), false, 1, 7), nw = tbuf_make((size_t)n, false, 1, 8);
    tbuf xn = tbuf_poison((size_t)(b * n), true), ss_out = tbuf_poison((size_t)(b * n / 8), false);
    for (size_t i = 0; i < ss.n; i++)
        ss.h[i] *= ss.h[i];
    tbuf_put(&ss);
    tbuf y = add ? tbuf_make(n_out * (size_t)b, false, 1, 3)
                 : tbuf_poison(n_out * (size_t)b, mm != VL_MM_HEAD);
    double *want = doubles(n_out * (size_t)b);
    for (int r = 0; r < b; r++) {
        double sum = 0;
        for (int64_t i = 0; i < k / 8; i++)
            sum += (double)ss.h[r * k / 8 + i];
        const double f = norm ? 1 / sqrt(sum / (double)k + 1e-6) : 1;
        for (size_t o = 0; o < n_out; o++) {
            double v[2] = {0, 0};
            for (int u = 0; u < (swiglu ? 2 : 1); u++) {
                size_t row = swiglu ? o / 8 * 16 + o % 8 + 8 * (size_t)u : o;
                for (int64_t i = 0; i < k; i++)
                    v[u] += (double)w.h[row * (size_t)k + (size_t)i] * (double)x.h[r * k + i] * f;
            }
            want[(size_t)r * n_out + o] =
                swiglu ? twin_silu(v[0]) * v[1]
                       : v[0] + (add ? (double)y.h[(size_t)r * n_out + o] : 0);
        }
    }
    void *none = NULL;
    int which = (rows == 8 ? VL_K_THIN8 : VL_K_THIN16) + mm;
    int64_t cols = vl_q35_thin_columns(&T.s, mm, rows);
    twin_launch(&T, which, (uint32_t)((n + cols - 1) / cols), 1, 1,
                (void *[]){&w.d, &x.d, norm ? &ss.d : &none, &y.d, &nw.d, &xn.d, &ss_out.d, &b});
    twin_sync(&T);
    tbuf_get(&y);
    (void)snprintf(what, sizeof(what), "thin_matmul %d, %d of %d rows", mm, b, rows);
    twin_compare(what, y.h, want, n_out * (size_t)b, 4e-3);
    if (add) { /* what is left for the next norm */
        double *squares = doubles(ss_out.n);
        tbuf_get(&xn);
        tbuf_get(&ss_out);
        for (size_t i = 0; i < n_out * (size_t)b; i++) {
            squares[i / 8] += want[i] * want[i];
            want[i] *= (double)nw.h[i % n_out];
        }
        twin_compare("... and its norm's numerator", xn.h, want, xn.n, 4e-3);
        twin_compare("... and its squares", ss_out.h, squares, ss_out.n, 1e-4);
        free(squares);
    }
    free(want);
    tbuf_free(&w);
    tbuf_free(&x);
    tbuf_free(&nw), tbuf_free(&ss), tbuf_free(&xn), tbuf_free(&ss_out);
    tbuf_free(&y);
}

static void test_thin_matmul_rows_match(void **state)
{
    (void)state;
    for (int mm = 0; mm < VL_N_MM; mm++) {
        matmul_case(mm, 8, 1);
        matmul_case(mm, 8, 7);
        matmul_case(mm, 16, 9);
        matmul_case(mm, 16, 16);
    }
}

static void test_rms_norm_sizes_match(void **state)
{
    (void)state;
    const int h = (int)T.s.hidden;
    for (int i = 0; i < n_sizes; i++) {
        int n = SIZES[i];
        tbuf x = tbuf_make((size_t)(n * h), false, 3, 4), w = tbuf_make((size_t)h, false, 1, 5);
        tbuf y = tbuf_poison((size_t)(n * h), true);
        double *want = doubles((size_t)(n * h));
        for (int t = 0; t < n; t++) {
            double s = 0;
            for (int k = 0; k < h; k++)
                s += (double)x.h[t * h + k] * (double)x.h[t * h + k];
            for (int k = 0; k < h; k++)
                want[t * h + k] = (double)x.h[t * h + k] / sqrt(s / h + 1e-6) * (double)w.h[k];
        }
        twin_launch(&T, VL_K_RMS_NORM, (uint32_t)n, 1, 1, (void *[]){&x.d, &w.d, &y.d});
        twin_sync(&T);
        tbuf_get(&y);
        (void)snprintf(what, sizeof(what), "rms_norm, %d", n);
        twin_compare(what, y.h, want, (size_t)(n * h), 3e-3);
        free(want);
        tbuf_free(&x), tbuf_free(&w), tbuf_free(&y);
    }
}

static void test_swiglu_sizes_match(void **state)
{
    (void)state;
    const int m = (int)T.s.inner;
    for (int i = 0; i < n_sizes; i++) {
        int n = SIZES[i];
        tbuf gu = tbuf_make((size_t)(n * 2 * m), true, 2, 6),
             y = tbuf_poison((size_t)(n * m), true);
        double *want = doubles((size_t)(n * m));
        for (int t = 0; t < n; t++)
            for (int k = 0; k < m; k++)
                want[t * m + k] = twin_silu((double)gu.h[t * 2 * m + k / 8 * 16 + k % 8]) *
                                  (double)gu.h[t * 2 * m + k / 8 * 16 + k % 8 + 8];
        twin_launch(&T, VL_K_SWIGLU, (uint32_t)((m / 8 + 255) / 256), (uint32_t)n, 1,
                    (void *[]){&gu.d, &y.d});
        twin_sync(&T);
        tbuf_get(&y);
        (void)snprintf(what, sizeof(what), "swiglu, %d", n);
        twin_compare(what, y.h, want, (size_t)(n * m), 3e-3);
        free(want);
        tbuf_free(&gu), tbuf_free(&y);
    }
}

/* ---- linear attention ---- */

struct delta {
    int n, pos0;
    tbuf p, conv, neg_a, dt, norm, state, ring; /* inputs; state and ring are also outputs */
    double *o, *gated, *s_end;                  /* wanted: [n][hv][128] twice, [hv][128][128] */
};

/* The token recurrence of the model's definition, in double, from the same bf16 projections. */
static void delta_reference(struct delta *d)
{
    const int hk = (int)T.s.hk, hv = (int)T.s.hv, r = hv / hk, stride = (int)vl_q35_in_linear(&T.s),
              cd = (int)vl_q35_cd(&T.s);
    double *c = doubles((size_t)cd);
    for (size_t i = 0; i < d->state.n; i++)
        d->s_end[i] = d->pos0 > 0 ? (double)d->state.h[i] : 0;
    for (int t = 0; t < d->n; t++) {
        const float *p = d->p.h + (size_t)t * (size_t)stride;
        for (int ch = 0; ch < cd; ch++) {
            double v = 0;
            for (int j = 0; j < 4; j++) {
                int tt = t - 3 + j, pos = d->pos0 + tt;
                double m = tt >= 0    ? (double)d->p.h[(size_t)tt * (size_t)stride + (size_t)ch]
                           : pos >= 0 ? (double)d->ring.h[(pos & 3) * cd + ch]
                                      : 0;
                v += (double)d->conv.h[ch * 4 + j] * m;
            }
            c[ch] = twin_silu(v);
        }
        for (int h = 0; h < hv; h++) {
            const double *q = c + h / r * 128, *k = c + (hk + h / r) * 128,
                         *v = c + (2 * hk + h) * 128;
            double qq = 1e-6, kk = 1e-6, ss = 0, *s = d->s_end + (size_t)h * 16384,
                   *o = d->o + ((size_t)t * (size_t)hv + (size_t)h) * 128;
            for (int i = 0; i < 128; i++)
                qq += q[i] * q[i], kk += k[i] * k[i];
            const double beta = twin_sigmoid((double)p[cd + hv * 128 + h]);
            const double decay =
                exp((double)d->neg_a.h[h] *
                    twin_softplus((double)p[cd + hv * 129 + h] + (double)d->dt.h[h]));
            for (int j = 0; j < 128; j++) {
                double e = 0, out = 0;
                for (int i = 0; i < 128; i++) {
                    s[i * 128 + j] *= decay;
                    e += s[i * 128 + j] * k[i] / sqrt(kk);
                }
                const double u = beta * (v[j] - e);
                for (int i = 0; i < 128; i++) {
                    s[i * 128 + j] += k[i] / sqrt(kk) * u;
                    out += s[i * 128 + j] * q[i] / sqrt(qq) / sqrt(128.0);
                }
                o[j] = out;
                ss += out * out;
            }
            for (int j = 0; j < 128; j++)
                d->gated[((size_t)t * (size_t)hv + (size_t)h) * 128 + (size_t)j] =
                    o[j] / sqrt(ss / 128 + 1e-6) * (double)d->norm.h[j] *
                    twin_silu((double)p[cd + h * 128 + j]);
        }
    }
    free(c);
}

static void delta_make(struct delta *d, int n, int pos0)
{
    const size_t hv = (size_t)T.s.hv, cd = (size_t)vl_q35_cd(&T.s),
                 stride = (size_t)vl_q35_in_linear(&T.s);
    d->n = n;
    d->pos0 = pos0;
    d->p = tbuf_make((size_t)n * stride, true, 1, 10);
    d->conv = tbuf_make(cd * 4, false, 0.5f, 11);
    d->neg_a = tbuf_make(hv, false, 1, 12);
    d->dt = tbuf_make(hv, false, 1, 13);
    d->norm = tbuf_make(128, false, 1, 14);
    d->state = tbuf_make(hv * 16384, false, 0.1f, 15);
    d->ring = tbuf_make(4 * cd, true, 1, 16);
    for (size_t i = 0; i < hv; i++)
        d->neg_a.h[i] = -expf(-4.6f + 7.3f * (float)i / (float)hv);
    tbuf_put(&d->neg_a);
    d->o = doubles((size_t)n * hv * 128);
    d->gated = doubles((size_t)n * hv * 128);
    d->s_end = doubles(hv * 16384);
    delta_reference(d);
}

static void delta_free(struct delta *d)
{
    tbuf *all[] = {&d->p, &d->conv, &d->neg_a, &d->dt, &d->norm, &d->state, &d->ring};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tbuf_free(all[i]);
    free(d->o), free(d->gated), free(d->s_end);
}

/* The ring must hold the last rows of p, by position. */
static void check_ring(struct delta *d)
{
    const int cd = (int)vl_q35_cd(&T.s), stride = (int)vl_q35_in_linear(&T.s);
    tbuf_get(&d->ring);
    for (int t = d->n > 3 ? d->n - 3 : 0; t < d->n; t++)
        for (int ch = 0; ch < cd; ch++)
            if (d->ring.h[((d->pos0 + t) & 3) * cd + ch] !=
                d->p.h[(size_t)t * (size_t)stride + (size_t)ch])
                fail_msg("ring: token %d channel %d", t, ch);
}

static void delta_prefill_case(int n, int pos0)
{
    struct delta d;
    delta_make(&d, n, pos0);
    const uint32_t hv = (uint32_t)T.s.hv;
    const size_t cd = (size_t)vl_q35_cd(&T.s);
    int skew = pos0 % 64, fresh = pos0 == 0;
    const uint32_t chunks = (uint32_t)((n + skew + 63) / 64);
    tbuf c = tbuf_poison((size_t)n * cd, true), g = tbuf_poison((size_t)n * hv, false),
         beta = tbuf_poison((size_t)n * hv, false);
    tbuf wu = tbuf_poison((size_t)chunks * hv * 16384, true),
         pm = tbuf_poison((size_t)chunks * hv * 4096, true);
    tbuf par = tbuf_poison((size_t)chunks * hv * 132, false),
         o = tbuf_poison((size_t)n * hv * 128, true);
    uint32_t heads = (uint32_t)(2 * T.s.hk + T.s.hv + 1);
    twin_launch(&T, VL_K_DELTA_CONV, (uint32_t)(n + 15) / 16, (heads + 7) / 8, 1,
                (void *[]){&d.p.d, &d.conv.d, &d.neg_a.d, &d.dt.d, &d.ring.d, &c.d, &g.d, &beta.d,
                           &n, &pos0});
    twin_launch(&T, VL_K_DELTA_PREP, chunks, hv, 1,
                (void *[]){&c.d, &g.d, &beta.d, &wu.d, &pm.d, &par.d, &n, &skew});
    twin_launch(&T, VL_K_DELTA_CHUNK, 4, hv, 1,
                (void *[]){&c.d, &wu.d, &pm.d, &par.d, &d.state.d, &d.p.d, &d.ring.d, &o.d, &n,
                           &skew, &pos0, &fresh});
    twin_sync(&T);
    tbuf_get(&o);
    tbuf_get(&d.state);
    (void)snprintf(what, sizeof(what), "delta prefill, %d from %d: o", n, pos0);
    twin_compare(what, o.h, d.o, o.n, 1e-2);
    (void)snprintf(what, sizeof(what), "delta prefill, %d from %d: state", n, pos0);
    twin_compare(what, d.state.h, d.s_end, d.state.n, 1e-2);
    check_ring(&d);
    /* The gated norm on top of it, in place. */
    char *z = (char *)d.p.d + cd * 2;
    twin_launch(&T, VL_K_GATED_LINEAR, (uint32_t)((n * (int)hv + 15) / 16), 1, 1,
                (void *[]){&o.d, &z, &d.norm.d, &o.d, &n});
    twin_sync(&T);
    tbuf_get(&o);
    (void)snprintf(what, sizeof(what), "delta prefill, %d from %d: gated", n, pos0);
    twin_compare(what, o.h, d.gated, o.n, 1.5e-2);
    tbuf *all[] = {&c, &g, &beta, &wu, &pm, &par, &o};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tbuf_free(all[i]);
    delta_free(&d);
}

static void test_delta_prefill_sizes_match(void **state)
{
    (void)state;
    for (int i = 0; i < n_sizes; i++) {
        delta_prefill_case(SIZES[i], 0);
        delta_prefill_case(SIZES[i], 64);
        delta_prefill_case(SIZES[i], 37);
        delta_prefill_case(SIZES[i], 2);
    }
}

static void delta_step_case(int n, int pos0)
{
    struct delta d;
    delta_make(&d, n, pos0);
    const size_t hv = (size_t)T.s.hv;
    /* Slot 1, layer 1 of a state with several of each. */
    const size_t layers = (size_t)T.s.n_linear, at = 1 * layers + 1;
    tbuf st = tbuf_make(2 * layers * hv * 16384, false, 1, 20),
         ring = tbuf_make(2 * layers * d.ring.n, true, 1, 21);
    memcpy(st.h + at * hv * 16384, d.state.h, d.state.n * 4);
    memcpy(ring.h + at * d.ring.n, d.ring.h, d.ring.n * 4);
    tbuf_put(&st);
    tbuf_put(&ring);
    float *before = malloc(st.n * 4);
    assert_non_null(before);
    memcpy(before, st.h, st.n * 4);
    tbuf o = tbuf_poison((size_t)n * hv * 128, true);
    int slot = 1, layer = 1, *slots = int_put(&slot, 1);
    for (int t = 0; t < n; t++) {
        int pos = pos0 + t, *poss = int_put(&pos, 1);
        char *p = (char *)d.p.d + (size_t)t * (size_t)vl_q35_in_linear(&T.s) * 2,
             *out = (char *)o.d + (size_t)t * hv * 256;
        twin_launch(&T, VL_K_DELTA_STEP, (uint32_t)hv, 1, 1,
                    (void *[]){&p, &d.conv.d, &d.neg_a.d, &d.dt.d, &d.norm.d, &slots, &poss, &st.d,
                               &ring.d, &out, &layer});
        twin_sync(&T);
        (void)cudaFree(poss);
    }
    tbuf_get(&o);
    tbuf_get(&st);
    tbuf_get(&ring);
    (void)snprintf(what, sizeof(what), "delta_step, %d from %d: out", n, pos0);
    twin_compare(what, o.h, d.gated, o.n, 4e-3);
    (void)snprintf(what, sizeof(what), "delta_step, %d from %d: state", n, pos0);
    twin_compare(what, st.h + at * hv * 16384, d.s_end, d.state.n, 2e-5);
    for (size_t i = 0; i < st.n; i++) /* other slots and layers are untouched */
        if (i / (hv * 16384) != at && st.h[i] != before[i])
            fail_msg("delta_step wrote state %zu", i);
    (void)cudaMemcpy(d.ring.d, (char *)ring.d + at * d.ring.n * 2, d.ring.n * 2,
                     cudaMemcpyDeviceToDevice);
    check_ring(&d);
    free(before);
    (void)cudaFree(slots);
    tbuf_free(&st), tbuf_free(&ring), tbuf_free(&o);
    delta_free(&d);
}

static void test_delta_step_sizes_match(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        delta_step_case(SIZES[i], 0);
        delta_step_case(SIZES[i], 5);
    }
}

/* ---- full attention ---- */

struct attention {
    int n, pos0, total;
    tbuf p, qw, kw, rope, q, kv;
    int *table, *tok_slot, *tok_pos; /* device */
    int host_table[64];
    double *qr, *kr, *vr, *want; /* [total][heads][256] normed and rotated (queries of the new
                                    tokens); wanted [n][nq][256] */
};

static void head_norm_rope(const float *in, const float *w, int pos, double *out)
{
    double s = 0;
    for (int i = 0; i < 256; i++)
        s += (double)in[i] * (double)in[i];
    for (int i = 0; i < 256; i++)
        out[i] = (double)in[i] / sqrt(s / 256 + 1e-6) * (double)w[i];
    for (int i = 0; i < 32; i++) {
        const double a = out[i], b = out[i + 32], angle = pos * pow(1e7, -2.0 * i / 64);
        out[i] = a * cos(angle) - b * sin(angle);
        out[i + 32] = b * cos(angle) + a * sin(angle);
    }
}

static void attention_make(struct attention *a, int n, int pos0)
{
    const size_t nq = (size_t)T.s.nq, nkv = (size_t)T.s.nkv, stride = (size_t)vl_q35_in_full(&T.s);
    a->n = n;
    a->pos0 = pos0;
    a->total = pos0 + n;
    a->p = tbuf_make((size_t)a->total * stride, true, 1,
                     30); /* of all positions: the old ones are put in first */
    a->qw = tbuf_make(256, false, 1, 31);
    a->kw = tbuf_make(256, false, 1, 32);
    a->rope = tbuf_make((size_t)T.s.max_pages * 64 * 64, false, 0, 0);
    for (size_t pos = 0; pos < (size_t)T.s.max_pages * 64; pos++)
        for (size_t i = 0; i < 32; i++) {
            a->rope.h[pos * 64 + 2 * i] = (float)cos((double)pos * pow(1e7, -2.0 * (double)i / 64));
            a->rope.h[pos * 64 + 2 * i + 1] =
                (float)sin((double)pos * pow(1e7, -2.0 * (double)i / 64));
        }
    tbuf_put(&a->rope);
    a->q = tbuf_poison((size_t)a->total * nq * 256, true);
    a->kv = tbuf_poison((size_t)T.s.max_pages * (size_t)vl_q35_page_bytes(&T.s) / 2, true);
    int tables[2 * 64], *slot = calloc((size_t)a->total, sizeof(int)),
                        *pos = calloc((size_t)a->total, sizeof(int));
    assert_true(slot != NULL && pos != NULL);
    for (int i = 0; i < 64; i++)
        tables[i] = 0,
        tables[64 + i] = a->host_table[i] = (i * 37 + 5) % 64; /* pages in no order; slot 1 */
    for (int i = 0; i < a->total; i++)
        slot[i] = 1, pos[i] = i;
    a->table = int_put(tables, 128);
    a->tok_slot = int_put(slot, (size_t)a->total);
    a->tok_pos = int_put(pos, (size_t)a->total);
    free(slot), free(pos);
    a->qr = doubles((size_t)a->total * nq * 256);
    a->kr = doubles((size_t)a->total * nkv * 256);
    a->vr = doubles((size_t)a->total * nkv * 256);
    for (size_t t = 0; t < (size_t)a->total; t++) {
        const float *p = a->p.h + t * stride;
        for (size_t h = 0; h < nq; h++)
            head_norm_rope(p + 512 * h, a->qw.h, (int)t, a->qr + (t * nq + h) * 256);
        for (size_t h = 0; h < nkv; h++) {
            head_norm_rope(p + 512 * nq + 256 * h, a->kw.h, (int)t, a->kr + (t * nkv + h) * 256);
            for (size_t i = 0; i < 256; i++)
                a->vr[(t * nkv + h) * 256 + i] = (double)p[512 * nq + 256 * (nkv + h) + i];
        }
    }
    a->want = doubles((size_t)n * nq * 256);
    double *s = doubles((size_t)a->total);
    for (size_t t = 0; t < (size_t)n; t++)
        for (size_t h = 0; h < nq; h++) {
            const size_t at = (size_t)pos0 + t, kh = h / (nq / nkv);
            double top = -1e300, sum = 0, *o = a->want + (t * nq + h) * 256;
            for (size_t j = 0; j <= at; j++) {
                s[j] = 0;
                for (size_t i = 0; i < 256; i++)
                    s[j] += a->qr[(at * nq + h) * 256 + i] * a->kr[(j * nkv + kh) * 256 + i] / 16;
                top = s[j] > top ? s[j] : top;
            }
            for (size_t j = 0; j <= at; j++) {
                sum += s[j] = exp(s[j] - top);
                for (size_t i = 0; i < 256; i++)
                    o[i] += s[j] * a->vr[(j * nkv + kh) * 256 + i];
            }
            for (size_t i = 0; i < 256; i++)
                o[i] = o[i] / sum * twin_sigmoid((double)a->p.h[at * stride + 512 * h + 256 + i]);
        }
    free(s);
    int layer = 0;
    twin_launch(&T, VL_K_QK_ROPE, (uint32_t)a->total, (uint32_t)(nq + 2 * nkv + 7) / 8, 1,
                (void *[]){&a->p.d, &a->qw.d, &a->kw.d, &a->rope.d, &a->tok_slot, &a->tok_pos,
                           &a->table, &a->q.d, &a->kv.d, &layer});
    twin_sync(&T);
}

static void attention_free(struct attention *a)
{
    tbuf *all[] = {&a->p, &a->qw, &a->kw, &a->rope, &a->q, &a->kv};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tbuf_free(all[i]);
    (void)cudaFree(a->table), (void)cudaFree(a->tok_slot), (void)cudaFree(a->tok_pos);
    free(a->qr), free(a->kr), free(a->vr), free(a->want);
}

static void attention_case(int n, int pos0)
{
    struct attention a;
    const size_t nq = (size_t)T.s.nq, nkv = (size_t)T.s.nkv, stride = (size_t)vl_q35_in_full(&T.s);
    attention_make(&a, n, pos0);
    tbuf_get(&a.q);
    (void)snprintf(what, sizeof(what), "qk_rope, %d: q", a.total);
    twin_compare(what, a.q.h, a.qr, a.q.n, 4e-3);
    tbuf_get(&a.kv);
    float *k = malloc((size_t)a.total * nkv * 256 * 4);
    assert_non_null(k);
    for (size_t t = 0; t < (size_t)a.total; t++)
        for (size_t h = 0; h < nkv; h++)
            memcpy(k + (t * nkv + h) * 256,
                   a.kv.h + (size_t)a.host_table[t / 64] * (size_t)vl_q35_page_bytes(&T.s) / 2 +
                       (h * 64 + t % 64) * 256,
                   1024);
    (void)snprintf(what, sizeof(what), "qk_rope, %d: k in pages", a.total);
    twin_compare(what, k, a.kr, (size_t)a.total * nkv * 256, 4e-3);
    free(k);
    int layer = 0;
    tbuf o = tbuf_poison((size_t)n * nq * 256, true);
    char *q = (char *)a.q.d + (size_t)pos0 * nq * 512,
         *p = (char *)a.p.d + (size_t)pos0 * stride * 2;
    int *table = a.table + 64;
    const uint32_t rows = T.k[VL_K_ATTN_PREFILL].block / 2;
    int one = 1, by_length = 0;
    tbuf part = tbuf_poison((size_t)n * nq * VL_Q35_SPLITS * 256, false),
         ml = tbuf_poison((size_t)n * nq * VL_Q35_SPLITS * 2, false);
    for (int splits = one; splits <= 7;
         splits += 2) { /* 1, and more than there are pages sometimes */
        twin_launch(
            &T, VL_K_ATTN_PREFILL, ((uint32_t)n + rows - 1) / rows, (uint32_t)nq, (uint32_t)splits,
            (void *[]){&q, &a.kv.d, &table, &p, &o.d, &part.d, &ml.d, &n, &pos0, &layer, &splits});
        int *slot = a.tok_slot + pos0, *pos = a.tok_pos + pos0;
        if (splits > 1)
            twin_launch(&T, VL_K_ATTN_COMBINE, (uint32_t)nq, (uint32_t)n, 1,
                        (void *[]){&part.d, &ml.d, &slot, &pos, &p, &o.d, &splits});
        twin_sync(&T);
        tbuf_get(&o);
        (void)snprintf(what, sizeof(what), "attn_prefill, %d from %d in %d", n, pos0, splits);
        twin_compare(what, o.h, a.want, o.n, 8e-3);
    }
    /* The same by decode, for up to 16 of the tokens as rows. */
    int rows_d = n < 16 ? n : 16, first = n - rows_d;
    q += (size_t)first * nq * 512;
    p += (size_t)first * stride * 2;
    int *slot = a.tok_slot + pos0 + first, *pos = a.tok_pos + pos0 + first;
    twin_launch(&T, VL_K_ATTN_DECODE, VL_Q35_SPLITS, (uint32_t)nkv, (uint32_t)rows_d,
                (void *[]){&q, &a.kv.d, &slot, &pos, &a.table, &part.d, &ml.d, &layer});
    twin_launch(&T, VL_K_ATTN_COMBINE, (uint32_t)nq, (uint32_t)rows_d, 1,
                (void *[]){&part.d, &ml.d, &slot, &pos, &p, &o.d, &by_length});
    twin_sync(&T);
    tbuf_get(&o);
    (void)snprintf(what, sizeof(what), "attn_decode, last %d of %d", rows_d, a.total);
    twin_compare(what, o.h, a.want + (size_t)first * nq * 256, (size_t)rows_d * nq * 256, 8e-3);
    tbuf_free(&o), tbuf_free(&part), tbuf_free(&ml);
    attention_free(&a);
}

static void test_attention_sizes_match(void **state)
{
    (void)state;
    for (int i = 0; i < n_sizes; i++) {
        attention_case(SIZES[i], 0);
        attention_case(SIZES[i], 129);
    }
    attention_case(5, 1000);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "few") == 0)
        n_sizes = FEW_SIZES;
    char why[512];
    if (!twin_open(&T, &SHAPE, why, sizeof(why))) {
        print_message("skipped: %s\n", why);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thin_matmul_rows_match),
        cmocka_unit_test(test_rms_norm_sizes_match),
        cmocka_unit_test(test_swiglu_sizes_match),
        cmocka_unit_test(test_delta_prefill_sizes_match),
        cmocka_unit_test(test_delta_step_sizes_match),
        cmocka_unit_test(test_attention_sizes_match),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    twin_close(&T);
    return rc;
}
