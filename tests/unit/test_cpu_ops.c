/* test_cpu_ops.c: the small operations of every form against their definitions in double. */
#include <math.h>

#include "plugins/common/cpu/ops.h"
#include "tests/unit/cpu_util.h"

static const size_t lengths[] = {1, 7, 8, 15, 16, 17, 33, 63, 128, 300};
#define N_LENGTHS (sizeof(lengths) / sizeof(*lengths))

static void test_exp_whole_range_within_bound(void **state)
{
    enum { N = 200003 };
    float *x = malloc(N * sizeof(float)), *y = malloc(N * sizeof(float));

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = -87.0f + 175.0f * (float)i / (N - 1);
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 1, 1, 0, 0);
        if (!cpu)
            continue;
        double worst = 0;
        vl_cpu_exp(cpu, x, y, N);
        for (int i = 0; i < N; i++) {
            double want = exp((double)x[i]), d = fabs((double)y[i] - want) / want;
            worst = d > worst ? d : worst;
        }
        print_message("exp %s: max relative error %.3g\n", vl_cpu_form_name(form), worst);
        assert_true(worst <= 3e-7);
        vl_cpu_destroy(cpu);
    }
    free(x);
    free(y);
}

static void test_activations_edges_match_libm(void **state)
{
    static const float edges[] = {0,      -0.0f, 1,    -1,    20,        20.5f,    88.5f, 89,   200,
                                  -87.5f, -104,  -200, 1e30f, -INFINITY, INFINITY, NAN,   1e-9f};
    enum { N = sizeof(edges) / sizeof(*edges) };
    float y[N];

    (void)state;
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 1, 1, 0, 0);
        if (!cpu)
            continue;
        for (int op = 0; op < 4; op++) {
            if (op == 0)
                vl_cpu_exp(cpu, edges, y, N);
            else if (op == 1)
                vl_cpu_sigmoid(cpu, edges, y, N);
            else if (op == 2)
                vl_cpu_silu(cpu, edges, y, N);
            else
                vl_cpu_softplus(cpu, edges, y, N);
            for (int i = 0; i < N; i++) {
                float x = edges[i];
                float e = expf(-x);
                float want = op == 0   ? expf(x)
                             : op == 1 ? 1 / (1 + e)
                             : op == 2 ? x / (1 + e)
                             : x > 20  ? x
                                       : log1pf(expf(x));
                bool same = isnan(want) ? isnan(y[i])
                                        : y[i] == want ||
                                              fabsf(y[i] - want) <= 5e-7f * fabsf(want) + 2e-38f;
                if (!same)
                    fail_msg("%s op %d of %g: %g, want %g", vl_cpu_form_name(form), op, (double)x,
                             (double)y[i], (double)want);
            }
        }
        vl_cpu_destroy(cpu);
    }
}

static double sigmoid_of(double x)
{
    return 1 / (1 + exp(-x));
}

static void check_norms(const vl_cpu *cpu, size_t n)
{
    enum { ROWS = 3 };
    size_t ld = n + 5;
    float x[ROWS * 305], z[ROWS * 305], w[300], y[ROWS * 305], want[ROWS * 305];

    test_fill(x, ROWS * ld, 3, n);
    test_fill(z, ROWS * ld, 4, n + 1);
    test_fill(w, n, 1, n + 2);
    for (int op = 0; op < 4; op++) {
        test_fill(y, ROWS * ld, 9, 1);
        memcpy(want, y, sizeof(want));
        for (size_t r = 0; r < ROWS; r++) {
            double sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += (double)x[r * ld + i] * (double)x[r * ld + i];
            double s = 1 / sqrt((op == 3 ? sum : sum / (double)n) + 1e-6);
            for (size_t i = 0; i < n; i++) {
                double v = (double)x[r * ld + i] * s, wi = (double)w[i], zi = (double)z[r * ld + i];
                want[r * ld + i] = (float)(op == 0   ? v * (1 + wi)
                                           : op == 1 ? v * wi
                                           : op == 2 ? v * wi * zi * sigmoid_of(zi)
                                                     : 0.25 * v);
            }
        }
        if (op < 2)
            vl_cpu_rmsnorm(cpu, x, ld, w, op == 0 ? 1 : 0, 1e-6f, y, ld, ROWS, n);
        else if (op == 2)
            vl_cpu_rmsnorm_gated(cpu, x, ld, z, ld, w, 1e-6f, y, ld, ROWS, n);
        else
            vl_cpu_l2norm(cpu, x, ld, 1e-6f, 0.25f, y, ld, ROWS, n);
        test_close("norm", y, want, ROWS * ld, 1e-6f, 2e-6f);
    }
}

