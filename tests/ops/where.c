/* SPDX-License-Identifier: Apache-2.0 — Where. */
#include "support/coords.h"
#include "support/op_check.h"

static void where_ref(est_ref *r)
{
    int64_t found = 0;

    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) {
        int64_t at[EST_RANK_MAX];

        if (r->in[0][i] == 0 || found == r->out_shape[0].dim[0]) continue;
        coords_of(&r->in_shape[0], i, at);
        for (int k = 0; k < r->in_shape[0].rank; k++) r->out[0][found * r->in_shape[0].rank + k] = (double)at[k];
        found++;
    }
}

static const est_op_case cases[] = {
    { "Where", { IN(3, 4) }, .dtype = EST_BOOL, .ref = where_ref },
    { "Where", { IN(9) }, .dtype = EST_BOOL, .ref = where_ref },
    { "Where", { IN(2, 3, 4) }, .dtype = EST_I32, .lo = 0, .hi = 1, .ref = where_ref },
    { "Where", { IN(5) }, .ref = where_ref }, /* float: nothing is exactly 0 */
    { "Where", { { .shape = EST_SHAPE(4), .values = (const double[]){ 0, 0, 0, 0 } } }, .ref = where_ref },
    { "Where", { IN(0, 3) }, .dtype = EST_BOOL, .ref = where_ref },
    { "Where", { IN(7, 30) }, .dtype = EST_I64, .lo = -1, .hi = 1, .ref = where_ref },
    { "Where",
      { { .shape = EST_SHAPE_SCALAR, .values = (const double[]){ 1 } } },
      .dtype = EST_BOOL,
      .ref   = where_ref },
};

EST_OP_CHECK_MAIN(cases)
