/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer updates on a GPU: everything but the formula, which is ops/apply_formulas.h's. A rule is a struct with
 *
 *     static void scalars(const double *in, int n, bool option, double *k)
 *     static void step(T *w, T *s1, T *s2, T *s3, const T *g, int64_t i, const T *k)      T: float, double
 *     static bool takes(const double *in, int n, int *which)     false: scalar `which` is out of its range
 *     static constexpr int slots                                 how many of s1..s3 it has
 *
 * Scalar inputs are read by the kernel: a learning rate may change from step to step. Nothing is written after a
 * failure. Rows of a sparse gradient are distinct but for padding (est_is_pad); that they exist is checked by a kernel of
 * its own before any is written. Updates of several variables are one launch (cuda/batch.cuh).
 *
 * An update that sums rows of the same index itself goes along its sorted indices (cuda/sorted_rows.cuh): whoever stands
 * at the first of a run adds its rows up and moves the row of the variable, so that the sums are never in memory. Rows
 * that do not exist are the last of what is sorted, where every block looks before it writes. */
#ifndef EST_CUDA_APPLY_CUH
#define EST_CUDA_APPLY_CUH

#include "cuda/batch.cuh"
#include "cuda/sorted_rows.cuh"
#include "kernels/apply.h"

template <typename T> struct est_apply_args {
    T           *w, *s1, *s2, *s3; /* slots it has not: NULL */
    const T     *g;
    const T     *in[EST_APPLY_SCALARS]; /* scalar inputs */
    const void  *indices;               /* NULL: dense */
    int64_t      count;                 /* elements of the gradient */
    int64_t      cols;
    int64_t      rows; /* of the variable */
    est_reporter reporter;
    int8_t       n_in;
    bool         option, wide, packed; /* packed: four elements at a time */

    est_sorted_rows<T> sums; /* of an update that sums: its gradient; else without a key */
};

/* Where it goes in est_error_word.place: rows from 0 up, scalars below. */
#define EST_BAD_SCALAR(which) (-1 - (int64_t)(which))

#define EST_APPLY_EACH 4 /* elements of a thread, where they can be taken at once */

template <typename T> static inline __host__ __device__ int est_apply_each(const est_apply_args<T> &a)
{
    return a.packed ? EST_APPLY_EACH : 1;
}

template <typename T> static __global__ void est_check_rows(const __grid_constant__ est_many<est_apply_args<T>> m)
{
    unsigned                 block;
    const est_apply_args<T> &a = m.call[est_own_call(m, &block)];
    int64_t                  i = (int64_t)block * blockDim.x + threadIdx.x, row;

    if (i * a.cols >= a.count) return;
    row = est_index_at(a.indices, a.wide, i);
    if ((row < 0 || row >= a.rows) && !est_is_pad(row, a.wide)) est_report(a.reporter, i, row, 0);
}

/* Elements that lie side by side in the gradient and in the variable. */
template <typename T, int N> struct est_apply_piece {
    typedef est_pack<T, N> pack;

    pack    w, s1, s2, s3, g;
    int64_t at; /* in the variable; below 0: none */

    template <typename Rule> __device__ void load(const est_apply_args<T> &a, int64_t from)
    {
        at = from;
        if (at < 0) return;
        w = est_load<T, N>(a.w + at);
        if (Rule::slots > 0) s1 = est_load<T, N>(a.s1 + at);
        if (Rule::slots > 1) s2 = est_load<T, N>(a.s2 + at);
        if (Rule::slots > 2) s3 = est_load<T, N>(a.s3 + at);
    }

    template <typename Rule> __device__ void step_and_store(const est_apply_args<T> &a, const T *k)
    {
        if (at < 0) return;
        for (int e = 0; e < N; e++) Rule::step(w.v, s1.v, s2.v, s3.v, g.v, e, k);
        *(pack *)(a.w + at) = w;
        if (Rule::slots > 0) *(pack *)(a.s1 + at) = s1;
        if (Rule::slots > 1) *(pack *)(a.s2 + at) = s2;
        if (Rule::slots > 2) *(pack *)(a.s3 + at) = s3;
    }
};

