/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of rows that have the same id, for many lists of ids at once: EstDedup and the gradients of bags.
 *
 * Ids are sorted together with their places, 40 bits of an id and 24 of its place in a word: what has more is no row of
 * any table, which the update reports; that two such ids may be taken for one does not matter. Chunks of them are sorted in shared memory, then merged two by two: every
 * element looks up how many of the other chunk come before it. Then whoever stands at the first of a run of equal ids
 * adds the rows of the run up in the order of their places; the whole block does that with a long run.
 *
 * Nothing is compacted: the sum of an id goes to the place at which the id was seen first, and all other places get
 * zeros and the index that stands for none (est_is_pad). So sizes on a device are known before a step. */
#ifndef EST_CUDA_ROWS_CUH
#define EST_CUDA_ROWS_CUH

#include "cuda/batch.cuh"
#include "cuda/launchers.h"
#include "cuda/loops.cuh"

#define EST_SORT_CHUNK  2048 /* ids that a block sorts; two a thread */
#define EST_SORT_LITTLE 512  /* the same for short lists */
#define EST_RUN_LONG    32   /* rows that one group of threads adds up */
#define EST_PLACE_BITS  24
#define EST_ID_DROPPED  (UINT64_MAX >> EST_PLACE_BITS)

/* A list of ids on its way through the kernels. T: of the rows. */
template <typename T> struct est_runs {
    const void    *ids;
    bool           wide;   /* int64 */
    const int32_t *row_of; /* per place: which row of dy; NULL: its own; below 0: the id is dropped */
    const T       *factor; /* per place: what the row is multiplied by; NULL: 1 */
    const T       *dy;
    int64_t        step; /* elements from a row of dy to the next */
    int64_t        n;    /* ids */
    int            cols;
    bool           packed;  /* four columns at a time */
    uint64_t      *key[2];  /* sorted ids with their places, and room for as many */
    T             *sums;    /* [n, cols] */
    void          *indices; /* [n], as the ids */
};

/* Scratch: EST_RUNS_BYTES for each id (cuda/launchers.h). */
template <typename T> static inline void est_runs_scratch(est_runs<T> *r, void *scratch)
{
    r->key[0] = (uint64_t *)scratch;
    r->key[1] = r->key[0] + r->n;
}

static inline __device__ uint64_t est_key_id(uint64_t key)
{
    return key >> EST_PLACE_BITS;
}

static inline __device__ int32_t est_key_place(uint64_t key)
{
    return (int32_t)(key & ((1u << EST_PLACE_BITS) - 1));
}

template <typename T> static __device__ uint64_t est_key_at(const est_runs<T> &r, int64_t i)
{
    const int64_t least = -(int64_t)(EST_ID_DROPPED / 2) - 1, most = (int64_t)(EST_ID_DROPPED / 2) - 1;
    uint64_t      key = EST_ID_DROPPED;

    if (i < r.n && (r.row_of == NULL || r.row_of[i] >= 0)) {
        int64_t id = est_index_at(r.ids, r.wide, i);

        key = (uint64_t)((id < least ? least : id > most ? most : id) - least);
    }
    return key << EST_PLACE_BITS | (uint64_t)i;
}

/* A bitonic sort of CHUNK ids by CHUNK / 2 threads. */
template <typename T, int CHUNK> static __global__ void est_sort_chunks(const __grid_constant__ est_many<est_runs<T>> m)
{
    __shared__ uint64_t key[CHUNK];
    unsigned            block;
    const est_runs<T>  &r     = m.call[est_own_call(m, &block)];
    int64_t             first = (int64_t)block * CHUNK;
    int                 t     = (int)threadIdx.x;

    for (int i = t; i < CHUNK; i += CHUNK / 2) key[i] = est_key_at(r, first + i); /* what is not there comes last */
    __syncthreads();
    for (int size = 2; size <= CHUNK; size *= 2) {
        for (int apart = size / 2; apart > 0; apart /= 2) {
            int      low = 2 * t - (t & (apart - 1)), high = low + apart;
            uint64_t a = key[low], b = key[high];

            if ((b < a) == ((low & size) == 0)) {
                key[low]  = b;
                key[high] = a;
            }
            __syncthreads();
        }
    }
    for (int i = t; i < CHUNK; i += CHUNK / 2) {
        if (first + i < r.n) r.key[0][first + i] = key[i];
    }
}

