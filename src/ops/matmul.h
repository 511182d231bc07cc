/* SPDX-License-Identifier: Apache-2.0
 *
 * The core of matrix products, for ops that add something to the result while it is warm. */
#ifndef EST_OPS_MATMUL_H
#define EST_OPS_MATMUL_H

#include "graph/op.h"
#include "kernels/gemm.h"

/* out[0] = op(in[0]) op(in[1]) of rank 2, packing into the call's scratch; `done` as in est_gemm, NULL for none. */
void est_matmul_run(const est_call *c, bool trans_a, bool trans_b, est_gemm_done_fn done, void *done_arg);

/* The scratch bytes that takes. */
size_t est_matmul_scratch(const est_call *c, bool trans_a, bool trans_b);

/* A single product of any numeric dtype: what MatMul and BatchMatMulV2 are made of. g->done must be NULL for integers.
 */
void est_matmul_any(est_pool *pool, est_dtype dtype, const est_gemm *g);

/* The shape rule of both: [.., m, k] and [.., k, n] give m and n, with -1 for unknown sizes. */
est_status est_matmul_sizes(const est_shape *a, bool trans_a, const est_shape *b, bool trans_b, int64_t *m, int64_t *n);

/* Whether a GPU computes the product, with attributes as MatMul has them, by a kernel for few columns
 * (cuda/launchers.h). */
bool est_matmul_is_narrow(const est_call *c);

#endif
