/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise functions of one argument and their backward kernels, all made from the rows of elementwise.def.
 *
 * A row becomes one plain loop per type, and for GPUs a functor (elementwise.cu). The loops vectorise because the
 * float functions of kernels/vmath.h are branch-free; the double ones call libm, which is fine for gradient checks. */
#include <stdlib.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "kernels/vmath.h"
#include "ops/ops.h"

#define GENERIC(x, for_float, for_double) _Generic((x), float : for_float, double : for_double)(x)
#define EXP(x)                            GENERIC(x, est_expf, exp)
#define EXPM1(x)                          GENERIC(x, est_expm1f, expm1)
#define LOG(x)                            GENERIC(x, est_logf, log)
#define LOG1P(x)                          GENERIC(x, est_log1pf, log1p)
#define TANH(x)                           GENERIC(x, est_tanhf, tanh)
#define SIGMOID(x)                        GENERIC(x, est_sigmoidf, sigmoid)
#define SOFTPLUS(x)                       GENERIC(x, est_softplusf, softplus)
#define ERF(x)                            GENERIC(x, est_erff, erf)
#define SIN(x)                            GENERIC(x, sinf, sin)
#define COS(x)                            GENERIC(x, cosf, cos)
#define SQRT(x)                           GENERIC(x, sqrtf, sqrt)
#define FLOOR(x)                          GENERIC(x, floorf, floor)
#define CEIL(x)                           GENERIC(x, ceilf, ceil)
#define RINT(x)                           GENERIC(x, rintf, rint)
#define ABS(x)                            _Generic((x), float : fabsf, double : fabs, int32_t : abs, int64_t : labs)(x)

/* selu(x) = S x for x > 0, S alpha (exp(x) - 1) below: the constants that keep mean 0 and variance 1. */
#define SELU_S ((T)1.0507009873554804934193349852946)
#define SELU_A ((T)(1.0507009873554804934193349852946 * 1.6732632423543772848170429916717))

static inline double sigmoid(double x)
{
    double e = exp(-fabs(x));

    return (x < 0 ? e : 1) / (1 + e) + (x != x ? x : 0);
}

static inline double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

/* --- pieces the gradients of the table are made of ---------------------------------------------------------------- */

#define NONE                EST_NO_NODE
#define grad_of(name, a, b) est_build2(&est_op_##name##_grad, a, b, EST_NO_ATTRS)

/* d erf = 2 / sqrt(pi) exp(-x^2) */
static est_node erf_slope(est_node x, est_node dy)
{
    return est_mul(dy, est_scale(est_exp(est_neg(est_square(x))), 1.1283791670955126));
}

/* value where x < 0, else 0. */
static est_node where_negative(est_node x, est_node value)
{
    est_node zero = est_scalar(x.graph, est_node_dtype(x), 0);

    return est_select(est_less(x, zero), value, zero);
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

/* The loops of one function, by dtype. */
typedef struct loops {
    est_range_fn f32, f64, i32, i64, boolean;
    double       ns; /* a float takes */
} loops;

#define DOUBLE_COST 6 /* libm against a vectorised float */

static est_status run_loops(est_call *c, const loops *l)
{
    est_range_fn fn = NULL;
    double       ns = l->ns;

    switch (c->in[0]->dtype) {
    case EST_F32: fn = l->f32; break;
    case EST_F64: fn = l->f64, ns *= DOUBLE_COST; break;
    case EST_I32: fn = l->i32; break;
    case EST_I64: fn = l->i64; break;
    case EST_BOOL: fn = l->boolean; break;
    default: break;
    }
    if (fn == NULL) {
        return est_fail(EST_UNIMPLEMENTED, "%s has no kernel for %s", c->node->op->name,
                        est_dtype_name(c->in[0]->dtype));
    }
    est_parallel_for(c->pool, c->out[0].count, 64, ns, fn, c);
    return EST_OK;
}

#define UNARY_LOOP(name, T_IN, T_OUT, forward)                                                                         \
    static void name##_##T_IN(void *arg, int64_t begin, int64_t end, int64_t block)                                    \
    {                                                                                                                  \
        typedef T_IN T;                                                                                                \
        est_call    *c  = arg;                                                                                         \
        const T_IN  *in = c->in[0]->data;                                                                              \
        T_OUT       *y  = c->out[0].data;                                                                              \
                                                                                                                       \
        (void)block;                                                                                                   \
        EST_INDEPENDENT                                                                                                \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            const T x = in[i];                                                                                         \
            y[i]      = (T_OUT)(forward);                                                                              \
        }                                                                                                              \
    }

