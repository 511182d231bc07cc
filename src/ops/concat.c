/* SPDX-License-Identifier: Apache-2.0
 *
 * ConcatV2: the inputs one after the other along an axis. EstConcatGrad cuts dy back into pieces of the inputs' shapes,
 * all in one pass: it looks only at shapes, so an unknown batch or even an unknown concat axis is no trouble.
 *
 * Both see the tensor as rows (the axes before `axis`), each the concatenation of one row of every part. */
#include <inttypes.h>

#include "base/argument.h"
#include "cuda/launchers.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "tensor/shape.h"

/* The parts' common rank, or -1. */
static est_status common_rank(const est_shape *parts, int n, int *rank)
{
    *rank = -1;
    for (int i = 0; i < n; i++) {
        if (parts[i].rank < 0) continue;
        if (parts[i].rank == 0) {
            return est_fail(EST_INVALID_ARGUMENT, "part %d is a scalar: scalars are stacked with Pack, not ConcatV2",
                            i);
        }
        if (*rank >= 0 && parts[i].rank != *rank) {
            char a[EST_SHAPE_TEXT_MAX];

            return est_fail(EST_INVALID_ARGUMENT, "part %d has shape %s, the parts before it have rank %d", i,
                            est_shape_text(&parts[i], a), *rank);
        }
        *rank = parts[i].rank;
    }
    return EST_OK;
}

/* Every axis but `axis` must agree; sizes along it add up. */
static est_status join_shapes(const est_shape *parts, int n, int rank, int axis, est_shape *out)
{
    int64_t total = 0;

    *out = est_shape_of_rank(rank);
    for (int i = 0; i < n; i++) {
        if (parts[i].rank < 0) {
            total = -1;
            continue;
        }
        for (int k = 0; k < rank; k++) {
            int64_t dim = parts[i].dim[k];

            if (k == axis) {
                total = total < 0 || dim < 0 ? -1 : est_value_sum(total, dim);
                if (total == EST_VALUE_UNKNOWN) {
                    return est_fail(EST_INVALID_ARGUMENT, "together the %d parts are longer than can be counted", n);
                }
            } else if (dim >= 0 && out->dim[k] >= 0 && dim != out->dim[k]) {
                char a[EST_SHAPE_TEXT_MAX];

                return est_fail(EST_INVALID_ARGUMENT,
                                "part %d has shape %s, but axis %d of the parts before it is %" PRId64
                                "; only axis %d may differ",
                                i, est_shape_text(&parts[i], a), k, out->dim[k], axis);
            } else if (dim >= 0) {
                out->dim[k] = dim;
            }
        }
    }
    out->dim[axis] = total;
    return EST_OK;
}

/* Vectors of known integers, one after the other. */
static void join_values(est_infer *c, int n)
{
    est_value joined = { 0 };

    for (int i = 0; i < n; i++) {
        const est_value *value = est_infer_value(c, i);

        if (c->in[i].rank != 1 || c->in[i].dim[0] < 0 || joined.n + c->in[i].dim[0] > EST_VALUE_MAX) return;
        for (int64_t k = 0; k < c->in[i].dim[0]; k++) {
            joined.v[joined.n++] = value != NULL ? value->v[k] : EST_VALUE_UNKNOWN;
        }
    }
    c->out_value[0] = joined;
}

static est_status concat_infer(est_infer *c)
{
    int n = c->n_in - 1, rank, axis;

    if (n < 1) return est_fail(EST_INVALID_ARGUMENT, "nothing to concatenate");
    EST_TRY(common_rank(c->in, n, &rank));
    EST_TRY(est_infer_axis(c, n, rank, &axis));
    if (rank < 0) return EST_OK;
    if (axis < 0) {
        c->out[0] = est_shape_of_rank(rank);
        return EST_OK;
    }
    EST_TRY(join_shapes(c->in, n, rank, axis, &c->out[0]));
    if (c->in_dtype[0] == EST_I32 || c->in_dtype[0] == EST_I64) join_values(c, n);
    return EST_OK;
}

static est_node concat_grad_node(est_node dy, est_node axis, est_nodes like);

static void concat_grad(est_grad *g)
{
    int      n = g->n_in - 1;
    est_node pieces;

    if (n == 1) {
        g->din[0].values = g->dout[0];
        return;
    }
    pieces = concat_grad_node(g->dout[0], g->in[n], (est_nodes){ g->in, n });
    for (int i = 0; i < n; i++) g->din[i].values = est_output(pieces, i);
}

/* Rows of the whole: the product of the axes before the one named by the axis input. */
static int64_t outer_rows(const est_view *whole, const est_view *axis_view)
{
    int64_t axis = est_view_int(axis_view, 0);

    return est_shape_product(&whole->shape, 0, (int)(axis < 0 ? axis + whole->shape.rank : axis));
}

static est_status concat_cpu(est_call *c)
{
    int        n      = c->n_in - 1;
    est_strips strips = { .element = est_dtype_size(c->out[0].dtype),
                          .outer   = outer_rows(&c->out[0], c->in[n]),
                          .n       = n,
                          .whole   = c->out[0].data,
                          .in      = c->in };

    if (c->out[0].count > 0) est_strips_copy(c->pool, &strips);
    return EST_OK;
}