/* Where element i of the gradient goes; below 0: nowhere. */
template <typename T> static inline __device__ int64_t est_apply_at(const est_apply_args<T> &a, int64_t i)
{
    int64_t r, row;

    if (a.indices == NULL) return i;
    r   = est_divide(i, a.cols);
    row = est_index_at(a.indices, a.wide, r);
    return row >= 0 && row < a.rows ? row * a.cols + i - r * a.cols : -1;
}

/* The scalars of a rule, in shared memory: as registers of one thread they would be those of all. */
template <typename T> struct est_apply_shared {
    double in[EST_APPLY_SCALARS], all[EST_APPLY_SCALARS];
    T      k[EST_APPLY_SCALARS];
    bool   fine;
};

/* One thread makes them for all. Not fine: one of them is out of its range, which is reported, or something has failed
 * before. */
template <typename Rule, typename T>
static inline __device__ void est_apply_scalars(const est_apply_args<T> &a, bool reports, est_apply_shared<T> *s)
{
    int  which = 0;
    bool fine;

    for (int i = 0; i < a.n_in; i++) s->in[i] = (double)*a.in[i];
    fine = Rule::takes(s->in, a.n_in, &which);
    if (!fine && reports) {
        int64_t bits;
        memcpy(&bits, &s->in[which], sizeof bits);
        est_report(a.reporter, EST_BAD_SCALAR(which), bits, 0);
    }
    Rule::scalars(s->in, a.n_in, a.option, s->all);
    for (int i = 0; i < EST_APPLY_SCALARS; i++) s->k[i] = (T)s->all[i];
    s->fine = fine && !est_has_failed(a.reporter);
}

/* Thread 0 of each block computes the scalars for all, while the others fetch their elements. */
template <typename Rule, typename T>
static __device__ void est_apply_elements(const est_apply_args<T> &a, unsigned block, est_apply_shared<T> *shared)
{
    int64_t                            i     = ((int64_t)block * blockDim.x + threadIdx.x) * est_apply_each(a);
    est_apply_piece<T, EST_APPLY_EACH> four  = {};
    bool                               whole = a.packed && i + EST_APPLY_EACH <= a.count; /* rows have a multiple */

    if (whole) {
        four.template load<Rule>(a, est_apply_at(a, i));
        four.g = est_load<T, EST_APPLY_EACH>(a.g + i);
    }
    if (threadIdx.x == 0) est_apply_scalars<Rule>(a, block == 0, shared);
    __syncthreads();
    if (i >= a.count || !shared->fine) return;
    if (whole) {
        four.template step_and_store<Rule>(a, shared->k);
        return;
    }
    for (int e = 0; e < est_apply_each(a) && i < a.count; e++, i++) {
        int64_t at = est_apply_at(a, i);

        if (at < 0) continue;
        Rule::step(a.w, a.s1, a.s2, a.s3, a.g + (i - at), at, shared->k); /* so that one index does for all */
    }
}

template <typename Rule, typename T>
static __global__ void est_apply_kernel(const __grid_constant__ est_many<est_apply_args<T>> m)
{
    __shared__ est_apply_shared<T> shared;
    unsigned                       block;
    const est_apply_args<T>       &a = m.call[est_own_call(m, &block)];

    est_apply_elements<Rule>(a, block, &shared);
}

/* --- updates that sum --------------------------------------------------------------------------------------------- */

/* Whether all rows exist; the first in the list that does not is reported by one block. */
template <typename T> static inline __device__ bool est_apply_rows_exist(const est_apply_args<T> &a, bool reports)
{
    const est_sorted_rows<T> &r    = a.sums;
    int64_t                   last = r.n - 1;

    if (est_sorted_row(r.key[last]) == EST_ID_DROPPED) last = est_find_id(r, 0, EST_ID_DROPPED) - 1;
    if (last < 0 || est_sorted_row(r.key[last]) < (uint64_t)a.rows) return true;
    for (int64_t i = 0; i < r.n && reports; i++) {
        int64_t row = est_index_at(a.indices, a.wide, i);

        if ((row >= 0 && row < a.rows) || est_is_pad(row, a.wide)) continue;
        est_report(a.reporter, i, row, 0);
        break;
    }
    return false;
}

