/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the optimizer updates share: inputs in short form, and a reference that applies a formula to every
 * element, or to the elements of the rows a sparse gradient names. */
#ifndef EST_TESTS_OPS_APPLY_H
#define EST_TESTS_OPS_APPLY_H

#include <math.h>
#include <string.h>

#include "kernels/sorted_ids.h"
#include "support/op_check.h"

#define VAR(...)                                                                                                       \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .variable = true                                                              \
    }
/* A slot that is never negative. */
#define POSITIVE(...)                                                                                                  \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .variable = true, .lo = 0.1, .hi = 2                                          \
    }
#define SCALAR_VAR                                                                                                     \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .variable = true, .lo = 0.1, .hi = 2                                                \
    }
#define SCALAR                                                                                                         \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR                                                                                      \
    }
#define NUMBER(x)                                                                                                      \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .values = (const double[])                                                          \
        {                                                                                                              \
            x                                                                                                          \
        }                                                                                                              \
    }
#define INDICES(type, n, list)                                                                                         \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .dtype = type, .values = list                                                           \
    }

/* Distinct rows of a table of 11, of 5000; `many` is filled by apply_indices(). */
#define N_MANY 3001
static const double few[] = { 7, 0, 10, 3 };
static double       many[N_MANY];

static inline void apply_indices(void)
{
    for (int i = 0; i < N_MANY; i++) many[i] = (i * 1237 + 11) % 5000;
}

/* Rows of a table of 90 that repeat, with a row that many have, and the same sorted. */
#define N_REPEATED 700
static double       repeated[N_REPEATED], repeated_sorted[N_REPEATED];
static const double beyond[] = { 3, 90, 5, 91 }, beyond_sorted[] = { 3.0 * (1 << 24) + 0, 5.0 * (1 << 24) + 2,
                                                                     90.0 * (1 << 24) + 1, 91.0 * (1 << 24) + 3 };

static inline void apply_repeated(void)
{
    int n = 0;

    for (int i = 0; i < N_REPEATED; i++) repeated[i] = i % 3 == 0 ? 17 : (i * 37) % 90;
    for (int row = 0; row < 90; row++) {
        for (int i = 0; i < N_REPEATED; i++) {
            if ((int)repeated[i] == row) repeated_sorted[n++] = (double)est_sorted_key(row, false, i);
        }
    }
}

/* One element: v[0] the variable, v[1..] its slots, s the scalar inputs in order. */
typedef void (*apply_formula)(double v[4], double g, const double *s, const est_node_def *node);

static inline void apply_ref(est_ref *r, int n_vars, int grad, int indices, apply_formula formula)
{
    int64_t n = est_shape_count(&r->in_shape[0]), n_grad = est_shape_count(&r->in_shape[grad]), cols = 1;
    double  s[10];
    int     n_s = 0;

    for (int i = n_vars; i < r->n_in; i++) {
        if (i != grad && (indices == 0 || i != indices)) s[n_s++] = r->in[i][0];
    }
    for (int v = 0; v < n_vars; v++) memcpy(r->out[v], r->in[v], (size_t)n * sizeof(double));
    for (int i = 1; i < r->in_shape[0].rank; i++) cols *= r->in_shape[0].dim[i];
    for (int64_t i = 0; i < n_grad; i++) {
        int64_t at = indices != 0 ? (int64_t)r->in[indices][i / cols] * cols + i % cols : i;
        double  v[4];
        for (int k = 0; k < n_vars; k++) v[k] = r->out[k][at];
        formula(v, r->in[grad][i], s, r->node);
        for (int k = 0; k < n_vars; k++) r->out[k][at] = v[k];
    }
}

/* Sums the columns of rows that repeat, then applies the formula to each row once. */
static inline void apply_sums_ref(est_ref *r, int n_vars, int grad, apply_formula formula)
{
    int64_t n = est_shape_count(&r->in_shape[0]), cols = r->in_shape[0].dim[1], step = r->in_shape[grad].dim[1];
    int64_t n_ids = r->in_shape[grad].dim[0], column = est_node_int(r->node, "column");
    double  s[10];
    int     n_s = 0;

    for (int i = n_vars; i < r->n_in - 1; i++) {
        if (i != grad && i != grad + 1) s[n_s++] = r->in[i][0];
    }
    for (int v = 0; v < n_vars; v++) memcpy(r->out[v], r->in[v], (size_t)n * sizeof(double));
    for (int64_t at = 0; at < n; at++) {
        double v[4], g = 0;
        bool   any = false;

        for (int64_t i = 0; i < n_ids; i++) {
            if ((int64_t)r->in[grad + 1][i] != at / cols) continue;
            g += r->in[grad][i * step + column + at % cols];
            any = true;
        }
        for (int k = 0; k < n_vars; k++) v[k] = r->out[k][at];
        if (any) formula(v, g, s, r->node);
        for (int k = 0; k < n_vars; k++) r->out[k][at] = v[k];
    }
}

#endif
