/* SPDX-License-Identifier: Apache-2.0 — ClipByValue. */
#include <math.h>

#include "support/broadcast_ref.h"
#include "support/op_check.h"

static void clip_ref(est_ref *r)
{
    const est_shape *out = &r->out_shape[0];

    for (int64_t i = 0; i < est_shape_count(out); i++) {
        double x = r->in[0][i], low = r->in[1][broadcast_source(&r->in_shape[1], out, i)],
               high  = r->in[2][broadcast_source(&r->in_shape[2], out, i)];
        r->out[0][i] = x < low ? low : x > high ? high : x;
    }
}

#define LIMIT(value)                                                                                                   \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .values = (const double[])                                                          \
        {                                                                                                              \
            value                                                                                                      \
        }                                                                                                              \
    }

static const est_op_case cases[] = {
    { "ClipByValue", { IN(5, 7), LIMIT(-0.5), LIMIT(0.75) }, .ref = clip_ref },
    { "ClipByValue",
      { IN(3, 2),
        { .shape = EST_SHAPE(2), .lo = -0.9, .hi = -0.3 },
        { .shape = EST_SHAPE(3, 2), .lo = 0.3, .hi = 0.9 } },
      .ref = clip_ref },
    { "ClipByValue", { IN(301, 401), LIMIT(-0.5), LIMIT(0.75) }, .no_grad = true, .ref = clip_ref },
    { "ClipByValue",
      { { .shape = EST_SHAPE(3), .values = (const double[]){ NAN, INFINITY, -INFINITY } }, LIMIT(-1), LIMIT(1) },
      .no_grad = true,
      .ref     = clip_ref },
    { "ClipByValue", { IN(9), LIMIT(-2), LIMIT(3) }, .dtype = EST_I32, .lo = -9, .hi = 9, .ref = clip_ref },
    { "ClipByValue", { IN(9), LIMIT(-2), LIMIT(3) }, .dtype = EST_I64, .lo = -9, .hi = 9, .ref = clip_ref },
    { "ClipByValue", { IN(0), LIMIT(-2), LIMIT(3) }, .ref = clip_ref },
    { "ClipByValue", { IN(3), IN(4), LIMIT(3) }, .fails = EST_INVALID_ARGUMENT, .says = "[4]" },
    { "ClipByValue", { IN(3), IN(4, 3), LIMIT(3) }, .fails = EST_INVALID_ARGUMENT, .says = "[4,3]" },
};

EST_OP_CHECK_MAIN(cases)