static void check_elementwise(const vl_cpu *cpu, size_t n)
{
    float x[300], z[300], y[301], want[301];

    test_fill(x, n, 6, n);
    test_fill(z, n, 6, n + 1);
    for (int op = 0; op < 8; op++) {
        test_fill(y, n + 1, 2, n + 2);
        for (size_t i = 0; i < n; i++) {
            double a = (double)x[i], b = (double)z[i], c = (double)y[i];
            want[i] = (float)(op == 0   ? a * sigmoid_of(a) * b
                              : op == 1 ? a * sigmoid_of(b)
                              : op == 2 ? c + a
                              : op == 3 ? c + 1.5 * a
                              : op == 4 ? 0.75 * c
                              : op == 5 ? a * sigmoid_of(a)
                              : op == 6 ? sigmoid_of(a)
                                        : (double)test_from_bf16(test_to_bf16(y[i])));
        }
        want[n] = y[n];
        switch (op) {
        case 0:
            vl_cpu_swiglu(cpu, x, z, y, n);
            break;
        case 1:
            vl_cpu_mul_sigmoid(cpu, x, z, y, n);
            break;
        case 2:
            vl_cpu_add(cpu, x, y, n);
            break;
        case 3:
            vl_cpu_axpy(cpu, 1.5f, x, y, n);
            break;
        case 4:
            vl_cpu_scale(cpu, 0.75f, y, n);
            break;
        case 5:
            vl_cpu_silu(cpu, x, y, n);
            break;
        case 6:
            vl_cpu_sigmoid(cpu, x, y, n);
            break;
        default:
            vl_cpu_round_bf16(cpu, y, n);
            break;
        }
        test_close("elementwise", y, want, n + 1, 1e-7f, 1e-6f);
    }
    double dot = 0, size = 0;
    float max = x[0];
    for (size_t i = 0; i < n; i++) {
        dot += (double)x[i] * (double)z[i];
        size += fabs((double)x[i] * (double)z[i]);
        max = x[i] > max ? x[i] : max;
    }
    assert_true(fabs((double)vl_cpu_dot(cpu, x, z, n) - dot) <= 1e-6 * size);
    assert_true(vl_cpu_max(cpu, x, n) == max);
    x[n / 2] = NAN;
    assert_true(isnan(vl_cpu_max(cpu, x, n)));
}

static void check_conv(const vl_cpu *cpu, size_t n)
{
    enum { TAPS = 4, ROWS = 5 };
    size_t x_ld = n + 3;
    float x[(ROWS + TAPS - 1) * 303], w[TAPS * 300], y[ROWS * 300], want[ROWS * 300];

    test_fill(x, (ROWS + TAPS - 1) * x_ld, 2, n);
    test_fill(w, TAPS * n, 1, n + 1);
    for (size_t t = 0; t < ROWS; t++)
        for (size_t c = 0; c < n; c++) {
            double s = 0;
            for (size_t j = 0; j < TAPS; j++)
                s += (double)w[j * n + c] * (double)x[(t + j) * x_ld + c];
            want[t * n + c] = (float)(s * sigmoid_of(s));
        }
    vl_cpu_conv_silu(cpu, x, x_ld, w, TAPS, y, n, ROWS, n);
    test_close("conv", y, want, ROWS * n, 1e-6f, 1e-5f);
}

static void test_ops_all_lengths_match_definition(void **state)
{
    (void)state;
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 1, 1, 0, 0);
        for (size_t i = 0; cpu && i < N_LENGTHS; i++) {
            check_norms(cpu, lengths[i]);
            check_elementwise(cpu, lengths[i]);
            check_conv(cpu, lengths[i]);
        }
        vl_cpu_destroy(cpu);
    }
}

static void check_delta(const vl_cpu *cpu, size_t dk, size_t dv)
{
    float *s = malloc(dk * dv * sizeof(float)), *s_want = malloc(dk * dv * sizeof(float));
    double *sd = malloc(dk * dv * sizeof(double));
    float k[128], q[128], v[256], o[256], want[256];

    test_fill(s, dk * dv, 1, 3);
    for (size_t i = 0; i < dk * dv; i++)
        sd[i] = (double)s[i];
    for (int step = 0; step < 20; step++) {
        double decay = 0.97 - 0.02 * step, beta = 0.1 + 0.04 * step;
        test_fill(k, dk, 1 / sqrtf((float)dk), 10 + (uint64_t)step);
        test_fill(q, dk, 1, 40 + (uint64_t)step);
        test_fill(v, dv, 1, 70 + (uint64_t)step);
        for (size_t j = 0; j < dv; j++) {
            double e = 0, r = 0;
            for (size_t i = 0; i < dk; i++)
                e += (sd[i * dv + j] *= (double)(float)decay) * (double)k[i];
            for (size_t i = 0; i < dk; i++) {
                sd[i * dv + j] += (double)k[i] * (double)(float)beta * ((double)v[j] - e);
                r += sd[i * dv + j] * (double)q[i];
            }
            want[j] = (float)r;
        }
        vl_cpu_delta_step(cpu, s, dk, dv, (float)decay, (float)beta, k, v, q, o);
        test_close("delta o", o, want, dv, 2e-5f, 1e-5f);
    }
    for (size_t i = 0; i < dk * dv; i++)
        s_want[i] = (float)sd[i];
    test_close("delta s", s, s_want, dk * dv, 2e-6f, 1e-5f);
    free(s);
    free(s_want);
    free(sd);
}

