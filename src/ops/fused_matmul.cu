/* SPDX-License-Identifier: Apache-2.0
 *
 * EstMatMulBias, EstMatMulReluGrad, EstMatMulReluBiasGrad and EstMatMulBfloat16 on a GPU (cuda/gemm.cuh). */
#include "cuda/gemm.cuh"

enum { TRANS_A, TRANS_B, RELU }; /* in param[], as fused_matmul.c has them */

static est_product product_of(const est_call *c)
{
    est_product p = est_product_of(c, c->param[TRANS_A].i != 0, c->param[TRANS_B].i != 0);

    p.bfloat16 = c->in[0]->dtype == EST_U8;
    if (p.bfloat16 && !p.trans_a) p.k /= 2; /* bytes */
    return p;
}

EST_DEFINE_LAUNCHER(matmul_bias)
{
    est_product p = product_of(c);

    p.epilogue = c->param[RELU].i != 0 ? EST_EPILOGUE_BIAS_RELU : EST_EPILOGUE_BIAS;
    p.with     = c->in[2]->data;
    return est_product_launch(c, &p);
}

EST_DEFINE_LAUNCHER(matmul_relu_grad)
{
    est_product p = product_of(c);

    p.epilogue = EST_EPILOGUE_MASK;
    p.with     = c->in[2]->data;
    return est_product_launch(c, &p);
}

EST_DEFINE_LAUNCHER(matmul_relu_bias_grad)
{
    est_product p = product_of(c);

    p.with = c->in[2]->data;
    return est_product_launch_masked_sums(c, &p, est_data<float>(&c->out[1]));
}

EST_DEFINE_LAUNCHER(matmul_bfloat16)
{
    est_product p = product_of(c);

    return est_product_launch(c, &p);
}
