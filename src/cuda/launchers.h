/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of launchers, for est_kernel.launch. An op names its launcher in its descriptor:
 *
 *     .cuda = EST_KERNELS({ .launch = EST_LAUNCH(softmax) }),
 *
 * which needs nothing of CUDA: the plug-in has a table of functions by these numbers. */
#ifndef EST_CUDA_LAUNCHERS_H
#define EST_CUDA_LAUNCHERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EST_LAUNCH(name) EST_LAUNCH_##name

enum {
    EST_LAUNCH_NONE = 0,
#define EST_LAUNCHER(name) EST_LAUNCH_##name,
#include "cuda/launchers.def"
#undef EST_LAUNCHER
    EST_LAUNCH_COUNT
};

/* What the sizes of scratch and of arguments go by: rows whose columns a block sums, parts of a long reduction, terms
 * of AddN, parts of a concatenation. */
#define EST_COLUMN_CHUNK 128
#define EST_REDUCE_PARTS 256
#define EST_ADD_N_MAX    64
#define EST_STRIPS_MAX   64

/* Bytes for so many sums over rows (cuda/columns.cuh). */
#define EST_COLUMN_SCRATCH(rows, cols) (((size_t)(rows) / EST_COLUMN_CHUNK + 1) * (size_t)(cols) * sizeof(double))

/* Parts into which the pixels of a filter's gradient are cut. */
#define EST_CONV_PARTS(pixels) ((pixels) > 65536 ? 64 : (pixels) > 1024 ? ((pixels) + 1023) / 1024 : 1)

/* Segments of a pooled row, of so many values at most, and segments of a part of EstConvPoolGrad, of which there are
 * never more than EST_CONV_POOL_PARTS. */
#define EST_CONV_POOL_SEGMENT      7
#define EST_CONV_POOL_SEGMENTS(pw) (((pw) + EST_CONV_POOL_SEGMENT - 1) / EST_CONV_POOL_SEGMENT)
#define EST_CONV_POOL_EACH(n)      (8 * ((n) < 4096 ? 1 : ((n) + 4095) / 4096))
#define EST_CONV_POOL_PARTS        512

/* Bytes of scratch for each id whose rows are summed: a word with its place, twice. */
#define EST_RUNS_BYTES (2 * sizeof(uint64_t))

/* Where the sums of n such ids begin in scratch that also has their indices, 64 bits each at most; they are as large as
 * the rows. */
#define EST_SCATTER_SUMS(n) (((size_t)(n) * (EST_RUNS_BYTES + sizeof(int64_t)) + 15) / 16 * 16)

/* Bytes of scratch of a product of float32 on a GPU: for sums that are split; and for the left factor, of so many
 * elements, if it may be transposed before. */
#define EST_GEMM_WORKSPACE ((size_t)16 << 20)
#define EST_GEMM_TURNED    ((size_t)28 << 20)
static inline size_t est_product_scratch(bool trans_a, int64_t elements)
{
    size_t bytes = trans_a ? (size_t)elements * sizeof(float) : 0;

    return EST_GEMM_WORKSPACE + (bytes < EST_GEMM_TURNED ? bytes : EST_GEMM_TURNED);
}

/* Products of float32 of a layer of few units, as the last one of a model: kernels of our own do them in one pass over
 * the batch (cuda/narrow.cuh, cuda/columns.cuh), where cuBLASLt takes as long as for many units. */
#define EST_NARROW         16   /* units at most */
#define EST_NARROW_WEIGHTS 4096 /* of a kernel that is multiplied by rows, at most */
typedef enum est_narrow {
    EST_NARROW_NOT,
    EST_NARROW_FORWARD, /* rows times the layer's kernel */
    EST_NARROW_KERNEL   /* the kernel's gradient: rows, transposed, times the gradient of the units */
} est_narrow;
static inline est_narrow est_product_narrow(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k)
{
    if (n < 1 || k < 1 || n > EST_NARROW) return EST_NARROW_NOT;
    if (!trans_a) return n * k <= EST_NARROW_WEIGHTS ? EST_NARROW_FORWARD : EST_NARROW_NOT;
    return !trans_b && EST_COLUMN_SCRATCH(k, m * n) <= EST_GEMM_WORKSPACE ? EST_NARROW_KERNEL : EST_NARROW_NOT;
}

#endif
