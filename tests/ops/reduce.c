/* SPDX-License-Identifier: Apache-2.0 — reductions over axes, EstReduceGrad and EstProdGrad. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

/* Which element of the reduced tensor element i of x belongs to. */
static int64_t place_of(const est_ref *r, const est_shape *x, int axes_input, int64_t i)
{
    int64_t  at[EST_RANK_MAX], place = 0;
    uint32_t reduced = 0;

    for (int64_t k = 0; k < est_shape_count(&r->in_shape[axes_input]); k++) {
        int64_t a = (int64_t)r->in[axes_input][k];
        reduced |= 1u << (a < 0 ? a + x->rank : a);
    }
    coords_of(x, i, at);
    for (int a = 0; a < x->rank; a++) {
        if ((reduced >> a & 1) == 0) place = place * x->dim[a] + at[a];
    }
    return place;
}

static double start_of(const char *op)
{
    if (strcmp(op, "Max") == 0) return -INFINITY;
    if (strcmp(op, "Min") == 0) return INFINITY;
    return strcmp(op, "Prod") == 0 || strcmp(op, "All") == 0;
}

static double combine(const char *op, double a, double b)
{
    if (strcmp(op, "Max") == 0) return isnan(a) || isnan(b) ? NAN : fmax(a, b);
    if (strcmp(op, "Min") == 0) return isnan(a) || isnan(b) ? NAN : fmin(a, b);
    if (strcmp(op, "Prod") == 0) return a * b;
    if (strcmp(op, "All") == 0) return a != 0 && b != 0;
    if (strcmp(op, "Any") == 0) return a != 0 || b != 0;
    return a + b;
}

/* One attribute, as a constant table can hold it. */
#define ONE_ATTR(...)                                                                                                  \
    {                                                                                                                  \
        (const est_attr[]){ { __VA_ARGS__ } }, 1                                                                       \
    }

static void reduce_ref(est_ref *r)
{
    const char *op    = r->test->op;
    int64_t     n_out = est_shape_count(&r->out_shape[0]), n_in = est_shape_count(&r->in_shape[0]);

    for (int64_t k = 0; k < n_out; k++) r->out[0][k] = start_of(op);
    for (int64_t i = 0; i < n_in; i++) {
        double *y = &r->out[0][place_of(r, &r->in_shape[0], 1, i)];
        *y        = combine(op, *y, r->in[0][i]);
    }
    if (strcmp(op, "Mean") != 0) return;
    for (int64_t k = 0; k < n_out; k++) {
        r->out[0][k] /= (double)n_in / (double)n_out;
        if (r->test->dtype == EST_I32 || r->test->dtype == EST_I64) r->out[0][k] = trunc(r->out[0][k]);
    }
}

static void reduce_grad_ref(est_ref *r)
{
    double share = est_node_bool(r->node, "mean")
                       ? (double)est_shape_count(&r->in_shape[0]) / (double)est_shape_count(&r->in_shape[1])
                       : 1;

    for (int64_t i = 0; i < est_shape_count(&r->in_shape[1]); i++) {
        r->out[0][i] = r->in[0][place_of(r, &r->in_shape[1], 2, i)] * share;
    }
}

/* The product of the others, multiplied out. */
static void prod_grad_ref(est_ref *r)
{
    int64_t n = est_shape_count(&r->in_shape[1]);

    for (int64_t i = 0; i < n; i++) {
        int64_t place = place_of(r, &r->in_shape[1], 2, i);
        double  prod  = r->in[0][place];
        for (int64_t k = 0; k < n; k++) {
            if (k != i && place_of(r, &r->in_shape[1], 2, k) == place) prod *= r->in[1][k];
        }
        r->out[0][i] = prod;
    }
}

#define KEEP    .attrs = ONE_ATTR(.name = "keep_dims", .kind = EST_ATTR_BOOL, .b = true)
#define REFUSED .fails = EST_INVALID_ARGUMENT
#define NO_AXES                                                                                                        \
    {                                                                                                                  \
        .shape = EST_SHAPE(0), .dtype = EST_I32, .values = (const double[]){ 0 }, .constant = true                     \
    }