/* Merges sorted pieces of `width` ids two by two. */
template <typename T>
static __global__ void est_merge_chunks(const __grid_constant__ est_many<est_runs<T>> m, int width)
{
    unsigned           block;
    const est_runs<T> &r = m.call[est_own_call(m, &block)];
    int64_t            i = (int64_t)block * blockDim.x + threadIdx.x, base, piece, begin, low, high;
    uint64_t           key;

    if (i >= r.n) return;
    piece = i / width * width;
    base  = i / (2 * (int64_t)width) * 2 * width;
    low   = piece == base ? base + width : base; /* the other piece, of which some come before */
    high  = low + width < r.n ? low + width : r.n;
    if (low > r.n) low = r.n;
    begin = low;
    key   = r.key[0][i];
    while (low < high) {
        int64_t middle = (low + high) / 2;

        if (r.key[0][middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    r.key[1][base + (i - piece) + (low - begin)] = key;
}

/* Columns [c, c + N) of the sum of sorted places [s, end), in order. */
template <typename T, int N>
static __device__ est_pack<T, N> est_sum_places(const est_runs<T> &r, int64_t s, int64_t end, int c)
{
    est_pack<T, N> sum = {};

    for (; s < end; s++) {
        int32_t        place = est_key_place(r.key[0][s]);
        const T       *from  = r.dy + (r.row_of != NULL ? r.row_of[place] : place) * r.step + c;
        T              f     = r.factor != NULL ? r.factor[place] : (T)1;
        est_pack<T, N> x;

        if (N == 1) {
            x.v[0] = *from;
        } else {
            x = *(const est_pack<T, N> *)from;
        }
        for (int e = 0; e < N; e++) sum.v[e] += r.factor != NULL ? f * x.v[e] : x.v[e];
    }
    return sum;
}

/* The end of the run that begins at sorted place s. */
template <typename T> static __device__ int64_t est_run_end(const est_runs<T> &r, int64_t s)
{
    uint64_t id  = est_key_id(r.key[0][s]);
    int64_t  low = s + 1, high = r.n;

    while (low < high) {
        int64_t middle = (low + high) / 2;

        if (est_key_id(r.key[0][middle]) == id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Threads that share a row: as many as it has packs, at most 32, a power of two. */
static inline __host__ __device__ int est_row_lanes(int cols, int pack)
{
    int lanes = 1;

    while (lanes < 32 && lanes * pack < cols) lanes *= 2;
    return lanes;
}

template <typename T> static __device__ void est_set_index(const est_runs<T> &r, int64_t place, bool first)
{
    if (r.wide) {
        ((int64_t *)r.indices)[place] = first ? ((const int64_t *)r.ids)[place] : INT64_MIN;
    } else {
        ((int32_t *)r.indices)[place] = first ? ((const int32_t *)r.ids)[place] : INT32_MIN;
    }
}

/* Long runs, one after the other, by all threads: each group of lanes a slice, then the slices in order. */
template <typename T, int N>
static __device__ void est_sum_long(const est_runs<T> &r, const int64_t *starts, int groups, int group, int lane,
                                    int lanes)
{
    __shared__ est_pack<T, N> part[EST_BLOCK];

    for (int q = 0; q < groups; q++) {
        int64_t s = starts[q], end, slice, from, to;

        if (s < 0) continue;
        end   = est_run_end(r, s);
        slice = (end - s + groups - 1) / groups;
        from  = s + group * slice;
        to    = from + slice < end ? from + slice : end;
        for (int c = lane * N; c < (r.cols + lanes * N - 1) / (lanes * N) * (lanes * N); c += lanes * N) {
            if (c < r.cols) part[threadIdx.x] = est_sum_places<T, N>(r, from, to, c);
            __syncthreads();
            if (group == 0 && c < r.cols) {
                est_pack<T, N> sum = part[lane];

                for (int g = 1; g < groups; g++) {
                    for (int e = 0; e < N; e++) sum.v[e] += part[g * lanes + lane].v[e];
                }
                *(est_pack<T, N> *)(r.sums + (int64_t)est_key_place(r.key[0][s]) * r.cols + c) = sum;
            }
            __syncthreads();
        }
    }
}

template <typename T, int N> static __device__ void est_sum_block(const est_runs<T> &r, unsigned block)
{
    __shared__ int64_t  starts[EST_BLOCK]; /* of long runs, by group; -1: none */
    __shared__ unsigned any;
    int                 lanes = est_row_lanes(r.cols, N), groups = EST_BLOCK / lanes;
    int                 group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;
    int64_t             s = (int64_t)block * groups + group;

    if (threadIdx.x == 0) any = 0;
    if (lane == 0) starts[group] = -1;
    __syncthreads();
    if (s < r.n) {
        uint64_t id    = est_key_id(r.key[0][s]);
        int32_t  place = est_key_place(r.key[0][s]);
        bool     first = id != EST_ID_DROPPED && (s == 0 || est_key_id(r.key[0][s - 1]) != id);

        if (lane == 0) est_set_index(r, place, first);
        if (first && s + EST_RUN_LONG < r.n && est_key_id(r.key[0][s + EST_RUN_LONG]) == id) {
            if (lane == 0) {
                starts[group] = s;
                atomicExch(&any, 1u);
            }
        } else {
            int64_t end = s;

            while (first && end < r.n && est_key_id(r.key[0][end]) == id) end++;
            for (int c = lane * N; c < r.cols; c += lanes * N) { /* no run: zeros */
                *(est_pack<T, N> *)(r.sums + (int64_t)place * r.cols + c) = est_sum_places<T, N>(r, s, end, c);
            }
        }
    }
    __syncthreads();
    if (any != 0) est_sum_long<T, N>(r, starts, groups, group, lane, lanes);
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
        if (calls[k].ids == calls[i].ids && calls[k].n == calls[i].n && calls[k].row_of == NULL &&
            calls[i].row_of == NULL) {
            return k;
        }
    }
    return i;
}

/* Sorts and sums. */
template <typename T> int est_runs_launch(const est_call *c, const est_runs<T> *calls, int n)
{
    est_runs<T>           own[EST_BATCH_MAX], sorts[EST_BATCH_MAX];
    est_many<est_runs<T>> m;
    int64_t               longest = 0;
    int                   by[EST_BATCH_MAX], n_sorts = 0, error, chunk;

    for (int i = 0; i < n; i++) {
        int k = est_runs_sorted_by(calls, i);

        own[i] = calls[i];
        by[i]  = k < i ? by[k] : n_sorts;
        if (k == i) sorts[n_sorts++] = calls[i];
        if (own[i].n > longest) longest = own[i].n;
    }
    if (longest > (int64_t)1 << EST_PLACE_BITS) return (int)cudaErrorUnknown;
    chunk = longest <= EST_SORT_LITTLE ? EST_SORT_LITTLE : EST_SORT_CHUNK;
    m     = est_many_of(sorts, n_sorts, [chunk](const est_runs<T> &r) { return est_blocks(r.n, chunk); });
    error = chunk == EST_SORT_LITTLE ? est_launch_many(c, est_sort_chunks<T, EST_SORT_LITTLE>, m, EST_SORT_LITTLE / 2)
                                     : est_launch_many(c, est_sort_chunks<T, EST_SORT_CHUNK>, m, EST_SORT_CHUNK / 2);
    for (int64_t width = chunk; width < longest && error == 0; width *= 2) {
        m     = est_many_of(sorts, n_sorts, [](const est_runs<T> &r) { return est_blocks(r.n); });
        error = est_launch(c, est_merge_chunks<T>, dim3(m.first[m.n]), EST_BLOCK, m, (int)width);
        for (int i = 0; i < n_sorts; i++) {
            uint64_t *key = sorts[i].key[0];

            sorts[i].key[0] = sorts[i].key[1];
            sorts[i].key[1] = key;
        }
    }
    if (error != 0) return error;
    for (int i = 0; i < n; i++) own[i].key[0] = sorts[by[i]].key[0];
    m = est_many_of(own, n, [](const est_runs<T> &r) {
        return est_blocks(r.n, EST_BLOCK / est_row_lanes(r.cols, r.packed ? 4 : 1));
    });
    return est_launch_many(c, est_sum_runs<T>, m, EST_BLOCK);
}

#endif
