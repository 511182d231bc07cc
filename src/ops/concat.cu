/* SPDX-License-Identifier: Apache-2.0
 *
 * ConcatV2 and EstConcatGrad on a GPU: a thread copies an element between the whole and one of its strips.
 *
 * The axis is in memory of the device. It need not be read: it is the one along which a part and the whole differ; if
 * none does, there is one part that is not empty, and it is the whole. */
#include "cuda/launch.cuh"
#include "cuda/launchers.h"

struct strips {
    void   *part[EST_STRIPS_MAX];
    int64_t start[EST_STRIPS_MAX + 1]; /* in a row of the whole */
    int     n;
};

/* A row of the whole has a row of every strip. */
static strips strips_of(const est_view *whole, est_view *const *in, const est_view *out, int n)
{
    strips  s     = {};
    int64_t outer = 1;
    int     axis  = 0;

    for (int i = 0; i < n; i++) {
        const est_view *part = in != NULL ? in[i] : &out[i];

        for (int a = 0; a < whole->shape.rank && part->count > 0; a++) {
            if (part->shape.dim[a] != whole->shape.dim[a]) axis = a;
        }
    }
    for (int a = 0; a < axis; a++) outer *= whole->shape.dim[a];
    for (int i = 0; i < n; i++) {
        const est_view *part = in != NULL ? in[i] : &out[i];

        if (part->count == 0) continue;
        s.part[s.n]      = part->data;
        s.start[s.n + 1] = s.start[s.n] + part->count / outer;
        s.n++;
    }
    return s;
}

template <typename W, bool JOIN> static __global__ void copy_strips(strips s, W *whole, int64_t count)
{
    int64_t i   = est_thread(), row, column, at;
    int     low = 0, high = s.n;

    if (i >= count) return;
    row    = i / s.start[s.n];
    column = i % s.start[s.n];
    while (high - low > 1) { /* start[low] <= column < start[high] */
        int middle = (low + high) / 2;

        if (s.start[middle] <= column) {
            low = middle;
        } else {
            high = middle;
        }
    }
    at = row * (s.start[low + 1] - s.start[low]) + column - s.start[low];
    if (JOIN) {
        whole[i] = ((const W *)s.part[low])[at];
    } else {
        ((W *)s.part[low])[at] = whole[i];
    }
}

template <bool JOIN> static int launch(const est_call *c, const strips &s, const est_view *whole)
{
    dim3 grid(est_blocks(whole->count));

    switch (est_element_bytes(whole->dtype)) {
    case 8:
        return est_launch(c, copy_strips<uint64_t, JOIN>, grid, EST_BLOCK, s, est_data<uint64_t>(whole), whole->count);
    case 4:
        return est_launch(c, copy_strips<uint32_t, JOIN>, grid, EST_BLOCK, s, est_data<uint32_t>(whole), whole->count);
    default:
        return est_launch(c, copy_strips<uint8_t, JOIN>, grid, EST_BLOCK, s, est_data<uint8_t>(whole), whole->count);
    }
}

EST_DEFINE_LAUNCHER(concat_v2)
{
    return launch<true>(c, strips_of(&c->out[0], c->in, NULL, c->n_in - 1), &c->out[0]);
}

EST_DEFINE_LAUNCHER(concat_grad)
{
    return launch<false>(c, strips_of(c->in[0], NULL, c->out, c->n_out), c->in[0]);
}
