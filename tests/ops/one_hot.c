/* SPDX-License-Identifier: Apache-2.0 — OneHot. */
#include "support/coords.h"
#include "support/op_check.h"

static void one_hot_ref(est_ref *r)
{
    int64_t axis = est_node_int(r->node, "axis");

    if (axis < 0) axis += r->out_shape[0].rank;
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        int64_t at[EST_RANK_MAX], from[EST_RANK_MAX], place;

        coords_of(&r->out_shape[0], i, at);
        for (int k = 0; k < r->in_shape[0].rank; k++) from[k] = at[k + (k >= axis)];
        place        = (int64_t)r->in[0][offset_of(&r->in_shape[0], from)];
        r->out[0][i] = at[axis] == place ? r->in[2][0] : r->in[3][0];
    }
}

#define PICKS(type, low, high, ...)                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = type, .lo = low, .hi = high                                          \
    }
#define AXIS(n) EST_ATTRS(est_attr_int("axis", n))

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "OneHot", { PICKS(EST_I64, 0, 4, 6), INT(5), SCALAR_IN, SCALAR_IN }, .ref = one_hot_ref },
        { "OneHot", { PICKS(EST_I32, -2, 6, 3, 4), INT(5), SCALAR_IN, SCALAR_IN }, .ref = one_hot_ref },
        { "OneHot",
          { PICKS(EST_I32, 0, 4, 3, 4), INT(5), SCALAR_IN, SCALAR_IN },
          .attrs = AXIS(1),
          .ref   = one_hot_ref },
        { "OneHot",
          { PICKS(EST_I32, 0, 4, 3, 4), FED_INT(5), SCALAR_IN, SCALAR_IN },
          .attrs = AXIS(0),
          .ref   = one_hot_ref },
        { "OneHot",
          { { .shape = EST_SHAPE_SCALAR, .dtype = EST_U8, .hi = 3 }, INT(4), SCALAR_IN, SCALAR_IN },
          .ref = one_hot_ref },
        { "OneHot", { PICKS(EST_I64, 0, 4, 0), INT(5), SCALAR_IN, SCALAR_IN }, .ref = one_hot_ref },
        { "OneHot", { PICKS(EST_I64, 0, 4, 3), INT(0), SCALAR_IN, SCALAR_IN }, .ref = one_hot_ref },
        { "OneHot", { PICKS(EST_I64, 0, 99, 3000), INT(100), SCALAR_IN, SCALAR_IN }, .ref = one_hot_ref },
        { "OneHot",
          { PICKS(EST_I64, 0, 4, 6), INT(5), SCALAR_IN, SCALAR_IN },
          .dtype = EST_I64,
          .lo    = 1,
          .hi    = 9,
          .ref   = one_hot_ref },
        { "OneHot", { PICKS(EST_I64, 0, 4, 6), INT(5), SCALAR_IN, SCALAR_IN }, .dtype = EST_BOOL, .ref = one_hot_ref },
        { "OneHot",
          { PICKS(EST_I64, 0, 4, 6), INT(-1), SCALAR_IN, SCALAR_IN },
          .fails = EST_INVALID_ARGUMENT,
          .says  = "-1" },
    };

    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv);
}
