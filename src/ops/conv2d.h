/* SPDX-License-Identifier: Apache-2.0
 *
 * What the convolution and pooling ops share: shape checks and the passing on of attributes. */
#ifndef EST_OPS_CONV2D_H
#define EST_OPS_CONV2D_H

#include <string.h>

#include "estoc/ops.h"
#include "kernels/conv_geometry.h"

/* The geometry of images against a filter whose axis `filter_in` counts their channels; sizes may be unknown (-1). */
est_status est_conv_infer(const est_node_def *node, const est_shape *x, const est_shape *filter, int filter_in,
                          est_conv_geometry *g);

/* Checks out_backprop against what the forward op would have made. */
est_status est_conv_infer_dy(const est_shape *dy, int64_t n, int64_t oh, int64_t ow, int64_t k);

/* The shape of rank 4 that an input holds as integers; unknown entries are -1. */
est_status est_conv_infer_sizes(const est_infer *c, int input, est_shape *out);

/* Builds `op` with strides, padding, explicit_paddings and dilations of another convolution. */
est_node est_conv_build(const est_op *op, const est_node_def *like, est_nodes in);

/* prepare() works the geometry out, which takes attributes, and keeps it in the call; run() takes it from there. */
_Static_assert(sizeof(est_conv_geometry) <= sizeof(est_param) * EST_PARAM_MAX, "a geometry fits into a call's param[]");

static inline est_status est_conv_keep(est_call *c, est_conv_geometry g)
{
    memcpy(c->param, &g, sizeof g);
    return EST_OK;
}

static inline est_conv_geometry est_conv_kept(const est_call *c)
{
    est_conv_geometry g;

    memcpy(&g, c->param, sizeof g);
    return g;
}

static inline const char *est_padding_name(est_padding padding)
{
    return padding == EST_SAME ? "SAME" : "VALID";
}

#endif
