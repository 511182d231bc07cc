/* SPDX-License-Identifier: Apache-2.0 — Cast. */
#include <math.h>

#include "support/op_check.h"

/* One attribute, as a constant table can hold it. */
#define ONE_ATTR(...)                                                                                                  \
    {                                                                                                                  \
        (const est_attr[]){ { __VA_ARGS__ } }, 1                                                                       \
    }

/* What an integer does not hold, and NaN, becomes the least one. */
static double held(double x, double least)
{
    return x >= least && x < -least ? trunc(x) : least;
}

static void cast_ref(est_ref *r)
{
    est_dtype from = est_node_type(r->node, "SrcT"), to = est_node_type(r->node, "DstT");
    bool      cut = from == EST_F32 || from == EST_F64;

    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        double x     = r->in[0][i];
        r->out[0][i] = to == EST_BOOL                   ? x != 0
                       : to == EST_F32 || to == EST_F64 ? x
                       : to == EST_U8 && cut            ? x >= 2147483648.0 ? 0 : fmin(fmax(trunc(x), 0), 255)
                                  : to == EST_U8 ? (double)(uint8_t)(int64_t)x
                       : !cut                           ? x
                                                        : held(x, to == EST_I32 ? -0x1p31 : -0x1p63);
    }
}

#define TO(to)                                                                                                         \
    .attrs = ONE_ATTR(.name = "DstT", .kind = EST_ATTR_TYPE, .type = to), .no_grad = true, .tol = 1e-6, .ref = cast_ref
#define FROM(from, low, high)                                                                                          \
    { "Cast", { IN(37) }, .dtype = from, .lo = low, .hi = high, TO(EST_F32) },                                         \
        { "Cast", { IN(37) }, .dtype = from, .lo = low, .hi = high, TO(EST_F64) },                                     \
        { "Cast", { IN(5, 9) }, .dtype = from, .lo = low, .hi = high, TO(EST_I32) },                                   \
        { "Cast", { IN(37) }, .dtype = from, .lo = low, .hi = high, TO(EST_I64) },                                     \
        { "Cast", { IN(37) }, .dtype = from, .lo = low, .hi = high, TO(EST_U8) },                                      \
    {                                                                                                                  \
        "Cast", { IN(37) }, .dtype = from, .lo = low, .hi = high, TO(EST_BOOL)                                         \
    }

static const est_op_case cases[] = {
    FROM(EST_F32, -300, 300),
    FROM(EST_F64, -300, 300),
    FROM(EST_I32, -300, 300),
    FROM(EST_I64, -300, 300),
    FROM(EST_U8, 0, 255),
    FROM(EST_BOOL, 0, 1),
    { "Cast", { IN(300, 401) }, .lo = -9, .hi = 9, TO(EST_I32) },
    { "Cast", { IN(0, 4) }, TO(EST_I32) },
    { "Cast", { IN(37) }, .lo = -9e9, .hi = 9e9, TO(EST_I32) }, /* half of them more than it holds */
    { "Cast", { IN(37) }, .dtype = EST_F64, .lo = -4e19, .hi = 4e19, TO(EST_I64) },
    { "Cast", { IN(37) }, .lo = -9e9, .hi = 9e9, TO(EST_U8) }, /* half of them more than an int32 holds */
    { "Cast",
      { IN(6) },
      .attrs = ONE_ATTR(.name = "DstT", .kind = EST_ATTR_TYPE, .type = EST_F64),
      .dtype = EST_F64,
      .ref   = cast_ref },
};

EST_OP_CHECK_MAIN(cases)
