/* SPDX-License-Identifier: Apache-2.0
 *
 * MatMul on a GPU (cuda/gemm.cuh). */
#include "cuda/gemm.cuh"

enum { TRANS_A, TRANS_B }; /* in param[], as matmul.c has them */

EST_DEFINE_LAUNCHER(matmul)
{
    est_product p = est_product_of(c, c->param[TRANS_A].i != 0, c->param[TRANS_B].i != 0);

    return est_product_launch(c, &p);
}
