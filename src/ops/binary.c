/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of two arguments with numpy broadcasting: z = x (op) y.
 *
 * The gradient of a broadcast argument is summed over the axes along which it was repeated (est_sum_to_shape). Small
 * integers are followed while a graph is built, because shapes are computed with these ops. */
#include "cuda/launchers.h"
#include "kernels/broadcast.h"
#include "kernels/vmath.h"
#include "ops/ops.h"

/* --- shapes and known values -------------------------------------------------------------------------------------- */

typedef int64_t (*fold_fn)(int64_t a, int64_t b);

/* The broadcast shape, and the result itself when both arguments are known small integers. */
static est_status infer_folding(est_infer *c, fold_fn fold)
{
    const est_value *a = c->in_value[0], *b = c->in_value[1];
    est_value       *z = &c->out_value[0];

    EST_TRY(est_infer_broadcast(c));
    if (a == NULL || b == NULL || a->n < 1 || b->n < 1 || c->out[0].rank > 1) return EST_OK;
    if (a->n != b->n && a->n != 1 && b->n != 1) return EST_OK;
    z->n = a->n > b->n ? a->n : b->n;
    for (int i = 0; i < z->n; i++) {
        int64_t va = a->v[a->n == 1 ? 0 : i], vb = b->v[b->n == 1 ? 0 : i];

        z->v[i] = va == EST_VALUE_UNKNOWN || vb == EST_VALUE_UNKNOWN ? EST_VALUE_UNKNOWN : fold(va, vb);
        if (c->in_dtype[0] == EST_I32 && z->v[i] != (int32_t)z->v[i]) z->v[i] = EST_VALUE_UNKNOWN; /* would wrap */
    }
    return EST_OK;
}

