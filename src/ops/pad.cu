/* SPDX-License-Identifier: Apache-2.0
 *
 * Pad and PadV2 on a GPU. Paddings are not negative: shapes are not known before they are. */
#include "cuda/strided.cuh"

struct pad_box {
    est_shape   x, y;
    const void *paddings;
    bool        wide;

    __device__ bool operator()(est_box *b) const
    {
        for (int a = x.rank - 1; a >= 0; a--) {
            est_box_push(b, y.dim[a], est_index_at(paddings, wide, 2 * a), 1, x.dim[a]);
        }
        return true;
    }
};

EST_DEFINE_LAUNCHER(pad)
{
    pad_box find = { c->in[0]->shape, c->out[0].shape, c->in[1]->data, c->in[1]->dtype == EST_I64 };

    return EST_BY_WIDTH(c->out[0].dtype, est_box_launch, c, c->in[0], c->n_in == 3 ? c->in[2] : NULL, find);
}