/* clang-format off */
#define EMPTY_OK(name)                                                                                                 \
    { name, { IN(3, 0), INTS(1) }, .ref = reduce_ref },                                                                \
    { name, { IN(0, 3), INTS(1) }, .ref = reduce_ref }
#define CHECKED(low, high, tolerance) .lo = low, .hi = high, .tol = tolerance, .ref = reduce_ref
#define LONG_AXIS(axis)                                                                                                \
    { .shape = EST_SHAPE_SCALAR, .dtype = EST_I64, .values = (const double[]){ axis }, .constant = true }
#define FLOATS(name, low, high, tolerance)                                                                             \
    { name, { IN(9), INTS(0) }, CHECKED(low, high, tolerance) },                                                       \
    { name, { SCALAR_IN, NO_AXES }, CHECKED(low, high, tolerance) },                                                   \
    { name, { IN(3, 4), NO_AXES }, CHECKED(low, high, tolerance) },                                                    \
    { name, { IN(3, 5), INTS(0) }, CHECKED(low, high, tolerance) },                                                    \
    { name, { IN(3, 5), INTS(-1) }, CHECKED(low, high, tolerance), KEEP },                                             \
    { name, { IN(3, 5), INTS(1, 0) }, CHECKED(low, high, tolerance), KEEP },                                           \
    { name, { IN(2, 3, 4), INTS(1) }, CHECKED(low, high, tolerance) },                                                 \
    { name, { IN(2, 3, 4), INTS(0, 2) }, CHECKED(low, high, tolerance) },                                              \
    { name, { IN(2, 3, 1, 2, 3), INTS(1, -1) }, CHECKED(low, high, tolerance), KEEP },                                 \
    { name, { IN(3, 4), LONG_AXIS(1) }, CHECKED(low, high, tolerance) },                                               \
    { name, { IN(3, 4), INTS(2) }, REFUSED, .says = "axis 2" },                                                        \
    { name, { IN(3, 4), INTS(1, -1) }, REFUSED, .says = "twice" }
/* Every way the engine has: long rows, very long rows, narrow and wide columns, blocks in the middle, short rows. */
#define LARGE(name, low, high, tolerance)                                                                              \
    { name, { IN(7, 1000), INTS(1) }, CHECKED(low, high, tolerance), .no_grad = true },                                \
    { name, { IN(3, 50021), INTS(1) }, CHECKED(low, high, tolerance), .no_grad = true },                               \
    { name, { IN(200003), INTS(0) }, CHECKED(low, high, tolerance), .no_grad = true },                                 \
    { name, { IN(20011, 10), INTS(0) }, CHECKED(low, high, tolerance), .no_grad = true },                              \
    { name, { IN(331, 700), INTS(0) }, CHECKED(low, high, tolerance), .no_grad = true },                               \
    { name, { IN(20011, 10), INTS(1) }, CHECKED(low, high, tolerance), .no_grad = true },                              \
    { name, { IN(13, 71, 33, 9), INTS(0, 2) }, CHECKED(low, high, tolerance), .no_grad = true },                       \
    { name, { IN(13, 71, 33, 9), INTS(1, 3) }, CHECKED(low, high, tolerance), .no_grad = true }
#define NUMBERS(name, low, high)                                                                                       \
    { name, { IN(9, 4), INTS(0) }, .dtype = EST_I32, CHECKED(low, high, 0) },                                          \
    { name, { IN(9, 4), INTS(1) }, .dtype = EST_I64, CHECKED(low, high, 0) }
#define BOOLS(name)                                                                                                    \
    { name, { IN(70, 4), INTS(1) }, .dtype = EST_BOOL, .ref = reduce_ref },                                            \
    { name, { IN(2, 300), INTS(0) }, .dtype = EST_BOOL, .ref = reduce_ref },                                           \
    { name, { IN(3, 2), INTS(0, 1) }, .dtype = EST_BOOL, KEEP, .ref = reduce_ref },                                    \
    { name, { IN(2, 0), INTS(1) }, .dtype = EST_BOOL, .ref = reduce_ref }