static bool concat_cuda_accepts(const est_call *c)
{
    return c->n_in - 1 <= EST_STRIPS_MAX && c->out[0].dtype != EST_STRING;
}

const est_op est_op_concat_v2 = {
    .name      = "ConcatV2",
    .signature = "values: N*T, axis: Tidx -> output: T; N: int; T: type; Tidx: {int32, int64} = int32",
    .infer     = concat_infer,
    .grad      = concat_grad,
    .cpu       = EST_KERNELS({ .run = concat_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(concat_v2), .accepts = concat_cuda_accepts }),
};

/* `parts` and then the axis, as est_build wants them: in one list. */
static est_node concat_nodes(est_nodes parts, est_node axis)
{
    est_node *in = est_alloc(sizeof *in * ((size_t)parts.n + 1)), result;

    if (in == NULL) {
        return est_graph_poison(axis.graph, est_no_memory());
    }
    for (int i = 0; i < parts.n; i++) in[i] = parts.data[i];
    in[parts.n] = axis;
    result      = est_build(axis.graph, &est_op_concat_v2, (est_nodes){ in, parts.n + 1 }, EST_NO_ATTRS);
    est_free(in);
    return result;
}

est_node est_concat(est_nodes parts, int axis)
{
    if (!EST_LIST_OK(parts)) parts.n = 0;
    if (parts.n == 1) return est_identity(parts.data[0]);
    if (parts.n == 0 || parts.data[0].graph == NULL) return EST_NO_NODE;
    return concat_nodes(parts, est_scalar(parts.data[0].graph, EST_I32, axis));
}

est_node est_concat_flows(const est_grad *g, est_node axis)
{
    est_node *parts = est_alloc(sizeof *parts * (size_t)g->n_out), result;

    if (parts == NULL) {
        return est_graph_poison(axis.graph, est_no_memory());
    }
    for (int i = 0; i < g->n_out; i++) parts[i] = g->dout[i].graph != NULL ? g->dout[i] : est_zeros_like(g->out[i]);
    result = concat_nodes((est_nodes){ parts, g->n_out }, axis);
    est_free(parts);
    return result;
}

/* --- the gradient ------------------------------------------------------------------------------------------------- */

static est_status concat_grad_infer(est_infer *c)
{
    for (int i = 0; i < c->n_out; i++) c->out[i] = c->in[i + 2];
    return EST_OK;
}

/* Of the pieces together: the concatenation again. */
static void concat_grad_grad(est_grad *g)
{
    g->din[0].values = est_concat_flows(g, g->in[1]);
}

static est_status concat_grad_cpu(est_call *c)
{
    est_strips strips = { .element = est_dtype_size(c->in[0]->dtype),
                          .outer   = outer_rows(c->in[0], c->in[1]),
                          .n       = c->n_out,
                          .whole   = c->in[0]->data,
                          .out     = c->out };

    if (c->in[0]->count > 0) est_strips_copy(c->pool, &strips);
    return EST_OK;
}

/* Slices from where ConcatOffset says that the parts begin, as large as the parts. */
static void concat_grad_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    int       n       = node->n_out;
    est_node *offsets = est_alloc(sizeof *offsets * ((size_t)n + 1)), first;

    if (offsets == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return;
    }
    offsets[0] = est_node_dtype(in[1]) == EST_I32 ? in[1] : est_cast(in[1], EST_I32);
    for (int i = 0; i < n; i++) offsets[i + 1] = est_shape_as(in[i + 2], EST_I32);
    first = est_build(graph, &est_op_concat_offset, (est_nodes){ offsets, n + 1 }, EST_NO_ATTRS);
    for (int i = 0; i < n; i++) {
        out[i] = est_build3(&est_op_slice, in[0], est_output(first, i), offsets[i + 1], EST_NO_ATTRS);
    }
    est_free(offsets);
}

static bool concat_grad_cuda_accepts(const est_call *c)
{
    return c->n_out <= EST_STRIPS_MAX && c->in[0]->dtype != EST_STRING;
}

const est_op est_op_concat_grad = {
    .name       = "EstConcatGrad",
    .signature  = "dy: T, axis: Tidx, like: N*T -> output: N*T; N: int; T: type; Tidx: {int32, int64} = int32",
    .infer      = concat_grad_infer,
    .grad       = concat_grad_grad,
    .cpu        = EST_KERNELS({ .run = concat_grad_cpu }),
    .cuda       = EST_KERNELS({ .launch = EST_LAUNCH(concat_grad), .accepts = concat_grad_cuda_accepts }),
    .lower      = concat_grad_lower,
    .shape_only = ~3u, /* all of `like` */
};

static est_node concat_grad_node(est_node dy, est_node axis, est_nodes like)
{
    est_node *in = est_alloc(sizeof *in * ((size_t)like.n + 2));
    est_node  node;

    if (in == NULL) {
        return est_graph_poison(dy.graph, est_no_memory());
    }
    in[0] = dy;
    in[1] = axis;
    for (int i = 0; i < like.n; i++) in[i + 2] = like.data[i];
    node = est_build(dy.graph, &est_op_concat_grad, (est_nodes){ in, like.n + 2 }, EST_NO_ATTRS);
    est_free(in);
    return node;
}
