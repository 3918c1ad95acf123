/* test_cpu_matmul.c: products of every form against plain double loops, at every odd size; the
 * promises about bits; gemm; forms and the parallel loop. */
#include <math.h>

#include "tests/unit/cpu_util.h"

#define MAX_ROWS 300

typedef struct product {
    size_t in, out, w_ld;
    int32_t dtype;
    void *w;
    size_t w_bytes;
    float *x;       /* [MAX_ROWS, in], guarded */
    double *y;      /* reference with x as it is */
    double *y_bf16; /* ... with x rounded to bf16 */
    double *size;   /* sum of |w x|: what errors are measured by */
} product;

static double weight(const product *p, size_t o, size_t k)
{
    size_t i = o * p->w_ld + k;
    if (p->dtype == VL_DTYPE_BF16)
        return (double)test_from_bf16(((uint16_t *)p->w)[i]);
    if (p->dtype == VL_DTYPE_F16)
        return (double)test_from_f16(((uint16_t *)p->w)[i]);
    return (double)((float *)p->w)[i];
}

static void make_product(product *p, size_t in, size_t out, size_t w_gap, int32_t dtype,
                         uint64_t seed)
{
    size_t size = dtype == VL_DTYPE_F32 ? 4 : 2;

    *p = (product){.in = in, .out = out, .w_ld = in + w_gap, .dtype = dtype};
    size_t n = (out - 1) * p->w_ld + in; /* the mapping ends with the last row */
    p->w_bytes = n * size;
    p->w = test_guarded(p->w_bytes);
    p->x = test_guarded(MAX_ROWS * in * sizeof(float));
    float *w = malloc(n * sizeof(float));
    test_fill(w, n, 1.0f, seed);
    test_fill(p->x, MAX_ROWS * in, 2.0f, seed + 1);
    for (size_t i = 0; i < n; i++) {
        if (dtype == VL_DTYPE_BF16)
            ((uint16_t *)p->w)[i] = test_to_bf16(w[i]);
        else if (dtype == VL_DTYPE_F16)
            ((uint16_t *)p->w)[i] = test_to_f16(fabsf(w[i]) < 1e-3f ? 0 : w[i]);
        else
            ((float *)p->w)[i] = w[i];
    }
    free(w);
    p->y = calloc(MAX_ROWS * out, sizeof(double));
    p->y_bf16 = calloc(MAX_ROWS * out, sizeof(double));
    p->size = calloc(MAX_ROWS * out, sizeof(double));
    double *row = malloc(in * sizeof(double));
    for (size_t o = 0; o < out; o++) {
        for (size_t k = 0; k < in; k++)
            row[k] = weight(p, o, k);
        for (size_t r = 0; r < MAX_ROWS; r++) {
            double a = 0, b = 0, s = 0;
            for (size_t k = 0; k < in; k++) {
                float x = p->x[r * in + k];
                a += row[k] * (double)x;
                b += row[k] * (double)test_from_bf16(test_to_bf16(x));
                s += fabs(row[k] * (double)x);
            }
            p->y[r * out + o] = a;
            p->y_bf16[r * out + o] = b;
            p->size[r * out + o] = s;
        }
    }
    free(row);
}

static void free_product(product *p)
{
    test_guarded_free(p->w, p->w_bytes);
    test_guarded_free(p->x, MAX_ROWS * p->in * sizeof(float));
    free(p->y);
    free(p->y_bf16);
    free(p->size);
}

/* y [n_rows, out], stride y_ld, whose gaps must still hold the mark. */
static void check_product(const product *p, int32_t form, const float *y, size_t y_ld,
                          size_t n_rows)
{
    bool bf16 = p->dtype == VL_DTYPE_BF16 && form >= VL_CPU_AVX512_BF16;
    const double *want = bf16 ? p->y_bf16 : p->y;

    for (size_t r = 0; r < n_rows; r++) {
        for (size_t o = 0; o < y_ld; o++) {
            float got = y[r * y_ld + o];
            if (o >= p->out) {
                assert_true(got == 77.0f);
                continue;
            }
            double d = fabs((double)got - want[r * p->out + o]);
            if (!(d <= 3e-6 * p->size[r * p->out + o] + 1e-30))
                fail_msg("%s dtype %d in %zu out %zu rows %zu: [%zu,%zu] %.9g, want %.9g",
                         vl_cpu_form_name(form), (int)p->dtype, p->in, p->out, n_rows, r, o,
                         (double)got, want[r * p->out + o]);
        }
    }
}

