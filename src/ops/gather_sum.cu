/* SPDX-License-Identifier: Apache-2.0
 *
 * EstGatherSum on a GPU. The warps of a block share the terms of 32 elements, of which each lane has one: so indices are
 * read in a row, and a thread waits for few rows. */
#include "cuda/loops.cuh"
#include "cuda/reduce.cuh"
#include "kernels/variable_access.h"
#include "ops/gather_concat.h"

#define WARPS (EST_BLOCK / EST_WARP)

template <typename T> struct gather_term {
    const T    *from;
    const void *indices; /* NULL: row i is from's row i */
    int64_t     rows;
    bool        wide; /* indices are int64 */
};

template <typename T> struct gather_terms {
    int            n;
    int64_t        count, cols; /* of the result */
    T             *to;
    est_reporter   reporter;
    gather_term<T> term[EST_GATHER_SUM_MAX];
};

/* Column c of term k's row for row i of the result; 0 where there is no such row, which is reported. */
template <typename T> static __device__ T term_at(const gather_terms<T> &s, int k, int64_t i, int64_t c)
{
    const gather_term<T> &t   = s.term[k];
    int64_t               row = t.indices != NULL ? est_index_at(t.indices, t.wide, i) : i;

    if (row >= 0 && row < t.rows) return t.from[row * s.cols + c];
    if (c == 0) est_report(s.reporter, ((int64_t)k << EST_JOIN_PLACE_BITS) + i, row, 0);
    return 0;
}

template <typename T> static __global__ void sum_terms(const __grid_constant__ gather_terms<T> s)
{
    __shared__ T part[WARPS][EST_WARP];
    int          lane = (int)threadIdx.x % EST_WARP, warp = (int)threadIdx.x / EST_WARP;
    int64_t      at = (int64_t)blockIdx.x * EST_WARP + lane, i = est_divide(at, s.cols), c = at - i * s.cols;
    T            sum = 0;

    if (at < s.count) {
        EST_UNROLL(4)
        for (int k = warp; k < s.n; k += WARPS) sum += term_at(s, k, i, c);
    }
    part[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || at >= s.count) return;
    for (int w = 1; w < WARPS; w++) sum += part[w][lane];
    s.to[at] = sum;
}

template <typename T> static void add_term(gather_terms<T> *s, const est_view *from, const est_view *indices)
{
    s->term[s->n++] = gather_term<T>{ est_data<T>(from), indices != NULL ? indices->data : NULL, est_row_count(from),
                                      indices != NULL && indices->dtype == EST_I64 };
}

template <typename T> static int launch_sum(const est_call *c)
{
    int             n = (int)c->param[EST_JOIN_LOOKUPS].i;
    gather_terms<T> s = {};

    s.count    = c->out[0].count;
    s.cols     = c->out[0].shape.dim[1];
    s.to       = est_data<T>(&c->out[0]);
    s.reporter = est_reporter_of(c);
    for (int k = 0; k < n; k++) add_term(&s, &est_call_variable(c, 2 * k)->value, c->in[2 * k + 1]);
    for (int i = 2 * n; i < c->n_in; i++) add_term(&s, c->in[i], NULL);
    return est_launch(c, sum_terms<T>, dim3(est_blocks(s.count, EST_WARP)), EST_BLOCK, s);
}

EST_DEFINE_LAUNCHER(gather_sum)
{
    return c->out[0].dtype == EST_F32 ? launch_sum<float>(c) : launch_sum<double>(c);
}
