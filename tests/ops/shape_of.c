/* SPDX-License-Identifier: Apache-2.0 — Shape, Size, Rank. */
#include "support/coords.h"
#include "support/op_check.h"

static void shape_ref(est_ref *r)
{
    for (int i = 0; i < r->in_shape[0].rank; i++) r->out[0][i] = (double)r->in_shape[0].dim[i];
}

static void size_ref(est_ref *r)
{
    r->out[0][0] = (double)est_shape_count(&r->in_shape[0]);
}

static void rank_ref(est_ref *r)
{
    r->out[0][0] = r->in_shape[0].rank;
}

#define AS_INT64 EST_ATTRS({ .name = "out_type", .kind = EST_ATTR_TYPE, .type = EST_I64 })

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "Shape", { IN(3, 4, 5) }, .ref = shape_ref },
        { "Shape", { SCALAR_IN }, .ref = shape_ref },
        { "Shape", { IN(0, 2) }, .attrs = AS_INT64, .ref = shape_ref },
        { "Size", { IN(3, 4, 5) }, .ref = size_ref },
        { "Size", { SCALAR_IN }, .ref = size_ref },
        { "Size", { IN(0, 2) }, .attrs = AS_INT64, .ref = size_ref },
        { "Rank", { IN(3, 4, 5) }, .ref = rank_ref },
        { "Rank", { SCALAR_IN }, .ref = rank_ref },
    };

    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv);
}