static float *marked(size_t n)
{
    float *y = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    for (size_t i = 0; i < n; i++)
        y[i] = 77.0f;
    return y;
}

static void run(vl_cpu *cpu, const product *p, const float *x, size_t n_rows, float *y, size_t y_ld)
{
    vl_cpu_matrix m = {
        .w = p->w, .w_ld = p->w_ld, .rows = p->out, .y = y, .y_ld = y_ld, .dtype = p->dtype};
    vl_cpu_matmul(cpu, x, p->in, n_rows, p->in, &m, 1);
}

static const int32_t dtypes[] = {VL_DTYPE_BF16, VL_DTYPE_F16, VL_DTYPE_F32};

static void test_matmul_odd_sizes_match_definition(void **state)
{
    static const size_t sizes[][2] = {{1, 1},     {2, 3},     {31, 7},    {32, 16},
                                      {33, 65},   {64, 64},   {100, 130}, {513, 70},
                                      {1024, 33}, {1537, 19}, {33, 2016}, {4500, 5}};
    static const size_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 63, 64, 65, 300};

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        for (size_t d = 0; d < 3; d++) {
            product p;
            if (sizes[s][1] > 1000 && d > 0)
                continue; /* large for the sake of bf16 output past the caches */
            make_product(&p, sizes[s][0], sizes[s][1], s % 3, dtypes[d], 7 * s + d);
            size_t y_ld = p.out + s % 2;
            FOR_EACH_FORM(form)
            {
                vl_cpu *cpu = test_open(form, 2, p.in, 0, 0);
                if (!cpu)
                    continue;
                for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                    float *y = marked(rows[i] * y_ld);
                    run(cpu, &p, p.x, rows[i], y, y_ld);
                    check_product(&p, form, y, y_ld, rows[i]);
                    free(y);
                }
                vl_cpu_destroy(cpu);
            }
            free_product(&p);
        }
    }
}

/* The same row in other company, at another place, with other threads and passes: the same bits. */
static void test_matmul_row_bits_do_not_depend_on_company(void **state)
{
    (void)state;
    for (size_t d = 0; d < 3; d++) {
        product p;
        make_product(&p, 611, 71, 0, dtypes[d], 100 + d);
        FOR_EACH_FORM(form)
        {
            vl_cpu *cpu = test_open(form, 3, p.in, 0, 0);
            if (!cpu)
                continue;
            vl_cpu_params params = {.form = form, .n_threads = 1, .max_in = 700, .max_rows = 100};
            vl_cpu *other;
            vl_error err;
            assert_int_equal(vl_cpu_create(&params, &other, &err), VL_OK);
            size_t thin = vl_cpu_thin_rows(cpu), row = p.out * sizeof(float);
            float *all = marked(MAX_ROWS * p.out), *y = marked(MAX_ROWS * p.out);
            run(cpu, &p, p.x, MAX_ROWS, all, p.out);
            run(other, &p, p.x, MAX_ROWS, y, p.out);
            assert_memory_equal(all, y, MAX_ROWS * row);
            run(other, &p, p.x + 5 * p.in, thin + 1, y, p.out);
            assert_memory_equal(all + 5 * p.out, y, (thin + 1) * row);
            run(cpu, &p, p.x, thin, all, p.out);
            for (size_t r = 0; r < thin; r++) {
                run(other, &p, p.x + r * p.in, 1, y, p.out);
                assert_memory_equal(all + r * p.out, y, row);
                run(other, &p, p.x + r * p.in, thin - r, y, p.out);
                assert_memory_equal(all + r * p.out, y, (thin - r) * row);
            }
            free(all);
            free(y);
            vl_cpu_destroy(cpu);
            vl_cpu_destroy(other);
        }
        free_product(&p);
    }
}

