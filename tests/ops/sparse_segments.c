/* SPDX-License-Identifier: Apache-2.0 — SegmentSum, SparseSegmentSum, SparseSegmentMean, SparseSegmentSqrtN. */
#include <math.h>
#include <string.h>

#include "support/op_check.h"

static void segments_ref(est_ref *r)
{
    const char   *op  = r->test->op;
    const double *ids = r->in[r->n_in - 1];
    int64_t       n = r->in_shape[r->n_in - 1].dim[0], segments = r->out_shape[0].dim[0];
    int64_t       width = segments > 0 ? est_shape_count(&r->out_shape[0]) / segments : 0;

    for (int64_t i = 0; i < segments * width; i++) r->out[0][i] = 0;
    for (int64_t s = 0; s < segments; s++) {
        double terms = 0, by;

        for (int64_t i = 0; i < n; i++) {
            int64_t row = r->n_in == 3 ? (int64_t)r->in[1][i] : i;

            if ((int64_t)ids[i] != s) continue;
            terms++;
            for (int64_t k = 0; k < width; k++) r->out[0][s * width + k] += r->in[0][row * width + k];
        }
        by = strstr(op, "Mean") != NULL ? terms : strstr(op, "Sqrt") != NULL ? sqrt(terms) : 1;
        for (int64_t k = 0; k < width && terms > 0; k++) r->out[0][s * width + k] /= by;
    }
}

#define IDS(type, n, ...)                                                                                              \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .dtype = type, .values = (const double[])                                               \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define I32(n, ...) IDS(EST_I32, n, __VA_ARGS__)
#define I64(n, ...) IDS(EST_I64, n, __VA_ARGS__)
#define NONE                                                                                                           \
    {                                                                                                                  \
        .shape = EST_SHAPE(0), .dtype = EST_I32                                                                        \
    }
#define WRONG .fails = EST_INVALID_ARGUMENT, .says

#define INDEXED(op)                                                                                                    \
    { op, { IN(6, 5), I32(4, 5, 0, 0, 2), I32(4, 0, 0, 0, 2) }, .tol = 1e-6, .ref = segments_ref },                    \
        { op, { IN(6, 2, 3), I64(3, 1, 1, 4), I64(3, 1, 2, 4) }, .tol = 1e-6, .ref = segments_ref },                   \
        { op, { IN(6), I64(2, 1, 3), I32(2, 0, 0) }, .tol = 1e-6, .ref = segments_ref },                               \
        { op, { IN(6, 3), NONE, NONE }, .ref = segments_ref },                                                         \
        { op, { IN(6, 3), I32(2, 1, 6), I32(2, 0, 0) }, WRONG = "not below 6" },                                       \
        { op, { IN(6, 3), I32(2, 1, 5), I32(2, 1, 0) }, WRONG = "is below 1" },                                        \
    {                                                                                                                  \
        op, { IN(6, 3), I32(2, 1, 5), I32(1, 1) }, .fails = EST_INVALID_ARGUMENT                                       \
    }

static const est_op_case cases[] = {
    INDEXED("SparseSegmentSum"),
    INDEXED("SparseSegmentMean"),
    INDEXED("SparseSegmentSqrtN"),
    { "SparseSegmentSum", { IN(3, 2), I32(3, 2, 1, 2), I32(3, 0, 1, 1) }, .dtype = EST_I64, .ref = segments_ref },
    { "SegmentSum", { IN(5, 3), I64(5, 0, 0, 2, 2, 2) }, .tol = 1e-6, .ref = segments_ref },
    { "SegmentSum", { IN(3), I32(3, 0, 1, 2) }, .dtype = EST_I32, .ref = segments_ref },
    { "SegmentSum", { IN(0, 3), NONE }, .ref = segments_ref },
    { "SegmentSum", { IN(3, 2), I32(2, 0, 1) }, WRONG = "2 segment_ids for 3 rows" },
    { "SegmentSum", { IN(3, 2), I32(3, 0, 2, 1) }, WRONG = "is below 2" },
    { "SegmentSum", { IN(3, 2), I32(3, -1, 2, 1) }, WRONG = "is below 0" },
};

EST_OP_CHECK_MAIN(cases)