static void test_delta_step_matches_recurrence(void **state)
{
    (void)state;
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 1, 1, 0, 0);
        if (!cpu)
            continue;
        check_delta(cpu, 128, 128);
        check_delta(cpu, 16, 16);
        check_delta(cpu, 31, 80);
        vl_cpu_destroy(cpu);
    }
}

static void test_rope_rotates_first_dims_only(void **state)
{
    static const size_t halves[] = {32, 4, 11};
    enum { HEADS = 3, LD = 256, POS = 5000 };

    (void)state;
    for (size_t n = 0; n < 3; n++) {
        size_t half = halves[n];
        float freq[32], x[HEADS * LD], was[HEADS * LD], want[HEADS * LD];
        float *c = calloc((POS + 1) * half, sizeof(float)),
              *s = calloc((POS + 1) * half, sizeof(float));
        for (size_t i = 0; i < half; i++)
            freq[i] = powf(1e7f, -(float)i / (float)half);
        vl_cpu_rope_table(freq, half, POS - 10, POS + 1, c, s);
        assert_true(c[(POS - 11) * half] == 0); /* only the rows asked for */
        test_fill(was, HEADS * LD, 1, n);
        memcpy(want, was, sizeof(want));
        for (size_t h = 0; h < HEADS; h++)
            for (size_t i = 0; i < half; i++) {
                double angle = (double)((float)POS * freq[i]);
                double a = (double)was[h * LD + i], b = (double)was[h * LD + i + half];
                want[h * LD + i] = (float)(a * cos(angle) - b * sin(angle));
                want[h * LD + i + half] = (float)(b * cos(angle) + a * sin(angle));
            }
        FOR_EACH_FORM(form)
        {
            vl_cpu *cpu = test_open(form, 1, 1, 0, 0);
            if (!cpu)
                continue;
            memcpy(x, was, sizeof(x));
            vl_cpu_rope(cpu, x, HEADS, LD, half, c + POS * half, s + POS * half);
            test_close("rope", x, want, HEADS * LD, 3e-7f, 1e-6f);
            vl_cpu_destroy(cpu);
        }
        free(c);
        free(s);
    }
}

static void test_to_f32_every_f16_and_bf16_exact(void **state)
{
    enum { N = 65536 };
    uint16_t *h = malloc(N * sizeof(*h));
    float *y = malloc(N * sizeof(*y));

    (void)state;
    for (uint32_t i = 0; i < N; i++)
        h[i] = (uint16_t)i;
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 1, 1, 0, 0);
        if (!cpu)
            continue;
        vl_cpu_to_f32(cpu, VL_DTYPE_F16, h, y, N);
        for (uint32_t i = 0; i < N; i++) {
            int e = (int)(i >> 10 & 31), m = (int)(i & 1023);
            double want = e == 31 ? (m ? NAN : INFINITY)
                          : e     ? ldexp(1024 + m, e - 25)
                                  : ldexp(m, -24);
            want = i & 0x8000 ? -want : want;
            assert_true(isnan(want) ? isnan(y[i]) : (double)y[i] == want);
        }
        vl_cpu_to_f32(cpu, VL_DTYPE_BF16, h, y, N);
        for (uint32_t i = 0; i < N; i++) {
            float want = test_from_bf16((uint16_t)i);
            assert_memory_equal(&y[i], &want, sizeof(want));
        }
        vl_cpu_destroy(cpu);
    }
    free(h);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_whole_range_within_bound),
        cmocka_unit_test(test_activations_edges_match_libm),
        cmocka_unit_test(test_ops_all_lengths_match_definition),
        cmocka_unit_test(test_delta_step_matches_recurrence),
        cmocka_unit_test(test_rope_rotates_first_dims_only),
        cmocka_unit_test(test_to_f32_every_f16_and_bf16_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