#define BINARY_LOOP(name, T_ELEMENT, forward)                                                                          \
    static void name##_##T_ELEMENT(void *arg, int64_t begin, int64_t end, int64_t block)                               \
    {                                                                                                                  \
        typedef T_ELEMENT T;                                                                                           \
        est_call         *c    = arg;                                                                                  \
        const T          *in_a = c->in[0]->data, *in_b = c->in[1]->data;                                               \
        T                *z = c->out[0].data;                                                                          \
                                                                                                                       \
        (void)block;                                                                                                   \
        EST_INDEPENDENT                                                                                                \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            const T a = in_a[i], b = in_b[i];                                                                          \
            z[i] = (T)(forward);                                                                                       \
        }                                                                                                              \
    }

#define FLOATS_LOOPS(name, forward) UNARY_LOOP(name, float, float, forward) UNARY_LOOP(name, double, double, forward)
#define SIGNED_LOOPS(name, forward)                                                                                    \
    FLOATS_LOOPS(name, forward)                                                                                        \
    UNARY_LOOP(name, int32_t, int32_t, forward)                                                                        \
    UNARY_LOOP(name, int64_t, int64_t, forward)
#define FLOATS_TABLE(name, cost)                                                                                       \
    {                                                                                                                  \
        .f32 = name##_float, .f64 = name##_double, .ns = cost                                                          \
    }
#define SIGNED_TABLE(name, cost)                                                                                       \
    {                                                                                                                  \
        .f32 = name##_float, .f64 = name##_double, .i32 = name##_int32_t, .i64 = name##_int64_t, .ns = cost            \
    }
#define FLOATS_TYPES "{float32, float64}"
#define SIGNED_TYPES "{float32, float64, int32, int64}"

