/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons and logic of two arguments with numpy broadcasting; the result is bool and no gradient flows. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/broadcast.h"
#include "kernels/vmath.h"
#include "ops/ops.h"

typedef struct compare_kernels {
    est_broadcast_fn f32, f64, i32, i64, u8, string;
} compare_kernels;

static est_status run_compare(est_call *c, const compare_kernels *k)
{
    est_broadcast_fn fn = NULL;

    switch (c->in[0]->dtype) {
    case EST_F32: fn = k->f32; break;
    case EST_F64: fn = k->f64; break;
    case EST_I32: fn = k->i32; break;
    case EST_I64: fn = k->i64; break;
    case EST_U8:
    case EST_BOOL: fn = k->u8; break;
    case EST_STRING: fn = k->string; break;
    default: break;
    }
    if (fn == NULL) {
        return est_fail(EST_UNIMPLEMENTED, "%s has no kernel for %s", c->node->op->name,
                        est_dtype_name(c->in[0]->dtype));
    }
    est_broadcast_run(c, 2, fn, c->in[0]->dtype == EST_STRING ? 5 : 0.3);
    return EST_OK;
}

static bool cuda_accepts(const est_call *c)
{
    return c->in[0]->dtype != EST_STRING;
}

static inline bool same_string(est_str a, est_str b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

#define LOOP(name, T, expr)                                                                                            \
    static void name##_##T(void *out, const void *const *in, const int64_t *step, int64_t n)                           \
    {                                                                                                                  \
        const T *x = in[0], *y = in[1];                                                                                \
        uint8_t *z = out;                                                                                              \
                                                                                                                       \
        if (step[0] == 0) {                                                                                            \
            const T a = x[0];                                                                                          \
            EST_INDEPENDENT                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T b = y[i];                                                                                      \
                z[i]      = (expr);                                                                                    \
            }                                                                                                          \
        } else if (step[1] == 0) {                                                                                     \
            const T b = y[0];                                                                                          \
            EST_INDEPENDENT                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T a = x[i];                                                                                      \
                z[i]      = (expr);                                                                                    \
            }                                                                                                          \
        } else {                                                                                                       \
            EST_INDEPENDENT                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T a = x[i], b = y[i];                                                                            \
                z[i] = (expr);                                                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }

#define OP(op_name, tf_name, sign, ...)                                                                                \
    static est_status op_name##_cpu(est_call *c)                                                                       \
    {                                                                                                                  \
        static const compare_kernels kernels = { __VA_ARGS__ };                                                        \
                                                                                                                       \
        return run_compare(c, &kernels);                                                                               \
    }                                                                                                                  \
                                                                                                                       \
    const est_op est_op_##op_name = {                                                                                  \
        .name        = tf_name,                                                                                        \
        .signature   = sign,                                                                                           \
        .infer       = est_infer_broadcast,                                                                            \
        .cpu         = EST_KERNELS({ .run = op_name##_cpu }),                                                          \
        .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(op_name), .accepts = cuda_accepts }),                        \
        .elementwise = true,                                                                                           \
    };                                                                                                                 \
                                                                                                                       \
    est_node est_##op_name(est_node a, est_node b)                                                                     \
    {                                                                                                                  \
        return est_build2(&est_op_##op_name, a, b, EST_NO_ATTRS);                                                      \
    }

#define NUMBER_LOOPS(name, expr)                                                                                       \
    LOOP(name, float, expr)                                                                                            \
    LOOP(name, double, expr)                                                                                           \
    LOOP(name, int32_t, expr)                                                                                          \
    LOOP(name, int64_t, expr)                                                                                          \
    LOOP(name, uint8_t, expr)
#define NUMBER_KERNELS(name)                                                                                           \
    .f32 = name##_float, .f64 = name##_double, .i32 = name##_int32_t, .i64 = name##_int64_t, .u8 = name##_uint8_t

#define ORDERED "x: T, y: T -> z: bool; T: {float32, float64, int32, uint8, int64}"
#define EQUATED                                                                                                        \
    "x: T, y: T -> z: bool; T: {float32, float64, int32, uint8, int64, bool, string}; "                                \
    "incompatible_shape_error: bool = true"
#define LOGICAL "x: bool, y: bool -> z: bool"

NUMBER_LOOPS(equal, a == b)
LOOP(equal, est_str, same_string(a, b))
OP(equal, "Equal", EQUATED, NUMBER_KERNELS(equal), .string = equal_est_str)

NUMBER_LOOPS(not_equal, a != b)
LOOP(not_equal, est_str, !same_string(a, b))
OP(not_equal, "NotEqual", EQUATED, NUMBER_KERNELS(not_equal), .string = not_equal_est_str)

NUMBER_LOOPS(less, a < b)
OP(less, "Less", ORDERED, NUMBER_KERNELS(less))

NUMBER_LOOPS(less_equal, a <= b)
OP(less_equal, "LessEqual", ORDERED, NUMBER_KERNELS(less_equal))

NUMBER_LOOPS(greater, a > b)
OP(greater, "Greater", ORDERED, NUMBER_KERNELS(greater))

NUMBER_LOOPS(greater_equal, a >= b)
OP(greater_equal, "GreaterEqual", ORDERED, NUMBER_KERNELS(greater_equal))

LOOP(logical_and, uint8_t, a &b)
OP(logical_and, "LogicalAnd", LOGICAL, .u8 = logical_and_uint8_t)

LOOP(logical_or, uint8_t, a | b)
OP(logical_or, "LogicalOr", LOGICAL, .u8 = logical_or_uint8_t)
