/* SPDX-License-Identifier: Apache-2.0 — Fill, ZerosLike and OnesLike. */
#include <string.h>

#include "support/coords.h"
#include "support/op_check.h"

static void fill_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = r->in[1][0];
}

static void like_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = strcmp(r->test->op, "OnesLike") == 0;
}

#define LIKE(name)                                                                                                     \
    { name, { IN(5, 7) }, .ref = like_ref }, { name, { IN(0, 7) }, .ref = like_ref },                                  \
        { name, { IN(301, 1001) }, .ref = like_ref }, { name, { IN(3) }, .dtype = EST_I32, .ref = like_ref },          \
        { name, { IN(3) }, .dtype = EST_I64, .ref = like_ref },                                                        \
        { name, { IN(3) }, .dtype = EST_BOOL, .ref = like_ref },                                                       \
    {                                                                                                                  \
        name, { IN(3) }, .dtype = EST_U8, .ref = like_ref                                                              \
    }

static const est_op_case cases[] = {
    { "Fill", { INTS(3, 4), SCALAR_IN }, .ref = fill_ref },
    { "Fill", { FED_INTS(3, 4), SCALAR_IN }, .ref = fill_ref },
    { "Fill", { INTS(2, 0), SCALAR_IN }, .ref = fill_ref },
    { "Fill", { INTS(301, 1001), SCALAR_IN }, .ref = fill_ref },
    { "Fill", { INTS(5), SCALAR_IN }, .dtype = EST_I32, .hi = 9, .ref = fill_ref },
    { "Fill", { INTS(5), SCALAR_IN }, .dtype = EST_I64, .hi = 9, .ref = fill_ref },
    { "Fill", { INTS(5), SCALAR_IN }, .dtype = EST_BOOL, .ref = fill_ref },
    { "Fill", { INTS(3, -4), SCALAR_IN }, .fails = EST_INVALID_ARGUMENT, .says = "-4" },
    { "Fill", { INTS(3), IN(2) }, .fails = EST_INVALID_ARGUMENT, .says = "rank 0" },
    LIKE("ZerosLike"),
    LIKE("OnesLike"),
};

EST_OP_CHECK_MAIN(cases)
