/* cpu.c: the toolbox's context: the form and threads in use, its one block of memory, the parallel
 * loop. */
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugins/common/cpu/kernels.h"

#define ALIGN ((size_t)64)

/* Places one part behind the others; base NULL only measures. False: past what a size_t holds. */
static bool carve(char *base, size_t *at, size_t n, size_t size, void **out)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes) || __builtin_add_overflow(bytes, ALIGN - 1, &bytes))
        return false;
    bytes = bytes / ALIGN * ALIGN;
    *out = base && n ? base + *at : NULL;
    return !__builtin_add_overflow(*at, bytes, at);
}

/* Lays the block out twice: with memory NULL to measure, then to place. */
static bool layout(vl_cpu *c, char *memory, size_t *bytes)
{
    bool bf16 = c->k->thin_bf16 != NULL;
    size_t panels = (c->max_rows + VL_CPU_PANEL - 1) / VL_CPU_PANEL;
    size_t in, n, part;

    *bytes = 0;
    if (__builtin_add_overflow(c->max_in, (size_t)63, &in) ||
        __builtin_mul_overflow(in / 64 * 64, panels * VL_CPU_PANEL, &n))
        return false;
    in = in / 64 * 64;
    if (__builtin_mul_overflow(c->n_heads, (c->head_size + 2) * VL_CPU_ATTN_SPLITS, &part))
        return false;
    return carve(memory, bytes, n, sizeof(float), (void **)&c->panel_f32) &&
           carve(memory, bytes, bf16 ? n / 2 : 0, sizeof(uint32_t), (void **)&c->panel_bf16) &&
           carve(memory, bytes, bf16 ? in : 0, VL_CPU_THIN_MAX * sizeof(uint16_t),
                 (void **)&c->thin_bf16) &&
           carve(memory, bytes, part, VL_CPU_ATTN_ROWS * sizeof(float), (void **)&c->attn_part) &&
           carve(memory, bytes, (size_t)c->n_threads, VL_CPU_THREAD_SCRATCH, (void **)&c->scratch);
}

static vl_status setup(const vl_cpu_params *p, vl_cpu *c, vl_error *err)
{
    memset(c, 0, sizeof(*c));
    c->form = p->form == VL_CPU_AUTO ? vl_cpu_form_best() : p->form;
    if (!vl_cpu_form_supported(c->form))
        return vl_error_set(err, VL_E_UNSUPPORTED,
                            "instruction form %s: not offered by this processor (best: %s)",
                            vl_cpu_form_name(c->form), vl_cpu_form_name(vl_cpu_form_best()));
    if (p->n_threads < 0 || p->n_threads > 4096)
        return vl_error_set(err, VL_E_INVALID, "threads: %d, want 0 to 4096", (int)p->n_threads);
    if (p->max_in == 0)
        return vl_error_set(err, VL_E_INVALID, "max_in: 0, want at least 1");
    if (p->head_size > 256 || p->head_size % 16 != 0 || !p->head_size != !p->n_heads)
        return vl_error_set(err, VL_E_INVALID,
                            "attention: %zu heads of size %zu, want a multiple of 16, at most 256",
                            p->n_heads, p->head_size);
    c->n_threads = p->n_threads ? p->n_threads : vl_cpu_default_threads();
    c->max_rows =
        p->max_rows == 0 || p->max_rows > VL_CPU_PASS_ROWS ? VL_CPU_PASS_ROWS : p->max_rows;
    c->max_in = p->max_in;
    c->n_heads = p->n_heads;
    c->head_size = p->head_size;
    c->k = vl_cpu_kernels_of(c->form);
    if (!layout(c, NULL, &c->memory_bytes))
        return vl_error_set(err, VL_E_NOMEM, "scratch for max_in %zu and %zu heads: too large",
                            p->max_in, p->n_heads);
    return VL_OK;
}