static void test_matmul_several_matrices_match_single_calls(void **state)
{
    static const size_t outs[] = {130, 1, 64, 17};
    static const int32_t types[] = {VL_DTYPE_BF16, VL_DTYPE_F32, VL_DTYPE_BF16, VL_DTYPE_F16};
    static const size_t rows[] = {1, 5, 40};
    product p[4];

    (void)state;
    for (size_t i = 0; i < 4; i++)
        make_product(&p[i], 96, outs[i], 0, types[i], 50 + i);
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 2, 96, 0, 0);
        if (!cpu)
            continue;
        for (size_t n = 0; n < 3; n++) {
            vl_cpu_matrix m[5];
            float *y[4];
            for (size_t i = 0; i < 4; i++) {
                y[i] = marked(rows[n] * outs[i]);
                m[i] = (vl_cpu_matrix){.w = p[i].w,
                                       .w_ld = 96,
                                       .rows = outs[i],
                                       .y = y[i],
                                       .y_ld = outs[i],
                                       .dtype = types[i]};
            }
            m[4] = (vl_cpu_matrix){.dtype = VL_DTYPE_F32, .w_ld = 96}; /* no rows */
            vl_cpu_matmul(cpu, p[0].x, 96, rows[n], 96, m, 5);
            for (size_t i = 0; i < 4; i++) {
                float *alone = marked(rows[n] * outs[i]);
                run(cpu, &p[i], p[0].x, rows[n], alone, outs[i]);
                assert_memory_equal(alone, y[i], rows[n] * outs[i] * sizeof(float));
                free(alone);
                free(y[i]);
            }
        }
        vl_cpu_destroy(cpu);
    }
    for (size_t i = 0; i < 4; i++)
        free_product(&p[i]);
}

/* vl_cpu_gemm_rounded: vl_cpu_gemm on rounded operands, where the form rounds; else the same bits.
 */
static void check_rounded(vl_cpu *cpu, size_t m, size_t n, size_t k, const float *a, size_t ar,
                          size_t ac, const float *b, float *c, bool add, uint64_t seed)
{
    float *want = malloc(m * n * sizeof(float));

    test_fill(c, m * n, 1, seed);
    for (size_t r = 0; r < m; r++)
        for (size_t j = 0; j < n; j++) {
            double s = add ? (double)c[r * n + j] : 0;
            for (size_t l = 0; l < k; l++)
                s += (double)test_from_bf16(test_to_bf16(a[r * ar + l * ac])) *
                     (double)test_from_bf16(test_to_bf16(b[l * n + j]));
            want[r * n + j] = (float)s;
        }
    if (!vl_cpu_rounds(cpu)) {
        vl_cpu_gemm(cpu, m, n, k, a, ar, ac, b, n, c, n, add);
        memcpy(want, c, m * n * sizeof(float));
        test_fill(c, m * n, 1, seed);
    }
    vl_cpu_gemm_rounded(cpu, m, n, k, a, ar, ac, b, n, c, n, add);
    test_close("gemm_rounded", c, want, m * n, vl_cpu_rounds(cpu) ? 2e-5f : 0.0f, 0.0f);
    free(want);
}

