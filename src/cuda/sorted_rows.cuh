/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of rows that have the same id, along a list of sorted ids (kernels/sorted_ids.h): the ids of a run are equal, and its
 * rows are added up in the order of their places, always the same. What is done with the sum is up to who walks along
 * it: cuda/rows.cuh stores it, cuda/apply.cuh updates a row of a variable by it. */
#ifndef EST_CUDA_SORTED_ROWS_CUH
#define EST_CUDA_SORTED_ROWS_CUH

#include "cuda/loops.cuh"
#include "kernels/sorted_ids.h"

#define EST_RUN_LONG 32 /* rows that one group of threads adds up; a block adds up what is longer */

template <typename T> struct est_sorted_rows {
    const uint64_t *key;    /* [n] */
    const int32_t  *row_of; /* per place: which row of dy; NULL: its own */
    const T        *factor; /* per place: what the row is multiplied by; NULL: 1 */
    const T        *dy;
    int64_t         step; /* elements from a row of dy to the next */
    int64_t         n;
    int             cols;
};

/* Threads that share a row: as many as it has packs, at most 32, a power of two. */
static inline __host__ __device__ int est_row_lanes(int cols, int pack)
{
    int lanes = 1;

    while (lanes < 32 && lanes * pack < cols) lanes *= 2;
    return lanes;
}

template <typename T, int N> static __device__ est_pack<T, N> est_load(const T *from)
{
    est_pack<T, N> x;

    if (N == 1) {
        x.v[0] = *from;
    } else {
        x = *(const est_pack<T, N> *)from;
    }
    return x;
}

/* Columns [c, c + N) of the row at a place. */
template <typename T, int N>
static __device__ est_pack<T, N> est_row_of_place(const est_sorted_rows<T> &r, uint64_t key, int c)
{
    int32_t        place = est_sorted_place(key);
    est_pack<T, N> x     = est_load<T, N>(r.dy + (r.row_of != NULL ? r.row_of[place] : place) * r.step + c);

    for (int e = 0; e < N && r.factor != NULL; e++) x.v[e] *= r.factor[place];
    return x;
}

/* Adds the rows at the places of keys [s, end), in order. */
template <typename T, int N>
static __device__ void est_add_places(const est_sorted_rows<T> &r, const uint64_t *key, int64_t s, int64_t end, int c,
                                      est_pack<T, N> *sum)
{
    EST_UNROLL(1)
    for (; s < end; s++) {
        est_pack<T, N> x = est_row_of_place<T, N>(r, key[s], c);

        for (int e = 0; e < N; e++) sum->v[e] += x.v[e];
    }
}

/* --- keys near a block -------------------------------------------------------------------------------------------- */

#define EST_NEAR_KEYS(n) ((n) + EST_RUN_LONG + 1) /* room for what a block of n sorted places looks at */

/* Brings the keys of sorted places [first, first + n), of the one before and of EST_RUN_LONG behind to shared memory,
 * with what stands for no id beyond the list. Returns where the first is. All threads of the block call it. */
static inline __device__ const uint64_t *est_bring_keys(const uint64_t *key, int64_t count, int64_t first, int n,
                                                        uint64_t *near)
{
    for (int i = (int)threadIdx.x; i < EST_NEAR_KEYS(n); i += (int)blockDim.x) {
        int64_t s = first - 1 + i;

        near[i] = s >= 0 && s < count ? key[s] : UINT64_MAX;
    }
    __syncthreads();
    return near + 1;
}

/* Whether a run begins at sorted place s. */
static inline __device__ bool est_run_begins(const uint64_t *near, int s)
{
    uint64_t id = est_sorted_row(near[s]);

    return id != EST_ID_DROPPED && est_sorted_row(near[s - 1]) != id;
}

static inline __device__ bool est_run_is_long(const uint64_t *near, int s)
{
    return est_sorted_row(near[s + EST_RUN_LONG]) == est_sorted_row(near[s]);
}

/* The end of a run that is not long. */
static inline __device__ int est_run_end(const uint64_t *near, int s)
{
    uint64_t id = est_sorted_row(near[s]);

    do {
        s++;
    } while (est_sorted_row(near[s]) == id);
    return s;
}

/* --- long runs ---------------------------------------------------------------------------------------------------- */

/* The first sorted place from `low` on whose id is not below `id`. */
template <typename T> static __device__ int64_t est_find_id(const est_sorted_rows<T> &r, int64_t low, uint64_t id)
{
    int64_t high = r.n;

    while (low < high) {
        int64_t middle = (low + high) / 2;

        if (est_sorted_row(r.key[middle]) < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Long runs, one after the other, by all threads of a block: each group of lanes adds up a slice, then the slices are
 * added in order. starts: where they begin, one for each group; below 0: none. put(s, c, sum) gets the sums. */
template <typename T, int N, typename F>
static __device__ void est_sum_long(const est_sorted_rows<T> &r, const int64_t *starts, F put)
{
    __shared__ est_pack<T, N> part[EST_BLOCK];
    int                       lanes = est_row_lanes(r.cols, N), groups = EST_BLOCK / lanes;
    int                       group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;

    for (int q = 0; q < groups; q++) {
        int64_t s = starts[q], end, slice, from, to;

        if (s < 0) continue;
        end   = est_find_id(r, s, est_sorted_row(r.key[s]) + 1);
        slice = (end - s + groups - 1) / groups;
        from  = s + group * slice;
        to    = from + slice < end ? from + slice : end;
        for (int c = lane * N; c - lane * N < r.cols; c += lanes * N) {
            est_pack<T, N> sum = {};

            if (c < r.cols) est_add_places<T, N>(r, r.key, from, to, c, &sum);
            part[threadIdx.x] = sum;
            __syncthreads();
            if (group == 0 && c < r.cols) {
                for (int g = 1; g < groups; g++) {
                    for (int e = 0; e < N; e++) sum.v[e] += part[g * lanes + lane].v[e];
                }
                put(s, c, sum);
            }
            __syncthreads();
        }
    }
}

#endif
