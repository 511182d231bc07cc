/* SPDX-License-Identifier: Apache-2.0 — EstRoundBfloat16 and EstPackBfloat16. */
#include "support/bfloat16_ref.h"
#include "support/op_check.h"

static void reference(est_ref *r)
{
    int64_t n = est_shape_count(&r->out_shape[0]);

    for (int64_t i = 0; i < n; i++) r->out[0][i] = bfloat16_ref(r->in[0][i]);
}

static void bytes(est_ref *r)
{
    int64_t n = est_shape_count(&r->out_shape[0]);

    for (int64_t i = 0; i < n; i++) r->out[0][i] = bfloat16_byte(r->in[0][i / 2], (int)(i % 2));
}

/* What lies half way between two: down to the even, up to the even; just above and below; negative; small. */
static const double ties[] = { 1 + 0x1p-8,
                               1 + 3 * 0x1p-8,
                               1 + 0x1p-8 + 0x1p-23,
                               1 + 0x1p-8 - 0x1p-23,
                               -1 - 0x1p-8,
                               -1 - 3 * 0x1p-8,
                               0x1p-100 + 0x1p-108,
                               255.5,
                               256.5,
                               257,
                               3,
                               0 };

/* The gradient is that of a cast, 1, and not that of the steps that it makes. */
static const est_op_case cases[] = {
    { "EstRoundBfloat16", { IN(7, 33) }, .lo = -4, .hi = 4, .no_grad = true, .ref = reference },
    { "EstRoundBfloat16", { IN(4099) }, .lo = -1e20, .hi = 1e20, .no_grad = true, .ref = reference },
    { "EstRoundBfloat16", { IN(3, 5, 2) }, .lo = -1e-20, .hi = 1e-20, .no_grad = true, .ref = reference },
    { "EstRoundBfloat16", { { .shape = EST_SHAPE(12), .values = ties } }, .no_grad = true, .ref = reference },
    { "EstRoundBfloat16", { IN(0, 4) }, .ref = reference },
    { "EstPackBfloat16", { IN(7, 33) }, .lo = -4, .hi = 4, .ref = bytes },
    { "EstPackBfloat16", { IN(5, 1024) }, .lo = -1e-20, .hi = 1e20, .ref = bytes },
    { "EstPackBfloat16", { { .shape = EST_SHAPE(12), .values = ties } }, .ref = bytes },
    { "EstPackBfloat16", { IN(4, 0) }, .ref = bytes },
    { "EstPackBfloat16", { IN(0, 4) }, .ref = bytes },
    { "EstPackBfloat16", { { .shape = EST_SHAPE_SCALAR } }, .fails = EST_INVALID_ARGUMENT, .says = "scalar" },
};

EST_OP_CHECK_MAIN(cases)
