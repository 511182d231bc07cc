/* SPDX-License-Identifier: Apache-2.0 — elementwise functions of one argument and their backward kernels. */
#include <math.h>
#include <string.h>

#include "support/op_check.h"

/* --- references: the definitions, in double ----------------------------------------------------------------------- */

typedef struct unary {
    const char *op;
    double (*fn)(double);
} unary;

/* clang-format off */
#define UNARY(name, expr)  static double name(double x) { return expr; }
#define BINARY(name, expr) static double name(double a, double b) { return expr; }
UNARY(neg, -x)
UNARY(sign, x > 0 ? 1 : x < 0 ? -1 : x)
UNARY(square, x * x)
UNARY(rsqrt, 1 / sqrt(x))
UNARY(reciprocal, 1 / x)
UNARY(sigmoid, 1 / (1 + exp(-x)))
UNARY(relu, x < 0 ? 0 : x)
UNARY(relu6, x < 0 ? 0 : x > 6 ? 6 : x)
UNARY(elu, x < 0 ? expm1(x) : x)
UNARY(selu, 1.0507009873554805 * (x < 0 ? 1.6732632423543772 * expm1(x) : x))
UNARY(softplus, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))
UNARY(softsign, x / (1 + fabs(x)))
UNARY(logical_not, x == 0)
UNARY(is_nan, isnan(x) != 0)
UNARY(is_inf, isinf(x) != 0)
UNARY(is_finite, isfinite(x) != 0)

static const unary unaries[] = {
    { "Neg", neg },
    { "Abs", fabs },
    { "Sign", sign },
    { "Square", square },
    { "Sqrt", sqrt },
    { "Rsqrt", rsqrt },
    { "Reciprocal", reciprocal },
    { "Exp", exp },
    { "Expm1", expm1 },
    { "Log", log },
    { "Log1p", log1p },
    { "Sin", sin },
    { "Cos", cos },
    { "Tanh", tanh },
    { "Sigmoid", sigmoid },
    { "Erf", erf },
    { "Floor", floor },
    { "Ceil", ceil },
    { "Rint", rint },
    { "Relu", relu },
    { "Relu6", relu6 },
    { "Elu", elu },
    { "Selu", selu },
    { "Softplus", softplus },
    { "Softsign", softsign },
    { "LogicalNot", logical_not },
    { "IsNan", is_nan },
    { "IsInf", is_inf },
    { "IsFinite", is_finite },
};

static void unary_ref(est_ref *r)
{
    for (size_t k = 0; k < sizeof unaries / sizeof unaries[0]; k++) {
        if (strcmp(unaries[k].op, r->test->op) != 0) continue;
        for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = unaries[k].fn(r->in[0][i]);
    }
}

typedef struct backward {
    const char *op;
    double (*fn)(double a, double b);
} backward;

BINARY(sqrt_grad, b == 0 ? 0 : b / (2 * a))
BINARY(rsqrt_grad, b == 0 ? 0 : -b / 2 * pow(a, 3))
BINARY(reciprocal_grad, b == 0 ? 0 : -b * a * a)
BINARY(tanh_grad, b * (1 - a * a))
BINARY(sigmoid_grad, b * a * (1 - a))
BINARY(relu_grad, b > 0 ? a : 0)
BINARY(relu6_grad, b > 0 && b < 6 ? a : 0)
BINARY(elu_grad, b < 0 ? a * (b + 1) : a)
BINARY(selu_grad, a * (b < 0 ? b + 1.7580993408473766 : 1.0507009873554805))
BINARY(softplus_grad, a * sigmoid(b))
BINARY(softsign_grad, a / pow(1 + fabs(b), 2))
/* clang-format on */

static const backward backwards[] = {
    { "SqrtGrad", sqrt_grad },         { "RsqrtGrad", rsqrt_grad },       { "ReciprocalGrad", reciprocal_grad },
    { "TanhGrad", tanh_grad },         { "SigmoidGrad", sigmoid_grad },   { "ReluGrad", relu_grad },
    { "Relu6Grad", relu6_grad },       { "EluGrad", elu_grad },           { "SeluGrad", selu_grad },
    { "SoftplusGrad", softplus_grad }, { "SoftsignGrad", softsign_grad },
};

