/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer updates on a GPU: everything but the formula, which is ops/apply_formulas.h's. A rule is a struct with
 *
 *     static void scalars(const double *in, int n, bool option, double *k)
 *     static void step(T *w, T *s1, T *s2, T *s3, const T *g, int64_t i, const T *k)      T: float, double
 *     static bool takes(const double *in, int n, int *which)     false: scalar `which` is out of its range
 *
 * Scalar inputs are read by the kernel: a learning rate may change from step to step. Nothing is written after a
 * failure. Rows of a sparse gradient are distinct but for padding (est_is_pad); that they exist is checked by a kernel of
 * its own before any is written. Updates of several variables are one launch (cuda/batch.cuh). */
#ifndef EST_CUDA_APPLY_CUH
#define EST_CUDA_APPLY_CUH

#include "cuda/batch.cuh"
#include "cuda/loops.cuh"
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

/* Four elements that lie side by side in the gradient and in the variable. */
template <typename T> struct est_apply_four {
    typedef est_pack<T, EST_APPLY_EACH> four;

    four    w, s1, s2, s3, g;
    int64_t at; /* in the variable; below 0: none */

    __device__ void load(const est_apply_args<T> &a, int64_t i)
    {
        at = i;
        if (a.indices != NULL) {
            int64_t r = est_divide(i, a.cols), row = est_index_at(a.indices, a.wide, r);

            at = row >= 0 && row < a.rows ? row * a.cols + i - r * a.cols : -1;
        }
        if (at < 0) return;
        w = *(four *)(a.w + at);
        g = *(const four *)(a.g + i);
        if (a.s1 != NULL) s1 = *(four *)(a.s1 + at);
        if (a.s2 != NULL) s2 = *(four *)(a.s2 + at);
        if (a.s3 != NULL) s3 = *(four *)(a.s3 + at);
    }

    template <typename Rule> __device__ void step_and_store(const est_apply_args<T> &a, const T *k)
    {
        if (at < 0) return;
        for (int e = 0; e < EST_APPLY_EACH; e++) Rule::step(w.v, s1.v, s2.v, s3.v, g.v, e, k);
        *(four *)(a.w + at) = w;
        if (a.s1 != NULL) *(four *)(a.s1 + at) = s1;
        if (a.s2 != NULL) *(four *)(a.s2 + at) = s2;
        if (a.s3 != NULL) *(four *)(a.s3 + at) = s3;
    }
};

/* The scalars of a rule; false: one of them is out of its range, which is reported, or something has failed before. */
template <typename Rule, typename T>
static inline __device__ bool est_apply_scalars(const est_apply_args<T> &a, bool reports, T *k)
{
    double in[EST_APPLY_SCALARS] = {}, all[EST_APPLY_SCALARS] = {};
    int    which = 0;
    bool   fine;

    for (int s = 0; s < a.n_in; s++) in[s] = (double)*a.in[s];
    fine = Rule::takes(in, a.n_in, &which);
    if (!fine && reports) {
        int64_t bits;
        memcpy(&bits, &in[which], sizeof bits);
        est_report(a.reporter, EST_BAD_SCALAR(which), bits, 0);
    }
    Rule::scalars(in, a.n_in, a.option, all);
    for (int s = 0; s < EST_APPLY_SCALARS; s++) k[s] = (T)all[s];
    return fine && !est_has_failed(a.reporter);
}

/* Thread 0 of each block computes the scalars for all, while the others fetch their elements. */
template <typename Rule, typename T>
static __global__ void est_apply_kernel(const __grid_constant__ est_many<est_apply_args<T>> m)
{
    __shared__ T             k[EST_APPLY_SCALARS];
    __shared__ bool          fine;
    unsigned                 block;
    const est_apply_args<T> &a     = m.call[est_own_call(m, &block)];
    int64_t                  i     = ((int64_t)block * blockDim.x + threadIdx.x) * est_apply_each(a);
    est_apply_four<T>        four  = {};
    bool                     whole = a.packed && i + EST_APPLY_EACH <= a.count; /* a row has a multiple of four */

    if (whole) four.load(a, i);
    if (threadIdx.x == 0) fine = est_apply_scalars<Rule>(a, block == 0, k);
    __syncthreads();
    if (i >= a.count || !fine) return;
    if (whole) {
        four.template step_and_store<Rule>(a, k);
        return;
    }
    for (int e = 0; e < est_apply_each(a) && i < a.count; e++, i++) {
        int64_t at = i;

        if (a.indices != NULL) {
            int64_t r = est_divide(i, a.cols), row = est_index_at(a.indices, a.wide, r);

            if (est_is_pad(row, a.wide)) continue;
            at = row * a.cols + i - r * a.cols;
        }
        Rule::step(a.w, a.s1, a.s2, a.s3, a.g + (i - at), at, k); /* so that one index does for all */
    }
}

template <typename Rule, typename T> int est_apply_launch_many(const est_call *c, const est_apply_args<T> *calls, int n)
{
    est_many<est_apply_args<T>> m = est_many_of(
        calls, n, [](const est_apply_args<T> &a) { return a.indices != NULL ? est_blocks(a.count / a.cols) : 0u; });
    int error;

    error = est_launch_many(c, est_check_rows<T>, m, EST_BLOCK);
    if (error != 0) return error;
    m = est_many_of(calls, n,
                    [](const est_apply_args<T> &a) { return est_blocks(a.count, EST_BLOCK * est_apply_each(a)); });
    return est_launch_many(c, est_apply_kernel<Rule, T>, m, EST_BLOCK);
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
        if (i != takes->gradient && i != takes->indices) a.in[a.n_in++] = est_data<T>(c->in[i]);
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
    a.packed = sizeof(T) == 4 && est_aligned(a.w) && est_aligned(a.s1) && est_aligned(a.s2) && est_aligned(a.s3) &&
               est_aligned(a.g) && (a.indices == NULL || a.cols % EST_APPLY_EACH == 0);
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
