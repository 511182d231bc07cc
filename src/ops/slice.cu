/* SPDX-License-Identifier: Apache-2.0
 *
 * Slice on a GPU. Where it begins may be known to the device alone. */
#include "cuda/strided.cuh"

struct slice_sources {
    est_shape    x, y;
    const void  *begin;
    bool         wide;
    est_reporter reporter;

    __device__ bool operator()(est_sources *s) const
    {
        bool fine = true;

        for (int a = x.rank - 1; a >= 0; a--) {
            int64_t at = est_index_at(begin, wide, a);

            if (at < 0 || at > x.dim[a] - y.dim[a]) {
                if (blockIdx.x == 0) est_report(reporter, a, at, 0);
                fine = false;
            }
            s->first += at * est_stride_of(x, a);
            est_sources_push(s, y.dim[a], est_stride_of(x, a));
        }
        return fine;
    }
};

EST_DEFINE_LAUNCHER(slice)
{
    slice_sources find = { c->in[0]->shape, c->out[0].shape, c->in[1]->data, c->in[1]->dtype == EST_I64,
                           est_reporter_of(c) };

    return EST_BY_WIDTH(c->out[0].dtype, est_take_launch, c, c->in[0], find);
}
