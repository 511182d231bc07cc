/* SPDX-License-Identifier: Apache-2.0
 *
 * Pack: tensors of one shape stacked along a new axis. Unpack: a tensor taken apart along an axis. Each is the other's
 * gradient. */
#include "base/argument.h"
#include "cuda/launchers.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "tensor/shape.h"

static est_status pack_infer(est_infer *c)
{
    est_shape part = c->in[0];
    int       axis;

    if (c->n_in < 1) return est_fail(EST_INVALID_ARGUMENT, "nothing to stack");
    for (int i = 1; i < c->n_in; i++) EST_TRY(est_infer_merge(&part, &c->in[i], &part));
    if (part.rank < 0) return EST_OK;
    if (part.rank == EST_RANK_MAX) return est_fail(EST_INVALID_ARGUMENT, "a shape has at most %d axes", EST_RANK_MAX);
    EST_TRY(est_infer_axis_attr(est_node_int(c->node, "axis"), part.rank + 1, &axis));
    c->out[0].rank = part.rank + 1;
    for (int i = 0; i <= part.rank; i++) {
        c->out[0].dim[i] = i < axis ? part.dim[i] : i == axis ? c->n_in : part.dim[i - 1];
    }
    if (part.rank > 0 || c->n_in > EST_VALUE_MAX || (c->in_dtype[0] != EST_I32 && c->in_dtype[0] != EST_I64)) {
        return EST_OK;
    }
    c->out_value[0].n = c->n_in;
    for (int i = 0; i < c->n_in; i++) {
        const est_value *value = est_infer_value(c, i);

        c->out_value[0].v[i] = value != NULL ? value->v[0] : EST_VALUE_UNKNOWN;
    }
    return EST_OK;
}

static void pack_grad(est_grad *g)
{
    est_node first = est_build1(
        &est_op_unpack, g->dout[0],
        EST_ATTRS(est_attr_int("num", g->n_in), est_attr_int("axis", est_node_int(g->node, "axis"))));

    for (int i = 0; i < g->n_in; i++) g->din[i].values = est_output(first, i);
}

/* param[0]: rows of the stacked tensor, the axes before `axis` taken together. */
static est_status prepare_outer(est_call *c, const est_shape *stacked)
{
    int64_t axis = est_node_int(c->node, "axis");

    c->param[0].i = est_shape_product(stacked, 0, (int)(axis < 0 ? axis + stacked->rank : axis));
    return EST_OK;
}

static est_status pack_prepare(est_call *c)
{
    return prepare_outer(c, &c->out[0].shape);
}

static est_status pack_cpu(est_call *c)
{
    est_strips strips = { .element = est_dtype_size(c->out[0].dtype),
                          .outer   = c->param[0].i,
                          .n       = c->n_in,
                          .whole   = c->out[0].data,
                          .in      = c->in };

    if (c->out[0].count > 0) est_strips_copy(c->pool, &strips);
    return EST_OK;
}

static bool pack_cuda_accepts(const est_call *c)
{
    return c->n_in <= EST_STRIPS_MAX;
}

const est_op est_op_pack = {
    .name      = "Pack",
    .signature = "values: N*T -> output: T; N: int; T: type; axis: int = 0",
    .infer     = pack_infer,
    .grad      = pack_grad,
    .cpu       = EST_KERNELS({ .run = pack_cpu, .prepare = pack_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(pack), .accepts = pack_cuda_accepts, .prepare = pack_prepare }),
};

est_node est_pack(est_nodes parts, int axis)
{
    if (parts.n == 0 || !EST_LIST_OK(parts)) return EST_NO_NODE;
    return est_build(parts.data[0].graph, &est_op_pack, parts, EST_ATTRS(est_attr_int("axis", axis)));
}

/* --- Unpack ------------------------------------------------------------------------------------------------------- */

static est_status unpack_infer(est_infer *c)
{
    const est_shape *in   = &c->in[0];
    est_shape        part = { 0 };
    int              axis;

    if (in->rank < 0) return EST_OK;
    EST_TRY(est_infer_axis_attr(est_node_int(c->node, "axis"), in->rank, &axis));
    if (in->dim[axis] >= 0 && in->dim[axis] != c->n_out) {
        char text[EST_SHAPE_TEXT_MAX];

        return est_fail(EST_INVALID_ARGUMENT, "axis %d of %s is not %d long", axis, est_shape_text(in, text), c->n_out);
    }
    for (int i = 0; i < in->rank; i++) {
        if (i != axis) part.dim[part.rank++] = in->dim[i];
    }
    for (int i = 0; i < c->n_out; i++) {
        const est_value *value = est_infer_value(c, 0);

        c->out[i] = part;
        if (in->rank == 1 && value != NULL && i < value->n) c->out_value[i] = (est_value){ 1, { value->v[i] } };
    }
    return EST_OK;
}

static void unpack_grad(est_grad *g)
{
    est_node *parts = est_alloc(sizeof *parts * (size_t)g->n_out);

    if (parts == NULL) {
        (void)est_graph_poison(g->in[0].graph, est_no_memory());
        return;
    }
    for (int i = 0; i < g->n_out; i++) parts[i] = g->dout[i].graph != NULL ? g->dout[i] : est_zeros_like(g->out[i]);
    g->din[0].values = est_pack((est_nodes){ parts, g->n_out }, (int)est_node_int(g->node, "axis"));
    est_free(parts);
}

static est_status unpack_prepare(est_call *c)
{
    return prepare_outer(c, &c->in[0]->shape);
}

static est_status unpack_cpu(est_call *c)
{
    est_strips strips = { .element = est_dtype_size(c->in[0]->dtype),
                          .outer   = c->param[0].i,
                          .n       = c->n_out,
                          .whole   = c->in[0]->data,
                          .out     = c->out };

    if (c->in[0]->count > 0) est_strips_copy(c->pool, &strips);
    return EST_OK;
}

static bool unpack_cuda_accepts(const est_call *c)
{
    return c->n_out <= EST_STRIPS_MAX;
}

const est_op est_op_unpack = {
    .name      = "Unpack",
    .signature = "value: T -> output: num*T; num: int; T: type; axis: int = 0",
    .infer     = unpack_infer,
    .grad      = unpack_grad,
    .cpu       = EST_KERNELS({ .run = unpack_cpu, .prepare = unpack_prepare }),
    .cuda = EST_KERNELS({ .launch = EST_LAUNCH(unpack), .accepts = unpack_cuda_accepts, .prepare = unpack_prepare }),
};

void est_unpack(est_node x, int n, int axis, est_node *out)
{
    est_node first = est_build1(&est_op_unpack, x, EST_ATTRS(est_attr_int("num", n), est_attr_int("axis", axis)));

    for (int i = 0; out != NULL && i < n; i++) out[i] = est_output(first, i);
}
