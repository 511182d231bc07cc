/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of rows that have the same id, for many lists of ids at once: EstDedup and the gradients of bags. Ids are sorted
 * (cuda/sort.cuh), then whoever stands at the first of a run of equal ids adds its rows up (cuda/sorted_rows.cuh).
 *
 * Nothing is compacted: the sum of an id goes to the place at which the id was seen first, and all other places get
 * zeros and the index that stands for none (est_is_pad). So sizes on a device are known before a step. */
#ifndef EST_CUDA_ROWS_CUH
#define EST_CUDA_ROWS_CUH

#include "cuda/launchers.h"
#include "cuda/sort.cuh"
#include "cuda/sorted_rows.cuh"

/* A list of ids on its way through the kernels. T: of the rows. rows.row_of below 0: the id is dropped. */
template <typename T> struct est_runs {
    const void        *ids;
    bool               wide;    /* int64 */
    bool               packed;  /* four columns at a time */
    uint64_t          *key[2];  /* sorted ids, and room for as many */
    T                 *sums;    /* [n, cols] */
    void              *indices; /* [n], as the ids */
    est_sorted_rows<T> rows;
};

/* Scratch: EST_RUNS_BYTES for each id (cuda/launchers.h). */
template <typename T> static inline void est_runs_scratch(est_runs<T> *r, void *scratch)
{
    r->key[0] = (uint64_t *)scratch;
    r->key[1] = r->key[0] + r->rows.n;
}

template <typename T> static __device__ void est_set_index(const est_runs<T> &r, int64_t place, bool first)
{
    if (r.wide) {
        ((int64_t *)r.indices)[place] = first ? ((const int64_t *)r.ids)[place] : INT64_MIN;
    } else {
        ((int32_t *)r.indices)[place] = first ? ((const int32_t *)r.ids)[place] : INT32_MIN;
    }
}

template <typename T, int N> static __device__ void est_sum_block(const est_runs<T> &r, unsigned block)
{
    __shared__ int64_t        starts[EST_BLOCK]; /* of long runs, by group; -1: none */
    __shared__ unsigned       any;
    __shared__ uint64_t       room[EST_NEAR_KEYS(EST_BLOCK)];
    const est_sorted_rows<T> &rows  = r.rows;
    int                       lanes = est_row_lanes(rows.cols, N), groups = EST_BLOCK / lanes;
    int                       group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;
    int64_t                   s = (int64_t)block * groups + group;
    const uint64_t           *near;

    if (threadIdx.x == 0) any = 0;
    if (lane == 0) starts[group] = -1;
    near = est_bring_keys(rows.key, rows.n, s - group, groups, room);
    if (s < rows.n) {
        int32_t place = est_sorted_place(near[group]);
        bool    first = est_run_begins(near, group);

        if (lane == 0) est_set_index(r, place, first);
        if (first && est_run_is_long(near, group)) {
            if (lane == 0) {
                starts[group] = s;
                atomicExch(&any, 1u);
            }
        } else {
            int end = first ? est_run_end(near, group) : group;

            for (int c = lane * N; c < rows.cols; c += lanes * N) { /* no run: zeros */
                est_pack<T, N> sum = {};

                est_add_places<T, N>(rows, near, group, end, c, &sum);
                *(est_pack<T, N> *)(r.sums + (int64_t)place * rows.cols + c) = sum;
            }
        }
    }
    __syncthreads();
    if (any == 0) return;
    est_sum_long<T, N>(rows, starts, [&r](int64_t at, int c, const est_pack<T, N> &sum) {
        *(est_pack<T, N> *)(r.sums + (int64_t)est_sorted_place(r.rows.key[at]) * r.rows.cols + c) = sum;
    });
}

template <typename T> static __global__ void est_sum_runs(const __grid_constant__ est_many<est_runs<T>> m)
{
    unsigned           block;
    const est_runs<T> &r = m.call[est_own_call(m, &block)];

    if (r.packed) {
        est_sum_block<T, 4>(r, block);
    } else {
        est_sum_block<T, 1>(r, block);
    }
}

/* Which of the calls before has the same ids, all of which count: they are sorted once. */
template <typename T> int est_runs_sorted_by(const est_runs<T> *calls, int i)
{
    for (int k = 0; k < i; k++) {
        if (calls[k].ids == calls[i].ids && calls[k].rows.n == calls[i].rows.n && calls[k].rows.row_of == NULL &&
            calls[i].rows.row_of == NULL) {
            return k;
        }
    }
    return i;
}

/* Sorts and sums. */
template <typename T> int est_runs_launch(const est_call *c, const est_runs<T> *calls, int n)
{
    est_runs<T> own[EST_BATCH_MAX];
    est_sort    sorts[EST_BATCH_MAX] = {};
    int         n_sorts              = 0, error;

    for (int i = 0; i < n; i++) {
        int k = est_runs_sorted_by(calls, i);

        own[i]          = calls[i];
        own[i].rows.key = calls[k].key[0];
        if (k < i) continue;
        sorts[n_sorts++] = est_sort{
            calls[i].ids, calls[i].rows.row_of, { calls[i].key[0], calls[i].key[1] }, calls[i].rows.n, calls[i].wide
        };
    }
    error = est_sort_launch(c, sorts, n_sorts);
    if (error != 0) return error;
    return est_launch_many(c, est_sum_runs<T>,
                           est_many_of((const est_runs<T> *)own, n,
                                       [](const est_runs<T> &r) {
                                           return est_blocks(r.rows.n,
                                                             EST_BLOCK / est_row_lanes(r.rows.cols, r.packed ? 4 : 1));
                                       }),
                           EST_BLOCK);
}

#endif
