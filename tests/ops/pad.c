/* SPDX-License-Identifier: Apache-2.0 — Pad and PadV2. */
#include "support/coords.h"
#include "support/op_check.h"

static void pad_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        int64_t at[EST_RANK_MAX];
        int     inside = 1;

        coords_of(&r->out_shape[0], i, at);
        for (int k = 0; k < r->in_shape[0].rank; k++) {
            at[k] -= (int64_t)r->in[1][2 * k];
            inside &= at[k] >= 0 && at[k] < r->in_shape[0].dim[k];
        }
        r->out[0][i] = inside ? r->in[0][offset_of(&r->in_shape[0], at)] : r->n_in == 3 ? r->in[2][0] : 0;
    }
}

#define PADS(rank, is_constant, ...)                                                                                   \
    {                                                                                                                  \
        .shape = EST_SHAPE(rank, 2), .dtype = EST_I32, .values = (const double[]){ __VA_ARGS__ },                      \
        .constant = is_constant                                                                                        \
    }
#define REFUSED .fails = EST_INVALID_ARGUMENT

static const est_op_case cases[] = {
    { "Pad", { IN(2, 3), PADS(2, true, 1, 2, 0, 3) }, .ref = pad_ref },
    { "Pad", { IN(2, 3), PADS(2, false, 1, 0, 2, 1) }, .ref = pad_ref },
    { "Pad", { IN(2, 3), PADS(2, true, 0, 0, 0, 0) }, .ref = pad_ref },
    { "Pad", { IN(0, 3), PADS(2, true, 1, 1, 0, 0) }, .ref = pad_ref },
    { "Pad", { IN(2, 5, 5, 3), PADS(4, true, 0, 0, 1, 1, 2, 2, 0, 0) }, .ref = pad_ref },
    { "Pad", { IN(200, 300), PADS(2, true, 5, 7, 1, 2) }, .ref = pad_ref },
    { "Pad", { IN(3), PADS(1, true, 2, 1) }, .dtype = EST_I64, .lo = 1, .hi = 9, .ref = pad_ref },
    { "Pad", { IN(2, 3), PADS(2, true, 1, -1, 0, 0) }, REFUSED, .says = "(1, -1)" },
    { "Pad", { IN(2, 3), PADS(1, true, 1, 1) }, REFUSED, .says = "paddings of shape [1,2]" },
    { "Pad",
      { IN(3),
        { .shape = EST_SHAPE(1, 2), .dtype = EST_I64, .values = (const double[]){ 9e18, 9e18 }, .constant = true } },
      REFUSED,
      .says = "too much" },
    { "PadV2", { IN(2, 3), PADS(2, true, 1, 2, 0, 3), SCALAR_IN }, .ref = pad_ref },
    { "PadV2", { IN(2, 3), PADS(2, false, 0, 1, 1, 0), SCALAR_IN }, .ref = pad_ref },
    { "PadV2", { IN(3), PADS(1, true, 2, 1), SCALAR_IN }, .dtype = EST_I32, .lo = 1, .hi = 9, .ref = pad_ref },
    { "PadV2", { IN(3), PADS(1, true, 2, 1), IN(2) }, REFUSED, .says = "rank 0" },
};

EST_OP_CHECK_MAIN(cases)
