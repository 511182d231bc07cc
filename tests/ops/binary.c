/* SPDX-License-Identifier: Apache-2.0 — arithmetic of two arguments, with broadcasting. */
#include <math.h>
#include <string.h>

#include "support/broadcast_ref.h"
#include "support/graph_test.h"
#include "support/op_check.h"

typedef struct binary {
    const char *op;
    double (*fn)(double a, double b);
} binary;

/* clang-format off */
#define BINARY(name, expr) static double name(double a, double b) { return expr; }
BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a * b)
BINARY(real_div, a / b)
BINARY(int_div, trunc(a / b))
BINARY(div_no_nan, b == 0 ? 0 : a / b)
BINARY(floor_div, floor(a / b))
BINARY(floor_mod, a - floor(a / b) * b)
BINARY(maximum, isnan(a) || isnan(b) ? NAN : fmax(a, b))
BINARY(minimum, isnan(a) || isnan(b) ? NAN : fmin(a, b))
BINARY(squared_difference, (a - b) * (a - b))
/* clang-format on */

static const binary binaries[] = {
    { "AddV2", add },
    { "Add", add },
    { "Sub", sub },
    { "Mul", mul },
    { "RealDiv", real_div },
    { "Div", int_div },
    { "DivNoNan", div_no_nan },
    { "FloorDiv", floor_div },
    { "FloorMod", floor_mod },
    { "Maximum", maximum },
    { "Minimum", minimum },
    { "Pow", pow },
    { "SquaredDifference", squared_difference },
};

static void binary_ref(est_ref *r)
{
    const est_shape *out = &r->out_shape[0];

    for (size_t k = 0; k < sizeof binaries / sizeof binaries[0]; k++) {
        if (strcmp(binaries[k].op, r->test->op) != 0) continue;
        for (int64_t i = 0; i < est_shape_count(out); i++) {
            r->out[0][i] = binaries[k].fn(r->in[0][broadcast_source(&r->in_shape[0], out, i)],
                                          r->in[1][broadcast_source(&r->in_shape[1], out, i)]);
        }
    }
}

/* clang-format off */
/* A range for each argument, so that kinks and poles stay out of the way. */
#define RANGE(low, high, ...) { .shape = EST_SHAPE(__VA_ARGS__), .lo = low, .hi = high }
#define SCALAR(low, high)     { .shape = EST_SHAPE_SCALAR, .lo = low, .hi = high }
#define CHECKED(tolerance)    .tol = tolerance, .ref = binary_ref
#define SHAPES(name, al, ah, bl, bh, tolerance)                                                                        \
    { name, { RANGE(al, ah, 5, 7), RANGE(bl, bh, 5, 7) }, CHECKED(tolerance) },                                        \
    { name, { SCALAR(al, ah), RANGE(bl, bh, 7) }, CHECKED(tolerance) },                                                \
    { name, { RANGE(al, ah, 3, 5), SCALAR(bl, bh) }, CHECKED(tolerance) },                                             \
    { name, { SCALAR(al, ah), SCALAR(bl, bh) }, CHECKED(tolerance) },                                                  \
    { name, { RANGE(al, ah, 6, 3), RANGE(bl, bh, 3) }, CHECKED(tolerance) },                                           \
    { name, { RANGE(al, ah, 6, 3), RANGE(bl, bh, 6, 1) }, CHECKED(tolerance) },                                        \
    { name, { RANGE(al, ah, 4, 1), RANGE(bl, bh, 1, 5) }, CHECKED(tolerance) },                                        \
    { name, { RANGE(al, ah, 2, 1, 3, 1), RANGE(bl, bh, 4, 1, 5) }, CHECKED(tolerance) },                               \
    { name, { RANGE(al, ah, 0, 3), RANGE(bl, bh, 1, 3) }, CHECKED(tolerance) },                                        \
    { name, { RANGE(al, ah, 301, 503), RANGE(bl, bh, 301, 503) }, CHECKED(tolerance), .no_grad = true },               \
    { name, { RANGE(al, ah, 301, 503), RANGE(bl, bh, 503) }, CHECKED(tolerance), .no_grad = true },                    \
    { name, { IN(3, 4), IN(3) }, .fails = EST_INVALID_ARGUMENT, .says = "[3,4]" }
#define WHOLE(name, al, ah, bl, bh)                                                                                    \
    { name, { RANGE(al, ah, 9, 4), RANGE(bl, bh, 4) }, .dtype = EST_I32, CHECKED(0) },                                 \
    { name, { RANGE(al, ah, 37), RANGE(bl, bh, 37) }, .dtype = EST_I64, CHECKED(0) },                                  \
    { name, { SCALAR(al, ah), RANGE(bl, bh, 5) }, .dtype = EST_I64, CHECKED(0) }
