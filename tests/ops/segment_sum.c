/* SPDX-License-Identifier: Apache-2.0 — UnsortedSegmentSum. */
#include "support/coords.h"
#include "support/op_check.h"

static void segment_sum_ref(est_ref *r)
{
    int64_t ids = est_shape_count(&r->in_shape[1]), n = est_shape_count(&r->out_shape[0]);
    int64_t width = r->out_shape[0].dim[0] > 0 ? n / r->out_shape[0].dim[0] : 0;

    for (int64_t i = 0; i < n; i++) r->out[0][i] = 0;
    for (int64_t i = 0; i < ids; i++) {
        for (int64_t k = 0; k < width && r->in[1][i] >= 0; k++) {
            r->out[0][(int64_t)r->in[1][i] * width + k] += r->in[0][i * width + k];
        }
    }
}

#define IDS(low, high, ...)                                                                                            \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = EST_I32, .lo = low, .hi = high                                       \
    }
#define REFUSED .fails = EST_INVALID_ARGUMENT

static const est_op_case cases[] = {
    { "UnsortedSegmentSum", { IN(8, 3), IDS(0, 4, 8), INT(5) }, .tol = 1e-6, .ref = segment_sum_ref },
    { "UnsortedSegmentSum", { IN(8, 3), IDS(-2, 4, 8), INT(5) }, .tol = 1e-6, .ref = segment_sum_ref },
    { "UnsortedSegmentSum", { IN(8), IDS(0, 2, 8), FED_INT(7) }, .tol = 1e-6, .ref = segment_sum_ref },
    { "UnsortedSegmentSum", { IN(4, 2, 3), IDS(0, 4, 4, 2), INT(5) }, .tol = 1e-6, .ref = segment_sum_ref },
    { "UnsortedSegmentSum", { IN(0, 3), IDS(0, 0, 0), INT(2) }, .ref = segment_sum_ref },
    { "UnsortedSegmentSum", { IN(3, 2), IDS(-1, -1, 3), INT(0) }, .ref = segment_sum_ref },
    { "UnsortedSegmentSum", { IN(3000, 16), IDS(0, 499, 3000), INT(500) }, .tol = 1e-5, .ref = segment_sum_ref },
    { "UnsortedSegmentSum",
      { IN(20), { .shape = EST_SHAPE(20), .dtype = EST_I64, .hi = 3 }, INT(4) },
      .dtype = EST_I64,
      .lo    = -9,
      .hi    = 9,
      .ref   = segment_sum_ref },
    { "UnsortedSegmentSum", { IN(3, 2), FED_INTS(0, 5, 1), INT(5) }, REFUSED, .says = "element 1 = 5" },
    { "UnsortedSegmentSum", { IN(3, 2), IDS(0, 1, 4), INT(5) }, REFUSED, .says = "[3,2]" },
    { "UnsortedSegmentSum", { IN(3, 2), IDS(0, 1, 3), INT(-1) }, REFUSED, .says = "-1" },
};

EST_OP_CHECK_MAIN(cases)
