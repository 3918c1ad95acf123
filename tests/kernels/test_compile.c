/* kernel.compile: every kernel compiles for every target, without a GPU; kernels of the decode step
 * use no local memory (no spills, no arrays in it); what others use is listed here with the reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plugins/common/cuda/device.h"
#include "plugins/qwen35/cuda/shape.h"

static const vl_q35_shape SHAPES[] = {
    /* 4B, mini3 (three value heads a key head, rows padded), 27B */
    {2560, 9216, 24, 8, 16, 4, 16, 32, 248320, 248077, 64, 4096, 1e-6f, false},
    {256, 640, 3, 1, 4, 2, 2, 6, 4096, 4096, 4, 64, 1e-6f, false},
    {5120, 17408, 48, 16, 24, 4, 16, 48, 248320, 248077, 16, 4096, 1e-6f, false},
};

static const struct {
    const char *arch;
    int32_t cc;
    int64_t shared;
} TARGETS[] = {
    {"sm_80", 80, 166912},  {"sm_86", 86, 101376},   {"sm_89", 89, 101376},
    {"sm_90a", 90, 232448}, {"sm_100", 100, 232448}, {"sm_120", 120, 101376},
};

static int arch_index;

/* "... 0 bytes stack frame, 0 bytes spill stores ...": the number before `what`, or -1. */
static long number_before(const char *log, const char *what)
{
    const char *at = log != NULL ? strstr(log, what) : NULL;
    if (at == NULL)
        return -1;
    const char *p = at;
    while (p > log && p[-1] >= '0' && p[-1] <= '9')
        p--;
    return strtol(p, NULL, 10);
}

static void compile_one(const vl_kernel *k, const char *arch)
{
    const char *defines[VL_KERNEL_DEFINES];
    vl_error err = {0};
    vl_buf cubin = VL_BUF_INIT, log = VL_BUF_INIT;
    assert_true(k->n_defines <= VL_KERNEL_DEFINES);
    for (uint32_t i = 0; i < k->n_defines; i++)
        defines[i] = k->defines[i];
    vl_nvrtc_job job = {vl_q35_sources, k->name, defines, k->n_defines, arch, NULL};
    if (vl_nvrtc_compile(&job, &cubin, &log, NULL, &err) != VL_OK)
        fail_msg("%s", err.text);
    assert_true(cubin.len > 4 && memcmp(cubin.ptr, "\177ELF", 4) == 0);
    const long frame = number_before(log.ptr, " bytes stack frame"),
               spills = number_before(log.ptr, " bytes spill stores");
    const char *used = log.ptr != NULL ? strstr(log.ptr, "Used ") : NULL;
    if (getenv("VL_LOG") != NULL)
        print_message("%-7s %-14s frame %ld spills %ld %.60s\n", arch, k->name, frame, spills,
                      used != NULL ? used : "");
    assert_int_not_equal(frame, -1); /* the compiler said nothing: then this test tests nothing */
    /* attn_prefill keeps 16 x 256 outputs and 16 x 64 scores of a warp in registers: some targets
     * spill a few addresses. */
    const long allowed = strcmp(k->name, "attn_prefill") == 0 ? 128 : 0;
    if (frame > allowed || spills > allowed)
        fail_msg("%s (%s, %s, %s) for %s: %ld bytes of stack frame, %ld of spills", k->name,
                 k->defines[0], k->defines[1], k->defines[2], arch, frame, spills);
    vl_buf_fini(&cubin);
    vl_buf_fini(&log);
}

static void compile_set(const vl_q35_shape *s, int target)
{
    vl_kernel *k = calloc(VL_N_KERNELS, sizeof(*k));
    assert_non_null(k);
    vl_q35_kernels(s, TARGETS[target].cc, TARGETS[target].shared, k);
    for (int i = 0; i < VL_N_KERNELS; i++)
        compile_one(&k[i], TARGETS[target].arch);
    free(k);
}

static void test_kernels_4b_compile(void **state)
{
    (void)state;
    compile_set(&SHAPES[0], arch_index);
}

static void test_kernels_other_shapes_compile(void **state)
{
    (void)state;
    if (TARGETS[arch_index].cc != 90)
        skip(); /* sizes that differ do not depend on the target */
    compile_set(&SHAPES[1], arch_index);
    compile_set(&SHAPES[2], arch_index);
}

static void test_arch_known_targets_fit(void **state)
{
    (void)state;
    const int known[] = {75, 80, 86, 87, 89, 90, 100, 120};
    char out[16];
    assert_true(vl_cuda_arch(90, known, 8, out, sizeof(out)));
    assert_string_equal(out, "sm_90a");
    assert_true(vl_cuda_arch(103, known, 8, out, sizeof(out)));
    assert_string_equal(out, "sm_100");
    assert_true(vl_cuda_arch(86, known, 8, out, sizeof(out)));
    assert_string_equal(out, "sm_86");
    assert_false(vl_cuda_arch(130, known, 8, out, sizeof(out)));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_4b_compile),
        cmocka_unit_test(test_kernels_other_shapes_compile),
        cmocka_unit_test(test_arch_known_targets_fit),
    };
    arch_index = -1;
    for (size_t i = 0; argc > 1 && i < sizeof(TARGETS) / sizeof(TARGETS[0]); i++)
        if (strcmp(argv[1], TARGETS[i].arch) == 0)
            arch_index = (int)i;
    if (arch_index < 0) {
        print_error("usage: %s sm_80|sm_86|sm_89|sm_90a|sm_100|sm_120\n", argv[0]);
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
