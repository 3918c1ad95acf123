/* vl.cuh: what all kernels use: short types, bf16 in pairs, tensor-core and copy instructions,
 * reductions. No toolkit header. */
#pragma once
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short bf16; /* its bits */

#define VL_LOG2E 1.4426950408889634f
#define INFINITY __int_as_float(0x7f800000)

/* Kernels of a step overlap: the next one is let in early (vl_enter) and waits (vl_wait) for all
 * results of its predecessor, which themselves waited for theirs. Before vl_wait a kernel may read
 * weights, and what an earlier launch of the whole step wrote: states, and the list of rows, since
 * step_begin and embed let nobody in before they themselves have waited. */
__device__ __forceinline__ void vl_enter()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void vl_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ float bf_lo(u32 v)
{
    return __uint_as_float(v << 16);
}
__device__ __forceinline__ float bf_hi(u32 v)
{
    return __uint_as_float(v & 0xffff0000u);
}
__device__ __forceinline__ float bf_f32(bf16 v)
{
    return __uint_as_float((u32)v << 16);
}
__device__ __forceinline__ u32 bf_pack(float lo, float hi)
{
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
__device__ __forceinline__ bf16 bf_round(float x)
{
    return (bf16)bf_pack(x, 0.0f);
}

/* 16 bytes of eight bf16. */
__device__ __forceinline__ void bf_unpack8(uint4 v, float (&x)[8])
{
    x[0] = bf_lo(v.x), x[1] = bf_hi(v.x), x[2] = bf_lo(v.y), x[3] = bf_hi(v.y);
    x[4] = bf_lo(v.z), x[5] = bf_hi(v.z), x[6] = bf_lo(v.w), x[7] = bf_hi(v.w);
}
__device__ __forceinline__ uint4 bf_pack8(const float (&x)[8])
{
    return make_uint4(bf_pack(x[0], x[1]), bf_pack(x[2], x[3]), bf_pack(x[4], x[5]),
                      bf_pack(x[6], x[7]));
}

/* Loads of what is read once: past L1, first to go from L2. */
__device__ __forceinline__ uint4 ld_stream(const void *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

__device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + __expf(-x));
}
__device__ __forceinline__ float silu(float x)
{
    return x / (1.0f + __expf(-x));
}
__device__ __forceinline__ float softplus(float x)
{
    return x > 20.0f ? x : log1pf(__expf(x));
}

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_xor_sync(~0u, v, d);
    return v;
}
__device__ __forceinline__ float warp_max(float v)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
    return v;
}

/* Tensor cores: c[16x8] += a[16x16] b[16x8]. Lane = 4 g + t: a holds rows g, g + 8 (regs 0, 1: k
 * 2t.., regs 2, 3: k 2t + 8..), b column g (k 2t.., 2t + 8..), c rows g (0, 1) and g + 8 (2, 3),
 * columns 2t, 2t + 1. */
__device__ __forceinline__ void mma(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    mma(c, a[0], a[1], a[2], a[3], b0, b1);
}
__device__ __forceinline__ u32 shared_addr(const void *p)
{
    return (u32)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void ldmatrix(u32 (&r)[4], u32 addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr)
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_t(u32 (&r)[4], u32 addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr)
                 : "memory");
}
__device__ __forceinline__ void copy16(u32 dst, const void *src)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
/* Zeros instead of reading when `real` is false. */
__device__ __forceinline__ void copy16_or_zero(u32 dst, const void *src, bool real)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src),
                 "r"(real ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Tiles in shared memory: rows of UNITS 16-byte units, unit u of row r stored at u ^ (r mod 8): any
 * eight rows of a column of units lie in different banks. Byte offset of a unit. */
template <int UNITS> __device__ __forceinline__ u32 tile_at(int row, int unit)
{
    return (u32)(row * UNITS + (unit ^ (row & 7))) * 16;
}