static void backward_ref(est_ref *r)
{
    for (size_t k = 0; k < sizeof backwards / sizeof backwards[0]; k++) {
        if (strcmp(backwards[k].op, r->test->op) != 0) continue;
        for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
            r->out[0][i] = backwards[k].fn(r->in[0][i], r->in[1][i]);
        }
    }
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

/* clang-format off */
#define CHECKED(low, high, tolerance) .lo = low, .hi = high, .tol = tolerance, .ref = unary_ref
/* A small one whose gradient is checked element by element, an odd large one (parallel) and an empty one. Values of the
 * small one are kept away from kinks by `low` and `high`. */
#define FLOATS(name, low, high, tolerance)                                                                             \
    { name, { IN(7, 5) }, CHECKED(low, high, tolerance) },                                                             \
    { name, { IN(131, 1009) }, CHECKED(low, high, tolerance), .no_grad = true },                                       \
    { name, { IN(0, 3) }, .ref = unary_ref },                                                                          \
    { name, { { .shape = EST_SHAPE_SCALAR } }, CHECKED(low, high, tolerance) }
#define WHOLE(name)                                                                                                    \
    { name, { IN(33) }, .dtype = EST_I32, CHECKED(-9, 9, 0) },                                                         \
    { name, { IN(3, 11) }, .dtype = EST_I64, CHECKED(-9, 9, 0) }
/* Below and above a kink at 0 (and 6). */
#define KINKED(name, tolerance)                                                                                        \
    { name, { IN(37) }, CHECKED(-3, -0.1, tolerance) },                                                                \
    { name, { IN(1013, 129) }, CHECKED(-8, 8, tolerance), .no_grad = true },                                           \
    FLOATS(name, 0.1, 5.9, tolerance)
#define VALUES(...)                                                                                                    \
    { .shape = EST_SHAPE(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)),                                    \
      .values = (const double[]){ __VA_ARGS__ } }
#define EXACTLY(name, ...) { name, { VALUES(__VA_ARGS__) }, .no_grad = true, .tol = 1e-6, .ref = unary_ref }
#define RANGE(low, high, ...) { .shape = EST_SHAPE(__VA_ARGS__), .lo = low, .hi = high }
#define BACKWARD(name, al, ah, bl, bh)                                                                                 \
    { name, { RANGE(al, ah, 5, 7), RANGE(bl, bh, 5, 7) }, .tol = 2e-6, .ref = backward_ref },                          \
    { name, { RANGE(al, ah, 99991), RANGE(bl, bh, 99991) }, .tol = 2e-6, .ref = backward_ref, .no_grad = true },       \
    { name, { IN(3, 4), IN(4, 3) }, .fails = EST_INVALID_ARGUMENT, .says = "[4,3]" }
/* At kinks and poles: 0 where nothing comes in. Enough of them for vectors. */
#define MASKED(name)                                                                                                   \
    { name, { VALUES(0, 0, INFINITY, NAN, 2, 0, INFINITY, 1, NAN), VALUES(0, 1, 0, 0, 0, -0.0, -1, 2, 1) },            \
      .no_grad = true, .tol = 2e-6, .ref = backward_ref }
/* clang-format on */

