/* SPDX-License-Identifier: Apache-2.0
 *
 * What MaxPool and AvgPool share. */
#ifndef EST_OPS_POOL_H
#define EST_OPS_POOL_H

#include "ops/conv2d.h"

/* The geometry of a pooling over images of shape x, by the attributes ksize, strides, padding; sizes may be unknown. */
est_status est_pool_infer(const est_node_def *node, const est_shape *x, est_conv_geometry *g);

/* The same for shapes that infer has accepted. */
est_conv_geometry est_pool_geometry(const est_node_def *node, const est_shape *x);

/* Builds `op` with ksize, strides and padding of another pooling. */
est_node est_pool_build(const est_op *op, const est_node_def *like, est_nodes in);

/* Nanoseconds one image takes; one channel of one tap takes about `tap_ns`. */
static inline double est_pool_image_ns(const est_conv_geometry *g, double tap_ns)
{
    return tap_ns * (double)(g->oh * g->ow) * (double)(g->kh * g->kw * g->c);
}

#endif
