/* tests/unit/cpu_util.c: see cpu_util.h. */
#include "tests/unit/cpu_util.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

float test_uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*state >> 40) / (double)(1 << 23) - 1.0 + 0.5 / (double)(1 << 23));
}

void test_fill(float *x, size_t n, float scale, uint64_t seed)
{
    uint64_t s = seed * 0x9E3779B97F4A7C15u + 1;
    for (size_t i = 0; i < n; i++)
        x[i] = scale * test_uniform(&s);
}

static size_t guarded_bytes(size_t bytes, size_t *page)
{
    *page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + *page - 1) / *page * *page;
}

void *test_guarded(size_t bytes)
{
    size_t page, whole = guarded_bytes(bytes, &page);
    char *p = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(mprotect(p + whole, page, PROT_NONE), 0);
    return p + (whole - bytes);
}

void test_guarded_free(void *p, size_t bytes)
{
    size_t page, whole = guarded_bytes(bytes, &page);
    munmap((char *)p - (whole - bytes), whole + page);
}

uint16_t test_to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    uint32_t low = u & 0xffffu, high = u >> 16;
    if (low > 0x8000u || (low == 0x8000u && (high & 1u)))
        high++;
    return (uint16_t)high;
}

float test_from_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, sizeof(x));
    return x;
}

uint16_t test_to_f16(float x)
{
    int e;
    if (x == 0)
        return 0;
    double m = frexp(fabs((double)x), &e); /* m in [0.5, 1) */
    int32_t mant = (int32_t)lrint(m * 2048) - 1024;
    return (uint16_t)((x < 0 ? 0x8000 : 0) + ((e + 14) << 10) + mant);
}

float test_from_f16(uint16_t h)
{
    if ((h & 0x7fff) == 0)
        return 0;
    double m = 1.0 + (double)(h & 0x3ff) / 1024;
    return (float)(ldexp(m, ((h >> 10) & 31) - 15) * (h & 0x8000 ? -1 : 1));
}

void test_close(const char *what, const float *a, const float *b, size_t n, float abs, float rel)
{
    double max = 0, diff2 = 0, ref2 = 0;
    size_t bad = n;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= (double)abs + (double)rel * fabs((double)b[i])) && bad == n)
            bad = i;
        max = d > max ? d : max;
        diff2 += d * d;
        ref2 += (double)b[i] * (double)b[i];
    }
    if (bad < n)
        fail_msg("%s: max abs %g, relative L2 %g, first bad [%zu] of %zu: %.9g, want %.9g", what,
                 max, sqrt(diff2 / (ref2 > 0 ? ref2 : 1)), bad, n, (double)a[bad], (double)b[bad]);
}

vl_cpu *test_open(int32_t form, int32_t n_threads, size_t max_in, size_t n_heads, size_t head_size)
{
    vl_cpu_params p = {.form = form,
                       .n_threads = n_threads,
                       .max_in = max_in,
                       .n_heads = n_heads,
                       .head_size = head_size};
    vl_cpu *cpu = NULL;
    vl_error err;

    if (!vl_cpu_form_supported(form)) {
        print_message("form %s: not on this processor\n", vl_cpu_form_name(form));
        return NULL;
    }
    if (vl_cpu_create(&p, &cpu, &err) != VL_OK)
        fail_msg("%s", err.text);
    return cpu;
}
