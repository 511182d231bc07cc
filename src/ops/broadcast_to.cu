/* SPDX-License-Identifier: Apache-2.0
 *
 * BroadcastTo on a GPU. */
#include "cuda/strided.cuh"

struct broadcast_sources {
    est_shape x, y;

    __device__ bool operator()(est_sources *s) const
    {
        for (int a = y.rank - 1, from = x.rank - 1; a >= 0; a--, from--) {
            bool moves = from >= 0 && x.dim[from] != 1;

            est_sources_push(s, y.dim[a], moves ? est_stride_of(x, from) : 0);
        }
        return true;
    }
};

EST_DEFINE_LAUNCHER(broadcast_to)
{
    broadcast_sources find = { c->in[0]->shape, c->out[0].shape };

    return EST_BY_WIDTH(c->out[0].dtype, est_take_launch, c, c->in[0], find);
}