#define RUN(name)                                                                                                      \
    static est_status name##_cpu(est_call *c)                                                                          \
    {                                                                                                                  \
        return run_loops(c, &name##_loops);                                                                            \
    }

/* --- one argument ------------------------------------------------------------------------------------------------- */

#define UNARY(op_name, tf_name, in_name, out_name, types, cost, forward, gradient)                                     \
    static void op_name##_backward(est_grad *g)                                                                        \
    {                                                                                                                  \
        const est_node x = g->in[0], y = g->out[0], dy = g->dout[0];                                                   \
                                                                                                                       \
        (void)x, (void)y, (void)dy;                                                                                    \
        g->din[0].values = gradient;                                                                                   \
    }                                                                                                                  \
    UNARY_OP(op_name, tf_name, in_name, out_name, types, cost, forward, op_name##_backward)

#define UNARY_FLAT(op_name, tf_name, types, cost, forward)                                                             \
    UNARY_OP(op_name, tf_name, "x", "y", types, cost, forward, NULL)

#define UNARY_OP(op_name, tf_name, in_name, out_name, types, cost, forward, backward)                                  \
    types##_LOOPS(op_name, forward) static const loops op_name##_loops = types##_TABLE(op_name, cost);                 \
    RUN(op_name)                                                                                                       \
                                                                                                                       \
    const est_op est_op_##op_name = {                                                                                  \
        .name        = tf_name,                                                                                        \
        .signature   = in_name ": T -> " out_name ": T; T: " types##_TYPES,                                            \
        .infer       = est_infer_same_as_input,                                                                        \
        .grad        = backward,                                                                                       \
        .cpu         = EST_KERNELS({ .run = op_name##_cpu }),                                                          \
        .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(op_name) }),                                                 \
        .elementwise = true,                                                                                           \
        .inplace     = 1u << 0,                                                                                        \
    };                                                                                                                 \
                                                                                                                       \
    est_node est_##op_name(est_node x)                                                                                 \
    {                                                                                                                  \
        return est_build1(&est_op_##op_name, x, EST_NO_ATTRS);                                                         \
    }

#define UNARY_TEST(op_name, tf_name, cost, forward)                                                                    \
    UNARY_LOOP(op_name, float, bool, forward)                                                                          \
    UNARY_LOOP(op_name, double, bool, forward)                                                                         \
    static const loops op_name##_loops = FLOATS_TABLE(op_name, cost);                                                  \
    RUN(op_name)                                                                                                       \
                                                                                                                       \
    const est_op est_op_##op_name = {                                                                                  \
        .name        = tf_name,                                                                                        \
        .signature   = "x: T -> y: bool; T: {float32, float64}",                                                       \
        .infer       = est_infer_same_as_input,                                                                        \
        .cpu         = EST_KERNELS({ .run = op_name##_cpu }),                                                          \
        .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(op_name) }),                                                 \
        .elementwise = true,                                                                                           \
    };                                                                                                                 \
                                                                                                                       \
    est_node est_##op_name(est_node x)                                                                                 \
    {                                                                                                                  \
        return est_build1(&est_op_##op_name, x, EST_NO_ATTRS);                                                         \
    }

#define GRADIENT(name, tf_name, a_name, b_name, z_name, cost, forward, gradient_a, gradient_b)
#include "ops/elementwise.def"
#undef UNARY
#undef UNARY_FLAT
#undef UNARY_TEST
#undef GRADIENT

UNARY_LOOP(logical_not, uint8_t, uint8_t, x ^ 1)
static const loops logical_not_loops = { .boolean = logical_not_uint8_t, .ns = 0.1 };
RUN(logical_not)

const est_op est_op_logical_not = {
    .name        = "LogicalNot",
    .signature   = "x: bool -> y: bool",
    .infer       = est_infer_same_as_input,
    .cpu         = EST_KERNELS({ .run = logical_not_cpu }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(logical_not) }),
    .elementwise = true,
    .inplace     = 1u << 0,
};

est_node est_logical_not(est_node x)
{
    return est_build1(&est_op_logical_not, x, EST_NO_ATTRS);
}

/* --- backward kernels --------------------------------------------------------------------------------------------- */

/* Both arguments have one shape, which is also the result's. */
static est_status gradient_infer(est_infer *c)
{
    return est_infer_merge(&c->in[0], &c->in[1], &c->out[0]);
}

#define GRADIENT(op_name, tf_name, a_name, b_name, z_name, cost, forward, gradient_a, gradient_b)                      \
    BINARY_LOOP(op_name, float, forward)                                                                               \
    BINARY_LOOP(op_name, double, forward)                                                                              \
    static const loops op_name##_loops = { .f32 = op_name##_float, .f64 = op_name##_double, .ns = cost };              \
    RUN(op_name)                                                                                                       \
                                                                                                                       \
    static void op_name##_backward(est_grad *g)                                                                        \
    {                                                                                                                  \
        const est_node a = g->in[0], b = g->in[1], z = g->out[0], dz = g->dout[0];                                     \
                                                                                                                       \
        (void)a, (void)b, (void)z;                                                                                     \
        g->din[0].values = gradient_a;                                                                                 \
        g->din[1].values = gradient_b;                                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    const est_op est_op_##op_name = {                                                                                  \
        .name        = tf_name,                                                                                        \
        .signature   = a_name ": T, " b_name ": T -> " z_name ": T; T: {float32, float64}",                            \
        .infer       = gradient_infer,                                                                                 \
        .grad        = op_name##_backward,                                                                             \
        .cpu         = EST_KERNELS({ .run = op_name##_cpu }),                                                          \
        .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(op_name) }),                                                 \
        .elementwise = true,                                                                                           \
        .inplace     = 1u << 0 | 1u << 1,                                                                              \
    };
#define UNARY(...)
#define UNARY_FLAT(...)
#define UNARY_TEST(...)
#include "ops/elementwise.def"