/* clang-format on */
#define VALUES(...)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)), .values = (const double[])       \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static const est_op_case cases[] = {
    SHAPES("AddV2", -2, 2, -2, 2, 1e-6),
    WHOLE("AddV2", -9, 9, -9, 9),
    { "Add", { IN(3, 4), IN(4) }, .tol = 1e-6, .ref = binary_ref },
    SHAPES("Sub", -2, 2, -2, 2, 1e-6),
    WHOLE("Sub", -9, 9, -9, 9),
    SHAPES("Mul", -2, 2, -2, 2, 1e-6),
    WHOLE("Mul", -9, 9, -9, 9),
    SHAPES("RealDiv", -2, 2, 0.4, 3, 1e-6),
    WHOLE("Div", -30, 30, 1, 9),
    { "Div",
      { VALUES(-7, 7, -7, 7, INT32_MIN, 5), VALUES(2, -2, -2, 2, -1, -1) },
      .dtype = EST_I32,
      .also  = NULL,
      .ref   = NULL }, /* the lowest by -1 must not trap */
    { "Div",
      { VALUES(1, 2), VALUES(1, 0) },
      .dtype = EST_I64,
      .fails = EST_INVALID_ARGUMENT,
      .says  = "division by zero" },
    SHAPES("DivNoNan", -2, 2, 0.4, 3, 1e-6),
    { "DivNoNan", { VALUES(1, 0, -3), VALUES(0, 0, 2) }, .no_grad = true, .ref = binary_ref },
    SHAPES("FloorDiv", -9, 9, 0.7, 3, 0),
    WHOLE("FloorDiv", -30, 30, 1, 9),
    WHOLE("FloorDiv", -30, 30, -9, -1),
    { "FloorDiv",
      { VALUES(1, 2), VALUES(1, 0) },
      .dtype = EST_I32,
      .fails = EST_INVALID_ARGUMENT,
      .says  = "division by zero" },
    { "FloorMod", { VALUES(5, -5, 5, -5, 6), VALUES(3, 3, -3, -3, 3) }, .no_grad = true, .ref = binary_ref },
    { "FloorMod", { RANGE(0.1, 0.9, 4, 3), RANGE(1.1, 2, 3) }, .tol = 1e-6, .ref = binary_ref },
    { "FloorMod", { RANGE(3.1, 3.9, 4, 3), RANGE(1, 1.02, 3) }, .tol = 1e-6, .ref = binary_ref },
    WHOLE("FloorMod", -30, 30, 1, 9),
    WHOLE("FloorMod", -30, 30, -9, -1),
    SHAPES("Maximum", -2, 2, -2, 2, 0),
    WHOLE("Maximum", -9, 9, -9, 9),
    { "Maximum", { VALUES(NAN, 1, 2, INFINITY), VALUES(1, NAN, 1, 0) }, .no_grad = true, .ref = binary_ref },
    SHAPES("Minimum", -2, 2, -2, 2, 0),
    WHOLE("Minimum", -9, 9, -9, 9),
    { "Minimum", { VALUES(NAN, 1, 2, -INFINITY), VALUES(1, NAN, 1, 0) }, .no_grad = true, .ref = binary_ref },
    SHAPES("Pow", 0.3, 3, -2, 2, 2e-6),
    WHOLE("Pow", -4, 4, 0, 5),
    { "Pow", { VALUES(2), VALUES(-1) }, .dtype = EST_I32, .fails = EST_INVALID_ARGUMENT, .says = "power -1" },
    SHAPES("SquaredDifference", -2, 2, -2, 2, 1e-6),
    WHOLE("SquaredDifference", -9, 9, -9, 9),
};

/* Values of shapes are followed while the graph is built: (2 * 3 - 1) / 2 rows. */
static void test_known_values(void)
{
    est_graph *graph = test_graph();
    est_node   n     = est_scale(est_scalar(graph, EST_I32, 3), 2);
    est_node   rows  = est_floor_div(est_shift(n, -1), est_scalar(graph, EST_I32, 2));
    est_node   x     = est_fill(est_pack(EST_NODES(rows, n), 0), est_scalar(graph, EST_F32, 1));

    CHECK(est_graph_status(graph) == EST_OK, "%s", est_error_message());
    CHECK(est_node_dim(x, 0) == 2 && est_node_dim(x, 1) == 6);
    est_graph_free(graph);
}

/* A bias of known size against an unknown batch needs no sum for the batch side, and x * x none at all. */
static void test_no_needless_sums(void)
{
    est_graph   *graph = test_graph();
    est_node     x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 3));
    est_node     b     = est_placeholder(graph, "b", EST_F32, EST_SHAPE(3));
    est_node     wrt[] = { x };
    est_gradient dx;
    est_node     y = est_add(x, b);

    est_gradients(est_sum(est_mul(y, y)), (est_nodes){ wrt, 1 }, &dx);
    CHECK(est_graph_status(graph) == EST_OK, "%s", est_error_message());
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);
        bool                sum = strcmp(def->op->name, "EstSumToShape") == 0;
        CHECK(!sum || (def->in[1].node == b.id), "%s", def->name);
    }
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    test_known_values();
    test_no_needless_sums();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
