/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounding to bfloat16 on a GPU. */
#include "cuda/batch.cuh"
#include "cuda/bfloat16.h"
#include "cuda/loops.cuh"

#define PACKED 8 /* numbers of a thread */

struct round_of {
    __device__ float operator()(float x) const
    {
        return est_to_bfloat16(x);
    }
};

/* Of the factors of a step several are ready at once, as the kernels of all layers: they are one launch. */
struct pack_call {
    const float *x;
    uint16_t    *y;
    int64_t      count;
    bool         aligned;
};

static __global__ void pack_numbers(const __grid_constant__ est_many<pack_call> m)
{
    unsigned         block;
    const pack_call &p  = m.call[est_own_call(m, &block)];
    int64_t          at = ((int64_t)block * blockDim.x + threadIdx.x) * PACKED;

    if (p.aligned && at + PACKED <= p.count) {
        est_pack<uint16_t, PACKED> y;

        EST_UNROLL(2)
        for (int i = 0; i < PACKED; i += 4) {
            est_pack<float, 4> x = *(const est_pack<float, 4> *)(p.x + at + i);

            for (int e = 0; e < 4; e++) y.v[i + e] = est_bfloat16_bits(x.v[e]);
        }
        *(est_pack<uint16_t, PACKED> *)(p.y + at) = y;
    } else {
        for (int i = 0; i < PACKED && at + i < p.count; i++) p.y[at + i] = est_bfloat16_bits(p.x[at + i]);
    }
}

static int launch_packs(const est_call *c, const pack_call *calls, int n)
{
    return est_launch_many(
        c, pack_numbers,
        est_many_of(calls, n, [](const pack_call &p) { return est_blocks(p.count, EST_BLOCK * PACKED); }), EST_BLOCK);
}

EST_DEFINE_LAUNCHER(pack_bfloat16)
{
    pack_call p = { est_data<float>(c->in[0]), est_data<uint16_t>(&c->out[0]), c->in[0]->count, false };

    p.aligned = est_aligned(p.x) && est_aligned(p.y);
    return est_batch_add(c, launch_packs, p);
}

EST_DEFINE_LAUNCHER(round_bfloat16)
{
    return est_map1_launch<float, float>(c, round_of());
}
