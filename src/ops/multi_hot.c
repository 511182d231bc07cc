/* SPDX-License-Identifier: Apache-2.0
 *
 * EstMultiHot: out[r, id] = how often id occurs in row r, or the sum of its weights there. Ids that are not in
 * [0, depth) are not counted, as TensorFlow's indicator_column does. In TensorFlow's ops it is a segment sum over
 * row * depth + id. */
#include <inttypes.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "kernels/ragged.h"
#include "ops/array.h"

enum { IDS = 0, SPLITS, WEIGHTS };

static est_status multi_hot_infer(est_infer *c)
{
    int64_t   rows, depth = est_node_int(c->node, "depth");
    est_shape merged;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_ragged(c, IDS, SPLITS, &rows));
    if (depth < 1) return est_fail(EST_INVALID_ARGUMENT, "depth is %" PRId64 "; at least 1 is needed", depth);
    if (c->n_in > WEIGHTS && est_infer_merge(&c->in[IDS], &c->in[WEIGHTS], &merged) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "ids %s need a weight each, got %s", est_shape_text(&c->in[IDS], a),
                        est_shape_text(&c->in[WEIGHTS], b));
    }
    c->out[0] = EST_SHAPE(rows, depth);
    return EST_OK;
}

static void count_rows(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call *c       = arg;
    const int64_t  *splits  = c->in[SPLITS]->data;
    const float    *weights = c->n_in > WEIGHTS ? c->in[WEIGHTS]->data : NULL;
    int64_t         depth   = c->out[0].shape.dim[1];

    (void)block;
    for (int64_t r = begin; r < end; r++) {
        float *to = (float *)c->out[0].data + r * depth;

        memset(to, 0, (size_t)depth * sizeof *to);
        for (int64_t i = splits[r]; i < splits[r + 1]; i++) {
            int64_t id = est_view_int(c->in[IDS], i);

            if (id >= 0 && id < depth) to[id] += weights != NULL ? weights[i] : 1.0F;
        }
    }
}

static est_status multi_hot_cpu(est_call *c)
{
    int64_t rows = c->out[0].shape.dim[0], n = c->in[IDS]->count;
    double  values = (double)n / (double)(rows > 0 ? rows : 1);

    EST_TRY(est_splits_check(c->in[SPLITS], n));
    est_parallel_for(c->pool, rows, 1, 5.0 + 2.0 * values + 0.1 * (double)c->out[0].shape.dim[1], count_rows, c);
    return EST_OK;
}

/* What a GPU has found (ops/multi_hot.cu): `place` is a row, or one behind the last for the end; below 0: the start. */
static est_status multi_hot_fail(const est_call *c, int64_t place, const int64_t value[2])
{
    int64_t rows = c->out[0].shape.dim[0];

    return est_splits_wrong(place < 0       ? EST_SPLITS_START
                            : place == rows ? EST_SPLITS_END
                                            : place,
                            value[0], value[1], c->in[IDS]->count);
}

static void multi_hot_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node one = est_scalar(graph, EST_I64, 1), none = est_scalar(graph, EST_I64, -1);
    est_node depth = est_scalar(graph, EST_I64, (double)est_node_int(node, "depth"));
    est_node ids   = est_cast(in[IDS], EST_I64);
    est_node valid = est_logical_and(est_greater(ids, none), est_less(ids, depth));
    est_node flat  = est_select(valid, est_add(est_mul(est_row_ids(in[SPLITS], ids), depth), ids), none);
    est_node rows  = est_sub(est_cast(est_size(in[SPLITS]), EST_I64), one);
    est_node w     = node->n_in > WEIGHTS ? in[WEIGHTS] : est_cast(est_ones_like(ids), EST_F32);

    out[0] = est_reshape_to(est_unsorted_segment_sum(w, flat, est_mul(rows, depth)),
                            est_pack(EST_NODES(rows, depth), 0));
}

const est_op est_op_multi_hot = {
    .name      = "EstMultiHot",
    .signature = "ids: Tids, splits: int64, weights: N*float32 -> output: float32; depth: int; N: int; "
                 "Tids: {int32, int64}",
    .infer     = multi_hot_infer,
    .cpu       = EST_KERNELS({ .run = multi_hot_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(multi_hot), .fail = multi_hot_fail }),
    .lower     = multi_hot_lower,
};

est_node est_multi_hot(est_ragged_node ids, est_node weights, int64_t depth)
{
    bool weighted = weights.graph != NULL;

    return est_build(ids.values.graph, &est_op_multi_hot,
                     (est_nodes){ (const est_node[]){ ids.values, ids.splits, weights }, weighted ? 3 : 2 },
                     EST_ATTRS(est_attr_int("depth", depth), est_attr_int("N", weighted)));
}
