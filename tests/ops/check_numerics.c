/* SPDX-License-Identifier: Apache-2.0 — CheckNumerics. */
#include <math.h>

#include "support/op_check.h"

/* One attribute, as a constant table can hold it. */
#define ONE_ATTR(...)                                                                                                  \
    {                                                                                                                  \
        (const est_attr[]){ { __VA_ARGS__ } }, 1                                                                       \
    }

static void same_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = r->in[0][i];
}

#define MESSAGE .attrs = ONE_ATTR(.name = "message", .kind = EST_ATTR_STRING, .s = "logits")
#define VALUES(...)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)), .values = (const double[])       \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static const est_op_case cases[] = {
    { "CheckNumerics", { IN(5, 7) }, MESSAGE, .ref = same_ref },
    { "CheckNumerics", { IN(0) }, MESSAGE, .ref = same_ref },
    { "CheckNumerics", { IN(501, 701) }, MESSAGE, .ref = same_ref },
    { "CheckNumerics",
      { VALUES(1, NAN, INFINITY, NAN, -INFINITY, NAN) },
      MESSAGE,
      .fails = EST_INVALID_ARGUMENT,
      .says  = "logits : Tensor had 3 NaN and 2 Inf" },
    { "CheckNumerics", { VALUES(1, 2, -INFINITY) }, MESSAGE, .fails = EST_INVALID_ARGUMENT, .says = "0 NaN and 1 Inf" },
};

EST_OP_CHECK_MAIN(cases)
