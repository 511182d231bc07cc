/* SPDX-License-Identifier: Apache-2.0 — InTopKV2. */
#include <math.h>

#include "support/coords.h"
#include "support/op_check.h"

static void in_top_k_ref(est_ref *r)
{
    int64_t classes = r->in_shape[0].dim[1];

    for (int64_t i = 0; i < r->in_shape[0].dim[0]; i++) {
        double larger = 0, target = r->in[1][i];
        int    ok = target >= 0 && target < (double)classes;

        for (int64_t k = 0; k < classes && ok; k++) {
            ok = isfinite(r->in[0][i * classes + k]);
            larger += r->in[0][i * classes + k] > r->in[0][i * classes + (int64_t)target];
        }
        r->out[0][i] = ok && larger < r->in[2][0];
    }
}

#define TARGETS(low, high, n)                                                                                          \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .dtype = EST_I32, .lo = low, .hi = high                                                 \
    }
#define ODD                                                                                                            \
    (const double[])                                                                                                   \
    {                                                                                                                  \
        1, 2, 2, 0, NAN, 1, 2, 0, INFINITY, 1, 2, 0, 1, 1, 1, 1                                                        \
    }

static const est_op_case cases[] = {
    { "InTopKV2", { IN(9, 5), TARGETS(0, 4, 9), INT(2) }, .ref = in_top_k_ref },
    { "InTopKV2", { IN(9, 5), TARGETS(-1, 6, 9), FED_INT(3) }, .ref = in_top_k_ref },
    { "InTopKV2", { { .shape = EST_SHAPE(4, 4), .values = ODD }, FED_INTS(2, 2, 1, 3), INT(1) }, .ref = in_top_k_ref },
    { "InTopKV2", { { .shape = EST_SHAPE(4, 4), .values = ODD }, FED_INTS(1, 0, 0, 0), INT(9) }, .ref = in_top_k_ref },
    { "InTopKV2", { IN(0, 5), TARGETS(0, 4, 0), INT(2) }, .ref = in_top_k_ref },
    { "InTopKV2", { IN(3000, 40), TARGETS(0, 39, 3000), INT(5) }, .ref = in_top_k_ref },
    { "InTopKV2",
      { IN(4, 3),
        { .shape = EST_SHAPE(4), .dtype = EST_I64, .hi = 2 },
        { .shape = EST_SHAPE_SCALAR, .dtype = EST_I64, .values = (const double[]){ 1 }, .constant = true } },
      .ref = in_top_k_ref },
    { "InTopKV2", { IN(4, 3), TARGETS(0, 2, 5), INT(1) }, .fails = EST_INVALID_ARGUMENT, .says = "[5]" },
};

EST_OP_CHECK_MAIN(cases)
