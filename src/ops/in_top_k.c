/* SPDX-License-Identifier: Apache-2.0
 *
 * InTopKV2: whether fewer than k classes have a larger prediction than the target class. Classes that tie with the
 * target do not count against it; a target that is no class, or a prediction that is not finite, gives false. */
#include <float.h>
#include <math.h>

#include "kernels/parallel.h"
#include "ops/array.h"

static est_status in_top_k_infer(est_infer *c)
{
    int64_t rows = est_infer_dim(&c->in[0], 0), targets;
    char    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 0, 2));
    EST_TRY(est_infer_rank(c, 1, 1));
    EST_TRY(est_infer_rank(c, 2, 0));
    targets = est_infer_dim(&c->in[1], 0);
    if (rows >= 0 && targets >= 0 && rows != targets) {
        return est_fail(EST_INVALID_ARGUMENT, "predictions %s and targets %s must have as many rows",
                        est_shape_text(&c->in[0], a), est_shape_text(&c->in[1], b));
    }
    c->out[0] = EST_SHAPE(rows >= 0 ? rows : targets);
    return EST_OK;
}

static bool row_in_top_k(const float *row, int64_t classes, int64_t target, int64_t k)
{
    int64_t larger   = 0;
    bool    sensible = true;
    float   mine;

    if (target < 0 || target >= classes) return false;
    mine = row[target];
    for (int64_t i = 0; i < classes; i++) {
        larger += row[i] > mine;
        sensible &= fabsf(row[i]) <= FLT_MAX;
    }
    return sensible && larger < k;
}

static void in_top_k_rows(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call *c       = arg;
    int64_t         classes = c->in[0]->shape.dim[1], k = est_view_int(c->in[2], 0);

    (void)block;
    for (int64_t r = begin; r < end; r++) {
        ((uint8_t *)c->out[0].data)[r] = row_in_top_k((const float *)c->in[0]->data + r * classes, classes,
                                                      est_view_int(c->in[1], r), k);
    }
}

static est_status in_top_k_cpu(est_call *c)
{
    est_parallel_for(c->pool, c->out[0].count, 64, 5 + 0.5 * (double)c->in[0]->shape.dim[1], in_top_k_rows, c);
    return EST_OK;
}

const est_op est_op_in_top_k_v2 = {
    .name      = "InTopKV2",
    .signature = "predictions: float32, targets: T, k: T -> precision: bool; T: {int32, int64} = int32",
    .infer     = in_top_k_infer,
    .cpu       = EST_KERNELS({ .run = in_top_k_cpu }),
};

est_node est_in_top_k(est_node predictions, est_node targets, int64_t k)
{
    return est_build3(&est_op_in_top_k_v2, predictions, targets,
                      est_scalar(targets.graph, est_node_dtype(targets), (double)k), EST_NO_ATTRS);
}
