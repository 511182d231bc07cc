/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer updates on a GPU: everything but the formula, which is ops/apply_formulas.h's. A rule is a struct with
 *
 *     static void scalars(const double *in, int n, bool option, double *k)
 *     static void step(T *w, T *s1, T *s2, T *s3, const T *g, int64_t i, const T *k)      T: float, double
 *     static bool takes(const double *in, int n, int *which)     false: scalar `which` is out of its range
 *
 * Scalar inputs are read by the kernel: a learning rate may change from step to step. Nothing is written after a
 * failure. Rows of a sparse gradient are distinct; that they exist is checked by a kernel of its own before any is
 * written. */
#ifndef EST_CUDA_APPLY_CUH
#define EST_CUDA_APPLY_CUH

#include "cuda/launch.cuh"
#include "kernels/apply.h"

template <typename T> struct est_apply_args {
    T          *w, *s1, *s2, *s3;
    const T    *g;
    const T    *in[EST_APPLY_SCALARS]; /* scalar inputs */
    int         n_in;
    bool        option;
    const void *indices; /* NULL: dense */
    bool        wide;
    int64_t     count; /* elements of the gradient */
    int64_t     cols;
    int64_t     rows; /* of the variable */
};

/* Where it goes in est_error_word.place: rows from 0 up, scalars below. */
#define EST_BAD_SCALAR(which) (-1 - (int64_t)(which))

template <typename T> static __global__ void est_check_rows(est_apply_args<T> a, int64_t n, est_reporter reporter)
{
    int64_t i = est_thread(), row;

    if (i >= n) return;
    row = est_index_at(a.indices, a.wide, i);
    if (row < 0 || row >= a.rows) est_report(reporter, i, row, 0);
}

/* Thread 0 of each block computes the scalars for all. */
template <typename Rule, typename T> static __global__ void est_apply_kernel(est_apply_args<T> a, est_reporter reporter)
{
    __shared__ T    k[EST_APPLY_SCALARS];
    __shared__ bool fine;
    int64_t         i = est_thread(), at = i;

    if (threadIdx.x == 0) {
        double in[EST_APPLY_SCALARS] = {}, all[EST_APPLY_SCALARS] = {};
        int    which = 0;

        for (int s = 0; s < a.n_in; s++) in[s] = (double)*a.in[s];
        fine = Rule::takes(in, a.n_in, &which);
        if (!fine && blockIdx.x == 0) {
            int64_t bits;
            memcpy(&bits, &in[which], sizeof bits);
            est_report(reporter, EST_BAD_SCALAR(which), bits, 0);
        }
        Rule::scalars(in, a.n_in, a.option, all);
        for (int s = 0; s < EST_APPLY_SCALARS; s++) k[s] = (T)all[s];
    }
    __syncthreads();
    if (i >= a.count || !fine || est_has_failed(reporter)) return;
    if (a.indices != NULL) at = est_index_at(a.indices, a.wide, i / a.cols) * a.cols + i % a.cols;
    a.g += i - at; /* so that one index does for all */
    Rule::step(a.w, a.s1, a.s2, a.s3, a.g, at, k);
}

template <typename Rule, typename T> int est_apply_launch_as(const est_call *c)
{
    const est_op            *op    = c->node->op;
    const est_update_inputs *takes = op->update;
    const est_view          *grad = c->in[takes->gradient], *var = &est_call_variable(c, 0)->value;
    T                       *vars[EST_APPLY_VARS] = {};
    est_apply_args<T>        a                    = {};
    int                      n_vars               = __builtin_popcount(op->writes), error;

    for (int i = 0; i < n_vars; i++) vars[i] = est_data<T>(&est_call_variable(c, i)->value);
    for (int i = n_vars; i < c->n_in; i++) {
        if (i != takes->gradient && i != takes->indices) a.in[a.n_in++] = est_data<T>(c->in[i]);
    }
    a.w      = vars[0];
    a.s1     = vars[1];
    a.s2     = vars[2];
    a.s3     = vars[3];
    a.g      = est_data<T>(grad);
    a.option = c->param[0].i != 0;
    a.count  = grad->count;
    a.cols   = est_row_size(var) > 0 ? est_row_size(var) : 1;
    a.rows   = est_row_count(var);
    if (takes->indices != 0) {
        a.indices = c->in[takes->indices]->data;
        a.wide    = c->in[takes->indices]->dtype == EST_I64;
        error     = est_launch(c, est_check_rows<T>, dim3(est_blocks(c->in[takes->indices]->count)), EST_BLOCK, a,
                               c->in[takes->indices]->count, est_reporter_of(c));
        if (error != 0) return error;
    }
    return est_launch(c, est_apply_kernel<Rule, T>, dim3(est_blocks(a.count)), EST_BLOCK, a, est_reporter_of(c));
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
