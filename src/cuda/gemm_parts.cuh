/* SPDX-License-Identifier: Apache-2.0
 *
 * What is left to do when the sums of a product of float32 are made: the epilogue, for neighbours of a row; and sums that
 * were made in parts, which a second kernel adds in order, so that the bits are always the same. */
#ifndef EST_CUDA_GEMM_PARTS_CUH
#define EST_CUDA_GEMM_PARTS_CUH

#include "cuda/gemm.cuh"
#include "cuda/loops.cuh"

#define EST_JOIN_BLOCK 128 /* threads of a block that joins */

/* What a product ends with (est_product). */
struct est_product_end {
    const float *with;
    int64_t      m, n;
    int          epilogue;
};

static inline est_product_end est_end_of(const est_product *p)
{
    return est_product_end{ (const float *)p->with, p->m, p->n, p->epilogue };
}

/* What y has at row r from column c on. N is 4: there 16 bytes of `with` are read at once. */
template <int N>
static __device__ est_pack<float, N> est_finish(const est_product_end &p, est_pack<float, N> y, int64_t r, int64_t c)
{
    est_pack<float, N> with = {};
    const float       *from;

    if (p.epilogue == EST_EPILOGUE_NONE) return y;
    from = p.with + (p.epilogue == EST_EPILOGUE_MASK ? r * p.n + c : c);
    if (N == 4) {
        with = *(const est_pack<float, N> *)from;
    } else {
        for (int e = 0; e < N; e++) with.v[e] = from[e];
    }
    EST_UNROLL(N)
    for (int e = 0; e < N; e++) {
        if (p.epilogue == EST_EPILOGUE_MASK) {
            y.v[e] = with.v[e] > 0 ? y.v[e] : 0;
        } else {
            y.v[e] += with.v[e];
            if (p.epilogue == EST_EPILOGUE_BIAS_RELU) y.v[e] = y.v[e] <= 0 ? 0 : y.v[e]; /* a NaN stays one */
        }
    }
    return y;
}

/* Adds n results of m x n elements, N neighbours a thread, whose loads are under way together. */
template <int N> static __global__ void est_join_parts(est_product_end p, const float *parts, float *y, int n)
{
    int64_t            at = N * est_thread(), count = p.m * p.n;
    est_pack<float, N> sum = {};

    if (at >= count) return;
    EST_UNROLL(32 / N)
    for (int z = 0; z < n; z++) {
        est_pack<float, N> part = *(const est_pack<float, N> *)(parts + z * count + at);

        for (int e = 0; e < N; e++) sum.v[e] += part.v[e];
    }
    *(est_pack<float, N> *)(y + at) = est_finish(p, sum, at / p.n, at % p.n);
}

template <int N> int est_join_launch(const est_call *c, const est_product *p, const float *parts, int n)
{
    return est_launch(c, est_join_parts<N>, dim3(est_blocks(p->m * p->n, N * EST_JOIN_BLOCK)), EST_JOIN_BLOCK,
                      est_end_of(p), parts, (float *)p->y, n);
}

#endif