#define EST_RUN_BLOCKS 6 /* of a processor, for floats: rows that are under way together hide how long each takes */

/* Groups of lanes stand at sorted places; those at the first of a run move its row. The last thread, which brings no
 * keys where a row has several lanes, looks at the scalars meanwhile. */
template <typename Rule, typename T, int N>
static __device__ void est_apply_runs(const est_apply_args<T> &a, unsigned block, est_apply_shared<T> *shared)
{
    __shared__ unsigned       any;
    __shared__ int64_t        starts[EST_BLOCK]; /* of long runs, by group; -1: none */
    __shared__ uint64_t       room[EST_NEAR_KEYS(EST_BLOCK)];
    const est_sorted_rows<T> &r     = a.sums;
    int                       lanes = est_row_lanes(r.cols, N), groups = EST_BLOCK / lanes;
    int                       group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;
    int64_t                   begin = (int64_t)block * groups;
    const uint64_t           *near;
    bool                      is_long;

    if (threadIdx.x == EST_BLOCK - 1) {
        any = 0;
        est_apply_scalars<Rule>(a, block == 0, shared);
        if (!est_apply_rows_exist(a, block == 0)) shared->fine = false;
    }
    near = est_bring_keys(r.key, r.n, begin, groups, room);
    if (!shared->fine) return;
    is_long = est_run_begins(near, group) && est_run_is_long(near, group);
    for (int c = lane * N; c < r.cols && !is_long && est_run_begins(near, group); c += lanes * N) {
        est_apply_piece<T, N> piece = {};

        piece.template load<Rule>(a, (int64_t)est_sorted_row(near[group]) * a.cols + c);
        piece.g = est_row_of_place<T, N>(r, near[group], c);
        est_add_places<T, N>(r, near, group + 1, est_run_end(near, group), c, &piece.g);
        piece.template step_and_store<Rule>(a, shared->k);
    }
    if (lane == 0) starts[group] = is_long ? begin + group : -1;
    if (is_long) atomicExch(&any, 1u);
    __syncthreads();
    if (any == 0) return;
    est_sum_long<T, N>(r, starts, [&a, shared](int64_t at, int c, const est_pack<T, N> &sum) {
        est_apply_piece<T, N> whole = {};

        whole.template load<Rule>(a, (int64_t)est_sorted_row(a.sums.key[at]) * a.cols + c);
        whole.g = sum;
        whole.template step_and_store<Rule>(a, shared->k);
    });
}