/* clang-format on */

static const double ties[]    = { 1, 3, 3, 2, 5, 5, 5, 1 };
static const double nan_row[] = { 1, NAN, 2, 4, 5, 6 };
static const double zeros[]   = { 2, 0, 3, 0, 5, 0, 7, 8, 9 };

static const est_op_case cases[] = {
    FLOATS("Sum", -2, 2, 2e-6),
    { "Sum", { IN(3, 5), FED_INTS(-1) }, .tol = 2e-6, .ref = reduce_ref }, /* axes only the step knows */
    { "Sum", { IN(300, 501), FED_INTS(0) }, .lo = 0, .hi = 1, .tol = 1e-6, .no_grad = true, KEEP, .ref = reduce_ref },
    LARGE("Sum", -1, 2, 1e-6),
    NUMBERS("Sum", -9, 9),
    EMPTY_OK("Sum"),
    FLOATS("Mean", -2, 2, 1e-6),
    LARGE("Mean", -1, 2, 1e-6),
    NUMBERS("Mean", -9, 9),
    { "Mean", { IN(0, 3), INTS(1) }, .ref = reduce_ref },
    FLOATS("Max", -2, 2, 0),
    LARGE("Max", -1, 2, 0),
    NUMBERS("Max", -9, 9),
    EMPTY_OK("Max"),
    { "Max", { { .shape = EST_SHAPE(2, 3), .values = nan_row }, INTS(1) }, .no_grad = true, .ref = reduce_ref },
    { "Max", { { .shape = EST_SHAPE(2, 3), .values = nan_row }, INTS(0) }, .no_grad = true, .ref = reduce_ref },
    FLOATS("Min", -2, 2, 0),
    LARGE("Min", -1, 2, 0),
    NUMBERS("Min", -9, 9),
    EMPTY_OK("Min"),
    FLOATS("Prod", 0.5, 2, 2e-6),
    { "Prod", { { .shape = EST_SHAPE(3, 3), .values = zeros }, INTS(1) }, .ref = reduce_ref },
    { "Prod", { IN(3000, 3), INTS(0) }, .lo = 0.999, .hi = 1.001, .tol = 1e-5, .no_grad = true, .ref = reduce_ref },
    { "Prod", { IN(20000), INTS(0) }, .lo = 0.999, .hi = 1.001, .tol = 1e-5, .no_grad = true, .ref = reduce_ref },
    NUMBERS("Prod", -2, 2),
    EMPTY_OK("Prod"),
    BOOLS("All"),
    BOOLS("Any"),
    { "EstReduceGrad", { IN(3), IN(3, 5), INTS(1) }, .ref = reduce_grad_ref },
    { "EstReduceGrad", { IN(1, 5), IN(3, 5), INTS(0) }, KEEP, .ref = reduce_grad_ref },
    { "EstReduceGrad", { SCALAR_IN, IN(300, 400), INTS(0, 1) }, .no_grad = true, .ref = reduce_grad_ref },
    { "EstReduceGrad",
      { IN(3), IN(2, 3, 4), INTS(0, 2) },
      .tol   = 1e-6,
      .attrs = ONE_ATTR(.name = "mean", .kind = EST_ATTR_BOOL, .b = true),
      .ref   = reduce_grad_ref },
    { "EstReduceGrad",
      { IN(0), IN(0, 4), INTS(1) },
      .attrs = ONE_ATTR(.name = "mean", .kind = EST_ATTR_BOOL, .b = true),
      .ref   = reduce_grad_ref },
    { "EstProdGrad", { IN(3), IN(3, 5), INTS(1) }, .tol = 1e-6, .ref = prod_grad_ref },
    { "EstProdGrad",
      { IN(1, 3), { .shape = EST_SHAPE(3, 3), .values = zeros }, INTS(0) },
      KEEP,
      .tol = 1e-5,
      .ref = prod_grad_ref },
    { "EstProdGrad",
      { IN(3), { .shape = EST_SHAPE(3, 3), .values = zeros }, INTS(1) },
      .tol = 1e-5,
      .ref = prod_grad_ref },
};

