/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes and attributes of poolings. */
#include "ops/pooling.h"

#include <inttypes.h>

est_status est_pooling_infer(const est_node_def *node, const est_shape *x, est_conv_geometry *g)
{
    est_i64s ksize = est_node_ints(node, "ksize");
    char     text[EST_SHAPE_TEXT_MAX];

    if (x->rank >= 0 && x->rank != 4) {
        return est_fail(EST_INVALID_ARGUMENT, "images must have rank 4, got %s", est_shape_text(x, text));
    }
    if (ksize.n != 4 || ksize.data[0] != 1 || ksize.data[3] != 1 || ksize.data[1] < 1 || ksize.data[2] < 1) {
        return est_fail(EST_INVALID_ARGUMENT, "ksize must be [1, height, width, 1] with sizes of at least 1");
    }
    EST_TRY(est_conv_attributes(node, est_infer_dim(x, 1), est_infer_dim(x, 2), ksize.data[1], ksize.data[2], g));
    g->n = est_infer_dim(x, 0);
    g->c = g->k = est_infer_dim(x, 3);
    return EST_OK;
}

est_conv_geometry est_pooling_geometry(const est_node_def *node, const est_shape *x)
{
    est_conv_geometry g = { 0 };
    est_status        status;

    status = est_pooling_infer(node, x, &g);
    (void)status;
    return g;
}

est_node est_pooling_build(const est_op *op, const est_node_def *like, est_nodes in)
{
    return est_build(in.data[0].graph, op, in,
                     EST_ATTRS(est_attr_ints("ksize", est_node_ints(like, "ksize")),
                               est_attr_ints("strides", est_node_ints(like, "strides")),
                               est_attr_string("padding", est_node_string(like, "padding"))));
}
