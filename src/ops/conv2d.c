/* SPDX-License-Identifier: Apache-2.0
 *
 * Conv2D: y[n, i, j, k] = sum over a, b, c of x[n, i * sh + a * dh - top, j * sw + b * dw - left, c] * w[a, b, c, k],
 * over NHWC images and [height, width, in, out] filters, and its two gradients, which are ops of their own.
 *
 * Two kernels each: direct convolution for float32, matrix products over written-out windows for the rest. */
#include "ops/conv2d.h"

#include <inttypes.h>

#include "cuda/launchers.h"
#include "kernels/conv_direct.h"
#include "kernels/conv_im2col.h"
#include "ops/ops.h"

#define CONV_ATTRIBUTES                                                                                                \
    "strides: ints; use_cudnn_on_gpu: bool = true; padding: string; explicit_paddings: ints = []; "                    \
    "data_format: string = \"NHWC\"; dilations: ints = [1, 1, 1, 1]; T: {float32, float64}"

/* --- shapes ------------------------------------------------------------------------------------------------------- */

/* Checks image against filter and works out the output; x and filter must have rank 4 or be unknown. */
est_status est_conv_infer(const est_node_def *node, const est_shape *x, const est_shape *filter, int filter_in,
                          est_conv_geometry *g)
{
    int64_t channels = est_infer_dim(x, 3), wanted = est_infer_dim(filter, filter_in);
    char    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if ((x->rank >= 0 && x->rank != 4) || (filter->rank >= 0 && filter->rank != 4)) {
        return est_fail(EST_INVALID_ARGUMENT, "images and filter must have rank 4, got %s and %s", est_shape_text(x, a),
                        est_shape_text(filter, b));
    }
    if (channels >= 0 && wanted >= 0 && channels != wanted) {
        return est_fail(EST_INVALID_ARGUMENT, "images %s have %" PRId64 " channels but filter %s is for %" PRId64,
                        est_shape_text(x, a), channels, est_shape_text(filter, b), wanted);
    }
    EST_TRY(est_conv_attributes(node, est_infer_dim(x, 1), est_infer_dim(x, 2), est_infer_dim(filter, 0),
                                est_infer_dim(filter, 1), g));
    g->n = est_infer_dim(x, 0);
    g->c = channels >= 0 ? channels : wanted;
    g->k = est_infer_dim(filter, 3);
    return EST_OK;
}

/* Checks that out_backprop is what the forward op would have made. */
est_status est_conv_infer_dy(const est_shape *dy, int64_t n, int64_t oh, int64_t ow, int64_t k)
{
    est_shape expected = EST_SHAPE(n, oh, ow, k), merged;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (est_infer_merge(dy, &expected, &merged) == EST_OK) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "out_backprop has shape %s, the op it belongs to makes %s",
                    est_shape_text(dy, a), est_shape_text(&expected, b));
}

static est_status conv2d_infer(est_infer *c)
{
    est_conv_geometry g = { 0 };

    EST_TRY(est_conv_infer(c->node, &c->in[0], &c->in[1], 2, &g));
    c->out[0] = EST_SHAPE(g.n, g.oh, g.ow, g.k);
    return EST_OK;
}

/* The shape that input `input` holds as a vector of 4. */
est_status est_conv_infer_sizes(const est_infer *c, int input, est_shape *out)
{
    *out = EST_SHAPE(-1, -1, -1, -1);
    EST_TRY(est_infer_rank(c, input, 1));
    if (est_infer_shape_from_value(c, input, out) && out->rank != 4) {
        return est_fail(EST_INVALID_ARGUMENT, "input %d must hold 4 sizes, got %d", input, out->rank);
    }
    return EST_OK;
}

static est_status conv2d_input_infer(est_infer *c)
{
    est_conv_geometry g = { 0 };

    EST_TRY(est_conv_infer_sizes(c, 0, &c->out[0]));
    EST_TRY(est_conv_infer(c->node, &c->out[0], &c->in[1], 2, &g));
    return est_conv_infer_dy(&c->in[2], g.n, g.oh, g.ow, g.k);
}

