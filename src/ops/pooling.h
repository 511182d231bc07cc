/* SPDX-License-Identifier: Apache-2.0
 *
 * What MaxPool and AvgPool share. */
#ifndef EST_OPS_POOLING_H
#define EST_OPS_POOLING_H

#include "ops/conv2d.h"

/* The geometry of a pooling over images of shape x, by the attributes ksize, strides, padding; sizes may be unknown. */
est_status est_pooling_infer(const est_node_def *node, const est_shape *x, est_conv_geometry *g);

/* The same for shapes that infer has accepted. */
est_conv_geometry est_pooling_geometry(const est_node_def *node, const est_shape *x);

/* Builds `op` with ksize, strides and padding of another pooling. */
est_node est_pooling_build(const est_op *op, const est_node_def *like, est_nodes in);

/* Nanoseconds one image takes; one channel of one tap takes about `tap_ns`. */
static inline double est_pooling_image_ns(const est_conv_geometry *g, double tap_ns)
{
    return tap_ns * (double)(g->oh * g->ow) * (double)(g->kh * g->kw * g->c);
}

#endif