/* Equal largest elements share what flows back. */
static void test_ties(void)
{
    const double want[] = { 0, 0.5, 0.5, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3, 0 };
    est_graph   *graph  = test_graph();
    float        x[8];
    est_node     node;
    est_gradient dx;
    est_tensor  *out;

    for (int i = 0; i < 8; i++) x[i] = (float)ties[i];
    node = est_const_f32(graph, EST_SHAPE(2, 4), x);
    est_gradients(est_sum(est_reduce_max(node, EST_I64S(1), false)), (est_nodes){ &node, 1 }, &dx);
    out = test_run(dx.values, EST_NO_FEEDS);
    for (int i = 0; out != NULL && i < 8; i++) {
        CHECK(fabs(((const float *)est_tensor_data(out))[i] - want[i]) < 1e-6, "element %d", i);
    }
    est_tensor_free(out);
    est_graph_free(graph);
}

/* The error of a sum must not grow with its length: ten million times a number that floats round. */
static void test_long_sum(void)
{
    const int64_t n     = 10000000;
    est_graph    *graph = test_graph();
    est_node      x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1));
    est_tensor   *value = NULL, *out;
    double        exact = 0;

    CHECK(est_tensor_create(EST_F32, EST_SHAPE(n), &value) == EST_OK);
    for (int64_t i = 0; value != NULL && i < n; i++) {
        float v                                      = 0.1f + (float)(i % 7) * 0.01f;
        ((float *)est_tensor_mutable_data(value))[i] = v;
        exact += v;
    }
    out = test_run(est_sum(x), EST_FEEDS({ x, value }));
    if (out != NULL) {
        double got = *(const float *)est_tensor_data(out);
        CHECK(fabs(got - exact) / exact < 2e-7, "%.9g instead of %.9g", got, exact);
    }
    est_tensor_free(out);
    est_tensor_free(value);
    est_graph_free(graph);
}

/* The mean over a batch whose size is not known when the graph is built, and its gradient. */
static void test_unknown_batch(void)
{
    est_graph   *graph = test_graph();
    est_node     x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 2));
    est_tensor  *value = NULL, *out;
    est_gradient dx;

    CHECK(est_tensor_f32(EST_SHAPE(4, 2), (const float[]){ 1, 2, 3, 4, 5, 6, 7, 8 }, &value) == EST_OK);
    est_gradients(est_sum(est_square(est_reduce_mean(x, EST_I64S(0), false))), (est_nodes){ &x, 1 }, &dx);
    out = test_run(dx.values, EST_FEEDS({ x, value }));
    for (int i = 0; out != NULL && i < 8; i++) { /* 2 * mean / 4, the means being 4 and 5 */
        CHECK(((const float *)est_tensor_data(out))[i] == (i % 2 == 0 ? 2.0f : 2.5f), "element %d", i);
    }
    est_tensor_free(out);
    est_tensor_free(value);
    est_graph_free(graph);
}

/* All axes of a tensor whose rank is not known either. */
static void test_unknown_rank(void)
{
    est_graph  *graph = test_graph();
    est_node    x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE_UNKNOWN);
    est_tensor *value = NULL, *out;

    CHECK(est_tensor_f32(EST_SHAPE(2, 2), (const float[]){ 1, 2, 3, 4 }, &value) == EST_OK);
    out = test_run(est_sum(x), EST_FEEDS({ x, value }));
    CHECK(out != NULL && est_tensor_shape(out)->rank == 0 && *(const float *)est_tensor_data(out) == 10);
    est_tensor_free(out);
    est_tensor_free(value);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    test_ties();
    test_long_sum();
    test_unknown_batch();
    test_unknown_rank();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