static est_status conv2d_filter_infer(est_infer *c)
{
    est_conv_geometry g = { 0 };

    EST_TRY(est_conv_infer_sizes(c, 1, &c->out[0]));
    EST_TRY(est_conv_infer(c->node, &c->in[0], &c->out[0], 2, &g));
    return est_conv_infer_dy(&c->in[2], g.n, g.oh, g.ow, g.k);
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

/* The attributes of another convolution op that go on to this one. */
est_node est_conv_build(const est_op *op, const est_node_def *like, est_nodes in)
{
    return est_build(in.data[0].graph, op, in,
                     EST_ATTRS(est_attr_ints("strides", est_node_ints(like, "strides")),
                               est_attr_string("padding", est_node_string(like, "padding")),
                               est_attr_ints("explicit_paddings", est_node_ints(like, "explicit_paddings")),
                               est_attr_ints("dilations", est_node_ints(like, "dilations"))));
}

static void conv2d_grad(est_grad *g)
{
    est_node x = g->in[0], w = g->in[1], dy = est_round_gradient(g);

    g->din[0].values = est_conv_build(&est_op_conv2d_backprop_input, g->node, EST_NODES(est_shape_of(x), w, dy));
    g->din[1].values = est_conv_build(&est_op_conv2d_backprop_filter, g->node, EST_NODES(x, est_shape_of(w), dy));
}

/* Both gradients are linear in two of their inputs, so theirs are convolutions again. */
static void conv2d_input_grad(est_grad *g)
{
    est_node w = g->in[1], dy = g->in[2], ddx = g->dout[0];

    g->din[1].values = est_conv_build(&est_op_conv2d_backprop_filter, g->node, EST_NODES(ddx, est_shape_of(w), dy));
    g->din[2].values = est_conv_build(&est_op_conv2d, g->node, EST_NODES(ddx, w));
}

static void conv2d_filter_grad(est_grad *g)
{
    est_node x = g->in[0], dy = g->in[2], ddw = g->dout[0];

    g->din[0].values = est_conv_build(&est_op_conv2d_backprop_input, g->node, EST_NODES(est_shape_of(x), ddw, dy));
    g->din[2].values = est_conv_build(&est_op_conv2d, g->node, EST_NODES(x, ddw));
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static est_conv_geometry call_geometry(const est_call *c, const est_view *x, const est_view *filter)
{
    est_conv_geometry g = { 0 };
    est_status        status;

    status = est_conv_infer(c->node, &x->shape, &filter->shape, 2, &g);
    (void)status; /* infer has accepted these shapes */
    return g;
}

static est_conv_geometry forward_geometry(const est_call *c)
{
    return call_geometry(c, c->in[0], c->in[1]);
}

static est_conv_geometry input_geometry(const est_call *c)
{
    return call_geometry(c, &c->out[0], c->in[1]);
}

static est_conv_geometry filter_geometry(const est_call *c)
{
    return call_geometry(c, c->in[0], &c->out[0]);
}

static est_status forward_prepare(est_call *c)
{
    return est_conv_keep(c, forward_geometry(c));
}

static est_status input_prepare(est_call *c)
{
    return est_conv_keep(c, input_geometry(c));
}

static est_status filter_prepare(est_call *c)
{
    return est_conv_keep(c, filter_geometry(c));
}

static bool forward_accepts(const est_call *c)
{
    est_conv_geometry g = forward_geometry(c);

    return c->out[0].dtype == EST_F32 && est_conv_direct_suits(&g);
}

static size_t forward_direct_scratch(const est_call *c)
{
    est_conv_geometry g = forward_geometry(c);

    return est_conv_direct_scratch(&g, est_pool_threads(c->pool));
}

static est_status forward_direct(est_call *c)
{
    est_conv_geometry g = est_conv_kept(c);

    est_conv_direct_f32(c->pool, &g, c->in[0]->data, c->in[1]->data, false, c->out[0].data, c->scratch, NULL, NULL);
    return EST_OK;
}

static size_t forward_scratch(const est_call *c)
{
    est_conv_geometry g = forward_geometry(c);

    return est_conv_im2col_scratch(c->pool, &g, c->out[0].dtype, EST_CONV_FORWARD);
}

static est_status forward_im2col(est_call *c)
{
    est_conv_geometry g = est_conv_kept(c);

    est_conv_im2col(c->pool, &g, c->out[0].dtype, c->in[0]->data, c->in[1]->data, c->out[0].data, c->scratch, NULL,
                    NULL);
    return EST_OK;
}

static bool input_accepts(const est_call *c)
{
    est_conv_geometry g = input_geometry(c), mirror;

    return c->out[0].dtype == EST_F32 && est_conv_direct_mirror(&g, &mirror) && est_conv_direct_suits(&mirror);
}

static size_t input_direct_scratch(const est_call *c)
{
    est_conv_geometry g = input_geometry(c), mirror;

    est_conv_direct_mirror(&g, &mirror);
    return est_conv_direct_scratch(&mirror, est_pool_threads(c->pool));
}

static est_status input_direct(est_call *c)
{
    est_conv_geometry g = est_conv_kept(c), mirror;

    est_conv_direct_mirror(&g, &mirror);
    est_conv_direct_f32(c->pool, &mirror, c->in[2]->data, c->in[1]->data, true, c->out[0].data, c->scratch, NULL, NULL);
    return EST_OK;
}

static size_t input_scratch(const est_call *c)
{
    est_conv_geometry g = input_geometry(c);

    return est_conv_im2col_scratch(c->pool, &g, c->out[0].dtype, EST_CONV_INPUT_GRAD);
}

static est_status input_im2col(est_call *c)
{
    est_conv_geometry g = est_conv_kept(c);

    est_conv_im2col_input(c->pool, &g, c->out[0].dtype, c->in[2]->data, c->in[1]->data, c->out[0].data, c->scratch);
    return EST_OK;
}

static bool filter_accepts(const est_call *c)
{
    est_conv_geometry g = filter_geometry(c);

    return c->out[0].dtype == EST_F32 && est_conv_direct_suits_filter(&g);
}

static size_t filter_direct_scratch(const est_call *c)
{
    est_conv_geometry g = filter_geometry(c);

    return est_conv_direct_filter_scratch(&g, est_pool_threads(c->pool));
}

static est_status filter_direct(est_call *c)
{
    est_conv_geometry g = est_conv_kept(c);

    est_conv_direct_filter_f32(c->pool, &g, c->in[0]->data, c->in[2]->data, c->out[0].data, c->scratch);
    return EST_OK;
}

static size_t filter_scratch(const est_call *c)
{
    est_conv_geometry g = filter_geometry(c);

    return est_conv_im2col_scratch(c->pool, &g, c->out[0].dtype, EST_CONV_FILTER_GRAD);
}

static est_status filter_im2col(est_call *c)
{
    est_conv_geometry g = est_conv_kept(c);

    est_conv_im2col_filter(c->pool, &g, c->out[0].dtype, c->in[0]->data, c->in[2]->data, c->out[0].data, c->scratch);
    return EST_OK;
}

/* On a GPU: a result for each part of the pixels. */
static size_t filter_cuda_scratch(const est_call *c)
{
    est_conv_geometry g     = filter_geometry(c);
    int64_t           parts = EST_CONV_PARTS(g.n * g.oh * g.ow);

    return parts > 1 ? (size_t)(parts * c->out[0].count) * est_dtype_size(c->out[0].dtype) : 0;
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

const est_op est_op_conv2d = {
    .name      = "Conv2D",
    .signature = "input: T, filter: T -> output: T; " CONV_ATTRIBUTES,
    .infer     = conv2d_infer,
    .grad      = conv2d_grad,
    .cpu       = EST_KERNELS({ .run     = forward_direct,
                               .accepts = forward_accepts,
                               .scratch = forward_direct_scratch,
                               .prepare = forward_prepare },
                             { .run = forward_im2col, .scratch = forward_scratch, .prepare = forward_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(conv2d), .prepare = forward_prepare }),
    .heavy     = true,
};

const est_op est_op_conv2d_backprop_input = {
    .name      = "Conv2DBackpropInput",
    .signature = "input_sizes: int32, filter: T, out_backprop: T -> output: T; " CONV_ATTRIBUTES,
    .infer     = conv2d_input_infer,
    .grad      = conv2d_input_grad,
    .cpu       = EST_KERNELS(
              { .run = input_direct, .accepts = input_accepts, .scratch = input_direct_scratch, .prepare = input_prepare },
              { .run = input_im2col, .scratch = input_scratch, .prepare = input_prepare }),
    .cuda  = EST_KERNELS({ .launch = EST_LAUNCH(conv2d_backprop_input), .prepare = input_prepare }),
    .heavy = true,
};

const est_op est_op_conv2d_backprop_filter = {
    .name      = "Conv2DBackpropFilter",
    .signature = "input: T, filter_sizes: int32, out_backprop: T -> output: T; " CONV_ATTRIBUTES,
    .infer     = conv2d_filter_infer,
    .grad      = conv2d_filter_grad,
    .cpu       = EST_KERNELS({ .run     = filter_direct,
                               .accepts = filter_accepts,
                               .scratch = filter_direct_scratch,
                               .prepare = filter_prepare },
                             { .run = filter_im2col, .scratch = filter_scratch, .prepare = filter_prepare }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(conv2d_backprop_filter), .scratch = filter_cuda_scratch, .prepare = filter_prepare }),
    .heavy = true,
};

est_node est_conv2d(est_node x, est_node filter, int stride_h, int stride_w, est_padding padding)
{
    return est_build2(&est_op_conv2d, x, filter,
                      EST_ATTRS(est_attr_ints("strides", EST_I64S(1, stride_h, stride_w, 1)),
                                est_attr_string("padding", est_padding_name(padding))));
}

est_node est_conv2d_transpose(est_node x, est_node filter, est_node sizes, int stride_h, int stride_w,
                              est_padding padding)
{
    return est_build(x.graph, &est_op_conv2d_backprop_input, EST_NODES(sizes, filter, x),
                     EST_ATTRS(est_attr_ints("strides", EST_I64S(1, stride_h, stride_w, 1)),
                               est_attr_string("padding", est_padding_name(padding))));
}