vl_status vl_cpu_create(const vl_cpu_params *params, vl_cpu **out, vl_error *err)
{
    vl_cpu want;
    vl_status rc = setup(params, &want, err);

    if (rc != VL_OK)
        return rc;
    vl_cpu *c = malloc(sizeof(*c));
    if (!c)
        return vl_error_set(err, VL_E_NOMEM, "no memory for the CPU toolbox");
    *c = want;
    c->memory = aligned_alloc(ALIGN, c->memory_bytes);
    if (!c->memory) {
        free(c);
        return vl_error_set(err, VL_E_NOMEM, "no memory for %zu bytes of CPU scratch",
                            want.memory_bytes);
    }
    memset(c->memory, 0, c->memory_bytes);
    layout(c, c->memory, &c->memory_bytes);
    *out = c;
    return VL_OK;
}

void vl_cpu_destroy(vl_cpu *cpu)
{
    if (!cpu)
        return;
    free(cpu->memory);
    free(cpu);
}

size_t vl_cpu_scratch_bytes(const vl_cpu_params *params)
{
    vl_cpu c;
    return setup(params, &c, NULL) == VL_OK ? c.memory_bytes : 0;
}

int32_t vl_cpu_form(const vl_cpu *cpu)
{
    return cpu->form;
}

int32_t vl_cpu_threads(const vl_cpu *cpu)
{
    return cpu->n_threads;
}

void *vl_cpu_scratch(const vl_cpu *cpu, int thread)
{
    return cpu->scratch + (size_t)thread * VL_CPU_THREAD_SCRATCH;
}

void vl_cpu_for(vl_cpu *cpu, size_t n, size_t grain, vl_cpu_body *fn, void *arg)
{
    int n_threads = cpu->n_threads;

    if (n == 0)
        return;
    if (grain == 0)
        grain = n / (4 * (size_t)n_threads) ? n / (4 * (size_t)n_threads) : 1;
    if (n_threads == 1 || n <= grain) {
        fn(arg, 0, n, 0);
        return;
    }
    size_t pieces = (n + grain - 1) / grain;
    if (pieces < (size_t)n_threads)
        n_threads = (int)pieces;
    atomic_size_t next = 0;
    /* One counter for all: a thread that the machine holds back takes fewer pieces. */
#pragma omp parallel num_threads(n_threads) default(none) shared(next, pieces, grain, n, fn, arg)
    {
        int thread = omp_get_thread_num();
        for (;;) {
            size_t i = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
            if (i >= pieces)
                break;
            size_t begin = i * grain, left = n - begin;
            fn(arg, begin, begin + (left < grain ? left : grain), thread);
        }
    }
}

void vl_cpu_gemm(const vl_cpu *cpu, size_t m, size_t n, size_t k_len, const float *a, size_t a_row,
                 size_t a_col, const float *b, size_t b_ld, float *c, size_t c_ld, bool accumulate)
{
    cpu->k->gemm(m, n, k_len, a, a_row, a_col, b, b_ld, c, c_ld, accumulate);
}

void vl_cpu_gemm_rounded(const vl_cpu *cpu, size_t m, size_t n, size_t k_len, const float *a,
                         size_t a_row, size_t a_col, const float *b, size_t b_ld, float *c,
                         size_t c_ld, bool accumulate)
{
#ifdef VL_CPU_X86
    if (vl_cpu_rounds(cpu)) {
        vl_cpu_amx_gemm(m, n, k_len, a, a_row, a_col, b, b_ld, c, c_ld, accumulate);
        return;
    }
#endif
    cpu->k->gemm(m, n, k_len, a, a_row, a_col, b, b_ld, c, c_ld, accumulate);
}

bool vl_cpu_rounds(const vl_cpu *cpu)
{
    return cpu->form == VL_CPU_AMX_BF16;
}

void vl_cpu_transpose(const vl_cpu *cpu, const float *src, size_t src_ld, float *dst, size_t dst_ld,
                      size_t n_rows, size_t n_cols)
{
    cpu->k->transpose((const uint32_t *)(const void *)src, src_ld, (uint32_t *)(void *)dst, dst_ld,
                      n_rows, n_cols);
}
