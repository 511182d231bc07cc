/* SPDX-License-Identifier: Apache-2.0
 *
 * One tensor, the whole, and the strips that its rows consist of, on a GPU: a thread copies elements of a column between
 * the whole and one strip. */
#ifndef EST_CUDA_STRIPS_CUH
#define EST_CUDA_STRIPS_CUH

#include "cuda/launch.cuh"
#include "cuda/launchers.h"

typedef struct est_strip_list {
    void   *part[EST_STRIPS_MAX];
    int64_t start[EST_STRIPS_MAX + 1]; /* in a row of the whole */
    int     n;
} est_strip_list;

/* Parts of which each has so many rows; `in` or `out`, the other is NULL. */
static inline est_strip_list est_strips_of_rows(est_view *const *in, const est_view *out, int n, int64_t rows)
{
    est_strip_list s = {};

    for (int i = 0; i < n; i++) {
        const est_view *part = in != NULL ? in[i] : &out[i];

        if (part->count == 0) continue;
        s.part[s.n]      = part->data;
        s.start[s.n + 1] = s.start[s.n] + part->count / rows;
        s.n++;
    }
    return s;
}

/* Parts along an axis that the device alone may know. It need not be read: it is the one along which a part and the
 * whole differ; if none does, there is one part that is not empty, and it is the whole. */
static inline est_strip_list est_strips_of(const est_view *whole, est_view *const *in, const est_view *out, int n)
{
    int64_t rows = 1;
    int     axis = 0;

    for (int i = 0; i < n; i++) {
        const est_view *part = in != NULL ? in[i] : &out[i];

        for (int a = 0; a < whole->shape.rank && part->count > 0; a++) {
            if (part->shape.dim[a] != whole->shape.dim[a]) axis = a;
        }
    }
    for (int a = 0; a < axis; a++) rows *= whole->shape.dim[a];
    return est_strips_of_rows(in, out, n, rows);
}

#define EST_STRIP_ROWS 16 /* of a thread, which has one column of the whole */

template <typename W, bool JOIN>
static __global__ void est_copy_strips(const __grid_constant__ est_strip_list s, W *__restrict__ whole, int64_t rows)
{
    est_grid_place at     = est_find_block((unsigned)((rows + EST_STRIP_ROWS - 1) / EST_STRIP_ROWS));
    int64_t        column = (int64_t)at.down * blockDim.x + threadIdx.x, first = (int64_t)at.across * EST_STRIP_ROWS;
    int64_t        width = s.start[s.n], step;
    int            low = 0, high = s.n;
    W             *part;

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
    EST_UNROLL(EST_STRIP_ROWS)
    for (int k = 0; k < EST_STRIP_ROWS; k++) {
        int64_t r = first + k;

        if (r >= rows) continue;
        if (JOIN) {
            whole[r * width + column] = part[r * step];
        } else {
            part[r * step] = whole[r * width + column];
        }
    }
}

template <typename W, bool JOIN>
int est_strips_launch_as(const est_call *c, const est_strip_list &s, const est_view *whole)
{
    int64_t width = s.start[s.n], rows = width > 0 ? whole->count / width : 0;

    return est_launch(c, est_copy_strips<W, JOIN>, est_grid(est_blocks(rows, EST_STRIP_ROWS), est_blocks(width, 128)),
                      128, s, est_data<W>(whole), rows);
}

template <bool JOIN> int est_strips_launch(const est_call *c, const est_strip_list &s, const est_view *whole)
{
    switch (est_element_bytes(whole->dtype)) {
    case 8: return est_strips_launch_as<uint64_t, JOIN>(c, s, whole);
    case 4: return est_strips_launch_as<uint32_t, JOIN>(c, s, whole);
    default: return est_strips_launch_as<uint8_t, JOIN>(c, s, whole);
    }
}

#endif