static const est_op_case cases[] = {
    FLOATS("Neg", -3, 3, 0),
    WHOLE("Neg"),
    KINKED("Abs", 0),
    WHOLE("Abs"),
    FLOATS("Sign", -3, 3, 0),
    WHOLE("Sign"),
    EXACTLY("Sign", 0.0, -0.0, NAN, INFINITY, -INFINITY),
    FLOATS("Square", -3, 3, 1e-6),
    WHOLE("Square"),
    FLOATS("Sqrt", 0.2, 9, 1e-6),
    EXACTLY("Sqrt", 0, 4, INFINITY, -1),
    FLOATS("Rsqrt", 0.2, 9, 1e-6),
    FLOATS("Reciprocal", 0.3, 5, 1e-6),
    FLOATS("Exp", -4, 4, 1e-6),
    EXACTLY("Exp", -1000, -90, 88.5, 1000, INFINITY, -INFINITY, NAN),
    FLOATS("Expm1", -4, 4, 1e-6),
    FLOATS("Log", 0.1, 50, 1e-6),
    EXACTLY("Log", 0, -1, INFINITY, NAN, 1e-30, 1),
    FLOATS("Log1p", -0.8, 5, 1e-6),
    FLOATS("Sin", -6, 6, 1e-6),
    FLOATS("Cos", -6, 6, 1e-6),
    FLOATS("Tanh", -3, 3, 1e-6),
    EXACTLY("Tanh", -50, 50, 1e-6, INFINITY, -INFINITY, NAN),
    FLOATS("Sigmoid", -5, 5, 1e-6),
    EXACTLY("Sigmoid", -80, 80, INFINITY, -INFINITY, NAN),
    FLOATS("Erf", -3, 3, 1e-6),
    FLOATS("Floor", -3, 3, 0),
    FLOATS("Ceil", -3, 3, 0),
    FLOATS("Rint", -3, 3, 0),
    EXACTLY("Rint", 0.5, 1.5, 2.5, -0.5, -1.5), /* halves go to the even one */
    KINKED("Relu", 0),
    WHOLE("Relu"),
    EXACTLY("Relu", -0.0, NAN, INFINITY, -INFINITY),
    KINKED("Relu6", 0),
    { "Relu6", { IN(9) }, .lo = 6.1, .hi = 9, .ref = unary_ref },
    KINKED("Elu", 1e-6),
    KINKED("Selu", 1e-6),
    FLOATS("Softplus", -5, 5, 1e-6),
    EXACTLY("Softplus", -90, -20, 20, 100, INFINITY, -INFINITY, NAN),
    KINKED("Softsign", 1e-6),
    { "LogicalNot", { IN(5, 7) }, .dtype = EST_BOOL, .ref = unary_ref },
    { "LogicalNot", { IN(0) }, .dtype = EST_BOOL, .ref = unary_ref },
    EXACTLY("IsNan", 0, 1, NAN, INFINITY, -INFINITY),
    EXACTLY("IsInf", 0, 1, NAN, INFINITY, -INFINITY),
    EXACTLY("IsFinite", 0, 1, NAN, INFINITY, -INFINITY),
    BACKWARD("SqrtGrad", 0.5, 3, -1, 1),
    BACKWARD("RsqrtGrad", 0.5, 3, -1, 1),
    BACKWARD("ReciprocalGrad", 0.5, 3, -1, 1),
    MASKED("SqrtGrad"),
    MASKED("RsqrtGrad"),
    MASKED("ReciprocalGrad"),
    BACKWARD("TanhGrad", -0.9, 0.9, -1, 1),
    BACKWARD("SigmoidGrad", 0.1, 0.9, -1, 1),
    BACKWARD("ReluGrad", -1, 1, 0.1, 2),
    BACKWARD("ReluGrad", -1, 1, -2, -0.1),
    BACKWARD("Relu6Grad", -1, 1, 0.1, 5.9),
    BACKWARD("EluGrad", -1, 1, -0.9, -0.1),
    BACKWARD("EluGrad", -1, 1, 0.1, 4),
    BACKWARD("SeluGrad", -1, 1, -1.7, -0.1),
    BACKWARD("SeluGrad", -1, 1, 0.1, 4),
    BACKWARD("SoftplusGrad", -1, 1, -4, 4),
    BACKWARD("SoftsignGrad", -1, 1, 0.1, 4),
    BACKWARD("SoftsignGrad", -1, 1, -4, -0.1),
};

EST_OP_CHECK_MAIN(cases)
