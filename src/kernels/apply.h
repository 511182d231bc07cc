/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer updates: everything but the formula.
 *
 * An update is one pass over a variable, its slots and the gradient. The op's file gives the formula as a loop over n
 * elements, once for float and once for double:
 *
 *     static inline void sgd_f32(float *restrict w, float *restrict s1, float *restrict s2, float *restrict s3,
 *                                const float *restrict g, int64_t n, const float *restrict k)
 *
 * with w the variable, s1..s3 its slots (those it has) and k[] its scalar inputs; EST_APPLY_LOOPS generates the dense
 * update (the loop on a block) and the sparse one (the loop on each row of the gradient). Rows of a sparse gradient
 * must be distinct: blocks of rows are updated side by side. */
#ifndef EST_KERNELS_APPLY_H
#define EST_KERNELS_APPLY_H

#include "kernels/parallel.h"
#include "kernels/variable_access.h"

#define EST_APPLY_VARS    4
#define EST_APPLY_SCALARS 8

typedef struct est_apply {
    void       *var[EST_APPLY_VARS]; /* slots the op has not are the variable again, never looked at */
    int         n_vars;
    est_dtype   dtype;
    const void *grad;
    const void *indices; /* NULL: dense */
    bool        wide;    /* indices are int64 */
    int64_t     n;       /* elements, or rows of the gradient */
    int64_t     cols;    /* of a row; 1 when dense */
    int         n_in;
    double      in[EST_APPLY_SCALARS]; /* the scalar inputs in order; 0 behind the last */
    double      k[EST_APPLY_SCALARS];  /* what the formula gets, filled by the op */
} est_apply;

/* The loops of a formula, [0] float and [1] double, and the cost of an element in nanoseconds. */
typedef struct est_apply_loops {
    est_range_fn dense[2], rows[2];
    double       ns;
} est_apply_loops;

/* The shape function of all of them. Inputs are the variable and its slots, which est_op.writes names, the gradient and
 * its indices (est_op.update), and scalars. */
est_status est_apply_infer(est_infer *c);

/* Looks the inputs up and checks them: variables have values, rows exist. */
EST_MUST_CHECK est_status est_apply_open(const est_call *c, est_apply *out);

/* est_kernel.fail of all of them: row `place` of the indices, value[0], does not exist. */
est_status est_apply_fail(const est_call *c, int64_t place, const int64_t value[2]);

/* Of updates that sum rows of the same index themselves (est_update_inputs.sorted): where param[] has the first column
 * of the gradient, as est_apply_prepare sets it, and scratch on the CPU. */
#define EST_APPLY_COLUMN 1
void   est_apply_prepare(est_call *c);
size_t est_apply_sums_scratch(const est_call *c);

/* Runs the update. */
void est_apply_run(est_pool *pool, est_apply *a, const est_apply_loops *loops);

/* Runs it on every row of the variable: rows that the gradient has not get one of zeros. The scratch of the call has
 * est_apply_all_scratch bytes: as many elements as the gradient, for each variable. */
void   est_apply_run_all(const est_call *c, est_apply *a, const est_apply_loops *loops);
size_t est_apply_all_scratch(const est_call *c);

/* The same on a GPU (cuda/apply_all.cuh): which row of the gradient a row of the variable has. */
size_t est_apply_places_scratch(const est_call *c);
#define EST_APPLY_ALL_CUDA .scratch = est_apply_places_scratch, .fail = est_apply_fail

/* Defines `name`_run and sparse_`name`_run, which is on every row, from `name`_open(c, a) and `name`_loops. */
#define EST_APPLY_RUNS(name)                                                                                           \
    static est_status name##_run(est_call *c)                                                                          \
    {                                                                                                                  \
        est_apply a;                                                                                                   \
                                                                                                                       \
        EST_TRY(name##_open(c, &a));                                                                                   \
        est_apply_run(c->pool, &a, &name##_loops);                                                                     \
        return EST_OK;                                                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    static est_status sparse_##name##_run(est_call *c)                                                                 \
    {                                                                                                                  \
        est_apply a;                                                                                                   \
                                                                                                                       \
        EST_TRY(name##_open(c, &a));                                                                                   \
        est_apply_run_all(c, &a, &name##_loops);                                                                       \
        return EST_OK;                                                                                                 \
    }

#define EST_APPLY_DEFINE_LOOPS(name, T, suffix)                                                                        \
    static void name##_dense_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                            \
    {                                                                                                                  \
        const est_apply *a = arg;                                                                                      \
        T                k[EST_APPLY_SCALARS];                                                                         \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int i = 0; i < EST_APPLY_SCALARS; i++) k[i] = (T)a->k[i];                                                 \
        name##_##suffix((T *)a->var[0] + begin, (T *)a->var[1] + begin, (T *)a->var[2] + begin,                        \
                        (T *)a->var[3] + begin, (const T *)a->grad + begin, end - begin, k);                           \
    }                                                                                                                  \
                                                                                                                       \
    static inline __attribute__((always_inline)) void name##_rows_of_##suffix(const est_apply *a, int64_t begin,       \
                                                                              int64_t end, int64_t cols)               \
    {                                                                                                                  \
        T k[EST_APPLY_SCALARS];                                                                                        \
                                                                                                                       \
        for (int i = 0; i < EST_APPLY_SCALARS; i++) k[i] = (T)a->k[i];                                                 \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            int64_t at = est_row_at(a->indices, a->wide, i) * cols;                                                    \
            if (i + EST_PREFETCH_AHEAD < end) {                                                                        \
                int64_t next = est_row_at(a->indices, a->wide, i + EST_PREFETCH_AHEAD);                                \
                for (int v = 0; v < a->n_vars; v++) {                                                                  \
                    EST_PREFETCH_ROW(a->var[v], next, (size_t)cols * sizeof(T), 1);                                    \
                }                                                                                                      \
            }                                                                                                          \
            name##_##suffix((T *)a->var[0] + at, (T *)a->var[1] + at, (T *)a->var[2] + at, (T *)a->var[3] + at,        \
                            (const T *)a->grad + i * cols, cols, k);                                                   \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    /* The usual widths become constants, which leaves nothing of the loop over a row. */                              \
    static void name##_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                             \
    {                                                                                                                  \
        const est_apply *a = arg;                                                                                      \
                                                                                                                       \
        (void)block;                                                                                                   \
        switch (a->cols) {                                                                                             \
        case 1: name##_rows_of_##suffix(a, begin, end, 1); break;                                                      \
        case 16: name##_rows_of_##suffix(a, begin, end, 16); break;                                                    \
        default: name##_rows_of_##suffix(a, begin, end, a->cols); break;                                               \
        }                                                                                                              \
    }

/* Defines `name`_loops from name_f32 and name_f64. */
#define EST_APPLY_LOOPS(name, ns_per_element)                                                                          \
    EST_APPLY_DEFINE_LOOPS(name, float, f32)                                                                           \
    EST_APPLY_DEFINE_LOOPS(name, double, f64)                                                                          \
    static const est_apply_loops name##_loops = {                                                                      \
        .dense = { name##_dense_f32, name##_dense_f64 },                                                               \
        .rows  = { name##_rows_f32, name##_rows_f64 },                                                                 \
        .ns    = ns_per_element,                                                                                       \
    }

#endif