/* What sums, and beside it what does not: the last updates of a step are one launch. */
template <typename Rule, typename T>
static __global__ void __launch_bounds__(EST_BLOCK, sizeof(T) == 4 ? EST_RUN_BLOCKS : EST_RUN_BLOCKS / 2)
    est_apply_sums(const __grid_constant__ est_many<est_apply_args<T>> m)
{
    __shared__ est_apply_shared<T> shared;
    unsigned                       block;
    const est_apply_args<T>       &a = m.call[est_own_call(m, &block)];

    if (a.sums.key == NULL) {
        est_apply_elements<Rule>(a, block, &shared);
    } else if (a.packed) {
        est_apply_runs<Rule, T, sizeof(T) == 4 ? EST_APPLY_EACH : 1>(a, block, &shared);
    } else {
        est_apply_runs<Rule, T, 1>(a, block, &shared);
    }
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

template <typename T> static unsigned est_apply_blocks(const est_apply_args<T> &a)
{
    if (a.sums.key == NULL) return est_blocks(a.count, EST_BLOCK * est_apply_each(a));
    return est_blocks(a.sums.n, EST_BLOCK / est_row_lanes(a.sums.cols, est_apply_each(a)));
}

template <typename Rule, typename T> int est_apply_launch_many(const est_call *c, const est_apply_args<T> *calls, int n)
{
    est_many<est_apply_args<T>> m     = est_many_of(calls, n, [](const est_apply_args<T> &a) {
        return a.indices != NULL && a.sums.key == NULL ? est_blocks(a.count / a.cols) : 0u;
    });
    int                         error = est_launch_many(c, est_check_rows<T>, m, EST_BLOCK);
    bool                        sums  = false;

    if (error != 0) return error;
    for (int i = 0; i < n; i++) sums = sums || calls[i].sums.key != NULL;
    m = est_many_of(calls, n, est_apply_blocks<T>);
    return est_launch_many(c, sums ? est_apply_sums<Rule, T> : est_apply_kernel<Rule, T>, m, EST_BLOCK);
}

template <typename T> est_apply_args<T> est_apply_args_of(const est_call *c)
{
    const est_op            *op    = c->node->op;
    const est_update_inputs *takes = op->update;
    const est_view          *grad = c->in[takes->gradient], *var = &est_call_variable(c, 0)->value;
    T                       *vars[EST_APPLY_VARS] = {};
    est_apply_args<T>        a                    = {};
    int                      n_vars               = __builtin_popcount(op->writes);

    for (int i = 0; i < n_vars; i++) vars[i] = est_data<T>(&est_call_variable(c, i)->value);
    for (int i = n_vars; i < c->n_in; i++) {
        if (i != takes->gradient && i != takes->indices && i != takes->sorted) a.in[a.n_in++] = est_data<T>(c->in[i]);
    }
    a.w        = vars[0];
    a.s1       = vars[1];
    a.s2       = vars[2];
    a.s3       = vars[3];
    a.g        = est_data<T>(grad);
    a.option   = c->param[0].i != 0;
    a.count    = grad->count;
    a.cols     = est_row_size(var) > 0 ? est_row_size(var) : 1;
    a.rows     = est_row_count(var);
    a.reporter = est_reporter_of(c);
    if (takes->indices != 0) {
        a.indices = c->in[takes->indices]->data;
        a.wide    = c->in[takes->indices]->dtype == EST_I64;
    }
    if (takes->sorted != 0) {
        a.g += c->param[EST_APPLY_COLUMN].i;
        a.sums.key  = est_data<uint64_t>(c->in[takes->sorted]);
        a.sums.dy   = a.g;
        a.sums.step = est_row_size(grad);
        a.sums.n    = c->in[takes->sorted]->count;
        a.sums.cols = (int)a.cols;
    }
    a.packed = sizeof(T) == 4 && est_aligned(a.w) && est_aligned(a.s1) && est_aligned(a.s2) && est_aligned(a.s3) &&
               est_aligned(a.g) && (a.indices == NULL || a.cols % EST_APPLY_EACH == 0) &&
               a.sums.step % EST_APPLY_EACH == 0;
    return a;
}

template <typename Rule, typename T> int est_apply_launch_as(const est_call *c)
{
    return est_batch_add(c, est_apply_launch_many<Rule, T>, est_apply_args_of<T>(c));
}

template <typename Rule> int est_apply_launch(const est_call *c)
{
    return c->in[c->node->op->update->gradient]->dtype == EST_F32 ? est_apply_launch_as<Rule, float>(c)
                                                                  : est_apply_launch_as<Rule, double>(c);
}

/* A rule made of a formula; `statements` use T. */
#define EST_RULE_STEP(statements)                                                                                      \
    template <typename T> static __device__ void step(T *w, T *s1, T *s2, T *s3, const T *g, int64_t i, const T *k)    \
    {                                                                                                                  \
        (void)s1, (void)s2, (void)s3;                                                                                  \
        statements                                                                                                     \
    }
#define EST_RULE_SCALARS(fn)                                                                                           \
    static __device__ void scalars(const double *in, int n, bool option, double *k)                                    \
    {                                                                                                                  \
        fn(in, n, option, k);                                                                                          \
    }
#define EST_RULE_TAKES_ALL                                                                                             \
    static __device__ bool takes(const double *, int, int *)                                                           \
    {                                                                                                                  \
        return true;                                                                                                   \
    }

#endif
