/* features.c: what the processor and the operating system offer, and the names of the forms.
 * Knows no kernel beyond the tables' names. [any] */
#include <sched.h>
#include <string.h>

#include "base/error.h"
#include "plugins/common/cpu/kernels.h"

#ifdef VL_CPU_X86
#include <cpuid.h>
#endif

static const char *const form_names[VL_CPU_N_FORMS] = {"auto",   "scalar",      "avx2",
                                                       "avx512", "avx512-bf16", "amx-bf16"};

vl_status vl_cpu_form_parse(const char *text, int32_t *form, vl_error *err)
{
    for (int32_t i = 0; i < VL_CPU_N_FORMS; i++) {
        if (strcmp(text, form_names[i]) == 0) {
            *form = i;
            return VL_OK;
        }
    }
    return vl_error_set(err, VL_E_INVALID,
                        "instruction form \"%s\": want auto, scalar, avx2, avx512, avx512-bf16 or "
                        "amx-bf16",
                        text);
}

const char *vl_cpu_form_name(int32_t form)
{
    return form >= 0 && form < VL_CPU_N_FORMS ? form_names[form] : "unknown";
}

#ifdef VL_CPU_X86
static uint64_t xgetbv0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

#define BIT(reg, n) (((reg) >> (n)) & 1u)

bool vl_cpu_form_supported(int32_t form)
{
    uint32_t a, b, c, d, b7, c7, d7, a71 = 0;

    if (form == VL_CPU_SCALAR)
        return true;
    if (form < VL_CPU_AVX2 || form >= VL_CPU_N_FORMS)
        return false;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !BIT(c, 27) || !BIT(c, 28) || !BIT(c, 12) || !BIT(c, 29))
        return false; /* OSXSAVE, AVX, FMA, F16C */
    uint64_t xcr0 = xgetbv0();
    if ((xcr0 & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !BIT(b7, 5))
        return false; /* ymm state, AVX2 */
    if (form == VL_CPU_AVX2)
        return true;
    if ((xcr0 & 0xe6) != 0xe6 || !BIT(b7, 16) || !BIT(b7, 17) || !BIT(b7, 30) || !BIT(b7, 31))
        return false; /* zmm state, AVX-512 F, DQ, BW, VL */
    if (form == VL_CPU_AVX512)
        return true;
    if (a >= 1 && !__get_cpuid_count(7, 1, &a71, &b, &c, &d))
        return false;
    if (!BIT(a71, 5))
        return false; /* AVX512_BF16 */
    if (form == VL_CPU_AVX512_BF16)
        return true;
    /* tile state, AMX-TILE, AMX-BF16 */
    return (xcr0 & 0x60000) == 0x60000 && BIT(d7, 24) && BIT(d7, 22) && vl_cpu_amx_request();
}
#else
bool vl_cpu_form_supported(int32_t form)
{
    return form == VL_CPU_SCALAR;
}
#endif

int32_t vl_cpu_form_best(void)
{
    for (int32_t form = VL_CPU_N_FORMS - 1; form > VL_CPU_SCALAR; form--)
        if (vl_cpu_form_supported(form))
            return form;
    return VL_CPU_SCALAR;
}

int32_t vl_cpu_default_threads(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n;
}

const vl_cpu_kernels *vl_cpu_kernels_of(int32_t form)
{
#ifdef VL_CPU_X86
    switch (form) {
    case VL_CPU_AVX2:
        return &vl_cpu_kernels_avx2;
    case VL_CPU_AVX512:
        return &vl_cpu_kernels_avx512;
    case VL_CPU_AVX512_BF16:
    case VL_CPU_AMX_BF16:
        return &vl_cpu_kernels_avx512_bf16;
    default:
        break;
    }
#endif
    (void)form;
    return &vl_cpu_kernels_scalar;
}
