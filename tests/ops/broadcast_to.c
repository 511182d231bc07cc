/* SPDX-License-Identifier: Apache-2.0 — BroadcastTo. */
#include "support/coords.h"
#include "support/op_check.h"

static void broadcast_ref(est_ref *r)
{
    const est_shape *in = &r->in_shape[0], *out = &r->out_shape[0];

    for (int64_t i = 0; i < est_shape_count(out); i++) {
        int64_t at[EST_RANK_MAX], from[EST_RANK_MAX] = { 0 };

        coords_of(out, i, at);
        for (int k = 0; k < in->rank; k++) from[k] = in->dim[k] == 1 ? 0 : at[k + out->rank - in->rank];
        r->out[0][i] = r->in[0][offset_of(in, from)];
    }
}

#define REFUSED .fails = EST_INVALID_ARGUMENT

static const est_op_case cases[] = {
    { "BroadcastTo", { IN(1, 4), INTS(3, 4) }, .ref = broadcast_ref },
    { "BroadcastTo", { IN(3, 1), INTS(3, 4) }, .ref = broadcast_ref },
    { "BroadcastTo", { IN(4), INTS(2, 3, 4) }, .ref = broadcast_ref },
    { "BroadcastTo", { IN(4), FED_INTS(3, 4) }, .ref = broadcast_ref },
    { "BroadcastTo", { SCALAR_IN, INTS(2, 3) }, .ref = broadcast_ref },
    { "BroadcastTo", { IN(2, 3), INTS(2, 3) }, .ref = broadcast_ref },
    { "BroadcastTo", { IN(1, 3), INTS(0, 3) }, .ref = broadcast_ref },
    { "BroadcastTo", { IN(2, 1, 3, 1), INTS(2, 4, 3, 5) }, .ref = broadcast_ref },
    { "BroadcastTo", { IN(1, 300), INTS(200, 300) }, .ref = broadcast_ref },
    { "BroadcastTo", { IN(3, 1), INTS(3, 2) }, .dtype = EST_I32, .lo = -5, .hi = 5, .ref = broadcast_ref },
    { "BroadcastTo", { IN(2, 3), INTS(4, 3) }, REFUSED, .says = "cannot broadcast [2,3] to [4,3]" },
    { "BroadcastTo", { IN(2, 3), INTS(3) }, REFUSED, .says = "to [3]" },
};

EST_OP_CHECK_MAIN(cases)
