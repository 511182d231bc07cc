/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor cores of compute capability 9.0 as kernels of our own use them: a warpgroup of 128 threads multiplies 64 x 8 by
 * 8 x N in TF32, both from shared memory, and goes on while that is done. On the CPU it is done at once.
 *
 * In shared memory a factor consists of pieces of 8 rows (of the result, or its columns) by 4 numbers along the sum, 128
 * bytes each. A thread of warp w holds of the sum rows 16 w + g and 16 w + g + 8, g = lane / 4, and of each 8 columns the
 * two from 2 (lane % 4) on. */
#ifndef EST_CUDA_WGMMA_CUH
#define EST_CUDA_WGMMA_CUH

#include "cuda/launch.cuh"

#define EST_WARPGROUP 128

/* Where a factor lies: bytes from a piece to the next along the sum, and to the next 8 rows. */
struct est_pieces {
    const char *at;
    int         along, across;
};

#ifdef __CUDACC__

/* To the nearest number with a fraction of 10 bits. */
static inline __device__ float est_tf32(float x)
{
    uint32_t bits;

    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

static inline __device__ uint64_t est_describe(const est_pieces &p)
{
    uint64_t at = (uint64_t)__cvta_generic_to_shared(p.at);

    return at >> 4 | (uint64_t)(p.along >> 4) << 16 | (uint64_t)(p.across >> 4) << 32;
}

#define SUMS_4(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define SUMS_8(i) SUMS_4(i), SUMS_4(i + 4)

template <int N> __device__ void est_wgmma(float (&sum)[N / 2], uint64_t a, uint64_t b);

template <> __device__ inline void est_wgmma<32>(float (&sum)[16], uint64_t a, uint64_t b)
{
    asm volatile("{wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1;}"
                 : SUMS_8(0), SUMS_8(8)
                 : "l"(a), "l"(b));
}

template <> __device__ inline void est_wgmma<64>(float (&sum)[32], uint64_t a, uint64_t b)
{
    asm volatile("{wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                 "%26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1;}"
                 : SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24)
                 : "l"(a), "l"(b));
}

template <> __device__ inline void est_wgmma<128>(float (&sum)[64], uint64_t a, uint64_t b)
{
    asm volatile("{wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                 "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
                 "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63}, %64, %65, 1, 1, 1;}"
                 : SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24), SUMS_8(32), SUMS_8(40), SUMS_8(48), SUMS_8(56)
                 : "l"(a), "l"(b));
}

#undef SUMS_8
#undef SUMS_4

/* What the threads have stored in shared memory is there for the products to come. Before a barrier. */
static inline __device__ void est_show_to_products(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Adds a b to the sums: STEPS times 8 along the sum, whose pieces follow each other. */
template <int N, int STEPS>
static inline __device__ void est_multiply(float (&sum)[N / 2], const est_pieces &a, const est_pieces &b)
{
    uint64_t from_a = est_describe(a), from_b = est_describe(b);

    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    EST_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        est_wgmma<N>(sum, from_a + (uint64_t)(i * 2 * a.along >> 4), from_b + (uint64_t)(i * 2 * b.along >> 4));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most LEFT of the products are under way. */
template <int LEFT> static inline __device__ void est_products_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

#else

static inline float est_tf32(float x)
{
    return x;
}

static inline void est_show_to_products(void) {}

static inline float est_piece_element(const est_pieces &p, int row, int depth)
{
    return *(const float *)(p.at + depth / 4 * p.along + row / 8 * p.across + row % 8 * 16 + depth % 4 * 4);
}

template <int N, int STEPS>
static inline void est_multiply(float (&sum)[N / 2], const est_pieces &a, const est_pieces &b)
{
    int warp = (int)threadIdx.x % EST_WARPGROUP / 32, lane = (int)threadIdx.x % 32;

    for (int i = 0; i < N / 2; i++) {
        int row = 16 * warp + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;

        for (int l = 0; l < 8 * STEPS; l++) sum[i] += est_piece_element(a, row, l) * est_piece_element(b, column, l);
    }
}

template <int LEFT> static inline void est_products_wait(void) {}

#endif

#endif
