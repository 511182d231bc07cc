/* SPDX-License-Identifier: Apache-2.0
 *
 * ConcatV2 and EstConcatGrad on a GPU: a thread copies elements of a column between the whole and one of its strips.
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

#define STRIP_ROWS 16 /* of a thread, which has one column of the whole */

template <typename W, bool JOIN>
static __global__ void copy_strips(const __grid_constant__ strips s, W *__restrict__ whole, int64_t rows)
{
    int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, first = (int64_t)blockIdx.x * STRIP_ROWS;
    int64_t width = s.start[s.n], step;
    int     low = 0, high = s.n;
    W      *part;

    if (column >= width) return;
    while (high - low > 1) { /* start[low] <= column < start[high] */
        int middle = (low + high) / 2;

        if (s.start[middle] <= column) {
            low = middle;
        } else {
            high = middle;
        }
    }
    step = s.start[low + 1] - s.start[low];
    part = (W *)s.part[low] + column - s.start[low];
    EST_UNROLL(STRIP_ROWS)
    for (int k = 0; k < STRIP_ROWS; k++) {
        int64_t r = first + k;

        if (r >= rows) continue;
        if (JOIN) {
            whole[r * width + column] = part[r * step];
        } else {
            part[r * step] = whole[r * width + column];
        }
    }
}

template <typename W, bool JOIN> static int launch_as(const est_call *c, const strips &s, const est_view *whole)
{
    int64_t width = s.start[s.n], rows = width > 0 ? whole->count / width : 0;

    return est_launch(c, copy_strips<W, JOIN>, dim3(est_blocks(rows, STRIP_ROWS), est_blocks(width, 128)), 128, s,
                      est_data<W>(whole), rows);
}

template <bool JOIN> static int launch(const est_call *c, const strips &s, const est_view *whole)
{
    switch (est_element_bytes(whole->dtype)) {
    case 8: return launch_as<uint64_t, JOIN>(c, s, whole);
    case 4: return launch_as<uint32_t, JOIN>(c, s, whole);
    default: return launch_as<uint8_t, JOIN>(c, s, whole);
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
