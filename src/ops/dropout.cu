/* SPDX-License-Identifier: Apache-2.0
 *
 * EstDropout on a GPU: a thread draws a block of four words and has four elements. The mask is the CPU's. */
#include "cuda/philox.cuh"

#define UNIFORM_BITS 23 /* as dropout.c has it */

template <typename T>
static __global__ void drop(const T *x, T *y, int64_t count, uint64_t key, const uint64_t *run_seed, int32_t dropped,
                            T scale)
{
    int64_t  block = est_thread();
    uint32_t words[4];

    if (4 * block >= count) return;
    est_philox(key, *run_seed, (uint64_t)block, words);
    for (int j = 0; j < 4 && 4 * block + j < count; j++) {
        int32_t u = (int32_t)(words[j] & ((1u << UNIFORM_BITS) - 1));

        y[4 * block + j] = u >= dropped ? x[4 * block + j] * scale : (T)0;
    }
}

template <typename T> static int launch(const est_call *c)
{
    return est_launch(c, drop<T>, dim3(est_blocks(c->out[0].count, 4 * EST_BLOCK)), EST_BLOCK, est_data<T>(c->in[0]),
                      est_data<T>(&c->out[0]), c->out[0].count, (uint64_t)c->param[0].i, c->run_seed,
                      (int32_t)c->param[1].i, (T)c->param[2].f);
}

EST_DEFINE_LAUNCHER(dropout)
{
    return c->out[0].dtype == EST_F32 ? launch<float>(c) : launch<double>(c);
}
