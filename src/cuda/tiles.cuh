/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels of tiles in shared memory need of compute capability 9.0: copies to shared memory that go on while a
 * thread computes, blocks that work together as a cluster and read each other's shared memory, and TF32 products by
 * warps. On the CPU copies are done at once, and kernels compute what a warp would, element by element. */
#ifndef EST_CUDA_TILES_CUH
#define EST_CUDA_TILES_CUH

#include "cuda/launch.cuh"

#define EST_CLUSTER_MAX 8 /* blocks of a cluster */

/* est_launch_shared with `cluster` blocks along z in each cluster. */
template <typename... P, typename... A>
int est_launch_clusters(const est_call *c, void (*kernel)(P...), dim3 grid, int block, int bytes, int cluster,
                        A... args)
{
    cudaLaunchAttribute together = {};

    together.id               = cudaLaunchAttributeClusterDimension;
    together.val.clusterDim.x = 1;
    together.val.clusterDim.y = 1;
    together.val.clusterDim.z = (unsigned)cluster;
    return est_launch_as(c, kernel, grid, block, (size_t)bytes, &together, args...);
}

#ifdef __CUDACC__

/* Copies 16 bytes to shared memory, or puts zeros there; both addresses are multiples of 16. It goes on until it is waited
 * for. */
static inline __device__ void est_copy_16(float *to, const float *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

/* Ends a group of the thread's copies. */
static inline __device__ void est_copies_end(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most LEFT of the thread's groups are under way. */
template <int LEFT> static inline __device__ void est_copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* All threads of a cluster; what they have stored in shared memory is then there for the others. */
static inline __device__ void est_meet_cluster(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* The same place in the room of another block of the cluster. */
static inline __device__ const float *est_of_rank(const float *p, int rank)
{
    const float *other;

    asm("mapa.u64 %0, %1, %2;" : "=l"(other) : "l"(p), "r"(rank));
    return other;
}

/* To the nearest number with a fraction of 10 bits. */
static inline __device__ uint32_t est_tf32(float x)
{
    uint32_t bits;

    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

/* sum += a b, 16 x 8 by 8 x 8 numbers that are rounded. With g = lane / 4 and t = lane % 4 a thread has a[g, t],
 * a[g + 8, t], a[g, t + 4] and a[g + 8, t + 4]; b[t, g] and b[t + 4, g]; of the sum [g, 2 t], [g, 2 t + 1] and the same of
 * g + 8. */
static inline __device__ void est_multiply_16x8x8(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

static inline void est_copy_16(float *to, const float *from, bool there)
{
    for (int i = 0; i < 4; i++) to[i] = there ? from[i] : 0;
}

static inline void est_copies_end(void) {}

template <int LEFT> static inline void est_copies_wait(void) {}

static inline void est_meet_cluster(void)
{
    cuda_on_cpu_meet_cluster();
}

static inline const float *est_of_rank(const float *p, int rank)
{
    return (const float *)cuda_on_cpu_of_rank(p, (unsigned)rank);
}

#endif

#endif
