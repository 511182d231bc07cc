/* SPDX-License-Identifier: Apache-2.0 — ArgMax and ArgMin. */
#include <math.h>
#include <string.h>

#include "support/coords.h"
#include "support/op_check.h"

/* For each output, the first index along the axis that no other beats. */
/* One attribute, as a constant table can hold it. */
#define ONE_ATTR(...)                                                                                                  \
    {                                                                                                                  \
        (const est_attr[]){ { __VA_ARGS__ } }, 1                                                                       \
    }

static void arg_ref(est_ref *r)
{
    const est_shape *x     = &r->in_shape[0];
    int              axis  = (int)r->in[1][0] < 0 ? (int)r->in[1][0] + x->rank : (int)r->in[1][0];
    double           sense = strcmp(r->test->op, "ArgMax") == 0 ? 1 : -1;

    for (int64_t k = 0; k < est_shape_count(&r->out_shape[0]); k++) {
        int64_t at[EST_RANK_MAX], full[EST_RANK_MAX];
        double  best = -INFINITY;

        coords_of(&r->out_shape[0], k, at);
        for (int a = 0; a < x->rank; a++) full[a] = a == axis ? 0 : at[a < axis ? a : a - 1];
        r->out[0][k] = 0;
        for (int64_t i = 0; i < x->dim[axis]; i++) {
            full[axis] = i;
            double v   = sense * r->in[0][offset_of(x, full)];
            if (v > best) {
                best         = v;
                r->out[0][k] = (double)i;
            }
        }
    }
}

static const double odd[] = { NAN, 1, 2, 1, NAN, 2, 3, 3, 3 };

#define CASES(op_name)                                                                                                 \
    { op_name, { IN(9), INT(0) }, .ref = arg_ref }, { op_name, { IN(5, 7), INT(-1) }, .ref = arg_ref },                \
        { op_name, { IN(5, 7), INT(0) }, .ref = arg_ref },                                                             \
        { op_name,                                                                                                     \
          { IN(2, 3, 4), INT(1) },                                                                                     \
          .ref   = arg_ref,                                                                                            \
          .attrs = ONE_ATTR(.name = "output_type", .kind = EST_ATTR_TYPE, .type = EST_I32) },                          \
        { op_name, { IN(6, 5), FED_INT(1) }, .dtype = EST_I32, .lo = -2, .hi = 2, .ref = arg_ref },                    \
        { op_name, { IN(6, 5), INT(1) }, .dtype = EST_I64, .lo = -2, .hi = 2, .ref = arg_ref },                        \
        { op_name, { IN(6, 5), INT(1) }, .dtype = EST_BOOL, .ref = arg_ref },                                          \
        { op_name, { IN(5001, 10), INT(1) }, .ref = arg_ref }, { op_name, { IN(0, 10), INT(1) }, .ref = arg_ref },     \
        { op_name, { { .shape = EST_SHAPE(3, 3), .values = odd }, INT(1) }, .ref = arg_ref },                          \
        { op_name, { IN(3, 0), INT(1) }, .fails = EST_INVALID_ARGUMENT, .says = "[3,0]" },                             \
        { op_name, { SCALAR_IN, INT(0) }, .fails = EST_INVALID_ARGUMENT, .says = "scalar" },                           \
    {                                                                                                                  \
        op_name, { IN(3, 4), INT(2) }, .fails = EST_INVALID_ARGUMENT, .says = "2"                                      \
    }

static const est_op_case cases[] = { CASES("ArgMax"), CASES("ArgMin") };

EST_OP_CHECK_MAIN(cases)