#define FOLDING_INFER(name, expr)                                                                                      \
    static int64_t name##_fold(int64_t a, int64_t b)                                                                   \
    {                                                                                                                  \
        return (expr);                                                                                                 \
    }                                                                                                                  \
    static est_status name##_infer(est_infer *c)                                                                       \
    {                                                                                                                  \
        return infer_folding(c, name##_fold);                                                                          \
    }

/* --- kernels ------------------------------------------------------------------------------------------------------ */

typedef struct binary_kernels {
    est_broadcast_fn f32, f64, i32, i64;
    double           ns; /* one element */
} binary_kernels;

/* Integer division has two ways to trap: by zero, which is an error, and the lowest integer by -1, which wraps. */
static est_status refuse_zero_divisor(const est_view *v)
{
    bool zero = false;

    if (v->dtype == EST_I32) {
        const int32_t *d = v->data;
        for (int64_t i = 0; i < v->count; i++) zero |= d[i] == 0;
    } else if (v->dtype == EST_I64) {
        const int64_t *d = v->data;
        for (int64_t i = 0; i < v->count; i++) zero |= d[i] == 0;
    }
    return zero ? est_fail(EST_INVALID_ARGUMENT, "integer division by zero") : EST_OK;
}

static est_status refuse_negative_exponent(const est_view *v)
{
    for (int64_t i = 0; i < v->count; i++) {
        int64_t e = v->dtype == EST_I32   ? ((const int32_t *)v->data)[i]
                    : v->dtype == EST_I64 ? ((const int64_t *)v->data)[i]
                                          : 0;
        if (e < 0) {
            return est_fail(EST_INVALID_ARGUMENT, "an integer to the power %lld is not an integer", (long long)e);
        }
    }
    return EST_OK;
}

static est_status run_binary(est_call *c, const binary_kernels *k)
{
    est_broadcast_fn fn = NULL;

    switch (c->in[0]->dtype) {
    case EST_F32: fn = k->f32; break;
    case EST_F64: fn = k->f64; break;
    case EST_I32: fn = k->i32; break;
    case EST_I64: fn = k->i64; break;
    default: break;
    }
    if (fn == NULL) {
        return est_fail(EST_UNIMPLEMENTED, "%s has no kernel for %s", c->node->op->name,
                        est_dtype_name(c->in[0]->dtype));
    }
    est_broadcast_run(c, 2, fn, k->ns);
    return EST_OK;
}

/* The loop of one op and type, with either argument standing still. */
#define LOOP(name, T_ELEMENT, expr)                                                                                    \
    static void name##_##T_ELEMENT(void *out, const void *const *in, const int64_t *step, int64_t n)                   \
    {                                                                                                                  \
        typedef T_ELEMENT T;                                                                                           \
        const T          *x = in[0], *y = in[1];                                                                       \
        T                *z = out;                                                                                     \
                                                                                                                       \
        if (step[0] == 0) {                                                                                            \
            const T a = x[0];                                                                                          \
            EST_INDEPENDENT                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T b = y[i];                                                                                      \
                z[i]      = (T)(expr);                                                                                 \
            }                                                                                                          \
        } else if (step[1] == 0) {                                                                                     \
            const T b = y[0];                                                                                          \
            EST_INDEPENDENT                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T a = x[i];                                                                                      \
                z[i]      = (T)(expr);                                                                                 \
            }                                                                                                          \
        } else {                                                                                                       \
            EST_INDEPENDENT                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T a = x[i], b = y[i];                                                                            \
                z[i] = (T)(expr);                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#define FLOAT_LOOPS(name, expr) LOOP(name, float, expr) LOOP(name, double, expr)
#define INT_LOOPS(name, expr)   LOOP(name, int32_t, expr) LOOP(name, int64_t, expr)
#define FLOAT_KERNELS(name)     .f32 = name##_float, .f64 = name##_double
#define INT_KERNELS(name)       .i32 = name##_int32_t, .i64 = name##_int64_t

/* The sign is the divisor's, also of zero and with an infinite divisor. */
static inline double floored_remainder_float(double a, double b)
{
    double r = fmod(a, b);

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define FLOOR(x)                  _Generic((x), float : floorf, double : floor)(x)
#define POW(a, b)                 _Generic((a), float : powf, double : pow)(a, b)
#define BINARY_FLOATS(name, expr) FLOAT_LOOPS(name, expr)
#define BINARY_INTS(name, expr)   INT_LOOPS(name, expr)
#include "ops/binary.def"

#define FLOATS  "{float32, float64}"
#define NUMBERS "{float32, float64, int32, int64}"

/* On a GPU integers are not divided: nobody would see the failure in time. */
static bool is_float(const est_call *c)
{
    return c->in[0]->dtype == EST_F32 || c->in[0]->dtype == EST_F64;
}

#define CUDA(name)        EST_KERNELS({ .launch = EST_LAUNCH(name) })
#define CUDA_FLOATS(name) EST_KERNELS({ .launch = EST_LAUNCH(name), .accepts = is_float })

/* Kernel function, descriptor and builder. `check` looks at the second argument before the loop runs. */
#define NO_CHECK(view) EST_OK
#define RUN(op_name, check, ...)                                                                                       \
    static est_status op_name##_cpu(est_call *c)                                                                       \
    {                                                                                                                  \
        static const binary_kernels kernels = { __VA_ARGS__ };                                                         \
                                                                                                                       \
        EST_TRY(check(c->in[1]));                                                                                      \
        return run_binary(c, &kernels);                                                                                \
    }
#define DESCRIPTOR(op_name, tf_name, types, infer_fn, grad_fn, cpu_fn, cuda_kernels)                                   \
    const est_op est_op_##op_name = {                                                                                  \
        .name        = tf_name,                                                                                        \
        .signature   = "x: T, y: T -> z: T; T: " types,                                                                \
        .infer       = infer_fn,                                                                                       \
        .grad        = grad_fn,                                                                                        \
        .cpu         = EST_KERNELS({ .run = cpu_fn }),                                                                 \
        .cuda        = cuda_kernels,                                                                                   \
        .elementwise = true,                                                                                           \
        .inplace     = 1u << 0 | 1u << 1,                                                                              \
    };
#define BUILDER(op_name)                                                                                               \
    est_node est_##op_name(est_node a, est_node b)                                                                     \
    {                                                                                                                  \
        return est_build2(&est_op_##op_name, a, b, EST_NO_ATTRS);                                                      \
    }

/* Whether `x` may be repeated when it meets `other`: an axis of size 1, or of a size not known yet, against one that
 * may be longer. */
static bool may_repeat(est_node x, est_node other)
{
    const est_shape *a = est_node_shape(x), *b = est_node_shape(other);

    if (x.id == other.id && x.output == other.output) return false;
    if (a->rank < 0 || b->rank < 0 || a->rank < b->rank) return true;
    for (int i = 1; i <= b->rank; i++) { /* axes counted from the end */
        int64_t da = a->dim[a->rank - i], db = b->dim[b->rank - i];
        if (db != 1 && (da < 0 || da == 1)) return true;
    }
    return false;
}

/* d, which has the shape of the result, as the gradient of x. */
static est_node towards(est_node d, est_node x, est_node other)
{
    return est_def(x) != NULL && est_def(other) != NULL && !may_repeat(x, other) ? d : est_sum_to_shape(d, x);
}

static void set_gradients(est_grad *g, est_node da, est_node db)
{
    g->din[0].values = towards(da, g->in[0], g->in[1]);
    g->din[1].values = towards(db, g->in[1], g->in[0]);
}

/* --- sums and products -------------------------------------------------------------------------------------------- */

static void add_grad(est_grad *g)
{
    set_gradients(g, g->dout[0], g->dout[0]);
}

FOLDING_INFER(add, est_value_sum(a, b))
RUN(add, NO_CHECK, FLOAT_KERNELS(add), INT_KERNELS(add), .ns = 0.3)
DESCRIPTOR(add, "AddV2", NUMBERS, add_infer, add_grad, add_cpu, CUDA(add))
DESCRIPTOR(add_v1, "Add", NUMBERS, add_infer, add_grad, add_cpu, CUDA(add)) /* what older graphs call it */
BUILDER(add)

static void sub_grad(est_grad *g)
{
    g->din[0].values = towards(g->dout[0], g->in[0], g->in[1]);
    g->din[1].values = est_neg(towards(g->dout[0], g->in[1], g->in[0])); /* negating the sum is less work */
}

FOLDING_INFER(sub, est_value_difference(a, b))
RUN(sub, NO_CHECK, FLOAT_KERNELS(sub), INT_KERNELS(sub), .ns = 0.3)
DESCRIPTOR(sub, "Sub", NUMBERS, sub_infer, sub_grad, sub_cpu, CUDA(sub))
BUILDER(sub)

static void mul_grad(est_grad *g)
{
    set_gradients(g, est_mul(g->dout[0], g->in[1]), est_mul(g->dout[0], g->in[0]));
}

FOLDING_INFER(mul, est_value_product(a, b))
RUN(mul, NO_CHECK, FLOAT_KERNELS(mul), INT_KERNELS(mul), .ns = 0.3)
DESCRIPTOR(mul, "Mul", NUMBERS, mul_infer, mul_grad, mul_cpu, CUDA(mul))
BUILDER(mul)

/* d(x - y)^2 = 2 (x - y) (dx - dy) */
static void squared_difference_grad(est_grad *g)
{
    est_node slope = est_mul(g->dout[0], est_scale(est_sub(g->in[0], g->in[1]), 2));

    g->din[0].values = towards(slope, g->in[0], g->in[1]);
    g->din[1].values = est_neg(towards(slope, g->in[1], g->in[0]));
}

RUN(squared_difference, NO_CHECK, FLOAT_KERNELS(squared_difference), INT_KERNELS(squared_difference), .ns = 0.3)
DESCRIPTOR(squared_difference, "SquaredDifference", NUMBERS, est_infer_broadcast, squared_difference_grad,
           squared_difference_cpu, CUDA(squared_difference))
BUILDER(squared_difference)

/* --- division ----------------------------------------------------------------------------------------------------- */

/* d(x / y) = dx / y - (x / y) dy / y, with the quotient that is there already. */
static void div_grad(est_grad *g)
{
    est_node da = est_div(g->dout[0], g->in[1]);

    set_gradients(g, da, est_neg(est_mul(da, g->out[0])));
}

static inline int64_t truncated_quotient(int64_t a, int64_t b)
{
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static inline int64_t floored_quotient(int64_t a, int64_t b)
{
    int64_t q = truncated_quotient(a, b);

    return q - (b != -1 && a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t floored_remainder(int64_t a, int64_t b)
{
    int64_t r = b == -1 ? 0 : a % b;

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

RUN(real_div, NO_CHECK, FLOAT_KERNELS(real_div), .ns = 0.4)
DESCRIPTOR(real_div, "RealDiv", FLOATS, est_infer_broadcast, div_grad, real_div_cpu, CUDA(real_div))

INT_LOOPS(div, truncated_quotient(a, b))
FOLDING_INFER(div, b == 0 ? EST_VALUE_UNKNOWN : truncated_quotient(a, b))
RUN(div, refuse_zero_divisor, FLOAT_KERNELS(real_div), INT_KERNELS(div), .ns = 2)
DESCRIPTOR(div, "Div", NUMBERS, div_infer, div_grad, div_cpu, CUDA_FLOATS(real_div))

est_node est_div(est_node a, est_node b)
{
    est_dtype dtype = est_node_dtype(a);

    return est_build2(dtype == EST_I32 || dtype == EST_I64 ? &est_op_div : &est_op_real_div, a, b, EST_NO_ATTRS);
}

static void div_no_nan_grad(est_grad *g)
{
    est_node da = est_div_no_nan(g->dout[0], g->in[1]);

    set_gradients(g, da, est_neg(est_mul(da, g->out[0])));
}

RUN(div_no_nan, NO_CHECK, FLOAT_KERNELS(div_no_nan), .ns = 0.4)
DESCRIPTOR(div_no_nan, "DivNoNan", FLOATS, est_infer_broadcast, div_no_nan_grad, div_no_nan_cpu, CUDA(div_no_nan))
BUILDER(div_no_nan)

INT_LOOPS(floor_div, floored_quotient(a, b))
FOLDING_INFER(floor_div, b == 0 ? EST_VALUE_UNKNOWN : floored_quotient(a, b))
RUN(floor_div, refuse_zero_divisor, FLOAT_KERNELS(floor_div), INT_KERNELS(floor_div), .ns = 2)
DESCRIPTOR(floor_div, "FloorDiv", NUMBERS, floor_div_infer, NULL, floor_div_cpu, CUDA_FLOATS(floor_div))
BUILDER(floor_div)

/* x mod y = x - floor(x / y) y, where the floor does not move. */
static void floor_mod_grad(est_grad *g)
{
    est_node dy = g->dout[0];

    set_gradients(g, dy, est_neg(est_mul(dy, est_floor_div(g->in[0], g->in[1]))));
}

INT_LOOPS(floor_mod, floored_remainder(a, b))
FOLDING_INFER(floor_mod, b == 0 ? EST_VALUE_UNKNOWN : floored_remainder(a, b))
RUN(floor_mod, refuse_zero_divisor, FLOAT_KERNELS(floor_mod), INT_KERNELS(floor_mod), .ns = 8)
DESCRIPTOR(floor_mod, "FloorMod", NUMBERS, floor_mod_infer, floor_mod_grad, floor_mod_cpu, CUDA_FLOATS(floor_mod))
BUILDER(floor_mod)

/* --- the larger, the smaller, and powers -------------------------------------------------------------------------- */

/* All of dy goes to the argument that was taken; of equals, to the first. */
static void choice_grad(est_grad *g, est_node first_taken)
{
    est_node dy   = g->dout[0];
    est_node zero = est_scalar(dy.graph, est_node_dtype(dy), 0);

    set_gradients(g, est_select(first_taken, dy, zero), est_select(first_taken, zero, dy));
}

static void maximum_grad(est_grad *g)
{
    choice_grad(g, est_greater_equal(g->in[0], g->in[1]));
}

static void minimum_grad(est_grad *g)
{
    choice_grad(g, est_less_equal(g->in[0], g->in[1]));
}

FOLDING_INFER(maximum, a > b ? a : b)
RUN(maximum, NO_CHECK, FLOAT_KERNELS(maximum), INT_KERNELS(maximum), .ns = 0.3)
DESCRIPTOR(maximum, "Maximum", NUMBERS, maximum_infer, maximum_grad, maximum_cpu, CUDA(maximum))
BUILDER(maximum)

FOLDING_INFER(minimum, a < b ? a : b)
RUN(minimum, NO_CHECK, FLOAT_KERNELS(minimum), INT_KERNELS(minimum), .ns = 0.3)
DESCRIPTOR(minimum, "Minimum", NUMBERS, minimum_infer, minimum_grad, minimum_cpu, CUDA(minimum))
BUILDER(minimum)

/* By squaring, wrapping as unsigned numbers do. */
static inline int64_t integer_power(int64_t a, int64_t b)
{
    uint64_t base = (uint64_t)a, product = 1;

    for (; b > 0; b >>= 1, base *= base) {
        if (b & 1) product *= base;
    }
    return (int64_t)product;
}

/* d(x^y) = y x^(y-1) dx + x^y log(x) dy; towards y there is none where x is not positive. */
static void pow_grad(est_grad *g)
{
    est_node x = g->in[0], y = g->in[1], z = g->out[0], dz = g->dout[0];
    est_node zero = est_scalar(x.graph, est_node_dtype(x), 0), one = est_scalar(x.graph, est_node_dtype(x), 1);
    est_node positive = est_greater(x, zero);
    est_node log_x    = est_select(positive, est_log(est_select(positive, x, one)), zero);

    set_gradients(g, est_mul(dz, est_mul(y, est_pow(x, est_sub(y, one)))), est_mul(dz, est_mul(z, log_x)));
}

INT_LOOPS(pow, integer_power(a, b))
RUN(pow, refuse_negative_exponent, FLOAT_KERNELS(pow), INT_KERNELS(pow), .ns = 12)
DESCRIPTOR(pow, "Pow", NUMBERS, est_infer_broadcast, pow_grad, pow_cpu, CUDA_FLOATS(pow))
BUILDER(pow)

/* --- with a number ------------------------------------------------------------------------------------------------ */

est_node est_scale(est_node x, double factor)
{
    if (est_def(x) == NULL) return est_mul(x, x); /* poison, or the error */
    return est_mul(x, est_scalar(x.graph, est_node_dtype(x), factor));
}

est_node est_shift(est_node x, double term)
{
    if (est_def(x) == NULL) return est_add(x, x);
    return est_add(x, est_scalar(x.graph, est_node_dtype(x), term));
}
