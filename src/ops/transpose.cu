/* SPDX-License-Identifier: Apache-2.0
 *
 * Transpose on a GPU. The permutation is one: shapes are not known before it is. */
#include "cuda/strided.cuh"

struct transpose_sources {
    est_shape   x;
    const void *perm;
    bool        wide;

    __device__ bool operator()(est_sources *s) const
    {
        for (int a = x.rank - 1; a >= 0; a--) {
            int from = (int)est_index_at(perm, wide, a);

            est_sources_push(s, x.dim[from], est_stride_of(x, from));
        }
        return true;
    }
};

EST_DEFINE_LAUNCHER(transpose)
{
    transpose_sources find = { c->in[0]->shape, c->in[1]->data, c->in[1]->dtype == EST_I64 };

    return EST_BY_WIDTH(c->out[0].dtype, est_take_launch, c, c->in[0], find);
}
