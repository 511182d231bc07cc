/* SPDX-License-Identifier: Apache-2.0 — TopKV2. */
#include "support/coords.h"
#include "support/op_check.h"

/* Picks the best k times; a picked entry is remembered by its place in the list so far. */
static void top_k_ref(est_ref *r)
{
    int64_t n = r->in_shape[0].dim[r->in_shape[0].rank - 1], k = (int64_t)r->in[1][0];
    int64_t rows = n > 0 ? est_shape_count(&r->in_shape[0]) / n : 0;

    for (int64_t row = 0; row < rows; row++) {
        const double *x     = r->in[0] + row * n;
        double       *index = r->out[1] + row * k;

        for (int64_t j = 0; j < k; j++) {
            int64_t best = -1;

            for (int64_t i = 0; i < n; i++) {
                int taken = 0;
                for (int64_t t = 0; t < j; t++) taken |= index[t] == (double)i;
                if (!taken && (best < 0 || x[i] > x[best])) best = i;
            }
            index[j]               = (double)best;
            r->out[0][row * k + j] = x[best];
        }
    }
}

#define TIES                                                                                                           \
    (const double[])                                                                                                   \
    {                                                                                                                  \
        3, 1, 3, 2, 2, 3, 1, 3                                                                                         \
    }

static const est_op_case cases[] = {
    { "TopKV2", { IN(3, 10), INT(4) }, .ref = top_k_ref },
    { "TopKV2", { IN(7), INT(7) }, .ref = top_k_ref },
    { "TopKV2", { IN(7), FED_INT(1) }, .ref = top_k_ref },
    { "TopKV2", { IN(2, 3, 5), INT(2) }, .ref = top_k_ref },
    { "TopKV2", { IN(2, 5), INT(0) }, .no_grad = true, .ref = top_k_ref },
    { "TopKV2", { IN(0, 5), INT(2) }, .ref = top_k_ref },
    { "TopKV2", { IN(20, 50), INT(7) }, .lo = -100, .hi = 100, .ref = top_k_ref },
    { "TopKV2", { IN(200, 300), INT(17) }, .no_grad = true, .ref = top_k_ref }, /* neighbours swap within a step */
    { "TopKV2", { { .shape = EST_SHAPE(8), .values = TIES }, INT(6) }, .no_grad = true, .ref = top_k_ref },
    { "TopKV2", { IN(4, 40), INT(9) }, .dtype = EST_I32, .lo = 0, .hi = 6, .ref = top_k_ref },
    { "TopKV2", { IN(4, 40), INT(9) }, .dtype = EST_I64, .lo = -3, .hi = 6, .ref = top_k_ref },
    { "TopKV2", { IN(3, 4), INT(5) }, .fails = EST_INVALID_ARGUMENT, .says = "top 5 of the last axis of [" },
    { "TopKV2", { SCALAR_IN, INT(1) }, .fails = EST_INVALID_ARGUMENT, .says = "scalar" },
};

EST_OP_CHECK_MAIN(cases)
