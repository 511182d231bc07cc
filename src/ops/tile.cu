/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile and EstTileGrad on a GPU. How often an axis is repeated follows from the shapes. */
#include "cuda/strided.cuh"

struct tile_sources {
    est_shape x, y;

    __device__ bool operator()(est_sources *s) const
    {
        for (int a = x.rank - 1; a >= 0; a--) {
            est_sources_push(s, x.dim[a], est_stride_of(x, a));
            est_sources_push(s, y.dim[a] / x.dim[a], 0);
        }
        return true;
    }
};

EST_DEFINE_LAUNCHER(tile)
{
    tile_sources find = { c->in[0]->shape, c->out[0].shape };

    return EST_BY_WIDTH(c->out[0].dtype, est_take_launch, c, c->in[0], find);
}

/* --- backwards ------------------------------------------------------------------------------------------------------ */

/* The axes of the result from the innermost out: how often each is repeated in dy, and the stride there. */
struct tile_copies {
    int     n;
    int64_t dim[EST_RANK_MAX], copies[EST_RANK_MAX], stride[EST_RANK_MAX];
};

/* The copies of an element, in order. */
template <typename T>
static __global__ void sum_copies(const T *dy, T *dx, int64_t count, int64_t copies,
                                  const __grid_constant__ tile_copies t)
{
    int64_t i = est_thread(), at = 0, rest = i;
    T       sum = 0;

    if (i >= count) return;
    for (int a = 0; a < t.n; a++) {
        int64_t next = est_divide(rest, t.dim[a]);

        at += (rest - next * t.dim[a]) * t.stride[a];
        rest = next;
    }
    for (int64_t k = 0; k < copies; k++) {
        int64_t from = at, left = k;

        for (int a = 0; a < t.n; a++) {
            int64_t next = est_divide(left, t.copies[a]);

            from += (left - next * t.copies[a]) * t.dim[a] * t.stride[a];
            left = next;
        }
        sum += dy[from];
    }
    dx[i] = sum;
}

template <typename T> static int launch_grad(const est_call *c)
{
    const est_view *dy = c->in[0], *dx = &c->out[0];
    int64_t         stride = 1;
    tile_copies     t      = {};

    if (dx->count == 0) return 0;
    for (int a = dx->shape.rank - 1; a >= 0; stride *= dy->shape.dim[a], a--) {
        t.dim[t.n]      = dx->shape.dim[a];
        t.copies[t.n]   = dy->shape.dim[a] / dx->shape.dim[a];
        t.stride[t.n++] = stride;
    }
    return est_launch(c, sum_copies<T>, dim3(est_blocks(dx->count)), EST_BLOCK, est_data<T>(dy), est_data<T>(dx),
                      dx->count, dy->count / dx->count, t);
}

EST_DEFINE_LAUNCHER(tile_grad)
{
    switch (c->out[0].dtype) {
    case EST_F32: return launch_grad<float>(c);
    case EST_F64: return launch_grad<double>(c);
    case EST_I32: return launch_grad<uint32_t>(c); /* unsigned: an overflow wraps */
    default: return launch_grad<uint64_t>(c);
    }
}