static void test_gemm_shapes_match_definition(void **state)
{
    static const size_t shapes[][3] = {{1, 1, 1},    {6, 64, 9},  {7, 17, 64}, {64, 64, 256},
                                       {256, 48, 5}, {5, 130, 3}, {13, 16, 0}, {130, 33, 150}};

    (void)state;
    FOR_EACH_FORM(form)
    {
        vl_cpu *cpu = test_open(form, 1, 16, 0, 0);
        if (!cpu)
            continue;
        for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
            size_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
            size_t a_bytes = (m * k + 1) * 4, b_bytes = (n * k + 1) * 4, c_bytes = m * n * 4;
            float *a = test_guarded(a_bytes), *b = test_guarded(b_bytes),
                  *c = test_guarded(c_bytes);
            float *want = malloc(c_bytes);
            test_fill(a, m * k, 1, i + 1);
            test_fill(b, n * k, 1, i + 2);
            for (int turned = 0; turned < 2; turned++) {
                for (int add = 0; add < 2; add++) {
                    test_fill(c, m * n, 1, i + 3);
                    size_t ar = turned ? 1 : k, ac = turned ? m : 1;
                    for (size_t r = 0; r < m; r++)
                        for (size_t j = 0; j < n; j++) {
                            double s = add ? (double)c[r * n + j] : 0;
                            for (size_t l = 0; l < k; l++)
                                s += (double)a[r * ar + l * ac] * (double)b[l * n + j];
                            want[r * n + j] = (float)s;
                        }
                    vl_cpu_gemm(cpu, m, n, k, a, ar, ac, b, n, c, n, add);
                    test_close("gemm", c, want, m * n, 2e-5f, 1e-6f);
                    check_rounded(cpu, m, n, k, a, ar, ac, b, c, add, i + 3);
                }
            }
            test_guarded_free(a, a_bytes);
            test_guarded_free(b, b_bytes);
            test_guarded_free(c, c_bytes);
            free(want);
        }
        vl_cpu_destroy(cpu);
    }
}

static void count_body(void *arg, size_t begin, size_t end, int thread)
{
    int *seen = arg;
    assert_true(thread >= 0 && thread < 4);
    for (size_t i = begin; i < end; i++)
        __atomic_fetch_add(&seen[i], 1, __ATOMIC_RELAXED);
}

static void test_for_any_size_visits_each_once(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 3, 100, 1001}, grains[] = {0, 1, 7, 5000};
    vl_cpu *cpu = test_open(VL_CPU_SCALAR, 4, 1, 0, 0);

    (void)state;
    for (size_t i = 0; i < 6; i++)
        for (size_t g = 0; g < 4; g++) {
            int *seen = calloc(sizes[i] + 1, sizeof(int));
            vl_cpu_for(cpu, sizes[i], grains[g], count_body, seen);
            for (size_t j = 0; j < sizes[i]; j++)
                assert_int_equal(seen[j], 1);
            assert_int_equal(seen[sizes[i]], 0);
            free(seen);
        }
    vl_cpu_destroy(cpu);
}

static void test_form_names_round_trip(void **state)
{
    vl_error err;
    int32_t form;

    (void)state;
    for (int32_t i = 0; i < VL_CPU_N_FORMS; i++) {
        assert_int_equal(vl_cpu_form_parse(vl_cpu_form_name(i), &form, &err), VL_OK);
        assert_int_equal(form, i);
    }
    form = 9;
    assert_int_equal(vl_cpu_form_parse("sse", &form, &err), VL_E_INVALID);
    assert_non_null(strstr(err.text, "\"sse\""));
    assert_int_equal(form, 9);
    assert_true(vl_cpu_form_supported(vl_cpu_form_best()));
    assert_false(vl_cpu_form_supported(VL_CPU_AUTO));
    assert_false(vl_cpu_form_supported(VL_CPU_N_FORMS));
}

static void test_create_bad_params_refused(void **state)
{
    static const vl_cpu_params bad[] = {
        {.max_in = 0},
        {.max_in = 8, .n_threads = -1},
        {.max_in = 8, .n_heads = 2, .head_size = 24},
        {.max_in = 8, .n_heads = 2, .head_size = 512},
        {.max_in = 8, .n_heads = 2},
        {.max_in = SIZE_MAX - 3},
        {.max_in = 8, .form = 99},
    };
    vl_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        vl_cpu *cpu = NULL;
        assert_int_not_equal(vl_cpu_create(&bad[i], &cpu, &err), VL_OK);
        assert_null(cpu);
        assert_int_equal(vl_cpu_scratch_bytes(&bad[i]), 0);
    }
    vl_cpu_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul_odd_sizes_match_definition),
        cmocka_unit_test(test_matmul_row_bits_do_not_depend_on_company),
        cmocka_unit_test(test_matmul_several_matrices_match_single_calls),
        cmocka_unit_test(test_gemm_shapes_match_definition),
        cmocka_unit_test(test_for_any_size_visits_each_once),
        cmocka_unit_test(test_form_names_round_trip),
        cmocka_unit_test(test_create_bad_params_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
